/* SPDX-License-Identifier: Apache-2.0 */
/* The server: one client at a time, a new queue pair for each test. */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/option.h"
#include "cli/verify/verify.h"

enum { OUT_MAX = 1 << 16 };

volatile sig_atomic_t verify_stop;

struct server {
	const struct verify_serve *conf;
	struct verify_conn conn;
	struct verify_side side;
	struct verify_result result;
};

static int done(struct server *s, struct err *e)
{
	struct verify_msg m = {.verb = VERIFY_DONE};

	return verify_put(&s->conn, &m, e);
}

/* --- the steps of a test --- */

static int step_fill(struct server *s, const struct verify_msg *m, struct err *e)
{
	verify_fill(verbs_qp_mem(s->side.qp), verify_data_len(&s->side), m->seed);
	return done(s, e);
}

/* Posts the receives of a round. SEND: one receive per slot. Otherwise one receive, at the place
 * of a received ping, for the byte that the client sends after its WRITEs. */
static int post_receives(struct server *s, struct err *e)
{
	const struct verify_side *v = &s->side;
	uint32_t n = v->op == VERBS_SEND ? v->depth : 1;
	int r = 0;

	for (uint32_t i = 0; r == 0 && i < n; i++)
		r = v->op == VERBS_SEND
			    ? verbs_post_recv(v->qp, i, verify_slot_at(v, i), v->size, e)
			    : verbs_post_recv(v->qp, i, verify_pong_at(v, 0), VERIFY_PING_SIZE, e);
	return r;
}

static int step_recv(struct server *s, const struct verify_msg *m, struct err *e)
{
	int r = post_receives(s, e);

	(void)m;
	return r < 0 ? r : done(s, e);
}

static int step_check(struct server *s, const struct verify_msg *m, struct err *e)
{
	struct verbs_done got[VERBS_POLL_MAX];
	uint64_t n = 0;
	int r = 0;

	while (r >= 0 && n < m->count) {
		r = verbs_wait(s->side.qp, -1, VERIFY_TIMEOUT_MS, got, e);
		n += r > 0 ? (uint64_t)r : 0;
	}
	if (r >= 0)
		r = verify_compare(verbs_qp_mem(s->side.qp), verify_data_len(&s->side), m->seed, e);
	if (r < 0)
		return r;
	return done(s, e);
}

/*
 * Receives until all messages of the client have arrived; the client reports their number at the
 * end.
 */
static int step_drain(struct server *s, const struct verify_msg *m, struct err *e)
{
	struct verbs_done got[VERBS_POLL_MAX];
	uint64_t n = 0, all = UINT64_MAX;
	struct verify_msg message;
	int r = post_receives(s, e);

	(void)m;
	if (r == 0)
		r = done(s, e);
	while (r >= 0 && n < all) {
		r = verbs_wait(s->side.qp, all == UINT64_MAX ? s->conn.fd : -1, VERIFY_TIMEOUT_MS,
			       got, e);
		if (r == 0) {
			r = verify_expect(&s->conn, VERIFY_STEP, &message, e);
			all = message.count;
			continue;
		}
		for (int i = 0; i < r; i++, n++)
			verbs_post_recv(s->side.qp, n, verify_slot_at(&s->side, n), s->side.size,
					NULL);
	}
	return r < 0 ? r : done(s, e);
}

/* Sends the received ping back unchanged. */
static int answer_ping(struct server *s, uint64_t n, bool *last, struct err *e)
{
	uint8_t *mem = verbs_qp_mem(s->side.qp);
	uint32_t ping[2];
	int r;

	memcpy(ping, mem + verify_pong_at(&s->side, n), sizeof(ping));
	memcpy(mem + verify_ping_at(&s->side), ping, sizeof(ping));
	*last = ping[1] != 0;
	r = *last ? 0
		  : verbs_post_recv(s->side.qp, n, verify_pong_at(&s->side, n + 1),
				    VERIFY_PING_SIZE, e);
	return r < 0 ? r
		     : verbs_post(s->side.qp, VERBS_SEND, n, verify_ping_at(&s->side),
				  VERIFY_PING_SIZE, 0, e);
}

static int step_ping(struct server *s, const struct verify_msg *m, struct err *e)
{
	struct verbs_done got[VERBS_POLL_MAX];
	uint64_t received = 0, sent = 0;
	bool last = false;
	int r = verbs_post_recv(s->side.qp, 0, verify_pong_at(&s->side, 0), VERIFY_PING_SIZE, e);

	(void)m;
	if (r == 0)
		r = done(s, e);
	while (r >= 0 && (!last || sent < received)) {
		struct verify_msg message;

		r = verbs_wait(s->side.qp, last ? -1 : s->conn.fd, VERIFY_TIMEOUT_MS, got, e);
		if (r == 0) {
			r = verify_get(&s->conn, &message, 0, e);
			return r < 0 ? r
				     : err_set(e, -EPROTO, "the peer sent a message during pings");
		}
		for (int i = 0, n = r; r >= 0 && i < n; i++) {
			if (got[i].recv)
				r = answer_ping(s, received++, &last, e);
			else
				sent++;
		}
	}
	return r < 0 ? r : 0;
}

static const struct {
	const char *name;
	int (*run)(struct server *s, const struct verify_msg *m, struct err *e);
} steps[] = {
	{"fill", step_fill},   {"recv", step_recv}, {"check", step_check},
	{"drain", step_drain}, {"ping", step_ping},
};

static int run_step(struct server *s, const struct verify_msg *m, struct err *e)
{
	for (size_t i = 0; i < ARRAY_LEN(steps); i++)
		if (!strcmp(steps[i].name, m->step))
			return steps[i].run(s, m, e);
	return err_set(e, -EPROTO, "the peer requests an unknown step '%s'", m->step);
}

/* --- a test --- */

static int open_side(struct server *s, const struct verify_msg *hello, struct verify_msg *ready,
		     struct err *e)
{
	/*
	 * Reads the addresses again for each client: they change as pods are created and deleted.
	 */
	auto_verify_facts struct verify_facts f = {0};
	struct verify_rail rail;
	struct ipaddr at = hello->at;
	enum verbs_op op;
	int r = 0;

	if (verify_op_find(hello->op, &op) < 0 || hello->size < 1 ||
	    hello->size > VERIFY_SIZE_MAX || hello->depth < 1 || hello->depth > VERIFY_DEPTH_MAX ||
	    (uint64_t)hello->size * hello->depth > VERIFY_DATA_MAX)
		return err_set(e, -EINVAL,
			       "a test by '%s' of %u messages of %u bytes exceeds the limits: "
			       "expected write, send or read, 1 to 64 messages in flight, 1 byte "
			       "to 8 MiB per message, 16 MiB in all",
			       hello->op, hello->depth, hello->size);
	if (!at.family)
		r = verify_conn_local(&s->conn, &at, e);
	if (r == 0)
		r = verify_facts_read(&f, e);
	if (r == 0)
		r = verify_pick(&f, &at, &s->conf->choice, &rail, e);
	if (r == 0)
		r = verify_side_open(&s->side, &rail, op, hello->size, hello->depth, e);
	if (r == 0)
		r = verify_side_connect(&s->side, hello, e);
	if (r < 0)
		return r;
	s->result.op = op;
	s->result.mtu = verbs_qp_mtu(s->side.qp);
	verify_record_near(&s->result, &rail);
	verify_record_far(&s->result, hello);
	s->result.size = hello->size;
	verify_side_describe(&s->side, &rail, ready);
	return 0;
}

static int serve_test(struct server *s, const struct verify_msg *hello, struct err *e)
{
	struct verify_msg m = {.verb = VERIFY_READY};
	struct verify_result *v = &s->result;
	int r = open_side(s, hello, &m, e);

	if (r == 0)
		r = verify_put(&s->conn, &m, e);
	while (r == 0) {
		r = verify_get(&s->conn, &m, VERIFY_TIMEOUT_MS, e);
		if (r == 0 && m.verb == VERIFY_BYE)
			break;
		if (r == 0)
			r = run_step(s, &m, e);
	}
	if (r < 0)
		return r;
	v->checked = m.count;
	v->lat_min_ns = m.lat_min;
	v->lat_avg_ns = m.lat_avg;
	v->lat_p50_ns = m.lat_p50;
	v->lat_p99_ns = m.lat_p99;
	v->rate = m.rate;
	v->bytes = m.bytes;
	return done(s, e);
}

/* --- rails --- */

static int send_rails(struct server *s, struct err *e)
{
	auto_verify_facts struct verify_facts f = {0};
	auto_free struct verify_rail *v = NULL;
	size_t n = 0;
	int r = verify_facts_read(&f, e);

	if (r == 0)
		verify_rails(&f, &v, &n);
	for (size_t i = 0; r == 0 && i < n; i++) {
		struct verify_msg m = {.verb = VERIFY_RAIL, .net = v[i].net};

		str_copy(m.ifname, sizeof(m.ifname), v[i].ifname);
		str_copy(m.device, sizeof(m.device), v[i].dev->name);
		r = verify_put(&s->conn, &m, e);
	}
	return r < 0 ? r : done(s, e);
}

/* --- clients --- */

static int serve_client(struct server *s, bool *tested, struct err *e)
{
	struct verify_msg m;
	int r = verify_get(&s->conn, &m, VERIFY_TIMEOUT_MS, e);

	if (r < 0)
		return r;
	if (m.verb == VERIFY_RAILS)
		return send_rails(s, e);
	if (m.verb != VERIFY_HELLO)
		return err_set(e, -EPROTO, "the peer sent '%s', expected 'hello'",
			       verify_verb_name(m.verb));
	*tested = true;
	return serve_test(s, &m, e);
}

static void report(const struct server *s, bool tested, const struct err *e)
{
	struct verify_result r = s->result;
	auto_buf struct buf b = {0};
	struct ipaddr peer = {0};
	char text[IP_TEXT_MAX];

	r.err = *e;
	verify_conn_peer(&s->conn, &peer, NULL);
	if (s->conf->json && tested) {
		buf_init(&b, OUT_MAX);
		verify_show_json(&r, 1, &b);
		opt_print(&b);
	} else if (e->code) {
		fprintf(stderr, "unirail verify: %s: %s\n", ip_str(&peer, text), e->text);
	} else if (tested) {
		verify_show_one(&r, stdout);
	}
	fflush(stdout);
}

/* Serves one client. *ended: whether a test has run, with or without success. */
static void serve_one(int fd, const struct verify_serve *conf, bool *ended, struct err *e)
{
	struct server s = {.conf = conf, .conn = VERIFY_CONN_INIT, .side = VERIFY_SIDE_INIT};
	bool tested = false;
	int r = verify_accept(fd, &s.conn, e);

	if (r == 0)
		r = serve_client(&s, &tested, e);
	/* A client that disconnects without a test only checked the port, which is not an error. */
	if (r == -EPIPE && !tested)
		err_clear(e);
	else if (r < 0 && r != -EREMOTEIO && r != -EPIPE) {
		struct verify_msg m = {.verb = VERIFY_FAIL};

		str_copy(m.text, sizeof(m.text), e->text);
		verify_put(&s.conn, &m, NULL);
	}
	report(&s, tested, e);
	verify_side_close(&s.side);
	verify_conn_close(&s.conn);
	*ended = tested;
}

int verify_serve(const struct verify_serve *conf, struct err *e)
{
	auto_fd int fd = -1;
	int r = verify_listen(&conf->at, &fd, e);

	if (r < 0)
		return r;
	fprintf(stderr, "listening on port %u\n", conf->at.port);
	while (!verify_stop) {
		struct pollfd p = {fd, POLLIN, 0};
		struct err one = ERR_INIT;
		bool ended = false;

		if (poll(&p, 1, 1000) <= 0)
			continue;
		serve_one(fd, conf, &ended, &one);
		if (ended && conf->once)
			return one.code ? 1 : 0;
	}
	return 0;
}
