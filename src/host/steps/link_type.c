/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kind link-type: InfiniBand or Ethernet, LINK_TYPE_P1 and _P2 of the firmware of NVIDIA's NICs.
 * The settings are read and written by fwctl or, without it, by the host's mlxconfig or mstconfig.
 * A change is in use after a firmware reset or a power cycle.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "host/steps/nics.h"
#include "host/steps/steps.h"
#include "kern/pci/fwctl.h"

/* Directory in a snapshot. Each file has the PCI address of a card as name, and holds the output
 * of mlxconfig for this card. */
#define RECORDED "/unirail/firmware"

enum { PORTS = 2, CONFIG_MAX = 1 << 18, CONFIG_MS = 60000 };

struct link_want {
	struct host_want head;
	const char *all, *gpu, *other, *nics;
};

#define TYPES "infiniband|roce"
static const struct opt keys[] = {
	{"all", 0, OPT_CHOICE, TYPES, "link type of all NICs", offsetof(struct link_want, all), 0,
	 0},
	{"gpu", 0, OPT_CHOICE, TYPES, "link type of NICs below a PCIe switch with a GPU",
	 offsetof(struct link_want, gpu), 0, 0},
	{"other", 0, OPT_CHOICE, TYPES,
	 "link type of the NICs that are not below a PCIe switch with a GPU",
	 offsetof(struct link_want, other), 0, 0},
	{"nics", 0, OPT_STR, "NAME,...",
	 "only these NICs: interfaces, RDMA devices or PCI addresses",
	 offsetof(struct link_want, nics), 0, 0},
	{0},
};
static const char *const env[] = {"RDMA_MODE", "GPU_RDMA_MODE", "OTHER_RDMA_MODE", NULL, NULL};

struct card {
	struct host_nic nic;
	/* what reads the firmware: "fwctl" (of the kernel), "mlxconfig" or "mstconfig"
	 * (programs); NULL: the firmware cannot be read */
	const char *via;
	char reason[256]; /* reason why the firmware cannot be read */
	/* type of each port after the next reset, enum fwctl_link_type; 0: the port does not
	 * exist, has only one type, or its type is unknown */
	int stored[PORTS];
	int running[PORTS];
};

struct link_found {
	struct card *v;
	struct host_nic *nics;
	size_t n, n_nics;
};

static int check(void *want, struct err *e)
{
	const struct link_want *w = want;

	if (w->all && (w->gpu || w->other))
		return err_kind(e, ERR_CONF, -EINVAL,
				"key 'all' excludes the keys 'gpu' and 'other': set 'all' alone, "
				"or one or both of 'gpu' and 'other'");
	if (!w->all && !w->gpu && !w->other)
		return err_kind(e, ERR_CONF, -EINVAL,
				"no link type: set all, or gpu, or other, to infiniband or roce");
	return 0;
}

/* Parses "IB(1)" or "ETH(2)"; returns 0 for any other value. */
static int type_of(struct span word)
{
	if (span_has_prefix(word, "IB"))
		return FWCTL_LINK_IB;
	return span_has_prefix(word, "ETH") ? FWCTL_LINK_ETH : 0;
}

static bool next_word(struct span *line, struct span *ret)
{
	*line = span_trim(*line);
	if (!line->n)
		return false;
	ret->p = line->p;
	for (ret->n = 0; ret->n < line->n && line->p[ret->n] != ' ' && line->p[ret->n] != '\t';)
		ret->n++;
	line->p += ret->n;
	line->n -= ret->n;
	return true;
}

/* Parses "* LINK_TYPE_P1 IB(1) IB(1) ETH(2)": default, current, next boot. Without option -e the
 * program prints only the value of the next boot. */
static void parse_line(struct span line, struct card *c)
{
	struct span word;
	int types[3], n = 0, port;

	if (!next_word(&line, &word))
		return;
	if (span_eq(word, "*") && !next_word(&line, &word))
		return;
	if (!span_has_prefix(word, "LINK_TYPE_P") || word.n != strlen("LINK_TYPE_P1"))
		return;
	port = word.p[word.n - 1] - '1';
	if (port < 0 || port >= PORTS)
		return;
	while (n < 3 && next_word(&line, &word))
		types[n++] = type_of(word);
	if (!n)
		return;
	c->stored[port] = types[n - 1];
	c->running[port] = n == 3 ? types[1] : types[n - 1];
}

static void parse_config(struct span text, struct card *c)
{
	struct span line;

	while (span_cut(&text, '\n', &line))
		parse_line(line, c);
}

static bool by_fwctl(struct host *h, struct card *c)
{
	auto_fwctl struct fwctl f = {.fd = -1};
	struct err e = ERR_INIT;
	enum fwctl_link_type t;

	if (fwctl_open(&f, &h->root, c->nic.pci.bdf, &e) < 0) {
		snprintf(c->reason, sizeof(c->reason), "%.255s", e.text);
		return false;
	}
	for (unsigned int i = 0; i < PORTS; i++) {
		int r = fwctl_link_type_get(&f, i + 1, FWCTL_STORED, &t, &e);

		if (r == -EOPNOTSUPP)
			continue;
		if (r < 0) {
			snprintf(c->reason, sizeof(c->reason), "%.255s", e.text);
			return false;
		}
		c->stored[i] = (int)t;
		c->running[i] = fwctl_link_type_get(&f, i + 1, FWCTL_RUNNING, &t, NULL) < 0
					? c->stored[i]
					: (int)t;
	}
	c->via = "fwctl";
	return true;
}

static bool by_program(struct host *h, const char *program, struct card *c)
{
	char name[16], flag[] = "-e", device[] = "-d", query[] = "q", bdf[PCI_BDF_MAX];
	char *argv[] = {name, flag, device, bdf, query, NULL};
	auto_buf struct buf out;
	struct err e = ERR_INIT;
	int r;

	buf_init(&out, CONFIG_MAX);
	str_copy(name, sizeof(name), program);
	str_copy(bdf, sizeof(bdf), c->nic.pci.bdf);
	if (!host_has_program(h, program))
		return false;
	r = host_run(h, argv, &out, CONFIG_MS, &e);
	if (r != 0) {
		snprintf(c->reason, sizeof(c->reason), "'%s -d %s q' fails: %.180s", program, bdf,
			 r < 0	   ? e.text
			 : out.len ? out.p
				   : "no message");
		c->reason[strcspn(c->reason, "\n")] = '\0';
		return false;
	}
	parse_config(buf_span(&out), c);
	c->via = program;
	return true;
}

static void read_card(struct host *h, struct card *c)
{
	auto_free char *recorded = xasprintf(RECORDED "/%s", c->nic.pci.bdf);
	auto_buf struct buf b;

	buf_init(&b, CONFIG_MAX);
	str_copy(c->reason, sizeof(c->reason),
		 "the snapshot does not contain the settings of the card's firmware");
	if (h->kernel) {
		if (!by_fwctl(h, c) && !by_program(h, "mlxconfig", c))
			by_program(h, "mstconfig", c);
	} else if (file_read(&h->root, recorded, CONFIG_MAX, &b, NULL) == 0) {
		parse_config(buf_span(&b), c);
		c->via = "mlxconfig";
	}
}

/* Returns whether the NIC is the first PCI function of a card of NVIDIA, so that each card is read
 * once. */
static bool is_card(const struct link_found *f, const struct host_nic *nic)
{
	size_t n = strlen(nic->pci.bdf) - 2; /* without ".0" */

	if (nic->pci.vendor != HOST_VENDOR_MELLANOX || host_nic_is_vf(nic))
		return false;
	return !f->n || strncmp(f->v[f->n - 1].nic.pci.bdf, nic->pci.bdf, n) != 0;
}

static int observe(struct host *h, const struct host_wants *w, void **found, struct err *e)
{
	struct link_found *f = xcalloc(1, sizeof(*f));
	int r = host_nics_read(h, &f->nics, &f->n_nics, e);

	(void)w;
	*found = f;
	for (size_t i = 0; r == 0 && i < f->n_nics; i++) {
		struct card c = {.nic = f->nics[i]};

		if (!is_card(f, &f->nics[i]))
			continue;
		read_card(h, &c);
		VEC_PUSH(f->v, f->n) = c;
	}
	return r;
}

static void forget(void *found)
{
	struct link_found *f = found;

	if (f) {
		free(f->v);
		free(f->nics);
	}
	free(f);
}

static const char *type_name(int type)
{
	return type == FWCTL_LINK_IB ? "IB(1)" : type == FWCTL_LINK_ETH ? "ETH(2)" : "unknown";
}

static int wanted_type(const struct link_want *w, const struct host_nic *nic)
{
	const char *word = w->all ? w->all : nic->gpu ? w->gpu : w->other;

	if (!word || (w->nics && !host_nic_listed(nic, w->nics)))
		return 0;
	return !strcmp(word, "infiniband") ? FWCTL_LINK_IB : FWCTL_LINK_ETH;
}

static void fill_op(struct host_op *op, const struct card *c, int port, int type)
{
	host_op_begin(op, "link-type");
	host_op_add(op, "bdf", "%s", c->nic.pci.bdf);
	host_op_add(op, "port", "%d", port + 1);
	host_op_add(op, "type", "%d", type);
	host_op_add(op, "via", "%s", c->via ? c->via : "fwctl");
}

static void decide_port(const struct card *c, int port, int want, struct host_plan *p)
{
	auto_free char *now = NULL, *will = NULL;
	struct host_step *s;

	if (!c->stored[port])
		return;
	if (c->stored[port] == want) {
		if (c->running[port] != want)
			host_plan_remark(
				p, "link-type", c->nic.pci.bdf,
				"LINK_TYPE_P%d is set to %s and %s is in use: reset the firmware "
				"('mlxfwreset -d %s reset') or switch the node off and on",
				port + 1, type_name(want), type_name(c->running[port]),
				c->nic.pci.bdf);
		return;
	}
	now = xasprintf("LINK_TYPE_P%d %s", port + 1, type_name(c->stored[port]));
	will = xasprintf("LINK_TYPE_P%d %s", port + 1, type_name(want));
	s = host_plan_add(p, "link-type", c->nic.pci.bdf);
	host_step_text(s, now, will);
	host_step_command(s, "%s -d %s -y set LINK_TYPE_P%d=%d",
			  !strcmp(c->via, "mstconfig") ? "mstconfig" : "mlxconfig", c->nic.pci.bdf,
			  port + 1, want);
	fill_op(&s->action, c, port, want);
	fill_op(&s->undo, c, port, c->stored[port]);
	s->effect = HOST_POWER_CYCLE;
}

/* Adds a blocked step for a card whose firmware cannot be read, so that the requested link type
 * cannot be set. */
static void decide_unread(const struct card *c, int want, struct host_plan *p)
{
	struct host_step *s = host_plan_add(p, "link-type", c->nic.pci.bdf);

	host_step_text(s, c->nic.infiniband ? "InfiniBand" : "Ethernet",
		       want == FWCTL_LINK_IB ? "InfiniBand" : "Ethernet");
	host_step_command(s, "mlxconfig -d %s -y set LINK_TYPE_P1=%d", c->nic.pci.bdf, want);
	fill_op(&s->action, c, 0, want);
	fill_op(&s->undo, c, 0, c->nic.infiniband ? FWCTL_LINK_IB : FWCTL_LINK_ETH);
	s->effect = HOST_POWER_CYCLE;
	s->lacks_program = true;
	host_step_blocked(s,
			  "%s; without fwctl, install mstflint (mstconfig) or NVIDIA's MFT "
			  "(mlxconfig)",
			  c->reason);
}

static void decide_card(const struct card *c, int want, struct host_plan *p)
{
	bool is = c->nic.infiniband == (want == FWCTL_LINK_IB);

	if (!c->via) {
		if (!is)
			decide_unread(c, want, p);
		return;
	}
	if (!c->stored[0] && !is)
		host_plan_remark(p, "link-type", c->nic.pci.bdf,
				 "this card has only one link type: %s",
				 c->nic.infiniband ? "InfiniBand" : "Ethernet");
	for (int i = 0; i < PORTS; i++)
		decide_port(c, i, want, p);
}

static int decide(const struct host_wants *w, const void *found, struct host_plan *p, struct err *e)
{
	const struct link_found *f = found;

	for (size_t i = 0; i < w->n; i++) {
		const struct link_want *one = (const struct link_want *)w->v[i];
		int r = host_nics_check_list(f->nics, f->n_nics, "nics", one->nics, e);

		if (r < 0)
			return r;
		for (size_t k = 0; k < f->n; k++) {
			int want = wanted_type(one, &f->v[k].nic);

			if (want)
				decide_card(&f->v[k], want, p);
		}
	}
	if (w->n && !f->n)
		host_plan_remark(p, "link-type", "host", "this host has no NIC of NVIDIA");
	return 0;
}

static int set_by_program(struct host *h, const char *program, const char *bdf, uint64_t port,
			  uint64_t type, struct err *e)
{
	char name[16], device[] = "-d", yes[] = "-y", set[] = "set", dev[PCI_BDF_MAX], value[24];
	char *argv[] = {name, device, dev, yes, set, value, NULL};
	auto_buf struct buf out;
	int r;

	buf_init(&out, CONFIG_MAX);
	str_copy(name, sizeof(name), program);
	str_copy(dev, sizeof(dev), bdf);
	snprintf(value, sizeof(value), "LINK_TYPE_P%u=%u", (unsigned int)port, (unsigned int)type);
	r = host_run(h, argv, &out, CONFIG_MS, e);
	if (r <= 0)
		return r;
	return err_kind(e, ERR_UNAVAILABLE, -EIO, "'%s -d %s set %s' fails: %.300s", program, bdf,
			value, out.len ? out.p : "no message");
}

static int act(struct host *h, const struct host_op *op, struct err *e)
{
	const char *bdf = host_op_get(op, "bdf"), *via = host_op_get(op, "via");
	auto_fwctl struct fwctl f = {.fd = -1};
	uint64_t port, type;
	int r = host_op_number(op, "port", 1, PORTS, &port, e);

	if (r >= 0)
		r = host_op_number(op, "type", FWCTL_LINK_IB, FWCTL_LINK_ETH, &type, e);
	if (r < 0)
		return r;
	if (!bdf || !pci_bdf_ok(bdf))
		return err_kind(e, ERR_CONF, -EINVAL,
				"operation '%s': argument 'bdf' is missing or is not a PCI address",
				op->verb);
	if (via && (!strcmp(via, "mlxconfig") || !strcmp(via, "mstconfig")))
		return set_by_program(h, via, bdf, port, type, e);
	r = fwctl_open(&f, &h->root, bdf, e);
	return r < 0 ? r
		     : fwctl_link_type_set(&f, (unsigned int)port,
					   type == FWCTL_LINK_IB ? FWCTL_LINK_IB : FWCTL_LINK_ETH,
					   e);
}

/* Compares the stored type. If the card cannot be read any more, returns 1, so that the undo runs
 * and reports the reason. */
static int in_effect(struct host *h, const struct host_op *op, struct err *e)
{
	const char *bdf = host_op_get(op, "bdf");
	struct card c = {.via = NULL};
	uint64_t port, type;

	if (!bdf || pci_read(&h->root, bdf, &c.nic.pci, NULL) < 0 ||
	    host_op_number(op, "port", 1, PORTS, &port, e) < 0 ||
	    host_op_number(op, "type", FWCTL_LINK_IB, FWCTL_LINK_ETH, &type, e) < 0) {
		err_clear(e);
		return 1;
	}
	read_card(h, &c);
	return !c.stored[port - 1] || c.stored[port - 1] == (int)type;
}

static void show(const void *found, struct host_rows *rows)
{
	const struct link_found *f = found;

	for (size_t i = 0; i < f->n; i++) {
		const struct card *c = &f->v[i];

		host_rows_add(rows, c->nic.pci.bdf, "link-type", "%s, %s%s%s",
			      c->nic.infiniband ? "infiniband" : "roce",
			      c->nic.gpu ? "gpu" : "other", c->via ? "" : ": ",
			      c->via ? "" : c->reason);
		for (int k = 0; k < PORTS; k++) {
			char key[24];

			snprintf(key, sizeof(key), "LINK_TYPE_P%d", k + 1);
			if (c->stored[k])
				host_rows_add(rows, c->nic.pci.bdf, key, "%s in use, %s stored",
					      type_name(c->running[k]), type_name(c->stored[k]));
		}
	}
}

const struct host_kind host_link_type = {
	.name = "link-type",
	.section = "link-type",
	.help = "InfiniBand or Ethernet, in the firmware of NVIDIA's NICs",
	.keys = keys,
	.env = env,
	.size = sizeof(struct link_want),
	.check = check,
	.observe = observe,
	.forget = forget,
	.decide = decide,
	.act = act,
	.in_effect = in_effect,
	.show = show,
};
