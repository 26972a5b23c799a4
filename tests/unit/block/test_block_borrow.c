/* SPDX-License-Identifier: Apache-2.0 */
/* Borrowed addresses of blocks whose objects were deleted, or restored to an earlier state. */
#include "testlib.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "block_lab.h"
#include "block/plan.h"
#include "ipam_lab.h"

/*
 * A node that has borrowed .17 of the pool p (10.0.0.0/27, blocks of four), an address of the block
 * p-4.
 */
struct lab {
	struct ipam_lab l;
	struct block_log log;
	struct block_table t;
	struct lease_table leases;
	struct ip_set usable;
	struct block_need need;
	struct block_facts f;
};

static void borrow(struct lab *x, const char *ip)
{
	struct block_borrowed l = {
		.block = (char *)"p-4", .pool = (char *)"p", .ip = t_ip(ip), .state = BORROW_HELD};

	block_log_token(&x->log, l.token);
	ASSERT_EQ(block_log_borrowed(&x->log, &x->t, &l, NULL), 0);
}

static void make(struct lab *x)
{
	const struct ip_range r = {t_ip("10.0.0.1"), t_ip("10.0.0.18")};

	*x = (struct lab){.usable = {.family = 4}};
	il_make(&x->l);
	ASSERT_EQ(dir_make(&x->l.root, "/state", 0700, NULL), 0);
	ASSERT_EQ(block_log_open(&x->log, &x->l.root, "/state/b.json", "n1", &x->t, NULL), 0);
	ip_set_add(&x->usable, &r);
	x->need = (struct block_need){
		.pool = "p", .cut = {t_net("10.0.0.0/27"), 30}, .usable = &x->usable};
	x->f = (struct block_facts){.table = &x->t,
				    .log = &x->log,
				    .needs = &x->need,
				    .n_needs = 1,
				    .leases = &x->leases,
				    .frozen = true};
	x->t.synced = true;
	borrow(x, "10.0.0.17");
}

static void drop(struct lab *x)
{
	block_table_done(&x->t);
	block_log_close(&x->log);
	lease_table_done(&x->leases);
	ip_set_done(&x->usable);
	il_drop(&x->l);
	bl_clear();
}

static void put_pod(struct lab *x, const char *ip, enum lease_state state)
{
	struct lease l = LEASE_INIT;
	struct ipaddr a = t_ip(ip);

	l.address = ipnet_host(&a);
	l.state = state;
	lease_put(&x->leases, &l);
}

/* Sends the node's request and applies the server's answer. Returns the kind of the request; -1:
 * there is none. */
static int request(struct lab *x)
{
	const struct bl_owner owner = bl_by("n1");
	struct block_plan p;
	struct block_object o = {0}, *there;
	enum block_outcome r = BLOCK_OK;
	int kind = -1;

	block_plan(&x->f, &p);
	assert_true(p.n < 2);
	if (p.n) {
		kind = (int)p.v[0].kind;
		ASSERT_EQ(block_op_begin(&x->log, &x->t, &p.v[0], NULL), 0);
		if (kind == OP_LIST)
			block_view_put(&x->t, "p", &x->need.cut, bl_server.v, bl_server.n,
				       x->f.now_ms);
		else if (kind != OP_FORGET)
			r = bl_serve(&owner, &p.v[0]);
		there = bl_find(p.v[0].name);
		if (kind != OP_FORGET && r == BLOCK_OK && there)
			o = bl_copy(there);
		if (kind != OP_FORGET)
			ASSERT_EQ(block_op_end(&x->log, &x->t, &p.v[0], r, o.name ? &o : NULL, 0,
					       NULL),
				  0);
		block_object_done(&o);
	}
	block_plan_done(&p);
	return kind;
}

static void assert_set(struct ip_set *s, const char *want)
{
	auto_buf struct buf b;

	buf_init(&b, 200);
	ip_set_str(s, &b);
	ip_set_done(s);
	ASSERT_STR_EQ(b.len ? b.p : "", want);
}

static void assert_mine(const struct lab *x, const char *want)
{
	struct ip_set s = {0};

	block_usable(&x->t, "p", &x->usable, &s);
	assert_set(&s, want);
}

static void assert_only_asserted(const struct lab *x, const char *want)
{
	struct ip_set s = {0};

	block_asserted(&x->t, "p", &x->usable, &s);
	assert_set(&s, want);
	assert_mine(x, "");
}

/* Reopens the log as after a restart of the agent, and delivers the object p-4 again. */
static void reopen(struct lab *x)
{
	struct block_object o = bl_copy(bl_find("p-4"));

	block_table_done(&x->t);
	block_log_close(&x->log);
	ASSERT_EQ(block_log_open(&x->log, &x->l.root, "/state/b.json", "n1", &x->t, NULL), 0);
	block_object_put(&x->t, &o);
	x->t.synced = true;
}

/*
 * The owner was lost: a node that has pods in the block recreates it, and allocates no other
 * address of it.
 */
static void test_deleted_block_is_recreated_by_its_borrower(void **state)
{
	struct lab x;

	(void)state;
	make(&x);
	put_pod(&x, "10.0.0.17", LEASE_USED);
	ASSERT_EQ(request(&x), OP_READ);
	assert_mine(&x, "");
	ASSERT_EQ(request(&x), OP_CREATE);
	ASSERT_STR_EQ(bl_find("p-4")->node, "n1");
	ASSERT_EQ(bl_find("p-4")->n_released, 2); /* .16 and .18; .19 is not in the pool */
	assert_mine(&x, "10.0.0.17");
	/* The address is now an ordinary address of this node's block; the node no longer
	 * records it as borrowed. */
	ASSERT_EQ(request(&x), OP_FORGET);
	ASSERT_EQ(x.t.n_borrowed, 0);
	assert_mine(&x, "10.0.0.17");
	ASSERT_EQ(request(&x), -1);
	drop(&x);
}

/* The controller has removed the entry of an address that no pod has. */
static void test_address_is_reclaimed_after_the_controller_removes_its_entry(void **state)
{
	struct block_op clean = {.kind = OP_RETURN, .ip = t_ip("10.0.0.18"), .name = "p-4"};
	const struct bl_owner controller = bl_by("controller");
	struct block_object o;
	struct lab x;

	(void)state;
	make(&x);
	put_pod(&x, "10.0.0.17", LEASE_USED);
	for (int i = 0; i < 3; i++)
		assert_true(request(&x) >= 0);
	x.f.frozen = false;
	strcpy(clean.from, "?");
	ASSERT_EQ(bl_serve(&controller, &clean), BLOCK_OK);
	o = bl_copy(bl_find("p-4"));
	block_object_put(&x.t, &o);
	block_object_done(&o);
	assert_mine(&x, "10.0.0.17");
	ASSERT_EQ(request(&x), OP_TOUCH);
	assert_mine(&x, "10.0.0.17-10.0.0.18");
	drop(&x);
}

/* The block object is deleted and no local pod has the borrowed address: nothing is asserted. */
static void test_deleted_block_without_local_pods_is_forgotten(void **state)
{
	struct lab x;

	(void)state;
	make(&x);
	ASSERT_EQ(request(&x), OP_READ);
	ASSERT_EQ(request(&x), OP_FORGET);
	ASSERT_EQ(x.t.n_borrowed, 0);
	assert_null(bl_find("p-4"));
	drop(&x);
}

/*
 * Another node created the block first: the object is read, and this node asserts the addresses of
 * its pods.
 */
static void test_pods_are_asserted_in_a_block_created_by_another_node(void **state)
{
	struct block_op peer = {
		.kind = OP_CREATE, .name = "p-4", .pool = "p", .net = t_net("10.0.0.16/30")};
	const struct bl_owner n2 = bl_by("n2");
	struct lab x;

	(void)state;
	make(&x);
	put_pod(&x, "10.0.0.17", LEASE_USED);
	ASSERT_EQ(request(&x), OP_READ);
	ASSERT_EQ(bl_serve(&n2, &peer), BLOCK_OK);
	ASSERT_EQ(request(&x), OP_CREATE);
	ASSERT_EQ(request(&x), OP_READ);
	ASSERT_EQ(request(&x), OP_ASSERT);
	ASSERT_STR_EQ(bl_find("p-4")->node, "n2");
	ASSERT_EQ(bl_find("p-4")->n_released, 1);
	/* The address stays with its pod. It is not allocated to another pod, even if one waits,
	 * and is returned after the end of its pod. */
	assert_only_asserted(&x, "10.0.0.17");
	reopen(&x);
	assert_only_asserted(&x, "10.0.0.17");
	put_pod(&x, "10.0.0.17", LEASE_FREE);
	x.f.frozen = false;
	x.need.keep = 2;
	ASSERT_EQ(request(&x), OP_RETURN);
	ASSERT_EQ(bl_find("p-4")->n_released, 0);
	ASSERT_EQ(x.t.n_borrowed, 0);
	drop(&x);
}

/* A node logs the assertion of a pod's address in another node's block before it sends the request.
 * So if no answer arrives, the node still knows the assertion: it sends it again, or returns the
 * address. */
static void test_assertion_without_answer_is_sent_again_with_another_token(void **state)
{
	struct block_op op = {.kind = OP_ASSERT, .name = "p-4", .pool = "p"}, back;
	const struct block_borrowed *l;
	struct lab x;

	(void)state;
	make(&x);
	VEC_PUSH(op.ips, op.n_ips) = t_ip("10.0.0.18");
	ASSERT_EQ(block_op_begin(&x.log, &x.t, &op, NULL), 0);
	ASSERT_EQ(block_op_end(&x.log, &x.t, &op, BLOCK_UNKNOWN, NULL, 0, NULL), 0);
	l = block_borrowed_find(&x.t, &op.ips[0]);
	assert_non_null(l);
	ASSERT_EQ(l->state, BORROW_REQUESTED);
	ASSERT_STR_EQ(l->token, op.token);
	/*
	 * The assertion is sent again with another token, since the first request may still be
	 * executed.
	 */
	back = (struct block_op){.kind = OP_ASSERT, .name = "p-4", .pool = "p"};
	VEC_PUSH(back.ips, back.n_ips) = t_ip("10.0.0.18");
	ASSERT_EQ(block_op_begin(&x.log, &x.t, &back, NULL), 0);
	assert_string_not_equal(back.token, op.token);
	ASSERT_STR_EQ(block_borrowed_find(&x.t, &op.ips[0])->token, back.token);
	block_op_done(&op);
	block_op_done(&back);
	drop(&x);
}

/* A return is refused because the node's copy of the object is outdated: the copy is dropped, so
 * that the object is read again. */
static void test_refused_return_drops_the_outdated_copy_of_the_block(void **state)
{
	struct block_op op = {.kind = OP_RETURN, .name = "p-4", .pool = "p"};
	struct block_object o = {.name = xstrdup("p-4"),
				 .pool = xstrdup("p"),
				 .uid = xstrdup("u"),
				 .version = xstrdup("1"),
				 .net = t_net("10.0.0.16/30"),
				 .node = xstrdup("n2"),
				 .node_uid = xstrdup(""),
				 .claim = xstrdup("c")};
	struct lab x;

	(void)state;
	make(&x);
	block_object_put(&x.t, &o);
	block_object_done(&o);
	op.ip = t_ip("10.0.0.18");
	ASSERT_EQ(block_op_end(&x.log, &x.t, &op, BLOCK_REFUSED, NULL, 0, NULL), 0);
	assert_null(block_object_find(&x.t, "p-4"));
	drop(&x);
}

/* After a restore of etcd, objects of peers contain again the entries of this node for addresses
 * that it returned after the backup. The node finds these entries by a list of the blocks. */
static void test_list_after_restore_finds_returned_addresses(void **state)
{
	struct block_op peer = {
		.kind = OP_CREATE, .name = "p-0", .pool = "p", .net = t_net("10.0.0.0/30")};
	const struct bl_owner n2 = bl_by("n2");
	struct lab x;

	(void)state;
	make(&x);
	ASSERT_EQ(request(&x), OP_READ);
	ASSERT_EQ(request(&x), OP_FORGET);
	VEC_PUSH(peer.ips, peer.n_ips) = t_ip("10.0.0.2");
	snprintf(peer.to, sizeof(peer.to), "n1/%s-0", x.log.id);
	ASSERT_EQ(bl_serve(&n2, &peer), BLOCK_OK);
	x.f.now_ms = 30;
	x.f.rescan_ms = 40;
	x.f.frozen = false;
	assert_false(block_has_rescanned(&x.f));
	ASSERT_EQ(request(&x), -1);
	x.f.now_ms = 40;
	ASSERT_EQ(request(&x), OP_LIST);
	assert_false(block_has_rescanned(&x.f));
	ASSERT_EQ(request(&x), OP_RETURN);
	assert_true(block_has_rescanned(&x.f));
	/* It is unknown which node has the address: the restored data may lack the entry of a
 * node whose pod uses it. */
	ASSERT_STR_EQ(bl_find("p-0")->released[0].to, "?");
	ASSERT_EQ(request(&x), -1);
	block_op_done(&peer);
	drop(&x);
}

/* p-4 belongs to n2, with an entry of n3 for the address of the local pod. */
static void lend_to_n3(struct lab *x)
{
	struct block_op peer = {.kind = OP_CREATE,
				.name = "p-4",
				.pool = "p",
				.net = t_net("10.0.0.16/30"),
				.to = "n3/c-0"};
	const struct bl_owner n2 = bl_by("n2");

	make(x);
	put_pod(x, "10.0.0.17", LEASE_USED);
	VEC_PUSH(peer.ips, peer.n_ips) = t_ip("10.0.0.17");
	ASSERT_EQ(bl_serve(&n2, &peer), BLOCK_OK);
	block_op_done(&peer);
	ASSERT_EQ(request(x), OP_READ);
}

/* The restored object is from a time when n3 had borrowed the address; the node's own data is
 * current. */
static void test_address_that_a_restored_object_gives_another_node_is_borrowed_again(void **state)
{
	struct lab x;

	(void)state;
	lend_to_n3(&x);
	x.f.observed_restore = true;
	ASSERT_EQ(request(&x), OP_BORROW);
	assert_true(block_entry_is_of(&bl_find("p-4")->released[0], "n1"));
	assert_mine(&x, "10.0.0.17");
	ASSERT_EQ(request(&x), -1);
	/* One list completes the rescan: the recovered address does not cause a second list. */
	x.f.now_ms = x.f.rescan_ms = 40;
	ASSERT_EQ(request(&x), OP_LIST);
	assert_true(block_has_rescanned(&x.f));
	drop(&x);
}

/*
 * A node that did not observe the restore cannot decide whether a pod of n3 uses the address. It
 * borrows the address after n3 has replaced its entry by "?" (user unknown).
 */
static void test_address_of_a_local_pod_is_borrowed_after_another_node_releases_it(void **state)
{
	struct block_op back = {.kind = OP_RETURN, .ip = t_ip("10.0.0.17"), .name = "p-4"};
	const struct bl_owner n3 = bl_by("n3");
	struct lab x;

	(void)state;
	lend_to_n3(&x);
	ASSERT_EQ(request(&x), -1);
	strcpy(back.from, "n3/c-0");
	strcpy(back.to, "?");
	ASSERT_EQ(bl_serve(&n3, &back), BLOCK_OK);
	block_object_remove(&x.t, "p-4");
	ASSERT_EQ(request(&x), OP_READ);
	ASSERT_EQ(request(&x), OP_BORROW);
	assert_mine(&x, "10.0.0.17");
	drop(&x);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_deleted_block_is_recreated_by_its_borrower),
		cmocka_unit_test(test_address_is_reclaimed_after_the_controller_removes_its_entry),
		cmocka_unit_test(test_deleted_block_without_local_pods_is_forgotten),
		cmocka_unit_test(test_pods_are_asserted_in_a_block_created_by_another_node),
		cmocka_unit_test(test_assertion_without_answer_is_sent_again_with_another_token),
		cmocka_unit_test(test_refused_return_drops_the_outdated_copy_of_the_block),
		cmocka_unit_test(test_list_after_restore_finds_returned_addresses),
		cmocka_unit_test(
			test_address_that_a_restored_object_gives_another_node_is_borrowed_again),
		cmocka_unit_test(
			test_address_of_a_local_pod_is_borrowed_after_another_node_releases_it),
	};

	return T_RUN(tests, NULL, NULL);
}
