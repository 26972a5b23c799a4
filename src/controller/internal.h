/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CONTROLLER_INTERNAL_H
#define UNIRAIL_CONTROLLER_INTERNAL_H

/* Between controller.c (from start to end) and controller.c (what a replica and a leader run). */

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
	struct controller_conf first; /* with what others point to, once there was another one */
	struct root root;
	struct loop *loop;
	struct daemon *daemon;
	struct ports *ports;
	struct kube_conf kube_conf;
	struct kube *kube;
	struct world *world;
	struct webhooks *webhooks;     /* NULL: they are switched off */
	struct addresses *addresses;   /* as long as it leads */
	struct uninjected *uninjected; /* the same; NULL: no webhooks */
	struct kube_events *events;
	struct kube_lease *lease;
	uint64_t gained; /* how often it has led */
	bool ready;	 /* /readyz said so */
	bool registered; /* the webhooks were, when it was ready first */
	bool drains;	 /* the Lease is given back, or is not going to be */
	/* What runs, one for each row of controller.c; NULL: does not run. */
	void *every[CONTROLLER_PARTS_MAX], *leads[CONTROLLER_PARTS_MAX];
};

/* What is asked of this replica is answered for a while yet; then done(c). */
void controller_drain(struct controller *c, void (*done)(void *arg));
/* What every replica runs, in the order of the table; stopped in the other order. */
int controller_serve(struct controller *c, struct err *e);
/* As they were at the start: what counts from then on only, and texts that stay. */
const struct controller_conf *controller_first(const struct controller *c);
void controller_part_from(struct controller *c);
/* What the leader runs besides. */
void controller_lead(struct controller *c);
void controller_follow(struct controller *c);
/* The settings are other ones. */
void controller_tell_settings(struct controller *c);
/* Why this replica cannot do its part now; 0: it can. */
int controller_ready(struct controller *c, struct err *e);
void controller_metrics(struct controller *c, struct buf *b);

#endif
