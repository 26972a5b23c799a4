/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_TOOLS_POOL_H
#define UNIRAIL_TOOLS_POOL_H

/* `unirail pool`: pool.c has options and what changes something, pool_view.c and
 * pool_records.c what only looks, pool_cluster.c what is a cluster's. */

#include "ipam/ipam.h"
#include "wire/json.h"

enum { POOL_TEXT_MAX = 16 << 20 };

struct pool_opts {
	const char *pool_dir, *state_dir, *root, *output;
	const char *kubeconfig, *context, *socket;
	int64_t timeout_ms;
	bool yes, dry_run, repair;
};

/* An open store and what was asked for. */
struct pool_tool {
	const struct pool_opts *o;
	const struct root *root;
	struct ipam *store;
	bool json;
};

/* Each prints to stdout; returns the exit status, or a negative errno with e set. */
int pool_list(struct pool_tool *t, struct err *e);
int pool_show(struct pool_tool *t, const char *name, struct err *e);
int pool_free_list(struct pool_tool *t, const char *name, const char *count, struct err *e);
int pool_owner(struct pool_tool *t, const char *address, struct err *e);

/* With --kubeconfig: list, show and check of the pools and blocks of all nodes. */
int pool_cluster(struct pool_tool *t, const char *cmd, const char *arg, struct err *e);
/* With --socket: list, this node's part of them, as its agent has it. */
int pool_of_agent(struct pool_tool *t, const char *cmd, struct err *e);

struct pool_tally {
	uint64_t total, reserved, used, adopted, sticky, resting, quarantined, free;
};
struct pool_tally pool_tally_of(const struct pool *p, const struct ipam_record *v, size_t n);
void pool_json(struct json_out *j, const struct pool *p, const struct pool_tally *t);

/* What a check found, one a line; the exit status. */
int pool_findings(const struct pool_tool *t, const struct buf *found, int n);

int pool_address(const char *text, struct ipaddr *ret, struct err *e);
/* How many addresses to show; the same. */
int pool_free_count(const char *text, uint64_t *ret, struct err *e);
/* "2025-11-21T12:00:00Z" */
const char *pool_time(int64_t ms, char buf[static 32]);
/* "default/pod-a net1" or "container 0123456789ab net1" */
void pool_owner_words(const struct ipam_record *r, struct buf *b);

#endif
