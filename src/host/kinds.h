/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_HOST_KINDS_H
#define UNIRAIL_HOST_KINDS_H

/* The table of kinds, ended by NULL, in the order in which their steps are carried out: kinds that
 * create devices (modules, VFs) before kinds that configure them (names, addresses, QoS). */

#include "host/model/kind.h"

extern const struct host_kind *const host_kinds[];
const struct host_kind *host_kind_find(const char *name); /* NULL: none */

#endif
