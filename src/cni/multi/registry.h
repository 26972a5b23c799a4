/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CNI_MULTI_REGISTRY_H
#define UNIRAIL_CNI_MULTI_REGISTRY_H

/* Plugins that work in this process, by their names. */

#include "cni/attach/rail.h"
#include "cni/plugins/chained.h"

/* By the plugin's name; NULL: none of ours. */
const struct rail_kind *rail_kind_find(const char *type);
/* All kinds, by their `order`; NULL behind the last. */
const struct rail_kind *rail_kind_at(size_t i);
/* tuning, sbr, loopback, ifacer, rdma; NULL: none of ours. */
const struct cni_meta *meta_find(const char *type);

#endif
