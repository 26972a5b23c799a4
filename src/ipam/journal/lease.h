/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_IPAM_JOURNAL_LEASE_H
#define UNIRAIL_IPAM_JOURNAL_LEASE_H

/* The state of addresses: one lease per address, found by address. Strings are borrowed and never
 * NULL ("": unknown). */

#include "base/ip.h"

enum lease_state {
	LEASE_USED,
	LEASE_FREE,	   /* released at at_ms; not allocated before its reuse delay expires */
	LEASE_RETAINED,	   /* released, retained for its pod (sticky) */
	LEASE_QUARANTINED, /* another host answered for the address at at_ms */
	LEASE_ADOPTED,	   /* in host-local's directory; never in the journal */
};

struct lease {
	struct ipnet address; /* with the subnet's prefix length */
	enum lease_state state;
	bool sticky;
	int64_t at_ms; /* when the address entered this state, since the epoch */
	const char *container_id, *ifname, *pod_namespace, *pod_name, *pod_uid, *netns, *network,
		*pool;
	const char *other; /* quarantined: the MAC that answered, as text */
};

#define LEASE_INIT                                                                                 \
	{                                                                                          \
		.container_id = "", .ifname = "", .pod_namespace = "", .pod_name = "",             \
		.pod_uid = "", .netns = "", .network = "", .pool = "", .other = ""                 \
	}

struct lease_table {
	struct lease *v; /* in the order in which the addresses were first added */
	size_t n, cap;
	uint32_t *slots; /* index in v + 1; 0: empty */
	size_t n_slots;
};

void lease_table_done(struct lease_table *t);
/* Allocates memory for n leases; n may be an estimate from the journal's length. */
void lease_table_reserve(struct lease_table *t, size_t n);
/* The lease of *a, or NULL. Valid until the next lease_put(). */
struct lease *lease_find(const struct lease_table *t, const struct ipaddr *a);
/* Adds the lease, or replaces the existing lease of its address. */
void lease_put(struct lease_table *t, const struct lease *l);
bool lease_is(const struct lease *l, const char *container_id, const char *ifname);
/* Writes "default/pod-a net1", "container 0123456789ab net1" or "unknown owner". */
void lease_owner_str(const struct lease *l, struct buf *b);
/*
 * Returns whether the period of the state has not expired yet. A time in the future was written
 * before the clock was moved backwards: then the period counts as expired, because reuse delay and
 * quarantine are precautions; safety does not depend on them.
 */
bool lease_lasts(const struct lease *l, int64_t now_ms, int64_t period_ms);

#endif
