/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_IPAM_HOSTLOCAL_HOSTLOCAL_H
#define UNIRAIL_IPAM_HOSTLOCAL_HOSTLOCAL_H

/*
 * host-local's folder of addresses, shared with the program of that name: under
 * <data dir>/<network> one file an address, named by it, that holds "<container id>\r\n<ifname>"
 * (or the container id only, from long ago); `lock`, taken by flock; `last_reserved_ip.<set>`,
 * where the round robin of a range set stands. Either program may run next on it.
 *
 * An address file is written whole or not at all. One that is empty all the same (the original
 * and a power loss) is taken and belongs to nobody: hostlocal_records() shows it.
 */

#include "base/file.h"
#include "base/ip.h"

struct hostlocal_range {
	struct ipnet subnet;
	struct ipaddr first, last, gateway; /* family 0: by default, until hostlocal_set_check() */
};

struct hostlocal_set {
	struct hostlocal_range *v; /* borrowed */
	size_t n;
	const struct hostlocal_range *
		*by_first; /* for hostlocal_set_find(), by hostlocal_set_check(); NULL: none */
};
void hostlocal_set_done(struct hostlocal_set *s);

/* Fills in what was left out (gateway and first: the network's first address; last: the one
 * before the broadcast address) and refuses what cannot be. Kind ERR_CONF, the original's words. */
int hostlocal_set_check(struct hostlocal_set *s, struct err *e);
bool hostlocal_sets_meet(const struct hostlocal_set *a, const struct hostlocal_set *b);
/* The first set that has an address of another, and the first of those, after hostlocal_set_check() of each. */
bool hostlocal_sets_overlap(const struct hostlocal_set *sets, size_t n, size_t *i, size_t *j);
/* Costs log n in a set that was checked. */
const struct hostlocal_range *hostlocal_set_find(const struct hostlocal_set *s,
						 const struct ipaddr *a);
void hostlocal_set_str(const struct hostlocal_set *s, struct buf *b); /* "a-b,c-d" */

struct hostlocal_record {
	struct ipaddr ip;
	char *container_id; /* "" : the file is empty */
	char *ifname;	    /* NULL: written long ago, without one */
};

/* An open store: locked from open to close. */
struct hostlocal {
	const struct root *root; /* borrowed */
	char *dir;
	int lock;
	bool loaded;
	struct hostlocal_record *v; /* ascending */
	size_t n;
};
#define HOSTLOCAL_INIT                                                                             \
	{                                                                                          \
		.lock = -1                                                                         \
	}

/* `create` false: no folder is -ENOENT, and nothing is made. */
int hostlocal_open(struct hostlocal *h, const struct root *r, const char *data_dir,
		   const char *network, bool create, struct err *e);
void hostlocal_close(struct hostlocal *h);
#define auto_hostlocal __attribute__((cleanup(hostlocal_close)))

struct hostlocal_owner {
	const char *container_id, *ifname;
};

/* Reads the folder, once; h->v and h->n are valid after it. */
int hostlocal_records(struct hostlocal *h, struct err *e);
/* The record of an address, once they are read; NULL: none. */
struct hostlocal_record *hostlocal_find(const struct hostlocal *h, const struct ipaddr *a);
bool hostlocal_is_of(const struct hostlocal_record *r, const struct hostlocal_owner *who);

/*
 * One address of the set, `want` or (NULL) the next of the round robin. Exhausted or taken:
 * ERR_AGAIN; the owner has one of this set already: -EEXIST; not to be had at all: ERR_CONF.
 */
int hostlocal_take(struct hostlocal *h, const struct hostlocal_set *s, size_t set_index,
		   const struct hostlocal_owner *who, const struct ipaddr *want,
		   struct ipnet *address, struct ipaddr *gateway, struct err *e);
/* What one file says, without reading the others; -ENOENT when there is none. */
int hostlocal_look(const struct hostlocal *h, const struct ipaddr *a, struct hostlocal_record *ret,
		   struct err *e);
void hostlocal_record_done(struct hostlocal_record *r);
int hostlocal_free(struct hostlocal *h, const struct ipaddr *a, struct err *e);
/* Frees all that the owner has, and what is only under its container id when there is nothing
 * else. Returns the number. */
int hostlocal_release(struct hostlocal *h, const struct hostlocal_owner *who, struct err *e);

#endif
