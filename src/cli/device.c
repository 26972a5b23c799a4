/* SPDX-License-Identifier: Apache-2.0 */
/* `unirail device`: which devices this node has, and which pod holds which. */
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "device/podres.h"
#include "base/columns.h"
#include "cli/device_show.h"
#include "cli/tools.h"
#include "wire/json/json.h"

enum { OUT_MAX = 64 << 20, CELL_MAX = 64 << 10 };

struct device_opts {
	const char *socket, *output, *root;
	int64_t timeout_ms;
};

static const struct opt list_opts[] = {
	{"root", 0, OPT_STR, "DIR", "root directory of another host ('unirail doctor --unpack')",
	 offsetof(struct device_opts, root), 0, 0},
	{"output", 'o', OPT_CHOICE, "text|json", "output format",
	 offsetof(struct device_opts, output), 0, 0},
	{0},
};

static const struct opt pods_opts[] = {
	{"socket", 0, OPT_STR, "PATH", "path of the kubelet's socket (" PODRES_SOCKET ")",
	 offsetof(struct device_opts, socket), 0, 0},
	{"timeout", 0, OPT_DUR, "TIME", "maximum time to wait for the kubelet (5s)",
	 offsetof(struct device_opts, timeout_ms), 1, PODRES_TIMEOUT_MAX_MS},
	{"output", 'o', OPT_CHOICE, "text|json", "output format",
	 offsetof(struct device_opts, output), 0, 0},
	{0},
};

const struct cmd device_cmds[] = {
	{"list", NULL, "PFs and VFs: netdevs, RDMA devices, GIDs, settings, and the pod of a VF",
	 list_opts, 0, 0},
	{"pods", NULL, "the devices of each pod, as allocated by the kubelet", pods_opts, 0, 0},
	{0},
};

static void add_joined(struct columns *c, char *const *words, size_t n)
{
	auto_buf struct buf b;

	buf_init(&b, CELL_MAX);
	for (size_t i = 0; i < n; i++)
		buf_printf(&b, "%s%s", i ? "," : "", words[i]);
	columns_add(c, b.p);
}

static void add_rows(struct columns *c, const struct podres_pod *p,
		     const struct podres_container *k)
{
	for (size_t i = 0; i < k->n_devices; i++) {
		columns_addf(c, "%s/%s", p->ns, p->name);
		columns_add(c, k->name);
		columns_add(c, k->devices[i].resource);
		add_joined(c, k->devices[i].ids, k->devices[i].n_ids);
	}
}

static int pods_text(const struct podres_list *l)
{
	auto_columns struct columns c;

	columns_init(&c, 4, "");
	columns_add(&c, "POD");
	columns_add(&c, "CONTAINER");
	columns_add(&c, "RESOURCE");
	columns_add(&c, "DEVICES");
	for (size_t i = 0; i < l->n_pods; i++)
		for (size_t k = 0; k < l->pods[i].n_containers; k++)
			add_rows(&c, &l->pods[i], &l->pods[i].containers[k]);
	if (c.n_cells == c.n)
		printf("no container of %zu pods on this node holds a device\n", l->n_pods);
	else
		columns_print(&c, stdout);
	return 0;
}

static void json_row(struct json_out *o, const struct podres_pod *p,
		     const struct podres_container *k, const struct podres_devices *d)
{
	jo_obj(o);
	jo_kstr(o, "namespace", p->ns);
	jo_kstr(o, "pod", p->name);
	jo_kstr(o, "container", k->name);
	jo_kstr(o, "resource", d->resource);
	jo_key(o, "devices");
	jo_arr(o);
	for (size_t i = 0; i < d->n_ids; i++)
		jo_str(o, d->ids[i]);
	jo_end_arr(o);
	jo_key(o, "numaNodes");
	jo_arr(o);
	for (size_t i = 0; i < d->n_nodes; i++)
		jo_int(o, d->nodes[i]);
	jo_end_arr(o);
	jo_end_obj(o);
}

static int pods_json(const struct podres_list *l)
{
	auto_buf struct buf b;
	struct json_out o;

	buf_init(&b, OUT_MAX);
	jo_init(&o, &b, 4);
	jo_arr(&o);
	for (size_t i = 0; i < l->n_pods; i++) {
		const struct podres_pod *p = &l->pods[i];

		for (size_t k = 0; k < p->n_containers; k++)
			for (size_t d = 0; d < p->containers[k].n_devices; d++)
				json_row(&o, p, &p->containers[k], &p->containers[k].devices[d]);
	}
	jo_end_arr(&o);
	buf_char(&b, '\n');
	return help_put(&b);
}

static int show_pods(const struct device_opts *o, bool json, struct err *e)
{
	auto_podres struct podres_list list = {0};
	int r = podres_get(o->socket, (int)o->timeout_ms, &list, e);

	if (r < 0)
		return r;
	return json ? pods_json(&list) : pods_text(&list);
}

int device_main(int argc, char **argv)
{
	struct device_opts o = {
		.socket = PODRES_SOCKET, .output = "text", .timeout_ms = PODRES_TIMEOUT_MS};
	const struct cmd *c = NULL;
	struct err e = ERR_INIT;
	bool pods, json;
	int words, r = cmd_pick("unirail device", device_cmds, argc, argv, &c, &words, &e);

	pods = c && strcmp(c->name, "pods") == 0;
	if (r == 0)
		r = opt_parse(c, pods ? "unirail device pods" : "unirail device list",
			      argc - 1 - words, argv + 1 + words, &o, &e);
	if (r < 0)
		return opt_exit("unirail device", r, &e);
	json = strcmp(o.output, "json") == 0;
	r = pods ? show_pods(&o, json, &e) : device_list(o.root, json, &e);
	if (r < 0) {
		fprintf(stderr, "unirail device: %s\n", e.text);
		return 1;
	}
	return r;
}
