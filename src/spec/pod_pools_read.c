/* SPDX-License-Identifier: Apache-2.0 */
/* What annotations about pools say. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "base/log.h"
#include "spec/pod_pools_priv.h"

int pod_note_wrong(const struct pod_note *n, struct err *e, const char *fmt, ...)
{
	char text[ERR_TEXT_MAX];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	if (n->of_namespace)
		return err_kind(
			e, ERR_CONF, -EINVAL,
			"namespace '%s': wrong input, invalid format of Namespace annotation "
			"'%s': %s",
			n->ns, n->key, text);
	return err_kind(e, ERR_CONF, -EINVAL,
			"pod '%s/%s': wrong input, invalid format of Pod annotation '%s': %s",
			n->ns, n->name, n->key, text);
}

void pod_note_taken(const struct pod_note *n, const char *what, const char *as)
{
	log_limited(LOG_WARN, 3, "an annotation is taken as it must be meant",
		    LOG_S("namespace", n->ns), LOG_S("pod", n->of_namespace ? "" : n->name),
		    LOG_S("annotation", n->key), LOG_S("has", what), LOG_S("taken_as", as));
}

int pod_note_parse(const struct pod_note *n, struct json_doc **ret, struct err *e)
{
	struct err why = ERR_INIT;

	if (json_parse(ret, span_of(n->value), POD_NOTE_MAX, &why) < 0)
		return pod_note_wrong(n, e, "%s", why.text);
	return 0;
}

void pod_names_add(char ***v, size_t *n, const char *name)
{
	for (size_t i = 0; i < *n; i++)
		if (strcmp((*v)[i], name) == 0)
			return;
	VEC_PUSH(*v, *n) = xstrdup(name);
}

/* A list of names, or one name. place: "[1].ipv4" or "". */
static int read_names(const struct pod_note *n, const struct json *v, const char *place,
		      char ***ret, size_t *count, struct err *e)
{
	struct json_walk w = json_walk_start(v);
	const struct json *x;

	if (json_kind(v) == JSON_NULL)
		return 0;
	if (json_string(v) && *json_string(v)) {
		pod_note_taken(n, "a name", "a list of one name");
		pod_names_add(ret, count, json_string(v));
		return 0;
	}
	if (json_kind(v) != JSON_ARRAY)
		return pod_note_wrong(n, e,
				      "%s%sis %s, wants a list of pool names such as [\"rail0\"]",
				      place, *place ? " " : "it ", json_kind_name(v));
	for (size_t i = 0; (x = json_walk_next(&w, NULL)); i++) {
		if (!json_string(x) || !*json_string(x))
			return pod_note_wrong(n, e, "%s[%zu] is %s, wants the name of a pool",
					      place, i,
					      json_string(x) ? "empty" : json_kind_name(x));
		pod_names_add(ret, count, json_string(x));
	}
	return 0;
}

int pod_names_read(const struct pod_note *n, char ***ret, size_t *count, struct err *e)
{
	auto_json struct json_doc *doc = NULL;
	struct span text = span_trim(span_of(n->value));
	int r;

	if (text.n == 0)
		return 0;
	/* A name that is no JSON at all. */
	if (strcspn(n->value, "[]{}\"', \t\n") == strlen(n->value) &&
	    strcmp(n->value, "null") != 0) {
		pod_note_taken(n, "a name", "a list of one name");
		pod_names_add(ret, count, n->value);
		return 0;
	}
	r = pod_note_parse(n, &doc, e);
	return r < 0 ? r : read_names(n, json_root(doc), "", ret, count, e);
}

static void warn_unknown(const struct pod_note *n, const struct json *v)
{
	static const char *const known[] = {"interface", "ipv4", "ipv6", "cleangateway"};
	struct json_walk w = json_walk_start(v);
	const char *key;

	while (json_walk_next(&w, &key)) {
		size_t i = 0;

		while (i < ARRAY_LEN(known) && strcasecmp(known[i], key) != 0)
			i++;
		if (i == ARRAY_LEN(known))
			log_limited(LOG_WARN, 3, "an annotation has a key that nothing reads",
				    LOG_S("namespace", n->ns), LOG_S("pod", n->name),
				    LOG_S("annotation", n->key), LOG_S("key", key));
	}
}

static int read_lists(const struct pod_note *n, const struct json *v, const char *at,
		      struct pod_wish *w, struct err *e)
{
	char place[64];
	int r;

	snprintf(place, sizeof(place), "%s%sipv4", at, *at ? "." : "");
	r = read_names(n, json_get_go(v, "ipv4"), place, &w->pools4, &w->n_pools4, e);
	snprintf(place, sizeof(place), "%s%sipv6", at, *at ? "." : "");
	if (r == 0)
		r = read_names(n, json_get_go(v, "ipv6"), place, &w->pools6, &w->n_pools6, e);
	if (r == 0 && w->n_pools4 + w->n_pools6 == 0)
		r = pod_note_wrong(n, e,
				   "%s%snames no pool: give \"ipv4\" or \"ipv6\" a list of names",
				   at, *at ? " " : "it ");
	return r;
}

static int read_entry(const struct pod_note *n, const struct json *v, const char *at,
		      struct pod_entry *x, struct err *e)
{
	const struct json *ifname = json_get_go(v, "interface");
	const struct json *clean = json_get_go(v, "cleangateway");

	if (json_kind(v) != JSON_OBJECT)
		return pod_note_wrong(n, e,
				      "%s%sis %s, wants an object such as {\"ipv4\":[\"rail0\"]}",
				      at, *at ? " " : "it ", json_kind_name(v));
	warn_unknown(n, v);
	if (json_kind(ifname) != JSON_NULL && !json_string(ifname))
		return pod_note_wrong(n, e, "%s.interface is %s, wants a string", at,
				      json_kind_name(ifname));
	if (json_kind(clean) != JSON_NULL && json_kind(clean) != JSON_BOOL)
		return pod_note_wrong(n, e, "%s.cleangateway is %s, wants true or false", at,
				      json_kind_name(clean));
	if (json_string(ifname) && *json_string(ifname))
		x->ifname = xstrdup(json_string(ifname));
	x->wish.clean_gateway = json_bool(clean);
	return read_lists(n, v, at, &x->wish, e);
}

static int check_names(const struct pod_note *n, const struct pod_entries *l, struct err *e)
{
	for (size_t i = 0; i < l->n; i++) {
		if (!l->v[i].ifname != !l->v[0].ifname)
			return pod_note_wrong(
				n, e,
				"NIC should be either all specified or all unspecified: "
				"[%zu] names %s interface",
				i, l->v[i].ifname ? "its" : "no");
		for (size_t j = 0; j < i && l->v[i].ifname; j++)
			if (strcmp(l->v[i].ifname, l->v[j].ifname) == 0)
				return pod_note_wrong(
					n, e, "duplicate interface %s: [%zu] and [%zu] name it",
					l->v[i].ifname, j, i);
	}
	return 0;
}

static int read_list(const struct pod_note *n, const struct json *list, struct pod_entries *ret,
		     struct err *e)
{
	struct json_walk w = json_walk_start(list);
	const struct json *v;
	int r = 0;

	while (r == 0 && (v = json_walk_next(&w, NULL))) {
		char at[32];

		snprintf(at, sizeof(at), "[%zu]", ret->n);
		r = read_entry(n, v, at, &VEC_PUSH(ret->v, ret->n), e);
	}
	if (r == 0 && ret->n == 0)
		return pod_note_wrong(n, e, "value requires at least one item");
	return r == 0 ? check_names(n, ret, e) : r;
}

static int read_one(const struct pod_note *n, const struct json *v, struct pod_entries *ret,
		    struct err *e)
{
	int r = read_entry(n, v, "", &VEC_PUSH(ret->v, ret->n), e);

	ret->each = r == 0 && !ret->v[0].ifname;
	return r;
}

/* Which of the two it is shows by its value. */
static int read_note(const struct pod_note *n, bool is_list, struct pod_entries *ret, struct err *e)
{
	auto_json struct json_doc *doc = NULL;
	int r = pod_note_parse(n, &doc, e);
	const struct json *v;

	if (r < 0)
		return r;
	v = json_root(doc);
	if (is_list && json_kind(v) == JSON_OBJECT)
		pod_note_taken(n, "an object",
			       json_get_go(v, "interface") ? "a list of one" : NOTE_IPPOOL);
	else if (!is_list && json_kind(v) == JSON_ARRAY)
		pod_note_taken(n, "a list", NOTE_IPPOOLS);
	else if (json_kind(v) != JSON_OBJECT && json_kind(v) != JSON_ARRAY)
		return pod_note_wrong(n, e, "it is %s, wants %s", json_kind_name(v),
				      is_list ? "[{\"interface\":\"net1\",\"ipv4\":[\"rail0\"]}]"
					      : "{\"ipv4\":[\"rail0\"]}");
	return json_kind(v) == JSON_ARRAY ? read_list(n, v, ret, e) : read_one(n, v, ret, e);
}

int pod_entries_read(const struct pod_facts *p, struct pod_entries *ret, struct err *e)
{
	const char *list = labels_get(&p->annotations, NOTE_IPPOOLS);
	const char *one = labels_get(&p->annotations, NOTE_IPPOOL);
	struct pod_note n = {list ? NOTE_IPPOOLS : NOTE_IPPOOL, list ? list : one, false, p->ns,
			     p->name};
	struct pod_entries l = {0};
	int r = n.value ? read_note(&n, list != NULL, &l, e) : 0;

	if (r < 0) {
		pod_entries_done(&l);
		return r;
	}
	*ret = l;
	return 0;
}

void pod_entries_done(struct pod_entries *l)
{
	for (size_t i = 0; i < l->n; i++) {
		free(l->v[i].ifname);
		pod_wish_done(&l->v[i].wish);
	}
	free(l->v);
	*l = (struct pod_entries){0};
}
