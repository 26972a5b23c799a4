/* SPDX-License-Identifier: Apache-2.0 */
#include "kern/net/route.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <linux/fib_rules.h>
#include <linux/rtnetlink.h>

#include "base/alloc.h"
#include "kern/netlink/attr.h"

struct rules {
	int family;
	struct rule *list;
	size_t n;
};

/* Returns whether struct rule contains the attribute, or the attribute sets no condition. */
static bool is_held(const struct nlattr *a)
{
	switch (nla_type(a)) {
	case FRA_DST:
	case FRA_SRC:
	case FRA_IIFNAME:
	case FRA_PRIORITY:
	case FRA_FWMARK:
	case FRA_FWMASK:
	case FRA_TABLE:
	case FRA_PROTOCOL:
	case FRA_PAD: return true;
	case FRA_SUPPRESS_PREFIXLEN:
		return get_u32(a, 0) == UINT32_MAX; /* the kernel always sends it; -1: not set */
	default: return false;
	}
}

static bool has_more(const struct nlmsghdr *h, const struct fib_rule_hdr *head)
{
	const struct nlattr *a = nlmsg_attrdata(h, sizeof(*head));
	int rest = nlmsg_attrlen(h, sizeof(*head));

	for (; nla_ok(a, rest); a = nla_next(a, &rest)) {
		if (!is_held(a))
			return true;
	}
	return head->tos;
}

/* Returns 1 if the message is a rule, 0 if its family is neither IPv4 nor IPv6, -EBADMSG if the
 * message is truncated or a prefix length is invalid. */
static int parse_rule(const struct nlmsghdr *h, struct rule *r)
{
	const struct fib_rule_hdr *head = nlmsg_data(h);
	struct nlattr *tb[FRA_MAX + 1];
	uint8_t bits;
	int code = msg_attrs(h, sizeof(*head), tb, FRA_MAX);

	if (code < 0)
		return code;
	*r = (struct rule){.family = family_of(head->family), .action = head->action};
	if (!r->family)
		return 0;
	bits = r->family == 4 ? 32 : 128;
	if (head->src_len && get_ip(tb[FRA_SRC], r->family, &r->src.ip))
		r->src.len = head->src_len;
	if (head->dst_len && get_ip(tb[FRA_DST], r->family, &r->dst.ip))
		r->dst.len = head->dst_len;
	if (head->src_len > bits || head->dst_len > bits)
		return -EBADMSG;
	r->has_priority = true;
	r->priority = get_u32(tb[FRA_PRIORITY], 0);
	r->table = get_u32(tb[FRA_TABLE], head->table);
	r->mark = get_u32(tb[FRA_FWMARK], 0);
	r->mask = get_u32(tb[FRA_FWMASK], 0);
	get_str(tb[FRA_IIFNAME], r->iif, sizeof(r->iif));
	r->protocol = get_u8(tb[FRA_PROTOCOL], 0);
	r->invert = head->flags & FIB_RULE_INVERT;
	r->more = has_more(h, head);
	return 1;
}

static int collect(void *msg, void *arg)
{
	const struct nlmsghdr *h = msg;
	struct rules *all = arg;
	struct rule rule;
	int r = h->nlmsg_type == RTM_NEWRULE ? parse_rule(h, &rule) : 0;

	if (r <= 0)
		return r;
	if (!all->family || rule.family == all->family)
		VEC_PUSH(all->list, all->n) = rule;
	return 0;
}

static void forget(void *arg)
{
	((struct rules *)arg)->n = 0;
}

int rule_list(struct nl_wire *w, int family, struct rule **ret, size_t *n, struct err *e)
{
	struct fib_rule_hdr head = {.family = af_of(family)};
	struct nl_msg *m = msg_new(RTM_GETRULE, NLM_F_DUMP, &head, sizeof(head), 0);
	struct rules all = {.family = family};
	int r = nl_request(w, m, collect, forget, &all, e);

	if (r < 0) {
		free(all.list);
		return err_wrap(e, r, "list rules");
	}
	*ret = all.list;
	*n = all.n;
	return 0;
}

static uint32_t mask_of(const struct rule *r)
{
	return r->mark && !r->mask ? UINT32_MAX : r->mask;
}

static uint8_t action_of(const struct rule *r)
{
	return r->action ? r->action : FR_ACT_TO_TBL;
}

static bool net_eq(const struct ipnet *a, const struct ipnet *b)
{
	struct ipnet x = ipnet_network(a), y = ipnet_network(b);

	return a->len == b->len && (a->len == 0 || ipnet_eq(&x, &y));
}

bool rule_eq(const struct rule *a, const struct rule *b)
{
	return a->family == b->family && a->more == b->more && a->invert == b->invert &&
	       net_eq(&a->src, &b->src) && net_eq(&a->dst, &b->dst) && a->table == b->table &&
	       a->mark == b->mark && mask_of(a) == mask_of(b) && !strcmp(a->iif, b->iif) &&
	       action_of(a) == action_of(b) &&
	       (!a->protocol || !b->protocol || a->protocol == b->protocol) &&
	       (!a->has_priority || !b->has_priority || a->priority == b->priority);
}

static void put_net(struct nl_msg *m, int type, const struct ipnet *net)
{
	if (net->len)
		put_ip(m, type, &net->ip);
}

static struct nl_msg *message(int type, int flags, const struct rule *r)
{
	struct fib_rule_hdr head = {
		.family = af_of(r->family),
		.src_len = r->src.len,
		.dst_len = r->dst.len,
		.table = r->table < 256 ? (uint8_t)r->table : RT_TABLE_UNSPEC,
		.action = action_of(r),
		.flags = r->invert ? FIB_RULE_INVERT : 0,
	};
	struct nl_msg *m = msg_new(type, flags, &head, sizeof(head), MSG_ROOM);

	put_net(m, FRA_SRC, &r->src);
	put_net(m, FRA_DST, &r->dst);
	if (r->has_priority || r->priority)
		put_u32(m, FRA_PRIORITY, r->priority);
	if (r->table > 255)
		put_u32(m, FRA_TABLE, r->table);
	if (r->mark)
		put_u32(m, FRA_FWMARK, r->mark);
	if (mask_of(r))
		put_u32(m, FRA_FWMASK, mask_of(r));
	if (r->iif[0])
		put_str(m, FRA_IIFNAME, r->iif);
	if (r->protocol)
		put_u8(m, FRA_PROTOCOL, r->protocol);
	return m;
}

/* Describes a rule: "from 10.0.0.2/32 lookup 100 pref 1000" */
static char *describe(const struct rule *r)
{
	char text[IP_TEXT_MAX];
	struct buf b;

	buf_init(&b, 256);
	buf_printf(&b, "%sfrom %s", r->invert ? "not " : "",
		   r->src.len ? ipnet_str(&r->src, text) : "all");
	if (r->dst.len)
		buf_printf(&b, " to %s", ipnet_str(&r->dst, text));
	if (r->iif[0])
		buf_printf(&b, " iif %s", r->iif);
	if (mask_of(r))
		buf_printf(&b, " fwmark 0x%x/0x%x", r->mark, mask_of(r));
	buf_printf(&b, " lookup %u", r->table);
	if (r->has_priority || r->priority)
		buf_printf(&b, " pref %u", r->priority);
	return buf_take(&b);
}

static const char *bad_rule(const struct rule *r)
{
	if (!af_of(r->family) || (r->src.len && r->src.ip.family != r->family) ||
	    (r->dst.len && r->dst.ip.family != r->family))
		return "addresses and rule must have the same family, IPv4 or IPv6";
	if (r->more)
		return "the rule has conditions that unirail does not support";
	return NULL;
}

size_t rule_add(struct nl_batch *b, const struct rule *r, unsigned int nl_flags)
{
	auto_free char *what = describe(r);
	const char *bad = bad_rule(r);

	if (bad)
		return nl_batch_refuse(b, -EINVAL, bad, "add rule '%s'", what);
	return nl_batch_add(b, message(RTM_NEWRULE, NLM_F_CREATE | NLM_F_EXCL, r), nl_flags,
			    "add rule '%s'", what);
}

size_t rule_del(struct nl_batch *b, const struct rule *r)
{
	auto_free char *what = describe(r);
	const char *bad = bad_rule(r);

	if (bad)
		return nl_batch_refuse(b, -EINVAL, bad, "delete rule '%s'", what);
	return nl_batch_add(b, message(RTM_DELRULE, 0, r), NL_OK_ABSENT, "delete rule '%s'", what);
}
