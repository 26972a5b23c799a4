/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CNI_CLUSTER_INTERNAL_H
#define UNIRAIL_CNI_CLUSTER_INTERNAL_H

/* Shared by the files of this directory. */

#include "cni/cluster/add.h"
#include "cni/cluster/conf.h"

/* State while add.c writes one network to the netconf that it builds for unirail-cni. */

struct pod_putting {
	const struct pod_nets *p;
	const struct pod_net *net;
	size_t index;
	struct json_out *o;
};

/*
 * The verbs of `multus`, and of unirail-cni when its netconf names an agent. ADD requests the
 * networks from the agent, writes them as a configuration of unirail-cni (cni/multi/multi.h), and
 * attaches them as unirail-cni does.
 *
 *	ADD	fails with error kind ERR_AGAIN if the agent cannot be reached. The result is the first
 *		network's for multus, as in Multus, and all networks' for unirail-cni
 *	DEL	uses the cache entry in cniDir, in unirail's format or Multus'; without an entry
 *		nothing was attached, and DEL only releases addresses. Needs no agent
 *	CHECK	uses the cache entry
 *	GC	deletes what is recorded for containers that are no longer valid. Then calls GC,
 *		IPAM included, of every known network: of the netconf, of the cache entries, and
 *		those that the agent named before (network_record.h). So it finds resources
 *		whose entry was lost. Multus' GC does nothing. Needs no agent
 *	STATUS	checks the readiness file, and the agent or (without agent) the netconf's networks
 */

int pod_add(struct cni_call *c, bool multus, struct cni_result *out, struct err *e);
int pod_del(struct cni_call *c, bool multus, struct err *e);
int pod_check(struct cni_call *c, bool multus, struct err *e);
int pod_gc(struct cni_call *c, bool multus, struct err *e);
/* Sets *ret to a copy of the call `c` with a netconf of unirail-cni that contains the networks
 * in the netconf of `c`. The caller frees the copy's document with json_free(ret->doc). */
int pod_own_networks(struct cni_call *c, bool multus, const struct pod_conf *conf,
		     struct cni_call *ret, struct err *e);
int pod_status(struct cni_call *c, bool multus, struct err *e);

#endif
