/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_KUBE_SPENT_H
#define UNIRAIL_KUBE_SPENT_H

/*
 * Memory quotas for objects that tenants write: one per namespace, and one over all namespaces.
 * Small objects (see `small`) count in the quota of all namespaces, but are not refused because of
 * it.
 */

#include <stdbool.h>
#include <stddef.h>

struct kube_spent {
	/* In bytes. An object of at most `small` bytes is checked against the quota of its
	 * namespace only. */
	size_t ns_max, total_max, small;
	struct kube_spent_ns {
		char *ns;
		size_t bytes;
	} * v; /* sorted */
	size_t n, total;
};

/* Subtracts the bytes of a removed object. */
void kube_spent_less(struct kube_spent *s, const char *ns, size_t bytes);
/* Returns whether kube_spent_more() would add the bytes. */
bool kube_spent_fits(const struct kube_spent *s, const char *ns, size_t bytes);
/* Adds the bytes of a new object. Returns false and adds nothing if a quota would be exceeded. */
bool kube_spent_more(struct kube_spent *s, const char *ns, size_t bytes);
void kube_spent_done(struct kube_spent *s);

#endif
