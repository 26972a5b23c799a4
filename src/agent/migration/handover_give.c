/* SPDX-License-Identifier: Apache-2.0 */
/* Where the addresses are: answers who asks for them. */
#include <stdlib.h>
#include <string.h>

#include "agent/migration/handover_priv.h"
#include "base/cleanup.h"
#include "base/log.h"
#include "block/block_wire.h"
#include "ipam/lend.h"

enum { SWEEP_MS = 30 * 1000, AGAIN_MS = 200, REQUEST_MS = 10 * 1000 };

/* --- who asks --- */

static int decode(void *value, const struct json *object, struct err *e)
{
	return handover_place_read(object, value, e);
}

static void drop(void *value)
{
	handover_place_done(value);
}

static void on_changed(void *arg, const struct kube_object *was, const struct kube_object *is)
{
	const struct handover *h = arg;

	(void)was;
	if (is)
		h->conf.touch(h->conf.arg);
}

/* agent/endpoint/endpoints.c says it. */
static void on_trouble(void *arg, const struct err *why)
{
	(void)arg, (void)why;
}

static void sweep_in(struct handover *h, int64_t ms);

static void on_sweep(void *arg)
{
	struct handover *h = arg;

	h->sweep = NULL;
	sweep_in(h, SWEEP_MS);
	h->conf.touch(h->conf.arg);
}

static void sweep_in(struct handover *h, int64_t ms)
{
	loop_del_timer(h->sweep);
	h->sweep = loop_add_timer(kube_loop(h->conf.kube), ms, on_sweep, h);
}

void handover_watch(struct handover *h)
{
	char label[BLOCK_LABEL_MAX];
	auto_free char *select =
		xasprintf("%s=%s", HANDOVER_LABEL, block_label(h->conf.node, label));

	h->informer = kube_informer_new(
		h->conf.kube, &(struct kube_informer_conf){.kind = &handover_kind,
							   .select = {.labels = select},
							   .cached = true,
							   .size = sizeof(struct handover_place),
							   .decode = decode,
							   .drop = drop,
							   .changed = on_changed,
							   .trouble = on_trouble,
							   .arg = h});
	h->again = (struct kube_backoff){AGAIN_MS, SWEEP_MS, 0};
	sweep_in(h, SWEEP_MS);
}

/* --- answers --- */

static void on_given(void *arg, enum block_outcome r, const struct block_object *o)
{
	struct handover *h = arg;

	(void)o;
	if (r == BLOCK_OK)
		kube_backoff_reset(&h->again);
	/* There may be more, in the same block. */
	h->conf.touch(h->conf.arg);
}

static void on_refused(void *arg, int status, const struct json *object, const struct err *e)
{
	struct handover *h = arg;

	(void)status, (void)object;
	h->refusing = NULL;
	if (e)
		log_warn("that kept addresses are not given cannot be said for now",
			 LOG_S("error", e->text));
}

static void refuse(struct handover *h, const struct kube_object *o)
{
	struct kube_request r = {.verb = KUBE_MERGE_PATCH,
				 .on = {.kind = &handover_kind, .ns = o->ns, .name = o->name},
				 .timeout_ms = REQUEST_MS};
	auto_buf struct buf b;

	if (h->refusing)
		return;
	buf_init(&b, 2000);
	handover_refuse_patch(o->value, &b);
	r.body = buf_span(&b);
	h->refusing = kube_send(h->conf.kube, &r, on_refused, h);
}

static void answer(struct handover *h, const struct kube_object *o, struct blocks *b,
		   const struct lease_table *leases)
{
	const struct handover_place *p = o->value;
	bool refused = false, more = false;

	if (!p->for_node || strcmp(p->for_node, h->conf.node) == 0)
		return;
	for (size_t i = 0; i < p->n; i++) {
		const struct ipaddr *ip = &p->v[i].ip;
		struct block_op op;

		switch (handover_answer(p, o->ns, o->name, lease_find(leases, ip))) {
		case HANDOVER_LATER: more = true; continue;
		case HANDOVER_REFUSE: refused = true; continue;
		case HANDOVER_GIVE: break;
		}
		if (!handover_give(blocks_table(b), ip, p->for_node, &op))
			continue;
		more = true;
		/* Something else is done about the block. */
		if (!blocks_request(b, &op, on_given, h))
			sweep_in(h, kube_backoff_next(&h->again));
	}
	if (refused && !more)
		refuse(h, o);
}

/* --- what was given --- */

static void forget(const struct block_table *t, struct ipam *store)
{
	const struct lease_table *leases = ipam_leases(store);
	struct err e = ERR_INIT;
	char text[IP_TEXT_MAX];

	for (size_t i = 0; i < leases->n; i++) {
		struct ipaddr ip = leases->v[i].address.ip;

		if (!handover_is_stale(t, &leases->v[i]))
			continue;
		if (ipam_release_ip(store, &ip, &e) < 0)
			log_error("an address that was given to another node is not forgotten",
				  LOG_S("address", ip_str(&ip, text)), LOG_S("error", e.text));
		else
			log_info("a kept address went to another node",
				 LOG_S("address", ip_str(&ip, text)));
	}
}

static void note(struct handover *h, const struct ipaddr *ip)
{
	for (size_t i = 0; i < h->n_given; i++)
		if (ip_eq(&h->given[i].ip, ip)) {
			h->given[i].seen = true;
			return;
		}
	VEC_PUSH(h->given, h->n_given) = (struct given){*ip, handover_now(h), true};
}

static void look(struct handover *h, const struct block_table *t)
{
	size_t n = 0;

	for (size_t i = 0; i < h->n_given; i++)
		h->given[i].seen = false;
	for (size_t i = 0; i < t->n_objects; i++)
		for (size_t k = 0; k < t->objects[i].n_ceded; k++)
			if (*t->objects[i].ceded[k].to == '@' &&
			    !block_entry_promised(&t->objects[i].ceded[k]))
				note(h, &t->objects[i].ceded[k].ip);
	for (size_t i = 0; i < h->n_given; i++)
		if (h->given[i].seen)
			h->given[n++] = h->given[i];
	h->n_given = n;
}

/* Nobody came for it for long, and nobody asks: it is this node's again. */
static void take_back(struct handover *h, struct blocks *b)
{
	struct ipaddr *leave = NULL;
	struct block_op op;
	size_t n = 0;

	for (size_t i = 0; i < kube_informer_count(h->informer); i++) {
		const struct handover_place *p = kube_informer_at(h->informer, i)->value;

		for (size_t k = 0; k < p->n; k++)
			VEC_PUSH(leave, n) = p->v[k].ip;
	}
	for (size_t i = 0; i < h->n_given; i++)
		if (handover_now(h) - h->given[i].since < HANDOVER_LEAVE_MS)
			VEC_PUSH(leave, n) = h->given[i].ip;
	if (handover_take_back(blocks_table(b), leave, n, &op))
		blocks_request(b, &op, on_given, h);
	free(leave);
}

void handover_batch(struct handover *h, struct ipam *store, bool whole)
{
	struct blocks *b = lender_blocks(h->conf.lender);

	if (!b || !whole || !blocks_table(b)->synced)
		return;
	forget(blocks_table(b), store);
	for (size_t i = 0; i < kube_informer_count(h->informer); i++)
		answer(h, kube_informer_at(h->informer, i), b, ipam_leases(store));
	look(h, blocks_table(b));
	if (kube_informer_synced(h->informer))
		take_back(h, b);
}
