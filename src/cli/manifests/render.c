/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/manifests/render.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "cli/manifests/values.h"
#include "wire/json/tree.h"

enum { MANIFESTS_MAX = 64, NAME_MAX_LEN = 64 };

/* A rule that applies, and the value for it. */
struct change {
	const struct json *rule, *value;
};

struct manifest {
	const char *name;
	struct buf text;
};

struct render {
	const struct embedded *files;
	const struct json *values;
	const char *ns;
	struct change *changes;
	size_t n_changes;
	struct json_doc **owned; /* values that were merged with a default */
	size_t n_owned;
	const char *names[MANIFESTS_MAX];
	size_t n_names;
	struct buf *remarks;
	struct buf errors;
};

static const char *string(const struct json *obj, const char *key)
{
	const char *s = json_string(json_get(obj, key));

	return s ? s : "";
}

/* --- text --- */

/* Replaces each `find` by `put`. */
static void replace(struct buf *text, const char *find, const char *put)
{
	const char *at = text->p, *next;
	struct buf done;

	if (!at || !*find || !strstr(at, find))
		return;
	buf_init(&done, RENDER_MAX);
	for (; (next = strstr(at, find)); at = next + strlen(find)) {
		buf_add(&done, at, (size_t)(next - at));
		buf_str(&done, put);
	}
	buf_str(&done, at);
	buf_done(text);
	*text = done;
}

static void put_json(struct buf *b, const struct json *v)
{
	struct json_out o;

	jo_init(&o, b, 0);
	jo_val(&o, v, true);
}

/* Expands "%{key}" and "%{key:}" to a member of the value, and "%{base:}" to the part of the
 * value after its last '/', as rules.yaml documents. */
static void fill_member(struct buf *b, struct span key, const struct json *value)
{
	bool plain = key.n && key.p[key.n - 1] == ':';
	char name[NAME_MAX_LEN];
	const char *slash;

	if (key.n >= sizeof(name))
		return;
	memcpy(name, key.p, key.n - plain);
	name[key.n - plain] = '\0';
	if (plain && strcmp(name, "base") == 0) {
		slash = strrchr(json_string(value), '/');
		buf_str(b, slash ? slash + 1 : json_string(value));
	} else if (plain) {
		buf_str(b, string(value, name));
	} else {
		put_json(b, json_get(value, name));
	}
}

/* plain: a string value is inserted without quotes, not as JSON. */
static void fill(struct buf *b, const char *text, const struct json *value, bool plain)
{
	for (const char *end; *text; text++) {
		if (*text != '%') {
			buf_char(b, *text);
		} else if (text[1] == '{' && (end = strchr(text, '}'))) {
			fill_member(b, (struct span){text + 2, (size_t)(end - text) - 2}, value);
			text = end;
		} else if (plain && json_kind(value) == JSON_STRING) {
			buf_str(b, json_string(value));
		} else {
			put_json(b, value);
		}
	}
}

/* --- selection of the rules that apply --- */

static void remark(struct render *r, const struct json *rule, const char *what)
{
	buf_printf(r->remarks, "%s has no effect%s\n", string(rule, "v"), what);
}

static void add_name(struct render *r, const char *name)
{
	for (size_t i = 0; i < r->n_names; i++)
		if (strcmp(r->names[i], name) == 0)
			return;
	if (r->n_names < MANIFESTS_MAX)
		r->names[r->n_names++] = name;
}

static void add_manifests(struct render *r, const struct json *rule, const struct json *value)
{
	struct json_walk w = json_walk_start(json_get(rule, "file"));
	const struct json *f;

	while ((f = json_walk_next(&w, NULL))) {
		if (json_string(f))
			add_name(r, json_string(f));
		else if (json_same(json_get(f, "when"), value))
			add_name(r, string(f, "name"));
	}
}

/* Returns the value. If it is an object, adds the members that only the default has, as Helm
 * merges values. */
static const struct json *merged(struct render *r, const struct json *value,
				 const struct json *fallback)
{
	auto_tree struct json_tree *t = NULL;
	struct json_doc *d = NULL;
	struct json_out o;
	auto_buf struct buf b;

	buf_init(&b, RENDER_MAX);
	if (json_kind(value) != JSON_OBJECT || json_kind(fallback) != JSON_OBJECT)
		return value;
	t = json_tree_of(fallback);
	values_merge(t, value, true);
	jo_init(&o, &b, 0);
	json_tree_write(t, &o);
	if (json_parse(&d, buf_span(&b), RENDER_MAX, NULL) < 0)
		return value;
	VEC_PUSH(r->owned, r->n_owned) = d;
	return json_root(d);
}

static void apply_rule(struct render *r, const struct json *rule)
{
	const struct json *fallback = json_get(rule, "d");
	const struct json *given = values_get(r->values, string(rule, "v")), *value;
	const char *condition = json_string(json_get(rule, "if"));
	bool differs;

	if (given && json_get(rule, "now")) {
		buf_printf(&r->errors, "%s%s is now %s", r->errors.len ? "; " : "",
			   string(rule, "v"), string(rule, "now"));
		return;
	}
	value = given ? merged(r, given, fallback) : fallback;
	differs = given && !json_same(value, fallback);
	if (differs && json_get(rule, "note")) {
		auto_free char *reason = xasprintf(": %s", string(rule, "note"));

		remark(r, rule, reason);
		return;
	}
	if (!differs && !json_bool(json_get(rule, "always")))
		return;
	if (condition && !json_bool(values_get(r->values, condition))) {
		auto_free char *reason = xasprintf(" without %s", condition);

		if (differs)
			remark(r, rule, reason);
		return;
	}
	VEC_PUSH(r->changes, r->n_changes) = (struct change){rule, value};
	add_manifests(r, rule, value);
}

/* --- changes of a manifest --- */

static void add_setting(struct manifest *m, const char *setting, const struct json *rule,
			const struct json *value)
{
	static const char anchor[] = "    log-format = json\n";
	const char *key = strchr(setting, '/'), *fixed = strchr(setting, '=');
	size_t n = (size_t)(key - setting);
	struct json_walk w = json_walk_start(value);
	const struct json *item;
	auto_buf struct buf line;

	buf_init(&line, RENDER_MAX);
	if (strncmp(m->name, setting, n) != 0 || strcmp(m->name + n, ".yaml") != 0)
		return;
	key++;
	buf_str(&line, anchor);
	if (fixed) {
		buf_printf(&line, "    %.*s = %s\n", (int)(fixed - key), key, fixed + 1);
	} else {
		bool empty = json_kind(value) == JSON_ARRAY && !json_len(value);

		buf_printf(&line, "    %s =%s", key, empty ? "" : " ");
		if (json_kind(value) == JSON_ARRAY)
			for (bool first = true; (item = json_walk_next(&w, NULL)); first = false)
				buf_printf(&line, "%s%s", first ? "" : ", ", json_string(item));
		else if (json_kind(value) == JSON_BOOL)
			buf_str(&line, json_bool(value) ? "yes" : "no");
		else if (json_kind(value) == JSON_STRING)
			buf_str(&line, json_string(value));
		else
			put_json(&line, value);
		buf_printf(&line, "%s\n", string(rule, "unit"));
	}
	/* Two rules may add the same line: adds it once. */
	if (!strstr(m->text.p, line.p + sizeof(anchor) - 1))
		replace(&m->text, anchor, line.p);
}

static int compare_members(const void *a, const void *b)
{
	return strcmp(((const struct json_member *)a)->key, ((const struct json_member *)b)->key);
}

/* Expands the text once for each member of an object, as {key, value}, in the order of the keys. */
static void fill_pairs(struct buf *b, const char *text, const struct json *value)
{
	struct json_walk w = json_walk_start(value);
	auto_free struct json_member *list = NULL;
	const struct json *v;
	const char *key;
	size_t n = 0;

	while ((v = json_walk_next(&w, &key)))
		VEC_PUSH(list, n) = (struct json_member){key, v};
	qsort(list, n, sizeof(*list), compare_members);
	for (size_t i = 0; i < n; i++) {
		auto_json struct json_doc *d = NULL;
		auto_buf struct buf pair;
		struct json_out o;

		buf_init(&pair, RENDER_MAX);
		jo_init(&o, &pair, 0);
		jo_obj(&o);
		jo_kstr(&o, "key", list[i].key);
		jo_key(&o, "value");
		jo_val(&o, list[i].v, true);
		jo_end_obj(&o);
		if (json_parse(&d, buf_span(&pair), RENDER_MAX, NULL) == 0)
			fill(b, text, json_root(d), false);
	}
}

static void edit(struct manifest *m, const struct json *change, const struct json *rule,
		 const struct json *value)
{
	const char *in = string(change, "in"), *add = json_string(json_get(change, "add"));
	const char *text = add ? add : string(change, "put");
	const struct json *when = json_get(change, "when"), *item;
	bool each = json_bool(json_get(change, "each"));
	struct json_walk w = json_walk_start(value);
	auto_buf struct buf put;

	buf_init(&put, RENDER_MAX);
	if (strncmp(m->name, in, strlen(in)) != 0 || (when && !json_same(when, value)))
		return;
	if (add)
		buf_str(&put, string(change, "find"));
	if (!each)
		fill(&put, text, value, !json_bool(json_get(rule, "json")));
	else if (json_kind(value) == JSON_OBJECT)
		fill_pairs(&put, text, value);
	else
		while ((item = json_walk_next(&w, NULL)))
			fill(&put, text, item, false);
	replace(&m->text, string(change, "find"), put.p ? put.p : "");
}

static void change_manifest(struct manifest *m, const struct change *c)
{
	struct json_walk settings = json_walk_start(json_get(c->rule, "conf"));
	struct json_walk edits = json_walk_start(json_get(c->rule, "edit"));
	const struct json *v;

	while ((v = json_walk_next(&settings, NULL)))
		add_setting(m, json_string(v), c->rule, c->value);
	while ((v = json_walk_next(&edits, NULL)))
		edit(m, v, c->rule, c->value);
}

static const char *image_part(const struct render *r, const char *path, const char *fallback)
{
	const char *s = json_string(values_get(r->values, path));

	/* An empty tag means the default tag, as in other charts. */
	return s && *s ? s : fallback;
}

static void set_image(const struct render *r, struct manifest *m)
{
	const char *registry = image_part(r, "global.imageRegistryOverride", "");
	const char *digest = image_part(r, "image.digest", "");
	auto_free char *name = NULL;

	if (!*registry)
		registry = image_part(r, "image.registry", "");
	name = xasprintf("image: %s%s%s%s%s", registry, *registry ? "/" : "",
			 image_part(r, "image.repository", "unirail"), *digest ? "@" : ":",
			 *digest ? digest : image_part(r, "image.tag", "latest"));
	replace(&m->text, "image: unirail:latest", name);
}

static void set_namespace(const struct render *r, const struct json *rules, struct manifest *m)
{
	struct json_walk w = json_walk_start(json_get(rules, "namespace"));
	auto_free char *own = xasprintf("kind: Namespace\nmetadata:\n  name: %s\n", r->ns);
	const struct json *change;

	/*
	 * Puts all objects into one namespace and keeps only its Namespace object, which the chart
	 * leaves to `helm install --create-namespace`.
	 */
	replace(&m->text, "apiVersion: v1\nkind: Namespace\nmetadata:\n  name: unirail-host\n---\n",
		"");
	replace(&m->text, "kind: Namespace\nmetadata:\n  name: unirail\n", own);
	while ((change = json_walk_next(&w, NULL))) {
		auto_buf struct buf put;

		buf_init(&put, RENDER_MAX);
		for (const char *p = string(change, "put"); *p; p++)
			if (*p == '%')
				buf_str(&put, r->ns);
			else
				buf_char(&put, *p);
		replace(&m->text, string(change, "find"), put.p);
	}
}

static void add_definitions(struct render *r)
{
	const struct json *install = values_get(r->values, "crds.install");

	if (install && !json_bool(install))
		return;
	for (const char *name = NULL; (name = embedded_next(r->files, name));)
		if (strncmp(name, "crds/", 5) == 0)
			add_name(r, name);
	add_name(r, "crd.yaml");
}

static void done(struct render *r)
{
	for (size_t i = 0; i < r->n_owned; i++)
		json_free(r->owned[i]);
	free(r->owned);
	free(r->changes);
	buf_done(&r->errors);
}

int render(const struct embedded *files, const struct json *rules, const struct json *values,
	   const char *ns, struct buf *out, struct buf *remarks, struct err *e)
{
	struct render r = {.files = files, .values = values, .ns = ns, .remarks = remarks};
	struct json_walk w = json_walk_start(json_get(rules, "rules"));
	const struct json *rule;
	int code = 0;

	buf_init(&r.errors, ERR_TEXT_MAX);
	add_definitions(&r);
	add_name(&r, "agent.yaml");
	add_name(&r, "controller.yaml");
	while ((rule = json_walk_next(&w, NULL)))
		apply_rule(&r, rule);
	if (r.errors.len)
		code = err_kind(e, ERR_CONF, -EINVAL, "%s", r.errors.p);
	for (size_t i = 0; code == 0 && i < r.n_names; i++) {
		const char *text = embedded_text(files, r.names[i]);
		struct manifest m = {.name = r.names[i]};

		if (!text)
			continue;
		buf_init(&m.text, RENDER_MAX);
		buf_str(&m.text, text);
		set_image(&r, &m);
		for (size_t k = 0; k < r.n_changes; k++)
			change_manifest(&m, &r.changes[k]);
		set_namespace(&r, rules, &m);
		if (i)
			buf_str(out, "---\n");
		buf_add(out, m.text.p, m.text.len);
		if (m.text.over || out->over)
			code = err_set(e, -E2BIG, "the manifests are longer than %d bytes",
				       RENDER_MAX);
		buf_done(&m.text);
	}
	done(&r);
	return code;
}
