/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_TESTS_BLOCK_LAB_H
#define UNIRAIL_TESTS_BLOCK_LAB_H

/* Fixtures of the block tests: an API server that stores block objects and may execute a request
 * after the request timed out at its client; a pool; and a random generator. */

#include "block/op.h"
#include "ipam/pool/pool.h"

struct bl_owner {
	char node[16], uid[16];
};

struct bl_owner bl_by(const char *node); /* without a UID */

struct bl_late {
	struct bl_owner owner;
	struct block_op op;
};

/* A change of an object: its new version, or its deletion. A watch delivers it with a delay. */
struct bl_event {
	struct block_object o;
	bool deleted;
};

struct block_server {
	struct block_object *v;
	size_t n;
	uint64_t version, uids;
	struct bl_late *late; /* requests that the server executes later */
	size_t n_late;
	struct bl_event *events;
	size_t n_events;
	/* percentage of requests without a response; rates of other faults depend on it */
	uint32_t loss_percent;
};
extern struct block_server bl_server;

extern uint64_t bl_seed;
uint32_t bl_roll(uint32_t n);

struct block_object *bl_find(const char *name);
struct block_object bl_copy(const struct block_object *o);
enum block_outcome bl_serve(const struct bl_owner *owner, const struct block_op *op);
void bl_delay(const struct bl_owner *owner, const struct block_op *op);
/* Executes one of the delayed requests. */
void bl_arrive(void);
/* Replaces all objects by those of a backup and drops the delayed requests. */
void bl_restore(const struct block_object *v, size_t n, uint64_t version);
void bl_clear(void);

/* The pool "p" of the subnet 10.0.0.0/26: addresses .1 to .30, in blocks of 8. The two functions
 * are the group fixtures (of cmocka) that set it up and free it. */
extern struct pool bl_pool;
int bl_pool_setup(void **state);
int bl_pool_teardown(void **state);

#endif
