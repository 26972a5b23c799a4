/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CNI_CLUSTER_ADD_H
#define UNIRAIL_CNI_CLUSTER_ADD_H

/*
 * One network of a pod, as somebody else has chosen it (the agent, from the pod's annotations; a
 * Multus configuration's delegates), written as a network of unirail-cni's own configuration. What
 * Multus puts into a delegate's configuration is put in:
 *
 *	name			the definition's, when the configuration has none
 *	deviceID, pciBusID	of what was allocated, in every plugin. A device that the pod's annotation
 *				requested is none of these, but runtimeConfig.deviceID, of a plugin that
 *				names no device itself
 *	args.cni		cni-args, over what is there
 *	runtimeConfig		what the runtime offers, and for all but the first network what was asked
 *				for, cut to each plugin's capabilities
 *	CNI_ARGS		MAC and IP
 *
 * and what the original plugins would ask their agent for:
 *
 *	a coordinator's keys	where it has none of its own
 *	spiderpool's socket	and the folder of its store, so that a DEL works without the agent
 */

#include "cni/protocol/cni.h"

/* Borrowed; NULL or empty: not there. */
struct pod_net {
	const char *nad;  /* "team/rail0" */
	const char *name; /* of the definition, or of the file to look for */
	const char *ifname, *device, *resource, *mac, *guid;
	const char *requested; /* device of the annotation, authorized by the agent; device is NULL */
	struct json_strs ips, gateways;
	const struct json *config; /* NULL: the file `name` of the configuration folder */
	const char *path;	   /* a file or a folder of configurations instead of these */
	bool trusted; /* an administrator wrote the configuration (spec/definition.h) */
	const struct json *ports, *bandwidth, *args;
};

/* What all networks of a pod have in common. */
struct pod_nets {
	const struct cni_call *call;
	const char *conf_dir;		/* of files for networks without configuration */
	const char *bin_dir;		/* searched before CNI_PATH */
	const char *agent, *state_dir;	/* for spiderpool; NULL: nothing is put in */
	const struct json *coordinator; /* its settings; NULL: none */
	const struct json *runtime;	/* runtimeConfig of the call; NULL: none */
};

/* The agent's element `v`; `place` names it. */
int pod_net_read(struct json_doc *d, const struct json *v, const char *place, struct pod_net *ret,
		 struct err *e);
/* The device that it gets, allocated or requested; NULL: none. */
const char *pod_net_device(const struct pod_net *net);
/* "network 'team/rail0'" for messages. */
const char *pod_net_label(const struct pod_net *net);

/*
 * Holds a tenant's configuration against definition.h. Names of log files are removed from it: *keep then owns what
 * net->config is, else it is NULL. Kind ERR_CONF. add.c
 */
int pod_net_check(const struct pod_nets *p, struct pod_net *net, struct json_doc **keep,
		  struct err *e);

/* Network `index` of the pod, onto an array. Kind ERR_CONF. */
int pod_net_put(struct json_out *o, const struct pod_nets *p, const struct pod_net *net,
		size_t index, struct err *e);

/* Where a device's information is for the pod; free(). */
char *pod_net_devinfo(const char *name, const char *container_id, const char *ifname);

#endif
