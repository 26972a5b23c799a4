/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CONTROLLER_GC_CENSUS_H
#define UNIRAIL_CONTROLLER_GC_CENSUS_H

/*
 * What the leader knows of nodes, pods, SpiderEndpoints and SpiderIPBlocks, from watches: of 20,000
 * pods only what says whether they live. Nothing is known of a kind before its first list; who acts
 * upon something's absence asks census_is_whole() before and the API server after (controller/gc/confirm.h).
 */

#include "block/table.h"
#include "kube/client.h"
#include "kube/object_store.h"

enum census_kind { CENSUS_NODES, CENSUS_PODS, CENSUS_ENDPOINTS, CENSUS_BLOCKS, CENSUS_KINDS };

/* kube_object.value of each. */
struct census_node {
	bool ready;
	bool fenced; /* taint node.kubernetes.io/out-of-service: its machine runs no more */
};

struct census_pod {
	bool finished, deleting, host_network;
	bool networks;	    /* annotation k8s.v1.cni.cncf.io/networks names any */
	unsigned char asks; /* inject_asks() of its annotations */
	char *node;	    /* "": not scheduled */
};

struct census_ip {
	struct ipaddr ip;
	const char *pool;
};

struct census_endpoint {
	const char *uid, *node;	   /* of the pod */
	const struct census_ip *v; /* status.current.ips */
	size_t n;
	bool ours;  /* an agent of ours wrote it last */
	bool owned; /* it belongs to a pod; else its addresses are kept for its name */
	bool deleting;
	bool finalizer; /* it has Spiderpool's; then `others`, each with a NUL, "" at the end */
	char *others;
	int64_t since; /* the caller's; 0 whenever the object changes */
	void *all;
};

struct census_block {
	struct block_object o;
	int64_t set_back; /* when its agent saw the server's data set back, in ms since 1970; 0: never */
	int64_t since; /* the caller's, as above */
};

struct census;

struct census_conf {
	struct kube *kube;
	/* A kind's object changed: was NULL: new; is NULL: gone. */
	void (*changed)(void *arg, enum census_kind kind, const struct kube_object *was,
			const struct kube_object *is);
	void *arg;
};

struct census *census_new(const struct census_conf *c);
void census_free(struct census *c); /* before kube_free(); NULL is fine */

bool census_synced(const struct census *c, enum census_kind kind); /* it was listed once */
/* Every kind was listed, and is followed now. */
bool census_is_whole(const struct census *c);
const struct kube_object *census_get(const struct census *c, enum census_kind kind, const char *ns,
				     const char *name);
size_t census_count(const struct census *c, enum census_kind kind);
const struct kube_object *census_at(const struct census *c, enum census_kind kind, size_t i);

static inline const struct census_node *census_node(const struct kube_object *o)
{
	return (const struct census_node *)o->value;
}

static inline const struct census_pod *census_pod(const struct kube_object *o)
{
	return (const struct census_pod *)o->value;
}

static inline struct census_endpoint *census_endpoint(const struct kube_object *o)
{
	return (struct census_endpoint *)o->value;
}

static inline struct census_block *census_block(const struct kube_object *o)
{
	return (struct census_block *)o->value;
}

/* --- its part, for tests --- */

void census_read_node(const struct json *object, struct census_node *ret);
void census_read_endpoint(const struct json *object, struct census_endpoint *ret);
void census_endpoint_done(struct census_endpoint *p);

#endif
