/* SPDX-License-Identifier: Apache-2.0 */
#include "host/steps/rdma_mode.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/num.h"
#include "host/steps/steps.h"
#include "kern/rdma/rdma_set.h"

#define VERB "rdma-mode"

enum { NAMES_MAX = 4, TEXT_MAX = 512 };

static const struct opt keys[] = {
	{"mode", 0, OPT_CHOICE, "shared|exclusive",
	 "shared: every namespace sees all RDMA devices (macvlan, ipvlan); exclusive: each device "
	 "belongs to one namespace (SR-IOV)",
	 offsetof(struct host_rdma_mode_want, mode), 0, 0},
	{0},
};

static int check(void *want, struct err *e)
{
	return ((struct host_rdma_mode_want *)want)->mode
		       ? 0
		       : err_kind(e, ERR_CONF, -EINVAL, "no mode: expected shared or exclusive");
}

/* --- state of the RDMA subsystem --- */

/* Counts the other network namespaces that have processes, and writes to f->users one process of
 * each, such as "pid 4711 (pause)", for at most NAMES_MAX namespaces. */
static void list_namespaces(const struct host *h, struct host_rdma_mode_found *f)
{
	auto_free char *self = host_link_read(h, "/proc/1/ns/net"), **seen = NULL;
	char **names = NULL;
	size_t n = 0, n_seen = 0;
	struct buf b;

	buf_init(&b, TEXT_MAX);
	if (self && dir_list(&h->root, "/proc", &names, &n, NULL) < 0)
		n = 0;
	for (size_t i = 0; i < n && self; i++) {
		auto_free char *path = xasprintf("/proc/%s/ns/net", names[i]);
		auto_free char *comm = xasprintf("/proc/%s/comm", names[i]), *word = NULL;
		auto_free char *ns = NULL;
		bool known = false;
		uint64_t pid;

		if (num_u64(span_of(names[i]), 1, UINT32_MAX, &pid) < 0)
			continue;
		ns = host_link_read(h, path);
		for (size_t k = 0; ns && k < n_seen; k++)
			known |= strcmp(seen[k], ns) == 0;
		if (!ns || known || strcmp(ns, self) == 0)
			continue;
		word = host_attr_read(h, comm);
		if (n_seen < NAMES_MAX)
			buf_printf(&b, "%spid %s (%s)", n_seen ? ", " : "", names[i],
				   word ? word : "?");
		VEC_PUSH(seen, n_seen) = take(ns);
	}
	str_list_free(names, n);
	for (size_t k = 0; k < n_seen; k++)
		free(seen[k]);
	f->namespaces = n_seen;
	f->users = buf_take(&b);
}

/* Reads the mode of the running host, or the one that a snapshot recorded. */
static bool mode_read(const struct host *h, enum rdma_netns_mode *ret)
{
	auto_free char *path = xasprintf("%s" HOST_RECORDED "/mode.nl", h->dir ? h->dir : "");
	auto_nl struct nl_wire *w = NULL;

	if (h->kernel)
		return rdma_netns_mode_get(ret, NULL) >= 0;
	return h->recorded && nl_open_replay(&w, path, NULL) >= 0 &&
	       rdma_nl_netns_mode(w, ret, NULL) >= 0;
}

static int observe(struct host *h, const struct host_wants *w, void **found, struct err *e)
{
	static const char *const images[] = {"/etc/initramfs-tools", "/etc/dracut.conf.d",
					     "/etc/dracut.conf"};
	struct host_rdma_mode_found *f = xcalloc(1, sizeof(*f));
	enum rdma_netns_mode mode;

	(void)w;
	*found = f;
	if (mode_read(h, &mode)) {
		f->known = true;
		f->mode = rdma_netns_mode_name(mode);
		list_namespaces(h, f);
	}
	for (size_t i = 0; i < ARRAY_LEN(images); i++)
		if (!f->initramfs && file_exists(&h->root, images[i]))
			f->initramfs = i == 0 ? "update-initramfs -u" : "dracut -f";
	return host_file_read(h, HOST_RDMA_MODE_FILE, &f->file, e);
}

static void forget(void *found)
{
	struct host_rdma_mode_found *f = found;

	if (!f)
		return;
	host_file_done(&f->file);
	free(f->users);
	free(f);
}

/* --- plan of the steps to the requested mode --- */

static void plan_now(const struct host_rdma_mode_found *f, const char *mode, struct host_plan *p)
{
	struct host_step *s = host_plan_add(p, "rdma-mode", "host");

	s->current = xasprintf("netns mode %s", f->mode);
	s->desired = xasprintf("netns mode %s", mode);
	host_step_command(s, "rdma system set netns %s", mode);
	host_op_begin(&s->action, VERB);
	host_op_add(&s->action, "mode", "%s", mode);
	host_op_begin(&s->undo, VERB);
	host_op_add(&s->undo, "mode", "%s", f->mode);
	if (f->namespaces)
		host_step_blocked(
			s,
			"%zu other network namespaces exist (%s%s); the mode takes effect at the "
			"next boot",
			f->namespaces, f->users, f->namespaces > NAMES_MAX ? ", ..." : "");
}

static int decide(const struct host_wants *w, const void *found, struct host_plan *p, struct err *e)
{
	const struct host_rdma_mode_found *f = found;
	const char *mode = w->n ? ((const struct host_rdma_mode_want *)w->v[0])->mode : NULL;
	auto_free char *text = NULL;

	(void)e;
	if (!mode)
		return 0;
	text = xasprintf("# written by 'unirail host rdma-mode': 0 exclusive, 1 shared\n"
			 "options ib_core netns_mode=%d\n",
			 strcmp(mode, "shared") == 0);
	if (host_plan_file(p, "rdma-mode", "host", &f->file, text, 0644) && f->initramfs)
		host_plan_remark(p, "rdma-mode", "host",
				 "if the initramfs contains ib_core, run '%s' before the next boot",
				 f->initramfs);
	if (f->known && strcmp(f->mode, mode) != 0)
		plan_now(f, mode, p);
	return 0;
}

static int act(struct host *h, const struct host_op *op, struct err *e)
{
	const char *mode = host_op_get(op, "mode");
	auto_nl struct nl_wire *w = NULL;
	int r;

	(void)h;
	if (!mode || strcmp(op->verb, VERB) != 0)
		return err_kind(e, ERR_UNSUPPORTED, -EOPNOTSUPP,
				"operation '%s' is unknown or has no argument 'mode'", op->verb);
	r = nl_open(&w, NL_RDMA, -1, e);
	return r < 0 ? r
		     : rdma_nl_netns_mode_set(w,
					      strcmp(mode, "shared") == 0 ? RDMA_NETNS_SHARED
									  : RDMA_NETNS_EXCLUSIVE,
					      e);
}

static int in_effect(struct host *h, const struct host_op *op, struct err *e)
{
	const char *mode = host_op_get(op, "mode");
	enum rdma_netns_mode now;

	(void)e;
	return !mode || !mode_read(h, &now) || !strcmp(mode, rdma_netns_mode_name(now));
}

static void show(const void *found, struct host_rows *rows)
{
	const struct host_rdma_mode_found *f = found;

	host_rows_add(rows, "host", "netns mode", "%s", f->known ? f->mode : "unknown");
	host_rows_add(rows, "host", "at boot", "%s",
		      f->file.text ? HOST_RDMA_MODE_FILE : "default");
}

const struct host_kind host_rdma_mode = {
	.name = "rdma-mode",
	.section = "rdma",
	.help = "whether RDMA devices are shared by all network namespaces or exclusive to one",
	.keys = keys,
	.size = sizeof(struct host_rdma_mode_want),
	.check = check,
	.observe = observe,
	.forget = forget,
	.decide = decide,
	.act = act,
	.in_effect = in_effect,
	.show = show,
};
