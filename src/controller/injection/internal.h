/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CONTROLLER_INJECTION_INTERNAL_H
#define UNIRAIL_CONTROLLER_INJECTION_INTERNAL_H

/* Shared by the files of this directory. */

#include "controller/injection/inject.h"
#include "spec/network_annotation.h"

/* The annotation that decides what is injected into a pod. */
struct inject_choice {
	enum inject_key key;
	const char *value; /* borrowed; NULL: nothing requested */
	bool of_ns;	   /* the value is that of the namespace's annotation */
};

/* Networks of a request. */
struct inject_nets {
	const struct inject_net **v;
	size_t n;
};

/* A group: the networks that have the same value in an annotation. */
struct inject_group {
	struct span value;
	/* the networks of the group; of several with the same NAD only one */
	const struct inject_net **nets;
	/* n: number of `nets`; configs: number of SpiderMultusConfigs, including several with
	 * the same NAD */
	size_t n, configs;
	/* the group's first network, in the order given to inject_index_new(), that cannot be
	 * injected; NULL: none */
	const struct inject_net *refused;
};
/* Finds the group of a value; NULL: no network has this value. */
const struct inject_group *inject_group_of(const struct inject_index *x, enum inject_key key,
					   struct span value);
/* Returns the existing groups and their numbers of SpiderMultusConfigs, for errors: "; there are
 * 'a' (8), 'b' (1) and 3 more". */
const char *inject_known_groups(const struct inject_index *x, enum inject_key key);

/* Checks that a network with this annotation can be injected; e may be NULL. */
int inject_check(const struct inject_net *n, enum inject_key key, struct err *e);

void inject_warn(const struct inject_request *q, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/* Iterates over the items of "a, b"; empty ones are skipped. */
bool inject_next_value(struct span *rest, struct span *ret);

/* Writes resources and capabilities of the containers; returns the number of operations. */
int inject_containers(const struct inject_request *q, const struct inject_nets *nets,
		      struct kube_patch *p);

#endif
