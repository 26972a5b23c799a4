/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CONTROLLER_GC_ASKS_PRIV_H
#define UNIRAIL_CONTROLLER_GC_ASKS_PRIV_H

/* Between confirm.c (questions and requests) and confirm.c (what is asked for, and what an answer means). */

#include "controller/gc/asks.h"

enum asks_about { ASKS_POD, ASKS_NODE, ASKS_NAME };
enum asks_step { ASKS_STEP_SET, ASKS_STEP_VMI, ASKS_STEP_VM, ASKS_STEP_END };

struct asks_question {
	struct asks *a;
	enum asks_about about;
	char *ns, *name, *uid;
	enum asks_answer answer;
	bool asked;	    /* waits for a request, or for its answer */
	int64_t until;	    /* the answer's */
	int64_t wanted;	    /* when somebody asked last */
	int64_t gone_since; /* 0: it is not */
	struct kube_call *call;
	/* of a name */
	enum asks_step step;
	struct identity_set set;
	struct identity_machine machine;
};

struct asks {
	struct asks_conf conf;
	struct asks_question **v; /* in order */
	size_t n;
	size_t next; /* whose turn it is */
	size_t under_way;
	struct loop_timer *timer;
	char *said;
};

/* Which object the step of a name is about; false: it is not asked. */
bool asks_subject(const struct asks_question *q, struct kube_ref *ret, char set[static 254]);
/* object NULL: there is none. */
enum asks_answer asks_judge_pod(const struct asks_question *q, const struct json *object);
enum asks_answer asks_judge_node(const struct json *object);
/* Of a name, what the step's object says. */
void asks_learn(struct asks_question *q, const struct json *object);

#endif
