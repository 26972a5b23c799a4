/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_TOOLS_STATUS_H
#define UNIRAIL_TOOLS_STATUS_H

/* What an agent says of its node: for `unirail status` and `unirail pool --socket`. */

#include "base/buf.h"
#include "wire/json.h"

/* body: zeroed; to be done in any case. */
int status_ask(const char *socket, int64_t timeout_ms, struct buf *body, struct json_doc **ret,
	       struct err *e);
/* Its "pools", as a table onto stdout. */
void status_pools(const struct json *pools);

#endif
