/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CNI_MULTI_MULTI_H
#define UNIRAIL_CNI_MULTI_MULTI_H

/*
 * The plugin unirail-cni attaches all networks of a pod in one process. Its netconf (keys matched
 * as Go's encoding/json does):
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
 *	networks	each a conflist ("plugins") or the object of a single plugin ("type"), with
 *			unique names. `ifname` defaults to CNI_IFNAME for the first network, to
 *			net1, net2 ... for the following ones. Further keys: `cniArgs`, appended to
 *			CNI_ARGS; `defaultRoute`, gateways: the pod's default routes of their
 *			families use this network and no other; `deviceID`, the allocated device,
 *			for the pod's entry in `cniDir`; `nad`, name of the
 *			NetworkAttachmentDefinition ("team/rail0"). With
 *			`nad` the network's name need not be unique, and the network's `cniVersion`
 *			is used; "" means that its plugins get no cniVersion (0.1.0).
 *	defaults	keys added to an attachment's object where it does not have them (`ipam` as
 *			a whole)
 *	coordinator	coordinator's object for each built-in network without a coordinator
 *	timeoutMs	total limit of conflict and gateway detection, from the time the links have carrier; default:
 *			the IPAM's (detect.total_ms; detect.carrier_ms limits the time before)
 *	multusCniDir	Multus' state directory (its cniDir); default /var/lib/cni/multus, "": none;
 *			ignored if cniDir is given. A DEL of a container that has a file there
 *			deletes what Multus attached (cni/multus/import.h), so a node can migrate
 *			with its pods running.
 *	cniDir		the directory that Multus has as cniDir: attachments are recorded there in
 *			Multus' format, so that the node can return to Multus with its pods running:
 *			Multus' DEL then calls the plugins of each network by name; default: none
 *	binDir		as in Multus: plugin directory, searched before CNI_PATH
 *
 * The first plugin of a network creates its interface; ifacer may precede it. macvlan, ipvlan,
 * vlan, host-device, sriov and the other link drivers ("built-in") and coordinator run in this
 * process, for all networks together; tuning, sbr, loopback, ifacer and rdma run in this process
 * one by one; any other plugin is executed from CNI_PATH as libcni does, with name, cniVersion and
 * prevResult filled in. The order of an ADD:
 *
 *	1. checks that need no change
 *	2. plugins before first plugins (ifacer: it creates masters), then checks of the attachments
 *	3. first plugins that are not built in (a default network such as ptp or bridge)
 *	4. all links of built-in networks
 *	5. plugins between first plugin and coordinator, network by network
 *	6. the coordinators of all networks
 *	7. plugins after the coordinator, network by network; then `defaultRoute`
 *
 * A DEL runs in reverse order and continues after failures; it needs neither namespace, masters nor
 * prevResult. A failed ADD undoes everything. MAC, IP and GATEWAY of CNI_ARGS apply to the first
 * network (spiderpool refuses IP if it serves several); runtimeConfig is passed to the first
 * network's plugins except link drivers and coordinator, by their capabilities.
 *
 * The result contains all interfaces and addresses, in the order of networks. A route without a
 * gateway gets the gateway of its network, since the merged list does not show to which network a
 * route belongs.
 */

#include "cni/plugins/coordinator/coordinator.h"
#include "cni/plugins/chained.h"

struct multi_plugin {
	const char *type;
	const struct json *conf;
	/* chained plugin that runs in this process; NULL: a link driver, or a plugin that is
	 * executed */
	const struct cni_meta *meta;
};

struct multi_net {
	char *label, *ifname; /* label and interface name such as "rail 'net1' (rail0)", "net1" */
	const char *name;
	const char *nad;	  /* name of the definition, "team/rail0"; NULL: none */
	const char *device;	  /* allocated device; NULL: none */
	struct cni_call call;	  /* the call that its plugins get */
	char *args;		  /* call.args_text, if this struct owns it */
	const char *own_cni_args; /* appended to CNI_ARGS; NULL: nothing */
	bool own_args;
	bool flat;     /* main.conf is the network's object, not an element of `plugins` */
	bool own_prev; /* call.prev is the network's own recorded result, not the merged one */
	struct ipaddr *gateways; /* defaultRoute */
	size_t n_gateways;
	/* false: ifname is CNI_IFNAME, which the runtime chooses */
	bool named;
	struct multi_plugin main;	/* the plugin that creates the interface */
	const struct link_driver *kind; /* link driver; NULL: not built in */
	const struct json *co;		/* coordinator's object; NULL: none */
	/* other plugins: `ahead` run before the first plugin, `before` between the first plugin
	 * and the coordinator, `after` after the coordinator */
	struct multi_plugin *ahead, *before, *after;
	size_t n_ahead, n_before, n_after;

	/* set by multi_read_plugins() and multi_del() */
	struct coordinator_conf coordinator_conf;
	struct cni_result result;	 /* result of the network's plugins so far */
	struct cni_result plugin_result; /* result before defaultRoute changed it; empty: unchanged */
	struct cni_result prev;		 /* set by multi_set_prev() */
};

struct multi {
	struct cni_call *call;
	char *later_args; /* CNI_ARGS of all networks but the first: without MAC, IP, GATEWAY */
	struct multi_net *nets;
	size_t n_nets;
	const struct json *defaults;
	int timeout_ms;
	const char *keep_dir;	      /* conf.cniDir; NULL: no cache entries */
	char *path;		      /* CNI_PATH with binDir; NULL: unchanged */
	struct rail *rails;	      /* attachments of the built-in networks, in order */
	struct coordinator_nic *nics; /* interfaces of all networks */
	size_t n_rails, n_co;
};

extern const struct json_table multi_table; /* keys of the netconf */
/* Reads the networks of the netconf and their plugins. Returns 0 or -errno. */
int multi_read(struct cni_call *c, struct multi *ret, struct err *e);
/* Reads the configuration of attachments and coordinators and fills x->rails and x->nics. */
int multi_read_plugins(struct multi *x, struct err *e);
int multi_read_all(struct cni_call *c, struct multi *ret, struct err *e); /* both of the above */
/* DEL and GC: fills x->rails only, from what is readable. */
void multi_read_rails(struct multi *x);
void multi_done(struct multi *x);
#define auto_multi __attribute__((cleanup(multi_done)))

/* Returns the call that the plugins of network i get. */
const struct cni_call *multi_call(const struct multi *x, size_t i);
/* Pure. Fails if more than one default route of a family is requested, because the kernel would
 * distribute the traffic over these routes. */
int multi_check_gateways(const struct multi *x, struct err *e);
/* Returns the IPAM call of a built-in network; conf NULL: no IPAM. */
struct cni_ipam_call multi_ipam_call(const struct multi *x, size_t i);
/* Pure. Returns CNI_ARGS without MAC, IP and GATEWAY; the caller frees it. */
char *multi_later_args(const char *text);

/* --- results (pure) --- */
/* Appends a network's result to the merged one. */
void multi_merge(const struct cni_result *from, struct cni_result *into);
/* Extracts a network's part of the merged result. An interface in the pod belongs to the network
 * with its name; host-side interfaces listed before it belong to the same network. */
void multi_slice(const struct multi *x, const struct cni_result *all, size_t net,
		 struct cni_result *ret);

/*
 * Sets the recorded result of the network's own ADD as call.prev of this network, in place of its
 * part of the runtime's prevResult. Takes ownership of *prev. NULL: no result is recorded, and the
 * network has no prevResult.
 */
void multi_set_prev(struct multi *x, size_t net, struct cni_result *prev);
/* Writes the network's recorded result, or else its part of the merged one, into *ret, which
 * must be empty. Returns false if the network's call has no prevResult. */
bool multi_prev(const struct multi *x, size_t net, struct cni_result *ret);

/* --- the CNI verbs (add.c, del.c) --- */
int multi_add(struct multi *x, struct cni_result *out, struct err *e);
int multi_del(struct multi *x, struct err *e);
int multi_check(struct multi *x, struct err *e);
int multi_gc(struct multi *x, struct err *e);
int multi_status(struct multi *x, struct err *e);

#endif
