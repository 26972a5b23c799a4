/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CNI_PLUGINS_IFACER_H
#define UNIRAIL_CNI_PLUGINS_IFACER_H

/*
 * The ifacer plugin: creates, on the node, a bond, a VLAN interface or both; the VLAN interface, or
 * else the bond, is the master of the next plugin. It works in the host's namespace; the result is
 * prevResult, or an empty one. The netconf, keys matched as Go's encoding/json does:
 *
 *	interfaces	names. One name and vlanID: makes <if>.<vlanID>. Two or more names and bond:
 *			makes the bond, and if vlanID is set also <bond>.<vlanID>. Otherwise makes
 *			nothing
 *	vlanID		0 (none) to 4094
 *	bond		{name (sp_bond0), mode (0 to 6), options}
 *	bond.options	"miimon=100;xmit_hash_policy=layer3+4;arp_ip_target=[\"10.0.0.1\"]": values
 *			as the bonding driver takes them; an unknown option is logged and ignored
 *
 * ADD uses existing links, and sets them up if they are down. An existing bond without ports gets
 * the ports, because an interrupted ADD may have left it. A bond that has ports keeps its ports and
 * options. DEL removes nothing: other pods and the host itself use the links.
 */

#include "cni/plugins/chained.h"
#include "kern/net/link_bond.h"

#define IFACER_BOND "sp_bond0"
#define IFACER_LOCK "/run/unirail/ifacer.lock"

enum { IFACER_VLAN_MAX = 4094 };

struct ifacer_conf {
	const char **interfaces; /* owned by the document */
	size_t n_interfaces;
	uint16_t vlan; /* 0: none */
	bool has_bond;
	const char *bond_name;
	struct link_bond bond;	     /* mode and options of the bond */
	char primary[LINK_NAME_MAX]; /* "": not set */
	char active_slave[LINK_NAME_MAX];
};

struct ifacer_port {
	const char *name; /* borrowed from the configuration */
	int index;
	bool was_up;
};

struct ifacer_plan {
	/* the bond */
	bool makes_bond, sets_bond_up;
	int bond_index; /* ifindex of the existing bond; 0: there is none */
	const char *bond_name;
	struct link_bond bond;
	struct ifacer_port *ports; /* ports to be enslaved; owned */
	size_t n_ports;
	int active_slave; /* ifindex of the active port; 0: the driver chooses */
	/* the VLAN interface */
	bool makes_vlan, sets_vlan_up, sets_parent_up;
	char vlan_name[LINK_NAME_MAX];
	uint16_t vlan;
	/* vlan_index 0: the VLAN interface does not exist yet; parent_index 0: the parent is the
	 * new bond */
	int vlan_index, parent_index;
	const char *parent;
};

extern const struct json_table ifacer_table; /* keys of the netconf */
/* An error of kind ERR_CONF names the invalid field or value. */
int ifacer_conf_read(struct json_doc *d, const struct json *conf, struct ifacer_conf *ret,
		     struct err *e);

/* --- pure functions --- */
bool ifacer_wants_bond(const struct ifacer_conf *c);
bool ifacer_wants_vlan(const struct ifacer_conf *c);
/* Parses "k=v;k=v" into c. */
int ifacer_options(const char *text, struct ifacer_conf *c, struct err *e);
/* Plans what a node with these links lacks; ifacer_plan_done() frees the plan. */
int ifacer_plan(const struct ifacer_conf *c, const struct link *links, size_t n,
		struct ifacer_plan *ret, struct err *e);
void ifacer_plan_done(struct ifacer_plan *p);
/* Checks that the bond and the VLAN interface exist, are up, and match the configuration. */
int ifacer_check(const struct ifacer_conf *c, const struct link *links, size_t n, struct err *e);

/* Adds the messages that enslave the ports to the bond of this index, and set the bond up if it
 * is down. */
void ifacer_put_ports(const struct ifacer_plan *p, int bond, struct nl_batch *b);
/* Adds the message that selects the active port; the driver may refuse it while links come up. */
void ifacer_put_active(const struct ifacer_plan *p, int bond, struct nl_batch *b);
/* Adds the messages that set the parent up, and create the VLAN interface or set it up. */
void ifacer_put_vlan(const struct ifacer_plan *p, int parent, struct nl_batch *b);

#endif
