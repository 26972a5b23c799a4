/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_DEVICE_SERVE_SOURCES_H
#define UNIRAIL_DEVICE_SERVE_SOURCES_H

/*
 * What the kernel reports beside rtnetlink and uevents, where it has it: devlink's health reporters (since Linux 5.1,
 * notifications since 5.8), and RDMA devices that come, go and change their netdev (RDMA_NL_GROUP_NOTIFY, since 6.12).
 * Either may be missing until its module is loaded: health_sources_open() tries again.
 */

#include "base/loop.h"
#include "device/serve/health.h"
#include "kern/pci/devlink_health.h"

struct health_sources;

struct health_sources_conf {
	struct loop *loop;
	void (*health)(void *arg);  /* a reporter has changed its state */
	void (*devices)(void *arg); /* an RDMA device was added or removed, or has another netdev */
	void *arg;
};

struct health_sources *health_sources_new(const struct health_sources_conf *c);
void health_sources_free(struct health_sources *s); /* NULL is fine */
/* Opens what is not open yet and exists by now. */
void health_sources_open(struct health_sources *s);
/* The reports of each PF, in the order of node->v. */
void health_sources_read(struct health_sources *s, const struct node_devices *node,
			 enum health_report *ret);

/* Pure: the worst report of each PF. Reporters whose error cannot end are left out. */
void health_reports(const struct devlink_reporter *v, size_t n, const struct node_devices *node,
		    enum health_report *ret);

#endif
