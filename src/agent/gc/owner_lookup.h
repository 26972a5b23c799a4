/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_AGENT_GC_OWNER_LOOKUP_H
#define UNIRAIL_AGENT_GC_OWNER_LOOKUP_H

/* The objects that retained.c reads to find the owner of a name, one after the other. */

#include "block/migration.h"
#include "spec/identity.h"
#include "kube/client.h"

enum owner_lookup_step {
	OWNER_LOOKUP_SET,
	OWNER_LOOKUP_VMI,
	OWNER_LOOKUP_VM,
	OWNER_LOOKUP_ENDPOINT,
	OWNER_LOOKUP_END
};

struct owner_lookup {
	enum owner_lookup_step step;
	struct identity_set set;
	struct identity_machine machine;
	struct migration_place place;
};

/* The object that the step reads; false: none. */
bool owner_lookup_subject(const struct owner_lookup *q, const struct identity_conf *c,
			  const char *ns, const char *name, struct kube_ref *ret,
			  char set[static 254]);
/* NULL: there is no such object. */
void owner_lookup_learn(struct owner_lookup *q, const struct json *object);

#endif
