/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_BASE_BACKOFF_H
#define UNIRAIL_BASE_BACKOFF_H

/* Growing waits with jitter: half to one and a half times `base`, then twice as much each time up
 * to `most`. A thousand agents whose server restarts do not come back at once. */

#include <stdint.h>

struct kube_backoff {
	int64_t base, most; /* ms */
	unsigned int failures;
};

int64_t kube_backoff_next(struct kube_backoff *b); /* counts a failure; ms to wait */
void kube_backoff_reset(struct kube_backoff *b);
int64_t kube_jitter(int64_t from, int64_t to); /* evenly, from <= x <= to */

#endif
