/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_SERVER_HTTP_PEERS_H
#define UNIRAIL_SERVER_HTTP_PEERS_H

/*
 * Which connection gives way to a new one, and whose turn is next: connections by peer address, each operation in constant
 * time. An IPv6 peer is its /64, since a host chooses the rest by itself.
 *
 * A connection that may be closed has a rank. Within a rank the peer that has most connections loses its oldest one, so a
 * peer with many cannot push out a peer with few. Connections that wait for the processor (a TLS handshake) have turns:
 * peers in a circle, one connection each; peers that are known come first.
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
	uint8_t b[16]; /* IPv4 as ::ffff:a.b.c.d; all zero: no address (a UNIX socket) */
};

struct peer;

/* One connection; part of the caller's struct. */
struct peer_entry {
	struct peer *peer;
	int rank; /* -1: it stays */
	bool waits;
	struct peer_entry *prev, *next;		  /* of its rank and peer, oldest first */
	struct peer_entry *all_prev, *all_next;	  /* of its rank, oldest first */
	struct peer_entry *turn_prev, *turn_next; /* of its peer, in the order of asking */
};

struct peers;

struct peers *peers_new(void);
void peers_free(struct peers *p); /* every entry has left; NULL is fine */

/* Of the connected socket's other end. */
struct peer_key peer_key_of(int fd);
/* "10.0.0.1", "fd00::/64", "-". */
const char *peer_key_text(const struct peer_key *k, char text[static PEER_TEXT_MAX]);
/* A loopback address, or none. */
bool peer_key_is_local(const struct peer_key *k);
const struct peer_key *peer_entry_key(const struct peer_entry *e);

/* With rank -1, waiting for nothing. */
void peers_join(struct peers *p, struct peer_entry *e, struct peer_key key);
void peers_leave(struct peers *p, struct peer_entry *e);

/* From now on it is the newest of this rank; -1: it stays. */
void peers_rank(struct peers *p, struct peer_entry *e, int rank);
size_t peers_count(const struct peers *p, int rank);
/* The oldest of the peer that has most of this rank; NULL: there is none. */
struct peer_entry *peers_victim(const struct peers *p, int rank);
/* How many of this rank that peer has. */
size_t peers_most(const struct peers *p, int rank);
/* The oldest of the same peer in another rank. NULL: there is none. */
struct peer_entry *peers_beside(const struct peer_entry *e, int rank);
/* The oldest of this rank, of any peer. NULL: there is none. */
struct peer_entry *peers_oldest(const struct peers *p, int rank);

/* The peer has shown that it is no stranger. A few are remembered after their connections. */
void peers_know(struct peers *p, const struct peer_entry *e);
bool peers_is_known(const struct peers *p, const struct peer_entry *e);

/* It waits for its turn; once more is fine. */
void peers_wait(struct peers *p, struct peer_entry *e);
/* Whose turn it is; it does not wait any more. NULL: nobody waits. */
struct peer_entry *peers_turn(struct peers *p);

#endif
