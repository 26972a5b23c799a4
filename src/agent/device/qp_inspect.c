/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/device/qp_inspect.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/num.h"
#include "kern/rdma/rdma_res.h"
#include "kern/sys/cgroup.h"

enum {
	PIDS_MAX = 16384,    /* limit of processes read per device */
	TEXT_MAX = 64 << 10, /* size limit of a file in /proc/PID */
	/* lowest memlock limit, in bytes, that suffices; `unirail doctor` warns below the same
	 * limit */
	MEMLOCK_MIN = 64 << 20,
	CAP_IPC_LOCK_BIT = 14,
	PORT_ACTIVE = 4,
};

struct inspection {
	struct nl_wire *wire;
	const struct root *root;
	struct qp_target *v;
	size_t n;
	struct rdma_dev *devices;
	size_t n_devices;
	uint32_t *openers; /* for each target the PID of a process that opened a device; 0: none */
	/* number of queue pairs and of contexts whose processes are not visible */
	size_t hidden, hidden_contexts;
};

/* --- processes of containers --- */

static bool read_proc(const struct inspection *l, uint32_t pid, const char *name, struct buf *b)
{
	auto_free char *path = xasprintf("/proc/%u/%s", pid, name);

	return file_read(l->root, path, TEXT_MAX, b, NULL) >= 0 && b->p;
}

/* Returns whether the control groups contain the UID or container ID. systemd replaces '-' in
 * UIDs by '_'. */
static bool names(const char *groups, const char *match)
{
	auto_free char *other = xstrdup(match);

	for (char *c = other; *c; c++)
		if (*c == '-')
			*c = '_';
	return strstr(groups, match) || strstr(groups, other);
}

static void mark(struct inspection *l, uint32_t pid, bool has_qp)
{
	auto_buf struct buf b;

	buf_init(&b, TEXT_MAX);
	if (!read_proc(l, pid, "cgroup", &b))
		return;
	for (size_t i = 0; i < l->n; i++) {
		if (!names(b.p, l->v[i].id ? l->v[i].id : l->v[i].uid))
			continue;
		if (has_qp)
			l->v[i].state = QP_PRESENT;
		else
			l->openers[i] = pid;
	}
}

/* Reads a number from lines such as "Max locked memory 8388608 8388608 bytes" and "CapEff:
 * 0000...". */
static bool number_of(const struct inspection *l, uint32_t pid, const char *name, const char *label,
		      uint64_t *ret)
{
	auto_buf struct buf b;

	buf_init(&b, TEXT_MAX);
	return read_proc(l, pid, name, &b) &&
	       num_labelled(buf_span(&b), label, *label == 'C', ret) == 0;
}

/* Returns whether the process cannot lock enough memory. The limit "unlimited" is not a number, and
 * is enough. */
static bool lacks_memlock(const struct inspection *l, uint32_t pid, uint64_t *limit)
{
	uint64_t caps = 0;

	if (!number_of(l, pid, "limits", "Max locked memory", limit) || *limit >= MEMLOCK_MIN)
		return false;
	number_of(l, pid, "status", "CapEff:", &caps);
	return !(caps >> CAP_IPC_LOCK_BIT & 1);
}

/* --- RDMA devices --- */

static const struct rdma_dev *device_of(const struct inspection *l, const char *name)
{
	for (size_t i = 0; i < l->n_devices; i++)
		if (strcmp(l->devices[i].name, name) == 0)
			return &l->devices[i];
	return NULL;
}

static const struct rdma_port *active_port(const struct rdma_dev *d)
{
	for (uint32_t i = 0; i < d->n_ports && i < RDMA_PORTS_MAX; i++)
		if (d->ports[i].state == PORT_ACTIVE)
			return &d->ports[i];
	return NULL;
}

/* Lists objects of one kind. A kernel before 5.13 does not list contexts (-EOPNOTSUPP), so it is
 * unknown which processes have opened a device. */
static int list(struct inspection *l, enum rdma_res_kind kind, struct err *e)
{
	for (size_t i = 0; i < l->n_devices; i++) {
		auto_free uint32_t *pids = NULL;
		size_t n = 0, hidden = 0;
		int r = rdma_nl_res_pids(l->wire, l->devices[i].index, kind, PIDS_MAX, &pids, &n,
					 &hidden, e);

		if (r < 0)
			return r;
		for (size_t k = 0; k < n; k++)
			mark(l, pids[k], kind == RDMA_RES_QP);
		*(kind == RDMA_RES_QP ? &l->hidden : &l->hidden_contexts) += hidden;
	}
	return 0;
}

/* --- the reason why a container has no queue pair --- */

static void set_reason(struct qp_target *t, enum qp_state state, const char *text)
{
	t->state = state;
	str_copy(t->reason, sizeof(t->reason), text);
}

/* Returns whether the container has visible devices, all of them have ports, and no port is
 * active. */
static bool ports_are_down(const struct inspection *l, const struct qp_target *t,
			   const char **device, const char **state)
{
	for (size_t i = 0; i < t->n_devices; i++) {
		const struct rdma_dev *d = device_of(l, t->devices[i]);

		if (!d)
			continue;
		if (active_port(d) || !d->n_ports)
			return false;
		*device = d->name;
		*state = rdma_port_state_name(d->ports[0].state);
	}
	return *device != NULL;
}

static bool is_visible(const struct inspection *l, const struct qp_target *t)
{
	for (size_t i = 0; i < t->n_devices; i++)
		if (device_of(l, t->devices[i]))
			return true;
	return false;
}

/* --- usage in control groups --- */

/* Returns the path of the container's control group: "ID" or "cri-containerd-ID.scope" below the
 * pod's group; the pod's group if the ID is NULL. NULL: there is none. */
static char *group_of(const struct inspection *l, const struct cgroup_pods *pods,
		      const struct qp_target *t)
{
	const struct cgroup_pod *pod = cgroup_pods_find(pods, t->uid);
	char **children = NULL, *ret = NULL;
	size_t n = 0;

	if (!pod || !t->id)
		return pod ? xstrdup(pod->path) : NULL;
	if (dir_list(l->root, pod->path, &children, &n, NULL) < 0)
		return NULL;
	for (size_t i = 0; i < n && !ret; i++)
		if (strstr(children[i], t->id))
			ret = xasprintf("%s/%s", pod->path, children[i]);
	str_list_free(children, n);
	return ret;
}

/* Sums up the usage of all devices of the container; false: the usage of no device is known. */
static bool read_usage(const struct inspection *l, const struct cgroup_pods *pods,
		       const struct qp_target *t, struct cgroup_rdma *ret)
{
	auto_free char *group = group_of(l, pods, t);
	size_t known = 0;

	*ret = (struct cgroup_rdma){0};
	for (size_t i = 0; group && i < t->n_devices; i++) {
		struct cgroup_rdma u;

		if (cgroup_rdma_usage(l->root, group, t->devices[i], &u, NULL) < 0)
			continue;
		known++;
		ret->handles += u.handles;
		ret->objects += u.objects;
	}
	return known > 0;
}

/* --- state of one container --- */

struct clues {
	uint32_t opener; /* PID of a process that opened a device; 0: unknown */
	bool has_usage;	 /* usage is valid: the control group reports it */
	struct cgroup_rdma usage;
	bool is_opened, is_not_opened; /* both false: it is unknown whether a device was opened */
};

static void explain(const struct inspection *l, struct qp_target *t, const struct clues *c)
{
	const char *device = NULL, *state = NULL;
	uint64_t limit;
	char text[QP_REASON_MAX];

	if (ports_are_down(l, t, &device, &state))
		snprintf(text, sizeof(text),
			 "no port of the container's RDMA devices is active (%s is %s): check "
			 "cable and switch",
			 device, state);
	else if (c->opener && lacks_memlock(l, c->opener, &limit))
		snprintf(text, sizeof(text),
			 "process %u may lock %llu KiB (RLIMIT_MEMLOCK), so memory cannot be "
			 "registered: raise the limit with rdma-memlock of the agent (NRI or "
			 "memlock-hook) or with 'unirail host memlock', then restart the pod",
			 c->opener, (unsigned long long)(limit >> 10));
	else if (c->is_opened)
		snprintf(text, sizeof(text),
			 "the container has opened an RDMA device but has created no queue pair: "
			 "run 'unirail verify' in the container to test each device");
	else if (c->is_not_opened)
		snprintf(
			text, sizeof(text),
			"no process of the container has opened an RDMA device: the program does "
			"not use RDMA, or uses TCP instead (the annotation unirail.io/nccl-net: IB "
			"makes NCCL fail instead of using TCP)");
	else
		snprintf(text, sizeof(text),
			 "run 'unirail verify' in the container to test each device");
	set_reason(t, QP_NONE, text);
}

static void judge(const struct inspection *l, struct qp_target *t, const struct clues *c)
{
	bool is_visible_here = is_visible(l, t), is_hidden = !is_visible_here || l->hidden;

	if (t->state == QP_PRESENT)
		return;
	if (is_hidden && c->has_usage && c->usage.handles && c->usage.objects)
		t->state = QP_PRESENT;
	else if (is_hidden && !c->has_usage)
		set_reason(t, QP_UNKNOWN,
			   is_visible_here
				   ? "queue pairs belong to processes that the agent does not see: "
				     "set hostPID: true in the agent's pod, or enable the cgroup "
				     "controller rdma"
				   : "RDMA devices are in network namespaces of pods (exclusive "
				     "mode), and the container's control group does not show their "
				     "use: enable the cgroup controller rdma in the kernel, and "
				     "mount the host's /sys/fs/cgroup into the agent's pod");
	else
		explain(l, t, c);
}

static void inspect(const struct inspection *l, const struct cgroup_pods *pods, size_t i,
		    bool has_contexts)
{
	struct qp_target *t = &l->v[i];
	struct clues c = {.opener = l->openers[i]};

	c.has_usage = read_usage(l, pods, t, &c.usage);
	c.is_opened = c.opener || (c.has_usage && c.usage.handles);
	c.is_not_opened = !c.is_opened && (c.has_usage || (has_contexts && !l->hidden_contexts));
	judge(l, t, &c);
}

int qp_inspect(struct nl_wire *w, const struct root *r, struct qp_target *v, size_t n,
	       struct err *e)
{
	auto_free struct rdma_dev *devices = NULL;
	auto_free uint32_t *openers = xcalloc(n + 1, sizeof(*openers));
	struct inspection l = {.wire = w, .root = r, .v = v, .n = n, .openers = openers};
	auto_cgroup_pods struct cgroup_pods pods = {0};
	struct err ignored = ERR_INIT;
	const char *dir;
	bool has_contexts;
	int code = rdma_nl_list(w, &devices, &l.n_devices, e);

	if (code < 0)
		return code;
	l.devices = devices;
	for (size_t i = 0; i < n; i++)
		v[i].state = QP_UNKNOWN;
	code = list(&l, RDMA_RES_QP, e);
	if (code < 0)
		return code;
	has_contexts = list(&l, RDMA_RES_CTX, &ignored) == 0;
	if (cgroup_rdma_dir(r, &dir, NULL) == 0)
		cgroup_pods_read(r, dir, &pods, NULL);
	for (size_t i = 0; i < n; i++)
		inspect(&l, &pods, i, has_contexts);
	return 0;
}
