/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CNI_CLUSTER_ADD_H
#define UNIRAIL_CNI_CLUSTER_ADD_H

/*
 * Converts one network of a pod, chosen by the agent (from the pod's annotations) or given by the
 * netconf (an element of Multus' delegates, or a path in clusterNetwork), to a network of
 * unirail-cni's configuration. It adds what Multus adds to a delegate's configuration:
 *
 *	name			of the definition, if the configuration has none
 *	deviceID, pciBusID	the allocated device, in every plugin. A device that the pod's annotation
 *				requested is passed as runtimeConfig.deviceID only, to plugins that name
 *				no device
 *	args.cni		cni-args, which override existing keys
 *	runtimeConfig		from the runtime, and for all networks but the first from the pod's
 *				request, limited to each plugin's capabilities
 *	CNI_ARGS		MAC and IP
 *
 * and what the original plugins request from their agent:
 *
 *	coordinator's keys	where the plugin's object does not set them
 *	spiderpool's socket	and the directory of its store, so that a DEL works without the agent
 */

#include "cni/protocol/cni.h"

/* All members are borrowed; NULL or empty: absent. */
struct pod_net {
	const char *nad;  /* "team/rail0" */
	const char *name; /* name of the definition, or of the network to find in conf_dir */
	const char *ifname, *device, *resource, *mac, *guid;
	const char *requested; /* device from the annotation, authorized by the agent */
	struct json_strs ips, gateways;
	/* configuration of the network; NULL: network `name` of conf_dir */
	const struct json *config;
	const char *path; /* file or directory of configurations, instead of config and name */
	bool trusted;	  /* an administrator wrote the configuration (spec/definition.h) */
	const struct json *ports, *bandwidth, *args;
};

/* Inputs that all networks of a pod share. */
struct pod_nets {
	const struct cni_call *call;
	const char *conf_dir; /* configuration files of networks without `config` */
	const char *bin_dir;  /* directory that is searched for plugins before CNI_PATH */
	/* socket and directory that spiderpool gets; NULL: not added */
	const char *agent, *state_dir;
	const struct json *coordinator; /* coordinator settings; NULL: none */
	const struct json *runtime;	/* runtimeConfig of the call; NULL: none */
};

/* Reads element `v` of the agent's reply; `place` is its path in errors. */
int pod_net_read(struct json_doc *d, const struct json *v, const char *place, struct pod_net *ret,
		 struct err *e);
/* Returns the name of the network, such as "team/rail0", otherwise its path; "": it has neither. */
const char *pod_net_label(const struct pod_net *net);

/*
 * Checks a tenant's configuration against the rules of spec/definition.h. Log file names are
 * removed from it: *keep then owns the document of net->config, otherwise *keep is NULL. Error
 * kind ERR_CONF, or ERR_UNAVAILABLE if a plugin is not installed.
 */
int pod_net_check(const struct pod_nets *p, struct pod_net *net, struct json_doc **keep,
		  struct err *e);

/* Appends network `index` of the pod to an array. Error kind ERR_CONF. */
int pod_net_put(struct json_out *o, const struct pod_nets *p, const struct pod_net *net,
		size_t index, struct err *e);

/* Returns the path of the device information file of a pod's network; the caller frees it. */
char *pod_net_devinfo(const char *name, const char *container_id, const char *ifname);

#endif
