/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CNI_PLUGINS_COORDINATOR_INTERNAL_H
#define UNIRAIL_CNI_PLUGINS_COORDINATOR_INTERNAL_H

/* Between the coordinator_*.c files: one NIC's plan while it is made. */

#include "cni/plugins/coordinator/coordinator.h"

enum { CO_V4 = 1, CO_V6 = 2 };

struct planning {
	struct co_nic *nic;
	const struct co_conf *c;
	struct co_facts *f;
	struct co_plan *p;
	size_t at;
	struct co_stage stage;
	const struct link *link; /* the NIC */
	const struct link *exit; /* veth0 or eth0: the way to the node */
	unsigned int families;	 /* of the NIC's addresses: CO_V4, CO_V6 */
	struct ipaddr *ips;	 /* the NIC's addresses */
	size_t n_ips;
	struct ipaddr *host; /* the node's addresses, the one to go through first */
	size_t n_host;
	struct ipaddr src4; /* of eth0 */
	struct co_ways {
		void *tree; /* of which routes a list has (tsearch) */
		bool is_known, has_holes;
	} ways[2]; /* by enum co_side; routes that go leave holes in the list, which co_ways_done() closes */
};

/* Links that are not hidden; NULL: no such link (yet). */
const struct link *co_link(const struct co_facts *f, const char *name);
bool co_hidden(const struct co_facts *f, int index);
unsigned int co_family_bit(const struct ipaddr *a);
/* The node's addresses for this NIC, the one that serves as gateway first. */
void co_host_ips(struct planning *pl);
/* Steps 13 and 15 to 17 of the original: neighbours, routes both ways, CIDRs, replies. */
void co_node_steps(struct planning *pl);
const struct ipaddr *co_gateway(const struct planning *pl, int family);
/* Usable addresses of a link, of the families asked for. */
size_t co_link_ips(const struct co_facts *f, int index, unsigned int families, struct ipaddr **ret);

/* The node's rule "from all lookup <table>". */
struct rule co_host_rule(uint8_t family, uint32_t table);
/* Pure: whether a family has no route in the table, so that nobody needs its rule. */
bool co_host_rule_is_idle(uint8_t family, const struct route *routes, size_t n);
/* Takes the rule away in the families in which the table is empty. */
int co_host_rule_release(struct nl_wire *host, uint32_t table, struct err *e);

/* Steps: appended unless the facts say that it is so already; the facts follow. */
struct co_step *co_emit(struct planning *pl, enum co_side side, enum co_do what, const char *ifname,
			int index);
void co_emit_route(struct planning *pl, enum co_side side, const struct route *r);
void co_emit_route_del(struct planning *pl, enum co_side side, const struct route *r);
void co_ways_done(struct planning *pl);
void co_emit_from_rule(struct planning *pl, const struct ipaddr *from, uint32_t table);

/* Step 18 of the original: which NIC keeps the default route, and the other's move. */
int co_tune_routes(struct planning *pl, struct err *e);

#endif
