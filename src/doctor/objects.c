/* SPDX-License-Identifier: Apache-2.0 */
#include "doctor/objects.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "wire/yaml/yaml.h"

static const char *string_of(const struct json *v, const char *fallback)
{
	const char *s = json_string(v);

	return s && *s ? s : fallback;
}

/* Returns whether a kind is cluster-wide; knows only unirail's kinds, Namespace and Node, and
 * returns false for any other. */
static bool is_cluster_wide(const char *kind)
{
	static const char *const kinds[] = {"SpiderIPPool",	 "SpiderSubnet", "SpiderReservedIP",
					    "SpiderCoordinator", "Namespace",	 "Node",
					    "SpiderIPBlock"};

	for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
		if (!strcmp(kind, kinds[i]))
			return true;
	return false;
}

static int add(struct objects *l, const struct json *v, const char *ns, char *origin, struct err *e)
{
	const struct json *meta = json_get(v, "metadata");
	struct object o = {.origin = origin, .v = v};

	o.kind = string_of(json_get(v, "kind"), "");
	o.name = string_of(json_get(meta, "name"), string_of(json_get(meta, "generateName"), ""));
	o.ns = is_cluster_wide(o.kind) ? "" : string_of(json_get(meta, "namespace"), ns);
	if (json_kind(v) != JSON_OBJECT || !*o.kind || l->n >= OBJECTS_MAX) {
		int r = l->n >= OBJECTS_MAX
				? err_kind(e, ERR_DECODE, -E2BIG, "%s: more than %d objects",
					   origin, OBJECTS_MAX)
				: err_kind(e, ERR_DECODE, -EINVAL,
					   "%s: expected an object with a 'kind'", origin);

		free(origin);
		return r;
	}
	VEC_PUSH(l->v, l->n) = o;
	return 0;
}

static bool is_list(const struct json *v)
{
	const char *kind = string_of(json_get(v, "kind"), "");
	size_t n = strlen(kind);

	return n >= 4 && !strcmp(kind + n - 4, "List") &&
	       json_kind(json_get(v, "items")) == JSON_ARRAY;
}

static int add_document(struct objects *l, const char *name, unsigned int line, const char *ns,
			struct json_doc *doc, struct err *e)
{
	const struct json *root = json_root(doc), *item;
	struct json_walk w = json_walk_start(json_get(root, "items"));
	int r = 0;

	VEC_PUSH(l->docs, l->n_docs) = doc;
	if (!is_list(root))
		return add(l, root, ns, xasprintf("%s:%u", name, line), e);
	for (size_t i = 0; r == 0 && (item = json_walk_next(&w, NULL)); i++)
		r = add(l, item, ns, xasprintf("%s:%u items[%zu]", name, line, i), e);
	return r;
}

/* Rewrites the error "3:14: text", whose position is relative to the document, to the position in
 * the file; the document begins at `line`. */
static int wrong(struct err *e, const char *name, unsigned int line, int code)
{
	unsigned int at = 0, column = 0;
	auto_free char *text = xstrdup(e ? e->text : "");
	int used = 0;

	if (sscanf(text, "%u:%u:%n", &at, &column, &used) == 2 && used)
		return err_kind(e, ERR_DECODE, code, "%s:%u:%u:%s", name, line + at - 1, column,
				text + used);
	return err_kind(e, ERR_DECODE, code, "%s:%u: %s", name, line, text);
}

static bool is_empty(struct span text)
{
	struct span line;

	while (span_cut(&text, '\n', &line)) {
		line = span_trim(line);
		if (line.n && line.p[0] != '#')
			return false;
	}
	return true;
}

static int read_document(struct objects *l, const char *name, unsigned int line, const char *ns,
			 struct span text, struct err *e)
{
	struct json_doc *doc = NULL;
	auto_buf struct buf json;
	int r;

	buf_init(&json, 4 * (size_t)OBJECTS_TEXT_MAX);
	if (is_empty(text))
		return 0;
	r = yaml_to_json(text, &json, e);
	if (r == 0)
		r = json_parse(&doc, buf_span(&json), json.len, e);
	return r < 0 ? wrong(e, name, line, r) : add_document(l, name, line, ns, doc, e);
}

/* Returns whether the line begins with the marker "---" in the first column, where no line of a
 * block scalar can begin. */
static bool is_separator(struct span line)
{
	return line.n >= 3 && !memcmp(line.p, "---", 3) &&
	       (line.n == 3 || line.p[3] == ' ' || line.p[3] == '\r' || line.p[3] == '\t');
}

int objects_read(struct objects *l, const char *name, const char *default_ns, struct span text,
		 struct err *e)
{
	struct span rest = text, line;
	const char *from = text.p;
	unsigned int at = 0, first = 1;
	int r = 0;

	while (r == 0 && span_cut(&rest, '\n', &line)) {
		bool content;

		at++;
		if (!is_separator(line))
			continue;
		r = read_document(l, name, first, default_ns,
				  (struct span){from, (size_t)(line.p - from)}, e);
		/* A document may begin on the line of its marker: "--- {kind: Pod}". */
		from = line.p + 3;
		content = !is_empty((struct span){from, line.n - 3});
		if (!content)
			from = rest.p ? rest.p : line.p + line.n;
		first = at + !content;
	}
	if (r == 0)
		r = read_document(l, name, first, default_ns,
				  (struct span){from, (size_t)(text.p + text.n - from)}, e);
	return r;
}

static int compare(const struct object *x, const char *kind, const char *ns, const char *name)
{
	int r = strcmp(x->kind, kind);

	if (!r && ns)
		r = strcmp(x->ns, ns);
	if (!r && name)
		r = strcmp(x->name, name);
	return r;
}

static int by_name(const void *a, const void *b)
{
	const struct object *x = a, *y = b;
	int r = compare(x, y->kind, y->ns, y->name);

	return r ? r : strcmp(x->origin, y->origin);
}

void objects_sort(struct objects *l)
{
	if (l->n)
		qsort(l->v, l->n, sizeof(*l->v), by_name);
}

/* Returns the index of the first object that is not less than (kind, ns, name). */
static size_t lower(const struct objects *l, const char *kind, const char *ns, const char *name)
{
	size_t from = 0, to = l->n;

	while (from < to) {
		size_t mid = from + (to - from) / 2;

		if (compare(&l->v[mid], kind, ns, name) < 0)
			from = mid + 1;
		else
			to = mid;
	}
	return from;
}

const struct object *objects_find(const struct objects *l, const char *kind, const char *ns,
				  const char *name)
{
	size_t i = lower(l, kind, ns, name);

	return i < l->n && compare(&l->v[i], kind, ns, name) == 0 ? &l->v[i] : NULL;
}

const struct object *objects_kind(const struct objects *l, const char *kind, size_t *n)
{
	size_t i = lower(l, kind, NULL, NULL), from = i, to = l->n;

	while (from < to) {
		size_t mid = from + (to - from) / 2;

		if (strcmp(l->v[mid].kind, kind) == 0)
			from = mid + 1;
		else
			to = mid;
	}
	*n = from - i;
	return *n ? &l->v[i] : NULL;
}

void objects_done(struct objects *l)
{
	for (size_t i = 0; i < l->n; i++)
		free(l->v[i].origin);
	for (size_t i = 0; i < l->n_docs; i++)
		json_free(l->docs[i]);
	free(l->v);
	free(l->docs);
	*l = (struct objects){0};
}
