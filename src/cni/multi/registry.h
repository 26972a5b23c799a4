/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CNI_MULTI_REGISTRY_H
#define UNIRAIL_CNI_MULTI_REGISTRY_H

/* Link drivers and chained plugins that run in this process, by name. */

#include "cni/attach/rail.h"
#include "cni/plugins/chained.h"

/* Returns the link driver of this plugin name; NULL: not built in. */
const struct link_driver *link_driver_find(const char *type);
/* Returns the chained plugin of this name (tuning, sbr, loopback, ifacer, rdma); NULL: not built
 * in. */
const struct cni_meta *chained_find(const char *type);

#endif
