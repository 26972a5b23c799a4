/* SPDX-License-Identifier: Apache-2.0 */
#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>
#include <linux/netfilter/nfnetlink.h>
#include <linux/netfilter/nf_conntrack_common.h>

#include "base/alloc.h"
#include "kern/net/internal.h"

/* Returns whether the error means that the kernel lacks nf_tables, an address family, a type of
 * chain or an expression. A query also fails with -ENOENT if the table does not exist. */
static bool is_unsupported(int code)
{
	return code == -ENOENT || code == -EOPNOTSUPP || code == -EAFNOSUPPORT ||
	       code == -EPROTONOSUPPORT;
}

static const char *nft_family_name(uint8_t family);

static void add_table(struct nl_batch *b, uint8_t family)
{
	nl_batch_add(b, nft_table_msg(NFT_MSG_NEWTABLE, NLM_F_CREATE | NLM_F_EXCL, family), 0,
		     "create nf_tables table '%s " NFT_TABLE "'", nft_family_name(family));
}

static void replace_table(struct nl_batch *b, uint8_t family)
{
	const char *name = nft_family_name(family);

	/* Creates the table so that deleting it cannot fail, deletes it, and creates it again: one
	 * transaction replaces all its content. */
	nl_batch_add(b, nft_table_msg(NFT_MSG_NEWTABLE, NLM_F_CREATE, family), 0,
		     "create nf_tables table '%s " NFT_TABLE "'", name);
	nl_batch_add(b, nft_table_msg(NFT_MSG_DELTABLE, 0, family), 0,
		     "empty nf_tables table '%s " NFT_TABLE "'", name);
	nl_batch_add(b, nft_table_msg(NFT_MSG_NEWTABLE, NLM_F_CREATE, family), 0,
		     "create nf_tables table '%s " NFT_TABLE "'", name);
}

static struct nl_msg *nft_chain_msg(int type, int flags, const struct nft_place *p);

static size_t nft_rules_of(const struct nft_place *p)
{
	return p->output ? 1 : 2;
}

static void add_chain(struct nl_batch *b, const struct nft_place *p, const struct nft_marks *m)
{
	const char *family = nft_family_name(p->family), *chain = nft_chain_name(p);

	nl_batch_add(b, nft_chain_msg(NFT_MSG_NEWCHAIN, NLM_F_CREATE, p), 0,
		     "create nf_tables chain '%s " NFT_TABLE " %s'", family, chain);
	for (size_t i = 0; i < nft_rules_of(p); i++)
		nl_batch_add(b, nft_rule_msg(NFT_MSG_NEWRULE, NLM_F_CREATE | NLM_F_APPEND, p, i, m),
			     0, "add rule %zu to nf_tables chain '%s " NFT_TABLE " %s'", i + 1,
			     family, chain);
}

static int set_marks(struct nl_wire *w, enum nft_layout l, const struct nft_marks *m,
		     void (*table)(struct nl_batch *b, uint8_t family), struct err *e)
{
	auto_batch struct nl_batch *b = nl_batch_new();
	const struct nft_place *p = nft_places(l);

	for (size_t i = 0; p[i].family; i++) {
		if (i == 0 || p[i].family != p[i - 1].family)
			table(b, p[i].family);
		add_chain(b, &p[i], m);
	}
	return nl_batch_commit(w, b, e);
}

/* Creates the tables; replaces them if one exists already (a new pod has none). First tries
 * without a replacement, because a transaction that deletes a table waits about 15 ms for the
 * kernel's RCU readers, at the latest when the transaction's socket is closed. */
int nft_marks_set(struct nl_wire *w, enum nft_layout l, const struct nft_marks *m, struct err *e)
{
	int r = set_marks(w, l, m, add_table, e);

	return r == -EEXIST ? set_marks(w, l, m, replace_table, e) : r;
}

int nft_reply_marks_set(struct nl_wire *w, const char *iface, uint32_t mark, struct err *e)
{
	struct nft_marks m = {iface, mark};
	int r = -ENOENT;

	for (enum nft_layout l = NFT_INET; l < NFT_LAYOUTS && is_unsupported(r); l++)
		r = nft_marks_set(w, l, &m, e);
	if (r == 0)
		return 0;
	return err_wrap(e, r, "mark replies that leave through '%s'%s", iface,
			is_unsupported(r) ? " (needs the kernel's nf_tables and nft_ct)" : "");
}

static int delete_table(struct nl_wire *w, uint8_t family, struct err *e)
{
	auto_batch struct nl_batch *b = nl_batch_new();
	int r;

	nl_batch_add(b, nft_table_msg(NFT_MSG_DELTABLE, 0, family), NL_OK_ABSENT,
		     "delete nf_tables table '%s " NFT_TABLE "'", nft_family_name(family));
	r = nl_batch_commit(w, b, e);
	if (!is_unsupported(r))
		return r;
	err_clear(e);
	return 0;
}

static const uint8_t families[] = {NFPROTO_INET, NFPROTO_IPV4, NFPROTO_IPV6};

/* Deletes the tables of all families in one transaction. Each table is created first, because
 * deleting a missing table would fail the transaction. */
static int delete_at_once(struct nl_wire *w)
{
	auto_batch struct nl_batch *b = nl_batch_new();

	for (size_t i = 0; i < ARRAY_LEN(families); i++) {
		nl_batch_add(b, nft_table_msg(NFT_MSG_NEWTABLE, NLM_F_CREATE, families[i]), 0,
			     "create nf_tables table");
		nl_batch_add(b, nft_table_msg(NFT_MSG_DELTABLE, 0, families[i]), 0,
			     "delete nf_tables table");
	}
	return nl_batch_commit(w, b, NULL);
}

/* Each transaction that deletes a table waits about 15 ms for the kernel's RCU readers, so all
 * families are deleted in one. Only if that fails, for example because the kernel lacks a
 * family, each family gets a transaction of its own. */
int nft_reply_marks_del(struct nl_wire *w, struct err *e)
{
	int r = delete_at_once(w);

	for (size_t i = 0; r < 0 && i < ARRAY_LEN(families); i++) {
		int one = delete_table(w, families[i], e);

		if (one < 0)
			return one;
		if (i + 1 == ARRAY_LEN(families))
			r = 0;
	}
	return r;
}

/* Returns whether the kernel supports nf_tables for IPv6. Tests it by a transaction whose last
 * message always fails, so that nothing is created. */
static bool takes_ipv6(struct nl_wire *w)
{
	auto_batch struct nl_batch *b = nl_batch_new();
	const struct nft_place *p = nft_places(NFT_SPLIT);

	nl_batch_add(b, nft_table_msg(NFT_MSG_NEWTABLE, NLM_F_CREATE, NFPROTO_IPV6), 0,
		     "try nf_tables table");
	for (; p->family; p++)
		if (p->family == NFPROTO_IPV6)
			nl_batch_add(b, nft_chain_msg(NFT_MSG_NEWCHAIN, NLM_F_CREATE, p), 0,
				     "try nf_tables chain");
	nl_batch_add(b, nft_table_msg(NFT_MSG_NEWTABLE, NLM_F_CREATE | NLM_F_EXCL, NFPROTO_IPV6), 0,
		     "make the transaction fail");
	return nl_batch_commit(w, b, NULL) == -EEXIST;
}

int nft_reply_marks_check(struct nl_wire *w, const char *iface, uint32_t mark, struct err *e)
{
	struct nft_marks m = {iface, mark};
	enum nft_layout l = NFT_INET;
	int r = nft_marks_check(w, l, &m, e);

	while (is_unsupported(r) && ++l < NFT_LAYOUTS)
		r = nft_marks_check(w, l, &m, e);
	/* The table of IPv4 alone is complete only on a kernel without IPv6. On other kernels
	 * unirail also creates a table of IPv6, which another process has then removed. */
	if (r == 1 && l == NFT_IPV4 && takes_ipv6(w))
		return 0;
	if (is_unsupported(r)) {
		err_clear(e);
		return 0;
	}
	return r < 0 ? err_wrap(e, r, "check the rules that mark replies which leave through '%s'",
				iface)
		     : r;
}

/* nfnetlink answers EINVAL for a subsystem whose module is not loaded and cannot be loaded. */
int nft_status(struct nl_wire *w, struct err *e)
{
	int r = nl_request(w, nft_table_msg(NFT_MSG_GETTABLE, 0, NFPROTO_IPV4), NULL, NULL, NULL,
			   e);

	if (r == 0 || r == -ENOENT) {
		err_clear(e);
		return 0;
	}
	if (r != -EINVAL && !is_unsupported(r))
		return err_wrap(e, r, "query nf_tables");
	return err_kind(
		e, ERR_UNAVAILABLE, -EOPNOTSUPP,
		"mark replies: Operation not supported (EOPNOTSUPP): the kernel lacks nf_tables: load module "
		"nf_tables");
}

enum { DEPTH_MAX = 8 }; /* set_matches() fails at this depth; unirail's own messages reach 3 */

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

/* Compares lists: the i-th expression of `have` must match the i-th of `want`, and the lengths
 * must be equal. */
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

/* Returns whether a nested attribute is a list of NFTA_LIST_ELEM. */
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

/* Returns whether `have` contains all attributes of `want`. The kernel's message may have more
 * (handles, counters, defaults). */
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

/* Returns whether the kernel's message `have` contains all attributes of `want`. */
static bool nft_matches(const struct nlmsghdr *want, const struct nlmsghdr *have)
{
	if (!nlmsg_valid_hdr(have, sizeof(struct nfgenmsg)))
		return false;
	return set_matches(of_message(want), of_message(have), 0);
}

/* --- comparison with the kernel's messages --- */

struct check {
	enum nft_layout layout;
	const struct nft_marks *marks;
	uint8_t family;
	size_t found[NFT_PLACES_MAX]; /* number of chains or rules found at each place */
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

/* Returns the index of the chain in the layout's places; negative: not a chain of unirail. */
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

/* Returns 1 if the table of the family is as expected, 0 if it differs, -ENOENT if it does not
 * exist. */
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

/* Values of the kernel's NF_IP_PRI_MANGLE and IFNAMSIZ. */
enum { PRIORITY_MANGLE = -150, IFNAME_SIZE = 16 };

static const struct nft_place places[NFT_LAYOUTS][NFT_PLACES_MAX + 1] = {
	[NFT_INET] = {{NFPROTO_INET, false}, {NFPROTO_INET, true}},
	[NFT_SPLIT] = {{NFPROTO_IPV4, false},
		       {NFPROTO_IPV4, true},
		       {NFPROTO_IPV6, false},
		       {NFPROTO_IPV6, true}},
	[NFT_IPV4] = {{NFPROTO_IPV4, false}, {NFPROTO_IPV4, true}},
};

const struct nft_place *nft_places(enum nft_layout l)
{
	return places[l];
}

static const char *nft_family_name(uint8_t family)
{
	return family == NFPROTO_INET ? "inet" : family == NFPROTO_IPV4 ? "ip" : "ip6";
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

static struct nl_msg *nft_chain_msg(int type, int flags, const struct nft_place *p)
{
	struct nl_msg *m = message(type, flags, p->family);
	struct nlattr *hook;

	put_str(m, NFTA_CHAIN_TABLE, NFT_TABLE);
	put_str(m, NFTA_CHAIN_NAME, nft_chain_name(p));
	hook = nest(m, NFTA_CHAIN_HOOK);
	put_be32(m, NFTA_HOOK_HOOKNUM, p->output ? NF_INET_LOCAL_OUT : NF_INET_PRE_ROUTING);
	put_be32(m, NFTA_HOOK_PRIORITY, (uint32_t)PRIORITY_MANGLE);
	nest_end(m, hook);
	put_be32(m, NFTA_CHAIN_POLICY, NF_ACCEPT);
	/* a route chain routes a packet again when its mark has changed */
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

/* --- expressions, which all use register 1 --- */

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

/* Adds the expression "meta" or "ct", which have the same form. dreg: NFTA_META_DREG or
 * NFTA_CT_DREG to load the value of the key into register 1; NFTA_META_SREG or NFTA_CT_SREG to set
 * the value from the register. */
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

/* --- rules that mark replies --- */

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
