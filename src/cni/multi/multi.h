/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CNI_MULTI_MULTI_H
#define UNIRAIL_CNI_MULTI_MULTI_H

/*
 * unirail-cni: every network of a pod in one process. Its netconf (keys matched as Go's
 * encoding/json does):
 *
 *	{"cniVersion": "1.1.0", "name": "rails", "type": "unirail-cni",
 *	 "defaults": {"mtu": 4200, "ipam": {"type": "spiderpool"}},
 *	 "coordinator": {"hijackCIDR": ["10.96.0.0/12"]},
 *	 "timeoutMs": 1000,
 *	 "networks": [
 *	   {"name": "podnet", "plugins": [{"type": "ptp", "ipam": {...}}]},
 *	   {"name": "rail0", "ifname": "net1",
 *	    "plugins": [{"type": "macvlan", "master": "ens1",
 *			 "ipam": {"type": "spiderpool", "default_ipv4_ippool": ["rail0"]}},
 *			{"type": "tuning", "sysctl": {...}},
 *			{"type": "coordinator"}]},
 *	   {"name": "rail1", "type": "macvlan", "master": "ens2"}]}
 *
 *	networks	each a conflist ("plugins") or one plugin's object ("type"). Names differ.
 *			`ifname`: by default CNI_IFNAME for the first, net<i> for the i-th (from 1).
 *			Each may have, besides: `cniArgs`, put behind CNI_ARGS; `defaultRoute`,
 *			gateways: the pod's default routes of their families go by this network,
 *			and no other; `deviceID`, for notes; `nad`, what it is called outside
 *			("team/rail0"): the name of such a one need not differ from others', and its
 *			`cniVersion` counts; "": it has none, and its plugins get none (0.1.0).
 *	defaults	what a rail's object does not say itself, key by key (`ipam` as a whole)
 *	coordinator	for each network of ours that has none of its own
 *	timeoutMs	total limit of conflict and gateway detection, from carrier on; default: the
 *			IPAM's (detect.total_ms; detect.carrier_ms is for what comes before)
 *	multusCniDir	where Multus kept its state (its cniDir); default /var/lib/cni/multus, "":
 *			nowhere. A DEL of a container that has a file there deletes what Multus
 *			attached (cni/multus/import.h), so a node can change over with its pods running.
 *	cniDir		Multus' own key: that folder, and what is attached is noted there as Multus
 *			would, so that the node can change back with its pods running: Multus' DEL
 *			then calls each network's plugins by their names
 *	binDir		Multus' own key: plugins are looked for there before CNI_PATH
 *
 * The first plugin of a network makes its interface; ifacer may stand before it. macvlan, ipvlan,
 * vlan, host-device and sriov ("ours") and coordinator are done here, for all networks together;
 * tuning, sbr, loopback and ifacer are done here, too, one by one; any other plugin is executed
 * from CNI_PATH as libcni would, with name, cniVersion and prevResult filled in. The order of an
 * ADD:
 *
 *	1. checks that need no change
 *	2. what stands before first plugins (ifacer: it makes masters), then checks of the rails
 *	3. first plugins that are not ours (a foreign default network such as ptp or bridge)
 *	4. all links of ours
 *	5. plugins between first plugin and coordinator, network by network
 *	6. the coordinators of all networks
 *	7. plugins after the coordinator, network by network
 *
 * and a DEL goes backwards, whatever fails on the way; it needs neither namespace, masters nor
 * prevResult. A failed ADD takes everything back. MAC, IP and GATEWAY of CNI_ARGS are the first
 * network's; runtimeConfig goes to the first network's chained plugins, by their capabilities.
 *
 * The result holds every interface and address, networks in order; a route without a gateway gets
 * its network's, since in the common list it could not be told whose it is.
 */

#include "cni/plugins/coordinator/coordinator.h"
#include "cni/plugins/chained.h"

struct aio_plugin {
	const char *type;
	const struct json *conf;
	const struct cni_meta *meta; /* in process; NULL: executed */
};

struct aio_net {
	char *label, *ifname; /* "rail 'net1' (rail0)", "net1" */
	const char *name;
	const char *nad;	  /* what it is called outside, "team/rail0"; NULL: it is not */
	const char *device;	  /* what was allocated for it; NULL: nothing */
	struct cni_call call;	  /* what its plugins see */
	char *args;		  /* call.args_text, when it is its own */
	const char *own_cni_args; /* what it adds to CNI_ARGS; NULL: nothing */
	bool own_args;
	bool flat;     /* main.conf is the network's own object, not an element of `plugins` */
	bool own_prev; /* call.prev is its own, not the common one */
	struct ipaddr *gateways; /* defaultRoute */
	size_t n_gateways;
	bool named;		/* the interface's name is the configuration's, not CNI_IFNAME */
	struct aio_plugin main; /* the plugin that makes the interface */
	const struct rail_kind *kind; /* it is one of ours; NULL: it is not */
	const struct json *co;	      /* its coordinator's object; NULL: none */
	/* the others, in order: before the first plugin, between it and the coordinator, after */
	struct aio_plugin *ahead, *before, *after;
	size_t n_ahead, n_before, n_after;

	struct co_conf co_conf;	  /* read by aio_read_plugins() */
	struct cni_result result; /* what its chain has so far */
	struct cni_result told;	  /* before defaultRoute changed it; empty: it did not */
	struct cni_result prev;	  /* aio_set_prev() */
};

struct aio {
	struct cni_call *call;
	char *later_args; /* CNI_ARGS without what is the first one's */
	struct aio_net *nets;
	size_t n_nets;
	const struct json *defaults;
	int timeout_ms;
	const char *keep_dir; /* conf.cniDir; NULL: nothing is noted for Multus */
	char *path;	      /* CNI_PATH with binDir; NULL: as it was */
	struct rail *rails;   /* of the networks of ours, in order */
	struct co_nic *nics;  /* of all networks */
	size_t n_rails, n_co;
};

/* Which networks and plugins there are. */
int aio_read(struct cni_call *c, struct aio *ret, struct err *e);
/* What rails and coordinators want, and the rails and NICs made from it. */
int aio_read_plugins(struct aio *x, struct err *e);
/* The rails alone, of what can be read (DEL, GC). */
void aio_read_rails(struct aio *x);
void aio_done(struct aio *x);
#define auto_aio __attribute__((cleanup(aio_done)))

/* The call that network i sees. */
const struct cni_call *aio_call(const struct aio *x, size_t i);
/* One default route a family: the kernel would share packets out among several. Pure. */
int aio_check_gateways(const struct aio *x, struct err *e);
/* The IPAM call of a network of ours; conf NULL: it has no IPAM. */
struct cni_ipam_call aio_ipam_call(const struct aio *x, size_t i);
/* CNI_ARGS without MAC, IP and GATEWAY; the caller frees it. Pure. */
char *aio_later_args(const char *text);

/* --- results (pure) --- */
/* Appends a network's result to the common one. */
void aio_merge(const struct cni_result *from, struct cni_result *into);
/* A network's part of the common result. An interface in the pod belongs to the network of its
 * name, what comes before it and is not in the pod to the same one. */
void aio_slice(const struct aio *x, const struct cni_result *all, size_t net,
	       struct cni_result *ret);

/*
 * What the network's own ADD said, noted with it: call.prev of this network, in place of its part of
 * the runtime's prevResult. Takes *prev over. NULL: nothing is noted of it, and it has no prevResult.
 */
void aio_set_prev(struct aio *x, size_t net, struct cni_result *prev);
/* The network's own result where it is noted, else its part of the common one, into *ret, which is
 * empty. false: there is none. */
bool aio_prev(const struct aio *x, size_t net, struct cni_result *ret);

/* --- verbs, in all_in_one_*.c --- */
int aio_add(struct aio *x, struct cni_result *out, struct err *e);
int aio_del(struct aio *x, struct err *e);
int aio_check(struct aio *x, struct err *e);
int aio_gc(struct aio *x, struct err *e);
int aio_status(struct aio *x, struct err *e);

#endif
