/* SPDX-License-Identifier: Apache-2.0 */
#include "cni/device/rdma_move.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/log.h"
#include "kern/pci/pci.h"
#include "kern/rdma/rdma_res.h"
#include "kern/sys/netns.h"

enum { FIRST_PAUSE_MS = 20, LONGEST_PAUSE_MS = 320, DESC_MAX = 512 };

#define REMEDY                                                                                       \
	"at boot 'options ib_core netns_mode=%d' in /etc/modprobe.d, or `rdma system set netns %s` " \
	"while the host has no other network namespace"

int rdma_move_device(const char *text, char *ret, struct err *e)
{
	char lower[PCI_NAME_MAX];
	size_t n = strlen(text);

	if (n && n < sizeof(lower) && text[0] != '.' && !strchr(text, '/')) {
		for (size_t i = 0; i <= n; i++)
			lower[i] = (char)tolower((unsigned char)text[i]);
		memcpy(ret, pci_bdf_ok(lower) ? lower : text, n + 1);
		return 0;
	}
	return err_kind(e, ERR_CONF, -EINVAL,
			"conf.deviceID is '%s', expected a PCI address such as 0000:3b:00.2 or an "
			"auxiliary device such as mlx5_core.sf.4",
			text);
}

bool rdma_move_name(const struct root *r, const char *device, char name[static RDMA_NAME_MAX])
{
	char path[PCI_NAME_MAX * 2 + 64], **names = NULL;
	size_t n = 0;
	bool found = false;

	if (pci_children(r, device, PCI_UVERBS, &names, &n, NULL) < 0)
		return false;
	for (size_t i = 0; i < n && !found; i++) {
		snprintf(path, sizeof(path), "/sys/class/infiniband_verbs/%s/ibdev", names[i]);
		found = file_read_line(r, path, name, RDMA_NAME_MAX, NULL) >= 0 && *name;
	}
	str_list_free(names, n);
	return found;
}

static int none_here(const struct root *r, const char *device, struct err *e)
{
	char name[RDMA_NAME_MAX];

	if (rdma_move_name(r, device, name))
		return err_kind(
			e, ERR_AGAIN, -EBUSY,
			ORIG("failed to get RDMA device for device ID %s: '%s' is in another "
			     "network namespace: a pod has the device, or a deleted "
			     "pod's namespace still has it"),
			device, name);
	return err_kind(
		e, ERR_UNAVAILABLE, -ENODEV,
		ORIG("failed to get RDMA device for device ID %s: no RDMA devices found (is the "
		     "device's driver bound, and the driver's RDMA module loaded?)"),
		device);
}

static int too_many(const char *device, char **names, size_t n, struct err *e)
{
	auto_buf struct buf b;

	buf_init(&b, DESC_MAX);
	for (size_t i = 0; i < n; i++)
		buf_printf(&b, "%s%s", i ? " " : "", names[i]);
	return err_kind(e, ERR_UNAVAILABLE, -EEXIST,
			"discovered more than one RDMA device [%s] for device ID %s. Unsupported "
			"state",
			buf_span(&b).p, device);
}

static int no_device(const struct root *r, const char *device, struct err *e)
{
	char path[PCI_NAME_MAX + 64];

	snprintf(path, sizeof(path), "/sys/bus/%s/devices/%s",
		 pci_bdf_ok(device) ? "pci" : "auxiliary", device);
	if (file_exists(r, path))
		return 0;
	return err_kind(e, ERR_UNAVAILABLE, -ENODEV,
			ORIG("failed to get RDMA device for device ID %s: %s does not exist "
			     "(expected a PCI address or an auxiliary device of this node)"),
			device, path);
}

int rdma_move_find(const struct root *r, const char *device, char name[static RDMA_NAME_MAX],
		   struct err *e)
{
	char **names = NULL;
	size_t n = 0;
	int code = no_device(r, device, e);

	if (code >= 0)
		code = pci_children(r, device, PCI_RDMA, &names, &n, e);
	if (code < 0)
		return code;
	if (n == 0)
		code = none_here(r, device, e);
	else if (n > 1)
		code = too_many(device, names, n, e);
	else if (!str_copy(name, RDMA_NAME_MAX, names[0]))
		code = err_set(e, -ENAMETOOLONG, "RDMA device '%s': the name is too long",
			       names[0]);
	str_list_free(names, n);
	return code < 0 ? code : 0;
}

int rdma_move_mode_fits(enum rdma_netns_mode set, enum rdma_netns_mode wants, const char *setting,
			struct err *e)
{
	if (set == wants)
		return 0;
	return err_kind(e, ERR_UNAVAILABLE, -EINVAL,
			"RDMA subsystem namespace awareness mode is set to %s, expecting it to be "
			"set to %s, invalid system configurations (%s needs it; set it " REMEDY ")",
			rdma_netns_mode_name(set), rdma_netns_mode_name(wants), setting,
			wants == RDMA_NETNS_SHARED, rdma_netns_mode_name(wants));
}

int rdma_move_mode(enum rdma_netns_mode wants, const char *setting, struct err *e)
{
	enum rdma_netns_mode set = RDMA_NETNS_SHARED;
	int r = rdma_netns_mode_get(&set, e);

	if (r == -EOPNOTSUPP) {
		err_clear(e);
		r = 0; /* a kernel without the mode: always shared */
	}
	if (r < 0) {
		err_default_kind(e, ERR_UNAVAILABLE);
		return err_wrap(e, r,
				ORIG("failed to get RDMA subsystem namespace awareness mode"));
	}
	return rdma_move_mode_fits(set, wants, setting, e);
}

static void pause_ms(int ms)
{
	struct timespec t = {.tv_nsec = ms * 1000000L};

	nanosleep(&t, NULL);
}

static int rdma_users(struct nl_wire *w, const struct root *r, uint32_t index,
		      struct rdma_user **ret, size_t *n, struct err *e);

/* Sets the error of a device that is still busy at the time limit; the error names the users. */
static int held(struct nl_wire *w, const struct root *r, uint32_t index, const char *name,
		int limit_ms, struct err *e)
{
	auto_free struct rdma_user *list = NULL;
	auto_buf struct buf users;
	size_t n = 0;

	buf_init(&users, DESC_MAX);
	if (rdma_users(w, r, index, &list, &n, NULL) >= 0)
		rdma_users_describe(list, n, &users);
	if (!users.len)
		buf_str(&users, "a user that the kernel does not report");
	return err_kind(
		e, ERR_AGAIN, -EBUSY,
		"move RDMA device '%s' to a network namespace: Device or resource busy (EBUSY) for %d ms: it is "
		"used by %s, which must close it first",
		name, limit_ms, buf_span(&users).p);
}

int rdma_move(struct nl_wire *w, const struct root *r, const char *name, int netns_fd, int limit_ms,
	      struct err *e)
{
	int pause = FIRST_PAUSE_MS, waited = 0;
	uint32_t index = 0;
	int code = rdma_nl_find(w, name, &index, e);

	if (code < 0)
		return code;
	for (;;) {
		code = rdma_nl_move(w, index, name, netns_fd, e);
		if (code != -EBUSY)
			break;
		if (waited + pause > limit_ms)
			return held(w, r, index, name, limit_ms, e);
		pause_ms(pause);
		waited += pause;
		pause = pause * 2 < LONGEST_PAUSE_MS ? pause * 2 : LONGEST_PAUSE_MS;
	}
	return code;
}

int rdma_move_rename(const char *name, const char *host_name, struct err *e)
{
	auto_nl struct nl_wire *w = NULL;
	uint32_t index = 0;
	int r;

	if (strcmp(name, host_name) == 0)
		return 0;
	r = nl_open(&w, NL_RDMA, -1, e);
	if (r >= 0)
		r = rdma_nl_find(w, name, &index, e);
	return r < 0 ? r : rdma_nl_rename(w, index, name, host_name, e);
}

static int move_out(int pod_fd, const struct root *r, const char *name, int host_name,
		    struct err *e)
{
	struct netns_visit v = NETNS_VISIT_INIT;
	auto_nl struct nl_wire *w = NULL;
	int code = nl_open(&w, NL_RDMA, pod_fd, e);

	if (code >= 0)
		code = netns_enter(pod_fd, &v, e);
	if (code >= 0)
		code = rdma_move(w, r, name, host_name, RDMA_MOVE_LIMIT_MS, e);
	netns_leave(&v);
	return code;
}

int rdma_move_restore(int pod_fd, const struct root *r, const char *name, const char *host_name,
		      struct err *e)
{
	struct err reason = ERR_INIT;
	auto_fd int here = -1;
	int code = netns_current(&here, e);

	if (code >= 0)
		code = move_out(pod_fd, r, name, here, e);
	if (code < 0)
		return code;
	if (rdma_move_rename(name, host_name, &reason) < 0)
		log_warn("an RDMA device returned to the node under the name that the pod gave it",
			 LOG_S("device", name), LOG_S("host_name", host_name),
			 LOG_S("error", reason.text));
	return 0;
}

int rdma_move_is_in(int netns_fd, const char *name, struct err *e)
{
	auto_nl struct nl_wire *w = NULL;
	uint32_t index;
	int r = nl_open(&w, NL_RDMA, netns_fd, e);

	if (r >= 0)
		r = rdma_nl_find(w, name, &index, e);
	if (r == -ENODEV || r == -EPROTONOSUPPORT) {
		err_clear(e);
		return 0;
	}
	return r < 0 ? r : 1;
}

/* --- users of an RDMA device, for error messages --- */

static const struct {
	enum rdma_res_kind kind;
	size_t offset;
	const char *one, *many;
} counted[] = {
	{RDMA_RES_QP, offsetof(struct rdma_user, qps), "QP", "QPs"},
	{RDMA_RES_CQ, offsetof(struct rdma_user, cqs), "CQ", "CQs"},
	{RDMA_RES_MR, offsetof(struct rdma_user, mrs), "MR", "MRs"},
	{RDMA_RES_CTX, offsetof(struct rdma_user, contexts), "context", "contexts"},
};

static uint32_t *count_of(const struct rdma_user *h, size_t i)
{
	return (uint32_t *)((char *)h + counted[i].offset);
}

/* Returns whether the resource is of ib_core, which has a QP 1 on each port. This QP does not
 * prevent a move. */
static bool is_core(const struct rdma_res *res)
{
	return strcmp(res->owner, "ib_core") == 0;
}

static struct rdma_user *user_of(struct rdma_user **list, size_t *n, const struct rdma_res *res)
{
	struct rdma_user *h;

	for (size_t i = 0; i < *n; i++)
		if ((*list)[i].pid == res->pid && strcmp((*list)[i].owner, res->owner) == 0)
			return &(*list)[i];
	h = &VEC_PUSH(*list, *n);
	h->pid = res->pid;
	str_copy(h->owner, sizeof(h->owner), res->owner);
	return h;
}

static void read_comm(const struct root *r, struct rdma_user *h)
{
	char path[64];

	if (!h->pid)
		return;
	snprintf(path, sizeof(path), "/proc/%u/comm", h->pid);
	if (file_read_line(r, path, h->comm, sizeof(h->comm), NULL) < 0)
		h->comm[0] = '\0';
}

/* Resource types that the kernel does not list are skipped: the listed ones identify the users. */
static int rdma_users(struct nl_wire *w, const struct root *r, uint32_t index,
		      struct rdma_user **ret, size_t *n, struct err *e)
{
	struct rdma_user *list = NULL;
	size_t count = 0;
	int failed = 0;

	for (size_t i = 0; i < ARRAY_LEN(counted); i++) {
		auto_free struct rdma_res *res = NULL;
		size_t n_res = 0;
		int code = rdma_nl_res_list(w, index, counted[i].kind, &res, &n_res,
					    failed < 0 ? NULL : e);

		failed = failed < 0 ? failed : code;
		for (size_t k = 0; code >= 0 && k < n_res; k++)
			if (!is_core(&res[k]))
				++*count_of(user_of(&list, &count, &res[k]), i);
	}
	if (!count && failed < 0) {
		free(list);
		return failed;
	}
	for (size_t i = 0; i < count; i++)
		read_comm(r, &list[i]);
	*ret = list;
	*n = count;
	return 0;
}

static void put_counts(const struct rdma_user *h, struct buf *b)
{
	const char *sep = "";

	for (size_t i = 0; i < ARRAY_LEN(counted); i++) {
		uint32_t n = *count_of(h, i);

		if (!n)
			continue;
		buf_printf(b, "%s%u %s", sep, n, n == 1 ? counted[i].one : counted[i].many);
		sep = ", ";
	}
}

void rdma_users_describe(const struct rdma_user *list, size_t n, struct buf *b)
{
	for (size_t i = 0; i < n; i++) {
		const struct rdma_user *h = &list[i];

		buf_str(b, i ? ", " : "");
		if (h->owner[0])
			buf_printf(b, "module %s (", h->owner);
		else if (h->pid)
			buf_printf(b, "%s (pid %u: ", h->comm[0] ? h->comm : "a process", h->pid);
		else
			buf_str(b, "a process of another PID namespace (");
		put_counts(h, b);
		buf_char(b, ')');
	}
}
