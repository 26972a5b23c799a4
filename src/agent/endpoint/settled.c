/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/endpoint/settled.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"

struct settled_one {
	char *ns, *name, *what;
	int64_t until;
};

static void one_free(struct settled_one *x)
{
	free(x->ns);
	free(x->name);
	free(x->what);
}

void settled_add(struct settled *s, const char *ns, const char *name, const char *what,
		 int64_t until)
{
	VEC_PUSH(s->v, s->n) =
		(struct settled_one){xstrdup(ns), xstrdup(name), xstrdup(what), until};
}

void settled_forget(struct settled *s, int64_t now)
{
	size_t kept = 0;

	for (size_t i = 0; i < s->n; i++) {
		if (s->v[i].until > now)
			s->v[kept++] = s->v[i];
		else
			one_free(&s->v[i]);
	}
	s->n = kept;
}

bool settled_has(const struct settled *s, const char *ns, const char *name, const char *what)
{
	for (size_t i = s->n; i-- > 0;) {
		const struct settled_one *x = &s->v[i];

		if (strcmp(x->name, name) == 0 && strcmp(x->ns, ns) == 0)
			return strcmp(x->what, what) == 0;
	}
	return false;
}

int64_t settled_next(const struct settled *s)
{
	int64_t first = 0;

	for (size_t i = 0; i < s->n; i++)
		if (!first || s->v[i].until < first)
			first = s->v[i].until;
	return first;
}

void settled_done(struct settled *s)
{
	settled_forget(s, INT64_MAX);
	free(s->v);
	*s = (struct settled){0};
}
