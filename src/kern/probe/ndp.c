/* SPDX-License-Identifier: Apache-2.0 */
#include "kern/probe/ndp.h"

#include <errno.h>
#include <string.h>

enum {
	ETH_LEN = 6,
	IB_LEN = 20,
	IP6_HEAD = 40,
	ND_HEAD = 24, /* type, code, checksum, flags, target */
	ICMPV6 = 58,
	HOP_LIMIT = 255, /* routers decrement it, so 255 proves that the sender is on this link */
	OPT_SOURCE = 1,
	OPT_TARGET = 2,
	OPT_NONCE = 14,
	FLAG_ROUTER = 0x80,
	FLAG_SOLICITED = 0x40,
	FLAG_OVERRIDE = 0x20,
};

static const struct ipaddr all_nodes = {.family = 6, .b = {0xff, 2, [15] = 1}};
static const uint8_t solicited_node[13] = {0xff, 2, [11] = 1, [12] = 0xff};

struct ipaddr ndp_solicited_node(const struct ipaddr *a)
{
	struct ipaddr g = {.family = 6};

	memcpy(g.b, solicited_node, sizeof(solicited_node));
	memcpy(g.b + 13, a->b + 13, 3);
	return g;
}

struct mac ndp_multicast_mac(const struct ipaddr *group, const struct mac *broadcast)
{
	struct mac m = {.len = ETH_LEN, .b = {0x33, 0x33}};

	if (broadcast->len != IB_LEN) {
		memcpy(m.b + 2, group->b + 12, 4);
		return m;
	}
	/* 00 ff:ff:ff (the multicast queue pair), then the GID ff1<scope>:601b:<pkey>:<low 80 bits> */
	m = (struct mac){.len = IB_LEN, .b = {0, 0xff, 0xff, 0xff, 0xff}};
	m.b[5] = (uint8_t)(0x10 | (broadcast->b[5] & 0x0f));
	m.b[6] = 0x60;
	m.b[7] = 0x1b;
	memcpy(m.b + 8, broadcast->b + 8, 2);
	memcpy(m.b + 10, group->b + 6, 10);
	return m;
}

struct ndp ndp_probe(const struct ipaddr *ip, const uint8_t nonce[static PROBE_NONCE])
{
	struct ndp m = {.type = NDP_SOLICIT,
			.src = {.family = 6},
			.dst = ndp_solicited_node(ip),
			.target = *ip,
			.has_nonce = true};

	memcpy(m.nonce, nonce, PROBE_NONCE);
	return m;
}

struct ndp ndp_solicitation(const struct mac *mine, const struct ipaddr *from,
			    const struct ipaddr *to)
{
	return (struct ndp){.type = NDP_SOLICIT,
			    .src = *from,
			    .dst = ndp_solicited_node(to),
			    .target = *to,
			    .lladdr = *mine};
}

struct ndp ndp_announcement(const struct mac *mine, const struct ipaddr *ip)
{
	return (struct ndp){.type = NDP_ADVERTISE,
			    .src = *ip,
			    .dst = all_nodes,
			    .target = *ip,
			    .override = true,
			    .lladdr = *mine};
}

/* Computes the checksum over RFC 8200's pseudo header and the message; 0: the checksum that the message contains is
 * valid. */
static uint16_t checksum(const uint8_t addrs[static 32], const uint8_t *msg, size_t n)
{
	uint32_t sum = ICMPV6 + (uint32_t)n;

	for (size_t i = 0; i < 32; i += 2)
		sum += (uint32_t)(addrs[i] << 8 | addrs[i + 1]);
	for (size_t i = 0; i < n; i += 2)
		sum += (uint32_t)(msg[i] << 8 | (i + 1 < n ? msg[i + 1] : 0));
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return (uint16_t)~sum;
}

/* Returns the number of zero bytes before the address in a link address option. IPoIB has two, so
 * that the option has 24 bytes with its header and the address of 20 bytes (RFC 4391 section 9). */
static size_t lladdr_pad(uint8_t len)
{
	return len == IB_LEN ? 2 : 0;
}

static uint8_t *put_options(const struct ndp *m, uint8_t *p)
{
	if (m->lladdr.len) {
		size_t pad = lladdr_pad(m->lladdr.len), n = 2 + pad + m->lladdr.len;

		*p++ = m->type == NDP_SOLICIT ? OPT_SOURCE : OPT_TARGET;
		*p++ = (uint8_t)(n / 8);
		memset(p, 0, pad);
		memcpy(p + pad, m->lladdr.b, m->lladdr.len);
		p += n - 2;
	}
	if (m->has_nonce) {
		*p++ = OPT_NONCE;
		*p++ = 1;
		memcpy(p, m->nonce, PROBE_NONCE);
		p += PROBE_NONCE;
	}
	return p;
}

size_t ndp_write(const struct ndp *m, uint8_t out[static NDP_BYTES_MAX])
{
	uint8_t *msg = out + IP6_HEAD, *end;
	uint16_t sum;
	size_t n;

	memset(out, 0, IP6_HEAD + ND_HEAD);
	msg[0] = m->type;
	if (m->type == NDP_ADVERTISE)
		msg[4] = (uint8_t)((m->router ? FLAG_ROUTER : 0) |
				   (m->solicited ? FLAG_SOLICITED : 0) |
				   (m->override ? FLAG_OVERRIDE : 0));
	memcpy(msg + 8, m->target.b, 16);
	end = put_options(m, msg + ND_HEAD);
	n = (size_t)(end - msg);
	out[0] = 0x60;
	out[5] = (uint8_t)n;
	out[6] = ICMPV6;
	out[7] = HOP_LIMIT;
	memcpy(out + 8, m->src.b, 16);
	memcpy(out + 24, m->dst.b, 16);
	sum = checksum(out + 8, msg, n);
	msg[2] = (uint8_t)(sum >> 8);
	msg[3] = (uint8_t)sum;
	return IP6_HEAD + n;
}

static void take_option(const uint8_t *p, size_t n, uint8_t lladdr_len, struct ndp *m)
{
	size_t pad = lladdr_pad(lladdr_len);
	uint8_t want = m->type == NDP_SOLICIT ? OPT_SOURCE : OPT_TARGET;

	if (p[0] == want && n == 2 + pad + lladdr_len) {
		m->lladdr.len = lladdr_len;
		memcpy(m->lladdr.b, p + 2 + pad, lladdr_len);
	}
	if (p[0] == OPT_NONCE && n == 2 + PROBE_NONCE) {
		m->has_nonce = true;
		memcpy(m->nonce, p + 2, PROBE_NONCE);
	}
}

static int get_options(const uint8_t *p, size_t n, uint8_t lladdr_len, struct ndp *m)
{
	while (n) {
		size_t len = n < 2 ? 0 : p[1] * 8UL;

		if (!len || len > n)
			return -EBADMSG;
		take_option(p, len, lladdr_len, m);
		p += len;
		n -= len;
	}
	return 0;
}

/* Checks the rules about addresses, and about options that depend on them (RFC 4861 7.1.1, 7.1.2). */
static bool is_lawful(const struct ndp *m)
{
	if (ip_is_multicast(&m->target) || ip_is_multicast(&m->src))
		return false;
	if (m->type == NDP_ADVERTISE)
		return !m->solicited || !ip_is_multicast(&m->dst);
	if (!ip_is_unspecified(&m->src))
		return true;
	return !m->lladdr.len && !memcmp(m->dst.b, solicited_node, sizeof(solicited_node));
}

static struct ipaddr ip6_at(const uint8_t *p)
{
	struct ipaddr a = {.family = 6};

	memcpy(a.b, p, 16);
	return a;
}

static bool is_neighbour_message(const uint8_t *p, size_t n)
{
	if (n < IP6_HEAD + ND_HEAD || p[0] >> 4 != 6 || p[6] != ICMPV6 || p[7] != HOP_LIMIT)
		return false;
	return (p[IP6_HEAD] == NDP_SOLICIT || p[IP6_HEAD] == NDP_ADVERTISE) && !p[IP6_HEAD + 1];
}

int ndp_read(struct span packet, uint8_t lladdr_len, struct ndp *ret)
{
	const uint8_t *p = (const uint8_t *)packet.p, *msg = p + IP6_HEAD;
	struct ndp m = {0};
	size_t n;

	if (!is_neighbour_message(p, packet.n))
		return -EBADMSG;
	n = (size_t)(p[4] << 8 | p[5]);
	if (n < ND_HEAD || n > packet.n - IP6_HEAD || checksum(p + 8, msg, n))
		return -EBADMSG;
	m.type = msg[0];
	m.src = ip6_at(p + 8);
	m.dst = ip6_at(p + 24);
	m.target = ip6_at(msg + 8);
	if (m.type == NDP_ADVERTISE) {
		m.router = msg[4] & FLAG_ROUTER;
		m.solicited = msg[4] & FLAG_SOLICITED;
		m.override = msg[4] & FLAG_OVERRIDE;
	}
	if (get_options(msg + ND_HEAD, n - ND_HEAD, lladdr_len, &m) || !is_lawful(&m))
		return -EBADMSG;
	*ret = m;
	return 0;
}

static bool is_rival(const struct ndp *m, const struct probe_ears *q)
{
	if (ip_eq(&m->src, &q->ip))
		return true;
	if (!ip_eq(&m->target, &q->ip))
		return false;
	if (m->type == NDP_ADVERTISE)
		return true;
	/* duplicate address detection of another host, unless the nonce shows that this probe's own
	 * packet was looped back */
	return ip_is_unspecified(&m->src) &&
	       !(m->has_nonce && !memcmp(m->nonce, q->nonce, PROBE_NONCE));
}

enum probe_saw ndp_judge(const struct ndp *m, const struct mac *from, const struct probe_ears *q,
			 struct mac *other)
{
	const struct mac *owner = m->lladdr.len ? &m->lladdr : from;
	enum probe_saw saw = SAW_NOTHING;

	if (probe_is_mine(q, owner) || probe_is_mine(q, from))
		return SAW_NOTHING;
	if (is_rival(m, q))
		saw = SAW_CONFLICT;
	else if (m->type == NDP_ADVERTISE && ip_eq(&m->target, &q->gateway) &&
		 ip_eq(&m->dst, &q->ip))
		saw = SAW_GATEWAY;
	if (saw != SAW_NOTHING)
		*other = *owner;
	return saw;
}
