/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/verify/verify_msg.h"
#include "cli/verify/verify_tcp.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/loop.h"
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

/* The fields in the order of a line: `text` is last, since its value is the rest of the line. */
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
	F("link_mtu", T_U32, link_mtu),
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

/* Replaces line breaks and other bytes that are not printable ASCII, so that any text stays on one
 * line. */
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
	memset(ret + s.n, 0, size - s.n); /* clears the bytes after the value */
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

	return err_set(e, -EBADMSG, "the peer sent an invalid value of '%s': '%.40s'", f->key,
		       text);
}

/* Parses the field at the beginning of *rest. */
static int parse_field(struct span *rest, struct verify_msg *m, struct err *e)
{
	struct span whole = *rest, one, key;

	span_cut(rest, ' ', &one);
	if (!span_cut(&one, '=', &key) || !one.p)
		return err_set(e, -EBADMSG, "the peer sent a word that is not 'key=value'");
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
		return err_set(e, -EBADMSG, "the peer is not 'unirail verify'");
	rest->p += strlen(MAGIC);
	rest->n -= strlen(MAGIC);
	span_cut(rest, ' ', &word);
	if (num_u64(word, 0, UINT32_MAX, &version) < 0)
		return err_set(e, -EBADMSG, "the peer is not 'unirail verify'");
	if (version != VERIFY_VERSION)
		return err_set(e, -EPROTONOSUPPORT,
			       "the peer uses version %u of the protocol, this side %d: use the "
			       "same version of unirail on both sides",
			       (unsigned int)version, VERIFY_VERSION);
	if (!span_cut(rest, ' ', &word))
		return err_set(e, -EBADMSG,
			       "the peer sent a line without a message after the protocol version");
	for (m->verb = 0; m->verb < VERIFY_VERBS; m->verb++)
		if (span_eq(word, verbs[m->verb]))
			return 0;
	return err_set(e, -EBADMSG, "the peer sent an unknown message");
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

/* --- addresses --- */

static int parse_port(struct span s, uint16_t *ret)
{
	uint64_t v;
	int r = num_u64(s, 1, 65535, &v);

	if (r == 0)
		*ret = (uint16_t)v;
	return r;
}

int verify_place_parse(const char *s, struct verify_place *ret, struct err *e)
{
	struct verify_place p = {.port = VERIFY_PORT};
	struct span host = span_of(s);
	const char *colon = strrchr(s, ':'), *end = strchr(s, ']');
	int r = 0;

	if (s[0] == '[' && end) {
		host = (struct span){s + 1, (size_t)(end - s) - 1};
		if (end[1])
			r = end[1] == ':' ? parse_port(span_of(end + 2), &p.port) : -EINVAL;
	} else if (colon && strchr(s, ':') == colon) {
		host.n = (size_t)(colon - s);
		r = parse_port(span_of(colon + 1), &p.port);
	}
	if (r < 0 || host.n >= sizeof(p.host))
		return err_set(
			e, -EINVAL,
			"invalid address '%s': expected HOST, HOST:PORT or [IPV6]:PORT, HOST of "
			"at most 255 bytes, port 1 to 65535",
			s);
	memcpy(p.host, host.p, host.n);
	*ret = p;
	return 0;
}

static int resolve(const struct verify_place *p, int flags, struct addrinfo **ret, struct err *e)
{
	struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = flags};
	char port[8];
	int r;

	snprintf(port, sizeof(port), "%u", p->port);
	r = getaddrinfo(p->host[0] ? p->host : NULL, port, &hints, ret);
	if (r)
		return err_set(e, -EHOSTUNREACH, "find address of '%s': %s", p->host,
			       gai_strerror(r));
	return 0;
}

/* --- opening --- */

/* Disables Nagle's algorithm, since messages are short and the peer waits for each; enables
 * keepalive. */
static void set_up(int fd)
{
	int one = 1;

	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof(one));
}

static int wait_connected(int fd, int timeout_ms)
{
	struct pollfd p = {fd, POLLOUT, 0};
	int n = poll(&p, 1, timeout_ms), code = 0;
	socklen_t size = sizeof(code);

	if (n <= 0)
		return n < 0 ? -errno : -ETIMEDOUT;
	if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &code, &size) < 0)
		return -errno;
	return -code;
}

static int try_connect(const struct addrinfo *a, int timeout_ms, int *ret)
{
	auto_fd int fd =
		socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, IPPROTO_TCP);
	int r;

	if (fd < 0)
		return -errno;
	r = connect(fd, a->ai_addr, a->ai_addrlen) < 0 ? -errno : 0;
	if (r == -EINPROGRESS)
		r = wait_connected(fd, timeout_ms);
	if (r < 0)
		return r;
	set_up(fd);
	*ret = take_fd(&fd);
	return 0;
}

int verify_connect(struct verify_conn *c, const struct verify_place *to, int timeout_ms,
		   struct err *e)
{
	struct addrinfo *list, *a;
	int r = resolve(to, 0, &list, e);

	if (r < 0)
		return r;
	r = -EHOSTUNREACH;
	for (a = list; a; a = a->ai_next) {
		r = try_connect(a, timeout_ms, &c->fd);
		if (r == 0)
			break;
	}
	freeaddrinfo(list);
	if (r < 0)
		return err_sys(e, r, "connect to '%s' port %u%s", to->host, to->port,
			       r == -ECONNREFUSED ? " (is 'unirail verify --listen' running there?)"
						  : "");
	return 0;
}

static int try_listen(const struct addrinfo *a, int *ret)
{
	auto_fd int fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC, IPPROTO_TCP);
	int one = 1, zero = 0;

	if (fd < 0)
		return -errno;
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	/* lets a socket bound to "::" accept IPv4 as well */
	if (a->ai_family == AF_INET6)
		setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &zero, sizeof(zero));
	if (bind(fd, a->ai_addr, a->ai_addrlen) < 0 || listen(fd, 64) < 0)
		return -errno;
	*ret = take_fd(&fd);
	return 0;
}

int verify_listen(const struct verify_place *at, int *fd, struct err *e)
{
	struct verify_place any = {.port = at->port};
	struct addrinfo *list, *a;
	int r;

	if (!at->host[0])
		str_copy(any.host, sizeof(any.host), "::");
	r = resolve(at->host[0] ? at : &any, AI_PASSIVE, &list, e);
	if (r < 0)
		return r;
	r = -EADDRNOTAVAIL;
	for (a = list; a && r < 0; a = a->ai_next)
		r = try_listen(a, fd);
	freeaddrinfo(list);
	/* if the kernel has no IPv6, listens on 0.0.0.0 instead of "::" */
	if (r < 0 && r != -EADDRINUSE && !at->host[0] && strcmp(any.host, "0.0.0.0")) {
		str_copy(any.host, sizeof(any.host), "0.0.0.0");
		return verify_listen(&any, fd, e);
	}
	return r < 0 ? err_sys(e, r, "listen on '%s' port %u", at->host[0] ? at->host : "*",
			       at->port)
		     : 0;
}

int verify_accept(int fd, struct verify_conn *c, struct err *e)
{
	c->fd = accept4(fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	if (c->fd < 0)
		return err_sys(e, -errno, "accept a connection");
	set_up(c->fd);
	return 0;
}

void verify_conn_close(struct verify_conn *c)
{
	cleanup_fd(&c->fd);
	c->fd = -1;
	c->n = 0;
}

static int address(const struct sockaddr_storage *s, struct ipaddr *ret)
{
	const struct sockaddr_in6 *six = (const void *)s;
	const struct sockaddr_in *four = (const void *)s;

	*ret = (struct ipaddr){.family = 4};
	if (s->ss_family == AF_INET) {
		memcpy(ret->b, &four->sin_addr, 4);
	} else if (IN6_IS_ADDR_V4MAPPED(&six->sin6_addr)) {
		memcpy(ret->b, six->sin6_addr.s6_addr + 12, 4);
	} else {
		ret->family = 6;
		memcpy(ret->b, &six->sin6_addr, 16);
	}
	return 0;
}

int verify_conn_local(const struct verify_conn *c, struct ipaddr *ret, struct err *e)
{
	struct sockaddr_storage s = {0};
	socklen_t size = sizeof(s);

	if (getsockname(c->fd, (struct sockaddr *)&s, &size) < 0)
		return err_sys(e, -errno, "read the local address of the connection");
	return address(&s, ret);
}

int verify_conn_peer(const struct verify_conn *c, struct ipaddr *ret, struct err *e)
{
	struct sockaddr_storage s = {0};
	socklen_t size = sizeof(s);

	if (getpeername(c->fd, (struct sockaddr *)&s, &size) < 0)
		return err_sys(e, -errno, "read the peer's address");
	return address(&s, ret);
}

/* --- messages --- */

int verify_put(struct verify_conn *c, const struct verify_msg *m, struct err *e)
{
	auto_buf struct buf b;
	size_t done = 0;

	buf_init(&b, VERIFY_LINE_MAX);
	verify_msg_put(m, &b);
	while (done < b.len) {
		struct pollfd p = {c->fd, POLLOUT, 0};
		ssize_t n = send(c->fd, b.p + done, b.len - done, MSG_NOSIGNAL);

		if (n < 0 && errno == EAGAIN && poll(&p, 1, VERIFY_TIMEOUT_MS) > 0)
			continue;
		if (n < 0)
			return err_sys(e, -errno, "send to the peer");
		done += (size_t)n;
	}
	return 0;
}

static int peer_closed(struct err *e)
{
	return err_set(e, -EPIPE, "the peer has closed the connection");
}

/* Receives more bytes into `line`. */
static int fill(struct verify_conn *c, int64_t until, struct err *e)
{
	int64_t now = now_mono_ms();
	struct pollfd p = {c->fd, POLLIN, 0};
	ssize_t n;
	int ready = poll(&p, 1, until < 0 ? -1 : until > now ? (int)(until - now) : 0);

	if (ready < 0)
		return err_sys(e, -errno, "wait for the peer");
	if (ready == 0)
		return err_set(e, -ETIMEDOUT,
			       "the peer has sent no complete message within the time limit");
	n = recv(c->fd, c->line + c->n, sizeof(c->line) - c->n, 0);
	if (n < 0 && errno != EAGAIN && errno != ECONNRESET)
		return err_sys(e, -errno, "receive from the peer");
	if (n == 0 || (n < 0 && errno == ECONNRESET))
		return peer_closed(e);
	c->n += n > 0 ? (size_t)n : 0;
	return 0;
}

int verify_get(struct verify_conn *c, struct verify_msg *ret, int timeout_ms, struct err *e)
{
	int64_t until = timeout_ms < 0 ? -1 : now_mono_ms() + timeout_ms;
	struct verify_msg m;
	char *end;
	int r = 0;

	while (!(end = memchr(c->line, '\n', c->n))) {
		if (c->n == sizeof(c->line))
			return err_set(e, -EBADMSG, "the peer's line is longer than %d bytes",
				       VERIFY_LINE_MAX);
		r = fill(c, until, e);
		if (r < 0)
			return r;
	}
	r = verify_msg_parse((struct span){c->line, (size_t)(end - c->line)}, &m, e);
	c->n -= (size_t)(end + 1 - c->line);
	memmove(c->line, end + 1, c->n);
	if (r < 0)
		return r;
	if (m.verb == VERIFY_FAIL)
		return err_set(e, -EREMOTEIO, "on the peer: %s", m.text);
	*ret = m;
	return 0;
}

int verify_expect(struct verify_conn *c, enum verify_verb verb, struct verify_msg *ret,
		  struct err *e)
{
	struct verify_msg m = {0};
	int r = verify_get(c, &m, VERIFY_TIMEOUT_MS, e);

	if (r < 0)
		return r;
	if (m.verb != verb)
		return err_set(e, -EPROTO, "the peer sent '%s', expected '%s'",
			       verify_verb_name(m.verb), verify_verb_name(verb));
	*ret = m;
	return 0;
}
