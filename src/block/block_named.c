/* SPDX-License-Identifier: Apache-2.0 */
/* Addresses asked for by name: wishes for them, and how it stands with them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "block/block_table.h"

const char *block_wish_key(const char *node, const struct ipaddr *a,
			   char ret[static BLOCK_WISH_MAX])
{
	char text[IP_TEXT_MAX];

	snprintf(ret, BLOCK_WISH_MAX, "%s@%s", node, ip_str(a, text));
	return ret;
}

/* No node's name has an '@'. */
bool block_wish_named(const char *key, struct ipaddr *a)
{
	const char *at = strrchr(key, '@');

	return at && ip_parse(span_of(at + 1), a) == 0;
}

const char *block_wish_any(const char *node, char ret[static BLOCK_WISH_MAX])
{
	snprintf(ret, BLOCK_WISH_MAX, "%s@*", node);
	return ret;
}

bool block_wish_may_promise(const char *key, char ret[static BLOCK_NAME_MAX + 3])
{
	size_t n = strlen(key);

	if (n < 3 || n - 2 > BLOCK_NAME_MAX || strcmp(key + n - 2, "@*") != 0)
		return false;
	ret[0] = '@';
	memcpy(ret + 1, key, n - 2);
	ret[n - 1] = '*';
	ret[n] = '\0';
	return true;
}

bool block_wish_is_of(const char *key, const char *node)
{
	size_t n = strlen(node);

	return strncmp(key, node, n) == 0 && (!key[n] || key[n] == '@');
}

/* --- what was seen --- */

static void done(struct block_seen *s)
{
	free(s->block);
	free(s->node);
	free(s->version);
	free(s->to);
}

void block_seen_done(struct block_table *t)
{
	for (size_t i = 0; i < t->n_seen; i++)
		done(&t->seen[i]);
	free(t->seen);
	t->seen = NULL;
	t->n_seen = 0;
}

static struct block_seen *find(const struct block_table *t, const struct ipaddr *a)
{
	for (size_t i = 0; i < t->n_seen; i++)
		if (ip_eq(&t->seen[i].ip, a))
			return &t->seen[i];
	return NULL;
}

const struct block_seen *block_seen_find(const struct block_table *t, const struct ipaddr *a)
{
	return find(t, a);
}

void block_seen_drop(struct block_table *t, const char *block)
{
	for (size_t i = t->n_seen; i-- > 0;)
		if (strcmp(t->seen[i].block, block) == 0) {
			done(&t->seen[i]);
			t->seen[i] = t->seen[--t->n_seen];
		}
}

static bool has_wish(const struct block_table *t, const struct block_object *o,
		     const struct ipaddr *a)
{
	char key[BLOCK_WISH_MAX];

	block_wish_key(t->node, a, key);
	for (size_t i = 0; i < o->n_wanted; i++)
		if (strcmp(o->wanted[i].node, key) == 0)
			return true;
	return false;
}

/* By its entry; or by its owner, which took our wish away and gave nothing up. */
static bool is_refused(const struct block_table *t, const struct block_seen *was,
		       const struct block_seen *is)
{
	const struct block_entry x = {.ip = is->ip, .to = is->to};

	/* Of a block that is nobody's nobody takes a promise back. */
	if (is->to)
		return !block_entry_free_for(&x, t->node) &&
		       (*is->node || !block_entry_promised(&x));
	return was && was->wished && !is->wished && *is->node && strcmp(was->node, is->node) == 0;
}

void block_seen_put(struct block_table *t, const char *block, const struct ipaddr *a,
		    const struct block_object *o, bool wish, int64_t now_ms)
{
	const struct block_entry *x = o ? block_entry_find(o, a) : NULL;
	struct block_seen *was = find(t, a), s = {.ip = *a, .at_ms = now_ms, .absent = !o};

	s.block = xstrdup(block);
	s.node = xstrdup(o ? o->node : "");
	s.version = xstrdup(o ? o->version : "");
	s.to = x ? xstrdup(x->to) : NULL;
	if (o) {
		s.net = o->net;
		/* Nobody answers for a block that is nobody's. */
		s.wished = *o->node && (wish || has_wish(t, o, a));
		s.refused = is_refused(t, was, &s);
	}
	if (was)
		done(was);
	else
		was = &VEC_PUSH(t->seen, t->n_seen);
	*was = s;
}

/* --- who has it --- */

static void say_holder(const char *to, const char *node, struct buf *w)
{
	const struct block_entry x = {.to = (char *)to};
	char holder[BLOCK_NAME_MAX + 1];
	bool known = block_entry_node(&x, holder);

	if (known && *to != '@')
		buf_printf(w, "node '%s' has it, out of a block of node '%s'", holder, node);
	else if (known)
		buf_printf(w, "it is promised to node '%s'", holder);
	else
		buf_printf(w, "it was given up by node '%s', and is not to be had yet", node);
}

/* An address of a block of ours that others have. */
static const char *lent_to(const struct block_table *t, const struct ipaddr *a)
{
	for (size_t i = 0; i < t->n_objects; i++) {
		const struct block_object *o = &t->objects[i];
		const struct block_entry *x = block_entry_find(o, a);

		if (x && strcmp(o->node, t->node) == 0 && !block_entry_free_for(x, t->node))
			return x->to;
	}
	return NULL;
}

bool block_is_refused(const struct block_table *t, const struct ipaddr *a, int64_t now_ms,
		      struct buf *w)
{
	const struct block_seen *s = find(t, a);
	const char *to = lent_to(t, a);

	if (w && to)
		say_holder(to, t->node, w);
	if (to)
		return true;
	if (!s || !s->refused || now_ms - s->at_ms >= BLOCK_SEEN_MS)
		return false;
	if (w && s->to)
		say_holder(s->to, s->node, w);
	else if (w)
		buf_printf(w, "node '%s' has it", s->node);
	return true;
}
