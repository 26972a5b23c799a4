/* SPDX-License-Identifier: Apache-2.0 */
#include "cni/cluster/add.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/loop.h"
#include "base/paths.h"
#include "cni/cluster/agent_client.h"
#include "cni/cluster/del.h"
#include "cni/cluster/internal.h"
#include "cni/cluster/network_record.h"
#include "cni/cluster/network_status.h"
#include "cni/ipam/ipam_plugins.h"
#include "cni/multi/multi.h"
#include "cni/multi/registry.h"
#include "cni/plugins/chained.h"
#include "cni/protocol/conf_dir.h"
#include "cni/protocol/delegate.h"
#include "spec/annotations.h"
#include "spec/definition.h"

/* ADD and STATUS of a pod's networks in the cluster. */

enum {
	DOC_MAX = 16 << 20,
	STATUS_MAX = 256 << 10,
	/* maximum length of an event's message; the API server's limit is 1024 */
	MESSAGE_MAX = 1000,
	READY_MS = 45 * 1000,
	POLL_MS = 100,
};

/* Text by which a warning of the agent (agent/network/plan.c) is recognized. */
#define NET_NO_DEVICE " has no device of resource "

struct adding {
	struct cni_call *call; /* the call as the runtime made it */
	bool multus;
	struct pod_conf conf;
	struct json_doc *answer;
	/* copy of the call with the document of put_document() as its netconf */
	struct cni_call own;
	/* CNI version of the first network; `multus` prints its result in this version if the
	 * netconf has no cniVersion */
	enum cni_version printed;
};

/* --- the document: the pod's networks as a netconf of unirail-cni --- */

/* Returns whether this key of the netconf is copied to the document, in addition to the
 * networks. */
static bool is_cached(const char *key)
{
	static const char *const keys[] = {"defaults", "coordinator", "timeoutMs", "runtimeConfig",
					   "multusCniDir"};

	for (size_t i = 0; i < ARRAY_LEN(keys); i++)
		if (strcmp(key, keys[i]) == 0)
			return true;
	return false;
}

static void put_cached(const struct adding *a, struct json_out *o)
{
	struct json_walk w = json_walk_start(a->call->conf);
	const struct json *v;
	const char *key;

	while (!a->multus && (v = json_walk_next(&w, &key))) {
		if (!is_cached(key))
			continue;
		jo_key(o, key);
		jo_val(o, v, false);
	}
}

static const struct json *answer_of(const struct adding *a)
{
	return a->answer ? json_root(a->answer) : NULL;
}

static struct pod_nets nets_of(const struct adding *a)
{
	return (struct pod_nets){
		.call = a->call,
		.conf_dir = a->conf.conf_dir,
		.bin_dir = a->conf.bin_dir,
		.agent = a->conf.agent,
		.state_dir = json_string(json_get(answer_of(a), "stateDir")),
		.coordinator = json_get(answer_of(a), "coordinator"),
		.runtime = json_get_go(a->call->conf, "runtimeConfig"),
	};
}

/* Writes a network that the netconf itself contains. */
static int put_own(const struct adding *a, struct json_out *o, size_t i, struct err *e)
{
	const struct pod_nets p = nets_of(a);
	struct pod_net net = {.path = a->conf.cluster_path};

	if (a->conf.networks) {
		jo_val(o, json_at(a->conf.networks, i), false);
		return 0;
	}
	if (a->conf.delegates) {
		net.config = json_at(a->conf.delegates, i);
		net.name = json_string(json_get_go(net.config, "name"));
	}
	return pod_net_put(o, &p, &net, i, e);
}

/* Returns the network's device, allocated or requested; NULL: none. */
static const char *pod_net_device(const struct pod_net *net)
{
	return str_if_set(net->device) ? net->device : str_if_set(net->requested);
}

static void copy_devinfo(const struct adding *a, const struct pod_net *net)
{
	const char *device = pod_net_device(net);
	auto_free char *to = NULL;

	if (!device || !net->resource || !net->ifname)
		return;
	to = pod_net_devinfo(pod_net_label(net), a->call->container_id, net->ifname);
	pod_devinfo_copy(&a->call->root, net->resource, device, to);
}

static int put_answered(const struct adding *a, struct json_out *o, const struct json *v, size_t k,
			size_t index, struct err *e)
{
	auto_free char *place = xasprintf("networks[%zu]", k);
	const struct pod_nets p = nets_of(a);
	auto_json struct json_doc *keep = NULL;
	struct pod_net net = {0};
	int r = pod_net_read(a->answer, v, place, &net, e);

	if (r < 0)
		return err_wrap(e, r, "the agent's answer");
	r = pod_net_check(&p, &net, &keep, e);
	if (r >= 0)
		r = pod_net_put(o, &p, &net, index, e);
	if (r >= 0)
		copy_devinfo(a, &net);
	return r;
}

static int put_networks(const struct adding *a, struct json_out *o, struct err *e)
{
	bool replaced = json_bool(json_get(answer_of(a), "replacesFirst"));
	struct json_walk w = json_walk_start(json_get(answer_of(a), "networks"));
	size_t own = pod_conf_networks(&a->conf), k = 0;
	size_t first = replaced && own ? 1 : 0;
	const struct json *v;
	int r = 0;

	/* If the agent replaces the netconf's first network, its reply has the replacement
	 * first. */
	if (first && (v = json_walk_next(&w, NULL)))
		r = put_answered(a, o, v, k++, 0, e);
	for (size_t i = first; r >= 0 && i < own; i++)
		r = put_own(a, o, i, e);
	while (r >= 0 && (v = json_walk_next(&w, NULL))) {
		r = put_answered(a, o, v, k, own + k - first, e);
		k++;
	}
	return r;
}

static int put_document(const struct adding *a, struct buf *b, struct err *e)
{
	struct json_out o;
	int r;

	jo_init(&o, b, 0);
	jo_obj(&o);
	jo_kstr(&o, "cniVersion", cni_version_str(a->call->version));
	jo_kstr(&o, "name", a->call->name);
	jo_kstr(&o, "type", "unirail-cni");
	jo_kstr(&o, "cniDir", a->conf.cni_dir);
	jo_kstr(&o, "binDir", a->conf.bin_dir);
	put_cached(a, &o);
	jo_key(&o, "networks");
	jo_arr(&o);
	r = put_networks(a, &o, e);
	jo_end_arr(&o);
	jo_end_obj(&o);
	return r >= 0 && b->over ? err_set(e, -E2BIG,
					   "the configurations of the pod's networks exceed %d MiB",
					   DOC_MAX >> 20)
				 : r;
}

static int make_call(struct adding *a, struct err *e)
{
	auto_buf struct buf text;
	int r;

	buf_init(&text, DOC_MAX);
	a->own = *a->call;
	a->own.doc = NULL;
	r = put_document(a, &text, e);
	if (r >= 0)
		r = json_parse(&a->own.doc, buf_span(&text), DOC_MAX, e);
	if (r >= 0)
		a->own.conf = json_root(a->own.doc);
	return r;
}

/* --- steps before and after the attachment --- */

static int wait_ready(const struct adding *a, struct err *e)
{
	int64_t end = now_mono_ms() + READY_MS;
	const char *path = a->conf.ready_file;

	while (path && !file_exists(&a->call->root, path)) {
		if (now_mono_ms() >= end)
			return err_kind(
				e, ERR_AGAIN, -ETIMEDOUT,
				"have you checked that your default network is ready? still "
				"waiting for readinessindicatorfile @ %s",
				path);
		poll(NULL, 0, POLL_MS);
	}
	return 0;
}

static char *devinfo_of(const struct multi *x, const struct multi_net *net)
{
	return pod_net_devinfo(net->nad ? net->nad : net->name, x->call->container_id, net->ifname);
}

static void forget_devinfo(const struct multi *x)
{
	for (size_t i = 0; i < x->n_nets; i++) {
		auto_free char *path = x->nets[i].device ? devinfo_of(x, &x->nets[i]) : NULL;

		if (path)
			pod_devinfo_remove(&x->call->root, path);
	}
}

static void report(const struct adding *a, const struct multi *x)
{
	auto_free struct net_status *v = xcalloc(x->n_nets, sizeof(*v));
	auto_free struct json_doc **docs = xcalloc(x->n_nets, sizeof(*docs));
	auto_buf struct buf status, message;

	buf_init(&status, STATUS_MAX);
	buf_init(&message, MESSAGE_MAX);
	for (size_t i = 0; i < x->n_nets; i++) {
		const struct multi_net *net = &x->nets[i];
		auto_free char *path = net->device ? devinfo_of(x, net) : NULL;

		docs[i] = path ? pod_devinfo_read(&x->call->root, path) : NULL;
		v[i] = (struct net_status){
			.name = net->nad ? net->nad : net->name,
			.result = net->plugin_result.n_ifaces ? &net->plugin_result : &net->result,
			.version = net->call.version,
			.is_default = i == 0,
			.device = docs[i] ? json_root(docs[i]) : NULL};
	}
	net_status_write(v, x->n_nets, &status);
	network_status_describe(v, x->n_nets, &message);
	pod_agent_report(a->call, &a->conf, json_string(json_get(answer_of(a), "stateDir")),
			 &status, &message);
	for (size_t i = 0; i < x->n_nets; i++)
		json_free(docs[i]);
}

/* Records the networks also after a failure, so that GC finds what the rollback could not undo. */
static void record_networks(const struct adding *a)
{
	const char *state_dir = json_string(json_get(answer_of(a), "stateDir"));
	struct json_walk w = json_walk_start(json_get(answer_of(a), "networks"));
	const struct json *v;

	while ((v = json_walk_next(&w, NULL))) {
		struct pod_net net = {0};

		if (pod_net_read(a->answer, v, "networks", &net, NULL) >= 0)
			network_record_write(a->call, &a->conf, state_dir, &net);
	}
}

static int attach(struct adding *a, struct cni_result *out, struct err *e)
{
	auto_result struct cni_result all = {0};
	auto_multi struct multi x = {0};
	int r = multi_read(&a->own, &x, e);

	if (r < 0)
		return r;
	r = multi_read_plugins(&x, e);
	if (r >= 0) {
		r = multi_add(&x, &all, e);
		record_networks(a);
	}
	if (r < 0) {
		forget_devinfo(&x);
		return r;
	}
	if (a->conf.agent)
		report(a, &x);
	cni_result_copy(out, a->multus ? &x.nets[0].result : &all);
	a->printed = x.nets[0].call.version;
	return 0;
}

static bool has_version(const struct cni_call *c)
{
	const char *text = json_string(json_get_go(c->conf, "cniVersion"));

	return text && *text;
}

/* Adds the agent's reason to the error, because a plugin without its device only reports a missing
 * deviceID. */
static void add_reasons(const struct adding *a, struct err *e)
{
	struct json_walk w = json_walk_start(json_get(answer_of(a), "warnings"));
	const struct json *v;

	while (e && (v = json_walk_next(&w, NULL))) {
		size_t n = strlen(e->text);

		if (json_string(v) && strstr(json_string(v), NET_NO_DEVICE))
			snprintf(e->text + n, sizeof(e->text) - n, "; %s", json_string(v));
	}
}

int pod_add(struct cni_call *c, bool multus, struct cni_result *out, struct err *e)
{
	struct adding a = {.call = c, .multus = multus};
	int r = pod_conf_read(c, multus, &a.conf, e);

	if (r >= 0)
		r = wait_ready(&a, e);
	if (r >= 0 && a.conf.agent)
		r = pod_agent_networks(c, &a.conf, &a.answer, e);
	if (r >= 0)
		r = make_call(&a, e);
	if (r >= 0)
		r = attach(&a, out, e);
	/*
	 * Multus prints the result of its first delegate in the delegate's version; here a
	 * cniVersion in the netconf takes precedence.
	 */
	if (r >= 0 && multus && !has_version(c))
		c->version = a.printed;
	if (r < 0)
		add_reasons(&a, e);
	json_free(a.own.doc);
	json_free(a.answer);
	return r;
}

int pod_own_networks(struct cni_call *c, bool multus, const struct pod_conf *conf,
		     struct cni_call *ret, struct err *e)
{
	struct adding a = {.call = c, .multus = multus, .conf = *conf};
	int r = make_call(&a, e);

	if (r < 0)
		json_free(a.own.doc);
	else
		*ret = a.own;
	return r;
}

/* --- STATUS --- */

static int status_of_own(struct adding *a, struct err *e)
{
	auto_multi struct multi x = {0};
	int r = make_call(a, e);

	if (r >= 0)
		r = multi_read_all(&a->own, &x, e);
	return r < 0 ? r : multi_status(&x, e);
}

int pod_status(struct cni_call *c, bool multus, struct err *e)
{
	struct adding a = {.call = c, .multus = multus};
	int r = pod_conf_read(c, multus, &a.conf, e);

	if (r >= 0 && a.conf.ready_file && !file_exists(&c->root, a.conf.ready_file))
		r = err_kind(e, ERR_UNAVAILABLE, -ENOENT,
			     "readinessindicatorfile '%s' does not exist", a.conf.ready_file);
	if (r >= 0)
		r = a.conf.agent ? pod_agent_status(c, &a.conf, e) : status_of_own(&a, e);
	json_free(a.own.doc);
	return r;
}

#define FIELD(key, kind, member) JSON_FIELD(key, kind, struct pod_net, member)

static const struct json_field fields[] = {FIELD("nad", J_STR, nad),
					   FIELD("name", J_STR, name),
					   FIELD("path", J_STR, path),
					   FIELD("ifname", J_STR, ifname),
					   FIELD("config", J_VAL, config),
					   FIELD("deviceID", J_STR, device),
					   FIELD("requestedDeviceID", J_STR, requested),
					   FIELD("resource", J_STR, resource),
					   FIELD("mac", J_STR, mac),
					   FIELD("infinibandGUID", J_STR, guid),
					   FIELD("ips", J_STRS, ips),
					   FIELD("defaultRoute", J_STRS, gateways),
					   FIELD("portMappings", J_VAL, ports),
					   FIELD("bandwidth", J_VAL, bandwidth),
					   FIELD("cniArgs", J_VAL, args),
					   FIELD("trusted", J_BOOL, trusted),
					   {0}};
static const struct json_table table = {fields, JSON_CLOSED, sizeof(struct pod_net)};

int pod_net_read(struct json_doc *d, const struct json *v, const char *place, struct pod_net *ret,
		 struct err *e)
{
	struct pod_net net = {0};
	int r;

	if (json_kind(v) != JSON_OBJECT)
		return json_wants(v, place, "an object", e);
	r = json_read(d, v, &table, &net, place, e);
	if (r == 0)
		*ret = net;
	return r;
}

const char *pod_net_label(const struct pod_net *net)
{
	return net->nad ? net->nad : net->name ? net->name : net->path ? net->path : "";
}

char *pod_net_devinfo(const char *name, const char *container_id, const char *ifname)
{
	char *path = xasprintf(PATH_DEVINFO_CNI "/%s-%s_%s", name, container_id, ifname);
	char *at = path + strlen(PATH_DEVINFO_CNI "/");

	while ((at = strchr(at, '/')))
		*at = '-';
	return path;
}

/* --- one network of the document --- */

static void put_cni_args(const struct pod_putting *t)
{
	const struct pod_net *net = t->net;
	auto_buf struct buf b;

	buf_init(&b, 1 << 16);
	if (str_if_set(net->mac))
		buf_printf(&b, "MAC=%s", net->mac);
	for (size_t i = 0; i < net->ips.n; i++)
		buf_printf(&b, "%s%s", i ? "," : b.len ? ";IP=" : "IP=", net->ips.v[i]);
	if (b.len)
		jo_kstr(t->o, "cniArgs", b.p);
}

static void put_head(const struct pod_putting *t, const struct json *config)
{
	const char *name = str_if_set(json_string(json_get_go(config, "name")));
	const char *version = str_if_set(json_string(json_get_go(config, "cniVersion")));
	const struct pod_net *net = t->net;

	jo_kstr(t->o, "name", name ? name : net->name ? net->name : "");
	jo_kstr(t->o, "nad", net->nad ? net->nad : name ? name : net->name ? net->name : "");
	if (str_if_set(net->ifname))
		jo_kstr(t->o, "ifname", net->ifname);
	/* With the version "" the plugin gets no cniVersion. Without this key it would get the
	 * netconf's version. */
	jo_kstr(t->o, "cniVersion", version ? version : "");
	if (pod_net_device(net))
		jo_kstr(t->o, "deviceID", pod_net_device(net));
	put_cni_args(t);
	if (net->gateways.n) {
		jo_key(t->o, "defaultRoute");
		jo_strs(t->o, &net->gateways);
	}
}

static int pod_plugin_put(const struct pod_putting *t, const struct json *plugin, struct err *e);

static int put_plugins(const struct pod_putting *t, const struct json *config, struct err *e)
{
	const struct json *list = json_get_go(config, "plugins"), *v;
	struct json_walk w = json_walk_start(list);
	int r = 0;

	if (json_kind(list) == JSON_NULL)
		return pod_plugin_put(t, config, e);
	if (json_kind(list) != JSON_ARRAY || !json_len(list))
		return json_wants(list, "plugins", "an array of at least one plugin", e);
	while (r == 0 && (v = json_walk_next(&w, NULL)))
		r = pod_plugin_put(t, v, e);
	return r;
}

static int put_config(const struct pod_putting *t, const struct json *config, struct err *e)
{
	int r;

	if (json_kind(config) != JSON_OBJECT)
		return json_wants(config, "its configuration", "an object", e);
	if (!json_get_go(config, "plugins") &&
	    !str_if_set(json_string(json_get_go(config, "type"))))
		return err_kind(
			e, ERR_CONF, -EINVAL,
			"LoadDelegateNetConfList: delegate must have the 'type' or 'plugin' "
			"field");
	jo_obj(t->o);
	put_head(t, config);
	jo_key(t->o, "plugins");
	jo_arr(t->o);
	r = put_plugins(t, config, e);
	jo_end_arr(t->o);
	jo_end_obj(t->o);
	return r;
}

int pod_net_put(struct json_out *o, const struct pod_nets *p, const struct pod_net *net,
		size_t index, struct err *e)
{
	const struct pod_putting t = {p, net, index, o};
	auto_json struct json_doc *file = NULL;
	const struct json *config = net->config;
	int r = 0;

	if (json_kind(config) == JSON_NULL) {
		r = str_if_set(net->path)
			    ? conf_path_load(&p->call->root, net->path, &file, e)
			    : conf_dir_load(&p->call->root, p->conf_dir, net->name, &file, e);
		config = file ? json_root(file) : NULL;
	}
	if (r >= 0)
		r = put_config(&t, config, e);
	return r < 0 ? err_wrap(e, r, "network '%s'", pod_net_label(net)) : 0;
}

/* --- one plugin of a network: its object, with the keys that are added --- */

static bool is(const char *key, const char *word)
{
	return strcasecmp(key, word) == 0;
}

/* Copies the members of `from` except those whose key is in `but`. */
static void put_rest(const struct pod_putting *t, const struct json *from, const char *const *but)
{
	struct json_walk w = json_walk_start(from);
	const struct json *v;
	const char *key;

	while ((v = json_walk_next(&w, &key))) {
		bool skip = false;

		for (const char *const *b = but; *b && !skip; b++)
			skip = is(key, *b);
		if (skip)
			continue;
		jo_key(t->o, key);
		jo_val(t->o, v, false);
	}
}

/* Writes the keys of `from` that `other` does not have. */
static void put_unless(const struct pod_putting *t, const struct json *from,
		       const struct json *other)
{
	struct json_walk w = json_walk_start(from);
	const struct json *v;
	const char *key;

	while ((v = json_walk_next(&w, &key))) {
		if (json_get_go(other, key))
			continue;
		jo_key(t->o, key);
		jo_val(t->o, v, false);
	}
}

static void put_args(const struct pod_putting *t, const struct json *plugin)
{
	static const char *const cni[] = {"cni", NULL}, *const none[] = {NULL};
	const struct json *args = json_get_go(plugin, "args");

	jo_key(t->o, "args");
	jo_obj(t->o);
	put_rest(t, args, cni);
	jo_key(t->o, "cni");
	jo_obj(t->o);
	put_unless(t, json_get_go(args, "cni"), t->net->args);
	put_rest(t, t->net->args, none);
	jo_end_obj(t->o);
	jo_end_obj(t->o);
}

/* --- runtimeConfig --- */

/* Returns whether the plugin's own object names a device. */
static bool names_device(const struct json *plugin)
{
	static const char *const keys[] = {"deviceID", "pciBusID", "device", "hwaddr",
					   "kernelpath"};
	const struct json *runtime = json_get_go(plugin, "runtimeConfig");

	for (size_t i = 0; i < ARRAY_LEN(keys); i++)
		if (str_if_set(json_string(json_get_go(plugin, keys[i]))))
			return true;
	return str_if_set(json_string(json_get_go(runtime, "deviceID"))) != NULL;
}

/*
 * Returns the device for runtimeConfig: the allocated one, otherwise the one that the pod's
 * annotation requested. A tenant chose the requested device, so it never overrides a device in the
 * definition.
 */
static const char *runtime_device(const struct pod_net *net, const struct json *plugin)
{
	if (str_if_set(net->device))
		return net->device;
	return names_device(plugin) ? NULL : str_if_set(net->requested);
}

/* Writes the value for a key of runtimeConfig that the pod's requests or its allocated device
 * determine, and returns whether they determine a value. o NULL: writes nothing. The first
 * network has no value. */
static bool put_asked(const struct pod_putting *t, const struct json *plugin, const char *key,
		      struct json_out *o)
{
	const struct pod_net *net = t->net;
	const char *text = is(key, "mac")	       ? net->mac
			   : is(key, "infinibandGUID") ? net->guid
			   : is(key, "deviceID")       ? runtime_device(net, plugin)
						       : NULL;
	const struct json *v = is(key, "portMappings") ? net->ports
			       : is(key, "bandwidth")  ? net->bandwidth
						       : NULL;
	auto_free char *file = NULL;

	if (t->index == 0)
		return false;
	if (is(key, "CNIDeviceInfoFile") && pod_net_device(net))
		text = file = pod_net_devinfo(pod_net_label(net), t->p->call->container_id,
					      net->ifname ? net->ifname : "");
	if (is(key, "ips") && net->ips.n) {
		if (o)
			jo_strs(o, &net->ips);
		return true;
	}
	if (str_if_set(text) && o)
		jo_str(o, text);
	else if (json_kind(v) != JSON_NULL && o)
		jo_val(o, v, false);
	return str_if_set(text) || json_kind(v) != JSON_NULL;
}

/* Writes runtimeConfig for the capabilities that the plugin declares, from the pod's requests or
 * the runtime. If no capability has a value, copies the plugin's own runtimeConfig. */
static void put_runtime(const struct pod_putting *t, const struct json *plugin)
{
	const struct json *caps = json_get(plugin, "capabilities"), *v;
	const struct json *own = json_get_go(plugin, "runtimeConfig");
	struct json_walk w = json_walk_start(json_kind(caps) == JSON_OBJECT ? caps : NULL);
	const char *key;
	bool open = false;

	while ((v = json_walk_next(&w, &key))) {
		const struct json *offered = json_get(t->p->runtime, key);
		bool asked = put_asked(t, plugin, key, NULL);

		if (!json_bool(v) || (!asked && json_kind(offered) == JSON_NULL))
			continue;
		if (!open) {
			jo_key(t->o, "runtimeConfig");
			jo_obj(t->o);
			open = true;
		}
		jo_key(t->o, key);
		if (asked)
			put_asked(t, plugin, key, t->o);
		else
			jo_val(t->o, offered, true);
	}
	if (open) {
		jo_end_obj(t->o);
	} else if (own) {
		jo_key(t->o, "runtimeConfig");
		jo_val(t->o, own, false);
	}
}

/* --- keys added to a netconf: settings of the coordinator, the agent's socket --- */

static bool is_empty(const struct json *v)
{
	const char *text = json_string(v);

	return json_kind(v) == JSON_NULL || (text && !*text) ||
	       (json_kind(v) == JSON_ARRAY && !json_len(v));
}

static void put_settings(const struct pod_putting *t, const struct json *plugin)
{
	/* Settings that are not an object are ignored: elements of an array have no keys. */
	const struct json *settings = t->p->coordinator;
	struct json_walk w = json_walk_start(json_kind(settings) == JSON_OBJECT ? settings : NULL);
	const struct json *v;
	const char *key;

	while ((v = json_walk_next(&w, &key))) {
		if (is_empty(v) || !is_empty(json_get_go(plugin, key)))
			continue;
		jo_key(t->o, key);
		jo_val(t->o, v, false);
	}
}

/* The cluster's coordinator settings supply the keys that the plugin's object lacks or has
 * empty. */
static void put_coordinator(const struct pod_putting *t, const struct json *plugin)
{
	struct json_walk w = json_walk_start(plugin);
	const struct json *v;
	const char *key;

	while ((v = json_walk_next(&w, &key))) {
		if (is_empty(v) || is(key, "name") || is(key, "cniVersion"))
			continue;
		jo_key(t->o, key);
		jo_val(t->o, v, false);
	}
	put_settings(t, plugin);
}

static bool wants_agent(const struct pod_putting *t, const struct json *ipam)
{
	const char *type = json_string(json_get_go(ipam, "type"));

	return t->p->agent && type && strcmp(type, "spiderpool") == 0;
}

static void put_ipam(const struct pod_putting *t, const struct json *ipam)
{
	static const char *const none[] = {NULL};

	jo_key(t->o, "ipam");
	jo_obj(t->o);
	put_rest(t, ipam, none);
	if (is_empty(json_get_go(ipam, "ipam_unix_socket_path")))
		jo_kstr(t->o, "ipam_unix_socket_path", t->p->agent);
	if (t->p->state_dir && is_empty(json_get_go(ipam, "server_state_dir")))
		jo_kstr(t->o, "server_state_dir", t->p->state_dir);
	jo_end_obj(t->o);
}

static int check_plugin(const struct pod_putting *t, const struct json *plugin, struct err *e)
{
	const char *type = json_string(json_get_go(plugin, "type"));
	const struct json *args = json_get_go(plugin, "args");

	if (json_kind(plugin) != JSON_OBJECT)
		return json_wants(plugin, "a plugin", "an object", e);
	if (!str_if_set(type))
		return err_kind(e, ERR_CONF, -EINVAL,
				"LoadDelegateNetConfList: a plugin delegate must have the 'type' "
				"field");
	if (!t->net->args)
		return 0;
	if (json_kind(args) != JSON_NULL && json_kind(args) != JSON_OBJECT)
		return json_wants(args, "args", "an object, since the pod has cni-args", e);
	args = json_get_go(args, "cni");
	if (json_kind(args) != JSON_NULL && json_kind(args) != JSON_OBJECT)
		return json_wants(args, "args.cni", "an object, since the pod has cni-args", e);
	return 0;
}

static int pod_plugin_put(const struct pod_putting *t, const struct json *plugin, struct err *e)
{
	const char *but[9] = {"cniVersion", "name", "runtimeConfig"};
	const struct json *ipam = json_get_go(plugin, "ipam");
	size_t n = 3;
	int r = check_plugin(t, plugin, e);

	if (r < 0)
		return r;
	if (str_if_set(t->net->device)) {
		but[n++] = "deviceID";
		but[n++] = "pciBusID";
	}
	if (t->net->args)
		but[n++] = "args";
	if (wants_agent(t, ipam))
		but[n++] = "ipam";
	jo_obj(t->o);
	if (strcmp(json_string(json_get_go(plugin, "type")), "coordinator") == 0)
		put_coordinator(t, plugin);
	else
		put_rest(t, plugin, but);
	if (str_if_set(t->net->device)) {
		jo_kstr(t->o, "deviceID", t->net->device);
		jo_kstr(t->o, "pciBusID", t->net->device);
	}
	if (t->net->args)
		put_args(t, plugin);
	if (wants_agent(t, ipam))
		put_ipam(t, ipam);
	put_runtime(t, plugin);
	jo_end_obj(t->o);
	return 0;
}

/* --- check of a tenant's definition: may its plugins be executed on this node? --- */

/* Returns whether root owns the path and only root can write it. */
static bool only_root_writes(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && st.st_uid == 0 && !(st.st_mode & (S_IWGRP | S_IWOTH));
}

static bool is_built_in(const char *type)
{
	return link_driver_find(type) || chained_find(type) || strcmp(type, "coordinator") == 0 ||
	       cni_ipam_is_built_in(type);
}

static int check_installed(void *arg, const char *type, struct err *e)
{
	const char *search = arg;
	auto_free char *dir = NULL;
	auto_buf struct buf path;
	int r;

	buf_init(&path, PATH_MAX);
	if (is_built_in(type))
		return 0;
	r = cni_delegate_find(type, search, &path, e);
	if (r < 0)
		return r;
	dir = xstrdup(path.p);
	*strrchr(dir, '/') = '\0';
	if (only_root_writes(path.p) && only_root_writes(*dir ? dir : "/"))
		return 0;
	return err_kind(
		e, ERR_CONF, -EPERM,
		"'%s' can be changed by others than root (run chown root and chmod go-w on the file "
		"and its directory, or trust the namespace: annotation " ANNOTATION_TRUSTED
		"=true)",
		path.p);
}

int pod_net_check(const struct pod_nets *p, struct pod_net *net, struct json_doc **keep,
		  struct err *e)
{
	auto_free char *search =
		xasprintf("%s%s%s", p->bin_dir, *p->call->path ? ":" : "", p->call->path);
	const struct definition_rules rules = {check_installed, search, true};
	int r;

	*keep = NULL;
	if (net->trusted || json_kind(net->config) == JSON_NULL)
		return 0;
	r = definition_check(net->config, &rules, e);
	if (r >= 0)
		r = definition_drop_logs(net->config, keep, e);
	if (r < 0)
		return err_wrap(e, r, "network '%s'", pod_net_label(net));
	if (*keep) {
		log_warn(
			"the log files that a definition names are not written: " ANNOTATION_TRUSTED
			"=true on its namespace allows them",
			LOG_S("definition", pod_net_label(net)));
		net->config = json_root(*keep);
	}
	return 0;
}
