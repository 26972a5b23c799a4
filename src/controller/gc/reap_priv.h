/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CONTROLLER_GC_REAP_PRIV_H
#define UNIRAIL_CONTROLLER_GC_REAP_PRIV_H

/* reap*.c only. */

#include "controller/gc/reap.h"

enum { REAP_FLIGHTS_MAX = 8, REAP_SCANS = 2 };

/* A node that is named somewhere, and is not there or is fenced. */
struct reap_node {
	char *name;
	int64_t since;
	const struct kube_object *pod; /* of this pass: one that may have addresses there */
	bool seen, sure;	       /* of this pass */
	bool said;
};

/* A request, and what it was about until the watch shows what came of it. */
struct reap_flight {
	struct reap *g;
	struct kube_call *call; /* NULL: done */
	enum census_kind kind;
	char *ns, *name, *version;
	int64_t until;	 /* when it is tried again, whatever the watch shows */
	uint64_t *count; /* of the stats, when it succeeds */
	uint64_t addresses;
	char *reason, *words; /* of an event; NULL: none */
	char *about;	      /* the event's pool; NULL: the endpoint itself */
};

struct reap {
	struct reap_conf conf;
	struct reap_stats stats;
	struct reap_node *nodes; /* by name */
	size_t n_nodes;
	struct reap_flight **flights;
	size_t n_flights;
	struct ipaddr *kept; /* of a pass */
	size_t n_kept;
	const struct census_block *block; /* that is looked at: */
	bool anew;			  /* its node is another by now, and has not renewed it */
	const char *cut_off;		  /* of a pass: a node that is not Ready; NULL: all are */
	int64_t ready_since;		  /* all nodes; 0: not all are */
	struct loop_timer *timer;
	int64_t at, passed, scanned;
	uint64_t *findings; /* of the last scan, sorted */
	size_t n_findings;
	char *said;
};

int64_t reap_now(const struct reap *g);
void reap_soon(struct reap *g, int64_t ms);

/* gc_nodes.c */
void reap_nodes_look(struct reap *g);
bool reap_node_is_gone(const struct reap *g, const char *name);
/* Not Ready, and nobody says that it runs no more. */
bool reap_node_is_cut_off(const struct reap *g, const char *name);
void reap_nodes_done(struct reap *g);

/* gc_blocks.c, gc_nodes.c: begin what is due. */
void reap_blocks_pass(struct reap *g);
/* Before it is looked at as it is now. */
void reap_block_changed(const struct census_block *was, struct census_block *is);
size_t reap_unknown(const struct block_object *o); /* entries that nobody is known to have */
void reap_endpoints_pass(struct reap *g);

/* gc.c: what does not fit together. */
void reap_scan(struct reap *g);

/* gc.c: whether a request about it may be begun now, and one. The flight is the caller's to fill
 * until it returns to the loop. */
bool reap_is_free(const struct reap *g, enum census_kind kind, const struct kube_object *o);
struct reap_flight *reap_begin(struct reap *g, enum census_kind kind, const struct kube_object *o,
			       const struct kube_request *r);

#endif
