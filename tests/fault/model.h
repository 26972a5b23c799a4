/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_TESTS_MODEL_H
#define UNIRAIL_TESTS_MODEL_H

/*
 * The address store against a model of it: the guarantees of ipam.h, select_pool.h and journal.h,
 * implemented a second time in the simplest way. Random schedules of calls, crashes, failing system
 * calls, concurrent processes, clocks that jump and a disk that is full are executed on the store
 * and on the model; after each step both must have the same state.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/ip.h"
#include "ipam/ipam.h"

enum {
	RAILS_MAX = 3,
	NAMES = 5, /* names of pods */
	/* number of names, from the first, whose pods retain their addresses after DEL */
	STICKY = 2,
	POOLS_MAX = 9, /* each rail has a pool of its own, a backup pool and an IPv6 pool */
	POOL_SIZE = 5,
	ADDRS_MAX = POOLS_MAX * POOL_SIZE,
	CONTAINERS_MAX = 80,
	STEPS_MAX_ = 24,
	TOGETHER = 3, /* maximum of concurrent processes */
};

/* --- the schedule (model_plan.c): all random choices --- */

enum op {
	OP_ADD,	       /* ADD for a new container of a pod */
	OP_ADD_AGAIN,  /* an earlier ADD request is repeated */
	OP_DEL,	       /* DEL of a container, or of some of its interfaces */
	OP_GC,	       /* GC of all containers that do not run */
	OP_QUARANTINE, /* quarantine of an address that a container has */
	OP_RELEASE_IP, /* a release by an administrator */
	/* many allocations and releases, so that the journal grows and may be compacted */
	OP_CHURN,
	OP_CLOCK,
	OP_LOSE,   /* a container that dies without a DEL */
	OP_TEAR,   /* the journal ends with an incomplete line or with zeros */
	OP_LITTER, /* a temporary file that a killed compaction left */
	OP_CUT,	   /* the journal is truncated or one byte of it is changed; then it is restored */
};
extern const char *const op_names[];
bool op_is_call(enum op op); /* a call of the store; other operations are events */

struct step {
	enum op op;
	/* random number that selects container, address, pod name or kind of damage */
	uint32_t pick;
	uint32_t rails; /* bit mask of rails; 0: all */
	int64_t ms;	/* OP_CLOCK: change of the clock; OP_CHURN: number of rounds */
	/* the process is killed before its n-th system call, n = crash; 0: no kill */
	int crash;
	/* the n-th system call, n = fail, returns the errno `err`; fail 0: none */
	int fail, err;
	bool full;     /* the disk is full */
	int with_next; /* how many of the following steps run at the same time as this step */
};

struct setup {
	size_t rails;
	size_t sizes[RAILS_MAX][3]; /* own pool, backup pool, IPv6 pool */
	int64_t reuse_delay_ms[RAILS_MAX], quarantine_ms;
	bool wildcard;
};

struct plan {
	uint64_t seed;
	struct setup setup;
	struct step steps[STEPS_MAX_];
	size_t n;
};
void plan_make(struct plan *p, uint64_t seed);
void plan_print(const struct plan *p, struct buf *b);

/* --- the model (model_state.c) --- */

enum state { M_FREE, M_USED, M_RETAINED, M_QUARANTINED };

struct address {
	struct ipaddr ip;
	size_t pool, rail;
	enum state state;
	int owner; /* container; M_RETAINED: index of the pod name */
	int64_t at;
	bool is_in_cooldown; /* M_FREE: released at `at` */
};

struct pool_model {
	char name[8];
	uint8_t family;
	size_t rail, first, n; /* first, n: its addresses in model.a */
	int64_t reuse_delay_ms;
};

/* The container of OP_CHURN exists from the beginning. */
enum { CHURN = 0 };
#define CHURN_ID "churn-churn-churn-churn-churn-churn-churn"

struct container {
	char id[48];
	int name;
	uint32_t rails;
	bool live; /* the container runs, and its ADD returned its addresses */
};

struct model {
	struct pool_model pools[POOLS_MAX];
	struct address a[ADDRS_MAX];
	size_t n_pools, n;
	struct container c[CONTAINERS_MAX];
	size_t n_c;
	int64_t now, quarantine_ms;
	bool wildcard;
	bool turned_back; /* the clock was set to an earlier time: reuse delays are uncertain */
};
void model_init(struct model *m, const struct setup *s);
void model_pools(const struct model *m, struct buf *b); /* as INI */

/* One call of the store. */
struct request {
	enum op op;
	int container; /* index in model.c; -1: none */
	/* bit mask of rails, for OP_ADD, OP_ADD_AGAIN and OP_DEL; OP_DEL with 0: all interfaces */
	uint32_t rails;
	size_t addr;
	bool valid[CONTAINERS_MAX]; /* OP_GC */
	/* OP_CHURN: number of rounds; the model gets 0 if the last allocated address was not
	 * released */
	int64_t rounds;
};

/* State and owner of each address in the store. */
struct seen {
	enum state state[ADDRS_MAX];
	int owner[ADDRS_MAX];
	bool is_in_cooldown[ADDRS_MAX];
};

/* Carries the request out on the model. Of several equally good addresses it uses the one that
 * `s` shows as the container's. False: refused, since a rail has no address that is free or in
 * cooldown, or since the address to be released is free already; nothing changes. */
bool model_do(struct model *m, const struct request *r, const struct seen *s);
/* True if the store equals the model; otherwise appends the first difference to b, unless b is
 * NULL. */
bool model_matches(const struct model *m, const struct seen *s, struct buf *b);
/* For a clock that was set to an earlier time: the reuse delays and quarantines that have ended
 * in the store end in the model. */
void model_believe(struct model *m, const struct seen *s);
bool model_is_in_cooldown(const struct model *m, const struct address *a);
bool model_is_free(const struct model *m, const struct address *a);

/* --- the store (model_store.c) --- */

struct answer {
	bool done;
	int code;
	size_t n;
	struct {
		size_t rail;
		struct ipaddr ip;
	} v[2 * RAILS_MAX];
	char text[256];
};

#define MODEL_DISK "/tmp" /* in a separate mount namespace */

extern int64_t store_clock;
/* Mounts a small tmpfs at MODEL_DISK, in a mount namespace of this process. */
void store_mount(void);
void store_create(const struct model *m);
void store_do(const struct model *m, const struct request *r, struct answer *ret);
void store_read(const struct model *m, struct seen *ret, struct buf *wrong);
/* model_disk.c */
void store_tear(uint32_t how);
void store_litter(void);
/* Truncates the journal or changes one byte, according to `how`; returns its original content,
 * which the caller frees. False: the journal is missing, unreadable or empty. */
bool store_spoil(uint32_t how, char **was, size_t *n);
void store_mend(const char *was, size_t n);
/* 0, or the error of opening the store. */
int store_opens(struct buf *reason);
void store_fill(bool full);

/* --- one step compared with the model (model_judge.c) --- */

/* A step during its execution. */
struct doing {
	const struct step *step;
	struct request r;
	struct answer *a; /* in memory shared with a child */
	pid_t pid;
	bool troubled; /* the step may fail although addresses are free */
};

struct running {
	const struct plan *plan;
	struct model m;
	struct buf *b;
	struct answer *answers; /* array of TOGETHER elements, shared with children */
};

/* Reports the violation and returns false. */
bool plan_fails(struct running *x, size_t step, const char *part);
/* True: some order of the n concurrent calls explains all answers and the current state, which the
 * model takes over. */
bool doing_explained(struct running *x, size_t step, struct doing *d, size_t n);

/* --- one schedule (model_run.c) --- */

/* False: a violation, described in b. */
bool plan_run(const struct plan *p, struct buf *b);

#endif
