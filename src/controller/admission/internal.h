/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CONTROLLER_ADMISSION_INTERNAL_H
#define UNIRAIL_CONTROLLER_ADMISSION_INTERNAL_H

/* Shared by the files of this directory. */

#include "base/loop.h"
#include "controller/admission/admit.h"
#include "controller/admission/range_locks.h"
#include "ipam/pool/pool.h"
#include "wire/json/tree.h"

/* Shared by admit.c and the files for each kind. */

struct admit {
	const struct admit_cache *cache;
	const struct admit_request *request;
	struct admit_answer *answer;
};

/* Denies the object because of a field; the text begins with the path of the field: "spec.ips[0]:
 * '10.6.0.300' has ...". The first denial stays. Returns -EINVAL. */
int admit_refuse(struct admit *a, enum admit_fault fault, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* Denies the whole object with 403. */
int admit_forbid(struct admit *a, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void admit_warn(struct admit *a, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

const struct json *admit_annotation(const struct json *object,
				    const char *key); /* returns the value of an annotation */
/* returns whether the object has a deletionTimestamp */
bool admit_is_going(const struct json *object);
/* Returns whether an update leaves the spec unchanged, apart from defaults. */
bool admit_spec_stays(const struct admit *a);

/* --- objects with ranges --- */

/*
 * Validates a spec by the common rules (ipam/pool/pool_spec.h). -EINVAL: the spec is invalid, and
 * the answer of `a` denies the request.
 */
int admit_pool_of(struct admit *a, const char *name, const struct json *spec, struct pool *ret);
/* Makes the set of the valid objects of a list, without the object of the request. kind: kind of
 * the objects in the list. */
void admit_others(const struct admit *a, const struct json *const *list, size_t n, const char *kind,
		  struct pool_set *ret);
/*
 * Guesses the intended subnet: the narrowest network within the pool's subnet, with the prefix
 * length /8, /16 or /24 (IPv6: /16, /32, /48 or /64), that contains all addresses and the gateway.
 * Returns false if there is none.
 */
bool admit_narrower(const struct pool *p, struct ipnet *ret);
/*
 * For two pools whose subnets overlap: writes "; did you mean 172.16.11.0/24?" with the network
 * that admit_narrower() guesses for one pool, if this network does not overlap with the subnet of
 * the other pool. Writes nothing if neither guess fits.
 */
void admit_overlap_hint(const struct pool *p, const struct pool *other, struct buf *ret);
int admit_check_family(struct admit *a, uint8_t family);
int admit_check_fixed(struct admit *a); /* denies changes of ipVersion and subnet */
/* Writes a set as Go prints a list: "[10.6.0.1-10.6.0.9 10.6.0.20]". */
void admit_ranges(const struct ip_set *s, struct buf *ret);

/* Removes Spiderpool's finalizer from an object that is not a SpiderIPPool. */
void admit_drop_finalizer(struct json_tree *object);

/* --- defaults and validation, a function for each kind --- */

void admit_default_pool(struct admit *a, struct json_tree *object);
void admit_default_subnet(struct admit *a, struct json_tree *object);
void admit_default_reserved(struct admit *a, struct json_tree *object);
void admit_default_network(struct admit *a, struct json_tree *object);
void admit_default_coordinator(struct admit *a, struct json_tree *object);
int admit_check_pool(struct admit *a);
int admit_check_subnet(struct admit *a);
int admit_check_reserved(struct admit *a);
int admit_check_network(struct admit *a);
int admit_check_coordinator(struct admit *a);
/* Checks the settings of a coordinator. place: their path, "spec" or "spec.coordinator". */
int admit_check_coordinator_spec(struct admit *a, const struct json *spec, const char *place);
/* Call multus_check_choices() and multus_check_numbers(); an error denies the object. */
int admit_check_choices(struct admit *a, const struct json *v, const char *block,
			const char *place);
int admit_check_numbers(struct admit *a, const struct json *v, const char *block,
			const char *place);

/* State of range_locks.c. */

enum { CLAIMS_REMOVED_MAX = 256, CLAIMS_UID_MAX = 64 };

struct range_locks {
	struct kube *k;
	const char *ns;
	/* UIDs of deleted objects; ring buffer */
	char deleted[CLAIMS_REMOVED_MAX][CLAIMS_UID_MAX];
	size_t next_removed;
	struct claim *first;
	/* request and timer of the removal of deleted objects' claims */
	struct kube_call *clean_up;
	struct loop_alarm cleanup_timer;
};

#endif
