/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CNI_PROTOCOL_QUOTE_H
#define UNIRAIL_CNI_PROTOCOL_QUOTE_H

#include "base/buf.h"

/* Quotes a text like Go's %q: in double quotes, with '"', '\\' and control characters escaped. */
void cni_quote(struct buf *b, const char *s);

#endif
