/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CLI_MIGRATE_OBJECTS_H
#define UNIRAIL_CLI_MIGRATE_OBJECTS_H

/* unirail's objects in the cluster, from the manifests in the binary. */

#include "cli/migrate/api.h"

#define MIGRATE_UNINSTALL                                                                          \
	"unirail-uninstall" /* DaemonSet of deploy/uninstall, in unirail's namespace */

/* Creates the objects. Those that exist are changed to the manifests, except definitions and the namespace. */
int migrate_objects_create(struct migrate_api *a, const struct json_tree *values, const char *ns,
			   struct err *e);
/* Deletes them and the DaemonSet MIGRATE_UNINSTALL; definitions and the namespace stay. */
int migrate_objects_delete(struct migrate_api *a, const struct json_tree *values, const char *ns,
			   struct err *e);
/* Creates the DaemonSet that removes unirail's files from labelled nodes; their address state stays. */
int migrate_uninstall_create(struct migrate_api *a, const struct json_tree *values, const char *ns,
			     struct err *e);

#endif
