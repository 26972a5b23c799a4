/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_TESTS_FUZZ_NETCONF_H
#define UNIRAIL_TESTS_FUZZ_NETCONF_H

/* The parts of the plugins' verbs that do not use the kernel: reading the configuration,
 * deciding, writing results. */

#include "cni/plugins/coordinator/coordinator.h"
#include "fuzz.h"

typedef int netconf_read(struct cni_call *c, struct cni_result *out, struct err *e);

/* netconf_ipam.c */
netconf_read netconf_host_local, netconf_static, netconf_spiderpool, netconf_whereabouts;
/* Reads the IPAM configuration by the rules of the type that it names, and merges the result
 * into *out. */
int netconf_ipam(const struct cni_ipam_call *call, struct cni_result *out, struct err *e);

/* netconf_rail.c */
netconf_read netconf_macvlan, netconf_ipvlan, netconf_vlan, netconf_ipoib, netconf_ib_sriov,
	netconf_host_device, netconf_sriov;
void netconf_check_rail(const struct rail_conf *c);

/* netconf_meta.c */
netconf_read netconf_tuning, netconf_sbr, netconf_ifacer;

/* netconf_plan.c: the coordinator, and its plan for net1 of a pod that has eth0. */
netconf_read netconf_coordinator;
int netconf_plan(const struct coordinator_conf *c, struct err *e);

/* netconf_multi.c */
netconf_read netconf_multi;

#endif
