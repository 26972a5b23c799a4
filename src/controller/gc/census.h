/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CONTROLLER_GC_CENSUS_H
#define UNIRAIL_CONTROLLER_GC_CENSUS_H

/*
 * The leader's cache of nodes, pods, SpiderEndpoints and SpiderIPBlocks, from watches. Of each pod
 * only a few fields are cached, since there may be 20,000. A kind is empty until its first list. A
 * caller that acts on the absence of an object checks census_is_whole() first and confirms the
 * absence with the API server (controller/gc/confirm.h).
 */

#include "block/table.h"
#include "kube/client.h"
#include "kube/object_store.h"

enum census_kind { CENSUS_NODES, CENSUS_PODS, CENSUS_ENDPOINTS, CENSUS_BLOCKS, CENSUS_KINDS };

/* Values of the cached objects (kube_object.value). */
struct census_node {
	bool ready;
	bool fenced; /* taint node.kubernetes.io/out-of-service: an administrator states that the
	              * machine is off */
};

struct census_pod {
	bool finished, deleting, host_network;
	bool networks;	    /* annotation k8s.v1.cni.cncf.io/networks is not empty */
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
	bool ours;  /* last written by an agent of unirail, not by Spiderpool */
	bool owned; /* has a pod as owner; otherwise its addresses are retained for the pod's name
	             */
	bool deleting;
	bool finalizer; /* has Spiderpool's finalizer; `others` are the remaining ones, each
	                 * NUL-terminated, "" at the end */
	char *others;
	int64_t since; /* for the caller's use; reset to 0 when the object changes */
	void *all;
};

struct census_block {
	struct block_object o;
	int64_t set_back; /* when its agent detected an etcd restore, in ms since 1970; 0: never */
	int64_t since;	  /* for the caller's use, as above */
};

struct census;

struct census_conf {
	struct kube *kube;
	/*
	 * Called for each change of a kind. was NULL: the object is new; is NULL: it was deleted.
	 */
	void (*changed)(void *arg, enum census_kind kind, const struct kube_object *was,
			const struct kube_object *is);
	void *arg;
};

struct census *census_new(const struct census_conf *c);
void census_free(struct census *c); /* call before kube_free(); accepts NULL */

bool census_synced(const struct census *c, enum census_kind kind); /* listed at least once */
/* Whether every kind was listed and every watch works now. */
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

/* --- internals, visible for tests --- */

void census_read_node(const struct json *object, struct census_node *ret);
void census_read_endpoint(const struct json *object, struct census_endpoint *ret);
void census_endpoint_done(struct census_endpoint *p);

#endif
