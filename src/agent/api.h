/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_AGENT_API_H
#define UNIRAIL_AGENT_API_H

/* Between ipam_api.c (queue and store) and api_*.c (what each route means). */

#include "agent/ipam_api.h"
#include "ipam/lend.h"
#include "wire/json.h"

struct api_call;

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
};

struct ipam_api {
	struct ipam_api_conf conf;
	struct ipam_pools pools;
	struct coordinator_settings settings;
	struct api_call *first, **end; /* waiting for the store */
	struct loop_timer *timer;
	int64_t turn_end; /* when we last let go of the store */
	int64_t gap_at;	  /* when others last had it, or had the time to */
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
};

extern const struct api_route api_routes[]; /* ended by {0}; api_routes.c */

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

/* --- routes --- */

enum { API_ANSWER_MAX = 4 << 20 };

/* Spiderpool's: IpamAddArgs, IpamDelArgs, IpamBatchDelArgs. */
struct api_pod_args {
	const char *container_id, *ifname, *netns, *pod_namespace, *pod_name, *pod_uid;
	struct json_strs pools4, pools6;
	bool clean_gateway, match_subnet, conflict;
};
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

/* Ours; the bodies are in api_pods.c. */
struct api_plan_args {
	const char *container_id, *netns, *pod_namespace, *pod_name, *pod_uid;
	struct json_list rails;
	bool dry_run;
};
int api_read_plan(struct api_call *c);
void api_plan(struct api_call *c, struct ipam *store);

struct api_done_args {
	const char *container_id;
	struct json_list conflicts;
};
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
