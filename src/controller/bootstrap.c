/* SPDX-License-Identifier: Apache-2.0 */
#include "controller/bootstrap.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/backoff.h"
#include "base/log.h"
#include "controller/coordinator/cidr_read.h"
#include "controller/nad/render.h"
#include "kube/kinds.h"
#include "spec/annotations.h"

enum {
	BODY_MAX = 16 << 10,
	AGAIN_MS = 1000,
	AGAIN_MOST_MS = 60 * 1000,
	UNKNOWN_MS = 2000,
	NAME_MAX_LEN = 253
};

#define CALICO_NETWORK "k8s-pod-network"

struct defaults {
	struct defaults_conf c;
	size_t step;  /* index in steps[] of go_on() */
	bool unknown; /* true: the network's name is unknown, which was logged */
	struct kube_call *call;
	struct loop_alarm again;
	struct backoff backoff;
};

/* --- request bodies --- */

static void begin(struct json_out *o, struct buf *b, const char *kind, const char *name)
{
	jo_init(o, b, 0);
	jo_obj(o);
	jo_kstr(o, "apiVersion", SPIDERPOOL_API);
	jo_kstr(o, "kind", kind);
	jo_key(o, "metadata");
	jo_obj(o);
	jo_kstr(o, "name", name);
}

static void defaults_coordinator(struct buf *b, const struct defaults_conf *c)
{
	struct cidr_list hijack = {0};
	struct json_out o;

	cidr_list_add(&hijack, c->hijack);
	begin(&o, b, "SpiderCoordinator", c->name);
	jo_end_obj(&o);
	jo_key(&o, "spec");
	jo_obj(&o);
	jo_kstr(&o, "mode", c->mode);
	jo_kstr(&o, "podCIDRType", c->type);
	jo_kbool(&o, "tunePodRoutes", true);
	if (hijack.n > 0)
		jo_kstrs(&o, "hijackCIDR", hijack.v, hijack.n);
	jo_end_obj(&o);
	jo_end_obj(&o);
	cidr_list_done(&hijack);
}

/* Checks characters, ends and length of an object's name; the API server checks the rest. */
static bool is_name(const char *s)
{
	size_t n = strspn(s, "abcdefghijklmnopqrstuvwxyz0123456789.-");

	return n > 0 && n <= NAME_MAX_LEN && !s[n] && !strchr(".-", s[0]) &&
	       !strchr(".-", s[n - 1]);
}

/* Writes the object of a network; returns false if the network's name is not valid as an object's
 * name. */
static bool defaults_network(struct buf *b, const struct defaults_conf *c, const char *network)
{
	bool calico = strcmp(network, CALICO_NETWORK) == 0;
	struct json_out o;

	if (!is_name(network))
		return false;
	begin(&o, b, "SpiderMultusConfig", calico ? "calico" : network);
	jo_kstr(&o, "namespace", c->ns);
	if (calico) {
		jo_key(&o, "annotations");
		jo_obj(&o);
		jo_kstr(&o, ANNOTATION_NAD_NAME, network);
		jo_end_obj(&o);
	}
	jo_end_obj(&o);
	jo_key(&o, "spec");
	jo_obj(&o);
	jo_kstr(&o, "cniType", "custom");
	jo_kbool(&o, "enableCoordinator", false);
	jo_end_obj(&o);
	jo_end_obj(&o);
	return true;
}

/* --- creation of the default objects --- */

static void go_on(void *arg);

static void on_done(void *arg, int status, const struct json *object, const struct err *e)
{
	const struct json *meta = json_get(object, "metadata");
	struct defaults *d = arg;

	d->call = NULL;
	/*
	 * 409: the object exists by now. 422: the settings are invalid; the next objects are
	 * created nevertheless.
	 */
	if (e && status == 422)
		log_error("a default object was refused: correct the settings",
			  LOG_S("error", e->text));
	if (e && status != 409 && status != 422) {
		log_error("failed to create a default object, will retry", LOG_S("error", e->text));
		loop_alarm_set(&d->again, backoff_next(&d->backoff));
		return;
	}
	if (!e)
		log_info("created a default object",
			 LOG_S("kind", json_string(json_get(object, "kind"))),
			 LOG_S("name", json_string(json_get(meta, "name"))));
	backoff_reset(&d->backoff);
	d->step++;
	go_on(d);
}

static void create(struct defaults *d, const struct kube_kind *kind, const char *name,
		   const struct buf *b)
{
	const struct kube_request r = {
		.verb = KUBE_CREATE,
		.on = {.kind = kind, .ns = kind->namespaced ? d->c.ns : NULL, .name = name},
		.body = buf_span(b),
	};

	d->call = kube_send(d->c.kube, &r, on_done, d);
}

static bool make_coordinator(struct defaults *d)
{
	auto_buf struct buf b;

	buf_init(&b, BODY_MAX);
	if (!d->c.coordinator || kube_cache_count(d->c.cache, CLUSTER_CACHE_COORDINATORS) > 0)
		return false;
	defaults_coordinator(&b, &d->c);
	create(d, &kube_coordinators, d->c.name, &b);
	return true;
}

/* Returns whether the controller's namespace has the network's SpiderMultusConfig or NAD, whatever
 * program created it. */
static bool is_there(const struct defaults *d, const char *network)
{
	const char *name = strcmp(network, CALICO_NETWORK) == 0 ? "calico" : network;

	return kube_cache_get(d->c.cache, CLUSTER_CACHE_MULTUSCONFIGS, d->c.ns, name) ||
	       kube_cache_get(d->c.cache, CLUSTER_CACHE_NADS, d->c.ns, network);
}

static bool make_network(struct defaults *d)
{
	auto_free char *network = NULL;
	struct err e = ERR_INIT;
	auto_buf struct buf b;

	buf_init(&b, BODY_MAX);
	/* This is the last step, so that the other objects do not wait until the agent publishes
	 * the name. */
	if (d->c.network && cidr_network(d->c.root, &d->c.cni, &network, &e) < 0) {
		if (!d->unknown)
			log_warn("cannot create the SpiderMultusConfig of the cluster's network "
				 "yet, will retry",
				 LOG_S("error", e.text));
		d->unknown = true;
		loop_alarm_set(&d->again, UNKNOWN_MS);
		return true;
	}
	if (!network || is_there(d, network))
		return false;
	if (!defaults_network(&b, &d->c, network)) {
		log_warn("cannot create the SpiderMultusConfig of the cluster's network: its name "
			 "is not a valid object name",
			 LOG_S("network", network));
		return false;
	}
	create(d, &kube_multusconfigs, network, &b);
	return true;
}

static bool is_between(char c)
{
	return c && (strchr(",\"'[]", c) || isspace((unsigned char)c));
}

/* Writes `ips` from "10.6.0.2-10.6.0.9,10.6.0.20", or a list as Helm writes it:
 * ["10.6.0.2-10.6.0.9","10.6.0.20"]. */
static void put_ranges(struct json_out *o, const char *text)
{
	jo_key(o, "ips");
	jo_arr(o);
	while (text && *text) {
		size_t n = 0;

		while (text[n] && !is_between(text[n]))
			n++;
		if (n > 0) {
			auto_free char *range = span_dup((struct span){text, n});

			jo_str(o, range);
		}
		text += n + (text[n] != '\0');
	}
	jo_end_arr(o);
}

/* Writes a pool or subnet. The API server or our webhook validates the settings' values. */
static void put(struct buf *b, const struct defaults_pool *p, const char *kind, const char *name,
		bool is_default)
{
	struct json_out o;

	jo_init(&o, b, 0);
	jo_obj(&o);
	jo_kstr(&o, "apiVersion", SPIDERPOOL_API);
	jo_kstr(&o, "kind", kind);
	jo_key(&o, "metadata");
	jo_obj(&o);
	jo_kstr(&o, "name", name);
	jo_end_obj(&o);
	jo_key(&o, "spec");
	jo_obj(&o);
	jo_kstr(&o, "subnet", p->cidr ? p->cidr : "");
	put_ranges(&o, p->ips);
	if (p->gateway)
		jo_kstr(&o, "gateway", p->gateway);
	if (is_default)
		jo_kbool(&o, "default", true);
	jo_end_obj(&o);
	jo_end_obj(&o);
}

static void defaults_subnet(struct buf *b, const struct defaults_pool *p)
{
	put(b, p, "SpiderSubnet", p->subnet, false);
}

static bool make_subnet(struct defaults *d, const struct defaults_pool *p)
{
	auto_buf struct buf b;

	buf_init(&b, BODY_MAX);
	if (!p->name || !p->subnet ||
	    kube_cache_get(d->c.cache, CLUSTER_CACHE_SUBNETS, "", p->subnet))
		return false;
	defaults_subnet(&b, p);
	create(d, &kube_subnets, p->subnet, &b);
	return true;
}

static bool make_pool(struct defaults *d, const struct defaults_pool *p)
{
	auto_buf struct buf b;

	buf_init(&b, BODY_MAX);
	if (!p->name || kube_cache_get(d->c.cache, CLUSTER_CACHE_POOLS, "", p->name))
		return false;
	defaults_pool(&b, p);
	create(d, &kube_ippools, p->name, &b);
	return true;
}

static bool make_subnet4(struct defaults *d)
{
	return make_subnet(d, &d->c.pools[0]);
}

static bool make_pool4(struct defaults *d)
{
	return make_pool(d, &d->c.pools[0]);
}

static bool make_subnet6(struct defaults *d)
{
	return make_subnet(d, &d->c.pools[1]);
}

static bool make_pool6(struct defaults *d)
{
	return make_pool(d, &d->c.pools[1]);
}

static void go_on(void *arg)
{
	struct defaults *d = arg;
	static const enum cluster_cache_kind needs[] = {CLUSTER_CACHE_COORDINATORS,
							CLUSTER_CACHE_MULTUSCONFIGS,
							CLUSTER_CACHE_NADS, CLUSTER_CACHE_SUBNETS,
							CLUSTER_CACHE_POOLS};
	/* The steps, each of which returns true if a request is in flight or a timer runs. */
	static bool (*const steps[])(struct defaults * d) = {
		make_coordinator, make_subnet4, make_pool4, make_subnet6, make_pool6, make_network};

	for (size_t i = 0; i < ARRAY_LEN(needs); i++)
		if (!kube_cache_synced(d->c.cache, needs[i])) {
			loop_alarm_set(&d->again, AGAIN_MS);
			return;
		}
	while (d->step < ARRAY_LEN(steps) && !steps[d->step](d))
		d->step++;
}

struct defaults *defaults_new(const struct defaults_conf *c)
{
	struct defaults *d = xcalloc(1, sizeof(*d));

	*d = (struct defaults){.c = *c,
			       .backoff = {AGAIN_MS, AGAIN_MOST_MS, 0},
			       .again = LOOP_ALARM(kube_loop(c->kube), go_on, d)};
	loop_alarm_set(&d->again, 0);
	return d;
}

void defaults_free(struct defaults *d)
{
	if (!d)
		return;
	kube_cancel(d->call);
	loop_alarm_cancel(&d->again);
	free(d);
}

void defaults_pool(struct buf *b, const struct defaults_pool *p)
{
	put(b, p, "SpiderIPPool", p->name, true);
}
