/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_AGENT_INTERNAL_H
#define UNIRAIL_AGENT_INTERNAL_H

/* The state of `unirail agent` (agent.c). */

#include "agent/api/api.h"
#include "agent/blocks/adopt.h"
#include "agent/blocks/pools.h"
#include "agent/cluster/network.h"
#include "agent/conf.h"
#include "agent/device/configmap.h"
#include "agent/device/host_drift.h"
#include "agent/device/qp_watch.h"
#include "agent/device/rdma_limits.h"
#include "agent/device/sweep.h"
#include "agent/endpoint/endpoints.h"
#include "agent/gc/gc.h"
#include "agent/gc/retained.h"
#include "agent/migration/migration.h"
#include "agent/network/cni_watch.h"
#include "agent/network/network.h"
#include "agent/nri/nri.h"
#include "device/serve/serve.h"
#include "kube/config.h"
#include "server/daemon.h"
#include "server/health.h"
#include "server/listener.h"

struct agent {
	int argc;
	char **argv;
	struct agent_conf conf;
	/* settings at the start: other parts retain pointers to these strings after a reload */
	struct agent_conf first;
	struct root root;
	struct loop *loop;
	struct kube_conf kube_conf;
	struct kube *kube;
	struct cluster *cluster;
	struct node_pools *node_pools;
	struct endpoints *endpoints;
	struct gc *gc;
	struct adoption *adoption;
	struct retained *retained;
	struct migration *migration;
	struct kube_events *events;
	struct nets *nets;
	struct cni_watch *cni; /* NULL: the agent generates no CNI configuration */
	struct cluster_network *network;
	/* NULL: setting device-plugin is no; sweep, limits, qp_watch and configmaps are then
	 * NULL too */
	struct device_serve *devices;
	struct device_sweep *sweep;	      /* NULL: setting device-sweep is 0 */
	struct rdma_limits *limits;	      /* NULL: no RDMA limit is set */
	struct qp_watch *qp_watch;	      /* NULL: setting queue-pair-wait is 0 */
	struct device_configmaps *configmaps; /* NULL: setting device-configmap is empty */
	const char *device_sources[1 + DEVICE_CONFIGMAPS_MAX];
	struct host_drift *drift; /* NULL: setting host-drift is empty */
	struct nri *nri;	  /* NULL: setting nri is no */
	struct ipam_api *api;
	struct listener listener;
	struct http_server *http;
	struct ports *ports;
	struct metrics metrics;
	bool scraped; /* a scrape of the metrics is waiting */
	/* new path of a journal that was damaged at this start; NULL: the journal was valid */
	char *aside;
	struct daemon *daemon;
	char unconfined[256]; /* parts of the sandbox that are not in force; "": all are in force */
};

#endif
