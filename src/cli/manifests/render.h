/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CLI_MANIFESTS_RENDER_H
#define UNIRAIL_CLI_MANIFESTS_RENDER_H

/*
 * Applies the rules of deploy/chart/rules.yaml, which documents their keys, to the manifests, as
 * the chart's templates/_render.tpl does. With default values the manifests are not changed.
 */

#include "base/buf.h"
#include "base/err.h"
#include "cli/manifests/embedded.h"
#include "wire/json/json.h"

enum { RENDER_MAX = 16 << 20 };

/*
 * Appends the documents to *out, whose maximum size is RENDER_MAX, and to *remarks a line for each
 * value without effect. `rules` is the whole document, `values` an object that values_check()
 * accepted, `ns` the namespace. Fails with ERR_CONF if `values` has a path that was renamed.
 */
int render(const struct embedded *files, const struct json *rules, const struct json *values,
	   const char *ns, struct buf *out, struct buf *remarks, struct err *e);

#endif
