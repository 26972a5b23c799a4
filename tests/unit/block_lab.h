/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_TESTS_BLOCK_LAB_H
#define UNIRAIL_TESTS_BLOCK_LAB_H

/* An API server that has block objects, and requests that it gets when their senders have long given
 * them up; and dice. */

#include "ipam/block_op.h"

struct bl_late {
	int node;
	struct block_op op;
};

struct block_server {
	struct block_object *v;
	size_t n;
	uint64_t version, uids;
	struct bl_late *late; /* requests that will arrive some time */
	size_t n_late;
	uint32_t trouble; /* in a hundred requests */
};
extern struct block_server bl_server;

extern uint64_t bl_seed;
uint32_t bl_roll(uint32_t n);

struct block_object *bl_find(const char *name);
struct block_object bl_copy(const struct block_object *o);
/* Carries it out; `node` is n in "node<n>". */
enum block_outcome bl_serve(int node, const struct block_op *op);
void bl_delay(int node, const struct block_op *op);
/* One of the delayed ones is carried out. */
void bl_arrive(void);
void bl_clear(void);

#endif
