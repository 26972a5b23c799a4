/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CLI_MANIFESTS_VALUES_H
#define UNIRAIL_CLI_MANIFESTS_VALUES_H

/*
 * Values of the chart: from files, each of which has precedence over the ones before, and from
 * "--set" as Helm reads it: path=value,path=value, {a,b} for a list, path[0].key for its items; a
 * backslash takes the meaning from '.', ',', '[', '=', '{' and '}'. Values are checked by the rules
 * of deploy/chart/rules.yaml, as Helm checks them by the schema that tools/chart writes from these.
 */

#include "base/buf.h"
#include "base/err.h"
#include "wire/json/tree.h"

enum { VALUES_MAX = 1 << 20, VALUES_ITEMS_MAX = 1000 };

/* YAML text of a values file; `place` names it in errors. Null stands for the default. */
int values_add_yaml(struct json_tree *into, struct span text, const char *place, struct err *e);
int values_add_set(struct json_tree *into, const char *text, struct err *e);
/*
 * Members of `from` into `into`, and those of objects that both have. drop_null: a null removes the
 * member instead of taking its place.
 */
void values_merge(struct json_tree *into, const struct json *from, bool drop_null);

/* Kind ERR_CONF: an unknown key with the most similar one, a wrong type, a value that is not allowed. */
int values_check(const struct json *values, const struct json *rules, struct err *e);
/* The value at a path ("ipam.enableIPv4"); NULL: there is none, or it is null. */
const struct json *values_get(const struct json *values, const char *path);

#endif
