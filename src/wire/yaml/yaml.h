/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_WIRE_YAML_YAML_H
#define UNIRAIL_WIRE_YAML_YAML_H

/*
 * Converts the YAML of Kubernetes' configuration files to JSON text for wire/json/json.h. Supports
 * block and flow mappings and sequences; plain, 'single', "double" scalars, also over several
 * lines; | and > blocks; comments; one document. JSON is accepted, too, since it is a subset of
 * YAML.
 *
 * Plain scalars are null or ~, true, false (also True, TRUE ...), numbers as JSON writes them, or
 * strings (yes, 0x1f and dates are strings). Unsupported syntax is refused with its position:
 * anchors, aliases, tags, merge keys, complex keys, directives, several documents, tabs as
 * indentation, duplicate keys, bytes that are not UTF-8.
 */

#include "base/buf.h"
#include "base/err.h"

enum { YAML_DEPTH_MAX = 30, YAML_KEYS_MAX = 1000 };

/* Appends the JSON text to *json. Errors have the kind ERR_DECODE and the text "3:14: reason"
 * (line and column from 1); only -EFBIG has no position. */
int yaml_to_json(struct span text, struct buf *json, struct err *e);

#endif
