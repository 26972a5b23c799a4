/* SPDX-License-Identifier: Apache-2.0 */
/* How nodes that lack addresses find blocks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "block_lab.h"
#include "ipam/block_plan.h"
#include "ipam_lab.h"

enum { RAILS = 3 };

/* A node whose pods want an address of each rail: 10.K.0.0/24 without its first 16 addresses, blocks of 16. */
struct lab {
	struct ipam_lab l;
	struct block_log log;
	struct block_table t;
	struct lease_table leases;
	char names[RAILS][8];
	struct ip_set usable[RAILS];
	struct block_need needs[RAILS];
	struct block_facts f;
	struct bl_who who;
};

static void make(struct lab *x)
{
	char text[64];

	*x = (struct lab){.who = bl_by("n1")};
	bl_clear();
	il_make(&x->l);
	assert_int_equal(dir_make(&x->l.root, "/state", 0700, NULL), 0);
	assert_int_equal(block_log_open(&x->log, &x->l.root, "/state/b.json", "n1", &x->t, NULL),
			 0);
	for (int k = 0; k < RAILS; k++) {
		struct ip_range r;

		snprintf(x->names[k], sizeof(x->names[k]), "rail%d", k);
		snprintf(text, sizeof(text), "10.%d.0.16", k);
		r.first = il_ip(text);
		snprintf(text, sizeof(text), "10.%d.0.255", k);
		r.last = il_ip(text);
		x->usable[k] = (struct ip_set){.family = 4};
		ip_set_add(&x->usable[k], &r);
		snprintf(text, sizeof(text), "10.%d.0.0/24", k);
		x->needs[k] = (struct block_need){.pool = x->names[k],
						  .cut = {il_net(text), 28},
						  .usable = &x->usable[k],
						  .want = 1};
	}
	x->t.synced = true;
	x->f = (struct block_facts){.table = &x->t,
				    .log = &x->log,
				    .needs = x->needs,
				    .n_needs = RAILS,
				    .leases = &x->leases,
				    .seed = 12345,
				    .now_ms = 100000,
				    .view_ms = 1000,
				    .ahead_ms = 60000};
}

static void drop(struct lab *x)
{
	block_table_done(&x->t);
	block_log_close(&x->log);
	lease_table_done(&x->leases);
	for (int k = 0; k < RAILS; k++)
		ip_set_done(&x->usable[k]);
	il_drop(&x->l);
	bl_clear();
}

/* One request, and its answer. */
static void carry_out(struct lab *x, struct block_op *op)
{
	struct block_object o = {0}, *there;
	enum block_outcome r;

	assert_true(block_op_begin(&x->log, &x->t, op, NULL) >= 0);
	if (op->kind == OP_FORGET)
		return;
	if (op->kind == OP_LIST) {
		for (int k = 0; k < RAILS; k++)
			if (strcmp(op->pool, x->names[k]) == 0)
				block_view_put(&x->t, op->pool, &x->needs[k].cut, bl_server.v,
					       bl_server.n, x->f.now_ms);
		return;
	}
	r = bl_serve(&x->who, op);
	there = r == BLOCK_OK ? bl_find(op->name) : NULL;
	if (there)
		o = bl_copy(there);
	assert_true(block_op_end(&x->log, &x->t, op, r, there ? &o : NULL, x->f.now_ms, NULL) >= 0);
	block_object_done(&o);
}

/* What it asks now, all of it answered; "create rail0-5 create rail1-5". */
static const char *turn(struct lab *x)
{
	static const char *kinds[] = {"create", "take-over", "adopt", "delete", "disown",
				      "cede",	"uncede",    "touch", "borrow", "return",
				      "wish",	"assert",    "read",  "list",	"forget"};
	static char text[512];
	struct block_plan p;

	*text = '\0';
	block_plan(&x->f, &p);
	for (size_t i = 0; i < p.n; i++) {
		size_t n = strlen(text);

		snprintf(text + n, sizeof(text) - n, "%s%s %s", n ? " " : "", kinds[p.v[i].kind],
			 *p.v[i].name ? p.v[i].name : p.v[i].pool);
		carry_out(x, &p.v[i]);
	}
	block_plan_done(&p);
	return text;
}

/* Another node's block. */
static void make_block(const char *node, const char *pool, unsigned int index, const char *net)
{
	const struct bl_who who = bl_by(node);
	struct block_op op = {.kind = OP_CREATE, .net = il_net(net)};

	snprintf(op.pool, sizeof(op.pool), "%s", pool);
	snprintf(op.name, sizeof(op.name), "%s-%x", pool, index);
	snprintf(op.token, sizeof(op.token), "%s-%u", node, index);
	assert_int_equal(bl_serve(&who, &op), BLOCK_OK);
}

/* --- rails are alike --- */

static void test_one_search_for_all_rails(void **state)
{
	char want[64];
	unsigned int at;
	struct lab x;

	(void)state;
	make(&x);
	/* One looks, at any place. */
	assert_int_equal(sscanf(turn(&x), "create rail0-%x", &at), 1);
	assert_int_equal(x.t.n_claims, 1);
	x.needs[0].want = 0;
	/* The others look there. */
	snprintf(want, sizeof(want), "create rail1-%x create rail2-%x", at, at);
	assert_string_equal(turn(&x), want);
	assert_int_equal(x.t.n_claims, 3);
	drop(&x);
}

static void test_a_place_that_somebody_has(void **state)
{
	unsigned int at, other;
	char net[32], want[64];
	struct lab x;

	(void)state;
	make(&x);
	assert_int_equal(sscanf(turn(&x), "create rail0-%x", &at), 1);
	x.needs[0].want = x.needs[2].want = 0;
	snprintf(net, sizeof(net), "10.1.0.%u/28", at * 16);
	make_block("n2", "rail1", at, net);
	snprintf(want, sizeof(want), "create rail1-%x", at);
	assert_string_equal(turn(&x), want);
	assert_int_equal(x.t.n_claims, 1);
	/* It was told that it is there: not once more. */
	assert_int_equal(sscanf(turn(&x), "create rail1-%x", &other), 1);
	assert_int_not_equal(at, other);
	assert_int_equal(x.t.n_claims, 2);
	drop(&x);
}

/* Pools that begin elsewhere in their subnets: the place counts, not the number. */
static void test_a_place_counts_from_the_first(void **state)
{
	struct ip_range gone = {il_ip("10.1.0.16"), il_ip("10.1.0.47")};
	char want[64];
	unsigned int at;
	struct lab x;

	(void)state;
	make(&x);
	x.needs[2].want = 0;
	ip_set_subtract(&x.usable[1], &gone);
	/* Of 15 blocks one of the first 13, which the shorter pool has as well. */
	x.f.seed = 0;
	assert_int_equal(sscanf(turn(&x), "create rail0-%x", &at), 1);
	x.needs[0].want = 0;
	if (at + 2 <= 15)
		snprintf(want, sizeof(want), "create rail1-%x", at + 2);
	else
		fail_msg("the seed picks %x", at);
	assert_string_equal(turn(&x), want);
	drop(&x);
}

/* A claim that is under way leads, but a pool that has no room to claim does not wait for it. */
static void test_who_waits_for_a_claim(void **state)
{
	struct lab x;

	(void)state;
	make(&x);
	x.needs[0].under_way = x.needs[0].claiming = true;
	assert_string_equal(turn(&x), "");
	for (unsigned int i = 1; i < 16; i++) {
		char net[32];

		snprintf(net, sizeof(net), "10.1.0.%u/28", i * 16);
		make_block("n2", "rail1", i, net);
	}
	block_view_put(&x.t, "rail1", &x.needs[1].cut, bl_server.v, bl_server.n, x.f.now_ms);
	assert_memory_equal(turn(&x), "wish rail1-", 11);
	/* Whoever claims has not been answered for long. */
	x.needs[0].claiming = false;
	assert_memory_equal(strstr(turn(&x), "create"), "create rail2-", 13);
	drop(&x);
}

/* Two claims too late, and it is looked what there is. */
static void test_guesses_end(void **state)
{
	struct lab x;

	(void)state;
	make(&x);
	x.needs[1].want = x.needs[2].want = 0;
	for (unsigned int i = 1; i < 15; i++) {
		char net[32];

		snprintf(net, sizeof(net), "10.0.0.%u/28", i * 16);
		make_block("n2", "rail0", i, net);
	}
	x.f.seed = 0; /* of this pool: at the 13th */
	assert_string_equal(turn(&x), "create rail0-d");
	assert_string_equal(turn(&x), "create rail0-e");
	assert_string_equal(turn(&x), "list rail0");
	assert_string_equal(turn(&x), "create rail0-f");
	drop(&x);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_one_search_for_all_rails),
		cmocka_unit_test(test_a_place_that_somebody_has),
		cmocka_unit_test(test_a_place_counts_from_the_first),
		cmocka_unit_test(test_who_waits_for_a_claim),
		cmocka_unit_test(test_guesses_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
