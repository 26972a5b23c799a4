/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CLI_MIGRATE_OBJECTS_H
#define UNIRAIL_CLI_MIGRATE_OBJECTS_H

/* unirail's objects in the cluster, from the manifests in the binary. */

#include "cli/migrate/api.h"

#define MIGRATE_UNINSTALL                                                                          \
	"unirail-uninstall" /* DaemonSet of deploy/uninstall, in unirail's namespace */

/*
 * Creates the objects. Updates existing objects by the manifests, except definitions and the
 * namespace.
 */
int migrate_objects_create(struct migrate_api *a, const struct json_tree *values, const char *ns,
			   struct err *e);
/* Deletes the objects and the DaemonSet MIGRATE_UNINSTALL, except definitions and the namespace. */
int migrate_objects_delete(struct migrate_api *a, const struct json_tree *values, const char *ns,
			   struct err *e);
/* Creates the DaemonSet that removes unirail's files, except the state of addresses, from nodes
 * with LABEL_UNINSTALL. */
int migrate_uninstall_create(struct migrate_api *a, const struct json_tree *values, const char *ns,
			     struct err *e);

#endif
