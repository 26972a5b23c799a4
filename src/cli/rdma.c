/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/rdma.h"

#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/num.h"
#include "base/table.h"
#include "cli/cli.h"
#include "cli/rdma_show.h"
#include "kern/rdma/rdma.h"
#include "wire/json/json.h"

/* `unirail rdma`: iproute2's commands rdma dev, link, system and statistic, as far as they only
 * read, in iproute2's layout (rdma_show); and the commands `list` and `mode`, which iproute2
 * does not have. */

enum { OUT_MAX = 64 << 20, FILTERS = 8 };

#define NO_RDMA                                                                                    \
	"the kernel has no RDMA: module ib_core is not loaded, or the kernel was built without it"

struct rdma_opts {
	const char *output;
	struct rdma_format format;
};

static const struct opt own_opts[] = {
	{"output", 'o', OPT_CHOICE, "text|json", "output format",
	 offsetof(struct rdma_opts, output), 0, 0},
	{0},
};
static const struct opt show_opts[] = {
	{"json", 'j', OPT_FLAG, NULL, "JSON", offsetof(struct rdma_opts, format.json), 0, 0},
	{"pretty", 'p', OPT_FLAG, NULL, "indented JSON; in text, each counter on its own line",
	 offsetof(struct rdma_opts, format.pretty), 0, 0},
	{"details", 'd', OPT_FLAG, NULL, "also print capabilities and other details",
	 offsetof(struct rdma_opts, format.details), 0, 0},
	{0},
};

/* The commands before "list" are iproute2's and may be abbreviated as in iproute2 (`rdma stat`). */
const struct cmd rdma_cmds[] = {
	{"dev", "[show [DEVICE]]", "devices, as iproute2's rdma prints them", show_opts, 0, 2},
	{"link", "[show [DEVICE[/PORT]]]", "ports of devices, as iproute2's rdma prints them",
	 show_opts, 0, 2},
	{"system", "[show [netns]]", "the namespace mode, as iproute2's rdma prints it", show_opts,
	 0, 2},
	{"statistic", "[qp|mr] [show|mode] [link [DEVICE[/PORT]]] [FILTER VALUE]...",
	 "hardware counters of ports, queue pairs (qp) or memory regions (mr), as iproute2's rdma "
	 "prints them; filters of qp: cntn, lqpn, pid, qp-type; of mr: mrn",
	 show_opts, 0, 4 + 2 * FILTERS},
	{"list", NULL, "devices and ports, and whether libibverbs can use them", own_opts, 0, 0},
	{"mode", "[show]", "whether network namespaces share RDMA devices or own them", own_opts, 0,
	 1},
	{0},
};

static bool is_cmd(const struct cmd *c, const char *name)
{
	return !strcmp(c->name, name);
}

static int dev_text(const struct rdma_dev *list, size_t n, bool supported)
{
	if (!supported)
		puts(NO_RDMA);
	else if (!n)
		puts("no RDMA devices in this network namespace");
	else
		rdma_show_text(list, n, stdout);
	return 0;
}

static int dev_json(const struct rdma_dev *list, size_t n)
{
	auto_buf struct buf b;

	buf_init(&b, OUT_MAX);
	rdma_show_json(list, n, &b);
	return opt_print(&b);
}

static int show_dev(bool json, struct err *e)
{
	auto_free struct rdma_dev *list = NULL;
	bool supported;
	size_t n;
	int r = rdma_dev_list(&list, &n, &supported, e);

	if (r < 0)
		return r;
	return json ? dev_json(list, n) : dev_text(list, n, supported);
}

/* name NULL: the kernel does not support RDMA */
static int mode_json(const char *name)
{
	auto_buf struct buf b = {0};
	struct json_out o;

	buf_init(&b, OUT_MAX);
	jo_init(&o, &b, 4);
	jo_obj(&o);
	jo_kbool(&o, "supported", name != NULL);
	jo_kstr(&o, "mode", name);
	jo_end_obj(&o);
	buf_char(&b, '\n');
	return opt_print(&b);
}

static int show_mode(bool json, struct err *e)
{
	enum rdma_netns_mode mode = RDMA_NETNS_SHARED;
	int r = rdma_netns_mode_get(&mode, e);
	const char *name = mode == RDMA_NETNS_SHARED ? "shared" : "exclusive";

	/* A kernel without namespace modes shares RDMA devices. */
	if (r < 0 && r != -EPROTONOSUPPORT && r != -EOPNOTSUPP)
		return r;
	if (r == -EPROTONOSUPPORT)
		name = NULL;
	if (json)
		return mode_json(name);
	if (!name)
		puts(NO_RDMA);
	else if (mode == RDMA_NETNS_SHARED)
		puts("shared: every network namespace sees every RDMA device");
	else
		puts("exclusive: an RDMA device is seen only in the network namespace that owns it");
	return 0;
}

/* --- iproute2's commands --- */

enum object { OBJECT_PORT, OBJECT_QP, OBJECT_MR };

/* Names of the objects of `statistic`; "link" is iproute2's word for a port. */
static const char *const objects[] = {"link", "qp", "mr"};

/* A filter of `statistic qp` or `statistic mr`: "cntn 4-6,9", "qp-type RC". */
struct filter {
	const char *name, *value;
};

static const struct filter_def {
	const char *name;
	enum object object;
	bool is_text;
} filter_defs[] = {
	{"cntn", OBJECT_QP, false},   {"lqpn", OBJECT_QP, false}, {"pid", OBJECT_QP, false},
	{"qp-type", OBJECT_QP, true}, {"mrn", OBJECT_MR, false},
};

/* The devices to show: all (device ""), one device, or one port of a device. */
struct selection {
	char device[RDMA_NAME_MAX];
	uint64_t port; /* 0: all */
	/* of `statistic` */
	enum object object;
	/* command `statistic qp mode`: shows how ports assign queue pairs to counters */
	bool mode;
	struct filter filters[FILTERS];
	size_t n_filters;
};

static bool is_selected(const struct selection *s, const char *device)
{
	return !s->device[0] || !strcmp(s->device, device);
}

/* "mlx5_0", "mlx5_0/1" */
static int read_device(const char *text, bool with_port, struct selection *s, struct err *e)
{
	struct span rest = span_of(text), name;

	span_cut(&rest, '/', &name);
	if (!with_port && rest.p)
		return err_set(e, -EINVAL, "'%s': expected a device without a port", text);
	if (!name.n || name.n >= sizeof(s->device) ||
	    (rest.p && rest.n && num_u64(rest, 1, UINT32_MAX, &s->port) < 0))
		return err_set(e, -EINVAL, "'%s': expected DEVICE%s", text,
			       with_port ? " or DEVICE/PORT" : "");
	memcpy(s->device, name.p, name.n);
	s->device[name.n] = '\0';
	return 0;
}

/* Returns whether `word` is an abbreviation of `name`. */
static bool is_short_for(const char *word, const char *name)
{
	return word[0] && !strncmp(word, name, strlen(word));
}

static bool is_show(const char *word)
{
	return is_short_for(word, "show") || !strcmp(word, "list");
}

/* Returns whether `v` is in a list such as "4", "4,7" or "4-6,9". Sets *ok to whether the list is
 * valid. */
static bool in_list(const char *list, uint64_t v, bool *ok)
{
	struct span rest = span_of(list), one;
	bool found = false;

	*ok = true;
	while (rest.p && *ok) {
		struct span from;
		uint64_t min, max;

		span_cut(&rest, ',', &one);
		span_cut(&one, '-', &from);
		*ok = num_u64(from, 0, UINT32_MAX, &min) == 0;
		max = min;
		if (*ok && one.p)
			*ok = num_u64(one, min, UINT32_MAX, &max) == 0;
		found |= *ok && v >= min && v <= max;
	}
	return found;
}

static int read_filter(const char *name, const char *value, struct selection *s, struct err *e)
{
	const struct filter_def *f = NULL;
	bool ok;

	for (size_t i = 0; i < ARRAY_LEN(filter_defs) && !f; i++)
		if (filter_defs[i].object == s->object && is_short_for(name, filter_defs[i].name))
			f = &filter_defs[i];
	if (!f)
		return err_set(e, -EINVAL, "statistic: unknown operand '%s', expected %s", name,
			       s->object == OBJECT_QP ? "'show', 'mode', 'link' or a filter (cntn, "
							"lqpn, pid, qp-type)"
			       : s->object == OBJECT_MR ? "'show' or the filter mrn"
							: "'link', 'qp' or 'mr'");
	if (!value)
		return err_set(e, -EINVAL, "statistic: filter '%s': no value", f->name);
	in_list(value, 0, &ok);
	if (!f->is_text && !ok)
		return err_set(e, -EINVAL,
			       "statistic: filter '%s': '%s' is not a list of numbers like 4,7-9",
			       f->name, value);
	if (s->n_filters == FILTERS)
		return err_set(e, -EINVAL, "statistic: more than %d filters", FILTERS);
	s->filters[s->n_filters++] = (struct filter){f->name, value};
	return 0;
}

/* Reads the operands [show] [qp|mr] [show|mode] [link [DEVICE[/PORT]]] [FILTER VALUE]... */
static int read_statistic(int argc, char **argv, struct selection *s, struct err *e)
{
	int i = 0, r = 0;

	if (i < argc && is_show(argv[i]))
		i++;
	for (enum object o = OBJECT_QP; i < argc && o <= OBJECT_MR && !s->object; o++)
		if (!strcmp(argv[i], objects[o])) {
			s->object = o;
			i++;
		}
	if (s->object == OBJECT_QP && i < argc && is_short_for(argv[i], "mode")) {
		s->mode = true;
		i++;
	} else if (s->object && i < argc && is_show(argv[i])) {
		i++;
	}
	if (s->object != OBJECT_MR && i < argc && is_short_for(argv[i], "link")) {
		i++;
		if (i < argc)
			r = read_device(argv[i++], true, s, e);
	}
	if (r == 0 && s->mode && i < argc)
		return err_set(e, -EINVAL,
			       "statistic: unknown operand '%s', expected only 'link "
			       "[DEVICE[/PORT]]' after 'mode'",
			       argv[i]);
	for (; r == 0 && i < argc; i += 2)
		r = read_filter(argv[i], i + 1 < argc ? argv[i + 1] : NULL, s, e);
	return r;
}

static int read_operands(const struct cmd *c, int argc, char **argv, struct selection *s,
			 struct err *e)
{
	int i = 0;

	if (is_cmd(c, "statistic"))
		return read_statistic(argc, argv, s, e);
	if (argc == 0)
		return 0;
	if (!is_show(argv[0]))
		return err_set(e, -EINVAL, "%s: unknown operand '%s', expected 'show'", c->name,
			       argv[0]);
	i++;
	if (i < argc && is_cmd(c, "system"))
		return is_short_for(argv[i], "netns")
			       ? 0
			       : err_set(e, -EINVAL, "%s: unknown operand '%s', expected 'netns'",
					 c->name, argv[i]);
	return i < argc ? read_device(argv[i], !is_cmd(c, "dev"), s, e) : 0;
}

static int show_links(struct nl_wire *w, const struct rdma_view_dev *d, const struct selection *s,
		      struct rdma_out *o, size_t *shown, struct err *e)
{
	auto_free struct rdma_view_link *list = NULL;
	size_t n;
	int r = rdma_nl_view_links(w, d, &list, &n, e);

	for (size_t i = 0; r == 0 && i < n; i++)
		if (!s->port || s->port == list[i].port) {
			rdma_out_link(o, &list[i]);
			(*shown)++;
		}
	return r;
}

/*
 * Skips devices without hardware counters; iproute2 stops with an error at the first of them. If
 * the user names the device, missing counters are an error here as well.
 */
static int show_counters(struct nl_wire *w, const struct rdma_view_dev *d,
			 const struct selection *s, struct rdma_out *o, size_t *shown,
			 struct err *e)
{
	int r = 0;

	for (uint32_t port = 1; r == 0 && port <= d->n_ports; port++) {
		auto_free struct rdma_count *list = NULL;
		size_t n;

		if (s->port && s->port != port)
			continue;
		(*shown)++;
		r = rdma_nl_stats(w, d->index, port, &list, &n, e);
		if (r == 0)
			rdma_out_counters(o, d->name, port, list, n);
		else if (r == -EOPNOTSUPP && s->device[0])
			return err_set(e, r,
				       "RDMA device '%s' port %u: its driver has no hardware "
				       "counters",
				       d->name, port);
		else if (r == -EOPNOTSUPP) {
			err_clear(e);
			r = 0;
		}
	}
	return r;
}

/* Returns whether the counter passes this filter. For "lqpn" one of its queue pairs must match. */
static bool passes(const struct rdma_stat *st, const struct filter *f)
{
	bool ok;

	if (!strcmp(f->name, "qp-type"))
		return st->qp_type >= 0 && !strcasecmp(f->value, rdma_qp_type(st->qp_type));
	if (!strcmp(f->name, "pid"))
		return in_list(f->value, st->pid, &ok);
	if (strcmp(f->name, "lqpn") != 0)
		return in_list(f->value, st->id, &ok);
	for (size_t i = 0; i < st->n_qps; i++)
		if (in_list(f->value, st->qps[i], &ok))
			return true;
	return false;
}

static bool passes_all(const struct rdma_stat *st, const struct selection *s)
{
	for (size_t i = 0; i < s->n_filters; i++)
		if (!passes(st, &s->filters[i]))
			return false;
	return true;
}

static void out_qp_counters(struct rdma_out *o, const struct rdma_view_dev *d,
			    const struct rdma_stat *st)
{
	struct root host = {.fd = -1};
	char path[40], comm[32];
	bool known = false;

	if (st->pid && root_open(&host, NULL, NULL) == 0) {
		snprintf(path, sizeof(path), "/proc/%" PRIu32 "/comm", st->pid);
		known = file_read_line(&host, path, comm, sizeof(comm), NULL) >= 0;
		root_close(&host);
	}
	rdma_out_qp_counters(o, d, st, known ? comm : NULL);
}

static int show_qp_counters(struct nl_wire *w, const struct rdma_view_dev *d,
			    const struct selection *s, struct rdma_out *o, size_t *shown,
			    struct err *e)
{
	int r = 0;

	for (uint32_t port = 1; r == 0 && port <= d->n_ports; port++) {
		struct rdma_stat *list = NULL;
		uint32_t mode;
		size_t n = 0;

		if (s->port && s->port != port)
			continue;
		(*shown)++;
		if (s->mode) {
			r = rdma_nl_qp_stat_mode(w, d->index, port, &mode, e);
			if (r == 0)
				rdma_out_qp_mode(o, d, port, mode);
			continue;
		}
		r = rdma_nl_qp_stats(w, d->index, port, &list, &n, e);
		for (size_t i = 0; i < n; i++)
			if (passes_all(&list[i], s))
				out_qp_counters(o, d, &list[i]);
		rdma_stats_free(list, n);
	}
	return r;
}

static int show_mr_counters(struct nl_wire *w, const struct rdma_view_dev *d,
			    const struct selection *s, struct rdma_out *o, struct err *e)
{
	struct rdma_stat *list = NULL;
	size_t n = 0;
	int r = rdma_nl_mr_stats(w, d->index, &list, &n, e);

	for (size_t i = 0; i < n; i++)
		if (passes_all(&list[i], s))
			rdma_out_mr_counters(o, d, &list[i]);
	rdma_stats_free(list, n);
	return r;
}

static int show_objects(const struct cmd *c, struct nl_wire *w, const struct selection *s,
			struct rdma_out *o, struct err *e)
{
	auto_free struct rdma_view_dev *list = NULL;
	size_t n = 0, shown = 0;
	int r = rdma_nl_view_devs(w, &list, &n, e);

	for (size_t i = 0; r == 0 && i < n; i++) {
		if (!is_selected(s, list[i].name))
			continue;
		if (is_cmd(c, "link")) {
			r = show_links(w, &list[i], s, o, &shown, e);
		} else if (s->object == OBJECT_QP) {
			r = show_qp_counters(w, &list[i], s, o, &shown, e);
		} else if (s->object == OBJECT_MR) {
			r = show_mr_counters(w, &list[i], s, o, e);
		} else if (is_cmd(c, "statistic")) {
			r = show_counters(w, &list[i], s, o, &shown, e);
		} else {
			rdma_out_dev(o, &list[i]);
			shown++;
		}
	}
	if (r == 0 && !shown && s->port)
		return err_set(e, -ENODEV,
			       "RDMA device '%s' does not exist or has no port %u: 'unirail rdma "
			       "link' lists devices and ports",
			       s->device, (unsigned int)s->port);
	if (r == 0 && !shown && s->device[0])
		return err_set(
			e, -ENODEV,
			"RDMA device '%s' does not exist: 'unirail rdma dev' lists the devices",
			s->device);
	return r;
}

static int show_system(struct nl_wire *w, struct rdma_out *o, struct err *e)
{
	struct rdma_view_system s;
	int r = rdma_nl_view_system(w, &s, e);

	if (r == 0)
		rdma_out_system(o, &s);
	return r;
}

static int show(const struct cmd *c, const struct rdma_format *f, const struct selection *s,
		struct err *e)
{
	auto_nl struct nl_wire *w = NULL;
	auto_buf struct buf b;
	struct rdma_out o;
	int r = nl_open(&w, NL_RDMA, -1, e);

	buf_init(&b, OUT_MAX);
	if (r == -EPROTONOSUPPORT)
		return err_set(e, r, NO_RDMA);
	if (r < 0)
		return r;
	rdma_out_begin(&o, f, &b);
	r = is_cmd(c, "system") ? show_system(w, &o, e) : show_objects(c, w, s, &o, e);
	if (r < 0)
		return r;
	rdma_out_end(&o);
	return opt_print(&b);
}

/* --- options and operands --- */

/* Returns whether the word consists of iproute2's one-letter options: "-j", or several combined
 * as in "-jd". */
static bool is_letters(const char *word)
{
	return word[0] == '-' && word[1] && strspn(word + 1, "jpd") == strlen(word + 1);
}

static const char *option_of(char letter)
{
	return letter == 'j' ? "-j" : letter == 'p' ? "-p" : "-d";
}

static const char *whole_word(const char *word)
{
	for (const struct cmd *c = rdma_cmds; c->name && strcmp(c->name, "list") != 0; c++)
		if (is_short_for(word, c->name))
			return c->name;
	return word;
}

struct args {
	const char **v;
	size_t n;
};

/* Puts the command first, in full ("statistic" for "stat"), and splits combined options ("-jd"). */
static struct args spread(int argc, char **argv)
{
	struct args to = {NULL, 0};
	int at = 1;

	VEC_PUSH(to.v, to.n) = argv[0];
	while (at < argc && (is_letters(argv[at]) || !strcmp(argv[at], "--json") ||
			     !strcmp(argv[at], "--pretty") || !strcmp(argv[at], "--details")))
		at++;
	if (at < argc)
		VEC_PUSH(to.v, to.n) = !strcmp(argv[at], "list") ? argv[at] : whole_word(argv[at]);
	for (int i = 1; i < argc; i++) {
		if (i == at)
			continue;
		if (!is_letters(argv[i]))
			VEC_PUSH(to.v, to.n) = argv[i];
		else
			for (const char *p = argv[i] + 1; *p; p++)
				VEC_PUSH(to.v, to.n) = option_of(*p);
	}
	return to;
}

static int read_args(int argc, char **argv, struct rdma_opts *o, const struct cmd **ret,
		     struct selection *s, struct err *e)
{
	auto_free char *prog = NULL;
	int used, at, r = cmd_pick("unirail rdma", rdma_cmds, argc, argv, ret, &used, e);

	if (r < 0)
		return r;
	prog = xasprintf("unirail rdma %s", (*ret)->name);
	argc -= 1 + used;
	argv += 1 + used;
	at = opt_parse(*ret, prog, argc, argv, o, e);
	if (at < 0)
		return at;
	return read_operands(*ret, argc - at, argv + at, s, e);
}

static int run(const struct cmd *c, const struct rdma_opts *o, const struct selection *s,
	       struct err *e)
{
	bool json = !strcmp(o->output, "json");

	if (is_cmd(c, "list"))
		return show_dev(json, e);
	return is_cmd(c, "mode") ? show_mode(json, e) : show(c, &o->format, s, e);
}

int rdma_main(int argc, char **argv)
{
	struct rdma_opts o = {.output = "text"};
	struct args all = spread(argc, argv);
	struct selection s = {.port = 0};
	const struct cmd *c = NULL;
	struct err e = ERR_INIT;
	int r = read_args((int)all.n, (char **)all.v, &o, &c, &s, &e);

	if (r < 0) {
		r = opt_exit("unirail rdma", r, &e);
	} else {
		r = run(c, &o, &s, &e);
		if (r < 0) {
			fprintf(stderr, "unirail rdma: %s\n", e.text);
			r = 1;
		}
	}
	free(all.v);
	return r;
}

/* --- output of the command `list` --- */

static const char *link_of(const struct rdma_dev *d, const struct rdma_port *p)
{
	return p->link_layer[0] ? p->link_layer : d->protocol;
}

static void add_number(struct columns *c, unsigned int v)
{
	if (v)
		columns_addf(c, "%u", v);
	else
		columns_add(c, NULL);
}

static void add_row(struct columns *c, const struct rdma_dev *d, const struct rdma_port *p)
{
	columns_add(c, d->name);
	columns_addf(c, "%u", p->port);
	columns_add(c, rdma_port_state_name(p->state));
	columns_add(c, link_of(d, p));
	columns_add(c, p->netdev);
	add_number(c, p->active_mtu);
	add_number(c, (unsigned int)p->gid_count);
	columns_add(c, d->driver);
	columns_add(c, d->fw);
	if (d->reason[0])
		columns_addf(c, "no: %s", d->reason);
	else
		columns_add(c, "yes");
}

static void print_table(const struct rdma_dev *list, size_t n, FILE *f)
{
	static const char *const head[] = {"DEVICE", "PORT", "STATE",  "LINK",	   "NETDEV",
					   "MTU",    "GIDS", "DRIVER", "FIRMWARE", "VERBS"};
	auto_columns struct columns c;

	columns_init(&c, ARRAY_LEN(head), "");
	for (size_t i = 0; i < ARRAY_LEN(head); i++)
		columns_add(&c, head[i]);
	for (size_t i = 0; i < n; i++)
		for (size_t k = 0; k < RDMA_PORTS_MAX; k++)
			if (list[i].ports[k].port)
				add_row(&c, &list[i], &list[i].ports[k]);
	columns_print(&c, f);
}

void rdma_show_text(const struct rdma_dev *list, size_t n, FILE *f)
{
	size_t unusable = 0;

	print_table(list, n, f);
	for (size_t i = 0; i < n; i++)
		unusable += list[i].reason[0] != '\0';
	if (unusable)
		fprintf(f, "%zu of %zu devices are not usable by verbs\n", unusable, n);
}

static void json_guid(struct json_out *o, const char *key, uint64_t guid)
{
	char text[24];

	snprintf(text, sizeof(text), "%04x:%04x:%04x:%04x", (unsigned int)(guid >> 48),
		 (unsigned int)(guid >> 32 & 0xffff), (unsigned int)(guid >> 16 & 0xffff),
		 (unsigned int)(guid & 0xffff));
	jo_kstr(o, key, text);
}

static void json_port(struct json_out *o, const struct rdma_dev *d, const struct rdma_port *p)
{
	jo_obj(o);
	jo_kint(o, "port", p->port);
	jo_kstr(o, "state", rdma_port_state_name(p->state));
	jo_kstr(o, "physState", rdma_port_phys_state_name(p->phys_state));
	jo_kstr(o, "link", link_of(d, p));
	jo_kstr(o, "netdev", p->netdev);
	jo_kint(o, "lid", p->lid);
	jo_kint(o, "smLid", p->sm_lid);
	jo_kint(o, "mtu", p->active_mtu);
	jo_kint(o, "gids", p->gid_count);
	jo_end_obj(o);
}

static void json_dev(struct json_out *o, const struct rdma_dev *d)
{
	jo_obj(o);
	jo_kstr(o, "name", d->name);
	jo_kint(o, "index", d->index);
	jo_kstr(o, "driver", d->driver);
	jo_kstr(o, "protocol", d->protocol);
	jo_kstr(o, "firmware", d->fw);
	json_guid(o, "nodeGuid", d->node_guid);
	json_guid(o, "sysImageGuid", d->sys_image_guid);
	jo_kstr(o, "uverbs", d->uverbs);
	jo_kbool(o, "inVerbs", d->in_verbs);
	jo_kstr(o, "notUsableByVerbs", d->reason);
	jo_key(o, "ports");
	jo_arr(o);
	for (size_t k = 0; k < RDMA_PORTS_MAX; k++)
		if (d->ports[k].port)
			json_port(o, d, &d->ports[k]);
	jo_end_arr(o);
	jo_end_obj(o);
}

void rdma_show_json(const struct rdma_dev *list, size_t n, struct buf *b)
{
	struct json_out o;

	jo_init(&o, b, 4);
	jo_arr(&o);
	for (size_t i = 0; i < n; i++)
		json_dev(&o, &list[i]);
	jo_end_arr(&o);
	buf_char(b, '\n');
}
