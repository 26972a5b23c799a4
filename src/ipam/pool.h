/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_IPAM_POOL_H
#define UNIRAIL_IPAM_POOL_H

/*
 * Pools: the user's objects. Read from a folder (default /etc/unirail/pools): *.conf is INI
 * (inih), *.json, *.yaml-free: a SpiderIPPool object or a List of them as JSON.
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
 *	rest = 60s
 *	quarantine = 10m
 *
 * `ips` absent means every usable address of the subnet (network, broadcast and gateway left
 * out) in INI; in a SpiderIPPool object it means none, as there.
 * What is wrong names file, line, key and remedy: malformed range, range outside its subnet,
 * gateway among the addresses, pools that overlap, the same name twice.
 */

#include "base/file.h"
#include "ipam/range.h"

struct pool_route {
	struct ipnet dst;
	struct ipaddr gw;
};

struct pool {
	char *name;
	char *where; /* "rails.conf:12", for words */
	uint8_t family;
	struct ipnet subnet;
	struct ip_set ips; /* ips - exclude */
	struct ipaddr gateway; /* family 0: none */
	struct pool_route *routes;
	size_t n_routes;
	char **nodes, **namespaces;
	size_t n_nodes, n_namespaces;
	bool is_default, disabled;
	int64_t rest_ms; /* -1: the settings' */
};

struct pool_set {
	struct pool *v; /* in file-name order, then order in the file */
	size_t n;
	struct ip_set reserved4, reserved6;
	int64_t rest_ms, quarantine_ms; /* 60 s, 10 min */
	bool conflict_detection, gateway_detection; /* [settings], default no, as the originals */
};

int pool_set_load(const struct root *r, const char *dir, struct pool_set *ret, struct err *e);
void pool_set_done(struct pool_set *s);
const struct pool *pool_find(const struct pool_set *s, const char *name);
/* Go's filepath.Match: * ? [a-z] [^a-z] and backslash. -EINVAL: bad pattern. 1 match, 0 not. */
int wildcard_match(const char *pattern, const char *name);
bool wildcard_is(const char *name);

#endif
