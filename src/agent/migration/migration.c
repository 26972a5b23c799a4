/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/migration/migration.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/migration/internal.h"
#include "base/alloc.h"
#include "base/log.h"
#include "block/codec.h"
#include "ipam/pools.h"
#include "kube/kinds.h"
#include "spec/annotations.h"

/* --- requests of pods for retained addresses --- */

static struct import *find(const struct migration *h, const char *ns, const char *name)
{
	for (size_t i = 0; i < h->n; i++)
		if (strcmp(h->v[i]->name, name) == 0 && strcmp(h->v[i]->ns, ns) == 0)
			return h->v[i];
	return NULL;
}

/* Returns true if this node may use the address of a lease, or if no pool has that address; false,
 * for example, if this node has just released the address to another node. */
static bool is_here(struct ipam *store, const struct lease *l)
{
	const struct pool *p = pool_of(ipam_pools(store), &l->address.ip);

	return !p || ip_set_has(&p->usable, &l->address.ip) ||
	       ip_set_has(&p->adopted_here, &l->address.ip);
}

static bool is_of(struct ipam *store, const struct lease *l, const struct identity *owner,
		  const char *ifname)
{
	return (l->state == LEASE_USED || (l->state == LEASE_RETAINED && is_here(store, l))) &&
	       strcmp(l->pod_name, owner->name) == 0 && strcmp(l->pod_namespace, owner->ns) == 0 &&
	       strcmp(l->ifname, ifname) == 0;
}

/* Returns whether the journal has an address of the name for each of the requests. */
static bool is_known(struct ipam *store, const struct identity *owner,
		     const struct ip_request *requests, size_t n)
{
	const struct lease_table *t = ipam_leases(store);

	for (size_t i = 0; i < n; i++) {
		size_t k = 0;

		while (k < t->n && !is_of(store, &t->v[k], owner, requests[i].owner.ifname))
			k++;
		if (k == t->n)
			return false;
	}
	return true;
}

static struct import *import_new(struct migration *h, const struct identity *owner, const char *uid,
				 const char *ifname);

static void import_renew(struct import *c, const struct identity *owner, const char *uid);

int migration_wait(struct migration *h, struct ipam *store, const struct identity *owner,
		   const char *uid, const struct ip_request *requests, size_t n, bool last,
		   struct err *e)
{
	struct import *c = find(h, owner->ns, owner->name);

	if (c && strcmp(c->uid, uid) != 0)
		import_renew(c, owner, uid);
	if (!c && is_known(store, owner, requests, n))
		return 0;
	if (!c)
		c = import_new(h, owner, uid, requests[0].owner.ifname);
	c->requested_ms = migration_now(h);
	if (c->done || (last && c->migrating))
		return 0;
	if (!last)
		return 1;
	return err_kind(e, ERR_AGAIN, -EAGAIN, "retained addresses of '%s/%s': %s", owner->ns,
			owner->name,
			c->cause ? c->cause
				 : "the import of the addresses in the pod's SpiderEndpoint "
				   "still waits for the API server");
}

static void import_free(struct import *c);

static void import_pin(struct migration *h);

void migration_imported(struct migration *h, const struct identity *owner)
{
	struct import *c = find(h, owner->ns, owner->name);

	if (!c)
		return;
	import_free(c);
	import_pin(h);
}

/* --- retaining imported addresses --- */

static void keep(const struct import *c, const struct migration_ip *x, struct ipam *store)
{
	const struct pool *p = pool_of(ipam_pools(store), &x->ip);
	const struct lease *l = lease_find(ipam_leases(store), &x->ip);
	const struct ipam_owner owner = {.pod_namespace = c->ns,
					 .pod_name = c->name,
					 .ifname = *x->ifname ? x->ifname : c->ifname};
	struct err e = ERR_INIT;
	struct ipnet net;

	if (!p || !ip_set_has(&p->usable, &x->ip) || (l && l->state != LEASE_FREE))
		return;
	net = (struct ipnet){x->ip, p->subnet.len};
	if (ipam_keep(store, &net, &owner, p->name, &e) < 0)
		log_error("failed to retain an address imported from another node",
			  LOG_S("namespace", c->ns), LOG_S("name", c->name),
			  LOG_S("error", e.text));
}

void migration_begin(struct migration *h, struct ipam *store)
{
	for (size_t i = 0; i < h->n; i++)
		for (size_t k = 0; k < h->v[i]->place.n; k++)
			keep(h->v[i], &h->v[i]->place.v[k], store);
}

/* --- start and stop of the migration --- */

static void migration_watch(struct migration *h);

struct migration *migration_new(const struct migration_conf *c)
{
	struct migration *h = xcalloc(1, sizeof(*h));

	h->conf = *c;
	migration_watch(h);
	return h;
}

void migration_free(struct migration *h)
{
	if (!h)
		return;
	while (h->n)
		import_free(h->v[h->n - 1]);
	if (node_pools_blocks(h->conf.node_pools))
		blocks_cancel(node_pools_blocks(h->conf.node_pools), h);
	free(h->v);
	kube_informer_free(h->informer);
	kube_cancel(h->refusing);
	loop_alarm_cancel(&h->sweep);
	free(h->given);
	free(h);
}

/* --- Import, on the node of the pod: fetches the addresses of a name, one after the other --- */

enum {
	AGAIN_MS = 100,
	AGAIN_MOST_MS = 2000,
	REQUEST_MS = 10 * 1000,
	DELETED_MS = 10 * 1000,
	/* an import ends after this time without a request of its pod; while the pod exists, the
 * kubelet repeats the request earlier */
	PATIENCE_MS = 60 * 1000,
};

/* --- names whose addresses are imported --- */

/* Reserves imported addresses until they have a lease; otherwise this node would give them up at
 * once, because no container uses them. */
static void import_pin(struct migration *h)
{
	struct blocks *b = node_pools_blocks(h->conf.node_pools);
	struct ipaddr *v = NULL;
	size_t n = 0;

	for (size_t i = 0; i < h->n; i++)
		for (size_t k = 0; k < h->v[i]->place.n; k++)
			VEC_PUSH(v, n) = h->v[i]->place.v[k].ip;
	if (b)
		blocks_reservation(b, v, n);
	free(v);
}

static void import_free(struct import *c)
{
	struct migration *h = c->h;
	struct blocks *b = node_pools_blocks(h->conf.node_pools);

	for (size_t i = 0; i < h->n; i++)
		if (h->v[i] == c)
			h->v[i] = h->v[--h->n];
	if (b)
		blocks_cancel(b, c);
	kube_cancel(c->call);
	loop_alarm_cancel(&c->timer);
	migration_place_done(&c->place);
	block_op_done(&c->op);
	free(c->ns);
	free(c->name);
	free(c->pod);
	free(c->uid);
	free(c->ifname);
	free(c->cause);
	free(c);
}

static void say(struct import *c, const char *cause)
{
	free(c->cause);
	c->cause = xstrdup(cause);
}

/* --- import of one address --- */

static struct migration_facts facts_of(const struct import *c, const struct blocks *b)
{
	const struct pool_set *s = cluster_pools(c->h->conf.cluster);
	const struct ipaddr *ip = &c->place.v[c->at].ip;
	const struct pool *p = s ? pool_of(s, ip) : NULL;

	return (struct migration_facts){
		.table = blocks_table(b),
		.pool = p && !p->disabled && !p->terminating ? p : NULL,
		.ip = *ip,
		.place = &c->place,
		.uid = c->uid,
	};
}

static void next(struct import *c)
{
	c->at++;
	c->tried = false;
}

/* The address is not available now: continues with the next one, and tries again in the next
 * round. */
static void leave_open(struct import *c, const struct migration_facts *f)
{
	const struct identity owner = {.ns = c->ns, .name = c->name};
	auto_buf struct buf b;

	buf_init(&b, 600);
	migration_describe(f, &owner, &b);
	say(c, b.p);
	c->open = true;
	next(c);
}

static void on_tried(void *arg, enum block_outcome r, const struct block_object *o)
{
	struct import *c = arg;

	(void)r, (void)o;
	loop_alarm_set(&c->timer, 0);
}

static bool try(struct import *c, struct blocks *b)
{
	struct block_op op = c->op;

	c->op = (struct block_op){0};
	c->has_op = false;
	return blocks_request(b, &op, on_tried, c);
}

static void on_rescanned(void *arg, enum block_outcome r, const struct block_object *o)
{
	struct import *c = arg;
	struct blocks *b = node_pools_blocks(c->h->conf.node_pools);
	struct migration_facts f;

	loop_alarm_set(&c->timer, 0);
	if (!b)
		return;
	f = facts_of(c, b);
	f.rescanned = true;
	f.block = r == BLOCK_OK ? o : NULL;
	if (r != BLOCK_OK && r != BLOCK_ABSENT) {
		leave_open(c, &f);
		return;
	}
	switch (migration_next(&f, &c->op)) {
	case MIGRATION_HERE:
	case MIGRATION_NEVER: next(c); return;
	case MIGRATION_OP: c->has_op = true; return;
	case MIGRATION_REQUEST:
		if (!*c->owner)
			migration_owner(&f, c->owner);
		break;
	case MIGRATION_WAIT: c->waits |= c->place.from != NULL; break;
	case MIGRATION_READ: break;
	}
	leave_open(c, &f);
}

/* Tries the current address. Returns false if a request was sent, whose end continues the round. */
static bool step(struct import *c, struct blocks *b)
{
	struct migration_facts f = facts_of(c, b);
	struct block_op op;

	if (c->has_op) {
		c->tried = true;
		if (try(c, b))
			return false;
	}
	switch (migration_next(&f, &op)) {
	case MIGRATION_HERE:
	case MIGRATION_NEVER: next(c); return true;
	case MIGRATION_READ:
		if (!c->tried && blocks_request(b, &op, on_rescanned, c))
			return false;
		break;
	default: break;
	}
	leave_open(c, &f);
	return true;
}

/* --- one round of an import: all addresses of a name --- */

static void on_requested(void *arg, int status, const struct json *object, const struct err *e)
{
	struct import *c = arg;

	(void)status, (void)object;
	c->call = NULL;
	if (e)
		say(c, e->text);
	loop_alarm_set(&c->timer, backoff_next(&c->backoff));
}

static void request(struct import *c)
{
	struct kube_request r = {.verb = KUBE_MERGE_PATCH,
				 .on = {.kind = &kube_endpoints, .ns = c->ns, .name = c->name},
				 .timeout_ms = REQUEST_MS};
	auto_buf struct buf b;

	buf_init(&b, 2000);
	migration_request_patch(c->owner, c->h->conf.node, c->uid, c->migrating, &b);
	r.body = buf_span(&b);
	log_info("requesting retained addresses from the node that has them",
		 LOG_S("namespace", c->ns), LOG_S("name", c->name), LOG_S("owner", c->owner));
	c->call = kube_send(c->h->conf.kube, &r, on_requested, c);
}

/* Returns whether the pod exists and is not being deleted. After its deletion this node must not
 * request its addresses, because the next pod of the name may be on another node. */
static bool is_wanted(const struct import *c)
{
	const struct pod_facts *p = cluster_pod(c->h->conf.cluster, c->ns, c->pod);

	if (!p) /* the pod was deleted, or the watch has not delivered it yet */
		return migration_now(c->h) - c->requested_ms < DELETED_MS;
	return strcmp(p->uid, c->uid) == 0 && !p->deleting;
}

static void is_done(struct import *c)
{
	c->done = true;
	loop_alarm_set(&c->timer, PATIENCE_MS);
	c->h->conf.changed(c->h->conf.arg);
}

static void end_round(struct import *c)
{
	c->in_round = false;
	if (!c->open)
		is_done(c);
	else if (*c->owner && !c->waits && is_wanted(c))
		request(c);
	else
		loop_alarm_set(&c->timer, backoff_next(&c->backoff));
}

static void go_on(struct import *c)
{
	struct blocks *b = node_pools_blocks(c->h->conf.node_pools);

	if (!cluster_pools(c->h->conf.cluster))
		b = NULL;
	while (b && c->at < c->place.n)
		if (!step(c, b))
			return;
	c->open |= !b;
	end_round(c);
}

static void on_place(void *arg, int status, const struct json *object, const struct err *e)
{
	struct import *c = arg;
	struct migration_place p = {0};

	(void)status;
	c->call = NULL;
	if (e && e->code != -ENOENT) {
		say(c, e->text);
		loop_alarm_set(&c->timer, backoff_next(&c->backoff));
		return;
	}
	/* If the endpoint is missing or has no status.current, because the pod was deleted
	 * meanwhile, the addresses of the previous read are used. */
	if (!e && migration_place_read(object, &p, NULL) == 0) {
		migration_place_done(&c->place);
		c->place = p;
	}
	c->in_round = true;
	c->at = 0;
	c->tried = c->open = c->waits = false;
	*c->owner = '\0';
	import_pin(c->h);
	go_on(c);
}

static void on_timer(void *arg)
{
	struct import *c = arg;
	struct migration *h = c->h;
	const struct kube_request r = {
		.verb = KUBE_GET,
		.on = {.kind = &kube_endpoints, .ns = c->ns, .name = c->name},
		.timeout_ms = REQUEST_MS};

	if (migration_now(h) - c->requested_ms >= PATIENCE_MS) {
		import_free(c);
		import_pin(h);
	} else if (c->done) {
		loop_alarm_set(&c->timer, PATIENCE_MS);
	} else if (c->in_round) {
		go_on(c);
	} else {
		c->call = kube_send(h->conf.kube, &r, on_place, c);
	}
}

/* --- start of an import --- */

static struct import *import_new(struct migration *h, const struct identity *owner, const char *uid,
				 const char *ifname)
{
	struct import *c = xcalloc(1, sizeof(*c));

	*c = (struct import){.h = h,
			     .ns = xstrdup(owner->ns),
			     .name = xstrdup(owner->name),
			     .pod = xstrdup(owner->pod),
			     .uid = xstrdup(uid),
			     .ifname = xstrdup(ifname),
			     .migrating = owner->migrating,
			     .timer = LOOP_ALARM(kube_loop(h->conf.kube), on_timer, c),
			     .backoff = {AGAIN_MS, AGAIN_MOST_MS, 0}};
	VEC_PUSH(h->v, h->n) = c;
	loop_alarm_set(&c->timer, 0);
	return c;
}

/* The pod was replaced by another one of the same name; the addresses imported so far stay
 * reserved. */
static void import_renew(struct import *c, const struct identity *owner, const char *uid)
{
	free(c->pod);
	free(c->uid);
	c->pod = xstrdup(owner->pod);
	c->uid = xstrdup(uid);
	c->migrating = owner->migrating;
	backoff_reset(&c->backoff);
	if (!c->done)
		return;
	c->done = false;
	loop_alarm_set(&c->timer, 0);
}

/* --- Export, on the node that has the addresses: answers the requests of other nodes --- */

enum {
	SWEEP_MS = 30 * 1000,
	MIGRATION_EXPORT_RETRY_MS = 200,
	MIGRATION_EXPORT_REQUEST_MS = 10 * 1000
};

/* --- requests of other nodes --- */

static int decode(void *value, const struct json *object, struct err *e)
{
	return migration_place_read(object, value, e);
}

static void drop(void *value)
{
	migration_place_done(value);
}

static void on_changed(void *arg, const struct kube_object *was, const struct kube_object *is)
{
	const struct migration *h = arg;

	(void)was;
	if (is)
		h->conf.touch(h->conf.arg);
}

/* Logs nothing: agent/endpoint/writer.c, which watches the same kind of object, logs a missing
 * permission, and the cluster cache logs other errors. */
static void on_sync_error(void *arg, const struct err *cause)
{
	(void)arg, (void)cause;
}

static void on_sweep(void *arg)
{
	struct migration *h = arg;

	loop_alarm_set(&h->sweep, SWEEP_MS);
	h->conf.touch(h->conf.arg);
}

static void migration_watch(struct migration *h)
{
	char label[BLOCK_LABEL_MAX];
	auto_free char *select =
		xasprintf("%s=%s", LABEL_REQUESTED_FROM, block_label(h->conf.node, label));

	h->informer = kube_informer_new(
		h->conf.kube, &(struct kube_informer_conf){.kind = &kube_endpoints,
							   .select = {.labels = select},
							   .cached = true,
							   .size = sizeof(struct migration_place),
							   .decode = decode,
							   .drop = drop,
							   .changed = on_changed,
							   .sync_error = on_sync_error,
							   .arg = h});
	h->again = (struct backoff){MIGRATION_EXPORT_RETRY_MS, SWEEP_MS, 0};
	h->sweep = LOOP_ALARM(kube_loop(h->conf.kube), on_sweep, h);
	loop_alarm_set(&h->sweep, SWEEP_MS);
}

/* --- responses to requests of other nodes --- */

static void on_exported(void *arg, enum block_outcome r, const struct block_object *o)
{
	struct migration *h = arg;

	(void)o;
	if (r == BLOCK_OK)
		backoff_reset(&h->again);
	/* schedules a batch, because the same block may have more requested addresses */
	h->conf.touch(h->conf.arg);
}

static void on_refused(void *arg, int status, const struct json *object, const struct err *e)
{
	struct migration *h = arg;

	(void)status, (void)object;
	h->refusing = NULL;
	if (e)
		log_warn("this node does not release requested addresses, and failed to record "
			 "that on their SpiderEndpoint",
			 LOG_S("error", e->text));
}

static void refuse(struct migration *h, const struct kube_object *o)
{
	struct kube_request r = {.verb = KUBE_MERGE_PATCH,
				 .on = {.kind = &kube_endpoints, .ns = o->ns, .name = o->name},
				 .timeout_ms = MIGRATION_EXPORT_REQUEST_MS};
	auto_buf struct buf b;

	buf_init(&b, 2000);
	if (h->refusing)
		return;
	migration_refuse_patch(o->value, &b);
	r.body = buf_span(&b);
	h->refusing = kube_send(h->conf.kube, &r, on_refused, h);
}

static void answer(struct migration *h, const struct kube_object *o, struct blocks *b,
		   const struct lease_table *leases)
{
	const struct migration_place *p = o->value;
	bool refused = false, more = false;

	if (!p->for_node || strcmp(p->for_node, h->conf.node) == 0)
		return;
	for (size_t i = 0; i < p->n; i++) {
		const struct ipaddr *ip = &p->v[i].ip;
		struct block_op op;

		switch (migration_answer(p, o->ns, o->name, lease_find(leases, ip))) {
		case MIGRATION_LATER: more = true; continue;
		case MIGRATION_REFUSE: refused = true; continue;
		case MIGRATION_EXPORT: break;
		}
		if (!migration_export(blocks_table(b), ip, p->for_node, &op))
			continue;
		more = true;
		/* fails, for example, if another request about the block is in flight */
		if (!blocks_request(b, &op, on_exported, h))
			loop_alarm_set(&h->sweep, backoff_next(&h->again));
	}
	if (refused && !more)
		refuse(h, o);
}

/* --- addresses released to other nodes --- */

static void forget(const struct block_table *t, struct ipam *store)
{
	const struct lease_table *leases = ipam_leases(store);
	struct err e = ERR_INIT;
	char text[IP_TEXT_MAX];

	for (size_t i = 0; i < leases->n; i++) {
		struct ipaddr ip = leases->v[i].address.ip;

		if (!migration_is_stale(t, &leases->v[i]))
			continue;
		if (ipam_release_ip(store, &ip, &e) < 0)
			log_error(
				"failed to remove from the journal an address that was "
				"exported to another node, or whose block this node no longer has",
				LOG_S("address", ip_str(&ip, text)), LOG_S("error", e.text));
		else
			log_info("exported a retained address to another node, or no longer has "
				 "the address's block",
				 LOG_S("address", ip_str(&ip, text)));
	}
}

static int by_ip(const void *a, const void *b)
{
	const struct given *x = a, *y = b;

	return ip_cmp(&x->ip, &y->ip);
}

/* sorted: number of entries at the beginning of the list that are sorted. */
static void record(struct migration *h, size_t sorted, const struct ipaddr *ip)
{
	struct given key = {.ip = *ip};
	struct given *known = sorted ? bsearch(&key, h->given, sorted, sizeof(*h->given), by_ip)
				     : NULL;

	if (known)
		known->seen = true;
	else
		VEC_PUSH(h->given, h->n_exported) = (struct given){*ip, migration_now(h), true};
}

void migration_scan(struct migration *h, const struct block_table *t)
{
	size_t n = 0, sorted = h->n_exported;

	for (size_t i = 0; i < h->n_exported; i++)
		h->given[i].seen = false;
	for (size_t i = 0; i < t->n_objects; i++)
		for (size_t k = 0; k < t->objects[i].n_released; k++)
			if (*t->objects[i].released[k].to == '@' &&
			    !block_entry_reserved(&t->objects[i].released[k]))
				record(h, sorted, &t->objects[i].released[k].ip);
	if (h->n_exported > 1)
		qsort(h->given, h->n_exported, sizeof(*h->given), by_ip);
	for (size_t i = 0; i < h->n_exported; i++)
		if (h->given[i].seen && !(n && ip_eq(&h->given[n - 1].ip, &h->given[i].ip)))
			h->given[n++] = h->given[i];
	h->n_exported = n;
}

/*
 * Reclaims exported addresses that no node imported within MIGRATION_LEAVE_MS and that no node
 * requests.
 */
static void reclaim(struct migration *h, struct blocks *b)
{
	struct ipaddr *leave = NULL;
	struct block_op op;
	size_t n = 0;

	for (size_t i = 0; i < kube_informer_count(h->informer); i++) {
		const struct migration_place *p = kube_informer_at(h->informer, i)->value;

		for (size_t k = 0; k < p->n; k++)
			VEC_PUSH(leave, n) = p->v[k].ip;
	}
	for (size_t i = 0; i < h->n_exported; i++)
		if (migration_now(h) - h->given[i].since < MIGRATION_LEAVE_MS)
			VEC_PUSH(leave, n) = h->given[i].ip;
	if (n > 1)
		qsort(leave, n, sizeof(*leave), ip_order);
	if (migration_reclaim(blocks_table(b), leave, n, &op))
		blocks_request(b, &op, on_exported, h);
	free(leave);
}

void migration_batch(struct migration *h, struct ipam *store, bool whole)
{
	struct blocks *b = node_pools_blocks(h->conf.node_pools);

	if (!b || !whole || !blocks_table(b)->synced)
		return;
	forget(blocks_table(b), store);
	for (size_t i = 0; i < kube_informer_count(h->informer); i++)
		answer(h, kube_informer_at(h->informer, i), b, ipam_leases(store));
	migration_scan(h, blocks_table(b));
	if (kube_informer_synced(h->informer))
		reclaim(h, b);
}
