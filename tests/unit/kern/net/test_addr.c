/* SPDX-License-Identifier: Apache-2.0 */
/* Addresses and neighbours are listed, added and deleted by netlink. */
#include "kern_lab.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "kern/net/addr.h"

enum {
	PERMANENT_FLAG = 0x80,
	TENTATIVE = 0x40,
	DADFAILED = 0x08,
	NODAD = 0x02,
	NOPREFIXROUTE = 0x200
};
enum { SCOPE_LINK_ADDR = 253 };

static const struct addr *find(const struct addr *list, size_t n, const char *text)
{
	struct ipnet net = t_net(text);

	for (size_t i = 0; i < n; i++) {
		if (ipnet_eq(&list[i].net, &net))
			return &list[i];
	}
	return NULL;
}

static void test_recorded_address_dump_is_decoded(void **state)
{
	auto_nl struct nl_wire *w = kern_replay("addr_list.nl");
	auto_free struct addr *list = NULL;
	const struct addr *a;
	size_t n;

	(void)state;
	OK(addr_list(w, 0, 0, &list, &n, &e));
	OK(nl_replay_finished(w, &e));
	ASSERT_EQ(n, 10);
	a = find(list, n, "10.1.0.2/24");
	ASSERT_EQ(a->index, 3);
	ASSERT_EQ(a->flags, PERMANENT_FLAG);
	ASSERT_EQ(a->scope, 0);
	a = find(list, n, "10.2.0.2/32");
	ASSERT_EQ(a->index, 5);
	ASSERT_EQ(a->scope, SCOPE_LINK_ADDR);
	a = find(list, n, "fd00:2::2/64");
	ASSERT_EQ(a->index, 5);
	ASSERT_EQ(a->flags, PERMANENT_FLAG | NODAD | NOPREFIXROUTE);
	assert_non_null(find(list, n, "127.0.0.1/8"));
	assert_non_null(find(list, n, "::1/128"));
}

static void use_addrs(struct nl_wire *w)
{
	struct addr *list = NULL;
	char text[IP_TEXT_MAX];
	size_t n = 0;

	if (addr_list(w, 0, 0, &list, &n, NULL) == 0) {
		for (size_t i = 0; i < n; i++)
			assert_true(strlen(ipnet_str(&list[i].net, text)) > 0);
	}
	free(list);
}

static void test_mutated_address_dumps_do_not_crash(void **state)
{
	(void)state;
	kern_mutate("addr_list.nl", 3000, use_addrs);
}

static void test_tentative_and_dadfailed_flags_are_distinguished(void **state)
{
	struct addr a = {.flags = TENTATIVE};

	(void)state;
	assert_true(addr_is_tentative(&a) && !addr_is_dadfailed(&a));
	a.flags = DADFAILED;
	assert_true(!addr_is_tentative(&a) && addr_is_dadfailed(&a));
}

static size_t count(struct kern_lab *l, int family, int index)
{
	struct addr *list;
	size_t n;

	OK(addr_list(l->w, family, index, &list, &n, &e));
	for (size_t i = 0; i < n; i++) {
		assert_true(!family || list[i].net.ip.family == family);
		assert_true(!index || list[i].index == index);
	}
	free(list);
	return n;
}

static void test_added_addresses_are_listed_until_deleted(void **state)
{
	auto_batch struct nl_batch *b = nl_batch_new();
	struct ipnet v4 = t_net("10.1.0.2/24"), v6 = t_net("fd00::2/64");
	struct ipnet host = t_net("169.254.1.1/32"), odd = t_net("fd00::3/64");
	auto_free struct addr *list = NULL;
	struct kern_lab l;
	int index;
	size_t n;

	(void)state;
	kern_open(&l);
	index = kern_veth(&l, "net1", "far1");
	ASSERT_EQ(count(&l, 4, index), 0);
	addr_add(b, index, "net1", &v4, 0);
	addr_add(b, index, "net1", &v6, ADDR_NODAD | ADDR_NOPREFIXROUTE);
	addr_add(b, index, "net1", &odd, ADDR_OPTIMISTIC);
	addr_add(b, index, "net1", &host, ADDR_SCOPE_LINK);
	kern_commit(&l, b);
	ASSERT_EQ(count(&l, 4, index), 2);
	ASSERT_EQ(count(&l, 4, 0), 3); /* and 127.0.0.1 */
	ASSERT_EQ(count(&l, 4, 4711), 0);
	OK(addr_list(l.w, 0, index, &list, &n, &e));
	ASSERT_EQ(find(list, n, "fd00::2/64")->flags & NODAD, NODAD);
	ASSERT_EQ(find(list, n, "fd00::2/64")->flags & NOPREFIXROUTE, NOPREFIXROUTE);
	ASSERT_EQ(find(list, n, "fd00::3/64")->flags & NODAD, 0);
	ASSERT_EQ(find(list, n, "169.254.1.1/32")->scope, SCOPE_LINK_ADDR);
	ASSERT_EQ(find(list, n, "10.1.0.2/24")->scope, 0);
	addr_add(b, index, "net1", &v4, 0);
	ASSERT_EQ(nl_batch_commit(l.w, b, &e), -EEXIST);
	assert_non_null(strstr(e.text, "add address 10.1.0.2/24 to 'net1': File exists (EEXIST)"));
	nl_batch_reset(b);
	addr_del(b, index, "net1", &v4);
	addr_del(b, index, "net1", &v4);
	addr_del(b, index, "net1", &v6);
	kern_commit(&l, b);
	ASSERT_EQ(count(&l, 4, index), 1);
	kern_close(&l);
}

/* --- neighbours --- */

static const struct neigh *find_neigh(const struct neigh *list, size_t n, const char *text)
{
	struct ipaddr ip = t_ip(text);

	for (size_t i = 0; i < n; i++) {
		if (ip_eq(&list[i].ip, &ip))
			return &list[i];
	}
	return NULL;
}

static void test_recorded_neighbour_dump_is_decoded(void **state)
{
	static const char *const permanent[] = {"10.1.0.9", "10.2.0.9", "fd00:1::9"};
	auto_nl struct nl_wire *w = kern_replay("neigh_list.nl");
	struct mac mac = t_mac("02:00:00:00:00:99");
	auto_free struct neigh *list = NULL;
	size_t n, found = 0;

	(void)state;
	OK(neigh_list(w, 0, 0, &list, &n, &e));
	OK(nl_replay_finished(w, &e));
	ASSERT_EQ(n, 15);
	for (size_t i = 0; i < n; i++)
		found += neigh_is_permanent(&list[i]);
	ASSERT_EQ(found, 3);
	for (size_t i = 0; i < ARRAY_LEN(permanent); i++) {
		const struct neigh *p = find_neigh(list, n, permanent[i]);

		assert_true(neigh_is_permanent(p) && mac_eq(&p->mac, &mac));
	}
}

static void use_neighs(struct nl_wire *w)
{
	struct neigh *list = NULL;
	char text[MAC_TEXT_MAX];
	size_t n = 0;

	if (neigh_list(w, 0, 0, &list, &n, NULL) == 0) {
		for (size_t i = 0; i < n; i++)
			assert_true(strlen(mac_str(&list[i].mac, text)) < MAC_TEXT_MAX);
	}
	free(list);
}

static void test_mutated_neighbour_dumps_do_not_crash(void **state)
{
	(void)state;
	kern_mutate("neigh_list.nl", 3000, use_neighs);
}

static struct neigh neigh_of(struct kern_lab *l, int index, const char *text)
{
	struct neigh *list, ret = {0};
	const struct neigh *found;
	size_t n;

	OK(neigh_list(l->w, 0, index, &list, &n, &e));
	for (size_t i = 0; i < n; i++)
		ASSERT_EQ(list[i].index, index);
	found = find_neigh(list, n, text);
	if (found)
		ret = *found;
	free(list);
	return ret;
}

static void test_permanent_neighbours_are_added_replaced_and_deleted(void **state)
{
	auto_batch struct nl_batch *b = nl_batch_new();
	struct mac one = t_mac("02:00:00:00:00:01"), two = t_mac("02:00:00:00:00:02");
	struct ipaddr v4 = t_ip("10.1.0.9"), v6 = t_ip("fd00::9");
	struct neigh found;
	struct kern_lab l;
	int index;

	(void)state;
	kern_open(&l);
	index = kern_veth(&l, "net1", "far1");
	neigh_add(b, index, "net1", &v4, &one, false);
	neigh_add(b, index, "net1", &v6, &one, false);
	kern_commit(&l, b);
	found = neigh_of(&l, index, "10.1.0.9");
	assert_true(neigh_is_permanent(&found) && mac_eq(&found.mac, &one));
	found = neigh_of(&l, index, "fd00::9");
	assert_true(neigh_is_permanent(&found) && mac_eq(&found.mac, &one));
	neigh_add(b, index, "net1", &v4, &two, false);
	FAILS(nl_batch_commit(l.w, b, &e), -EEXIST,
	      "add neighbour 10.1.0.9 on 'net1': File exists (EEXIST)");
	nl_batch_reset(b);
	neigh_add(b, index, "net1", &v4, &two, true);
	kern_commit(&l, b);
	found = neigh_of(&l, index, "10.1.0.9");
	assert_true(mac_eq(&found.mac, &two));
	neigh_del(b, index, "net1", &v4);
	neigh_del(b, index, "net1", &v4);
	kern_commit(&l, b);
	found = neigh_of(&l, index, "10.1.0.9");
	assert_false(neigh_is_permanent(&found));
	kern_close(&l);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_recorded_address_dump_is_decoded),
		cmocka_unit_test(test_mutated_address_dumps_do_not_crash),
		cmocka_unit_test(test_tentative_and_dadfailed_flags_are_distinguished),
		cmocka_unit_test(test_added_addresses_are_listed_until_deleted),
		cmocka_unit_test(test_recorded_neighbour_dump_is_decoded),
		cmocka_unit_test(test_mutated_neighbour_dumps_do_not_crash),
		cmocka_unit_test(test_permanent_neighbours_are_added_replaced_and_deleted),
	};

	return T_RUN(tests, NULL, NULL);
}
