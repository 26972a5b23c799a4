/* SPDX-License-Identifier: Apache-2.0 */
/* How a node that lacks addresses claims blocks, or requests and borrows addresses of peers, and
 * how it answers the requests of peers. */
#include "testlib.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "block_lab.h"
#include "block/plan.h"
#include "ipam_lab.h"

enum { RAILS = 3 };

/*
 * A node whose pods need an address of each rail. The pool of rail K is 10.K.0.0/24 without its
 * first 16 addresses, in blocks of 16.
 */
struct lab {
	struct ipam_lab l;
	struct block_log log;
	struct block_table t;
	struct lease_table leases;
	char names[RAILS][8];
	struct ip_set usable[RAILS];
	struct block_need needs[RAILS];
	struct block_facts f;
	struct bl_owner owner;
	int64_t next_ms; /* block_plan.next_ms of the last plan: when the next plan is due */
};

static void make(struct lab *x)
{
	char text[64];

	*x = (struct lab){.owner = bl_by("n1")};
	bl_clear();
	il_make(&x->l);
	ASSERT_EQ(dir_make(&x->l.root, "/state", 0700, NULL), 0);
	ASSERT_EQ(block_log_open(&x->log, &x->l.root, "/state/b.json", "n1", &x->t, NULL), 0);
	for (int k = 0; k < RAILS; k++) {
		struct ip_range r;

		snprintf(x->names[k], sizeof(x->names[k]), "rail%d", k);
		snprintf(text, sizeof(text), "10.%d.0.16", k);
		r.first = t_ip(text);
		snprintf(text, sizeof(text), "10.%d.0.255", k);
		r.last = t_ip(text);
		x->usable[k] = (struct ip_set){.family = 4};
		ip_set_add(&x->usable[k], &r);
		snprintf(text, sizeof(text), "10.%d.0.0/24", k);
		x->needs[k] = (struct block_need){.pool = x->names[k],
						  .cut = {t_net(text), 28},
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

/* Logs one request, sends it to the server, and applies the response to the log and the table. */
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
	r = bl_serve(&x->owner, op);
	there = r == BLOCK_OK ? bl_find(op->name) : NULL;
	if (there)
		o = bl_copy(there);
	assert_true(block_op_end(&x->log, &x->t, op, r, there ? &o : NULL, x->f.now_ms, NULL) >= 0);
	block_object_done(&o);
}

/* Plans the node's next requests, carries out each of them, and returns their list; for example
 * "create rail0-5 create rail1-5". */
static const char *turn(struct lab *x)
{
	static const char *kinds[] = {"create",	 "take-over", "adopt", "delete", "disown",
				      "release", "reclaim",   "touch", "borrow", "return",
				      "request", "assert",    "read",  "list",	 "forget"};
	static char text[512];
	struct block_plan p;

	*text = '\0';
	block_plan(&x->f, &p);
	x->next_ms = p.next_ms;
	for (size_t i = 0; i < p.n; i++) {
		size_t n = strlen(text);

		snprintf(text + n, sizeof(text) - n, "%s%s %s", n ? " " : "", kinds[p.v[i].kind],
			 *p.v[i].name ? p.v[i].name : p.v[i].pool);
		carry_out(x, &p.v[i]);
	}
	block_plan_done(&p);
	return text;
}

/* Creates a block that belongs to the node `node`. */
static void make_block(const char *node, const char *pool, unsigned int index, const char *net)
{
	const struct bl_owner owner = bl_by(node);
	struct block_op op = {.kind = OP_CREATE, .net = t_net(net)};

	snprintf(op.pool, sizeof(op.pool), "%s", pool);
	snprintf(op.name, sizeof(op.name), "%s-%x", pool, index);
	snprintf(op.token, sizeof(op.token), "%s-%u", node, index);
	ASSERT_EQ(bl_serve(&owner, &op), BLOCK_OK);
}

/* --- the same index for all rails --- */

static void test_all_rails_acquire_the_same_block_index(void **state)
{
	struct lab *x = *state;
	char want[64];
	unsigned int at;

	/* The node claims a block for one pool, at an index that depends on the seed. */
	ASSERT_EQ(sscanf(turn(x), "create rail0-%x", &at), 1);
	ASSERT_EQ(x->t.n_claims, 1);
	x->needs[0].want = 0;
	/* For the other pools it claims the blocks with the same index. */
	snprintf(want, sizeof(want), "create rail1-%x create rail2-%x", at, at);
	ASSERT_STR_EQ(turn(x), want);
	ASSERT_EQ(x->t.n_claims, 3);
}

static void test_index_claimed_by_a_peer_is_skipped(void **state)
{
	struct lab *x = *state;
	unsigned int at, peer;
	char net[32], want[64];

	ASSERT_EQ(sscanf(turn(x), "create rail0-%x", &at), 1);
	x->needs[0].want = x->needs[2].want = 0;
	snprintf(net, sizeof(net), "10.1.0.%u/28", at * 16);
	make_block("n2", "rail1", at, net);
	snprintf(want, sizeof(want), "create rail1-%x", at);
	ASSERT_STR_EQ(turn(x), want);
	ASSERT_EQ(x->t.n_claims, 1);
	/* The server reported that the block exists: it is not created again. */
	ASSERT_STR_EQ(turn(x), "list rail1");
	ASSERT_EQ(sscanf(turn(x), "create rail1-%x", &peer), 1);
	assert_int_not_equal(at, peer);
	ASSERT_EQ(x->t.n_claims, 2);
}

/*
 * Pools that begin at different offsets in their subnets: the offset within the pool is compared,
 * not the index.
 */
static void test_rails_acquire_blocks_at_the_same_offset_in_their_pools(void **state)
{
	struct lab *x = *state;
	struct ip_range removed = {t_ip("10.1.0.16"), t_ip("10.1.0.47")};
	char want[64];
	unsigned int at;

	x->needs[2].want = 0;
	ip_set_subtract(&x->usable[1], &removed);
	/* With this seed the node picks one of the first 13 of the 15 blocks of rail0. The
	 * shorter pool, rail1, has a block at the same offset. */
	x->f.seed = 0;
	ASSERT_EQ(sscanf(turn(x), "create rail0-%x", &at), 1);
	x->needs[0].want = 0;
	if (at + 2 <= 15)
		snprintf(want, sizeof(want), "create rail1-%x", at + 2);
	else
		fail_msg("the seed picks index %x, which has no block in the shorter pool", at);
	ASSERT_STR_EQ(turn(x), want);
}

/*
 * A claim in progress sets the index for other pools, but a pool without a free block does not
 * wait for the claim.
 */
static void test_pool_without_room_does_not_wait_for_a_claim(void **state)
{
	struct lab *x = *state;

	x->needs[0].under_way = x->needs[0].claiming = true;
	ASSERT_STR_EQ(turn(x), "");
	for (unsigned int i = 1; i < 16; i++) {
		char net[32];

		snprintf(net, sizeof(net), "10.1.0.%u/28", i * 16);
		make_block("n2", "rail1", i, net);
	}
	block_view_put(&x->t, "rail1", &x->needs[1].cut, bl_server.v, bl_server.n, x->f.now_ms);
	x->f.now_ms += 600;
	assert_memory_equal(turn(x), "request rail1-", 11);
	/* The node has had no response to its claim for a long time. */
	x->needs[0].claiming = false;
	assert_memory_equal(strstr(turn(x), "create"), "create rail2-", 13);
}

/* The node lists blocks after one claim was refused; in a large pool after two. */
static void test_blocks_are_listed_after_refused_claims(void **state)
{
	struct lab *x = *state;
	struct ip_range more = {t_ip("10.0.1.0"), t_ip("10.0.31.255")};

	for (int large = 0; large < 2; large++) {
		x->needs[1].want = x->needs[2].want = 0;
		if (large) {
			x->needs[0].cut.subnet = t_net("10.0.0.0/19");
			ip_set_add(&x->usable[0], &more);
		}
		for (unsigned int i = 1; i < 512; i++) {
			char net[32];

			snprintf(net, sizeof(net), "10.0.%u.%u/28", i / 16, i % 16 * 16);
			make_block("n2", "rail0", i, net);
		}
		assert_memory_equal(turn(x), "create rail0-", 13);
		if (large)
			assert_memory_equal(turn(x), "create rail0-", 13);
		ASSERT_STR_EQ(turn(x), "list rail0");
		ASSERT_EQ(x->t.n_claims, 0);
		drop(x);
		make(x);
	}
}

/* --- one node requests, another releases --- */

/* Puts a block of the server into the table, as the watch does. */
static struct block_object *watch(struct lab *x, const char *name)
{
	struct block_object o = bl_copy(bl_find(name));

	block_object_put(&x->t, &o);
	block_object_done(&o);
	block_table_stamp(&x->t, x->f.now_ms);
	return bl_find(name);
}

/* This node has a block of rail0, and another node requests three of its addresses. */
static struct block_object *have_request(struct lab *x, char name[static 32])
{
	const struct bl_owner n2 = bl_by("n2");
	struct block_op request = {.kind = OP_REQUEST, .count = 3};

	x->needs[1].want = x->needs[2].want = 0;
	turn(x);
	x->needs[0].want = 0;
	snprintf(name, 32, "%s", x->t.claims[0].name);
	snprintf(request.name, sizeof(request.name), "%s", name);
	ASSERT_EQ(bl_serve(&n2, &request), BLOCK_OK);
	return bl_find(name);
}

static size_t count_of(const struct block_object *o, const char *to)
{
	size_t n = 0;

	for (size_t i = 0; i < o->n_released; i++)
		n += strcmp(o->released[i].to, to) == 0;
	return n;
}

static size_t count_mine(const struct lab *x)
{
	struct ip_set s = {0};
	size_t n;

	block_usable(&x->t, "rail0", &x->usable[0], &s);
	n = (size_t)ip_set_count(&s);
	ip_set_done(&s);
	return n;
}

static void test_expired_reservation_is_reclaimed(void **state)
{
	struct lab *x = *state;
	struct block_object *o;
	char name[32];

	o = have_request(x, name);
	ASSERT_STR_EQ(o->requested[0].key, "n2@*");
	watch(x, name);
	assert_memory_equal(turn(x), "release", 7);
	ASSERT_EQ(count_of(o, "@n2*"), 3);
	ASSERT_EQ(o->n_requested, 0);
	ASSERT_EQ(block_spare(o), 13);
	ASSERT_EQ(count_mine(x), 13);
	watch(x, name);
	x->f.now_ms += 5999;
	ASSERT_STR_EQ(turn(x), "");
	/* An address is not used before the server confirms the end of its reservation. */
	x->f.now_ms += 1;
	for (size_t i = 0; i < 3; i++) {
		ASSERT_EQ(count_mine(x), 13 + i);
		assert_memory_equal(turn(x), "reclaim", 7);
	}
	ASSERT_EQ(o->n_released, 0);
	ASSERT_EQ(count_mine(x), 16);
}

/* n2 borrows a reserved address before this node sends its request to reclaim it. The entry has
 * changed by then, so the server refuses to reclaim the address. */
static void test_reservation_borrowed_while_it_is_reclaimed_stays_with_its_borrower(void **state)
{
	struct lab *x = *state;
	struct block_op fetch = {.kind = OP_BORROW, .from = "@n2*", .to = "n2/t-1"};
	const struct bl_owner n2 = bl_by("n2");
	struct block_object *o;
	char name[32];

	o = have_request(x, name);
	watch(x, name);
	turn(x);
	watch(x, name);
	VEC_PUSH(fetch.ips, fetch.n_ips) = o->released[0].ip;
	snprintf(fetch.name, sizeof(fetch.name), "%s", name);
	ASSERT_EQ(bl_serve(&n2, &fetch), BLOCK_OK);
	x->f.now_ms += 6000;
	for (int i = 0; i < 8; i++)
		turn(x);
	watch(x, name);
	x->f.now_ms += 6000;
	for (int i = 0; i < 8; i++)
		turn(x);
	ASSERT_EQ(count_of(o, "n2/t-1"), 1);
	ASSERT_EQ(count_mine(x), 15);
	block_op_done(&fetch);
}

static void test_request_with_an_invalid_key_is_refused(void **state)
{
	static const char *const keys[] = {"n2", "@*", "n2@", "n2@x"};
	struct lab *x = *state;
	struct block_object *o;
	char name[32];

	for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
		o = have_request(x, name);
		strcpy(o->requested[0].key, keys[i]);
		watch(x, name);
		assert_memory_equal(turn(x), "release", 7);
		ASSERT_EQ_MSG(o->n_requested, 0, "keys[%zu]", i);
		ASSERT_EQ_MSG(o->n_released, 0, "keys[%zu]", i);
		watch(x, name);
	}
}

/* A refusal answers the request. When addresses become free, the owner reports it in the block. */
static void test_request_is_refused_while_no_address_is_free(void **state)
{
	struct lab *x = *state;
	struct block_object *o;
	char name[32];

	o = have_request(x, name);
	watch(x, name);
	x->needs[0].under_way = true;
	x->needs[0].want = 1;
	assert_memory_equal(turn(x), "release", 7);
	ASSERT_EQ(o->n_released, 0);
	ASSERT_EQ(o->n_requested, 0);
	assert_true(o->reports);
	ASSERT_EQ(block_spare(o), 0);
	watch(x, name);
	ASSERT_STR_EQ(turn(x), "");
	x->needs[0].want = 0;
	assert_memory_equal(turn(x), "release", 7);
	ASSERT_EQ(block_spare(o), 16);
	ASSERT_EQ(count_mine(x), 16);
	watch(x, name);
	ASSERT_STR_EQ(turn(x), "");
}

/* The node has allocated addresses to pods since its last report: the reply to the next request has
 * the current count. */
static void test_reply_reports_the_current_free_capacity(void **state)
{
	struct lab *x = *state;
	const struct bl_owner n3 = bl_by("n3");
	struct block_op request = {.kind = OP_REQUEST, .count = 20};
	struct lease l = LEASE_INIT;
	struct block_object *o;
	char name[32];

	o = have_request(x, name);
	watch(x, name);
	assert_memory_equal(turn(x), "release", 7);
	watch(x, name);
	l.state = LEASE_USED;
	for (unsigned int i = 0; i < 5; i++) {
		l.address.ip = ip_from_num(4, ip_num(&o->net.ip) + i);
		lease_put(&x->leases, &l);
	}
	ASSERT_STR_EQ(turn(x), "");
	ASSERT_EQ(block_spare(o), 13);
	str_copy(request.name, sizeof(request.name), name);
	ASSERT_EQ(bl_serve(&n3, &request), BLOCK_OK);
	watch(x, name);
	assert_memory_equal(turn(x), "release", 7);
	ASSERT_EQ(count_of(o, "@n3*"), 8);
	ASSERT_EQ(block_unreleased(o), 5);
	ASSERT_EQ(block_spare(o), 0);
	watch(x, name);
	ASSERT_STR_EQ(turn(x), "");
	/* Returned addresses count as free without a new report of the owner. */
	free(o->released[--o->n_released].to);
	ASSERT_EQ(block_spare(o), 1);
}

/* Addresses for local pods that wait are not released to other nodes until the pods have them. */
static void test_addresses_for_waiting_pods_are_not_released(void **state)
{
	struct lab *x = *state;
	struct block_object *o;
	char name[32];

	o = have_request(x, name);
	watch(x, name);
	x->needs[0].keep = 14;
	assert_memory_equal(turn(x), "release", 7);
	ASSERT_EQ(count_of(o, "@n2*"), 2);
	ASSERT_EQ(block_spare(o), 0);
	watch(x, name);
	ASSERT_STR_EQ(turn(x), "");
	x->needs[0].keep = 4;
	assert_memory_equal(turn(x), "release", 7);
	ASSERT_EQ(block_spare(o), 10);
}

/*
 * One node owns all blocks of rail0; another has borrowed three addresses of each, except of
 * rail0-9.
 */
static void make_full(struct lab *x)
{
	x->needs[1].want = x->needs[2].want = 0;
	for (unsigned int i = 1; i < 16; i++) {
		char net[32], name[32];
		struct block_object *o;

		snprintf(net, sizeof(net), "10.0.0.%u/28", i * 16);
		snprintf(name, sizeof(name), "rail0-%x", i);
		make_block("n2", "rail0", i, net);
		o = bl_find(name);
		for (unsigned int k = 0; k < 3 && i != 9; k++)
			VEC_PUSH(o->released, o->n_released) =
				(struct block_entry){.ip = ip_from_num(4, 0x0a000000 + i * 16 + k),
						     .to = xstrdup("n3/t")};
	}
	x->needs[0].want = 2;
	while (strncmp(turn(x), "list", 4) != 0)
		;
}

static void give(const char *to)
{
	struct block_object *o = bl_find("rail0-9");

	for (uint32_t k = 0; k < 3; k++)
		VEC_PUSH(o->released, o->n_released) = (struct block_entry){
			.ip = ip_from_num(4, 0x0a000090 + k), .to = xstrdup(to)};
}

static void test_addresses_released_on_request_are_borrowed(void **state)
{
	struct lab *x = *state;
	static const char *const given[] = {"@n1*", "*"};

	for (int i = 0; i < 2; i++) {
		make_full(x);
		ASSERT_STR_EQ(turn(x), "request rail0-9");
		ASSERT_STR_EQ(bl_find("rail0-9")->requested[0].key, "n1@*");
		ASSERT_EQ(bl_find("rail0-9")->requested[0].count, 2);
		ASSERT_STR_EQ(turn(x), "");
		/* The next plan is due when the node reads the owner's reply in the block. */
		ASSERT_EQ(x->next_ms, x->f.now_ms + 100);
		x->f.now_ms = x->next_ms;
		ASSERT_STR_EQ(turn(x), "read rail0-9");
		ASSERT_STR_EQ(turn(x), "");
		ASSERT_EQ(x->next_ms, x->f.now_ms + 200);
		give(given[i]);
		x->f.now_ms = x->next_ms;
		ASSERT_STR_EQ(turn(x), "read rail0-9");
		ASSERT_STR_EQ(turn(x), "borrow rail0-9");
		ASSERT_EQ(count_mine(x), 2);
		/* Borrowed addresses stay while pods wait for them, and are returned afterwards. */
		x->needs[0].want = 0;
		x->needs[0].keep = 2;
		ASSERT_STR_EQ(turn(x), "");
		x->needs[0].keep = 0;
		ASSERT_STR_EQ(turn(x), "return rail0-9");
		drop(x);
		make(x);
	}
}

static void test_reservations_for_other_nodes_or_for_one_pod_are_not_borrowed(void **state)
{
	struct lab *x = *state;
	static const char *const given[] = {"@n9*", "@n1", "@n11*"};

	for (int i = 0; i < 3; i++) {
		make_full(x);
		ASSERT_STR_EQ(turn(x), "request rail0-9");
		give(given[i]);
		x->f.now_ms += 100;
		ASSERT_STR_EQ(turn(x), "read rail0-9");
		x->f.now_ms += 199;
		ASSERT_STR_EQ(turn(x), "");
		/* After a refusal the node lists the blocks and then requests addresses of
		 * another block, both without delay. */
		free(bl_find("rail0-9")->requested[--bl_find("rail0-9")->n_requested].key);
		x->f.now_ms += 1;
		ASSERT_STR_EQ(turn(x), "read rail0-9");
		ASSERT_STR_EQ(turn(x), "list rail0");
		assert_memory_equal(turn(x), "request rail0-", 14);
		ASSERT_EQ(bl_find("rail0-9")->n_requested, 0);
		drop(x);
		make(x);
	}
}

/* Returns the number of requests in all blocks that the blocks' owners have not answered. */
static size_t requests_of_peers(void)
{
	size_t n = 0;

	for (size_t i = 0; i < bl_server.n; i++)
		n += bl_server.v[i].n_requested;
	return n;
}

/* Returns the number of blocks with an unanswered request after `turns` tenths of a second. */
static size_t asked_after(struct lab *x, int turns)
{
	for (int i = 0; i < turns; i++) {
		x->f.now_ms += 100;
		turn(x);
	}
	return requests_of_peers();
}

/* No owner reports its free addresses: in the end each of the 15 blocks has a request. */
static void test_every_block_gets_a_request_eventually(void **state)
{
	struct lab *x = *state;

	make_full(x);
	ASSERT_EQ(asked_after(x, 2000), 15);
}

/* Makes the owner of each block report `spare` free addresses. */
static void say_all(uint32_t spare)
{
	for (size_t i = 0; i < bl_server.n; i++) {
		bl_server.v[i].reports = true;
		bl_server.v[i].unavailable = block_unreleased(&bl_server.v[i]) - spare;
	}
}

static void say(const char *name, uint32_t spare)
{
	bl_find(name)->unavailable = block_unreleased(bl_find(name)) - spare;
}

static void refuse_all(void)
{
	for (size_t i = 0; i < bl_server.n; i++)
		while (bl_server.v[i].n_requested)
			free(bl_server.v[i].requested[--bl_server.v[i].n_requested].key);
}

static void list_again(struct lab *x)
{
	x->f.now_ms += 5000;
	while (!strstr(turn(x), "list"))
		x->f.now_ms += 100;
}

static void test_peers_with_free_addresses_get_requests_first(void **state)
{
	struct lab *x = *state;

	make_full(x);
	say_all(0);
	say("rail0-3", 1);
	say("rail0-5", 4);
	say("rail0-c", 2);
	x->needs[0].want = 6;
	list_again(x);
	ASSERT_STR_EQ(turn(x), "request rail0-5 request rail0-c");
	ASSERT_EQ(bl_find("rail0-5")->requested[0].count, 4);
	ASSERT_EQ(bl_find("rail0-c")->requested[0].count, 2);
	/* Addresses that other nodes have requested from a block count as allocated. */
	refuse_all();
	say_all(0);
	say("rail0-3", 1);
	VEC_PUSH(bl_find("rail0-3")->requested, bl_find("rail0-3")->n_requested) =
		(struct block_requested){.key = xstrdup("n7@*"), .count = 1};
	x->f.now_ms += 5000;
	for (int i = 0; i < 100; i++)
		turn(x);
	ASSERT_EQ(bl_find("rail0-3")->n_requested, 1);
}

/* An owner that has just released addresses to this node and reports more gets the next request
 * at once. */
static void test_next_request_goes_to_the_same_owner_while_it_reports_free_addresses(void **state)
{
	struct lab *x = *state;

	make_full(x);
	ASSERT_STR_EQ(turn(x), "request rail0-9");
	refuse_all();
	give("@n1*");
	say_all(0);
	say("rail0-9", 5);
	x->needs[0].want = 5;
	x->f.now_ms += 100;
	ASSERT_STR_EQ(turn(x), "read rail0-9");
	ASSERT_STR_EQ(turn(x), "borrow rail0-9");
	x->needs[0].want = 2;
	ASSERT_STR_EQ(turn(x), "list rail0");
	ASSERT_STR_EQ(turn(x), "request rail0-9");
	ASSERT_EQ(bl_find("rail0-9")->requested[0].count, 2);
}

/* After a refusal the next request is sent at once; the fifth is sent after an interval. */
static void test_intervals_between_requests_begin_after_four_refusals(void **state)
{
	struct lab *x = *state;

	make_full(x);
	for (int i = 0; i < 4; i++) {
		assert_memory_equal(turn(x), "request rail0-", 14);
		refuse_all();
		x->f.now_ms += 100;
		assert_memory_equal(turn(x), "read rail0-", 11);
		ASSERT_STR_EQ(turn(x), "list rail0");
	}
	ASSERT_STR_EQ(turn(x), "");
	assert_in_range(x->next_ms - x->f.now_ms, 100, 2000);
	x->f.now_ms = x->next_ms;
	/* The node sends requests for two blocks at the same time, each for a part of the
	 * addresses. */
	assert_memory_equal(strrchr(turn(x), 'q'), "quest rail0-", 12);
	ASSERT_EQ(requests_of_peers(), 2);
}

/* The last free address is found when its owner reports it, although the owner reported none
 * before. */
static void test_last_free_address_is_requested_when_its_owner_reports_it(void **state)
{
	struct lab *x = *state;
	int64_t begin;
	size_t sent = 0;

	make_full(x);
	x->needs[0].want = 1;
	for (int i = 0; i < 600; i++) {
		x->f.now_ms += 100;
		if (strstr(turn(x), "request")) {
			sent++;
			refuse_all();
			say_all(0);
		}
	}
	/* The requests of one minute; most of them are sent at its beginning. */
	assert_in_range(sent, 2, 12);
	refuse_all();
	say("rail0-4", 1);
	begin = x->f.now_ms;
	while (!bl_find("rail0-4")->n_requested && x->f.now_ms < begin + 60000) {
		x->f.now_ms += 100;
		turn(x);
	}
	assert_in_range(x->f.now_ms - begin, 0, 5000);
}

/* A peer that reports no free address may have an outdated report. */
static void test_peers_that_report_no_free_address_get_requests_eventually(void **state)
{
	struct lab *x = *state;

	make_full(x);
	say_all(0);
	ASSERT_EQ(asked_after(x, 6000), 15);
}

/* This node has released addresses of its block to another node, so addresses are scarce: none
 * is pre-allocated. */
static void test_no_addresses_are_pre_allocated_while_some_are_released_to_a_peer(void **state)
{
	struct lab *x = *state;
	char name[32];

	have_request(x, name);
	watch(x, name);
	turn(x);
	x->needs[0].ahead = 4;
	ASSERT_STR_EQ(turn(x), "");
}

/*
 * The object of a block with a local pod is deleted. The node recreates it before it claims another
 * block for its pre-allocation, since a block without an object could be a deleted block of a peer.
 */
static void test_deleted_block_is_recreated_before_another_is_claimed(void **state)
{
	struct lab *x = *state;
	struct lease l = LEASE_INIT;
	char want[64], name[32];
	unsigned int at;

	x->f.n_needs = 1;
	ASSERT_EQ(sscanf(turn(x), "create rail0-%x", &at), 1);
	x->needs[0].want = 0;
	x->needs[0].ahead = 4;
	l.address = ipnet_host(&x->t.claims[0].net.ip);
	l.state = LEASE_USED;
	lease_put(&x->leases, &l);

	snprintf(name, sizeof(name), "rail0-%x", at);
	bl_clear();
	block_object_remove(&x->t, name);
	snprintf(want, sizeof(want), "read %s", name);
	ASSERT_STR_EQ(turn(x), want);
	snprintf(want, sizeof(want), "create %s", name);
	ASSERT_STR_EQ(turn(x), want);
	ASSERT_EQ(x->t.n_claims, 1);
	/* The pre-allocation continues. */
	ASSERT_EQ(strncmp(turn(x), "create rail0-", 13), 0);
	ASSERT_EQ(x->t.n_claims, 2);
}

static int setup(void **state)
{
	struct lab *x = xcalloc(1, sizeof(*x));

	make(x);
	*state = x;
	return 0;
}

static int teardown(void **state)
{
	drop(*state);
	free(*state);
	return 0;
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_all_rails_acquire_the_same_block_index),
		TEST(test_index_claimed_by_a_peer_is_skipped),
		TEST(test_rails_acquire_blocks_at_the_same_offset_in_their_pools),
		TEST(test_pool_without_room_does_not_wait_for_a_claim),
		TEST(test_blocks_are_listed_after_refused_claims),
		TEST(test_expired_reservation_is_reclaimed),
		TEST(test_reservation_borrowed_while_it_is_reclaimed_stays_with_its_borrower),
		TEST(test_request_with_an_invalid_key_is_refused),
		TEST(test_request_is_refused_while_no_address_is_free),
		TEST(test_reply_reports_the_current_free_capacity),
		TEST(test_addresses_for_waiting_pods_are_not_released),
		TEST(test_addresses_released_on_request_are_borrowed),
		TEST(test_reservations_for_other_nodes_or_for_one_pod_are_not_borrowed),
		TEST(test_every_block_gets_a_request_eventually),
		TEST(test_peers_with_free_addresses_get_requests_first),
		TEST(test_next_request_goes_to_the_same_owner_while_it_reports_free_addresses),
		TEST(test_intervals_between_requests_begin_after_four_refusals),
		TEST(test_last_free_address_is_requested_when_its_owner_reports_it),
		TEST(test_peers_that_report_no_free_address_get_requests_eventually),
		TEST(test_no_addresses_are_pre_allocated_while_some_are_released_to_a_peer),
		TEST(test_deleted_block_is_recreated_before_another_is_claimed),
	};

	return T_RUN(tests, NULL, NULL);
}
