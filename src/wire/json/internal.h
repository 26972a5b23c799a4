/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_WIRE_JSON_INTERNAL_H
#define UNIRAIL_WIRE_JSON_INTERNAL_H

/* Shared by json.c, reader.c and tree.c. */

#include "wire/json/json.h"

enum { JSON_DEPTH_MAX = 32 };

/* Allocates zeroed memory that lives as long as the document. */
void *json_alloc(struct json_doc *d, size_t n, size_t size);
/* Compares keys without case, like Go's foldName ('s' also matches U+017F, 'k' also U+212A). */
bool json_key_folds(const char *key, const char *name);
/* Writes a serialized value, preceded by comma and line break as needed. */
void jo_text(struct json_out *o, const char *text);

#endif
