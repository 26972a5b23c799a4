/* SPDX-License-Identifier: Apache-2.0 */
/* Pool files in INI. inih splits the lines. Line numbers and section names are handled here,
 * because inih truncates names at 50 bytes and does not report sections without keys. */
#include <errno.h>
#include <ini.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/option.h"
#include "ipam/pool/pool_draft.h"

enum { LINE_MAX_BYTES = 1020, PLACE_MAX = 400 };

enum section { SEC_NONE, SEC_POOL, SEC_RESERVED, SEC_SETTINGS };

struct ini_reader {
	struct pool_set *set;
	const char *file;
	struct span rest; /* part of the file that is not read yet */
	int line;
	enum section section;
	struct pool_draft draft; /* pool of the current section */
	struct pool_texts reserved;
	struct pool_text settings[4];
	int r;
	struct err *e;
};

enum key_kind { KEY_ONE, KEY_LIST, KEY_LINES };

struct key {
	const char *name;
	enum key_kind kind;
	size_t offset;
};

static const struct key pool_keys[] = {
	{"subnet", KEY_ONE, offsetof(struct pool_draft, subnet)},
	{"ips", KEY_LIST, offsetof(struct pool_draft, ips)},
	{"exclude", KEY_LIST, offsetof(struct pool_draft, exclude)},
	{"gateway", KEY_ONE, offsetof(struct pool_draft, gateway)},
	{"route", KEY_LINES, offsetof(struct pool_draft, routes)},
	{"default", KEY_ONE, offsetof(struct pool_draft, is_default)},
	{"disable", KEY_ONE, offsetof(struct pool_draft, disable)},
	{"node", KEY_LIST, offsetof(struct pool_draft, nodes)},
	{"namespace", KEY_LIST, offsetof(struct pool_draft, namespaces)},
	{"rest", KEY_ONE, offsetof(struct pool_draft, rest)},
	{0},
};
static const struct key reserved_keys[] = {
	{"ips", KEY_LIST, offsetof(struct ini_reader, reserved)},
	{0},
};
static const struct key settings_keys[] = {
	{"rest", KEY_ONE, offsetof(struct ini_reader, settings[0])},
	{"quarantine", KEY_ONE, offsetof(struct ini_reader, settings[1])},
	{"conflict_detection", KEY_ONE, offsetof(struct ini_reader, settings[2])},
	{"gateway_detection", KEY_ONE, offsetof(struct ini_reader, settings[3])},
	{0},
};

static int wrong(struct ini_reader *p, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static int wrong(struct ini_reader *p, const char *fmt, ...)
{
	char text[ERR_TEXT_MAX];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	p->r = err_kind(p->e, ERR_CONF, -EINVAL, "%s:%d: %s", p->file, p->line, text);
	return p->r;
}

static void section_end(struct ini_reader *p)
{
	if (p->section == SEC_POOL && p->r == 0)
		p->r = pool_set_add(p->set, &p->draft, p->e);
	p->section = SEC_NONE;
}

static void pool_begin(struct ini_reader *p, struct span name)
{
	p->section = SEC_POOL;
	p->draft = (struct pool_draft){.ips_optional = true};
	p->draft.name = span_dup(span_trim(name));
	p->draft.where = xasprintf("%s:%d", p->file, p->line);
}

/* "[pool rail0]": ends the previous section and starts a new one. */
static void section_begin(struct ini_reader *p, struct span line)
{
	struct span name;

	section_end(p);
	if (p->r < 0)
		return;
	line.p++;
	line.n--;
	if (!memchr(line.p, ']', line.n)) {
		wrong(p, "the section header must end in ']'");
		return;
	}
	span_cut(&line, ']', &name);
	name = span_trim(name);
	if (span_has_prefix(name, "pool ") || span_has_prefix(name, "pool\t"))
		pool_begin(p, (struct span){name.p + 5, name.n - 5});
	else if (span_eq(name, "reserved"))
		p->section = SEC_RESERVED;
	else if (span_eq(name, "settings"))
		p->section = SEC_SETTINGS;
	else
		wrong(p,
		      "section '%.*s' is not known, expected 'pool NAME', 'reserved' or 'settings'",
		      (int)(name.n < 100 ? name.n : 100), name.p);
}

/* Replaces the fgets of inih: returns a line, counts lines, and detects sections. NULL at the end
 * or after an error. */
static char *next_line(char *into, int size, void *arg)
{
	struct ini_reader *p = arg;
	struct span line, trimmed;

	if (p->r < 0 || p->rest.n == 0 || !span_cut(&p->rest, '\n', &line))
		return NULL;
	p->line++;
	if (line.n > LINE_MAX_BYTES || line.n + 2 > (size_t)size) {
		wrong(p,
		      "line is longer than %d bytes: divide the list into several lines 'ips = ...'",
		      LINE_MAX_BYTES);
		return NULL;
	}
	if (memchr(line.p, '\0', line.n)) {
		wrong(p, "a NUL byte: this is not a text file");
		return NULL;
	}
	trimmed = span_trim(line);
	if (trimmed.n > 0 && trimmed.p[0] == '[')
		section_begin(p, trimmed);
	if (p->r < 0)
		return NULL;
	memcpy(into, line.p, line.n);
	memcpy(into + line.n, "\n", 2);
	return into;
}

static const struct key *key_find(struct ini_reader *p, const struct key *keys, const char *name)
{
	const char *names[16], *near;
	auto_buf struct buf all;
	size_t n = 0;

	buf_init(&all, 256);
	for (const struct key *k = keys; k->name; k++) {
		if (strcmp(k->name, name) == 0)
			return k;
		buf_printf(&all, "%s%s", n > 0 ? ", " : "", k->name);
		names[n++] = k->name;
	}
	near = opt_suggest(name, names, n);
	if (near)
		wrong(p, "key '%.100s' is not known here; did you mean '%s'?", name, near);
	else
		wrong(p, "key '%.100s' is not known here, expected one of %s", name, all.p);
	return NULL;
}

static void set_one(struct ini_reader *p, struct pool_text *t, const char *place, const char *value)
{
	if (t->place) {
		wrong(p, "'%s' is set twice, first at %s", strrchr(place, ' ') + 1, t->place);
		return;
	}
	*t = (struct pool_text){xstrdup(place), xstrdup(value)};
}

static void add_list(struct pool_texts *l, const char *place, const char *value)
{
	struct span rest = span_of(value), one;

	while (span_cut(&rest, ',', &one)) {
		one = span_trim(one);
		if (one.n > 0)
			pool_texts_add(l, place, one);
	}
}

static void store(struct ini_reader *p, const struct key *k, void *base, const char *value)
{
	void *to = (char *)base + k->offset;
	char place[PLACE_MAX];

	snprintf(place, sizeof(place), "%s:%d: %s", p->file, p->line, k->name);
	if (k->kind == KEY_ONE)
		set_one(p, to, place, value);
	else if (k->kind == KEY_LINES)
		pool_texts_add(to, place, span_of(value));
	else
		add_list(to, place, value);
}

static int handle(void *arg, const char *section, const char *name, const char *value)
{
	struct ini_reader *p = arg;
	const struct key *tables[] = {NULL, pool_keys, reserved_keys, settings_keys}, *k;

	(void)section; /* inih truncates the name; the draft has the full one */
	if (p->section == SEC_NONE) {
		wrong(p, "key '%.100s' precedes the first section: begin with '[pool NAME]'", name);
		return 0;
	}
	k = key_find(p, tables[p->section], name);
	if (k)
		store(p, k, p->section == SEC_POOL ? (void *)&p->draft : p, value);
	return p->r == 0;
}

static int take_settings(struct ini_reader *p)
{
	struct pool_set *s = p->set;
	int n = pool_text_ms(&p->settings[0], POOL_REST_MAX_MS, &s->rest_ms, p->e);

	if (n == 0)
		n = pool_text_ms(&p->settings[1], POOL_QUARANTINE_MAX_MS, &s->quarantine_ms, p->e);
	if (n == 0)
		n = pool_text_bool(&p->settings[2], &s->conflict_detection, p->e);
	if (n == 0)
		n = pool_text_bool(&p->settings[3], &s->gateway_detection, p->e);
	return n == 0 ? pool_reserve(s, &p->reserved, p->e) : n;
}

int pool_read_ini(struct pool_set *s, const char *file, struct span text, struct err *e)
{
	struct ini_reader p = {.set = s, .file = file, .rest = text, .e = e};
	int bad;

	if (span_has_prefix(p.rest, "\xef\xbb\xbf"))
		p.rest = (struct span){text.p + 3, text.n - 3};
	bad = ini_parse_stream(next_line, &p, handle, &p);

	if (p.r == 0 && bad > 0) {
		p.line = bad;
		wrong(&p, "is not 'key = value', a section or a comment");
	}
	section_end(&p);
	if (p.r == 0)
		p.r = take_settings(&p);
	pool_draft_done(&p.draft);
	pool_texts_done(&p.reserved);
	for (size_t i = 0; i < ARRAY_LEN(p.settings); i++)
		pool_text_done(&p.settings[i]);
	return p.r;
}
