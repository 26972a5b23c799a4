/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_DEVICE_SERVE_FACTS_H
#define UNIRAIL_DEVICE_SERVE_FACTS_H

/*
 * Attributes that only devlink reports (struct node_fact), for a loop that must not wait for a driver: one child process
 * (base/child.h) at a time reads them, and is killed after DEVICE_FACTS_MS. A device without an answer keeps its previous attributes,
 * so that an HCA stays an RDMA device while its driver resets it.
 */

#include "base/loop.h"
#include "device/resource/node.h"

enum { DEVICE_FACTS_MS = 3000 };

struct device_facts;

struct device_facts_conf {
	struct loop *loop;
	/*
	 * Called when device_facts_apply() must be called again: the first child has answered or
	 * timed out; an answer has changed; a child ended that was running at the last call; or a
	 * killed child has ended.
	 */
	void (*changed)(void *arg);
	void *arg;
	/* Reads the attributes of one device in the child process; may block. NULL: reads them by devlink. */
	void (*read)(const struct node_device *d, struct node_fact *ret);
	int timeout_ms; /* 0: DEVICE_FACTS_MS */
};

struct device_facts *device_facts_new(const struct device_facts_conf *c);
void device_facts_free(struct device_facts *f); /* accepts NULL */
/*
 * Sets the known attributes of the devices, and starts the child unless one runs or none is needed.
 * Never blocks. before: the devices of the previous call; NULL at the first call.
 */
void device_facts_apply(struct device_facts *f, struct node_devices *now,
			const struct node_devices *before);
/* Returns true once the first child has ended or was killed, and also if no child was needed or
 * none could be started. Until then resources may lack devices. */
bool device_facts_are_known(const struct device_facts *f);

#endif
