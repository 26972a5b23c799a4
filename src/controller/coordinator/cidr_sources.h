/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CONTROLLER_COORDINATOR_CIDR_SOURCES_H
#define UNIRAIL_CONTROLLER_COORDINATOR_CIDR_SOURCES_H

/* What cidr_plan() wants to know of the cluster, followed as long as it wants it. */

#include "controller/coordinator/cidr_plan.h"
#include "kube/client.h"

struct cidr_sources;

/* changed: something is known, or another way, than before. cilium: "ns/name" of its ConfigMap. */
struct cidr_sources *cidr_sources_new(struct kube *k, const char *cilium,
				      void (*changed)(void *arg), void *arg);
void cidr_sources_free(struct cidr_sources *s); /* NULL is fine */

/* From now on these are followed, a bit each, and no others. Not from within `changed`. */
void cidr_sources_want(struct cidr_sources *s, unsigned int wants);
/* All of them; for cidr_known_done(). */
void cidr_sources_known(const struct cidr_sources *s, struct cidr_known ret[static CIDR_SOURCES]);
void cidr_known_done(struct cidr_known known[static CIDR_SOURCES]);

#endif
