/* SPDX-License-Identifier: Apache-2.0 */
/* The groups of all SpiderMultusConfigs, sorted by value: a request finds the networks of a group
 * without a search through all networks. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "controller/injection/internal.h"

enum { NAMES_MAX = 8, TEXT_MAX = 512 };

/* One value of a network's annotation. */
struct entry {
	struct span value;
	const struct inject_net *net;
	size_t position;
};

struct groups {
	struct inject_group *v; /* sorted by value */
	size_t n;
	const struct inject_net **members; /* networks; those of a group are adjacent */
	/* text for errors, with the number of SpiderMultusConfigs of each group: "; there are
	 * 'a' (8), 'b' (1) and 3 more" */
	char *known;
};

struct inject_index {
	struct groups of[INJECT_KEYS];
};

static int compare_values(struct span a, struct span b)
{
	size_t n = a.n < b.n ? a.n : b.n;
	int r = n ? memcmp(a.p, b.p, n) : 0;

	return r ? r : (a.n > b.n) - (a.n < b.n);
}

/* Orders entries by value, then by definition (namespace and name of the NAD), then by position. */
static int by_value(const void *a, const void *b)
{
	const struct entry *x = a, *y = b;
	int r = compare_values(x->value, y->value);

	if (!r)
		r = strcmp(x->net->ns, y->net->ns);
	if (!r)
		r = strcmp(x->net->nad, y->net->nad);
	return r ? r : (x->position > y->position) - (x->position < y->position);
}

static struct entry *entries_of(const struct inject_net *const *nets, size_t n, enum inject_key key,
				size_t *ret)
{
	struct entry *v = NULL;
	struct span value;

	*ret = 0;
	for (size_t i = 0; i < n; i++)
		for (struct span rest = span_of(nets[i]->group[key]);
		     inject_next_value(&rest, &value);)
			VEC_PUSH(v, *ret) = (struct entry){value, nets[i], i};
	if (*ret)
		qsort(v, *ret, sizeof(*v), by_value);
	return v;
}

/* Adds a group to g, made from v[from], ..., v[to - 1], which all have the same value. */
static void add_group(struct groups *g, enum inject_key key, const struct entry *v, size_t from,
		      size_t to, size_t *n_members)
{
	struct inject_group *group = &VEC_PUSH(g->v, g->n);
	size_t refused = SIZE_MAX;

	*group = (struct inject_group){.value = v[from].value, .nets = &g->members[*n_members]};
	for (size_t i = from; i < to; i++) {
		const struct inject_net *n = v[i].net, *last = i > from ? v[i - 1].net : NULL;

		if (n == last)
			continue;
		group->configs++;
		if (v[i].position < refused && inject_check(n, key, NULL) < 0) {
			refused = v[i].position;
			group->refused = n;
		}
		if (last && !strcmp(last->ns, n->ns) && !strcmp(last->nad, n->nad))
			continue;
		g->members[(*n_members)++] = n;
		group->n++;
	}
}

static int by_name(const void *a, const void *b)
{
	const struct inject_group *x = *(const struct inject_group *const *)a;
	const struct inject_group *y = *(const struct inject_group *const *)b;
	auto_free char *s = span_dup(x->value), *t = span_dup(y->value);

	return strverscmp(s, t);
}

static char *known_of(const struct groups *g)
{
	const struct inject_group **v = xcalloc(g->n + 1, sizeof(struct inject_group *));
	auto_buf struct buf b;
	char *text;

	buf_init(&b, TEXT_MAX);
	for (size_t i = 0; i < g->n; i++)
		v[i] = &g->v[i];
	if (g->n)
		qsort(v, g->n, sizeof(struct inject_group *), by_name);
	buf_str(&b, g->n ? "; there are" : "; no SpiderMultusConfig has this annotation");
	for (size_t i = 0; i < g->n && i < NAMES_MAX; i++)
		buf_printf(&b, "%s '%.*s' (%zu)", i ? "," : "", (int)v[i]->value.n, v[i]->value.p,
			   v[i]->configs);
	if (g->n > NAMES_MAX)
		buf_printf(&b, " and %zu more", g->n - NAMES_MAX);
	text = span_dup(buf_span(&b));
	free(v);
	return text;
}

static void groups_make(struct groups *g, const struct inject_net *const *nets, size_t n,
			enum inject_key key)
{
	size_t count, members = 0;
	auto_free struct entry *v = entries_of(nets, n, key, &count);

	g->members = xcalloc(count + 1, sizeof(struct inject_net *));
	for (size_t from = 0, to; from < count; from = to) {
		for (to = from + 1; to < count; to++)
			if (compare_values(v[from].value, v[to].value) != 0)
				break;
		add_group(g, key, v, from, to, &members);
	}
	g->known = known_of(g);
}

struct inject_index *inject_index_new(const struct inject_net *const *nets, size_t n)
{
	struct inject_index *x = xcalloc(1, sizeof(*x));

	for (int key = 0; key < INJECT_KEYS; key++)
		groups_make(&x->of[key], nets, n, (enum inject_key)key);
	return x;
}

void inject_index_free(struct inject_index *x)
{
	for (int key = 0; x && key < INJECT_KEYS; key++) {
		free(x->of[key].v);
		free(x->of[key].members);
		free(x->of[key].known);
	}
	free(x);
}

const struct inject_group *inject_group_of(const struct inject_index *x, enum inject_key key,
					   struct span value)
{
	const struct groups *g = &x->of[key];
	size_t from = 0, to = g->n;

	while (from < to) {
		size_t mid = from + (to - from) / 2;
		int r = compare_values(g->v[mid].value, value);

		if (!r)
			return &g->v[mid];
		if (r < 0)
			from = mid + 1;
		else
			to = mid;
	}
	return NULL;
}

const char *inject_known_groups(const struct inject_index *x, enum inject_key key)
{
	return x->of[key].known;
}
