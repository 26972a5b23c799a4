/* SPDX-License-Identifier: Apache-2.0 */
#include "kern_lab.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <linux/fib_rules.h>
#include <linux/rtnetlink.h>

#include "base/alloc.h"
#include "kern/netlink/attr.h"
#include "kern/net/route.h"

enum { LOOKUP = 1 };

static struct rule from(const char *src, uint32_t table)
{
	struct rule r = {.src = t_net(src), .table = table};

	r.family = r.src.ip.family;
	return r;
}

static const struct rule *find(const struct rule *list, size_t n, const struct rule *want)
{
	for (size_t i = 0; i < n; i++) {
		if (rule_eq(&list[i], want))
			return &list[i];
	}
	return NULL;
}

static const struct rule everything = {
	.family = 6,
	.table = 70000,
	.priority = 500,
	.has_priority = true,
	.mark = 0x10,
	.mask = 0xf0,
	.iif = "net1",
	.protocol = 99,
};

static void test_recorded_rule_dump_is_decoded(void **state)
{
	auto_nl struct nl_wire *w = kern_replay("rule_list.nl");
	struct rule all = everything, src = from("10.1.0.2/32", 101);
	struct rule mark = {
		.family = 4, .table = 100, .mark = 1, .priority = 1000, .has_priority = true};
	auto_free struct rule *list = NULL;
	const struct rule *r;
	size_t n;

	(void)state;
	OK(rule_list(w, 0, &list, &n, &e));
	OK(nl_replay_finished(w, &e));
	ASSERT_EQ(n, 8);
	r = find(list, n, &src);
	ASSERT_EQ(r->priority, 32765); /* priority selected by the kernel */
	ASSERT_EQ(r->action, LOOKUP);
	assert_false(r->more);
	r = find(list, n, &mark);
	ASSERT_EQ(r->mask, UINT32_MAX);
	ASSERT_EQ(r->src.ip.family, 0);
	all.dst = t_net("fd00:9::/32");
	r = find(list, n, &all);
	ASSERT_EQ(r->table, 70000);
	ASSERT_EQ(r->protocol, 99);
	ASSERT_STR_EQ(r->iif, "net1");
}

static void use_list(struct nl_wire *w)
{
	struct rule *list = NULL;
	size_t n = 0;

	if (rule_list(w, 0, &list, &n, NULL) == 0) {
		for (size_t i = 0; i < n; i++)
			assert_true(rule_eq(&list[i], &list[i]) && strlen(list[i].iif) < 16);
	}
	free(list);
}

static void test_mutated_rule_dumps_do_not_crash(void **state)
{
	(void)state;
	kern_mutate("rule_list.nl", 3000, use_list);
}

static void test_equality_of_rules_ignores_an_unset_priority_or_protocol(void **state)
{
	struct rule a = from("10.1.0.2/24", 101), b = from("10.1.0.9/24", 101);

	(void)state;
	assert_true(rule_eq(&a, &b)); /* the kernel ignores host bits */
	b.action = LOOKUP;
	assert_true(rule_eq(&a, &b));
	a.protocol = 3;
	assert_true(rule_eq(&a, &b));
	b.protocol = 2;
	assert_false(rule_eq(&a, &b));
	a.protocol = 0;
	b.priority = 5, b.has_priority = true;
	assert_true(rule_eq(&a, &b));
	a.priority = 6, a.has_priority = true;
	assert_false(rule_eq(&a, &b));
	a.priority = 5;
	a.mark = b.mark = 1;
	b.mask = UINT32_MAX;
	assert_true(rule_eq(&a, &b));
	b.mask = 1;
	assert_false(rule_eq(&a, &b));
	b = a;
	b.table = 102;
	assert_false(rule_eq(&a, &b));
	b = a;
	b.src.len = 32;
	assert_false(rule_eq(&a, &b));
	b = a;
	memcpy(b.iif, "net1", 5);
	assert_false(rule_eq(&a, &b));
	b = a;
	b.dst = t_net("10.0.0.0/8");
	assert_false(rule_eq(&a, &b));
	b = a;
	b.more = true;
	assert_false(rule_eq(&a, &b));
}

static size_t list_of(struct kern_lab *l, int family, struct rule **list)
{
	size_t n;

	OK(rule_list(l->w, family, list, &n, &e));
	return n;
}

static size_t count(struct kern_lab *l, int family)
{
	struct rule *list;
	size_t n = list_of(l, family, &list);

	for (size_t i = 0; i < n; i++)
		assert_true(!family || list[i].family == family);
	free(list);
	return n;
}

static void test_added_rules_are_listed_until_deleted(void **state)
{
	auto_batch struct nl_batch *b = nl_batch_new();
	struct rule one = from("10.1.0.2/32", 101), two = from("fd00::2/128", 101),
		    all = everything;
	auto_free struct rule *list = NULL;
	const struct rule *r;
	struct kern_lab l;
	size_t n;

	(void)state;
	kern_open(&l);
	all.dst = t_net("fd00:9::/32");
	ASSERT_EQ(count(&l, 4), 3);
	ASSERT_EQ(count(&l, 6), 2);
	rule_add(b, &one, 0);
	rule_add(b, &two, 0);
	rule_add(b, &all, 0);
	kern_commit(&l, b);
	ASSERT_EQ(count(&l, 4), 4);
	ASSERT_EQ(count(&l, 6), 4);
	ASSERT_EQ(count(&l, 0), 8);
	n = list_of(&l, 0, &list);
	assert_non_null(find(list, n, &two));
	r = find(list, n, &all);
	ASSERT_EQ(r->priority, 500);
	ASSERT_EQ(r->mark, 0x10);
	ASSERT_EQ(r->mask, 0xf0);
	ASSERT_EQ(r->protocol, 99);
	rule_del(b, r);
	rule_del(b, r);
	rule_del(b, &one);
	kern_commit(&l, b);
	ASSERT_EQ(count(&l, 4), 3);
	ASSERT_EQ(count(&l, 6), 3);
	kern_close(&l);
}

static void test_existing_rule_is_an_error_without_nl_ok_exist(void **state)
{
	auto_batch struct nl_batch *b = nl_batch_new();
	struct rule r = from("10.1.0.2/32", 101);
	struct kern_lab l;

	(void)state;
	kern_open(&l);
	r.priority = 100, r.has_priority = true;
	rule_add(b, &r, 0);
	rule_add(b, &r, NL_OK_EXIST);
	kern_commit(&l, b);
	ASSERT_EQ(count(&l, 4), 4);
	rule_add(b, &r, 0);
	FAILS(nl_batch_commit(l.w, b, &e), -EEXIST,
	      "add rule 'from 10.1.0.2/32 lookup 101 pref 100': File exists (EEXIST)");
	kern_close(&l);
}

/* Priority 0 is a valid priority. */
static void test_rule_of_priority_zero_is_added(void **state)
{
	auto_batch struct nl_batch *b = nl_batch_new();
	struct rule r = from("10.1.0.2/32", 101);
	auto_free struct rule *list = NULL;
	struct kern_lab l;
	size_t n;

	(void)state;
	kern_open(&l);
	r.has_priority = true;
	rule_add(b, &r, 0);
	kern_commit(&l, b);
	n = list_of(&l, 4, &list);
	assert_non_null(find(list, n, &r));
	kern_close(&l);
}

/* A rule with attributes that unirail does not set is neither recognized nor deleted. */
static void test_rules_of_other_programs_are_not_deleted(void **state)
{
	auto_batch struct nl_batch *b = nl_batch_new();
	struct rule own = from("10.1.0.2/32", 101);
	struct fib_rule_hdr head = {
		.family = AF_INET, .src_len = 32, .table = 101, .action = LOOKUP};
	struct nl_msg *m =
		msg_new(RTM_NEWRULE, NLM_F_CREATE | NLM_F_EXCL, &head, sizeof(head), 256);
	auto_free struct rule *list = NULL;
	size_t n, more = 0;
	struct kern_lab l;

	(void)state;
	kern_open(&l);
	put_ip(m, FRA_SRC, &own.src.ip);
	put_str(m, FRA_OIFNAME, "net1");
	nl_batch_add(b, m, 0, "add foreign rule");
	m = msg_new(RTM_NEWRULE, NLM_F_CREATE | NLM_F_EXCL, &head, sizeof(head), 256);
	put_ip(m, FRA_SRC, &own.src.ip);
	put_u32(m, FRA_SUPPRESS_PREFIXLEN, 0);
	nl_batch_add(b, m, 0, "add foreign rule");
	kern_commit(&l, b);
	n = list_of(&l, 4, &list);
	ASSERT_EQ(n, 5);
	for (size_t i = 0; i < n; i++)
		more += list[i].more;
	ASSERT_EQ(more, 2);
	assert_null(find(list, n, &own));
	for (size_t i = 0; i < n; i++) {
		if (list[i].more)
			rule_del(b, &list[i]);
	}
	ASSERT_EQ(nl_batch_commit(l.w, b, &e), -EINVAL);
	ASSERT_EQ(count(&l, 4), 5);
	kern_close(&l);
}

/*
 * "not to 172.16.0.0/16 lookup main": listed with its inversion, and unequal to the rule without
 * inversion.
 */
static void test_inverted_rule_differs_from_the_rule_without_inversion(void **state)
{
	auto_batch struct nl_batch *b = nl_batch_new();
	struct rule plain = {.family = 4,
			     .dst = t_net("172.16.0.0/16"),
			     .table = TABLE_MAIN,
			     .priority = 2000,
			     .has_priority = true};
	struct rule inverted = plain;
	auto_free struct rule *list = NULL;
	struct kern_lab l;
	size_t n;

	(void)state;
	inverted.invert = true;
	kern_open(&l);
	rule_add(b, &inverted, 0);
	kern_commit(&l, b);
	n = list_of(&l, 4, &list);
	assert_non_null(find(list, n, &inverted));
	assert_null(find(list, n, &plain));
	rule_del(b, &inverted);
	kern_commit(&l, b);
	ASSERT_EQ(count(&l, 4), 3);
	kern_close(&l);
}

static void test_rule_with_addresses_of_another_family_is_refused(void **state)
{
	auto_batch struct nl_batch *b = nl_batch_new();
	struct rule r = from("10.1.0.2/32", 101);
	struct kern_lab l;

	(void)state;
	kern_open(&l);
	r.family = 6;
	rule_add(b, &r, 0);
	FAILS(nl_batch_commit(l.w, b, &e), -EINVAL,
	      "add rule 'from 10.1.0.2/32 lookup 101': Invalid argument (EINVAL): addresses and rule must have "
	      "the same family, IPv4 or IPv6");
	kern_close(&l);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_recorded_rule_dump_is_decoded),
		cmocka_unit_test(test_mutated_rule_dumps_do_not_crash),
		cmocka_unit_test(test_equality_of_rules_ignores_an_unset_priority_or_protocol),
		cmocka_unit_test(test_added_rules_are_listed_until_deleted),
		cmocka_unit_test(test_existing_rule_is_an_error_without_nl_ok_exist),
		cmocka_unit_test(test_rule_of_priority_zero_is_added),
		cmocka_unit_test(test_rules_of_other_programs_are_not_deleted),
		cmocka_unit_test(test_inverted_rule_differs_from_the_rule_without_inversion),
		cmocka_unit_test(test_rule_with_addresses_of_another_family_is_refused),
	};

	return T_RUN(tests, NULL, NULL);
}
