/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_AGENT_API_INTERNAL_H
#define UNIRAIL_AGENT_API_INTERNAL_H

/* Shared by api.c (queue and store) and the files of the routes. */

#include "agent/api/api.h"
#include "ipam/demand.h"
#include "ipam/pools.h"
#include "spec/pool_annotation.h"
#include "wire/json/json.h"

struct api_call;

struct api_pod;

struct api_route {
	const char *method, *path;
	size_t args_size;
	/* Reads the body or the query string into c->args. Negative: read() has answered the
	 * request. NULL: the route has no arguments. */
	int (*read)(struct api_call *c);
	/* Answers without the store. NULL: run() answers with the store. */
	void (*now)(struct api_call *c);
	void (*run)(struct api_call *c, struct ipam *store);
	/* Answers the request with an error. */
	void (*fail)(struct api_call *c, const struct err *e);
	bool for_caller; /* the call is skipped if the client has disconnected */
	/* Sets *ret to the pod of an allocation; false: the allocation needs no pod. NULL: the
	 * route allocates no addresses. */
	bool (*pod)(const struct api_call *c, struct api_pod *ret);
	struct metrics_ipam *(*count)(struct metrics *m); /* the counters to update; may be NULL */
};

/* The pod that the request names; strings may be NULL or "". */
struct api_pod {
	const char *ns, *name, *uid;
};

/* A pool that was found exhausted: before until_ms (loop time), requests use the next pool of
 * their list instead. */
struct api_exhausted {
	char *pool;
	int64_t until_ms;
};

/*
 * Where pools and pods come from: the files of `unirail ipam serve` (api.c), or the cluster of
 * which this is a node (allocate.c). ipam_api_new() selects one by ipam_api_conf.cluster.
 */
struct api_backend {
	/* Returns 0 if the store can be served: the pools have been read, and on a node of a
	 * cluster also this node's blocks; otherwise a negative code and the reason. */
	int (*ready)(const struct ipam_api *a, struct err *e);
	/* Returns the pools for one batch: p, which the function fills, or pools that the backend
	 * owns. The caller calls detach() at the end of the batch. */
	struct ipam_pools *(*attach)(struct ipam_api *a, struct ipam_pools *p);
	void (*detach)(struct ipam_api *a, struct ipam_pools *p);
	/* Called before a call is queued. Returns true if the call was answered, or if it waits for
	 * a lookup (of its pod, or of the pod's application) and is queued when the lookup ends;
	 * false: the caller queues it. */
	bool (*collect)(struct api_call *c);
	/* Allocates the addresses of c->requests, whose `body` the caller has set. API_PENDING: the
	 * call waits, and its run() is called again later. */
	int (*allocate)(struct api_call *c, struct ipam *store, struct ip_allocation **ret,
			size_t *n_ret, struct err *e);
};
extern const struct api_backend api_node;

enum { API_PENDING = 1 };

struct ipam_api {
	struct ipam_api_conf conf;
	const struct api_backend *backend;
	struct ipam_pools pools;
	struct coordinator_settings settings;
	struct api_call *first, **end; /* waiting for the store */
	struct loop_alarm timer;
	int64_t turn_end; /* loop time at which this process last closed the store */
	/* loop time at which another process last had the store locked, or the store had been
	 * unlocked for GAP_MS */
	int64_t gap_at;
	bool touched; /* a batch was requested by ipam_api_touch() */

	/* --- members that only a node of a cluster needs --- */
	uint64_t seq;
	unsigned int settings_made; /* changes with each change of `conf` */
	struct api_call *resolving; /* calls in state API_RESOLVING */
	struct api_call *pending;   /* calls in state API_WAITING, in order of arrival */
	struct api_call *last_pending;
	struct loop_alarm pending_timer, report_timer;
	/* names of the pools reported as changed in this iteration of the loop: they may have
	 * more addresses */
	char **changed;
	size_t n_changed;
	struct loop_alarm changed_timer;
	struct needs wanted; /* demand as last reported to agent/blocks, by pool */
	bool named;	     /* explicitly requested addresses were reported to agent/blocks */
	struct api_exhausted *exhausted;
	size_t n_exhausted;
};

/*
 * The addresses that a call requests: first as in the body, then, on a node of a cluster, with the
 * values of the pod's annotations in place of those of the network's configuration. Both forms stay
 * in memory while the call waits, so that a retry repeats only the selection of addresses.
 * api_requests_update() makes `v` again if the pod's namespace or the settings have changed.
 */
struct api_requests {
	size_t n;
	struct ip_request *body;
	struct ipaddr *want; /* memory of the `want` arrays of all elements of body */
	struct ipnet *nets;
	/* the requests are for all interfaces of the pod, in the order of the interfaces */
	bool whole;

	/* --- members computed from the pod and its namespace --- */
	bool made;
	struct ip_request *v;
	struct pod_pool_request *pools;
	struct place_facts *places;
	char **networks;
	struct pool_route *routes; /* from the pod's routes annotation */
	size_t n_routes;
	/* what `v` was made from, in addition to the pod: resourceVersion of the namespace;
	 * position of the interface (unless `whole`); value of ipam_api.settings_made */
	char *ns_version;
	int position;
	unsigned int settings;
};

/*
 * RESOLVING: the pod or its owner is read from the API server; then ALLOCATING: the call is in the
 * queue for the store, or uses the store. If addresses, pools or retained addresses are missing,
 * the call is WAITING until they change, or a time expires, and is then ALLOCATING again.
 */
enum api_state { API_ALLOCATING, API_RESOLVING, API_WAITING };

struct api_call {
	struct ipam_api *api;
	struct http_request *q;
	const struct api_route *route;
	struct span query;
	struct json_doc *doc;
	void *args; /* args_size bytes, zeroed before read() */
	int64_t since;
	struct api_call *next;
	bool failed; /* the response was a failure */
	int64_t begin_us, queue_us;

	/* --- members that only a node of a cluster needs, except state and requests --- */
	uint64_t seq; /* position in the order of arrival */
	struct pod_facts pod;
	/* pod_is_requested: the pod is as in the request, because the API server was unavailable */
	bool has_pod, pod_is_requested;
	struct cluster_fetch *fetch;
	struct app_id app; /* owner of the pod, if automatic pools are created for it */
	bool has_app;
	struct cluster_lookup *request;
	enum api_state state;
	/* late: calls that arrived later may be in the queue already */
	bool waited, late;
	/* pending_us: start of the wait, monotonic, us; deadline: end of the wait, loop time,
	 * ms; stage: loop time, ms, at which the pools that lack addresses count as exhausted
	 * and the call is retried */
	int64_t pending_us, deadline, stage;
	/* loop time of a retry after some, but not all, of the pools that lack addresses for
	 * this call have changed; INT64_MAX: none */
	int64_t partial_at;
	/* loop time until which the request waits for the pod's former address */
	int64_t own_until;
	struct ipaddr own;  /* the pod's former address; family 0: none */
	struct needs needs; /* while the call waits, `missing` of a pool that has changed is 0 */
	struct api_requests requests;
};

extern const struct api_route api_routes[]; /* ended by {0}; in router.c */

/* --- reading requests --- */

/*
 * Reads the body, a JSON object, by table t into c->args; `name` is go-openapi's name for the body.
 * Negative: the request was answered with 415, 422 (no body) or 400 (invalid body).
 */
int api_body(struct api_call *c, const char *name, const struct json_table *t);
/* Answers 422 with code 602 if value is NULL. */
int api_required(struct api_call *c, const char *field, const char *value);
/* Answers 422 with code 602 if value is NULL, 604 if it is empty. */
int api_not_empty(struct api_call *c, const char *field, const char *value);

/* --- responses: each function answers the request; the caller frees the call --- */

void api_ok(struct api_call *c);			/* answers 200 without a body */
void api_json(struct api_call *c, const struct buf *b); /* answers 200 with b */
/* Answers with a JSON string, as Spiderpool does. */
void api_string(struct api_call *c, int status, const char *text);
void api_fail_string(struct api_call *c, const struct err *e); /* 500 */
/* Answers with {"code": the CNI error code, "message"}. */
void api_fail_object(struct api_call *c, const struct err *e); /* 500 */
/* Answers with the error object of go-openapi. */
void api_refuse(struct api_call *c, int status, int code, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));

/* --- allocation, queue, pending calls --- */

/* Allocates by ipam_allocate() without waiting, and counts the time. */
int api_allocate_now(struct api_call *c, struct ipam *store, const struct ip_request *requests,
		     struct ip_allocation **ret, size_t *n_ret, struct err *e);
void api_requests_done(struct api_requests *q);
/* Adds the call to the queue, in order of arrival. */
void api_enqueue(struct api_call *c);
void api_call_free(struct api_call *c);
void api_pending_init(struct ipam_api *a);
void api_pending_free(struct ipam_api *a);
/* Adds the call to the pending calls. The call is retried when there are more addresses, and after
 * each third of `wait`. */
void api_pending_add(struct api_call *c);
/* Sums up the addresses reserved for the pending requests that arrived before c. */
void api_reserved(const struct api_call *c, struct needs *ret);
bool api_is_exhausted(void *api, const char *pool);
/* Answers the call with the error e, by the function fail() of its route. */
void api_call_fail(struct api_call *c, const struct err *e);

/* --- arguments and functions of the routes --- */

enum { API_ANSWER_MAX = 4 << 20 };

/* Arguments of Spiderpool's routes: IpamAddArgs, IpamDelArgs, IpamBatchDelArgs. */
struct api_pod_args {
	const char *container_id, *ifname, *netns, *pod_namespace, *pod_name, *pod_uid;
	struct json_strs pools4, pools6;
	bool clean_gateway, match_subnet, conflict;
};
bool api_pod_of_add(const struct api_call *c, struct api_pod *ret);
int api_read_add(struct api_call *c);
int api_read_del(struct api_call *c);
int api_read_batch_del(struct api_call *c);
void api_add(struct api_call *c, struct ipam *store);
void api_del(struct api_call *c, struct ipam *store);
void api_batch_del(struct api_call *c, struct ipam *store);

struct api_endpoint_args {
	char pod_namespace[256], pod_name[256];
};
int api_read_endpoint(struct api_call *c);
void api_endpoint(struct api_call *c, struct ipam *store);

struct api_coordinator_args {
	const char *pod_namespace, *pod_name;
};
int api_read_coordinator(struct api_call *c);
void api_coordinator(struct api_call *c);
void api_status(struct api_call *c, struct ipam *store);
void api_devices(struct api_call *c);

/* Arguments of unirail's own routes; pods.c and admin.c document the bodies. */
struct api_plan_args {
	const char *container_id, *netns, *pod_namespace, *pod_name, *pod_uid;
	struct json_list rails;
	bool dry_run;
};
bool api_pod_of_plan(const struct api_call *c, struct api_pod *ret);
int api_read_plan(struct api_call *c);
void api_plan(struct api_call *c, struct ipam *store);

struct api_networks_args {
	const char *container_id, *pod_namespace, *pod_name, *pod_uid, *ifname;
	const char *cluster_network, *global_ns, *multus_ns;
	int64_t n_netconf;
	struct json_strs defaults, system_ns;
	bool has_system, isolation;
};
int api_read_networks(struct api_call *c);
void api_networks(struct api_call *c);

struct api_report_args {
	const char *container_id;
	struct json_list conflicts;
	const char *pod_namespace, *pod_name, *pod_uid, *status, *message; /* pods.c */
};
int api_read_report(struct api_call *c);
void api_report(struct api_call *c, struct ipam *store);

struct api_release_args {
	const char *container_id;
	struct json_strs rails;
	bool has_rails;
};
int api_read_release(struct api_call *c);
void api_release(struct api_call *c, struct ipam *store);
void api_check(struct api_call *c, struct ipam *store);

struct api_pools_args {
	const char *command, *release;
	struct json_strs args;
	bool json;
};
int api_read_pools(struct api_call *c);
void api_pools(struct api_call *c, struct ipam *store);

struct api_gc_args {
	const char *network;
	struct json_list valid;
	bool has_valid;
};
int api_read_gc(struct api_call *c);
void api_gc(struct api_call *c, struct ipam *store);

/* Answers 422 unless n is 1 to RAILS_MAX. */
int api_rails_count(struct api_call *c, size_t n);
/* Writes one element of "rails" in a response of unirail's routes. */
void api_put_rail(struct json_out *o, const char *ifname, const struct ip_allocation *g, size_t n,
		  size_t request, const struct pool_set *pools);
/* Writes "ips":[...],"routes":[...] of one interface, as in IpamAddResponse. */
void api_put_allocations(struct json_out *o, const struct ip_allocation *g, size_t n,
			 size_t request, const struct pool_set *pools);

#endif
