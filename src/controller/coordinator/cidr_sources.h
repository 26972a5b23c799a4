/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CONTROLLER_COORDINATOR_CIDR_SOURCES_H
#define UNIRAIL_CONTROLLER_COORDINATOR_CIDR_SOURCES_H

/* Watches the sources that cidr_plan() requires, as long as it requires them. */

#include "controller/coordinator/cidr_plan.h"
#include "kube/client.h"

struct cidr_sources;

/* changed: called when a source has a new state. cilium: "ns/name" of Cilium's ConfigMap. */
struct cidr_sources *cidr_sources_new(struct kube *k, const char *cilium,
				      void (*changed)(void *arg), void *arg);
void cidr_sources_free(struct cidr_sources *s); /* accepts NULL */

/* Watches exactly the sources of the bit mask from now on. Must not be called from `changed`. */
void cidr_sources_want(struct cidr_sources *s, unsigned int wants);
/* Sets ret to the state of all sources; the caller frees it with cidr_known_done(). */
void cidr_sources_known(const struct cidr_sources *s, struct cidr_known ret[static CIDR_SOURCES]);
void cidr_known_done(struct cidr_known known[static CIDR_SOURCES]);

#endif
