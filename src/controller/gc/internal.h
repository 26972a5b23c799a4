/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CONTROLLER_GC_INTERNAL_H
#define UNIRAIL_CONTROLLER_GC_INTERNAL_H

/* What this folder's own files share. */

#include "controller/gc/confirm.h"
#include "controller/gc/gc.h"
#include "controller/gc/pool_status.h"
#include "controller/gc/pool_status_write.h"

/* Between confirm.c (questions and requests) and confirm.c (what is asked for, and what an answer means). */

enum asks_about { ASKS_POD, ASKS_NODE, ASKS_NAME };
enum asks_step { ASKS_STEP_SET, ASKS_STEP_VMI, ASKS_STEP_VM, ASKS_STEP_END };

struct asks_question {
	struct asks *a;
	enum asks_about about;
	char *ns, *name, *uid;
	enum asks_answer answer;
	bool asked;	    /* waits for a request, or for its answer */
	int64_t until;	    /* the answer's */
	int64_t wanted;	    /* when somebody asked last */
	int64_t gone_since; /* 0: it is not */
	struct kube_call *call;
	/* of a name */
	enum asks_step step;
	struct identity_set set;
	struct identity_machine machine;
};

struct asks {
	struct asks_conf conf;
	struct asks_question **v; /* in order */
	size_t n;
	size_t next; /* whose turn it is */
	size_t under_way;
	struct loop_timer *timer;
	char *said;
};

/* Which object the step of a name is about; false: it is not asked. */
bool asks_subject(const struct asks_question *q, struct kube_ref *ret, char set[static 254]);
/* object NULL: there is none. */
enum asks_answer asks_judge_pod(const struct asks_question *q, const struct json *object);
enum asks_answer asks_judge_node(const struct json *object);
/* Of a name, what the step's object says. */
void asks_learn(struct asks_question *q, const struct json *object);

/* counts*.c only. */

#define COUNTS_FINALIZER "spiderpool.spidernet.io"

/* An object's annotations may have 256 KiB; others' are among them. */
enum { COUNTS_NOTE_MAX = 200 << 10 };

struct counts_pool {
	struct counts *c;
	char *name;
	bool dirty;
	bool adopted;	 /* it has records of before: looked at again and again */
	bool looked;	 /* its counts are known */
	bool due;	 /* in this pass */
	int64_t next_ms; /* not written before */
	char *base;	 /* the version that the last write was made of: not shown yet; or NULL */
	int64_t base_until;
	struct kube_call *call;
	int64_t pace_ms; /* after the call that is under way */
	unsigned int failures;
	char *said;
	char *got, *got_version; /* status.allocatedIPs of before, of that version */
	char **freed;		 /* to be told when the call under way is done */
	size_t n_freed;
	int64_t total, allocated;
	struct records own; /* in a pass: of its endpoints */
};

struct counts {
	struct counts_conf conf;
	struct counts_pool **v; /* by name */
	size_t n;
	struct loop_timer *timer;
	int64_t at; /* when it fires */
	int64_t ticked;
	struct counts_stats stats;
};

int64_t counts_now(const struct counts *c);
void counts_soon(struct counts *c, int64_t ms);
void counts_said(struct counts_pool *p, const struct err *e);

/* pool_status.c: takes those whose pod is gone off r; how many. They are told when a write says so. */
size_t counts_judge(struct counts_pool *p, struct records *r);
void counts_freed(struct counts_pool *p, bool done);

/* pool_status_write.c: of an object what matters to the writes, and these; each is under way at once. */
const struct json *counts_meta(const struct json *object, const char *key);
const char *counts_note(const struct json *object); /* the old records; NULL: it has none yet */
bool counts_is_deleting(const struct json *object);
bool counts_has_finalizer(const struct json *object);
bool counts_wants_finalizer(const struct json *object);
/* note NULL: stays as it is. */
void counts_patch_meta(struct counts_pool *p, const struct json *object, const char *note,
		       bool finalizer);
/* False: all of it is there. text NULL: allocatedIPs stays. */
bool counts_write_status(struct counts_pool *p, const struct json *object, uint64_t there,
			 const char *text);

/* pool_status.c: the next write that the pool needs, if any; p->own is what endpoints say. */
void counts_act(struct counts_pool *p, const struct kube_object *o);

/* reap*.c only. */

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
