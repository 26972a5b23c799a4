/* SPDX-License-Identifier: Apache-2.0 */
/* Where the pod is now: fetches what its name had, one address after the other. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/migration/handover_priv.h"
#include "base/cleanup.h"
#include "base/log.h"

enum {
	AGAIN_MS = 100,
	AGAIN_MOST_MS = 2000,
	REQUEST_MS = 10 * 1000,
	GONE_MS = 10 * 1000,
	PATIENCE_MS = 60 * 1000, /* a kubelet tries again within that */
};

static void later(struct coming *c, int64_t ms);

/* --- names --- */

void coming_pin(struct handover *h)
{
	struct blocks *b = lender_blocks(h->conf.lender);
	struct ipaddr *v = NULL;
	size_t n = 0;

	for (size_t i = 0; i < h->n; i++)
		for (size_t k = 0; k < h->v[i]->place.n; k++)
			VEC_PUSH(v, n) = h->v[i]->place.v[k].ip;
	if (b)
		blocks_pin(b, v, n);
	free(v);
}

void coming_free(struct coming *c)
{
	struct handover *h = c->h;
	struct blocks *b = lender_blocks(h->conf.lender);

	for (size_t i = 0; i < h->n; i++)
		if (h->v[i] == c)
			h->v[i] = h->v[--h->n];
	if (b)
		blocks_cancel(b, c);
	kube_cancel(c->call);
	loop_del_timer(c->timer);
	handover_place_done(&c->place);
	block_op_done(&c->op);
	free(c->ns);
	free(c->name);
	free(c->pod);
	free(c->uid);
	free(c->ifname);
	free(c->why);
	free(c);
}

static void say(struct coming *c, const char *why)
{
	free(c->why);
	c->why = xstrdup(why);
}

/* --- one address after the other --- */

static struct handover_facts facts_of(const struct coming *c, const struct blocks *b)
{
	const struct pool_set *s = cluster_pools(c->h->conf.cluster);
	const struct ipaddr *ip = &c->place.v[c->at].ip;
	const struct pool *p = s ? pool_of(s, ip) : NULL;

	return (struct handover_facts){
		.table = blocks_table(b),
		.pool = p && !p->disabled && !p->terminating ? p : NULL,
		.ip = *ip,
		.place = &c->place,
		.uid = c->uid,
	};
}

static void next(struct coming *c)
{
	c->at++;
	c->tried = false;
}

/* Not to be had now. */
static void leave_open(struct coming *c, const struct handover_facts *f)
{
	const struct identity who = {.ns = c->ns, .name = c->name};
	auto_buf struct buf b;

	buf_init(&b, 600);
	handover_words(f, &who, &b);
	say(c, b.p);
	c->open = true;
	next(c);
}

static void on_tried(void *arg, enum block_outcome r, const struct block_object *o)
{
	struct coming *c = arg;

	(void)r, (void)o;
	later(c, 0);
}

static bool try(struct coming *c, struct blocks *b)
{
	struct block_op op = c->op;

	c->op = (struct block_op){0};
	c->has_op = false;
	return blocks_request(b, &op, on_tried, c);
}

static void on_looked(void *arg, enum block_outcome r, const struct block_object *o)
{
	struct coming *c = arg;
	struct blocks *b = lender_blocks(c->h->conf.lender);
	struct handover_facts f;

	later(c, 0);
	if (!b)
		return;
	f = facts_of(c, b);
	f.looked = true;
	f.block = r == BLOCK_OK ? o : NULL;
	if (r != BLOCK_OK && r != BLOCK_ABSENT) {
		leave_open(c, &f);
		return;
	}
	switch (handover_next(&f, &c->op)) {
	case HANDOVER_HERE:
	case HANDOVER_NEVER: next(c); return;
	case HANDOVER_OP: c->has_op = true; return;
	case HANDOVER_ASK:
		if (!*c->holder)
			handover_holder(&f, c->holder);
		break;
	case HANDOVER_WAIT: c->waits |= c->place.from != NULL; break;
	case HANDOVER_LOOK: break;
	}
	leave_open(c, &f);
}

/* False: a request is under way. */
static bool step(struct coming *c, struct blocks *b)
{
	struct handover_facts f = facts_of(c, b);
	struct block_op op;

	if (c->has_op) {
		c->tried = true;
		if (try(c, b))
			return false;
	}
	switch (handover_next(&f, &op)) {
	case HANDOVER_HERE:
	case HANDOVER_NEVER: next(c); return true;
	case HANDOVER_LOOK:
		if (!c->tried && blocks_request(b, &op, on_looked, c))
			return false;
		break;
	default: break;
	}
	leave_open(c, &f);
	return true;
}

/* --- rounds --- */

static void on_asked(void *arg, int status, const struct json *object, const struct err *e)
{
	struct coming *c = arg;

	(void)status, (void)object;
	c->call = NULL;
	if (e)
		say(c, e->text);
	later(c, kube_backoff_next(&c->backoff));
}

static void ask(struct coming *c)
{
	struct kube_request r = {.verb = KUBE_MERGE_PATCH,
				 .on = {.kind = &handover_kind, .ns = c->ns, .name = c->name},
				 .timeout_ms = REQUEST_MS};
	auto_buf struct buf b;

	buf_init(&b, 2000);
	handover_ask_patch(c->holder, c->h->conf.node, c->uid, c->migrating, &b);
	r.body = buf_span(&b);
	log_info("kept addresses are asked for at the node that has them",
		 LOG_S("namespace", c->ns), LOG_S("name", c->name), LOG_S("holder", c->holder));
	c->call = kube_send(c->h->conf.kube, &r, on_asked, c);
}

/* Whether its pod is still there: one that is gone must not ask on, the next one of the name may on
 * another node. */
static bool is_wanted(const struct coming *c)
{
	const struct pod_facts *p = cluster_pod(c->h->conf.cluster, c->ns, c->pod);

	if (!p) /* not shown yet */
		return handover_now(c->h) - c->asked_ms < GONE_MS;
	return strcmp(p->uid, c->uid) == 0 && !p->deleting;
}

static void is_done(struct coming *c)
{
	c->done = true;
	later(c, PATIENCE_MS);
	c->h->conf.changed(c->h->conf.arg);
}

static void end_round(struct coming *c)
{
	c->in_round = false;
	if (!c->open)
		is_done(c);
	else if (*c->holder && !c->waits && is_wanted(c))
		ask(c);
	else
		later(c, kube_backoff_next(&c->backoff));
}

static void go_on(struct coming *c)
{
	struct blocks *b = lender_blocks(c->h->conf.lender);

	if (!cluster_pools(c->h->conf.cluster))
		b = NULL;
	while (b && c->at < c->place.n)
		if (!step(c, b))
			return;
	c->open |= !b;
	end_round(c);
}

static void on_place(void *arg, int status, const struct json *object, const struct err *e)
{
	struct coming *c = arg;
	struct handover_place p = {0};

	(void)status;
	c->call = NULL;
	if (e && e->code != -ENOENT) {
		say(c, e->text);
		later(c, kube_backoff_next(&c->backoff));
		return;
	}
	/* One that is gone since was seen; one without addresses is none. */
	if (!e && handover_place_read(object, &p, NULL) == 0) {
		handover_place_done(&c->place);
		c->place = p;
	}
	c->in_round = true;
	c->at = 0;
	c->tried = c->open = c->waits = false;
	*c->holder = '\0';
	coming_pin(c->h);
	go_on(c);
}

static void on_timer(void *arg)
{
	struct coming *c = arg;
	struct handover *h = c->h;
	const struct kube_request r = {.verb = KUBE_GET,
				       .on = {.kind = &handover_kind, .ns = c->ns, .name = c->name},
				       .timeout_ms = REQUEST_MS};

	c->timer = NULL;
	if (handover_now(h) - c->asked_ms >= PATIENCE_MS) {
		coming_free(c);
		coming_pin(h);
	} else if (c->done) {
		later(c, PATIENCE_MS);
	} else if (c->in_round) {
		go_on(c);
	} else {
		c->call = kube_send(h->conf.kube, &r, on_place, c);
	}
}

static void later(struct coming *c, int64_t ms)
{
	loop_del_timer(c->timer);
	c->timer = loop_add_timer(kube_loop(c->h->conf.kube), ms, on_timer, c);
}

/* --- from the first ask on --- */

struct coming *coming_new(struct handover *h, const struct identity *who, const char *uid,
			  const char *ifname)
{
	struct coming *c = xcalloc(1, sizeof(*c));

	*c = (struct coming){.h = h,
			     .ns = xstrdup(who->ns),
			     .name = xstrdup(who->name),
			     .pod = xstrdup(who->pod),
			     .uid = xstrdup(uid),
			     .ifname = xstrdup(ifname),
			     .migrating = who->migrating,
			     .backoff = {AGAIN_MS, AGAIN_MOST_MS, 0}};
	VEC_PUSH(h->v, h->n) = c;
	later(c, 0);
	return c;
}

void coming_renew(struct coming *c, const struct identity *who, const char *uid)
{
	free(c->pod);
	free(c->uid);
	c->pod = xstrdup(who->pod);
	c->uid = xstrdup(uid);
	c->migrating = who->migrating;
	kube_backoff_reset(&c->backoff);
	if (!c->done)
		return;
	c->done = false;
	later(c, 0);
}
