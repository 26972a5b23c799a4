/* SPDX-License-Identifier: Apache-2.0 */
/* Which connection is evicted, and which peer's request is served next. */
#include "testlib.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/alloc.h"
#include "server/http_peers.h"

static struct peer_key key(unsigned int i)
{
	struct peer_key k = {.b = {[10] = 0xff, [11] = 0xff, [12] = 10}};

	k.b[14] = (uint8_t)(i >> 8);
	k.b[15] = (uint8_t)i;
	return k;
}

static void join(struct peers *p, struct peer_entry *e, unsigned int peer, int rank)
{
	peers_join(p, e, key(peer));
	peers_rank(p, e, rank);
}

/*
 * The peer with the most connections loses its oldest connection; among peers with the same number,
 * the one that reached this number first.
 */
static void test_peer_with_most_connections_loses_its_oldest_connection(void **state)
{
	struct peers *p = peers_new();
	struct peer_entry many[3], few[1], other[2];

	(void)state;
	assert_null(peers_victim(p, 0));
	join(p, &few[0], 1, 0);
	for (int i = 0; i < 3; i++)
		join(p, &many[i], 2, 0);
	for (int i = 0; i < 2; i++)
		join(p, &other[i], 3, 1);
	assert_ptr_equal(peers_victim(p, 0), &many[0]);
	assert_ptr_equal(peers_victim(p, 1), &other[0]);
	assert_null(peers_victim(p, 2));
	/* peers_rank() makes many[0] the newest connection, so many[1] is the oldest one now. */
	peers_rank(p, &many[0], 0);
	assert_ptr_equal(peers_victim(p, 0), &many[1]);
	peers_rank(p, &many[1], -1);
	assert_ptr_equal(peers_victim(p, 0), &many[2]);
	peers_leave(p, &many[2]);
	ASSERT_EQ(peers_count(p, 0), 2);
	assert_ptr_equal(peers_victim(p, 0), &few[0]);
	peers_leave(p, &few[0]);
	assert_ptr_equal(peers_victim(p, 0), &many[0]);
	for (int i = 0; i < 2; i++) {
		peers_leave(p, &many[i]);
		peers_leave(p, &other[i]);
	}
	assert_null(peers_victim(p, 0));
	assert_null(peers_victim(p, 1));
	peers_free(p);
}

/* Round-robin over peers, regardless of their number of requests; peers marked by peers_know()
 * come first. */
static void test_waiting_peers_are_served_round_robin(void **state)
{
	struct peers *p = peers_new();
	struct peer_entry a[3], b[2], c[2];

	(void)state;
	for (int i = 0; i < 3; i++)
		join(p, &a[i], 1, 0);
	for (int i = 0; i < 2; i++) {
		join(p, &b[i], 2, 0);
		join(p, &c[i], 3, 0);
	}
	for (int i = 0; i < 3; i++)
		peers_wait(p, &a[i]);
	for (int i = 0; i < 2; i++)
		peers_wait(p, &b[i]);
	peers_wait(p, &a[0]);
	assert_ptr_equal(peers_turn(p), &a[0]);
	assert_ptr_equal(peers_turn(p), &b[0]);
	peers_know(p, &c[0]);
	peers_wait(p, &c[0]);
	assert_ptr_equal(peers_turn(p), &c[0]);
	assert_ptr_equal(peers_turn(p), &a[1]);
	peers_leave(p, &b[1]); /* leaves while its request waits */
	assert_ptr_equal(peers_turn(p), &a[2]);
	assert_null(peers_turn(p));
	peers_leave(p, &c[0]);
	peers_leave(p, &c[1]);
	/* The peer connects again and is still known. */
	join(p, &c[0], 3, 0);
	assert_true(peers_is_known(p, &c[0]));
	assert_false(peers_is_known(p, &a[0]));
	peers_leave(p, &c[0]);
	peers_leave(p, &b[0]);
	for (int i = 0; i < 3; i++)
		peers_leave(p, &a[i]);
	peers_free(p);
}

/* After each of many random steps, compares peers_victim() with a model that counts each peer's
 * connections. */
static void test_evicted_peer_has_the_most_connections_after_any_steps(void **state)
{
	enum { N = 300, PEERS = 40, STEPS = 40000 };
	struct peer_entry *e = xcalloc(N, sizeof(*e));
	struct peers *p = peers_new();
	unsigned int seed = 7;

	(void)state;
	for (int step = 0; step < STEPS; step++) {
		struct peer_entry *one = &e[(seed = seed * 1103515245 + 12345) / 65536 % N];
		unsigned int what = (seed = seed * 1103515245 + 12345) / 65536 % 8;
		size_t n[PEERS] = {0}, most = 0, mine = 0;
		struct peer_entry *victim;

		if (!one->peer)
			peers_join(p, one, key((unsigned int)(one - e) % PEERS * 77));
		else if (what == 0)
			peers_leave(p, one);
		else
			peers_rank(p, one, what < 6 ? 2 : -1);
		for (int i = 0; i < N; i++)
			if (e[i].peer && e[i].rank == 2 && ++n[i % PEERS] > most)
				most = n[i % PEERS];
		victim = peers_victim(p, 2);
		if (victim)
			mine = n[(victim - e) % PEERS];
		ASSERT_EQ(mine, most);
	}
	for (int i = 0; i < N; i++)
		peers_leave(p, &e[i]);
	peers_free(p);
	free(e);
}

static void test_peer_address_is_printed(void **state)
{
	char text[PEER_TEXT_MAX];
	struct peer_key k = key(258), none = {0}, six = {.b = {0xfd, 0, 0, 1}};

	(void)state;
	ASSERT_STR_EQ(peer_key_text(&k, text), "10.0.1.2");
	ASSERT_STR_EQ(peer_key_text(&six, text), "fd00:1::/64");
	ASSERT_STR_EQ(peer_key_text(&none, text), "-");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_peer_with_most_connections_loses_its_oldest_connection),
		cmocka_unit_test(test_waiting_peers_are_served_round_robin),
		cmocka_unit_test(test_evicted_peer_has_the_most_connections_after_any_steps),
		cmocka_unit_test(test_peer_address_is_printed),
	};

	return T_RUN(tests, NULL, NULL);
}
