/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_HOST_STEPS_NETOP_H
#define UNIRAIL_HOST_STEPS_NETOP_H

/*
 * Steps on links, addresses and routes, for any kind. Verbs: addr-add, addr-del (dev, cidr);
 * route-add, route-del (dst, gw, dev, table, metric, onlink); link-mtu (dev, mtu); link-up,
 * link-down (dev); and those of rule.h and bond.h.
 */

#include "host/steps/rule.h"

void host_plan_addr_add(struct host_plan *p, const char *kind, const char *dev,
			const struct ipnet *net);
void host_plan_addr_del(struct host_plan *p, const char *kind, const char *dev,
			const struct ipnet *net);
/* Adds a step for an IPv4 or IPv6 unicast route over the link `r->dev`; uses the members dst, gw,
 * table, priority, onlink and family. */
void host_plan_route_add(struct host_plan *p, const char *kind, const struct route *r);
void host_plan_route_del(struct host_plan *p, const char *kind, const struct route *r);
void host_plan_mtu(struct host_plan *p, const char *kind, const struct link *l, uint32_t mtu);
void host_plan_up(struct host_plan *p, const char *kind, const char *dev);
/* Returns a route as `ip route` prints it: "default via 172.16.1.1 dev ens1 table 151 metric 10".
 * The caller frees it. */
char *host_route_describe(const struct route *r, const char *dev);
/* Carries out the verbs of this header, of rule.h and of bond.h; -EOPNOTSUPP for any other. */
int host_net_act(struct host *h, const struct host_op *op, struct err *e);
/* Implements host_kind.in_effect: checks link-mtu and the verbs of bond.h; 1 for any other. */
int host_net_in_effect(struct host *h, const struct host_op *op, struct err *e);

#endif
