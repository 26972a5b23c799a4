/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/blocks/adopt.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/blocks/cni_cache.h"
#include "base/alloc.h"
#include "base/log.h"
#include "base/sorted.h"
#include "ipam/journal/lease.h"
#include "spec/annotations.h"
#include "wire/json/json.h"

enum { TICK_MS = 5 * 1000, TEXT_MAX = 1 << 20, NAMES_MAX = 400 };

struct adoption {
	struct adopt_conf conf;
	struct loop_alarm timer;
	/* loop times in ms. since: when unadopted blocks were first seen (0: there are none);
	 * rescanned: when the inventory was last taken */
	int64_t since, rescanned;
	struct log_once logged;	      /* the last logged list of pods that delay the adoption */
	struct log_once logged_cache; /* the last logged error of the CNI result cache */
	bool logged_no_cache;
};

/* --- addresses that the traces of a pod name --- */

void adopt_traces_done(struct adopt_traces *t)
{
	for (size_t i = 0; i < t->n; i++)
		free(t->v[i].ifname);
	free(t->v);
	*t = (struct adopt_traces){0};
}

static int add(struct adopt_traces *t, const char *address, const char *ifname, bool written,
	       struct err *e)
{
	struct ipnet net;

	if (ipnet_parse_loose(span_of(address), &net) < 0)
		return err_kind(e, ERR_DECODE, -EINVAL, "'%.60s' is not an address", address);
	VEC_PUSH(t->v, t->n) =
		(struct adopt_address){net.ip, xstrdup(ifname ? ifname : ""), written, false};
	return 0;
}

/* A text that is not an array is invalid: none of its addresses counts. */
static int read_list(const char *text, struct json_doc **doc, const struct json **list,
		     struct err *e)
{
	int r = json_parse(doc, span_of(text), TEXT_MAX, e);

	if (r == 0 && json_kind(json_root(*doc)) != JSON_ARRAY)
		r = json_wants(json_root(*doc), "the list", "an array", e);
	*list = r == 0 ? json_root(*doc) : NULL;
	return r;
}

int adopt_read_status(const char *text, struct adopt_traces *t, struct err *e)
{
	auto_json struct json_doc *doc = NULL;
	const struct json *list, *v, *ip;
	int r = read_list(text, &doc, &list, e);
	struct json_walk w, ips;

	if (r < 0)
		return r;
	w = json_walk_start(list);
	while (r == 0 && (v = json_walk_next(&w, NULL))) {
		const char *ifname = json_string(json_get(v, "interface"));

		ips = json_walk_start(json_get(v, "ips"));
		while (r == 0 && (ip = json_walk_next(&ips, NULL)))
			r = add(t, json_string(ip) ? json_string(ip) : "", ifname, false, e);
	}
	return r;
}

int adopt_read_endpoint(const char *status, struct adopt_traces *t, struct err *e)
{
	static const char *const keys[] = {"ipv4", "ipv6"};
	auto_json struct json_doc *doc = NULL;
	const struct json *v;
	int r = json_parse(&doc, span_of(status), TEXT_MAX, e);
	struct json_walk w;

	if (r < 0)
		return r;
	w = json_walk_start(json_get(json_get(json_root(doc), "current"), "ips"));
	while (r == 0 && (v = json_walk_next(&w, NULL)))
		for (size_t i = 0; i < ARRAY_LEN(keys) && r == 0; i++) {
			const char *ip = json_string(json_get(v, keys[i]));

			if (ip && *ip)
				r = add(t, ip, json_string(json_get(v, "interface")), true, e);
		}
	return r;
}

static bool is_endpoint_of(const char *status, const char *uid)
{
	auto_json struct json_doc *doc = NULL;
	const char *s;

	if (json_parse(&doc, span_of(status), TEXT_MAX, NULL) < 0)
		return false;
	s = json_string(json_get(json_get(json_root(doc), "current"), "uid"));
	return s && strcmp(s, uid) == 0;
}

size_t adopt_uids(const struct lease_table *t, const char ***ret)
{
	size_t n = 0;

	*ret = xcalloc(t->n + 1, sizeof(**ret));
	for (size_t i = 0; i < t->n; i++)
		if (t->v[i].state == LEASE_USED)
			(*ret)[n++] = t->v[i].pod_uid;
	if (n > 1)
		qsort(*ret, n, sizeof(**ret), str_order);
	return n;
}

bool adopt_has_leases(const char *const *uids, size_t n, const char *uid)
{
	return n > 0 && bsearch(&uid, uids, n, sizeof(*uids), str_order) != NULL;
}

/* Adds the addresses that the pod's traces name to t. Returns whether the pod left a trace, or
 * needs none (host network, finished). */
static bool trace(const struct adoption *f, bool has_leases, const struct pod_facts *p,
		  struct adopt_traces *t)
{
	const char *status = labels_get(&p->annotations, ANNOTATION_NETWORK_STATUS);
	const char *endpoint = endpoints_status(f->conf.endpoints, p->ns, p->name);
	bool found = has_leases;

	if (status && adopt_read_status(status, t, NULL) == 0)
		found = true;
	if (endpoint && is_endpoint_of(endpoint, p->uid) &&
	    adopt_read_endpoint(endpoint, t, NULL) == 0)
		found = true;
	return found || p->host_network || p->finished;
}

/* --- pod that has an address --- */

static int by_address(const void *a, const void *b)
{
	const struct adopt_claim *x = a, *y = b;
	int order = ip_cmp(&x->ip, &y->ip);

	if (order == 0 && x->cached != y->cached)
		return x->cached ? -1 : 1;
	if (order == 0 && x->written != y->written)
		return x->written ? -1 : 1;
	return order ? order : (x->pod > y->pod) - (x->pod < y->pod);
}

size_t adopt_resolve(struct adopt_claim *v, size_t n, bool *clear, size_t *at)
{
	size_t n_unique = 0;

	*clear = true;
	if (n > 1)
		qsort(v, n, sizeof(*v), by_address);
	for (size_t i = 0; i < n; i++) {
		const struct adopt_claim *last = n_unique ? &v[n_unique - 1] : NULL;

		if (!last || !ip_eq(&last->ip, &v[i].ip)) {
			v[n_unique++] = v[i];
		} else if (last->pod != v[i].pod && (last->cached ? v[i].cached : !last->written)) {
			v[n_unique] = v[i];
			*clear = false;
			*at = n_unique - 1;
			return n_unique + 1;
		}
	}
	return n_unique;
}

/* --- inventory of addresses: the blocks and pods that they belong to --- */

struct account {
	/* strings are borrowed from pods' traces, `cache`, blocks and pools */
	struct adopt_claim *claims;
	size_t n_claims;
	struct ipam_known *known;
	size_t n;
	const struct block_object **blocks; /* sorted by network address */
	size_t n_blocks;
	const struct lease_table *leases;
	struct adopt_traces *traces; /* one element per pod */
	size_t n_traces;
	struct cni_cache cache;
	struct buf missing; /* for the log: the pods that delay the adoption */
};

static void list_blocks(const struct blocks *b, struct account *x)
{
	const struct block_object *o;
	size_t at = 0;

	while ((o = blocks_unadopted_next(b, &at)))
		VEC_PUSH(x->blocks, x->n_blocks) = o;
	if (x->n_blocks > 1)
		qsort(x->blocks, x->n_blocks, sizeof(*x->blocks), block_object_order);
}

/* Returns the unadopted block that contains the address; NULL: there is none. */
static const struct block_object *block_of(const struct account *x, const struct ipaddr *a)
{
	size_t behind = LOWER_BOUND(i, x->n_blocks, ip_cmp(&x->blocks[i]->net.ip, a) <= 0);

	if (behind == 0 || x->blocks[behind - 1]->net.ip.family != a->family ||
	    !ipnet_contains(&x->blocks[behind - 1]->net, a))
		return NULL;
	return x->blocks[behind - 1];
}

/* Records an address that is in no unadopted block: this node may have borrowed it from a peer
 * before the log was lost. Once no lease has the address, it is returned (block/plan.c). An
 * annotation may be forged: if no SpiderEndpoint and no allocation of an agent confirms the
 * address, it is reported and delays the adoption. */
static void record_borrowed(const struct adoption *f, struct account *x, size_t pod,
			    const struct adopt_address *a)
{
	const struct pool_set *s = cluster_pools(f->conf.cluster);
	const struct pool *pool = s ? pool_of(s, &a->ip) : NULL;
	const struct lease *l = lease_find(x->leases, &a->ip);

	if (!pool || (l && l->state != LEASE_FREE))
		return;
	VEC_PUSH(x->claims, x->n_claims) = (struct adopt_claim){
		.ip = a->ip,
		.ifname = a->ifname,
		.pod = pod,
		.written = a->written,
		.cached = a->cached,
		.borrowed = true,
		.pool = pool->name,
		.len = pool->subnet.len,
	};
}

static void record(const struct adoption *f, struct account *x, size_t pod,
		   const struct adopt_address *a)
{
	const struct pool_set *s = cluster_pools(f->conf.cluster);
	const struct block_object *o = block_of(x, &a->ip);
	const struct pool *pool = o && s ? pool_find(s, o->pool) : NULL;

	if (!o) {
		record_borrowed(f, x, pod, a);
		return;
	}
	if (block_entry_find(o, &a->ip))
		return;
	/* An address that an agent wrote counts even if the pool no longer contains it. */
	if (!a->written && (!pool || !ip_set_has(&pool->ips, &a->ip)))
		return;
	VEC_PUSH(x->claims, x->n_claims) = (struct adopt_claim){
		.ip = a->ip,
		.ifname = a->ifname,
		.pod = pod,
		.written = a->written,
		.cached = a->cached,
		.pool = o->pool,
		.len = pool ? pool->subnet.len : (uint8_t)ip_bits(&a->ip),
	};
}

static void say_conflict(struct account *x, size_t at)
{
	const struct ipam_owner *a = &x->known[at].owner, *b = &x->known[at + 1].owner;
	char ip[IP_TEXT_MAX];

	buf_printf(&x->missing, "%s%s/%s and %s/%s (both report %s)", x->missing.len ? ", " : "",
		   a->pod_namespace, a->pod_name, b->pod_namespace, b->pod_name,
		   ip_str(&x->known[at].address.ip, ip));
}

static void say_unsure(struct account *x, const struct pod_facts *p, const struct adopt_claim *c)
{
	char ip[IP_TEXT_MAX];

	buf_printf(&x->missing, "%s%s/%s (%s is in none of these blocks, and in no SpiderEndpoint)",
		   x->missing.len ? ", " : "", p->ns, p->name, ip_str(&c->ip, ip));
}

static void settle(const struct adoption *f, struct account *x)
{
	size_t at = 0;
	bool clear;

	x->n_claims = adopt_resolve(x->claims, x->n_claims, &clear, &at);
	for (size_t i = 0; i < x->n_claims; i++) {
		const struct adopt_claim *c = &x->claims[i];
		const struct pod_facts *p = cluster_pod_at(f->conf.cluster, c->pod);

		VEC_PUSH(x->known, x->n) = (struct ipam_known){
			.address = {c->ip, c->len},
			.owner = {.container_id = p->uid,
				  .ifname = c->ifname,
				  .pod_namespace = p->ns,
				  .pod_name = p->name,
				  .pod_uid = p->uid},
			.pool = c->pool,
		};
		if (c->borrowed && !c->written)
			say_unsure(x, p, c);
	}
	if (!clear)
		say_conflict(x, at);
}

/* --- the CNI result cache --- */

bool adopt_is_record_of(const struct cni_cached *c, const struct pod_facts *p)
{
	return !*c->uid || strcmp(c->uid, p->uid) == 0 || pod_is_static(p);
}

static void record_cached(const struct adoption *f, struct account *x, size_t pod)
{
	const struct pod_facts *p = cluster_pod_at(f->conf.cluster, pod);
	const struct cni_cache *all = &x->cache;

	for (size_t i = cni_cache_find(all, p->ns, p->name); i < all->n; i++) {
		const struct cni_cached *c = &all->v[i];
		const struct adopt_address a = {c->ip, c->ifname, c->allocated, c->allocated};

		if (strcmp(c->ns, p->ns) != 0 || strcmp(c->pod, p->name) != 0)
			return;
		if (adopt_is_record_of(c, p))
			record(f, x, pod, &a);
	}
}

/* Fails if a file of the cache records an address of an unadopted block and names no pod: such an
 * address could never be released. */
static int check_owners(const struct account *x, struct err *e)
{
	char ip[IP_TEXT_MAX];

	for (size_t i = 0; i < x->cache.n; i++) {
		const struct cni_cached *c = &x->cache.v[i];
		const struct block_object *o = *c->ns && *c->pod ? NULL : block_of(x, &c->ip);

		if (o && !block_entry_find(o, &c->ip))
			return err_set(e, -EINVAL, "file '%s' records %s without a pod", c->file,
				       ip_str(&c->ip, ip));
	}
	return 0;
}

/* Missing directories do not delay the adoption: libcni creates them with the first result. */
static void log_no_cache(struct adoption *f)
{
	if (!f->logged_no_cache)
		log_warn("blocks: no CNI result cache found: addresses that pods got while the API "
			 "server was unavailable are not recovered; mount the container runtime's "
			 "cache into the agent (results and multus/results), or set "
			 "UNIRAIL_CNI_CACHE_DIR to its directory",
			 LOG_S("directory", f->conf.cni_cache_dir));
	f->logged_no_cache = true;
}

static int account_cache(struct adoption *f, struct account *x, struct err *e)
{
	int r = cni_cache_read(&x->cache, f->conf.root, f->conf.cni_cache_dir, e);

	if (r == 0 && x->cache.n_dirs == 0)
		log_no_cache(f);
	if (r == 0)
		r = check_owners(x, e);
	for (size_t i = 0; r == 0 && i < x->n_traces; i++)
		record_cached(f, x, i);
	return r;
}

/* --- inventory of all pods --- */

/* Collects all addresses of this node's pods. Negative: the CNI result cache cannot be read, or
 * names no pod for an address. */
static int account(struct adoption *f, const struct lease_table *leases, struct account *x,
		   struct err *e)
{
	auto_free const char **uids = NULL;
	size_t n = kube_cache_count(cluster_objects(f->conf.cluster), CLUSTER_PODS),
	       n_uids = adopt_uids(leases, &uids);
	int r = 0;

	*x = (struct account){
		.traces = xcalloc(n + 1, sizeof(*x->traces)), .n_traces = n, .leases = leases};
	buf_init(&x->missing, NAMES_MAX);
	list_blocks(node_pools_blocks(f->conf.node_pools), x);
	for (size_t i = 0; i < n; i++) {
		const struct pod_facts *p = cluster_pod_at(f->conf.cluster, i);

		if (!trace(f, adopt_has_leases(uids, n_uids, p->uid), p, &x->traces[i]))
			buf_printf(&x->missing, "%s%s/%s", x->missing.len ? ", " : "", p->ns,
				   p->name);
		for (size_t k = 0; k < x->traces[i].n; k++)
			record(f, x, i, &x->traces[i].v[k]);
	}
	if (!x->missing.len)
		r = account_cache(f, x, e);
	settle(f, x);
	return r;
}

static void account_done(struct account *x)
{
	for (size_t i = 0; i < x->n_traces; i++)
		adopt_traces_done(&x->traces[i]);
	free(x->traces);
	free(x->claims);
	free(x->known);
	free(x->blocks);
	cni_cache_done(&x->cache);
	buf_done(&x->missing);
}

/* --- adopting the blocks --- */

static void say_missing(struct adoption *f, const char *pods)
{
	if (!log_once(&f->logged, pods))
		return;
	log_warn("blocks that this node had before its block log was lost stay unused: addresses "
		 "of these pods are unknown (no network-status or SpiderEndpoint), reported by "
		 "another pod too, or named only by an annotation or a CNI result cache file; "
		 "delete the pods, or wait until they end",
		 LOG_S("pods", pods));
}

static void say_cache(struct adoption *f, const char *error)
{
	if (!log_once(&f->logged_cache, error))
		return;
	log_warn("blocks that this node had before its block log was lost stay unused: the "
		 "addresses of this node's pods are unknown because the CNI result cache cannot "
		 "be read or names no pod for an address; remove the file if its container does "
		 "not exist",
		 LOG_S("error", error));
}

static void adopt(struct adoption *f, struct ipam *store, const struct account *x)
{
	struct blocks *b = node_pools_blocks(f->conf.node_pools);
	struct err e = ERR_INIT;

	if (ipam_know(store, x->known, x->n, &e) < 0) {
		log_error("cannot write the addresses of pods to the journal, blocks that this "
			  "node had before its block log was lost stay unused",
			  LOG_S("error", e.text));
		return;
	}
	log_info("the addresses of all pods on this node are known, adopting blocks of a lost "
		 "log (blocks.json)",
		 LOG_I("blocks", (int64_t)blocks_unadopted_count(b)),
		 LOG_I("addresses", (int64_t)x->n));
	blocks_leases(b, ipam_leases(store));
	blocks_inventory_complete(b);
}

static void run(struct adoption *f, struct ipam *store)
{
	struct err e = ERR_INIT;
	struct account x;

	if (account(f, ipam_leases(store), &x, &e) < 0)
		say_cache(f, e.text);
	else if (x.missing.len)
		say_missing(f, x.missing.p);
	else
		adopt(f, store, &x);
	account_done(&x);
}

/* --- time of the adoption --- */

static int64_t now(const struct adoption *f)
{
	return loop_now_ms(f->conf.loop);
}

static void on_tick(void *arg)
{
	struct adoption *f = arg;
	struct blocks *b = node_pools_blocks(f->conf.node_pools);

	loop_alarm_set(&f->timer, TICK_MS);
	if (!b || blocks_unadopted_count(b) == 0)
		f->since = 0;
	else if (!f->since)
		f->since = now(f);
	else if (now(f) - f->since >= f->conf.hold_ms)
		f->conf.touch(f->conf.arg);
}

static bool is_known(const struct adoption *f)
{
	return cluster_pools(f->conf.cluster) &&
	       kube_cache_current(cluster_objects(f->conf.cluster), CLUSTER_PODS) &&
	       endpoints_synced(f->conf.endpoints);
}

void adopt_batch(struct adoption *f, struct ipam *store)
{
	struct blocks *b = node_pools_blocks(f->conf.node_pools);

	if (!f->since || now(f) - f->since < f->conf.hold_ms || now(f) - f->rescanned < TICK_MS)
		return;
	if (!b || blocks_unadopted_count(b) == 0 || blocks_unadopted_alive(b) || !is_known(f))
		return;
	f->rescanned = now(f);
	run(f, store);
}

struct adoption *adopt_new(const struct adopt_conf *c)
{
	struct adoption *f = xcalloc(1, sizeof(*f));

	f->conf = *c;
	f->timer = LOOP_ALARM(c->loop, on_tick, f);
	loop_alarm_set(&f->timer, TICK_MS);
	return f;
}

void adopt_free(struct adoption *f)
{
	if (!f)
		return;
	loop_alarm_cancel(&f->timer);
	free(f);
}
