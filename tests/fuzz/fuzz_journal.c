/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The journal's bytes after any crash or damage. First three bytes of the input: a letter, which
 * selects how the file is made, and two numbers for this.
 *
 *	r	the rest is the file
 *	s	the rest are lines without their checksums: the fuzzer adds right checksums
 *	t	as s, and the file's last bytes are missing
 *	d	as s, and one byte is changed
 *
 * After reopening, the journal contains each committed entry and all entries from before. A file
 * that is refused can be repaired, unless its format or operations are of a later release.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "base/log.h"
#include "files.h"
#include "fuzz.h"
#include "ipam/journal/journal.h"

#define JOURNAL "/journal"
#define NOW_MS	1700000000000

enum { FILE_MAX = 1 << 20, OUT_MAX = 32 << 20, REUSE_DELAY_MS = 60000, QUARANTINE_MS = 600000 };

static void add_sums(struct span text, struct buf *b)
{
	struct span line;

	while (text.n > 0 && span_cut(&text, '\n', &line)) {
		size_t start = b->len;

		buf_add(b, line.p, line.n);
		buf_printf(b, " #%016" PRIx64 "\n", xxh64(b->p + start, b->len - start));
	}
}

/* Builds the file that the input describes. */
static void make_file(struct feed f, struct buf *b)
{
	uint8_t how = feed_byte(&f), x = feed_byte(&f), y = feed_byte(&f);
	struct span rest = feed_rest(&f);
	size_t at;

	if (how == 'r' || !(how == 's' || how == 't' || how == 'd')) {
		buf_add(b, rest.p, rest.n);
		return;
	}
	add_sums(rest, b);
	at = ((size_t)x << 8 | y) % (b->len + 1);
	if (how == 't')
		b->len = at;
	if (how == 'd' && at < b->len)
		b->p[at] ^= (char)(1 + x % 7);
}

static int open_file(struct journal *j, struct err *e)
{
	int r = journal_open(j, fuzz_root(), JOURNAL, false, e);

	must(r == 0 || r == -EBADMSG || r == -EPROTO);
	return r;
}

static void open_again(struct journal *j)
{
	struct err e = ERR_INIT;

	if (open_file(j, &e) < 0)
		fuzz_fail(e.text, 0, "the second open of the journal fails");
}

static bool same_lease(const struct lease *a, const struct lease *b)
{
	return ipnet_eq(&a->address, &b->address) && a->state == b->state && a->at_ms == b->at_ms &&
	       a->sticky == b->sticky && !strcmp(a->container_id, b->container_id) &&
	       !strcmp(a->ifname, b->ifname) && !strcmp(a->pod_namespace, b->pod_namespace) &&
	       !strcmp(a->pod_name, b->pod_name) && !strcmp(a->pod_uid, b->pod_uid) &&
	       !strcmp(a->netns, b->netns) && !strcmp(a->network, b->network) &&
	       !strcmp(a->pool, b->pool) && !strcmp(a->other, b->other);
}

/* The table must have these leases, in this order. */
static void must_be(const struct lease_table *t, const struct lease *want, size_t n)
{
	must(t->n == n);
	for (size_t i = 0; i < n; i++)
		must(same_lease(&t->v[i], &want[i]));
}

static void check_table(const struct lease_table *t)
{
	for (size_t i = 0; i < t->n; i++) {
		const struct lease *l = &t->v[i];

		must(lease_find(t, &l->address.ip) == l);
		must(l->address.len <= ip_bits(&l->address.ip) && l->state <= LEASE_QUARANTINED);
		must(l->container_id && l->ifname && l->pod_namespace && l->pod_name && l->pod_uid);
		must(l->netns && l->network && l->pool && l->other);
	}
}

/* Writes one or two changes to v and returns their number. First: a new lease with the input's
 * first line as container ID and pod name. Second: the journal's last lease, if there is one,
 * allocated if it was free, otherwise free. */
static size_t make_changes(const struct journal *j, const char *text, struct lease v[static 2])
{
	struct lease *l = &v[0];

	*l = (struct lease)LEASE_INIT;
	l->address = (struct ipnet){{4, {10, 9, 8, 7}}, 24};
	l->at_ms = NOW_MS;
	l->container_id = l->pod_name = text;
	l->pool = "rail0";
	l->sticky = *text & 1;
	if (j->leases.n == 0)
		return 1;
	v[1] = j->leases.v[j->leases.n - 1];
	v[1].state = v[1].state == LEASE_FREE ? LEASE_USED : LEASE_FREE;
	return 2;
}

static void commit(struct journal *j, const char *text)
{
	struct lease v[2];
	size_t n = make_changes(j, text, v);
	struct err e = ERR_INIT;
	const struct lease *l;

	if (journal_commit(j, v, n, &e) < 0)
		fuzz_fail(e.text, 0, "commits");
	l = lease_find(&j->leases, &v[0].address.ip);
	must(l && (n == 1 || !ip_eq(&v[1].address.ip, &v[0].address.ip)
			   ? l->state == LEASE_USED && !strcmp(l->container_id, text)
			   : true));
	check_table(&j->leases);
}

/* Returns the leases whose records a compaction keeps. */
static struct lease *what_matters(const struct lease_table *t, size_t *n)
{
	struct lease *live = xcalloc(t->n + 1, sizeof(*live));

	for (size_t i = 0; i < t->n; i++) {
		const struct lease *l = &t->v[i];

		if ((l->state == LEASE_FREE && !lease_lasts(l, NOW_MS, REUSE_DELAY_MS)) ||
		    (l->state == LEASE_QUARANTINED && !lease_lasts(l, NOW_MS, QUARANTINE_MS)))
			continue;
		live[(*n)++] = *l;
	}
	return live;
}

static void compact(struct journal *j)
{
	size_t n = 0;
	auto_free struct lease *want = what_matters(&j->leases, &n);
	struct err e = ERR_INIT;
	struct journal again;

	if (journal_compact(j, NOW_MS, REUSE_DELAY_MS, QUARANTINE_MS, &e) < 0)
		fuzz_fail(e.text, 0, "compacts");
	must(!journal_is_long(j));
	open_again(&again);
	must_be(&again.leases, want, n);
	journal_close(&again);
}

static void go_on(struct journal *j, const char *text, bool also_compact)
{
	struct journal again;

	check_table(&j->leases);
	commit(j, text);
	open_again(&again);
	must_be(&again.leases, j->leases.v, j->leases.n);
	journal_close(j);
	if (also_compact)
		compact(&again);
	journal_close(&again);
}

/* A repair fails only for a file with a format or operations that this release does not know. */
static void repair(const char *text)
{
	struct err e = ERR_INIT;
	auto_buf struct buf said;
	struct journal j;
	int r;

	buf_init(&said, OUT_MAX);
	r = journal_repair(fuzz_root(), JOURNAL, NOW_MS, NULL, 0, &said, &e);
	must(r == 0 || r == -EPROTO);
	if (r < 0)
		return;
	must(said.len > 0);
	open_again(&j);
	go_on(&j, text, false);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct feed f = {data, size}, head = {data, size};
	auto_free char *text = text_of(feed_line(&head));
	struct err e = ERR_INIT;
	auto_buf struct buf b;
	struct journal j;

	log_threshold = LOG_NONE;
	buf_init(&b, FILE_MAX * 4);
	make_file(f, &b);
	files_put(JOURNAL, buf_span(&b));
	if (fuzz_refused(open_file(&j, &e), &e))
		repair(text);
	else
		go_on(&j, text, size % 4 == 0);
	files_clear();
	return 0;
}
