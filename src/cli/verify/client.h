/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CLI_VERIFY_CLIENT_H
#define UNIRAIL_CLI_VERIFY_CLIENT_H

/* Internals of client.c. */

#include "cli/verify/verify.h"

struct verify_client {
	struct verify_conn conn;
	struct verify_side side;
	const struct verify_test *t;
	struct verify_result *r;
};

/* Sends a step and waits until the server has completed it. */
int verify_step(struct verify_client *c, const char *name, uint64_t seed, uint64_t count,
		struct err *e);
/* verify_wait(): waits for completions; a message from the peer meanwhile means that it failed. */
int verify_wait(struct verify_client *c, struct verbs_done *done, struct err *e);
int verify_latency(struct verify_client *c, struct err *e);

#endif
