/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/gc/kept.h"
#include "agent/gc/kept_question.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "ipam/lend.h"

enum { TICK_MS = 2000, AGAIN_TIMES = 10 };

/* A name that has addresses kept here. */
struct holder {
	char *ns, *name;
	int64_t due;		      /* loop's time: to be asked about */
	int64_t kept_ms;	      /* the journal's time of the latest of its leases */
	bool seen;		      /* in this round */
	const char *why;	      /* to be given back; NULL: not */
	struct migration_place place; /* with `elsewhere`: which of them are */
	bool elsewhere;
};

struct kept {
	struct kept_conf conf;
	struct holder *v;
	size_t n;
	struct loop_timer *timer;
	struct kube_call *call;
	/* who is asked about */
	char *ns, *name;
	struct kept_question q;
	char *said; /* the last trouble, as logged */
};

static void next(struct kept *k);

static int64_t now(const struct kept *k)
{
	return loop_now_ms(kube_loop(k->conf.kube));
}

/* --- names --- */

static void holder_done(struct holder *h)
{
	free(h->ns);
	free(h->name);
	migration_place_done(&h->place);
}

static struct holder *find(const struct kept *k, const char *ns, const char *name)
{
	for (size_t i = 0; i < k->n; i++)
		if (strcmp(k->v[i].name, name) == 0 && strcmp(k->v[i].ns, ns) == 0)
			return &k->v[i];
	return NULL;
}

static void note(struct kept *k, const struct lease *l)
{
	struct holder *h = find(k, l->pod_namespace, l->pod_name);

	if (!h) {
		h = &VEC_PUSH(k->v, k->n);
		*h = (struct holder){.ns = xstrdup(l->pod_namespace),
				     .name = xstrdup(l->pod_name),
				     .due = now(k) + k->conf.grace_ms};
	}
	/* Kept anew: its pod came and went. */
	if (l->at_ms > h->kept_ms && h->kept_ms)
		h->due = now(k) + k->conf.grace_ms;
	if (l->at_ms > h->kept_ms)
		h->kept_ms = l->at_ms;
	h->seen = true;
}

static void look(struct kept *k, const struct lease_table *t)
{
	size_t n = 0;

	for (size_t i = 0; i < k->n; i++)
		k->v[i].seen = false;
	for (size_t i = 0; i < t->n; i++)
		if (t->v[i].state == LEASE_KEPT && *t->v[i].pod_name && *t->v[i].pod_namespace)
			note(k, &t->v[i]);
	for (size_t i = 0; i < k->n; i++) {
		if (k->v[i].seen)
			k->v[n++] = k->v[i];
		else
			holder_done(&k->v[i]);
	}
	k->n = n;
}

/* --- one name at a time --- */

static void over(struct kept *k)
{
	free(take(k->ns));
	free(take(k->name));
	migration_place_done(&k->q.place);
	k->call = NULL;
	next(k);
}

/* Once for each trouble: nothing is lost meanwhile. */
static void say(struct kept *k, const struct err *e)
{
	if (k->said && strcmp(k->said, e->text) == 0)
		return;
	free(k->said);
	k->said = xstrdup(e->text);
	log_warn("whether kept addresses are still wanted is not known: they stay",
		 LOG_S("namespace", k->ns), LOG_S("name", k->name), LOG_S("error", e->text));
}

static void judge(struct kept *k)
{
	struct holder *h = find(k, k->ns, k->name);

	if (h && identity_is_over(k->name, &k->conf.identity, &k->q.set, &k->q.machine)) {
		h->why = "no pod of that name will come";
	} else if (h && k->q.place.n && strcmp(k->q.place.node, k->conf.node) != 0) {
		migration_place_done(&h->place);
		h->place = k->q.place;
		k->q.place = (struct migration_place){0};
		h->elsewhere = true;
	}
	if (h && (h->why || h->elsewhere))
		k->conf.touch(k->conf.arg);
}

static void ask(struct kept *k);

static void on_answer(void *arg, int status, const struct json *object, const struct err *e)
{
	struct kept *k = arg;

	(void)status;
	k->call = NULL;
	/* Neither is there where the kind is not installed. */
	if (e && e->code != -ENOENT) {
		say(k, e);
		over(k);
		return;
	}
	kept_question_learn(&k->q, e ? NULL : object);
	k->q.step++;
	ask(k);
}

static void ask(struct kept *k)
{
	struct kube_request r = {.verb = KUBE_GET};
	char set[254];

	while (k->q.step < KEPT_END &&
	       !kept_question_subject(&k->q, &k->conf.identity, k->ns, k->name, &r.on, set))
		k->q.step++;
	if (k->q.step < KEPT_END) {
		k->call = kube_send(k->conf.kube, &r, on_answer, k);
		return;
	}
	judge(k);
	over(k);
}

static void on_tick(void *arg)
{
	struct kept *k = arg;

	k->timer = NULL;
	for (size_t i = 0; i < k->n && !k->ns; i++) {
		struct holder *h = &k->v[i];

		if (h->due > now(k))
			continue;
		h->due = now(k) + AGAIN_TIMES * k->conf.grace_ms;
		k->ns = xstrdup(h->ns);
		k->name = xstrdup(h->name);
		k->q = (struct kept_question){0};
	}
	if (k->ns)
		ask(k);
	else
		next(k);
}

static void next(struct kept *k)
{
	if (!k->timer && !k->ns && k->n > 0)
		k->timer = loop_add_timer(kube_loop(k->conf.kube), TICK_MS, on_tick, k);
}

/* --- giving back --- */

static bool is_due(const struct kept *k, const struct holder *h, const struct lease *l)
{
	if (l->state != LEASE_KEPT || l->at_ms > h->kept_ms || strcmp(l->pod_name, h->name) != 0 ||
	    strcmp(l->pod_namespace, h->ns) != 0)
		return false;
	return h->why || migration_is_superseded(&h->place, k->conf.node, l);
}

static void give_back(struct kept *k, struct holder *h, struct ipam *store)
{
	const struct lease_table *t = ipam_leases(store);
	struct err e = ERR_INIT;
	char text[IP_TEXT_MAX];

	for (size_t i = 0; i < t->n; i++) {
		struct ipaddr ip = t->v[i].address.ip;

		if (!is_due(k, h, &t->v[i]))
			continue;
		if (ipam_release_ip(store, &ip, &e) < 0)
			log_error("an address that is kept for nobody is not freed for now",
				  LOG_S("address", ip_str(&ip, text)), LOG_S("error", e.text));
		else
			log_info("an address is not kept any more",
				 LOG_S("address", ip_str(&ip, text)), LOG_S("namespace", h->ns),
				 LOG_S("name", h->name),
				 LOG_S("why",
				       h->why ? h->why : "the name has others on another node"));
	}
	h->why = NULL;
	h->elsewhere = false;
	migration_place_done(&h->place);
}

void kept_batch(struct kept *k, struct ipam *store)
{
	/* By the journal as it was when they were judged: what came since is not given back. */
	for (size_t i = 0; i < k->n; i++)
		if (k->v[i].why || k->v[i].elsewhere)
			give_back(k, &k->v[i], store);
	look(k, ipam_leases(store));
	next(k);
}

/* --- life --- */

struct kept *kept_new(const struct kept_conf *c)
{
	struct kept *k = xcalloc(1, sizeof(*k));

	k->conf = *c;
	return k;
}

void kept_settings(struct kept *k, int64_t grace_ms, const struct identity_conf *c)
{
	k->conf.grace_ms = grace_ms;
	k->conf.identity = *c;
}

void kept_free(struct kept *k)
{
	if (!k)
		return;
	kube_cancel(k->call);
	loop_del_timer(k->timer);
	for (size_t i = 0; i < k->n; i++)
		holder_done(&k->v[i]);
	free(k->v);
	free(k->ns);
	free(k->name);
	free(k->said);
	migration_place_done(&k->q.place);
	free(k);
}

/* Whether the owner of a retained address still exists: the requests to the API server and what their answers mean. */

static const struct kube_kind sets = {"apps", "v1", "statefulsets", "statefulset", true};
static const struct kube_kind vmis = {"kubevirt.io", "v1", "virtualmachineinstances",
				      "virtualmachineinstance", true};
static const struct kube_kind vms = {"kubevirt.io", "v1", "virtualmachines", "virtualmachine",
				     true};
static const struct kube_kind endpoints = {"spiderpool.spidernet.io", "v2beta1", "spiderendpoints",
					   "spiderendpoint", true};

static int64_t number(const struct json *v, int64_t otherwise)
{
	int64_t n;

	return json_int(v, &n) == 0 ? n : otherwise;
}

static struct identity_set read_set(const struct json *object)
{
	const struct json *spec = json_get(object, "spec");

	return (struct identity_set){
		.known = true,
		.exists = object != NULL,
		.start = number(json_get(json_get(spec, "ordinals"), "start"), 0),
		.replicas = number(json_get(spec, "replicas"), 1),
	};
}

static bool is_deleting(const struct json *object)
{
	return json_string(json_get(json_get(object, "metadata"), "deletionTimestamp")) != NULL;
}

void kept_question_learn(struct kept_question *q, const struct json *object)
{
	switch (q->step) {
	case KEPT_SET: q->set = read_set(object); break;
	case KEPT_VMI:
		q->machine.vmi_exists = object != NULL;
		q->machine.vmi_deleting = is_deleting(object);
		break;
	case KEPT_VM:
		q->machine.known = true;
		q->machine.vm_exists = object != NULL;
		q->machine.vm_deleting = is_deleting(object);
		break;
	case KEPT_ENDPOINT:
		if (object)
			migration_place_read(object, &q->place, NULL);
		break;
	case KEPT_END: break;
	}
}

bool kept_question_subject(const struct kept_question *q, const struct identity_conf *c,
			   const char *ns, const char *name, struct kube_ref *ret,
			   char set[static 254])
{
	uint64_t ordinal;

	*ret = (struct kube_ref){.ns = ns, .name = name};
	switch (q->step) {
	case KEPT_SET:
		ret->kind = &sets;
		ret->name = set;
		return c->statefulset && identity_ordinal(name, set, &ordinal);
	case KEPT_VMI: ret->kind = &vmis; return c->kubevirt;
	case KEPT_VM: ret->kind = &vms; return c->kubevirt;
	case KEPT_ENDPOINT: ret->kind = &endpoints; return true;
	case KEPT_END: break;
	}
	return false;
}
