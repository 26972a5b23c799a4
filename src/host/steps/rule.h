/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_HOST_STEPS_RULE_H
#define UNIRAIL_HOST_STEPS_RULE_H

/*
 * The rule by which traffic to other destinations than the rails does not use the RDMA NICs
 * (setRdmaRule.sh: `ip rule add not to 172.16.0.0/16 table main priority 2000`). The kernel applies
 * this rule before the rules `from ADDRESS lookup TABLE` of the RDMA NICs, which have higher
 * priority numbers.
 */

#include "host/model/kind.h"

struct host_rule_want {
	struct host_want head;
	const char *cidr, *cidr6, *table;
	int64_t priority;
};

enum { HOST_RULE_PRIORITY = 2000 };

extern const struct host_kind host_rule;

/* Returns the name of a table, such as "main" for 254, else its number, in a static buffer. */
const char *host_table_name(uint32_t table);
/* Adds steps with the verbs "rule-add" and "rule-del", for any kind. */
void host_plan_rule_add(struct host_plan *p, const char *kind, const char *subject,
			const struct rule *r);
void host_plan_rule_del(struct host_plan *p, const char *kind, const char *subject,
			const struct rule *r);
/* Carries out an operation whose verb is "rule-add" or "rule-del", and returns 1; returns 0 if the
 * operation has another verb. */
int host_rule_act(struct host *h, const struct host_op *op, struct err *e);

#endif
