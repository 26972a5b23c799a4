/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "agent/blocks/internal.h"
#include "base/alloc.h"
#include "kube/kinds.h"
#include "wire/json/json.h"

/* Reports the reason why a pool has no address, the unadopted blocks, and metrics. */

/* --- reason why a pool has no address; node that has a requested address --- */

static void say_view(const struct block_view *v, const struct blocks_pool *p, struct buf *w)
{
	size_t full = 0;

	for (size_t i = 0; i < v->n_peers; i++)
		full += v->peers[i].reports && !v->peers[i].spare;
	buf_printf(w, "%zu blocks of the pool are claimed", v->n_taken);
	if (full)
		buf_printf(w, ", %zu have no free address", full);
	if (v->requested_ms)
		buf_printf(w,
			   "; addresses of %zu of these blocks were requested from their nodes, %s",
			   v->requested < v->n_peers ? v->requested : v->n_peers,
			   v->n_available ? "some are available" : "none is released yet");
	else if (v->n_taken == block_count(&p->cut))
		buf_str(w, ", and the pool has no other blocks");
}

void blocks_describe(const struct blocks *b, const char *pool, struct buf *w)
{
	const struct blocks_pool *p = blocks_pool_find(b, pool);
	const struct block_view *v = block_view_find(&b->t, pool);

	if (!blocks_ready(b))
		buf_str(w, "this node's blocks are not read from the API server yet");
	else if (b->log_fails)
		buf_printf(w, "'%s' cannot be written, so no block can be claimed", b->log.path);
	else if (!b->t.synced || kube_informer_behind_ms(b->informer) > BLOCKS_REQUEST_MS)
		buf_str(w, "the API server is unavailable, so no more addresses can be claimed");
	else if (p && !p->is_cut)
		buf_printf(w, "the pool is not divided into blocks yet%s%s", *p->logged ? ": " : "",
			   p->logged);
	else if (v && v->n_taken && v->at_ms)
		say_view(v, p, w);
	else
		buf_str(w, "a block is being claimed");
	if (p && p->is_cut && *p->logged)
		buf_printf(w, "; %s", p->logged);
}

static bool blocks_owner_known(struct blocks *b, const char *pool, const struct ipaddr *a);

bool blocks_refused(struct blocks *b, const char *pool, const struct ipaddr *a)
{
	return b->t.synced && block_is_refused(&b->t, a, blocks_now(b), NULL) &&
	       blocks_owner_known(b, pool, a);
}

static void put_owner_name(const struct blocks *b, const struct ipaddr *a, struct buf *w)
{
	const char *pod = blocks_owner(b, a);

	if (pod)
		buf_printf(w, ", for pod '%s' according to the status of the pool", pod);
}

void blocks_describe_name(const struct blocks *b, const struct ipaddr *a, struct buf *w)
{
	const struct block_lookup *s = block_lookup_find(&b->t, a);

	if (block_is_refused(&b->t, a, blocks_now(b), w)) {
		put_owner_name(b, a, w);
		return;
	}
	if (!b->t.synced || kube_informer_behind_ms(b->informer) > BLOCKS_REQUEST_MS)
		buf_str(w, "the API server is unavailable, so the address's block cannot be read");
	else if (s && s->requested)
		buf_printf(w, "the address was requested from node '%s', which has not responded",
			   s->node);
	else if (s && *s->node)
		buf_printf(w, "the address is in block '%s' of node '%s'", s->block, s->node);
	else
		buf_str(w, s ? "the address's block is being claimed"
			     : "the address's block is being read");
}

/* --- unadopted blocks --- */

static bool is_unadopted(const struct blocks *b, const struct block_object *o)
{
	return strcmp(o->node, b->node) == 0 && !block_log_has_token(&b->log, o->claim);
}

size_t blocks_unadopted_count(const struct blocks *b)
{
	size_t n = 0;

	for (size_t i = 0; i < b->t.n_objects; i++)
		n += is_unadopted(b, &b->t.objects[i]);
	return n;
}

const struct block_object *blocks_unadopted_next(const struct blocks *b, size_t *at)
{
	while (*at < b->t.n_objects) {
		const struct block_object *o = &b->t.objects[(*at)++];

		if (is_unadopted(b, o))
			return o;
	}
	return NULL;
}

bool blocks_unadopted_alive(const struct blocks *b)
{
	return b->other_alive;
}

void blocks_inventory_complete(struct blocks *b)
{
	b->inventory_complete = true;
	blocks_schedule(b, 0);
}

struct blocks_stats blocks_stats(const struct blocks *b)
{
	struct blocks_stats s = b->stats;

	s.claims = b->t.n_claims;
	s.borrowed_now = b->t.n_borrowed;
	s.under_way = b->n_in_flight;
	return s;
}

/* The functions below find the pod that has a refused address. A block's object names only
 * nodes; the pool's status, which the controller maintains, names pods. The status is read at
 * most every OWNER_MS for an address, and only for error messages. */

enum { OWNER_MS = 10 * 1000, OWNERS_MAX = 64, LOOKUP_MS = 2000, STATUS_MAX = 4 << 20 };

static struct blocks_owner *find(const struct blocks *b, const struct ipaddr *a)
{
	for (size_t i = 0; i < b->n_owners; i++)
		if (ip_eq(&b->owners[i]->ip, a))
			return b->owners[i];
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
	while (b->n_owners)
		drop(b->owners[--b->n_owners]);
	free(b->owners);
	b->owners = NULL;
}

static void forget(struct blocks *b)
{
	for (size_t i = b->n_owners; i-- > 0;)
		if (!b->owners[i]->call && blocks_now(b) - b->owners[i]->at_ms >= OWNER_MS) {
			drop(b->owners[i]);
			b->owners[i] = b->owners[--b->n_owners];
		}
}

/* Returns "ns/name" of the pod; NULL: the status names none, for example because no controller
 * maintains it. */
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

/* Returns whether the lookup of the pod that has a refused address has ended, or cannot start
 * because b->owners has OWNERS_MAX entries (lookups in flight, and those that ended less than
 * OWNER_MS ago). Otherwise starts the lookup, unless it is in flight. The end of the lookup
 * calls blocks_notify(). */
static bool blocks_owner_known(struct blocks *b, const char *pool, const struct ipaddr *a)
{
	struct kube_request r = {.verb = KUBE_GET, .timeout_ms = LOOKUP_MS, .once = true};
	struct blocks_owner *h;

	forget(b);
	h = find(b, a);
	if (h || b->n_owners >= OWNERS_MAX)
		return !h || !h->call;
	h = xcalloc(1, sizeof(*h));
	h->b = b;
	h->ip = *a;
	h->pool = xstrdup(pool);
	r.on = (struct kube_ref){.kind = &kube_ippools, .name = pool};
	h->call = kube_send(b->c.kube, &r, on_read, h);
	VEC_PUSH(b->owners, b->n_owners) = h;
	return false;
}

const char *blocks_owner(const struct blocks *b, const struct ipaddr *a)
{
	const struct blocks_owner *h = find(b, a);

	return h ? h->pod : NULL;
}
