/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "block/op.h"
#include "ipam_lab.h"

static struct block_cut cut_of(const char *subnet, uint8_t asked, bool one_node)
{
	struct block_cut c;
	struct ipnet n = il_net(subnet);
	struct err e = ERR_INIT;

	if (block_cut_choose(&n, asked, one_node, &c, &e) < 0)
		fail_msg("%s", e.text);
	return c;
}

static void test_cut(void **state)
{
	struct ipnet n = il_net("10.0.0.0/24");
	struct block_cut c;
	struct err e = ERR_INIT;

	(void)state;
	assert_int_equal(cut_of("10.0.0.0/16", 0, false).prefix, 28);
	assert_int_equal(cut_of("10.0.0.0/30", 0, false).prefix, 30);
	assert_int_equal(cut_of("10.0.0.64/27", 0, true).prefix, 27);
	assert_int_equal(cut_of("10.0.0.0/8", 0, true).prefix, 16);
	assert_int_equal(cut_of("fd00::/64", 0, false).prefix, 124);
	assert_int_equal(cut_of("fd00::/64", 120, false).prefix, 120);
	/* Host bits of a subnet do not move its blocks. */
	c = cut_of("10.0.0.77/24", 0, false);
	il_assert_ip(&c.subnet.ip, "10.0.0.0");
	assert_int_equal(block_cut_choose(&n, 23, false, &c, &e), -ERANGE);
	assert_has(e.text, "wants 24 to 32");
}

static void test_index(void **state)
{
	struct block_cut c = cut_of("10.0.0.0/24", 0, false);
	struct ipaddr in = il_ip("10.0.0.47"), out = il_ip("10.0.1.1");
	struct ipnet net;
	char text[IP_TEXT_MAX];
	u128 index;

	(void)state;
	assert_true(block_index(&c, &in, &index));
	assert_int_equal(index, 2);
	net = block_net(&c, index);
	assert_string_equal(ipnet_str(&net, text), "10.0.0.32/28");
	assert_false(block_index(&c, &out, &index));
	assert_true(block_count(&c) == 16);
}

static void test_name(void **state)
{
	char name[BLOCK_NAME_MAX + 1], longest[300];
	u128 index;

	(void)state;
	assert_int_equal(block_name("rail0", 0x1f, name), 0);
	assert_string_equal(name, "rail0-1f");
	assert_true(block_name_parse(name, "rail0", &index));
	assert_int_equal(index, 0x1f);
	assert_int_equal(block_name("v6", ((u128)1 << 64) + 2, name), 0);
	assert_string_equal(name, "v6-10000000000000002");
	assert_true(block_name_parse(name, "v6", &index));
	assert_true(index == ((u128)1 << 64) + 2);
	/* A pool "rail0-1" has its blocks, "rail0" has another of the same beginning. */
	assert_false(block_name_parse("rail0-1-2", "rail0", &index));
	assert_true(block_name_parse("rail0-1-2", "rail0-1", &index));
	assert_false(block_name_parse("rail0-", "rail0", &index));
	assert_false(block_name_parse("rail0-01", "rail0", &index));
	assert_false(block_name_parse("rail0-G", "rail0", &index));
	memset(longest, 'p', 252);
	longest[252] = '\0';
	assert_int_equal(block_name(longest, 1, name), -ENAMETOOLONG);
}

static void set_add(struct ip_set *s, const char *text)
{
	struct ip_range r;

	assert_int_equal(ip_range_parse(span_of(text), 4, &r, NULL), 0);
	ip_set_add(s, &r);
}

static void test_pick(void **state)
{
	struct block_cut c = cut_of("10.0.0.0/24", 0, false);
	struct ip_set s = {0};
	u128 taken[] = {1, 4}, all[] = {1, 4, 15}, index = 0;

	(void)state;
	set_add(&s, "10.0.0.20-10.0.0.25");
	set_add(&s, "10.0.0.70");
	set_add(&s, "10.0.0.255");
	assert_true(block_next(&c, &s, &index));
	assert_int_equal(index, 1);
	index = 5;
	assert_true(block_next(&c, &s, &index));
	assert_int_equal(index, 15);
	/* Whatever the seed: the only one that is left, and none when none is. */
	for (uint64_t seed = 0; seed < 40; seed++) {
		assert_true(block_pick(&c, &s, taken, 2, seed, &index));
		assert_int_equal(index, 15);
		assert_false(block_pick(&c, &s, all, 3, seed, &index));
	}
	ip_set_done(&s);
}

static void test_addresses(void **state)
{
	struct ip_set s = {0}, got = {0};
	struct ipnet net = il_net("10.0.0.16/28");
	struct buf b;

	(void)state;
	set_add(&s, "10.0.0.1-10.0.0.18");
	set_add(&s, "10.0.0.20");
	set_add(&s, "10.0.0.31-10.0.0.40");
	block_addresses(&s, &net, &got);
	buf_init(&b, 200);
	ip_set_str(&got, &b);
	assert_string_equal(b.p, "10.0.0.16-10.0.0.18, 10.0.0.20, 10.0.0.31");
	buf_done(&b);
	ip_set_done(&got);
	ip_set_done(&s);
}

/* --- the log --- */

struct lab {
	struct ipam_lab l;
	struct block_log log;
	struct block_table t;
};

static int open_log(struct lab *x, const char *node, struct err *e)
{
	return block_log_open(&x->log, &x->l.root, "/state/blocks.json", node, &x->t, e);
}

static void close_log(struct lab *x)
{
	block_table_done(&x->t);
	block_log_close(&x->log);
}

static struct block_claim a_claim(void)
{
	static struct ipaddr ceded[1];

	ceded[0] = il_ip("10.0.0.20");
	return (struct block_claim){.name = (char *)"p-1",
				    .pool = (char *)"p",
				    .uid = (char *)"u1",
				    .token = "t-1",
				    .net = il_net("10.0.0.16/28"),
				    .ceded = ceded,
				    .n_ceded = 1};
}

static void make(struct lab *x)
{
	struct err e = ERR_INIT;

	*x = (struct lab){0};
	il_make(&x->l);
	assert_int_equal(dir_make(&x->l.root, "/state", 0700, &e), 0);
	if (open_log(x, "n1", &e) < 0)
		fail_msg("%s", e.text);
}

static void drop(struct lab *x)
{
	close_log(x);
	il_drop(&x->l);
}

static void test_log(void **state)
{
	struct lab x;
	struct block_claim c = a_claim();
	struct block_loan l = {.block = (char *)"p-7",
			       .pool = (char *)"p",
			       .ip = il_ip("10.0.0.115"),
			       .token = "t-2",
			       .state = LOAN_ASKING};
	char id[BLOCK_ID_MAX], token[BLOCK_TOKEN_MAX], again[BLOCK_TOKEN_MAX];

	(void)state;
	make(&x);
	block_log_token(&x.log, token);
	assert_true(block_log_is_ours(&x.log, token));
	assert_false(block_log_is_ours(&x.log, "0123456789abcdef-0"));
	assert_int_equal(block_log_claim(&x.log, &x.t, &c, NULL), 0);
	assert_int_equal(block_log_loan(&x.log, &x.t, &l, NULL), 0);
	strcpy(id, x.log.id);
	close_log(&x);
	assert_int_equal(open_log(&x, "n1", NULL), 0);
	assert_string_equal(x.log.id, id);
	block_log_token(&x.log, again);
	assert_string_not_equal(again, token);
	assert_int_equal(x.t.n_claims, 1);
	assert_string_equal(x.t.claims[0].uid, "u1");
	assert_int_equal(x.t.claims[0].state, CLAIM_HELD);
	il_assert_ip(&x.t.claims[0].ceded[0], "10.0.0.20");
	assert_int_equal(x.t.n_loans, 1);
	assert_int_equal(x.t.loans[0].state, LOAN_ASKING);
	c = x.t.claims[0];
	c.state = CLAIM_GONE;
	assert_int_equal(block_log_claim(&x.log, &x.t, &c, NULL), 0);
	assert_int_equal(x.t.n_claims, 0);
	drop(&x);
}

static void test_log_of_others(void **state)
{
	struct lab x;
	struct err e = ERR_INIT;

	(void)state;
	make(&x);
	close_log(&x);
	assert_int_equal(open_log(&x, "n2", &e), -EXDEV);
	assert_has(e.text, "it is of node 'n1', this is 'n2'");
	err_clear(&e);
	il_write(&x.l, "/state/blocks.json", "{\"version\":2}");
	assert_int_equal(open_log(&x, "n1", &e), -EPROTO);
	err_clear(&e);
	il_write(&x.l, "/state/blocks.json", "{\"version\":1,\"node\":");
	assert_int_equal(open_log(&x, "n1", &e), -EBADMSG);
	assert_has(e.text, "block log '/state/blocks.json'");
	il_drop(&x.l);
}

/* A write that failed may be there all the same: a gain is not taken, a giving up counts. */
static void test_log_fails(void **state)
{
	struct lab x;
	struct block_claim c = a_claim(), leave;

	(void)state;
	make(&x);
	assert_int_equal(block_log_claim(&x.log, &x.t, &c, NULL), 0);
	/* A folder in the file's place. */
	assert_int_equal(file_remove(&x.l.root, "/state/blocks.json", NULL), 0);
	assert_int_equal(dir_make(&x.l.root, "/state/blocks.json/full", 0700, NULL), 0);
	c.n_ceded = 0;
	assert_true(block_log_claim(&x.log, &x.t, &c, NULL) < 0);
	assert_int_equal(x.t.claims[0].n_ceded, 1);
	c.name = (char *)"p-2";
	assert_true(block_log_claim(&x.log, &x.t, &c, NULL) < 0);
	assert_null(block_claim_find(&x.t, "p-2"));
	leave = x.t.claims[0];
	leave.state = CLAIM_LEAVING;
	assert_true(block_log_claim(&x.log, &x.t, &leave, NULL) < 0);
	assert_int_equal(x.t.claims[0].state, CLAIM_LEAVING);
	drop(&x);
}

/* What was given up and could not be written is written before the API server hears of it. */
static void test_log_is_ahead(void **state)
{
	struct lab x;
	struct block_claim c = a_claim();
	struct block_op op = {.kind = OP_DELETE, .name = "p-1", .pool = "p"};
	auto_free char *path = NULL;

	(void)state;
	make(&x);
	path = il_path(&x.l, "/state/blocks.json");
	assert_int_equal(block_log_claim(&x.log, &x.t, &c, NULL), 0);
	assert_int_equal(file_remove(&x.l.root, "/state/blocks.json", NULL), 0);
	assert_int_equal(dir_make(&x.l.root, "/state/blocks.json", 0700, NULL), 0);
	assert_true(block_op_begin(&x.log, &x.t, &op, NULL) < 0);
	assert_true(block_op_begin(&x.log, &x.t, &op, NULL) < 0);
	assert_int_equal(rmdir(path), 0);
	assert_int_equal(block_op_begin(&x.log, &x.t, &op, NULL), 0);
	close_log(&x);
	assert_int_equal(open_log(&x, "n1", NULL), 0);
	assert_int_equal(x.t.claims[0].state, CLAIM_LEAVING);
	drop(&x);
}

/* The agent may go and come while the API server's data is not what it was, or while it is set back. */
static void test_log_set_back(void **state)
{
	struct lab x;
	struct block_claim c = a_claim();
	struct block_object o = {.name = xstrdup("p-1"),
				 .pool = xstrdup("p"),
				 .uid = xstrdup("u1"),
				 .version = xstrdup("812"),
				 .node = xstrdup("n1"),
				 .node_uid = xstrdup(""),
				 .claim = xstrdup("t-1")};

	(void)state;
	make(&x);
	block_object_put(&x.t, &o);
	assert_int_equal(block_log_claim(&x.log, &x.t, &c, NULL), 0);
	close_log(&x);
	assert_int_equal(open_log(&x, "n1", NULL), 0);
	assert_int_equal(x.log.seen, 812);
	assert_false(x.log.set_back);
	assert_int_equal(block_log_claim(&x.log, &x.t, &c, NULL), 0);
	close_log(&x);
	assert_int_equal(open_log(&x, "n1", NULL), 0);
	assert_int_equal(x.log.seen, 812);
	assert_int_equal(block_log_etcd_restored(&x.log, &x.t, true, NULL), 0);
	close_log(&x);
	assert_int_equal(open_log(&x, "n1", NULL), 0);
	assert_true(x.log.set_back);
	assert_int_equal(x.log.seen, 0);
	assert_int_equal(block_log_etcd_restored(&x.log, &x.t, false, NULL), 0);
	close_log(&x);
	assert_int_equal(open_log(&x, "n1", NULL), 0);
	assert_false(x.log.set_back);
	drop(&x);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_cut),	      cmocka_unit_test(test_index),
		cmocka_unit_test(test_name),	      cmocka_unit_test(test_pick),
		cmocka_unit_test(test_addresses),     cmocka_unit_test(test_log),
		cmocka_unit_test(test_log_of_others), cmocka_unit_test(test_log_fails),
		cmocka_unit_test(test_log_is_ahead),  cmocka_unit_test(test_log_set_back),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
