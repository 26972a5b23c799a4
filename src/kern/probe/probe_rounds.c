/* SPDX-License-Identifier: Apache-2.0 */
#include "base/loop.h"
#include "kern/probe/probe.h"

static int64_t longest_wait_ms(const struct probe *p, size_t n)
{
	int64_t us = 0;

	for (size_t i = 0; i < n; i++)
		us = p[i].carrier_us > us ? p[i].carrier_us : us;
	return us / 1000;
}

int probe_round(struct probe_rounds *r, int netns_fd, struct probe *p, size_t n, struct err *e)
{
	struct probe_limits l = r->limits;
	int64_t now = now_mono_ms(), waited;
	int ret;

	if (!r->end_ms)
		r->end_ms = now + l.total_ms;
	l.total_ms = r->end_ms > now ? (int)(r->end_ms - now) : 1;
	r->left--;
	ret = probe_run(netns_fd, p, n, &l, e);
	waited = longest_wait_ms(p, n);
	r->end_ms += waited;
	r->limits.carrier_ms = r->limits.carrier_ms > waited ? r->limits.carrier_ms - (int)waited
							     : 0;
	return ret;
}

/* A round without the time for its probes would find nothing and call it quiet. */
bool probe_round_left(const struct probe_rounds *r)
{
	const struct probe_limits *l = &r->limits;

	return r->left > 0 && r->end_ms - now_mono_ms() >= (l->tries + 1) * l->interval_ms;
}
