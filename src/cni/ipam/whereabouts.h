/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CNI_IPAM_WHEREABOUTS_H
#define UNIRAIL_CNI_IPAM_WHEREABOUTS_H

/*
 * The "whereabouts" IPAM on the local store (ipam/whereabouts/whereabouts.h). Its netconf, keys
 * matched as Go's encoding/json does:
 *
 *	type                      "whereabouts"
 *	range                     "10.0.0.0/24" or "10.0.0.5-10.0.0.9/24"
 *	range_start, range_end    first and last address to allocate; each is ignored if it is
 *	                          outside the network, or if `range` has bounds itself
 *	exclude                   ["10.0.0.8/30", "10.0.0.7"]
 *	ipRanges                  [{range, range_start, range_end, exclude}]: further ranges; a pod
 *	                          gets an address of each
 *	gateway                   gateway of those addresses of the ranges that have its family; it
 *	                          is never allocated (the original allocates it, and names an IPv4
 *	                          gateway for IPv6 addresses)
 *	routes, dns               as in a result
 *	addresses                 [{address, gateway}]: fixed addresses, which every pod gets
 *	enable_overlapping_ranges default true: an address that two ranges of one network_name have
 *	                          in common goes to one pod
 *	network_name              ranges with different network_name are allocated independently
 *	configuration_path        see below
 *	log_file, log_level       (debug, verbose, error, panic) of a plugin that runs as its own
 *	                          process
 *	state_dir                 unirail's own key, not in the flat file: absolute path, default as
 *	                          in ipam/ipam.h
 *	kubernetes.kubeconfig     the cluster's store, which is not supported: ADD, CHECK, GC
 *                           and STATUS refuse it (ERR_UNAVAILABLE), DEL releases the addresses of
 *                           the local store, and warns if it has none
 *	node_slice_size           refused (ERR_UNSUPPORTED): slices are assigned by a controller in
 *	                          the cluster; without that controller two nodes would allocate
 *	                          the same addresses
 *
 * Keys of the cluster's store (leader_*, sleep_for_race, reconciler_cron_expression,
 * kubernetes.k8s_api_root) and obsolete keys (etcd_*, datastore) are accepted and ignored.
 *
 * The store is local to one node: give each node a separate part of the addresses, for example with
 * the flat file: JSON with the keys of "ipam", in the first existing file of configuration_path,
 * /etc/kubernetes/cni/net.d/whereabouts.d/whereabouts.conf, /etc/cni/... and /host/etc/cni/... The
 * flat file sets keys that are empty in the netconf, except enable_overlapping_ranges. If the
 * netconf has kubernetes.kubeconfig, the flat file must exist, as in the original.
 *
 * CNI_ARGS: an ADD requires K8S_POD_NAME. With K8S_POD_NAMESPACE it names the pod that owns the
 * addresses. IP (with prefix lengths) adds to `addresses`; GATEWAY becomes the gateway of each
 * address in `addresses` and IP whose network contains it.
 */

#include "base/log.h"
#include "cni/ipam/ipam_plugins.h"
#include "ipam/whereabouts/whereabouts.h"

extern const struct json_table whereabouts_table; /* the keys above, except CNI_ARGS */
/* The keys as the user wrote them: netconf and flat file merged. Strings may be NULL. */
struct whereabouts_keys {
	const char *type, *gateway, *network_name, *node_slice_size, *path, *log_file, *log_level,
		*state_dir, *kubeconfig;
	struct whereabouts_text range;
	struct json_strs exclude;
	struct json_list more;	    /* elements are struct whereabouts_more: the key ipRanges */
	struct json_list addresses; /* struct whereabouts_static */
	const struct json *routes, *dns;
	bool has_overlapping, overlapping;
};

struct whereabouts_more {
	struct whereabouts_text text;
	struct json_strs exclude;
};

struct whereabouts_static {
	const char *address, *gateway;
	const struct json *ignored;
};

struct whereabouts_conf {
	struct whereabouts_keys keys;
	/* parsed flat file; NULL: no flat file exists, or it cannot be read or parsed */
	struct json_doc *flat;
	const char *flat_path;
	/* quoted path of the flat file, for messages about kubernetes.kubeconfig; NULL: the
	 * netconf sets this key, or there is no valid flat file */
	char *kubeconfig_in;
	const char *network_name; /* never NULL */
	bool overlapping;
	struct whereabouts_range *ranges;
	size_t n_ranges;
	struct cni_args args;
	struct buf args_text;
	struct cni_result fixed; /* addresses, routes and dns that every result has */
	struct ipaddr gateway;	 /* family 0: none */
};

/* Reads and validates the whole configuration, with the original's messages where users may search
 * for them. */
int whereabouts_conf_read(const struct cni_ipam_call *call, struct whereabouts_conf *ret,
			  struct err *e);
/* For DEL and GC: reads what they need. If the netconf is invalid, logs this and uses only its
 * state_dir, configuration_path and network_name. */
void whereabouts_conf_store(const struct cni_ipam_call *call, struct whereabouts_conf *ret);
/* Refuses a configuration that requests the cluster's store. */
int whereabouts_no_cluster(const struct whereabouts_conf *c, struct err *e);
/* Reads log_file and log_level only. An invalid level is logged, and the default applies. If the
 * netconf is invalid, the keys read before the error apply. *ret borrows from *c. */
void whereabouts_conf_log(const struct cni_ipam_call *call, struct whereabouts_conf *c,
			  struct log_conf *ret);
void whereabouts_conf_done(struct whereabouts_conf *c);
#define auto_whereabouts_conf __attribute__((cleanup(whereabouts_conf_done)))

extern const struct cni_plugin cni_whereabouts;

#endif
