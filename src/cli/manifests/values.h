/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CLI_MANIFESTS_VALUES_H
#define UNIRAIL_CLI_MANIFESTS_VALUES_H

/*
 * Values of the chart: from files, of which a later file has precedence, and from "--set" as Helm
 * reads it: path=value,path=value, {a,b} for a list, path[0].key for its items; a backslash escapes
 * '.', ',', '[', '=', '{' and '}'. Values are checked by the rules of deploy/chart/rules.yaml; Helm
 * checks them by the schema that tools/chart generates from these rules.
 */

#include "base/buf.h"
#include "base/err.h"
#include "wire/json/tree.h"

enum { VALUES_MAX = 1 << 20, VALUES_ITEMS_MAX = 1000 };

/*
 * Adds the values of a YAML text; `place` names the file in errors. A null value means the default.
 */
int values_add_yaml(struct json_tree *into, struct span text, const char *place, struct err *e);
int values_add_set(struct json_tree *into, const char *text, struct err *e);
/*
 * Merges the members of `from` into `into`, recursively where both have an object. drop_null: a
 * null removes the member instead of replacing it.
 */
void values_merge(struct json_tree *into, const struct json *from, bool drop_null);

/* Fails with ERR_CONF for an unknown key (suggests a similar key, if there is one), a wrong
 * type, or a value that is not allowed. */
int values_check(const struct json *values, const struct json *rules, struct err *e);
/* Returns the value at a path ("ipam.enableIPv4"); NULL: the value is absent or null. */
const struct json *values_get(const struct json *values, const char *path);

#endif
