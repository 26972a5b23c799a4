/* SPDX-License-Identifier: Apache-2.0 */
/* Which events are sent, and as what. */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "kube/events_priv.h"

enum {
	SOURCES = 128,
	GROUPS = 128,
	BURST = 25,
	REFILL_MS = 300000,
	DIFFERENT = 10,
	GROUP_MS = 600000,
};

/* What begins whatever is looked for by key. */
struct slot {
	uint64_t key;
	int64_t used; /* 0: never */
};

struct source {
	struct slot slot;
	int64_t refilled;
	int tokens;
};

struct group {
	struct slot slot;
	int64_t since;
	uint64_t messages[DIFFERENT];
	unsigned int n;
};

struct seen {
	struct slot slot;
	int count;
};

struct kube_event_filter {
	struct source sources[SOURCES];
	struct group groups[GROUPS];
	struct seen seen[KUBE_EVENTS_SEEN];
};

struct kube_event_filter *kube_event_filter_new(void)
{
	return xcalloc(1, sizeof(struct kube_event_filter));
}

void kube_event_filter_free(struct kube_event_filter *f)
{
	free(f);
}

/* FNV-1a; the NUL counts, so that "a" "bc" is not "ab" "c". */
static uint64_t add_word(uint64_t key, const char *s)
{
	s = s ? s : "";
	do
		key = (key ^ (unsigned char)*s) * 0x100000001b3;
	while (*s++);
	return key;
}

static uint64_t object_key(const struct kube_event *e)
{
	const char *const words[] = {e->kind, e->ns, e->name, e->uid};
	uint64_t key = 0xcbf29ce484222325;

	for (size_t i = 0; i < ARRAY_LEN(words); i++)
		key = add_word(key, words[i]);
	return key;
}

/* The slot of this key; *fresh: it was another's, or nobody's, and is zeroed. */
static void *find(void *table, size_t n, size_t size, uint64_t key, int64_t now, bool *fresh)
{
	struct slot *oldest = table;

	*fresh = false;
	for (size_t i = 0; i < n; i++) {
		struct slot *s = (struct slot *)(void *)((char *)table + i * size);

		if (s->used && s->key == key) {
			s->used = now + 1;
			return s;
		}
		if (s->used < oldest->used)
			oldest = s;
	}
	memset(oldest, 0, size);
	*oldest = (struct slot){key, now + 1};
	*fresh = true;
	return oldest;
}

#define FIND(table, key, now, fresh)                                                               \
	find(table, ARRAY_LEN(table), sizeof((table)[0]), key, now, fresh)

static bool may_speak(struct kube_event_filter *f, uint64_t object, int64_t now)
{
	bool fresh;
	struct source *s = FIND(f->sources, object, now, &fresh);
	int64_t n;

	if (fresh) {
		s->tokens = BURST;
		s->refilled = now;
	}
	n = (now - s->refilled) / REFILL_MS;
	s->refilled += n * REFILL_MS;
	s->tokens = n > BURST - s->tokens ? BURST : s->tokens + (int)n;
	if (s->tokens == 0)
		return false;
	s->tokens--;
	return true;
}

static bool is_known(const struct group *g, uint64_t message)
{
	for (unsigned int i = 0; i < g->n; i++)
		if (g->messages[i] == message)
			return true;
	return false;
}

/* One message too many of its kind? */
static bool is_combined(struct kube_event_filter *f, uint64_t kind, const char *text, int64_t now)
{
	uint64_t message = add_word(kind, text);
	bool fresh;
	struct group *g = FIND(f->groups, kind, now, &fresh);

	if (fresh || now - g->since > GROUP_MS) {
		g->n = 0;
		g->since = now;
	}
	if (is_known(g, message))
		return false;
	if (g->n == DIFFERENT)
		return true;
	g->messages[g->n++] = message;
	return false;
}

struct kube_event_plan kube_event_filter_add(struct kube_event_filter *f,
					     const struct kube_event *e, int64_t now)
{
	struct kube_event_plan p = {.fate = KUBE_EVENT_AGAIN};
	uint64_t object = object_key(e), kind;
	struct seen *seen;
	bool fresh;

	kind = add_word(add_word(object, e->warning ? "Warning" : "Normal"), e->reason);
	p.combined = is_combined(f, kind, e->message, now);
	seen = FIND(f->seen, p.combined ? kind : add_word(kind, e->message), now, &fresh);
	p.slot = (unsigned int)(seen - f->seen);
	p.count = ++seen->count;
	if (fresh)
		p.fate = KUBE_EVENT_NEW;
	if (!may_speak(f, object, now))
		p.fate = KUBE_EVENT_DROP;
	/* Dropped before it was ever sent: there is nothing yet to count up. */
	if (fresh && p.fate == KUBE_EVENT_DROP)
		seen->slot.used = 0;
	return p;
}
