/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_AGENT_API_INTERNAL_H
#define UNIRAIL_AGENT_API_INTERNAL_H

/* Between api.c (queue and store) and api_*.c (what each route means). */

#include "agent/api/api.h"
#include "ipam/demand.h"
#include "ipam/lend.h"
#include "spec/pool_annotation.h"
#include "wire/json/json.h"

struct api_call;

struct api_pod;

struct api_route {
	const char *method, *path;
	size_t args_size;
	/* Fills c->args. Negative: it has answered. NULL: nothing to read. */
	int (*read)(struct api_call *c);
	/* Answers without the store; NULL: run() does, with it. */
	void (*now)(struct api_call *c);
	void (*run)(struct api_call *c, struct ipam *store);
	/* Answers if the store cannot be opened. */
	void (*fail)(struct api_call *c, const struct err *e);
	bool for_caller; /* skipped if the caller has disconnected: allocations */
	/* The pod of an allocation; false: none. NULL: not an allocation. */
	bool (*pod)(const struct api_call *c, struct api_pod *ret);
	struct metrics_ipam *(*count)(struct metrics *m); /* as what it counts; may be NULL */
};

/* As the request has it; may be "". */
struct api_pod {
	const char *ns, *name, *uid;
};

/* A pool that had no address a moment ago: requests continue with their next one. */
struct api_exhausted {
	char *pool;
	int64_t until_ms;
};

struct ipam_api {
	struct ipam_api_conf conf;
	struct ipam_pools pools;
	struct coordinator_settings settings;
	struct api_call *first, **end; /* waiting for the store */
	struct loop_timer *timer;
	int64_t turn_end; /* time at which this process last closed the store */
	int64_t gap_at;	  /* when other processes last used it, or could have */
	bool touched;	  /* a batch is due without a request */

	/* --- of a cluster --- */
	uint64_t seq;
	struct api_call *fetching; /* waiting for their pod */
	struct api_call *pending;  /* waiting for addresses, in order */
	struct api_call *last_pending;
	struct loop_timer *pending_timer, *report_timer;
	char **changed; /* pools that may have more now, in this iteration of the loop */
	size_t n_changed;
	struct loop_timer *changed_timer;
	int64_t pending_ms;  /* when pending_timer is due */
	struct needs wanted; /* as reported to node_pools, by pool */
	bool named;	     /* addresses requested by name were reported to it */
	struct api_exhausted *exhausted;
	size_t n_exhausted;
};

struct api_call {
	struct ipam_api *api;
	struct http_request *q;
	const struct api_route *route;
	struct span query;
	struct json_doc *doc;
	void *args; /* of args_size bytes, zeroed before read() */
	int64_t since;
	struct api_call *next;
	bool failed; /* it was answered with a failure */
	int64_t begin_us, queue_us;

	/* --- of a cluster --- */
	uint64_t seq; /* the order of arrival */
	struct pod_facts pod;
	bool has_pod, pod_is_requested; /* asked: as the request has it, no API server was there */
	struct cluster_fetch *fetch;
	struct app_id app; /* what made the pod, where a pool is made for that */
	bool has_app;
	struct cluster_lookup *request;
	bool pending, waited, late;	     /* late: others may have come to the queue since */
	int64_t pending_us, deadline, stage; /* loop's time, ms */
	int64_t own_until; /* how long a request waits for the pod's former address */
	struct ipaddr own; /* which; family 0: none */
	struct needs needs;
};

extern const struct api_route api_routes[]; /* ended by {0}; router.c */

/* --- reading --- */

/*
 * The body, a JSON object, by a table into c->args; `name` is what go-openapi calls it. Negative:
 * the client has been told (415, 422 when there is none, 400 when it is no such object).
 */
int api_body(struct api_call *c, const char *name, const struct json_table *t);
/* 422, 602 when it is NULL. */
int api_required(struct api_call *c, const char *field, const char *value);
/* 422, 604 when it is empty. */
int api_not_empty(struct api_call *c, const char *field, const char *value);

/* --- answering; each ends the call --- */

void api_ok(struct api_call *c);			/* 200, no body */
void api_json(struct api_call *c, const struct buf *b); /* 200 */
/* Spiderpool's way: a JSON string. */
void api_string(struct api_call *c, int status, const char *text);
void api_fail_string(struct api_call *c, const struct err *e); /* 500 */
/* Ours: {"code": CNI's, "message"}. */
void api_fail_object(struct api_call *c, const struct err *e); /* 500 */
/* go-openapi's way. */
void api_refuse(struct api_call *c, int status, int code, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));

/* --- addresses --- */

/*
 * ipam_allocate(), or on a node of a cluster what comes before it. API_PENDING: the call is not to be
 * answered now, its run() comes again. whole: these are all interfaces of the pod, in their order.
 */
enum { API_PENDING = 1 };
int api_allocate(struct api_call *c, struct ipam *store, const struct ip_request *requests,
		 size_t n, bool whole, struct ip_allocation **ret, size_t *n_ret, struct err *e);

/*
 * Requests with the values of the pod's annotations instead of those of the network's
 * configuration.
 */
struct api_requests {
	struct ip_request *v;
	struct pod_pool_request *requests;
	struct place_facts *places;
	char **networks;
	size_t n;
	bool requested;
	struct pool_route *routes; /* of its own annotation */
	size_t n_routes;
};
/* Before the queue: true if the call continues by itself, now or later. */
bool api_collect(struct api_call *c);
/* Adds the call to the queue, in order of arrival. */
void api_enqueue(struct api_call *c);
void api_call_free(struct api_call *c);
void api_pending_free(struct ipam_api *a);
/* The call is retried when there are more addresses, or its time is over. */
void api_pending_add(struct api_call *c);
/* Addresses reserved for earlier requests. */
void api_reserved(const struct api_call *c, struct needs *ret);
bool api_is_exhausted(void *api, const char *pool);
/* Answers with the route's failure. */
void api_call_fail(struct api_call *c, const struct err *e);

/* --- routes --- */

enum { API_ANSWER_MAX = 4 << 20 };

/* Spiderpool's: IpamAddArgs, IpamDelArgs, IpamBatchDelArgs. */
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

/* Arguments of unirail's own routes; the bodies are documented in pods.c. */
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
	int64_t own;
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

/* 422 unless it is 1 to 64. */
int api_rails_count(struct api_call *c, size_t n);
/* One element of our "rails". */
void api_put_rail(struct json_out *o, const char *ifname, const struct ip_allocation *g, size_t n,
		  size_t request, const struct pool_set *pools);
/* "ips":[...],"routes":[...] of one interface, as in IpamAddResponse. */
void api_put_allocations(struct json_out *o, const struct ip_allocation *g, size_t n,
			 size_t request, const struct pool_set *pools);

#endif
