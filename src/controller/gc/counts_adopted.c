/* SPDX-License-Identifier: Apache-2.0 */
/* Records of before unirail: whose pod is gone. */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "base/log.h"
#include "controller/gc/counts_priv.h"
#include "kube/kinds.h"

/* "namespace/name", cut in two; false: it names no pod. */
static bool name_of(const struct record *r, char **ns, const char **name)
{
	const char *slash = strchr(r->pod, '/');

	if (!slash || slash == r->pod || !slash[1])
		return false;
	*ns = span_dup((struct span){r->pod, (size_t)(slash - r->pod)});
	*name = slash + 1;
	return true;
}

/* Its node cannot be asked, and nobody has said that it runs no more: the container may. */
static bool is_cut_off(const struct counts *c, const char *ns, const char *name)
{
	const struct kube_object *x = census_get(c->conf.census, CENSUS_ENDPOINTS, ns, name), *n;

	if (!x || !*census_endpoint(x)->node)
		return false;
	n = census_get(c->conf.census, CENSUS_NODES, "", census_endpoint(x)->node);
	return n && !census_node(n)->ready && !census_node(n)->fenced;
}

static bool is_gone(const struct counts *c, const struct record *r)
{
	auto_free char *ns = NULL;
	const struct kube_object *pod;
	bool gone, name_gone, long_gone;
	const char *name;

	if (!name_of(r, &ns, &name))
		return false;
	pod = census_get(c->conf.census, CENSUS_PODS, ns, name);
	if (pod && !census_pod(pod)->finished && (!*r->uid || strcmp(pod->uid, r->uid) == 0))
		return false;
	if (is_cut_off(c, ns, name))
		return false;
	/* All are asked, so that one does not wait for the other. */
	gone = asks_pod(c->conf.asks, ns, name, r->uid) == ASKS_GONE;
	name_gone = asks_name(c->conf.asks, ns, name) == ASKS_GONE;
	long_gone = asks_pod_gone_ms(c->conf.asks, ns, name, r->uid) >= c->conf.grace_ms;
	return gone && name_gone && long_gone;
}

/* Told when it is done. */
static void note(struct counts_pool *p, const struct record *r)
{
	char ip[IP_TEXT_MAX];

	VEC_PUSH(p->freed, p->n_freed) = xasprintf("%s is free again: pod '%s' (UID %s) is gone",
						   ip_str(&r->ip, ip), r->pod, r->uid);
}

size_t counts_judge(struct counts_pool *p, struct records *r)
{
	const struct counts *c = p->c;
	size_t kept = 0, gone;

	for (size_t i = 0; i < r->n; i++) {
		if (!c->conf.gc || world_hold(c->conf.world) != WORLD_SURE || !is_gone(c, &r->v[i]))
			r->v[kept++] = r->v[i];
		else
			note(p, &r->v[i]);
	}
	gone = r->n - kept;
	r->n = kept;
	return gone;
}

void counts_freed(struct counts_pool *p, bool done)
{
	struct counts *c = p->c;

	for (size_t i = 0; done && i < p->n_freed; i++) {
		log_info("an old record is dropped", LOG_S("pool", p->name),
			 LOG_S("why", p->freed[i]));
		kube_events_add(c->conf.events, &(struct kube_event){.api_version = SPIDERPOOL_API,
								     .kind = "SpiderIPPool",
								     .name = p->name,
								     .reason = "AddressFreed",
								     .message = p->freed[i]});
		c->stats.freed++;
	}
	str_list_free(p->freed, p->n_freed);
	p->freed = NULL;
	p->n_freed = 0;
}
