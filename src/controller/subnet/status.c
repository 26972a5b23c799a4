/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "block/codec.h"
#include "controller/subnet/internal.h"
#include "controller/subnet/plan.h"
#include "kube/kinds.h"
#include "kube/object.h"
#include "spec/annotations.h"
#include "wire/json/json.h"

enum { STATUS_MAX = 1 << 20 };

/* --- address sets as JSON arrays of ranges --- */

bool subnet_set_same(const struct ip_set *a, const struct ip_set *b)
{
	if (a->n != b->n)
		return false;
	for (size_t i = 0; i < a->n; i++)
		if (!ip_eq(&a->v[i].first, &b->v[i].first) || !ip_eq(&a->v[i].last, &b->v[i].last))
			return false;
	return true;
}

void subnet_put_set(struct json_out *o, const struct ip_set *s)
{
	char first[IP_TEXT_MAX], last[IP_TEXT_MAX];

	jo_arr(o);
	for (size_t i = 0; i < s->n; i++) {
		const struct ip_range *r = &s->v[i];
		auto_free char *text = NULL;

		ip_str(&r->first, first);
		ip_str(&r->last, last);
		text = ip_eq(&r->first, &r->last) ? xstrdup(first)
						  : xasprintf("%s-%s", first, last);
		jo_str(o, text);
	}
	jo_end_arr(o);
}

static int read_set(const struct json *list, uint8_t family, struct ip_set *ret, struct err *e)
{
	struct json_walk w = json_walk_start(list);
	const struct json *v;
	struct ip_range range;
	int r = 0;

	ret->family = family;
	while (r == 0 && (v = json_walk_next(&w, NULL))) {
		r = ip_range_parse(span_of(json_string(v)), family, &range, e);
		if (r == 0)
			ip_set_collect(ret, &range);
	}
	ip_set_merge(ret);
	return r;
}

int subnet_spec_ips(const struct json *spec, struct ip_set *ret, struct err *e)
{
	const char *subnet = json_string(json_get(spec, "subnet"));
	struct ip_set ips = {0}, out = {0};
	struct ipnet net;
	int r;

	*ret = (struct ip_set){0};
	if (!subnet || ipnet_parse_loose(span_of(subnet), &net) < 0)
		return err_kind(e, ERR_CONF, -EINVAL, "spec.subnet is '%s', expected a CIDR",
				subnet ? subnet : "");
	r = read_set(json_get(spec, "ips"), net.ip.family, &ips, e);
	if (r == 0)
		r = read_set(json_get(spec, "excludeIPs"), net.ip.family, &out, e);
	if (r == 0) {
		ip_set_minus(&ips, &out);
		*ret = ips;
	} else {
		ip_set_done(&ips);
	}
	ip_set_done(&out);
	return r;
}

/* --- entries of the status --- */

void subnet_entry_done(struct subnet_entry *x)
{
	free(x->pool);
	free(x->app);
	ip_set_done(&x->ips);
	ip_set_done(&x->pending_release);
}

void subnet_entries_done(struct subnet_entries *l)
{
	for (size_t i = 0; i < l->n; i++)
		subnet_entry_done(&l->v[i]);
	free(l->v);
	*l = (struct subnet_entries){0};
}

static int pool_of(const void *pool, const void *entry)
{
	return strcmp(pool, ((const struct subnet_entry *)entry)->pool);
}

struct subnet_entry *subnet_entry_find(const struct subnet_entries *l, const char *pool)
{
	return l->n ? bsearch(pool, l->v, l->n, sizeof(l->v[0]), pool_of) : NULL;
}

u128 subnet_entries_count(const struct subnet_entries *l)
{
	u128 n = 0;

	for (size_t i = 0; i < l->n; i++)
		n += ip_set_count(&l->v[i].ips) + ip_set_count(&l->v[i].pending_release);
	return n;
}

static int read_entry(const char *pool, const struct json *v, uint8_t family,
		      struct subnet_entries *l, struct err *e)
{
	const char *app = json_string(json_get(v, "application"));
	struct subnet_entry *x = &VEC_PUSH(l->v, l->n);
	int r;

	x->pool = xstrdup(pool);
	x->app = app ? xstrdup(app) : NULL;
	r = read_set(json_get(v, "ips"), family, &x->ips, e);
	if (r == 0)
		r = read_set(json_get(v, "pendingRelease"), family, &x->pending_release, e);
	return r < 0 ? err_wrap(e, r, "status.controlledIPPools: pool '%s'", pool) : 0;
}

static int by_pool(const void *a, const void *b)
{
	return strcmp(((const struct subnet_entry *)a)->pool,
		      ((const struct subnet_entry *)b)->pool);
}

/* Sorts the entries by pool, and merges those of the same pool. */
static void sort_entries(struct subnet_entries *l)
{
	size_t n = 0;

	if (l->n == 0)
		return;
	qsort(l->v, l->n, sizeof(l->v[0]), by_pool);
	for (size_t i = 1; i < l->n; i++) {
		struct subnet_entry *last = &l->v[n], *x = &l->v[i];

		if (strcmp(last->pool, x->pool) != 0) {
			l->v[++n] = *x;
			continue;
		}
		ip_set_plus(&last->ips, &x->ips);
		ip_set_plus(&last->pending_release, &x->pending_release);
		subnet_entry_done(x);
	}
	l->n = n + 1;
}

int subnet_entries_read(const char *text, uint8_t family, struct subnet_entries *ret, struct err *e)
{
	auto_json struct json_doc *d = NULL;
	struct subnet_entries l = {0};
	const struct json *v;
	const char *pool;
	struct json_walk w;
	int r = 0;

	if (!text || !*text) {
		*ret = l;
		return 0;
	}
	r = json_parse(&d, span_of(text), STATUS_MAX, e);
	if (r < 0)
		return err_wrap(e, r, "status.controlledIPPools");
	w = json_walk_start(json_root(d));
	while (r == 0 && (v = json_walk_next(&w, &pool)))
		r = read_entry(pool ? pool : "", v, family, &l, e);
	if (r < 0) {
		subnet_entries_done(&l);
		return r;
	}
	sort_entries(&l);
	*ret = l;
	return 0;
}

void subnet_entries_write(const struct subnet_entries *l, struct buf *b)
{
	struct json_out o;

	if (l->n == 0)
		return;
	jo_init(&o, b, 0);
	jo_obj(&o);
	for (size_t i = 0; i < l->n; i++) {
		jo_key(&o, l->v[i].pool);
		jo_obj(&o);
		jo_key(&o, "ips");
		subnet_put_set(&o, &l->v[i].ips);
		if (l->v[i].app)
			jo_kstr(&o, "application", l->v[i].app);
		if (l->v[i].pending_release.n) {
			jo_key(&o, "pendingRelease");
			subnet_put_set(&o, &l->v[i].pending_release);
		}
		jo_end_obj(&o);
	}
	jo_end_obj(&o);
}

/* --- writes of pools (the subnet as their owner), and of a subnet's status and finalizer --- */

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
				 .on = {.kind = &kube_ippools, .name = pool->name}};
	const struct json *owners = subnets_meta(pool, "ownerReferences");
	const char *label = subnets_label(pool, LABEL_OWNER_SUBNET);
	char text[BLOCK_LABEL_MAX];
	bool other = false;
	struct subnets_body b;

	if ((has_controller(owners, subnet->uid, &other) || other) &&
	    auto_pool_label_is(label, subnet->name))
		return false;
	subnets_body(&b, pool->version);
	jo_key(&b.o, "labels");
	jo_obj(&b.o);
	jo_kstr(&b.o, LABEL_OWNER_SUBNET, block_label(subnet->name, text));
	jo_end_obj(&b.o);
	if (!other && !has_controller(owners, subnet->uid, &other)) {
		jo_key(&b.o, "ownerReferences");
		put_owners(&b.o, owners, subnet);
	}
	jo_end_obj(&b.o);
	put_inherited(&b.o, json_get(cluster_cache_json(subnet), "spec"),
		      json_get(cluster_cache_json(pool), "spec"));
	jo_end_obj(&b.o);
	r.body = buf_span(&b.b);
	subnets_send(s, SUBNETS_POOL, &r);
	buf_done(&b.b);
	return true;
}

/* --- status and finalizer of the subnet --- */

int64_t subnets_count_text(u128 n)
{
	return n > INT64_MAX ? INT64_MAX : (int64_t)n;
}

void subnets_write_status(struct subnets *s, const struct kube_object *subnet,
			  const struct subnet_entries *l, u128 total)
{
	struct kube_request r = {
		.verb = KUBE_MERGE_PATCH,
		.on = {.kind = &kube_subnets, .name = subnet->name, .sub = "status"}};
	auto_buf struct buf text;
	struct subnets_body b;

	buf_init(&text, SUBNETS_BODY_MAX / 2);
	subnet_entries_write(l, &text);
	subnets_body(&b, subnet->version);
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
	const struct json *object = cluster_cache_json(subnet);
	struct kube_request r = {.verb = KUBE_MERGE_PATCH,
				 .on = {.kind = &kube_subnets, .name = subnet->name}};
	struct subnets_body b;

	if (!kube_has_finalizer(object, SPIDERPOOL_FINALIZER))
		return;
	subnets_body(&b, subnet->version);
	kube_put_finalizers(&b.o, object, SPIDERPOOL_FINALIZER, false);
	jo_end_obj(&b.o);
	jo_end_obj(&b.o);
	r.body = buf_span(&b.b);
	subnets_send(s, SUBNETS_STATUS, &r);
	buf_done(&b.b);
}
