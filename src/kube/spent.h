/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_KUBE_SPENT_H
#define UNIRAIL_KUBE_SPENT_H

/*
 * Memory quotas for objects that tenants write: one per namespace, and one over all namespaces,
 * which large objects cannot exhaust (see `small`).
 */

#include <stdbool.h>
#include <stddef.h>

struct kube_spent {
	/* In bytes. An object of at most `small` bytes only needs room in its namespace. */
	size_t ns_max, total_max, small;
	struct kube_spent_ns {
		char *ns;
		size_t bytes;
	} * v; /* sorted */
	size_t n, total;
};

/* Returns the bytes of a removed object. */
void kube_spent_less(struct kube_spent *s, const char *ns, size_t bytes);
/* Charges a new object: false, and nothing is charged, when there is no room. */
bool kube_spent_more(struct kube_spent *s, const char *ns, size_t bytes);
void kube_spent_done(struct kube_spent *s);

#endif
