/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The blocks of a node that uses many pools, the entries of one block, and the leases of a node
 * whose block log was lost.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/blocks/adopt.h"
#include "base/alloc.h"
#include "block/plan.h"
#include "growth.h"

static char node_name[] = "n", node_uid[] = "u", pool_name[] = "p";

static struct ipaddr address(size_t i)
{
	return ip_from_num(4, ((u128)10 << 24) + i);
}

static struct block_object object_of(const char *name, const char *pool, size_t i)
{
	return (struct block_object){.name = xstrdup(name),
				     .pool = xstrdup(pool),
				     .uid = xstrdup("x"),
				     .version = xstrdup("1"),
				     .net = {address(16 * i), 28},
				     .node = xstrdup(node_name),
				     .node_uid = xstrdup(node_uid),
				     .claim = xstrdup("t")};
}

static void put_block(struct block_table *t, size_t i)
{
	char pool[32], name[64], uid[] = "x";
	struct block_claim c = {.name = name, .pool = pool, .uid = uid, .token = "t"};
	struct block_object o;

	snprintf(pool, sizeof(pool), "p%06zu", i);
	snprintf(name, sizeof(name), "%s-%zx", pool, i);
	c.net = (struct ipnet){address(16 * i), 28};
	block_claim_put(t, &c);
	o = object_of(name, pool, i);
	block_object_put(t, &o);
}

/*
 * A node with a block and a borrowed address of each of n pools: computes for each pool the
 * addresses that the node may allocate.
 */
uint64_t growth_blocks_mine(size_t n)
{
	struct block_table t = {.node = node_name, .node_uid = node_uid, .synced = true};
	uint64_t before = count_work;

	for (size_t i = 0; i < n; i++)
		put_block(&t, i);
	for (size_t i = 0; i < n; i++) {
		struct ip_set usable = {0}, mine = {0};
		char pool[32], borrowed[] = "none";

		snprintf(pool, sizeof(pool), "p%06zu", i);
		block_borrowed_put(&t, &(struct block_borrowed){.block = borrowed,
								.pool = pool,
								.ip = address((1 << 20) + i),
								.state = BORROW_HELD});
		ip_set_collect(&usable, &(struct ip_range){address(16 * i), address(16 * i + 15)});
		ip_set_merge(&usable);
		block_usable(&t, pool, &usable, &mine);
		if (ip_set_count(&mine) != 16)
			abort();
		ip_set_done(&usable);
		ip_set_done(&mine);
	}
	before = count_work - before;
	t.node = t.node_uid = NULL;
	block_table_done(&t);
	return before;
}

/*
 * A block with n entries. Each event of the watch reports all entries again, and the node searches
 * for each entry.
 */
uint64_t growth_blocks_entries(size_t n)
{
	struct block_table t = {.node = node_name, .node_uid = node_uid};
	uint64_t before = count_work;

	for (int event = 0; event < 2; event++) {
		struct block_object o = object_of("p-0", pool_name, 0);

		for (size_t i = n; i-- > 0;)
			VEC_PUSH(o.released, o.n_released) =
				(struct block_entry){.ip = address(i), .to = xstrdup("*")};
		block_object_put(&t, &o);
		block_table_stamp(&t, 1);
	}
	for (size_t i = 0; i < n; i++) {
		const struct ipaddr a = address(i);

		if (block_entry_find(&t.objects[0], &a)->since_ms != 1)
			abort();
	}
	before = count_work - before;
	t.node = t.node_uid = NULL;
	block_table_done(&t);
	return before;
}

/* A claimed block with n released addresses, which are also the addresses that requests name:
 * the node searches both lists for each address. */
uint64_t growth_blocks_busy(size_t n)
{
	auto_free struct ipaddr *reserved = xcalloc(n, sizeof(*reserved));
	struct block_table t = {.node = node_name, .node_uid = node_uid};
	char name[] = "p-0", uid[] = "x";
	struct block_claim c = {
		.name = name, .pool = pool_name, .uid = uid, .released = reserved, .n_released = n};
	struct lease_table leases = {0};
	struct block_facts f = {
		.table = &t, .leases = &leases, .reserved = reserved, .n_reserved = n};
	uint64_t before = count_work;

	for (size_t i = 0; i < n; i++)
		reserved[i] = address(i);
	block_claim_put(&t, &c);
	for (size_t i = 0; i < n; i++)
		if (!block_is_busy(&f, &reserved[i]) ||
		    !block_is_released(&t.claims[0], &reserved[i]))
			abort();
	before = count_work - before;
	t.node = t.node_uid = NULL;
	block_table_done(&t);
	return before;
}

/* Searches for the UIDs of 2n pods among the n leases of a node that lost its block log; half of
 * the pods have a lease. */
uint64_t growth_blocks_adopted_pods(size_t n)
{
	struct lease_table leases = {0};
	auto_free char(*names)[40] = xcalloc(n, sizeof(*names));
	auto_free const char **uids = NULL;
	uint64_t before;
	size_t n_uids;
	char uid[40];

	for (size_t i = 0; i < n; i++) {
		struct lease l = LEASE_INIT;

		l.address = (struct ipnet){address(i), 8};
		l.state = LEASE_USED;
		snprintf(names[i], sizeof(names[i]), "%036zu", n - i);
		l.pod_uid = names[i];
		lease_put(&leases, &l);
	}
	before = count_work;
	n_uids = adopt_uids(&leases, &uids);
	for (size_t i = 0; i < 2 * n; i++) {
		snprintf(uid, sizeof(uid), "%036zu", i + 1);
		if (adopt_has_leases(uids, n_uids, uid) != (i < n))
			abort();
	}
	before = count_work - before;
	lease_table_done(&leases);
	return before;
}
