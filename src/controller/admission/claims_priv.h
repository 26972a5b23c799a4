/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CONTROLLER_ADMISSION_CLAIMS_PRIV_H
#define UNIRAIL_CONTROLLER_ADMISSION_CLAIMS_PRIV_H

/* Between the files claims*.c. */

#include "base/loop.h"
#include "controller/admission/claims.h"

enum { CLAIMS_GONE_MAX = 256, CLAIMS_UID_MAX = 64 };

struct claims {
	struct kube *k;
	const char *ns;
	char gone[CLAIMS_GONE_MAX][CLAIMS_UID_MAX]; /* a ring */
	size_t next_gone;
	struct claim *first;
	/* taking out what stands for nothing */
	struct kube_call *tidy;
	struct loop_timer *tidy_timer;
};

/* Whether the object was seen to go; uid may be NULL. */
bool claims_is_gone(const struct claims *c, const char *uid);
void claims_tidy_stop(struct claims *c);

#endif
