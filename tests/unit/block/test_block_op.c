/* SPDX-License-Identifier: Apache-2.0 */
#include "testlib.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "block/op.h"
#include "ipam_lab.h"

static struct block_cut cut_of(const char *subnet, uint8_t requested, bool one_node)
{
	struct block_cut c;
	struct ipnet n = t_net(subnet);
	struct err e = ERR_INIT;

	ASSERT_OK(block_cut_choose(&n, requested, one_node, &c, &e), &e);
	return c;
}

static void test_block_size_of_a_pool_is_chosen_by_its_subnet(void **state)
{
	struct ipnet n = t_net("10.0.0.0/24");
	struct block_cut c;
	struct err e = ERR_INIT;

	(void)state;
	ASSERT_EQ(cut_of("10.0.0.0/16", 0, false).prefix, 28);
	ASSERT_EQ(cut_of("10.0.0.0/30", 0, false).prefix, 30);
	ASSERT_EQ(cut_of("10.0.0.64/27", 0, true).prefix, 27);
	ASSERT_EQ(cut_of("10.0.0.0/8", 0, true).prefix, 16);
	ASSERT_EQ(cut_of("fd00::/64", 0, false).prefix, 124);
	ASSERT_EQ(cut_of("fd00::/64", 120, false).prefix, 120);
	/* Host bits of a subnet do not move its blocks. */
	c = cut_of("10.0.0.77/24", 0, false);
	il_assert_ip(&c.subnet.ip, "10.0.0.0");
	ASSERT_EQ(block_cut_choose(&n, 23, false, &c, &e), -ERANGE);
	ASSERT_HAS(e.text, "expected 24 to 32");
}

static void test_block_index_of_an_address_is_computed(void **state)
{
	struct block_cut c = cut_of("10.0.0.0/24", 0, false);
	struct ipaddr in = t_ip("10.0.0.47"), out = t_ip("10.0.1.1");
	struct ipnet net;
	char text[IP_TEXT_MAX];
	u128 index;

	(void)state;
	assert_true(block_index(&c, &in, &index));
	ASSERT_EQ(index, 2);
	net = block_net(&c, index);
	ASSERT_STR_EQ(ipnet_str(&net, text), "10.0.0.32/28");
	assert_false(block_index(&c, &out, &index));
	assert_true(block_count(&c) == 16);
}

static void test_block_name_has_pool_and_index(void **state)
{
	char name[BLOCK_NAME_MAX + 1], longest[300];
	u128 index;

	(void)state;
	ASSERT_EQ(block_name("rail0", 0x1f, name), 0);
	ASSERT_STR_EQ(name, "rail0-1f");
	assert_true(block_name_parse(name, "rail0", &index));
	ASSERT_EQ(index, 0x1f);
	ASSERT_EQ(block_name("v6", ((u128)1 << 64) + 2, name), 0);
	ASSERT_STR_EQ(name, "v6-10000000000000002");
	assert_true(block_name_parse(name, "v6", &index));
	assert_true(index == ((u128)1 << 64) + 2);
	/* "rail0-1-2" is a block of the pool "rail0-1", not of the pool "rail0". */
	assert_false(block_name_parse("rail0-1-2", "rail0", &index));
	assert_true(block_name_parse("rail0-1-2", "rail0-1", &index));
	assert_false(block_name_parse("rail0-", "rail0", &index));
	assert_false(block_name_parse("rail0-01", "rail0", &index));
	assert_false(block_name_parse("rail0-G", "rail0", &index));
	memset(longest, 'p', 252);
	longest[252] = '\0';
	ASSERT_EQ(block_name(longest, 1, name), -ENAMETOOLONG);
}

static void set_add(struct ip_set *s, const char *text)
{
	struct ip_range r;

	ASSERT_EQ(ip_range_parse(span_of(text), 4, &r, NULL), 0);
	ip_set_add(s, &r);
}

static void test_free_block_is_found_with_any_seed(void **state)
{
	struct block_cut c = cut_of("10.0.0.0/24", 0, false);
	struct ip_set s = {0};
	u128 taken[] = {1, 4}, all[] = {1, 4, 15}, index = 0;

	(void)state;
	set_add(&s, "10.0.0.20-10.0.0.25");
	set_add(&s, "10.0.0.70");
	set_add(&s, "10.0.0.255");
	assert_true(block_next(&c, &s, &index));
	ASSERT_EQ(index, 1);
	index = 5;
	assert_true(block_next(&c, &s, &index));
	ASSERT_EQ(index, 15);
	/* With every seed block_pick() finds the only free block, or finds none if all are
	 * taken. */
	for (uint64_t seed = 0; seed < 40; seed++) {
		assert_true(block_pick(&c, &s, taken, 2, seed, &index));
		ASSERT_EQ(index, 15);
		assert_false(block_pick(&c, &s, all, 3, seed, &index));
	}
	ip_set_done(&s);
}

static void test_block_has_the_pool_addresses_within_its_subnet(void **state)
{
	struct ip_set s = {0}, got = {0};
	struct ipnet net = t_net("10.0.0.16/28");
	struct buf b;

	(void)state;
	set_add(&s, "10.0.0.1-10.0.0.18");
	set_add(&s, "10.0.0.20");
	set_add(&s, "10.0.0.31-10.0.0.40");
	block_addresses(&s, &net, &got);
	buf_init(&b, 200);
	ip_set_str(&got, &b);
	ASSERT_STR_EQ(b.p, "10.0.0.16-10.0.0.18, 10.0.0.20, 10.0.0.31");
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
	static struct ipaddr released[1];

	released[0] = t_ip("10.0.0.20");
	return (struct block_claim){.name = (char *)"p-1",
				    .pool = (char *)"p",
				    .uid = (char *)"u1",
				    .token = "t-1",
				    .net = t_net("10.0.0.16/28"),
				    .released = released,
				    .n_released = 1};
}

static void make(struct lab *x)
{
	struct err e = ERR_INIT;

	*x = (struct lab){0};
	il_make(&x->l);
	ASSERT_EQ(dir_make(&x->l.root, "/state", 0700, &e), 0);
	ASSERT_OK(open_log(x, "n1", &e), &e);
}

static void drop(struct lab *x)
{
	close_log(x);
	il_drop(&x->l);
}

static void test_log_is_restored_after_reopen(void **state)
{
	struct lab x;
	struct block_claim c = a_claim();
	struct block_borrowed l = {.block = (char *)"p-7",
				   .pool = (char *)"p",
				   .ip = t_ip("10.0.0.115"),
				   .token = "t-2",
				   .state = BORROW_REQUESTED};
	char id[BLOCK_ID_MAX], token[BLOCK_TOKEN_MAX], again[BLOCK_TOKEN_MAX];

	(void)state;
	make(&x);
	block_log_token(&x.log, token);
	assert_true(block_log_has_token(&x.log, token));
	assert_false(block_log_has_token(&x.log, "0123456789abcdef-0"));
	ASSERT_EQ(block_log_claim(&x.log, &x.t, &c, NULL), 0);
	ASSERT_EQ(block_log_borrowed(&x.log, &x.t, &l, NULL), 0);
	strcpy(id, x.log.id);
	close_log(&x);
	ASSERT_EQ(open_log(&x, "n1", NULL), 0);
	ASSERT_STR_EQ(x.log.id, id);
	block_log_token(&x.log, again);
	assert_string_not_equal(again, token);
	ASSERT_EQ(x.t.n_claims, 1);
	ASSERT_STR_EQ(x.t.claims[0].uid, "u1");
	ASSERT_EQ(x.t.claims[0].state, CLAIM_HELD);
	il_assert_ip(&x.t.claims[0].released[0], "10.0.0.20");
	ASSERT_EQ(x.t.n_borrowed, 1);
	ASSERT_EQ(x.t.borrowed[0].state, BORROW_REQUESTED);
	c = x.t.claims[0];
	c.state = CLAIM_REMOVED;
	ASSERT_EQ(block_log_claim(&x.log, &x.t, &c, NULL), 0);
	ASSERT_EQ(x.t.n_claims, 0);
	drop(&x);
}

static void test_log_of_another_node_or_version_is_refused(void **state)
{
	struct lab x;
	struct err e = ERR_INIT;

	(void)state;
	make(&x);
	close_log(&x);
	ASSERT_EQ(open_log(&x, "n2", &e), -EXDEV);
	ASSERT_HAS(e.text, "the file belongs to node 'n1', this is node 'n2'");
	err_clear(&e);
	il_write(&x.l, "/state/blocks.json", "{\"version\":2}");
	ASSERT_EQ(open_log(&x, "n1", &e), -EPROTO);
	err_clear(&e);
	il_write(&x.l, "/state/blocks.json", "{\"version\":1,\"node\":");
	ASSERT_EQ(open_log(&x, "n1", &e), -EBADMSG);
	ASSERT_HAS(e.text, "block log '/state/blocks.json'");
	il_drop(&x.l);
}

#define LOG_OF(released)                                                                           \
	"{\"version\":1,\"node\":\"n1\",\"id\":\"0123456789abcdef\",\"tokens\":3,\"seen\":7,"      \
	"\"restored\":true,\"claims\":[{\"name\":\"p-1\",\"pool\":\"p\",\"uid\":\"u1\","           \
	"\"token\":\"t-1\",\"net\":\"10.0.0.16/28\",\"state\":\"held\",\"" released                \
	"\":[\"10.0.0.20\"]}],\"borrowed\":[{\"block\":\"p-7\",\"pool\":\"p\",\"ip\":"             \
	"\"10.0.0.115\",\"token\":\"t-2\",\"state\":\"held\",\"asserted\":true}]}"

static void test_log_members_are_read_and_written(void **state)
{
	static const char *const written[] = {"\"released\":[\"10.0.0.20\"]", "\"borrowed\":[{",
					      "\"restored\":true", "\"asserted\":true"};
	auto_free char *text = NULL;
	struct block_claim c = a_claim();
	struct err e = ERR_INIT;
	struct lab x;
	size_t size;

	(void)state;
	make(&x);
	close_log(&x);
	il_write(&x.l, "/state/blocks.json", LOG_OF("released"));
	ASSERT_EQ(open_log(&x, "n1", NULL), 0);
	assert_true(x.log.etcd_restored);
	ASSERT_EQ(x.t.claims[0].n_released, 1);
	il_assert_ip(&x.t.claims[0].released[0], "10.0.0.20");
	ASSERT_EQ(x.t.n_borrowed, 1);
	assert_true(x.t.borrowed[0].asserted);
	ASSERT_EQ(block_log_claim(&x.log, &x.t, &c, NULL), 0);
	text = il_read(&x.l, "/state/blocks.json", &size);
	for (size_t k = 0; k < ARRAY_LEN(written); k++)
		ASSERT_HAS(text, written[k]);
	close_log(&x);
	il_write(&x.l, "/state/blocks.json", LOG_OF("other"));
	ASSERT_EQ(open_log(&x, "n1", &e), -EBADMSG);
	ASSERT_HAS(e.text, "released");
	il_drop(&x.l);
}

/* A directory in place of the file makes writes of the log fail. */
static void fail_writes(struct lab *x)
{
	ASSERT_EQ(file_remove(&x->l.root, "/state/blocks.json", NULL), 0);
	ASSERT_EQ(dir_make(&x->l.root, "/state/blocks.json", 0700, NULL), 0);
}

static void allow_writes(struct lab *x)
{
	auto_free char *path = il_path(&x->l, "/state/blocks.json");

	ASSERT_EQ(rmdir(path), 0);
}

/*
 * A failed write may still have reached the disk: an acquisition is not applied, a release is
 * applied.
 */
static void test_failed_log_write_applies_releases_only(void **state)
{
	struct lab x;
	struct block_claim c = a_claim(), releasing;

	(void)state;
	make(&x);
	ASSERT_EQ(block_log_claim(&x.log, &x.t, &c, NULL), 0);
	/* A directory in place of the file makes writes fail. */
	ASSERT_EQ(file_remove(&x.l.root, "/state/blocks.json", NULL), 0);
	ASSERT_EQ(dir_make(&x.l.root, "/state/blocks.json/full", 0700, NULL), 0);
	c.n_released = 0;
	assert_true(block_log_claim(&x.log, &x.t, &c, NULL) < 0);
	ASSERT_EQ(x.t.claims[0].n_released, 1);
	c.name = (char *)"p-2";
	assert_true(block_log_claim(&x.log, &x.t, &c, NULL) < 0);
	assert_null(block_claim_find(&x.t, "p-2"));
	releasing = x.t.claims[0];
	releasing.state = CLAIM_RELEASING;
	assert_true(block_log_claim(&x.log, &x.t, &releasing, NULL) < 0);
	ASSERT_EQ(x.t.claims[0].state, CLAIM_RELEASING);
	drop(&x);
}

/* The changes of a batch become durable together; if the write fails, only its releases take
 * effect. */
static void test_batch_of_log_changes_is_written_at_commit(void **state)
{
	struct lab x;
	struct block_claim c = a_claim(), releasing;
	struct block_borrowed borrowed = {.block = (char *)"p-9",
					  .pool = (char *)"p",
					  .ip = t_ip("10.0.0.150"),
					  .token = "t",
					  .state = BORROW_HELD};

	(void)state;
	make(&x);
	ASSERT_EQ(block_log_claim(&x.log, &x.t, &c, NULL), 0);
	fail_writes(&x);
	releasing = x.t.claims[0];
	releasing.state = CLAIM_RELEASING;
	c.name = (char *)"p-2";
	for (int i = 0; i < 2; i++) {
		block_log_batch(&x.log);
		ASSERT_EQ(block_log_claim(&x.log, &x.t, &c, NULL), 0);
		ASSERT_EQ(block_log_borrowed(&x.log, &x.t, &borrowed, NULL), 0);
		ASSERT_EQ(block_log_claim(&x.log, &x.t, &releasing, NULL), 0);
		if (i == 0) {
			assert_true(block_log_commit(&x.log, &x.t, NULL) < 0);
			assert_null(block_claim_find(&x.t, "p-2"));
			assert_null(block_borrowed_find(&x.t, &borrowed.ip));
			ASSERT_EQ(x.t.claims[0].state, CLAIM_RELEASING);
			allow_writes(&x);
		}
		releasing = x.t.claims[0];
	}
	ASSERT_EQ(block_log_commit(&x.log, &x.t, NULL), 0);
	close_log(&x);
	ASSERT_EQ(open_log(&x, "n1", NULL), 0);
	assert_non_null(block_claim_find(&x.t, "p-2"));
	assert_non_null(block_borrowed_find(&x.t, &borrowed.ip));
	ASSERT_EQ(block_claim_find(&x.t, "p-1")->state, CLAIM_RELEASING);
	drop(&x);
}

/* While the log cannot be written, no request that depends on it is sent to the API server. */
static void test_release_is_logged_before_the_request_is_sent(void **state)
{
	struct lab x;
	struct block_claim c = a_claim();
	struct block_op op = {.kind = OP_DELETE, .name = "p-1", .pool = "p"};

	(void)state;
	make(&x);
	ASSERT_EQ(block_log_claim(&x.log, &x.t, &c, NULL), 0);
	fail_writes(&x);
	assert_true(block_op_begin(&x.log, &x.t, &op, NULL) < 0);
	assert_true(block_op_begin(&x.log, &x.t, &op, NULL) < 0);
	allow_writes(&x);
	ASSERT_EQ(block_op_begin(&x.log, &x.t, &op, NULL), 0);
	close_log(&x);
	ASSERT_EQ(open_log(&x, "n1", NULL), 0);
	ASSERT_EQ(x.t.claims[0].state, CLAIM_RELEASING);
	drop(&x);
}

/* The record of the restore survives restarts of the agent until the agent resets the record. */
static void test_log_retains_that_etcd_was_restored(void **state)
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
	ASSERT_EQ(block_log_claim(&x.log, &x.t, &c, NULL), 0);
	close_log(&x);
	ASSERT_EQ(open_log(&x, "n1", NULL), 0);
	ASSERT_EQ(x.log.seen, 812);
	assert_false(x.log.etcd_restored);
	ASSERT_EQ(block_log_claim(&x.log, &x.t, &c, NULL), 0);
	close_log(&x);
	ASSERT_EQ(open_log(&x, "n1", NULL), 0);
	ASSERT_EQ(x.log.seen, 812);
	ASSERT_EQ(block_log_etcd_restored(&x.log, &x.t, true, NULL), 0);
	close_log(&x);
	ASSERT_EQ(open_log(&x, "n1", NULL), 0);
	assert_true(x.log.etcd_restored);
	ASSERT_EQ(x.log.seen, 0);
	ASSERT_EQ(block_log_etcd_restored(&x.log, &x.t, false, NULL), 0);
	close_log(&x);
	ASSERT_EQ(open_log(&x, "n1", NULL), 0);
	assert_false(x.log.etcd_restored);
	drop(&x);
}

/* --- lists of a table, searched by bisection --- */

enum { ELEMENTS = 40, CHANGES = 3000 };

static uint32_t next_random(uint32_t *seed)
{
	*seed = *seed * 1664525 + 1013904223;
	return *seed >> 8;
}

/* Adds, changes or removes claim (what 0), borrowed address (1) or object (2) number i; claims and
 * objects have unsorted released addresses. */
static void change(struct block_table *t, unsigned int what, unsigned int i, bool there)
{
	auto_free char *name = xasprintf("p%u-%x", i % 3, i), *ip = xasprintf("10.0.0.%u", i);
	struct ipaddr released[] = {t_ip("10.0.9.3"), t_ip("10.0.9.1"), t_ip("10.0.9.2")};
	struct block_object o = {0};

	if (what == 0) {
		block_claim_put(t,
				&(struct block_claim){.name = name,
						      .pool = "p",
						      .uid = "u",
						      .released = released,
						      .n_released = ARRAY_LEN(released),
						      .state = there ? CLAIM_HELD : CLAIM_REMOVED});
	} else if (what == 1) {
		block_borrowed_put(t, &(struct block_borrowed){.block = name,
							       .pool = "p",
							       .ip = t_ip(ip),
							       .state = there ? BORROW_HELD
									      : BORROW_REMOVED});
	} else if (there) {
		o = (struct block_object){.name = take(name),
					  .pool = xstrdup("p"),
					  .uid = xstrdup("u"),
					  .version = xstrdup("1"),
					  .node = xstrdup("n1")};
		for (size_t k = 0; k < ARRAY_LEN(released); k++)
			VEC_PUSH(o.released, o.n_released) =
				(struct block_entry){.ip = released[k], .to = xstrdup("*")};
		block_object_put(t, &o);
	} else {
		block_object_remove(t, name);
	}
}

static void check(const struct block_table *t, bool is_there[3][ELEMENTS])
{
	const struct ipaddr released = t_ip("10.0.9.1"), other = t_ip("10.0.9.4");
	size_t n[3] = {0};

	for (unsigned int i = 0; i < ELEMENTS; i++) {
		auto_free char *name = xasprintf("p%u-%x", i % 3, i);
		auto_free char *text = xasprintf("10.0.0.%u", i);
		const struct ipaddr ip = t_ip(text);
		const struct block_claim *c = block_claim_find(t, name);
		const struct block_object *o = block_object_find(t, name);

		ASSERT_EQ(c != NULL, is_there[0][i]);
		ASSERT_EQ(block_borrowed_find(t, &ip) != NULL, is_there[1][i]);
		ASSERT_EQ(o != NULL, is_there[2][i]);
		assert_true(!c ||
			    (block_is_released(c, &released) && !block_is_released(c, &other)));
		assert_true(!o || (block_entry_find(o, &released) && !block_entry_find(o, &other)));
		for (size_t k = 0; k < ARRAY_LEN(n); k++)
			n[k] += is_there[k][i];
	}
	ASSERT_EQ(t->n_claims, n[0]);
	ASSERT_EQ(t->n_borrowed, n[1]);
	ASSERT_EQ(t->n_objects, n[2]);
}

static void test_table_finds_entries_after_random_changes(void **state)
{
	bool is_there[3][ELEMENTS] = {{false}};
	struct block_table t = {0};
	uint32_t seed = 1;

	(void)state;
	for (int i = 0; i < CHANGES; i++) {
		unsigned int what = next_random(&seed) % 3, which = next_random(&seed) % ELEMENTS;
		bool there = next_random(&seed) % 3 > 0;

		change(&t, what, which, there);
		is_there[what][which] = there;
		if (i % 10 == 0 || i == CHANGES - 1)
			check(&t, is_there);
	}
	block_table_done(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_block_size_of_a_pool_is_chosen_by_its_subnet),
		cmocka_unit_test(test_block_index_of_an_address_is_computed),
		cmocka_unit_test(test_block_name_has_pool_and_index),
		cmocka_unit_test(test_free_block_is_found_with_any_seed),
		cmocka_unit_test(test_block_has_the_pool_addresses_within_its_subnet),
		cmocka_unit_test(test_log_is_restored_after_reopen),
		cmocka_unit_test(test_log_of_another_node_or_version_is_refused),
		cmocka_unit_test(test_log_members_are_read_and_written),
		cmocka_unit_test(test_failed_log_write_applies_releases_only),
		cmocka_unit_test(test_batch_of_log_changes_is_written_at_commit),
		cmocka_unit_test(test_release_is_logged_before_the_request_is_sent),
		cmocka_unit_test(test_log_retains_that_etcd_was_restored),
		cmocka_unit_test(test_table_finds_entries_after_random_changes),
	};

	return T_RUN(tests, NULL, NULL);
}
