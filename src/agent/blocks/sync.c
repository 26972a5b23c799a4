/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "agent/blocks/internal.h"
#include "base/alloc.h"
#include "base/log.h"
#include "base/num.h"
#include "block/codec.h"
#include "kube/kinds.h"
#include "kube/time.h"
#include "spec/annotations.h"

/* This file updates the table of objects: a watch delivers this node's blocks, periodic reads
 * deliver peers' blocks from which this node borrows. */

enum { FREEZE_MS = 30 * 1000, TRUST_MS = 5000, RESCAN_MS = 60 * 1000, UNASSERTED_RESCAN_MS = 5000 };

static int decode(void *value, const struct json *object, struct err *e)
{
	return block_object_read(object, value, e);
}

static void drop(void *value)
{
	block_object_done(value);
}

static bool is_unadopted(const struct blocks *b, const struct block_object *o)
{
	return strcmp(o->node, b->node) == 0 && !block_log_has_token(&b->log, o->claim);
}

static void log_unadopted(const struct block_object *o)
{
	char net[IP_TEXT_MAX];

	log_warn("blocks: a block of this node was claimed with another log than this agent's "
		 "blocks.json (the state directory was lost, or a second agent runs under this "
		 "node's name): none of its addresses is allocated until the addresses of all "
		 "pods on this node are known",
		 LOG_S("block", o->name), LOG_S("net", ipnet_str(&o->net, net)),
		 LOG_S("claim", o->claim));
}

/* Logs once that another agent runs under this node's name: after the initial list an unadopted
 * block appeared, or an unadopted block has a change that only its owner makes. */
static void find_another(struct blocks *b, const struct block_object *was,
			 const struct block_object *is)
{
	if (!b->t.synced || b->other_alive || (was && !block_changed_by_owner(was, is)))
		return;
	b->other_alive = true;
	log_error("blocks: another agent claims blocks under this node's name: stop one of the two "
		  "(each continues with its own blocks)",
		  LOG_S("node", b->node), LOG_S("block", is->name));
}

static void put(struct blocks *b, struct block_object *o)
{
	const struct block_object *was = block_object_find(&b->t, o->name);
	/* blocks_notify() is not called here for a change by this node's own request: on_ended()
	 * (reconcile.c) calls it after the response is in the block log. The watch may deliver
	 * the same version before or after that. */
	bool reported = blocks_is_under_way(b, o->name) ||
			(was && strcmp(was->version, o->version) == 0);
	auto_free char *pool = xstrdup(o->pool);

	if (is_unadopted(b, o)) {
		if (!was || !is_unadopted(b, was))
			log_unadopted(o);
		find_another(b, was, o);
	}
	block_object_put(&b->t, o);
	if (!reported)
		blocks_notify(b, pool);
}

static void on_rescan(void *arg);

static void schedule_in(struct blocks *b, int64_t ms)
{
	loop_alarm_set(&b->scan, jitter_ms(ms / 2, ms));
}

static void blocks_notify_etcd_restored(struct blocks *b);

/*
 * sure: etcd was restored; otherwise it may have been. Objects may be older than the logs of the
 * nodes. For FREEZE_MS this node only asserts the addresses of its pods again, and claims, borrows
 * and releases nothing. The node also rescans peers' objects for outdated entries of its own, at a
 * random time within RESCAN_MS so that not all nodes do so at once.
 */
static void freeze(struct blocks *b, bool sure)
{
	if (blocks_now(b) >= b->frozen_until)
		log_warn(sure ? "blocks: etcd was restored from a backup: asserting the addresses "
				"of this node's pods again; claims and releases are frozen "
				"meanwhile"
			      : "blocks: etcd was restored from a backup, or this node was "
				"fenced: asserting the addresses of this node's pods again; "
				"claims and releases are frozen meanwhile",
			 LOG_I("ms", FREEZE_MS));
	b->frozen_until = blocks_now(b) + FREEZE_MS;
	b->rescan_ms = blocks_now(b) + jitter_ms(0, RESCAN_MS);
	schedule_in(b, UNASSERTED_RESCAN_MS);
	/* A failed write is repeated before the next request. */
	block_log_etcd_restored(&b->log, &b->t, true, NULL);
	blocks_notify_etcd_restored(b);
	blocks_schedule(b, 0);
}

void blocks_etcd_restored(struct blocks *b)
{
	for (size_t i = 0; i < b->t.n_views; i++)
		block_view_stale(&b->t, b->t.views[i].pool);
	b->observed_restore = true;
	freeze(b, true);
}

/* Drops all objects. The next list of the informer reports those that the restore changed; the
 * plan reads the others (block_table.synced). */
static void etcd_restored(void *arg)
{
	struct blocks *b = arg;

	while (b->t.n_objects)
		block_object_remove(&b->t, b->t.objects[b->t.n_objects - 1].name);
	blocks_etcd_restored(b);
}

/*
 * Returns whether the API server's resourceVersion is lower than one seen before. A block that is
 * in the log but not in the API server does not prove a restore: the controller releases the blocks
 * of a fenced node, and asserting its addresses again would take them from the pods that have since
 * got them.
 */
static bool is_behind(const struct blocks *b)
{
	const char *version = kube_informer_version(b->informer);
	uint64_t n;

	return version && num_u64(span_of(version), 0, UINT64_MAX, &n) == 0 && n < b->log.seen;
}

/*
 * Returns whether etcd was restored while no agent ran here, or the previous agent did not complete
 * the recovery.
 */
static bool was_etcd_restored(const struct blocks *b)
{
	return b->log.etcd_restored || is_behind(b);
}

/* Returns whether a block that the log assigns to this node is missing after the connection was
 * restored: the API server may have lost it. */
static bool is_lost(const struct blocks *b, const struct block_object *o)
{
	const struct block_claim *c = block_claim_find(&b->t, o->name);

	return c && c->state == CLAIM_HELD && block_is_of(&b->t, c, o) && b->t.synced &&
	       kube_informer_behind_ms(b->informer) > 0;
}

static void changed(void *arg, const struct kube_object *was, const struct kube_object *is)
{
	struct blocks *b = arg;
	const struct block_object *known;
	auto_free char *pool = NULL;

	if (was && is && strcmp(was->uid, is->uid) == 0 &&
	    block_version_is_older(is->version, was->version))
		etcd_restored(b);
	blocks_schedule(b, 0);
	/* The table owns the object's value from now on; the informer retains its name and
	 * version. */
	if (is) {
		put(b, is->value);
		return;
	}
	known = block_object_find(&b->t, was->name);
	if (!known || strcmp(known->uid, was->uid) != 0)
		return;
	pool = xstrdup(known->pool);
	if (is_lost(b, known))
		freeze(b, false);
	block_object_remove(&b->t, was->name);
	blocks_notify(b, pool);
}

/* --- operation while the API server is unavailable --- */

/* Adds a provisional object, without entries of released addresses, for a block that only the
 * block log shows as this node's. */
static void trust_claim(struct blocks *b, const struct block_claim *c)
{
	struct block_object o = {.name = xstrdup(c->name),
				 .pool = xstrdup(c->pool),
				 .uid = xstrdup(c->uid),
				 .version = xstrdup(""),
				 .net = c->net,
				 .node = xstrdup(b->node),
				 .node_uid = xstrdup(b->t.node_uid),
				 .claim = xstrdup(c->token)};

	block_object_put(&b->t, &o);
}

static void trust_borrowed(struct blocks *b, const struct block_borrowed *l)
{
	struct block_object *o = block_object_find(&b->t, l->block);
	struct block_object new = {.name = xstrdup(l->block),
				   .pool = xstrdup(l->pool),
				   .uid = xstrdup(""),
				   .version = xstrdup(""),
				   .node = xstrdup(""),
				   .node_uid = xstrdup(""),
				   .claim = xstrdup("")};
	char entry[BLOCK_ENTRY_MAX];

	if (o) {
		block_object_done(&new);
	} else {
		block_object_put(&b->t, &new);
		o = block_object_find(&b->t, l->block);
	}
	VEC_PUSH(o->released, o->n_released) = (struct block_entry){
		.ip = l->ip, .to = xstrdup(block_entry_local(b->node, l->token, entry))};
}

static void on_trust(void *arg)
{
	struct blocks *b = arg;

	if (b->t.synced)
		return;
	log_warn("blocks: the API server is unavailable: allocating from the blocks of the block "
		 "log",
		 LOG_I("blocks", (int64_t)b->t.n_claims),
		 LOG_I("borrowed", (int64_t)b->t.n_borrowed));
	b->trusted = true;
	for (size_t i = 0; i < b->t.n_claims; i++)
		trust_claim(b, &b->t.claims[i]);
	for (size_t i = 0; i < b->t.n_borrowed; i++)
		if (b->t.borrowed[i].state == BORROW_HELD)
			trust_borrowed(b, &b->t.borrowed[i]);
	for (size_t i = 0; i < b->t.n_objects; i++)
		block_entries_sort(&b->t.objects[i]);
	blocks_notify_all(b);
}

/* The initial list is complete: removes the provisional objects. Peers' objects are read when the
 * plan requests them. */
static void synced(void *arg)
{
	struct blocks *b = arg;

	for (size_t i = b->t.n_objects; i-- > 0;)
		if (!*b->t.objects[i].version)
			block_object_remove(&b->t, b->t.objects[i].name);
	b->t.synced = true;
	b->rescanning = true;
	if (was_etcd_restored(b))
		freeze(b, true);
	blocks_notify_all(b);
	blocks_schedule(b, 0);
}

/* --- objects of peers --- */

/* Returns whether the object has this node's entry for the borrowed address. While the object is
 * unknown: returns true unless a read found that no such object exists. */
static bool is_asserted(const struct blocks *b, const struct block_borrowed *l)
{
	const struct block_object *o = block_object_find(&b->t, l->block);
	const struct block_entry *x = o ? block_entry_find(o, &l->ip) : NULL;

	return o ? x && block_log_has_made(&b->log, b->node, x) : !l->absent;
}

/* Only this node, or the controller after the node was fenced or deleted (block/release.h),
 * removes this node's entry for a borrowed address. If the entry is missing, the API server has
 * lost it, or the controller has removed it. */
void blocks_rescanned(struct blocks *b, const struct block_op *op)
{
	if (op->kind != OP_READ || b->recreated || b->log.etcd_restored)
		return;
	for (size_t i = 0; i < b->t.n_borrowed; i++) {
		const struct block_borrowed *l = &b->t.borrowed[i];

		if (l->state == BORROW_HELD && strcmp(l->block, op->name) == 0 &&
		    !is_asserted(b, l)) {
			freeze(b, false);
			return;
		}
	}
}

/* After a list, and until all peers' objects were read again, it is unknown whether etcd was
 * restored: claims stay frozen. */
bool blocks_is_frozen(struct blocks *b)
{
	bool unseen = false;

	for (size_t i = 0; i < b->t.n_borrowed && b->rescanning; i++) {
		const struct block_borrowed *l = &b->t.borrowed[i];

		unseen |= l->state == BORROW_HELD && !l->absent &&
			  !block_object_find(&b->t, l->block);
	}
	b->rescanning = unseen;
	return unseen || blocks_now(b) < b->frozen_until;
}

/* After a relist, which has reported the changes of this node's blocks: drops peers' blocks, so
 * that they are read again. */
static void relisted(void *arg)
{
	struct blocks *b = arg;

	for (size_t i = b->t.n_objects; i-- > 0;)
		if (strcmp(b->t.objects[i].node, b->node) != 0)
			block_object_remove(&b->t, b->t.objects[i].name);
	b->rescanning = true;
	blocks_schedule(b, 0);
}

static void scan(struct blocks *b, const struct block_borrowed *l)
{
	struct block_op op = {.kind = OP_READ};

	if (blocks_is_under_way(b, l->block) || blocks_backoff_until(b, l->block))
		return;
	str_copy(op.name, sizeof(op.name), l->block);
	str_copy(op.pool, sizeof(op.pool), l->pool);
	blocks_start(b, &op);
}

/* Returns whether all borrowed addresses are asserted. A peer's entry for the same address may
 * prevent that for some time. */
static bool is_all_asserted(const struct blocks *b)
{
	for (size_t i = 0; i < b->t.n_borrowed; i++)
		if (b->t.borrowed[i].state == BORROW_HELD && !is_asserted(b, &b->t.borrowed[i]))
			return false;
	return true;
}

static void on_rescan(void *arg)
{
	struct blocks *b = arg;

	schedule_in(b,
		    b->log.etcd_restored && !is_all_asserted(b) ? UNASSERTED_RESCAN_MS : RESCAN_MS);
	if (!b->t.synced || kube_informer_behind_ms(b->informer) > 0)
		return;
	for (size_t i = 0; i < b->t.n_borrowed; i++)
		if (b->t.borrowed[i].state == BORROW_HELD)
			scan(b, &b->t.borrowed[i]);
}

static void try(void *arg);

void blocks_watch(struct blocks *b)
{
	char label[BLOCK_LABEL_MAX], select[sizeof(LABEL_NODE) + 1 + BLOCK_LABEL_MAX];
	const struct kube_informer_conf c = {.kind = &kube_ipblocks,
					     .select = {.labels = select},
					     .size = sizeof(struct block_object),
					     .decode = decode,
					     .drop = drop,
					     .changed = changed,
					     .synced = synced,
					     .etcd_restored = etcd_restored,
					     .verify_after_reconnect = true,
					     .relisted = relisted,
					     .arg = b};

	strcpy(select, LABEL_NODE "=");
	strcat(select, block_label(b->node, label));
	b->informer = kube_informer_new(b->c.kube, &c);
	b->trust = LOOP_ALARM(b->loop, on_trust, b);
	b->scan = LOOP_ALARM(b->loop, on_rescan, b);
	b->report_retry = LOOP_ALARM(b->loop, try, b);
	loop_alarm_set(&b->trust, TRUST_MS);
	schedule_in(b, RESCAN_MS);
}

/* --- reporting a restore of etcd to the controller --- */

enum { AGAIN_MS = 2000 };

static void later(struct blocks *b)
{
	loop_alarm_within(&b->report_retry, jitter_ms(AGAIN_MS / 2, AGAIN_MS));
}

/* If the request fails, for example because the block was deleted, the report is retried. */
static void on_reported(void *arg, int status, const struct json *object, const struct err *e)
{
	struct blocks *b = arg;

	(void)status;
	(void)object;
	b->report_call = NULL;
	if (e)
		later(b);
	else
		b->report_at = 0;
}

/* Returns a block of this node that exists at the API server; NULL: there is none yet. */
static const struct block_object *own(const struct blocks *b)
{
	for (size_t i = 0; i < b->t.n_objects; i++)
		if (strcmp(b->t.objects[i].node, b->node) == 0 && *b->t.objects[i].version)
			return &b->t.objects[i];
	return NULL;
}

static void report(struct blocks *b, const struct block_object *o)
{
	char at[KUBE_TIME_MAX];
	auto_free char *body = NULL;
	struct kube_request r = {.verb = KUBE_MERGE_PATCH,
				 .on = {.kind = &kube_ipblocks, .name = o->name},
				 .timeout_ms = BLOCKS_REQUEST_MS,
				 .once = true};

	kube_time_text(b->report_at, at);
	body = xasprintf(
		"{\"metadata\":{\"annotations\":{\"" ANNOTATION_ETCD_RESTORED "\":\"%s\"}}}", at);
	r.body = span_of(body);
	b->report_call = kube_send(b->c.kube, &r, on_reported, b);
}

static void try(void *arg)
{
	struct blocks *b = arg;
	const struct block_object *o = own(b);

	if (!b->log.etcd_restored || !b->report_at || b->report_call)
		return;
	if (o)
		report(b, o);
	else
		later(b);
}

/* Schedules the report of the restore to the controller, which may not have been running during
 * the restore (controller/cache/cache.h). The report is an annotation on one of this node's
 * blocks; it is delayed until this node has a block. */
static void blocks_notify_etcd_restored(struct blocks *b)
{
	b->report_at = blocks_real_ms(b);
	loop_alarm_within(&b->report_retry, 0);
}

void blocks_etcd_restored_stop(struct blocks *b)
{
	kube_cancel(b->report_call);
	loop_alarm_cancel(&b->report_retry);
}
