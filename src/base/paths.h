/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_BASE_PATHS_H
#define UNIRAIL_BASE_PATHS_H

/* Default paths of sockets, files and directories that several programs share. A path that only one
 * program uses is in the header of its module. */

/* --- paths of unirail --- */

#define PATH_AGENT_SOCKET "/var/run/spidernet/spiderpool.sock" /* same path as Spiderpool's agent */
#define PATH_POOLS	  "/etc/unirail/pools"
#define PATH_IPAM_STATE	  "/var/lib/unirail/ipam"  /* directory of the journal and its lock */
#define PATH_RESOURCES	  "/etc/unirail/resources" /* configurations of device plugins */

/* --- paths of CNI and Multus --- */

#define PATH_CNI_CONF	 "/etc/cni/net.d"
#define PATH_CNI_BIN	 "/opt/cni/bin"
#define PATH_CNI_CACHE	 "/var/lib/cni" /* libcni's cache: files in its subdirectory results */
#define PATH_HOST_LOCAL	 "/var/lib/cni/networks" /* allocations of host-local */
#define PATH_MULTUS_CONF "/etc/cni/multus/net.d"
#define PATH_MULTUS	 "/var/lib/cni/multus" /* Multus' cache of attachments */
#define PATH_SRIOV	 "/var/lib/cni/sriov"  /* records of the plugin sriov */
#define PATH_TUNING	 "/run/cni/tuning" /* attributes of links that the plugin tuning restores */
#define PATH_WHEREABOUTS PATH_CNI_CONF "/whereabouts.d/whereabouts.conf"

/* --- paths of Kubernetes and the node --- */

#define PATH_DEVINFO_CNI	"/var/run/k8s.cni.cncf.io/devinfo/cni" /* files of CNI plugins */
#define PATH_DEVINFO_DP		"/var/run/k8s.cni.cncf.io/devinfo/dp"  /* files of device plugins */
#define PATH_CDI		"/var/run/cdi"
#define PATH_DEVICE_PLUGINS	"/var/lib/kubelet/device-plugins"
#define PATH_KUBELET_CHECKPOINT PATH_DEVICE_PLUGINS "/kubelet_internal_checkpoint"
#define PATH_NETNS		"/run/netns"

#endif
