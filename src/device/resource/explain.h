/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_DEVICE_RESOURCE_EXPLAIN_H
#define UNIRAIL_DEVICE_RESOURCE_EXPLAIN_H

/* For each PF, VF, HCA and SF: which resources have it and, for every other resource, which selector it fails. */

#include "device/resource/resource.h"

void resource_explain_text(const struct resources *s, const struct resource_messages *messages,
			   struct buf *b);
void resource_explain_json(const struct resources *s, const struct resource_messages *messages,
			   struct buf *b);

#endif
