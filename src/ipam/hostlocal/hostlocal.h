/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_IPAM_HOSTLOCAL_HOSTLOCAL_H
#define UNIRAIL_IPAM_HOSTLOCAL_HOSTLOCAL_H

/*
 * host-local's directory of addresses, shared with the program of that name. <data dir>/<network>
 * has one file for each address, whose name is the address, with the content "<container
 * id>\r\n<ifname>" (early releases of host-local: only the container id); `lock`, held with
 * flock(); and `last_reserved_ip.<set>`, the address that was last allocated from the range set of
 * that index: the round robin continues after it. Both programs may use the directory in turn.
 *
 * unirail writes an address file as a whole or not at all. The original may leave an empty file
 * after a power failure: its address counts as allocated, without an owner, and hostlocal_records()
 * reports it.
 */

#include "base/file.h"
#include "base/ip.h"

struct hostlocal_range {
	struct ipnet subnet;
	struct ipaddr first, last, gateway; /* family 0: hostlocal_set_check() sets the default */
};

struct hostlocal_set {
	struct hostlocal_range *v; /* borrowed */
	size_t n;
	const struct hostlocal_range *
		*by_first; /* sorted index, built by hostlocal_set_check(); NULL: none */
};
void hostlocal_set_done(struct hostlocal_set *s);

/*
 * Sets defaults (gateway and first: the address after the network address; last: the one before the
 * broadcast address, for IPv6 the last of the subnet) and rejects invalid ranges: kind ERR_CONF,
 * with the original's messages.
 */
int hostlocal_set_check(struct hostlocal_set *s, struct err *e);
/*
 * Finds the first set *i that shares an address with another set, and the first set *j that shares
 * one with *i. Call hostlocal_set_check() for each set before.
 */
bool hostlocal_sets_overlap(const struct hostlocal_set *sets, size_t n, size_t *i, size_t *j);
/* Returns the range that contains the address; NULL: none does. Costs log n after
 * hostlocal_set_check(). */
const struct hostlocal_range *hostlocal_set_find(const struct hostlocal_set *s,
						 const struct ipaddr *a);
void hostlocal_set_str(const struct hostlocal_set *s, struct buf *b); /* "a-b,c-d" */

struct hostlocal_record {
	struct ipaddr ip;
	char *container_id; /* "": the file is empty, or not a record */
	/* NULL: the file names none (early release of host-local), or is no record */
	char *ifname;
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

/* Takes the lock. If the directory does not exist: `create` true creates it; false: -ENOENT. */
int hostlocal_open(struct hostlocal *h, const struct root *r, const char *data_dir,
		   const char *network, bool create, struct err *e);
void hostlocal_close(struct hostlocal *h);
#define auto_hostlocal __attribute__((cleanup(hostlocal_close)))

struct hostlocal_owner {
	const char *container_id, *ifname;
};

/* Reads the directory, once; sets h->v and h->n. */
int hostlocal_records(struct hostlocal *h, struct err *e);
/* Returns the record of an address; NULL: none. Requires hostlocal_records(). */
struct hostlocal_record *hostlocal_find(const struct hostlocal *h, const struct ipaddr *a);
bool hostlocal_is_of(const struct hostlocal_record *r, const struct hostlocal_owner *owner);

/*
 * Allocates one address of the set: `want` or (NULL) the next one of the round robin. Kind
 * ERR_AGAIN: the set is exhausted or `want` is allocated; -EEXIST: the owner already has an address
 * of this set (checked only without `want`); kind ERR_CONF: `want` is not in the set, or is a
 * gateway.
 */
int hostlocal_take(struct hostlocal *h, const struct hostlocal_set *s, size_t set_index,
		   const struct hostlocal_owner *owner, const struct ipaddr *want,
		   struct ipnet *address, struct ipaddr *gateway, struct err *e);
/* Reads the record of one address only; -ENOENT: there is none. */
int hostlocal_scan(const struct hostlocal *h, const struct ipaddr *a, struct hostlocal_record *ret,
		   struct err *e);
void hostlocal_record_done(struct hostlocal_record *r);
int hostlocal_free(struct hostlocal *h, const struct ipaddr *a, struct err *e);
/* Releases all addresses of the owner; if it has none, those recorded under its container id
 * without an interface. Returns the number of released addresses. */
int hostlocal_release(struct hostlocal *h, const struct hostlocal_owner *owner, struct err *e);

#endif
