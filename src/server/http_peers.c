/* SPDX-License-Identifier: Apache-2.0 */
#include "server/http_peers.h"

#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/alloc.h"
#include "base/ip.h"
#include "base/random.h"

/* TABLE: number of hash buckets, a power of two. KNOWN: number of known peers that are
 * remembered after their connections close; enough for API servers, kubelets and Prometheus. */
enum { TABLE = 1024, KNOWN = 32 };

/* Ring of peers: those with the same number of connections of a rank, or those that wait for a
 * turn. The head is an element of the ring. */
struct ring {
	struct ring *prev, *next;
};

struct list {
	struct peer_entry *first, *last;
};

struct peer {
	struct peer_key key;
	struct peer *hash_next;
	size_t n; /* connections */
	bool known;
	struct list ranks[PEER_RANKS], turns;
	size_t n_ranks[PEER_RANKS];
	struct ring by_count[PEER_RANKS], in_turn;
};

/* One rank: its peers by their number of connections. */
struct rank {
	struct ring *counts; /* counts[n - 1]: peers with n connections */
	/* n: length of counts; top: the most connections that one peer has in this rank */
	size_t n, top;
	size_t total;
	struct list all;
};

struct peers {
	uint64_t seed;
	struct peer *table[TABLE];
	struct rank ranks[PEER_RANKS];
	struct ring turns, known_turns;
	struct peer_key known[KNOWN];
	size_t n_known, next_known;
};

#define OF(link, type, member) ((type *)((char *)(link)-offsetof(type, member)))

/* --- rings of peers --- */

static void ring_init(struct ring *r)
{
	r->prev = r->next = r;
}

static void ring_remove(struct ring *r)
{
	r->prev->next = r->next;
	r->next->prev = r->prev;
	ring_init(r);
}

static void ring_append(struct ring *head, struct ring *r)
{
	ring_remove(r);
	r->prev = head->prev;
	r->next = head;
	head->prev->next = r;
	head->prev = r;
}

/* --- addresses of peers --- */

struct peer_key peer_key_of(int fd)
{
	union {
		struct sockaddr any;
		struct sockaddr_in v4;
		struct sockaddr_in6 v6;
		struct sockaddr_storage room;
	} at = {0};
	socklen_t n = sizeof(at);
	struct peer_key k = {0};

	if (getpeername(fd, &at.any, &n) < 0)
		return k;
	if (at.any.sa_family == AF_INET) {
		k.b[10] = k.b[11] = 0xff;
		memcpy(k.b + 12, &at.v4.sin_addr, 4);
	} else if (at.any.sa_family == AF_INET6) {
		bool mapped = IN6_IS_ADDR_V4MAPPED(&at.v6.sin6_addr);

		memcpy(k.b, &at.v6.sin6_addr, mapped ? 16 : 8);
	}
	return k;
}

const char *peer_key_text(const struct peer_key *k, char text[static PEER_TEXT_MAX])
{
	static const struct peer_key none;
	struct ipaddr a = {.family = 6};
	char ip[IP_TEXT_MAX];
	bool is_v4 = k->b[10] == 0xff;

	memcpy(a.b, k->b, 16);
	if (is_v4) {
		a = (struct ipaddr){.family = 4};
		memcpy(a.b, k->b + 12, 4);
	}
	if (memcmp(k, &none, sizeof(none)) == 0)
		snprintf(text, PEER_TEXT_MAX, "-");
	else
		snprintf(text, PEER_TEXT_MAX, "%.45s%s", ip_str(&a, ip), is_v4 ? "" : "/64");
	return text;
}

/* The key of ::1 is reduced to its /64, all zero, like that of a UNIX socket. */
bool peer_key_is_local(const struct peer_key *k)
{
	static const struct peer_key none;

	if (k->b[10] == 0xff)
		return k->b[12] == 127;
	return memcmp(k, &none, sizeof(none)) == 0;
}

const struct peer_key *peer_entry_key(const struct peer_entry *e)
{
	return &e->peer->key;
}

/* The hash has a random seed, so that a peer cannot choose addresses that collide. */
static size_t place_of(const struct peers *p, const struct peer_key *k)
{
	uint64_t h = p->seed;

	for (size_t i = 0; i < sizeof(k->b); i++) {
		h = (h ^ k->b[i]) * UINT64_C(0x9e3779b97f4a7c15);
		h ^= h >> 29;
	}
	return h & (TABLE - 1);
}

static bool same(const struct peer_key *a, const struct peer_key *b)
{
	return memcmp(a, b, sizeof(*a)) == 0;
}

static struct peer *peer_of(struct peers *p, const struct peer_key *k)
{
	struct peer **at = &p->table[place_of(p, k)], *one;

	for (one = *at; one; one = one->hash_next)
		if (same(&one->key, k))
			return one;
	one = xcalloc(1, sizeof(*one));
	one->key = *k;
	one->hash_next = *at;
	*at = one;
	for (int i = 0; i < PEER_RANKS; i++)
		ring_init(&one->by_count[i]);
	ring_init(&one->in_turn);
	for (size_t i = 0; i < p->n_known; i++)
		one->known |= same(&p->known[i], k);
	return one;
}

static void forget_peer(struct peers *p, struct peer *one)
{
	struct peer **at = &p->table[place_of(p, &one->key)];

	while (*at != one)
		at = &(*at)->hash_next;
	*at = one->hash_next;
	for (int i = 0; i < PEER_RANKS; i++)
		ring_remove(&one->by_count[i]);
	ring_remove(&one->in_turn);
	free(one);
}

/* --- ranks of peers --- */

/* Enlarges r->counts if it has no ring for the count n. The first and last element of each ring
 * point to its head, so they are updated. */
static void make_room(struct rank *r, size_t n)
{
	struct ring *was = r->counts;
	size_t room = n < 16 ? 16 : n * 2;

	if (n <= r->n)
		return;
	r->counts = xcalloc(room, sizeof(*r->counts));
	for (size_t i = 0; i < room; i++) {
		ring_init(&r->counts[i]);
		if (i >= r->n || was[i].next == &was[i])
			continue;
		r->counts[i] = was[i];
		was[i].next->prev = was[i].prev->next = &r->counts[i];
	}
	free(was);
	r->n = room;
}

static void recount(struct peers *p, struct peer *one, int rank)
{
	struct rank *r = &p->ranks[rank];
	size_t n = one->n_ranks[rank];

	make_room(r, n);
	if (n == 0)
		ring_remove(&one->by_count[rank]);
	else
		ring_append(&r->counts[n - 1], &one->by_count[rank]);
	if (n > r->top)
		r->top = n;
	/* A count changes by one, so `top` decreases by at most one. */
	if (r->top && r->counts[r->top - 1].next == &r->counts[r->top - 1])
		r->top--;
}

static void unrank(struct peers *p, struct peer_entry *e)
{
	struct list *l = e->rank < 0 ? NULL : &e->peer->ranks[e->rank];

	if (!l)
		return;
	*(e->prev ? &e->prev->next : &l->first) = e->next;
	*(e->next ? &e->next->prev : &l->last) = e->prev;
	l = &p->ranks[e->rank].all;
	*(e->all_prev ? &e->all_prev->all_next : &l->first) = e->all_next;
	*(e->all_next ? &e->all_next->all_prev : &l->last) = e->all_prev;
	e->peer->n_ranks[e->rank]--;
	p->ranks[e->rank].total--;
	recount(p, e->peer, e->rank);
	e->rank = -1;
}

static void count_in(struct peers *p, struct peer_entry *e, int rank)
{
	e->rank = rank;
	e->peer->n_ranks[rank]++;
	p->ranks[rank].total++;
	recount(p, e->peer, rank);
}

void peers_rank(struct peers *p, struct peer_entry *e, int rank)
{
	struct list *l = rank < 0 ? NULL : &e->peer->ranks[rank], *all;

	unrank(p, e);
	if (!l)
		return;
	all = &p->ranks[rank].all;
	e->prev = l->last;
	e->next = NULL;
	*(l->last ? &l->last->next : &l->first) = e;
	l->last = e;
	e->all_prev = all->last;
	e->all_next = NULL;
	*(all->last ? &all->last->all_next : &all->first) = e;
	all->last = e;
	count_in(p, e, rank);
}

size_t peers_count(const struct peers *p, int rank)
{
	return p->ranks[rank].total;
}

struct peer_entry *peers_victim(const struct peers *p, int rank)
{
	const struct rank *r = &p->ranks[rank];
	const struct peer *one;

	if (!r->top)
		return NULL;
	one = OF(r->counts[r->top - 1].next, const struct peer, by_count[rank]);
	return one->ranks[rank].first;
}

struct peer_entry *peers_oldest(const struct peers *p, int rank)
{
	return p->ranks[rank].all.first;
}

struct peer_entry *peers_beside(const struct peer_entry *e, int rank)
{
	return e->peer->ranks[rank].first;
}

size_t peers_most(const struct peers *p, int rank)
{
	return p->ranks[rank].top;
}

/* --- turns of waiting connections --- */

static void stop_waiting(struct peer_entry *e)
{
	struct list *l = &e->peer->turns;

	if (!e->waits)
		return;
	*(e->turn_prev ? &e->turn_prev->turn_next : &l->first) = e->turn_next;
	*(e->turn_next ? &e->turn_next->turn_prev : &l->last) = e->turn_prev;
	e->waits = false;
	if (!l->first)
		ring_remove(&e->peer->in_turn);
}

void peers_wait(struct peers *p, struct peer_entry *e)
{
	struct list *l = &e->peer->turns;

	if (e->waits)
		return;
	if (!l->first)
		ring_append(e->peer->known ? &p->known_turns : &p->turns, &e->peer->in_turn);
	e->waits = true;
	e->turn_prev = l->last;
	e->turn_next = NULL;
	*(l->last ? &l->last->turn_next : &l->first) = e;
	l->last = e;
}

struct peer_entry *peers_turn(struct peers *p)
{
	struct ring *head = p->known_turns.next != &p->known_turns ? &p->known_turns : &p->turns;
	struct peer_entry *e;
	struct peer *one;

	if (head->next == head)
		return NULL;
	one = OF(head->next, struct peer, in_turn);
	e = one->turns.first;
	stop_waiting(e);
	if (one->turns.first)
		ring_append(head, &one->in_turn);
	return e;
}

/* --- arrival and departure of connections --- */

void peers_know(struct peers *p, const struct peer_entry *e)
{
	if (e->peer->known)
		return;
	e->peer->known = true;
	p->known[p->next_known] = e->peer->key;
	p->next_known = (p->next_known + 1) % KNOWN;
	if (p->n_known < KNOWN)
		p->n_known++;
}

bool peers_is_known(const struct peers *p, const struct peer_entry *e)
{
	(void)p;
	return e->peer->known;
}

void peers_join(struct peers *p, struct peer_entry *e, struct peer_key key)
{
	*e = (struct peer_entry){.peer = peer_of(p, &key), .rank = -1};
	e->peer->n++;
}

void peers_leave(struct peers *p, struct peer_entry *e)
{
	if (!e->peer)
		return;
	unrank(p, e);
	stop_waiting(e);
	if (--e->peer->n == 0)
		forget_peer(p, e->peer);
	e->peer = NULL;
}

struct peers *peers_new(void)
{
	struct peers *p = xcalloc(1, sizeof(*p));

	random_bytes(&p->seed, sizeof(p->seed));
	ring_init(&p->turns);
	ring_init(&p->known_turns);
	return p;
}

void peers_free(struct peers *p)
{
	if (!p)
		return;
	for (int i = 0; i < PEER_RANKS; i++)
		free(p->ranks[i].counts);
	free(p);
}
