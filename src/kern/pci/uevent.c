/* SPDX-License-Identifier: Apache-2.0 */
#include "kern/pci/uevent.h"

#include <errno.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

#include <linux/netlink.h>

#include "base/alloc.h"
#include "base/loop.h"
#include "kern/netlink/nl.h"

enum {
	/* in bytes; the kernel's own buffer for an event has 2 KiB (UEVENT_BUFFER_SIZE) */
	DATAGRAM_MAX = 8192,
	/* receive buffer in bytes, for the thousands of events of 128 new VFs */
	ROOM = 1 << 20,
	/* interval of checks without an event: in a user namespace some events are not delivered */
	RECHECK_MS = 1000,
};

int uevent_open(int *fd, struct err *e)
{
	struct sockaddr_nl all = {.nl_family = AF_NETLINK, .nl_groups = 1};
	int room = ROOM;
	auto_fd int s = socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK,
			       NETLINK_KOBJECT_UEVENT);

	if (s < 0)
		return err_sys(e, -errno, "listen to the kernel's device events");
	/* SO_RCVBUFFORCE is not limited by rmem_max, but needs CAP_NET_ADMIN. A failure is ignored:
	 * with a smaller buffer events may be lost, which only costs time. */
	if (setsockopt(s, SOL_SOCKET, SO_RCVBUFFORCE, &room, sizeof(room)) < 0)
		(void)setsockopt(s, SOL_SOCKET, SO_RCVBUF, &room, sizeof(room));
	if (bind(s, (struct sockaddr *)&all, sizeof(all)) < 0)
		return err_sys(e, -errno, "listen to the kernel's device events");
	*fd = take_fd(&s);
	return 0;
}

static void copy(char *ret, size_t size, struct span s, size_t skip)
{
	size_t n = s.n - skip < size ? s.n - skip : size - 1;

	memcpy(ret, s.p + skip, n);
	ret[n] = '\0';
}

static void read_pair(struct span pair, struct uevent *u)
{
	static const struct {
		const char *key;
		size_t at, size;
	} fields[] = {
		{"ACTION=", offsetof(struct uevent, action), sizeof(u->action)},
		{"SUBSYSTEM=", offsetof(struct uevent, subsystem), sizeof(u->subsystem)},
		{"DEVPATH=", offsetof(struct uevent, devpath), sizeof(u->devpath)},
		{"INTERFACE=", offsetof(struct uevent, name), sizeof(u->name)},
		{"NAME=", offsetof(struct uevent, name), sizeof(u->name)},
	};

	for (size_t i = 0; i < ARRAY_LEN(fields); i++)
		if (span_has_prefix(pair, fields[i].key))
			copy((char *)u + fields[i].at, fields[i].size, pair, strlen(fields[i].key));
}

bool uevent_parse(struct span datagram, struct uevent *ret)
{
	struct span rest = datagram, pair;
	struct uevent u = {.action = ""};
	const char *slash;

	if (!span_cut(&rest, '\0', &pair) || !pair.n || !memchr(pair.p, '@', pair.n))
		return false;
	while (span_cut(&rest, '\0', &pair))
		read_pair(pair, &u);
	if (!u.action[0] || !u.devpath[0])
		return false;
	slash = strrchr(u.devpath, '/');
	if (!u.name[0] && slash)
		copy(u.name, sizeof(u.name), span_of(slash + 1), 0);
	*ret = u;
	return true;
}

int uevent_next(int fd, struct uevent *ret, struct err *e)
{
	char bytes[DATAGRAM_MAX];
	int n;

	while ((n = nl_receive(fd, bytes, sizeof(bytes))) > 0)
		if (uevent_parse((struct span){bytes, (size_t)n}, ret))
			return 1;
	return n < 0 ? err_sys(e, n, "read device events") : 0;
}

/* Discards all queued events: one check after any number of events suffices. */
static int drain(int fd, struct err *e)
{
	struct uevent u;
	int r;

	do {
		r = uevent_next(fd, &u, e);
	} while (r > 0 || r == -ENOBUFS);
	return r;
}

static int wait_event(int fd, int64_t ms, struct err *e)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};
	int r = poll(&p, 1, (int)(ms < RECHECK_MS ? ms : RECHECK_MS));

	if (r < 0 && errno != EINTR)
		return err_sys(e, -errno, "wait for device events");
	return r > 0 ? drain(fd, e) : 0;
}

int uevent_wait(int fd, int64_t deadline_ms, const char *what, uevent_check check, void *arg,
		struct err *e)
{
	for (;;) {
		int64_t left = deadline_ms - now_mono_ms();
		int r = check(arg, e);

		if (r != 0)
			return r < 0 ? r : 0;
		if (left <= 0)
			return err_kind(e, ERR_AGAIN, -ETIMEDOUT,
					"wait for %s: it did not appear in time", what);
		r = wait_event(fd, left, e);
		if (r < 0)
			return r;
	}
}

struct child {
	const struct root *r;
	const char *device;
	enum pci_child what;
	char *name;
};

static int check_child(void *arg, struct err *e)
{
	struct child *c = arg;
	char **names = NULL;
	size_t n = 0;
	int r = pci_children(c->r, c->device, c->what, &names, &n, e);

	if (r == 0 && n && str_copy(c->name, PCI_NAME_MAX, names[0]))
		r = 1;
	str_list_free(names, n);
	return r;
}

int uevent_wait_child(int fd, int64_t deadline_ms, const struct root *r, const char *device,
		      enum pci_child what, char ret[static PCI_NAME_MAX], struct err *e)
{
	char name[PCI_NAME_MAX], desc[2 * PCI_NAME_MAX];
	struct child c = {r, device, what, name};
	int code;

	snprintf(desc, sizeof(desc), "a %s of '%.40s'", pci_child_name(what), device);
	code = uevent_wait(fd, deadline_ms, desc, check_child, &c, e);
	if (code == 0)
		str_copy(ret, PCI_NAME_MAX, name);
	return code;
}
