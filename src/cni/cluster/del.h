/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CNI_CLUSTER_DEL_H
#define UNIRAIL_CNI_CLUSTER_DEL_H

/*
 * Converts a container's entry in Multus' cache (cni/multi/cache.c) to a call of unirail-cni, so
 * that CHECK and DEL need neither agent, API server, pod nor definition.
 */

#include "cni/protocol/cni.h"

enum multus_cache_kind {
	MULTUS_CACHE_NONE,
	/* written by Multus or for another netconf, or unreadable: see cni/multus/import.h */
	MULTUS_CACHE_OTHER,
	MULTUS_CACHE_OWN,
};

struct multus_cache_entry {
	/* the caller's call, but with the netconf made from the entry and a copy of prevResult */
	struct cni_call call;
	struct cni_result *
		/* result of each network, in the order of call's netconf; NULL: unknown */
		*results;
	size_t n_results;
	bool has_results; /* a result of at least one network is recorded */
};

/* Reads the entry for call `c`, whose prevResult is used if no network has a recorded result. */
enum multus_cache_kind multus_cache_read(const struct cni_call *c, const char *cni_dir,
					 const char *bin_dir, struct multus_cache_entry *ret);
struct multi;
/* DEL of all recorded networks. */
int multus_cache_del(struct multus_cache_entry *n, struct err *e);
struct network;
struct json_out;
/* Writes a recorded network as a network of unirail-cni's configuration. Keys that concern only
 * this attachment are written only if `attached` is set. */
int multus_cache_put_network(struct json_out *o, const struct network *net, bool attached,
			     struct err *e);
void multus_cache_done(struct multus_cache_entry *n);
#define auto_multus_cache_entry __attribute__((cleanup(multus_cache_done)))

/* --- device information files, below /var/run/k8s.cni.cncf.io/devinfo --- */

/* Copies the device plugin's file of a device to the path of the pod's network; does nothing if
 * there is no such file. */
void pod_devinfo_copy(const struct root *r, const char *resource, const char *device,
		      const char *to);
struct json_doc *pod_devinfo_read(const struct root *r, const char *path); /* NULL: none */
void pod_devinfo_remove(const struct root *r, const char *path);

#endif
