/* SPDX-License-Identifier: Apache-2.0 */
/* Kinds acs and pci: registers in the PCI configuration space of bridges (acs) and NICs (pci). The
 * changes last until the next boot. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/num.h"
#include "host/steps/nics.h"
#include "host/steps/steps.h"
#include "kern/pci/config.h"

enum { CLASS_BRIDGE = 0x0604 };

/* --- acs --- */

struct acs_want {
	struct host_want head;
	const char *bridges;
};

static const struct opt acs_keys[] = {
	{"bridges", 0, OPT_CHOICE, "path|all",
	 "bridges whose ACS is cleared: those above RDMA NICs and GPUs (path), or all",
	 offsetof(struct acs_want, bridges), 0, 0},
	{0},
};

struct bridge {
	char bdf[PCI_BDF_MAX];
	struct pci_acs acs;
	bool on_path;
};

struct acs_found {
	struct bridge *v;
	size_t n;
	bool vfio; /* a function is bound to vfio-pci */
};

static void acs_init(void *want)
{
	((struct acs_want *)want)->bridges = "path";
}

static void acs_forget(void *found)
{
	struct acs_found *f = found;

	if (f)
		free(f->v);
	free(f);
}

static void mark_path(const struct root *r, const char *bdf, struct acs_found *f)
{
	struct pci_path path;

	if (pci_path_read(r, bdf, &path, NULL) < 0)
		return;
	for (size_t i = 0; i < path.n; i++)
		for (size_t k = 0; k < f->n; k++)
			if (!strcmp(f->v[k].bdf, path.ports[i]))
				f->v[k].on_path = true;
}

static int read_bridges(struct host *h, const struct pci_dev *all, size_t n, struct acs_found *f,
			struct err *e)
{
	for (size_t i = 0; i < n; i++) {
		struct bridge b = {.on_path = false};
		int r;

		f->vfio |= !strcmp(all[i].driver, "vfio-pci");
		if (all[i].class >> 8 != CLASS_BRIDGE)
			continue;
		r = pci_acs_read(&h->root, all[i].bdf, &b.acs, e);
		/* A snapshot may lack the configuration space of a bridge. */
		if (r < 0 && !(r == -ENOENT && !h->kernel))
			return r;
		if (r <= 0)
			continue;
		str_copy(b.bdf, sizeof(b.bdf), all[i].bdf);
		VEC_PUSH(f->v, f->n) = b;
	}
	return 0;
}

static int acs_observe(struct host *h, const struct host_wants *w, void **found, struct err *e)
{
	struct acs_found *f = xcalloc(1, sizeof(*f));
	auto_free struct pci_dev *all = NULL;
	auto_free struct host_nic *nics = NULL;
	size_t n = 0, n_nics = 0;
	int r = host_nics_read(h, &nics, &n_nics, e);

	(void)w;
	*found = f;
	if (r == 0 && file_exists(&h->root, "/sys/bus/pci/devices"))
		r = pci_list(&h->root, &all, &n, e);
	if (r == 0)
		r = read_bridges(h, all, n, f, e);
	for (size_t i = 0; r == 0 && i < n_nics; i++)
		mark_path(&h->root, nics[i].pci.bdf, f);
	for (size_t i = 0; r == 0 && i < n; i++)
		if (host_is_gpu(&all[i]))
			mark_path(&h->root, all[i].bdf, f);
	return r;
}

static char *acs_describe(uint16_t control)
{
	static const char *const names[] = {"SV", "TB", "RR", "CR", "UF", "EC", "DT"};
	auto_buf struct buf b;

	buf_init(&b, 64);
	buf_printf(&b, "ACS 0x%04x", control);
	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		if (control >> i & 1)
			buf_printf(&b, " %s", names[i]);
	return buf_take(&b);
}

static void acs_step(const struct bridge *b, struct host_plan *p)
{
	struct host_step *s = host_plan_add(p, "acs", b->bdf);
	auto_free char *now = acs_describe(b->acs.control);

	host_step_text(s, now, "ACS 0x0000");
	host_step_command(s, "setpci -s %s ECAP_ACS+0x6.w=0000", b->bdf);
	host_op_begin(&s->action, "acs");
	host_op_add(&s->action, "bdf", "%s", b->bdf);
	host_op_add(&s->action, "control", "%u", 0);
	host_op_begin(&s->undo, "acs");
	host_op_add(&s->undo, "bdf", "%s", b->bdf);
	host_op_add(&s->undo, "control", "%u", b->acs.control);
}

static int acs_decide(const struct host_wants *w, const void *found, struct host_plan *p,
		      struct err *e)
{
	const struct acs_found *f = found;
	size_t before = p->n;
	bool all = false;

	(void)e;
	if (!w->n)
		return 0;
	for (size_t i = 0; i < w->n; i++)
		all |= !strcmp(((const struct acs_want *)w->v[i])->bridges, "all");
	for (size_t i = 0; i < f->n; i++)
		if (f->v[i].acs.control && (all || f->v[i].on_path))
			acs_step(&f->v[i], p);
	if (p->n > before && f->vfio)
		host_plan_remark(p, "acs", "host",
				 "functions bound to vfio-pci are less isolated from each other "
				 "without ACS");
	return 0;
}

static int acs_act(struct host *h, const struct host_op *op, struct err *e)
{
	const char *bdf = host_op_get(op, "bdf");
	uint64_t control;
	int r = host_op_number(op, "control", 0, 0x7f, &control, e);

	if (r < 0)
		return r;
	return pci_acs_set(&h->root, bdf ? bdf : "", (uint16_t)control, e);
}

static int acs_in_effect(struct host *h, const struct host_op *op, struct err *e)
{
	const char *bdf = host_op_get(op, "bdf");
	struct pci_acs acs = {0};
	uint64_t control;
	int r = host_op_number(op, "control", 0, 0x7f, &control, e);

	if (r >= 0)
		r = pci_acs_read(&h->root, bdf ? bdf : "", &acs, e);
	return r < 0 ? r : acs.control == control;
}

static void acs_show(const void *found, struct host_rows *rows)
{
	const struct acs_found *f = found;

	for (size_t i = 0; i < f->n; i++) {
		auto_free char *text = acs_describe(f->v[i].acs.control);

		host_rows_add(rows, f->v[i].bdf, "acs", "%s%s", text,
			      f->v[i].on_path ? "" : " (no RDMA NIC or GPU below)");
	}
}

const struct host_kind host_acs = {
	.name = "acs",
	.section = "acs",
	.help = "PCI Access Control Services off, so that NICs and GPUs exchange data directly "
		"through the PCIe switch",
	.keys = acs_keys,
	.size = sizeof(struct acs_want),
	.init = acs_init,
	.observe = acs_observe,
	.forget = acs_forget,
	.decide = acs_decide,
	.act = acs_act,
	.in_effect = acs_in_effect,
	.show = acs_show,
};

/* --- pci --- */

struct pci_want {
	struct host_want head;
	int64_t max_read;
	const char *relaxed, *nics;
};

static const struct opt pci_keys[] = {
	{"max-read-request", 0, OPT_INT, "BYTES", "MaxReadReq: 128, 256, 512, 1024, 2048 or 4096",
	 offsetof(struct pci_want, max_read), 128, 4096},
	{"relaxed-ordering", 0, OPT_CHOICE, "on|off", "relaxed ordering of the NIC's writes",
	 offsetof(struct pci_want, relaxed), 0, 0},
	{"nics", 0, OPT_STR, "NAME,...",
	 "the NICs: interfaces, RDMA devices or PCI addresses (default: all RDMA PFs)",
	 offsetof(struct pci_want, nics), 0, 0},
	{0},
};

struct pci_nic {
	struct host_nic nic;
	struct pci_devctl ctl;
	bool has;
};

struct pci_found {
	struct pci_nic *v;
	struct host_nic *nics;
	size_t n;
};

static int pci_check(void *want, struct err *e)
{
	const struct pci_want *w = want;

	if (w->max_read & (w->max_read - 1))
		return err_kind(
			e, ERR_CONF, -EINVAL,
			"max-read-request is %lld, expected 128, 256, 512, 1024, 2048 or 4096",
			(long long)w->max_read);
	return 0;
}

static void pci_forget(void *found)
{
	struct pci_found *f = found;

	if (f) {
		free(f->v);
		free(f->nics);
	}
	free(f);
}

static int pci_observe(struct host *h, const struct host_wants *w, void **found, struct err *e)
{
	struct pci_found *f = xcalloc(1, sizeof(*f));
	int r = host_nics_read(h, &f->nics, &f->n, e);

	(void)w;
	*found = f;
	f->v = xcalloc(f->n, sizeof(*f->v));
	for (size_t i = 0; i < f->n && r >= 0; i++) {
		f->v[i].nic = f->nics[i];
		if (host_nic_is_vf(&f->nics[i]))
			/* of a VF these fields are read-only zeros; it uses the PF's values */
			continue;
		r = pci_devctl_read(&h->root, f->nics[i].pci.bdf, &f->v[i].ctl, e);
		f->v[i].has = r == 1;
		if (r == -ENOENT && !h->kernel)
			r = 0;
	}
	return r < 0 ? r : 0;
}

static void pci_step(struct host_plan *p, const struct host_nic *nic, const char *verb,
		     unsigned int now, unsigned int want, const char *name)
{
	struct host_step *s = host_plan_add(p, "pci", nic->pci.bdf);
	auto_free char *is = xasprintf("%s %u", name, now), *will = xasprintf("%s %u", name, want);
	bool read = !strcmp(verb, "max-read");
	unsigned int code = 0;

	while (read && 128u << code < want)
		code++;
	host_step_text(s, is, will);
	if (read)
		host_step_command(s, "setpci -s %s CAP_EXP+08.w=%x000:7000", nic->pci.bdf, code);
	else
		host_step_command(s, "setpci -s %s CAP_EXP+08.w=%04x:0010", nic->pci.bdf,
				  want ? 0x10 : 0);
	host_op_begin(&s->action, verb);
	host_op_add(&s->action, "bdf", "%s", nic->pci.bdf);
	host_op_add(&s->action, "value", "%u", want);
	host_op_begin(&s->undo, verb);
	host_op_add(&s->undo, "bdf", "%s", nic->pci.bdf);
	host_op_add(&s->undo, "value", "%u", now);
}

static void pci_decide_one(const struct pci_want *w, const struct pci_nic *n, struct host_plan *p)
{
	bool on = w->relaxed && !strcmp(w->relaxed, "on");

	if (!n->has || (w->nics && !host_nic_listed(&n->nic, w->nics)))
		return;
	if (w->max_read && w->max_read != n->ctl.max_read)
		pci_step(p, &n->nic, "max-read", n->ctl.max_read, (unsigned int)w->max_read,
			 "MaxReadReq");
	if (w->relaxed && on != n->ctl.relaxed)
		pci_step(p, &n->nic, "relaxed", n->ctl.relaxed, on, "relaxed ordering");
}

static int pci_decide(const struct host_wants *w, const void *found, struct host_plan *p,
		      struct err *e)
{
	const struct pci_found *f = found;

	for (size_t i = 0; i < w->n; i++) {
		const struct pci_want *one = (const struct pci_want *)w->v[i];
		int r = host_nics_check_list(f->nics, f->n, "nics", one->nics, e);

		if (r < 0)
			return r;
		for (size_t k = 0; k < f->n; k++)
			pci_decide_one(one, &f->v[k], p);
	}
	return 0;
}

static int pci_act(struct host *h, const struct host_op *op, struct err *e)
{
	const char *bdf = host_op_get(op, "bdf");
	uint64_t v;
	int r = host_op_number(op, "value", 0, 4096, &v, e);

	if (r < 0)
		return r;
	if (!strcmp(op->verb, "relaxed"))
		return pci_relaxed_set(&h->root, bdf ? bdf : "", v != 0, e);
	return pci_max_read_set(&h->root, bdf ? bdf : "", (uint16_t)v, e);
}

static int pci_in_effect(struct host *h, const struct host_op *op, struct err *e)
{
	const char *bdf = host_op_get(op, "bdf");
	struct pci_devctl now = {0};
	uint64_t v;
	int r = host_op_number(op, "value", 0, 4096, &v, e);

	if (r >= 0)
		r = pci_devctl_read(&h->root, bdf ? bdf : "", &now, e);
	if (r < 0)
		return r;
	return !strcmp(op->verb, "relaxed") ? now.relaxed == (v != 0) : now.max_read == v;
}

static void pci_show(const void *found, struct host_rows *rows)
{
	const struct pci_found *f = found;

	for (size_t i = 0; i < f->n; i++) {
		if (!f->v[i].has)
			continue;
		host_rows_add(rows, f->v[i].nic.pci.bdf, "max-read-request", "%u",
			      f->v[i].ctl.max_read);
		host_rows_add(rows, f->v[i].nic.pci.bdf, "relaxed-ordering", "%s",
			      f->v[i].ctl.relaxed ? "on" : "off");
	}
}

const struct host_kind host_pci_kind = {
	.name = "pci",
	.section = "pci",
	.help = "MaxReadReq and relaxed ordering of RDMA NICs",
	.keys = pci_keys,
	.size = sizeof(struct pci_want),
	.check = pci_check,
	.observe = pci_observe,
	.forget = pci_forget,
	.decide = pci_decide,
	.act = pci_act,
	.in_effect = pci_in_effect,
	.show = pci_show,
};
