/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_SPEC_ANNOTATIONS_H
#define UNIRAIL_SPEC_ANNOTATIONS_H

/* Keys of annotations and labels. Some keys that only one file uses are defined in that file
 * instead (doctor/node.c: node addresses that Calico, Flannel and k3s record). */

/* --- annotations of networks: Multus, on pods and definitions --- */

#define ANNOTATION_NETWORKS	   "k8s.v1.cni.cncf.io/networks"
#define ANNOTATION_NETWORK_STATUS  "k8s.v1.cni.cncf.io/network-status"
#define ANNOTATION_DEFAULT_NETWORK "v1.multus-cni.io/default-network"
#define ANNOTATION_RESOURCE_NAME   "k8s.v1.cni.cncf.io/resourceName"

/* --- annotations of SpiderMultusConfigs and of pods with injected networks --- */

#define ANNOTATION_NAD_NAME	  "multus.spidernet.io/cr-name"
#define ANNOTATION_CNI_VERSION	  "multus.spidernet.io/cni-version"
#define ANNOTATION_CNI_NAME	  "cni.spidernet.io/cniconfig-name"
#define ANNOTATION_INJECT_RDMA	  "cni.spidernet.io/rdma-resource-inject"
#define ANNOTATION_INJECT_NETWORK "cni.spidernet.io/network-resource-inject"

/* --- annotations of the addresses of pods: Spiderpool --- */

#define IPAM_SPIDERNET_IO	   "ipam.spidernet.io/"
#define ANNOTATION_IPPOOL	   IPAM_SPIDERNET_IO "ippool"
#define ANNOTATION_IPPOOLS	   IPAM_SPIDERNET_IO "ippools"
#define ANNOTATION_DEFAULT_IPPOOL4 IPAM_SPIDERNET_IO "default-ipv4-ippool" /* on a Namespace */
#define ANNOTATION_DEFAULT_IPPOOL6 IPAM_SPIDERNET_IO "default-ipv6-ippool"
#define ANNOTATION_ROUTES	   IPAM_SPIDERNET_IO "routes"
#define ANNOTATION_DEFAULT_ROUTE   IPAM_SPIDERNET_IO "default-route-nic"
#define ANNOTATION_SUBNET	   IPAM_SPIDERNET_IO "subnet"
#define ANNOTATION_SUBNETS	   IPAM_SPIDERNET_IO "subnets"
#define ANNOTATION_POOL_NUMBER	   IPAM_SPIDERNET_IO "ippool-ip-number"
#define ANNOTATION_POOL_RECLAIM	   IPAM_SPIDERNET_IO "ippool-reclaim" /* also a label of the pool */

/* Labels of pools and subnets. */
#define LABEL_POOL_CIDR	  IPAM_SPIDERNET_IO "ippool-cidr"
#define LABEL_SUBNET_CIDR IPAM_SPIDERNET_IO "subnet-cidr"
/* Labels of a pool that was created for an application. LABEL_OWNER_SUBNET is also set on any
 * other pool of a SpiderSubnet. */
#define LABEL_OWNER_SUBNET    IPAM_SPIDERNET_IO "owner-spider-subnet"
#define LABEL_OWNER_API	      IPAM_SPIDERNET_IO "owner-application-gv" /* "apps_v1" */
#define LABEL_OWNER_KIND      IPAM_SPIDERNET_IO "owner-application-kind"
#define LABEL_OWNER_NAMESPACE IPAM_SPIDERNET_IO "owner-application-namespace"
#define LABEL_OWNER_NAME      IPAM_SPIDERNET_IO "owner-application-name"
#define LABEL_OWNER_UID	      IPAM_SPIDERNET_IO "owner-application-uid"
#define LABEL_INTERFACE	      IPAM_SPIDERNET_IO "interface"
#define LABEL_IP_VERSION      IPAM_SPIDERNET_IO "ip-version" /* "IPv4", "IPv6" */
/* Prefix of labels in podAffinity of a pool that was created for an application. */
#define LABEL_APP_PREFIX IPAM_SPIDERNET_IO "app-"

/* --- annotations of unirail --- */

/* Annotations of a SpiderIPPool, described in ipam/pool/pool_cluster.h. */
#define ANNOTATION_ADOPTED	"unirail.io/adopted"
#define ANNOTATION_BLOCK_PREFIX "unirail.io/block-prefix"
/* Label of a SpiderIPBlock and of a SpiderEndpoint: block_label() of the node that owns the block
 * or wrote the endpoint. */
#define LABEL_NODE "unirail.io/node"
/* Label of a SpiderIPBlock: block_label() of its pool. */
#define LABEL_POOL "unirail.io/pool"
/* Annotation of a SpiderIPBlock: time at which the owner's agent detected that etcd was restored
 * from a backup. */
#define ANNOTATION_ETCD_RESTORED "unirail.io/etcd-restored"
/* Annotation of a SpiderIPBlock: the resourceVersion that the block had before OP_TOUCH
 * (block/op.h) wrote this annotation. */
#define ANNOTATION_SEEN "unirail.io/seen"
/* Annotation and label of a SpiderEndpoint whose retained addresses migrate.
 * ANNOTATION_REQUESTED_BY: "NODE UID" of the pod that requests them, followed by " migration" if
 * the pod's virtual machine migrates, or by " refused" if the node that has them refuses.
 * LABEL_REQUESTED_FROM: block_label() of the node that is to release them. */
#define ANNOTATION_REQUESTED_BY "unirail.io/requested-by"
#define LABEL_REQUESTED_FROM	"unirail.io/requested-from"
/* Annotation of a NetworkAttachmentDefinition, see spec/missing_resource.h. */
#define ANNOTATION_MISSING_RESOURCE "unirail.io/missing-resource"
/* Annotation of a Namespace: "true" or "false", see spec/definition.h. */
#define ANNOTATION_TRUSTED "unirail.io/trusted-definitions"
/* Annotation of a pod: "IB" makes NCCL fail instead of using TCP when RDMA fails (NCCL_NET=IB). */
#define ANNOTATION_NCCL_NET "unirail.io/nccl-net"
/* Annotations of a Secret: creation time of the newest token, or of the CA. */
#define ANNOTATION_TOKEN_SINCE "unirail.io/token-since"
#define ANNOTATION_CA_SINCE    "unirail.io/ca-since"
/* Label of a Secret in a Helm release, read in addition to LABEL_MANAGED_BY, which Helm sets to
 * "Helm". */
#define LABEL_CHART_MANAGED_BY "unirail.io/managed-by"
/* Labels of a Node. LABEL_MIGRATED: "stopping" or "yes", set by `unirail migrate`. LABEL_UNINSTALL:
 * deploy/uninstall removes unirail's files from a node that has this label. */
#define LABEL_MIGRATED	"unirail.io/migrated"
#define LABEL_UNINSTALL "unirail.io/uninstall"

/* --- labels and annotations of Kubernetes and other programs --- */

#define LABEL_MANAGED_BY	  "app.kubernetes.io/managed-by"
#define LABEL_NAMESPACE_NAME	  "kubernetes.io/metadata.name"
#define LABEL_OS		  "kubernetes.io/os"
#define LABEL_VM_NAME		  "vm.kubevirt.io/name"
#define ANNOTATION_VMI_MIGRATION  "kubevirt.io/migrationJobName"
#define ANNOTATION_VMI_NAME	  "kubevirt.io/domain"
#define ANNOTATION_CONFIG_SOURCE  "kubernetes.io/config.source"
#define ANNOTATION_LAST_APPLIED	  "kubectl.kubernetes.io/last-applied-configuration"
#define ANNOTATION_HELM_RELEASE	  "meta.helm.sh/release-name"
#define ANNOTATION_HELM_NAMESPACE "meta.helm.sh/release-namespace"
#define ANNOTATION_HELM_POLICY	  "helm.sh/resource-policy"

#endif
