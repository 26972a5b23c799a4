/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CONTROLLER_ADMISSION_ADMIT_H
#define UNIRAIL_CONTROLLER_ADMISSION_ADMIT_H

/*
 * What is taken into the cluster, and how: pure, the object and what else there is in, a patch or a
 * refusal out. Of the API server's two questions admit_default() answers the first and
 * admit_check() the second, which is about the object with the patch applied.
 *
 * Taken as meant, with a warning: a subnet with host bits, blanks around addresses, routes `to` and `via`,
 * `enableRdma`, `rdmaResourceName`, `ippools` and `matchMasterSubnet` one level off. Such texts are stored
 * as they were written, since kubectl apply compares what it sends with what is stored and would report
 * `configured` each time: readers understand the spelling (ipam/pool/pool_spec.h), or the field it is taken as
 * is filled beside it. Only what the definition's type cannot hold is replaced: a text as `ipVersion`, a
 * number as `pkey`; and `enableCoordinator` of a custom network, which is always false, as in Spiderpool.
 * What cannot be meant is refused with the field's path and the mended line.
 *
 * Defaults are Spiderpool's, and what the stored object gets besides:
 *
 *	SpiderIPPool		ipVersion, label ipam.spidernet.io/ippool-cidr (of the network); of the SpiderSubnet with the same CIDR: owner, gateway, routes
 *	SpiderSubnet		ipVersion, label ipam.spidernet.io/subnet-cidr
 *	SpiderReservedIP	ipVersion
 *	SpiderMultusConfig	all of its block and coordinator; the inject annotations as labels, which
 *				go with them
 *	SpiderCoordinator	mode, vethMTU
 *
 * A pool carries the finalizer spiderpool.spidernet.io: deleted while addresses are in use it hands
 * out nothing more, is still there for those who have them, so that no other pool gets their
 * addresses, and goes with the last (the leader takes the finalizer off). The deletion is told how many
 * there are. Nothing else gets one: a SpiderCoordinator or SpiderSubnet that has it from Spiderpool loses
 * it at its next change, as nothing would ever have taken it off the former.
 *
 * An update that leaves the spec alone is always taken, and of one that changes it only what it adds
 * is held against others: pools that overlap already can be mended.
 *
 * SpiderEndpoint and SpiderIPBlock are not asked about: agents write them, and must not need a
 * controller for it; permissions keep others from them.
 */

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/ipset.h"
#include "wire/json/json.h"

#define ADMIT_FINALIZER "spiderpool.spidernet.io"

/*
 * Entries of a list or map of the spec, and of labels or annotations. An object that has more from an earlier time
 * keeps them, and can be changed and deleted.
 */
enum { ADMIT_LIST_MAX = 1 << 14, ADMIT_LABELS_MAX = 1 << 10 };

enum admit_operation { ADMIT_CREATE, ADMIT_UPDATE, ADMIT_DELETE };

/* Borrowed. */
struct admit_ask {
	const char *kind; /* "SpiderIPPool" */
	enum admit_operation operation;
	const char *ns, *name; /* name "": generateName */
	const struct json *object,
		*old;	  /* NULL: not there (object of a deletion, old of a creation) */
	const char *user; /* who asks; may be NULL */
};

/* What is known of a NetworkAttachmentDefinition's name. */
enum admit_nad {
	ADMIT_NAD_NONE,	 /* nobody has it, or the SpiderMultusConfig that asks */
	ADMIT_NAD_FREE,	 /* there is one that no SpiderMultusConfig owns */
	ADMIT_NAD_TAKEN, /* another has it */
};

/* What else there is; borrowed. */
struct admit_world {
	const char *agent_ns;		 /* of a network that multusName has without a namespace */
	bool no_ipv4, no_ipv6;		 /* switched off for the whole cluster */
	bool keep_used;			 /* what is in use cannot be deleted */
	const struct json *const *pools; /* all SpiderIPPools, as a GET has them */
	const struct json *const *subnets; /* all SpiderSubnets; none: they are not in use */
	size_t n_pools, n_subnets;
	/* Whether an administrator writes the definitions of this namespace (spec/definition.h). NULL: nobody
	 * is known to. */
	bool (*trusts)(void *arg, const char *ns);
	/* Who has the name, other than SpiderMultusConfig ns/name; *owner for ADMIT_NAD_TAKEN. May be
	 * NULL. */
	enum admit_nad (*nad)(void *arg, const char *ns, const char *nad, const char *name,
			      const char **owner);
	void *arg;
};

/* In controller/webhook/review.h's order. */
enum admit_fault { ADMIT_INVALID, ADMIT_REQUIRED, ADMIT_FORBIDDEN, ADMIT_NOT_SUPPORTED };

struct admit_answer {
	int code; /* 0: allowed; 422: `fault` of `field`; else `text` is of the whole object */
	enum admit_fault fault;
	char *field, *text;
	char **warnings;
	size_t n_warnings;
	struct buf patch; /* a JSON patch; empty: nothing to change */
};

/*
 * Whether it is an agent's account, of whatever namespace. Of pools it may write what agents write, and no more
 * (deploy/policies/agent.yaml says the same, where the API server has policies: Kubernetes 1.30). Nothing is filled in
 * for it at an update: what an administrator wrote stays as it is.
 */
bool admit_is_agent(const char *user);

bool admit_knows(const char *kind);
/* *ret is overwritten; for admit_answer_done(). */
void admit_default(const struct admit_world *w, const struct admit_ask *q,
		   struct admit_answer *ret);
void admit_check(const struct admit_world *w, const struct admit_ask *q, struct admit_answer *ret);
void admit_answer_done(struct admit_answer *a);

/* Whether the decision depends on what others ask at the same time: it is about ranges that were
 * not this object's before. */
bool admit_is_contended(const struct admit_ask *q);
/* "10-6-0-0-16" of "10.6.0.0/16": the value of the CIDR labels. */
char *admit_cidr_label(const char *subnet);

#endif
