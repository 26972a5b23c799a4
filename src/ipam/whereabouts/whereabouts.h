/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_IPAM_WHEREABOUTS_WHEREABOUTS_H
#define UNIRAIL_IPAM_WHEREABOUTS_WHEREABOUTS_H

/*
 * whereabouts' ranges, and the local store of addresses allocated from them.
 *
 * In a cluster whereabouts has an IPPool object for the allocations of each range and network name,
 * and a reservation object for each address, so that overlapping ranges do not allocate it twice.
 * The local store has, for each IPPool, a directory with lock and journal of the IPAM engine
 * (ipam/ipam.h, ipam/journal/journal.h),
 *
 *	<state dir>/whereabouts/lock
 *	<state dir>/whereabouts/10.0.0.0-24/{lock,journal}
 *	<state dir>/whereabouts/fd00::-64@blue/{lock,journal}	network_name "blue"
 *
 * The local store is separate from the journal of the pools, in which an address has one owner on
 * the whole node. Here two network names may each allocate the same address, and so may two
 * overlapping ranges of one name if enable_overlapping_ranges is false. If
 * enable_overlapping_ranges is true (the default), an address counts as allocated if any directory
 * of the network name has it; the lock above protects all directories. So the local store needs no
 * reservation objects, which could be left behind when a pod is deleted. `unirail pool --state-dir`
 * works on each of these directories.
 *
 * An address belongs to (container id, interface). If a new container of the same pod name requests
 * an address for the same interface, it becomes the owner of the pod's address. As in the original,
 * the lowest free address is allocated, and a released one may be reused at once.
 */

#include "ipam/ipam.h"

/* A range as configured. NULL or "": not set. */
struct whereabouts_text {
	const char *range; /* "10.0.0.0/24" or "10.0.0.5-10.0.0.9/24" */
	const char *start, *end;
	const char *const *exclude; /* "10.0.0.8/30" or "10.0.0.7" */
	size_t n_exclude;
};

struct whereabouts_range {
	struct ipnet net; /* the network, without host bits */
	/* first and last address, without the network's and the broadcast address */
	struct ipaddr first, last;
	struct ip_set usable;	    /* first to last without the excluded addresses */
	const char *const *exclude; /* borrowed, for error messages */
	size_t n_exclude;
};

/* Parses addresses as the original does: octets may have leading zeros and are decimal. */
int whereabouts_ip_parse(struct span s, struct ipaddr *ret);
int whereabouts_net_parse(struct span s, struct ipnet *ret);

/*
 * Validates one range; `place` names the range in errors ("conf.ipam"), kind ERR_CONF. range_start
 * and range_end outside the network are ignored with a warning, as in the original. Refused,
 * although the original silently uses the whole network: a bound that is not an address, a start in
 * `range` outside the network, a start after the end, and bounds without a usable address between
 * them. Excludes are validated here, not at the first ADD.
 */
int whereabouts_range_make(const struct whereabouts_text *t, const char *place,
			   struct whereabouts_range *ret, struct err *e);
void whereabouts_range_done(struct whereabouts_range *r);

struct whereabouts_pool {
	char *name; /* name of the directory */
	struct ipam *store;
};

/* An open store; holds the lock from open to close. */
struct whereabouts {
	const struct root *root;
	char *dir;
	int lock;
	struct whereabouts_pool *v;
	size_t n;
};
#define WHEREABOUTS_INIT                                                                           \
	{                                                                                          \
		.lock = -1                                                                         \
	}

struct whereabouts_request {
	struct ipam_owner owner;
	const char *network_name; /* "": none */
	bool overlapping;	  /* enable_overlapping_ranges */
	const struct whereabouts_range *ranges;
	size_t n_ranges;
};

/* Opens the pools that the request needs, and creates missing ones. */
int whereabouts_open(struct whereabouts *w, const struct root *r, const char *state_dir,
		     const struct whereabouts_request *a, struct err *e);
/*
 * Opens every existing pool, to release addresses: a pod's addresses do not depend on its present
 * configuration. Nothing is created; without a store there are no pools. A pool of another network
 * name that cannot be read is logged and ignored.
 */
int whereabouts_open_all(struct whereabouts *w, const struct root *r, const char *state_dir,
			 const char *network_name, struct err *e);
void whereabouts_close(struct whereabouts *w);
#define auto_whereabouts __attribute__((cleanup(whereabouts_close)))

/*
 * Allocates an address of each range into ret[]: all or none, durable. If a range is exhausted:
 * kind ERR_AGAIN (ERR_CONF if all its addresses are excluded), with the original's message; the
 * error's details name at most 3 owners of addresses in its pool.
 */
int whereabouts_allocate(struct whereabouts *w, const struct whereabouts_request *a,
			 struct ipnet *ret, struct err *e);
/* Returns 0 if whereabouts_allocate() would find an address for each range now, otherwise its
 * error; changes nothing. */
int whereabouts_try(struct whereabouts *w, const struct whereabouts_request *a, struct err *e);
/* Sets ret[i] to the address of (container, interface) in the i-th range; family 0: none. */
int whereabouts_held(struct whereabouts *w, const struct whereabouts_request *a, struct ipnet *ret,
		     struct err *e);
/* Releases all addresses of (container, interface) in all open pools; returns the number. */
int whereabouts_release(struct whereabouts *w, const char *container_id, const char *ifname,
			struct err *e);
/* Releases the addresses of `network` (CNI's name) whose owner is not in v; returns the number. */
int whereabouts_collect(struct whereabouts *w, const char *network, const struct ipam_valid *v,
			size_t n, struct err *e);

#endif
