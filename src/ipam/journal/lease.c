/* SPDX-License-Identifier: Apache-2.0 */
#include "ipam/journal/lease.h"

#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "base/num.h"

enum { SLOTS_MIN = 64, ID_SHOWN = 12 };

void lease_table_done(struct lease_table *t)
{
	free(t->v);
	free(t->slots);
	*t = (struct lease_table){0};
}

/* Fibonacci hashing (2^64 / phi) spreads consecutive addresses. The 4 bytes of IPv4 are followed by
 * zeros. */
static size_t slot_of(const struct lease_table *t, const struct ipaddr *a)
{
	uint64_t part[2] = {0};

	memcpy(part, a->b, ip_size(a));
	part[0] = (part[0] ^ part[1] * 0x9e3779b97f4a7c15U) * 0x9e3779b97f4a7c15U;
	return (size_t)(part[0] >> 32) & (t->n_slots - 1);
}

/* Returns the slot of *a, or the empty slot where *a belongs. */
static uint32_t *probe(const struct lease_table *t, const struct ipaddr *a)
{
	size_t i = slot_of(t, a);

	while (t->slots[i] && !ip_eq(&t->v[t->slots[i] - 1].address.ip, a))
		i = (i + 1) & (t->n_slots - 1);
	return &t->slots[i];
}

static void set_slots(struct lease_table *t, size_t n)
{
	free(t->slots);
	t->n_slots = n;
	t->slots = xcalloc(n, sizeof(*t->slots));
	for (size_t i = 0; i < t->n; i++)
		*probe(t, &t->v[i].address.ip) = (uint32_t)i + 1;
}

void lease_table_reserve(struct lease_table *t, size_t n)
{
	size_t slots = t->n_slots ? t->n_slots : SLOTS_MIN;

	if (n <= t->cap)
		return;
	t->cap = n;
	t->v = xrealloc(t->v, n * sizeof(*t->v));
	while (slots < 2 * n)
		slots *= 2;
	if (slots != t->n_slots)
		set_slots(t, slots);
}

struct lease *lease_find(const struct lease_table *t, const struct ipaddr *a)
{
	uint32_t i = t->n_slots ? *probe(t, a) : 0;

	return i ? &t->v[i - 1] : NULL;
}

void lease_put(struct lease_table *t, const struct lease *l)
{
	uint32_t *slot;

	if (t->n == t->cap)
		lease_table_reserve(t, t->cap ? 2 * t->cap : SLOTS_MIN / 2);
	slot = probe(t, &l->address.ip);
	if (*slot) {
		t->v[*slot - 1] = *l;
		return;
	}
	t->v[t->n++] = *l;
	*slot = (uint32_t)t->n;
}

bool lease_is(const struct lease *l, const char *container_id, const char *ifname)
{
	return strcmp(l->container_id, container_id) == 0 &&
	       (!ifname || strcmp(l->ifname, ifname) == 0);
}

void lease_owner_str(const struct lease *l, struct buf *b)
{
	if (*l->pod_name)
		buf_printf(b, "%s/%s", l->pod_namespace, l->pod_name);
	else if (*l->container_id)
		buf_printf(b, "container %.*s", ID_SHOWN, l->container_id);
	else
		buf_str(b, "unknown owner");
	if (*l->ifname)
		buf_printf(b, " %s", l->ifname);
}

bool lease_lasts(const struct lease *l, int64_t now_ms, int64_t period_ms)
{
	/* computed as unsigned, because the difference of two times in a journal can exceed int64_t
	 * */
	return l->at_ms <= now_ms && (uint64_t)now_ms - (uint64_t)l->at_ms < (uint64_t)period_ms;
}

/* --- lines of the journal: keys --- */

/* The operation that gives an address this state. LEASE_ADOPTED has none: such leases come from
 * host-local and are never written. */
static const char *const operations[] = {
	[LEASE_USED] = "allocate",
	[LEASE_FREE] = "release",
	[LEASE_RETAINED] = "retain",
	[LEASE_QUARANTINED] = "quarantine",
};

/* Keys are compared as numbers, because each CNI call reads a journal with thousands of them. */
enum {
	KEY_IP = 'i' << 8 | 'p',
	KEY_TIME = 't',
};
static const uint64_t key_sticky = 0x737469636b79; /* "sticky" */

static const struct {
	char key[8];
	uint64_t number; /* the bytes of the key, as take_key() computes them */
	size_t offset;
} texts[] = {
	{"id", 0x6964, offsetof(struct lease, container_id)},
	{"ns", 0x6e73, offsetof(struct lease, pod_namespace)},
	{"pod", 0x706f64, offsetof(struct lease, pod_name)},
	{"uid", 0x756964, offsetof(struct lease, pod_uid)},
	{"netns", 0x6e65746e73, offsetof(struct lease, netns)},
	{"if", 0x6966, offsetof(struct lease, ifname)},
	{"net", 0x6e6574, offsetof(struct lease, network)},
	{"pool", 0x706f6f6c, offsetof(struct lease, pool)},
	{"mac", 0x6d6163, offsetof(struct lease, other)},
};

static const char **text_at(struct lease *l, size_t i)
{
	return (const char **)((char *)l + texts[i].offset);
}

/* --- lines of the journal: writing --- */

static bool needs_escape(unsigned char c)
{
	return c <= ' ' || c == '%' || c == 0x7f;
}

static void put_text(struct buf *b, const char *key, const char *s)
{
	buf_printf(b, " %s=", key);
	for (; *s; s++) {
		if (needs_escape((unsigned char)*s))
			buf_printf(b, "%%%02x", (unsigned char)*s);
		else
			buf_char(b, *s);
	}
}

void line_begin(struct line_writer *w, struct buf *b)
{
	*w = (struct line_writer){.b = b, .start = b->len, .last = LEASE_INIT};
}

/* Writes the operation of the lease's state, which clears all keys. */
static void put_operation(struct line_writer *w, const struct lease *l)
{
	buf_printf(w->b, "%s%s t=%" PRId64, w->begun ? " " : "", operations[l->state], l->at_ms);
	w->last = (struct lease)LEASE_INIT;
	w->last.state = l->state;
	w->last.at_ms = l->at_ms;
	w->begun = true;
}

void line_put(struct line_writer *w, const struct lease *l)
{
	char text[IP_TEXT_MAX];

	if (!w->begun || l->state != w->last.state || l->at_ms != w->last.at_ms)
		put_operation(w, l);
	for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
		const char *now = *text_at((struct lease *)l, i);

		if (strcmp(now, *text_at(&w->last, i)) != 0)
			put_text(w->b, texts[i].key, now);
	}
	if (l->sticky != w->last.sticky)
		buf_printf(w->b, " sticky=%d", l->sticky);
	buf_printf(w->b, " ip=%s", ipnet_str(&l->address, text));
	w->last = *l;
}

void line_end(struct line_writer *w)
{
	buf_printf(w->b, " #%016" PRIx64 "\n", xxh64(w->b->p + w->start, w->b->len - w->start));
}

/* --- lines of the journal: reading --- */

bool line_is_whole(const char *line, size_t n)
{
	uint64_t sum;

	if (n <= LINE_SUM_MAX || line[n - LINE_SUM_MAX] != ' ' || line[n - LINE_SUM_MAX + 1] != '#')
		return false;
	if (num_hex((struct span){line + n - 16, 16}, UINT64_MAX, &sum) < 0)
		return false;
	return sum == xxh64(line, n - LINE_SUM_MAX);
}

uint64_t line_sum(const char *line, size_t n)
{
	uint64_t sum = 0;

	if (n > 16)
		(void)num_hex((struct span){line + n - 16, 16}, UINT64_MAX, &sum);
	return sum;
}

static int hex_digit(char c)
{
	return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Decodes "%xx" in place; the string never becomes longer. */
static void unescape(char *s)
{
	char *to = strchr(s, '%');

	if (!to)
		return;
	for (s = to; *s; s++) {
		int high = *s == '%' ? hex_digit(s[1]) : -1;
		int low = high >= 0 ? hex_digit(s[2]) : -1;

		if (low >= 0) {
			*to++ = (char)(high << 4 | low);
			s += 2;
		} else {
			*to++ = *s;
		}
	}
	*to = '\0';
}

static int not_understood(const char *what, struct err *e)
{
	return err_set(e, -EPROTO, "'%.60s' is unknown to this release of unirail", what);
}

/* A word without '=' is an operation. A later release may write "~word", which is ignored with
 * the keys up to the next operation. */
static int apply_operation(const char *token, struct lease *l, bool *ignored, struct err *e)
{
	*ignored = token[0] == '~';
	if (*ignored)
		return 0;
	for (size_t i = 0; i < ARRAY_LEN(operations); i++)
		if (strcmp(operations[i], token) == 0) {
			*l = (struct lease)LEASE_INIT;
			l->state = (enum lease_state)i;
			return 0;
		}
	return not_understood(token, e);
}

static int apply_number(struct span value, int64_t *ret)
{
	return num_i64(value, INT64_MIN, INT64_MAX, ret) < 0 ? -EPROTO : 0;
}

/* Parses "10.0.0.1/24" as written by line_put(), with fewer checks than for user input. */
static bool quick_ipv4(struct span s, struct ipnet *ret)
{
	unsigned int part[5] = {0}, n = 0;

	for (size_t i = 0; i < s.n; i++) {
		char c = s.p[i];

		if (c >= '0' && c <= '9') {
			part[n] = part[n] * 10 + (unsigned int)(c - '0');
			if (part[n] > 255)
				return false;
		} else if (c != (n == 3 ? '/' : '.') || ++n > 4) {
			return false;
		}
	}
	if (n != 4 || part[4] > 32)
		return false;
	*ret = (struct ipnet){.ip.family = 4, .len = (uint8_t)part[4]};
	for (unsigned int i = 0; i < 4; i++)
		ret->ip.b[i] = (uint8_t)part[i];
	return true;
}

static int apply_address(struct span value, struct lease *l, struct lease_table *t)
{
	if (!quick_ipv4(value, &l->address) && ipnet_parse(value, &l->address) < 0)
		return -EPROTO;
	lease_put(t, l);
	return 0;
}

/* Unknown keys (of a later release) are ignored. `value` is NUL-terminated. */
static int apply_field(uint64_t key, struct span value, bool escaped, struct lease *l,
		       struct lease_table *t)
{
	int64_t n;

	if (key == KEY_IP)
		return apply_address(value, l, t);
	if (key == KEY_TIME)
		return apply_number(value, &l->at_ms);
	if (key == key_sticky) {
		int r = apply_number(value, &n);

		l->sticky = r == 0 && n != 0;
		return r;
	}
	for (size_t i = 0; i < ARRAY_LEN(texts); i++)
		if (key == texts[i].number) {
			if (escaped)
				unescape((char *)value.p);
			*text_at(l, i) = value.p;
			break;
		}
	return 0;
}

/* Returns the key as a number, 0 if it is longer than 8 bytes; *at moves to the end of the key:
 * '=', or the end of the word. */
static uint64_t take_key(const char **at)
{
	const char *p = *at;
	uint64_t v = 0;

	for (; *p != '=' && *p != ' ' && *p; p++)
		v = v << 8 | (unsigned char)*p;
	v = p - *at > 8 ? 0 : v;
	*at = p;
	return v;
}

int line_apply(char *line, size_t n, struct lease_table *t, struct err *e)
{
	char *end = line + n - LINE_SUM_MAX, *next;
	bool ignored = true, escaped = memchr(line, '%', n);
	struct lease l = LEASE_INIT;
	int r = 0;

	*end = '\0';
	for (char *token = line; token < end && r == 0; token = next + 1) {
		const char *at = token;
		uint64_t key = take_key(&at);
		struct span value;

		next = memchr(at, ' ', (size_t)(end - at));
		if (!next)
			next = end;
		*next = '\0';
		value = (struct span){at + 1, (size_t)(next - at) - 1};
		if (at == next)
			r = apply_operation(token, &l, &ignored, e);
		else if (!ignored && apply_field(key, value, escaped, &l, t) < 0)
			r = not_understood(token, e);
	}
	return r;
}

size_t line_salvage(const char *line, size_t n, struct ipnet **ret)
{
	struct span rest = {line, n}, token;
	struct ipnet *v = NULL, net;
	size_t count = 0;

	while (span_cut(&rest, ' ', &token))
		if (span_has_prefix(token, "ip=") &&
		    ipnet_parse((struct span){token.p + 3, token.n - 3}, &net) == 0)
			VEC_PUSH(v, count) = net;
	*ret = v;
	return count;
}
