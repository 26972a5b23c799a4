/* SPDX-License-Identifier: Apache-2.0 */
/* Which pod a request is about: from the watch, else by one request of our own. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/api/api.h"
#include "base/cleanup.h"
#include "base/log.h"

static const char *text(const char *s)
{
	return s ? s : "";
}

static void answer_failure(struct api_call *c, const struct err *e)
{
	log_limited(LOG_WARN, 1, "no addresses given", LOG_S("path", c->route->path),
		    LOG_S("error", e->text));
	api_call_fail(c, e);
	api_call_free(c);
}

static int judge(const struct pod_facts *p, const struct api_pod *asked, struct err *e)
{
	if (*text(asked->uid) && strcmp(asked->uid, p->uid) != 0 && !pod_is_static(p))
		return err_kind(e, ERR_AGAIN, -ESTALE,
				"pod '%s/%s' has UID %s at the API server, the runtime asks for "
				"%.64s: another pod of that name took its place",
				p->ns, p->name, p->uid, asked->uid);
	return pod_check_alive(p, e);
}

/* Of a pod that nobody can be asked about, there is what the runtime says. */
static void take_asked(struct api_call *c, const struct api_pod *asked, const struct err *why)
{
	log_limited(LOG_WARN, 2,
		    "a pod is not known while the API server is away: its pools are those of the "
		    "network's configuration",
		    LOG_S("namespace", asked->ns), LOG_S("pod", asked->name),
		    LOG_S("error", why->text));
	c->pod = (struct pod_facts){.ns = xstrdup(asked->ns),
				    .name = xstrdup(asked->name),
				    .uid = xstrdup(asked->uid),
				    .node = xstrdup("")};
	c->has_pod = c->pod_is_asked = true;
}

static void unlink_fetching(struct api_call *c)
{
	struct api_call **p = &c->api->fetching;

	while (*p != c)
		p = &(*p)->next;
	*p = c->next;
	c->next = NULL;
}

/* Whether the server said something about the pod, or was not there to ask. */
static bool is_away(const struct err *e)
{
	return e->kind == ERR_AGAIN && e->code != -ESTALE;
}

/* --- what made it, where its pools are made for that --- */

static void take_app(struct api_call *c, const struct app_id *app)
{
	if (!app)
		return;
	app_id_copy(app, &c->app);
	c->has_app = true;
	app_id_labels(app, &c->pod.labels); /* which its pools' podAffinity is about */
}

static void on_app(void *arg, const struct app_id *app, const struct err *why)
{
	struct api_call *c = arg;
	struct err e;

	if (!c->ask) { /* from within */
		take_app(c, app);
		return;
	}
	c->ask = NULL;
	unlink_fetching(c);
	if (why) {
		e = *why;
		err_wrap(&e, why->code, "look for what made pod '%s/%s'", c->pod.ns, c->pod.name);
		answer_failure(c, &e);
		return;
	}
	take_app(c, app);
	c->late = true;
	api_enqueue(c);
}

/* True: it goes on when that is known. */
static bool ask_app(struct api_call *c)
{
	const struct labels *l = &c->pod.annotations;

	if (!c->api->conf.pools.subnets || c->pod_is_asked ||
	    (!labels_get(l, AUTO_POOL_SUBNET) && !labels_get(l, AUTO_POOL_SUBNETS)))
		return false;
	c->ask = cluster_ask_app(c->api->conf.cluster, &c->pod, on_app, c);
	if (!c->ask)
		return false;
	c->next = c->api->fetching;
	c->api->fetching = c;
	return true;
}

static void on_pod(void *arg, const struct pod_facts *p, const struct err *why)
{
	struct err e = ERR_INIT;
	struct api_call *c = arg;
	struct metrics *m = c->api->conf.metrics;
	struct api_pod asked;
	int r = 0;

	c->fetch = NULL;
	unlink_fetching(c);
	c->route->pod(c, &asked);
	if (m)
		metrics_phase_time(m, METRICS_FACTS, now_mono_us() - c->begin_us);
	if (p) {
		pod_facts_copy(p, &c->pod);
		c->has_pod = true;
		r = judge(p, &asked, &e);
	} else if (is_away(why) && *text(asked.uid)) {
		take_asked(c, &asked, why);
	} else {
		e = *why;
		r = err_wrap(&e, why->code, "look for pod '%s/%s'", asked.ns, asked.name);
	}
	if (r < 0) {
		answer_failure(c, &e);
		return;
	}
	c->late = true;
	if (!ask_app(c))
		api_enqueue(c);
}

static bool is_known(const struct pod_facts *p, const struct api_pod *asked)
{
	return p && (!*text(asked->uid) || strcmp(p->uid, asked->uid) == 0 || pod_is_static(p));
}

bool api_gather(struct api_call *c)
{
	struct cluster *cluster = c->api->conf.cluster;
	const struct pod_facts *p;
	struct err e = ERR_INIT;
	struct api_pod asked;

	if (!cluster || !c->route->pod || !c->route->pod(c, &asked))
		return false;
	if (!*text(asked.ns) || !*text(asked.name)) {
		err_kind(&e, ERR_ENV, -EINVAL,
			 "the request names no pod: the runtime must pass K8S_POD_NAMESPACE and "
			 "K8S_POD_NAME in CNI_ARGS");
		answer_failure(c, &e);
		return true;
	}
	p = cluster_pod(cluster, asked.ns, asked.name);
	if (is_known(p, &asked)) {
		pod_facts_copy(p, &c->pod);
		c->has_pod = true;
		if (judge(p, &asked, &e) == 0)
			return ask_app(c);
		answer_failure(c, &e);
		return true;
	}
	c->next = c->api->fetching;
	c->api->fetching = c;
	c->fetch = cluster_fetch_pod(cluster, asked.ns, asked.name, on_pod, c);
	return true;
}
