/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_DEVICE_RESOURCE_EXPLAIN_H
#define UNIRAIL_DEVICE_RESOURCE_EXPLAIN_H

/* Lists for each device of the node (function, SF, soft-RoCE device) the resources that have it.
 * For every other resource, names the selector that does not match, or another reason for which
 * the resource does not have the device. */

#include "device/resource/resource.h"

void resource_explain_text(const struct resources *s, const struct resource_messages *messages,
			   struct buf *b);
void resource_explain_json(const struct resources *s, const struct resource_messages *messages,
			   struct buf *b);

#endif
