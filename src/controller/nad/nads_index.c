/* SPDX-License-Identifier: Apache-2.0 */
#include "controller/nad/nads_index.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"

static int compare(const struct nads_key *k, const char *ns, const char *what, const char *name)
{
	int r = strcmp(k->ns, ns);

	if (r == 0)
		r = strcmp(k->what, what);
	return r ? r : strcmp(k->name, name);
}

size_t nads_index_at(const struct nads_index *x, const char *ns, const char *what, const char *name)
{
	size_t low = 0, high = x->n;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (compare(x->v[mid], ns, what, name) < 0)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

bool nads_index_is(const struct nads_index *x, size_t at, const char *ns, const char *what)
{
	return at < x->n && strcmp(x->v[at]->what, what) == 0 && strcmp(x->v[at]->ns, ns) == 0;
}

static const char *place(char **at, const char *s)
{
	size_t n = strlen(s) + 1;
	const char *to = memcpy(*at, s, n);

	*at += n;
	return to;
}

static struct nads_key *key_new(const char *ns, const char *what, const char *name,
				struct nads_job *job)
{
	struct nads_key *k = xcalloc(1, sizeof(*k) + strlen(ns) + strlen(what) + strlen(name) + 3);
	char *at = (char *)(k + 1);

	k->ns = place(&at, ns);
	k->what = place(&at, what);
	k->name = place(&at, name);
	k->job = job;
	return k;
}

struct nads_key *nads_index_add(struct nads_index *x, const char *ns, const char *what,
				const char *name, struct nads_job *job)
{
	size_t at = nads_index_at(x, ns, what, name);

	if (at < x->n && compare(x->v[at], ns, what, name) == 0)
		return x->v[at];
	if (x->n == x->cap) {
		x->cap = x->cap ? x->cap + x->cap / 2 : 16;
		x->v = xrealloc(x->v, x->cap * sizeof(struct nads_key *));
	}
	memmove(&x->v[at + 1], &x->v[at], (x->n - at) * sizeof(struct nads_key *));
	x->v[at] = key_new(ns, what, name, job);
	x->n++;
	return x->v[at];
}

void nads_index_remove(struct nads_index *x, const char *ns, const char *what, const char *name)
{
	size_t at = nads_index_at(x, ns, what, name);

	if (at == x->n || compare(x->v[at], ns, what, name) != 0)
		return;
	free(x->v[at]);
	x->n--;
	memmove(&x->v[at], &x->v[at + 1], (x->n - at) * sizeof(struct nads_key *));
}

void nads_index_done(struct nads_index *x)
{
	for (size_t i = 0; i < x->n; i++)
		free(x->v[i]);
	free(x->v);
	*x = (struct nads_index){0};
}
