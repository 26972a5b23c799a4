/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ARP and NDP packets as they come from the link. The first byte selects the protocol; for NDP the
 * length of the link-layer addresses, and whether the checksum is corrected, so that the code
 * behind the check is reached; for ARP whether the packet was unicast. A parsed packet is written,
 * and parsed again with the same result.
 */
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "fuzz.h"
#include "kern/probe/arp.h"
#include "kern/probe/ndp.h"

enum { NDP = 1, IB = 2, RIGHT_SUM = 4, UNICAST = 8, PACKET_MAX = 2048, IP6_HEAD = 40 };

static const struct mac mine[] = {
	{.len = 6, .b = {2, 0, 0, 0, 0, 1}},
	{.len = 20, .b = {0x80, 0, 0x48, 0xfe, 0x80, [12] = 7, [19] = 9}},
};
static const struct ipaddr ip4 = {.family = 4, .b = {10, 0, 0, 2}},
			   gw4 = {.family = 4, .b = {10, 0, 0, 1}},
			   ip6 = {.family = 6, .b = {0xfd, [15] = 2}},
			   gw6 = {.family = 6, .b = {0xfd, [15] = 1}};

static struct probe_ears ears(const struct ipaddr *ip, const struct ipaddr *gw)
{
	return (struct probe_ears){.ip = *ip,
				   .gateway = *gw,
				   .mine = mine,
				   .n_mine = ARRAY_LEN(mine),
				   .nonce = {1, 2, 3, 4, 5, 6}};
}

/* Neither a conflict nor a reply of the gateway comes from one of the probe's own MACs. */
static void check_saw(enum probe_saw saw, const struct mac *other)
{
	must(saw == SAW_NOTHING || saw == SAW_CONFLICT || saw == SAW_GATEWAY);
	if (saw == SAW_NOTHING)
		return;
	for (size_t i = 0; i < ARRAY_LEN(mine); i++)
		must(!probe_mac_same(&mine[i], other));
}

static void try_arp(struct span packet, uint8_t how)
{
	struct probe_ears q = ears(&ip4, &gw4);
	uint8_t out[ARP_BYTES_MAX];
	struct arp a, again;
	struct mac other = {0};
	size_t n;
	int r = arp_read(packet, &a);

	must(r == 0 || r == -EBADMSG);
	if (r < 0)
		return;
	must(a.sha.len == a.tha.len && (a.sha.len == 6 || a.sha.len == 20));
	n = arp_write(&a, out);
	must(n <= packet.n && !memcmp(out, packet.p, n));
	must(arp_read((struct span){(char *)out, n}, &again) == 0);
	must(mac_eq(&a.sha, &again.sha) && ip_eq(&a.tpa, &again.tpa));
	check_saw(arp_judge(&a, how & UNICAST, &q, &other), &other);
}

static void make_sum_right(uint8_t *p, size_t n)
{
	size_t len = n < IP6_HEAD + 8 ? 0 : (size_t)(p[4] << 8 | p[5]);
	uint32_t sum = 58 + (uint32_t)len;

	if (len < 4 || len > n - IP6_HEAD)
		return;
	p[IP6_HEAD + 2] = p[IP6_HEAD + 3] = 0;
	for (size_t i = 8; i < IP6_HEAD + len; i += 2)
		sum += (uint32_t)(p[i] << 8 | (i + 1 < IP6_HEAD + len ? p[i + 1] : 0));
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	p[IP6_HEAD + 2] = (uint8_t)(~sum >> 8);
	p[IP6_HEAD + 3] = (uint8_t)~sum;
}

static void check_same(const struct ndp *a, const struct ndp *b)
{
	must(a->type == b->type && a->solicited == b->solicited && a->override == b->override);
	must(ip_eq(&a->src, &b->src) && ip_eq(&a->dst, &b->dst) && ip_eq(&a->target, &b->target));
	must(mac_eq(&a->lladdr, &b->lladdr) && a->has_nonce == b->has_nonce);
	must(!memcmp(a->nonce, b->nonce, sizeof(a->nonce)));
}

static void try_ndp(struct span packet, uint8_t how)
{
	uint8_t out[NDP_BYTES_MAX], len = how & IB ? 20 : 6;
	const struct mac from = {.len = 6, .b = {2, 0, 0, 0, 0, 7}}, none = {0};
	struct probe_ears q = ears(&ip6, &gw6);
	struct mac other = {0};
	struct ndp m, again;
	int r = ndp_read(packet, len, &m);
	size_t n;

	must(r == 0 || r == -EBADMSG);
	if (r < 0)
		return;
	must(m.lladdr.len == 0 || m.lladdr.len == len);
	n = ndp_write(&m, out);
	must(n <= sizeof(out) && ndp_read((struct span){(char *)out, n}, len, &again) == 0);
	check_same(&m, &again);
	check_saw(ndp_judge(&m, how & IB ? &none : &from, &q, &other), &other);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct feed f = {data, size};
	uint8_t how = feed_byte(&f), copy[PACKET_MAX];
	struct span packet = feed_rest(&f);

	if (!(how & NDP)) {
		try_arp(packet, how);
		return 0;
	}
	if ((how & RIGHT_SUM) && packet.n <= sizeof(copy)) {
		memcpy(copy, packet.p, packet.n);
		make_sum_right(copy, packet.n);
		packet.p = (char *)copy;
	}
	try_ndp(packet, how);
	return 0;
}
