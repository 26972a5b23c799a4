/* SPDX-License-Identifier: Apache-2.0 */
/* The marks of the symmetric reply path: the check recognizes rules that were set, and replies
 * leave by the interface of their request. */
#include "kern_lab.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <linux/netfilter.h>
#include <linux/netfilter/nf_tables.h>

#include "base/alloc.h"
#include "kern/net/addr.h"
#include "kern/sys/netns.h"
#include "kern/net/internal.h"
#include "kern/net/route.h"

static const struct nft_marks veth0 = {"veth0", 1};

struct nft_lab {
	struct kern_lab lab;
	struct nl_wire *w;
};

static int setup(void **state)
{
	struct nft_lab *l = calloc(1, sizeof(*l));

	kern_open(&l->lab);
	OK(nl_open(&l->w, NL_NETFILTER, l->lab.ns, &e));
	*state = l;
	return 0;
}

static int teardown(void **state)
{
	struct nft_lab *l = *state;

	nl_wire_close(l->w);
	kern_close(&l->lab);
	free(l);
	return 0;
}

static int check(struct nft_lab *l, const char *iface, uint32_t mark)
{
	int r;

	OK(r = nft_reply_marks_check(l->w, iface, mark, &e));
	return r;
}

static void test_reply_marks_are_set_checked_and_deleted(void **state)
{
	struct nft_lab *l = *state;

	ASSERT_EQ(check(l, "veth0", 1), 0);
	OK(nft_reply_marks_del(l->w, &e));
	OK(nft_reply_marks_set(l->w, "veth0", 1, &e));
	ASSERT_EQ(check(l, "veth0", 1), 1);
	/* Set again: no rule exists twice. */
	OK(nft_reply_marks_set(l->w, "veth0", 1, &e));
	ASSERT_EQ(check(l, "veth0", 1), 1);
	ASSERT_EQ(check(l, "veth1", 1), 0);
	ASSERT_EQ(check(l, "veth0", 2), 0);
	/* Set for another interface: the old rules are deleted. */
	OK(nft_reply_marks_set(l->w, "veth1", 0x10, &e));
	ASSERT_EQ(check(l, "veth0", 1), 0);
	ASSERT_EQ(check(l, "veth1", 0x10), 1);
	OK(nft_reply_marks_del(l->w, &e));
	ASSERT_EQ(check(l, "veth1", 0x10), 0);
	OK(nft_reply_marks_del(l->w, &e));
}

static void change(struct nft_lab *l, struct nl_msg *m)
{
	auto_batch struct nl_batch *b = nl_batch_new();

	nl_batch_add(b, m, 0, "meddle");
	OK(nl_batch_commit(l->w, b, &e));
}

static void test_rule_changes_by_other_programs_are_detected_and_repaired(void **state)
{
	const struct nft_place *pre = nft_places(NFT_INET), *out = pre + 1;
	struct nft_marks other = {"net1", 1};
	struct nft_lab *l = *state;
	struct nl_msg *m;

	/* one additional rule */
	OK(nft_reply_marks_set(l->w, "veth0", 1, &e));
	change(l, nft_rule_msg(NFT_MSG_NEWRULE, NLM_F_CREATE | NLM_F_APPEND, out, 0, &veth0));
	ASSERT_EQ(check(l, "veth0", 1), 0);
	/* another rule before unirail's */
	OK(nft_reply_marks_set(l->w, "veth0", 1, &e));
	change(l, nft_rule_msg(NFT_MSG_NEWRULE, NLM_F_CREATE, pre, 0, &other));
	ASSERT_EQ(check(l, "veth0", 1), 0);
	/* the rules of a chain are missing */
	OK(nft_reply_marks_set(l->w, "veth0", 1, &e));
	m = nft_dump_msg(NFT_MSG_DELRULE, pre->family);
	nlmsg_hdr(m)->nlmsg_flags = NLM_F_REQUEST;
	put_str(m, NFTA_RULE_TABLE, NFT_TABLE);
	put_str(m, NFTA_RULE_CHAIN, nft_chain_name(out));
	change(l, m);
	ASSERT_EQ(check(l, "veth0", 1), 0);
	/* a chain that unirail did not create */
	OK(nft_reply_marks_set(l->w, "veth0", 1, &e));
	m = nft_dump_msg(NFT_MSG_NEWCHAIN, pre->family);
	nlmsg_hdr(m)->nlmsg_flags = NLM_F_REQUEST | NLM_F_CREATE;
	put_str(m, NFTA_CHAIN_TABLE, NFT_TABLE);
	put_str(m, NFTA_CHAIN_NAME, "stranger");
	change(l, m);
	ASSERT_EQ(check(l, "veth0", 1), 0);
	/* the table is dormant */
	OK(nft_reply_marks_set(l->w, "veth0", 1, &e));
	m = nft_dump_msg(NFT_MSG_NEWTABLE, pre->family);
	nlmsg_hdr(m)->nlmsg_flags = NLM_F_REQUEST;
	put_str(m, NFTA_TABLE_NAME, NFT_TABLE);
	put_be32(m, NFTA_TABLE_FLAGS, NFT_TABLE_F_DORMANT);
	change(l, m);
	ASSERT_EQ(check(l, "veth0", 1), 0);
	OK(nft_reply_marks_set(l->w, "veth0", 1, &e));
	ASSERT_EQ(check(l, "veth0", 1), 1);
}

static void test_tables_of_other_programs_are_not_deleted(void **state)
{
	struct nft_lab *l = *state;
	struct nl_msg *m = nft_dump_msg(NFT_MSG_NEWTABLE, nft_places(NFT_INET)->family);

	nlmsg_hdr(m)->nlmsg_flags = NLM_F_REQUEST | NLM_F_CREATE;
	put_str(m, NFTA_TABLE_NAME, "stranger");
	change(l, m);
	m = nft_dump_msg(NFT_MSG_NEWCHAIN, nft_places(NFT_INET)->family);
	nlmsg_hdr(m)->nlmsg_flags = NLM_F_REQUEST | NLM_F_CREATE;
	put_str(m, NFTA_CHAIN_TABLE, "stranger");
	put_str(m, NFTA_CHAIN_NAME, "output");
	change(l, m);
	OK(nft_reply_marks_set(l->w, "veth0", 1, &e));
	ASSERT_EQ(check(l, "veth0", 1), 1);
	OK(nft_reply_marks_del(l->w, &e));
	m = nft_dump_msg(NFT_MSG_DELTABLE, nft_places(NFT_INET)->family);
	nlmsg_hdr(m)->nlmsg_flags = NLM_F_REQUEST;
	put_str(m, NFTA_TABLE_NAME, "stranger");
	change(l, m);
}

/* On a kernel without inet route chains, unirail creates one table for IPv4 and one for IPv6;
 * the check fails if either is missing. */
static void test_kernel_without_inet_chains_gets_two_tables(void **state)
{
	static const uint8_t families[] = {NFPROTO_IPV4, NFPROTO_IPV6};
	struct nft_lab *l = *state;

	for (size_t i = 0; i < ARRAY_LEN(families); i++) {
		OK(nft_marks_set(l->w, NFT_SPLIT, &veth0, &e));
		OK(nft_marks_set(l->w, NFT_SPLIT, &veth0, &e));
		ASSERT_EQ_MSG(check(l, "veth0", 1), 1, "families[%zu]", i);
		ASSERT_EQ_MSG(check(l, "veth0", 2), 0, "families[%zu]", i);
		change(l, nft_table_msg(NFT_MSG_DELTABLE, 0, families[i]));
		ASSERT_EQ_MSG(check(l, "veth0", 1), 0, "families[%zu]", i);
		/* The first check has not created the deleted table. */
		ASSERT_EQ_MSG(check(l, "veth0", 1), 0, "families[%zu]", i);
		OK(nft_reply_marks_del(l->w, &e));
	}
}

static void test_rules_without_ipv6_fail_the_check_on_a_kernel_with_ipv6(void **state)
{
	struct nft_lab *l = *state;
	int r;

	OK(nft_marks_set(l->w, NFT_IPV4, &veth0, &e));
	OK(r = nft_marks_check(l->w, NFT_IPV4, &veth0, &e));
	ASSERT_EQ(r, 1);
	ASSERT_EQ(check(l, "veth0", 1), 0);
}

/* The recording of a kernel without IPv6: its rules are accepted. */
static void test_marks_are_recognized_on_a_kernel_without_ipv6(void **state)
{
	auto_nl struct nl_wire *w = kern_replay("nft_ipv4.nl");

	(void)state;
	ASSERT_EQ(nft_reply_marks_check(w, "veth0", 1, &e), 1);
	OK(nl_replay_finished(w, &e));
}

static void test_missing_nf_tables_is_reported(void **state)
{
	auto_nl struct nl_wire *without = kern_replay("nft_none.nl");
	struct nft_lab *l = *state;

	OK(nft_status(l->w, &e));
	OK(nft_reply_marks_set(l->w, "veth0", 1, &e));
	OK(nft_status(l->w, &e));
	FAILS(nft_status(without, &e), -EOPNOTSUPP,
	      "mark replies: Operation not supported (EOPNOTSUPP): the kernel lacks nf_tables: load module nf_tables");
	OK(nl_replay_finished(without, &e));
}

static void test_failed_transaction_changes_nothing(void **state)
{
	auto_batch struct nl_batch *b = nl_batch_new();
	const struct nft_place *p = nft_places(NFT_INET);
	struct nft_lab *l = *state;

	OK(nft_reply_marks_set(l->w, "veth0", 1, &e));
	nl_batch_add(b, nft_table_msg(NFT_MSG_DELTABLE, 0, p->family), 0, "delete table");
	nl_batch_add(b, nft_rule_msg(NFT_MSG_NEWRULE, NLM_F_CREATE, p, 0, &veth0), 0, "add rule");
	FAILS(nl_batch_commit(l->w, b, &e), -ENOENT,
	      "add rule: No such file or directory (ENOENT)");
	ASSERT_EQ(nl_batch_result(b, 0), 0);
	ASSERT_EQ(check(l, "veth0", 1), 1);
}

static void test_recorded_rules_are_accepted(void **state)
{
	auto_nl struct nl_wire *w = kern_replay("nft_check.nl");

	(void)state;
	ASSERT_EQ(nft_reply_marks_check(w, "veth0", 1, &e), 1);
	OK(nl_replay_finished(w, &e));
}

static int agreed;

static void use_check(struct nl_wire *w)
{
	agreed += nft_reply_marks_check(w, "veth0", 1, NULL) == 1;
}

/* The check accepts only dumps in which the mutation changed nothing that the check compares:
 * nothing at all, or an ignored attribute such as a handle. */
static void test_mutated_rule_dumps_do_not_crash(void **state)
{
	(void)state;
	agreed = 0;
	kern_mutate("nft_check.nl", 3000, use_check);
	assert_in_range(agreed, 1, 300);
}

/* --- packets: a request arrives by veth0; without marks its reply would leave by net1 --- */

static int udp_socket(int ns, const char *ip, uint16_t port)
{
	struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons(port)};
	struct netns_visit v = NETNS_VISIT_INIT;
	int fd;

	ASSERT_EQ(inet_pton(AF_INET, ip, &a.sin_addr), 1);
	OK(netns_enter(ns, &v, &e));
	fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	netns_leave(&v);
	ASSERT_EQ(bind(fd, (struct sockaddr *)&a, sizeof(a)), 0);
	return fd;
}

static bool readable(int fd, int ms)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};

	return poll(&p, 1, ms) == 1;
}

/* The host sends a packet to the pod, which replies. Returns true if the reply arrives. */
static bool answered(int host_ns, int pod_ns, uint16_t port)
{
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(port)}, from;
	auto_fd int client = udp_socket(host_ns, "10.99.0.1", port);
	auto_fd int server = udp_socket(pod_ns, "10.1.0.2", port);
	socklen_t len = sizeof(from);
	char c = 'x';

	ASSERT_EQ(inet_pton(AF_INET, "10.1.0.2", &to.sin_addr), 1);
	ASSERT_EQ(sendto(client, &c, 1, 0, (struct sockaddr *)&to, sizeof(to)), 1);
	assert_true(readable(server, 5000));
	ASSERT_EQ(recvfrom(server, &c, 1, 0, (struct sockaddr *)&from, &len), 1);
	ASSERT_EQ(sendto(server, &c, 1, 0, (struct sockaddr *)&from, len), 1);
	return readable(client, 200);
}

static void add_address(struct nl_batch *b, int index, const char *text)
{
	struct ipnet net = t_net(text);

	addr_add(b, index, text, &net, 0);
}

static void add_default(struct nl_batch *b, int index, uint32_t table)
{
	struct route r = {.family = 4, .dst = t_net("0.0.0.0/0"), .index = index, .table = table};

	r.scope = SCOPE_LINK;
	route_add(b, &r, ROUTE_EXCL);
}

static void build(struct kern_lab *host, struct kern_lab *pod, struct nl_batch *b)
{
	struct link_spec s = LINK_SPEC_INIT;
	struct rule marked = {.family = 4, .mark = 1, .table = 100};
	int lo = 1, veth, net1;

	s.kind = "veth";
	s.name = "veth0";
	s.netns_fd = pod->ns;
	s.peer_name = "vethpod";
	s.up = s.peer_up = true;
	link_add(b, &s);
	kern_commit(host, b);
	net1 = kern_veth(pod, "net1", "far1");
	veth = kern_link(pod, "veth0").index;
	add_address(b, lo, "10.99.0.1/32");
	add_default(b, kern_link(host, "vethpod").index, TABLE_MAIN);
	kern_commit(host, b);
	add_address(b, veth, "10.1.0.2/32");
	add_default(b, net1, TABLE_MAIN);
	add_default(b, veth, 100);
	rule_add(b, &marked, 0);
	kern_commit(pod, b);
}

static void test_replies_leave_by_the_interface_of_the_request(void **state)
{
	auto_batch struct nl_batch *b = nl_batch_new();
	struct nft_lab *l = *state;
	struct kern_lab host;

	kern_open(&host);
	build(&host, &l->lab, b);
	assert_false(answered(host.ns, l->lab.ns, 1001));
	OK(nft_reply_marks_set(l->w, "veth0", 1, &e));
	assert_true(answered(host.ns, l->lab.ns, 1002));
	OK(nft_reply_marks_set(l->w, "net1", 1, &e));
	assert_false(answered(host.ns, l->lab.ns, 1003));
	OK(nft_marks_set(l->w, NFT_SPLIT, &veth0, &e));
	assert_true(answered(host.ns, l->lab.ns, 1004));
	kern_close(&host);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_reply_marks_are_set_checked_and_deleted, setup,
						teardown),
		cmocka_unit_test_setup_teardown(
			test_rule_changes_by_other_programs_are_detected_and_repaired, setup,
			teardown),
		cmocka_unit_test_setup_teardown(test_tables_of_other_programs_are_not_deleted,
						setup, teardown),
		cmocka_unit_test_setup_teardown(test_kernel_without_inet_chains_gets_two_tables,
						setup, teardown),
		cmocka_unit_test_setup_teardown(
			test_rules_without_ipv6_fail_the_check_on_a_kernel_with_ipv6, setup,
			teardown),
		cmocka_unit_test(test_marks_are_recognized_on_a_kernel_without_ipv6),
		cmocka_unit_test_setup_teardown(test_missing_nf_tables_is_reported, setup,
						teardown),
		cmocka_unit_test_setup_teardown(test_failed_transaction_changes_nothing, setup,
						teardown),
		cmocka_unit_test(test_recorded_rules_are_accepted),
		cmocka_unit_test(test_mutated_rule_dumps_do_not_crash),
		cmocka_unit_test_setup_teardown(test_replies_leave_by_the_interface_of_the_request,
						setup, teardown),
	};

	return T_RUN(tests, NULL, NULL);
}
