/* SPDX-License-Identifier: Apache-2.0 */
#include "kern/net/nft_priv.h"

#include <arpa/inet.h>
#include <string.h>

#include <linux/netfilter/nf_conntrack_common.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>

/* <linux/netfilter.h> has these too, with headers that musl's do not get along with. */
enum { FAMILY_INET = 1, FAMILY_IPV4 = 2, FAMILY_IPV6 = 10 };
enum { HOOK_PRE_ROUTING = 0, HOOK_LOCAL_OUT = 3, POLICY_ACCEPT = 1 };
enum { PRIORITY_MANGLE = -150, IFNAME_SIZE = 16 };

static const struct nft_place places[NFT_LAYOUTS][NFT_PLACES_MAX + 1] = {
	[NFT_INET] = {{FAMILY_INET, false}, {FAMILY_INET, true}},
	[NFT_SPLIT] = {{FAMILY_IPV4, false},
		       {FAMILY_IPV4, true},
		       {FAMILY_IPV6, false},
		       {FAMILY_IPV6, true}},
	[NFT_IPV4] = {{FAMILY_IPV4, false}, {FAMILY_IPV4, true}},
};

const struct nft_place *nft_places(enum nft_layout l)
{
	return places[l];
}

const char *nft_family_name(uint8_t family)
{
	return family == FAMILY_INET ? "inet" : family == FAMILY_IPV4 ? "ip" : "ip6";
}

const char *nft_chain_name(const struct nft_place *p)
{
	return p->output ? "output" : "prerouting";
}

static struct nl_msg *message(int type, int flags, uint8_t family)
{
	struct nfgenmsg head = {.nfgen_family = family, .version = NFNETLINK_V0};

	return msg_new(NFNL_SUBSYS_NFTABLES << 8 | type, flags, &head, sizeof(head), MSG_ROOM);
}

struct nl_msg *nft_table_msg(int type, int flags, uint8_t family)
{
	struct nl_msg *m = message(type, flags, family);

	put_str(m, NFTA_TABLE_NAME, NFT_TABLE);
	if (type == NFT_MSG_NEWTABLE)
		put_be32(m, NFTA_TABLE_FLAGS, 0);
	return m;
}

struct nl_msg *nft_chain_msg(int type, int flags, const struct nft_place *p)
{
	struct nl_msg *m = message(type, flags, p->family);
	struct nlattr *hook;

	put_str(m, NFTA_CHAIN_TABLE, NFT_TABLE);
	put_str(m, NFTA_CHAIN_NAME, nft_chain_name(p));
	hook = nest(m, NFTA_CHAIN_HOOK);
	put_be32(m, NFTA_HOOK_HOOKNUM, p->output ? HOOK_LOCAL_OUT : HOOK_PRE_ROUTING);
	put_be32(m, NFTA_HOOK_PRIORITY, (uint32_t)PRIORITY_MANGLE);
	nest_end(m, hook);
	put_be32(m, NFTA_CHAIN_POLICY, POLICY_ACCEPT);
	/* A route chain sends a packet through routing again when its mark has changed. */
	put_str(m, NFTA_CHAIN_TYPE, p->output ? "route" : "filter");
	return m;
}

struct nl_msg *nft_dump_msg(int type, uint8_t family)
{
	struct nl_msg *m = message(type, NLM_F_DUMP, family);

	if (type == NFT_MSG_GETRULE)
		put_str(m, NFTA_RULE_TABLE, NFT_TABLE);
	return m;
}

/* --- expressions: all work on register 1 --- */

struct expr {
	struct nlattr *elem, *data;
};

static struct expr expr(struct nl_msg *m, const char *name)
{
	struct expr x;

	x.elem = nest(m, NFTA_LIST_ELEM);
	put_str(m, NFTA_EXPR_NAME, name);
	x.data = nest(m, NFTA_EXPR_DATA);
	return x;
}

static void expr_end(struct nl_msg *m, const struct expr *x)
{
	nest_end(m, x->data);
	nest_end(m, x->elem);
}

static void put_value(struct nl_msg *m, int type, const void *p, size_t n)
{
	struct nlattr *data = nest(m, type);

	put(m, NFTA_DATA_VALUE, p, n);
	nest_end(m, data);
}

/* "meta" and "ct" have the same form: NFTA_META_{DREG,KEY,SREG}, NFTA_CT_{DREG,KEY,SREG}. */
static void load(struct nl_msg *m, const char *what, int dreg, int key_attr, uint32_t key)
{
	struct expr x = expr(m, what);

	put_be32(m, key_attr, key);
	put_be32(m, dreg, NFT_REG_1);
	expr_end(m, &x);
}

static void load_meta(struct nl_msg *m, uint32_t key)
{
	load(m, "meta", NFTA_META_DREG, NFTA_META_KEY, key);
}

static void set_meta_mark(struct nl_msg *m)
{
	load(m, "meta", NFTA_META_SREG, NFTA_META_KEY, NFT_META_MARK);
}

static void load_ct(struct nl_msg *m, uint32_t key)
{
	load(m, "ct", NFTA_CT_DREG, NFTA_CT_KEY, key);
}

static void set_ct_mark(struct nl_msg *m)
{
	load(m, "ct", NFTA_CT_SREG, NFTA_CT_KEY, NFT_CT_MARK);
}

static void compare(struct nl_msg *m, uint32_t op, const void *p, size_t n)
{
	struct expr x = expr(m, "cmp");

	put_be32(m, NFTA_CMP_SREG, NFT_REG_1);
	put_be32(m, NFTA_CMP_OP, op);
	put_value(m, NFTA_CMP_DATA, p, n);
	expr_end(m, &x);
}

static void mask(struct nl_msg *m, uint32_t bits)
{
	struct expr x = expr(m, "bitwise");
	uint32_t none = 0;

	put_be32(m, NFTA_BITWISE_SREG, NFT_REG_1);
	put_be32(m, NFTA_BITWISE_DREG, NFT_REG_1);
	put_be32(m, NFTA_BITWISE_LEN, sizeof(bits));
	put_value(m, NFTA_BITWISE_MASK, &bits, sizeof(bits));
	put_value(m, NFTA_BITWISE_XOR, &none, sizeof(none));
	expr_end(m, &x);
}

static void immediate(struct nl_msg *m, uint32_t value)
{
	struct expr x = expr(m, "immediate");

	put_be32(m, NFTA_IMMEDIATE_DREG, NFT_REG_1);
	put_value(m, NFTA_IMMEDIATE_DATA, &value, sizeof(value));
	expr_end(m, &x);
}

/* --- the rules --- */

/* iifname <iface> ct state new meta mark set <mark> */
static void mark_new(struct nl_msg *m, const struct nft_marks *marks)
{
	char name[IFNAME_SIZE] = {0};
	uint32_t none = 0;

	memcpy(name, marks->iface, strnlen(marks->iface, sizeof(name) - 1));
	load_meta(m, NFT_META_IIFNAME);
	compare(m, NFT_CMP_EQ, name, sizeof(name));
	load_ct(m, NFT_CT_STATE);
	mask(m, NF_CT_STATE_BIT(IP_CT_NEW));
	compare(m, NFT_CMP_NEQ, &none, sizeof(none));
	immediate(m, marks->mark);
	set_meta_mark(m);
}

/* meta mark <mark> ct mark set meta mark */
static void save_mark(struct nl_msg *m, const struct nft_marks *marks)
{
	load_meta(m, NFT_META_MARK);
	compare(m, NFT_CMP_EQ, &marks->mark, sizeof(marks->mark));
	load_meta(m, NFT_META_MARK);
	set_ct_mark(m);
}

/* meta mark set ct mark */
static void restore_mark(struct nl_msg *m, const struct nft_marks *marks)
{
	(void)marks;
	load_ct(m, NFT_CT_MARK);
	set_meta_mark(m);
}

static void (*const rules[2][NFT_RULES_MAX])(struct nl_msg *m, const struct nft_marks *marks) = {
	{mark_new, save_mark},
	{restore_mark},
};

size_t nft_rules_of(const struct nft_place *p)
{
	return p->output ? 1 : 2;
}

struct nl_msg *nft_rule_msg(int type, int flags, const struct nft_place *p, size_t which,
			    const struct nft_marks *marks)
{
	struct nl_msg *m = message(type, flags, p->family);
	struct nlattr *list;

	put_str(m, NFTA_RULE_TABLE, NFT_TABLE);
	put_str(m, NFTA_RULE_CHAIN, nft_chain_name(p));
	list = nest(m, NFTA_RULE_EXPRESSIONS);
	rules[p->output][which](m, marks);
	nest_end(m, list);
	return m;
}
