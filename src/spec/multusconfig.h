/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_SPEC_MULTUSCONFIG_H
#define UNIRAIL_SPEC_MULTUSCONFIG_H

/*
 * The schema of a SpiderMultusConfig, and of a SpiderCoordinator, whose settings a network may have
 * as spec.coordinator: the types of networks, and for each field its default, range and choices.
 * deploy/crds has the same schema for the API server. These functions read and write no files and
 * send no requests.
 *
 * Admission (controller/admission/) completes objects and validates them, the renderer of
 * NetworkAttachmentDefinitions (controller/nad/) completes a copy, since an object may be older
 * than the webhook, and injection (controller/injection/) reads the types.
 */

#include "wire/json/tree.h"

/* A cniType with a block of settings in the spec; `custom` has none. */
struct multus_type {
	const char *type;     /* value of spec.cniType: "ib-sriov" */
	const char *block;    /* key of its settings in the spec: "ibsriov" */
	const char *resource; /* key in the block: the device plugin's resource; NULL: none */
	bool masters;	      /* `master` is a list of the node's interfaces */
	bool devices;	      /* each pod gets a device of `resource` */
	bool match;	      /* ippools.matchMasterSubnet has an effect */
	bool injectable;      /* the network can be injected into pods */
};

/* MULTUS_RULE_TABLE: default of spec.coordinator.hostRuleTable. */
enum { MULTUS_TYPES = 7, MULTUS_RULE_TABLE = 500 };
extern const struct multus_type multus_types[MULTUS_TYPES];
#define MULTUS_TYPE_NAMES "macvlan, ipvlan, vlan, sriov, ib-sriov, ipoib, ovs or custom"

const struct multus_type *multus_type_of(const char *type); /* NULL: custom, unknown, or NULL */

/* Name of the object's NetworkAttachmentDefinition; borrowed; "": the object has no name. */
const char *multus_nad_name(const struct json *smc);

/* The inputs of a completion besides the spec. */
struct multus_completion {
	const struct json *sent; /* the spec before completion */
	/* the spec before this update; NULL: the object is being created */
	const struct json *old;
	/* Called with a warning for the author of the object; NULL: warnings are dropped. */
	void (*warn)(void *arg, const char *text);
	void *arg;
};

/*
 * Completes `spec`, which the caller has made as a tree from c->sent. A value under an alternative
 * path or name is copied to the proper field (spec.ippools applies to the block of the cniType),
 * and an absent field gets its default. Defaults that are empty strings are left out: API servers
 * up to 1.20 (at least) treat them as null, and to every reader an absent field means the same.
 */
void multus_complete(struct json_tree *spec, const struct multus_completion *c);
/* The defaults of a SpiderCoordinator's spec. */
void coordinator_complete(struct json_tree *spec);

/*
 * Validate the strings with choices, and the numbers, of the object v. block: key of v in the spec,
 * such as "vlan"; it is "coordinator" also for a SpiderCoordinator's spec. place: path of v for
 * messages, such as "spec.vlan". -ENOTSUP: not one of the valid strings or numbers; -EINVAL: not an
 * integer, or outside the range. The error begins with the field's path.
 */
int multus_check_choices(const struct json *v, const char *block, const char *place, struct err *e);
int multus_check_numbers(const struct json *v, const char *block, const char *place, struct err *e);

#endif
