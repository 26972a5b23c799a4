/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_IPAM_JOURNAL_LEASE_H
#define UNIRAIL_IPAM_JOURNAL_LEASE_H

/*
 * What is known of addresses: one lease an address, found by it. Strings are borrowed and never
 * NULL ("" is "not known").
 */

#include "base/ip.h"

enum lease_state {
	LEASE_USED,
	LEASE_FREE,	   /* given back at at_ms; rests for a while */
	LEASE_KEPT,	   /* given back, kept for its pod (sticky) */
	LEASE_QUARANTINED, /* somebody else had it at at_ms */
	LEASE_ADOPTED,	   /* in host-local's folder; never in the journal */
};

struct lease {
	struct ipnet address; /* with the subnet's prefix length */
	enum lease_state state;
	bool sticky;
	int64_t at_ms; /* when it came into this state, since the epoch */
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
	struct lease *v; /* in order of first appearance */
	size_t n, cap;
	uint32_t *slots; /* index + 1; 0: empty */
	size_t n_slots;
};

void lease_table_done(struct lease_table *t);
/* Room for n leases at once: the journal's length tells how many to expect. */
void lease_table_reserve(struct lease_table *t, size_t n);
/* The lease of *a, or NULL. Valid until the next lease_put(). */
struct lease *lease_find(const struct lease_table *t, const struct ipaddr *a);
/* Adds it or overwrites what was known of its address. */
void lease_put(struct lease_table *t, const struct lease *l);
bool lease_is(const struct lease *l, const char *container_id, const char *ifname);
/* "default/pod-a net1", "container 0123456789ab net1" or "nobody known" */
void lease_owner_str(const struct lease *l, struct buf *b);
/*
 * Whether the state's period still lasts. A time in the future comes from a clock that was set
 * back: the period counts as over, since rest and quarantine are courtesy, never safety.
 */
bool lease_lasts(const struct lease *l, int64_t now_ms, int64_t period_ms);

#endif
