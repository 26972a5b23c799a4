/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/rdma.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/table.h"
#include "cli/cli.h"
#include "kern/rdma/rdma.h"
#include "wire/json/json.h"

/* `unirail rdma`: the RDMA devices of this namespace, and how namespaces share them. */

enum { OUT_MAX = 1 << 20 };

#define NO_RDMA "the kernel has no RDMA (module ib_core is not loaded, or not built)"

struct rdma_opts {
	const char *output;
};

static const struct opt opts[] = {
	{"output", 'o', OPT_CHOICE, "text|json", "output format",
	 offsetof(struct rdma_opts, output), 0, 0},
	{0},
};

/* `link` and `system` are iproute2's commands, as is "show" after each of them. */
const struct cmd rdma_cmds[] = {
	{"dev", "[show]", "devices and ports, and whether libibverbs can use them", opts, 0, 1},
	{"link", "[show]", "the same as 'rdma dev': each port is listed with its device", opts, 0,
	 1},
	{"mode", "[show]", "whether network namespaces share RDMA devices or own them", opts, 0, 1},
	{"system", "[show]", "the same as 'rdma mode'", opts, 0, 1},
	{0},
};

static bool is_mode(const struct cmd *c)
{
	return !strcmp(c->name, "mode") || !strcmp(c->name, "system");
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

/* name NULL: no RDMA */
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

	/* A kernel without the mode shares its devices. */
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

static int read_words(int argc, char **argv, struct rdma_opts *o, const struct cmd **ret,
		      struct err *e)
{
	auto_free char *prog = NULL;
	int words, at, r = cmd_pick("unirail rdma", rdma_cmds, argc, argv, ret, &words, e);

	if (r < 0)
		return r;
	prog = xasprintf("unirail rdma %s", (*ret)->name);
	argc -= 1 + words;
	argv += 1 + words;
	at = opt_parse(*ret, prog, argc, argv, o, e);
	if (at >= 0 && at < argc && strcmp(argv[at], "show"))
		return err_set(e, -EINVAL, "%s: unknown operand '%s', expected 'show'",
			       (*ret)->name, argv[at]);
	return at;
}

int rdma_main(int argc, char **argv)
{
	struct rdma_opts o = {.output = "text"};
	const struct cmd *c = NULL;
	struct err e = ERR_INIT;
	int r = read_words(argc, argv, &o, &c, &e);
	bool json;

	if (r < 0)
		return opt_exit("unirail rdma", r, &e);
	json = !strcmp(o.output, "json");
	r = is_mode(c) ? show_mode(json, &e) : show_dev(json, &e);
	if (r < 0) {
		fprintf(stderr, "unirail rdma: %s\n", e.text);
		return 1;
	}
	return r;
}

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
