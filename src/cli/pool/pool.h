/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CLI_POOL_POOL_H
#define UNIRAIL_CLI_POOL_POOL_H

/*
 * `unirail pool`: works on the store of this node (ipam/report.h), sends the command to the agent
 * (pool.c), or reads the pools and blocks of all nodes of a cluster (pool_cluster.c).
 */

#include "base/option.h"
#include "ipam/report.h"

struct pool_opts {
	const char *pool_dir, *state_dir, *root, *output;
	const char *kubeconfig, *context, *socket;
	int64_t timeout_ms;
	bool yes, dry_run, repair;
};

/* Options and state of a call. */
struct pool_tool {
	const struct pool_opts *o;
	const struct root *root;
	bool json;
};

/* With --kubeconfig or --context: list, show and check of the pools and blocks of all nodes. Prints
 * to stdout; returns the exit status, or a negative errno with e set. */
int pool_cluster(struct pool_tool *t, const char *cmd, const char *arg, struct err *e);

/* For the applet table. */
int pool_main(int argc, char **argv);
extern const struct cmd pool_cmds[];

#endif
