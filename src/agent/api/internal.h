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
	/* Answers when the store cannot be had. */
	void (*fail)(struct api_call *c, const struct err *e);
	bool for_caller; /* means nothing when the caller is gone: allocations */
	/* Which pod it is about, for one that allocates; false: none. NULL: it does not allocate. */
	bool (*pod)(const struct api_call *c, struct api_pod *ret);
	struct metrics_ipam *(*count)(struct metrics *m); /* as what it counts; may be NULL */
};

/* As the request has it; may be "". */
struct api_pod {
	const char *ns, *name, *uid;
};

/* A pool that could not be had a moment ago: asks go on to their next one. */
struct api_dry {
	char *pool;
	int64_t until_ms;
};

struct ipam_api {
	struct ipam_api_conf conf;
	struct ipam_pools pools;
	struct coordinator_settings settings;
	struct api_call *first, **end; /* waiting for the store */
	struct loop_timer *timer;
	int64_t turn_end; /* when we last let go of the store */
	int64_t gap_at;	  /* when others last had it, or had the time to */
	bool touched;	  /* a batch is wanted though nobody asks */

	/* --- of a cluster --- */
	uint64_t seq;
	struct api_call *fetching; /* waiting for their pod */
	struct api_call *parked;   /* waiting for addresses, in order */
	struct loop_timer *park_timer;
	struct needs wanted; /* as the lender was told */
	bool named;	     /* it was told of addresses that are asked for by name */
	struct api_dry *dry;
	size_t n_dry;
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
	bool has_pod, pod_is_asked; /* asked: as the request has it, no API server was there */
	struct cluster_fetch *fetch;
	struct app_id app; /* what made the pod, where a pool is made for that */
	bool has_app;
	struct cluster_ask *ask;
	bool parked, waited, late;	  /* late: others may have come to the queue since */
	int64_t park_us, deadline, stage; /* loop's time, ms */
	int64_t own_until; /* how long an address that the pod had before is waited for */
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
 * ipam_allocate(), or on a node of a cluster what comes before it. API_PARKED: the call is not to be
 * answered now, its run() comes again. whole: these are all interfaces of the pod, in their order.
 */
enum { API_PARKED = 1 };
int api_allocate(struct api_call *c, struct ipam *store, const struct ipam_ask *asks, size_t n,
		 bool whole, struct ipam_grant **ret, size_t *n_ret, struct err *e);

/* Asks with what the pod's annotations say instead of the network's configuration. */
struct api_asks {
	struct ipam_ask *v;
	struct pod_wish *wishes;
	struct place_facts *places;
	char **networks;
	size_t n;
	bool wished;
	struct pool_route *routes; /* of its own annotation */
	size_t n_routes;
};
/* Of a call that has its pod. To be ended in any case. */
int api_asks_make(struct api_call *c, struct ipam *store, const struct ipam_ask *asks, size_t n,
		  bool whole, struct api_asks *ret, struct err *e);
void api_asks_done(struct api_asks *a);
/* Adds the routes of the pod's annotation to the grants. */
void api_asks_routes(struct api_call *c, struct ipam *store, const struct api_asks *a,
		     struct ipam_grant *g, size_t n);
/* Before the queue: true when the call goes on by itself, now or later. */
bool api_gather(struct api_call *c);
/* Into the queue, by order of arrival. */
void api_enqueue(struct api_call *c);
void api_call_free(struct api_call *c);
void api_park_free(struct ipam_api *a);
/* The call comes back when there is more, or its time is up. */
void api_pending_add(struct api_call *c);
/* What those have been promised that came before. */
void api_promised(const struct api_call *c, struct needs *ret);
bool api_is_dry(void *api, const char *pool);
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
void api_ready(struct api_call *c);
void api_status(struct api_call *c, struct ipam *store);

/* Ours; the bodies are in api_pods.c. */
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

struct api_done_args {
	const char *container_id;
	struct json_list conflicts;
	const char *pod_namespace, *pod_name, *pod_uid, *status, *message; /* pods.c */
};
void api_networks_done(struct api_call *c, const struct api_done_args *p);
int api_read_done(struct api_call *c);
void api_done(struct api_call *c, struct ipam *store);

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
	struct json_strs words;
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
void api_put_rail(struct json_out *o, const char *ifname, const struct ipam_grant *g, size_t n,
		  size_t ask, const struct pool_set *pools);
/* "ips":[...],"routes":[...] of one interface, as in IpamAddResponse. */
void api_put_grants(struct json_out *o, const struct ipam_grant *g, size_t n, size_t ask,
		    const struct pool_set *pools);

#endif
