/* SPDX-License-Identifier: Apache-2.0 */
#include "kern/probe/packet_filter.h"

#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>

#include <linux/filter.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "kern/probe/ndp.h"

enum { BLOCK_MAX = 16, TAKE_ALL = 0xffff };

#define LOAD(size, at)	      BPF_STMT(BPF_LD | (size) | BPF_ABS, (uint32_t)(at))
#define EQUALS(what, yes, no) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)(what), yes, no)
#define TAKE(n)		      BPF_STMT(BPF_RET | BPF_K, (uint32_t)(n))

/* A block a watch: it takes the packet or falls through to the next. Offsets are from the network
 * header. ARP: the sender is the address or the gateway, or the target is the address. */
static size_t arp_block(struct sock_filter *f, const struct packet_watch *w, uint32_t ip,
			uint32_t gw)
{
	uint8_t hlen = w->link->mac.len;
	const struct sock_filter block[] = {
		LOAD(BPF_W, SKF_AD_OFF + SKF_AD_IFINDEX),
		EQUALS(w->link->index, 0, 8),
		LOAD(BPF_H, 4), /* both address lengths */
		EQUALS(hlen << 8 | 4, 0, 6),
		LOAD(BPF_W, 8 + hlen),
		EQUALS(ip, 3, 0),
		EQUALS(gw, 2, 0),
		LOAD(BPF_W, 12 + 2 * hlen),
		EQUALS(ip, 0, 1),
		TAKE(TAKE_ALL),
	};

	memcpy(f, block, sizeof(block));
	return ARRAY_LEN(block);
}

/* NDP, by the last four bytes of target and source: ndp_judge() looks at all sixteen. */
static size_t ndp_block(struct sock_filter *f, const struct packet_watch *w, uint32_t ip,
			uint32_t gw)
{
	const struct sock_filter block[] = {
		LOAD(BPF_W, SKF_AD_OFF + SKF_AD_IFINDEX),
		EQUALS(w->link->index, 0, 11),
		LOAD(BPF_B, 6),
		EQUALS(IPPROTO_ICMPV6, 0, 9),
		LOAD(BPF_B, 40),
		EQUALS(NDP_ADVERTISE, 1, 0),
		EQUALS(NDP_SOLICIT, 0, 6),
		LOAD(BPF_W, 60),
		EQUALS(ip, 3, 0),
		EQUALS(gw, 2, 0),
		LOAD(BPF_W, 20),
		EQUALS(ip, 0, 1),
		TAKE(TAKE_ALL),
	};

	memcpy(f, block, sizeof(block));
	return ARRAY_LEN(block);
}

static uint32_t last_word(const struct ipaddr *a)
{
	return (uint32_t)ip_num(a);
}

int packet_filter(int fd, int family, const struct packet_watch *w, size_t n, struct err *e)
{
	auto_free struct sock_filter *code = xcalloc(n + 1, BLOCK_MAX * sizeof(*code));
	size_t len = 0;

	for (size_t i = 0; i < n; i++) {
		const struct probe_ears *q = w[i].ears;
		uint32_t ip = last_word(&q->ip),
			 gw = q->gateway.family ? last_word(&q->gateway) : ip;

		len += family == 4 ? arp_block(code + len, &w[i], ip, gw)
				   : ndp_block(code + len, &w[i], ip, gw);
	}
	code[len++] = (struct sock_filter)TAKE(0);
	struct sock_fprog prog = {.len = (unsigned short)len, .filter = code};

	if (len > BPF_MAXINSNS)
		return err_set(e, -E2BIG, "filter packets: %zu addresses are too many at once", n);
	if (setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &prog, sizeof(prog)) < 0)
		return err_sys(e, -errno, "filter packets");
	return 0;
}
