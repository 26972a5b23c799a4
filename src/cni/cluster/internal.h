/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CNI_CLUSTER_INTERNAL_H
#define UNIRAIL_CNI_CLUSTER_INTERNAL_H

/* What this folder's own files share. */

#include "cni/cluster/add.h"
#include "cni/cluster/conf.h"

/* Between add.c (a network) and add.c (a plugin's object in it). */

struct pod_putting {
	const struct pod_nets *p;
	const struct pod_net *net;
	size_t index;
	struct json_out *o;
};

int pod_plugin_put(const struct pod_putting *t, const struct json *plugin, struct err *e);
void pod_put_strs(struct json_out *o, const struct json_strs *l);

/*
 * The verbs of `multus`, and of unirail-cni when its netconf names an agent: the networks are asked
 * for, written as a configuration of unirail-cni (cni/multi/multi.h) and attached as one.
 *
 *	ADD	fails with kind ERR_AGAIN while the agent is away. multus: the result is the first
 *		network's, as Multus'; unirail-cni: all networks'
 *	DEL	by the note in cniDir, else by Multus' own; without either nothing was attached, and only
 *		addresses are looked for. Needs no agent
 *	CHECK	by the note
 *	GC	deletes what is noted of containers that are not valid any more, then calls GC of every
 *		network that the netconf has itself, that is noted of any container, or that the agent named
 *		before (network_record.h), IPAM included, so that what was lost with a note is found as well
 *		(Multus' did nothing). Needs no agent
 *	STATUS	the readiness file, and the agent
 */

int pod_add(struct cni_call *c, bool multus, struct cni_result *out, struct err *e);
int pod_del(struct cni_call *c, bool multus, struct err *e);
int pod_check(struct cni_call *c, bool multus, struct err *e);
int pod_gc(struct cni_call *c, bool multus, struct err *e);
/* What the netconf has itself, as a call of unirail-cni with a document of its own (json_free(ret->doc)). */
int pod_own_networks(struct cni_call *c, bool multus, const struct pod_conf *conf,
		     struct cni_call *ret, struct err *e);
int pod_status(struct cni_call *c, bool multus, struct err *e);

#endif
