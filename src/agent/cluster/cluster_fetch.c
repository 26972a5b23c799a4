/* SPDX-License-Identifier: Apache-2.0 */
/* A pod that the watch has not shown yet. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/cluster/cluster_priv.h"
#include "base/cleanup.h"

struct cluster_fetch {
	struct cluster *c;
	struct kube_call *call;
	cluster_pod_fn fn;
	void *arg;
	char *words; /* "ns/name" */
	struct cluster_fetch *next;
};

/* As long as a kubelet's patience with a plugin is worth it. */
enum { FETCH_MS = 10 * 1000 };

static void fetch_free(struct cluster_fetch *f)
{
	for (struct cluster_fetch **p = &f->c->fetches; *p; p = &(*p)->next)
		if (*p == f) {
			*p = f->next;
			break;
		}
	free(f->words);
	free(f);
}

static int judge(const struct cluster_fetch *f, const struct pod_facts *p, struct err *e)
{
	const char *node = f->c->conf.node;

	if (strcmp(p->node, node) == 0)
		return 0;
	if (!*p->node)
		return err_kind(e, ERR_AGAIN, -EAGAIN, "pod '%s' is not bound to a node yet",
				f->words);
	return err_kind(e, ERR_CONF, -EXDEV,
			"pod '%s' is of node '%s', and this is '%s': name this node as the API "
			"server does (NODE_NAME, or 'node' in the agent's settings)",
			f->words, p->node, node);
}

static void on_pod(void *arg, int status, const struct json *object, const struct err *why)
{
	struct cluster_fetch *f = arg;
	struct pod_facts p = {0};
	struct err e = ERR_INIT;
	int r;

	if (why) {
		e = *why;
		r = why->code;
		/* The pod's, not the namespace's: kube_status has its words. */
		if (status == 404)
			r = err_kind(&e, ERR_CONF, -ENOENT, "pod '%s' does not exist (any more)",
				     f->words);
	} else {
		r = pod_facts_read(object, &p, &e);
		if (r == 0)
			r = judge(f, &p, &e);
	}
	f->fn(f->arg, r == 0 ? &p : NULL, r == 0 ? NULL : &e);
	pod_facts_done(&p);
	fetch_free(f);
}

struct cluster_fetch *cluster_fetch_pod(struct cluster *c, const char *ns, const char *name,
					cluster_pod_fn fn, void *arg)
{
	const struct kube_request r = {.verb = KUBE_GET,
				       .on = {.kind = &kube_pods, .ns = ns, .name = name},
				       .timeout_ms = FETCH_MS};
	struct cluster_fetch *f = xcalloc(1, sizeof(*f));

	*f = (struct cluster_fetch){.c = c, .fn = fn, .arg = arg, .next = c->fetches};
	f->words = xasprintf("%s/%s", ns, name);
	c->fetches = f;
	f->call = kube_send(c->conf.kube, &r, on_pod, f);
	return f;
}

void cluster_fetch_cancel(struct cluster_fetch *f)
{
	if (!f)
		return;
	kube_cancel(f->call);
	fetch_free(f);
}

void cluster_fetch_drop_all(struct cluster *c)
{
	while (c->fetches)
		cluster_fetch_cancel(c->fetches);
}
