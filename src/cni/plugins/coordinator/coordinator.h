/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CNI_PLUGINS_COORDINATOR_COORDINATOR_H
#define UNIRAIL_CNI_PLUGINS_COORDINATOR_COORDINATOR_H

/*
 * The coordinator: makes a pod with several NICs reachable. It gives the pod a way to its node
 * (veth0 in underlay mode, eth0 in overlay mode), each later NIC a routing table with a rule by
 * source address, and the node a way to the pod's addresses. It runs no other program.
 *
 *	facts	links, addresses and routes of the pod; addresses, routes and neighbours of the host
 *	stage	mode, whether this is the first NIC, table number	(pure)
 *	plan	a list of steps						(pure)
 *	apply	sysctls in one switch to the pod's netns, a batch each for pod and host, reply marks
 *
 * Reply marks: nf_tables rules of the pod that mark the replies to packets that came in through
 * veth0. A rule (fwmark 1 lookup 100) then routes marked replies back through veth0.
 *
 * One call may plan several NICs, one after another on the same facts. Each plan updates the facts
 * for the next one, and does not see the links of later NICs. So one call for all NICs gives the
 * same table numbers, rules and routes as a chain with one call for each NIC.
 *
 * netconf, keys matched as Go's encoding/json does:
 *	mode			auto (default), underlay, overlay, disabled (or disable)
 *	podDefaultCniNic	name of the pod's first NIC; default: eth0
 *	overlayPodCIDR, serviceCIDR, hijackCIDR		subnets that are reached through the node
 *	policyRoutes		[{"dst","gw"}]: routes through this NIC
 *	tunePodRoutes		true (default): later NICs' routes go to tables of their own
 *	podDefaultRouteNic	NIC that keeps the main table's default route; default: the first
 *	hostRuleTable		the node's table for routes to pods; default: 500
 *	podRPFilter		rp_filter of the pod: 0 (default), 1, 2; negative: not changed
 *	txQueueLen		transmit queue of the NIC; 0 (default): not changed
 *	podMACPrefix		"0a:1b": first two bytes of the NIC's MAC; the other four are the
 *				last four of its first IP address
 *	vethLinkAddress		address of veth0
 *	vethMTU			MTU of veth0; default: 1500
 * Other keys of the original (hostRPFilter, multusNicPrefix, logOptions, detect*) do nothing here.
 */

#include "cni/attach/attach.h"

enum coordinator_mode { COORD_AUTO, COORD_UNDERLAY, COORD_OVERLAY, COORD_DISABLED };

enum {
	COORD_HOST_TABLE = 500,
	COORD_HOST_RULE_PRIORITY = 1000,
	COORD_FIRST_NIC_TABLE = 100, /* default routes for replies of the first NIC */
	COORD_MARK = 1,
	COORD_MARK_RULE_PRIORITY = 1000,
	COORD_VETH_MTU = 1500,
};

#define COORD_VETH  "veth0"
#define COORD_ALIAS "unirail "

struct coordinator_policy {
	struct ipnet dst;
	struct ipaddr gw;
};

struct coordinator_conf {
	enum coordinator_mode mode;
	const char *default_nic;       /* podDefaultCniNic */
	const char *default_route_nic; /* NULL: not set */
	struct ipnet *cidrs;	       /* overlayPodCIDR, serviceCIDR, hijackCIDR in this order */
	size_t n_cidrs;
	struct coordinator_policy *policy;
	size_t n_policy;
	bool tune_routes;
	uint32_t host_table;
	int rp_filter; /* -1: not changed */
	uint32_t txqlen;
	bool has_mac_prefix;
	uint8_t mac_prefix[2];
	struct ipaddr veth_addr;
	uint32_t veth_mtu;
};

extern const struct json_table coordinator_table; /* keys of the netconf */
/* An error of kind ERR_CONF names the invalid field. */
int coordinator_conf_read(struct json_doc *d, const struct json *conf, struct coordinator_conf *ret,
			  struct err *e);
void coordinator_conf_done(struct coordinator_conf *c);

struct coordinator_lookup {
	/* an address of the pod, and the source address of the node's packets to it */
	struct ipaddr pod, src;
};

/* Index of a list of routes by table, metric and destination, for plan.c. */
struct coordinator_known_routes {
	void *tree; /* tsearch */
	size_t n;   /* routes of the list that are in the tree */
};

/* Value of `index` in an entry of routes or host_routes whose route a plan deletes; the entry
 * stays, so that positions in `known` remain valid. */
enum { COORD_HOLE = -1 };

/* Input of a plan. Owns its lists, except `hidden`. */
struct coordinator_facts {
	struct link *links; /* links of the pod, sorted by index */
	size_t n_links;
	struct addr *addrs; /* the pod's */
	size_t n_addrs;
	struct route *routes; /* routes of the pod, all tables */
	size_t n_routes;
	/* usable addresses of the node's own links (link_is_nodes_own()) */
	struct ipaddr *host_ips;
	size_t n_host_ips;
	struct coordinator_lookup *lookups;
	size_t n_lookups;
	struct route *host_routes; /* routes of the NICs' host tables */
	size_t n_host_routes;
	struct neigh *host_neighs;
	size_t n_host_neighs;
	struct link host_veth; /* the host end of veth0 or eth0; index 0: none */
	const int *hidden;     /* ifindexes of later NICs: a chain would not have made them yet */
	size_t n_hidden;
	/* [COORD_POD]: index of `routes`; [COORD_HOST]: index of `host_routes` */
	struct coordinator_known_routes known[2];
};

void coordinator_facts_done(struct coordinator_facts *f);

/* One NIC of the pod, for coordinator_run() and coordinator_check(). */
struct coordinator_nic {
	/* NULL: this NIC has no coordinator and only occupies its position */
	const struct coordinator_conf *conf;
	const char *ifname;
	const char *network;	       /* name of the network */
	const char *label;	       /* prefix of errors; NULL: no prefix */
	const struct cni_result *prev; /* prevResult of the NIC's network; NULL: that of the call */
	/* result */
	struct mac mac; /* len 0: not changed */
};

struct coordinator_stage {
	enum coordinator_mode mode; /* COORD_UNDERLAY or COORD_OVERLAY */
	bool first;		    /* the first NIC of the pod that the coordinator configures */
	uint32_t table;		    /* routing table of this NIC */
};

enum coordinator_side { COORD_POD, COORD_HOST };
enum coordinator_do {
	COORD_LINK_UP,
	COORD_LINK_MAC,
	COORD_LINK_TXQLEN,
	COORD_ADDR_ADD,
	COORD_SYSCTL,
	COORD_NEIGH_DEL,
	COORD_NEIGH_ADD,
	COORD_ROUTE_ADD,
	COORD_ROUTE_DEL,
	COORD_RULE_ADD,
	COORD_MARKS,
};

struct coordinator_step {
	enum coordinator_side side;
	enum coordinator_do what;
	size_t nic; /* index of the NIC */
	char ifname[LINK_NAME_MAX];
	int index;
	bool done; /* the step may have been carried out, so undo reverses it */
	union {
		struct { /* links, addresses, neighbours, marks */
			struct mac mac, old_mac;
			struct ipnet net;
			uint32_t num, old_num;
		};
		struct route route; /* its member `hops` is never set */
		struct rule rule;
		struct { /* COORD_SYSCTL */
			char key[64], value[8], old_value[8];
		};
	};
};

struct coordinator_plan {
	struct coordinator_step *steps;
	size_t n, room;
	/* for undo */
	struct attach *a;
};

void coordinator_plan_free(struct coordinator_plan *p);

/* --- pure functions --- */
int coordinator_stage(const struct coordinator_conf *c, const struct coordinator_facts *f,
		      const char *ifname, struct coordinator_stage *ret, struct err *e);
/* Returns whether one of the NICs is the pod's first underlay NIC, for which the veth pair must be
 * made before the plan; if so, sets *at to the NIC's index. */
bool coordinator_wants_veth(const struct coordinator_nic *nics, size_t n, size_t *at);
/* Appends the steps of one NIC and brings the facts up to date. */
int coordinator_plan_nic(struct coordinator_nic *nic, size_t at, struct coordinator_facts *f,
			 struct coordinator_plan *p, struct err *e);
/* Sets ret to "veth" and the first 11 bytes of the container id. */
void coordinator_host_veth_name(const char *container_id, char ret[static LINK_NAME_MAX]);
/* Returns whether the address is neither link-local, multicast nor loopback. */
bool coordinator_ip_usable(const struct ipaddr *a);

/* --- execution of the plan --- */
/* Configures all NICs, in order. On failure the caller runs attach_rollback(). */
int coordinator_run(struct attach *a, struct coordinator_nic *nics, size_t n, struct err *e);
int coordinator_facts_collect(struct attach *a, const struct coordinator_nic *nics, size_t n,
			      struct coordinator_facts *f, struct err *e);
int coordinator_apply(struct attach *a, struct coordinator_plan *p,
		      const struct coordinator_nic *nics, struct err *e);

/* --- DEL --- */
/* Deletes in the pod the rules from these addresses, the reply marks and their rule, and the rule
 * from eth0's address if no other NIC needs it. Succeeds without the pod's namespace. */
int coordinator_delete_rules(struct attach *a, const struct ipaddr *ips, size_t n, struct err *e);
/* Deletes the state on the node. Works without pod, namespace and prevResult; ips: the known
 * addresses of the pod. */
int coordinator_delete(struct attach *a, const struct coordinator_conf *c, const struct ipaddr *ips,
		       size_t n, struct err *e);

/* --- GC --- */
struct coordinator_gc_net {
	const char *name;
	uint32_t host_table;
};
/* GC: deletes the host ends of veth pairs that unirail made for one of the networks and whose
 * container has no valid attachment, then the node's rule for a table that has become empty.
 * unirail marks its links by an alias, "unirail <network> <container id>"; no other link is
 * touched. */
int coordinator_gc(const struct coordinator_gc_net *nets, size_t n, const struct cni_call *c,
		   struct err *e);
bool coordinator_is_leftover(const struct link *l, const char *network,
			     const struct cni_attachment *valid, size_t n); /* pure */

/* --- STATUS --- */
/* In mode underlay, checks that the kernel has veth and nf_tables; other modes always succeed. */
int coordinator_status(struct nl_wire *host, const struct coordinator_conf *c, struct err *e);

/* --- CHECK --- */
int coordinator_check(struct attach *a, const struct coordinator_nic *nics, size_t n,
		      struct err *e);

#endif
