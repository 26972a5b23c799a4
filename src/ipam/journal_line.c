/* SPDX-License-Identifier: Apache-2.0 */
#include "ipam/journal_line.h"

#include <errno.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/num.h"

/* The states' words; what is not here comes from host-local and is never written. */
static const char *const words[] = {
	[LEASE_USED] = "grant",
	[LEASE_FREE] = "free",
	[LEASE_KEPT] = "keep",
	[LEASE_QUARANTINED] = "quarantine",
};

static const struct {
	char key[8];
	size_t offset;
} texts[] = {
	{"id", offsetof(struct lease, container_id)}, {"ns", offsetof(struct lease, pod_namespace)},
	{"pod", offsetof(struct lease, pod_name)},    {"uid", offsetof(struct lease, pod_uid)},
	{"netns", offsetof(struct lease, netns)},     {"if", offsetof(struct lease, ifname)},
	{"net", offsetof(struct lease, network)},     {"pool", offsetof(struct lease, pool)},
};

static const char **text_at(struct lease *l, size_t i)
{
	return (const char **)((char *)l + texts[i].offset);
}

/* --- writing --- */

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

/* The word of a state starts with a clean slate. */
static void put_word(struct line_writer *w, const struct lease *l)
{
	buf_printf(w->b, "%s%s t=%" PRId64, w->begun ? " " : "", words[l->state], l->at_ms);
	w->last = (struct lease)LEASE_INIT;
	w->last.state = l->state;
	w->last.at_ms = l->at_ms;
	w->begun = true;
}

void line_put(struct line_writer *w, const struct lease *l)
{
	char text[MAC_TEXT_MAX];

	if (!w->begun || l->state != w->last.state || l->at_ms != w->last.at_ms)
		put_word(w, l);
	for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
		const char *now = *text_at((struct lease *)l, i);

		if (strcmp(now, *text_at(&w->last, i)) != 0)
			put_text(w->b, texts[i].key, now);
	}
	if (l->sticky != w->last.sticky)
		buf_printf(w->b, " sticky=%d", l->sticky);
	if (!mac_eq(&l->other, &w->last.other))
		buf_printf(w->b, " mac=%s", mac_str(&l->other, text));
	buf_printf(w->b, " ip=%s", ipnet_str(&l->address, (char[IP_TEXT_MAX]){0}));
	w->last = *l;
}

void line_end(struct line_writer *w)
{
	buf_printf(w->b, " #%016" PRIx64 "\n", xxh64(w->b->p + w->start, w->b->len - w->start));
}

/* --- reading --- */

bool line_is_whole(const char *line, size_t n)
{
	uint64_t sum;

	if (n <= LINE_SUM_MAX || line[n - LINE_SUM_MAX] != ' ' || line[n - LINE_SUM_MAX + 1] != '#')
		return false;
	if (num_hex((struct span){line + n - 16, 16}, UINT64_MAX, &sum) < 0)
		return false;
	return sum == xxh64(line, n - LINE_SUM_MAX);
}

static int hex_digit(char c)
{
	return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* In place; the text only gets shorter. */
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
	return err_set(e, -EPROTO, "'%.60s' is not known to this release of unirail", what);
}

/* A word without '=': which state follows. "~word" is of a later release and may be ignored. */
static int apply_word(const char *token, struct lease *l, bool *ignored, struct err *e)
{
	*ignored = token[0] == '~';
	if (*ignored)
		return 0;
	for (size_t i = 0; i < ARRAY_LEN(words); i++)
		if (strcmp(words[i], token) == 0) {
			*l = (struct lease)LEASE_INIT;
			l->state = (enum lease_state)i;
			return 0;
		}
	return not_understood(token, e);
}

static int apply_number(const char *key, const char *value, struct lease *l)
{
	int64_t v;

	if (num_i64(span_of(value), INT64_MIN, INT64_MAX, &v) < 0)
		return -EPROTO;
	if (strcmp(key, "t") == 0)
		l->at_ms = v;
	else
		l->sticky = v != 0;
	return 0;
}

/* A key this release does not know says more than it needs to know. */
static int apply_field(char *key, char *value, struct lease *l, struct lease_table *t)
{
	if (strcmp(key, "ip") == 0) {
		if (ipnet_parse(span_of(value), &l->address) < 0)
			return -EPROTO;
		lease_put(t, l);
		return 0;
	}
	if (strcmp(key, "t") == 0 || strcmp(key, "sticky") == 0)
		return apply_number(key, value, l);
	if (strcmp(key, "mac") == 0) {
		l->other.len = 0;
		return *value && mac_parse(span_of(value), &l->other) < 0 ? -EPROTO : 0;
	}
	for (size_t i = 0; i < ARRAY_LEN(texts); i++)
		if (strcmp(key, texts[i].key) == 0) {
			unescape(value);
			*text_at(l, i) = value;
			break;
		}
	return 0;
}

int line_apply(char *line, size_t n, struct lease_table *t, struct err *e)
{
	struct lease l = LEASE_INIT;
	bool ignored = true;
	char *end = line + n - LINE_SUM_MAX, *next;
	int r = 0;

	*end = '\0';
	for (char *token = line; token < end && r == 0; token = next) {
		char *space = memchr(token, ' ', (size_t)(end - token)), *value;

		next = space ? space + 1 : end;
		if (space)
			*space = '\0';
		value = strchr(token, '=');
		if (!value) {
			r = apply_word(token, &l, &ignored, e);
		} else if (!ignored) {
			*value++ = '\0';
			if (apply_field(token, value, &l, t) < 0)
				r = not_understood(token, e);
		}
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
