/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_IPAM_POOL_POOL_H
#define UNIRAIL_IPAM_POOL_POOL_H

/*
 * Pools, the user's objects. Read from a directory (default /etc/unirail/pools), files in the order
 * of their names: *.conf is INI (inih); *.json is a SpiderIPPool or SpiderReservedIP object, or a
 * List of them. A *.yaml or *.yml is refused with a hint how to convert it; files with other
 * extensions, or whose names begin with a dot, are ignored.
 *
 *	[pool rail0]
 *	subnet  = 172.16.1.0/24
 *	ips     = 172.16.1.10-172.16.1.99, 172.16.1.120
 *	exclude = 172.16.1.50
 *	gateway = 172.16.1.1
 *	route   = 172.16.0.0/16 via 172.16.1.1      ; may be repeated
 *	default = yes
 *	disable = no
 *	node = node1, node2 ; node names; empty: every node
 *	namespace = team-a                          ; namespaces of pods; empty: every namespace
 *	reuse-delay = 60s                           ; time before a released address is reused
 *
 *	[reserved]
 *	ips = 172.16.1.77
 *
 *	[settings]
 *	reuse-delay = 60s                           ; at most 1h
 *	quarantine = 10m                            ; at most 720h
 *	conflict-detection = no                     ; yes: probe an address before it is used
 *	gateway-detection = no
 *
 * Lists may also be given on several lines (a line has at most 1020 bytes). If two files have the
 * same setting, the later file takes precedence.
 *
 * Without `ips`, an INI pool has every usable address of the subnet (without network, broadcast and
 * gateway address); a SpiderIPPool object has none, as in Spiderpool. A subnet with host bits
 * (172.16.11.0/16) is read as its network, with a warning in the log.
 *
 * Errors name file, line (in JSON: the object), key and remedy (kind ERR_CONF): a malformed range,
 * a range outside its subnet, the gateway among the addresses, a default route among the routes,
 * pools that overlap, a duplicate name, and fields that only a cluster can evaluate (nodeAffinity,
 * namespaceAffinity, podAffinity, multusName).
 */

#include "base/file.h"
#include "block/block.h"
#include "base/ipset.h"
#include "ipam/pool/selector.h"

enum { POOL_REUSE_DELAY_MAX_MS = 3600 * 1000, POOL_NAME_MAX = 253 };
#define POOL_QUARANTINE_MAX_MS ((int64_t)720 * 3600 * 1000)

struct pool_route {
	struct ipnet dst;
	struct ipaddr gw;
};

struct pool {
	char *name;
	char *origin; /* "rails.conf:12", used in messages */
	uint8_t family;
	struct ipnet subnet;
	struct ip_set ips;     /* ips - exclude */
	struct ip_set usable;  /* `ips` without reserved addresses */
	struct ipaddr gateway; /* family 0: none */
	struct pool_route *routes;
	size_t n_routes;
	char **nodes, **namespaces;
	size_t n_nodes, n_namespaces;
	bool is_default, disabled;
	int64_t reuse_delay_ms; /* -1: the value of the set */

	/* --- pools of a cluster (pool_cluster.h); unset in pools of a local directory --- */
	struct selector node_affinity, namespace_affinity, pod_affinity;
	char **networks; /* multusName, each "namespace/name" */
	size_t n_networks;
	bool terminating;
	/* result of auto_pool_key(): names the subnet, application and interface of an automatic
	 * pool; NULL: not an automatic pool */
	char *auto_pool_key;
	/* number of addresses that the application requests; 0: unset */
	uint32_t auto_pool_ip_count;
	bool shared; /* divided into blocks that nodes own; the fields below apply */
	struct block_cut cut;
	/* whether the object has the block size (annotation unirail.io/block-prefix); if not,
	 * the node that claims the first block writes it before the claim */
	bool cut_is_written;
	/*
	 * Addresses that nodes may allocate: `ips` without reserved and adopted ones, without those
	 * in records of pools that do not contain them, and, if the spec was changed after its
	 * creation, without those that a younger pool also has. `usable` is the part of `open` that
	 * this node may allocate now (block_usable()).
	 */
	struct ip_set open;
	/* Addresses allocated before unirail was installed, sorted: only the pods in these
	 * records get them. adopted: those in `ips`; adopted_here: those of `adopted` in blocks
	 * of this node or borrowed by it, and all addresses that it asserted (block_asserted()). */
	struct pool_record *records;
	size_t n_records;
	struct ip_set adopted, adopted_here;
};

/* An entry of status.allocatedIPs, which Spiderpool wrote. */
struct pool_record {
	struct ipaddr ip;
	uint64_t pod, uid; /* pool_record_key() of "namespace/name" and of the pod's UID */
};
uint64_t pool_record_key(const char *text);

/* A pool that cannot be used, and the reason. */
struct pool_out {
	char *name, *cause;
};

struct pool_index;

struct pool_set {
	/* in the order of file names, then within the file; in a cluster: see pool_cluster.h */
	struct pool *v;
	size_t n;
	struct pool_index *
		/* index of names and `ips`, built when the set is complete; NULL: none, searches
		 * are linear */
		index;
	bool of_cluster; /* the pools come from API objects instead of a directory */
	/* Invalid or conflicting pools, which are not in v. Their addresses must not be assumed to
	 * be free. */
	struct pool_out *out;
	size_t n_out;
	struct ip_set reserved4, reserved6;
	int64_t reuse_delay_ms, quarantine_ms;	    /* defaults: 60 s, 10 min */
	bool conflict_detection, gateway_detection; /* [settings], default no, as in Spiderpool */
};

/* A directory that does not exist is an empty set. */
int pool_set_load(const struct root *r, const char *dir, struct pool_set *ret, struct err *e);
void pool_set_done(struct pool_set *s);
void pool_done(struct pool *p);
/* pool_find() and pool_of() take O(log n) in a set from pool_set_load() or pool_kube_set(). */
const struct pool *pool_find(const struct pool_set *s, const char *name);
/* Returns the reason why the pool of that name is left out of the set; NULL: no such pool is left
 * out. */
const char *pool_reason_out(const struct pool_set *s, const char *name);
/* Returns the pool whose addresses include *a, reserved or not; NULL: none. */
const struct pool *pool_of(const struct pool_set *s, const struct ipaddr *a);
/* Returns the pool name most similar to `name`, or NULL. */
const char *pool_suggest(const struct pool_set *s, const char *name);
/* Returns the pool's reuse delay of released addresses. */
int64_t pool_reuse_delay_ms(const struct pool_set *s, const struct pool *p);

/*
 * Pools that cannot be used together: two pools conflict if they have the same name, if their
 * subnets overlap without being equal, or if they share an address. These functions take the pools in
 * the order of their age, oldest first, and take O(n log n) time for n pools and ranges, however
 * many pairs conflict.
 */

/* ret[i]: index of the oldest pool that conflicts with v[i] and is older than it; n: none. */
void pool_conflicts(const struct pool *const *v, size_t n, size_t *ret);
/* ret[i]: the addresses of v[i] that no younger pool has. ret has n empty sets, which the caller
 * frees. */
void pool_conflicts_open(const struct pool *const *v, size_t n, struct ip_set *ret);
/* Returns 0 if the two pools do not conflict; otherwise sets the error, with location and name
 * of both pools. */
int pool_conflict_error(const struct pool *older, const struct pool *younger, struct err *e);

#endif
