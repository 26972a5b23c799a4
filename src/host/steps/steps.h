/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_HOST_STEPS_STEPS_H
#define UNIRAIL_HOST_STEPS_STEPS_H

/* The kinds of steps; src/host/kinds.c has their order. */

#include "host/model/kind.h"

/* hardware */
extern const struct host_kind host_acs, host_gpudirect, host_modules, host_pci_kind, host_qos;
extern const struct host_kind host_link_type, host_vf;
/* kinds that configure the network, and files */
extern const struct host_kind host_addr, host_memlock, host_names, host_nm_ignore, host_persist;
extern const struct host_kind host_rails, host_rdma_mode, host_rule, host_sysctl;

#endif
