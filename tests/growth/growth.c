/* SPDX-License-Identifier: Apache-2.0 */
/*
 * growth SCHEMA...: passes each list, map and string of each definition, in several orders and at
 * three sizes, and all lists and maps that are members of one object together, through all code
 * that reads such an object. `growth crowds`: calls the code that reads many objects of a kind
 * together, with three numbers of them. The cost is counted work, not time, so that every run gives
 * the same result. Fails if the step from 4n to 16n costs more than 6.5 times the step from n to
 * 4n: 4 is linear, about 5 is n log n, 16 is quadratic. With GROWTH_EVERY=7 in the environment,
 * `growth SCHEMA...` runs a sample: it measures each 7th combination of a list, map, string or
 * group of them with an order. `growth crowds` always runs completely.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/log.h"
#include "growth.h"
#include "wire/yaml/yaml.h"

enum { SIZES = 3, FIRST = 24, CROWD = 24, STEP = 4, TEXT_BYTES = 4 << 20, LITTLE = 100000 };
static const double limit = 6.5;

static size_t n_cases, n_bad, n_shapes_seen, every = 1;

struct definition {
	struct json_doc *doc, *base, *grafted;
	const struct json *schema;
	const char *kind;
	struct shapes shapes;
	size_t first; /* the smallest size */
};

static void die(const char *what, const char *reason)
{
	fprintf(stderr, "growth: %s: %s\n", what, reason);
	exit(2);
}

static struct json_doc *parse(const char *what, struct span text)
{
	struct err e = ERR_INIT;
	struct json_doc *doc;

	if (json_parse(&doc, text, TEXT_BYTES, &e) < 0)
		die(what, e.text);
	return doc;
}

/* Adds a schema of metadata: the definition only says that metadata is an object. */
static void add_metadata(struct definition *d)
{
	static const char text[] =
		"{\"type\":\"object\",\"properties\":{"
		"\"labels\":{\"type\":\"object\",\"additionalProperties\":{\"type\":\"string\"}},"
		"\"annotations\":{\"type\":\"object\",\"additionalProperties\":{\"type\":\"string\"},"
		"\"properties\":{\"unirail.io/adopted\":{\"type\":\"string\"},"
		"\"multus.spidernet.io/cr-name\":{\"type\":\"string\"},"
		"\"cni.spidernet.io/rdma-resource-inject\":{\"type\":\"string\"}}},"
		"\"finalizers\":{\"type\":\"array\",\"items\":{\"type\":\"string\"}},"
		"\"ownerReferences\":{\"type\":\"array\",\"items\":{\"type\":\"object\",\"properties\":{"
		"\"kind\":{\"type\":\"string\"},\"name\":{\"type\":\"string\"},"
		"\"uid\":{\"type\":\"string\"},\"controller\":{\"type\":\"boolean\"}}}},"
		"\"managedFields\":{\"type\":\"array\",\"items\":{\"type\":\"object\",\"properties\":{"
		"\"fieldsV1\":{\"type\":\"object\",\"additionalProperties\":{\"type\":\"string\"}}}}}}}";
	auto_json struct json_doc *more = parse("metadata", span_of(text));
	auto_tree struct json_tree *t = json_tree_of(d->schema);
	auto_buf struct buf b;
	struct json_out o;

	json_tree_put(json_tree_member(t, "properties"), "metadata", json_tree_of(json_root(more)));
	buf_init(&b, TEXT_BYTES);
	jo_init(&o, &b, 0);
	json_tree_write(t, &o);
	d->grafted = parse("metadata", buf_span(&b));
	d->schema = json_root(d->grafted);
}

static void load(const char *path, struct definition *d)
{
	auto_buf struct buf text, json;
	struct err e = ERR_INIT;
	struct root root;
	const char *base;

	buf_init(&text, TEXT_BYTES);
	buf_init(&json, TEXT_BYTES);
	if (root_open(&root, "/", &e) < 0 || file_read(&root, path, TEXT_BYTES, &text, &e) < 0 ||
	    yaml_to_json(buf_span(&text), &json, &e) < 0)
		die(path, e.text);
	root_close(&root);
	*d = (struct definition){.doc = parse(path, buf_span(&json))};
	d->schema = json_get(json_root(d->doc), "spec");
	d->kind = json_string(json_get(json_get(d->schema, "names"), "kind"));
	d->schema = json_get(json_get(json_at(json_get(d->schema, "versions"), 0), "schema"),
			     "openAPIV3Schema");
	if (json_len(json_get(json_get(d->schema, "properties"), "metadata")) == 1)
		add_metadata(d);
	base = d->kind ? subject_base(d->kind) : NULL;
	if (!base || !d->schema)
		die(path, "the kind has no object in tests/growth/subjects.c");
	d->base = parse(d->kind, span_of(base));
	/* The compaction of a journal that exceeds 32 KiB is a jump in the cost. "Agent" starts
	 * with more entries, so that the journal exceeds 32 KiB at all three sizes. */
	d->first = strcmp(d->kind, "Agent") == 0 ? FIRST * STEP : FIRST;
	shapes_of(d->schema, &d->shapes);
}

/* --- cost of a case: lists of one object at three sizes --- */

/* Returns the base object of the kind with n entries (for a string: n pieces of text) in each of
 * the shapes. */
static struct json_doc *make(const struct definition *d, const struct shape *const *s,
			     const int *variants, size_t n_shapes, size_t n)
{
	auto_tree struct json_tree *t = json_tree_of(json_root(d->base));
	auto_buf struct buf b;
	struct json_out o;

	for (size_t i = 0; i < n_shapes; i++)
		shape_grow(t, d->schema, s[i], n, variants[i]);
	buf_init(&b, 4 * TEXT_BYTES);
	jo_init(&o, &b, 0);
	json_tree_write(t, &o);
	return parse(d->kind, buf_span(&b));
}

static uint64_t cost(const struct subject *x, const struct sample *s)
{
	uint64_t before = count_work;

	x->run(s);
	return count_work - before;
}

/* Accepts a cost that rises by less than LITTLE steps from n to 16n: the code refuses an object
 * of 16n early because of a limit, or does not read the entries. */
static bool grows_too_fast(const uint64_t c[static SIZES])
{
	double first = (double)c[1] - (double)c[0], second = (double)c[2] - (double)c[1];

	n_cases++;
	if (c[2] < c[0] + LITTLE || (first > 0 ? second / first : second / (double)c[0]) <= limit)
		return false;
	n_bad++;
	return true;
}

static void judge(const struct definition *d, const char *what, const char *how,
		  const char *subject, const char *change, const uint64_t c[static SIZES])
{
	if (!grows_too_fast(c))
		return;
	printf("%s: %s (%s): %s, %s: %zu, %zu and %zu entries cost %llu, %llu and %llu steps\n",
	       d->kind, what, how, subject, change, d->first, d->first * STEP,
	       d->first * STEP * STEP, (unsigned long long)c[0], (unsigned long long)c[1],
	       (unsigned long long)c[2]);
}

static bool reads(const struct subject *x, const char *kind)
{
	struct span rest = span_of(x->kinds ? x->kinds : ""), one;

	if (!x->kinds)
		return strcmp(kind, "CNI") != 0 && strcmp(kind, "Agent") != 0;
	while (span_cut(&rest, ' ', &one))
		if (span_eq(one, kind))
			return true;
	return false;
}

/* Measures a creation and, for each subject that reads `old`, also an update that makes the
 * object larger, one that makes it smaller, and one that changes the order or the content of its
 * entries, but not their number. */
static void measure(const struct definition *d, const struct shape *const *s, const int *variants,
		    size_t n_shapes, const char *what, const char *how)
{
	static const char *const changes[] = {"created", "grown", "shrunk", "rearranged"};
	struct json_doc *is[SIZES], *other[SIZES];
	int turned[64];
	size_t n = d->first;

	if (n_shapes_seen++ % every)
		return;
	for (size_t i = 0; i < n_shapes; i++)
		turned[i] = (variants[i] + 1) % VARIANTS;

	for (int i = 0; i < SIZES; i++, n *= STEP) {
		is[i] = make(d, s, variants, n_shapes, n);
		other[i] = make(d, s, turned, n_shapes, n);
	}
	for (size_t x = 0; x < n_subjects; x++)
		for (size_t k = 0; reads(&subjects[x], d->kind) &&
				   k < (subjects[x].compares ? ARRAY_LEN(changes) : 1);
		     k++) {
			uint64_t c[SIZES];

			for (int i = 0; i < SIZES; i++) {
				const struct json *base = json_root(d->base);
				struct sample p = {d->kind, k == 2 ? base : json_root(is[i]),
						   k == 0   ? NULL
						   : k == 1 ? base
						   : k == 2 ? json_root(is[i])
							    : json_root(other[i])};

				c[i] = cost(&subjects[x], &p);
			}
			judge(d, what, how, subjects[x].name, changes[k], c);
		}
	for (int i = 0; i < SIZES; i++) {
		json_free(is[i]);
		json_free(other[i]);
	}
}

/* The keys of a map have three orders only, in the variants 0 to 2 (grown_map()): the first five
 * variants suffice. */
static bool differs(const struct shape *s, int variant)
{
	return s->what != SHAPE_MAP || variant < 5;
}

static void each(const struct definition *d)
{
	for (size_t i = 0; i < d->shapes.n; i++)
		for (int v = 0; v < VARIANTS; v++) {
			const struct shape *s = &d->shapes.v[i];

			if (differs(s, v))
				measure(d, &s, &v, 1, s->path, shape_variant(s, v));
		}
}

/*
 * Stores in `ret` the lists and maps that are members of the same object as shape `first`; returns
 * their number, or 0 if an earlier shape is among them.
 */
static size_t siblings(const struct definition *d, size_t first, const struct shape **ret)
{
	const char *path = d->shapes.v[first].path, *end = strrchr(path, '.');
	size_t head = end ? (size_t)(end - path) + 1 : 0, n = 0;

	for (size_t i = 0; i < d->shapes.n; i++) {
		const struct shape *s = &d->shapes.v[i];

		if (s->what == SHAPE_TEXT || strncmp(s->path, path, head) != 0 ||
		    strchr(s->path + head, '.'))
			continue;
		if (n == 0 && i < first)
			return 0; /* this object's members are tested already */
		ret[n++] = s;
	}
	return n;
}

static void together(const struct definition *d)
{
	auto_free const struct shape **list = xcalloc(d->shapes.n + 1, sizeof(*list));

	for (size_t i = 0; i < d->shapes.n; i++) {
		size_t n = siblings(d, i, list);

		for (int v = 0; n > 1 && d->shapes.v[i].what != SHAPE_TEXT && v < VARIANTS; v++) {
			auto_free char *what =
				xasprintf("%s and its %zu neighbours", d->shapes.v[i].path, n - 1);
			int variants[64];

			for (size_t k = 0; k < ARRAY_LEN(variants); k++)
				variants[k] = v;
			measure(d, list, variants, n < 64 ? n : 64, what,
				shape_variant(list[0], v));
		}
	}
}

static void each_crowd(void)
{
	for (size_t i = 0; i < n_crowds; i++) {
		uint64_t c[SIZES];
		size_t n = CROWD;

		for (int k = 0; k < SIZES; k++, n *= STEP)
			c[k] = crowds[i].run(n);
		if (grows_too_fast(c))
			printf("%s: %d, %d and %d of them cost %llu, %llu and %llu steps\n",
			       crowds[i].name, CROWD, CROWD * STEP, CROWD * STEP * STEP,
			       (unsigned long long)c[0], (unsigned long long)c[1],
			       (unsigned long long)c[2]);
	}
}

static void each_shape(const char *path)
{
	struct definition d;

	load(path, &d);
	each(&d);
	together(&d);
	json_free(d.doc);
	json_free(d.base);
	json_free(d.grafted);
	free(d.shapes.v);
}

int main(int argc, char **argv)
{
	const char *sample = getenv("GROWTH_EVERY");

	log_threshold = LOG_NONE;
	if (sample && *sample && (every = (size_t)strtoul(sample, NULL, 10)) == 0)
		die("GROWTH_EVERY", "must be a number above 0");
	for (int i = 1; i < argc; i++) {
		if (strcmp(argv[i], "crowds") == 0)
			each_crowd();
		else
			each_shape(argv[i]);
		fflush(stdout);
	}
	printf("growth: %zu cases, %zu cost more than n log n\n", n_cases, n_bad);
	return n_bad > 0 || n_cases == 0;
}
