/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CLI_DOCTOR_H
#define UNIRAIL_CLI_DOCTOR_H

/* Output of `unirail doctor`: as text (the host on one line, one line per finding, problems
 * first, and a summary) or as one JSON object. */

#include <stdio.h>

#include "doctor/checks.h"

/* checked: doctor_run() made the findings, so the summary counts the checks. */
void doctor_show_text(const struct host_facts *f, const struct findings *l, bool checked,
		      FILE *out);
/* f NULL: the findings are about the node of --node, so the JSON has no members that describe a
 * host. */
void doctor_show_json(const struct host_facts *f, const struct findings *l, struct buf *b);

#endif
