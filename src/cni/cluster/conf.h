/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CNI_CLUSTER_CONF_H
#define UNIRAIL_CNI_CLUSTER_CONF_H

/*
 * A pod's networks from the cluster: what a netconf of `multus`, or one of `unirail-cni` that names an
 * agent, says about them. Keys as Multus', matched as Go's encoding/json does:
 *
 *	agent			socket of `unirail agent`; default (multus) POD_AGENT
 *	clusterNetwork		the pod's first network: a definition, the name of a network in
 *				confDir, or the path of a file or folder
 *	delegates		without it: the pod's first networks, configurations as libcni's
 *				(unirail-cni: `networks`, in its own form)
 *	defaultNetworks		further ones, for pods outside systemNamespaces
 *	systemNamespaces	["kube-system"]
 *	multusNamespace		"kube-system": of definitions named without one
 *	namespaceIsolation	false: a pod may name definitions of any namespace
 *	globalNamespaces	"default", a comma list: not so these
 *	confDir			/etc/cni/multus/net.d
 *	cniDir			/var/lib/cni/multus: what is attached is noted there as Multus does
 *	binDir			/opt/cni/bin
 *	readinessindicatorfile	waited for, 45 s at most
 *	kubeconfig		the agent has its own. A Multus configuration with delegates and
 *				without kubeconfig and agent asks nobody, as there
 *	logFile, logLevel	panic, error, verbose, debug
 *	runtimeConfig		what the runtime offers
 * `multus-shim` reads them from Multus' daemon-config.json first, which is written for the daemon's
 * container: a path below /host or its chrootDir is the node's.
 *
 * What does nothing here is logged: auxiliaryCNIChainName. logOptions, logToStderr and
 * retryDeleteOnError need nothing: what cannot be deleted stays noted.
 */

#include "cni/cluster/add.h"

#define POD_AGENT    "/var/run/spidernet/spiderpool.sock"
#define POD_CONF_DIR "/etc/cni/multus/net.d"
#define POD_CNI_DIR  "/var/lib/cni/multus"
#define POD_BIN_DIR  "/opt/cni/bin"

struct pod_conf {
	const char *agent;	     /* NULL: nobody is asked */
	const char *cluster_network; /* a definition's name; NULL: none */
	const char *cluster_path;    /* a path instead */
	struct json_strs default_networks, system_namespaces;
	bool has_system, isolation;
	const char *global_namespaces, *multus_namespace;
	const char *conf_dir, *cni_dir, *bin_dir, *ready_file;
	const struct json *delegates, *networks; /* arrays; at most one, or NULL */
};

/* Whether unirail-cni's netconf is one of these. */
bool pod_conf_asks(const struct json *conf);
/* Kind ERR_CONF. */
int pod_conf_read(const struct cni_call *c, bool multus, struct pod_conf *ret, struct err *e);
/* For DEL: what cannot be read is logged and has its default. */
void pod_conf_or_default(const struct cni_call *c, bool multus, struct pod_conf *ret);
/* How many networks the netconf has itself. */
size_t pod_conf_own(const struct pod_conf *c);

#endif
