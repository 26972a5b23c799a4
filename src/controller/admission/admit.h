/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CONTROLLER_ADMISSION_ADMIT_H
#define UNIRAIL_CONTROLLER_ADMISSION_ADMIT_H

/*
 * Defaulting and validation of objects. The functions are pure: they get the object and the state
 * of the cluster, and return a patch or a denial. admit_default() serves the mutating webhook,
 * admit_check() the validating webhook, which gets the object with the patch applied.
 *
 * Accepted with a warning: a subnet with host bits, whitespace around addresses, routes with `to`
 * and `via`, `enableRdma`, and `rdmaResourceName`, `ippools` and `matchMasterSubnet` above the
 * block in which the CRD has them. Such spellings are stored as written, since kubectl apply
 * compares its manifest with the stored object and would otherwise report `configured` each time:
 * either readers understand the spelling (ipam/pool/pool_spec.h), or the proper field is added
 * beside it; an update that changes the proper field removes the spelling. Only these values are
 * replaced: a subnet, gateway or range whose whitespace readers do not ignore; values of a type
 * that the CRD does not allow (a string as `ipVersion`, a number as `pkey`); and
 * `enableCoordinator` of a custom network, which is always false, as in Spiderpool. Anything else
 * invalid is denied with the path of the field and a remedy.
 *
 * The defaults are Spiderpool's. The stored object also gets:
 *
 * 	SpiderIPPool		ipVersion, label ipam.spidernet.io/ippool-cidr (CIDR of its network);
 * 				from the SpiderSubnet with the same CIDR: owner; gateway and
 * 				routes if the pool has none
 * 	SpiderSubnet		ipVersion, label ipam.spidernet.io/subnet-cidr
 * 	SpiderReservedIP	ipVersion
 * 	SpiderMultusConfig	all fields of its cniType's block and of its coordinator; the inject
 * 				annotations as labels, which are removed with the annotations
 * 	SpiderCoordinator	mode, vethMTU
 *
 * A pool has the finalizer spiderpool.spidernet.io: a pool deleted while its addresses are in use
 * allocates no more, stays visible so that no other pool gets its addresses, and is removed when
 * the last address is released (the leader removes the finalizer). The user who deletes a pool is
 * warned how many addresses are in use. No other kind gets the finalizer: a SpiderCoordinator,
 * SpiderSubnet or SpiderReservedIP that has it from Spiderpool loses it at its next change.
 *
 * If an update changes neither spec nor annotations, only the user and the number of labels are
 * checked. If it changes a pool's spec, only the added addresses are compared with other objects,
 * so that pools that already overlap can be repaired. If it changes a SpiderSubnet's spec, only the
 * removed addresses are compared with pools.
 *
 * SpiderEndpoint and SpiderIPBlock have no webhooks: agents write them and must not depend on a
 * running controller; RBAC keeps others from writing them.
 */

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/ipset.h"
#include "wire/json/json.h"

/*
 * ADMIT_LIST_MAX: maximum number of entries in each list or map of the spec. ADMIT_LABELS_MAX:
 * maximum number of labels, and of annotations. An object that already exceeds a limit can be
 * deleted, and updated if the update adds no entries.
 */
enum { ADMIT_LIST_MAX = 1 << 14, ADMIT_LABELS_MAX = 1 << 10 };

enum admit_operation { ADMIT_CREATE, ADMIT_UPDATE, ADMIT_DELETE };

/* All pointers are borrowed. */
struct admit_request {
	const char *kind; /* "SpiderIPPool" */
	enum admit_operation operation;
	const char *ns, *name; /* name "": generateName */
	const struct json *object,
		*old;	  /* NULL: absent (a deletion has no object, a creation has no old one) */
	const char *user; /* user who sends the request; may be NULL */
};

/* Use of a NetworkAttachmentDefinition's name. */
enum admit_nad {
	ADMIT_NAD_NONE,	 /* unused, or used by the requesting SpiderMultusConfig */
	ADMIT_NAD_FREE,	 /* exists and has no SpiderMultusConfig as owner */
	ADMIT_NAD_TAKEN, /* used by another SpiderMultusConfig */
};

/* State of the cluster; borrowed. */
struct admit_cache {
	/* namespace of the networks that a pool's spec.multusName names without a namespace */
	const char *agent_ns;
	bool no_ipv4, no_ipv6;		   /* disabled for the whole cluster */
	bool protect_used;		   /* reject deletion of pools and subnets in use */
	const struct json *const *pools;   /* all SpiderIPPools; may lack status.allocatedIPs */
	const struct json *const *subnets; /* all SpiderSubnets */
	size_t n_pools, n_subnets;
	/* Returns whether namespace ns is trusted: administrators write its definitions
	 * (spec/definition.h). NULL: no namespace is trusted. */
	bool (*trusts)(void *arg, const char *ns);
	/*
	 * Returns how the NAD's name ns/nad is used, ignoring SpiderMultusConfig ns/name; for
	 * ADMIT_NAD_TAKEN sets *owner to the SpiderMultusConfig's name. May be NULL.
	 */
	enum admit_nad (*nad)(void *arg, const char *ns, const char *nad, const char *name,
			      const char **owner);
	void *arg;
};

/* Faults, in the same order as in controller/webhook/review.h. */
enum admit_fault { ADMIT_INVALID, ADMIT_REQUIRED, ADMIT_FORBIDDEN, ADMIT_NOT_SUPPORTED };

struct admit_answer {
	/* HTTP code of the answer; 0: allowed; 422: `fault` of `field`; otherwise `text` is about
	 * the whole object */
	int code;
	enum admit_fault fault;
	char *field, *text;
	char **warnings;
	size_t n_warnings;
	struct buf patch; /* JSON patch; empty: no change */
};

bool admit_knows(const char *kind);
/* Answer a request: admit_default() with a patch that adds defaults, admit_check() with the
 * decision. *ret is overwritten; the caller frees it with admit_answer_done(). */
void admit_default(const struct admit_cache *w, const struct admit_request *q,
		   struct admit_answer *ret);
void admit_check(const struct admit_cache *w, const struct admit_request *q,
		 struct admit_answer *ret);
void admit_answer_done(struct admit_answer *a);
/* Returns the object with the patch of admit_default() applied; NULL: admit_knows() is false for
 * the kind, or `object` is not a JSON object or too large. */
struct json_doc *admit_complete(const struct admit_cache *w, const struct admit_request *q);

/*
 * Returns whether the decision may conflict with concurrent requests: a SpiderIPPool or
 * SpiderSubnet is created, or its subnet, ips or excludeIPs change.
 */
bool admit_is_contended(const struct admit_request *q);

#endif
