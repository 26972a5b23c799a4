/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One netlink message of a run is refused by the kernel: just before the message is sent, its type
 * is replaced by one that does not exist. The kernel executes the other messages of an rtnetlink
 * batch, and none of an nf_tables batch.
 */
#include "rails.h"

#include <string.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#include <linux/netfilter/nfnetlink.h>
#include <linux/netlink.h>

#include "base/alloc.h"
#include "fault.h"

/* Value of the two lowest bits of a query's type: RTM_GETLINK, RTM_GETROUTE ... */
enum { GET = 2 };
enum { NO_SUCH_ROUTE_TYPE = 0x3ff, NO_SUCH_NFT_TYPE = NFNL_SUBSYS_NFTABLES << 8 | 0xff };

static void copy(pid_t pid, bool to_child, unsigned long at, void *p, size_t n)
{
	struct iovec here = {p, n}, there = {(void *)at, n};
	ssize_t done = to_child ? process_vm_writev(pid, &here, 1, &there, 1, 0)
				: process_vm_readv(pid, &here, 1, &there, 1, 0);

	if (done != (ssize_t)n)
		die("the child's memory cannot be reached");
}

/* Begin of an nf_tables batch, of which the kernel executes all messages or none. */
static bool is_batch_begin(const struct nlmsghdr *h)
{
	return h->nlmsg_type == NFNL_MSG_BATCH_BEGIN &&
	       h->nlmsg_len == NLMSG_LENGTH(sizeof(struct nfgenmsg));
}

static void refuse_in(struct refusal *x, char *p, size_t n, unsigned long at)
{
	bool nft = n >= NLMSG_HDRLEN && is_batch_begin((void *)p);

	for (struct nlmsghdr *h = (void *)p; NLMSG_OK(h, n); h = NLMSG_NEXT(h, n)) {
		uint16_t type = nft ? NO_SUCH_NFT_TYPE : NO_SUCH_ROUTE_TYPE;

		if ((nft && h->nlmsg_type < NFNL_SUBSYS_NFTABLES << 8) || ++x->seen != x->n)
			continue;
		x->hit = true;
		x->changes = (h->nlmsg_type & 3) != GET;
		copy(x->shot.pid, true,
		     at + (unsigned long)((char *)h - p) + offsetof(struct nlmsghdr, nlmsg_type),
		     &type, sizeof(type));
	}
}

static void refuse(void *arg)
{
	struct refusal *x = arg;
	size_t n = x->shot.args[2];
	auto_free char *p = xmalloc(n);

	copy(x->shot.pid, false, x->shot.args[1], p, n);
	refuse_in(x, p, n, x->shot.args[1]);
}

void refusal_init(struct refusal *x, long n)
{
	*x = (struct refusal){
		.n = n, .shot = {.act = ACT_EACH, .only_nr = SYS_sendto, .fn = refuse, .arg = x}};
}

bool refused_named(const struct refusal *x, const char *text)
{
	return !x->changes || strstr(text, "rail '");
}
