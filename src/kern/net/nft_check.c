/* SPDX-License-Identifier: Apache-2.0 */
#include "kern/net/nft_priv.h"

#include <errno.h>
#include <string.h>

#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>

enum { DEPTH_MAX = 8 }; /* ours have 5 */

struct attrs {
	const struct nlattr *first;
	int len;
};

static struct attrs of_message(const struct nlmsghdr *h)
{
	return (struct attrs){nlmsg_attrdata(h, sizeof(struct nfgenmsg)),
			      nlmsg_attrlen(h, sizeof(struct nfgenmsg))};
}

static struct attrs inside(const struct nlattr *a)
{
	return (struct attrs){nla_data(a), nla_len(a)};
}

static const struct nlattr *find(struct attrs in, int type)
{
	const struct nlattr *a = in.first;

	for (int rest = in.len; nla_ok(a, rest); a = nla_next(a, &rest)) {
		if (nla_type(a) == type)
			return a;
	}
	return NULL;
}

static bool set_matches(struct attrs want, struct attrs have, int depth);

/* Expressions stand in a row: one by one, and none left over. */
static bool list_matches(struct attrs want, struct attrs have, int depth)
{
	const struct nlattr *w = want.first, *h = have.first;

	while (nla_ok(w, want.len) && nla_ok(h, have.len)) {
		if (!set_matches(inside(w), inside(h), depth))
			return false;
		w = nla_next(w, &want.len);
		h = nla_next(h, &have.len);
	}
	return !nla_ok(w, want.len) && !nla_ok(h, have.len);
}

/* A nested attribute that is a row of NFTA_LIST_ELEM. */
static bool is_list(const struct nlattr *a)
{
	const struct nlattr *first = nla_data(a);

	return nla_ok(first, nla_len(a)) && nla_is_nested(first) &&
	       nla_type(first) == NFTA_LIST_ELEM;
}

static bool one_matches(const struct nlattr *want, const struct nlattr *have, int depth)
{
	if (!have)
		return false;
	if (nla_is_nested(want))
		return (is_list(want) ? list_matches : set_matches)(inside(want), inside(have),
								    depth);
	return nla_len(want) == nla_len(have) &&
	       !memcmp(nla_data(want), nla_data(have), (size_t)nla_len(want));
}

/* The kernel's answer may hold more (handles, counters, defaults): that is no difference. */
static bool set_matches(struct attrs want, struct attrs have, int depth)
{
	const struct nlattr *w = want.first;

	if (depth == DEPTH_MAX)
		return false;
	for (int rest = want.len; nla_ok(w, rest); w = nla_next(w, &rest)) {
		if (!one_matches(w, find(have, nla_type(w)), depth + 1))
			return false;
	}
	return true;
}

bool nft_matches(const struct nlmsghdr *want, const struct nlmsghdr *have)
{
	if (!nlmsg_valid_hdr(have, sizeof(struct nfgenmsg)))
		return false;
	return set_matches(of_message(want), of_message(have), 0);
}

/* --- what the kernel has, message by message --- */

struct check {
	enum nft_layout layout;
	const struct nft_marks *marks;
	uint8_t family;
	size_t found[NFT_PLACES_MAX]; /* chains or rules seen at each place */
	bool differs;
};

static void forget(void *arg)
{
	struct check *c = arg;

	memset(c->found, 0, sizeof(c->found));
	c->differs = false;
}

static bool in_our_table(const struct nlmsghdr *h, int table_attr)
{
	const struct nlattr *a = find(of_message(h), table_attr);
	char name[32];

	get_str(a, name, sizeof(name));
	return !strcmp(name, NFT_TABLE);
}

/* Index of the place this chain is; negative: none of ours. */
static int place_of(const struct check *c, const struct nlmsghdr *h, int name_attr)
{
	const struct nft_place *p = nft_places(c->layout);
	char name[32];

	get_str(find(of_message(h), name_attr), name, sizeof(name));
	for (int i = 0; p[i].family; i++) {
		if (p[i].family == c->family && !strcmp(name, nft_chain_name(&p[i])))
			return i;
	}
	return -1;
}

static void compare_with(struct check *c, const struct nlmsghdr *h, int place, struct nl_msg *want)
{
	c->differs |= !nft_matches(nlmsg_hdr(want), h);
	c->found[place]++;
	nlmsg_free(want);
}

static bool is_answer(const struct nlmsghdr *h, int type, uint8_t family)
{
	const struct nfgenmsg *head = nlmsg_data(h);

	return h->nlmsg_type == (NFNL_SUBSYS_NFTABLES << 8 | type) &&
	       nlmsg_valid_hdr(h, sizeof(*head)) && head->nfgen_family == family;
}

static int on_chain(void *msg, void *arg)
{
	const struct nlmsghdr *h = msg;
	struct check *c = arg;
	int i;

	if (!is_answer(h, NFT_MSG_NEWCHAIN, c->family) || !in_our_table(h, NFTA_CHAIN_TABLE))
		return 0;
	i = place_of(c, h, NFTA_CHAIN_NAME);
	if (i < 0)
		c->differs = true;
	else
		compare_with(c, h, i,
			     nft_chain_msg(NFT_MSG_NEWCHAIN, 0, &nft_places(c->layout)[i]));
	return 0;
}

static int on_rule(void *msg, void *arg)
{
	const struct nlmsghdr *h = msg;
	struct check *c = arg;
	const struct nft_place *p;
	int i;

	if (!is_answer(h, NFT_MSG_NEWRULE, c->family) || !in_our_table(h, NFTA_RULE_TABLE))
		return 0;
	i = place_of(c, h, NFTA_RULE_CHAIN);
	p = &nft_places(c->layout)[i < 0 ? 0 : i];
	if (i < 0 || c->found[i] >= nft_rules_of(p))
		c->differs = true;
	else
		compare_with(c, h, i, nft_rule_msg(NFT_MSG_NEWRULE, 0, p, c->found[i], c->marks));
	return 0;
}

static int on_table(void *msg, void *arg)
{
	struct check *c = arg;
	struct nl_msg *want = nft_table_msg(NFT_MSG_NEWTABLE, 0, c->family);

	compare_with(c, msg, 0, want);
	return 0;
}

/* 1: the family's part is as wanted. */
static int check_family(struct nl_wire *w, struct check *c, struct err *e)
{
	const struct nft_place *p = nft_places(c->layout);
	int r = nl_request(w, nft_table_msg(NFT_MSG_GETTABLE, 0, c->family), on_table, forget, c,
			   e);

	if (r < 0 || c->differs)
		return r;
	forget(c);
	r = nl_request(w, nft_dump_msg(NFT_MSG_GETCHAIN, c->family), on_chain, forget, c, e);
	for (int i = 0; r == 0 && p[i].family; i++)
		c->differs |= p[i].family == c->family && c->found[i] != 1;
	if (r < 0 || c->differs)
		return r;
	forget(c);
	r = nl_request(w, nft_dump_msg(NFT_MSG_GETRULE, c->family), on_rule, forget, c, e);
	for (int i = 0; r == 0 && p[i].family; i++)
		c->differs |= p[i].family == c->family && c->found[i] != nft_rules_of(&p[i]);
	return r < 0 ? r : !c->differs;
}

int nft_marks_check(struct nl_wire *w, enum nft_layout l, const struct nft_marks *m, struct err *e)
{
	const struct nft_place *p = nft_places(l);
	int r = 1;

	for (size_t i = 0; r == 1 && p[i].family; i++) {
		struct check c = {.layout = l, .marks = m, .family = p[i].family};

		if (i == 0 || p[i].family != p[i - 1].family)
			r = check_family(w, &c, e);
	}
	return r;
}
