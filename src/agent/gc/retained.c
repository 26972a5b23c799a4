/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/gc/retained.h"
#include "block/migration.h"
#include "spec/identity.h"
#include "kube/client.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "ipam/pools.h"
#include "kube/kinds.h"

enum { TICK_MS = 2000, AGAIN_TIMES = 10 };

/* A pod's name with addresses retained on this node. */
struct owner {
	char *ns, *name;
	int64_t due;	     /* loop time of the next owner lookup */
	int64_t retained_ms; /* time of the latest of its leases in the journal */
	bool seen;	     /* the current scan has found it */
	/* the reason why all its addresses are released; NULL: see `elsewhere` */
	const char *cause;
	/* valid if `elsewhere`: the addresses that the name has on another node */
	struct migration_place place;
	bool elsewhere;
};

struct retained {
	struct retained_conf conf;
	struct owner *v; /* sorted by name up to n_sorted, the rest in order of addition */
	size_t n, n_sorted;
	struct loop_alarm timer;
	struct kube_call *call;
	/* name whose lookup is in flight; NULL: none */
	char *ns, *name;
	struct identity_lookup q;
	struct migration_place place; /* read from the name's SpiderEndpoint */
	struct log_once logged;	      /* last logged error */
};

static void next(struct retained *k);

static int64_t now(const struct retained *k)
{
	return loop_now_ms(kube_loop(k->conf.kube));
}

/* --- names with retained addresses --- */

static void owner_done(struct owner *h)
{
	free(h->ns);
	free(h->name);
	migration_place_done(&h->place);
}

static int by_name(const void *a, const void *b)
{
	const struct owner *x = a, *y = b;
	int order = strcmp(x->ns, y->ns);

	return order ? order : strcmp(x->name, y->name);
}

static struct owner *find(const struct retained *k, const char *ns, const char *name)
{
	const struct owner key = {.ns = (char *)ns, .name = (char *)name};

	return k->n_sorted ? bsearch(&key, k->v, k->n_sorted, sizeof(*k->v), by_name) : NULL;
}

static void record(struct retained *k, const struct lease *l)
{
	struct owner *h = find(k, l->pod_namespace, l->pod_name);

	if (!h) {
		h = &VEC_PUSH(k->v, k->n);
		*h = (struct owner){.ns = xstrdup(l->pod_namespace),
				    .name = xstrdup(l->pod_name),
				    .due = now(k) + k->conf.grace_ms};
	}
	/* addresses were retained again: meanwhile a pod of that name was created and deleted */
	if (l->at_ms > h->retained_ms && h->retained_ms)
		h->due = now(k) + k->conf.grace_ms;
	if (l->at_ms > h->retained_ms)
		h->retained_ms = l->at_ms;
	h->seen = true;
}

/* If both entries have the same name, merges `h` into `was` and returns true. A scan adds an
 * entry for each lease of a name that the list did not have before. */
static bool is_same(struct owner *was, const struct owner *h)
{
	if (by_name(was, h) != 0)
		return false;
	if (h->retained_ms > was->retained_ms)
		was->retained_ms = h->retained_ms;
	return true;
}

static void scan(struct retained *k, const struct lease_table *t)
{
	size_t n = 0;

	for (size_t i = 0; i < k->n; i++)
		k->v[i].seen = false;
	for (size_t i = 0; i < t->n; i++)
		if (t->v[i].state == LEASE_RETAINED && *t->v[i].pod_name && *t->v[i].pod_namespace)
			record(k, &t->v[i]);
	if (k->n > 1)
		qsort(k->v, k->n, sizeof(*k->v), by_name);
	for (size_t i = 0; i < k->n; i++) {
		if (k->v[i].seen && !(n && is_same(&k->v[n - 1], &k->v[i])))
			k->v[n++] = k->v[i];
		else
			owner_done(&k->v[i]);
	}
	k->n = k->n_sorted = n;
}

/* --- owner lookups, one name at a time --- */

static void over(struct retained *k)
{
	free(take(k->ns));
	free(take(k->name));
	migration_place_done(&k->place);
	k->call = NULL;
	next(k);
}

/* Logs an error unless it is the last one that was logged. Nothing is released while it
 * persists. */
static void say(struct retained *k, const struct err *e)
{
	if (!log_once(&k->logged, e->text))
		return;
	log_warn("cannot check owner or SpiderEndpoint of retained addresses, keeping them",
		 LOG_S("namespace", k->ns), LOG_S("name", k->name), LOG_S("error", e->text));
}

static void judge(struct retained *k)
{
	struct owner *h = find(k, k->ns, k->name);

	if (h && identity_is_over(k->name, &k->conf.identity, &k->q.set, &k->q.machine)) {
		h->cause = "no StatefulSet or KubeVirt machine retains addresses for that name";
	} else if (h && k->place.n && strcmp(k->place.node, k->conf.node) != 0) {
		migration_place_done(&h->place);
		h->place = k->place;
		k->place = (struct migration_place){0};
		h->elsewhere = true;
	}
	if (h && (h->cause || h->elsewhere))
		k->conf.touch(k->conf.arg);
}

/* Returns whether the read failed. -ENOENT is no failure: the object does not exist, or the CRD of
 * its kind is not installed. */
static bool has_failed(struct retained *k, const struct err *e)
{
	k->call = NULL;
	if (!e || e->code == -ENOENT)
		return false;
	say(k, e);
	over(k);
	return true;
}

static void on_endpoint(void *arg, int status, const struct json *object, const struct err *e)
{
	struct retained *k = arg;

	(void)status;
	if (has_failed(k, e))
		return;
	if (!e)
		migration_place_read(object, &k->place, NULL);
	judge(k);
	over(k);
}

static void request(struct retained *k);

static void on_owner(void *arg, int status, const struct json *object, const struct err *e)
{
	struct retained *k = arg;

	(void)status;
	if (has_failed(k, e))
		return;
	identity_lookup_learn(&k->q, e ? NULL : object);
	request(k);
}

/* Reads the possible owners of the name, then its SpiderEndpoint. */
static void request(struct retained *k)
{
	struct kube_request r = {.verb = KUBE_GET};
	bool is_owner = identity_lookup_next(&k->q, &k->conf.identity, k->ns, k->name, &r.on);

	if (!is_owner)
		r.on = (struct kube_ref){.kind = &kube_endpoints, .ns = k->ns, .name = k->name};
	k->call = kube_send(k->conf.kube, &r, is_owner ? on_owner : on_endpoint, k);
}

static void on_tick(void *arg)
{
	struct retained *k = arg;
	struct owner *h = NULL;

	/* Selects the name whose lookup is overdue longest: with many names, more may become due
	 * than one per TICK_MS. */
	for (size_t i = 0; i < k->n; i++)
		if (k->v[i].due <= now(k) && (!h || k->v[i].due < h->due))
			h = &k->v[i];
	if (!h) {
		next(k);
		return;
	}
	h->due = now(k) + AGAIN_TIMES * k->conf.grace_ms;
	k->ns = xstrdup(h->ns);
	k->name = xstrdup(h->name);
	k->q = (struct identity_lookup){0};
	request(k);
}

static void next(struct retained *k)
{
	if (!k->ns && k->n > 0)
		loop_alarm_within(&k->timer, TICK_MS);
}

/* --- release of addresses --- */

static bool is_due(const struct retained *k, const struct owner *h, const struct lease *l)
{
	if (l->state != LEASE_RETAINED || l->at_ms > h->retained_ms ||
	    strcmp(l->pod_name, h->name) != 0 || strcmp(l->pod_namespace, h->ns) != 0)
		return false;
	return h->cause || migration_is_superseded(&h->place, k->conf.node, l);
}

static void give_back(struct retained *k, struct owner *h, struct ipam *store)
{
	const struct lease_table *t = ipam_leases(store);
	struct err e = ERR_INIT;
	char text[IP_TEXT_MAX];

	for (size_t i = 0; i < t->n; i++) {
		struct ipaddr ip = t->v[i].address.ip;

		if (!is_due(k, h, &t->v[i]))
			continue;
		if (ipam_release_ip(store, &ip, &e) < 0)
			log_error("failed to release a retained address, will retry",
				  LOG_S("address", ip_str(&ip, text)), LOG_S("error", e.text));
		else
			log_info("released a retained address", LOG_S("address", ip_str(&ip, text)),
				 LOG_S("namespace", h->ns), LOG_S("name", h->name),
				 LOG_S("reason", h->cause
							 ? h->cause
							 : "the pod has other addresses on another "
							   "node"));
	}
	h->cause = NULL;
	h->elsewhere = false;
	migration_place_done(&h->place);
}

void retained_batch(struct retained *k, struct ipam *store)
{
	/* The decision was made with the journal as scanned before: leases added later are not
	 * released. */
	for (size_t i = 0; i < k->n; i++)
		if (k->v[i].cause || k->v[i].elsewhere)
			give_back(k, &k->v[i], store);
	scan(k, ipam_leases(store));
	next(k);
}

/* --- start and stop of the release of retained addresses --- */

struct retained *retained_new(const struct retained_conf *c)
{
	struct retained *k = xcalloc(1, sizeof(*k));

	k->conf = *c;
	k->timer = LOOP_ALARM(kube_loop(c->kube), on_tick, k);
	return k;
}

void retained_settings(struct retained *k, int64_t grace_ms, const struct identity_conf *c)
{
	k->conf.grace_ms = grace_ms;
	k->conf.identity = *c;
}

void retained_free(struct retained *k)
{
	if (!k)
		return;
	kube_cancel(k->call);
	loop_alarm_cancel(&k->timer);
	for (size_t i = 0; i < k->n; i++)
		owner_done(&k->v[i]);
	free(k->v);
	free(k->ns);
	free(k->name);
	migration_place_done(&k->place);
	free(k);
}
