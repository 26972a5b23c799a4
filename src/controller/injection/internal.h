/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CONTROLLER_INJECTION_INTERNAL_H
#define UNIRAIL_CONTROLLER_INJECTION_INTERNAL_H

/* What the inject*.c share; not for others. */

#include "controller/injection/inject.h"
#include "spec/network_annotation.h"

#define INJECT_NETWORKS "k8s.v1.cni.cncf.io/networks"

/* What a pod asks for. */
struct inject_wish {
	enum inject_key key;
	const char *value; /* borrowed; NULL: nothing */
	bool of_ns;	   /* it is the namespace's */
};

void inject_warn(const struct inject_ask *q, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/* The items of "a, b" one by one; empty ones are passed over. */
bool inject_next_value(struct span *rest, struct span *ret);

/* The networks of the wish, each once, in order; what is not there or cannot be injected is a
 * refusal. ret->v is the caller's. */
int inject_choose(const struct inject_ask *q, const struct inject_wish *w, struct inject_nets *ret,
		  struct err *e);

/*
 * Makes `nets` the pod's annotation of networks. Another list that it has is overwritten with a warning,
 * also one that cannot be read. 1: an operation was written; 0: the list is that already.
 */
int inject_list(const struct inject_ask *q, const struct inject_wish *w,
		const struct inject_nets *nets, struct kube_patch *p, struct err *e);

/* Resources and capabilities of its containers: how many operations were written. */
int inject_containers(const struct inject_ask *q, const struct inject_nets *nets,
		      struct kube_patch *p);

#endif
