/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which pod has an address that is refused: a block's object names nodes alone, the pool's status, as
 * the controller keeps it, pods. It is asked once an address, for words only.
 */
#include <stdlib.h>
#include <string.h>

#include "agent/blocks/blocks_priv.h"
#include "base/cleanup.h"
#include "wire/json/json.h"

enum { HOLDER_MS = 10 * 1000, HOLDERS_MAX = 64, ASK_MS = 2000, STATUS_MAX = 4 << 20 };

static struct blocks_holder *find(const struct blocks *b, const struct ipaddr *a)
{
	for (size_t i = 0; i < b->n_holders; i++)
		if (ip_eq(&b->holders[i]->ip, a))
			return b->holders[i];
	return NULL;
}

static void drop(struct blocks_holder *h)
{
	kube_cancel(h->call);
	free(h->pool);
	free(h->pod);
	free(h);
}

void blocks_drop_holders(struct blocks *b)
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

/* NULL: it does not say, or there is no controller that keeps it. */
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
	struct blocks_holder *h = arg;

	(void)status;
	h->call = NULL;
	h->at_ms = blocks_now(h->b);
	if (!e)
		h->pod = read_pod(object, &h->ip);
	blocks_tell(h->b, h->pool);
}

bool blocks_holder_known(struct blocks *b, const char *pool, const struct ipaddr *a)
{
	struct kube_request r = {.verb = KUBE_GET, .timeout_ms = ASK_MS, .once = true};
	struct blocks_holder *h;

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

const char *blocks_holder(const struct blocks *b, const struct ipaddr *a)
{
	const struct blocks_holder *h = find(b, a);

	return h ? h->pod : NULL;
}
