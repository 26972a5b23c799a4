/* SPDX-License-Identifier: Apache-2.0 */
/* A full scan: what does not fit together, twice in a row, and is not for the controller to decide. */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "controller/gc/reap_priv.h"
#include "ipam/journal/journal_line.h"

enum { SAID_MOST = 10 };

struct held {
	struct ipaddr ip;
	const struct kube_object *o; /* its endpoint */
};

struct scan {
	struct reap *g;
	struct held *held;		    /* by address */
	const struct block_object **blocks; /* by their first address */
	size_t n_held, n_blocks;
	uint64_t *findings;
	size_t n_findings, said;
};

/* --- what there is --- */

static int by_ip(const void *a, const void *b)
{
	return ip_cmp(&((const struct held *)a)->ip, &((const struct held *)b)->ip);
}

static int by_net(const void *a, const void *b)
{
	const struct block_object *const *x = a, *const *y = b;

	return ip_cmp(&(*x)->net.ip, &(*y)->net.ip);
}

static void collect(struct scan *s)
{
	const struct census *c = s->g->conf.census;

	for (size_t i = 0; i < census_count(c, CENSUS_ENDPOINTS); i++) {
		const struct kube_object *o = census_at(c, CENSUS_ENDPOINTS, i);
		const struct census_endpoint *x = census_endpoint(o);

		for (size_t k = 0; x->ours && k < x->n; k++)
			VEC_PUSH(s->held, s->n_held) = (struct held){x->v[k].ip, o};
	}
	if (s->n_held)
		qsort(s->held, s->n_held, sizeof(*s->held), by_ip);
	for (size_t i = 0; i < census_count(c, CENSUS_BLOCKS); i++)
		VEC_PUSH(s->blocks, s->n_blocks) = &census_block(census_at(c, CENSUS_BLOCKS, i))->o;
	if (s->n_blocks)
		qsort(s->blocks, s->n_blocks, sizeof(*s->blocks), by_net);
}

/* The last that begins at or before the address: blocks do not overlap. */
static const struct block_object *block_of(const struct scan *s, const struct ipaddr *ip)
{
	size_t low = 0, high = s->n_blocks;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (ip_cmp(&s->blocks[mid]->net.ip, ip) <= 0)
			low = mid + 1;
		else
			high = mid;
	}
	return low > 0 && ipnet_contains(&s->blocks[low - 1]->net, ip) ? s->blocks[low - 1] : NULL;
}

/* --- findings --- */

static int by_number(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

/* Whether the last scan found it, too: what is being written is not whole for a moment. */
static bool is_again(struct scan *s, char what, const struct held *h)
{
	const struct reap *g = s->g;
	char ip[IP_TEXT_MAX];
	auto_free char *text =
		xasprintf("%c%s %s/%s", what, ip_str(&h->ip, ip), h->o->ns, h->o->name);
	uint64_t digest = xxh64(text, strlen(text));

	VEC_PUSH(s->findings, s->n_findings) = digest;
	return g->n_findings &&
	       bsearch(&digest, g->findings, g->n_findings, sizeof(digest), by_number);
}

static void say(struct scan *s, const char *what, const struct held *h, const char *other)
{
	auto_free char *name = xasprintf("%s/%s", h->o->ns, h->o->name);
	char ip[IP_TEXT_MAX];

	if (s->said++ >= SAID_MOST)
		return;
	log_error(what, LOG_S("address", ip_str(&h->ip, ip)), LOG_S("pod", name),
		  LOG_S("node", census_endpoint(h->o)->node), LOG_S("other", other));
}

static void look_for_doubles(struct scan *s)
{
	for (size_t i = 1; i < s->n_held; i++) {
		const struct held *a = &s->held[i - 1], *b = &s->held[i];
		auto_free char *other = NULL;

		if (!ip_eq(&a->ip, &b->ip) || a->o == b->o || !is_again(s, 'd', b))
			continue;
		s->g->stats.doubles++;
		other = xasprintf("%s/%s", a->o->ns, a->o->name);
		say(s, "full scan: an address has two pods: delete one of them", b, other);
	}
}

static bool is_covered(const struct scan *s, const struct held *h)
{
	const struct block_object *o = block_of(s, &h->ip);
	const struct block_entry *x = o ? block_entry_find(o, &h->ip) : NULL;
	const char *node = census_endpoint(h->o)->node;

	return o && (x ? block_entry_is_of(x, node) : strcmp(o->node, node) == 0);
}

/* What is kept for a name on a node that is gone is nobody's. */
static bool is_live(const struct scan *s, const struct kube_object *o)
{
	const struct kube_object *pod = census_get(s->g->conf.census, CENSUS_PODS, o->ns, o->name);

	return pod && !census_pod(pod)->finished && strcmp(pod->uid, census_endpoint(o)->uid) == 0;
}

static void look_for_strays(struct scan *s)
{
	for (size_t i = 0; i < s->n_held; i++) {
		const struct held *h = &s->held[i];
		const struct block_object *o;

		if (is_covered(s, h) || !is_live(s, h->o) || !is_again(s, 's', h))
			continue;
		o = block_of(s, &h->ip);
		s->g->stats.strays++;
		say(s,
		    "full scan: a pod has an address that its node has no block of: the node's "
		    "agent says so again when it runs",
		    h, o ? o->name : "no block");
	}
}

/* It may be one that would say so. */
static void count_unknown(const struct scan *s)
{
	struct reap *g = s->g;

	g->stats.unknown = 0;
	for (size_t i = 0; i < s->n_blocks; i++)
		g->stats.unknown += reap_unknown(s->blocks[i]);
	if (g->stats.unknown && g->cut_off)
		log_warn("full scan: addresses that nobody is known to have stay so until all "
			 "nodes are Ready: repair this one, delete its Node object, or set the "
			 "taint node.kubernetes.io/out-of-service",
			 LOG_I("addresses", (int64_t)g->stats.unknown), LOG_S("node", g->cut_off));
}

void reap_scan(struct reap *g)
{
	struct scan s = {.g = g};

	collect(&s);
	g->stats.doubles = g->stats.strays = 0;
	look_for_doubles(&s);
	look_for_strays(&s);
	count_unknown(&s);
	free(g->findings);
	g->findings = s.findings;
	g->n_findings = s.n_findings;
	if (g->n_findings)
		qsort(g->findings, g->n_findings, sizeof(*g->findings), by_number);
	g->stats.scans++;
	log_info("full scan",
		 LOG_I("endpoints", (int64_t)census_count(g->conf.census, CENSUS_ENDPOINTS)),
		 LOG_I("addresses", (int64_t)s.n_held), LOG_I("blocks", (int64_t)s.n_blocks),
		 LOG_I("nodes_gone", (int64_t)g->stats.nodes_gone),
		 LOG_I("doubles", (int64_t)g->stats.doubles),
		 LOG_I("strays", (int64_t)g->stats.strays),
		 LOG_I("unknown", (int64_t)g->stats.unknown));
	free(s.held);
	free(s.blocks);
}
