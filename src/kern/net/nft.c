/* SPDX-License-Identifier: Apache-2.0 */
#include "kern/net/nft_priv.h"

#include <errno.h>

#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>

#include "base/cleanup.h"

/* What a kernel without some module answers: nf_tables itself, a family, a type of chain. */
static bool is_unsupported(int code)
{
	return code == -ENOENT || code == -EOPNOTSUPP || code == -EAFNOSUPPORT ||
	       code == -EPROTONOSUPPORT;
}

static void add_table(struct nl_batch *b, uint8_t family)
{
	const char *name = nft_family_name(family);

	/* Created so that deleting it never fails, then anew: whatever was there is gone, within
	 * the one transaction. */
	nl_batch_add(b, nft_table_msg(NFT_MSG_NEWTABLE, NLM_F_CREATE, family), 0,
		     "create nf_tables table '%s " NFT_TABLE "'", name);
	nl_batch_add(b, nft_table_msg(NFT_MSG_DELTABLE, 0, family), 0,
		     "empty nf_tables table '%s " NFT_TABLE "'", name);
	nl_batch_add(b, nft_table_msg(NFT_MSG_NEWTABLE, NLM_F_CREATE, family), 0,
		     "create nf_tables table '%s " NFT_TABLE "'", name);
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

int nft_marks_set(struct nl_wire *w, enum nft_layout l, const struct nft_marks *m, struct err *e)
{
	auto_batch struct nl_batch *b = nl_batch_new();
	const struct nft_place *p = nft_places(l);

	for (size_t i = 0; p[i].family; i++) {
		if (i == 0 || p[i].family != p[i - 1].family)
			add_table(b, p[i].family);
		add_chain(b, &p[i], m);
	}
	return nl_batch_commit(w, b, e);
}

int nft_reply_marks_set(struct nl_wire *w, const char *iface, uint32_t mark, struct err *e)
{
	struct nft_marks m = {iface, mark};
	int r = -ENOENT;

	for (enum nft_layout l = NFT_INET; l < NFT_LAYOUTS && is_unsupported(r); l++)
		r = nft_marks_set(w, l, &m, e);
	if (r == 0)
		return 0;
	return err_wrap(e, r, "set marks for replies by '%s'%s", iface,
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

/* An absent table would fail the transaction, so each is made before it is deleted. */
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

/* Every transaction waits for the kernel's readers, 15 ms or so: one is tried first; a kernel
 * that lacks a family gets one for each. */
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

/* Only the kernel can tell: a transaction that fails at its last message, if at no other. */
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
		     "have the transaction fail");
	return nl_batch_commit(w, b, NULL) == -EEXIST;
}

int nft_reply_marks_check(struct nl_wire *w, const char *iface, uint32_t mark, struct err *e)
{
	struct nft_marks m = {iface, mark};
	enum nft_layout l = NFT_INET;
	int r = nft_marks_check(w, l, &m, e);

	while (is_unsupported(r) && ++l < NFT_LAYOUTS)
		r = nft_marks_check(w, l, &m, e);
	/* IPv4 alone is what a kernel without IPv6 gets; on any other, somebody took the rest. */
	if (r == 1 && l == NFT_IPV4 && takes_ipv6(w))
		return 0;
	if (is_unsupported(r)) {
		err_clear(e);
		return 0;
	}
	return r < 0 ? err_wrap(e, r, "check marks for replies by '%s'", iface) : r;
}

static int ignore(void *msg, void *arg)
{
	(void)msg;
	(void)arg;
	return 0;
}

/* nfnetlink answers EINVAL for a subsystem that nobody has registered. */
int nft_status(struct nl_wire *w, struct err *e)
{
	int r = nl_request(w, nft_table_msg(NFT_MSG_GETTABLE, 0, NFPROTO_IPV4), ignore, NULL, NULL,
			   e);

	if (r == 0 || r == -ENOENT) {
		err_clear(e);
		return 0;
	}
	if (r != -EINVAL && !is_unsupported(r))
		return err_wrap(e, r, "ask for nf_tables");
	return err_kind(
		e, ERR_UNAVAILABLE, -EOPNOTSUPP,
		"mark replies: Operation not supported (EOPNOTSUPP): the kernel lacks nf_tables: load module "
		"nf_tables");
}
