/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CONTROLLER_INTERNAL_H
#define UNIRAIL_CONTROLLER_INTERNAL_H

/* Internals of controller.c. */

#include "controller/cache/cache.h"
#include "controller/conf.h"
#include "controller/webhooks.h"
#include "kube/config.h"
#include "kube/events.h"
#include "kube/leader.h"
#include "server/daemon.h"
#include "server/health.h"

enum { CONTROLLER_PARTS_MAX = 16 };

struct controller {
	int argc;
	char **argv;
	struct controller_conf conf;
	struct controller_conf first; /* initial settings, kept after a reload since other modules
	                               * borrow its strings */
	struct root root;
	struct loop *loop;
	struct daemon *daemon;
	struct ports *ports;
	struct kube_conf kube_conf;
	struct kube *kube;
	struct cluster_cache *cache;
	struct webhooks *webhooks;     /* NULL: disabled */
	struct nads *nads;	       /* while this replica is the leader; NULL: disabled */
	struct addresses *addresses;   /* while this replica is the leader */
	struct uninjected *uninjected; /* the same; NULL: no webhooks */
	struct kube_events *events;
	struct kube_lease *lease;
	uint64_t gained; /* how often this replica became leader */
	bool ready;	 /* last result of /readyz */
	bool registered; /* the webhooks were registered when this replica first became ready */
	bool drains;	 /* the Lease was released, or will not be requested any more */
	/* running parts, one for each row of the tables in controller.c; NULL: not running */
	void *every[CONTROLLER_PARTS_MAX], *leads[CONTROLLER_PARTS_MAX];
};

/* Keeps replying to requests for a while, then calls done(c). */
void controller_drain(struct controller *c, void (*done)(void *arg));
/* Starts what every replica runs, in table order; it is stopped in reverse order. */
int controller_serve(struct controller *c, struct err *e);
/* The initial settings: values that require a restart to change, and strings that stay valid. */
const struct controller_conf *controller_first(const struct controller *c);
void controller_part_from(struct controller *c);
/* Starts and stops what only the leader runs. */
void controller_lead(struct controller *c);
void controller_follow(struct controller *c);
/* The settings have changed. */
void controller_notify_settings(struct controller *c);
/* Error with the reason why this replica is not ready; 0: it is. */
int controller_ready(struct controller *c, struct err *e);
void controller_metrics(struct controller *c, struct buf *b);

#endif
