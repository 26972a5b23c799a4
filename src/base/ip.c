/* SPDX-License-Identifier: Apache-2.0 */
#include "base/ip.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "base/num.h"

unsigned int ip_bits(const struct ipaddr *a)
{
	return a->family == 4 ? 32 : 128;
}

unsigned int ip_size(const struct ipaddr *a)
{
	return a->family == 4 ? 4 : 16;
}

bool ip_eq(const struct ipaddr *a, const struct ipaddr *b)
{
	return ip_cmp(a, b) == 0;
}

int ip_cmp(const struct ipaddr *a, const struct ipaddr *b)
{
	if (a->family != b->family)
		return a->family < b->family ? -1 : 1;
	return a->family ? memcmp(a->b, b->b, ip_size(a)) : 0;
}

int ip_order(const void *a, const void *b)
{
	return ip_cmp(a, b);
}

bool mac_eq(const struct mac *a, const struct mac *b)
{
	return a->len == b->len && memcmp(a->b, b->b, a->len) == 0;
}

int mac_cmp(const struct mac *a, const struct mac *b)
{
	return a->len != b->len ? (a->len < b->len ? -1 : 1) : memcmp(a->b, b->b, a->len);
}

bool mac_is_zero(const struct mac *a)
{
	return mac_eq(a, &(struct mac){.len = a->len});
}

bool ip_is_unspecified(const struct ipaddr *a)
{
	return a->family != 0 && ip_num(a) == 0;
}

bool ip_is_link_local(const struct ipaddr *a)
{
	if (a->family == 4)
		return a->b[0] == 169 && a->b[1] == 254;
	return a->family == 6 && a->b[0] == 0xfe && (a->b[1] & 0xc0) == 0x80;
}

bool ip_is_multicast(const struct ipaddr *a)
{
	if (a->family == 4)
		return (a->b[0] & 0xf0) == 0xe0;
	return a->family == 6 && a->b[0] == 0xff;
}

bool ip_is_loopback(const struct ipaddr *a)
{
	if (a->family == 4)
		return a->b[0] == 127;
	return a->family == 6 && ip_num(a) == 1;
}

/* Returns a mask of the bits after the prefix. 128 bits are a separate case, because a shift by the
 * width of the type is undefined. */
static u128 host_mask(const struct ipnet *n)
{
	unsigned int bits = ip_bits(&n->ip), host = n->len < bits ? bits - n->len : 0;

	if (host == 128)
		return ~(u128)0;
	return ((u128)1 << host) - 1;
}

bool ipnet_contains(const struct ipnet *n, const struct ipaddr *a)
{
	u128 mask = ~host_mask(n);

	return a->family != 0 && a->family == n->ip.family &&
	       (ip_num(a) & mask) == (ip_num(&n->ip) & mask);
}

bool ipnet_eq(const struct ipnet *a, const struct ipnet *b)
{
	return a->len == b->len && ip_eq(&a->ip, &b->ip);
}

bool ipnet_overlaps(const struct ipnet *a, const struct ipnet *b)
{
	return a->len <= b->len ? ipnet_contains(a, &b->ip) : ipnet_contains(b, &a->ip);
}

bool ipnet_has_host_bits(const struct ipnet *n)
{
	return (ip_num(&n->ip) & host_mask(n)) != 0;
}

struct ipnet ipnet_network(const struct ipnet *n)
{
	return (struct ipnet){ipnet_first(n), n->len};
}

struct ipaddr ipnet_first(const struct ipnet *n)
{
	return ip_from_num(n->ip.family, ip_num(&n->ip) & ~host_mask(n));
}

struct ipaddr ipnet_last(const struct ipnet *n)
{
	return ip_from_num(n->ip.family, ip_num(&n->ip) | host_mask(n));
}

struct ipnet ipnet_host(const struct ipaddr *a)
{
	return (struct ipnet){*a, (uint8_t)ip_bits(a)};
}

bool ipnet_is_default(const struct ipnet *n)
{
	return n->len == 0 && ip_is_unspecified(&n->ip);
}

u128 ip_num(const struct ipaddr *a)
{
	u128 n = 0;

	for (unsigned int i = 0; i < ip_size(a); i++)
		n = n << 8 | a->b[i];
	return n;
}

struct ipaddr ip_from_num(uint8_t family, u128 n)
{
	struct ipaddr a = {.family = family};

	for (unsigned int i = ip_size(&a); i-- > 0; n >>= 8)
		a.b[i] = (uint8_t)n;
	return a;
}

bool ip_add(const struct ipaddr *a, u128 n, struct ipaddr *ret)
{
	u128 sum;

	if (__builtin_add_overflow(ip_num(a), n, &sum))
		return false;
	if (a->family == 4 && sum > UINT32_MAX)
		return false;
	*ret = ip_from_num(a->family, sum);
	return true;
}

/* --- text forms of addresses, in the format of Go's net and net/netip --- */

/* Parses four decimal octets; refuses a leading zero, because other tools read it as octal. */
static int parse4(struct span s, uint8_t ret[static 4])
{
	struct span part;
	uint8_t out[4];
	int n = 0;

	while (span_cut(&s, '.', &part)) {
		uint64_t v;

		if (n == 4 || part.n > 3 || (part.n > 1 && part.p[0] == '0'))
			return -EINVAL;
		if (num_u64(part, 0, 255, &v) < 0)
			return -EINVAL;
		out[n++] = (uint8_t)v;
	}
	if (n != 4)
		return -EINVAL;
	memcpy(ret, out, 4);
	return 0;
}

static void skip(struct span *s, size_t n)
{
	s->p += n;
	s->n -= n;
}

static size_t hex_run(struct span s)
{
	size_t n = 0;

	while (n < s.n && strchr("0123456789abcdefABCDEF", s.p[n]) && s.p[n])
		n++;
	return n;
}

/* Parses the separator after a group. Returns 0 if another group follows, 1 at the end, or
 * -EINVAL. */
static int separator6(struct span *s, int i, int *gap)
{
	if (s->n == 0)
		return 1;
	if (s->p[0] != ':' || s->n == 1)
		return -EINVAL;
	skip(s, 1);
	if (s->p[0] != ':')
		return 0;
	if (*gap >= 0)
		return -EINVAL;
	*gap = i;
	skip(s, 1);
	return s->n == 0;
}

/* Parses the groups of an IPv6 address into b, at most 16 bytes. Sets *gap to the index in b at
 * which "::" stands; without "::", *gap is unchanged. Returns the number of bytes, or -EINVAL. */
static int groups6(struct span *s, uint8_t b[static 16], int *gap)
{
	int i = 0, r = 0;

	while (i < 16 && r == 0) {
		size_t n = hex_run(*s);
		uint64_t v;

		if (n == 0 || n > 4)
			return -EINVAL;
		if (n < s->n && s->p[n] == '.') {
			if ((*gap < 0 && i != 12) || i > 12 || parse4(*s, b + i) < 0)
				return -EINVAL;
			skip(s, s->n);
			return i + 4;
		}
		num_hex((struct span){s->p, n}, 0xffff, &v);
		b[i++] = (uint8_t)(v >> 8);
		b[i++] = (uint8_t)v;
		skip(s, n);
		r = separator6(s, i, gap);
	}
	return r < 0 ? r : i;
}

static int parse6(struct span s, uint8_t ret[static 16])
{
	uint8_t b[16] = {0};
	int gap = -1, n = 0;

	if (span_has_prefix(s, "::")) {
		gap = 0;
		skip(&s, 2);
	}
	if (gap < 0 || s.n > 0)
		n = groups6(&s, b, &gap);
	/* "::" replaces at least one group */
	if (n < 0 || s.n > 0 || (gap < 0) != (n == 16))
		return -EINVAL;
	if (gap >= 0) {
		memmove(b + 16 - (n - gap), b + gap, (size_t)(n - gap));
		memset(b + gap, 0, (size_t)(16 - n));
	}
	memcpy(ret, b, 16);
	return 0;
}

static bool is_mapped(const uint8_t b[static 16])
{
	static const uint8_t prefix[12] = {[10] = 0xff, [11] = 0xff};

	return memcmp(b, prefix, sizeof(prefix)) == 0;
}

int ip_family_parse(struct span s, uint8_t *ret)
{
	static const char *const names[] = {"", "v", "ipv"};

	s = span_trim(s);
	for (size_t i = 0; i < ARRAY_LEN(names); i++) {
		size_t n = strlen(names[i]);

		if (s.n != n + 1 || strncasecmp(s.p, names[i], n) != 0 ||
		    (s.p[n] != '4' && s.p[n] != '6'))
			continue;
		*ret = (uint8_t)(s.p[n] - '0');
		return 0;
	}
	return -EINVAL;
}

int ip_parse(struct span s, struct ipaddr *ret)
{
	struct ipaddr a = {0};

	if (s.n == 0)
		return -EINVAL;
	if (!memchr(s.p, ':', s.n)) {
		a.family = 4;
		if (parse4(s, a.b) < 0)
			return -EINVAL;
		*ret = a;
		return 0;
	}
	a.family = 6;
	if (parse6(s, a.b) < 0)
		return -EINVAL;
	if (is_mapped(a.b)) {
		a.family = 4;
		memmove(a.b, a.b + 12, 4);
		memset(a.b + 4, 0, 12);
	}
	*ret = a;
	return 0;
}

int ipnet_parse(struct span s, struct ipnet *ret)
{
	struct ipnet n = {0};
	struct span addr;
	uint64_t len;

	if (s.n == 0 || !span_cut(&s, '/', &addr) || !s.p || ip_parse(addr, &n.ip) < 0)
		return -EINVAL;
	/* the prefix length of "::ffff:10.0.0.1/120" counts bits of the 128-bit address; Go
	 * prints this network as 10.0.0.1/24 */
	if (num_u64(s, 0, memchr(addr.p, ':', addr.n) ? 128 : 32, &len) < 0)
		return -EINVAL;
	if (n.ip.family == 4 && memchr(addr.p, ':', addr.n)) {
		if (len < 96)
			return -EINVAL;
		len -= 96;
	}
	n.len = (uint8_t)len;
	*ret = n;
	return 0;
}

int ipnet_parse_loose(struct span s, struct ipnet *ret)
{
	struct ipaddr a;

	if (s.n > 0 && memchr(s.p, '/', s.n))
		return ipnet_parse(s, ret);
	if (ip_parse(s, &a) < 0)
		return -EINVAL;
	*ret = ipnet_host(&a);
	return 0;
}

/* Sets *start and *end (exclusive) to the longest run of at least two zero groups, the first run
 * if several are equally long; both to -1 if there is none. */
static void zero_run(const uint16_t g[static 8], int *start, int *end)
{
	*start = *end = -1;
	for (int i = 0; i < 8; i++) {
		int j = i;

		while (j < 8 && g[j] == 0)
			j++;
		if (j - i >= 2 && j - i > *end - *start) {
			*start = i;
			*end = j;
		}
	}
}

static void print6(const uint8_t b[static 16], char *buf)
{
	uint16_t g[8];
	int start, end;
	char *p = buf;

	for (int i = 0; i < 8; i++)
		g[i] = (uint16_t)(b[2 * i] << 8 | b[2 * i + 1]);
	zero_run(g, &start, &end);
	for (int i = 0; i < 8; i++) {
		if (i == start) {
			p = stpcpy(p, "::");
			i = end;
			if (i >= 8)
				break;
		} else if (i > 0) {
			*p++ = ':';
		}
		p += sprintf(p, "%x", g[i]);
	}
}

/* Prints a number of at most three digits; returns the end of the text. Does not call sprintf(),
 * which is slow: an ADD prints hundreds of addresses. */
static char *print_byte(char *p, unsigned int v)
{
	if (v >= 100)
		*p++ = (char)('0' + v / 100);
	if (v >= 10)
		*p++ = (char)('0' + v / 10 % 10);
	*p++ = (char)('0' + v % 10);
	*p = '\0';
	return p;
}

static void print4(const uint8_t b[static 4], char *p)
{
	for (int i = 0; i < 4; i++) {
		if (i > 0)
			*p++ = '.';
		p = print_byte(p, b[i]);
	}
}

const char *ip_str(const struct ipaddr *a, char buf[static IP_TEXT_MAX])
{
	const uint8_t *b = a->b;

	buf[0] = '\0';
	if (a->family == 6 && is_mapped(a->b))
		b += 12;
	else if (a->family == 6)
		print6(a->b, buf);
	if (a->family == 4 || b != a->b)
		print4(b, buf);
	return buf;
}

const char *ipnet_str(const struct ipnet *n, char buf[static IP_TEXT_MAX])
{
	size_t used = strlen(ip_str(&n->ip, buf));

	if (n->ip.family) {
		buf[used] = '/';
		print_byte(buf + used + 1, n->len);
	}
	return buf;
}

static int hex_byte(const char *p, uint8_t *ret)
{
	uint64_t v;

	/* hex_run() refuses the prefix "0x", which num_hex() accepts */
	if (hex_run((struct span){p, 2}) != 2 || num_hex((struct span){p, 2}, 0xff, &v) < 0)
		return -EINVAL;
	*ret = (uint8_t)v;
	return 0;
}

/* Parses groups of `width` digits, separated by sep. */
static int mac_groups(struct span s, size_t width, char sep, struct mac *m)
{
	size_t stride = width + 1, per = width / 2, n;

	if ((s.n + 1) % stride != 0)
		return -EINVAL;
	n = (s.n + 1) / stride * per;
	if (n != 6 && n != 8 && n != 20)
		return -EINVAL;
	for (size_t i = 0; i < n; i++) {
		size_t at = i / per * stride + i % per * 2;

		if (hex_byte(s.p + at, &m->b[i]) < 0)
			return -EINVAL;
		if (i % per == per - 1 && at + 2 < s.n && s.p[at + 2] != sep)
			return -EINVAL;
	}
	m->len = (uint8_t)n;
	return 0;
}

int mac_parse(struct span s, struct mac *ret)
{
	struct mac m = {0};
	int r = -EINVAL;

	if (s.n >= 14 && (s.p[2] == ':' || s.p[2] == '-'))
		r = mac_groups(s, 2, s.p[2], &m);
	else if (s.n >= 14 && s.p[4] == '.')
		r = mac_groups(s, 4, '.', &m);
	if (r < 0)
		return r;
	*ret = m;
	return 0;
}

const char *mac_str(const struct mac *m, char buf[static MAC_TEXT_MAX])
{
	char *p = buf;

	buf[0] = '\0';
	for (unsigned int i = 0; i < m->len && i < MAC_MAX; i++)
		p += sprintf(p, i ? ":%02x" : "%02x", m->b[i]);
	return buf;
}
