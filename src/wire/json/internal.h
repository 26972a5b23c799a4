/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_WIRE_JSON_INTERNAL_H
#define UNIRAIL_WIRE_JSON_INTERNAL_H

/* Shared by json.c, reader.c and tree.c. */

#include "wire/json/json.h"

enum { JSON_DEPTH_MAX = 32 };

/* Zeroed memory that lives as long as the document. */
void *json_alloc(struct json_doc *d, size_t n, size_t size);
/* A number whose text no C type holds (64 bits, a double); NULL for any other value. */
const char *json_raw(const struct json *v);
bool json_is_integer(const struct json *v);
/* Of an integer above INT64_MAX. */
uint64_t json_unsigned(const struct json *v);
double json_real(const struct json *v);
/* As Go's foldName: equal but for case ('s' is also U+017F, 'k' also U+212A). */
bool json_key_folds(const char *key, const char *name);
/* A value whose bytes are ready: the comma and the line before it, then the text. */
void jo_text(struct json_out *o, const char *text);

#endif
