/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "cni/multi/internal.h"
#include "cni/multi/multi.h"
#include "cni/multi/registry.h"

enum { MAX_NETWORKS = 128, MAX_TIMEOUT_MS = 60000 };

/* --- keys of the netconf and of a network --- */

struct raw_net {
	const char *name, *ifname, *type, *nad, *device, *args, *version;
	const struct json *plugins;
	struct json_strs gateways;
};

static const struct json_field net_fields[] = {
	JSON_FIELD("name", J_STR, struct raw_net, name, JSON_DOC(NULL, "name of the network")),
	JSON_FIELD("ifname", J_STR, struct raw_net, ifname,
		   JSON_DOC("net<i>", "name of the interface; default for the first network: "
				      "CNI_IFNAME")),
	JSON_FIELD("type", J_STR, struct raw_net, type,
		   JSON_DOC(NULL, "name of the plugin, if the network has only one")),
	JSON_FIELD("plugins", J_VAL, struct raw_net, plugins,
		   JSON_DOC(NULL, "list of plugins, of which the first that is not ifacer makes "
				  "the interface")),
	JSON_FIELD("nad", J_STR, struct raw_net, nad,
		   JSON_DOC(NULL, "name of the NetworkAttachmentDefinition, NAMESPACE/NAME")),
	JSON_FIELD("deviceID", J_STR, struct raw_net, device,
		   JSON_DOC(NULL, "allocated device, for the pod's entry in cniDir")),
	JSON_FIELD("cniArgs", J_STR, struct raw_net, args, JSON_DOC(NULL, "appended to CNI_ARGS")),
	JSON_FIELD("cniVersion", J_STR, struct raw_net, version,
		   JSON_DOC("the netconf's", "CNI version of the network; ignored without nad")),
	JSON_FIELD("defaultRoute", J_STRS, struct raw_net, gateways,
		   JSON_DOC(NULL, "gateways; the pod's default routes of their address families "
				  "use this network only")),
	{0},
};
static const struct json_table net_table = {net_fields, JSON_GO, sizeof(struct raw_net)};

struct raw {
	const struct json *networks, *defaults, *coordinator;
	const char *cni_dir, *bin_dir;
	int64_t timeout_ms;
};

static const struct json_field fields[] = {
	JSON_FIELD(
		"networks", J_VAL, struct raw, networks, .sub = &net_table,
		JSON_DOC(
			NULL,
			"the networks, each with the content of a NetworkAttachmentDefinition; required unless 'agent' is set")),
	JSON_FIELD("defaults", J_VAL, struct raw, defaults,
		   JSON_DOC(NULL,
			    "keys that are added to the object of each built-in plugin that creates "
			    "an interface, if the object does not have them")),
	JSON_FIELD("coordinator", J_VAL, struct raw, coordinator,
		   JSON_DOC(NULL, "object of the coordinator for each built-in network that has no "
				  "coordinator")),
	JSON_FIELD("timeoutMs", J_INT, struct raw, timeout_ms, .min = 1, .max = MAX_TIMEOUT_MS,
		   JSON_DOC("the IPAM's", "limit of conflict and gateway tests of all networks")),
	JSON_FIELD("cniDir", J_STR, struct raw, cni_dir,
		   JSON_DOC(NULL, "directory in which attachments are recorded in Multus' format")),
	JSON_FIELD("binDir", J_STR, struct raw, bin_dir,
		   JSON_DOC(NULL, "directory of plugins, searched before CNI_PATH")),
	{0},
};
const struct json_table multi_table = {fields, JSON_GO, sizeof(struct raw)};

/* The shared coordinator applies to built-in networks only, not to a default network such as
 * ptp. */
static void share_coordinator(struct multi *x, const struct json *co)
{
	for (size_t i = 0; i < x->n_nets; i++)
		if (x->nets[i].kind && !x->nets[i].co)
			x->nets[i].co = co;
}

static int want_object(const struct json *v, const char *place, struct err *e)
{
	if (!v || json_kind(v) == JSON_OBJECT)
		return 0;
	return err_kind(e, ERR_CONF, -EINVAL, "%s is %s, expected an object", place,
			json_kind_name(v));
}

static int want_absolute(const char *path, const char *place, struct err *e)
{
	if (!path || !*path || *path == '/')
		return 0;
	return err_kind(e, ERR_CONF, -EINVAL, "%s is '%s', expected an absolute path", place, path);
}

/* As in Multus, plugins get a CNI_PATH that begins with binDir. */
static void add_bin_dir(struct multi *x, const char *dir)
{
	struct cni_call *c = x->call;

	if (!dir || !*dir)
		return;
	x->path = xasprintf("%s%s%s", dir, *c->path ? ":" : "", c->path);
	c->path = x->path;
}

static int multi_take_net(struct multi *x, const struct json *self, size_t i, struct err *e);

static int read_all(struct cni_call *c, struct multi *x, struct err *e)
{
	struct raw raw = {0};
	int r = json_read(c->doc, c->conf, &multi_table, &raw, "conf", e);

	if (r >= 0)
		r = want_object(raw.defaults, "conf.defaults", e);
	if (r >= 0)
		r = want_object(raw.coordinator, "conf.coordinator", e);
	if (r >= 0)
		r = want_absolute(raw.cni_dir, "conf.cniDir", e);
	if (r >= 0)
		r = want_absolute(raw.bin_dir, "conf.binDir", e);
	if (r < 0)
		return r;
	if (json_kind(raw.networks) != JSON_ARRAY || !json_len(raw.networks))
		return err_kind(e, ERR_CONF, -EINVAL,
				"conf.networks: missing, empty or not an array, expected a "
				"non-empty array");
	if (json_len(raw.networks) > MAX_NETWORKS)
		return err_kind(e, ERR_CONF, -E2BIG,
				"conf.networks has %zu networks, expected %d at most",
				json_len(raw.networks), MAX_NETWORKS);
	add_bin_dir(x, raw.bin_dir);
	x->keep_dir = raw.cni_dir && *raw.cni_dir ? raw.cni_dir : NULL;
	x->defaults = raw.defaults;
	x->later_args = multi_later_args(c->args_text);
	x->timeout_ms = (int)raw.timeout_ms;
	for (size_t i = 0; r >= 0 && i < json_len(raw.networks); i++)
		r = multi_take_net(x, json_at(raw.networks, i), i, e);
	if (r >= 0 && raw.coordinator)
		share_coordinator(x, raw.coordinator);
	return r < 0 ? r : multi_check_gateways(x, e);
}

int multi_read_all(struct cni_call *c, struct multi *ret, struct err *e)
{
	int r = multi_read(c, ret, e);

	return r < 0 ? r : multi_read_plugins(ret, e);
}

int multi_read(struct cni_call *c, struct multi *ret, struct err *e)
{
	struct multi x = {.call = c};
	int r = read_all(c, &x, e);

	if (r < 0) {
		multi_done(&x);
		return r;
	}
	*ret = x;
	return 0;
}

static void net_done(struct multi_net *net)
{
	free(net->label);
	free(net->ifname);
	free(net->args);
	free(net->gateways);
	free(net->ahead);
	free(net->before);
	free(net->after);
	coordinator_conf_done(&net->coordinator_conf);
	cni_result_done(&net->result);
	cni_result_done(&net->plugin_result);
	cni_result_done(&net->prev);
}

void multi_done(struct multi *x)
{
	for (size_t i = 0; i < x->n_nets; i++)
		net_done(&x->nets[i]);
	free(x->later_args);
	free(x->path);
	free(x->nets);
	free(x->rails);
	free(x->nics);
	*x = (struct multi){0};
}

static int bad(struct err *e, const char *place, const char *what)
{
	return err_kind(e, ERR_CONF, -EINVAL, "%s %s", place, what);
}

/* Checks the name by libcni's pattern, because host-local uses it as the name of a directory. */
static bool name_ok(const char *s)
{
	const char *const alnum = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789";

	if (!s || !strchr(alnum, *s) || !*s)
		return false;
	for (; *s; s++)
		if (!strchr(alnum, *s) && !strchr("_.-", *s))
			return false;
	return true;
}

static int type_of(const struct json *plugin, const char *place, const char **ret, struct err *e)
{
	const char *type = json_string(json_get_go(plugin, "type"));

	if (json_kind(plugin) != JSON_OBJECT)
		return err_kind(e, ERR_CONF, -EINVAL, "%s is %s, expected an object", place,
				json_kind_name(plugin));
	if (!type || !*type || strchr(type, '/'))
		return bad(e, place, "has no 'type' that is a plugin's name without '/'");
	if (strcmp(type, "unirail-cni") == 0)
		return bad(e, place,
			   "is 'unirail-cni' itself, expected a plugin that makes one network");
	*ret = type;
	return 0;
}

static int take_first(struct multi_net *net, const struct multi_plugin *p, const char *place,
		      struct err *e)
{
	if (strcmp(p->type, "coordinator") == 0)
		return bad(e, place, "is 'coordinator', expected a plugin that makes an interface");
	if (p->meta && (p->meta->flags & META_HOST)) {
		VEC_PUSH(net->ahead, net->n_ahead) = *p;
		return 0;
	}
	net->main = *p;
	net->kind = link_driver_find(p->type);
	return 0;
}

static int take_later(struct multi_net *net, const struct multi_plugin *p, const char *place,
		      struct err *e)
{
	if (link_driver_find(p->type))
		return err_kind(e, ERR_CONF, -EINVAL,
				"%s is '%s', which can only be the first plugin of a network "
				"(the first plugin is '%s')",
				place, p->type, net->main.type);
	if (strcmp(p->type, "coordinator") == 0) {
		if (net->co)
			return bad(e, place, "is a second 'coordinator'");
		net->co = p->conf;
		return 0;
	}
	if (net->co)
		VEC_PUSH(net->after, net->n_after) = *p;
	else
		VEC_PUSH(net->before, net->n_before) = *p;
	return 0;
}

static int take_plugin(struct multi_net *net, const struct json *plugin, const char *place,
		       struct err *e)
{
	struct multi_plugin p = {.conf = plugin};
	int r = type_of(plugin, place, &p.type, e);

	if (r < 0)
		return r;
	p.meta = chained_find(p.type);
	return net->main.conf ? take_later(net, &p, place, e) : take_first(net, &p, place, e);
}

static int take_list(struct multi_net *net, const struct json *plugins, const char *place,
		     struct err *e)
{
	int r = 0;

	if (json_kind(plugins) != JSON_ARRAY || !json_len(plugins))
		return bad(e, place, "has no plugin in 'plugins', expected an array of objects");
	for (size_t i = 0; r >= 0 && i < json_len(plugins); i++) {
		auto_free char *inner = xasprintf("%s.plugins[%zu]", place, i);

		r = take_plugin(net, json_at(plugins, i), inner, e);
	}
	return r;
}

static int take_plugins(struct multi_net *net, const struct json *self, const struct raw_net *raw,
			const char *place, struct err *e)
{
	int r;

	net->flat = !raw->plugins;
	r = raw->plugins ? take_list(net, raw->plugins, place, e)
			 : take_plugin(net, self, place, e);

	if (r >= 0 && !net->main.conf)
		return bad(e, place, "has no plugin that makes an interface");
	return r;
}

static int check_unique(const struct multi *x, const char *place, struct err *e)
{
	const struct multi_net *net = &x->nets[x->n_nets - 1];

	for (size_t i = 0; i + 1 < x->n_nets; i++) {
		/* The same definition may be attached twice, with different interfaces. */
		if (strcmp(x->nets[i].name, net->name) == 0 && !(net->nad && x->nets[i].nad))
			return err_kind(e, ERR_CONF, -EEXIST,
					"%s.name is '%s', the same as conf.networks[%zu].name",
					place, net->name, i);
		if (strcmp(x->nets[i].ifname, net->ifname) == 0)
			return err_kind(e, ERR_CONF, -EEXIST,
					"%s.ifname is '%s', the same as conf.networks[%zu].ifname",
					place, net->ifname, i);
	}
	return 0;
}

/* Returns the interface name of network i: its ifname, otherwise CNI_IFNAME for the first network
 * and "net<i>" for the others. Without CNI_IFNAME (GC, STATUS) the first network gets "eth0":
 * for these verbs the name has no meaning. */
static char *ifname_of(const struct multi *x, const struct raw_net *raw, size_t i)
{
	if (raw->ifname && *raw->ifname)
		return xstrdup(raw->ifname);
	if (i > 0)
		return xasprintf("net%zu", i);
	return xstrdup(*x->call->ifname ? x->call->ifname : "eth0");
}

/* Sets net->call, the environment of the network's plugins: a copy of the pod's call with this
 * network's own cniArgs and cniVersion. */
static int take_call(const struct multi *x, struct multi_net *net, size_t i,
		     const struct raw_net *raw, const char *place, struct err *e)
{
	const char *args = i ? x->later_args : x->call->args_text;

	net->nad = str_if_set(raw->nad);
	net->device = str_if_set(raw->device);
	net->call = *x->call;
	net->call.args_text = args;
	net->own_cni_args = str_if_set(raw->args);
	net->own_args = net->own_cni_args != NULL;
	if (net->own_args) {
		net->args = xasprintf("%s%s%s", args, *args ? ";" : "", raw->args);
		net->call.args_text = net->args;
	}
	net->call.no_version = net->nad && raw->version && !*raw->version;
	if (net->call.no_version)
		net->call.version = CNI_0_1_0;
	if (net->nad && str_if_set(raw->version) &&
	    cni_version_parse(raw->version, &net->call.version) < 0)
		return err_kind(e, ERR_CONF, -EINVAL,
				"%s.cniVersion is '%s', expected one of 0.1.0 to 1.1.0", place,
				raw->version);
	return 0;
}

static int take_gateways(struct multi_net *net, const struct json_strs *list, const char *place,
			 struct err *e)
{
	for (size_t i = 0; i < list->n; i++)
		if (ip_parse(span_of(list->v[i]), &VEC_PUSH(net->gateways, net->n_gateways)) < 0)
			return err_kind(
				e, ERR_CONF, -EINVAL,
				"%s.defaultRoute[%zu] is '%s', expected a gateway's address", place,
				i, list->v[i]);
	return 0;
}

/* Reads conf.networks[i] into x->nets; x->later_args must be set. */
static int multi_take_net(struct multi *x, const struct json *self, size_t i, struct err *e)
{
	struct multi_net *net = &VEC_PUSH(x->nets, x->n_nets);
	auto_free char *place = xasprintf("conf.networks[%zu]", i);
	struct raw_net raw = {0};
	int r;

	if (json_kind(self) != JSON_OBJECT)
		return err_kind(e, ERR_CONF, -EINVAL, "%s is %s, expected an object", place,
				json_kind_name(self));
	r = json_read(x->call->doc, self, &net_table, &raw, place, e);
	if (r < 0)
		return r;
	net->name = raw.name;
	net->named = i > 0 || (raw.ifname && *raw.ifname);
	net->ifname = ifname_of(x, &raw, i);
	net->label = xasprintf("rail '%s' (%s)", net->ifname,
			       str_if_set(raw.nad) ? raw.nad
			       : raw.name	   ? raw.name
						   : "");
	if (!name_ok(raw.name))
		return bad(
			e, place,
			"has no valid 'name', expected letters, digits, '_', '.' or '-', a letter "
			"or digit first");
	if (!link_name_ok(net->ifname))
		return err_kind(
			e, ERR_CONF, -EINVAL,
			"%s.ifname is '%s', expected 1 to 15 bytes without '/', ':' or white "
			"space",
			place, net->ifname);
	r = take_call(x, net, i, &raw, place, e);
	if (r >= 0)
		r = take_gateways(net, &raw.gateways, place, e);
	if (r >= 0)
		r = take_plugins(net, self, &raw, place, e);
	return r < 0 ? r : check_unique(x, place, e);
}

/* --- calls of each network's plugins; attachments and NICs --- */

enum { ARGS_MAX = 1 << 16 };

char *multi_later_args(const char *text)
{
	static const char *const first_only[] = {"MAC=", "IP=", "GATEWAY="};
	struct span rest = span_of(text), pair;
	struct buf b;

	buf_init(&b, strlen(text) + 1);
	while (span_cut(&rest, ';', &pair)) {
		bool drop = false;

		for (size_t i = 0; i < ARRAY_LEN(first_only); i++)
			drop |= span_has_prefix(pair, first_only[i]);
		if (drop)
			continue;
		if (b.len)
			buf_char(&b, ';');
		buf_add(&b, pair.p, pair.n);
	}
	return buf_take(&b);
}

const struct cni_call *multi_call(const struct multi *x, size_t i)
{
	return &x->nets[i].call;
}

/* The IPAM is in `ipam` of the plugin's object, otherwise in that of `defaults`. */
struct cni_ipam_call multi_ipam_call(const struct multi *x, size_t i)
{
	const struct multi_net *net = &x->nets[i];
	const struct json *conf = net->main.conf;
	const char *type;

	if (json_kind(json_get_go(conf, "ipam")) == JSON_NULL)
		conf = x->defaults;
	type = cni_ipam_type(conf);
	return (struct cni_ipam_call){
		.call = multi_call(x, i),
		.doc = x->call->doc,
		.conf = *type ? conf : NULL,
		.type = type,
		.name = net->name,
		.ifname = net->ifname,
		.version = net->call.version,
		.nad = net->nad && strchr(net->nad, '/') ? net->nad : NULL,
		.own_args = net->own_args,
	};
}

static struct rail_source source_of(const struct multi *x, const struct multi_net *net)
{
	return (struct rail_source){
		.doc = x->call->doc, .defaults = x->defaults, .conf = net->main.conf};
}

static struct rail *add_rail(struct multi *x, size_t i)
{
	struct rail *rail = &x->rails[x->n_rails++];

	*rail = (struct rail){
		.kind = x->nets[i].kind,
		.label = x->nets[i].label,
		.ifname = x->nets[i].ifname,
		.ipam = multi_ipam_call(x, i),
	};
	return rail;
}

void multi_read_rails(struct multi *x)
{
	x->rails = xcalloc(x->n_nets, sizeof(*x->rails));
	for (size_t i = 0; i < x->n_nets; i++) {
		const struct rail_source s = source_of(x, &x->nets[i]);

		if (x->nets[i].kind)
			attach_read_conf(add_rail(x, i), &s);
	}
}

/* MAC of CNI_ARGS is for the first network; other networks have their own cniArgs. */
static int read_rail(struct multi *x, size_t i, struct err *e)
{
	struct rail_source s = source_of(x, &x->nets[i]);
	struct rail *rail = add_rail(x, i);
	struct cni_args args = {0};
	auto_buf struct buf keep;
	int r;

	buf_init(&keep, ARGS_MAX);
	r = cni_args_parse(x->nets[i].call.args_text, &args, &keep, e);
	if (r < 0)
		return r;
	s.args_mac = args.mac;
	return rail->kind->read(&s, &rail->conf, e);
}

static int read_net(struct multi *x, size_t i, struct err *e)
{
	struct multi_net *net = &x->nets[i];
	struct coordinator_nic *nic = &x->nics[i];
	int r = 0;

	*nic = (struct coordinator_nic){.ifname = net->ifname,
					.network = net->name,
					.label = net->label,
					.prev = &net->call.prev};
	if (net->kind)
		r = read_rail(x, i, e);
	if (r >= 0 && net->co) {
		r = coordinator_conf_read(x->call->doc, net->co, &net->coordinator_conf, e);
		nic->conf = &net->coordinator_conf;
		x->n_co++;
	}
	return r < 0 ? err_wrap(e, r, "%s", net->label) : 0;
}

int multi_read_plugins(struct multi *x, struct err *e)
{
	auto_buf struct buf keep;
	struct cni_args args = {0};
	int r;

	buf_init(&keep, ARGS_MAX);
	r = cni_args_parse(x->call->args_text, &args, &keep, e);
	if (r < 0)
		return r;
	x->rails = xcalloc(x->n_nets, sizeof(*x->rails));
	x->nics = xcalloc(x->n_nets, sizeof(*x->nics));
	for (size_t i = 0; r >= 0 && i < x->n_nets; i++)
		r = read_net(x, i, e);
	return r;
}

/* --- calls of plugins, for all verbs --- */

struct chain_call multi_chain_call(const struct multi *x, size_t i, const struct multi_plugin *p,
				   const struct cni_result *prev)
{
	const struct multi_net *net = &x->nets[i];

	return (struct chain_call){
		.call = multi_call(x, i),
		.plugin = p->conf,
		.type = p->type,
		.network = net->name,
		.ifname = net->ifname,
		.prev = prev,
		.runtime = i == 0 ? json_get_go(x->call->conf, "runtimeConfig") : NULL,
		.label = net->label,
	};
}

struct chained_call multi_chained_call(const struct multi *x, const struct attach *a, size_t i,
				       const struct multi_plugin *p, bool has_prev)
{
	struct chained_call m = chained_call_of(a, x->call->doc, p->conf, x->nets[i].ifname);

	m.call = multi_call(x, i);
	m.version = m.call->version;
	m.network = x->nets[i].name;
	m.has_prev = has_prev;
	m.runtime = i == 0 ? json_get_go(x->call->conf, "runtimeConfig") : NULL;
	return m;
}

struct multi_list multi_plugins_at(const struct multi_net *net, enum multi_place place)
{
	switch (place) {
	case MULTI_AHEAD: return (struct multi_list){net->ahead, net->n_ahead};
	case MULTI_MAIN: return (struct multi_list){&net->main, net->kind ? 0 : 1};
	case MULTI_BEFORE: return (struct multi_list){net->before, net->n_before};
	default: return (struct multi_list){net->after, net->n_after};
	}
}

int multi_each_plugin(const struct multi *x, size_t net, multi_plugin_fn fn, void *arg,
		      struct err *e)
{
	int r = 0;

	for (enum multi_place place = MULTI_AHEAD; place < MULTI_PLACES; place++) {
		const struct multi_list list = multi_plugins_at(&x->nets[net], place);

		for (size_t i = 0; r >= 0 && i < list.n; i++)
			r = fn(arg, net, &list.v[i], e);
	}
	return r;
}
