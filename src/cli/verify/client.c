/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/verify/verify.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/loop.h"

struct verify_client {
	struct verify_conn conn;
	struct verify_side side;
	const struct verify_test *t;
	struct verify_result *r;
};

/* --- the client: data check, latency, bandwidth, in this order --- */

enum { ROUNDS = 4, CONNECT_MS = 10000 };

static uint64_t new_seed(void)
{
	uint64_t seed;

	if (getrandom(&seed, sizeof(seed), GRND_NONBLOCK) != (ssize_t)sizeof(seed))
		seed = (uint64_t)now_mono_us() * (uint64_t)getpid();
	return seed;
}

/* Sends a step and waits for the server's "done": the server is then ready to receive (recv,
 * drain, ping) or has completed the step (fill, check, sent). */
static int verify_step(struct verify_client *c, const char *name, uint64_t seed, uint64_t count,
		       struct err *e)
{
	struct verify_msg m = {.verb = VERIFY_STEP, .seed = seed, .count = count}, done;
	int r;

	str_copy(m.step, sizeof(m.step), name);
	r = verify_put(&c->conn, &m, e);
	return r < 0 ? r : verify_expect(&c->conn, VERIFY_DONE, &done, e);
}

/* Waits for completions of RDMA operations. If the peer sends a message over TCP before one
 * completes, the peer has failed. */
static int verify_wait(struct verify_client *c, struct verbs_done *done, struct err *e)
{
	struct verify_msg m;
	int n = verbs_wait(c->side.qp, c->conn.fd, VERIFY_TIMEOUT_MS, done, e);

	if (n != 0)
		return n;
	n = verify_get(&c->conn, &m, 0, e);
	return n < 0 ? n
		     : err_set(e, -EPROTO, "the peer sent '%s' during a test",
			       verify_verb_name(m.verb));
}

/* Posts message number i, between its slot here and the same slot of the peer (READ: from the
 * peer's slot). */
static int post(struct verify_client *c, uint64_t i, struct err *e)
{
	size_t at = verify_slot_at(&c->side, i);

	return verbs_post(c->side.qp, c->side.op, i, at, c->side.size, at, e);
}

/* Transfers `limit` messages, or fewer if the monotonic time `until` (us; 0: no time limit)
 * comes first; *count: number of messages transferred. */
static int pump(struct verify_client *c, uint64_t limit, int64_t until, uint64_t *count,
		struct err *e)
{
	struct verbs_done done[VERBS_POLL_MAX];
	uint64_t posted = 0, finished = 0;
	int r = 0;

	do {
		bool more = posted < limit && (!until || now_mono_us() < until);

		while (r >= 0 && more && posted < limit && posted - finished < c->side.depth)
			r = post(c, posted++, e);
		if (r >= 0 && finished < posted)
			r = verify_wait(c, done, e);
		if (r < 0)
			return r;
		finished += (uint64_t)r;
		if (!more && finished == posted)
			break;
	} while (posted < limit || finished < posted);
	*count = finished;
	return 0;
}

/* --- data --- */

/*
 * Sends a byte after the WRITEs: when it arrives on a reliable connection, all data written before
 * it have arrived. A message over TCP would not prove that.
 */
static int send_marker(struct verify_client *c, struct err *e)
{
	struct verbs_done done[VERBS_POLL_MAX];
	int r = verbs_post(c->side.qp, VERBS_SEND, 0, verify_ping_at(&c->side), 1, 0, e);

	if (r == 0)
		r = verify_wait(c, done, e);
	return r < 0 ? r : 0;
}

static uint64_t receives(const struct verify_client *c)
{
	if (c->side.op == VERBS_READ)
		return 0;
	return c->side.op == VERBS_SEND ? c->side.depth : 1;
}

/* Transfers every slot once; the pattern of the data differs from round to round. */
static int check_round(struct verify_client *c, struct err *e)
{
	uint8_t *mem = verbs_qp_mem(c->side.qp);
	uint64_t seed = new_seed(), n;
	size_t len = verify_data_len(&c->side);
	int r;

	if (c->side.op == VERBS_READ) {
		memset(mem, 0, len);
		r = verify_step(c, "fill", seed, 0, e);
	} else {
		verify_fill(mem, len, seed);
		r = verify_step(c, "recv", 0, receives(c), e);
	}
	if (r == 0)
		r = pump(c, c->side.depth, 0, &n, e);
	if (r == 0 && c->side.op == VERBS_WRITE)
		r = send_marker(c, e);
	if (r == 0 && c->side.op == VERBS_READ)
		r = verify_compare(mem, len, seed, e);
	else if (r == 0)
		r = verify_step(c, "check", seed, receives(c), e);
	if (r == 0)
		c->r->checked += len;
	return r;
}

static int check_data(struct verify_client *c, struct err *e)
{
	int r = 0;

	for (int i = 0; r == 0 && i < ROUNDS; i++)
		r = check_round(c, e);
	return r < 0 ? err_wrap(e, r, "check data by RDMA %s", verify_op_name(c->side.op)) : 0;
}

/* --- bandwidth --- */

static int measure(struct verify_client *c, uint64_t *n, struct err *e)
{
	int64_t begin = now_mono_us();
	int64_t until = c->t->count ? 0 : begin + c->t->time_ms * 1000;
	int r = pump(c, c->t->count ? c->t->count : UINT64_MAX, until, n, e);

	c->r->time_us = now_mono_us() - begin;
	return r;
}

static int sent(struct verify_client *c, uint64_t n, struct err *e)
{
	if (c->side.op == VERBS_SEND)
		return verify_step(c, "sent", 0, n, e);
	return c->side.op == VERBS_WRITE ? send_marker(c, e) : 0;
}

/* Checks the data again after the bandwidth measurement. For RDMA READ this side compares the
 * slots that it has read. Otherwise the peer compares all slots, so the check is skipped if
 * fewer messages than slots were sent. */
static int check_again(struct verify_client *c, uint64_t seed, uint64_t n, struct err *e)
{
	size_t len = n < c->side.depth ? (size_t)n * c->side.size : verify_data_len(&c->side);
	int r;

	if (c->side.op == VERBS_READ)
		r = verify_compare(verbs_qp_mem(c->side.qp), len, seed, e);
	else if (n < c->side.depth)
		return 0;
	else
		r = verify_step(c, "check", seed, c->side.op == VERBS_WRITE, e);
	if (r == 0)
		c->r->checked += len;
	return r;
}

static int bandwidth(struct verify_client *c, struct err *e)
{
	uint64_t seed = new_seed(), n = 0;
	int r;

	if (c->side.op == VERBS_READ) {
		r = verify_step(c, "fill", seed, 0, e);
	} else {
		verify_fill(verbs_qp_mem(c->side.qp), verify_data_len(&c->side), seed);
		r = verify_step(c, c->side.op == VERBS_SEND ? "drain" : "recv", 0, 1, e);
	}
	if (r == 0)
		r = measure(c, &n, e);
	if (r == 0)
		r = sent(c, n, e);
	if (r == 0)
		r = check_again(c, seed, n, e);
	if (r < 0)
		return err_wrap(e, r, "measure bandwidth by RDMA %s", verify_op_name(c->side.op));
	c->r->messages = n;
	c->r->bytes = n * c->side.size;
	c->r->rate = c->r->bytes * 1000000 / (uint64_t)(c->r->time_us > 0 ? c->r->time_us : 1);
	return 0;
}

/* --- a complete test --- */

void verify_record_near(struct verify_result *r, const struct verify_rail *rail)
{
	str_copy(r->ifname, sizeof(r->ifname), rail->ifname);
	str_copy(r->device, sizeof(r->device), rail->dev->name);
	r->net = rail->net;
	r->port = rail->port->port;
	r->gid_index = rail->gid_index;
	r->link_mtu = rail->link_mtu;
	r->ethernet = rail->port->ethernet;
}

void verify_record_far(struct verify_result *r, const struct verify_msg *m)
{
	str_copy(r->peer_ifname, sizeof(r->peer_ifname), m->ifname);
	str_copy(r->peer_device, sizeof(r->peer_device), m->device);
	r->peer_net = m->net;
	r->peer_port = m->port;
	r->peer_gid_index = m->gid_index;
	r->peer_link_mtu = m->link_mtu;
}

static int open_side(struct verify_client *c, const struct verify_facts *f,
		     struct verify_rail *rail, struct err *e)
{
	const struct verify_test *t = c->t;
	struct ipaddr local;
	int r = verify_conn_local(&c->conn, &local, e);

	if (r == 0 && c->r->net.ip.family)
		local = c->r->net.ip;
	if (r == 0)
		r = verify_pick(f, &local, &t->choice, rail, e);
	if (r < 0)
		return r;
	verify_record_near(c->r, rail);
	return verify_side_open(&c->side, rail, t->op, t->size, verify_depth_for(t->size), e);
}

static int join(struct verify_client *c, const struct verify_rail *rail, struct err *e)
{
	struct verify_msg m = {
		.verb = VERIFY_HELLO,
		.at = c->t->at,
		.size = c->side.size,
		.depth = c->side.depth,
	};
	int r;

	str_copy(m.op, sizeof(m.op), verify_op_name(c->side.op));
	verify_side_describe(&c->side, rail, &m);
	r = verify_put(&c->conn, &m, e);
	if (r == 0)
		r = verify_expect(&c->conn, VERIFY_READY, &m, e);
	if (r < 0)
		return r;
	verify_record_far(c->r, &m);
	r = verify_side_connect(&c->side, &m, e);
	c->r->mtu = verbs_qp_mtu(c->side.qp);
	return r;
}

static int finish(struct verify_client *c, struct err *e)
{
	const struct verify_result *r = c->r;
	struct verify_msg m = {
		.verb = VERIFY_BYE,
		.count = r->checked,
		.lat_min = r->lat_min_ns,
		.lat_avg = r->lat_avg_ns,
		.lat_p50 = r->lat_p50_ns,
		.lat_p99 = r->lat_p99_ns,
		.rate = r->rate,
		.bytes = r->bytes,
	};
	int code = verify_put(&c->conn, &m, e);

	return code < 0 ? code : verify_expect(&c->conn, VERIFY_DONE, &m, e);
}

/* Reports the failure to the peer, which waits for the next message. */
static void report_failure(struct verify_client *c, int code, const struct err *e)
{
	struct verify_msg m = {.verb = VERIFY_FAIL};

	if (c->conn.fd < 0 || code == -EREMOTEIO || code == -EPIPE)
		return;
	str_copy(m.text, sizeof(m.text), e->text);
	verify_put(&c->conn, &m, NULL);
}

static int verify_latency(struct verify_client *c, struct err *e);

static int whole(struct verify_client *c, const struct verify_facts *f,
		 const struct verify_place *to, struct err *e)
{
	struct verify_rail rail;
	int r = verify_connect(&c->conn, to, CONNECT_MS, e);

	if (r == 0)
		r = open_side(c, f, &rail, e);
	if (r == 0)
		r = join(c, &rail, e);
	if (r == 0)
		r = check_data(c, e);
	if (r == 0)
		r = verify_latency(c, e);
	if (r == 0)
		r = bandwidth(c, e);
	return r < 0 ? r : finish(c, e);
}

int verify_run(const struct verify_facts *f, const struct verify_place *to,
	       const struct verify_test *t, struct verify_result *ret, struct err *e)
{
	struct verify_client c = {
		.conn = VERIFY_CONN_INIT, .side = VERIFY_SIDE_INIT, .t = t, .r = ret};
	struct err mine = ERR_INIT;
	int r;

	ret->op = t->op;
	ret->size = t->size;
	r = whole(&c, f, to, &mine);
	if (r < 0)
		report_failure(&c, r, &mine);
	verify_side_close(&c.side);
	verify_conn_close(&c.conn);
	ret->err = mine;
	if (r < 0 && e)
		*e = mine;
	return r;
}

/* --- latency: half of a ping's round-trip time --- */

enum { PINGS = 1000, PING_TIME_US = 5000000 };

struct ping {
	uint32_t number, last;
};

/* Sends a ping and receives its reply; both operations have completed when this returns 0. */
static int one_ping(struct verify_client *c, uint32_t number, bool last, struct err *e)
{
	uint8_t *mem = verbs_qp_mem(c->side.qp);
	struct verbs_done done[VERBS_POLL_MAX];
	struct ping p = {number, last}, back;
	size_t pong = verify_pong_at(&c->side, number);
	int open = 2, r;

	memcpy(mem + verify_ping_at(&c->side), &p, sizeof(p));
	r = verbs_post_recv(c->side.qp, number, pong, VERIFY_PING_SIZE, e);
	if (r == 0)
		r = verbs_post(c->side.qp, VERBS_SEND, number, verify_ping_at(&c->side),
			       VERIFY_PING_SIZE, 0, e);
	while (r >= 0 && open > 0) {
		r = verify_wait(c, done, e);
		open -= r;
	}
	if (r < 0)
		return r;
	memcpy(&back, mem + pong, sizeof(back));
	if (back.number != number)
		return err_set(e, -EBADMSG, "the peer's reply to ping %u has number %u", number,
			       back.number);
	return 0;
}

static int by_value(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static void summarize(struct verify_result *r, uint64_t *v, size_t n)
{
	uint64_t sum = 0;

	qsort(v, n, sizeof(*v), by_value);
	for (size_t i = 0; i < n; i++)
		sum += v[i];
	r->pings = n;
	r->lat_min_ns = v[0];
	r->lat_avg_ns = sum / n;
	r->lat_p50_ns = v[n / 2];
	r->lat_p99_ns = v[n * 99 / 100];
}

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static int verify_latency(struct verify_client *c, struct err *e)
{
	auto_free uint64_t *v = xcalloc(PINGS, sizeof(*v));
	int64_t until = now_mono_us() + PING_TIME_US;
	uint32_t n = 0;
	bool last = false;
	int r = verify_step(c, "ping", 0, 0, e);

	while (r >= 0 && !last) {
		uint64_t begin = now_ns();

		last = n + 1 == PINGS || now_mono_us() > until;
		r = one_ping(c, n, last, e);
		v[n++] = (now_ns() - begin) / 2;
	}
	if (r < 0)
		return err_wrap(e, r, "measure latency");
	summarize(c->r, v, n);
	return 0;
}
