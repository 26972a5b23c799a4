/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "block/block.h"
#include "controller/admission/internal.h"
#include "ipam/pool/pool_cluster.h"
#include "kube/object.h"
#include "spec/annotations.h"

/* Validation of SpiderIPPool, SpiderSubnet and SpiderReservedIP. */

#define JOINTLY                                                                                    \
	"total IP addresses of an IPPool are jointly determined by 'spec.ips' and "                \
	"'spec.excludeIPs'"

/* Computes the addresses that the request adds. */
static void added_ips(const struct admit *a, const struct pool *p, struct ip_set *ret)
{
	struct admit_answer ignored = {0};
	struct admit silent = {a->cache, a->request, &ignored};
	struct pool old = {0};

	ip_set_copy(&p->ips, ret);
	if (a->request->operation == ADMIT_UPDATE &&
	    admit_pool_of(&silent, a->request->name, json_get(a->request->old, "spec"), &old) ==
		    0) {
		ip_set_minus(ret, &old.ips);
		pool_done(&old);
	}
	admit_answer_done(&ignored);
}

/* --- conflicts with other pools --- */

static int overlap_net(struct admit *a, const struct pool *p, const struct pool *other)
{
	auto_buf struct buf hint;
	char text[IP_TEXT_MAX];

	buf_init(&hint, 256);
	admit_overlap_hint(p, other, &hint);
	return admit_refuse(a, ADMIT_INVALID,
			    "spec.subnet: overlap with IPPool %s which 'spec.subnet' is %s: make "
			    "the two equal or disjoint%s%s",
			    other->name, ipnet_str(&other->subnet, text),
			    p->subnet.len > other->subnet.len
				    ? " (to use a part of a subnet, set 'spec.ips')"
				    : "",
			    hint.len ? hint.p : "");
}

static int check_other(struct admit *a, const struct pool *p, const struct ip_set *added,
		       const struct pool *other)
{
	struct ip_set common;
	auto_buf struct buf text = {0};

	if (p->family != other->family || !ipnet_overlaps(&p->subnet, &other->subnet))
		return 0;
	if (!ipnet_eq(&p->subnet, &other->subnet))
		return a->request->operation == ADMIT_CREATE ? overlap_net(a, p, other) : 0;
	ip_set_intersect(added, &other->ips, &common);
	if (common.n == 0)
		return 0;
	buf_init(&text, 512);
	admit_ranges(&common, &text);
	ip_set_done(&common);
	return admit_refuse(a, ADMIT_FORBIDDEN,
			    "spec.ips: overlap with IPPool %s in IP ranges %s, " JOINTLY
			    ": remove these ranges from one of the two pools",
			    other->name, text.p);
}

static int check_others(struct admit *a, const struct pool *p, const struct ip_set *added)
{
	struct pool_set peers;
	int r = 0;

	admit_others(a, a->cache->pools, a->cache->n_pools, "SpiderIPPool", &peers);
	for (size_t i = 0; i < peers.n && r == 0; i++)
		r = check_other(a, p, added, &peers.v[i]);
	pool_set_done(&peers);
	return r;
}

/* --- the pool's SpiderSubnet --- */

static const struct json *auto_ips(const struct json *subnet, const char *pool,
				   struct json_doc **doc)
{
	const char *text = json_string(json_get(json_get(subnet, "status"), "controlledIPPools"));

	if (!text || json_parse(doc, span_of(text), SIZE_MAX, NULL) < 0)
		return NULL;
	return json_get(json_get(json_root(*doc), pool), "ips");
}

static bool is_auto(const struct json *object)
{
	return *json_text(json_get(kube_meta(object, "labels"), LABEL_OWNER_NAME)) != '\0';
}

/*
 * An automatic pool must have exactly the addresses that the controller has already written to the
 * subnet's status.
 */
static int check_auto(struct admit *a, const struct json *subnet)
{
	auto_json struct json_doc *doc = NULL;
	const struct json *noted = auto_ips(subnet, a->request->name, &doc);

	if (!is_auto(a->request->object) ||
	    json_same(noted, json_get(json_get(a->request->object, "spec"), "ips")))
		return 0;
	return admit_refuse(
		a, ADMIT_FORBIDDEN,
		"spec.ips: it's illegal to update AutoPool.Spec.IPs that are different from "
		"corresponding SpiderSubnet.Status.ControlledIPPools: change the workload's "
		"annotation ipam.spidernet.io/ippool-ip-number");
}

static int check_within(struct admit *a, const struct json *subnet, const struct pool *p,
			const struct ip_set *added)
{
	const char *name = json_text(kube_meta(subnet, "name"));
	struct admit_answer ignored = {0};
	struct admit silent = {a->cache, a->request, &ignored};
	struct pool whole = {0};
	struct ip_set out;
	auto_buf struct buf text = {0};
	int r = 0;

	if (admit_pool_of(&silent, name, json_get(subnet, "spec"), &whole) < 0 ||
	    !ipnet_eq(&whole.subnet, &p->subnet)) {
		admit_answer_done(&ignored);
		pool_done(&whole);
		return 0;
	}
	ip_set_copy(added, &out);
	ip_set_minus(&out, &whole.ips);
	buf_init(&text, 512);
	admit_ranges(&out, &text);
	if (out.n > 0)
		r = admit_refuse(a, ADMIT_FORBIDDEN,
				 "spec.ips: add some IP ranges %s that are not contained in "
				 "controller Subnet %s, " JOINTLY,
				 text.p, name);
	else
		r = check_auto(a, subnet);
	ip_set_done(&out);
	pool_done(&whole);
	return r;
}

static int check_subnets(struct admit *a, const struct pool *p, const struct ip_set *added)
{
	int r = 0;

	for (size_t i = 0; i < a->cache->n_subnets && r == 0; i++)
		r = check_within(a, a->cache->subnets[i], p, added);
	return r;
}

/* --- addresses in use --- */

struct use {
	const struct ip_set *deleted;
	char address[IP_TEXT_MAX];
	char *pod;
	int64_t n; /* number of records of addresses in use */
};

static void find_use(void *arg, const struct ipaddr *ip, const char *pod, const char *uid)
{
	struct use *u = arg;

	(void)uid;
	u->n++;
	if (u->pod || !ip_set_has(u->deleted, ip))
		return;
	ip_str(ip, u->address);
	u->pod = xstrdup(pod);
}

/* Denies the removal of an address that a pod uses. status.allocatedIPs has a limited length:
 * while it does not list every address in use, the removal of any address is denied. */
static int check_removed_ips(struct admit *a, const struct ip_set *deleted)
{
	const struct json *old = a->request->old, *status = json_get(old, "status");
	struct use u = {.deleted = deleted};
	int64_t count = 0, listed;
	int r = 0;

	json_int(json_get(status, "allocatedIPCount"), &count);
	pool_records_read(json_text(json_get(status, "allocatedIPs")), find_use, &u, NULL);
	listed = u.n;
	pool_records_read(json_text(admit_annotation(old, ANNOTATION_ADOPTED)), find_use, &u, NULL);
	if (u.pod)
		r = admit_refuse(
			a, ADMIT_FORBIDDEN,
			"spec.ips: the update would remove an IP address %s that is being used by Pod %s, " JOINTLY
			": delete the pod first",
			u.address, u.pod);
	else if (listed < count)
		r = admit_refuse(a, ADMIT_FORBIDDEN,
				 "spec.ips: cannot remove addresses while %" PRId64
				 " are in use and status.allocatedIPs names only %" PRId64
				 ": raise the controller's max-allocated-ips first",
				 count, listed);
	free(u.pod);
	return r;
}

static int check_use(struct admit *a, const struct pool *p)
{
	struct admit_answer ignored = {0};
	struct admit silent = {a->cache, a->request, &ignored};
	struct pool was = {0};
	int r = 0;

	if (admit_pool_of(&silent, a->request->name, json_get(a->request->old, "spec"), &was) ==
	    0) {
		ip_set_minus(&was.ips, &p->ips);
		r = was.ips.n ? check_removed_ips(a, &was.ips) : 0;
	}
	pool_done(&was);
	admit_answer_done(&ignored);
	return r;
}

/* --- affinities of a pool --- */

/* Denies the podAffinity "{}": it would match every pod, like an absent podAffinity, and is
 * probably a mistake. Denies additions to the podAffinity of an automatic pool. */
static int check_affinity(struct admit *a, const struct pool *p)
{
	const struct json *labels, *v;
	struct json_walk w;
	const char *key;

	if (!p->pod_affinity.given)
		return 0;
	if (p->pod_affinity.n == 0)
		return admit_refuse(a, ADMIT_INVALID,
				    "spec.podAffinity: empty podAffinity is invalid for "
				    "SpiderIPPool: give it labels, or leave it out for all pods");
	if (!is_auto(a->request->object))
		return 0;
	v = json_get(json_get(a->request->object, "spec"), "podAffinity");
	if (json_len(json_get(v, "matchExpressions")) > 0)
		return admit_refuse(a, ADMIT_FORBIDDEN,
				    "spec.podAffinity.matchExpressions: it's invalid to add "
				    "podAffinity matchExpressions for auto-created SpiderIPPool");
	labels = json_get(v, "matchLabels");
	w = json_walk_start(labels);
	while (json_walk_next(&w, &key))
		if (strncmp(key, LABEL_APP_PREFIX, strlen(LABEL_APP_PREFIX)) != 0)
			return admit_refuse(
				a, ADMIT_FORBIDDEN,
				"spec.podAffinity.matchLabels: it's invalid to add additional "
				"podAffinity matchLabels for auto-created SpiderIPPool: remove "
				"'%.100s'",
				key);
	return 0;
}

static void say_unused(struct admit *a, const struct pool *p)
{
	if (p->ips.n == 0)
		admit_warn(a, "spec.ips: the pool has no address: add some, such as '%s'",
			   p->family == 4 ? "10.6.0.10-10.6.0.99" : "fd00::10-fd00::99");
	if (p->node_affinity.given && p->n_nodes > 0)
		admit_warn(a, "spec.nodeAffinity is ignored because nodeName is set");
	if (p->namespace_affinity.given && p->n_namespaces > 0)
		admit_warn(a, "spec.namespaceAffinity is ignored because namespaceName is set");
}

/* --- the name of a pool --- */

/* Limits the length of a new pool's name, because the names of the pool's blocks contain this
 * name. */
static int check_name(struct admit *a, const struct pool *p)
{
	char name[BLOCK_NAME_MAX + 1];
	struct block_cut cut;
	u128 last, n;
	int room = BLOCK_NAME_MAX - 1;

	if (a->request->operation != ADMIT_CREATE ||
	    block_cut_choose(&p->subnet, 0, false, &cut, NULL) < 0)
		return 0;
	last = block_count(&cut) - 1;
	if (block_name(a->request->name, last, name) == 0)
		return 0;
	for (n = last, room--; n >= 16; n /= 16)
		room--;
	return admit_refuse(a, ADMIT_INVALID,
			    "metadata.name: has %zu characters, expected %d at most: the pool's "
			    "SpiderIPBlocks are named after it",
			    strlen(a->request->name), room);
}

/* --- the whole SpiderIPPool --- */

static int check_valid(struct admit *a, const struct pool *p)
{
	bool is_update = a->request->operation == ADMIT_UPDATE;
	struct ip_set added;
	int r;

	added_ips(a, p, &added);
	r = admit_check_family(a, p->family);
	if (r == 0)
		r = check_name(a, p);
	if (r == 0)
		r = check_affinity(a, p);
	if (r == 0)
		r = check_others(a, p, &added);
	if (r == 0 && is_update)
		r = check_use(a, p);
	if (r == 0)
		r = check_subnets(a, p, &added);
	if (r == 0)
		say_unused(a, p);
	ip_set_done(&added);
	return r;
}

static int check_deletion(struct admit *a)
{
	int64_t n = 0;

	json_int(json_get(json_get(a->request->old, "status"), "allocatedIPCount"), &n);
	if (n <= 0)
		return 0;
	if (a->cache->protect_used)
		return admit_forbid(a,
				    "cannot delete an IPPool with allocated IPs(%" PRId64
				    "): delete their pods first",
				    n);
	admit_warn(a,
		   "%" PRId64 " addresses of IPPool %s are in use: no more are allocated, and the "
		   "pool is removed when the last is released",
		   n, a->request->name);
	return 0;
}

int admit_check_pool(struct admit *a)
{
	const struct json *spec = json_get(a->request->object, "spec");
	struct pool p = {0};
	int r = 0;

	if (a->request->operation == ADMIT_DELETE)
		return check_deletion(a);
	if (a->request->operation == ADMIT_UPDATE) {
		if (admit_spec_stays(a))
			return 0;
		if (admit_is_going(a->request->old))
			return admit_forbid(a, "cannot update a terminating IPPool: it is removed "
					       "when its last address is released");
		r = admit_check_fixed(a);
	}
	if (r == 0)
		r = admit_pool_of(a, a->request->name, spec, &p);
	if (r == 0)
		r = check_valid(a, &p);
	pool_done(&p);
	return r;
}

/* --- validation of SpiderSubnet and SpiderReservedIP --- */

static int check_other_subnets(struct admit *a, const struct pool *p)
{
	auto_buf struct buf hint;
	char text[IP_TEXT_MAX];
	struct pool_set peers;
	int r = 0;

	buf_init(&hint, 256);
	admit_others(a, a->cache->subnets, a->cache->n_subnets, "SpiderSubnet", &peers);
	for (size_t i = 0; i < peers.n && r == 0; i++) {
		const struct pool *o = &peers.v[i];

		if (o->family != p->family || !ipnet_overlaps(&o->subnet, &p->subnet))
			continue;
		admit_overlap_hint(p, o, &hint);
		r = admit_refuse(a, ADMIT_INVALID,
				 "spec.subnet: overlap with Subnet %s which 'spec.subnet' is %s: "
				 "two SpiderSubnets must not overlap%s",
				 o->name, ipnet_str(&o->subnet, text), hint.len ? hint.p : "");
	}
	pool_set_done(&peers);
	return r;
}

/* Denies a SpiderSubnet whose CIDR overlaps with the CIDR of a pool but is not equal to it, or
 * that lacks addresses of a pool with the same CIDR. */
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
	ip_set_copy(&pool->ips, &out);
	ip_set_minus(&out, &p->ips);
	buf_init(&ranges, 512);
	admit_ranges(&out, &ranges);
	if (out.n > 0)
		r = admit_refuse(a, ADMIT_INVALID,
				 "spec.ips: SpiderIPPool '%s' owns some IP addresses that "
				 "SpiderSubnet '%s' can't control: add %s",
				 pool->name, a->request->name, ranges.p);
	ip_set_done(&out);
	return r;
}

/* For an update: denies the removal of addresses that a pool still has. */
static int check_removed(struct admit *a, const struct ip_set *removed, const struct pool *pool)
{
	struct ip_set common;
	auto_buf struct buf ranges = {0};
	int r = 0;

	if (removed->family != pool->family)
		return 0;
	ip_set_intersect(removed, &pool->ips, &common);
	buf_init(&ranges, 512);
	admit_ranges(&common, &ranges);
	if (common.n > 0)
		r = admit_refuse(
			a, ADMIT_FORBIDDEN,
			"spec.ips: remove some IP ranges %s that is being used by IPPool %s, total "
			"IP addresses of an Subnet are jointly determined by 'spec.ips' and "
			"'spec.excludeIPs': remove them from the pool first",
			ranges.p, pool->name);
	ip_set_done(&common);
	return r;
}

static void removed_ips(const struct admit *a, const struct pool *p, struct ip_set *ret)
{
	struct admit_answer ignored = {0};
	struct admit silent = {a->cache, a->request, &ignored};
	struct pool old = {0};

	*ret = (struct ip_set){0};
	if (admit_pool_of(&silent, a->request->name, json_get(a->request->old, "spec"), &old) ==
	    0) {
		ip_set_copy(&old.ips, ret);
		ip_set_minus(ret, &p->ips);
		pool_done(&old);
	}
	admit_answer_done(&ignored);
}

static int check_pools(struct admit *a, const struct pool *p)
{
	bool is_update = a->request->operation == ADMIT_UPDATE;
	struct ip_set removed = {0};
	struct pool_set pools;
	int r = 0;

	admit_others(a, a->cache->pools, a->cache->n_pools, "SpiderIPPool", &pools);
	if (is_update)
		removed_ips(a, p, &removed);
	for (size_t i = 0; i < pools.n && r == 0; i++)
		r = is_update ? check_removed(a, &removed, &pools.v[i])
			      : check_pool_of_subnet(a, p, &pools.v[i]);
	ip_set_done(&removed);
	pool_set_done(&pools);
	return r;
}

/* Returns the number of addresses in the subnet's pools. */
static int64_t taken(const struct admit *a)
{
	const char *cidr = json_text(json_get(json_get(a->request->old, "spec"), "subnet"));
	struct pool_set pools;
	struct ipnet net;
	u128 n = 0;

	if (ipnet_parse(span_of(cidr), &net) < 0)
		return 0;
	net = ipnet_network(&net);
	admit_others(a, a->cache->pools, a->cache->n_pools, "SpiderIPPool", &pools);
	for (size_t i = 0; i < pools.n; i++)
		if (ipnet_eq(&pools.v[i].subnet, &net))
			n += ip_set_count(&pools.v[i].ips);
	pool_set_done(&pools);
	return n > INT64_MAX ? INT64_MAX : (int64_t)n;
}

/*
 * With protect_used, denies the deletion of a subnet whose pools have addresses; otherwise warns.
 * The number of addresses is the larger of status.allocatedIPCount and the count in the cached
 * pools, which is 0 while pools are not listed.
 */
static int admit_subnet_check_deletion(struct admit *a)
{
	int64_t n = 0, m = taken(a);

	json_int(json_get(json_get(a->request->old, "status"), "allocatedIPCount"), &n);
	if (n < m)
		n = m;
	if (n > 0 && a->cache->protect_used)
		return admit_forbid(a,
				    "cannot delete an Subnet with allocated IPs(%" PRId64
				    "): delete its pools first",
				    n);
	if (n > 0)
		admit_warn(a,
			   "%" PRId64 " addresses of Subnet %s are in use by its pools: the "
			   "pools are removed too, each when the last of its addresses is released",
			   n, a->request->name);
	return 0;
}

int admit_check_subnet(struct admit *a)
{
	const struct json *spec = json_get(a->request->object, "spec");
	bool is_update = a->request->operation == ADMIT_UPDATE;
	struct pool p = {0};
	int r = 0;

	if (a->request->operation == ADMIT_DELETE)
		return admit_subnet_check_deletion(a);
	if (is_update) {
		if (admit_spec_stays(a))
			return 0;
		if (admit_is_going(a->request->old))
			return admit_forbid(a, "cannot update a terminating Subnet: it is removed "
					       "when its pools are removed");
		r = admit_check_fixed(a);
	}
	if (r == 0)
		r = admit_pool_of(a, a->request->name, spec, &p);
	if (r == 0)
		r = admit_check_family(a, p.family);
	if (r == 0 && !is_update)
		r = check_other_subnets(a, &p);
	if (r == 0)
		r = check_pools(a, &p);
	pool_done(&p);
	return r;
}

/* --- checks of a SpiderReservedIP --- */

static int check_reserved_range(struct admit *a, const struct json *v, size_t i, uint8_t family)
{
	struct err e = ERR_INIT;
	struct ip_range range;
	int ret;

	if (!json_string(v))
		return admit_refuse(a, ADMIT_INVALID, "spec.ips[%zu]: is %s, expected a string", i,
				    json_kind_name(v));
	ret = ip_range_parse(span_of(json_string(v)), family, &range, &e);
	if (ret == 0)
		return 0;
	if (ret == -EAFNOSUPPORT)
		return admit_refuse(a, ADMIT_INVALID,
				    "spec.ips[%zu]: '%.100s' is not IPv%u as in spec.ipVersion: "
				    "create a SpiderReservedIP for each family",
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

/* Denies an object without ipVersion: defaulting sets it unless the first address is invalid or
 * absent. */
static int check_versionless(struct admit *a, const struct json *spec)
{
	const struct json *first = json_at(json_get(spec, "ips"), 0);

	if (first && check_reserved_range(a, first, 0, strchr(json_text(first), ':') ? 6 : 4) < 0)
		return -EINVAL;
	return admit_refuse(a, ADMIT_REQUIRED,
			    "spec.ips: is empty: add addresses such as 10.6.0.1 or "
			    "10.6.0.1-10.6.0.9");
}

int admit_check_reserved(struct admit *a)
{
	const struct json *spec = json_get(a->request->object, "spec");
	int64_t version = 0;
	int r;

	if (a->request->operation == ADMIT_DELETE)
		return 0;
	if (admit_spec_stays(a))
		return 0;
	if (a->request->operation == ADMIT_UPDATE && admit_is_going(a->request->old))
		return admit_forbid(a, "cannot update a terminating ReservedIP");
	if (json_string(json_get(spec, "ipVersion")))
		return admit_refuse(a, ADMIT_NOT_SUPPORTED,
				    "spec.ipVersion: is '%.60s', expected 4 or 6",
				    json_string(json_get(spec, "ipVersion")));
	if (json_int(json_get(spec, "ipVersion"), &version) < 0)
		return check_versionless(a, spec);
	if (version != 4 && version != 6)
		return admit_refuse(a, ADMIT_NOT_SUPPORTED,
				    "spec.ipVersion: is %" PRId64 ", expected 4 or 6", version);
	r = a->request->operation == ADMIT_UPDATE ? admit_check_fixed(a) : 0;
	if (r == 0)
		r = admit_check_family(a, (uint8_t)version);
	return r == 0 ? check_reserved_ranges(a, spec, (uint8_t)version) : r;
}
