/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CONTROLLER_NAD_NADS_INDEX_H
#define UNIRAIL_CONTROLLER_NAD_NADS_INDEX_H

/*
 * Sorted index with binary search: a tenant can create as many objects as the server accepts, and
 * an operation on one must not scan all others. Keys are ordered by namespace, `what` and name,
 * bytewise; each is in an index once. struct nads says what `what` is in each index.
 */

#include <stdbool.h>
#include <stddef.h>

struct nads_job;

struct nads_key {
	const char *ns, *what, *name; /* copies owned by the index */
	struct nads_job *job;	      /* owning job; NULL: none */
};

struct nads_index {
	struct nads_key **v;
	size_t n, cap;
};

#endif
