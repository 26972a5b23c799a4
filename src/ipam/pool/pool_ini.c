/* SPDX-License-Identifier: Apache-2.0 */
/* Pool files in INI (base/ini.h). */
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/ini.h"
#include "base/option.h"
#include "ipam/pool/pool_draft.h"

enum { PLACE_MAX = 400 };

enum section { SEC_NONE, SEC_POOL, SEC_RESERVED, SEC_SETTINGS };

struct ini_reader {
	struct pool_set *set;
	enum section section;
	struct pool_draft draft; /* pool of the current section */
	struct pool_texts reserved;
	struct pool_text settings[4];
	int r; /* result of adding a pool; its error already names file and line */
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
	{"reuse-delay", KEY_ONE, offsetof(struct pool_draft, reuse_delay)},
	{0},
};
static const struct key reserved_keys[] = {
	{"ips", KEY_LIST, offsetof(struct ini_reader, reserved)},
	{0},
};
static const struct key settings_keys[] = {
	{"reuse-delay", KEY_ONE, offsetof(struct ini_reader, settings[0])},
	{"quarantine", KEY_ONE, offsetof(struct ini_reader, settings[1])},
	{"conflict-detection", KEY_ONE, offsetof(struct ini_reader, settings[2])},
	{"gateway-detection", KEY_ONE, offsetof(struct ini_reader, settings[3])},
	{0},
};

static int section_end(struct ini_reader *p, struct err *e)
{
	int r = p->section == SEC_POOL ? pool_set_add(p->set, &p->draft, e) : 0;

	p->section = SEC_NONE;
	return r;
}

/* "[pool rail0]": ends the previous section and starts a new one. */
static int on_section(void *arg, const struct ini_at *at, struct err *e)
{
	struct ini_reader *p = arg;
	struct span name = span_of(at->section);

	p->r = section_end(p, e);
	if (p->r < 0)
		return 1;
	if (span_has_prefix(name, "pool ") || span_has_prefix(name, "pool\t")) {
		p->section = SEC_POOL;
		p->draft = (struct pool_draft){.ips_optional = true};
		p->draft.name = span_dup(span_trim((struct span){name.p + 5, name.n - 5}));
		p->draft.origin = xasprintf("%s:%d", at->file, at->line);
	} else if (span_eq(name, "reserved")) {
		p->section = SEC_RESERVED;
	} else if (span_eq(name, "settings")) {
		p->section = SEC_SETTINGS;
	} else {
		return err_kind(
			e, ERR_CONF, -EINVAL,
			"section '%.100s' is not known, expected 'pool NAME', 'reserved' or "
			"'settings'",
			at->section);
	}
	return 0;
}

static const struct key *key_find(const struct key *keys, const char *name, struct err *e)
{
	const char *names[16];
	auto_buf struct buf all;
	size_t n = 0;

	buf_init(&all, 256);
	for (const struct key *k = keys; k->name; k++) {
		if (strcmp(k->name, name) == 0)
			return k;
		buf_printf(&all, "%s%s", n > 0 ? ", " : "", k->name);
		names[n++] = k->name;
	}
	if (opt_suggest(name, names, n))
		ini_unknown_key(name, names, n, e);
	else
		err_kind(e, ERR_CONF, -EINVAL,
			 "key '%.100s' is not known in this section, expected one of %s", name,
			 all.p);
	return NULL;
}

static int set_one(struct pool_text *t, const char *place, const char *value, struct err *e)
{
	if (t->place)
		return err_kind(e, ERR_CONF, -EINVAL, "'%s' is set twice, first at %s",
				strrchr(place, ' ') + 1, t->place);
	*t = (struct pool_text){xstrdup(place), xstrdup(value)};
	return 0;
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

static int store(const struct key *k, void *base, const struct ini_at *at, const char *value,
		 struct err *e)
{
	void *to = (char *)base + k->offset;
	char place[PLACE_MAX];

	snprintf(place, sizeof(place), "%s:%d: %s", at->file, at->line, k->name);
	if (k->kind == KEY_ONE)
		return set_one(to, place, value, e);
	if (k->kind == KEY_LINES)
		pool_texts_add(to, place, span_of(value));
	else
		add_list(to, place, value);
	return 0;
}

static int on_pair(void *arg, const struct ini_at *at, const char *key, const char *value,
		   struct err *e)
{
	struct ini_reader *p = arg;
	const struct key *tables[] = {NULL, pool_keys, reserved_keys, settings_keys}, *k;

	if (p->section == SEC_NONE)
		return err_kind(e, ERR_CONF, -EINVAL,
				"key '%.100s' precedes the first section: begin with '[pool NAME]'",
				key);
	k = key_find(tables[p->section], key, e);
	return k ? store(k, p->section == SEC_POOL ? (void *)&p->draft : p, at, value, e) : -EINVAL;
}

static int take_settings(struct ini_reader *p, struct err *e)
{
	struct pool_set *s = p->set;
	int n = pool_text_ms(&p->settings[0], POOL_REUSE_DELAY_MAX_MS, &s->reuse_delay_ms, e);

	if (n == 0)
		n = pool_text_ms(&p->settings[1], POOL_QUARANTINE_MAX_MS, &s->quarantine_ms, e);
	if (n == 0)
		n = pool_text_bool(&p->settings[2], &s->conflict_detection, e);
	if (n == 0)
		n = pool_text_bool(&p->settings[3], &s->gateway_detection, e);
	return n == 0 ? pool_reserve(s, &p->reserved, e) : n;
}

int pool_read_ini(struct pool_set *s, const char *file, struct span text, struct err *e)
{
	static const struct ini_ops ops = {on_section, on_pair};
	struct ini_reader p = {.set = s};
	int r = ini_read(text, file, &ops, &p, e);

	if (r > 0)
		r = p.r;
	if (r == 0)
		r = section_end(&p, e);
	if (r == 0)
		r = take_settings(&p, e);
	pool_draft_done(&p.draft);
	pool_texts_done(&p.reserved);
	for (size_t i = 0; i < ARRAY_LEN(p.settings); i++)
		pool_text_done(&p.settings[i]);
	return r;
}
