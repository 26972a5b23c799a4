/* SPDX-License-Identifier: Apache-2.0 */
/* A plugin's object of a pod's network, with what is put in. */
#include <errno.h>
#include <string.h>
#include <strings.h>

#include "base/cleanup.h"
#include "cni/cluster/pod_net_private.h"

static const char *if_set(const char *s)
{
	return s && *s ? s : NULL;
}

static bool is(const char *key, const char *word)
{
	return strcasecmp(key, word) == 0;
}

/* The object without what is written anew. */
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

/* ... and without what another object says. */
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

void pod_put_strs(struct json_out *o, const struct json_strs *l)
{
	jo_arr(o);
	for (size_t i = 0; i < l->n; i++)
		jo_str(o, l->v[i]);
	jo_end_arr(o);
}

/* Whether the plugin's own object says which device it is about. */
static bool names_device(const struct json *plugin)
{
	static const char *const keys[] = {"deviceID", "pciBusID", "device", "hwaddr",
					   "kernelpath"};
	const struct json *runtime = json_get_go(plugin, "runtimeConfig");

	for (size_t i = 0; i < ARRAY_LEN(keys); i++)
		if (if_set(json_string(json_get_go(plugin, keys[i]))))
			return true;
	return if_set(json_string(json_get_go(runtime, "deviceID"))) != NULL;
}

/*
 * The device for runtimeConfig: what was allocated, else what the pod's annotation requested. The
 * latter is a tenant's word, so it is never put over what the definition's author wrote.
 */
static const char *runtime_device(const struct pod_net *net, const struct json *plugin)
{
	if (if_set(net->device))
		return net->device;
	return names_device(plugin) ? NULL : if_set(net->requested);
}

/* What was asked for by the pod; false: nothing. Asked with o NULL it writes nothing. */
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
			pod_put_strs(o, &net->ips);
		return true;
	}
	if (if_set(text) && o)
		jo_str(o, text);
	else if (json_kind(v) != JSON_NULL && o)
		jo_val(o, v, false);
	return if_set(text) || json_kind(v) != JSON_NULL;
}

/* Only what the plugin declares, and only when something is left. */
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

/* --- what the original plugins ask their agent --- */

static bool is_empty(const struct json *v)
{
	const char *text = json_string(v);

	return json_kind(v) == JSON_NULL || (text && !*text) ||
	       (json_kind(v) == JSON_ARRAY && !json_len(v));
}

static void put_settings(const struct pod_putting *t, const struct json *plugin)
{
	struct json_walk w = json_walk_start(t->p->coordinator);
	const struct json *v;
	const char *key;

	while ((v = json_walk_next(&w, &key))) {
		if (is_empty(v) || !is_empty(json_get_go(plugin, key)))
			continue;
		jo_key(t->o, key);
		jo_val(t->o, v, false);
	}
}

/* A coordinator's own keys that say nothing give way. */
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
	if (!if_set(type))
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

int pod_plugin_put(const struct pod_putting *t, const struct json *plugin, struct err *e)
{
	const char *but[9] = {"cniVersion", "name", "runtimeConfig"};
	const struct json *ipam = json_get_go(plugin, "ipam");
	size_t n = 3;
	int r = check_plugin(t, plugin, e);

	if (r < 0)
		return r;
	if (if_set(t->net->device)) {
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
	if (if_set(t->net->device)) {
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
