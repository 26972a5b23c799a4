/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/api/internal.h"
#include "agent/migration/migration.h"
#include "base/alloc.h"
#include "base/log.h"
#include "spec/annotations.h"
#include "spec/network_annotation.h"

/*
 * Allocation on a node of a cluster: from this node's part of each pool. If that part is exhausted,
 * the request waits until it grows (pending.c).
 */

static int64_t now(const struct ipam_api *a)
{
	return loop_now_ms(a->conf.loop);
}

static bool may_wait(const struct api_call *c)
{
	return c->api->conf.wait_ms > 0 && (!c->waited || c->deadline > now(c->api));
}

/* Returns the number of missing addresses, or an error. The request waits for the pod's former
 * address while enough time is left to allocate another one. */
static int scan(struct api_call *c, struct ipam *store, const struct ip_request *requests,
		struct err *e)
{
	bool no_own = !may_wait(c) || (c->waited && now(c->api) >= c->own_until);
	struct needs before = {0};
	int r;

	needs_done(&c->needs);
	api_reserved(c, &before);
	r = ipam_needs(store, requests, c->requests.n, &before, api_is_exhausted, c->api, no_own,
		       &c->needs, e);
	needs_done(&before);
	for (size_t i = 0; i < c->needs.n_names; i++)
		if (c->needs.names[i].own)
			c->own = c->needs.names[i].ip;
	return r;
}

/*
 * Returns whether another node or pod has an explicitly requested address. The former address of
 * the pod, which the user did not request, does not count.
 */
static bool is_refused(const struct api_call *c)
{
	struct blocks *b = node_pools_blocks(c->api->conf.node_pools);

	for (size_t i = 0; i < c->needs.n_names; i++) {
		const struct need_name *x = &c->needs.names[i];

		if (!x->own && blocks_refused(b, x->pool, &x->ip))
			return true;
	}
	return false;
}

/* Appends to e how the missing addresses were searched for. */
static void add_message(struct api_call *c, struct err *e)
{
	auto_buf struct buf w;

	buf_init(&w, 600);
	for (size_t i = 0; i < c->needs.n; i++)
		if (c->needs.v[i].missing)
			node_pools_describe(c->api->conf.node_pools, c->needs.v[i].pool, &w);
	for (size_t i = 0; i < c->needs.n_names; i++)
		node_pools_describe_name(c->api->conf.node_pools, &c->needs.names[i].ip, &w);
	if (w.len)
		err_kind(e, e->kind, e->code, "%s%s", e->text, w.p);
}

static void count_times(struct api_call *c, int64_t from)
{
	struct metrics *m = c->api->conf.metrics;

	if (!m)
		return;
	metrics_phase_time(m, METRICS_STORE, now_mono_us() - from);
	metrics_phase_time(m, METRICS_QUEUE, c->queue_us);
	if (c->waited)
		metrics_phase_time(m, METRICS_BLOCKS, from - c->pending_us);
}

static bool has_own(const struct api_call *c, const struct ip_allocation *g, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (ip_eq(&g[i].address.ip, &c->own))
			return true;
	return !c->own.family;
}

/* Logs that the pod gets a new address instead of its former one. The pod did not request the
 * former address explicitly, so any address is valid. */
static void say_not_own(const struct api_call *c)
{
	char text[IP_TEXT_MAX];
	auto_buf struct buf cause;

	buf_init(&cause, 500);
	node_pools_describe_name(c->api->conf.node_pools, &c->own, &cause);
	log_limited(LOG_WARN, 2,
		    "allocating a new address: the pod's former address was not available in time",
		    LOG_S("namespace", c->pod.ns), LOG_S("pod", c->pod.name),
		    LOG_S("ip", ip_str(&c->own, text)), LOG_S("reason", cause.len ? cause.p : ""));
}

int api_allocate_now(struct api_call *c, struct ipam *store, const struct ip_request *requests,
		     struct ip_allocation **ret, size_t *n_ret, struct err *e)
{
	int64_t from = now_mono_us();
	int r = ipam_allocate(store, requests, c->requests.n, ret, n_ret, e);

	count_times(c, from);
	if (r == 0 && !has_own(c, *ret, *n_ret))
		say_not_own(c);
	return r;
}

/* Returns 0 if the pools and this node's blocks have been read and the namespaces have been
 * listed. While the pools come from the saved file pools.json, the namespaces are not required.
 * Otherwise returns a negative code (kind ERR_AGAIN) and the reason in e. */
static int is_ready(const struct ipam_api *a, struct err *e)
{
	int r = node_pools_ready(a->conf.node_pools, e);

	if (r == 0 && !cluster_pools_are_old(a->conf.cluster) &&
	    !kube_cache_synced(cluster_objects(a->conf.cluster), CLUSTER_NAMESPACES))
		r = kube_cache_error(cluster_objects(a->conf.cluster), CLUSTER_NAMESPACES, e);
	return r;
}

static int wait_for_change(struct api_call *c)
{
	api_pending_add(c);
	return API_PENDING;
}

/* Adds the call to the pending calls without a demand for addresses: a change of any pool
 * retries the call. */
static int wait_for_any(struct api_call *c)
{
	needs_done(&c->needs);
	return wait_for_change(c);
}

static int allocate(struct api_call *c, struct ipam *store, const struct ip_request *requests,
		    struct ip_allocation **ret, size_t *n_ret, struct err *e)
{
	int r = scan(c, store, requests, e);

	if (r > 0 && may_wait(c) && !is_refused(c))
		return wait_for_change(c);
	if (r >= 0)
		r = api_allocate_now(c, store, requests, ret, n_ret, e);
	if (r == -ENOSPC || r == -EADDRNOTAVAIL)
		add_message(c, e);
	return r;
}

/* Waits until the retained addresses of the pod's name are imported from another node: returns
 * API_PENDING, 0 if there is nothing to wait for, or an error. */
static int await_retained(struct api_call *c, struct ipam *store, const struct identity *owner,
			  struct err *e)
{
	struct ipam_api *a = c->api;
	int r;

	if (!a->conf.migration || c->pod_is_requested || !identity_is_sticky(owner))
		return 0;
	r = migration_wait(a->conf.migration, store, owner, c->pod.uid, c->requests.v,
			   c->requests.n, !may_wait(c), e);
	return r > 0 ? wait_for_any(c) : r;
}

static int api_requests_update(struct api_call *c, struct ipam *store, struct err *e);

static void api_requests_routes(struct api_call *c, struct ipam *store, struct ip_allocation *g,
				size_t n);

/* Allocates for a call that has a pod (has_pod). */
static int allocate_for_pod(struct api_call *c, struct ipam *store, struct ip_allocation **ret,
			    size_t *n_ret, struct err *e)
{
	struct ipam_api *a = c->api;
	struct identity owner;
	int r = api_requests_update(c, store, e);

	/* a pool is being created, or the watch has not delivered the namespace yet */
	if (r == -EAGAIN && may_wait(c))
		return wait_for_any(c);
	identity_of(&c->pod, &a->conf.identity, &owner);
	if (r == 0)
		r = await_retained(c, store, &owner, e);
	if (r == 0)
		r = allocate(c, store, c->requests.v, ret, n_ret, e);
	if (r != 0)
		return r;
	if (a->conf.migration && identity_is_sticky(&owner))
		migration_imported(a->conf.migration, &owner);
	api_requests_routes(c, store, *ret, *n_ret);
	return 0;
}

static int node_allocate(struct api_call *c, struct ipam *store, struct ip_allocation **ret,
			 size_t *n_ret, struct err *e)
{
	int r = is_ready(c->api, e);

	if (r < 0)
		return may_wait(c) ? wait_for_any(c) : r;
	if (!c->has_pod)
		return allocate(c, store, c->requests.body, ret, n_ret, e);
	return allocate_for_pod(c, store, ret, n_ret, e);
}

/* --- the network of an interface --- */

/* Returns "ns/name" of the default network; a name without a namespace is in the agent's namespace,
 * as in spec.multusName of a pool. NULL: the annotation is missing, or is not a single name
 * without an interface. */
static char *default_network(const struct api_call *c)
{
	const char *text = labels_get(&c->pod.annotations, ANNOTATION_DEFAULT_NETWORK);

	if (!text || strpbrk(text, "[{,@"))
		return NULL;
	return strchr(text, '/') ? xstrdup(text)
				 : xasprintf("%s/%s", cluster_ns(c->api->conf.cluster), text);
}

/* As in Multus, the interface of the i-th network of the annotation is net<i> unless the
 * annotation gives another interface name for the network. */
static char *network_of(const struct api_call *c, const char *ifname)
{
	const char *text = labels_get(&c->pod.annotations, ANNOTATION_NETWORKS);
	struct net_select s;
	char *found = NULL;

	if (strcmp(ifname, "eth0") == 0)
		return default_network(c);
	if (!text || net_select_parse(text, c->pod.ns, &s, NULL) < 0)
		return NULL;
	for (size_t i = 0; i < s.n && !found; i++) {
		auto_free char *name = s.v[i].ifname ? xstrdup(s.v[i].ifname)
						     : xasprintf("net%zu", i + 1);

		if (strcmp(name, ifname) == 0)
			found = xasprintf("%s/%s", s.v[i].ns, s.v[i].name);
	}
	net_select_done(&s);
	return found;
}

/* --- namespace and interfaces --- */

static const struct labels no_labels;

static const struct labels *ns_annotations(const struct api_call *c)
{
	const struct labels *l = cluster_ns_annotations(c->api->conf.cluster, c->pod.ns);

	/*
	 * While the API server is unavailable, the namespace counts as one without annotations;
	 * take_requested() has logged this.
	 */
	return l || !c->pod_is_requested ? l : &no_labels;
}

/* Sets *ret to the interfaces of the container that have addresses, in the order in which they were
 * allocated. Returns their number. */
static size_t held_names(struct ipam *store, const char *container, const char ***ret)
{
	const struct lease_table *t = ipam_leases(store);
	const char **v = NULL;
	size_t n = 0;

	for (size_t i = 0; i < t->n; i++) {
		const struct lease *l = &t->v[i];
		size_t k = 0;

		if (l->state != LEASE_USED || strcmp(l->container_id, container) != 0)
			continue;
		while (k < n && strcmp(v[k], l->ifname) != 0)
			k++;
		if (k == n)
			VEC_PUSH(v, n) = l->ifname;
	}
	*ret = v;
	return n;
}

static int position(struct ipam *store, const struct ipam_owner *owner)
{
	auto_free const char **held = NULL;
	size_t n = held_names(store, owner->container_id, &held);

	return pod_nic_position(held, n, owner->ifname);
}

/* --- automatic pools of applications --- */

static const char *find_made(void *arg, const char *key, uint8_t family)
{
	return cluster_pool_for(arg, key, family);
}

static void make_pool(void *arg, const struct app_id *app, const char *subnet, const char *ifname,
		      uint8_t family, uint32_t count, bool reclaim)
{
	cluster_make_pool(arg, app, subnet, ifname, family, count, reclaim);
}

/* --- requests with the values of annotations --- */

static int request_pools(struct api_call *c, struct err *e)
{
	struct api_requests *q = &c->requests;
	auto_free struct pod_nic *nics = xcalloc(q->n, sizeof(*nics));
	auto_free const char **names = xcalloc(q->n, sizeof(*names));
	const struct pod_pools_facts f = {
		.autos = {.app = c->has_app ? &c->app : NULL,
			  .find = find_made,
			  .make = make_pool,
			  .arg = c->api->conf.cluster},
		.pod = &c->pod,
		.ns_annotations = ns_annotations(c),
		.conf = c->api->conf.pools,
		.names = names,
		.n_names = q->whole ? q->n : 0,
	};

	for (size_t i = 0; i < q->n; i++) {
		const struct ip_request *x = &q->body[i];

		names[i] = x->owner.ifname;
		nics[i] = (struct pod_nic){
			.ifname = x->owner.ifname,
			.position = q->whole ? (int)i : q->position,
			.conf4 = x->pools4,
			.conf6 = x->pools6,
			.n_conf4 = x->n_pools4,
			.n_conf6 = x->n_pools6,
			.conf_clean = x->clean_gateway,
		};
	}
	return pod_pools_request(&f, nics, q->n, q->pools, e);
}

static void requests_drop(struct api_requests *q)
{
	for (size_t i = 0; q->networks && i < q->n; i++) {
		if (q->made)
			pod_pool_request_done(&q->pools[i]);
		free(q->networks[i]);
	}
	free(take(q->v));
	free(take(q->pools));
	free(take(q->places));
	free(take(q->networks));
	free(take(q->routes));
	q->n_routes = 0;
	free(take(q->ns_version));
	q->made = false;
}

void api_requests_done(struct api_requests *q)
{
	requests_drop(q);
	free(q->body);
	free(q->want);
	free(q->nets);
}

static int requests_make(struct api_call *c, struct err *e)
{
	struct api_requests *q = &c->requests;
	struct identity owner;
	int r;

	q->v = xcalloc(q->n, sizeof(*q->v));
	q->pools = xcalloc(q->n, sizeof(*q->pools));
	q->places = xcalloc(q->n, sizeof(*q->places));
	q->networks = xcalloc(q->n, sizeof(*q->networks));
	r = pod_routes_read(&c->pod, &q->routes, &q->n_routes, e);
	if (r == 0)
		r = request_pools(c, e);
	if (r < 0)
		return r;
	q->made = true;
	identity_of(&c->pod, &c->api->conf.identity, &owner);
	for (size_t i = 0; i < q->n; i++) {
		struct ip_request *a = &q->v[i];

		*a = q->body[i];
		q->networks[i] = network_of(c, a->owner.ifname);
		pod_pool_request_put(&q->pools[i], a);
		a->pod = &c->pod;
		a->place = &q->places[i];
		a->owner.pod_name = owner.name;
		a->owner.pod_uid = c->pod.uid;
		a->sticky |= identity_is_sticky(&owner);
	}
	return 0;
}

/*
 * Computes requests.v of a call that has a pod. If an earlier run of the call has computed it, and
 * the namespace, the settings and the position of the interface have not changed since, it is
 * reused. For a pod with automatic pools it is computed at each run, because its pools depend on
 * more than these values.
 */
static int api_requests_update(struct api_call *c, struct ipam *store, struct err *e)
{
	const struct cluster *cluster = c->api->conf.cluster;
	const struct kube_object *ns =
		kube_cache_get(cluster_objects(cluster), CLUSTER_NAMESPACES, "", c->pod.ns);
	const char *version = ns ? ns->version : "";
	struct api_requests *q = &c->requests;
	int at = q->whole ? 0 : position(store, &q->body[0].owner), r = 0;

	if (!q->made || c->has_app || q->settings != c->api->settings_made || q->position != at ||
	    strcmp(q->ns_version, version) != 0) {
		requests_drop(q);
		q->ns_version = xstrdup(version);
		q->settings = c->api->settings_made;
		q->position = at;
		r = requests_make(c, e);
	}
	/* the cache may have replaced the labels since the last run */
	for (size_t i = 0; i < q->n; i++)
		q->places[i] = (struct place_facts){
			.node_labels = cluster_node_labels(cluster),
			.ns_labels = cluster_ns_labels(cluster, c->pod.ns),
			.ns_annotations = ns_annotations(c),
			.network = q->networks[i],
		};
	return r;
}

/* --- annotation ipam.spidernet.io/routes --- */

static size_t held_nets(struct ipam *store, const char *container, const struct ip_allocation *g,
			size_t n, struct ipnet **ret)
{
	const struct lease_table *t = ipam_leases(store);
	struct ipnet *v = NULL;
	size_t count = 0;

	for (size_t i = 0; i < t->n; i++) {
		const struct lease *l = &t->v[i];
		size_t k = 0;

		if (l->state != LEASE_USED || strcmp(l->container_id, container) != 0)
			continue;
		while (k < n && !ip_eq(&g[k].address.ip, &l->address.ip))
			k++;
		if (k == n)
			VEC_PUSH(v, count) = l->address;
	}
	*ret = v;
	return count;
}

/* Adds the routes of the pod's annotation to the allocations. */
static void api_requests_routes(struct api_call *c, struct ipam *store, struct ip_allocation *g,
				size_t n)
{
	const struct api_requests *q = &c->requests;
	auto_free struct ipnet *had = NULL;
	size_t n_had, left;

	if (q->n_routes == 0)
		return;
	n_had = held_nets(store, q->v[0].owner.container_id, g, n, &had);
	left = pod_routes_give(q->routes, q->n_routes, had, n_had, g, n);
	if (left > 0)
		log_limited(LOG_INFO, 2,
			    "the gateways of routes in a pod's annotation are not "
			    "in the subnet of any of its interfaces yet",
			    LOG_S("namespace", c->pod.ns), LOG_S("pod", c->pod.name),
			    LOG_I("routes", (int64_t)left));
}

/* --- the pod of a request: from the cluster cache, or by one GET --- */

static void answer_failure(struct api_call *c, const struct err *e)
{
	log_limited(LOG_WARN, 1, "no addresses allocated", LOG_S("path", c->route->path),
		    LOG_S("error", e->text));
	api_call_fail(c, e);
	api_call_free(c);
}

static int judge(const struct pod_facts *p, const struct api_pod *requested, struct err *e)
{
	if (*str_or_empty(requested->uid) && strcmp(requested->uid, p->uid) != 0 &&
	    !pod_is_static(p))
		return err_kind(e, ERR_AGAIN, -ESTALE,
				"pod '%s/%s' has UID %s at the API server, but the container "
				"runtime sent UID %.64s: the pod was replaced by another of the "
				"same name",
				p->ns, p->name, p->uid, requested->uid);
	return pod_check_alive(p, e);
}

/* While the API server is unavailable, only the runtime's arguments describe the pod. */
static void take_requested(struct api_call *c, const struct api_pod *requested,
			   const struct err *cause)
{
	log_limited(LOG_WARN, 2,
		    "cannot read the pod, the API server is unavailable: using the pools of the "
		    "network's configuration",
		    LOG_S("namespace", requested->ns), LOG_S("pod", requested->name),
		    LOG_S("error", cause->text));
	c->pod = (struct pod_facts){.ns = xstrdup(requested->ns),
				    .name = xstrdup(requested->name),
				    .uid = xstrdup(requested->uid),
				    .node = xstrdup("")};
	c->has_pod = c->pod_is_requested = true;
}

static void resolve(struct api_call *c)
{
	c->state = API_RESOLVING;
	c->next = c->api->resolving;
	c->api->resolving = c;
}

static void resolved(struct api_call *c)
{
	struct api_call **p = &c->api->resolving;

	while (*p != c)
		p = &(*p)->next;
	*p = c->next;
	c->next = NULL;
}

/* Returns whether the API server is unavailable. Otherwise the error is the API server's response
 * about the pod. */
static bool is_away(const struct err *e)
{
	return e->kind == ERR_AGAIN && e->code != -ESTALE;
}

/* --- the pod's owner, for its automatic pools --- */

static void take_app(struct api_call *c, const struct app_id *app)
{
	if (!app)
		return;
	app_id_copy(app, &c->app);
	c->has_app = true;
	app_id_labels(app, &c->pod.labels); /* the podAffinity of the pool selects these labels */
}

static void on_app(void *arg, const struct app_id *app, const struct err *cause)
{
	struct api_call *c = arg;
	struct err e;

	if (!c->request) { /* called from within cluster_lookup_app() */
		take_app(c, app);
		return;
	}
	c->request = NULL;
	resolved(c);
	if (cause) {
		e = *cause;
		err_wrap(&e, cause->code, "find the owner of pod '%s/%s'", c->pod.ns, c->pod.name);
		answer_failure(c, &e);
		return;
	}
	take_app(c, app);
	c->late = true;
	api_enqueue(c);
}

/* Returns true if the call waits for the lookup and continues when it has ended. */
static bool lookup_app(struct api_call *c)
{
	const struct labels *l = &c->pod.annotations;

	if (!c->api->conf.pools.subnets || c->pod_is_requested ||
	    (!labels_get(l, ANNOTATION_SUBNET) && !labels_get(l, ANNOTATION_SUBNETS)))
		return false;
	c->request = cluster_lookup_app(c->api->conf.cluster, &c->pod, on_app, c);
	if (!c->request)
		return false;
	resolve(c);
	return true;
}

static void on_pod(void *arg, const struct pod_facts *p, const struct err *cause)
{
	struct err e = ERR_INIT;
	struct api_call *c = arg;
	struct metrics *m = c->api->conf.metrics;
	struct api_pod requested;
	int r = 0;

	c->fetch = NULL;
	resolved(c);
	c->route->pod(c, &requested);
	if (m)
		metrics_phase_time(m, METRICS_FACTS, now_mono_us() - c->begin_us);
	if (p) {
		pod_facts_copy(p, &c->pod);
		c->has_pod = true;
		r = judge(p, &requested, &e);
	} else if (is_away(cause) && *str_or_empty(requested.uid)) {
		take_requested(c, &requested, cause);
	} else {
		e = *cause;
		r = err_wrap(&e, cause->code, "read pod '%s/%s'", requested.ns, requested.name);
	}
	if (r < 0) {
		answer_failure(c, &e);
		return;
	}
	c->late = true;
	if (!lookup_app(c))
		api_enqueue(c);
}

static bool is_known(const struct pod_facts *p, const struct api_pod *requested)
{
	return p && (!*str_or_empty(requested->uid) || strcmp(p->uid, requested->uid) == 0 ||
		     pod_is_static(p));
}

static bool node_collect(struct api_call *c)
{
	struct cluster *cluster = c->api->conf.cluster;
	const struct pod_facts *p;
	struct err e = ERR_INIT;
	struct api_pod requested;

	if (!c->route->pod || !c->route->pod(c, &requested))
		return false;
	if (!*str_or_empty(requested.ns) || !*str_or_empty(requested.name)) {
		err_kind(&e, ERR_ENV, -EINVAL,
			 "no pod in the request: CNI_ARGS must contain K8S_POD_NAMESPACE and "
			 "K8S_POD_NAME");
		answer_failure(c, &e);
		return true;
	}
	p = cluster_pod(cluster, requested.ns, requested.name);
	if (is_known(p, &requested)) {
		pod_facts_copy(p, &c->pod);
		c->has_pod = true;
		if (judge(p, &requested, &e) == 0)
			return lookup_app(c);
		answer_failure(c, &e);
		return true;
	}
	resolve(c);
	c->fetch = cluster_fetch_pod(cluster, requested.ns, requested.name, on_pod, c);
	return true;
}

static int node_ready(const struct ipam_api *a, struct err *e)
{
	return node_pools_ready(a->conf.node_pools, e);
}

static struct ipam_pools *node_attach(struct ipam_api *a, struct ipam_pools *p)
{
	node_pools_take(a->conf.node_pools, p);
	return p;
}

static void node_detach(struct ipam_api *a, struct ipam_pools *p)
{
	node_pools_detach(a->conf.node_pools, p);
}

const struct api_backend api_node = {node_ready, node_attach, node_detach, node_collect,
				     node_allocate};
