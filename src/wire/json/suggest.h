/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_WIRE_JSON_SUGGEST_H
#define UNIRAIL_WIRE_JSON_SUGGEST_H

#include "wire/json/json.h"

/* Returns the table's key most similar to `key`, for "did you mean"; NULL: none is similar. */
const char *json_suggest(const struct json_table *t, const char *key);

#endif
