/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_KUBE_SPENT_H
#define UNIRAIL_KUBE_SPENT_H

/*
 * How much memory the objects of each namespace take, where tenants write them: a namespace has its room, and all of
 * them have another, which large objects cannot fill to the last byte.
 */

#include <stdbool.h>
#include <stddef.h>

struct kube_spent {
	/* In bytes. What is not longer than `small` comes in as long as its namespace has room. */
	size_t ns_max, total_max, small;
	struct kube_spent_ns {
		char *ns;
		size_t bytes;
	} * v; /* sorted */
	size_t n, total;
};

/* An object of the namespace is gone. */
void kube_spent_less(struct kube_spent *s, const char *ns, size_t bytes);
/* One came: false, and nothing is spent, when there is no room for it. */
bool kube_spent_more(struct kube_spent *s, const char *ns, size_t bytes);
void kube_spent_done(struct kube_spent *s);

#endif
