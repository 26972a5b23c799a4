/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CONTROLLER_NAD_RENDER_H
#define UNIRAIL_CONTROLLER_NAD_RENDER_H

/*
 * The NetworkAttachmentDefinition that a SpiderMultusConfig stands for: pure, JSON in, text out, byte
 * for byte as Spiderpool's controller writes it.
 *
 *	name		annotation multus.spidernet.io/cr-name, else the object's
 *	annotations	all of the object's but kubectl's last-applied-configuration, which kubectl would
 *			take for the NAD's own; and k8s.v1.cni.cncf.io/resourceName for sriov, ib-sriov
 *			and ovs with a deviceID
 *	spec.config	a list of plugins: [ifacer] main [rdma] chainCNIJsonData [coordinator] [tuning];
 *			of `custom` the user's text as it is, or none: then a file of that name counts
 *
 * Where Spiderpool drops what was asked for it is written: coordinator.hostRuleTable when it is not
 * 500, coordinator.podRPFilter when it is not 0 (500 and 0 are the definition's defaults, and written
 * always they would hide what the SpiderCoordinator says). disableIPAM with ippools is no crash.
 * Numbers of chainCNIJsonData keep all their digits.
 *
 * What admission would have filled in is taken as its default, and spellings that it would have taken
 * as meant are: an object may be older than the webhook.
 */

#include "spec/pod.h"
#include "wire/json/json.h"

#define NAD_NAME_NOTE	  "multus.spidernet.io/cr-name"
#define NAD_RESOURCE_NOTE "k8s.v1.cni.cncf.io/resourceName"
#define NAD_LAST_APPLIED  "kubectl.kubernetes.io/last-applied-configuration"

enum { NAD_CONFIG_MAX = 256 << 10 };

struct nad {
	char *name;
	char *config; /* NULL: none */
	struct labels annotations;
};

/* From an object as a GET has it. The error names the field: "spec.macvlan.master is empty, wants
 * ...". *ret is left alone then. */
int nad_write(const struct json *smc, struct nad *ret, struct err *e);
void nad_done(struct nad *n);

/* Borrowed; "": it has no name. */
const char *nad_name(const struct json *smc);

/* --- its part --- */

/* The coordinator's object, from spec.coordinator (NULL: all defaults). */
void nad_put_coordinator(struct json_out *o, const struct json *coordinator);

#endif
