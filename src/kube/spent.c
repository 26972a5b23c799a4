/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/spent.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/sorted.h"

static struct kube_spent_ns *find(const struct kube_spent *s, const char *ns, size_t *at)
{
	*at = LOWER_BOUND(i, s->n, strcmp(s->v[i].ns, ns) < 0);
	return *at < s->n && strcmp(s->v[*at].ns, ns) == 0 ? &s->v[*at] : NULL;
}

bool kube_spent_fits(const struct kube_spent *s, const char *ns, size_t bytes)
{
	size_t at = 0;
	const struct kube_spent_ns *x = find(s, ns, &at);

	return (x ? x->bytes : 0) + bytes <= s->ns_max &&
	       (bytes <= s->small || s->total + bytes <= s->total_max);
}

bool kube_spent_more(struct kube_spent *s, const char *ns, size_t bytes)
{
	size_t at = 0;
	struct kube_spent_ns *x = find(s, ns, &at);

	if (!kube_spent_fits(s, ns, bytes))
		return false;
	if (!x) {
		(void)VEC_PUSH(s->v, s->n);
		x = &s->v[at];
		memmove(x + 1, x, (s->n - 1 - at) * sizeof(*x));
		*x = (struct kube_spent_ns){.ns = xstrdup(ns)};
	}
	x->bytes += bytes;
	s->total += bytes;
	return true;
}

void kube_spent_less(struct kube_spent *s, const char *ns, size_t bytes)
{
	size_t at = 0;
	struct kube_spent_ns *x = find(s, ns, &at);

	if (!x || x->bytes < bytes)
		return;
	x->bytes -= bytes;
	s->total -= bytes;
	if (x->bytes > 0)
		return;
	free(x->ns);
	s->n--;
	memmove(x, x + 1, (size_t)(s->v + s->n - x) * sizeof(*x));
}

void kube_spent_done(struct kube_spent *s)
{
	for (size_t i = 0; i < s->n; i++)
		free(s->v[i].ns);
	free(s->v);
	s->v = NULL;
	s->n = s->total = 0;
}
