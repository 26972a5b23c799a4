/* SPDX-License-Identifier: Apache-2.0 */
/* How long a message takes there and back. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/loop.h"
#include "cli/verify/verify_client.h"

enum { PINGS = 1000, PING_TIME_US = 5000000 };

struct ping {
	uint32_t number, last;
};

/* One ping and its answer; both ends of it have completed when this returns. */
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
		return err_set(e, -EBADMSG, "the answer to message %u was number %u", number,
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

int verify_latency(struct verify_client *c, struct err *e)
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
