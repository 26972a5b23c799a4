/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_WIRE_JSON_INTERNAL_H
#define UNIRAIL_WIRE_JSON_INTERNAL_H

/* Shared by json.c, reader.c and tree.c. */

#include "wire/json/json.h"

enum { JSON_DEPTH_MAX = 32 };

/* Zeroed memory that lives as long as the document. */
void *json_alloc(struct json_doc *d, size_t n, size_t size);
/* As Go's foldName: equal but for case ('s' is also U+017F, 'k' also U+212A). */
bool json_key_folds(const char *key, const char *name);
/* A value whose bytes are ready: the comma and the line before it, then the text. */
void jo_text(struct json_out *o, const char *text);

#endif
