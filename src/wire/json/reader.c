/* SPDX-License-Identifier: Apache-2.0 */
/* Reading JSON by field tables. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "wire/json/internal.h"
#include "wire/json/suggest.h"

/* Path of the current value for error messages: "conf.ipam.ranges[0]". A long path is truncated. */
struct place {
	char s[256];
};

static struct place place_key(const char *place, const char *key)
{
	struct place p;

	/* Accepts a truncated path, because its start still identifies the value. */
	if (snprintf(p.s, sizeof(p.s), "%s%s%s", place, *place ? "." : "", key) < 0)
		p.s[0] = '\0';
	return p;
}

static struct place place_index(const char *place, size_t i)
{
	struct place p;

	if (snprintf(p.s, sizeof(p.s), "%s[%zu]", place, i) < 0)
		p.s[0] = '\0';
	return p;
}

/* Describes the value for an error: a string, truncated after 64 bytes; "an array"; "an object"; or
 * the JSON text of any other value. */
static void describe(const struct json *v, char ret[static 80])
{
	enum { SHOWN = 64 };
	const char *s = json_string(v);
	auto_buf struct buf b;
	struct json_out o;

	buf_init(&b, 79);
	jo_init(&o, &b, 0);
	switch (json_kind(v)) {
	case JSON_STRING:
		if (strlen(s) > SHOWN)
			snprintf(ret, 80, "\"%.*s...\"", SHOWN, s);
		else
			snprintf(ret, 80, "\"%s\"", s);
		return;
	case JSON_ARRAY: strcpy(ret, "an array"); return;
	case JSON_OBJECT: strcpy(ret, "an object"); return;
	default: jo_val(&o, v, false);
	}
	snprintf(ret, 80, "%s", b.p);
}

static int wants(const char *place, const struct json *v, struct err *e, const char *what)
{
	char seen[80];

	describe(v, seen);
	return err_kind(e, ERR_CONF, -EINVAL, "%s is %s, expected %s", place, seen, what);
}

int json_wants(const struct json *v, const char *place, const char *what, struct err *e)
{
	return wants(place, v, e, what);
}

static int read_str(const struct json_field *f, const struct json *v, const char **into,
		    const char *place, struct err *e)
{
	const char *s = json_string(v);

	if (!s)
		return wants(place, v, e, "a string");
	if (f->max && strlen(s) > (size_t)f->max)
		return err_kind(e, ERR_CONF, -EINVAL,
				"%s is %zu bytes long, expected at most %" PRId64, place, strlen(s),
				f->max);
	*into = s;
	return 0;
}

static int read_bool(const struct json *v, bool *into, const char *place, struct err *e)
{
	if (json_kind(v) != JSON_BOOL)
		return wants(place, v, e, "true or false");
	*into = json_bool(v);
	return 0;
}

static int read_int(const struct json_field *f, const struct json *v, int64_t *into,
		    const char *place, struct err *e)
{
	bool any = f->min == 0 && f->max == 0;
	int64_t min = any ? INT64_MIN : f->min, max = any ? INT64_MAX : f->max, n;
	char range[80];
	int r = json_int(v, &n);

	if (r == -EINVAL)
		return wants(place, v, e, "a whole number");
	if (r == 0 && n >= min && n <= max) {
		*into = n;
		return 0;
	}
	if (max == INT64_MAX && !any)
		snprintf(range, sizeof(range), "%" PRId64 " or more", min);
	else
		snprintf(range, sizeof(range), "%" PRId64 " to %" PRId64, min, max);
	return wants(place, v, e, range);
}

bool json_strs_has(const struct json_strs *l, const char *s)
{
	return str_list_has((char *const *)l->v, l->n, s);
}

static int read_strs(struct json_doc *d, const struct json *v, struct json_strs *into,
		     const char *place, struct err *e)
{
	struct json_walk w = json_walk_start(v);
	const struct json *s;
	const char **list;

	if (json_kind(v) != JSON_ARRAY)
		return wants(place, v, e, "an array of strings");
	list = json_alloc(d, w.left, sizeof(*list));
	*into = (struct json_strs){list, w.left};
	for (size_t i = 0; (s = json_walk_next(&w, NULL)); i++) {
		list[i] = json_kind(s) == JSON_NULL ? "" : json_string(s);
		if (!list[i])
			return wants(place_index(place, i).s, s, e, "a string");
	}
	return 0;
}

/* Accepts an empty string, as Go's net.IP does, and leaves the address unchanged; read_mac()
 * likewise. */
static int read_ip(const struct json *v, struct ipaddr *into, const char *place, struct err *e)
{
	const char *s = json_string(v);

	if (s && !*s)
		return 0;
	if (!s || ip_parse(span_of(s), into) < 0)
		return wants(place, v, e, "an IP address");
	return 0;
}

static int read_net(const struct json *v, struct ipnet *into, const char *place, struct err *e)
{
	const char *s = json_string(v);

	if (!s || ipnet_parse(span_of(s), into) < 0)
		return wants(place, v, e, "an address and prefix length like 10.0.0.0/24");
	return 0;
}

static int read_mac(const struct json *v, struct mac *into, const char *place, struct err *e)
{
	const char *s = json_string(v);

	if (s && !*s)
		return 0;
	if (!s || mac_parse(span_of(s), into) < 0)
		return wants(place, v, e, "a hardware address like 02:00:00:00:00:01");
	return 0;
}

/* Checks that every required field of the table has a value. seen NULL: no field has a value. */
static int check_required(const struct json_table *t, const bool *seen, const char *place,
			  struct err *e)
{
	for (const struct json_field *f = t->fields; f->name; f++)
		if (f->required && !(seen && seen[f - t->fields]))
			return err_kind(e, ERR_CONF, -EINVAL, "%s is missing",
					place_key(place, f->name).s);
	return 0;
}

/* Treats an element that is null as an object without keys, as in Go. */
static int read_list(struct json_doc *d, const struct json_field *f, const struct json *v,
		     struct json_list *into, const char *place, struct err *e)
{
	struct json_walk w = json_walk_start(v);
	size_t size = f->sub->size;
	const struct json *at;
	char *list;
	int r = 0;

	if (json_kind(v) != JSON_ARRAY)
		return wants(place, v, e, "an array of objects");
	list = json_alloc(d, w.left, size);
	*into = (struct json_list){list, w.left};
	for (size_t i = 0; r == 0 && (at = json_walk_next(&w, NULL)); i++) {
		struct place where = place_index(place, i);

		if (json_kind(at) == JSON_NULL)
			r = check_required(f->sub, NULL, where.s, e);
		else
			r = json_read(d, at, f->sub, list + i * size, where.s, e);
	}
	return r;
}

static int read_field(struct json_doc *d, const struct json_field *f, const struct json *v,
		      void *into, const char *place, struct err *e)
{
	void *at = (char *)into + f->offset;

	switch (f->type) {
	case J_STR: return read_str(f, v, at, place, e);
	case J_BOOL: return read_bool(v, at, place, e);
	case J_INT: return read_int(f, v, at, place, e);
	case J_STRS: return read_strs(d, v, at, place, e);
	case J_IP: return read_ip(v, at, place, e);
	case J_NET: return read_net(v, at, place, e);
	case J_MAC: return read_mac(v, at, place, e);
	case J_VAL: *(const struct json **)at = v; return 0;
	case J_OBJ: return json_read(d, v, f->sub, at, place, e);
	case J_OBJS: return read_list(d, f, v, at, place, e);
	}
	return err_set(e, -EINVAL, "%s: field type %d is unknown", place, f->type);
}

int json_read_value(struct json_doc *d, const struct json *v, const struct json_field *f,
		    void *into, const char *place, struct err *e)
{
	return read_field(d, f, v, into, place, e);
}

/* Returns the field that a key sets: the field of exactly this name; if there is none and the
 * table has JSON_GO, the field whose name differs only in upper and lower case. */
static const struct json_field *field_of(const struct json_table *t, const char *key)
{
	for (const struct json_field *f = t->fields; f->name; f++)
		if (strcmp(f->name, key) == 0)
			return f;
	if (!(t->flags & JSON_GO))
		return NULL;
	for (const struct json_field *f = t->fields; f->name; f++)
		if (json_key_folds(key, f->name))
			return f;
	return NULL;
}

static int unknown_key(const struct json_table *t, const char *place, const char *key,
		       struct err *e)
{
	const char *near = json_suggest(t, key);

	if (near)
		return err_kind(e, ERR_CONF, -EINVAL, "%s is not a known key, did you mean '%s'?",
				place, near);
	return err_kind(e, ERR_CONF, -EINVAL, "%s is not a known key", place);
}

static size_t field_count(const struct json_table *t)
{
	size_t n = 0;

	while (t->fields[n].name)
		n++;
	return n;
}

/*
 * Reads the keys in document order. So of several spellings of a key the last one wins, and if a
 * key whose value is an object occurs twice, the two objects are merged, as in Go. JSON_CLOSED
 * ignores a key that begins with '~': so a later version of unirail can add a key that this version
 * ignores.
 */
int json_read(struct json_doc *d, const struct json *obj, const struct json_table *t, void *into,
	      const char *place, struct err *e)
{
	auto_free bool *seen = xcalloc(field_count(t), sizeof(*seen));
	struct json_walk w = json_walk_start(obj);
	const struct json *v;
	const char *key;

	if (json_kind(obj) != JSON_OBJECT)
		return wants(place, obj, e, "an object");
	while ((v = json_walk_next(&w, &key))) {
		const struct json_field *f = field_of(t, key);
		struct place at;
		int r;

		if (!f && (t->flags & JSON_CLOSED) && key[0] != '~')
			return unknown_key(t, place_key(place, key).s, key, e);
		if (!f || json_kind(v) == JSON_NULL)
			continue;
		at = place_key(place, f->name);
		r = read_field(d, f, v, into, at.s, e);
		if (r < 0)
			return r;
		seen[f - t->fields] = true;
		if (f->has)
			*((bool *)into + f->has) = true;
	}
	return check_required(t, seen, place, e);
}
