/* SPDX-License-Identifier: Apache-2.0 */
/* Writing the journal anew: when it has grown long, and when it is damaged. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "ipam/journal/journal_priv.h"

enum { BODY_MAX = 256 << 20 };

static bool same_line(const struct lease *a, const struct lease *b)
{
	return a->state == b->state && a->at_ms == b->at_ms &&
	       strcmp(a->container_id, b->container_id) == 0;
}

void journal_render(const struct lease *v, size_t n, struct buf *b)
{
	struct line_writer w;

	for (size_t i = 0; i < n; i++) {
		if (i == 0 || !same_line(&v[i - 1], &v[i]))
			line_begin(&w, b);
		line_put(&w, &v[i]);
		if (i + 1 == n || !same_line(&v[i], &v[i + 1]))
			line_end(&w);
	}
}

static bool matters(const struct lease *l, int64_t now_ms, int64_t rest_ms, int64_t quarantine_ms)
{
	if (l->state == LEASE_ADOPTED)
		return false;
	if (l->state == LEASE_FREE)
		return lease_lasts(l, now_ms, rest_ms);
	if (l->state == LEASE_QUARANTINED)
		return lease_lasts(l, now_ms, quarantine_ms);
	return true;
}

int journal_compact(struct journal *j, int64_t now_ms, int64_t rest_ms, int64_t quarantine_ms,
		    struct err *e)
{
	auto_free struct lease *live = xcalloc(j->leases.n + 1, sizeof(*live));
	auto_buf struct buf b;
	size_t n = 0;
	int r;

	for (size_t i = 0; i < j->leases.n; i++)
		if (matters(&j->leases.v[i], now_ms, rest_ms, quarantine_ms))
			live[n++] = j->leases.v[i];
	buf_init(&b, BODY_MAX);
	journal_render(live, n, &b);
	r = journal_rewrite(j, buf_span(&b), (int64_t)b.len, e);
	return r < 0 ? err_wrap(e, r, "write journal anew") : 0;
}
