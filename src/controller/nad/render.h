/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CONTROLLER_NAD_RENDER_H
#define UNIRAIL_CONTROLLER_NAD_RENDER_H

/*
 * Renders the NetworkAttachmentDefinition of a SpiderMultusConfig. Pure, JSON in, text out, byte
 * for byte as Spiderpool's controller writes it.
 *
 * 	name		annotation multus.spidernet.io/cr-name, otherwise the object's name
 * 	annotations	all of the object's except kubectl's last-applied-configuration, which kubectl
 * 			would take for the NAD's own, and unirail.io/missing-resource, which nads.h adds; and
 * 			k8s.v1.cni.cncf.io/resourceName for sriov, ib-sriov, and ovs with a deviceID
 * 	spec.config	a list of plugins: [ifacer] main [rdma] chainCNIJsonData [coordinator] [tuning];
 * 			for `custom` the user's text unchanged; absent if there is none: Multus
 * 			then searches the node's CNI configuration files for the name of the NAD
 *
 * Differences from Spiderpool: it drops coordinator.hostRuleTable, and coordinator.podRPFilter
 * unless podCIDRType is given. Here both are written if they are not 500 and 0 respectively (the
 * CRD's defaults: if these were written, they would override the SpiderCoordinator). disableIPAM
 * with ippools does not crash. Numbers in chainCNIJsonData keep all digits.
 *
 * The spec is completed as by admission (spec/multusconfig.h), since an object may be older than
 * the webhook.
 */

#include "spec/pod.h"
#include "wire/json/json.h"

enum { NAD_CONFIG_MAX = 256 << 10 };

struct nad {
	char *name;
	char *config; /* NULL: none */
	struct labels annotations;
};

/*
 * Renders the NAD. smc is an object as a GET returns it. Returns 0, or -errno with an error that
 * names the invalid field, if there is one: "spec.macvlan.master is empty, expected ..."; *ret is
 * unchanged then. The caller frees *ret with nad_done().
 */
int nad_write(const struct json *smc, struct nad *ret, struct err *e);
void nad_done(struct nad *n);

#endif
