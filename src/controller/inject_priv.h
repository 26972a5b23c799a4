/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CONTROLLER_INJECT_PRIV_H
#define UNIRAIL_CONTROLLER_INJECT_PRIV_H

/* What the inject*.c share; not for others. */

#include "agent/net_select.h"
#include "controller/inject.h"

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

/* What the pod has in its annotation, and which of `nets` are missing in it. */
struct inject_list {
	struct net_select has;
	const struct inject_net **miss;
	size_t n_miss;
};
int inject_list_read(const struct inject_ask *q, const struct inject_nets *nets,
		     struct inject_list *ret, struct err *e);
void inject_list_done(struct inject_list *l);
/* 1: an operation was written. */
int inject_list_write(const struct inject_ask *q, const struct inject_list *l,
		      struct kube_patch *p);

/* Resources and capabilities of its containers: how many operations were written. */
int inject_containers(const struct inject_ask *q, const struct inject_nets *nets,
		      const struct inject_list *l, struct kube_patch *p);

#endif
