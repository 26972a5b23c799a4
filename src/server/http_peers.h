/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_SERVER_HTTP_PEERS_H
#define UNIRAIL_SERVER_HTTP_PEERS_H

/*
 * Connections by peer address: which connection is evicted for a new one, and which is served next.
 * Each operation takes constant time. IPv6 peers are grouped by /64, since a host chooses the
 * remaining bits itself.
 *
 * A connection that may be evicted has a rank. Within a rank, the peer with the most connections
 * loses its oldest one, so a peer with many connections cannot displace a peer with few.
 * Connections that wait for CPU time (a TLS handshake) are served round-robin: one connection per
 * peer; peers that peers_know() has marked come first.
 *
 *	struct peers *p = peers_new();
 *
 *	peers_join(p, &c->entry, peer_key_of(fd));
 *	peers_rank(p, &c->entry, 1);
 *	...
 *	if (full)
 *		victim = peers_victim(p, 1);
 *	...
 *	peers_leave(p, &c->entry);
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { PEER_RANKS = 6, PEER_TEXT_MAX = 64 };

struct peer_key {
	uint8_t b[16]; /* IPv4 as ::ffff:a.b.c.d, IPv6 as /64; all zero: ::1 or a UNIX socket */
};

struct peer;

/* One connection; embedded in the caller's struct. */
struct peer_entry {
	struct peer *peer;
	int rank; /* -1: may not be evicted */
	bool waits;
	/* list of the entries with the same rank and peer, oldest first */
	struct peer_entry *prev, *next;
	/* list of the entries with the same rank, oldest first */
	struct peer_entry *all_prev, *all_next;
	/* list of the peer's entries that wait for a turn, in the order of peers_wait() */
	struct peer_entry *turn_prev, *turn_next;
};

struct peers;

struct peers *peers_new(void);
void peers_free(struct peers *p); /* all entries must have left before; accepts NULL */

/* Returns the address of the connected socket's peer. */
struct peer_key peer_key_of(int fd);
/* Writes a peer's address: "10.0.0.1", "fd00::/64"; "-" for ::1 or a UNIX socket. */
const char *peer_key_text(const struct peer_key *k, char text[static PEER_TEXT_MAX]);
/* Returns true for a loopback address or no address (a UNIX socket). */
bool peer_key_is_local(const struct peer_key *k);
const struct peer_key *peer_entry_key(const struct peer_entry *e);

/* Adds the entry with rank -1, not waiting for a turn. */
void peers_join(struct peers *p, struct peer_entry *e, struct peer_key key);
void peers_leave(struct peers *p, struct peer_entry *e);

/* Makes the entry the newest of this rank; -1: it may not be evicted. */
void peers_rank(struct peers *p, struct peer_entry *e, int rank);
size_t peers_count(const struct peers *p, int rank);
/* Returns the oldest connection of this rank of the peer that has the most connections of this
 * rank; NULL: the rank is empty. */
struct peer_entry *peers_victim(const struct peers *p, int rank);
/* Returns the number of connections of this rank that the peer of peers_victim() has. */
size_t peers_most(const struct peers *p, int rank);
/* Returns the oldest connection of e's peer in `rank`. NULL: there is none. */
struct peer_entry *peers_beside(const struct peer_entry *e, int rank);
/* Returns the oldest connection of this rank, of any peer. NULL: there is none. */
struct peer_entry *peers_oldest(const struct peers *p, int rank);

/* Marks the entry's peer as known, so that its connections get their turns first. The last 32
 * peers that were marked stay known after their connections close. */
void peers_know(struct peers *p, const struct peer_entry *e);
bool peers_is_known(const struct peers *p, const struct peer_entry *e);

/* Queues the entry for a turn; no effect if it is queued already. */
void peers_wait(struct peers *p, struct peer_entry *e);
/* Removes and returns the entry whose turn it is. NULL: none waits. */
struct peer_entry *peers_turn(struct peers *p);

#endif
