/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "agent/blocks/internal.h"
#include "base/alloc.h"
#include "wire/json/json.h"

/* Reports: why a pool has no address, unadopted blocks, metrics. */

/* --- a pool --- */

static void say_view(const struct block_view *v, const struct blocks_pool *p, struct buf *w)
{
	size_t full = 0;

	for (size_t i = 0; i < v->n_others; i++)
		full += v->others[i].told && !v->others[i].spare;
	buf_printf(w, "%zu blocks of the pool are claimed", v->n_taken);
	if (full)
		buf_printf(w, ", %zu have none to spare", full);
	if (v->wished_ms)
		buf_printf(w, "; of %zu of them addresses were asked for, %s",
			   v->wished < v->n_others ? v->wished : v->n_others,
			   v->n_offers ? "some are on offer" : "none is given up yet");
	else if (v->n_taken == block_count(&p->cut))
		buf_str(w, ", that is all");
}

void blocks_words(const struct blocks *b, const char *pool, struct buf *w)
{
	const struct blocks_pool *p = blocks_pool_find(b, pool);
	const struct block_view *v = block_view_find(&b->t, pool);

	if (!blocks_ready(b))
		buf_str(w, "the API server has not told which blocks this node has");
	else if (b->log_fails)
		buf_printf(w, "'%s' cannot be written, so nothing can be claimed", b->log.path);
	else if (!b->t.synced || kube_informer_behind_ms(b->informer) > BLOCKS_REQUEST_MS)
		buf_str(w, "the API server does not answer, so no more addresses can be claimed");
	else if (p && !p->is_cut)
		buf_printf(w, "the pool is not cut into blocks yet%s%s", *p->said ? ": " : "",
			   p->said);
	else if (v && v->n_taken && v->at_ms)
		say_view(v, p, w);
	else
		buf_str(w, "a block is being claimed");
	if (p && p->is_cut && *p->said)
		buf_printf(w, "; %s", p->said);
}

bool blocks_refused(struct blocks *b, const char *pool, const struct ipaddr *a)
{
	return b->t.synced && block_is_refused(&b->t, a, blocks_now(b), NULL) &&
	       blocks_owner_known(b, pool, a);
}

static void say_holder(const struct blocks *b, const struct ipaddr *a, struct buf *w)
{
	const char *pod = blocks_owner(b, a);

	if (pod)
		buf_printf(w, ", for pod '%s' by the pool's status", pod);
}

void blocks_name_words(const struct blocks *b, const struct ipaddr *a, struct buf *w)
{
	const struct block_seen *s = block_seen_find(&b->t, a);

	if (block_is_refused(&b->t, a, blocks_now(b), w)) {
		say_holder(b, a, w);
		return;
	}
	if (!b->t.synced || kube_informer_behind_ms(b->informer) > BLOCKS_REQUEST_MS)
		buf_str(w, "the API server does not answer, so its block cannot be looked for");
	else if (s && s->wished)
		buf_printf(w, "node '%s' was asked for it and has not answered", s->node);
	else if (s && *s->node)
		buf_printf(w, "it lies in block '%s' of node '%s'", s->block, s->node);
	else
		buf_str(w, s ? "its block is being claimed" : "its block is being looked at");
}

/* --- unadopted blocks --- */

static bool is_foreign(const struct blocks *b, const struct block_object *o)
{
	return strcmp(o->node, b->node) == 0 && !block_log_is_ours(&b->log, o->claim);
}

size_t blocks_unadopted_count(const struct blocks *b)
{
	size_t n = 0;

	for (size_t i = 0; i < b->t.n_objects; i++)
		n += is_foreign(b, &b->t.objects[i]);
	return n;
}

const struct block_object *blocks_unadopted_at(const struct blocks *b, size_t at)
{
	for (size_t i = 0; i < b->t.n_objects; i++)
		if (is_foreign(b, &b->t.objects[i]) && at-- == 0)
			return &b->t.objects[i];
	return NULL;
}

bool blocks_unadopted_alive(const struct blocks *b)
{
	return b->other_alive;
}

void blocks_inventory_complete(struct blocks *b)
{
	b->accounted = true;
	blocks_schedule(b, 0);
}

struct blocks_stats blocks_stats(const struct blocks *b)
{
	struct blocks_stats s = b->stats;

	s.claims = b->t.n_claims;
	s.loans = b->t.n_loans;
	s.under_way = b->n_flights;
	return s;
}

/* Which pod has a refused address: a block's object names only nodes; the pool's status, which the
 * controller maintains, names pods. It is read once per address, and only for error messages. */

enum { HOLDER_MS = 10 * 1000, HOLDERS_MAX = 64, ASK_MS = 2000, STATUS_MAX = 4 << 20 };

static struct blocks_owner *find(const struct blocks *b, const struct ipaddr *a)
{
	for (size_t i = 0; i < b->n_holders; i++)
		if (ip_eq(&b->holders[i]->ip, a))
			return b->holders[i];
	return NULL;
}

static void drop(struct blocks_owner *h)
{
	kube_cancel(h->call);
	free(h->pool);
	free(h->pod);
	free(h);
}

void blocks_drop_owners(struct blocks *b)
{
	while (b->n_holders)
		drop(b->holders[--b->n_holders]);
	free(b->holders);
	b->holders = NULL;
}

static void forget(struct blocks *b)
{
	for (size_t i = b->n_holders; i-- > 0;)
		if (!b->holders[i]->call && blocks_now(b) - b->holders[i]->at_ms >= HOLDER_MS) {
			drop(b->holders[i]);
			b->holders[i] = b->holders[--b->n_holders];
		}
}

/* NULL: it does not name one, or no controller maintains it. */
static char *read_pod(const struct json *pool, const struct ipaddr *a)
{
	const char *text = json_string(json_get(json_get(pool, "status"), "allocatedIPs"));
	auto_json struct json_doc *d = NULL;
	char ip[IP_TEXT_MAX];
	const char *pod;

	if (!text || json_parse(&d, span_of(text), STATUS_MAX, NULL) < 0)
		return NULL;
	pod = json_string(json_get(json_get(json_root(d), ip_str(a, ip)), "pod"));
	return pod ? xstrdup(pod) : NULL;
}

static void on_read(void *arg, int status, const struct json *object, const struct err *e)
{
	struct blocks_owner *h = arg;

	(void)status;
	h->call = NULL;
	h->at_ms = blocks_now(h->b);
	if (!e)
		h->pod = read_pod(object, &h->ip);
	blocks_notify(h->b, h->pool);
}

bool blocks_owner_known(struct blocks *b, const char *pool, const struct ipaddr *a)
{
	struct kube_request r = {.verb = KUBE_GET, .timeout_ms = ASK_MS, .once = true};
	struct blocks_owner *h;

	forget(b);
	h = find(b, a);
	if (h || b->n_holders >= HOLDERS_MAX)
		return !h || !h->call;
	h = xcalloc(1, sizeof(*h));
	h->b = b;
	h->ip = *a;
	h->pool = xstrdup(pool);
	r.on = (struct kube_ref){.kind = &blocks_pools_kind, .name = pool};
	h->call = kube_send(b->c.kube, &r, on_read, h);
	VEC_PUSH(b->holders, b->n_holders) = h;
	return false;
}

const char *blocks_owner(const struct blocks *b, const struct ipaddr *a)
{
	const struct blocks_owner *h = find(b, a);

	return h ? h->pod : NULL;
}
