/* SPDX-License-Identifier: Apache-2.0 */
#include "kern/probe/arp.h"

#include <errno.h>
#include <string.h>

#include <linux/if_arp.h>

enum { ETH_LEN = 6, IB_LEN = 20, HEAD = 8, ETHERTYPE_IPV4 = 0x0800 };

static uint8_t hardware_len(uint16_t htype)
{
	switch (htype) {
	case ARPHRD_ETHER:
	/* some stacks send this type on Ethernet; the kernel accepts it as well */
	case ARPHRD_IEEE802: return ETH_LEN;
	case ARPHRD_INFINIBAND: return IB_LEN;
	}
	return 0;
}

static struct arp question(uint16_t htype, const struct mac *mine, const struct ipaddr *from,
			   const struct ipaddr *to)
{
	struct arp a = {.htype = htype, .op = ARP_REQUEST, .sha = *mine, .tpa = *to};

	a.spa = from ? *from : (struct ipaddr){.family = 4};
	a.tha.len = mine->len;
	return a;
}

struct arp arp_probe(uint16_t htype, const struct mac *mine, const struct ipaddr *ip)
{
	return question(htype, mine, NULL, ip);
}

struct arp arp_request(uint16_t htype, const struct mac *mine, const struct ipaddr *from,
		       const struct ipaddr *to)
{
	return question(htype, mine, from, to);
}

struct arp arp_announcement(uint16_t htype, const struct mac *mine, const struct ipaddr *ip)
{
	return question(htype, mine, ip, ip);
}

static uint8_t *put16(uint8_t *p, uint16_t v)
{
	p[0] = (uint8_t)(v >> 8);
	p[1] = (uint8_t)v;
	return p + 2;
}

static uint16_t get16(const uint8_t *p)
{
	return (uint16_t)(p[0] << 8 | p[1]);
}

static uint8_t *put(uint8_t *p, const void *v, size_t n)
{
	memcpy(p, v, n);
	return p + n;
}

size_t arp_write(const struct arp *a, uint8_t out[static ARP_BYTES_MAX])
{
	uint8_t *p = out, hlen = hardware_len(a->htype);

	p = put16(p, a->htype);
	p = put16(p, ETHERTYPE_IPV4);
	*p++ = hlen;
	*p++ = 4;
	p = put16(p, a->op);
	p = put(p, a->sha.b, hlen);
	p = put(p, a->spa.b, 4);
	p = put(p, a->tha.b, hlen);
	p = put(p, a->tpa.b, 4);
	return (size_t)(p - out);
}

static const uint8_t *get_mac(const uint8_t *p, uint8_t len, struct mac *ret)
{
	*ret = (struct mac){.len = len};
	memcpy(ret->b, p, len);
	return p + len;
}

static const uint8_t *get_ip(const uint8_t *p, struct ipaddr *ret)
{
	*ret = (struct ipaddr){.family = 4};
	memcpy(ret->b, p, 4);
	return p + 4;
}

int arp_read(struct span packet, struct arp *ret)
{
	const uint8_t *p = (const uint8_t *)packet.p;
	uint8_t hlen;

	if (packet.n < HEAD)
		return -EBADMSG;
	hlen = hardware_len(get16(p));
	if (!hlen || get16(p + 2) != ETHERTYPE_IPV4 || p[4] != hlen || p[5] != 4)
		return -EBADMSG;
	if (packet.n < (size_t)HEAD + 2 * (hlen + 4))
		return -EBADMSG;
	ret->htype = get16(p);
	ret->op = get16(p + 6);
	p = get_mac(p + HEAD, hlen, &ret->sha);
	p = get_ip(p, &ret->spa);
	p = get_mac(p, hlen, &ret->tha);
	get_ip(p, &ret->tpa);
	return 0;
}

/*
 * Returns whether the packet is a probe of a host that is about to use the address. A probe in a
 * unicast frame to this host does not count, although RFC 5227 literally counts it as a conflict: a
 * switch with IP device tracking (Cisco) sends such probes.
 */
static bool is_rival_probe(const struct arp *a, bool unicast, const struct ipaddr *ip)
{
	return a->op == ARP_REQUEST && ip_is_unspecified(&a->spa) && ip_eq(&a->tpa, ip) && !unicast;
}

enum probe_saw arp_judge(const struct arp *a, bool unicast, const struct probe_ears *q,
			 struct mac *other)
{
	enum probe_saw saw = SAW_NOTHING;

	if (probe_is_mine(q, &a->sha))
		return SAW_NOTHING;
	if (ip_eq(&a->spa, &q->ip) || is_rival_probe(a, unicast, &q->ip))
		saw = SAW_CONFLICT;
	/* only replies count: requests of the gateway do not prove that it receives this host's
	 * packets */
	else if (a->op == ARP_REPLY && ip_eq(&a->spa, &q->gateway) && ip_eq(&a->tpa, &q->ip))
		saw = SAW_GATEWAY;
	if (saw != SAW_NOTHING)
		*other = a->sha;
	return saw;
}
