/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CLI_MIGRATE_API_H
#define UNIRAIL_CLI_MIGRATE_API_H

/* Requests of `unirail migrate` to the API server, one after the other. */

#include "cli/migrate/migrate.h"
#include "kube/client.h"
#include "kube/listwatch.h"

struct migrate_api {
	struct loop *loop;
	struct kube *k;
	/* answer and error of the current request */
	struct json_doc *doc;
	struct err e;
};

/* *ret: the response, which the caller frees; ret NULL: not needed. */
int migrate_request(struct migrate_api *a, const struct kube_request *q, struct json_doc **ret,
		    struct err *e);
/* Lists the selected objects of a kind; the list is empty if the server does not have the kind. */
int migrate_list(struct migrate_api *a, const struct kube_kind *kind,
		 const struct kube_select *select,
		 int (*item)(void *arg, const struct json *object, struct err *e), void *arg,
		 struct err *e);
/* Lists every kind of object that a plan needs; `ns`: unirail's namespace, borrowed. */
int migrate_observe(struct migrate_api *a, const char *ns, struct migrate_cluster *ret,
		    struct err *e);

#endif
