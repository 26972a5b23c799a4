/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/gc/gc.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/loop.h"
#include "ipam/journal/lease.h"
#include "ipam/pools.h"
#include "kube/time.h"

enum { TICK_MS = 15 * 1000, RECONCILE_MS = 500, RESCAN_MAX = 4 };

enum suspect_state { SUSPECT_WAITS, SUSPECT_REQUESTED, SUSPECT_SURE };

/* A container whose pod seems to be deleted. */
struct suspect {
	struct gc *g;
	char *container, *ns, *name, *uid;
	int64_t since;
	bool seen;	 /* the current scan has found it */
	bool is_new;	 /* the current scan has added it */
	bool unobserved; /* the network namespace of the container is not recorded in its lease */
	enum suspect_state state;
	const char *cause;
	struct cluster_fetch *fetch;
};

struct gc {
	struct gc_conf conf;
	struct suspect **v; /* sorted by container up to n_sorted, the rest in order of addition */
	size_t n, n_sorted;
	struct loop_alarm timer;
	int64_t rescanned; /* loop time of the last scan; 0: never */
	bool due;	   /* the deletion of a suspect's pod is confirmed */
};

static void on_tick(void *arg);

static int64_t now(const struct gc *g)
{
	return loop_now_ms(g->conf.loop);
}

/* --- list of containers whose pod seems to be deleted --- */

static void suspect_free(struct suspect *s)
{
	cluster_fetch_cancel(s->fetch);
	free(s->container);
	free(s->ns);
	free(s->name);
	free(s->uid);
	free(s);
}

static int by_container(const void *a, const void *b)
{
	const struct suspect *const *x = a, *const *y = b;
	int order = strcmp((*x)->container, (*y)->container);

	/* the earlier entry of a container is first: clear() retains it */
	return order ? order : (*x)->is_new - (*y)->is_new;
}

static struct suspect *find(const struct gc *g, const char *container)
{
	const struct suspect key = {.container = (char *)container}, *of = &key;
	struct suspect **s;

	if (g->n_sorted == 0)
		return NULL;
	s = bsearch(&of, g->v, g->n_sorted, sizeof(*g->v), by_container);
	return s ? *s : NULL;
}

static void suspect(struct gc *g, const struct lease *l)
{
	struct suspect *s = find(g, l->container_id);

	if (!s) {
		s = xcalloc(1, sizeof(*s));
		*s = (struct suspect){.g = g,
				      .container = xstrdup(l->container_id),
				      .ns = xstrdup(l->pod_namespace),
				      .name = xstrdup(l->pod_name),
				      .uid = xstrdup(l->pod_uid),
				      .unobserved = *l->netns != '/',
				      .is_new = true,
				      .since = now(g)};
		VEC_PUSH(g->v, g->n) = s;
	}
	s->seen = true;
}

/* Removes suspects that the scan did not find: the container's pod is not deleted after all, its
 * network namespace exists, or it has no lease any more. Removes duplicates as well: a container
 * whose leases are not adjacent was added more than once. */
static void clear(struct gc *g)
{
	size_t n_left = 0;

	if (g->n > 1)
		qsort(g->v, g->n, sizeof(*g->v), by_container);
	for (size_t i = 0; i < g->n; i++) {
		struct suspect *s = g->v[i];

		s->is_new = false;
		if (s->seen && !(n_left && strcmp(g->v[n_left - 1]->container, s->container) == 0))
			g->v[n_left++] = s;
		else
			suspect_free(s);
	}
	g->n = g->n_sorted = n_left;
}

static void drop_all(struct gc *g)
{
	for (size_t i = 0; i < g->n; i++)
		g->v[i]->seen = false;
	clear(g);
}

/* --- scan of the journal --- */

/* Returns whether the grace period of the pod's deletion is over; always false for a static pod.
 * Usually only the pod's object still exists then, because of a finalizer, or because the
 * kubelet lost the pod. */
static bool is_over(const struct pod_facts *p)
{
	int64_t ends;

	return p->ends && !pod_is_static(p) && kube_time_parse(p->ends, &ends) == 0 &&
	       now_real_ms() >= ends;
}

/* Returns the lease's pod if the watch has delivered it. The pod of a KubeVirt VM has another name
 * than the lease. */
static const struct pod_facts *pod_of(const struct gc *g, const struct lease *l)
{
	const struct pod_facts *p = cluster_pod(g->conf.cluster, l->pod_namespace, l->pod_name);

	/* a static pod keeps running when the kubelet recreates its object with another UID */
	if (p && (!*l->pod_uid || strcmp(p->uid, l->pod_uid) == 0 || pod_is_static(p)))
		return p;
	return *l->pod_uid ? cluster_pod_by_uid(g->conf.cluster, l->pod_uid) : NULL;
}

static bool is_live(const struct gc *g, const struct lease *l)
{
	const struct pod_facts *p = pod_of(g, l);

	return p && !p->finished && !(is_over(p) && *l->netns == '/');
}

/* Returns whether the container's network namespace exists: a process may run in it, whatever the
 * API server reports. */
static bool has_namespace(const struct gc *g, const struct lease *l)
{
	return *l->netns == '/' && file_exists(g->conf.root, l->netns);
}

static bool is_followed(const struct gc *g)
{
	return kube_cache_current(cluster_objects(g->conf.cluster), CLUSTER_PODS);
}

static void scan(struct gc *g, const struct lease_table *t)
{
	const struct lease *last = NULL;

	for (size_t i = 0; i < g->n; i++)
		g->v[i]->seen = false;
	for (size_t i = 0; i < t->n; i++) {
		const struct lease *l = &t->v[i];

		if (l->state != LEASE_USED || !*l->pod_name || !*l->pod_namespace ||
		    !*l->container_id)
			continue;
		/* the leases of a container are usually adjacent */
		if (last && strcmp(last->container_id, l->container_id) == 0)
			continue;
		last = l;
		if (!is_live(g, l) && !has_namespace(g, l))
			suspect(g, l);
	}
	clear(g);
	g->rescanned = now(g);
}

/* --- confirmation by the API server --- */

static void decide(struct suspect *s, const char *cause)
{
	s->state = cause ? SUSPECT_SURE : SUSPECT_WAITS;
	s->cause = cause;
	if (!cause)
		s->since = now(s->g);
}

static void on_pod(void *arg, const struct pod_facts *p, const struct err *e)
{
	struct suspect *s = arg;
	struct gc *g = s->g;

	s->fetch = NULL;
	if (p && *s->uid && strcmp(p->uid, s->uid) != 0 && !pod_is_static(p))
		decide(s, "the pod was replaced by another of the same name");
	else if (p && p->finished)
		decide(s, "the pod has finished");
	else if (p && is_over(p) && !s->unobserved)
		decide(s, "the pod's deletion is overdue and its containers do not exist");
	else if (e && e->code == -ENOENT)
		decide(s, "the pod does not exist");
	else if (e && e->code == -EXDEV)
		decide(s, "the pod of that name is on another node");
	else
		decide(s, NULL);
	if (s->state == SUSPECT_SURE) {
		g->due = true;
		g->conf.touch(g->conf.arg);
	}
}

static void request(struct gc *g)
{
	size_t requested = 0;

	for (size_t i = 0; i < g->n; i++)
		requested += g->v[i]->state == SUSPECT_REQUESTED;
	for (size_t i = 0; i < g->n && requested < RESCAN_MAX; i++) {
		struct suspect *s = g->v[i];

		if (s->state != SUSPECT_WAITS || now(g) - s->since < g->conf.grace_ms)
			continue;
		s->state = SUSPECT_REQUESTED;
		s->fetch = cluster_fetch_pod(g->conf.cluster, s->ns, s->name, on_pod, s);
		requested++;
	}
}

/* --- release of addresses --- */

static void give_back(struct suspect *s, struct ipam *store)
{
	struct metrics *m = s->g->conf.metrics;
	struct err e = ERR_INIT;
	int r = ipam_release(store, s->container, NULL, &e);

	if (m)
		m->gc += r > 0 ? (uint64_t)r : 0;
	if (m && r < 0)
		m->gc_failed++;
	if (r < 0)
		log_error("failed to release addresses of a deleted or finished pod, will retry",
			  LOG_S("namespace", s->ns), LOG_S("pod", s->name), LOG_S("error", e.text));
	else
		log_info("released addresses of a deleted pod, or of one that has finished, for "
			 "which no DEL arrived",
			 LOG_S("namespace", s->ns), LOG_S("pod", s->name), LOG_S("uid", s->uid),
			 LOG_S("container_id", s->container), LOG_S("reason", s->cause),
			 LOG_I("addresses", r));
	/* A suspect whose addresses were released is not found by the next scan; after a failure it
	 * is checked again. */
	decide(s, NULL);
}

void gc_batch(struct gc *g, struct ipam *store)
{
	if (g->conf.off || !is_followed(g)) {
		drop_all(g);
		return;
	}
	/* Scans again before releasing: since the confirmation the container's pod may have
	 * appeared. */
	if (g->due || now(g) - g->rescanned >= TICK_MS)
		scan(g, ipam_leases(store));
	g->due = false;
	for (size_t i = 0; i < g->n; i++)
		if (g->v[i]->state == SUSPECT_SURE)
			give_back(g->v[i], store);
	if (g->n > 0)
		loop_alarm_within(&g->timer, RECONCILE_MS);
}

static void on_tick(void *arg)
{
	struct gc *g = arg;

	if (g->n > 0 && is_followed(g))
		request(g);
	if (now(g) - g->rescanned >= TICK_MS)
		g->conf.touch(g->conf.arg);
	loop_alarm_within(&g->timer, g->n > 0 ? RECONCILE_MS : TICK_MS);
}

/* --- start and stop of garbage collection --- */

struct gc *gc_new(const struct gc_conf *c)
{
	struct gc *g = xcalloc(1, sizeof(*g));

	g->conf = *c;
	g->timer = LOOP_ALARM(c->loop, on_tick, g);
	loop_alarm_within(&g->timer, TICK_MS);
	return g;
}

void gc_free(struct gc *g)
{
	if (!g)
		return;
	drop_all(g);
	free(g->v);
	loop_alarm_cancel(&g->timer);
	free(g);
}

void gc_settings(struct gc *g, bool off, int64_t grace_ms)
{
	g->conf.off = off;
	g->conf.grace_ms = grace_ms;
}
