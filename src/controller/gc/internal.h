/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CONTROLLER_GC_INTERNAL_H
#define UNIRAIL_CONTROLLER_GC_INTERNAL_H

/* Shared by the files of this directory. */

#include "base/log.h"
#include "controller/gc/confirm.h"
#include "controller/gc/gc.h"
#include "controller/gc/pool_status.h"
#include "controller/gc/pool_status_write.h"

/* Used only by pool_status.c and pool_status_write.c. */

/*
 * All annotations of an object together are limited to 256 KiB; some of it is left to other
 * writers.
 */
enum { COUNTS_ANNOTATION_MAX = 200 << 10 };

struct pool_status_pool {
	struct pool_status *c;
	char *name;
	bool dirty;
	bool adopted;	 /* the pool has records of Spiderpool, which are checked repeatedly */
	bool checked;	 /* allocated is valid; total too, unless the spec is invalid */
	bool due;	 /* the pool is part of the current pass */
	int64_t next_ms; /* earliest time of the next write */
	/* version on which the last write was based; while the watch still shows it, at most until
	 * base_until, the pool is not written again. NULL: none */
	char *base;
	int64_t base_until;
	struct kube_call *call;
	int64_t pace_ms; /* delay of the next write after the one in flight */
	unsigned int failures;
	struct log_once logged;
	char *got, *got_version; /* status.allocatedIPs written by Spiderpool, and the version it
	                          * was read in */
	char **freed;		 /* event messages to send when the call in flight succeeds */
	size_t n_freed;
	int64_t total, allocated;
	/* records of the pool's endpoints, to which a pass adds the adopted records; valid
	 * during the pass only */
	struct records own;
};

struct pool_status {
	struct pool_status_conf conf;
	struct pool_status_pool **v; /* sorted by name */
	size_t n;
	struct loop_alarm timer;
	int64_t ticked;
	struct pool_status_stats stats;
};

int64_t pool_status_now(const struct pool_status *c);
void pool_status_schedule(struct pool_status *c, int64_t ms);
void pool_status_logged(struct pool_status_pool *p, const struct err *e);

void pool_status_freed(struct pool_status_pool *p, bool done);

/* Functions of pool_status_write.c: they read fields of pool objects, and send writes
 * immediately. */
/* Returns the adopted records (ANNOTATION_ADOPTED); NULL: not adopted yet. */
const char *pool_status_annotation(const struct json *object);
bool pool_status_is_deleting(const struct json *object);
bool pool_status_wants_finalizer(const struct json *object);
/* Sends a patch that sets the annotation (NULL: leaves it unchanged), and adds (finalizer true)
 * or removes (false) Spiderpool's finalizer. */
void pool_status_patch_meta(struct pool_status_pool *p, const struct json *object,
			    const char *annotation, bool finalizer);
/*
 * Writes the counts and `text` (allocatedIPs; NULL: leaves it unchanged). Returns false if the
 * status has them already. there: digest of the allocatedIPs that the status has
 * (cluster_cache_object.allocated).
 */
bool pool_status_write_status(struct pool_status_pool *p, const struct json *object, uint64_t there,
			      const char *text);

/* Used only by gc.c, gc_blocks.c and gc_nodes.c. */

enum { GC_IN_FLIGHT_MAX = 8, GC_SCANS = 2 };

/* A node that a block or an endpoint names and that is not in the cache, or is fenced and not
 * Ready. */
struct cluster_gc_node {
	char *name;
	int64_t since;
	/* pod that may have addresses on the node, in the current pass */
	const struct kube_object *pod;
	/* valid in the current pass; seen: an object names the node; sure: the node is confirmed
	 * gone */
	bool seen, sure;
	bool logged;
};

/* A request in flight or completed; remembered until the watch shows its effect. */
struct cluster_gc_request {
	struct cluster_gc *g;
	struct kube_call *call; /* NULL: completed */
	enum gc_cache_kind kind;
	char *ns, *name, *version;
	/* time at which the entry expires, even if the watch does not show the effect */
	int64_t until;
	uint64_t *count; /* statistic to increment on success */
	uint64_t addresses;
	char *reason, *message; /* reason and message of the event; NULL: no event */
	char *about;		/* pool that the event is about; NULL: the endpoint */
};

struct cluster_gc {
	struct cluster_gc_conf conf;
	struct cluster_gc_stats stats;
	struct cluster_gc_node *nodes; /* sorted by name */
	size_t n_nodes;
	struct cluster_gc_request **in_flight;
	size_t n_in_flight;
	struct ipaddr *retained; /* retained addresses in the current pass */
	size_t n_retained;
	const struct gc_cache_block *block; /* block being processed */
	bool recreated;			    /* is_left_behind() of `block` */
	/* of the current pass: a node that is not Ready and not fenced; NULL: there is none */
	const char *cut_off;
	/* time since which all nodes are known to be Ready or fenced; 0: a node is neither, or
	 * the state of nodes is not known */
	int64_t ready_since;
	struct loop_alarm timer;
	int64_t passed, scanned;
	uint64_t *findings; /* digests of the findings of the last full scan, sorted */
	size_t n_findings;
	struct log_once logged;
};

int64_t cluster_gc_now(const struct cluster_gc *g);

void cluster_gc_nodes_check(struct cluster_gc *g);
bool cluster_gc_node_is_deleted(const struct cluster_gc *g, const char *name);
/* Returns whether a node is not Ready and not fenced, so that its containers may still run. */
bool cluster_gc_node_is_cut_off(const struct cluster_gc *g, const char *name);
void cluster_gc_nodes_done(struct cluster_gc *g);

/* Sends the requests about blocks that are due. */
void cluster_gc_blocks_pass(struct cluster_gc *g);
/* Copies to the new version of a block: `since` if its node is the same, and since_ms of each
 * entry "?" that both versions have. */
void cluster_gc_block_changed(const struct gc_cache_block *was, struct gc_cache_block *is);
/* Returns the number of entries whose owner is unknown ("?"). */
size_t cluster_gc_unknown(const struct block_object *o);
/* Sends the requests about SpiderEndpoints that are due. */
void cluster_gc_endpoints_pass(struct cluster_gc *g);

/*
 * Functions of gc.c. cluster_gc_is_free() returns whether a request about the object may be sent
 * now. cluster_gc_begin() sends one; the caller may set members of the returned request until the
 * caller returns to the loop.
 */
bool cluster_gc_is_free(const struct cluster_gc *g, enum gc_cache_kind kind,
			const struct kube_object *o);
struct cluster_gc_request *cluster_gc_begin(struct cluster_gc *g, enum gc_cache_kind kind,
					    const struct kube_object *o,
					    const struct kube_request *r);

#endif
