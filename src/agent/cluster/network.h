/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_AGENT_CLUSTER_NETWORK_H
#define UNIRAIL_AGENT_CLUSTER_NETWORK_H

/*
 * Publishes the name of the cluster's own network on the node, for a controller that does not run
 * as root: CNI configurations are often readable by root only (Calico writes mode 0600; the CIS
 * benchmark demands it). The file
 *
 *	DIRECTORY OF THE AGENT'S SOCKET/public/cluster-network		(mode 0644, one line: the name)
 *
 * is replaced when the name changes, and removed when there is no network. The name is that of the
 * first valid configuration that is neither unirail's nor Multus' (host/cni/cni_config.h). Only
 * this subdirectory is mounted into the controller's pod, so that the agent's socket is out of its
 * reach.
 *
 * The CNI directory is read at the start and every 30 s. An error is logged once and retried.
 */

#include "base/file.h"
#include "base/loop.h"

enum { CLUSTER_NETWORK_EVERY_MS = 30 * 1000 };

struct cluster_network;

struct cluster_network_conf {
	struct loop *loop;
	const struct root *root;
	const char *cni_dir, *socket; /* borrowed */
};

/* Publishes the name at once, and again when it changes. */
struct cluster_network *cluster_network_new(const struct cluster_network_conf *c);
void cluster_network_free(struct cluster_network *n); /* the file is not removed; n may be NULL */
/* Returns the directory that contains the file. */
const char *cluster_network_dir(const struct cluster_network *n);

#endif
