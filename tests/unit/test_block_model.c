/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Nodes that share a pool through an API server that loses requests and answers, delays them past
 * their time, and shows what it has late; nodes that crash and come back with what they wrote down.
 * At every step no two pods have one address; in the end, when things work again, a pool with as
 * many addresses as pods gives each pod one.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "block_lab.h"
#include "ipam/block_plan.h"

enum { NODES = 4, PODS = 48, REST_MS = 2000, VIEW_MS = 300 };

/* --- nodes --- */

static char dir[64];
static struct root root;
static struct block_cut cut;
static struct ip_set usable;
static int64_t now;

static struct node {
	struct block_log log;
	struct block_table t;
	struct lease_table leases;
	char name[16], path[32];
	uint32_t waiting; /* pods without an address */
} nodes[NODES];

static struct ipaddr pods[NODES][PODS]; /* each node's pods' addresses */
static int n_pods[NODES];

static void node_up(struct node *x)
{
	struct err e = ERR_INIT;

	if (block_log_open(&x->log, &root, x->path, x->name, &x->t, &e) < 0)
		fail_msg("%s", e.text);
}

static void node_down(struct node *x)
{
	block_table_done(&x->t);
	block_log_close(&x->log);
}

/* The list of the node's own objects, as a watch that begins anew has it. */
static void watch(struct node *x)
{
	for (size_t i = x->t.n_objects; i-- > 0;)
		if (strcmp(x->t.objects[i].node, x->name) == 0 && !bl_find(x->t.objects[i].name))
			block_object_remove(&x->t, x->t.objects[i].name);
	for (size_t i = 0; i < bl_server.n; i++) {
		struct block_object o = bl_copy(&bl_server.v[i]);

		if (strcmp(o.node, x->name) == 0)
			block_object_put(&x->t, &o);
		else
			block_object_done(&o);
	}
	x->t.synced = true;
}

static bool busy(const struct block_facts *f, const struct ipaddr *a)
{
	return block_is_busy(f, a);
}

static struct block_facts facts_of(struct node *x, struct block_need *need)
{
	struct block_facts f = {
		.table = &x->t,
		.log = &x->log,
		.needs = need,
		.n_needs = 1,
		.leases = &x->leases,
		.seed = bl_roll(1 << 16),
		.now_ms = now,
		.real_ms = now,
		.rest_ms = REST_MS,
		.quarantine_ms = REST_MS,
		.view_ms = VIEW_MS,
	};
	struct ip_set mine = {0};
	uint32_t idle = 0;

	block_mine(&x->t, "p", &usable, &mine);
	for (size_t i = 0; i < mine.n; i++)
		for (u128 k = ip_num(&mine.v[i].first); k <= ip_num(&mine.v[i].last); k++) {
			struct ipaddr a = ip_from_num(4, k);

			idle += !busy(&f, &a);
		}
	ip_set_done(&mine);
	*need = (struct block_need){.pool = "p", .cut = cut, .usable = &usable};
	need->want = x->waiting;
	need->spare = !x->waiting && idle > 2 ? idle - 2 : 0;
	return f;
}

static void list(struct node *x)
{
	block_view_put(&x->t, "p", &cut, bl_server.v, bl_server.n, now);
}

/* One request, as the network will have it. */
static void ask(struct node *x, struct block_op *op)
{
	struct err e = ERR_INIT;
	enum block_outcome r;
	struct block_object o = {0}, *served_object;
	bool lost;

	if (block_op_begin(&x->log, &x->t, op, &e) < 0)
		return;
	if (bl_roll(100) < bl_server.trouble) {
		lost = bl_roll(2);
		if (lost && op->kind != OP_LIST)
			bl_delay((int)(x - nodes), op);
		else if (!lost && op->kind != OP_LIST)
			bl_serve((int)(x - nodes), op);
		block_op_end(&x->log, &x->t, op, BLOCK_UNKNOWN, NULL, now, &e);
		return;
	}
	if (op->kind == OP_LIST) {
		list(x);
		return;
	}
	r = bl_serve((int)(x - nodes), op);
	served_object = r == BLOCK_OK ? bl_find(op->name) : NULL;
	if (served_object)
		o = bl_copy(served_object);
	/* Killed between the answer and what follows of it. */
	if (bl_roll(100) < bl_server.trouble / 4) {
		block_object_done(&o);
		node_down(x);
		node_up(x);
		return;
	}
	if (block_op_end(&x->log, &x->t, op, r, served_object ? &o : NULL, now, &e) < 0)
		fail_msg("%s", e.text);
	block_object_done(&o);
}

static void work(struct node *x)
{
	struct block_need need;
	struct block_facts f = facts_of(x, &need);
	struct block_plan p;

	block_plan(&f, &p);
	if (p.n)
		ask(x, &p.v[bl_roll((uint32_t)p.n)]);
	block_plan_done(&p);
}

static void assert_alone(int node, const struct ipaddr *a)
{
	char text[IP_TEXT_MAX];

	for (int i = 0; i < NODES; i++)
		for (int k = 0; k < n_pods[i]; k++)
			if (ip_eq(&pods[i][k], a))
				fail_msg("%s is given out by node%d, and a pod of node%d has it",
					 ip_str(a, text), node, i);
}

static void put_lease(struct node *x, const struct ipaddr *a, enum lease_state state)
{
	struct lease l = LEASE_INIT;

	l.address = ipnet_host(a);
	l.state = state;
	l.at_ms = now;
	lease_put(&x->leases, &l);
}

static bool pod_comes(struct node *x)
{
	int node = (int)(x - nodes);
	struct block_need need;
	struct block_facts f = facts_of(x, &need);
	struct ip_set mine = {0};
	struct ipaddr a;
	bool there;

	block_mine(&x->t, "p", &usable, &mine);
	there = ip_set_next(&mine, NULL, &a);
	while (there && busy(&f, &a))
		there = ip_add(&a, 1, &a) && ip_set_next(&mine, &a, &a);
	ip_set_done(&mine);
	if (!there)
		return false;
	assert_alone(node, &a);
	pods[node][n_pods[node]++] = a;
	put_lease(x, &a, LEASE_USED);
	return true;
}

static void pod_goes(struct node *x)
{
	int node = (int)(x - nodes), i;

	if (!n_pods[node])
		return;
	i = (int)bl_roll((uint32_t)n_pods[node]);
	put_lease(x, &pods[node][i], LEASE_FREE);
	pods[node][i] = pods[node][--n_pods[node]];
}

static void step(void)
{
	struct node *x = &nodes[bl_roll(NODES)];

	now += bl_roll(400);
	switch (bl_roll(12)) {
	case 0:
	case 1:
		if (n_pods[x - nodes] < PODS && !pod_comes(x) && x->waiting < 8)
			x->waiting++;
		break;
	case 2: pod_goes(x); break;
	case 3: watch(x); break;
	case 4:
		if (bl_server.n_late)
			bl_arrive();
		break;
	case 5:
		if (bl_roll(100) < bl_server.trouble) {
			node_down(x);
			node_up(x);
		}
		break;
	default: work(x);
	}
	if (x->waiting && pod_comes(x))
		x->waiting--;
}

static void start(uint64_t s)
{
	bl_seed = s * 0x9e3779b97f4a7c15u + 1;
	now = 1000000;
	strcpy(dir, access("/dev/shm", W_OK) == 0 ? "/dev/shm/unirail-blocks.XXXXXX"
						  : "/tmp/unirail-blocks.XXXXXX");
	assert_non_null(mkdtemp(dir));
	assert_int_equal(root_open(&root, dir, NULL), 0);
	for (int i = 0; i < NODES; i++) {
		snprintf(nodes[i].name, sizeof(nodes[i].name), "node%d", i);
		snprintf(nodes[i].path, sizeof(nodes[i].path), "/node%d.json", i);
		node_up(&nodes[i]);
	}
}

static void stop(void)
{
	for (int i = 0; i < NODES; i++) {
		file_remove(&root, nodes[i].path, NULL);
		node_down(&nodes[i]);
		lease_table_done(&nodes[i].leases);
		nodes[i] = (struct node){0};
		n_pods[i] = 0;
	}
	bl_clear();
	root_close(&root);
	rmdir(dir);
}

static void show(void)
{
	char t[IP_TEXT_MAX];

	for (size_t i = 0; i < bl_server.n; i++) {
		const struct block_object *o = &bl_server.v[i];

		printf("%s %s node=%s claim=%s\n", o->name, ipnet_str(&o->net, t), o->node,
		       o->claim);
		for (size_t k = 0; k < o->n_ceded; k++)
			printf("   %s -> '%s'\n", ip_str(&o->ceded[k].ip, t), o->ceded[k].to);
		for (size_t k = 0; k < o->n_wanted; k++)
			printf("   wanted %s %u\n", o->wanted[k].node, o->wanted[k].count);
	}
	for (int i = 0; i < NODES; i++) {
		printf("node%d pods=%d:", i, n_pods[i]);
		for (int k = 0; k < n_pods[i]; k++)
			printf(" %s", ip_str(&pods[i][k], t));
		printf("\n");
		for (size_t k = 0; k < nodes[i].t.n_claims; k++)
			printf("   claim %s state %d ceded %zu\n", nodes[i].t.claims[k].name,
			       nodes[i].t.claims[k].state, nodes[i].t.claims[k].n_ceded);
		for (size_t k = 0; k < nodes[i].t.n_loans; k++)
			printf("   loan %s state %d\n", ip_str(&nodes[i].t.loans[k].ip, t),
			       nodes[i].t.loans[k].state);
	}
}

/* Things work again, and the addresses are asked for by one node after the other. */
static void fill(uint64_t s)
{
	int all = (int)ip_set_count(&usable), there = 0;

	while (bl_server.n_late)
		bl_arrive();
	bl_server.trouble = 0;
	for (int round = 0; round < 20000 && there < all; round++) {
		struct node *x = &nodes[round % NODES];

		now += 100;
		watch(x);
		for (int i = 0; i < 3; i++)
			work(x);
		/* node0 wants all that there is, the others nothing more. */
		nodes[0].waiting = 0;
		if (x == &nodes[0])
			while (n_pods[0] < PODS && pod_comes(x))
				;
		there = 0;
		for (int i = 0; i < NODES; i++)
			there += n_pods[i];
		nodes[0].waiting = (uint32_t)(all - there);
		for (int i = 1; i < NODES; i++)
			nodes[i].waiting = 0;
	}
	if (there < all)
		show();
	if (there < all)
		fail_msg("seed %llu: %d of %d addresses are lost", (unsigned long long)s,
			 all - there, all);
}

static void run(uint64_t s, uint32_t trouble)
{
	start(s);
	bl_server.trouble = trouble;
	for (int i = 0; i < 600; i++)
		step();
	fill(s);
	stop();
}

static void test_no_trouble(void **state)
{
	(void)state;
	for (uint64_t s = 1; s <= 50; s++)
		run(s, 0);
}

static void test_trouble(void **state)
{
	const char *from = getenv("BLOCK_FIRST"), *to = getenv("BLOCK_LAST");
	uint64_t first = from ? strtoull(from, NULL, 10) : 1;
	uint64_t last = to ? strtoull(to, NULL, 10) : 120;

	(void)state;
	for (uint64_t s = first; s <= last; s++)
		run(s, 5 + (uint32_t)(s % 40));
}

static int set_up(void **state)
{
	struct ip_range r = {ip_from_num(4, 0x0a000001), ip_from_num(4, 0x0a00002c)};
	struct ipnet subnet = {ip_from_num(4, 0x0a000000), 26};

	(void)state;
	ip_set_add(&usable, &r);
	return block_cut_choose(&subnet, 29, false, &cut, NULL);
}

static int tear_down(void **state)
{
	(void)state;
	ip_set_done(&usable);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_no_trouble),
		cmocka_unit_test(test_trouble),
	};

	return cmocka_run_group_tests(tests, set_up, tear_down);
}
