/* SPDX-License-Identifier: Apache-2.0 */
/* The coordinator's object, which every type but `custom` has in its chain. */
#include "controller/nad/nad_priv.h"

/* What the definition fills in. */
enum { RULE_TABLE = 500 };

static void put_text(struct json_out *o, const char *key, const struct json *v)
{
	const char *s = nad_text(v, NULL);

	if (s)
		jo_kstr(o, key, s);
}

static void put_filled(struct json_out *o, const char *key, const struct json *v)
{
	if (json_len(v) == 0)
		return;
	jo_key(o, key);
	jo_val(o, v, false);
}

static void put_routes(struct json_out *o, const struct json *v)
{
	struct json_walk w = json_walk_start(v);

	if (json_len(v) == 0)
		return;
	jo_key(o, "policyRoutes");
	jo_arr(o);
	while ((v = json_walk_next(&w, NULL))) {
		jo_obj(o);
		jo_kstr(o, "dst", nad_text(json_get(v, "dst"), ""));
		jo_kstr(o, "gw", nad_text(json_get(v, "gw"), ""));
		jo_end_obj(o);
	}
	jo_end_arr(o);
}

/* Spiderpool writes podRPFilter where podCIDRType is given, by mistake. */
static void put_numbers(struct json_out *o, const struct json *c)
{
	int64_t filter = nad_int(json_get(c, "podRPFilter"), 0);
	int64_t table = nad_int(json_get(c, "hostRuleTable"), RULE_TABLE);

	if (filter != 0 || nad_text(json_get(c, "podCIDRType"), NULL))
		jo_kint(o, "podRPFilter", filter);
	if (table != RULE_TABLE)
		jo_kint(o, "hostRuleTable", table);
}

void nad_put_coordinator(struct json_out *o, const struct json *c)
{
	int64_t mtu;

	jo_obj(o);
	jo_kint(o, "txQueueLen", nad_int(json_get(c, "txQueueLen"), 0));
	put_text(o, "vethLinkAddress", json_get(c, "vethLinkAddress"));
	if (json_int(json_get(c, "vethMTU"), &mtu) == 0)
		jo_kint(o, "vethMTU", mtu);
	jo_kbool(o, "tunePodRoutes", nad_bool(json_get(c, "tunePodRoutes"), true));
	put_text(o, "podMACPrefix", json_get(c, "podMACPrefix"));
	jo_kstr(o, "mode", nad_text(json_get(c, "mode"), "auto"));
	jo_kstr(o, "type", "coordinator");
	put_text(o, "podDefaultRouteNic", json_get(c, "podDefaultRouteNIC"));
	put_numbers(o, c);
	put_filled(o, "hijackCIDR", json_get(c, "hijackCIDR"));
	put_routes(o, json_get(c, "policyRoutes"));
	jo_end_obj(o);
}
