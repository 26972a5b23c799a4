/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CNI_ATTACH_ATTACH_H
#define UNIRAIL_CNI_ATTACH_ATTACH_H

/*
 * Attaching rails: any number of networks of one pod at once, each a link of one of our kinds
 * (cni/attach/rail.h). `macvlan`, `ipvlan`, `vlan`, `host-device` and `sriov` are this with one rail,
 * `unirail-cni` with all of them, so both leave the same kernel state.
 *
 *	facts      masters, devices, MTUs, names in the pod: every check, before any change
 *	addresses  one IPAM call for all rails
 *	prepare    what a device that is moved needs on the node: records, attributes of VFs
 *	links      one batch: each is made in the pod, or moved there, with its final name and MAC
 *	sysctls    of all of them in one visit to the pod's namespace
 *	detection  conflicts and gateways of all rails in parallel, where the IPAM asks for it
 *	configure  addresses, up and routes in one batch
 *
 * Each step that worked pushes its reverse onto a->undo. The caller runs the list on failure
 * (attach_rollback) or forgets it when everything is done (attach_done).
 */

#include "base/undo.h"
#include "cni/attach/rail.h"
#include "kern/net/addr.h"
#include "kern/probe/probe.h"
#include "kern/net/route.h"

struct co_plan;

struct rail {
	/* asked for; all borrowed */
	const struct rail_kind *kind;
	const char *label; /* "rail 'net3' (rail2)", put before errors; NULL: nothing is */
	const char *ifname;
	struct rail_conf conf;
	struct cni_ipam_call ipam;	/* doc, conf, name, ifname, version; conf NULL: no IPAM */
	const struct cni_result *given; /* addresses and routes instead of an IPAM's; NULL: none */

	/* found out */
	struct link master;	   /* the device below, or the one that is moved, as it was */
	bool no_link;		   /* a userspace driver has the device: there are only addresses */
	const struct link *uplink; /* whose addresses the IPAM may want: a VF's PF; NULL: master's */
	struct ipnet *nets;	   /* those, when the IPAM may want them */
	size_t n_nets;
	struct vf_rail *vf; /* cni/device/vf_rail.h; NULL: no VF */
	char **altnames;    /* alternative names of a device that is moved, and no VF's */
	size_t n_altnames;

	/* came about */
	struct cni_result got; /* what the IPAM gave */
	struct cni_ipam_flags flags;
	struct ipaddr *quiet; /* addresses probed and found free */
	size_t n_quiet;
	bool made;		  /* the link is ours to delete or to bring home */
	char temp[LINK_NAME_MAX]; /* the name it is made under; "": its final one */
	int index;		  /* in the pod */
	struct mac mac;
	uint32_t mtu; /* for the result; 0: not told there */
	uint16_t arptype;
	struct cni_rdma rdma; /* attach_gids() */
};

struct attach {
	const struct cni_call *call;
	int netns;		    /* the pod's; -1: gone (DEL only) */
	struct nl_wire *host, *pod; /* pod NULL when netns is -1 */
	struct link *pod_links;	    /* as last listed */
	size_t n_pod_links;
	struct addr *host_addrs; /* listed once, on demand */
	size_t n_host_addrs;
	bool have_host_addrs;
	struct rail *rails;
	size_t n_rails;
	int detect_ms; /* total limit of detection; 0: what the IPAM says */
	struct undo undo;
	struct co_plan *plan; /* the coordinator's, kept for undo */
	void (*plan_free)(struct co_plan *p);
};

/* Opens namespace and wires. gone_ok (DEL): a namespace that is not given or not there leaves
 * a->netns -1; only the host's wire is open then. */
int attach_open(struct attach *a, const struct cni_call *c, bool gone_ok, struct err *e);
/* Frees it all, the rails' own parts as well (the array itself is the caller's). */
void attach_close(struct attach *a);
#define auto_attach __attribute__((cleanup(attach_close)))
#define ATTACH_INIT                                                                                \
	{                                                                                          \
		.netns = -1                                                                        \
	}

/* All of the above for a->rails. On failure the caller runs attach_rollback(). */
int attach_rails(struct attach *a, struct err *e);
/* The same after attach_facts(), which changes nothing. */
int attach_make(struct attach *a, struct err *e);
/* Gratuitous ARP and unsolicited NA for each rail's own addresses; best effort. */
void attach_announce(const struct attach *a);
void attach_rollback(struct attach *a);
void attach_done(struct attach *a);

/* {name, mac, mtu, sandbox}, the addresses, the routes, conf.dns. */
int attach_result(const struct attach *a, const struct rail *rail, struct cni_result *out,
		  struct err *e);

/* --- steps, in order; each for all rails --- */
int attach_facts(struct attach *a, struct err *e);
int attach_ipam(struct attach *a, struct err *e);
int attach_prepare(struct attach *a, struct err *e);
int attach_links(struct attach *a, struct err *e);
int attach_sysctls(struct attach *a, struct err *e);
int attach_detect(struct attach *a, struct err *e);
int attach_configure(struct attach *a, struct err *e);

/* --- shared parts --- */
int attach_list_pod(struct attach *a, struct err *e);
int attach_host_addrs(struct attach *a, struct err *e);
/* Wraps e with the rail's label, if it has one. */
int rail_err(const struct rail *rail, int code, struct err *e);
bool rail_has_ipam(const struct rail *rail);
/* Addresses that go onto a link. */
bool rail_has_addresses(const struct rail *rail);
/* The device of the first default route of the main table. */
int attach_default_master(struct nl_wire *w, struct link *ret, struct err *e);
/* conf.master (or the default route's device) in the namespace of w. */
int attach_master(struct nl_wire *w, const struct rail_conf *c, struct link *ret, struct err *e);
/* Whether the kernel has this kind of link; loads its module. Kind ERR_UNAVAILABLE, the module
 * named. */
int attach_kind_known(struct nl_wire *w, const struct rail_kind *k, struct err *e);

/* --- pure --- */
/* Names wished for against each other and against what the pod has: "... file exists". */
int attach_check_names(const struct rail *rails, size_t n, const struct link *pod, size_t n_pod,
		       struct err *e);
/* Devices looked up: one that is moved serves nobody else, a VLAN of a device is there once. */
int attach_check_devices(const struct rail *rails, size_t n, struct err *e);
/* Whether a link in the pod has or will have this name. Alternative names take part in whether a
 * name is free, so a device that is moved may not have one such. */
bool attach_name_taken(const struct attach *a, const char *name);
/* The routes a result asks for on a link: gateways filled in from the addresses'. Returns the
 * number; free(*ret). */
size_t attach_routes(const struct cni_result *got, int index, struct route **ret);
/* Whether a link of the pod may be deleted together with the others by IFLA_GROUP: every link
 * of the group is one of `names`, and two or more are. */
bool attach_group_is_ours(const struct link *pod, size_t n, const char *const *names,
			  size_t n_names);

/* --- DEL --- */
/* Absent links are success. */
int attach_delete(struct attach *a, const char *const *names, size_t n, struct err *e);
/* The rails' links, and others by name: devices go home, what was made is deleted. Everything is
 * tried; the first failure is told. Of the rails, kind and ifname count, and what conf has. */
int attach_remove(struct attach *a, const struct rail *rails, size_t n, const char *const *others,
		  size_t n_others, struct err *e);
/* What DEL and GC can use of a netconf: one that ADD would refuse is logged and left empty. */
void attach_read_conf(struct rail *rail, const struct rail_source *s);

/* --- CHECK --- */
struct attach_seen {
	struct link *links; /* the pod's */
	size_t n_links;
	struct addr *addrs;
	size_t n_addrs;
	struct route *routes; /* all tables */
	size_t n_routes;
};
int attach_look(struct attach *a, struct attach_seen *ret, struct err *e);
void attach_seen_done(struct attach_seen *s);
/* Pure: link, what the kind has for itself, MAC and addresses of prev that belong to the rail.
 * parent: the master's ifindex, 0: not compared. */
int attach_check(const struct attach_seen *s, const struct rail *rail, int parent,
		 const struct cni_result *prev, const char *netns, struct err *e);
/* The same with the master looked up. */
int attach_check_rail(struct attach *a, const struct attach_seen *s, struct rail *rail,
		      struct err *e);
/* Pure: connected routes and the result's, in any table: sbr and the coordinator move them. */
int attach_check_routes(const struct attach_seen *s, const struct cni_result *prev,
			const char *ifname, struct err *e);
/* The interface of that name in the pod; -1: none. */
int attach_prev_iface(const struct cni_result *prev, const char *ifname);
/* Routes of a result name no interface: they are an interface's when only one has addresses, else
 * by the gateway. */
bool attach_route_is_of(const struct cni_result *prev, int iface, const struct cni_route *rt);

/* --- STATUS and GC --- */
/* Whether an ADD could work, but for its IPAM; w: the node's. */
int attach_status(struct nl_wire *w, const struct root *root, struct rail *rail, struct err *e);
/* What the kind can mend on the node, without any pod. */
int attach_gc(const struct cni_call *c, const struct rail *rail, struct err *e);

#endif
