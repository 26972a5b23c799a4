/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CNI_ATTACH_RAIL_H
#define UNIRAIL_CNI_ATTACH_RAIL_H

/*
 * What a rail can be: a link made in the pod on a device of the node (macvlan, ipvlan, ipoib), or a
 * device of the node moved into the pod (host-device, sriov, ib-sriov). A kind is a row of functions; the
 * steps that all rails go through (cni/attach/attach.h) call them. Another kind is a file with its row, its
 * name in the table of cni/multi/registry.c and its part of struct rail_conf.
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

/* A kind's netconf; all is borrowed from the document. */
struct rail_conf {
	const char *master; /* NULL: the default route's device */
	uint32_t mtu;	    /* 0: the master's */
	struct mac mac;	    /* len 0: the kernel's choice */
	bool in_container;  /* the master is in the pod's namespace */
	bool no_arp; /* nobody on the link answers ARP or NDP: nothing to detect, nor to announce */
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

/* What a netconf is read from. */
struct rail_source {
	struct json_doc *doc;
	const struct json *defaults; /* read first; may be NULL */
	const struct json *conf;
	const char *args_mac; /* MAC of CNI_ARGS; NULL: none */
};

enum rail_kind_flags {
	RAIL_READS_ARGS = 1 << 0,  /* CNI_ARGS must make sense to it */
	RAIL_ASKS_KERNEL = 1 << 1, /* whether the kernel has this kind is asked before any change */
	RAIL_OPTIMISTIC_DAD = 1 << 2, /* IPv6 addresses are used while they are being tested */
	RAIL_PROXY_ARP = 1 << 3,      /* the pod answers ARP for what it routes */
	RAIL_LATE_MTU = 1 << 4,	      /* the kernel ignores an MTU while it makes the link */
};

/* The order in which kinds take their turns, and their locks, in every process. */
enum rail_order {
	RAIL_MACVLAN,
	RAIL_IPVLAN,
	RAIL_VLAN,
	RAIL_HOST_DEVICE,
	RAIL_SRIOV,
	RAIL_IPOIB,
	RAIL_IB_SRIOV,
};

struct rail_kind {
	const char *type; /* the plugin's name; for links that are made also the kernel's */
	enum rail_order order;
	unsigned int flags;
	const char *module; /* what modprobe calls it; NULL: none */

	/* --- pure --- */
	/* Kind ERR_CONF, the field named. */
	int (*read)(const struct rail_source *s, struct rail_conf *ret, struct err *e);
	/* Whether it goes with the master; NULL: always. */
	int (*fits)(const struct rail_conf *c, const struct link *master, struct err *e);
	/* A link that is made: what only this kind has. NULL: a device that is moved. */
	void (*spec)(const struct rail_conf *c, const struct link *master, struct link_spec *s);
	/* Whether two of one master would be one link: it has one a VLAN. NULL: never. */
	bool (*same_link)(const struct rail_conf *a, const struct rail_conf *b);
	/* CHECK: what only this kind has. */
	int (*check)(const struct rail_conf *c, const struct link *l, struct err *e);
	/* What may be behind a failure to make or move it; NULL: nothing is known. */
	const char *(*hint)(int code);
	/* Behind another plugin, alone: what prevResult means. NULL: nothing. */
	int (*chained)(const struct cni_result *prev, struct rail *rail, struct err *e);

	/* Alone, before anything else: where the log goes. NULL: to stderr. */
	void (*start)(const struct cni_call *c);

	/* --- a device that is moved; all NULL for a link that is made --- */
	/* Before any look, once for all rails of the kind: nobody else works on their devices from
	 * now on, and what a pod that is dead left on them is put right. NULL: nothing to do. */
	int (*claim)(struct attach *a, struct err *e);
	/* rail->master, rail->no_link and every check; changes nothing. */
	int (*look)(struct attach *a, struct rail *rail, struct err *e);
	/* Once for all rails of the kind, when there are addresses: what must be on disk before the
	 * devices are touched, then what is set on them on the node. It pushes its own reverse. */
	int (*prepare)(struct attach *a, struct err *e);
	/* The messages that move it, for the node's wire. */
	void (*put)(const struct attach *a, const struct rail *rail, struct nl_batch *b);
	/* Once for all rails of the kind: what is set on them in the pod. */
	int (*settle)(struct attach *a, struct err *e);
	/* Back as it was, however far it came. NULL: what `prepare` pushed does it. */
	int (*undo)(struct attach *a, const struct rail *rail, struct err *e);
	/* DEL. Without namespace, device or a good configuration it does what can be done. */
	int (*del)(struct attach *a, const struct rail *rail, struct err *e);
	/* What GC, and a DEL without namespace, can mend on the node; a->pod is NULL. For a link
	 * that is made as well. */
	int (*gc)(struct attach *a, const struct rail *rail, struct err *e);
	/* CHECK and STATUS: rail->no_link, as far as the node's files tell; an error is what keeps an
	 * ADD from working. */
	int (*status)(const struct root *root, struct rail *rail, struct err *e);
	/* CHECK: what is not the link's own (a VF's attributes). NULL: nothing. */
	int (*verify)(struct attach *a, const struct rail *rail, struct err *e);
};

extern const struct rail_kind macvlan_kind, ipvlan_kind, vlan_kind, host_device_kind, sriov_kind,
	ipoib_kind, ib_sriov_kind;

static inline bool rail_kind_moves(const struct rail_kind *k)
{
	return !k->spec;
}

/* --- shared by the kinds (link_conf.c) --- */
/* Fields that the kind has for itself, defaults first. */
int rail_read_own(const struct rail_source *s, const struct json_table *t, void *into,
		  struct err *e);
/* ipam and dns. */
int rail_read_common(const struct rail_source *s, struct rail_conf *ret, struct err *e);
/* These, and master, mtu and linkInContainer. */
int rail_read_made(const struct rail_source *s, struct rail_conf *ret, struct err *e);
/* `invalid MTU %d, must be [0, master MTU(%d)]` */
int rail_mtu_fits(const struct rail_conf *c, const struct link *master, struct err *e);
/* conf.dns onto a result. */
int cni_dns_read(struct json_doc *d, const struct json *dns, struct cni_dns *ret, struct err *e);

/* --- one rail as a process of its own (single.c): the kind of its plugin is its rail_kind --- */
int rail_run_add(struct cni_call *c, struct cni_result *out, struct err *e);
int rail_run_del(struct cni_call *c, struct err *e);
int rail_run_check(struct cni_call *c, struct err *e);
int rail_run_gc(struct cni_call *c, struct err *e);
int rail_run_status(struct cni_call *c, struct err *e);

#define RAIL_PLUGIN(which, plugin_name)                                                            \
	{                                                                                          \
		.name = plugin_name, .about = "CNI " plugin_name " plugin unirail",                \
		.kind = &which, .add = rail_run_add, .check = rail_run_check, .del = rail_run_del, \
		.gc = rail_run_gc, .status = rail_run_status,                                      \
	}

#endif
