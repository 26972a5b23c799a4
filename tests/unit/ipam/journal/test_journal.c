/* SPDX-License-Identifier: Apache-2.0 */
#include "testlib.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "base/log.h"
#include "ipam/journal/journal.h"
#include "ipam_lab.h"

#define PATH "/j/journal"

static int setup(void **state)
{
	struct err e = ERR_INIT;

	il_setup(state);
	return dir_make(&il_lab.root, "/j", 0700, &e);
}

static void open_journal(struct journal *j)
{
	struct err e = ERR_INIT;

	ASSERT_OK(journal_open(j, &il_lab.root, PATH, false, &e), &e);
}

static struct lease used(const char *ip, const char *id, const char *ifname)
{
	struct lease l = LEASE_INIT;

	l.address = t_net(ip);
	l.at_ms = 1700000000000;
	l.container_id = id;
	l.ifname = ifname;
	l.pool = "rail0";
	return l;
}

static struct lease freed(const char *ip, int64_t at)
{
	struct lease l = LEASE_INIT;

	l.address = t_net(ip);
	l.state = LEASE_FREE;
	l.at_ms = at;
	return l;
}

static void commit(struct journal *j, const struct lease *v, size_t n)
{
	struct err e = ERR_INIT;

	ASSERT_OK(journal_commit(j, v, n, &e), &e);
}

static void put(const char *ip, const char *id)
{
	struct lease l = used(ip, id, "net1");
	struct journal j;

	open_journal(&j);
	commit(&j, &l, 1);
	journal_close(&j);
}

/* The content of a file, to restore it later. */
struct copy {
	char *p;
	size_t n;
};

#define ANCHOR PATH ".anchor"

static struct copy copy_of(const char *path)
{
	struct copy c;

	c.p = il_read(&il_lab, path, &c.n);
	return c;
}

/* Writes without fsync, since tests call this function thousands of times. */
static void write_bytes(const char *path, const char *p, size_t n)
{
	auto_free char *at = il_path(&il_lab, path);
	auto_fd int fd = open(at, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	ASSERT_EQ(fd_write_all(fd, p, n, NULL), 0);
}

static void put_back(const char *path, const struct copy *c)
{
	write_bytes(path, c->p, c->n);
}

static const struct lease *find(const struct journal *j, const char *ip)
{
	struct ipaddr a = t_ip(ip);

	return lease_find(&j->leases, &a);
}

/* The expected values are those that `xxhsum -H1` prints. */
static void test_xxh64_of_known_texts_is_computed(void **state)
{
	const char *text = "Nobody inspects the spammish repetition";

	(void)state;
	assert_true(xxh64("", 0) == 0xef46db3751d8e999U);
	assert_true(xxh64("a", 1) == 0xd24ec4f1a98c6e5bU);
	assert_true(xxh64("abc", 3) == 0x44bc2cf5ad770999U);
	assert_true(xxh64(text, strlen(text)) == 0xfbcea83c8a378bf1U);
}

static void test_every_field_of_a_lease_is_read_back(void **state)
{
	struct lease v[3] = {used("10.0.0.1/24", "abc", "net1"), used("fd00::1/64", "abc", "net1"),
			     used("10.0.0.2/24", "abc", "net%2 ")};
	const struct lease *l;
	struct journal j;

	(void)state;
	for (int i = 0; i < 3; i++) {
		v[i].pod_namespace = "team a";
		v[i].pod_name = "p=1";
		v[i].pod_uid = "\xc3\xbc";
		v[i].netns = "/run/netns/x y%20";
		v[i].network = i == 2 ? "" : "rails";
		v[i].sticky = i == 1;
	}
	v[2].state = LEASE_QUARANTINED;
	v[2].other = "0a:58:0a:00:00:01";
	open_journal(&j);
	commit(&j, v, 3);
	journal_close(&j);
	open_journal(&j);
	ASSERT_EQ(j.leases.n, 3);
	for (int i = 0; i < 3; i++) {
		l = lease_find(&j.leases, &v[i].address.ip);
		assert_non_null(l);
		ASSERT_EQ(l->address.len, v[i].address.len);
		ASSERT_EQ(l->state, v[i].state);
		ASSERT_EQ(l->sticky, v[i].sticky);
		ASSERT_EQ(l->at_ms, v[i].at_ms);
		ASSERT_STR_EQ(l->container_id, v[i].container_id);
		ASSERT_STR_EQ(l->ifname, v[i].ifname);
		ASSERT_STR_EQ(l->pod_namespace, v[i].pod_namespace);
		ASSERT_STR_EQ(l->pod_name, v[i].pod_name);
		ASSERT_STR_EQ(l->pod_uid, v[i].pod_uid);
		ASSERT_STR_EQ(l->netns, v[i].netns);
		ASSERT_STR_EQ(l->network, v[i].network);
		ASSERT_STR_EQ(l->pool, v[i].pool);
		ASSERT_STR_EQ(l->other, v[i].other);
	}
	journal_close(&j);
}

/* The text format, which administrators read and the next release must parse. */
static void test_journal_has_the_documented_text_format(void **state)
{
	struct lease v[3] = {used("10.0.0.1/24", "abc", "net1"), used("10.0.1.1/24", "abc", "net2"),
			     freed("10.0.0.9/24", 5)};
	auto_free char *text = NULL;
	struct journal j;
	size_t n;

	(void)state;
	open_journal(&j);
	commit(&j, v, 3);
	journal_close(&j);
	text = il_read(&il_lab, PATH, &n);
	ASSERT_EQ(strncmp(text, "unirail-journal 1 base=0 id=", 28), 0);
	ASSERT_HAS(text,
		   "\nallocate t=1700000000000 id=abc if=net1 pool=rail0 ip=10.0.0.1/24 if=net2 "
		   "ip=10.0.1.1/24 release t=5 ip=10.0.0.9/24 #");
}

static void test_last_record_of_an_address_decides_its_state(void **state)
{
	struct journal j;
	struct lease l;

	(void)state;
	put("10.0.0.1/24", "a");
	put("10.0.0.2/24", "b");
	open_journal(&j);
	l = freed("10.0.0.1/24", 7);
	commit(&j, &l, 1);
	journal_close(&j);
	put("10.0.0.1/24", "c");
	open_journal(&j);
	ASSERT_STR_EQ(find(&j, "10.0.0.1")->container_id, "c");
	ASSERT_STR_EQ(find(&j, "10.0.0.2")->container_id, "b");
	journal_close(&j);
}

/*
 * A power failure: the anchor on disk still has the content that the first change wrote. If the
 * journal is cut at any byte after this change, all changes before the cut are present, the
 * incomplete one is not, and the next change succeeds.
 */
static void test_journal_cut_at_any_byte_by_a_crash_is_usable(void **state)
{
	size_t ends[6], n_ends = 0;
	struct copy whole, anchor;
	char ip[32];

	(void)state;
	for (int i = 1; i <= 5; i++) {
		snprintf(ip, sizeof(ip), "10.0.0.%d/24", i);
		put(ip, "some-container");
		if (i == 1)
			anchor = copy_of(ANCHOR);
	}
	whole = copy_of(PATH);
	for (size_t i = 0; i < whole.n; i++)
		if (whole.p[i] == '\n')
			ends[n_ends++] = i; /* the end of the header, then of each record */
	ASSERT_EQ(n_ends, 6);
	for (size_t cut = ends[1]; cut <= whole.n; cut++) {
		size_t want = 1;
		struct journal j;

		while (want < 5 && cut >= ends[want + 1])
			want++;
		put_back(ANCHOR, &anchor);
		write_bytes(PATH, whole.p, cut);
		open_journal(&j);
		ASSERT_EQ(j.leases.n, want);
		journal_close(&j);
		put("10.0.9.9/24", "after");
		open_journal(&j);
		ASSERT_EQ(j.leases.n, want + 1);
		ASSERT_EQ(j.size, j.end);
		journal_close(&j);
	}
	free(whole.p);
	free(anchor.p);
}

/* A power failure may preserve the length of the file and lose its content. */
static void test_zeros_at_the_end_after_a_crash_are_dropped(void **state)
{
	auto_free char *path = il_path(&il_lab, PATH);
	static const char zeros[20];
	struct copy anchor;
	struct journal j;
	struct stat st;
	int fd;

	(void)state;
	put("10.0.0.1/24", "a");
	put("10.0.0.2/24", "b");
	ASSERT_EQ(stat(path, &st), 0);
	ASSERT_EQ(truncate(path, st.st_size + 100), 0);
	open_journal(&j);
	ASSERT_EQ(j.leases.n, 2);
	ASSERT_EQ(j.end, st.st_size);
	journal_close(&j);
	anchor = copy_of(ANCHOR);
	put("10.0.0.3/24", "c");
	ASSERT_EQ(stat(path, &st), 0);
	put_back(ANCHOR, &anchor);
	free(anchor.p);
	/* A part of the last line is lost, its end and newline are not. */
	fd = open(path, O_WRONLY);
	ASSERT_EQ(pwrite(fd, zeros, sizeof(zeros), st.st_size - 60), sizeof(zeros));
	close(fd);
	open_journal(&j);
	ASSERT_EQ(j.leases.n, 2);
	journal_close(&j);
	put("10.0.0.4/24", "d");
	open_journal(&j);
	ASSERT_EQ(j.leases.n, 3);
	assert_null(find(&j, "10.0.0.3"));
	journal_close(&j);
}

static void assert_refused(int code, enum err_kind kind, const char *expected)
{
	struct err e = ERR_INIT;
	struct journal j;

	ASSERT_EQ(journal_open(&j, &il_lab.root, PATH, false, &e), code);
	ASSERT_EQ(e.kind, kind);
	ASSERT_HAS(e.text, PATH);
	ASSERT_HAS(e.text, expected);
}

/* A flipped bit in any record, and a damaged header, are detected. */
static void test_flipped_bit_is_refused(void **state)
{
	auto_free char *whole = NULL;
	size_t n, first_end;
	struct err e = ERR_INIT;
	struct journal j;

	(void)state;
	put("10.0.0.1/24", "a");
	put("10.0.0.2/24", "b");
	whole = il_read(&il_lab, PATH, &n);
	first_end = (size_t)(strchr(whole, '\n') - whole);
	for (size_t i = first_end + 1; i + 1 < n; i++) {
		auto_free char *bad = span_dup((struct span){whole, n});

		bad[i] ^= 0x01;
		il_write(&il_lab, PATH, bad);
		ASSERT_EQ(journal_open(&j, &il_lab.root, PATH, false, &e), -EBADMSG);
	}
	whole[first_end + 10] ^= 0x20;
	il_write(&il_lab, PATH, whole);
	assert_refused(-EBADMSG, ERR_IO, "line 2 is damaged: run 'unirail pool check'");
	il_write(&il_lab, PATH, "");
	assert_refused(-EBADMSG, ERR_IO, "line 1 is damaged");
	il_write(&il_lab, PATH, "hello\n");
	assert_refused(-EBADMSG, ERR_IO, "line 1 is damaged");
}

/* --- the anchor --- */

static void put_some(void)
{
	char ip[32];

	for (int i = 1; i <= 5; i++) {
		snprintf(ip, sizeof(ip), "10.0.0.%d/24", i);
		put(ip, "some-container");
	}
}

/* Opens the journal and returns the error if it is refused. Otherwise asserts that it has all
 * five records, and returns 0. */
static int open_or_refuse(void)
{
	struct err e = ERR_INIT;
	struct journal j;
	int r = journal_open(&j, &il_lab.root, PATH, false, &e);

	if (r < 0) {
		ASSERT_HAS(e.text, PATH);
		assert_true(r == -EBADMSG || r == -EPROTO);
		return r;
	}
	ASSERT_EQ(j.leases.n, 5);
	for (size_t i = 0; i < 5; i++)
		ASSERT_EQ(j.leases.v[i].state, LEASE_USED);
	journal_close(&j);
	return 0;
}

/* Without a crash the anchor has recorded every change, so a journal that lacks its last line is
 * refused: the caller of the change in this line received success. */
static void test_journal_truncated_at_any_byte_without_a_crash_is_refused(void **state)
{
	struct copy whole;

	(void)state;
	put_some();
	whole = copy_of(PATH);
	for (size_t cut = 0; cut + 1 < whole.n; cut++) {
		write_bytes(PATH, whole.p, cut);
		ASSERT_EQ(open_or_refuse(), -EBADMSG);
	}
	/* Only the last newline is missing, so no record is lost. */
	write_bytes(PATH, whole.p, whole.n - 1);
	ASSERT_EQ(open_or_refuse(), 0);
	ASSERT_EQ(file_remove(&il_lab.root, PATH, NULL), 0);
	assert_refused(-EBADMSG, ERR_IO, "is missing: addresses in use may be missing");
	write_bytes(PATH, whole.p, whole.n - 120);
	assert_refused(-EBADMSG, ERR_IO, "is truncated (");
	free(whole.p);
}

/*
 * Each byte is changed as faulty disks and editors do: either all records are present, or the
 * journal is refused.
 */
static void test_journal_with_a_changed_byte_is_refused_or_has_all_records(void **state)
{
	static const unsigned char bytes[] = {0, ' ', '\n', '0', 'f', '#', '=', '~', 0xff};
	struct copy whole;

	(void)state;
	put_some();
	whole = copy_of(PATH);
	for (size_t at = 0; at < whole.n; at++) {
		char was = whole.p[at];

		for (size_t i = 0; i < ARRAY_LEN(bytes); i++) {
			whole.p[at] = (char)bytes[i];
			write_bytes(PATH, whole.p, whole.n);
			open_or_refuse();
		}
		for (int bit = 0; bit < 8; bit++) {
			whole.p[at] = (char)(was ^ 1 << bit);
			write_bytes(PATH, whole.p, whole.n);
			open_or_refuse();
		}
		whole.p[at] = was;
	}
	/* A range of zeros, as a lost page leaves it. */
	for (size_t at = 0; at < whole.n; at += 7) {
		auto_free char *bad = span_dup((struct span){whole.p, whole.n});

		memset(bad + at, 0, whole.n - at);
		write_bytes(PATH, bad, whole.n);
		ASSERT_EQ(open_or_refuse(), -EBADMSG);
	}
	/* A missing line. */
	for (char *line = strchr(whole.p, '\n') + 1; *line; line = strchr(line, '\n') + 1) {
		auto_buf struct buf b;
		char *end = strchr(line, '\n') + 1;

		buf_init(&b, 1 << 16);
		buf_add(&b, whole.p, (size_t)(line - whole.p));
		buf_add(&b, end, whole.n - (size_t)(end - whole.p));
		write_bytes(PATH, b.p, b.len);
		ASSERT_EQ(open_or_refuse(), -EBADMSG);
	}
	free(whole.p);
}

/* An anchor that lags behind the journal is no error: by one change if the process was killed
 * before it updated the anchor, by several after a power failure. */
static void test_anchor_some_changes_behind_is_accepted(void **state)
{
	struct copy behind[6], anchor;
	char ip[32];

	(void)state;
	for (int i = 1; i <= 5; i++) {
		snprintf(ip, sizeof(ip), "10.0.0.%d/24", i);
		put(ip, "some-container");
		behind[i] = copy_of(ANCHOR);
	}
	for (int i = 1; i <= 5; i++) {
		put_back(ANCHOR, &behind[i]);
		ASSERT_EQ(open_or_refuse(), 0);
		free(behind[i].p);
	}
	/* One slot of the anchor was incomplete after a power failure: the other slot is used. */
	anchor = copy_of(ANCHOR);
	ASSERT_EQ(anchor.n, 1024);
	for (size_t slot = 0; slot < 2; slot++) {
		auto_free char *torn = span_dup((struct span){anchor.p, anchor.n});

		memset(torn + slot * 512 + 40, 0, 400);
		write_bytes(ANCHOR, torn, anchor.n);
		ASSERT_EQ(open_or_refuse(), 0);
	}
	free(anchor.p);
}

/* The process is killed at each step of a rewrite: before the new file is renamed, and before the
 * anchor records the rename. */
static void test_journal_of_a_killed_rewrite_is_accepted(void **state)
{
	struct copy journal[2], anchor[2];
	struct anchor_mark next = {0};
	struct err e = ERR_INIT;
	struct journal j;

	(void)state;
	/* The first rewrite was announced, but not executed. */
	next = (struct anchor_mark){.journal = 1, .end = 100};
	open_journal(&j);
	ASSERT_EQ(anchor_announce(&j.anchor, &il_lab.root, PATH, &next, &e), 0);
	journal_close(&j);
	open_journal(&j);
	ASSERT_EQ(j.leases.n, 0);
	journal_close(&j);
	put_some();
	journal[0] = copy_of(PATH);
	anchor[0] = copy_of(ANCHOR);
	open_journal(&j);
	ASSERT_EQ(journal_compact(&j, 100000, 60000, 60000, &e), 0);
	next = (struct anchor_mark){.journal = j.name, .end = j.end};
	journal_close(&j);
	journal[1] = copy_of(PATH);
	put_back(ANCHOR, &anchor[0]);
	put_back(PATH, &journal[0]);
	open_journal(&j);
	ASSERT_EQ(anchor_announce(&j.anchor, &il_lab.root, PATH, &next, &e), 0);
	journal_close(&j);
	anchor[1] = copy_of(ANCHOR);
	ASSERT_EQ(open_or_refuse(), 0);
	put_back(PATH, &journal[1]);
	ASSERT_EQ(open_or_refuse(), 0);
	/* Refused: the new journal if it is truncated; the old journal if it is restored after a
	 * change of the new one; the new journal without its anchor file. */
	write_bytes(PATH, journal[1].p, journal[1].n - 20);
	ASSERT_EQ(open_or_refuse(), -EBADMSG);
	put_back(PATH, &journal[1]);
	put("10.0.0.5/24", "some-container");
	ASSERT_EQ(open_or_refuse(), 0);
	put_back(PATH, &journal[0]);
	assert_refused(-EBADMSG, ERR_IO, "does not match its anchor file");
	put_back(PATH, &journal[1]);
	file_remove(&il_lab.root, ANCHOR, NULL);
	assert_refused(-EBADMSG, ERR_IO, "lacks a valid anchor file");
	for (int i = 0; i < 2; i++) {
		free(journal[i].p);
		free(anchor[i].p);
	}
}

/* An earlier release wrote the header; opening the journal for writing adds the anchor. */
static void test_journal_of_an_earlier_release_is_read(void **state)
{
	static const char header[] = "unirail-journal 1 base=0";
	auto_free char *old =
		xasprintf("%s #%016" PRIx64 "\n", header, xxh64(header, sizeof(header) - 1));
	struct copy whole;
	struct journal j;

	(void)state;
	il_write(&il_lab, PATH, old);
	open_journal(&j);
	ASSERT_EQ(j.leases.n, 0);
	journal_close(&j);
	put_some();
	ASSERT_EQ(open_or_refuse(), 0);
	whole = copy_of(PATH);
	ASSERT_EQ(strncmp(whole.p, old, strlen(old)), 0);
	for (size_t cut = 0; cut + 1 < whole.n; cut++) {
		write_bytes(PATH, whole.p, cut);
		ASSERT_EQ(open_or_refuse(), -EBADMSG);
	}
	/* The whole file is accepted again, also after another change. */
	put_back(PATH, &whole);
	put("10.0.0.5/24", "some-container");
	ASSERT_EQ(open_or_refuse(), 0);
	free(whole.p);
}

static void test_truncated_journal_is_repaired_with_leases_found_elsewhere(void **state)
{
	struct lease found[3] = {used("10.0.0.4/24", "", "net1"), used("10.0.0.5/24", "e", "net2"),
				 used("10.0.0.1/24", "", "net1")};
	struct err e = ERR_INIT;
	auto_buf struct buf said;
	struct copy whole;
	struct journal j;

	(void)state;
	found[0].netns = "/run/netns/cni-1";
	put_some();
	whole = copy_of(PATH);
	write_bytes(PATH, whole.p, whole.n - 150);
	free(whole.p);
	assert_refused(-EBADMSG, ERR_IO, "is truncated");
	buf_init(&said, 4096);
	ASSERT_EQ(journal_repair(&il_lab.root, PATH, 1700000009000, found, 3, &said, &e), 0);
	ASSERT_HAS(said.p, "is truncated");
	ASSERT_HAS(said.p, "10.0.0.4 is in use: unknown owner net1 in /run/netns/cni-1");
	ASSERT_HAS(said.p, "10.0.0.5 is in use: container e net2");
	assert_null(strstr(said.p, "10.0.0.1 is in use"));
	ASSERT_EQ(open_or_refuse(), 0);
	open_journal(&j);
	ASSERT_STR_EQ(find(&j, "10.0.0.1")->container_id, "some-container");
	ASSERT_STR_EQ(find(&j, "10.0.0.5")->container_id, "e");
	journal_close(&j);
	ASSERT_EQ(file_remove(&il_lab.root, PATH, NULL), 0);
	buf_reset(&said);
	ASSERT_EQ(journal_repair(&il_lab.root, PATH, 1700000009000, NULL, 0, &said, &e), 0);
	ASSERT_HAS(said.p, "is missing");
	open_journal(&j);
	ASSERT_EQ(j.leases.n, 0);
	journal_close(&j);
}

static void add_line(const char *line)
{
	size_t n;
	auto_free char *old = il_read(&il_lab, PATH, &n);
	auto_free char *new =
		xasprintf("%s%s #%016" PRIx64 "\n", old, line, xxh64(line, strlen(line)));

	il_write(&il_lab, PATH, new);
}

static void test_records_of_later_releases_are_skipped_or_refused(void **state)
{
	struct journal j;

	(void)state;
	put("10.0.0.1/24", "a");
	add_line("~colour t=1 ip=10.0.0.1/24 shade=red release t=9 later=yes ip=10.0.0.1/24");
	open_journal(&j);
	ASSERT_EQ(find(&j, "10.0.0.1")->state, LEASE_FREE);
	journal_close(&j);
	add_line("borrow t=1 ip=10.0.0.1/24");
	assert_refused(-EPROTO, ERR_UNAVAILABLE, "line 4: 'borrow' is unknown to this release");
	il_write(&il_lab, PATH, "unirail-journal 2 whatever\n");
	assert_refused(-EPROTO, ERR_UNAVAILABLE, "has format 2, this release reads format 1");
}

static void test_compaction_retains_current_leases(void **state)
{
	struct lease l = used("10.0.0.1/24", "keep", "net1"), sticky;
	struct err e = ERR_INIT;
	struct journal j;
	int64_t longest;

	(void)state;
	open_journal(&j);
	commit(&j, &l, 1);
	sticky = used("10.0.0.2/24", "", "net1");
	sticky.state = LEASE_RETAINED;
	sticky.sticky = true;
	sticky.pod_name = "web-0";
	commit(&j, &sticky, 1);
	for (int i = 0; !journal_is_long(&j); i++) {
		l = used("10.0.0.3/24", "churn", "net1");
		commit(&j, &l, 1);
		l = freed("10.0.0.3/24", 1000);
		commit(&j, &l, 1);
	}
	l = freed("10.0.0.4/24", 99990);
	commit(&j, &l, 1);
	longest = j.size;
	ASSERT_EQ(journal_compact(&j, 100000, 60000, 60000, &e), 0);
	assert_true(j.size < longest / 50);
	assert_false(journal_is_long(&j));
	l = used("10.0.0.5/24", "after", "net1");
	commit(&j, &l, 1);
	journal_close(&j);
	il_write(&il_lab, "/j/.journal.0123abcd.tmp", "left by a kill");
	open_journal(&j);
	assert_false(file_exists(&il_lab.root, "/j/.journal.0123abcd.tmp"));
	ASSERT_EQ(j.leases.n, 4);
	ASSERT_STR_EQ(find(&j, "10.0.0.1")->container_id, "keep");
	ASSERT_EQ(find(&j, "10.0.0.2")->state, LEASE_RETAINED);
	assert_true(find(&j, "10.0.0.2")->sticky);
	assert_null(find(&j, "10.0.0.3"));
	ASSERT_EQ(find(&j, "10.0.0.4")->state, LEASE_FREE);
	ASSERT_STR_EQ(find(&j, "10.0.0.5")->container_id, "after");
	journal_close(&j);
}

/* Fills the disk up to its last byte, as another program may do. */
static void fill_disk(const char *dir)
{
	auto_free char *path = xasprintf("%s/ballast", dir);
	auto_fd int fd = open(path, O_WRONLY | O_CREAT | O_APPEND, 0600);
	static const char block[4096];

	for (size_t n = sizeof(block); n > 0;)
		if (write(fd, block, n) <= 0)
			n /= 2;
	ASSERT_EQ(write(fd, "x", 1), -1);
	ASSERT_EQ(errno, ENOSPC);
}

/*
 * On a full disk a failed change leaves no trace, earlier content stays, and writing continues
 * after space was freed. Space for releases is reserved: no DEL waits for an administrator.
 */
static void test_full_disk_fails_allocations_but_not_releases(void **state)
{
	auto_free char *dir = il_path(&il_lab, "/j");
	struct journal j;
	size_t allocated = 0;
	struct lease l;
	char ip[32];
	int r = 0;

	(void)state;
	if (mount("none", dir, "tmpfs", 0, "size=64k") < 0)
		fail_msg("tmpfs: %s (this test requires root)", errno_text(errno));
	open_journal(&j);
	while (r == 0) {
		struct err e = ERR_INIT;

		snprintf(ip, sizeof(ip), "10.0.%zu.%zu/16", (allocated + 1) / 200,
			 (allocated + 1) % 200);
		l = used(ip, "a-container-of-some-length-0123456789", "net1");
		r = journal_commit(&j, &l, 1, &e);
		allocated += r == 0;
		if (r < 0)
			ASSERT_HAS(e.text, "make free space on its file system");
	}
	ASSERT_EQ(r, -ENOSPC);
	assert_true(allocated > 30);
	ASSERT_EQ(j.leases.n, allocated);
	fill_disk(dir);
	journal_close(&j);
	for (size_t i = 0; i < allocated; i++) {
		struct err e = ERR_INIT;

		open_journal(&j);
		ASSERT_EQ(j.leases.n, allocated);
		ASSERT_EQ(j.size, j.end); /* the failed change left no bytes in the file */
		l = freed("10.0.0.1/16", 1700000000001);
		snprintf(ip, sizeof(ip), "10.0.%zu.%zu/16", (i + 1) / 200, (i + 1) % 200);
		l.address = t_net(ip);
		if (journal_commit(&j, &l, 1, &e) < 0)
			fail_msg("release of address %zu of %zu failed: %s", i, allocated, e.text);
		journal_close(&j);
	}
	/* Further allocations succeed until only the space reserved for releases is left, then
	 * fail. */
	for (int i = 0; i < 1000; i++) {
		open_journal(&j);
		l = used("10.8.8.8/16", "a-container-of-some-length-0123456789", "net1");
		r = journal_commit(&j, &l, 1, NULL);
		journal_close(&j);
		if (r < 0)
			break;
	}
	ASSERT_EQ(r, -ENOSPC);
	open_journal(&j);
	for (size_t i = 0; i < allocated; i++)
		ASSERT_EQ(j.leases.v[i].state, LEASE_FREE);
	journal_close(&j);
	if (mount("none", dir, "tmpfs", MS_REMOUNT, "size=256k") < 0)
		fail_msg("remount: %s", errno_text(errno));
	put("10.9.9.9/16", "after");
	open_journal(&j);
	assert_non_null(find(&j, "10.9.9.9"));
	journal_close(&j);
	umount(dir);
}

static void test_repair_loses_only_the_owner_of_a_damaged_record(void **state)
{
	auto_free char *whole = NULL, *path = NULL;
	struct err e = ERR_INIT;
	struct journal j;
	struct buf said;
	size_t n;

	(void)state;
	put("10.0.0.1/24", "a");
	put("10.0.0.2/24", "b");
	put("10.0.0.3/24", "c");
	whole = il_read(&il_lab, PATH, &n);
	strstr(whole, " id=b ")[4] = 'x';
	il_write(&il_lab, PATH, whole);
	buf_init(&said, 4096);
	ASSERT_EQ(journal_repair(&il_lab.root, PATH, 1700000009000, NULL, 0, &said, &e), 0);
	ASSERT_HAS(said.p, "line 3 is damaged: reserved 10.0.0.2/24");
	ASSERT_HAS(said.p, PATH ".damaged-1700000009");
	assert_true(file_exists(&il_lab.root, PATH ".damaged-1700000009"));
	open_journal(&j);
	ASSERT_EQ(j.leases.n, 3);
	ASSERT_STR_EQ(find(&j, "10.0.0.1")->container_id, "a");
	ASSERT_EQ(find(&j, "10.0.0.2")->state, LEASE_USED);
	ASSERT_STR_EQ(find(&j, "10.0.0.2")->container_id, "");
	ASSERT_STR_EQ(find(&j, "10.0.0.3")->container_id, "c");
	journal_close(&j);
	buf_reset(&said);
	ASSERT_EQ(journal_repair(&il_lab.root, PATH, 0, NULL, 0, &said, &e), 0);
	ASSERT_HAS(said.p, "is not damaged");
	buf_done(&said);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, il_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_xxh64_of_known_texts_is_computed),
		CASE(test_every_field_of_a_lease_is_read_back),
		CASE(test_journal_has_the_documented_text_format),
		CASE(test_last_record_of_an_address_decides_its_state),
		CASE(test_journal_cut_at_any_byte_by_a_crash_is_usable),
		CASE(test_zeros_at_the_end_after_a_crash_are_dropped),
		CASE(test_flipped_bit_is_refused),
		CASE(test_journal_truncated_at_any_byte_without_a_crash_is_refused),
		CASE(test_journal_with_a_changed_byte_is_refused_or_has_all_records),
		CASE(test_anchor_some_changes_behind_is_accepted),
		CASE(test_journal_of_a_killed_rewrite_is_accepted),
		CASE(test_journal_of_an_earlier_release_is_read),
		CASE(test_truncated_journal_is_repaired_with_leases_found_elsewhere),
		CASE(test_records_of_later_releases_are_skipped_or_refused),
		CASE(test_compaction_retains_current_leases),
		CASE(test_full_disk_fails_allocations_but_not_releases),
		CASE(test_repair_loses_only_the_owner_of_a_damaged_record),
	};

	return T_RUN(tests, NULL, NULL);
}
