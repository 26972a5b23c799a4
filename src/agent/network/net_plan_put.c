/* SPDX-License-Identifier: Apache-2.0 */
/* A plan as the CNI process reads it. */
#include <string.h>

#include "agent/network/net_plan.h"
#include "base/cleanup.h"

static void put_text(struct json_out *o, const char *key, const char *text)
{
	if (text)
		jo_kstr(o, key, text);
}

static void put_val(struct json_out *o, const char *key, const struct json *v)
{
	if (json_kind(v) == JSON_NULL)
		return;
	jo_key(o, key);
	jo_val(o, v, false);
}

static void put_strs(struct json_out *o, const char *key, const struct json_strs *l)
{
	if (!l->n)
		return;
	jo_key(o, key);
	jo_arr(o);
	for (size_t i = 0; i < l->n; i++)
		jo_str(o, l->v[i]);
	jo_end_arr(o);
}

static void put_ask(struct json_out *o, const struct net_ask *a)
{
	put_text(o, "mac", a->mac);
	put_text(o, "infinibandGUID", a->guid);
	put_strs(o, "ips", &a->ips);
	put_strs(o, "defaultRoute", &a->routes);
	put_val(o, "portMappings", a->ports);
	put_val(o, "bandwidth", a->bandwidth);
	put_val(o, "cniArgs", a->cni_args);
}

static void put_choice(struct json_out *o, const struct net_choice *c)
{
	auto_free char *nad = c->ns ? xasprintf("%s/%s", c->ns, c->name) : NULL;

	jo_obj(o);
	put_text(o, "nad", nad);
	jo_kstr(o, !nad && strchr(c->name, '/') ? "path" : "name", c->name);
	put_text(o, "ifname", c->ifname);
	put_text(o, "resource", c->resource);
	put_text(o, "deviceID", c->device);
	put_text(o, "requestedDeviceID", c->requested);
	if (c->ask)
		put_ask(o, c->ask);
	if (c->config)
		put_val(o, "config", json_root(c->config));
	if (c->trusted)
		jo_kbool(o, "trusted", true);
	jo_end_obj(o);
}

void net_plan_put(const struct net_plan *p, struct json_out *o)
{
	jo_key(o, "networks");
	jo_arr(o);
	for (size_t i = 0; i < p->n; i++)
		put_choice(o, &p->v[i]);
	jo_end_arr(o);
	jo_kbool(o, "replacesFirst", p->replaces_first);
	jo_key(o, "warnings");
	jo_arr(o);
	for (size_t i = 0; i < p->n_warnings; i++)
		jo_str(o, p->warnings[i]);
	jo_end_arr(o);
}
