/* SPDX-License-Identifier: Apache-2.0 */
/* What makes a SpiderSubnet one that is taken, and a SpiderReservedIP. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "controller/admission/admit_priv.h"

static int check_other_subnets(struct admit *a, const struct pool *p)
{
	auto_buf struct buf hint;
	char text[IP_TEXT_MAX];
	struct pool_set others;
	int r = 0;

	buf_init(&hint, 256);
	admit_others(a, a->world->subnets, a->world->n_subnets, "SpiderSubnet", &others);
	for (size_t i = 0; i < others.n && r == 0; i++) {
		const struct pool *o = &others.v[i];

		if (o->family != p->family || !ipnet_overlaps(&o->subnet, &p->subnet))
			continue;
		admit_overlap_hint(p, o, &hint);
		r = admit_refuse(a, ADMIT_INVALID,
				 "spec.subnet: overlap with Subnet %s which 'spec.subnet' is %s: "
				 "two SpiderSubnets have nothing in common%s",
				 o->name, ipnet_str(&o->subnet, text), hint.len ? hint.p : "");
	}
	pool_set_done(&others);
	return r;
}

/* A pool's addresses are the subnet's, or what is taken from it is nobody's. */
static int check_pool_of_subnet(struct admit *a, const struct pool *p, const struct pool *pool)
{
	char text[IP_TEXT_MAX];
	struct ip_set out;
	auto_buf struct buf ranges = {0}, hint = {0};
	int r = 0;

	buf_init(&hint, 256);
	if (pool->family != p->family || !ipnet_overlaps(&pool->subnet, &p->subnet))
		return 0;
	if (!ipnet_eq(&pool->subnet, &p->subnet)) {
		admit_overlap_hint(p, pool, &hint);
		return admit_refuse(a, ADMIT_INVALID,
				    "spec.subnet: overlap with SpiderIPPool '%s' resource "
				    "'spec.subnet' %s: make the two equal or disjoint%s",
				    pool->name, ipnet_str(&pool->subnet, text),
				    hint.len ? hint.p : "");
	}
	admit_set_copy(&pool->ips, &out);
	ip_set_minus(&out, &p->ips);
	buf_init(&ranges, 512);
	admit_ranges(&out, &ranges);
	if (out.n > 0)
		r = admit_refuse(a, ADMIT_INVALID,
				 "spec.ips: SpiderIPPool '%s' owns some IP addresses that "
				 "SpiderSubnet '%s' can't control: add %s",
				 pool->name, a->ask->name, ranges.p);
	ip_set_done(&out);
	return r;
}

/* Of an update: what the subnet had and does not have, and a pool still has. */
static int check_removed(struct admit *a, const struct ip_set *removed, const struct pool *pool)
{
	struct ip_set common;
	auto_buf struct buf ranges = {0};
	int r = 0;

	if (removed->family != pool->family)
		return 0;
	admit_set_common(removed, &pool->ips, &common);
	buf_init(&ranges, 512);
	admit_ranges(&common, &ranges);
	if (common.n > 0)
		r = admit_refuse(
			a, ADMIT_FORBIDDEN,
			"spec.ips: remove some IP ranges %s that is being used by IPPool "
			"%s, total IP addresses of an Subnet are jointly determined by "
			"'spec.ips' and 'spec.excludeIPs': take them out of the pool first",
			ranges.p, pool->name);
	ip_set_done(&common);
	return r;
}

static void removed_ips(const struct admit *a, const struct pool *p, struct ip_set *ret)
{
	struct admit_answer nobody = {0};
	struct admit quiet = {a->world, a->ask, &nobody};
	struct pool old = {0};

	*ret = (struct ip_set){0};
	if (admit_pool_of(&quiet, a->ask->name, json_get(a->ask->old, "spec"), &old) == 0) {
		admit_set_copy(&old.ips, ret);
		ip_set_minus(ret, &p->ips);
		pool_done(&old);
	}
	admit_answer_done(&nobody);
}

static int check_pools(struct admit *a, const struct pool *p)
{
	bool is_update = a->ask->operation == ADMIT_UPDATE;
	struct ip_set removed = {0};
	struct pool_set pools;
	int r = 0;

	admit_others(a, a->world->pools, a->world->n_pools, "SpiderIPPool", &pools);
	if (is_update)
		removed_ips(a, p, &removed);
	for (size_t i = 0; i < pools.n && r == 0; i++)
		r = is_update ? check_removed(a, &removed, &pools.v[i])
			      : check_pool_of_subnet(a, p, &pools.v[i]);
	ip_set_done(&removed);
	pool_set_done(&pools);
	return r;
}

/* Addresses that the subnet's pools have. */
static int64_t taken(const struct admit *a)
{
	const char *cidr = admit_text(json_get(json_get(a->ask->old, "spec"), "subnet"));
	struct pool_set pools;
	struct ipnet net;
	u128 n = 0;

	if (ipnet_parse(span_of(cidr), &net) < 0)
		return 0;
	net = ipnet_network(&net);
	admit_others(a, a->world->pools, a->world->n_pools, "SpiderIPPool", &pools);
	for (size_t i = 0; i < pools.n; i++)
		if (ipnet_eq(&pools.v[i].subnet, &net))
			n += ip_set_count(&pools.v[i].ips);
	pool_set_done(&pools);
	return n > INT64_MAX ? INT64_MAX : (int64_t)n;
}

/* Its status says the same, but later; it alone speaks while pools are not listed yet. */
static int check_deletion(struct admit *a)
{
	int64_t n = 0, m = taken(a);

	json_int(json_get(json_get(a->ask->old, "status"), "allocatedIPCount"), &n);
	if (n < m)
		n = m;
	if (n > 0 && a->world->keep_used)
		return admit_forbid(a,
				    "cannot delete an Subnet with allocated IPs(%" PRId64
				    "): delete its pools first",
				    n);
	if (n > 0)
		admit_warn(a,
			   "%" PRId64 " addresses of Subnet %s are in use: its pools go with it, "
			   "each when its last address is free",
			   n, a->ask->name);
	return 0;
}

int admit_check_subnet(struct admit *a)
{
	const struct json *spec = json_get(a->ask->object, "spec");
	bool is_update = a->ask->operation == ADMIT_UPDATE;
	struct pool p = {0};
	int r = 0;

	if (a->ask->operation == ADMIT_DELETE)
		return check_deletion(a);
	if (is_update) {
		if (admit_spec_stays(a))
			return 0;
		if (admit_is_going(a->ask->old))
			return admit_forbid(a, "cannot update a terminating Subnet: it goes when "
					       "its pools are gone");
		r = admit_check_fixed(a);
	}
	if (r == 0)
		r = admit_pool_of(a, a->ask->name, spec, &p);
	if (r == 0)
		r = admit_check_family(a, p.family);
	if (r == 0 && !is_update)
		r = check_other_subnets(a, &p);
	if (r == 0)
		r = check_pools(a, &p);
	pool_done(&p);
	return r;
}

/* --- SpiderReservedIP --- */

static int check_reserved_range(struct admit *a, const struct json *v, size_t i, uint8_t family)
{
	struct err e = ERR_INIT;
	struct ip_range r;

	if (!json_string(v))
		return admit_refuse(a, ADMIT_INVALID, "spec.ips[%zu]: is %s, wants a string", i,
				    json_kind_name(v));
	if (ip_range_parse(span_of(json_string(v)), family, &r, &e) == 0)
		return 0;
	if (strstr(e.text, "as the subnet is"))
		return admit_refuse(a, ADMIT_INVALID,
				    "spec.ips[%zu]: '%.100s' is not IPv%u as spec.ipVersion says: "
				    "make a SpiderReservedIP for each family",
				    i, json_string(v), family);
	return admit_refuse(a, ADMIT_INVALID, "spec.ips[%zu]: %s", i, e.text);
}

static int check_reserved_ranges(struct admit *a, const struct json *spec, uint8_t family)
{
	struct json_walk w = json_walk_start(json_get(spec, "ips"));
	const struct json *v;
	int r = 0;

	for (size_t i = 0; r == 0 && (v = json_walk_next(&w, NULL)); i++)
		r = check_reserved_range(a, v, i, family);
	return r;
}

/* Without a version the first address is none, or there is no address. */
static int check_versionless(struct admit *a, const struct json *spec)
{
	const struct json *first = json_at(json_get(spec, "ips"), 0);

	if (first && check_reserved_range(a, first, 0, strchr(admit_text(first), ':') ? 6 : 4) < 0)
		return -EINVAL;
	return admit_refuse(a, ADMIT_REQUIRED,
			    "spec.ips: is empty: give addresses such as 10.6.0.1 or "
			    "10.6.0.1-10.6.0.9");
}

int admit_check_reserved(struct admit *a)
{
	const struct json *spec = json_get(a->ask->object, "spec");
	int64_t version = 0;
	int r;

	if (a->ask->operation == ADMIT_DELETE)
		return 0;
	if (admit_spec_stays(a))
		return 0;
	if (a->ask->operation == ADMIT_UPDATE && admit_is_going(a->ask->old))
		return admit_forbid(a, "cannot update a terminating ReservedIP");
	if (json_string(json_get(spec, "ipVersion")))
		return admit_refuse(a, ADMIT_NOT_SUPPORTED,
				    "spec.ipVersion: is '%.60s', wants 4 or 6",
				    json_string(json_get(spec, "ipVersion")));
	if (json_int(json_get(spec, "ipVersion"), &version) < 0)
		return check_versionless(a, spec);
	if (version != 4 && version != 6)
		return admit_refuse(a, ADMIT_NOT_SUPPORTED,
				    "spec.ipVersion: is %" PRId64 ", wants 4 or 6", version);
	r = a->ask->operation == ADMIT_UPDATE ? admit_check_fixed(a) : 0;
	if (r == 0)
		r = admit_check_family(a, (uint8_t)version);
	return r == 0 ? check_reserved_ranges(a, spec, (uint8_t)version) : r;
}
