/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Retained addresses migrate with their pods between nodes. The API server loses and delays
 * requests and shows changes late, nodes crash, and other pods request addresses of the same pool.
 * At every step no two running containers have the same address; at the end every name has an
 * address, and no address is lost.
 */
#include "testlib.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "block_lab.h"
#include "block/plan.h"
#include "block/migration.h"

enum { NODES = 3, NAMES = 5, OTHERS = 30, REUSE_DELAY_MS = 2000, VIEW_MS = 300 };

static char dir[T_DIR_MAX];
static struct root root;
static int64_t now;

static struct node {
	struct block_log log;
	struct block_table t;
	struct lease_table leases;
	char name[16], path[32];
	uint32_t waiting;
	struct ipaddr peers[OTHERS]; /* addresses of pods without retained addresses */
	int n_peers;
} nodes[NODES];

/* The name of a StatefulSet's pod or of a virtual machine. */
static struct name {
	char name[16], uid[24];
	int at;	    /* node of the pod */
	bool lives; /* true: the pod has its address; false: the pod requests the address */
	bool migrates;
	struct ipaddr ip; /* last address of the name; family 0: none yet */
	/* addresses of former containers that still run, by node; family 0: none */
	struct ipaddr former[NODES];
	/* the endpoint, and the endpoint as a late watch delivers it */
	struct migration_place place, late;
	struct block_object seen;
	bool rescanned;
	/*
	 * retained: times the name got the same address again; changed: times a pod of a
	 * StatefulSet got another address
	 */
	int uids, retained, changed;
} names[NAMES];

static void node_up(struct node *x)
{
	struct err e = ERR_INIT;

	ASSERT_OK(block_log_open(&x->log, &root, x->path, x->name, &x->t, &e), &e);
}

static void node_down(struct node *x)
{
	block_table_done(&x->t);
	block_log_close(&x->log);
}

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

static int by_address(const void *a, const void *b)
{
	return ip_cmp(a, b);
}

static struct block_facts facts_of(struct node *x, struct block_need *need, struct ipaddr *reserved)
{
	struct block_facts f = {.table = &x->t,
				.log = &x->log,
				.needs = need,
				.n_needs = 1,
				.leases = &x->leases,
				.seed = bl_roll(1 << 16),
				.now_ms = now,
				.real_ms = now,
				.reuse_delay_ms = REUSE_DELAY_MS,
				.quarantine_ms = REUSE_DELAY_MS,
				.view_ms = VIEW_MS,
				.reserved = reserved};

	for (int i = 0; i < NAMES; i++)
		if (&nodes[names[i].at] == x && !names[i].lives && names[i].ip.family)
			reserved[f.n_reserved++] = names[i].ip;
	qsort(reserved, f.n_reserved, sizeof(*reserved), by_address);
	*need = (struct block_need){.pool = "p", .cut = bl_pool.cut, .usable = &bl_pool.open};
	need->want = x->waiting;
	need->spare = x->waiting ? 0 : bl_roll(3) ? 2 : 20;
	return f;
}

/*
 * One request; its execution may be delayed, or its response lost. Returns false if it could not be
 * logged and was not sent.
 */
static bool request(struct node *x, struct block_op *op)
{
	const struct bl_owner owner = bl_by(x->name);
	struct block_object o = {0}, *there;
	struct err e = ERR_INIT;
	enum block_outcome r;

	if (block_op_begin(&x->log, &x->t, op, &e) < 0)
		return false;
	if (op->kind == OP_FORGET)
		return true;
	if (op->kind == OP_LIST) {
		block_view_put(&x->t, "p", &bl_pool.cut, bl_server.v, bl_server.n, now);
		return true;
	}
	if (bl_roll(100) < bl_server.loss_percent) {
		if (bl_roll(2))
			bl_delay(&owner, op);
		else
			bl_serve(&owner, op);
		block_op_end(&x->log, &x->t, op, BLOCK_UNKNOWN, NULL, now, &e);
		return true;
	}
	r = bl_serve(&owner, op);
	there = r == BLOCK_OK ? bl_find(op->name) : NULL;
	if (there)
		o = bl_copy(there);
	if (bl_roll(100) < bl_server.loss_percent / 4) {
		node_down(x);
		node_up(x);
	} else if (block_op_end(&x->log, &x->t, op, r, there ? &o : NULL, now, &e) < 0) {
		fail_msg("%s", e.text);
	}
	block_object_done(&o);
	return true;
}

static void work(struct node *x)
{
	struct ipaddr reserved[NAMES];
	struct block_need need;
	struct block_facts f = facts_of(x, &need, reserved);
	struct block_plan p;

	block_table_stamp(&x->t, now);
	block_plan(&f, &p);
	if (p.n)
		request(x, &p.v[bl_roll((uint32_t)p.n)]);
	block_plan_done(&p);
}

/* `me`: the name that the address is allocated to; NULL: a pod without a retained address. */
static void assert_alone(const struct ipaddr *a, const struct name *me)
{
	char text[IP_TEXT_MAX];

	ip_str(a, text);
	for (int i = 0; i < NODES; i++)
		for (int k = 0; k < nodes[i].n_peers; k++)
			if (ip_eq(&nodes[i].peers[k], a))
				fail_msg("%s is allocated although another "
					 "pod of node%d has the address",
					 text, i);
	for (int i = 0; i < NAMES; i++) {
		const struct name *x = &names[i];

		if (x != me && x->lives && ip_eq(&x->ip, a))
			fail_msg("%s is allocated although %s has the address", text, x->name);
		for (int k = 0; k < NODES; k++)
			if (x->former[k].family && ip_eq(&x->former[k], a) &&
			    !(x == me && k == x->at))
				fail_msg("%s is allocated although a container "
					 "of %s on node%d has the address",
					 text, x->name, k);
	}
}

static void put_lease(struct node *x, const struct ipaddr *a, enum lease_state state,
		      const char *name)
{
	struct lease l = LEASE_INIT;

	l.address = ipnet_host(a);
	l.state = state;
	l.at_ms = now;
	l.pod_namespace = *name ? "a" : "";
	l.pod_name = name;
	lease_put(&x->leases, &l);
}

static bool is_mine(const struct node *x, const struct ipaddr *a)
{
	struct ip_set mine = {0};
	bool r;

	block_usable(&x->t, "p", &bl_pool.open, &mine);
	r = ip_set_has(&mine, a);
	ip_set_done(&mine);
	return r;
}

/* --- pods without retained addresses --- */

static int most_others = 16;

static bool any_free(struct node *x, struct ipaddr *a)
{
	struct ipaddr reserved[NAMES];
	struct block_need need;
	struct block_facts f = facts_of(x, &need, reserved);
	struct ip_set mine = {0};
	bool there;

	f.n_reserved = 0; /* addresses that names are about to get count as free */
	block_usable(&x->t, "p", &bl_pool.open, &mine);
	there = ip_set_next(&mine, NULL, a);
	while (there && block_is_busy(&f, a))
		there = ip_add(a, 1, a) && ip_set_next(&mine, a, a);
	ip_set_done(&mine);
	return there;
}

static bool other_comes(struct node *x)
{
	struct ipaddr a;

	if (x->n_peers == most_others || !any_free(x, &a))
		return false;
	assert_alone(&a, NULL);
	put_lease(x, &a, LEASE_USED, "");
	x->peers[x->n_peers++] = a;
	return true;
}

static void other_goes(struct node *x)
{
	int i = x->n_peers ? (int)bl_roll((uint32_t)x->n_peers) : -1;

	if (i < 0)
		return;
	put_lease(x, &x->peers[i], LEASE_FREE, "");
	x->peers[i] = x->peers[--x->n_peers];
}

/* --- names --- */

static void place_copy(struct migration_place *to, const struct migration_place *from)
{
	migration_place_done(to);
	*to = (struct migration_place){.migration = from->migration, .refused = from->refused};
	to->node = from->node ? xstrdup(from->node) : NULL;
	to->uid = from->uid ? xstrdup(from->uid) : NULL;
	to->for_node = from->for_node ? xstrdup(from->for_node) : NULL;
	to->for_uid = from->for_uid ? xstrdup(from->for_uid) : NULL;
	to->from = from->from ? xstrdup(from->from) : NULL;
}

static void place_set(struct name *n, const char *from, const char *node, const char *uid)
{
	struct migration_place p = {.node = n->place.node,
				    .uid = n->place.uid,
				    .from = (char *)from,
				    .for_node = (char *)node,
				    .for_uid = (char *)uid,
				    .migration = node && n->migrates};
	struct migration_place copy = {0};

	place_copy(&copy, &p);
	migration_place_done(&n->place);
	n->place = copy;
}

/* The pod of the name has the address from now on. */
static void name_takes(struct name *n, const struct ipaddr *a)
{
	struct node *x = &nodes[n->at];

	assert_alone(a, n);
	n->retained += n->ip.family && ip_eq(&n->ip, a);
	n->changed += n->ip.family && !ip_eq(&n->ip, a) && !n->migrates;
	/* On the same node the new pod takes the address over from the former container
	 * (select_address.c). */
	n->former[n->at].family = 0;
	for (size_t i = 0; i < x->leases.n; i++) {
		struct lease *l = &x->leases.v[i];

		if (strcmp(l->pod_name, n->name) == 0 && !ip_eq(&l->address.ip, a) &&
		    (l->state == LEASE_RETAINED || l->state == LEASE_USED))
			put_lease(x, &l->address.ip, LEASE_FREE, "");
	}
	put_lease(x, a, LEASE_USED, n->name);
	n->ip = *a;
	n->lives = true;
	/* The agent writes the endpoint after its reply to the CNI ADD request, and the write
	 * may fail. */
	if (bl_roll(100) < bl_server.loss_percent)
		return;
	place_set(n, NULL, NULL, NULL);
	free(n->place.node);
	n->place.node = xstrdup(x->name);
}

static void container_ends(struct name *n, int node, const struct ipaddr *a)
{
	const struct lease *l = lease_find(&nodes[node].leases, a);

	if (l && l->state == LEASE_USED && strcmp(l->pod_name, n->name) == 0)
		put_lease(&nodes[node], a, LEASE_RETAINED, n->name);
}

/* The pod is recreated on another node (or the same); its old container may run on for a while. */
static void name_moves(struct name *n)
{
	if (n->lives) {
		if (n->migrates || bl_roll(3) == 0)
			n->former[n->at] = n->ip;
		else
			container_ends(n, n->at, &n->ip);
	}
	n->lives = n->rescanned = false;
	n->at = (int)bl_roll(NODES);
	snprintf(n->uid, sizeof(n->uid), "u%d", ++n->uids);
}

static void former_ends(struct name *n)
{
	int k = (int)bl_roll(NODES);

	if (!n->former[k].family)
		return;
	container_ends(n, k, &n->former[k]);
	n->former[k].family = 0;
}

static void rescan(struct name *n, struct block_op *op)
{
	struct block_object *o = bl_find(op->name);

	if (bl_roll(100) < bl_server.loss_percent)
		return;
	block_object_done(&n->seen);
	n->seen = o ? bl_copy(o) : (struct block_object){0};
	n->rescanned = true;
}

/*
 * When the node obtains the address, the address is retained for the name before another pod can
 * get it (ipam_keep()).
 */
static void keep(struct name *n)
{
	struct node *x = &nodes[n->at];
	const struct lease *l = lease_find(&x->leases, &n->ip);

	if (is_mine(x, &n->ip) && (!l || l->state == LEASE_FREE))
		put_lease(x, &n->ip, LEASE_RETAINED, n->name);
}

static void take_any(struct name *n)
{
	struct node *x = &nodes[n->at];
	struct ipaddr a;

	if (any_free(x, &a))
		name_takes(n, &a);
	else
		x->waiting = x->waiting < 4 ? x->waiting + 1 : 4;
}

static void name_requests(struct name *n)
{
	struct node *x = &nodes[n->at];
	struct migration_facts f = {.table = &x->t,
				    .pool = &bl_pool,
				    .ip = n->ip,
				    .place = bl_roll(100) < bl_server.loss_percent ? &n->late
										   : &n->place,
				    .uid = n->uid,
				    .rescanned = n->rescanned,
				    .block = n->rescanned && n->seen.name ? &n->seen : NULL};
	char owner[254];
	struct block_op op;

	if (!n->ip.family) {
		take_any(n);
		return;
	}
	switch (migration_next(&f, &op)) {
	case MIGRATION_HERE: {
		const struct lease *l = lease_find(&x->leases, &n->ip);

		if (!l || l->state == LEASE_FREE ||
		    (strcmp(l->pod_name, n->name) == 0 && l->state != LEASE_QUARANTINED))
			name_takes(n, &n->ip);
		else
			take_any(n);
		break;
	}
	case MIGRATION_NEVER: take_any(n); break;
	case MIGRATION_READ: rescan(n, &op); break;
	case MIGRATION_OP:
		request(x, &op);
		n->rescanned = false;
		keep(n);
		break;
	case MIGRATION_REQUEST:
		migration_owner(&f, owner);
		if (bl_roll(100) >= bl_server.loss_percent)
			place_set(n, owner, x->name, n->uid);
		n->rescanned = false;
		break;
	case MIGRATION_WAIT: n->rescanned = false; break;
	}
	block_op_done(&op);
}

/* The node that has the name's address answers the request of the pod's new node. */
static void name_is_answered(struct name *n)
{
	struct migration_place *p = bl_roll(100) < bl_server.loss_percent ? &n->late : &n->place;
	const struct lease *l;
	struct block_op op;
	struct node *x;

	if (!p->from || !p->for_node)
		return;
	x = &nodes[p->from[4] - '0'];
	l = lease_find(&x->leases, &n->ip);
	switch (migration_answer(p, "a", n->name, l)) {
	case MIGRATION_LATER: return;
	case MIGRATION_REFUSE:
		if (p == &n->place) {
			place_set(n, NULL, p->for_node, p->for_uid);
			n->place.refused = true;
		}
		return;
	case MIGRATION_EXPORT: break;
	}
	if (strcmp(p->for_node, x->name) == 0 || !migration_export(&x->t, &n->ip, p->for_node, &op))
		return;
	request(x, &op);
	block_op_done(&op);
}

static void sweep(struct node *x)
{
	struct ipaddr leave[NAMES]; /* addresses of names without a running pod */
	struct block_op op;
	size_t n = 0;

	for (size_t i = 0; i < x->leases.n; i++)
		if (migration_is_stale(&x->t, &x->leases.v[i]))
			put_lease(x, &x->leases.v[i].address.ip, LEASE_FREE, "");
	for (int i = 0; i < NAMES; i++)
		if (!names[i].lives && names[i].ip.family &&
		    (!bl_server.loss_percent || bl_roll(8)))
			leave[n++] = names[i].ip;
	qsort(leave, n, sizeof(*leave), by_address);
	if (migration_reclaim(&x->t, leave, n, &op))
		request(x, &op);
}

static void step(void)
{
	struct node *x = &nodes[bl_roll(NODES)];
	struct name *n = &names[bl_roll(NAMES)];

	now += bl_roll(400);
	switch (bl_roll(16)) {
	case 0:
		if (!other_comes(x) && x->waiting < 4)
			x->waiting++;
		break;
	case 1: other_goes(x); break;
	case 2: name_moves(n); break;
	case 3: former_ends(n); break;
	case 4: place_copy(&n->late, &n->place); break;
	case 5: watch(x); break;
	case 6:
		if (bl_server.n_late)
			bl_arrive();
		break;
	case 7:
		if (bl_roll(100) < bl_server.loss_percent) {
			node_down(x);
			node_up(x);
		}
		break;
	case 8: sweep(x); break;
	case 9:
	case 10: name_is_answered(n); break;
	case 11:
	case 12:
	case 13:
		if (!n->lives)
			name_requests(n);
		break;
	default: work(x);
	}
	if (x->waiting && other_comes(x))
		x->waiting--;
}

static void start(uint64_t s)
{
	bl_seed = s * 0x9e3779b97f4a7c15u + 1;
	now = 1000000;
	t_dir_make(dir, &root);
	for (int i = 0; i < NODES; i++) {
		snprintf(nodes[i].name, sizeof(nodes[i].name), "node%d", i);
		snprintf(nodes[i].path, sizeof(nodes[i].path), "/node%d.json", i);
		node_up(&nodes[i]);
	}
	for (int i = 0; i < NAMES; i++) {
		snprintf(names[i].name, sizeof(names[i].name), "web-%d", i);
		names[i].migrates = i == NAMES - 1;
		names[i].at = (int)bl_roll(NODES);
		names[i].place.node = xstrdup("");
		names[i].place.uid = xstrdup("");
	}
}

static void stop(void)
{
	for (int i = 0; i < NODES; i++) {
		node_down(&nodes[i]);
		lease_table_done(&nodes[i].leases);
		nodes[i] = (struct node){0};
	}
	for (int i = 0; i < NAMES; i++) {
		migration_place_done(&names[i].place);
		migration_place_done(&names[i].late);
		block_object_done(&names[i].seen);
		names[i] = (struct name){0};
	}
	bl_clear();
	t_dir_remove(dir, &root);
}

static void show(void)
{
	char t[IP_TEXT_MAX];

	for (size_t i = 0; i < bl_server.n; i++) {
		const struct block_object *o = &bl_server.v[i];

		printf("%s %s node=%s claim=%s\n", o->name, ipnet_str(&o->net, t), o->node,
		       o->claim);
		for (size_t k = 0; k < o->n_released; k++)
			printf("   %s -> '%s'\n", ip_str(&o->released[k].ip, t), o->released[k].to);
	}
	for (int i = 0; i < NODES; i++) {
		printf("%s others=%d\n", nodes[i].name, nodes[i].n_peers);
		for (size_t k = 0; k < nodes[i].t.n_claims; k++)
			printf("   claim %s state %d released %zu\n", nodes[i].t.claims[k].name,
			       nodes[i].t.claims[k].state, nodes[i].t.claims[k].n_released);
		for (size_t k = 0; k < nodes[i].t.n_borrowed; k++)
			printf("   borrowed %s state %d\n", ip_str(&nodes[i].t.borrowed[k].ip, t),
			       nodes[i].t.borrowed[k].state);
		for (size_t k = 0; k < nodes[i].leases.n; k++)
			printf("   lease %s state %d '%s'\n",
			       ip_str(&nodes[i].leases.v[k].address.ip, t),
			       nodes[i].leases.v[k].state, nodes[i].leases.v[k].pod_name);
	}
	for (int i = 0; i < NAMES; i++)
		printf("%s at node%d running %d ip %s uid %s requests %s of %s for %s%s\n",
		       names[i].name, names[i].at, names[i].lives,
		       names[i].ip.family ? ip_str(&names[i].ip, t) : "-", names[i].uid,
		       names[i].place.for_uid ? names[i].place.for_uid : "-",
		       names[i].place.from ? names[i].place.from : "-",
		       names[i].place.for_node ? names[i].place.for_node : "-",
		       names[i].place.refused ? " refused" : "");
}

/* Ends all faults: requests succeed, and every requesting pod gets an address. */
static void settle(uint64_t s)
{
	int left = NAMES;

	while (bl_server.n_late)
		bl_arrive();
	bl_server.loss_percent = 0;
	for (int round = 0; round < 3000 && left; round++) {
		now += 100;
		left = 0;
		for (int i = 0; i < NODES; i++) {
			watch(&nodes[i]);
			nodes[i].waiting = 0;
			if (nodes[i].n_peers > 2)
				other_goes(&nodes[i]);
		}
		for (int i = 0; i < NAMES; i++) {
			former_ends(&names[i]);
			name_is_answered(&names[i]);
			if (!names[i].lives)
				name_requests(&names[i]);
			left += !names[i].lives;
		}
		for (int i = 0; i < NODES; i++) {
			work(&nodes[i]);
			sweep(&nodes[i]);
		}
	}
	if (left)
		show();
	for (int i = 0; i < NAMES; i++)
		if (!names[i].lives)
			fail_msg("seed %llu: %s on node%d has no address", (unsigned long long)s,
				 names[i].name, names[i].at);
}

/* Deletes all pods and names; then pods of one node request every address of the pool, and all
 * must be usable. */
static void fill(uint64_t s)
{
	struct block_op op;

	for (int i = 0; i < NODES; i++) {
		while (nodes[i].n_peers)
			other_goes(&nodes[i]);
		for (size_t k = 0; k < nodes[i].leases.n; k++)
			put_lease(&nodes[i], &nodes[i].leases.v[k].address.ip, LEASE_FREE, "");
	}
	for (int i = 0; i < NAMES; i++) {
		names[i].lives = false;
		names[i].ip.family = 0;
		memset(names[i].former, 0, sizeof(names[i].former));
	}
	most_others = OTHERS;
	for (int round = 0; round < 3000 && nodes[0].n_peers < OTHERS; round++) {
		now += 100;
		for (int i = 0; i < NODES; i++) {
			watch(&nodes[i]);
			if (migration_reclaim(&nodes[i].t, NULL, 0, &op))
				request(&nodes[i], &op);
			for (int k = 0; k < 3; k++)
				work(&nodes[i]);
		}
		while (other_comes(&nodes[0]))
			;
		nodes[0].waiting = (uint32_t)(OTHERS - nodes[0].n_peers);
	}
	most_others = 16;
	if (nodes[0].n_peers == OTHERS)
		return;
	show();
	fail_msg("seed %llu: %d of %d addresses are unusable", (unsigned long long)s,
		 OTHERS - nodes[0].n_peers, OTHERS);
}

static int n_retained, n_changed;

static void run(uint64_t s, uint32_t loss_percent)
{
	start(s);
	bl_server.loss_percent = loss_percent;
	for (int i = 0; i < 900; i++)
		step();
	settle(s);
	for (int i = 0; i < NAMES; i++) {
		n_retained += names[i].retained;
		n_changed += names[i].changed;
	}
	fill(s);
	stop();
}

static void test_pod_names_retain_their_addresses_without_faults(void **state)
{
	(void)state;
	n_retained = n_changed = 0;
	for (uint64_t s = 1; s <= 60; s++)
		run(s, 0);
	print_message("         retained %d times, changed %d times\n", n_retained, n_changed);
	ASSERT_EQ(n_changed, 0);
	assert_true(n_retained > 500);
}

static void test_no_address_is_used_twice_or_lost_with_faults(void **state)
{
	const char *from = getenv("BLOCK_FIRST"), *to = getenv("BLOCK_LAST");
	uint64_t first = from ? strtoull(from, NULL, 10) : 1;
	uint64_t last = to ? strtoull(to, NULL, 10) : 120;

	(void)state;
	n_retained = n_changed = 0;
	for (uint64_t s = first; s <= last; s++)
		run(s, 5 + (uint32_t)(s % 40));
	print_message("         retained %d times, changed %d times\n", n_retained, n_changed);
	assert_true(n_retained > n_changed * 20);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_pod_names_retain_their_addresses_without_faults),
		cmocka_unit_test(test_no_address_is_used_twice_or_lost_with_faults),
	};

	return T_RUN(tests, bl_pool_setup, bl_pool_teardown);
}
