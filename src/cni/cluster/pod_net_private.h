/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CNI_CLUSTER_POD_NET_PRIVATE_H
#define UNIRAIL_CNI_CLUSTER_POD_NET_PRIVATE_H

/* Between add.c (a network) and add.c (a plugin's object in it). */

#include "cni/cluster/pod_net.h"

struct pod_putting {
	const struct pod_nets *p;
	const struct pod_net *net;
	size_t index;
	struct json_out *o;
};

int pod_plugin_put(const struct pod_putting *t, const struct json *plugin, struct err *e);
void pod_put_strs(struct json_out *o, const struct json_strs *l);

#endif
