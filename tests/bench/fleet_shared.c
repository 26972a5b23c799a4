/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One object for each pool, which every allocation of every node reads and writes whole, as Spiderpool
 * does it: GET, the first free address, PUT of the status with its resourceVersion; five tries with
 * a backoff from 10 ms by the factor 1.5; then the rail is retried a second later, as by a kubelet.
 * A pod's rails are processed concurrently, a node's pods one after the other.
 */
#include "fleet.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "kube/kinds.h"

enum { TRIES = 5, FIRST_US = 10000, AGAIN_MS = 1000 };

struct rail {
	struct fleet_node *n;
	size_t pool;
	char *id;
	bool there;
	int tries;
	struct loop_timer *again;
};

struct fleet_shared {
	struct rail *rails;
	size_t left;
	uint64_t pod; /* number of the pod whose addresses are being allocated */
};

static void get(struct rail *r);

static struct fleet_pod *pod_of(struct fleet_node *n)
{
	for (size_t i = 0; i < n->n_pods; i++)
		if (n->pods[i].id == n->shared->pod)
			return &n->pods[i];
	return NULL;
}

static void begin(struct fleet_node *n, struct fleet_pod *p)
{
	struct fleet_shared *s = n->shared;
	size_t rails = n->whole.set.n;

	s->rails = xcalloc(rails, sizeof(*s->rails));
	s->left = rails;
	s->pod = p->id;
	for (size_t k = 0; k < rails; k++) {
		s->rails[k] = (struct rail){.n = n, .pool = k};
		s->rails[k].id = xasprintf("%s-%llu", n->name, (unsigned long long)p->id);
		get(&s->rails[k]);
	}
}

static void next(struct fleet_node *n)
{
	for (size_t i = 0; i < n->n_pods; i++)
		if (!n->pods[i].there) {
			begin(n, &n->pods[i]);
			return;
		}
}

static void rail_there(struct rail *r)
{
	struct fleet_node *n = r->n;
	struct fleet_shared *s = n->shared;
	struct fleet_pod *p = pod_of(n);

	fleet.rails++;
	if (--s->left)
		return;
	for (size_t k = 0; k < n->whole.set.n; k++)
		free(s->rails[k].id);
	free(s->rails);
	s->rails = NULL;
	if (p) {
		p->there = true;
		n->waiting--;
		fleet_took(p);
	}
	next(n);
}

static void on_again(void *arg)
{
	struct rail *r = arg;

	r->again = NULL;
	get(r);
}

static void again(struct rail *r)
{
	int64_t us = FIRST_US;

	fleet.refused++;
	if (++r->tries < TRIES) {
		for (int i = 1; i < r->tries; i++)
			us += us / 2;
	} else {
		us = AGAIN_MS * 1000;
		fleet.failed++;
		r->tries = 0;
	}
	r->again = loop_add_timer(fleet.loop, us / 1000, on_again, r);
}

static void on_put(void *arg, int status, const struct json *object, const struct err *e)
{
	(void)status, (void)object;
	if (e)
		again(arg);
	else
		rail_there(arg);
}

/* Writes to `text` the records `have` and a record of address `add` for pod `id`, in the format
 * of Spiderpool's status.allocatedIPs: {"10.0.0.2":{"pod":"ns/name","podUid":"..."}}. */
static void put_records(const struct json *have, const char *add, const char *id, struct buf *text)
{
	struct json_walk w = json_walk_start(have);
	const struct json *v;
	struct json_out o;
	const char *key;

	jo_init(&o, text, 0);
	jo_obj(&o);
	while ((v = json_walk_next(&w, &key))) {
		jo_key(&o, key);
		jo_val(&o, v, false);
	}
	jo_key(&o, add);
	jo_obj(&o);
	jo_kstr(&o, "pod", id);
	jo_kstr(&o, "podUid", id);
	jo_end_obj(&o);
	jo_end_obj(&o);
}

static void put_pool(const struct json *pool, const char *records, size_t count, struct buf *b)
{
	struct json_out o;

	jo_init(&o, b, 0);
	jo_obj(&o);
	jo_kstr(&o, "apiVersion", "spiderpool.spidernet.io/v2beta1");
	jo_kstr(&o, "kind", "SpiderIPPool");
	jo_key(&o, "metadata");
	jo_val(&o, json_get(pool, "metadata"), false);
	jo_key(&o, "spec");
	jo_val(&o, json_get(pool, "spec"), false);
	jo_key(&o, "status");
	jo_obj(&o);
	jo_kstr(&o, "allocatedIPs", records);
	jo_kint(&o, "allocatedIPCount", (int64_t)count);
	jo_end_obj(&o);
	jo_end_obj(&o);
}

static bool pick(const struct pool *p, const struct json *have, char ret[static IP_TEXT_MAX])
{
	struct ipaddr a;
	bool there = ip_set_next(&p->usable, NULL, &a);

	while (there && json_get(have, ip_str(&a, ret)))
		there = ip_add(&a, 1, &a) && ip_set_next(&p->usable, &a, &a);
	return there;
}

static void on_get(void *arg, int status, const struct json *object, const struct err *e)
{
	struct rail *r = arg;
	const struct pool *p = &r->n->whole.set.v[r->pool];
	const char *text = json_string(json_get(json_get(object, "status"), "allocatedIPs"));
	auto_json struct json_doc *doc = NULL;
	auto_buf struct buf body, records;
	struct kube_request q = {.verb = KUBE_REPLACE,
				 .on = {.kind = &kube_ippools, .name = p->name, .sub = "status"}};
	char ip[IP_TEXT_MAX];

	(void)status;
	buf_init(&body, KUBE_BODY_MAX);
	buf_init(&records, KUBE_BODY_MAX);
	if (e || json_parse(&doc, span_of(text ? text : "{}"), KUBE_BODY_MAX, NULL) < 0 ||
	    !pick(p, json_root(doc), ip)) {
		again(r);
		return;
	}
	put_records(json_root(doc), ip, r->id, &records);
	put_pool(object, records.p, json_len(json_root(doc)) + 1, &body);
	q.body = buf_span(&body);
	fleet.requests++;
	kube_send(r->n->kube, &q, on_put, r);
}

static void get(struct rail *r)
{
	const struct kube_request q = {.verb = KUBE_GET,
				       .on = {.kind = &kube_ippools,
					      .name = r->n->whole.set.v[r->pool].name}};

	fleet.requests++;
	kube_send(r->n->kube, &q, on_get, r);
}

void fleet_shared_add(struct fleet_node *n, struct fleet_pod *p)
{
	if (!n->shared)
		n->shared = xcalloc(1, sizeof(*n->shared));
	if (!n->shared->rails)
		begin(n, p);
}
