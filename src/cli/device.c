/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/device.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/paths.h"
#include "base/table.h"
#include "cli/cli.h"
#include "cni/device/vf_claim.h"
#include "device/podres.h"
#include "device/resource/explain.h"
#include "device/resource/plan.h"
#include "device/resource/source.h"
#include "wire/http/http1.h"
#include "wire/json/json.h"

/* `unirail device`: the devices of this node, and the pod that uses each. */

enum { OUT_MAX = 64 << 20, CELL_MAX = 64 << 10 };

struct device_opts {
	const char *socket, *output, *root, *node, *prefix, *agent;
	int64_t timeout_ms;
};

static const struct opt list_opts[] = {
	{"root", 0, OPT_STR, "DIR", "root directory of another host ('unirail doctor --unpack')",
	 offsetof(struct device_opts, root), 0, 0},
	{"agent", 0, OPT_STR, "PATH",
	 "path of the agent's socket, from which the health of devices is read (" PATH_AGENT_SOCKET
	 "; none with --root)",
	 offsetof(struct device_opts, agent), 0, 0},
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

static const struct opt explain_opts[] = {
	{"root", 0, OPT_STR, "DIR", "root directory of another host ('unirail doctor --unpack')",
	 offsetof(struct device_opts, root), 0, 0},
	{"node", 0, OPT_STR, "NAME",
	 "name of this node; if a directory of configurations has a file of that name, only that "
	 "file of the directory is read",
	 offsetof(struct device_opts, node), 0, 0},
	{"resource-prefix", 0, OPT_STR, "PREFIX",
	 "prefix of resourceList's entries without resourcePrefix (" RESOURCE_SRIOV_PREFIX ")",
	 offsetof(struct device_opts, prefix), 0, 0},
	{"output", 'o', OPT_CHOICE, "text|json", "output format",
	 offsetof(struct device_opts, output), 0, 0},
	{0},
};

static const struct opt plan_opts[] = {
	{"root", 0, OPT_STR, "DIR", "root directory of another host ('unirail doctor --unpack')",
	 offsetof(struct device_opts, root), 0, 0},
	{"output", 'o', OPT_CHOICE, "text|json",
	 "no effect: the configuration is always printed as JSON",
	 offsetof(struct device_opts, output), 0, 0},
	{0},
};

const struct cmd device_cmds[] = {
	{"list", NULL, "PFs and VFs: netdevs, RDMA devices, GIDs, settings, and the pod of a VF",
	 list_opts, 0, 0},
	{"pods", NULL, "the devices of each pod, as allocated by the kubelet", pods_opts, 0, 0},
	{"explain", "[CONFIG...]",
	 "the resources that select each device, and for every other resource the selector that "
	 "the device does not match; exit status 1 if the configuration has errors",
	 explain_opts, 0, -1},
	{"plan", NULL,
	 "print the configuration that unirail uses if no configuration file exists, with "
	 "resources named by rail",
	 plan_opts, 0, 0},
	{0},
};

static void add_joined(struct columns *c, char *const *items, size_t n)
{
	auto_buf struct buf b;

	buf_init(&b, CELL_MAX);
	for (size_t i = 0; i < n; i++)
		buf_printf(&b, "%s%s", i ? "," : "", items[i]);
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
		printf("no container of %zu pods on this node uses a device\n", l->n_pods);
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
	jo_kstrs(o, "devices", d->ids, d->n_ids);
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
	return opt_print(&b);
}

static int show_pods(const struct device_opts *o, bool json, struct err *e)
{
	auto_podres struct podres_list list = {0};
	int r = podres_get(o->socket, (int)o->timeout_ms, &list, e);

	if (r < 0)
		return r;
	return json ? pods_json(&list) : pods_text(&list);
}

/* --- resources: explain and plan --- */

static void print_messages(const struct resource_messages *messages)
{
	for (size_t i = 0; i < messages->n; i++)
		fprintf(stderr, "unirail device: %s\n", messages->v[i].text);
}

/*
 * Reads the n operands CONFIG: files of this host, or directories of a mounted ConfigMap. Without
 * operands it reads PATH_RESOURCES below --root; if no file is there, the configuration that `plan`
 * prints applies.
 */
static int read_config(const struct device_opts *o, const struct node_devices *node, char **paths,
		       int n, struct resource_config *c, struct resource_messages *messages,
		       struct err *e)
{
	static const char *const usual[] = {PATH_RESOURCES};
	const struct resource_defaults d = {o->prefix};
	struct root root;
	size_t count;
	int r = root_open(&root, n ? NULL : o->root, e);

	if (r < 0)
		return r;
	count = n ? resource_sources_read(&root, (const char *const *)paths, (size_t)n, o->node,
					  false, &d, c, messages)
		  : resource_sources_read(&root, usual, 1, o->node, true, &d, c, messages);
	root_close(&root);
	return !count && !n && !messages->n ? resource_plan(node, c, messages, e) : 0;
}

static bool has_error(const struct resource_messages *l)
{
	for (size_t i = 0; i < l->n; i++)
		if (l->v[i].level == MESSAGE_ERROR)
			return true;
	return false;
}

/* Returns 1 if the configuration has errors; the output lists them. */
static int show_explain(const struct device_opts *o, bool json, char **args, int n, struct err *e)
{
	auto_node_devices struct node_devices node = {0};
	auto_resource_config struct resource_config c = RESOURCE_CONFIG_INIT;
	auto_resource_messages struct resource_messages messages = {0};
	auto_resources struct resources s = {0};
	char **paths = xcalloc((size_t)n, sizeof(*paths));
	auto_buf struct buf b;
	int r = node_devices_observe(o->root, &node, e);

	buf_init(&b, OUT_MAX);
	if (r >= 0 && !o->root)
		node_devices_read_facts(&node);
	for (int i = 0; i < n; i++)
		paths[i] = path_absolute(args[i]);
	if (r >= 0)
		r = read_config(o, &node, paths, n, &c, &messages, e);
	str_list_free(paths, (size_t)n);
	if (r < 0)
		return r;
	resources_decide(&c, &node, &s, &messages);
	if (json)
		resource_explain_json(&s, &messages, &b);
	else
		resource_explain_text(&s, &messages, &b);
	r = opt_print(&b);
	return r == 0 && has_error(&messages) ? 1 : r;
}

static int show_plan(const struct device_opts *o, struct err *e)
{
	auto_node_devices struct node_devices node = {0};
	auto_resource_config struct resource_config c = RESOURCE_CONFIG_INIT;
	auto_resource_messages struct resource_messages messages = {0};
	auto_buf struct buf b;
	int r = node_devices_observe(o->root, &node, e);

	buf_init(&b, OUT_MAX);
	if (r >= 0 && !o->root)
		node_devices_read_facts(&node);
	if (r >= 0)
		r = resource_plan(&node, &c, &messages, e);
	if (r < 0)
		return r;
	print_messages(&messages);
	resource_plan_write(&node, &b);
	return opt_print(&b);
}

static int device_list(const char *dir, const char *agent, bool json, struct err *e);

int device_main(int argc, char **argv)
{
	struct device_opts o = {
		.socket = PODRES_SOCKET, .output = "text", .timeout_ms = PODRES_TIMEOUT_MS};
	const struct cmd *c = NULL;
	struct err e = ERR_INIT;
	const char *name;
	bool json;
	int used, n = 0, r = cmd_pick("unirail device", device_cmds, argc, argv, &c, &used, &e);

	name = c ? c->name : "";
	if (r == 0) {
		auto_free char *prog = xasprintf("unirail device %s", name);

		argc -= 1 + used;
		argv += 1 + used;
		n = r = opt_parse(c, prog, argc, argv, &o, &e);
	}
	if (r < 0)
		return opt_exit("unirail device", r, &e);
	json = strcmp(o.output, "json") == 0;
	if (strcmp(name, "pods") == 0)
		r = show_pods(&o, json, &e);
	else if (strcmp(name, "explain") == 0)
		r = show_explain(&o, json, argv + n, argc - n, &e);
	else if (strcmp(name, "plan") == 0)
		r = show_plan(&o, &e);
	else
		r = device_list(o.root,
				o.agent	 ? o.agent
				: o.root ? NULL
					 : PATH_AGENT_SOCKET,
				json, &e);
	if (r < 0) {
		fprintf(stderr, "unirail device: %s\n", e.text);
		return 1;
	}
	return r;
}

/* --- `unirail device list` --- */

enum { DEVICE_LIST_OUT_MAX = 64 << 20 };

static void find_pod(const struct root *root, struct device_row *row)
{
	auto_vf_record struct vf_record r = {0};
	const char *bdf = row->f->pci.bdf;

	if (row->f->vf < 0)
		return;
	row->netns = vf_owner(root, bdf);
	if (row->netns && vf_record_of(root, NULL, bdf, row->netns, &r) && r.pod)
		row->pod = xstrdup(r.pod);
}

struct device_health {
	const char *id, *unhealthy;
};

static int by_id(const void *a, const void *b)
{
	const struct device_health *x = a, *y = b;

	return strcmp(x->id, y->id);
}

void device_rows_health(struct device_row *v, size_t n, const struct json *answer)
{
	struct json_walk w = json_walk_start(json_get(answer, "resources")), devices;
	auto_free struct device_health *list = NULL;
	const struct json *resource, *d;
	size_t count = 0;

	while ((resource = json_walk_next(&w, NULL))) {
		devices = json_walk_start(json_get(resource, "devices"));
		while ((d = json_walk_next(&devices, NULL))) {
			const struct device_health one = {json_string(json_get(d, "id")),
							  json_string(json_get(d, "unhealthy"))};

			if (one.id && one.unhealthy)
				VEC_PUSH(list, count) = one;
		}
	}
	if (!count)
		return;
	qsort(list, count, sizeof(*list), by_id);
	for (size_t i = 0; i < n; i++) {
		const struct device_health key = {v[i].f->pci.bdf, NULL};
		const struct device_health *found =
			bsearch(&key, list, count, sizeof(*list), by_id);

		v[i].unhealthy = found ? found->unhealthy : NULL;
	}
}

enum { AGENT_TIMEOUT_MS = 2000, AGENT_ANSWER_MAX = 4 << 20 };

/*
 * Returns NULL, without an error, if no agent answers with status 200 and valid JSON (an agent
 * without device plugins does not): the health of all devices is unknown then.
 */
static struct json_doc *query_agent(const char *socket)
{
	const struct http1_call c = {
		.socket = socket,
		.request = {.method = "GET", .target = "/v1/unirail/devices"},
		.timeout_ms = AGENT_TIMEOUT_MS,
		.max = AGENT_ANSWER_MAX,
	};
	auto_buf struct buf body = {0};
	struct json_doc *doc = NULL;

	if (http1_call(&c, &body, NULL) != 200 ||
	    json_parse(&doc, buf_span(&body), AGENT_ANSWER_MAX, NULL) < 0)
		return NULL;
	return doc;
}

static int show(const struct root *root, const struct inventory *inv, const char *agent, bool json)
{
	auto_json struct json_doc *answer = agent ? query_agent(agent) : NULL;
	auto_free struct device_row *rows = xcalloc(inv->n, sizeof(*rows));
	auto_buf struct buf b;

	for (size_t i = 0; i < inv->n; i++) {
		rows[i].f = &inv->v[i];
		find_pod(root, &rows[i]);
	}
	if (answer)
		device_rows_health(rows, inv->n, json_root(answer));
	buf_init(&b, DEVICE_LIST_OUT_MAX);
	if (json)
		device_show_json(rows, inv->n, &b);
	else
		device_show_text(rows, inv->n, stdout);
	for (size_t i = 0; i < inv->n; i++) {
		free(rows[i].pod);
		free(rows[i].netns);
	}
	return json ? opt_print(&b) : 0;
}

/*
 * Prints the list; returns the exit status or -errno. dir: directory with the files of another
 * host, NULL: this host. agent: socket of the agent that reports the health of the devices; NULL:
 * the list has no health. An agent that does not answer is not an error: the list has no health
 * then.
 */
static int device_list(const char *dir, const char *agent, bool json, struct err *e)
{
	auto_nl struct nl_wire *route = NULL, *generic = NULL;
	auto_inventory struct inventory inv = {0};
	struct root root;
	int r = root_open(&root, dir, e);

	if (r < 0)
		return r;
	if (!dir) {
		r = nl_open(&route, NL_ROUTE, -1, e);
		/* An error is ignored: a kernel without generic netlink has no devlink, so the
		 * list has no eswitch modes. */
		if (r >= 0)
			(void)nl_open(&generic, NL_GENERIC, -1, NULL);
	}
	if (r >= 0)
		r = inventory_read(&root, route, generic, &inv, e);
	if (r >= 0)
		r = show(&root, &inv, agent, json);
	root_close(&root);
	return r;
}

enum { DEVICE_SHOW_CELL_MAX = 4096 };

static const char *const link_states[] = {"auto", "enable", "disable"};

static const char *link_state(const struct vf_info *a)
{
	return a->link_state < ARRAY_LEN(link_states) ? link_states[a->link_state] : "unknown";
}

/* --- the list as text --- */

static void add_role(struct columns *c, const struct inventory_function *f)
{
	if (f->vf >= 0)
		columns_addf(c, "VF %lld", (long long)f->vf);
	else if (f->pci.is_pf)
		columns_addf(c, "PF %u/%u", f->pci.num_vfs, f->pci.total_vfs);
	else
		columns_add(c, NULL);
}

static void add_numa(struct columns *c, const struct inventory_function *f)
{
	if (f->pci.numa < 0)
		columns_add(c, NULL);
	else
		columns_addf(c, "%d", f->pci.numa);
}

/* Shows the first netdev of a device; the JSON output has all netdevs. */
static void add_netdev(struct columns *c, const struct inventory_function *f)
{
	const struct inventory_netdev *d = f->n_netdevs ? &f->netdevs[0] : NULL;

	columns_add(c, d ? d->name : NULL);
	if (d && d->mtu)
		columns_addf(c, "%u", d->mtu);
	else
		columns_add(c, NULL);
	columns_add(c, !d || !*d->operstate ? NULL : d->up ? d->operstate : "off");
}

static void add_rdma(struct columns *c, const struct inventory_function *f)
{
	auto_buf struct buf b;

	buf_init(&b, DEVICE_SHOW_CELL_MAX);
	for (size_t i = 0; i < f->n_rdma; i++) {
		const struct inventory_rdma *d = &f->rdma[i];

		buf_printf(&b, "%s%s", b.len ? "," : "", d->name);
		for (size_t k = 0; k < d->n_ports; k++)
			buf_printf(&b, " %s", d->ports[k].state);
	}
	columns_add(c, b.p);
}

static void put_attrs(struct buf *b, const struct vf_info *a)
{
	char text[VF_GUID_TEXT_MAX];

	if (a->n_vlans && a->vlans[0].id)
		buf_printf(b, " vlan %u", a->vlans[0].id);
	if (a->n_vlans && a->vlans[0].qos)
		buf_printf(b, " qos %u", a->vlans[0].qos);
	if (a->min_rate || a->max_rate)
		buf_printf(b, " rate %u-%u", a->min_rate, a->max_rate);
	if (a->spoofchk == 0)
		buf_str(b, " spoofchk off");
	if (a->trust > 0)
		buf_str(b, " trust on");
	if (a->link_state)
		buf_printf(b, " link %s", link_state(a));
	if (a->has_guid && a->port_guid)
		buf_printf(b, " guid %s", vf_guid_str(a->port_guid, text));
}

static void add_settings(struct columns *c, const struct inventory_function *f)
{
	auto_buf struct buf b;

	buf_init(&b, DEVICE_SHOW_CELL_MAX);
	if (f->has_eswitch)
		buf_printf(&b, " %s", eswitch_mode_name(f->eswitch));
	if (*f->representor)
		buf_printf(&b, " port %s", f->representor);
	if (f->has_attrs)
		put_attrs(&b, &f->attrs);
	columns_add(c, b.len ? b.p + 1 : NULL);
}

static void add_pod(struct columns *c, const struct device_row *row)
{
	const char *elsewhere = inventory_is_in_other_netns(row->f) ? "in another namespace" : NULL;

	columns_add(c, row->pod ? row->pod : row->netns ? row->netns : elsewhere);
}

static bool health_is_known(const struct device_row *v, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (v[i].unhealthy)
			return true;
	return false;
}

static void add_health(struct columns *c, const struct device_row *row)
{
	if (row->unhealthy && *row->unhealthy)
		columns_addf(c, "unhealthy: %s", row->unhealthy);
	else
		columns_add(c, row->unhealthy ? "healthy" : NULL);
}

void device_show_text(const struct device_row *v, size_t n, FILE *f)
{
	static const char *const head[] = {"FUNCTION",	  "ROLE", "DRIVER",	"NUMA",
					   "NETDEV",	  "MTU",  "LINK STATE", "RDMA DEVICE",
					   "VF SETTINGS", "POD",  "HEALTH"};
	bool has_health = health_is_known(v, n);
	size_t n_head = ARRAY_LEN(head) - !has_health;
	auto_columns struct columns c;

	columns_init(&c, (unsigned int)n_head, "");
	if (!n) {
		fputs("no network function on PCI\n", f);
		return;
	}
	for (size_t i = 0; i < n_head; i++)
		columns_add(&c, head[i]);
	for (size_t i = 0; i < n; i++) {
		columns_add(&c, v[i].f->pci.bdf);
		add_role(&c, v[i].f);
		columns_add(&c, v[i].f->pci.driver);
		add_numa(&c, v[i].f);
		add_netdev(&c, v[i].f);
		add_rdma(&c, v[i].f);
		add_settings(&c, v[i].f);
		add_pod(&c, &v[i]);
		if (has_health)
			add_health(&c, &v[i]);
	}
	columns_print(&c, f);
}

/* --- the list as JSON --- */

/* Writes null for an unknown value. */
static void put_str(struct json_out *o, const char *key, const char *s)
{
	jo_kstr(o, key, s && *s ? s : NULL);
}

static void put_id(struct json_out *o, const char *key, unsigned int id)
{
	char text[16];

	snprintf(text, sizeof(text), "%04x", id);
	jo_kstr(o, key, text);
}

static void put_switch(struct json_out *o, const char *key, int v)
{
	jo_key(o, key);
	if (v < 0)
		jo_null(o);
	else
		jo_bool(o, v);
}

static void put_netdevs(struct json_out *o, const struct inventory_function *f)
{
	jo_key(o, "netdevs");
	jo_arr(o);
	for (size_t i = 0; i < f->n_netdevs; i++) {
		const struct inventory_netdev *d = &f->netdevs[i];

		jo_obj(o);
		jo_kstr(o, "name", d->name);
		put_str(o, "mac", d->mac);
		jo_kint(o, "mtu", d->mtu);
		jo_kbool(o, "up", d->up);
		put_str(o, "operstate", d->operstate);
		put_str(o, "alias", d->alias);
		jo_end_obj(o);
	}
	jo_end_arr(o);
}

static void put_port(struct json_out *o, const struct inventory_port *p)
{
	jo_obj(o);
	jo_kint(o, "port", p->port);
	put_str(o, "state", p->state);
	put_str(o, "link", p->link_layer);
	put_str(o, "rate", p->rate);
	jo_key(o, "gids");
	jo_arr(o);
	for (size_t i = 0; i < p->n_gids; i++) {
		jo_obj(o);
		jo_kint(o, "index", p->gids[i].index);
		jo_kstr(o, "gid", p->gids[i].gid);
		put_str(o, "type", p->gids[i].type);
		put_str(o, "netdev", p->gids[i].netdev);
		jo_end_obj(o);
	}
	jo_end_arr(o);
	jo_end_obj(o);
}

static void put_rdma(struct json_out *o, const struct inventory_function *f)
{
	jo_key(o, "rdma");
	jo_arr(o);
	for (size_t i = 0; i < f->n_rdma; i++) {
		jo_obj(o);
		jo_kstr(o, "name", f->rdma[i].name);
		put_str(o, "nodeGuid", f->rdma[i].node_guid);
		jo_key(o, "ports");
		jo_arr(o);
		for (size_t k = 0; k < f->rdma[i].n_ports; k++)
			put_port(o, &f->rdma[i].ports[k]);
		jo_end_arr(o);
		jo_end_obj(o);
	}
	jo_end_arr(o);
}

static void put_settings(struct json_out *o, const struct vf_info *a)
{
	char mac[MAC_TEXT_MAX], guid[VF_GUID_TEXT_MAX];

	jo_obj(o);
	put_str(o, "mac", mac_is_zero(&a->mac) ? NULL : mac_str(&a->mac, mac));
	jo_kint(o, "vlan", a->n_vlans ? a->vlans[0].id : 0);
	jo_kint(o, "vlanQoS", a->n_vlans ? a->vlans[0].qos : 0);
	jo_kstr(o, "vlanProto",
		a->n_vlans && a->vlans[0].proto == VF_VLAN_8021AD ? "802.1ad" : "802.1q");
	jo_kint(o, "minTxRate", a->min_rate);
	jo_kint(o, "maxTxRate", a->max_rate);
	put_switch(o, "spoofchk", a->spoofchk);
	put_switch(o, "trust", a->trust);
	jo_kstr(o, "linkState", link_state(a));
	jo_kstr(o, "nodeGuid", a->has_guid ? vf_guid_str(a->node_guid, guid) : NULL);
	jo_kstr(o, "portGuid", a->has_guid ? vf_guid_str(a->port_guid, guid) : NULL);
	jo_end_obj(o);
}

static void put_pf(struct json_out *o, const struct inventory_function *f)
{
	jo_kint(o, "totalVfs", f->pci.total_vfs);
	jo_kint(o, "numVfs", f->pci.num_vfs);
	jo_kstr(o, "eswitch", f->has_eswitch ? eswitch_mode_name(f->eswitch) : NULL);
}

static void put_vf(struct json_out *o, const struct device_row *row)
{
	const struct inventory_function *f = row->f;

	jo_kstr(o, "pf", f->pci.physfn);
	jo_kint(o, "vf", f->vf);
	put_str(o, "representor", f->representor);
	jo_key(o, "settings");
	if (f->has_attrs)
		put_settings(o, &f->attrs);
	else
		jo_null(o);
	jo_kbool(o, "inOtherNetns", inventory_is_in_other_netns(f));
	put_str(o, "pod", row->pod);
	put_str(o, "netns", row->netns);
}

static void put_health(struct json_out *o, const struct device_row *row)
{
	jo_kstr(o, "health", !row->unhealthy ? NULL : *row->unhealthy ? "unhealthy" : "healthy");
	put_str(o, "healthReason", row->unhealthy);
}

static void put_function(struct json_out *o, const struct device_row *row, bool has_health)
{
	const struct inventory_function *f = row->f;
	const struct pci_dev *p = &f->pci;

	jo_obj(o);
	jo_kstr(o, "address", p->bdf);
	jo_kstr(o, "role", f->vf >= 0 ? "vf" : p->is_pf ? "pf" : "function");
	put_id(o, "vendor", p->vendor);
	put_id(o, "device", p->device);
	put_str(o, "driver", p->driver);
	jo_kint(o, "numa", p->numa);
	jo_kint(o, "iommuGroup", p->iommu_group);
	if (p->is_pf)
		put_pf(o, f);
	if (f->vf >= 0)
		put_vf(o, row);
	if (has_health)
		put_health(o, row);
	put_netdevs(o, f);
	put_rdma(o, f);
	jo_end_obj(o);
}

void device_show_json(const struct device_row *v, size_t n, struct buf *b)
{
	bool has_health = health_is_known(v, n);
	struct json_out o;

	jo_init(&o, b, 4);
	jo_arr(&o);
	for (size_t i = 0; i < n; i++)
		put_function(&o, &v[i], has_health);
	jo_end_arr(&o);
	buf_char(b, '\n');
}
