/* SPDX-License-Identifier: Apache-2.0 */
/* Each step of the migration of a retained address, with its pod's name, to another node. */
#include "testlib.h"

#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "block_lab.h"
#include "block/codec.h"
#include "block/migration.h"
#include "ipam_lab.h"
#include "wire/json/json.h"

/* --- endpoints --- */

static int read_place(const char *text, struct migration_place *ret, struct err *e)
{
	auto_json struct json_doc *doc = NULL;

	ASSERT_EQ(json_parse(&doc, span_of(text), 1 << 16, NULL), 0);
	return migration_place_read(json_root(doc), ret, e);
}

static void test_migration_request_is_read_from_the_endpoint(void **state)
{
	static const char text[] =
		"{\"metadata\":{\"name\":\"web-0\",\"namespace\":\"a\",\"labels\":{"
		"\"unirail.io/requested-from\":\"n1\"},\"annotations\":{\"unirail.io/requested-by\":"
		"\"n2 u2 migration\"}},\"status\":{\"current\":{\"uid\":\"u1\",\"node\":\"n1\",\"ips\":["
		"{\"interface\":\"eth0\",\"ipv4\":\"10.0.0.5/24\",\"ipv4Pool\":\"p\",\"ipv6\":"
		"\"fd00::5/64\",\"ipv6Pool\":\"q\",\"vlan\":0},{\"interface\":\"net1\",\"ipv4\":"
		"\"10.0.1.5/24\",\"ipv4Pool\":\"r\"},{\"interface\":\"net2\",\"ipv4\":\"x\"}]}}}";
	struct migration_place p;
	struct err e = ERR_INIT;

	(void)state;
	ASSERT_EQ(read_place(text, &p, &e), 0);
	ASSERT_STR_EQ(p.node, "n1");
	ASSERT_STR_EQ(p.uid, "u1");
	ASSERT_STR_EQ(p.from, "n1");
	ASSERT_STR_EQ(p.for_node, "n2");
	ASSERT_STR_EQ(p.for_uid, "u2");
	assert_true(p.migration);
	assert_false(p.refused);
	ASSERT_EQ(p.n, 3);
	ASSERT_STR_EQ(p.v[0].ifname, "eth0");
	il_assert_ip(&p.v[0].ip, "10.0.0.5");
	ASSERT_STR_EQ(p.v[1].ifname, "eth0");
	il_assert_ip(&p.v[1].ip, "fd00::5");
	ASSERT_STR_EQ(p.v[2].ifname, "net1");
	migration_place_done(&p);
	ASSERT_EQ(read_place("{\"metadata\":{\"name\":\"web-0\",\"namespace\":\"a\"}}", &p, &e),
		  -EINVAL);
	ASSERT_STR_EQ(e.text,
		      "SpiderEndpoint 'a/web-0': status.current is null, expected an object");
	/* An invalid annotation is not a request. */
	ASSERT_EQ(read_place("{\"metadata\":{\"annotations\":{\"unirail.io/requested-by\":\"n2\"}},"
			     "\"status\":{\"current\":{}}}",
			     &p, &e),
		  0);
	assert_null(p.for_node);
	migration_place_done(&p);
}

static void assert_patch(struct buf *b, const char *want)
{
	ASSERT_STR_EQ(b->p, want);
	buf_reset(b);
}

static void test_migration_is_requested_and_refused_by_patches(void **state)
{
	struct migration_place p = {.for_node = (char *)"n2", .for_uid = (char *)"u2"};
	struct buf b;

	(void)state;
	buf_init(&b, 1000);
	migration_request_patch("n1", "n2", "u2", false, &b);
	assert_patch(
		&b,
		"{\"metadata\":{\"labels\":{\"unirail.io/requested-from\":\"n1\"},\"annotations\":{"
		"\"unirail.io/requested-by\":\"n2 u2\"}}}");
	migration_request_patch("n1", "n2", "u2", true, &b);
	ASSERT_HAS(b.p, "\"n2 u2 migration\"");
	buf_reset(&b);
	migration_refuse_patch(&p, &b);
	assert_patch(
		&b,
		"{\"metadata\":{\"labels\":{\"unirail.io/requested-from\":null},\"annotations\":{"
		"\"unirail.io/requested-by\":\"n2 u2 refused\"}}}");
	buf_done(&b);
}

/* --- the owner's reply --- */

static void test_owner_exports_an_unused_retained_address(void **state)
{
	struct migration_place p = {.for_node = (char *)"n2", .for_uid = (char *)"u2"};
	struct lease l = LEASE_INIT;

	(void)state;
	l.pod_namespace = "a";
	l.pod_name = "web-0";
	l.state = LEASE_RETAINED;
	ASSERT_EQ(migration_answer(&p, "a", "web-0", NULL), MIGRATION_EXPORT);
	ASSERT_EQ(migration_answer(&p, "a", "web-0", &l), MIGRATION_EXPORT);
	ASSERT_EQ(migration_answer(&p, "a", "web-1", &l), MIGRATION_REFUSE);
	ASSERT_EQ(migration_answer(&p, "b", "web-0", &l), MIGRATION_REFUSE);
	l.state = LEASE_USED;
	ASSERT_EQ(migration_answer(&p, "a", "web-0", &l), MIGRATION_LATER);
	ASSERT_EQ(migration_answer(&p, "a", "web-1", &l), MIGRATION_REFUSE);
	/*
	 * Live migration: the former pod runs until the new pod has started, so the request is
	 * refused at once. Without live migration the owner answers it after the former pod's end.
	 */
	p.migration = true;
	ASSERT_EQ(migration_answer(&p, "a", "web-0", &l), MIGRATION_REFUSE);
	l.state = LEASE_RETAINED;
	ASSERT_EQ(migration_answer(&p, "a", "web-0", &l), MIGRATION_EXPORT);
	l.state = LEASE_QUARANTINED;
	ASSERT_EQ(migration_answer(&p, "a", "web-0", &l), MIGRATION_REFUSE);
	l.state = LEASE_ADOPTED;
	ASSERT_EQ(migration_answer(&p, "a", "web-0", &l), MIGRATION_REFUSE);
	l.state = LEASE_FREE;
	ASSERT_EQ(migration_answer(&p, "a", "web-0", &l), MIGRATION_EXPORT);
}

static void test_retained_lease_is_superseded_by_other_addresses_on_another_node(void **state)
{
	struct migration_ip had = {.ip = ip_from_num(4, 0x0a00000a)};
	struct migration_place p = {.node = (char *)"n2", .v = &had, .n = 1};
	struct lease l = LEASE_INIT;

	(void)state;
	l.address = ipnet_host(&had.ip);
	l.state = LEASE_RETAINED;
	assert_false(migration_is_superseded(&p, "n1", &l));
	l.address.ip = ip_from_num(4, 0x0a00000b);
	assert_true(migration_is_superseded(&p, "n1", &l));
	assert_false(migration_is_superseded(&p, "n2", &l));
	l.state = LEASE_USED;
	assert_false(migration_is_superseded(&p, "n1", &l));
	l.state = LEASE_RETAINED;
	p.n = 0;
	assert_false(migration_is_superseded(&p, "n1", &l));
}

/* --- the next step of the requesting node --- */

static void test_next_step_of_the_requesting_node_follows_from_block_and_endpoint(void **state)
{
	struct block_table t = {.node = (char *)"n2"};
	struct migration_place place = {.node = (char *)"n1", .uid = (char *)"u1"};
	struct block_object o = {.name = (char *)"p-1",
				 .pool = (char *)"p",
				 .uid = (char *)"uid",
				 .version = (char *)"7",
				 .node = (char *)"n1",
				 .claim = (char *)"c"};
	struct block_entry entry;
	struct migration_facts f = {.table = &t,
				    .pool = &bl_pool,
				    .ip = ip_from_num(4, 0x0a00000a),
				    .place = &place,
				    .uid = "u2"};
	struct identity owner = {.ns = "a", .name = "web-0"};
	struct block_op op;
	struct buf b;

	(void)state;
	buf_init(&b, 1000);
	/* The address belongs to no pool. */
	f.pool = NULL;
	ASSERT_EQ(migration_next(&f, &op), MIGRATION_NEVER);
	f.pool = &bl_pool;
	f.ip = ip_from_num(4, 0x0b00000a);
	ASSERT_EQ(migration_next(&f, &op), MIGRATION_NEVER);
	f.ip = ip_from_num(4, 0x0a00000a);
	/* The pool's block size is unknown. */
	bl_pool.cut_is_written = false;
	ASSERT_EQ(migration_next(&f, &op), MIGRATION_WAIT);
	bl_pool.cut_is_written = true;
	ASSERT_EQ(migration_next(&f, &op), MIGRATION_READ);
	ASSERT_EQ(op.kind, OP_READ);
	ASSERT_STR_EQ(op.name, "p-1");
	ASSERT_STR_EQ(op.pool, "p");
	f.rescanned = true;
	/* A block that does not exist is created; a block without an owner is taken over. */
	ASSERT_EQ(migration_next(&f, &op), MIGRATION_OP);
	ASSERT_EQ(op.kind, OP_CREATE);
	ASSERT_EQ(op.net.len, 29);
	f.block = &o;
	o.node = (char *)"";
	ASSERT_EQ(migration_next(&f, &op), MIGRATION_OP);
	ASSERT_EQ(op.kind, OP_TAKE_OVER);
	ASSERT_STR_EQ(op.version, "7");
	/* The block belongs to another node. */
	o.node = (char *)"n1";
	ASSERT_EQ(migration_next(&f, &op), MIGRATION_REQUEST);
	place.for_node = (char *)"n2";
	place.for_uid = (char *)"u2";
	place.from = (char *)"n1";
	ASSERT_EQ(migration_next(&f, &op), MIGRATION_WAIT);
	migration_describe(&f, &owner, &b);
	ASSERT_HAS(b.p, "10.0.0.10 of 'a/web-0' is retained on node 'n1' and not released yet");
	/* The request is sent again if it was for an earlier pod, or went to a node that does
	 * not have the address. */
	place.for_uid = (char *)"u0";
	ASSERT_EQ(migration_next(&f, &op), MIGRATION_REQUEST);
	place.for_uid = (char *)"u2";
	entry = (struct block_entry){.ip = f.ip, .to = (char *)"n3/tok"};
	o.released = &entry;
	o.n_released = 1;
	ASSERT_EQ(migration_next(&f, &op), MIGRATION_REQUEST);
	buf_reset(&b);
	migration_describe(&f, &owner, &b);
	ASSERT_HAS(b.p, "is retained on node 'n3'");
	place.from = (char *)"n3";
	ASSERT_EQ(migration_next(&f, &op), MIGRATION_WAIT);
	place.refused = true;
	ASSERT_EQ(migration_next(&f, &op), MIGRATION_NEVER);
	/* The address is reserved for this node: the node borrows it. */
	entry.to = (char *)"@n2";
	ASSERT_EQ(migration_next(&f, &op), MIGRATION_OP);
	ASSERT_EQ(op.kind, OP_BORROW);
	ASSERT_STR_EQ(op.from, "@n2");
	ASSERT_EQ(op.n_ips, 1);
	block_op_done(&op);
	/* The address is reserved for another node, or the node that has it is unknown ("?"):
	 * wait. If the block belongs to this node, an address reserved for another node is
	 * reclaimed. */
	place.refused = false;
	place.from = (char *)"n1";
	entry.to = (char *)"@n3";
	ASSERT_EQ(migration_next(&f, &op), MIGRATION_WAIT);
	entry.to = (char *)"?";
	ASSERT_EQ(migration_next(&f, &op), MIGRATION_WAIT);
	o.node = (char *)"n2";
	entry.to = (char *)"@n3";
	ASSERT_EQ(migration_next(&f, &op), MIGRATION_OP);
	ASSERT_EQ(op.kind, OP_RECLAIM);
	ASSERT_STR_EQ(op.from, "@n3");
	o.n_released = 0;
	ASSERT_EQ(migration_next(&f, &op), MIGRATION_WAIT);
	buf_done(&b);
}

static void test_export_reserves_the_address_for_the_requesting_node(void **state)
{
	struct block_op op = {.kind = OP_RETURN, .name = "p-1", .from = "n1/t", .to = "@n2"};
	struct block_request q;

	(void)state;
	op.ip = ip_from_num(4, 0x0a00000a);
	block_request(&op, "n1", "uid", &q);
	ASSERT_STR_EQ(
		q.body.p,
		"[{\"op\":\"test\",\"path\":\"/spec/released/10.0.0.10\",\"value\":\"n1/t\"},"
		"{\"op\":\"replace\",\"path\":\"/spec/released/10.0.0.10\",\"value\":\"@n2\"}]");
	block_request_done(&q);
}

/* A block of n1 has the entry "@-" (retained for the name of a pod whose node was deleted, see
 * block/release.h) or "@n2" (reserved for the node n2). Its owner reclaims only the second one. */
static void test_reserved_address_is_reclaimed_but_not_one_retained_for_a_name(void **state)
{
	static const char *const to[] = {"@-", "@n2"};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(to); i++) {
		struct block_table t = {.node = (char *)"n1", .node_uid = (char *)""};
		struct block_object o = {.name = xstrdup("p-0"),
					 .pool = xstrdup("p"),
					 .uid = xstrdup("u"),
					 .version = xstrdup("1"),
					 .net = {ip_from_num(4, 0x0a000000), 29},
					 .node = xstrdup("n1"),
					 .node_uid = xstrdup(""),
					 .claim = xstrdup("t")};
		const struct block_claim c = {.name = o.name,
					      .pool = o.pool,
					      .uid = o.uid,
					      .token = "t",
					      .net = o.net,
					      .state = CLAIM_HELD};
		struct block_op op;

		VEC_PUSH(o.released, o.n_released) = (struct block_entry){
			.ip = ip_from_num(4, 0x0a000002), .to = xstrdup(to[i])};
		block_claim_put(&t, &c);
		block_object_put(&t, &o);
		ASSERT_EQ_MSG(migration_reclaim(&t, NULL, 0, &op), i == 1, "to[%zu]", i);
		t.node = t.node_uid = NULL;
		block_table_done(&t);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_migration_request_is_read_from_the_endpoint),
		cmocka_unit_test(test_migration_is_requested_and_refused_by_patches),
		cmocka_unit_test(test_owner_exports_an_unused_retained_address),
		cmocka_unit_test(
			test_retained_lease_is_superseded_by_other_addresses_on_another_node),
		cmocka_unit_test(
			test_next_step_of_the_requesting_node_follows_from_block_and_endpoint),
		cmocka_unit_test(test_export_reserves_the_address_for_the_requesting_node),
		cmocka_unit_test(
			test_reserved_address_is_reclaimed_but_not_one_retained_for_a_name),
	};

	return T_RUN(tests, bl_pool_setup, bl_pool_teardown);
}
