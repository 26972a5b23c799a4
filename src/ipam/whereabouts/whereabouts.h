/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_IPAM_WHEREABOUTS_WHEREABOUTS_H
#define UNIRAIL_IPAM_WHEREABOUTS_WHEREABOUTS_H

/*
 * whereabouts' ranges, and the local store of what was given out of them.
 *
 * In a cluster an IPPool object holds the allocations of one range of one network name, and a
 * reservation object an address that goes to several ranges. The local store keeps that shape: each
 * IPPool is a folder of its own with the engine's lock and journal (ipam/ipam.h, ipam/journal/journal.h),
 *
 *	<state dir>/whereabouts/lock
 *	<state dir>/whereabouts/10.0.0.0-24/{lock,journal}
 *	<state dir>/whereabouts/fd00::-64@blue/{lock,journal}	network_name "blue"
 *
 * and not the journal of the pools: there an address has one holder in the whole node, here two
 * network names may each give it out, and so may two ranges of one name that overlap when
 * enable_overlapping_ranges is false. When it is true (the default) the lock above lies over all
 * folders and an address is taken when any folder of the network name says so. That needs no
 * reservation that could be forgotten or outlive its pod. `unirail pool` works on such a folder
 * when it is given as --state-dir.
 *
 * An address belongs to (container id, interface); the same pod name and interface ask for the
 * same address again, whatever the container, and the new container owns it from then on. The
 * lowest free address comes first, as in the original, and a freed one is not rested.
 */

#include "ipam/ipam.h"

/* A range as written. NULL or "" is "not given". */
struct whereabouts_text {
	const char *range; /* "10.0.0.0/24" or "10.0.0.5-10.0.0.9/24" */
	const char *start, *end;
	const char *const *exclude; /* "10.0.0.8/30" or "10.0.0.7" */
	size_t n_exclude;
};

struct whereabouts_range {
	struct ipnet net;	    /* the network's address */
	struct ipaddr first, last;  /* neither the network's address nor the last one */
	struct ip_set usable;	    /* first to last without what is excluded */
	const char *const *exclude; /* borrowed, for words */
	size_t n_exclude;
};

/* Addresses as the original reads them: octets may have leading zeros and stay decimal. */
int whereabouts_ip_parse(struct span s, struct ipaddr *ret);
int whereabouts_net_parse(struct span s, struct ipnet *ret);

/*
 * Judges one range; `place` names it ("conf.ipam"). Kind ERR_CONF. Refused, where the original
 * says nothing and takes the whole network: a first or last address that is none, lies outside of
 * the network, or after the other. Excludes are judged here, not at the first ADD.
 */
int whereabouts_range_make(const struct whereabouts_text *t, const char *place,
			   struct whereabouts_range *ret, struct err *e);
void whereabouts_range_done(struct whereabouts_range *r);

struct whereabouts_pool {
	char *name; /* of the folder */
	struct ipam *store;
};

/* The open store, locked from open to close. */
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

struct whereabouts_ask {
	struct ipam_owner who;
	const char *network_name; /* "": none */
	bool overlapping;	  /* enable_overlapping_ranges */
	const struct whereabouts_range *ranges;
	size_t n_ranges;
};

/* What ask needs, made when it is not there. */
int whereabouts_open(struct whereabouts *w, const struct root *r, const char *state_dir,
		     const struct whereabouts_ask *a, struct err *e);
/*
 * Every pool that is there, for giving back: what a pod holds does not depend on what its
 * configuration says by now. Nothing is made; no store is an empty one. A pool of another network
 * name that cannot be read is logged and left out.
 */
int whereabouts_open_all(struct whereabouts *w, const struct root *r, const char *state_dir,
			 const char *network_name, struct err *e);
void whereabouts_close(struct whereabouts *w);
#define auto_whereabouts __attribute__((cleanup(whereabouts_close)))

/* An address of each range into ret[], all or none, durable. Exhausted is kind ERR_AGAIN, in the
 * original's words; who holds the range's addresses is in the details. */
int whereabouts_allocate(struct whereabouts *w, const struct whereabouts_ask *a, struct ipnet *ret,
			 struct err *e);
/* Whether that would succeed now. */
int whereabouts_try(struct whereabouts *w, const struct whereabouts_ask *a, struct err *e);
/* What (container, interface) holds of each range: ret[i] has family 0 where it is nothing. */
int whereabouts_held(struct whereabouts *w, const struct whereabouts_ask *a, struct ipnet *ret,
		     struct err *e);
/* Frees all of it, in every pool that is open; the number. */
int whereabouts_release(struct whereabouts *w, const char *container_id, const char *ifname,
			struct err *e);
/* Frees what `network` (CNI's name) holds for others than the valid ones; the number. */
int whereabouts_collect(struct whereabouts *w, const char *network, const struct ipam_valid *v,
			size_t n, struct err *e);

#endif
