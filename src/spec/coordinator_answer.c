/* SPDX-License-Identifier: Apache-2.0 */
/* A coordinator's settings as its plugin reads them. */
#include "spec/coordinator_settings.h"

static void put_list(struct json_out *o, const char *key, const struct text_list *l)
{
	jo_key(o, key);
	jo_arr(o);
	for (size_t i = 0; i < l->n; i++)
		jo_str(o, l->v[i]);
	jo_end_arr(o);
}

static void put_routes(struct json_out *o, const struct coordinator_settings *s)
{
	jo_key(o, "policyRoutes");
	jo_arr(o);
	for (size_t i = 0; i < s->route_dst.n; i++) {
		jo_obj(o);
		jo_kstr(o, "dst", s->route_dst.v[i]);
		jo_kstr(o, "gw", s->route_gw.v[i]);
		jo_end_obj(o);
	}
	jo_end_arr(o);
}

/* Go's omitempty. */
static void put_int(struct json_out *o, const char *key, int64_t v)
{
	if (v)
		jo_kint(o, key, v);
}

static void put_text(struct json_out *o, const char *key, const char *v)
{
	if (*v)
		jo_kstr(o, key, v);
}

void coordinator_settings_json(const struct coordinator_settings *s, struct json_out *o)
{
	jo_obj(o);
	put_list(o, "hijackCIDR", &s->hijack);
	put_int(o, "hostRuleTable", s->rule_table);
	jo_kstr(o, "mode", s->mode);
	put_list(o, "overlayPodCIDR", &s->overlay);
	put_text(o, "podDefaultRouteNIC", s->default_nic);
	put_text(o, "podMACPrefix", s->mac_prefix);
	put_int(o, "podRPFilter", s->rp_filter);
	put_routes(o, s);
	put_list(o, "serviceCIDR", &s->service);
	jo_kbool(o, "tunePodRoutes", s->tune);
	put_int(o, "txQueueLen", s->queue_len);
	put_text(o, "vethLinkAddress", s->veth_address);
	put_int(o, "vethMTU", s->veth_mtu);
	jo_end_obj(o);
}
