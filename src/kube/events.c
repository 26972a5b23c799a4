/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "kube/internal.h"
#include "kube/kinds.h"
#include "kube/time.h"

/* --- sending, one event at a time --- */

enum { TRIES_MAX = 3, AGAIN_MS = 10000, SAY_MS = 60000, NAME_MAX_LEN = 230 };

/* The Event object on the server that belongs to a remembered event of the filter. */
struct known {
	char *ns, *name;
	int64_t first_ms;
};

struct pending {
	struct pending *next;
	bool is_new;
	int count, tries;
	int64_t first_ms, at_ms;
	char *ns, *name; /* of the Event object */
	char *object;	 /* its involvedObject, as JSON */
	bool warning;
	char *reason, *message;
};

struct kube_events {
	struct kube *k;
	char *component, *host;
	struct kube_event_filter *filter;
	struct known known[KUBE_EVENTS_SEEN];
	struct pending *first, **last;
	size_t n;
	struct kube_call *call;
	struct loop_alarm again;
	bool logged;
	int64_t logged_at;
};

static void send_first(void *arg);

struct kube_events *kube_events_new(struct kube *k, const char *component, const char *host)
{
	struct kube_events *s = xcalloc(1, sizeof(*s));

	s->k = k;
	s->component = xstrdup(component);
	s->host = xstrdup(host ? host : "");
	s->filter = kube_event_filter_new();
	s->last = &s->first;
	s->again = LOOP_ALARM(kube_loop(k), send_first, s);
	return s;
}

static void drop_first(struct kube_events *s)
{
	struct pending *p = s->first;

	s->first = p->next;
	if (!s->first)
		s->last = &s->first;
	s->n--;
	free(p->ns);
	free(p->name);
	free(p->object);
	free(p->reason);
	free(p->message);
	free(p);
}

void kube_events_free(struct kube_events *s)
{
	if (!s)
		return;
	kube_cancel(s->call);
	loop_alarm_cancel(&s->again);
	while (s->first)
		drop_first(s);
	for (size_t i = 0; i < KUBE_EVENTS_SEEN; i++) {
		free(s->known[i].ns);
		free(s->known[i].name);
	}
	kube_event_filter_free(s->filter);
	free(s->component);
	free(s->host);
	free(s);
}

size_t kube_events_waiting(const struct kube_events *s)
{
	return s->n;
}

/* --- bodies of Events --- */

static char *object_json(const struct kube_event *e)
{
	struct json_out o;
	struct buf b;

	buf_init(&b, KUBE_BODY_MAX);
	jo_init(&o, &b, 0);
	jo_obj(&o);
	jo_kstr(&o, "apiVersion", e->api_version);
	jo_kstr(&o, "kind", e->kind);
	if (e->ns && *e->ns)
		jo_kstr(&o, "namespace", e->ns);
	jo_kstr(&o, "name", e->name);
	if (e->uid && *e->uid)
		jo_kstr(&o, "uid", e->uid);
	jo_end_obj(&o);
	return buf_take(&b);
}

/* Returns the message, truncated to 1024 bytes at a character boundary. */
static char *message_text(const char *text, bool combined)
{
	char *all = xasprintf("%s%s", combined ? "(combined from similar events): " : "", text);
	size_t n = strlen(all);

	if (n > KUBE_EVENT_MESSAGE_MAX) {
		n = KUBE_EVENT_MESSAGE_MAX;
		while (n > 0 && ((unsigned char)all[n] & 0xc0) == 0x80)
			n--;
		all[n] = '\0';
	}
	return all;
}

static void put_new(struct kube_events *s, const struct pending *p, struct json_out *o)
{
	char first[KUBE_TIME_MAX], last[KUBE_TIME_MAX];

	kube_time_text(p->first_ms, first);
	kube_time_text(p->at_ms, last);
	jo_obj(o);
	jo_kstr(o, "apiVersion", "v1");
	jo_kstr(o, "kind", "Event");
	jo_key(o, "metadata");
	jo_obj(o);
	jo_kstr(o, "name", p->name);
	jo_kstr(o, "namespace", p->ns);
	jo_end_obj(o);
	jo_kstr(o, "type", p->warning ? "Warning" : "Normal");
	jo_kstr(o, "reason", p->reason);
	jo_kstr(o, "message", p->message);
	jo_kint(o, "count", p->count);
	jo_kstr(o, "firstTimestamp", first);
	jo_kstr(o, "lastTimestamp", last);
	jo_key(o, "source");
	jo_obj(o);
	jo_kstr(o, "component", s->component);
	if (*s->host)
		jo_kstr(o, "host", s->host);
	jo_end_obj(o);
	jo_kstr(o, "reportingComponent", s->component);
	jo_kstr(o, "reportingInstance", s->host);
}

static void put_again(const struct pending *p, struct json_out *o)
{
	char last[KUBE_TIME_MAX];

	kube_time_text(p->at_ms, last);
	jo_obj(o);
	jo_kint(o, "count", p->count);
	jo_kstr(o, "lastTimestamp", last);
	jo_kstr(o, "message", p->message);
	jo_end_obj(o);
}

static void put_body(struct kube_events *s, const struct pending *p, struct buf *b)
{
	struct json_out o;

	jo_init(&o, b, 0);
	if (!p->is_new) {
		put_again(p, &o);
		return;
	}
	put_new(s, p, &o);
	/* p->object is JSON text, so it is appended as the last member. */
	buf_printf(b, ",\"involvedObject\":%s}", p->object);
}

/* --- requests that write Events --- */

static void log_failure(struct kube_events *s, const struct err *e)
{
	int64_t now = loop_now_ms(kube_loop(s->k));

	if (s->logged && now - s->logged_at < SAY_MS)
		return;
	s->logged = true;
	s->logged_at = now;
	log_warn("kube: failed to write an event", LOG_S("error", e->text));
}

static void on_sent(void *arg, int status, const struct json *event, const struct err *e)
{
	struct kube_events *s = arg;
	struct pending *p = s->first;

	(void)event;
	s->call = NULL;
	/* Creates the event again if it is missing: by default the server deletes events after an
	 * hour. */
	if (status == 404 && !p->is_new) {
		p->is_new = true;
		send_first(s);
		return;
	}
	if (e && status != 409)
		log_failure(s, e);
	if (e && e->kind == ERR_AGAIN && status != 409 && ++p->tries < TRIES_MAX) {
		loop_alarm_set(&s->again, AGAIN_MS);
		return;
	}
	drop_first(s);
	if (s->first)
		send_first(s);
}

static void send_first(void *arg)
{
	struct kube_events *s = arg;
	const struct pending *p = s->first;
	struct kube_request r = {
		.verb = p->is_new ? KUBE_CREATE : KUBE_MERGE_PATCH,
		.on = {.kind = &kube_events_kind, .ns = p->ns, .name = p->name},
	};
	auto_buf struct buf body;

	buf_init(&body, KUBE_BODY_MAX);
	put_body(s, p, &body);
	r.body = buf_span(&body);
	s->call = kube_send(s->k, &r, on_sent, s);
}

/* --- queueing an event --- */

/* Names the event as client-go does: the object's name and the time in nanoseconds; the slot number
 * distinguishes two events of the same millisecond. */
static void name_event(struct known *k, const struct kube_event *e, int64_t now, unsigned int slot)
{
	free(k->ns);
	free(k->name);
	k->ns = xstrdup(e->ns && *e->ns ? e->ns : "default");
	k->name = xasprintf("%.*s.%llx", NAME_MAX_LEN, e->name,
			    (unsigned long long)now * 1000000 + slot);
	k->first_ms = now;
}

void kube_events_add(struct kube_events *s, const struct kube_event *e)
{
	struct kube_event_plan plan =
		kube_event_filter_add(s->filter, e, loop_now_ms(kube_loop(s->k)));
	struct known *known = &s->known[plan.slot];
	int64_t now = now_real_ms();
	struct pending *p;

	if (plan.fate == KUBE_EVENT_DROP)
		return;
	if (plan.fate == KUBE_EVENT_NEW)
		name_event(known, e, now, plan.slot);
	if (s->n == KUBE_EVENTS_WAITING)
		return;
	p = xcalloc(1, sizeof(*p));
	*p = (struct pending){.is_new = plan.fate == KUBE_EVENT_NEW,
			      .count = plan.count,
			      .first_ms = known->first_ms,
			      .at_ms = now,
			      .ns = xstrdup(known->ns),
			      .name = xstrdup(known->name),
			      .object = object_json(e),
			      .warning = e->warning,
			      .reason = xstrdup(e->reason),
			      .message = message_text(e->message, plan.combined)};
	*s->last = p;
	s->last = &p->next;
	if (s->n++ == 0)
		send_first(s);
}

/* --- filter: events to drop, to create, to update and to combine --- */

enum {
	SOURCES = 128,
	GROUPS = 128,
	BURST = 25,
	REFILL_MS = 300000,
	DIFFERENT = 10,
	GROUP_MS = 600000,
};

/* First member of the entries of the filter's three tables, which find() searches. */
struct slot {
	uint64_t key;
	int64_t used; /* loop time of the last use, plus 1; 0: free */
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

/* FNV-1a over the string and its NUL, so that "a" "bc" and "ab" "c" differ. */
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
	const char *const parts[] = {e->kind, e->ns, e->name, e->uid};
	uint64_t key = 0xcbf29ce484222325;

	for (size_t i = 0; i < ARRAY_LEN(parts); i++)
		key = add_word(key, parts[i]);
	return key;
}

/* Returns the slot of this key and sets *is_new to false. If the key has no slot, zeroes a free
 * slot or else the least recently used one, assigns it to the key and sets *is_new to true. */
static void *find(void *table, size_t n, size_t size, uint64_t key, int64_t now, bool *is_new)
{
	struct slot *oldest = table;

	*is_new = false;
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
	*is_new = true;
	return oldest;
}

#define FIND(table, key, now, is_new)                                                              \
	find(table, ARRAY_LEN(table), sizeof((table)[0]), key, now, is_new)

static bool may_speak(struct kube_event_filter *f, uint64_t object, int64_t now)
{
	bool is_new;
	struct source *s = FIND(f->sources, object, now, &is_new);
	int64_t n;

	if (is_new) {
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

/* Returns whether to combine the message: it differs from all messages that its group has
 * recorded since the start of its interval of GROUP_MS, and the group has recorded DIFFERENT
 * messages already. */
static bool is_combined(struct kube_event_filter *f, uint64_t kind, const char *text, int64_t now)
{
	uint64_t message = add_word(kind, text);
	bool is_new;
	struct group *g = FIND(f->groups, kind, now, &is_new);

	if (is_new || now - g->since > GROUP_MS) {
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
	bool is_new;

	kind = add_word(add_word(object, e->warning ? "Warning" : "Normal"), e->reason);
	p.combined = is_combined(f, kind, e->message, now);
	seen = FIND(f->seen, p.combined ? kind : add_word(kind, e->message), now, &is_new);
	p.slot = (unsigned int)(seen - f->seen);
	p.count = ++seen->count;
	if (is_new)
		p.fate = KUBE_EVENT_NEW;
	if (!may_speak(f, object, now))
		p.fate = KUBE_EVENT_DROP;
	/* Forgets a new event that is dropped: the server does not have it, so its next
	 * occurrence must create the Event instead of incrementing a count. */
	if (is_new && p.fate == KUBE_EVENT_DROP)
		seen->slot.used = 0;
	return p;
}
