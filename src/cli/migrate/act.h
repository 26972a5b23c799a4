/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CLI_MIGRATE_ACT_H
#define UNIRAIL_CLI_MIGRATE_ACT_H

/*
 * Carries out a plan, step by step, with one line of output for each. It ends at the first step that fails or whose result
 * is not observed within wait_ms; what was done stays, and the same command continues.
 */

#include "cli/migrate/api.h"

enum { MIGRATE_WAIT_MS = 5 * 60 * 1000 };

struct migrate_act {
	struct migrate_api *api;
	const struct migrate_cluster *c; /* that the plan was made from */
	const struct json_tree *values;	 /* of unirail's manifests; undo: those in the journal */
	int64_t wait_ms;
};

int migrate_act(const struct migrate_act *x, const struct migrate_plan *p, struct err *e);
/* All addresses that were recorded in `before` still are. Names the first that is not. */
int migrate_check_addresses(struct migrate_api *a, const struct migrate_cluster *before,
			    struct err *e);

#endif
