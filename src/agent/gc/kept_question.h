/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_AGENT_GC_KEPT_QUESTION_H
#define UNIRAIL_AGENT_GC_KEPT_QUESTION_H

/* What retained.c asks about a name, one object after the other. */

#include "block/migration.h"
#include "spec/identity.h"
#include "kube/client.h"

enum kept_step { KEPT_SET, KEPT_VMI, KEPT_VM, KEPT_ENDPOINT, KEPT_END };

struct kept_question {
	enum kept_step step;
	struct identity_set set;
	struct identity_machine machine;
	struct migration_place place;
};

/* Which object the step is about; false: it is not asked. */
bool kept_question_subject(const struct kept_question *q, const struct identity_conf *c,
			   const char *ns, const char *name, struct kube_ref *ret,
			   char set[static 254]);
/* NULL: there is no such object. */
void kept_question_learn(struct kept_question *q, const struct json *object);

#endif
