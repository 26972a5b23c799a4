/* SPDX-License-Identifier: Apache-2.0 */
/* A node with its NICs, the fabric behind them, two pods, and a root of files for the binary. */
#include "fault.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "kern/net/addr.h"
#include "kern/net/link.h"
#include "kern/sys/netns.h"
#include "kern/net/route.h"

enum { MTU = 9000, SETTLE_MS = 30000 };

static const char *const outside[] = {"proc", "sys", "bin", "run/netns", NULL};

#define MUST(call)                                                                                 \
	do {                                                                                       \
		struct err must = ERR_INIT;                                                        \
		struct err *e = &must;                                                             \
                                                                                                   \
		if ((call) < 0)                                                                    \
			die("%s: %s", #call, must.text[0] ? must.text : errno_text(errno));        \
		(void)e;                                                                           \
	} while (0)

/* --- files --- */

static char *inside(const struct lab *l, const char *path)
{
	return xasprintf("%s%s", l->dir, path);
}

void lab_file(struct lab *l, const char *path, const char *text)
{
	auto_free char *at = inside(l, path), *dir = xstrdup(at);
	struct root r;

	*strrchr(dir, '/') = '\0';
	MUST(root_open(&r, NULL, e));
	MUST(dir_make(&r, dir, 0755, e));
	MUST(file_replace(&r, at, span_of(text), 0644, e));
	root_close(&r);
}

static void copy_binary(const struct lab *l, int from)
{
	auto_free char *at = inside(l, "/bin/unirail");
	auto_fd int to = open(at, O_WRONLY | O_CREAT | O_CLOEXEC, 0755);
	char chunk[65536];
	ssize_t n;
	off_t done = 0;

	while ((n = pread(from, chunk, sizeof(chunk), done)) > 0) {
		MUST(fd_write_all(to, chunk, (size_t)n, e));
		done += n;
	}
	if (to < 0 || n < 0 || done == 0)
		die("copy the binary: %s", errno_text(errno));
}

/*
 * A separate root directory, so that every file that the binary writes is found. It is on a tmpfs
 * in this process's mount namespace, which ends with the process.
 */
static void make_root(struct lab *l, const char *binary)
{
	static const char *const folders[] = {"/bin", "/proc",	  "/sys", "/run/netns",
					      "/tmp", "/var/lib", "/etc"};
	auto_fd int from = open(binary, O_RDONLY | O_CLOEXEC);
	struct root r;

	if (from < 0)
		die("binary '%s': %s (make builds it)", binary, errno_text(errno));
	strcpy(l->dir, "/tmp/root");
	MUST(mount("", "/", NULL, MS_REC | MS_PRIVATE, NULL));
	MUST(mount("fault", "/tmp", "tmpfs", 0, "mode=755,size=64m"));
	MUST(root_open(&r, NULL, e));
	for (size_t i = 0; i < ARRAY_LEN(folders); i++) {
		auto_free char *at = inside(l, folders[i]);

		MUST(dir_make(&r, at, 0755, e));
	}
	root_close(&r);
	copy_binary(l, from);
	MUST(mount("/proc", "/tmp/root/proc", NULL, MS_BIND | MS_REC, NULL));
	MUST(mount("sysfs", "/tmp/root/sys", "sysfs", l->first ? 0 : MS_RDONLY, NULL));
}

void lab_keep(struct lab *l)
{
	tree_done(&l->files);
	tree_take(&l->files, l->dir, outside);
}

void lab_reset(struct lab *l)
{
	tree_restore(&l->files, l->dir, outside);
}

void lab_clear(struct lab *l)
{
	tree_restore(&l->empty, l->dir, outside);
	lab_keep(l);
}

/* --- namespaces --- */

struct nl_wire *lab_wire(const struct ns *s)
{
	struct nl_wire *w;

	MUST(nl_open(&w, NL_ROUTE, s->fd, e));
	return w;
}

static void write_proc(const char *path, const char *value)
{
	auto_fd int fd = open(path, O_WRONLY | O_CLOEXEC);

	if (fd < 0 || fd_write_all(fd, value, strlen(value), NULL) < 0)
		die("%s: %s", path, errno_text(errno));
}

static void write_conf(const char *where, const char *key, const char *value)
{
	auto_free char *path = xasprintf("/proc/sys/net/ipv6/conf/%s/%s", where, key);

	write_proc(path, value);
}

/* Disables IPv6 link-local addresses and duplicate address detection, which would change the state
 * at any time. */
static void disable_ipv6(int ns)
{
	struct netns_visit v = NETNS_VISIT_INIT;

	MUST(netns_enter(ns, &v, e));
	if (access("/proc/sys/net/ipv6", F_OK) == 0) {
		write_conf("all", "accept_dad", "0");
		write_conf("default", "accept_dad", "0");
		write_conf("default", "addr_gen_mode", "1");
	}
	netns_leave(&v);
}

static void new_ns(const struct lab *l, struct ns *s, const char *name, bool strict)
{
	auto_free char *at = xasprintf("%s/run/netns/%s", l->dir, name);
	int fd;

	MUST(netns_new(true, &fd, e));
	MUST(netns_pin(fd, at, e));
	disable_ipv6(fd);
	ns_open(s, fd, strict);
}

static struct ipnet address(size_t nic, unsigned int host)
{
	struct ipnet n = {.ip = {4, {172, 16, (uint8_t)nic, (uint8_t)host}}, .len = 24};

	return n;
}

static void nic_name(size_t nic, char name[static LINK_NAME_MAX])
{
	if (nic == 0)
		strcpy(name, "eth0");
	else
		snprintf(name, LINK_NAME_MAX, "rail%d", (int)nic - 1);
}

static void give(struct nl_wire *w, const char *name, const struct ipnet *n)
{
	auto_batch struct nl_batch *b = nl_batch_new();
	struct link k;

	MUST(link_get(w, name, &k, e));
	addr_add(b, k.index, name, n, 0);
	MUST(nl_batch_commit(w, b, e));
}

static void make_nic(const struct lab *l, size_t nic, struct nl_wire *node, struct nl_wire *fabric)
{
	auto_batch struct nl_batch *b = nl_batch_new();
	struct link_spec s = LINK_SPEC_INIT;
	struct ipnet near = address(nic, 2), far = address(nic, 1);
	char name[LINK_NAME_MAX], peer[LINK_NAME_MAX + 3];

	nic_name(nic, name);
	snprintf(peer, sizeof(peer), "sw-%s", name);
	s.name = name;
	s.kind = "veth";
	s.mtu = MTU;
	s.peer_name = peer;
	s.peer_netns_fd = l->fabric.fd;
	s.up = s.peer_up = true;
	link_add(b, &s);
	MUST(nl_batch_commit(node, b, e));
	give(node, name, &near);
	give(fabric, peer, &far);
}

static void default_route(struct nl_wire *w)
{
	auto_batch struct nl_batch *b = nl_batch_new();
	struct route r = {.family = 4, .dst = {.ip = {.family = 4}}};
	struct link k;

	MUST(link_get(w, "eth0", &k, e));
	r.gw = address(0, 1).ip;
	r.index = k.index;
	route_add(b, &r, ROUTE_CREATE);
	MUST(nl_batch_commit(w, b, e));
}

static void make_nics(struct lab *l)
{
	auto_nl struct nl_wire *node = lab_wire(&l->node), *fabric = lab_wire(&l->fabric);

	for (size_t i = 0; i < l->nics; i++)
		make_nic(l, i, node, fabric);
	default_route(node);
}

/* Waits until the NICs are up: carrier and operational state change with a delay. */
static void settle(const struct lab *l)
{
	auto_nl struct nl_wire *w = lab_wire(&l->node);

	for (int waited = 0; waited < SETTLE_MS; waited += 10) {
		auto_free struct link *v = NULL;
		size_t n = 0, up = 0;

		MUST(link_list(w, &v, &n, e));
		for (size_t i = 0; i < n; i++)
			up += v[i].operstate == 6;
		if (up == l->nics)
			return;
		usleep(10000);
	}
	die("the node's NICs do not come up");
}

void lab_open(struct lab *l, const char *binary, size_t nics)
{
	int fd;

	*l = (struct lab){.nics = nics, .first = !nics};
	if (unshare(CLONE_NEWNS | (l->first ? 0 : CLONE_NEWNET)) < 0)
		die("unshare: %s: run as root", errno_text(errno));
	make_root(l, binary);
	MUST(netns_current(&fd, e));
	if (!l->first)
		disable_ipv6(fd);
	ns_open(&l->node, fd, true);
	new_ns(l, &l->fabric, "fabric", false);
	new_ns(l, &l->pod, "pod", false);
	new_ns(l, &l->other, "other", false);
	if (!l->first) {
		make_nics(l);
		settle(l);
	}
	tree_take(&l->empty, l->dir, outside);
	lab_keep(l);
}

void lab_dump(const struct lab *l, struct buf *b)
{
	struct tree t;

	buf_reset(b);
	ns_dump(&l->node, "node", b);
	ns_dump(&l->pod, "pod", b);
	ns_dump(&l->other, "other pod", b);
	vf_dump(l, b);
	tree_take(&t, l->dir, outside);
	tree_dump(&t, b);
	tree_done(&t);
	if (b->over)
		die("the state is too large");
}
