/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CNI_PLUGINS_COORDINATOR_INTERNAL_H
#define UNIRAIL_CNI_PLUGINS_COORDINATOR_INTERNAL_H

/* Shared by the files of this directory: the plan of one NIC while it is made, and the node's rule
 * for the table of routes to pods. */

#include "cni/plugins/coordinator/coordinator.h"

enum { COORD_V4 = 1, COORD_V6 = 2 };

struct planning {
	struct coordinator_nic *nic;
	const struct coordinator_conf *c;
	struct coordinator_facts *f;
	struct coordinator_plan *p;
	size_t at;
	struct coordinator_stage stage;
	const struct link *link; /* the NIC */
	const struct link *exit; /* veth0 or eth0: the way to the node */
	unsigned int families;	 /* families of the NIC's addresses: COORD_V4, COORD_V6 */
	struct ipaddr *ips;	 /* the NIC's addresses */
	size_t n_ips;
	struct ipaddr *host; /* the node's addresses; the first of each family is the gateway */
	size_t n_host;
	struct ipaddr src4; /* eth0's address, source of IPv4 routes to the node; family 0: none */
};

/* Returns the link of this name; NULL: the pod has none, or it is hidden (it belongs to a later
 * NIC, see coordinator_facts). */
const struct link *coordinator_link(const struct coordinator_facts *f, const char *name);
bool coordinator_hidden(const struct coordinator_facts *f, int index);
unsigned int coordinator_family_bit(const struct ipaddr *a);
/* Sets *ret to the usable addresses of a link in the requested families and returns their number.
 * */
size_t coordinator_link_ips(const struct coordinator_facts *f, int index, unsigned int families,
			    struct ipaddr **ret);

void coordinator_known_routes_done(struct coordinator_known_routes *k);

/* Returns the node's rule "from all lookup <table>". */
struct rule coordinator_host_rule(uint8_t family, uint32_t table);
/* Pure. Returns whether the table's `routes` have none of the family, so that the family's rule
 * is unused. */
bool coordinator_host_rule_is_idle(uint8_t family, const struct route *routes, size_t n);
/* Deletes the node's rule for the table, in each address family that has no route in the table. */
int coordinator_host_rule_release(struct nl_wire *host, uint32_t table, struct err *e);

#endif
