/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CNI_ATTACH_RAIL_H
#define UNIRAIL_CNI_ATTACH_RAIL_H

/*
 * Link drivers. A driver either creates a link in the pod on a device of the node (macvlan, ipvlan,
 * vlan, ipoib) or moves a device of the node into the pod (host-device, sriov, ib-sriov). It is a
 * table of functions (struct link_driver) which the common steps (cni/attach/attach.h) call.
 * src/README.md ("How to add") lists what a new driver needs.
 */

#include "cni/protocol/cni.h"
#include "cni/plugins/host_device.h"
#include "cni/plugins/sriov/ib_sriov.h"
#include "cni/plugins/ipoib.h"
#include "cni/plugins/ipvlan.h"
#include "cni/plugins/macvlan.h"
#include "cni/plugins/sriov/sriov.h"
#include "cni/plugins/vlan.h"

struct attach;
struct rail;

/* A parsed netconf; all pointers are borrowed from the document, or (`master` after chained())
 * from prevResult. */
struct rail_conf {
	const char *master; /* name of the master; NULL: the device of the default route */
	uint32_t mtu;	    /* requested MTU; 0: the MTU of the master */
	struct mac
		mac; /* requested MAC; len 0: none (the kernel chooses that of a new link, a VF keeps its own) */
	bool in_container; /* the master is in the pod's namespace */
	/* no ARP or NDP on this link: no conflict or gateway detection, no announcement */
	bool no_arp;
	const struct json *ipam, *dns; /* may be NULL */
	union {
		struct macvlan_conf macvlan;
		struct ipvlan_conf ipvlan;
		struct vlan_conf vlan;
		struct ipoib_conf ipoib;
		struct ib_sriov_conf ib_sriov;
		struct host_device_conf host_device;
		struct sriov_conf sriov;
	};
};

/* Inputs of a driver's read(). */
struct rail_source {
	struct json_doc *doc;
	const struct json *defaults; /* netconf with default values, read first; may be NULL */
	const struct json *conf;
	const char *args_mac; /* MAC of CNI_ARGS; NULL: none */
};

enum link_driver_flags {
	RAIL_READS_ARGS = 1 << 0,     /* the driver reads CNI_ARGS, so they must be valid */
	RAIL_QUERIES_KERNEL = 1 << 1, /* kernel support is checked before any change */
	RAIL_OPTIMISTIC_DAD = 1 << 2, /* optimistic IPv6 duplicate address detection */
	RAIL_PROXY_ARP = 1 << 3,      /* set proxy_arp in the pod */
	RAIL_LATE_MTU = 1 << 4, /* the kernel ignores an MTU in the message that creates the link */
};

/* The order in which drivers run and take their locks, the same in every process. */
enum rail_order {
	RAIL_MACVLAN,
	RAIL_IPVLAN,
	RAIL_VLAN,
	RAIL_HOST_DEVICE,
	RAIL_SRIOV,
	RAIL_IPOIB,
	RAIL_IB_SRIOV,
};

struct link_driver {
	const char *type; /* plugin name; for created links also the kernel's link kind */
	enum rail_order order;
	unsigned int flags;
	const char *module; /* kernel module; NULL: none */

	/* --- pure functions --- */
	/* Parses the netconf. An error has kind ERR_CONF or ERR_UNSUPPORTED and names the field. */
	int (*read)(const struct rail_source *s, struct rail_conf *ret, struct err *e);
	/* Checks the configuration against the master; NULL: no check. */
	int (*fits)(const struct rail_conf *c, const struct link *master, struct err *e);
	/* Created links: sets the driver's own attributes. NULL: the driver moves a device. */
	void (*spec)(const struct rail_conf *c, const struct link *master, struct link_spec *s);
	/* Returns whether two configurations on one master conflict (one link per VLAN). NULL: they
	 * never conflict. */
	bool (*same_link)(const struct rail_conf *a, const struct rail_conf *b);
	/* CHECK: compares the driver's own attributes. */
	int (*check)(const struct rail_conf *c, const struct link *l, struct err *e);
	/* A hint for the error when create or move failed with `code`; NULL: no hint. */
	const char *(*hint)(int code);
	/* ADD of a plugin that runs as its own process and has a prevResult: takes the master and
	 * the addresses from prevResult if the netconf has none. NULL: prevResult is not used. */
	int (*chained)(const struct cni_result *prev, struct rail *rail, struct err *e);

	/* Called first in a plugin that runs as its own process: sets the target of the log. NULL:
	 * stderr. */
	void (*start)(const struct cni_call *c);

	/* --- moved devices; for created links all but `gc` are NULL --- */
	/* Called before devices are inspected, once for all attachments of the driver: locks the
	 * devices against other processes and restores devices of deleted pods. NULL: no call */
	int (*claim)(struct attach *a, struct err *e);
	/* Sets rail->master and rail->no_link and runs all checks; changes nothing. */
	int (*inspect)(struct attach *a, struct rail *rail, struct err *e);
	/* Called once for all attachments of the driver, after the IPAM call: writes the records
	 * that must be on disk before the devices change, then configures the devices on the node.
	 * Pushes its reverse onto a->undo. */
	int (*prepare)(struct attach *a, struct err *e);
	/* Adds the messages that move the device, to a batch of the node's netlink socket. */
	void (*put)(const struct attach *a, const struct rail *rail, struct nl_batch *b);
	/* Called once for all attachments of the driver: configures the devices in the pod. */
	int (*settle)(struct attach *a, struct err *e);
	/* Restores the device from any intermediate state. NULL: the reverse that `prepare` pushed
	 * restores the device. */
	int (*undo)(struct attach *a, const struct rail *rail, struct err *e);
	/*
	 * DEL: restores as much as possible, even without namespace, device or valid configuration.
	 */
	int (*del)(struct attach *a, const struct rail *rail, struct err *e);
	/* Cleanup on the node; a->pod is NULL. Called by GC, and for created links also by DEL
	 * without the pod's namespace. */
	int (*gc)(struct attach *a, const struct rail *rail, struct err *e);
	/* CHECK and STATUS: sets rail->no_link from the node's files; fails if an ADD cannot
	 * succeed. */
	int (*status)(const struct root *root, struct rail *rail, struct err *e);
	/* CHECK: compares attributes that the link itself does not have (those of a VF). NULL:
	 * there are none. */
	int (*verify)(struct attach *a, const struct rail *rail, struct err *e);
};

extern const struct link_driver macvlan_kind, ipvlan_kind, vlan_kind, host_device_kind, sriov_kind,
	ipoib_kind, ib_sriov_kind;

static inline bool link_driver_moves(const struct link_driver *k)
{
	return !k->spec;
}

/* --- shared by the drivers (link_conf.c) --- */
/* Field tables: rail_common_table has ipam and dns; rail_made_table, for created links, has master,
 * mtu and linkInContainer. */
extern const struct json_table rail_common_table, rail_made_table;
/* Reads the driver's own fields, defaults first. */
int rail_read_own(const struct rail_source *s, const struct json_table *t, void *into,
		  struct err *e);
/* Reads ipam and dns. */
int rail_read_common(const struct rail_source *s, struct rail_conf *ret, struct err *e);
/* Reads ipam, dns, master, mtu and linkInContainer. */
int rail_read_made(const struct rail_source *s, struct rail_conf *ret, struct err *e);
/* Fails with "invalid MTU ..., must be [0, master MTU(...)] ..." if the MTU exceeds that of the
 * master. */
int rail_mtu_fits(const struct rail_conf *c, const struct link *master, struct err *e);
/* Converts conf.dns for a result. */
int cni_dns_read(struct json_doc *d, const struct json *dns, struct cni_dns *ret, struct err *e);

/* --- one attachment per process (single.c); the plugin's `kind` is its driver --- */
int single_add(struct cni_call *c, struct cni_result *out, struct err *e);
int single_del(struct cni_call *c, struct err *e);
int single_check(struct cni_call *c, struct err *e);
int single_gc(struct cni_call *c, struct err *e);
int single_status(struct cni_call *c, struct err *e);

/* Defines the struct cni_plugin of the driver `which`. The arguments after the name are the tables
 * of the netconf's keys. */
#define RAIL_PLUGIN(which, plugin_name, ...)                                                       \
	{                                                                                          \
		.name = plugin_name, .about = "CNI " plugin_name " plugin unirail",                \
		.keys = JSON_TABLES(__VA_ARGS__), .kind = &which, .add = single_add,               \
		.check = single_check, .del = single_del, .gc = single_gc,                         \
		.status = single_status,                                                           \
	}

#endif
