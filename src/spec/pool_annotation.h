/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_SPEC_POOL_ANNOTATION_H
#define UNIRAIL_SPEC_POOL_ANNOTATION_H

/*
 * Selects the pools that each interface of a pod requests, in a cluster. The first source that is
 * present is used, alone, for both families:
 *
 *	pod annotation	ipam.spidernet.io/subnets, subnet	pools created for the pod's application
 *	pod annotation	ipam.spidernet.io/ippools	[{"interface":"net1","ipv4":["p"],"ipv6":["q"],
 *							  "cleangateway":true}, ...]
 *	pod annotation	ipam.spidernet.io/ippool	{"ipv4":["p"],"ipv6":["q"]}: all interfaces
 *	namespace	ipam.spidernet.io/default-ipv4-ippool, default-ipv6-ippool	["p"]
 *	the network's configuration	default_ipv4_ippool, default_ipv6_ippool
 *	the pools whose `default` is true
 *
 * In `ippools` either all entries name their interface, or none. If all do, each interface that
 * requests addresses must have an entry. If none does, the entries apply to the interfaces in the
 * order of the pod's networks. The lists "ipv4" and "ipv6" have pool names or wildcards in order of
 * preference; interfaces may share a pool.
 *
 * Accepted with a warning: the form of `ippool` in `ippools` and vice versa, a name instead of a
 * list of one name, an object instead of a list of one object, "to" and "via" in a route.
 *
 * Values are read as Go's decoder does: keys match without case, unknown keys are ignored with a
 * warning. Errors in a value have kind ERR_CONF and name the pod or namespace, the annotation, the
 * position and the remedy.
 */

#include "ipam/ipam.h"

/* The cluster's settings. */
struct pod_pools_conf {
	bool no4, no6;	 /* enableIPv4 or enableIPv6 is off, so lists of that family are ignored */
	bool subnets;	 /* enableSpiderSubnet: the annotations `subnet`, `subnets` are read */
	bool auto_pools; /* pools are created from subnets automatically */
};

struct pod_nic {
	const char *ifname;
	/* index among the pod's interfaces that get addresses from this IPAM, from 0; -1:
	 * unknown */
	int position;
	/* default_ipv4_ippool, default_ipv6_ippool of the network's configuration */
	const char *const *conf4, *const *conf6;
	size_t n_conf4, n_conf6;
	/* clean_gateway of the network's configuration; cleangateway of `ippools` overrides it */
	bool conf_clean;
};

struct app_id;

/*
 * Context of the annotations `subnet` and `subnets` (spec/subnet_annotation.h): the pod's
 * application and the pools created for it. A pool that does not exist (yet) is an error of kind
 * ERR_AGAIN.
 */
struct pod_auto {
	const struct app_id *app; /* application that owns the pod; NULL: the pod has no owner */
	/* Returns the name of the pool with the key of auto_pool_key_of(); NULL: no such pool. */
	const char *(*find)(void *arg, const char *key, uint8_t family);
	/* Requests a pool with `count` addresses for an application that the controller does not
	 * watch. Called for each pod, so that a changed `count` takes effect. */
	void (*make)(void *arg, const struct app_id *app, const char *subnet, const char *ifname,
		     uint8_t family, uint32_t count, bool reclaim);
	void *arg;
};

struct pod_pools_facts {
	struct pod_auto autos;
	const struct pod_facts *pod;
	/* NULL: the namespace is unknown, which is an error (ERR_AGAIN) if its annotations are
	 * needed */
	const struct labels *ns_annotations;
	struct pod_pools_conf conf;
	/* All interfaces of the pod that get addresses from this IPAM, in order: used for
	 * positions, and to detect entries that name an interface which is not in this list.
	 * n_names 0: unknown. */
	const char *const *names;
	size_t n_names;
};

/* The pools that one interface requests. Both lists empty: the default pools. */
struct pod_pool_request {
	char **pools4, **pools6; /* pools of each family, without duplicates */
	size_t n_pools4, n_pools6;
	bool no4, no6, clean_gateway;
	const char *from; /* source for messages: "annotation ipam.spidernet.io/ippools"; static */
};

/* Determines the pools of n interfaces: ret is an array of n; the caller frees each with
 * pod_pool_request_done(). */
int pod_pools_request(const struct pod_pools_facts *f, const struct pod_nic *nics, size_t n,
		      struct pod_pool_request *ret, struct err *e);
void pod_pool_request_done(struct pod_pool_request *w);
/* Copies the request into `a`, which borrows the lists. */
void pod_pool_request_put(const struct pod_pool_request *w, struct ip_request *a);

/*
 * Returns the position of an interface whose request does not contain the other interfaces: its
 * index in `held`, the interfaces of the pod that have addresses already, in order of allocation; n
 * if `held` does not have it.
 */
int pod_nic_position(const char *const *held, size_t n, const char *ifname);

/* Fails for a pod that is being deleted or has finished (kind ERR_AGAIN, since a new pod of the
 * same name may get an address). */
int pod_check_alive(const struct pod_facts *p, struct err *e);

/* --- annotation ipam.spidernet.io/routes --- */

/* Reads [{"dst":"10.9.0.0/16","gw":"10.6.0.1"}]; the caller frees the list. */
int pod_routes_read(const struct pod_facts *p, struct pool_route **ret, size_t *n, struct err *e);
/*
 * Adds each route to the first interface of the pod whose subnet contains the route's gateway,
 * after the routes of the interface's pool and before the default route. `had`: addresses of the
 * interfaces that the pod had before these allocations; a route whose gateway is in the subnet of
 * one of them is skipped, since that interface got the route with its address. Returns the number
 * of routes that have no interface yet.
 */
size_t pod_routes_give(const struct pool_route *v, size_t n, const struct ipnet *had, size_t n_had,
		       struct ip_allocation *allocations, size_t n_allocations);

#endif
