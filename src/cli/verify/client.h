/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CLI_VERIFY_CLIENT_H
#define UNIRAIL_CLI_VERIFY_CLIENT_H

/* Between client.c and verify_latency.c. */

#include "cli/verify/verify.h"

struct verify_client {
	struct verify_conn conn;
	struct verify_side side;
	const struct verify_test *t;
	struct verify_result *r;
};

/* Says a step and waits until it is done. */
int verify_step(struct verify_client *c, const char *name, uint64_t seed, uint64_t count,
		struct err *e);
/* Completions; when the peer speaks up meanwhile, it has failed. */
int verify_wait(struct verify_client *c, struct verbs_done *done, struct err *e);
int verify_latency(struct verify_client *c, struct err *e);

#endif
