/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_IPAM_POOL_POOL_CLUSTER_H
#define UNIRAIL_IPAM_POOL_POOL_CLUSTER_H

/*
 * Pools of a cluster: SpiderIPPool and SpiderReservedIP objects. Of each there is kept one line of
 * JSON with no more than counts (pool_kube_text()), and the set is made of all lines at once
 * (pool_kube_set()); the same lines give the same set on every node.
 *
 * A pool that cannot be used is left out with its reason and never fails the others: whoever asks for
 * it by name is told. Of two pools that overlap the one that was created first stays (by name when in
 * the same second); if it was changed since, those of its addresses that the other claims as well are
 * handed out by neither. The pools are in the natural order of their names: rail2 before rail10.
 *
 * What Spiderpool handed out before (status.allocatedIPs) is adopted: such an address goes to the
 * pod that has it, if that asks again, and to no other until its record is gone. Once a controller of
 * ours writes allocatedIPs it moves those old records into the annotation unirail.io/adopted, which
 * then counts instead. A record that is not among its own pool's addresses (they were changed) keeps
 * that address from all pools.
 *
 * Annotation unirail.io/block-prefix: the prefix length of the pool's blocks. Without it
 * block_cut_choose() says, and whoever claims the first block writes it before.
 */

#include "ipam/pool/pool.h"

#define POOL_ADOPTED_NOTE      "unirail.io/adopted"
#define POOL_BLOCK_PREFIX_NOTE "unirail.io/block-prefix"

struct json;

enum { POOL_KUBE_TEXT_MAX = 4 << 20 };

/* The object's line; `kind` is in no item of a list, so tell. Fails only when the object has no name
 * or is too long: what else is wrong with it is the set's matter. */
int pool_kube_text(const struct json *object, const char *kind, char **ret, struct err *e);

/*
 * Of all lines, of pools and reserved addresses, in any order. agent_ns: the namespace of a network
 * in multusName that names none. `usable` of each pool is `open`; cut it with pool_kube_cut(). The
 * settings are the defaults (rest 60 s, quarantine 10 min).
 *
 * Reasons are in ret->out: those of SpiderReservedIP objects under "SpiderReservedIP/NAME".
 */
void pool_kube_set(const char *const *lines, size_t n, const char *agent_ns, struct pool_set *ret);

/* What this node has of the pool: of `open`, and of `adopted`. Both are moved in. */
void pool_kube_cut(struct pool *p, struct ip_set *open, struct ip_set *adopted);

/* The record of an address; NULL: there is none. */
const struct pool_record *pool_record_find(const struct pool *p, const struct ipaddr *a);

/* Records as text: {"10.6.0.2":{"pod":"default/web-0","podUid":"..."}}; NULL and "" have none. */
typedef void (*pool_record_fn)(void *arg, const struct ipaddr *ip, const char *pod,
			       const char *uid);
int pool_records_read(const char *text, pool_record_fn fn, void *arg, struct err *e);

#endif
