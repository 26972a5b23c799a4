/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CNI_CLUSTER_CONF_H
#define UNIRAIL_CNI_CLUSTER_CONF_H

/*
 * The netconf of `multus`, and of `unirail-cni` when it names an agent: where a pod's networks come
 * from. Keys as in Multus, matched as Go's encoding/json does; a value directly after a key is its
 * default:
 *
 *	agent			socket of `unirail agent`; default (multus) PATH_AGENT_SOCKET
 *	clusterNetwork		the pod's first network: a definition, the name of a network in
 *				confDir, or the path of a file or directory
 *	delegates		without clusterNetwork: the pod's first networks, configurations as
 *				libcni's (unirail-cni: `networks`, in its own form)
 *	defaultNetworks		further networks, for pods outside systemNamespaces
 *	systemNamespaces	["kube-system"]
 *	multusNamespace		"kube-system": namespace of definitions in
 *				clusterNetwork and defaultNetworks
 *	namespaceIsolation	false: a pod may reference definitions of any namespace
 *	globalNamespaces	"default", comma separated: definitions of these namespaces are exempt from namespaceIsolation
 *	confDir			/etc/cni/multus/net.d
 *	cniDir			/var/lib/cni/multus: attachments are recorded there in Multus' format
 *	binDir			/opt/cni/bin
 *	readinessindicatorfile	ADD waits for this file, 45 s at most
 *	kubeconfig		not read: the agent has its own. As Multus, `multus` works without
 *				agent if the netconf has delegates, but none of kubeconfig, agent
 *				and clusterNetwork
 *	logFile, logLevel	panic, error, verbose, debug
 *	runtimeConfig		from the runtime
 * For `multus-shim` the keys of Multus' daemon-config.json take precedence. That file is written
 * for the daemon's container: /host, /hostroot or its chrootDir is removed from the start of paths.
 *
 * auxiliaryCNIChainName has no effect and is logged. logOptions and logToStderr are ignored, and so
 * is retryDeleteOnError, because a DEL that fails always retains the cache entry.
 */

#include "cni/cluster/add.h"

struct pod_conf {
	const char *agent;	     /* socket of the agent; NULL: works without agent */
	const char *cluster_network; /* name of a definition, or of a network in conf_dir */
	const char *cluster_path;    /* path of the cluster's network, instead of a name */
	struct json_strs default_networks, system_namespaces;
	bool has_system, isolation;
	const char *global_namespaces, *multus_namespace;
	const char *conf_dir, *cni_dir, *bin_dir, *ready_file;
	const struct json *delegates, *networks; /* arrays; at most one is not NULL */
};

extern const struct json_table pod_conf_table; /* keys of the netconf */
/* Returns whether a netconf of unirail-cni names an agent, so that this module handles it. */
bool pod_conf_names_pod(const struct json *conf);
/* Parses the netconf. Error kind ERR_CONF. */
int pod_conf_read(const struct cni_call *c, bool multus, struct pod_conf *ret, struct err *e);
/* Reads the netconf for DEL and GC. If it is invalid, logs the error and uses the default of every
 * key. */
void pod_conf_or_default(const struct cni_call *c, bool multus, struct pod_conf *ret);
/* Returns the number of networks that need no agent: those in the netconf itself, or 1 for a
 * clusterNetwork that is a path. */
size_t pod_conf_networks(const struct pod_conf *c);

#endif
