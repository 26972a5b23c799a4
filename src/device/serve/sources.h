/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_DEVICE_SERVE_SOURCES_H
#define UNIRAIL_DEVICE_SERVE_SOURCES_H

/*
 * Two sources of changes besides rtnetlink and uevents: devlink's health reporters (since Linux
 * 5.1, notifications since 5.6), and events of RDMA devices that are added, removed or change their
 * netdev (RDMA_NL_GROUP_NOTIFY, since 6.12). Either source may be missing until its kernel module
 * is loaded: health_sources_open() tries again.
 *
 * A driver that resets its device holds the devlink lock for seconds, and listing the reporters
 * needs this lock. So a child process (base/child.h) lists the reporters and is killed after
 * HEALTH_REPORTERS_MS; there is one child at a time. Meanwhile the last state stays, updated by
 * notifications, which need no lock. A child that waits for the lock, even a killed one, ends only
 * when it gets the lock; then the next child starts.
 */

#include "base/loop.h"
#include "device/serve/health.h"
#include "kern/pci/devlink_health.h"

enum { HEALTH_REPORTERS_MS = 5000 };

struct health_sources;

struct health_sources_conf {
	struct loop *loop;
	void (*health)(void *arg); /* called when health_sources_read() may return other reports */
	/* called when an RDMA device was added or removed, or changed its netdev */
	void (*devices)(void *arg);
	void *arg;
	/* Lists the reporters in a child process, because it may block; the caller frees the list. NULL:
	 * devlink_reporter_list(). */
	int (*list)(struct devlink_reporter **ret, size_t *n, struct err *e);
	/* timeout of the child that lists the reporters; 0: HEALTH_REPORTERS_MS */
	int64_t list_ms;
	/* interval at which the reporters are listed; 0: depends on whether the kernel sends
	 * notifications */
	int64_t every_ms;
};

struct health_sources *health_sources_new(const struct health_sources_conf *c);
void health_sources_free(struct health_sources *s); /* s may be NULL */
/* Opens sources that are not open yet and exist by now. */
void health_sources_open(struct health_sources *s);
/* Sets ret to the last known report of each PF, in the order of node->v. Never blocks: if the
 * reporters are due to be listed again, starts a child that lists them; health() is called when
 * the child has answered. */
void health_sources_read(struct health_sources *s, const struct node_devices *node,
			 enum health_report *ret);

/* Pure: replaces the state of the reporter in the list, or adds the reporter. Returns false if it
 * is new and the list already has HEALTH_REPORTERS_MAX. */
enum { HEALTH_REPORTERS_MAX = 4096 };
bool health_reporters_update(struct devlink_reporter **v, size_t *n,
			     const struct devlink_reporter *p);
/* Pure: returns the worst report of each PF. Reporters whose error cannot end are ignored. */
void health_reports(const struct devlink_reporter *v, size_t n, const struct node_devices *node,
		    enum health_report *ret);

#endif
