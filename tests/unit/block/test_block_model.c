/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Nodes share a pool through an API server that loses requests and replies, delays them beyond
 * their timeout, shows changes late, and is unavailable for a while. Nodes crash and restart with
 * the state that they wrote; nodes are lost, a controller releases their blocks (sometimes late),
 * and the nodes are recreated; a second agent runs under a node's name with a log of its own; at
 * most once in a run etcd is restored to an earlier state; and pods request addresses by name. At
 * every step no two pods have the same address. In the end, when requests succeed again, an address
 * requested by name is allocated, or refused because a pod has it, and a pool with as many
 * addresses as pods gives each pod one.
 *
 * Assumptions: a node whose blocks were released has no pods left, though its journal may still
 * have them when it returns (not if etcd is restored afterwards); after a restore every agent has
 * asserted the addresses of its pods before any agent stops waiting.
 */
#include "testlib.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "block_lab.h"
#include "block/plan.h"
#include "block/release.h"

enum {
	NODES = 4,
	TWIN = NODES,
	ALL,
	PODS = 48,
	REUSE_DELAY_MS = 2000,
	VIEW_MS = 300,
	FREEZE_MS = 10000
};

/* With BLOCK_TRACE=1 in the environment, the test prints each event. BLOCK_FIRST=7 BLOCK_LAST=7
 * limits the test with faults to seed 7, and skips the test without faults. */
static bool tracing;
#define TRACE(...)                                                                                 \
	do {                                                                                       \
		if (tracing)                                                                       \
			printf(__VA_ARGS__);                                                       \
	} while (0)

/* --- nodes --- */

static char dir[T_DIR_MAX];
static struct root root;
static struct block_cut cut;
static struct ip_set usable;
static int64_t now;

static struct node {
	struct block_log log;
	struct block_table t;
	struct lease_table leases;
	struct bl_owner owner;
	char path[32];
	uint32_t waiting;    /* pods without an address */
	struct ipaddr named; /* address that a pod requests by name; family 0: none */
	int64_t named_until;
	size_t seen; /* number of server events that the node's watch has delivered */
	int made;    /* number of Node objects that the node has had since the first */
	bool lost, etcd_restored, alone;
	bool observed_restore; /* etcd was restored while the current agent was running */
	int64_t frozen_until;
} nodes[ALL]; /* the last node (TWIN) runs under the name of the first */

static struct ipaddr pods[ALL][PODS]; /* addresses of the pods on each node */
static int n_pods[ALL];
static uint64_t current; /* seed */
/* step at which etcd is backed up; a restore, if any, follows 200 steps later, when more
 * addresses are borrowed */
static int backed_up;
static bool past_restore;
static bool twin;
static int64_t away_until;

static void node_up(struct node *x)
{
	struct err e = ERR_INIT;

	if (block_log_open(&x->log, &root, x->path, x->owner.node, &x->t, &e) < 0 ||
	    block_log_node(&x->log, &x->t, x->owner.uid, &e) < 0)
		fail_msg("%s", e.text);
	x->frozen_until = x->log.etcd_restored ? now + FREEZE_MS : 0;
}

static void node_down(struct node *x)
{
	x->observed_restore = false;
	block_table_done(&x->t);
	block_log_close(&x->log);
}

static bool is_away(void)
{
	return now < away_until;
}

static bool is_own(const struct node *x, const struct block_object *o)
{
	return o && strcmp(o->node, x->owner.node) == 0;
}

/* Lists the node's own objects, as a watch that starts again does. After a restore of etcd, the
 * node records the restore in its log and its views of pools are stale. */
static void list_own(struct node *x)
{
	for (size_t i = x->t.n_objects; i-- > 0;) {
		const char *name = x->t.objects[i].name;
		bool was = strcmp(x->t.objects[i].node, x->owner.node) == 0;

		if (x->etcd_restored || (was && !is_own(x, bl_find(name))))
			block_object_remove(&x->t, name);
	}
	for (size_t i = 0; i < bl_server.n; i++) {
		struct block_object o = bl_copy(&bl_server.v[i]);

		if (strcmp(o.node, x->owner.node) == 0)
			block_object_put(&x->t, &o);
		block_object_done(&o);
	}
	x->t.synced = true;
	x->seen = bl_server.n_events;
	if (x->etcd_restored) {
		x->frozen_until = now + FREEZE_MS;
		ASSERT_EQ(block_log_etcd_restored(&x->log, &x->t, true, NULL), 0);
	}
	for (size_t i = 0; x->etcd_restored && i < x->t.n_views; i++)
		block_view_stale(&x->t, x->t.views[i].pool);
	x->etcd_restored = false;
}

/* Delivers a change to a node as the watch of the node's own objects does: if another node has
 * become the owner of the object, the watch reports the object as deleted. */
static void report(struct node *x, const struct bl_event *e)
{
	const struct block_object *known = block_object_find(&x->t, e->o.name);
	struct block_object o;

	if (!e->deleted && strcmp(e->o.node, x->owner.node) == 0) {
		o = bl_copy(&e->o);
		block_object_put(&x->t, &o);
		block_object_done(&o);
	} else if (known && strcmp(known->uid, e->o.uid) == 0 &&
		   strcmp(known->node, x->owner.node) == 0) {
		block_object_remove(&x->t, e->o.name);
	}
}

/* Delivers the next events, in order and not necessarily all. */
static void watch(struct node *x)
{
	size_t n = bl_roll(4) ? bl_roll(6) : SIZE_MAX;

	if (is_away())
		return;
	if (!x->t.synced || x->etcd_restored || bl_roll(20) == 0)
		list_own(x);
	for (; n && x->seen < bl_server.n_events; n--)
		report(x, &bl_server.events[x->seen++]);
}

static bool busy(const struct block_facts *f, const struct ipaddr *a)
{
	return block_is_busy(f, a);
}

/* Returns whether the server has recorded the address as the node's, own or borrowed. */
static bool is_logged(const struct node *x, const struct ipaddr *a)
{
	for (size_t i = 0; i < bl_server.n; i++) {
		const struct block_object *o = &bl_server.v[i];
		const struct block_claim *c = block_claim_find(&x->t, o->name);
		const struct block_entry *e = block_entry_find(o, a);

		if (!ipnet_contains(&o->net, a))
			continue;
		if (e && block_entry_is_of(e, x->owner.node))
			return true;
		/* An entry "n2/token" does not contradict the owner of the block: node n2 may
		 * have asserted the address for a pod whose deletion n2 has not seen. */
		return (!e || strchr(e->to, '/')) && c && block_is_of(&x->t, c, o);
	}
	return false;
}

/* Returns whether every agent has asserted the addresses of its pods. */
static bool all_asserted(void)
{
	for (int i = 0; i < ALL; i++)
		for (int k = 0; k < n_pods[i]; k++)
			if (!is_logged(&nodes[i], &pods[i][k]))
				return false;
	return true;
}

/* Returns whether the node may not yet claim, borrow or return after a restore of etcd
 * (block_facts.frozen). */
static bool is_frozen(const struct node *x)
{
	return x->log.etcd_restored && (now < x->frozen_until || !all_asserted());
}

static struct block_facts facts_of(struct node *x, struct block_need *need)
{
	struct block_facts f = {
		.table = &x->t,
		.log = &x->log,
		.needs = need,
		.n_needs = 1,
		.leases = &x->leases,
		.reserved = &x->named,
		.n_reserved = x->named.family != 0,
		.seed = bl_roll(1 << 16),
		.now_ms = now,
		.real_ms = now,
		.reuse_delay_ms = REUSE_DELAY_MS,
		.quarantine_ms = REUSE_DELAY_MS,
		.view_ms = VIEW_MS,
		.ahead_ms = VIEW_MS,
		.frozen = is_frozen(x),
		.observed_restore = x->observed_restore,
		.rescan_ms = x->log.etcd_restored ? x->frozen_until - FREEZE_MS / 2 : 0,
		.alone = x->alone,
	};
	struct ip_set mine = {0};
	uint32_t idle = 0;

	block_usable(&x->t, "p", &usable, &mine);
	for (size_t i = 0; i < mine.n; i++)
		for (u128 k = ip_num(&mine.v[i].first); k <= ip_num(&mine.v[i].last); k++) {
			struct ipaddr a = ip_from_num(4, k);

			idle += !busy(&f, &a);
		}
	ip_set_done(&mine);
	*need = (struct block_need){.pool = "p", .cut = cut, .usable = &usable};
	need->want = x->waiting;
	need->names = &x->named;
	need->n_names = x->named.family != 0;
	need->spare = !x->waiting && idle > 2 ? idle - 2 : 0;
	return f;
}

static void list(struct node *x)
{
	block_view_put(&x->t, "p", &cut, bl_server.v, bl_server.n, now);
}

static void trace_op(const char *owner, const struct block_op *op, const char *end)
{
	char t[IP_TEXT_MAX];

	if (!tracing)
		return;
	printf("%lld %s: op %d %s v%s tok %s from '%s' to '%s' ip %s", (long long)now, owner,
	       op->kind, op->name, op->version, op->token, op->from, op->to, ip_str(&op->ip, t));
	for (size_t i = 0; i < op->n_ips; i++)
		printf(" %s", ip_str(&op->ips[i], t));
	printf(": %s\n", end);
}

/* Applies an outcome as the agent does; the agent may be killed before the log is written. */
static void end(struct node *x, const struct block_op *op, enum block_outcome r,
		struct block_object *o)
{
	struct err e = ERR_INIT;

	block_log_batch(&x->log);
	ASSERT_OK(block_op_end(&x->log, &x->t, op, r, o, now, &e), &e);
	if (bl_roll(100) < bl_server.loss_percent / 8) {
		TRACE("%s: killed before the log is written\n", x->path);
		node_down(x);
		node_up(x);
	} else if (block_log_commit(&x->log, &x->t, &e) < 0) {
		fail_msg("%s", e.text);
	}
}

/* One request; its execution may be delayed, or its response lost. */
static void request(struct node *x, struct block_op *op)
{
	struct err e = ERR_INIT;
	enum block_outcome r;
	struct block_object o = {0}, *served_object;
	bool lost;

	if (block_op_begin(&x->log, &x->t, op, &e) < 0 || op->kind == OP_FORGET) {
		trace_op(x->path, op, "begun");
		return;
	}
	if (is_away() || bl_roll(100) < bl_server.loss_percent) {
		lost = bl_roll(2);
		trace_op(x->path, op, is_away() ? "away" : lost ? "late" : "done, no answer");
		if (!is_away() && lost && op->kind != OP_LIST)
			bl_delay(&x->owner, op);
		else if (!is_away() && !lost && op->kind != OP_LIST)
			bl_serve(&x->owner, op);
		end(x, op, BLOCK_UNKNOWN, NULL);
		return;
	}
	if (op->kind == OP_LIST) {
		list(x);
		return;
	}
	r = bl_serve(&x->owner, op);
	trace_op(x->path, op, (const char *[]){"ok", "refused", "absent", "?"}[r]);
	served_object = r == BLOCK_OK ? bl_find(op->name) : NULL;
	if (served_object)
		o = bl_copy(served_object);
	/* The agent is killed after the response, before the outcome is logged. */
	if (bl_roll(100) < bl_server.loss_percent / 4) {
		block_object_done(&o);
		TRACE("%s: killed\n", x->path);
		node_down(x);
		node_up(x);
		return;
	}
	end(x, op, r, served_object ? &o : NULL);
	block_object_done(&o);
}

static void work(struct node *x)
{
	struct block_need need;
	struct block_facts f = facts_of(x, &need);
	struct block_plan p;

	block_table_stamp(&x->t, now);

	/* No operation starts before the watch is synced. */
	if (!x->t.synced || x->etcd_restored) {
		watch(x);
		return;
	}
	block_plan(&f, &p);
	if (x->log.etcd_restored && !f.frozen && block_has_rescanned(&f))
		ASSERT_EQ(block_log_etcd_restored(&x->log, &x->t, false, NULL), 0);
	if (p.n)
		request(x, &p.v[bl_roll((uint32_t)p.n)]);
	block_plan_done(&p);
}

static void assert_alone(int node, const struct ipaddr *a)
{
	char text[IP_TEXT_MAX];

	for (int i = 0; i < ALL; i++)
		for (int k = 0; k < n_pods[i]; k++)
			if (ip_eq(&pods[i][k], a))
				fail_msg("seed %llu: %s is allocated by node%d "
					 "although a pod of node%d has the address",
					 (unsigned long long)current, ip_str(a, text), node, i);
}

static void put_lease(struct node *x, const struct ipaddr *a, enum lease_state state)
{
	struct lease l = LEASE_INIT;

	l.address = ipnet_host(a);
	l.state = state;
	l.at_ms = now;
	lease_put(&x->leases, &l);
}

static void pod_is_there(struct node *x, const struct ipaddr *a)
{
	int node = (int)(x - nodes);

	if (tracing) {
		char t[IP_TEXT_MAX];

		printf("%lld %s: pod %s\n", (long long)now, x->path, ip_str(a, t));
	}
	assert_alone(node, a);
	pods[node][n_pods[node]++] = *a;
	put_lease(x, a, LEASE_USED);
}

static bool pod_comes(struct node *x)
{
	struct block_need need;
	struct block_facts f = facts_of(x, &need);
	struct ip_set mine = {0};
	struct ipaddr a;
	bool there;

	block_usable(&x->t, "p", &usable, &mine);
	there = ip_set_next(&mine, NULL, &a);
	while (there && busy(&f, &a))
		there = ip_add(&a, 1, &a) && ip_set_next(&mine, &a, &a);
	ip_set_done(&mine);
	if (!there)
		return false;
	pod_is_there(x, &a);
	return true;
}

/* A pod gets the address that it requests by name, if the node may allocate it. */
static bool named_comes(struct node *x)
{
	const struct lease *l = lease_find(&x->leases, &x->named);
	struct ip_set mine = {0};
	bool has;

	if (!x->named.family || n_pods[x - nodes] >= PODS)
		return false;
	block_usable(&x->t, "p", &usable, &mine);
	has = ip_set_has(&mine, &x->named) && !(l && l->state == LEASE_USED);
	ip_set_done(&mine);
	if (has)
		pod_is_there(x, &x->named);
	if (has || now > x->named_until)
		x->named = (struct ipaddr){0};
	return has;
}

static void name_one(struct node *x)
{
	x->named = ip_from_num(4, ip_num(&usable.v[0].first) +
					  bl_roll((uint32_t)ip_set_count(&usable)));
	x->named_until = now + 4000;
}

static void pod_goes(struct node *x)
{
	int node = (int)(x - nodes), i;

	if (!n_pods[node])
		return;
	i = (int)bl_roll((uint32_t)n_pods[node]);
	if (tracing) {
		char t[IP_TEXT_MAX];

		printf("%lld %s: pod with %s is deleted\n", (long long)now, x->path,
		       ip_str(&pods[node][i], t));
	}
	put_lease(x, &pods[node][i], LEASE_FREE);
	pods[node][i] = pods[node][--n_pods[node]];
}

/* --- the controller, and what happens to nodes and to the server --- */

static bool filling; /* true: the controller regards no address as retained for a name */
static const struct bl_owner controller = {"controller", ""};

static void order(struct block_op *op)
{
	trace_op("controller", op, "");
	if (bl_roll(100) < bl_server.loss_percent)
		bl_delay(&controller, op);
	else
		bl_serve(&controller, op);
	block_op_done(op);
}

static bool has_pod_on(const struct node *x, const struct ipaddr *a)
{
	for (int k = 0; k < n_pods[x - nodes]; k++)
		if (ip_eq(&pods[x - nodes][k], a))
			return true;
	return false;
}

static bool has_pod(const struct ipaddr *a)
{
	for (int i = 0; i < ALL; i++)
		for (int k = 0; k < n_pods[i]; k++)
			if (ip_eq(&pods[i][k], a))
				return true;
	return false;
}

/* Returns whether no pod has the address; false until all agents have asserted their
 * addresses. */
static bool is_lost(void *arg, const struct ipaddr *a)
{
	(void)arg;
	return all_asserted() && !has_pod(a);
}

static bool is_deleted(void *arg, const char *node, const char *uid)
{
	(void)arg;
	for (int i = 0; i < NODES; i++)
		if (strcmp(node, nodes[i].owner.node) == 0)
			return nodes[i].lost || (*uid && strcmp(uid, nodes[i].owner.uid) != 0);
	return false;
}

/* Every ninth address, at most four: the controller regards them as retained for a name. */
static size_t retained_of(struct ipaddr ret[static 4])
{
	struct ipaddr a;
	size_t n = 0;

	for (bool more = ip_set_next(&usable, NULL, &a); more && n < 4; n++) {
		ret[n] = a;
		more = ip_add(&a, 9, &a) && ip_set_next(&usable, &a, &a);
	}
	return n;
}

static void control(void)
{
	struct ipaddr retained[4];
	const struct block_release f = {.is_deleted = is_deleted,
					.is_lost = is_lost,
					.retained = retained,
					.n_retained = filling ? 0 : retained_of(retained)};

	for (size_t i = 0; i < bl_server.n; i++) {
		struct block_op op;

		if (block_release_next(&bl_server.v[(i + bl_roll(64)) % bl_server.n], &f, &op)) {
			order(&op);
			return;
		}
	}
}

/* Deletes the pods, and also their leases if a restore of etcd may still follow (see the
 * assumptions at the head of this file). */
static void drop_pods(struct node *x)
{
	n_pods[x - nodes] = 0;
	if (!past_restore)
		lease_table_done(&x->leases);
	x->waiting = 0;
	x->named = (struct ipaddr){0};
}

/* Notifies the agent that a pod was deleted. */
static void collect(struct node *x)
{
	for (size_t i = 0; i < x->leases.n; i++) {
		struct ipaddr a = x->leases.v[i].address.ip;

		if (x->leases.v[i].state == LEASE_USED && !has_pod_on(x, &a)) {
			TRACE("%s: a pod is gone\n", x->path);
			put_lease(x, &a, LEASE_FREE);
			return;
		}
	}
}

/*
 * The node fails together with its pods; later it may return with its disk, as another Node object.
 */
static void lose_or_find(struct node *x)
{
	if (x == &nodes[TWIN] || (twin && x == &nodes[0]))
		return;
	if (x->lost) {
		snprintf(x->owner.uid, sizeof(x->owner.uid), "%s.%d", x->owner.node + 4, ++x->made);
		node_up(x);
		x->lost = false;
		TRACE("%s: back\n", x->path);
		return;
	}
	TRACE("%s: lost\n", x->path);
	node_down(x);
	drop_pods(x);
	x->lost = true;
}

static struct {
	struct block_object *v;
	size_t n;
	uint64_t version;
} backup;

static void drop_backup(void)
{
	for (size_t i = 0; i < backup.n; i++)
		block_object_done(&backup.v[i]);
	free(backup.v);
	memset(&backup, 0, sizeof(backup));
}

static void back_up(void)
{
	TRACE("%lld backed up\n", (long long)now);
	drop_backup();
	for (size_t i = 0; i < bl_server.n; i++)
		VEC_PUSH(backup.v, backup.n) = bl_copy(&bl_server.v[i]);
	backup.version = bl_server.version;
}

/*
 * API servers are stopped for a restore: no request is pending, and every watch breaks. Resource
 * versions are reset too, or continue after the known ones (etcdutl snapshot restore
 * --bump-revision).
 */
static void restore(void)
{
	bool bump = bl_roll(2);

	TRACE("%lld restored, bump %d\n", (long long)now, bump);
	bl_restore(backup.v, backup.n, bump ? bl_server.version + 1000 : backup.version);
	for (int i = 0; i < ALL; i++) {
		nodes[i].etcd_restored = true;
		nodes[i].observed_restore = !nodes[i].lost;
		nodes[i].seen = 0;
	}
}

static void go_away(void)
{
	away_until = now + bl_roll(8000);
	TRACE("%lld away until %lld\n", (long long)now, (long long)away_until);
}

static void step(int at)
{
	struct node *x = &nodes[bl_roll(twin ? ALL : NODES)];

	now += bl_roll(400);
	if (at == backed_up)
		back_up();
	if (at == backed_up + 200 && bl_server.loss_percent && bl_roll(2))
		restore();
	past_restore = at > backed_up + 200;
	if (bl_roll(3) == 0)
		control();
	if (bl_roll(150) == 0 && bl_server.loss_percent)
		go_away();
	if (bl_roll(x->lost ? 40 : 250) == 0 && bl_server.loss_percent)
		lose_or_find(x);
	if (bl_server.n_late && bl_roll(6) == 0)
		bl_arrive();
	if (x->lost)
		return;
	if (!x->named.family && bl_roll(30) == 0)
		name_one(x);
	switch (bl_roll(10)) {
	case 0:
	case 1:
		if (n_pods[x - nodes] < PODS && !pod_comes(x) && x->waiting < 8)
			x->waiting++;
		break;
	case 2: pod_goes(x); break;
	case 3: watch(x); break;
	case 4:
		if (bl_roll(100) < bl_server.loss_percent) {
			TRACE("%lld %s: restarted\n", (long long)now, x->path);
			node_down(x);
			node_up(x);
		}
		break;
	default: work(x);
	}
	if (bl_roll(20) == 0)
		collect(x);
	named_comes(x);
	if (x->waiting && pod_comes(x))
		x->waiting--;
}

static void start(uint64_t s)
{
	bl_seed = s * 0x9e3779b97f4a7c15u + 1;
	now = 1000000;
	t_dir_make(dir, &root);
	twin = s % 3 == 0;
	backed_up = 200 + (int)(s % 4) * 100;
	tracing = getenv("BLOCK_TRACE") != NULL;
	setvbuf(stdout, NULL, _IOLBF, 0);
	away_until = 0;
	for (int i = 0; i < ALL; i++) {
		snprintf(nodes[i].owner.node, sizeof(nodes[i].owner.node), "node%d", i % TWIN);
		snprintf(nodes[i].owner.uid, sizeof(nodes[i].owner.uid), "%d.0", i % TWIN);
		snprintf(nodes[i].path, sizeof(nodes[i].path), "/node%d.json", i);
		node_up(&nodes[i]);
	}
}

static void stop(void)
{
	for (int i = 0; i < ALL; i++) {
		if (!nodes[i].lost)
			node_down(&nodes[i]);
		lease_table_done(&nodes[i].leases);
		nodes[i] = (struct node){0};
		n_pods[i] = 0;
	}
	bl_clear();
	drop_backup();
	t_dir_remove(dir, &root);
}

static void show_plan(struct node *x)
{
	struct block_need need;
	struct block_facts f = facts_of(x, &need);
	struct block_plan p;
	char t[IP_TEXT_MAX];

	block_plan(&f, &p);
	printf("   want %u spare %u frozen %d\n", need.want, need.spare, f.frozen);
	for (size_t i = 0; i < p.n; i++)
		printf("   next request: %d %s %s from '%s'\n", p.v[i].kind, p.v[i].name,
		       ip_str(&p.v[i].ip, t), p.v[i].from);
	for (size_t i = 0; i < x->t.n_objects; i++)
		printf("   knows %s node '%s'\n", x->t.objects[i].name, x->t.objects[i].node);
	block_plan_done(&p);
}

static void show(void)
{
	char t[IP_TEXT_MAX];

	for (size_t i = 0; i < bl_server.n; i++) {
		const struct block_object *o = &bl_server.v[i];

		printf("%s %s node=%s %s claim=%s\n", o->name, ipnet_str(&o->net, t), o->node,
		       o->node_uid, o->claim);
		for (size_t k = 0; k < o->n_released; k++)
			printf("   %s -> '%s'\n", ip_str(&o->released[k].ip, t), o->released[k].to);
		for (size_t k = 0; k < o->n_requested; k++)
			printf("   requested %s %u\n", o->requested[k].key, o->requested[k].count);
	}
	for (int i = 0; i < ALL; i++) {
		printf("%d: id %s%s pods=%d:", i, nodes[i].log.id, nodes[i].lost ? " lost" : "",
		       n_pods[i]);
		for (int k = 0; k < n_pods[i]; k++)
			printf(" %s", ip_str(&pods[i][k], t));
		printf("\n");
		for (size_t k = 0; k < nodes[i].t.n_claims; k++)
			printf("   claim %s state %d released %zu\n", nodes[i].t.claims[k].name,
			       nodes[i].t.claims[k].state, nodes[i].t.claims[k].n_released);
		for (size_t k = 0; k < nodes[i].t.n_borrowed; k++)
			printf("   borrowed %s state %d\n", ip_str(&nodes[i].t.borrowed[k].ip, t),
			       nodes[i].t.borrowed[k].state);
		if (!nodes[i].lost)
			show_plan(&nodes[i]);
	}
}

static int count_pods(void)
{
	int n = 0;

	for (int i = 0; i < ALL; i++)
		n += n_pods[i];
	return n;
}

/* The second agent with the same name has ended and its pods were deleted, so the first agent
 * may adopt its blocks and return its borrowed addresses. */
static void end_twin(void)
{
	drop_pods(&nodes[TWIN]);
	node_down(&nodes[TWIN]);
	nodes[TWIN].lost = true;
	nodes[0].alone = true;
}

/* node0 requests every free address, the other nodes none. */
static void fill_round(struct node *x, int all)
{
	now += 100;
	control();
	if (x->lost)
		return;
	watch(x);
	collect(x);
	for (int i = 0; i < 3; i++)
		work(x);
	if (x == &nodes[0])
		while (n_pods[0] < PODS && pod_comes(x))
			;
	for (int i = 0; i < NODES; i++)
		nodes[i].waiting = 0;
	nodes[0].waiting = (uint32_t)(all - count_pods());
}

/* Ends all faults: delayed requests are executed, all later requests succeed, node0 returns, and
 * the second agent ends. */
static void calm(void)
{
	filling = true;
	while (bl_server.n_late)
		bl_arrive();
	bl_server.loss_percent = 0;
	away_until = 0;
	if (nodes[0].lost)
		lose_or_find(&nodes[0]);
	for (int i = 0; i < ALL; i++)
		if (!nodes[i].lost)
			list_own(&nodes[i]);
	now += FREEZE_MS;
	end_twin();
}

static int owner_of_address(const struct ipaddr *a)
{
	for (int i = 0; i < NODES; i++)
		for (int k = 0; k < n_pods[i]; k++)
			if (ip_eq(&pods[i][k], a))
				return i;
	return -1;
}

/*
 * A pod of node0 requests an address by name: it gets the address, or is refused if a pod of
 * another node has the address.
 */
static void by_name(void)
{
	struct node *x = &nodes[0];
	struct ipaddr a;
	int owner;
	bool done = false;

	for (int i = 0; i < NODES; i++) {
		nodes[i].waiting = 0;
		nodes[i].named = (struct ipaddr){0};
	}
	name_one(x);
	a = x->named;
	owner = owner_of_address(&a);
	x->named_until = INT64_MAX;
	for (int round = 0; round < 4000 && !done; round++) {
		now += 50;
		control();
		if (nodes[round % NODES].lost)
			continue;
		watch(&nodes[round % NODES]);
		collect(&nodes[round % NODES]);
		work(&nodes[round % NODES]);
		/* A free address may be refused for a while, until its return is complete. */
		done = owner < 0    ? named_comes(x)
		       : owner == 0 ? true
				    : block_is_refused(&x->t, &a, now, NULL);
	}
	if (!done) {
		char t[IP_TEXT_MAX];

		show();
		fail_msg("seed %llu: requested address %s was %s", (unsigned long long)current,
			 ip_str(&a, t), owner < 0 ? "not allocated" : "not refused");
	}
	x->named = (struct ipaddr){0};
}

/* node0 requests all free addresses: each address of the pool must become allocated. */
static void fill(uint64_t s)
{
	int all = (int)ip_set_count(&usable);

	for (int round = 0; round < 20000 && count_pods() < all; round++)
		fill_round(&nodes[round % NODES], all);
	if (count_pods() < all) {
		show();
		fail_msg("seed %llu: %d of %d addresses are unusable", (unsigned long long)s,
			 all - count_pods(), all);
	}
}

static void run(uint64_t s, uint32_t loss_percent)
{
	current = s;
	filling = false;
	start(s);
	bl_server.loss_percent = loss_percent;
	for (int i = 0; i < 900; i++)
		step(i);
	calm();
	by_name();
	fill(s);
	stop();
}

static void test_no_address_is_allocated_twice_without_faults(void **state)
{
	(void)state;
	for (uint64_t s = 1; s <= 50 && !getenv("BLOCK_FIRST"); s++)
		run(s, 0);
}

static void test_no_address_is_allocated_twice_with_faults(void **state)
{
	const char *from = getenv("BLOCK_FIRST"), *to = getenv("BLOCK_LAST");
	uint64_t first = from ? strtoull(from, NULL, 10) : 1;
	uint64_t last = to ? strtoull(to, NULL, 10) : 120;

	(void)state;
	for (uint64_t s = first; s <= last; s++)
		run(s, 5 + (uint32_t)(s % 40));
}

static int setup(void **state)
{
	struct ip_range r = {ip_from_num(4, 0x0a000001), ip_from_num(4, 0x0a00002c)};
	struct ipnet subnet = {ip_from_num(4, 0x0a000000), 26};

	(void)state;
	ip_set_add(&usable, &r);
	return block_cut_choose(&subnet, 29, false, &cut, NULL);
}

static int teardown(void **state)
{
	(void)state;
	ip_set_done(&usable);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_no_address_is_allocated_twice_without_faults),
		cmocka_unit_test(test_no_address_is_allocated_twice_with_faults),
	};

	return T_RUN(tests, setup, teardown);
}
