/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_IPAM_POOL_POOL_CLUSTER_H
#define UNIRAIL_IPAM_POOL_POOL_CLUSTER_H

/*
 * Pools of a cluster: SpiderIPPool and SpiderReservedIP objects. Each object is stored as one line
 * of JSON with only the fields that are used (pool_kube_text()), and the set is built from all
 * lines at once (pool_kube_set()); the same lines give the same set on every node.
 *
 * A pool that cannot be used is left out with its reason, without affecting the others; a request
 * for it by name fails with that reason. Of two overlapping pools the one created first stays (the
 * first by name if in the same second); if the spec of that pool was changed after its creation,
 * the addresses that both contain are allocated from neither. Pools are in the natural order of
 * their names: rail2, rail10.
 *
 * Addresses that Spiderpool allocated before (status.allocatedIPs) are adopted: such an address is
 * allocated to the pod in its record, if that pod requests it again, and to no other pod until the
 * record is removed. When unirail's controller maintains allocatedIPs, it moves the old records to
 * the annotation unirail.io/adopted, which then replaces them. If a pool was changed and no longer
 * contains the address of one of its records, no pool allocates that address.
 *
 * Annotation unirail.io/block-prefix: the prefix length of the pool's blocks. Without it
 * block_cut_choose() chooses the length, and the node that claims the first block writes the
 * annotation before it claims.
 */

#include "ipam/pool/pool.h"

struct json;

enum { POOL_KUBE_TEXT_MAX = 4 << 20 };

/* Sets *ret to the stored line of an object. The caller passes `kind`, because the items of a
 * list do not contain it. Fails only if the object has no name or is too long; other errors are
 * found when the set is built. */
int pool_kube_text(const struct json *object, const char *kind, char **ret, struct err *e);
/* Returns whether two lines of a pool differ at most in the block size. */
bool pool_kube_same_addresses(const char *a, const char *b);

/*
 * Builds the set from all lines, of pools and reserved addresses, in any order. agent_ns: namespace
 * of networks in multusName that have none. `usable` of each pool is `open`; limit it with
 * pool_kube_cut(). Settings are the defaults (reuse delay 60 s, quarantine 10 min).
 *
 * ret->out has the pools that are left out, with the reasons; an invalid SpiderReservedIP object is
 * in it as "SpiderReservedIP/NAME".
 */
void pool_kube_set(const char *const *lines, size_t n, const char *agent_ns, struct pool_set *ret);

/* Moves *open, the addresses that this node may allocate to any pod, to p->usable, and *adopted,
 * the addresses that stay with their owner, to p->adopted_here. Both arguments become empty. */
void pool_kube_cut(struct pool *p, struct ip_set *open, struct ip_set *adopted);

/* pool_records_read() parses records, {"10.6.0.2":{"pod":"default/web-0","podUid":"..."}}, and
 * calls fn for each record. If text is NULL or "", there are no records. */
typedef void (*pool_record_fn)(void *arg, const struct ipaddr *ip, const char *pod,
			       const char *uid);
int pool_records_read(const char *text, pool_record_fn fn, void *arg, struct err *e);

#endif
