/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CLI_POOL_POOL_CLUSTER_H
#define UNIRAIL_CLI_POOL_POOL_CLUSTER_H

/* Internals of pool_cluster.c: reading a cluster's pools and blocks, and printing them. */

#include "block/table.h"
#include "kube/client.h"
#include "cli/pool/pool.h"

struct pool_view {
	struct pool_tool *t;
	struct loop *loop;
	struct kube *k;
	size_t kind; /* kind being listed */
	char **lines;
	size_t n_lines;
	struct block_object *blocks;
	size_t n_blocks;
	struct pool_set pools;
	struct err *e;
};

/* Each returns the exit status. only NULL: all pools. */
int pool_view_json(const struct pool_view *v, const char *only);
int pool_view_check(const struct pool_view *v);
void pool_view_list(const struct pool_view *v);
void pool_view_show(const struct pool_view *v, const char *pool);

#endif
