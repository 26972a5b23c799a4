/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CONTROLLER_GC_COUNTS_PRIV_H
#define UNIRAIL_CONTROLLER_GC_COUNTS_PRIV_H

/* counts*.c only. */

#include "controller/gc/counts.h"
#include "controller/gc/records.h"

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

#endif
