/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_WIRE_JSON_JSON_NEAR_H
#define UNIRAIL_WIRE_JSON_JSON_NEAR_H

#include "wire/json/json.h"

/* The table's key that `key` most likely stands for; NULL when none is near. */
const char *json_nearest(const struct json_table *t, const char *key);

#endif
