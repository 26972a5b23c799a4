/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CLI_MANIFESTS_RENDER_H
#define UNIRAIL_CLI_MANIFESTS_RENDER_H

/*
 * Applies the rules of deploy/chart/rules.yaml, which says what each of their keys means, to the
 * manifests, as the chart's templates/_render.tpl does: with default values the result is the
 * manifests as they are.
 */

#include "base/buf.h"
#include "base/err.h"
#include "cli/manifests/embedded.h"
#include "wire/json/json.h"

enum { RENDER_MAX = 16 << 20 };

/*
 * Appends the documents to *out, which has a ceiling of RENDER_MAX, and lines about values without
 * an effect to *notes. `rules` is the whole document, `values` an object that values_check()
 * accepted, `ns` the namespace. Kind ERR_CONF: a value has another path now.
 */
int render(const struct embedded *files, const struct json *rules, const struct json *values,
	   const char *ns, struct buf *out, struct buf *notes, struct err *e);

#endif
