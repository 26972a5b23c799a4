/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CONTROLLER_NAD_NADS_INDEX_H
#define UNIRAIL_CONTROLLER_NAD_NADS_INDEX_H

/*
 * Sorted index with binary search: a tenant can create as many objects as the server accepts, and
 * none of them may cost a scan of all others. Keys are ordered by namespace, what and name,
 * bytewise; each is in an index once.
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

/* Index of the first key that is not before this one; n: none. */
size_t nads_index_at(const struct nads_index *x, const char *ns, const char *what,
		     const char *name);
/* Whether the key at `at` exists and has this namespace and what; used to iterate over them. */
bool nads_index_is(const struct nads_index *x, size_t at, const char *ns, const char *what);
/* Copies the strings. An existing key stays with its job. */
struct nads_key *nads_index_add(struct nads_index *x, const char *ns, const char *what,
				const char *name, struct nads_job *job);
void nads_index_remove(struct nads_index *x, const char *ns, const char *what, const char *name);
void nads_index_done(struct nads_index *x);

#endif
