/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CLI_DOCTOR_NODE_H
#define UNIRAIL_CLI_DOCTOR_NODE_H

/*
 * `unirail doctor --node NAME`: diagnoses a node by objects of the API server: the node's Node
 * object (conditions, extended resources, the label of NVIDIA's network operator) and the warning
 * events that unirail's daemons reported in the last hour.
 */

#include "doctor/checks.h"

struct doctor_node_access {
	/* options of the command; NULL: defaults of kube/config.h */
	const char *kubeconfig, *context;
	const char *node;
	int64_t timeout_ms;
};

/* Reads the Node and its events; the caller frees both. -ENOENT: there is no such node. *events is
 * not set if events cannot be read. */
int doctor_node_read(const struct doctor_node_access *a, struct json_doc **node,
		     struct json_doc **events, struct err *e);
/*
 * Adds findings of the check "node"; d->f->node is the Node. events: a list of Events; may be NULL.
 */
void doctor_node_report(struct doctor *d, const struct json *events, int64_t now_ms);

#endif
