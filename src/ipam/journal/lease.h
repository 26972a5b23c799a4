/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_IPAM_JOURNAL_LEASE_H
#define UNIRAIL_IPAM_JOURNAL_LEASE_H

/* The table of leases, one per address, with lookup by address; and the text of a lease in a
 * line of the journal. The strings of a lease are borrowed and never NULL ("": unknown). */

#include "base/err.h"
#include "base/ip.h"

enum lease_state {
	LEASE_USED,
	/* released at at_ms; until its reuse delay expires, other addresses are preferred */
	LEASE_FREE,
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
	const char *other; /* MAC that answered for an address in quarantine, as text */
};

#define LEASE_INIT                                                                                 \
	{                                                                                          \
		.container_id = "", .ifname = "", .pod_namespace = "", .pod_name = "",             \
		.pod_uid = "", .netns = "", .network = "", .pool = "", .other = ""                 \
	}

struct lease_table {
	struct lease *v; /* in the order in which the addresses were first added */
	size_t n, cap;
	uint32_t *slots; /* index of the lease in v, plus 1; 0: empty slot */
	size_t n_slots;
};

void lease_table_done(struct lease_table *t);
/* Allocates memory for n leases; n may be an estimate from the journal's length. */
void lease_table_reserve(struct lease_table *t, size_t n);
/* Returns the lease of *a, or NULL. Valid until the next lease_put(). */
struct lease *lease_find(const struct lease_table *t, const struct ipaddr *a);
/* Adds the lease, or replaces the existing lease of its address. */
void lease_put(struct lease_table *t, const struct lease *l);
bool lease_is(const struct lease *l, const char *container_id, const char *ifname);
/* Writes "default/pod-a net1", "container 0123456789ab net1" or "unknown owner". */
void lease_owner_str(const struct lease *l, struct buf *b);
/*
 * Returns whether the reuse delay or quarantine of the lease has not expired yet. A time in the
 * future was written before the clock was moved backwards: then the period counts as expired,
 * because reuse delay and quarantine are precautions; safety does not depend on them.
 */
bool lease_lasts(const struct lease *l, int64_t now_ms, int64_t period_ms);

/* --- lines of the journal; journal.h has the format --- */

/* Writes leases to one line; omits each key whose value is the same as in the previous lease. */
struct line_writer {
	struct buf *b;
	size_t start;
	struct lease last;
	bool begun;
};

void line_begin(struct line_writer *w, struct buf *b);
void line_put(struct line_writer *w, const struct lease *l);
void line_end(struct line_writer *w); /* ends the line with its checksum and a newline */

/* length of " #<16 hex digits>" */
enum { LINE_SUM_MAX = 18 };

/* Returns whether the n bytes (without newline) end in their own checksum. */
bool line_is_whole(const char *line, size_t n);
/* Returns the checksum at the end of a line that line_is_whole() accepts. */
uint64_t line_sum(const char *line, size_t n);
/* Applies a complete line to the table. The line is modified (its strings are terminated in
 * place) and must live as long as the table. -EPROTO: this release does not know a word or value
 * of the line. */
int line_apply(char *line, size_t n, struct lease_table *t, struct err *e);
/* Sets *ret to all addresses that are readable in a damaged line (for repair); returns how many. */
size_t line_salvage(const char *line, size_t n, struct ipnet **ret);

#endif
