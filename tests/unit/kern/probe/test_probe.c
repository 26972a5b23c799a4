/* SPDX-License-Identifier: Apache-2.0 */
/* Probes between real namespaces: `here` has the rails r0.., `there` the far ends p0... */
#include "testlib.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/loop.h"
#include "kern/net/addr.h"
#include "kern/probe/arp.h"
#include "kern/net/link.h"
#include "kern/probe/ndp.h"
#include "kern/sys/netns.h"
#include "kern/probe/packet.h"
#include "kern/probe/probe.h"

enum { RAILS = 8 };

struct lab {
	int here, there;
	struct nl_wire *wire, *peer;
	pid_t child;
};

/* True in a child process. There a failure ends the process, so that it does not run the
 * remaining tests. */
static bool in_child;

static void must(int r, const struct err *e)
{
	if (r >= 0)
		return;
	if (!in_child)
		fail_msg("%s", e->text);
	fprintf(stderr, "child: %s\n", e->text);
	_exit(1);
}

#define OK(call)                                                                                   \
	do {                                                                                       \
		struct err e = ERR_INIT;                                                           \
		must((call), &e);                                                                  \
	} while (0)

static void pause_ms(int ms)
{
	poll(NULL, 0, ms);
}

static int setup(void **state)
{
	struct lab *lab = xcalloc(1, sizeof(*lab));

	OK(netns_new(true, &lab->here, &e));
	OK(netns_new(true, &lab->there, &e));
	OK(nl_open(&lab->wire, NL_ROUTE, lab->here, &e));
	OK(nl_open(&lab->peer, NL_ROUTE, lab->there, &e));
	*state = lab;
	return 0;
}

static int teardown(void **state)
{
	struct lab *lab = *state;

	if (lab->child > 0) {
		kill(lab->child, SIGKILL);
		waitpid(lab->child, NULL, 0);
	}
	nl_wire_close(lab->wire);
	nl_wire_close(lab->peer);
	close(lab->here);
	close(lab->there);
	free(lab);
	return 0;
}

static void commit(struct nl_wire *w, struct nl_batch *b)
{
	OK(nl_batch_commit(w, b, &e));
}

static struct link get_link(struct nl_wire *w, const char *name)
{
	struct link l;

	OK(link_get(w, name, &l, &e));
	return l;
}

static void change(struct nl_wire *w, const char *name, const struct link_change *c)
{
	auto_batch struct nl_batch *b = nl_batch_new();

	link_set(b, get_link(w, name).index, name, c);
	commit(w, b);
}

/* Creates the pair r<n>, p<n>; the far end is a port of `master` unless that is 0. */
static struct link rail(struct lab *lab, int n, bool peer_up, int master)
{
	const struct link_change up = {.set = LINK_SET_UP};
	const struct link_change port = {.set = LINK_SET_MASTER, .master = master};
	struct link_spec s = LINK_SPEC_INIT;
	auto_batch struct nl_batch *b = nl_batch_new();
	char name[16], peer[16];

	snprintf(name, sizeof(name), "r%d", n);
	snprintf(peer, sizeof(peer), "p%d", n);
	s.name = name;
	s.kind = "veth";
	s.up = true;
	s.peer_name = peer;
	s.peer_netns_fd = lab->there;
	link_add(b, &s);
	commit(lab->wire, b);
	if (peer_up)
		change(lab->peer, peer, &up);
	if (master)
		change(lab->peer, peer, &port);
	return get_link(lab->wire, name);
}

static void give(struct nl_wire *w, const char *ifname, const char *cidr)
{
	auto_batch struct nl_batch *b = nl_batch_new();
	struct ipnet net;

	ASSERT_EQ(ipnet_parse(span_of(cidr), &net), 0);
	addr_add(b, get_link(w, ifname).index, ifname, &net, net.ip.family == 6 ? ADDR_NODAD : 0);
	commit(w, b);
}

static bool has_joined(const char *ifname, const struct ipaddr *a)
{
	struct ipaddr group = ndp_solicited_node(a);
	char line[128], hex[33], name[32], at[64];
	FILE *f = fopen("/proc/thread-self/net/igmp6", "re");
	bool found = false;

	assert_non_null(f);
	for (int i = 0; i < 16; i++)
		snprintf(hex + 2 * i, 3, "%02x", group.b[i]);
	while (fgets(line, sizeof(line), f))
		if (sscanf(line, "%*d %31s %63s", name, at) == 2)
			found |= !strcmp(name, ifname) && !strcmp(at, hex);
	fclose(f);
	return found;
}

/* Sets an address at the far end. If it is an IPv6 address, waits until the kernel has joined
 * the address's multicast group, because the kernel receives no solicitation before that. */
static void give_peer(struct lab *lab, const char *ifname, const char *cidr)
{
	struct netns_visit v = NETNS_VISIT_INIT;
	struct ipnet net;

	give(lab->peer, ifname, cidr);
	ASSERT_EQ(ipnet_parse(span_of(cidr), &net), 0);
	if (net.ip.family == 4)
		return;
	OK(netns_enter(lab->there, &v, &e));
	while (!has_joined(ifname, &net.ip))
		pause_ms(1);
	netns_leave(&v);
}

static struct probe want(const struct link *l, const char *address, const char *gateway)
{
	struct probe p = {.ifname = l->name,
			  .index = l->index,
			  .mac = l->mac,
			  .arptype = l->arptype,
			  .ip = t_ip(address),
			  .want_conflict = true};

	if (gateway) {
		p.gateway = t_ip(gateway);
		p.want_gateway = true;
	}
	return p;
}

static const struct probe_limits quick = {.tries = 3,
					  .interval_ms = 40,
					  .total_ms = 600,
					  .carrier_ms = 5000};

static void run(const struct lab *lab, struct probe *p)
{
	OK(probe_run(lab->here, p, 1, &quick, &e));
}

static void expect(const struct probe *p, enum probe_state state)
{
	struct err e = ERR_INIT;

	probe_describe(p, &e);
	if (p->state != state)
		fail_msg("state %d, expected %d: %s", p->state, state, e.text);
}

static void expect_text(const struct probe *p, const char *expected)
{
	struct err e = ERR_INIT;

	probe_describe(p, &e);
	if (!strstr(e.text, expected))
		fail_msg("'%s' is not in '%s'", expected, e.text);
}

/* --- behaviour of the far end --- */

enum act { ANSWER_LATE, PROBE_TOO, ANNOUNCE, FLOOD, COME_UP, GO_DOWN, BLINK };

struct part {
	enum act act;
	const char *address;
	int delay_ms;
};

static void claim(int fd, const struct packet_link *l, const struct part *part)
{
	struct ipaddr a = t_ip(part->address);
	struct probe_ears q = {.ip = a};

	if (part->act == PROBE_TOO)
		packet_send_request(fd, l, &l->mac, &q, false);
	else
		packet_announce(fd, l, &l->mac, &a);
}

/* Sends thousands of ARP requests that concern only other hosts. */
static void flood(int fd, const struct packet_link *l)
{
	struct probe_ears q = {.ip = t_ip("10.0.0.50"), .gateway = t_ip("10.0.0.60")};

	for (int i = 0; i < 5000; i++) {
		q.gateway.b[3] = (uint8_t)(100 + i % 100);
		packet_send_request(fd, l, &l->mac, &q, true);
	}
}

/* Waits at most 5 s for the first ARP packet about the address. */
static void wait_to_be_asked(const struct packet_link *l, const struct part *part)
{
	struct probe_ears q = {.ip = t_ip(part->address)};
	struct packet_watch w = {l, &q};
	struct pollfd pfd = {.events = POLLIN};

	OK(packet_open_probe(4, &w, 1, &pfd.fd, &e));
	poll(&pfd, 1, 5000);
	close(pfd.fd);
}

static void play(struct lab *lab, const struct part *part)
{
	const struct link_change up = {.set = LINK_SET_UP}, down = {.set = LINK_SET_DOWN};
	struct netns_visit v = NETNS_VISIT_INIT;
	struct packet_link *links = NULL;
	size_t n;
	int fd = -1;

	OK(netns_enter(lab->there, &v, &e));
	OK(packet_links(lab->peer, &links, &n, &e));
	OK(packet_open_send(&fd, &e));
	const struct packet_link *l = packet_link_find(links, n, get_link(lab->peer, "p0").index);

	if (part->act == ANSWER_LATE || part->act == GO_DOWN || part->act == BLINK)
		wait_to_be_asked(l, part);
	if (part->act == GO_DOWN || part->act == BLINK)
		change(lab->peer, "p0", &down);
	if (part->act == GO_DOWN)
		return;
	pause_ms(part->delay_ms);
	if (part->act == ANSWER_LATE)
		give_peer(lab, "p0", "10.0.0.1/24"); /* the next request is answered */
	else if (part->act == COME_UP || part->act == BLINK)
		change(lab->peer, "p0", &up);
	else if (part->act == FLOOD)
		flood(fd, l);
	else
		for (int i = 0; i < 500; i++) {
			claim(fd, l, part);
			pause_ms(10);
		}
}

static void in_background(struct lab *lab, enum act act, const char *address, int delay_ms)
{
	const struct part part = {act, address, delay_ms};

	fflush(NULL);
	lab->child = fork();
	assert_true(lab->child >= 0);
	if (lab->child == 0) {
		in_child = true;
		play(lab, &part);
		_exit(0);
	}
}

/* --- the tests; an IPv6 test follows its IPv4 counterpart --- */

static void test_unused_address_has_no_conflict(void **state)
{
	struct lab *lab = *state;
	struct link l = rail(lab, 0, true, 0);
	struct probe p[2] = {want(&l, "10.0.0.2", NULL), want(&l, "fd00::2", NULL)};

	OK(probe_run(lab->here, p, 2, &quick, &e));
	for (int i = 0; i < 2; i++) {
		expect(&p[i], PROBE_OK);
		/* An address counts as unused only after all tries are sent. */
		ASSERT_EQ(p[i].sent, quick.tries);
		assert_true(p[i].conflict_us >= quick.tries * quick.interval_ms * 900);
	}
}

static void test_used_address_is_a_conflict_with_its_owner(void **state)
{
	struct lab *lab = *state;
	struct link l = rail(lab, 0, true, 0), far = get_link(lab->peer, "p0");
	struct probe p[2] = {want(&l, "10.0.0.2", "10.0.0.1"), want(&l, "fd00::2", NULL)};
	char expected[256], mac[MAC_TEXT_MAX];

	give_peer(lab, "p0", "10.0.0.2/24");
	give_peer(lab, "p0", "fd00::2/64");
	OK(probe_run(lab->here, p, 2, &quick, &e));
	for (int i = 0; i < 2; i++) {
		expect(&p[i], PROBE_CONFLICT);
		assert_true(mac_eq(&p[i].other, &far.mac));
		ASSERT_EQ(p[i].sent, 1);
	}
	snprintf(expected, sizeof(expected),
		 "rail r0: ip conflict: pod's interface r0 with an conflicting ip 10.0.0.2, "
		 "10.0.0.2 is located at %s",
		 mac_str(&far.mac, mac));
	expect_text(&p[0], expected);
}

/* Limits that leave time for a busy machine; the expected conflict ends the probe earlier. */
static const struct probe_limits calm = {.tries = 3,
					 .interval_ms = 1000,
					 .total_ms = 5000,
					 .carrier_ms = 5000};

static void test_probe_by_another_host_is_a_conflict(void **state)
{
	struct lab *lab = *state;
	struct link l = rail(lab, 0, true, 0);
	struct probe p = want(&l, "10.0.0.2", NULL);

	in_background(lab, PROBE_TOO, "10.0.0.2", 20);
	OK(probe_run(lab->here, &p, 1, &calm, &e));
	expect(&p, PROBE_CONFLICT);
}

static void test_ipv6_probe_by_another_host_is_a_conflict(void **state)
{
	struct lab *lab = *state;
	struct link l = rail(lab, 0, true, 0);
	struct probe p = want(&l, "fd00::2", NULL);

	in_background(lab, PROBE_TOO, "fd00::2", 20);
	OK(probe_run(lab->here, &p, 1, &calm, &e));
	expect(&p, PROBE_CONFLICT);
}

static void test_announcement_by_another_host_is_a_conflict(void **state)
{
	struct lab *lab = *state;
	struct link l = rail(lab, 0, true, 0);
	struct probe p = want(&l, "10.0.0.2", NULL);

	in_background(lab, ANNOUNCE, "10.0.0.2", 20);
	OK(probe_run(lab->here, &p, 1, &calm, &e));
	expect(&p, PROBE_CONFLICT);
}

static void test_ipv6_announcement_by_another_host_is_a_conflict(void **state)
{
	struct lab *lab = *state;
	struct link l = rail(lab, 0, true, 0);
	struct probe p = want(&l, "fd00::2", NULL);

	in_background(lab, ANNOUNCE, "fd00::2", 20);
	OK(probe_run(lab->here, &p, 1, &calm, &e));
	expect(&p, PROBE_CONFLICT);
}

static void test_probe_finds_its_reply_among_a_flood(void **state)
{
	struct lab *lab = *state;
	struct link l = rail(lab, 0, true, 0);
	struct probe p = want(&l, "10.0.0.2", "10.0.0.1");

	give_peer(lab, "p0", "10.0.0.1/24");
	in_background(lab, FLOOD, NULL, 0);
	run(lab, &p);
	expect(&p, PROBE_OK);
}

static void test_all_gateways_are_probed_at_once(void **state)
{
	static const struct probe_limits patient = {
		.tries = 3, .interval_ms = 2000, .total_ms = 9000, .carrier_ms = 5000};
	struct lab *lab = *state;
	struct link links[RAILS];
	struct probe p[2 * RAILS];
	int64_t start;

	for (int i = 0; i < RAILS; i++) {
		char gw4[32], gw6[32], net4[40], net6[40], a4[32], a6[32], far[16];

		snprintf(gw4, sizeof(gw4), "10.%d.0.1", i);
		snprintf(gw6, sizeof(gw6), "fd00:%d::1", i);
		snprintf(net4, sizeof(net4), "%s/24", gw4);
		snprintf(net6, sizeof(net6), "%s/64", gw6);
		snprintf(a4, sizeof(a4), "10.%d.0.2", i);
		snprintf(a6, sizeof(a6), "fd00:%d::2", i);
		snprintf(far, sizeof(far), "p%d", i);
		links[i] = rail(lab, i, true, 0);
		give_peer(lab, far, net4);
		give_peer(lab, far, net6);
		p[2 * i] = want(&links[i], a4, gw4);
		p[2 * i + 1] = want(&links[i], a6, gw6);
		p[2 * i].want_conflict = p[2 * i + 1].want_conflict = false;
	}
	start = now_mono_ms();
	OK(probe_run(lab->here, p, 2 * RAILS, &patient, &e));
	/* All gateways are probed at once, and each replies before its probe is repeated. */
	assert_true(now_mono_ms() - start < patient.interval_ms);
	for (int i = 0; i < 2 * RAILS; i++) {
		expect(&p[i], PROBE_OK);
		ASSERT_EQ(p[i].sent, 1);
		ASSERT_EQ(p[i].other.len, 6);
	}
	print_message("%d gateways in %lld ms\n", 2 * RAILS, (long long)(now_mono_ms() - start));
}

static void test_silent_gateway_is_unreachable(void **state)
{
	struct lab *lab = *state;
	struct link l = rail(lab, 0, true, 0);
	struct probe p[2] = {want(&l, "10.0.0.2", "10.0.0.1"), want(&l, "fd00::2", "fd00::1")};

	OK(probe_run(lab->here, p, 2, &quick, &e));
	for (int i = 0; i < 2; i++) {
		expect(&p[i], PROBE_UNREACHABLE);
		ASSERT_EQ(p[i].sent, 2 * quick.tries);
	}
	expect_text(&p[0], "rail r0: gateway 10.0.0.1 is unreachable");
}

/* The gateway of rail r1 never replies; this has no effect on rail r0. */
static void test_gateway_that_replies_late_is_reachable(void **state)
{
	static const struct probe_limits slow = {
		.tries = 5, .interval_ms = 150, .total_ms = 2000, .carrier_ms = 5000};
	struct lab *lab = *state;
	struct link l = rail(lab, 0, true, 0), l1 = rail(lab, 1, true, 0);
	struct probe p[2] = {want(&l, "10.0.0.2", "10.0.0.1"), want(&l1, "10.1.0.2", "10.1.0.1")};

	p[0].want_conflict = p[1].want_conflict = false;
	in_background(lab, ANSWER_LATE, "10.0.0.1", 200);
	OK(probe_run(lab->here, p, 2, &slow, &e));
	expect(&p[0], PROBE_OK);
	assert_true(p[0].sent > 1);
	assert_true(p[0].gateway_us > 150000);
	expect(&p[1], PROBE_UNREACHABLE);
}

/* Waits until the link's operstate is UP. The kernel sets it from a work queue, up to a second
 * after the link has its carrier. */
static void wait_for_link(struct nl_wire *w, const char *name)
{
	enum { IF_OPER_UP = 6 };

	while (get_link(w, name).operstate != IF_OPER_UP)
		pause_ms(5);
}

/* The carrier comes up after more than total_ms; the wait for the carrier does not count towards
 * total_ms. */
static void test_probe_waits_for_carrier(void **state)
{
	struct lab *lab = *state;
	struct link l = rail(lab, 0, false, 0), l1 = rail(lab, 1, true, 0);
	struct probe p[2] = {want(&l, "10.0.0.2", NULL), want(&l1, "10.1.0.2", "10.1.0.1")};
	int64_t start = now_mono_ms();

	wait_for_link(lab->wire, "r1");
	in_background(lab, COME_UP, NULL, 800);
	OK(probe_run(lab->here, p, 2, &quick, &e));
	expect(&p[0], PROBE_OK);
	ASSERT_EQ(p[0].sent, quick.tries);
	assert_true(p[0].carrier_us > 500000);
	assert_true(now_mono_ms() - start > 800);
	/* The other rail, which has carrier, is not delayed. */
	expect(&p[1], PROBE_UNREACHABLE);
	assert_true(p[1].carrier_us < 500000);
}

static void test_missing_carrier_is_reported_for_its_rail_only(void **state)
{
	static const struct probe_limits l_300 = {
		.tries = 3, .interval_ms = 40, .total_ms = 5000, .carrier_ms = 300};
	struct lab *lab = *state;
	struct link l = rail(lab, 0, false, 0), l1 = rail(lab, 1, true, 0);
	struct probe p[2] = {want(&l, "10.0.0.2", "10.0.0.1"), want(&l1, "10.1.0.2", NULL)};
	int64_t start = now_mono_ms();

	wait_for_link(lab->wire, "r1");
	OK(probe_run(lab->here, p, 2, &l_300, &e));
	expect(&p[0], PROBE_FAILED);
	ASSERT_EQ(p[0].sent, 0);
	ASSERT_EQ(p[0].reason.code, -ENETDOWN);
	ASSERT_EQ(p[0].reason.kind, ERR_AGAIN);
	expect_text(&p[0], "rail r0: no carrier on 'r0' after 300 ms (cable, switch port, ");
	expect(&p[1], PROBE_OK);
	assert_true(now_mono_ms() - start < 4000);
}

/* The link loses its carrier during the probe, so it is unknown whether the gateway is
 * reachable. */
static void test_gateway_probe_without_carrier_fails_instead_of_unreachable(void **state)
{
	static const struct probe_limits one_s = {
		.tries = 3, .interval_ms = 40, .total_ms = 1500, .carrier_ms = 5000};
	struct lab *lab = *state;
	struct link l = rail(lab, 0, true, 0);
	struct probe p = want(&l, "10.0.0.2", "10.0.0.1");

	p.want_conflict = false;
	in_background(lab, GO_DOWN, "10.0.0.1", 0);
	OK(probe_run(lab->here, &p, 1, &one_s, &e));
	expect(&p, PROBE_FAILED);
	expect_text(&p, "rail r0: no carrier on 'r0' any more: it was lost during the test");
}

/*
 * If the carrier was lost during the conflict test, a missing reply proves nothing: the test is
 * repeated.
 */
static void test_conflict_test_is_repeated_after_a_lost_carrier(void **state)
{
	static const struct probe_limits slow = {
		.tries = 3, .interval_ms = 300, .total_ms = 3000, .carrier_ms = 5000};
	struct lab *lab = *state;
	struct link l = rail(lab, 0, true, 0);
	struct probe p = want(&l, "10.0.0.2", NULL);

	in_background(lab, BLINK, "10.0.0.2", 400);
	OK(probe_run(lab->here, &p, 1, &slow, &e));
	expect(&p, PROBE_OK);
	assert_true(p.sent > slow.tries);
	assert_true(p.carrier_us > 0);
}

/* All rounds together have one time limit for the carrier and one for the probes; waiting for the
 * carrier does not shorten the probes. */
static void test_probe_rounds_share_their_time_limits(void **state)
{
	struct lab *lab = *state;
	struct link l = rail(lab, 0, false, 0);
	struct probe p = want(&l, "10.0.0.2", NULL);
	struct probe_rounds r = {.limits = quick, .left = 3};

	in_background(lab, COME_UP, NULL, 800);
	for (int i = 0; i < 3; i++) {
		assert_true(probe_round_left(&r) || i == 0);
		OK(probe_round(&r, lab->here, &p, 1, &e));
		expect(&p, PROBE_OK);
	}
	assert_false(probe_round_left(&r));
	assert_true(r.limits.carrier_ms < quick.carrier_ms - 500);
	/* Rounds are left, but the remaining 100 ms are too short for one. */
	r = (struct probe_rounds){.limits = quick, .left = 3, .end_ms = now_mono_ms() + 100};
	assert_false(probe_round_left(&r));
}

/* Both rails are connected to one switch. With arp_ignore=0 the kernel answers r0's probe
 * through r1. */
static void test_reply_of_another_rail_of_the_pod_is_no_conflict(void **state)
{
	struct lab *lab = *state;
	struct link_spec s = LINK_SPEC_INIT;
	auto_batch struct nl_batch *b = nl_batch_new();
	struct link l[2];
	struct probe p[2];
	int bridge;

	s.name = "br0";
	s.kind = "bridge";
	s.up = true;
	link_add(b, &s);
	commit(lab->peer, b);
	bridge = get_link(lab->peer, "br0").index;
	l[0] = rail(lab, 0, true, bridge);
	l[1] = rail(lab, 1, true, bridge);
	give(lab->wire, "r0", "10.0.0.2/24");
	give(lab->wire, "r1", "10.0.0.3/24");
	p[0] = want(&l[0], "10.0.0.2", NULL);
	p[1] = want(&l[1], "10.0.0.3", NULL);
	OK(probe_run(lab->here, p, 2, &quick, &e));
	expect(&p[0], PROBE_OK);
	expect(&p[1], PROBE_OK);
}

static void test_probes_that_cannot_be_sent_are_errors(void **state)
{
	static const struct probe_limits tight = {
		.tries = 3, .interval_ms = 300, .total_ms = 600, .carrier_ms = 5000};
	struct lab *lab = *state;
	struct link l = rail(lab, 0, true, 0),
		    deleted = {.name = "gone", .index = 4711, .arptype = 1};
	struct probe p[3] = {want(&deleted, "10.0.0.2", NULL), want(&l, "10.0.0.2", "fd00::1"),
			     want(&l, "10.0.0.3", NULL)};
	struct err reason = ERR_INIT;

	OK(probe_run(lab->here, p, 3, &quick, &e));
	expect(&p[0], PROBE_FAILED);
	expect_text(&p[0], "rail gone: probe on 'gone': Link not found");
	expect(&p[1], PROBE_FAILED);
	expect_text(&p[1], "gateway 'fd00::1' and address '10.0.0.2' are of different families");
	expect(&p[2], PROBE_OK);
	/* If none of the probes can be sent, probe_run() itself returns the error. */
	ASSERT_EQ(probe_run(lab->here, p, 1, &quick, &reason), -ENODEV);
	err_clear(&reason);
	ASSERT_EQ(probe_run(lab->here, p, 3, &tight, &reason), -EINVAL);
	assert_non_null(strstr(reason.text, "3 tries 300 ms apart do not fit into 600 ms"));
	/* A probe that tests neither conflict nor gateway sends nothing. */
	p[2].want_conflict = false;
	run(lab, &p[2]);
	expect(&p[2], PROBE_NONE);
}

/* A listener on p0 for packets about one address. */
struct listener {
	struct packet_link link;
	struct probe_ears ears;
	struct packet_watch watch;
	int fd;
};

static void listener_open(struct lab *lab, struct listener *l, const char *address)
{
	auto_free struct packet_link *links = NULL;
	struct netns_visit v = NETNS_VISIT_INIT;
	size_t n;

	OK(packet_links(lab->peer, &links, &n, &e));
	l->link = *packet_link_find(links, n, get_link(lab->peer, "p0").index);
	l->ears = (struct probe_ears){.ip = t_ip(address)};
	l->watch = (struct packet_watch){&l->link, &l->ears};
	OK(netns_enter(lab->there, &v, &e));
	OK(packet_open_probe(l->ears.ip.family, &l->watch, 1, &l->fd, &e));
	netns_leave(&v);
}

static enum probe_saw overheard(struct listener *l, struct mac *owner)
{
	struct pollfd pfd = {l->fd, POLLIN, 0};
	enum probe_saw saw = SAW_NOTHING;
	struct packet_in in;

	if (poll(&pfd, 1, 300) == 1 && packet_recv(l->fd, &in) == 1)
		saw = packet_judge(&in, &l->watch, owner);
	close(l->fd);
	return saw;
}

/* Spiderpool announced all addresses of the pod on each of its links. */
static void test_addresses_are_announced_on_their_link(void **state)
{
	struct lab *lab = *state;
	struct link l = rail(lab, 0, true, 0);
	const struct announce a[] = {
		{"gone", 4711, {0}, t_ip("10.9.0.1")},
		{l.name, l.index, l.mac, t_ip("10.0.0.2")},
		{l.name, l.index, {0}, t_ip("fd00::2")},
	};
	struct listener v4, v6, no;
	struct mac owner = {0};

	listener_open(lab, &v4, "10.0.0.2");
	listener_open(lab, &v6, "fd00::2");
	listener_open(lab, &no, "10.0.0.3");
	announce_all(lab->here, a, ARRAY_LEN(a));
	ASSERT_EQ(overheard(&v4, &owner), SAW_CONFLICT);
	assert_true(mac_eq(&owner, &l.mac));
	owner.len = 0;
	ASSERT_EQ(overheard(&v6, &owner), SAW_CONFLICT);
	assert_true(mac_eq(&owner, &l.mac));
	ASSERT_EQ(overheard(&no, &owner), SAW_NOTHING);
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		T(test_unused_address_has_no_conflict),
		T(test_used_address_is_a_conflict_with_its_owner),
		T(test_probe_by_another_host_is_a_conflict),
		T(test_ipv6_probe_by_another_host_is_a_conflict),
		T(test_announcement_by_another_host_is_a_conflict),
		T(test_ipv6_announcement_by_another_host_is_a_conflict),
		T(test_probe_finds_its_reply_among_a_flood),
		T(test_all_gateways_are_probed_at_once),
		T(test_silent_gateway_is_unreachable),
		T(test_gateway_that_replies_late_is_reachable),
		T(test_probe_waits_for_carrier),
		T(test_missing_carrier_is_reported_for_its_rail_only),
		T(test_gateway_probe_without_carrier_fails_instead_of_unreachable),
		T(test_conflict_test_is_repeated_after_a_lost_carrier),
		T(test_probe_rounds_share_their_time_limits),
		T(test_reply_of_another_rail_of_the_pod_is_no_conflict),
		T(test_probes_that_cannot_be_sent_are_errors),
		T(test_addresses_are_announced_on_their_link),
	};

	return T_RUN(tests, NULL, NULL);
}
