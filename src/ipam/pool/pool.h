/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_IPAM_POOL_POOL_H
#define UNIRAIL_IPAM_POOL_POOL_H

/*
 * Pools: the user's objects. Read from a folder (default /etc/unirail/pools), files in the order
 * of their names: *.conf is INI (inih); *.json is a SpiderIPPool or SpiderReservedIP object, or a
 * List of them. A *.yaml is refused with the way to convert it; names that begin with a dot and
 * other endings are not looked at.
 *
 *	[pool rail0]
 *	subnet  = 172.16.1.0/24
 *	ips     = 172.16.1.10-172.16.1.99, 172.16.1.120
 *	exclude = 172.16.1.50
 *	gateway = 172.16.1.1
 *	route   = 172.16.0.0/16 via 172.16.1.1      ; may be repeated
 *	default = yes
 *	disable = no
 *	node    = node1, node2                      ; names; empty: every node
 *	namespace = team-a                          ; likewise
 *	rest    = 60s                               ; before a freed address is used again
 *
 *	[reserved]
 *	ips = 172.16.1.77
 *
 *	[settings]
 *	rest = 60s                                  ; at most 1h
 *	quarantine = 10m                            ; at most 720h
 *	conflict_detection = no                     ; ask the link before an address is used
 *	gateway_detection = no
 *
 * Lists may also be given on several lines (a line is at most 1020 bytes). Where two files have
 * the same setting, the later file's counts.
 *
 * `ips` absent means every usable address of the subnet (network, broadcast and gateway left
 * out) in INI; in a SpiderIPPool object it means none, as there. A subnet with host bits
 * (172.16.11.0/16) is taken as its network, with a warning in the log.
 *
 * What is wrong names file, line, key and remedy (kind ERR_CONF): malformed range, range outside
 * its subnet, gateway among the addresses, a default route among the routes, pools that overlap,
 * the same name twice, and what only the API server could answer (nodeAffinity,
 * namespaceAffinity, podAffinity, multusName).
 */

#include "base/file.h"
#include "block/block.h"
#include "base/ipset.h"
#include "ipam/pool/selector.h"

enum { POOL_REST_MAX_MS = 3600 * 1000, POOL_NAME_MAX = 253 };
#define POOL_QUARANTINE_MAX_MS ((int64_t)720 * 3600 * 1000)

struct pool_route {
	struct ipnet dst;
	struct ipaddr gw;
};

struct pool {
	char *name;
	char *where; /* "rails.conf:12", for words */
	uint8_t family;
	struct ipnet subnet;
	struct ip_set ips;     /* ips - exclude */
	struct ip_set usable;  /* the same without the reserved ones */
	struct ipaddr gateway; /* family 0: none */
	struct pool_route *routes;
	size_t n_routes;
	char **nodes, **namespaces;
	size_t n_nodes, n_namespaces;
	bool is_default, disabled;
	int64_t rest_ms; /* -1: the settings' */

	/* --- of a cluster (pool_cluster.h); a local folder's pools have none of it --- */
	struct selector node_affinity, namespace_affinity, pod_affinity;
	char **networks; /* multusName, each "namespace/name" */
	size_t n_networks;
	bool terminating;
	char *made_for;	     /* auto_pool_key(): one application's interface; NULL: anybody's */
	uint32_t made_count; /* the number of addresses that it is to have then; 0: not said */
	bool shared;	     /* cut into blocks that nodes own: what follows counts */
	struct block_cut cut;
	bool cut_is_written; /* on the object; else that is to be done before the first block */
	/*
	 * What nodes may hand out: ips without the reserved, the adopted ones, and those that the
	 * records of other pools have. `usable` is this, cut to what this node has of it.
	 */
	struct ip_set open;
	/* Taken since before unirail: never handed out to others than those who have them; in the
	 * order of addresses. adopted_here: those of them that lie in this node's blocks. */
	struct pool_record *records;
	size_t n_records;
	struct ip_set adopted, adopted_here;
};

/* An entry of Spiderpool's allocatedIPs. */
struct pool_record {
	struct ipaddr ip;
	uint64_t pod, uid; /* pool_record_key() of "namespace/name" and of the pod's UID */
};
uint64_t pool_record_key(const char *text);

/* A pool that cannot be used, and why. */
struct pool_out {
	char *name, *why;
};

struct pool_index;

struct pool_set {
	struct pool *v; /* in file-name order, then order in the file */
	size_t n;
	struct pool_index *
		index; /* of names and `ips`, made when the set is whole; NULL: none, each search passes all */
	bool of_cluster; /* of the API's objects, not of a folder */
	/* Left out: no pool of v. Nobody may conclude that their addresses are free. */
	struct pool_out *out;
	size_t n_out;
	struct ip_set reserved4, reserved6;
	int64_t rest_ms, quarantine_ms;		    /* 60 s, 10 min */
	bool conflict_detection, gateway_detection; /* [settings], default no, as the originals */
};

/* A folder that is not there is an empty set. */
int pool_set_load(const struct root *r, const char *dir, struct pool_set *ret, struct err *e);
void pool_set_done(struct pool_set *s);
void pool_done(struct pool *p);
/* Both searches cost log n in a set that was loaded (or pool_kube_set()). */
const struct pool *pool_find(const struct pool_set *s, const char *name);
/* Why the pool of that name was left out; NULL: it was not. */
const char *pool_why_out(const struct pool_set *s, const char *name);
/* The pool whose addresses (reserved or not) hold *a, or NULL. */
const struct pool *pool_of(const struct pool_set *s, const struct ipaddr *a);
/* The name of a pool that `name` most likely meant, or NULL. */
const char *pool_nearest(const struct pool_set *s, const char *name);
/* How long a freed address of the pool rests. */
int64_t pool_rest_ms(const struct pool_set *s, const struct pool *p);

#endif
