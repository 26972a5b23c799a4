/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CONTROLLER_NAD_NADS_INDEX_H
#define UNIRAIL_CONTROLLER_NAD_NADS_INDEX_H

/*
 * Finds by halving: a tenant makes as many objects as the server takes, and none of them may cost a walk through all
 * others. Keys are in the order of namespace, what and name, bytewise; each is in an index once.
 */

#include <stdbool.h>
#include <stddef.h>

struct nads_job;

struct nads_key {
	const char *ns, *what, *name; /* its own copies */
	struct nads_job *job;	      /* whose it is; NULL: nobody's */
};

struct nads_index {
	struct nads_key **v;
	size_t n, cap;
};

/* The first that is not before these; n: none. */
size_t nads_index_at(const struct nads_index *x, const char *ns, const char *what,
		     const char *name);
/* Whether `at` is one, and of that namespace and what: to go through all of these. */
bool nads_index_is(const struct nads_index *x, size_t at, const char *ns, const char *what);
/* Copies the words. What is there already stays, with its job. */
struct nads_key *nads_index_add(struct nads_index *x, const char *ns, const char *what,
				const char *name, struct nads_job *job);
void nads_index_remove(struct nads_index *x, const char *ns, const char *what, const char *name);
void nads_index_done(struct nads_index *x);

#endif
