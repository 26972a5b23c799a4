/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CLI_MIGRATE_ACT_H
#define UNIRAIL_CLI_MIGRATE_ACT_H

/*
 * Carries out a plan, step by step, with one line of output for each. Stops at the first step that
 * fails; waits at most wait_ms for each result of a step. Completed steps are not reverted:
 * repeating the command continues with the rest.
 */

#include "cli/migrate/api.h"

enum { MIGRATE_WAIT_MS = 5 * 60 * 1000 };

struct migrate_act {
	struct migrate_api *api;
	const struct migrate_cluster *c; /* state of the cluster from which the plan was made */
	const struct json_tree *values;	 /* values of the manifests; undo: those in the journal */
	int64_t wait_ms;
};

int migrate_act(const struct migrate_act *x, const struct migrate_plan *p, struct err *e);
/* Fails with -EAGAIN (ERR_AGAIN) if a pool no longer records an address that it recorded in
 * `before` and that the pod still has; e names the first such address. */
int migrate_check_addresses(struct migrate_api *a, const struct migrate_cluster *before,
			    struct err *e);

#endif
