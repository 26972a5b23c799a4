/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/verify/verify_msg.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/num.h"

#define MAGIC "unirail-verify/"

enum type { T_U32, T_INT, T_U64, T_HEX32, T_HEX64, T_WORD, T_IP, T_NET, T_GID, T_TEXT };

struct field {
	const char *key;
	enum type type;
	size_t offset, size;
};
#define F(key, type, member)                                                                       \
	{                                                                                          \
		key, type, offsetof(struct verify_msg, member),                                    \
			sizeof(((struct verify_msg *)NULL)->member)                                \
	}

/* text is the last: it takes the rest of the line. */
static const struct field fields[] = {
	F("op", T_WORD, op),
	F("at", T_IP, at),
	F("size", T_U32, size),
	F("depth", T_U32, depth),
	F("ethernet", T_U32, ethernet),
	F("qpn", T_U32, qpn),
	F("psn", T_U32, psn),
	F("lid", T_U32, lid),
	F("gid", T_GID, gid),
	F("mtu", T_U32, path_mtu),
	F("reads", T_U32, reads),
	F("rkey", T_HEX32, rkey),
	F("addr", T_HEX64, addr),
	F("len", T_U64, len),
	F("device", T_WORD, device),
	F("port", T_U32, port),
	F("gid_index", T_INT, gid_index),
	F("ifname", T_WORD, ifname),
	F("net", T_NET, net),
	F("step", T_WORD, step),
	F("seed", T_U64, seed),
	F("count", T_U64, count),
	F("lat_min", T_U64, lat_min),
	F("lat_avg", T_U64, lat_avg),
	F("lat_p50", T_U64, lat_p50),
	F("lat_p99", T_U64, lat_p99),
	F("rate", T_U64, rate),
	F("bytes", T_U64, bytes),
	F("text", T_TEXT, text),
};

static const char *const verbs[VERIFY_VERBS] = {"hello", "ready", "step", "done",
						"bye",	 "rails", "rail", "fail"};

const char *verify_verb_name(enum verify_verb v)
{
	return verbs[v];
}

/* --- writing --- */

static bool is_zero(const void *p, size_t n)
{
	const unsigned char *c = p;

	for (size_t i = 0; i < n; i++)
		if (c[i])
			return false;
	return true;
}

static void put_gid(struct buf *b, const uint8_t *gid)
{
	for (size_t i = 0; i < 16; i++)
		buf_printf(b, "%02x", gid[i]);
}

/* One line whatever the text is. */
static void put_text(struct buf *b, const char *s)
{
	for (; *s; s++)
		buf_char(b, *s >= ' ' && *s < 0x7f ? *s : '?');
}

static void put_field(struct buf *b, const struct field *f, const void *p)
{
	char text[IP_TEXT_MAX];

	buf_printf(b, " %s=", f->key);
	switch (f->type) {
	case T_U32: buf_printf(b, "%u", *(const uint32_t *)p); break;
	case T_INT: buf_printf(b, "%d", *(const int32_t *)p); break;
	case T_U64: buf_printf(b, "%llu", (unsigned long long)*(const uint64_t *)p); break;
	case T_HEX32: buf_printf(b, "%x", *(const uint32_t *)p); break;
	case T_HEX64: buf_printf(b, "%llx", (unsigned long long)*(const uint64_t *)p); break;
	case T_IP: buf_str(b, ip_str(p, text)); break;
	case T_NET: buf_str(b, ipnet_str(p, text)); break;
	case T_GID: put_gid(b, p); break;
	case T_WORD:
	case T_TEXT: put_text(b, p); break;
	}
}

void verify_msg_put(const struct verify_msg *m, struct buf *b)
{
	buf_printf(b, MAGIC "%d %s", VERIFY_VERSION, verbs[m->verb]);
	for (size_t i = 0; i < ARRAY_LEN(fields); i++) {
		const char *p = (const char *)m + fields[i].offset;

		if (!is_zero(p, fields[i].size))
			put_field(b, &fields[i], p);
	}
	buf_char(b, '\n');
}

/* --- reading --- */

static int get_gid(struct span s, uint8_t *ret)
{
	uint8_t gid[16];

	if (s.n != 32)
		return -EINVAL;
	for (size_t i = 0; i < 16; i++) {
		uint64_t v;

		if (s.p[2 * i] == '0' && (s.p[2 * i + 1] | 32) == 'x')
			return -EINVAL;
		if (num_hex((struct span){s.p + 2 * i, 2}, 0xff, &v) < 0)
			return -EINVAL;
		gid[i] = (uint8_t)v;
	}
	memcpy(ret, gid, sizeof(gid));
	return 0;
}

static int get_word(struct span s, char *ret, size_t size)
{
	if (s.n >= size)
		return -ERANGE;
	for (size_t i = 0; i < s.n; i++)
		if (s.p[i] < ' ' || s.p[i] > '~')
			return -EINVAL;
	memcpy(ret, s.p, s.n);
	memset(ret + s.n, 0, size - s.n); /* of the same key before */
	return 0;
}

static int get_number(const struct field *f, struct span s, void *p)
{
	uint64_t v = 0;
	int64_t i = 0;
	int r;

	if (f->type == T_INT) {
		r = num_i64(s, INT32_MIN, INT32_MAX, &i);
		if (r == 0)
			*(int32_t *)p = (int32_t)i;
		return r;
	}
	if (f->type == T_HEX32 || f->type == T_HEX64)
		r = num_hex(s, f->size == 4 ? UINT32_MAX : UINT64_MAX, &v);
	else
		r = num_u64(s, 0, f->size == 4 ? UINT32_MAX : UINT64_MAX, &v);
	if (r == 0 && f->size == 4)
		*(uint32_t *)p = (uint32_t)v;
	else if (r == 0)
		*(uint64_t *)p = v;
	return r;
}

static int get_field(const struct field *f, struct span s, void *p)
{
	switch (f->type) {
	case T_WORD:
	case T_TEXT: return get_word(s, p, f->size);
	case T_IP: return ip_parse(s, p);
	case T_NET: return ipnet_parse(s, p);
	case T_GID: return get_gid(s, p);
	default: return get_number(f, s, p);
	}
}

static int wrong(const struct field *f, struct span s, struct err *e)
{
	auto_free char *text = span_dup(s);

	return err_set(e, -EBADMSG, "the peer's '%s' is '%.40s'", f->key, text);
}

/* *rest begins with the field. */
static int parse_field(struct span *rest, struct verify_msg *m, struct err *e)
{
	struct span whole = *rest, one, key;

	span_cut(rest, ' ', &one);
	if (!span_cut(&one, '=', &key) || !one.p)
		return err_set(e, -EBADMSG, "the peer sent a word that is no 'key=value'");
	for (size_t i = 0; i < ARRAY_LEN(fields); i++) {
		const struct field *f = &fields[i];

		if (!span_eq(key, f->key))
			continue;
		if (f->type == T_TEXT) {
			one.n = (size_t)(whole.p + whole.n - one.p);
			*rest = (struct span){NULL, 0};
		}
		return get_field(f, one, (char *)m + f->offset) < 0 ? wrong(f, one, e) : 0;
	}
	return 0;
}

static int parse_head(struct span *rest, struct verify_msg *m, struct err *e)
{
	struct span word;
	uint64_t version;

	if (!span_has_prefix(*rest, MAGIC))
		return err_set(e, -EBADMSG, "the peer is no 'unirail verify'");
	rest->p += strlen(MAGIC);
	rest->n -= strlen(MAGIC);
	span_cut(rest, ' ', &word);
	if (num_u64(word, 0, UINT32_MAX, &version) < 0)
		return err_set(e, -EBADMSG, "the peer is no 'unirail verify'");
	if (version != VERIFY_VERSION)
		return err_set(e, -EPROTONOSUPPORT,
			       "the peer speaks version %u of this exchange, this side %d: use the "
			       "same unirail on both sides",
			       (unsigned int)version, VERIFY_VERSION);
	if (!span_cut(rest, ' ', &word))
		return err_set(e, -EBADMSG, "the peer said nothing");
	for (m->verb = 0; m->verb < VERIFY_VERBS; m->verb++)
		if (span_eq(word, verbs[m->verb]))
			return 0;
	return err_set(e, -EBADMSG, "the peer said what this side does not know");
}

int verify_msg_parse(struct span line, struct verify_msg *ret, struct err *e)
{
	struct verify_msg m = {0};
	int r;

	if (line.n >= VERIFY_LINE_MAX)
		return err_set(e, -EBADMSG, "the peer's line is longer than %d bytes",
			       VERIFY_LINE_MAX);
	r = parse_head(&line, &m, e);
	while (r == 0 && line.p && line.n)
		r = parse_field(&line, &m, e);
	if (r == 0)
		*ret = m;
	return r;
}
