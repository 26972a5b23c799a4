/* SPDX-License-Identifier: Apache-2.0 */
#include "cni/cluster/pod_net.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "cni/protocol/conf_dir.h"
#include "cni/cluster/pod_net_private.h"

#define FIELD(key, kind, member)                                                                   \
	{                                                                                          \
		key, kind, .offset = offsetof(struct pod_net, member)                              \
	}

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
	char *path = xasprintf("/var/run/k8s.cni.cncf.io/devinfo/cni/%s-%s_%s", name, container_id,
			       ifname);
	char *at = path + strlen("/var/run/k8s.cni.cncf.io/devinfo/cni/");

	while ((at = strchr(at, '/')))
		*at = '-';
	return path;
}

static const char *if_set(const char *s)
{
	return s && *s ? s : NULL;
}

const char *pod_net_device(const struct pod_net *net)
{
	return if_set(net->device) ? net->device : if_set(net->requested);
}

/* --- the network --- */

static void put_cni_args(const struct pod_putting *t)
{
	const struct pod_net *net = t->net;
	auto_buf struct buf b;

	buf_init(&b, 1 << 16);
	if (if_set(net->mac))
		buf_printf(&b, "MAC=%s", net->mac);
	for (size_t i = 0; i < net->ips.n; i++)
		buf_printf(&b, "%s%s", i ? "," : b.len ? ";IP=" : "IP=", net->ips.v[i]);
	if (b.len)
		jo_kstr(t->o, "cniArgs", b.p);
}

static void put_head(const struct pod_putting *t, const struct json *config)
{
	const char *name = if_set(json_string(json_get_go(config, "name")));
	const char *version = if_set(json_string(json_get_go(config, "cniVersion")));
	const struct pod_net *net = t->net;

	jo_kstr(t->o, "name", name ? name : net->name ? net->name : "");
	jo_kstr(t->o, "nad", net->nad ? net->nad : name ? name : net->name ? net->name : "");
	if (if_set(net->ifname))
		jo_kstr(t->o, "ifname", net->ifname);
	/* "": without one, not the netconf's. */
	jo_kstr(t->o, "cniVersion", version ? version : "");
	if (pod_net_device(net))
		jo_kstr(t->o, "deviceID", pod_net_device(net));
	put_cni_args(t);
	if (net->gateways.n) {
		jo_key(t->o, "defaultRoute");
		pod_put_strs(t->o, &net->gateways);
	}
}

static int put_plugins(const struct pod_putting *t, const struct json *config, struct err *e)
{
	const struct json *list = json_get_go(config, "plugins"), *v;
	struct json_walk w = json_walk_start(list);
	int r = 0;

	if (json_kind(list) == JSON_NULL)
		return pod_plugin_put(t, config, e);
	if (json_kind(list) != JSON_ARRAY || !json_len(list))
		return json_wants(list, "plugins", "an array with a plugin or more", e);
	while (r == 0 && (v = json_walk_next(&w, NULL)))
		r = pod_plugin_put(t, v, e);
	return r;
}

static int put_config(const struct pod_putting *t, const struct json *config, struct err *e)
{
	int r;

	if (json_kind(config) != JSON_OBJECT)
		return json_wants(config, "its configuration", "an object", e);
	if (!json_get_go(config, "plugins") && !if_set(json_string(json_get_go(config, "type"))))
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
		r = if_set(net->path)
			    ? conf_path_load(&p->call->root, net->path, &file, e)
			    : conf_dir_load(&p->call->root, p->conf_dir, net->name, &file, e);
		config = file ? json_root(file) : NULL;
	}
	if (r >= 0)
		r = put_config(&t, config, e);
	return r < 0 ? err_wrap(e, r, "network '%s'", pod_net_label(net)) : 0;
}
