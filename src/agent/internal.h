/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_AGENT_INTERNAL_H
#define UNIRAIL_AGENT_INTERNAL_H

/* The state of `unirail agent` (agent.c). */

#include "agent/api/api.h"
#include "agent/blocks/adopt.h"
#include "agent/blocks/pools.h"
#include "agent/cluster/network.h"
#include "agent/conf.h"
#include "agent/endpoint/endpoints.h"
#include "agent/gc/gc.h"
#include "agent/gc/kept.h"
#include "agent/migration/migration.h"
#include "agent/network/cni_watch.h"
#include "agent/network/network.h"
#include "kube/config.h"
#include "server/daemon.h"
#include "server/health.h"
#include "server/listener.h"

struct agent {
	int argc;
	char **argv;
	struct agent_conf conf;
	/* the settings at the start: other parts keep pointers to its strings after a reload */
	struct agent_conf first;
	struct root root;
	struct loop *loop;
	struct kube_conf kube_conf;
	struct kube *kube;
	struct cluster *cluster;
	struct node_pools *lender;
	struct endpoints *endpoints;
	struct gc *gc;
	struct foreign *foreign;
	struct kept *kept;
	struct migration *handover;
	struct kube_events *events;
	struct nets *nets;
	struct cni_watch *cni; /* NULL: no configuration is generated */
	struct cluster_network *network;
	struct ipam_api *api;
	struct listener listener;
	struct http_server *http;
	struct ports *ports;
	struct metrics metrics;
	bool scraped; /* a scrape of the metrics is waiting */
	/* where a damaged journal was moved at this start; NULL: it was not damaged */
	char *aside;
	struct daemon *daemon;
	char unconfined[256]; /* parts of the sandbox that are not in force; "": all are */
};

struct node_pools_conf agent_lender_conf(struct agent *a);
struct ipam_api_conf agent_api_conf(struct agent *a);

/* Called in this order; agent_part_from() undoes whatever was done. */
int agent_open_ports(struct agent *a, struct err *e);
int agent_know_cluster(struct agent *a, struct err *e);
int agent_serve(struct agent *a, struct err *e);
void agent_part_from(struct agent *a);

#endif
