/* SPDX-License-Identifier: Apache-2.0 */
/* A subnet: owner of its pools, and its own status. */
#include <string.h>

#include "base/cleanup.h"
#include "controller/subnet/subnets_priv.h"
#include "block/block_wire.h"

static bool has_controller(const struct json *owners, const char *uid, bool *other)
{
	struct json_walk w = json_walk_start(owners);
	const struct json *v;
	bool found = false;

	while ((v = json_walk_next(&w, NULL))) {
		const char *u = json_string(json_get(v, "uid"));

		if (!json_bool(json_get(v, "controller")))
			continue;
		found |= u && !strcmp(u, uid);
		*other |= !u || strcmp(u, uid) != 0;
	}
	return found;
}

static void put_owners(struct json_out *o, const struct json *owners,
		       const struct kube_object *subnet)
{
	struct json_walk w = json_walk_start(owners);
	const struct json *v;

	jo_arr(o);
	while ((v = json_walk_next(&w, NULL)))
		jo_val(o, v, false);
	subnets_put_owner(o, subnet);
	jo_end_arr(o);
}

static void put_inherited(struct json_out *o, const struct json *spec, const struct json *has)
{
	bool gateway = json_string(json_get(spec, "gateway")) && !json_get(has, "gateway");
	bool routes = json_len(json_get(spec, "routes")) && !json_len(json_get(has, "routes"));

	if (!gateway && !routes)
		return;
	jo_key(o, "spec");
	jo_obj(o);
	if (gateway)
		jo_kstr(o, "gateway", json_string(json_get(spec, "gateway")));
	if (routes) {
		jo_key(o, "routes");
		jo_val(o, json_get(spec, "routes"), false);
	}
	jo_end_obj(o);
}

bool subnets_set_owner(struct subnets *s, const struct kube_object *pool,
		       const struct kube_object *subnet)
{
	struct kube_request r = {.verb = KUBE_MERGE_PATCH,
				 .on = {.kind = &subnets_pools, .name = pool->name}};
	const struct json *owners = subnets_meta(pool, "ownerReferences");
	const char *label = subnets_label(pool, AUTO_POOL_OWNER);
	char text[BLOCK_LABEL_MAX];
	bool other = false;
	struct subnets_body b;

	if ((has_controller(owners, subnet->uid, &other) || other) &&
	    auto_pool_label_is(label, subnet->name))
		return false;
	subnets_body(&b);
	jo_key(&b.o, "metadata");
	jo_obj(&b.o);
	jo_kstr(&b.o, "resourceVersion", pool->version);
	jo_key(&b.o, "labels");
	jo_obj(&b.o);
	jo_kstr(&b.o, AUTO_POOL_OWNER, block_label(subnet->name, text));
	jo_end_obj(&b.o);
	if (!other && !has_controller(owners, subnet->uid, &other)) {
		jo_key(&b.o, "ownerReferences");
		put_owners(&b.o, owners, subnet);
	}
	jo_end_obj(&b.o);
	put_inherited(&b.o, json_get(world_json(subnet), "spec"),
		      json_get(world_json(pool), "spec"));
	jo_end_obj(&b.o);
	r.body = buf_span(&b.b);
	subnets_send(s, SUBNETS_POOL, &r);
	buf_done(&b.b);
	return true;
}

/* --- the subnet --- */

int64_t subnets_count_text(u128 n)
{
	return n > INT64_MAX ? INT64_MAX : (int64_t)n;
}

void subnets_write_status(struct subnets *s, const struct kube_object *subnet,
			  const struct subnet_entries *l, u128 total)
{
	struct kube_request r = {
		.verb = KUBE_MERGE_PATCH,
		.on = {.kind = &subnets_subnets, .name = subnet->name, .sub = "status"}};
	auto_buf struct buf text;
	struct subnets_body b;

	buf_init(&text, SUBNETS_BODY_MAX / 2);
	subnet_entries_write(l, &text);
	subnets_body(&b);
	jo_key(&b.o, "metadata");
	jo_obj(&b.o);
	jo_kstr(&b.o, "resourceVersion", subnet->version);
	jo_end_obj(&b.o);
	jo_key(&b.o, "status");
	jo_obj(&b.o);
	jo_kstr(&b.o, "controlledIPPools", text.len ? text.p : NULL);
	jo_kint(&b.o, "totalIPCount", subnets_count_text(total));
	jo_kint(&b.o, "allocatedIPCount", subnets_count_text(subnet_entries_count(l)));
	jo_end_obj(&b.o);
	jo_end_obj(&b.o);
	r.body = buf_span(&b.b);
	subnets_send(s, SUBNETS_STATUS, &r);
	buf_done(&b.b);
}

void subnets_unfinalize(struct subnets *s, const struct kube_object *subnet)
{
	struct json_walk w = json_walk_start(subnets_meta(subnet, "finalizers"));
	struct kube_request r = {.verb = KUBE_MERGE_PATCH,
				 .on = {.kind = &subnets_subnets, .name = subnet->name}};
	const struct json *v;
	bool has = false;
	struct subnets_body b;

	subnets_body(&b);
	jo_key(&b.o, "metadata");
	jo_obj(&b.o);
	jo_kstr(&b.o, "resourceVersion", subnet->version);
	jo_key(&b.o, "finalizers");
	jo_arr(&b.o);
	while ((v = json_walk_next(&w, NULL))) {
		bool ours = json_string(v) && !strcmp(json_string(v), SUBNETS_FINALIZER);

		has |= ours;
		if (!ours)
			jo_val(&b.o, v, false);
	}
	jo_end_arr(&b.o);
	jo_end_obj(&b.o);
	jo_end_obj(&b.o);
	r.body = buf_span(&b.b);
	if (has)
		subnets_send(s, SUBNETS_STATUS, &r);
	buf_done(&b.b);
}
