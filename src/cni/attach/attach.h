/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CNI_ATTACH_ATTACH_H
#define UNIRAIL_CNI_ATTACH_ATTACH_H

/*
 * Attaches any number of networks of one pod at once. Each attachment ("rail") is one interface of
 * the pod, handled by a driver (struct link_driver in cni/attach/rail.h). The plugin of each driver
 * runs this code with one attachment, `unirail-cni` runs it with all of them, so both produce the
 * same kernel state.
 *
 *	facts      look up masters, devices, MTUs and names in the pod; all checks, before any change
 * addresses request the addresses of all attachments from their IPAMs
 *	prepare    configure moved devices on the node: records, VF attributes
 *	links      create each link in the pod or move it there, with one batch per namespace of the
 *	           masters; then rename those that have a temporary name
 *	sysctls    for all attachments, in one switch to the pod's network namespace
 *	detection  conflict and gateway detection in parallel, where the IPAM enables it
 *	configure  addresses, link up and routes in one batch; the routes in a second one if IPv6
 *	           addresses must pass duplicate address detection first
 *
 * Steps push the reverse of their changes onto a->undo. The caller runs the list on failure
 * (attach_rollback) or discards it after success (attach_done).
 */

#include "base/undo.h"
#include "cni/attach/rail.h"
#include "kern/net/addr.h"
#include "kern/probe/probe.h"
#include "kern/net/route.h"

struct coordinator_plan;

struct rail {
	/* configuration of the attachment; all members are borrowed */
	const struct link_driver *kind;
	/* such as "rail 'net3' (rail2)", prefix of errors; NULL: no prefix */
	const char *label;
	const char *ifname;
	struct rail_conf conf;
	/* the IPAM's call with doc, conf, type, name, ifname and version; conf NULL or type "":
	 * no IPAM */
	struct cni_ipam_call ipam;
	const struct cni_result *given; /* addresses and routes without IPAM; NULL: none */

	/* discovered */
	struct link master; /* parent device, or the moved device before the move */
	bool no_link;	    /* bound to a userspace driver: the pod gets no link */
	/* link whose networks the IPAM needs; NULL: the master, or none if no_link */
	const struct link *uplink;
	struct ipnet *nets; /* networks of the uplink, if the IPAM needs them */
	size_t n_nets;
	struct vf_rail *vf; /* cni/device/vf_rail.h; NULL: not a VF */
	char **altnames;    /* alternative names of a moved device that is not a VF */
	size_t n_altnames;

	/* result */
	struct cni_result got; /* result of the IPAM, or without IPAM a copy of `given` */
	struct cni_ipam_flags flags;
	struct ipaddr *conflict_free; /* addresses that were probed without a conflict */
	size_t n_conflict_free;
	bool made; /* undo must delete the link or restore the device */
	/* temporary name; "": the link has its final name */
	char temp[LINK_NAME_MAX];
	int index; /* ifindex in the pod */
	struct mac mac;
	uint32_t mtu; /* value in the result; 0: omitted */
	uint16_t arptype;
	struct cni_rdma rdma; /* set by rdma_info_wait() */
};

struct attach {
	const struct cni_call *call;
	/* the pod's network namespace; -1: not given or deleted (DEL), or not needed (GC,
	 * STATUS) */
	int netns;
	struct nl_wire *host, *pod; /* pod NULL when netns is -1 */
	/* DEL: netlink socket for the pod's nf_tables; NULL: not opened. close() waits about 15 ms
	 * until the kernel has freed deleted tables. If links were deleted after the tables,
	 * close() does not wait, because the deletion of the links has already waited. */
	struct nl_wire *marks;
	struct link *pod_links; /* links of the pod as last listed */
	size_t n_pod_links;
	/* addresses of the node, listed on demand; discarded when a device moves */
	struct addr *host_addrs;
	size_t n_host_addrs;
	bool have_host_addrs;
	struct rail *rails;
	size_t n_rails;
	int detect_ms; /* total limit of detection; 0: the IPAM's limit */
	struct undo undo;
	struct coordinator_plan *plan; /* the coordinator's plan, retained for undo */
	void (*plan_free)(struct coordinator_plan *p);
};

/* Opens the pod's network namespace and the netlink sockets. deleted_ok (DEL): if the namespace is
 * not given or does not exist, a->netns is -1 and only the node's socket is open. Returns 0 or
 * -errno. */
int attach_open(struct attach *a, const struct cni_call *c, bool deleted_ok, struct err *e);
/* Frees everything, including the members of the rails; the array a->rails belongs to the
 * caller. */
void attach_close(struct attach *a);
#define auto_attach __attribute__((cleanup(attach_close)))
#define ATTACH_INIT                                                                                \
	{                                                                                          \
		.netns = -1                                                                        \
	}

/* Runs all steps for a->rails. On failure the caller runs attach_rollback(). */
int attach_rails(struct attach *a, struct err *e);
/* Runs the steps that follow attach_facts(). */
int attach_make(struct attach *a, struct err *e);
/* Sends gratuitous ARP and unsolicited NA for the addresses of each attachment that had conflict
 * or gateway detection; best effort. */
void attach_announce(const struct attach *a);
void attach_rollback(struct attach *a);
void attach_done(struct attach *a);

/* Writes interface (name, mac, mtu, sandbox), addresses, routes and conf.dns of one attachment. */
int attach_result(const struct attach *a, const struct rail *rail, struct cni_result *out,
		  struct err *e);

/* --- steps, in order; each handles all attachments --- */
int attach_facts(struct attach *a, struct err *e);
int attach_prepare(struct attach *a, struct err *e);
int attach_links(struct attach *a, struct err *e);
int attach_sysctls(struct attach *a, struct err *e);
int attach_detect(struct attach *a, struct err *e);
int attach_configure(struct attach *a, struct err *e);

/* --- shared parts --- */
int attach_list_pod(struct attach *a, struct err *e);
int attach_host_addrs(struct attach *a, struct err *e);
/* Wraps e with the attachment's label, if it has one. */
int rail_err(const struct rail *rail, int code, struct err *e);
bool rail_has_ipam(const struct rail *rail);
/* Returns whether the attachment has addresses and a link to set them on. */
bool rail_has_addresses(const struct rail *rail);
/* Finds conf.master (default: the default route's device) in the namespace of w. */
int attach_master(struct nl_wire *w, const struct rail_conf *c, struct link *ret, struct err *e);
/* Checks that the kernel supports this link type; the check loads the module. Kind ERR_UNAVAILABLE:
 * the error names the missing module. */
int attach_kind_known(struct nl_wire *w, const struct link_driver *k, struct err *e);

/* --- pure functions --- */
/* Checks that the requested interface names are valid (otherwise ERR_CONF), that they differ
 * from each other, and that no link of the pod already has the name of an attachment that gets a
 * link (otherwise -EEXIST in both cases). */
int attach_check_names(const struct rail *rails, size_t n, const struct link *pod, size_t n_pod,
		       struct err *e);
/* Checks the discovered devices: a moved device serves one attachment only, and a device has one
 * interface per VLAN. */
int attach_check_devices(const struct rail *rails, size_t n, struct err *e);
/* Returns whether a link in the pod has or will have this name. Link names and alternative names
 * share one namespace in the kernel, so a moved device must not bring an alternative name that is
 * taken. */
bool attach_name_taken(const struct attach *a, const char *name);
/* Sets *ret to the routes of a result for a link and returns their number. A route without
 * gateway gets the first gateway of its family that an address of the result has. The caller
 * frees *ret. */
size_t attach_routes(const struct cni_result *got, int index, struct route **ret);
/* Returns whether one message can delete the links by IFLA_GROUP: at least two links of the pod are
 * in LINK_GROUP, and all links of LINK_GROUP are among `names`. */
bool attach_group_is_of_pod(const struct link *pod, size_t n, const char *const *names,
			    size_t n_names);

/* --- DEL --- */
/* Removes the attachments' links, and the n_peers links named in `others`: moved devices are
 * restored to the host, created links are deleted. Continues after an error and returns the first
 * error. Uses kind and ifname of each rail, and conf if the netconf could be read. */
int attach_remove(struct attach *a, const struct rail *rails, size_t n, const char *const *others,
		  size_t n_peers, struct err *e);
/* For DEL and GC: reads the netconf of a moved device. Logs an invalid netconf and leaves
 * rail->conf empty; but if each key has the right type, sriov sets device and IPAM, and ib-sriov
 * sets what it has read if deviceID is given. */
void attach_read_conf(struct rail *rail, const struct rail_source *s);

/* --- CHECK --- */
struct attach_seen {
	struct link *links; /* links of the pod */
	size_t n_links;
	struct addr *addrs;
	size_t n_addrs;
	struct route *routes; /* all tables */
	size_t n_routes;
};
int attach_inspect(struct attach *a, struct attach_seen *ret, struct err *e);
void attach_seen_done(struct attach_seen *s);
/* Pure. Checks the link, the driver's own settings, and the MAC and addresses that prev lists
 * for this interface. parent: ifindex of the master, 0: not compared. */
int attach_check(const struct attach_seen *s, const struct rail *rail, int parent,
		 const struct cni_result *prev, const char *netns, struct err *e);
/* Looks up the master of a created link, or runs the driver's status() for a moved device; then
 * runs attach_check() and the driver's verify(). */
int attach_check_rail(struct attach *a, const struct attach_seen *s, struct rail *rail,
		      struct err *e);
/* Pure. Checks that the connected routes and the result's routes exist. Each may be in any table,
 * because sbr and the coordinator move routes out of the main table. */
int attach_check_routes(const struct attach_seen *s, const struct cni_result *prev,
			const char *ifname, struct err *e);
/* Returns whether a route of a result belongs to interface `iface`. Routes name no interface: if
 * only one interface has addresses, all routes belong to it; otherwise a route belongs to the
 * interface whose subnet has its gateway, and a route without gateway to none. */
bool attach_route_is_of(const struct cni_result *prev, int iface, const struct cni_route *rt);

/* --- STATUS and GC --- */
/* Checks that an ADD could succeed, apart from IPAM; w: the node's netlink socket. */
int attach_status(struct nl_wire *w, const struct root *root, struct rail *rail, struct err *e);
/* Runs the driver's cleanup on the node; needs no pod. */
int attach_gc(const struct cni_call *c, const struct rail *rail, struct err *e);

#endif
