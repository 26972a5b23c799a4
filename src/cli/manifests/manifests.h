/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CLI_MANIFESTS_MANIFESTS_H
#define UNIRAIL_CLI_MANIFESTS_MANIFESTS_H

/* `unirail manifests`: entry points for the applet table, and the functions that `unirail
 * migrate` uses. */

#include "base/option.h"
#include "wire/json/tree.h"

int manifests_main(int argc, char **argv);
extern const struct cmd manifests_cmds[];

/* Adds values of files ("-": standard input), then those of --set. */
int manifests_values(const struct opt_strs *files, const struct opt_strs *set,
		     struct json_tree *values, struct err *e);
/*
 * Checks the values, appends the documents to *out and messages about values to *remarks
 * (cli/manifests/render.h).
 */
int manifests_render(const struct json_tree *values, const char *ns, struct buf *out,
		     struct buf *remarks, struct err *e);
/* Checks that a name is a DNS label; otherwise -EINVAL. */
int manifests_check_namespace(const char *ns, struct err *e);

#endif
