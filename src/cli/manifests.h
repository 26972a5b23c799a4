/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CLI_MANIFESTS_H
#define UNIRAIL_CLI_MANIFESTS_H

/*
 * Reads the manifests that the command line of `unirail lint` and `unirail doctor --would-run`
 * names.
 */

#include "doctor/objects.h"

/* Adds the objects of a file ("-": standard input). ns: namespace of objects without one. */
int manifests_read(struct objects *l, const char *file, const char *ns, struct err *e);

#endif
