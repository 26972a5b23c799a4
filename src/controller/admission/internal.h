/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CONTROLLER_ADMISSION_INTERNAL_H
#define UNIRAIL_CONTROLLER_ADMISSION_INTERNAL_H

/* What this folder's own files share. */

#include "base/loop.h"
#include "controller/admission/admit.h"
#include "controller/admission/range_locks.h"
#include "ipam/pool/pool.h"
#include "wire/json/tree.h"

/* Between the files admit*.c. */

#define LABEL_POOL_CIDR	  "ipam.spidernet.io/ippool-cidr"
#define LABEL_SUBNET_CIDR "ipam.spidernet.io/subnet-cidr"
#define LABEL_OWNER	  "ipam.spidernet.io/owner-spider-subnet"
#define LABEL_APP_NAME	  "ipam.spidernet.io/owner-application-name"
#define NOTE_NAD_NAME	  "multus.spidernet.io/cr-name"
#define NOTE_CNI_VERSION  "multus.spidernet.io/cni-version"
#define NOTE_CNI_NAME	  "cni.spidernet.io/cniconfig-name"

struct admit {
	const struct admit_world *world;
	const struct admit_ask *ask;
	struct admit_answer *answer;
};

/*
 * The text begins with the field: "spec.ips[0]: '10.6.0.300' has ...". The first refusal stays.
 * -EINVAL.
 */
int admit_refuse(struct admit *a, enum admit_fault fault, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* The object as a whole, with 403. */
int admit_forbid(struct admit *a, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void admit_warn(struct admit *a, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

const struct json *admit_meta(const struct json *object, const char *key);
const struct json *admit_note(const struct json *object, const char *key); /* annotation */
const char *admit_text(const struct json *v);				   /* "": no string */
bool admit_is_going(const struct json *object); /* it has a deletionTimestamp */
/* An update whose spec is the old one, defaults aside. */
bool admit_spec_stays(const struct admit *a);

/* --- objects with ranges --- */

/* A spec as the one judge of pools has it. -EINVAL: refused, unless a is NULL. */
int admit_pool_of(struct admit *a, const char *name, const struct json *spec, struct pool *ret);
/* Those of the list that are valid, without the object itself; kind: the list's. */
void admit_others(const struct admit *a, const struct json *const *list, size_t n, const char *kind,
		  struct pool_set *ret);
/*
 * The network at an octet boundary (IPv6: of 16 bits), longer than the pool's subnet, /24 (/64) at most,
 * that all its addresses and its gateway are in: what the subnet may have been meant to be. false: none.
 */
bool admit_narrower(const struct pool *p, struct ipnet *ret);
/* "; did you mean 172.16.11.0/24?" about two overlapping subnets, when the narrower network of one of them
 * does not overlap with the other; else "". */
void admit_overlap_hint(const struct pool *p, const struct pool *other, struct buf *ret);
int admit_check_family(struct admit *a, uint8_t family);
int admit_check_fixed(struct admit *a); /* ipVersion and subnet of an update */
/* "[10.6.0.1-10.6.0.9 10.6.0.20]", as Go prints such a list. */
void admit_ranges(const struct ip_set *s, struct buf *ret);
void admit_set_copy(const struct ip_set *s, struct ip_set *ret);
void admit_set_common(const struct ip_set *a, const struct ip_set *b, struct ip_set *ret);

/* Spiderpool's, off a kind where nobody would take it off at the end. */
void admit_drop_finalizer(struct json_tree *object);

/* --- by kind: the object's tree, or its refusal --- */

void admit_default_pool(struct admit *a, struct json_tree *object);
void admit_default_subnet(struct admit *a, struct json_tree *object);
void admit_default_reserved(struct admit *a, struct json_tree *object);
void admit_default_network(struct admit *a, struct json_tree *object);
void admit_default_coordinator(struct admit *a, struct json_tree *object);
int admit_check_agent(struct admit *a); /* what its account may write of the kind */
int admit_check_pool(struct admit *a);
int admit_check_subnet(struct admit *a);
int admit_check_reserved(struct admit *a);
int admit_check_network(struct admit *a);
int admit_check_coordinator(struct admit *a);
/* One block of a SpiderMultusConfig: what its cniType wants. */
int admit_check_block(struct admit *a, const char *type, const char *block,
		      const struct json *spec);
/* place: "spec" or "spec.coordinator". */
int admit_check_coordinator_spec(struct admit *a, const struct json *spec, const char *place);
/* A tenant's CNI configuration, whole or a plugin of it, by cni/definition.h. */
int admit_check_definition(struct admit *a, const struct json *config, const char *place);
/* What the controller itself would put before a tenant's plugin: ifacer. */
int admit_check_ifacer(struct admit *a, const char *block, const struct json *spec);
/* The member of spec that a cniType has; NULL: not known. */
const char *admit_block_of(const char *type);

/* Between the files claims*.c. */

enum { CLAIMS_GONE_MAX = 256, CLAIMS_UID_MAX = 64 };

struct claims {
	struct kube *k;
	const char *ns;
	char gone[CLAIMS_GONE_MAX][CLAIMS_UID_MAX]; /* a ring */
	size_t next_gone;
	struct claim *first;
	/* taking out what stands for nothing */
	struct kube_call *tidy;
	struct loop_timer *tidy_timer;
};

/* Whether the object was seen to go; uid may be NULL. */
bool claims_is_gone(const struct claims *c, const char *uid);
void claims_tidy_stop(struct claims *c);

#endif
