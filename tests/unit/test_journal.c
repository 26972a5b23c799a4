/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "ipam/journal.h"
#include "ipam_lab.h"

static struct ipam_lab lab;
#define PATH "/j/journal"

static int setup(void **state)
{
	struct err e = ERR_INIT;

	(void)state;
	log_threshold = LOG_NONE;
	il_make(&lab);
	return dir_make(&lab.root, "/j", 0700, &e);
}

static int teardown(void **state)
{
	(void)state;
	il_drop(&lab);
	return 0;
}

static void open_journal(struct journal *j)
{
	struct err e = ERR_INIT;

	if (journal_open(j, &lab.root, PATH, &e) < 0)
		fail_msg("%s", e.text);
}

static struct lease used(const char *ip, const char *id, const char *ifname)
{
	struct lease l = LEASE_INIT;

	l.address = il_net(ip);
	l.at_ms = 1700000000000;
	l.container_id = id;
	l.ifname = ifname;
	l.pool = "rail0";
	return l;
}

static struct lease freed(const char *ip, int64_t at)
{
	struct lease l = LEASE_INIT;

	l.address = il_net(ip);
	l.state = LEASE_FREE;
	l.at_ms = at;
	return l;
}

static void commit(struct journal *j, const struct lease *v, size_t n)
{
	struct err e = ERR_INIT;

	if (journal_commit(j, v, n, &e) < 0)
		fail_msg("%s", e.text);
}

static void put(const char *ip, const char *id)
{
	struct lease l = used(ip, id, "net1");
	struct journal j;

	open_journal(&j);
	commit(&j, &l, 1);
	journal_close(&j);
}

static const struct lease *find(const struct journal *j, const char *ip)
{
	struct ipaddr a = il_ip(ip);

	return lease_find(&j->leases, &a);
}

/* The specification's own values, by `xxhsum -H1`. */
static void test_xxh64(void **state)
{
	const char *text = "Nobody inspects the spammish repetition";

	(void)state;
	assert_true(xxh64("", 0) == 0xef46db3751d8e999U);
	assert_true(xxh64("a", 1) == 0xd24ec4f1a98c6e5bU);
	assert_true(xxh64("abc", 3) == 0x44bc2cf5ad770999U);
	assert_true(xxh64(text, strlen(text)) == 0xfbcea83c8a378bf1U);
}

static void test_every_field_comes_back(void **state)
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
	assert_int_equal(j.leases.n, 3);
	for (int i = 0; i < 3; i++) {
		l = lease_find(&j.leases, &v[i].address.ip);
		assert_non_null(l);
		assert_int_equal(l->address.len, v[i].address.len);
		assert_int_equal(l->state, v[i].state);
		assert_int_equal(l->sticky, v[i].sticky);
		assert_int_equal(l->at_ms, v[i].at_ms);
		assert_string_equal(l->container_id, v[i].container_id);
		assert_string_equal(l->ifname, v[i].ifname);
		assert_string_equal(l->pod_namespace, v[i].pod_namespace);
		assert_string_equal(l->pod_name, v[i].pod_name);
		assert_string_equal(l->pod_uid, v[i].pod_uid);
		assert_string_equal(l->netns, v[i].netns);
		assert_string_equal(l->network, v[i].network);
		assert_string_equal(l->pool, v[i].pool);
		assert_string_equal(l->other, v[i].other);
	}
	journal_close(&j);
}

/* What a person reads, and what the next release must be able to. */
static void test_text(void **state)
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
	text = il_read(&lab, PATH, &n);
	assert_int_equal(strncmp(text, "unirail-journal 1 base=0 #", 26), 0);
	assert_has(text, "\ngrant t=1700000000000 id=abc if=net1 pool=rail0 ip=10.0.0.1/24 if=net2 "
			 "ip=10.0.1.1/24 free t=5 ip=10.0.0.9/24 #");
}

static void test_last_word_counts(void **state)
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
	assert_string_equal(find(&j, "10.0.0.1")->container_id, "c");
	assert_string_equal(find(&j, "10.0.0.2")->container_id, "b");
	journal_close(&j);
}

/* Cut after every single byte: all changes before the cut are there, the torn one is not, and the
 * next change works. */
static void test_crash_at_every_byte(void **state)
{
	auto_free char *whole = NULL;
	size_t n, ends[6], n_ends = 0;
	char ip[32];

	(void)state;
	for (int i = 1; i <= 5; i++) {
		snprintf(ip, sizeof(ip), "10.0.0.%d/24", i);
		put(ip, "some-container");
	}
	whole = il_read(&lab, PATH, &n);
	for (size_t i = 0; i < n; i++)
		if (whole[i] == '\n')
			ends[n_ends++] = i; /* the header's, then each record's */
	assert_int_equal(n_ends, 6);
	for (size_t cut = ends[0]; cut <= n; cut++) {
		auto_free char *part = span_dup((struct span){whole, cut});
		size_t want = 0;
		struct journal j;

		while (want < 5 && cut >= ends[want + 1])
			want++;
		il_write(&lab, PATH, part);
		open_journal(&j);
		assert_int_equal(j.leases.n, want);
		journal_close(&j);
		put("10.0.9.9/24", "after");
		open_journal(&j);
		assert_int_equal(j.leases.n, want + 1);
		assert_int_equal(j.size, j.end);
		journal_close(&j);
	}
}

/* A power failure may keep the length and lose the bytes. */
static void test_zeros_at_the_end(void **state)
{
	auto_free char *path = il_path(&lab, PATH);
	static const char zeros[20];
	struct journal j;
	struct stat st;
	int fd;

	(void)state;
	put("10.0.0.1/24", "a");
	put("10.0.0.2/24", "b");
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(truncate(path, st.st_size + 100), 0);
	open_journal(&j);
	assert_int_equal(j.leases.n, 2);
	assert_int_equal(j.end, st.st_size);
	journal_close(&j);
	put("10.0.0.3/24", "c");
	assert_int_equal(stat(path, &st), 0);
	/* Its first page is lost, its end is not: the line has its new line. */
	fd = open(path, O_WRONLY);
	assert_int_equal(pwrite(fd, zeros, sizeof(zeros), st.st_size - 60), sizeof(zeros));
	close(fd);
	open_journal(&j);
	assert_int_equal(j.leases.n, 2);
	journal_close(&j);
	put("10.0.0.4/24", "d");
	open_journal(&j);
	assert_int_equal(j.leases.n, 3);
	assert_null(find(&j, "10.0.0.3"));
	journal_close(&j);
}

static void assert_refused(int code, enum err_kind kind, const char *words)
{
	struct err e = ERR_INIT;
	struct journal j;

	assert_int_equal(journal_open(&j, &lab.root, PATH, &e), code);
	assert_int_equal(e.kind, kind);
	assert_has(e.text, PATH);
	assert_has(e.text, words);
}

/* Any one flipped byte outside the torn tail is found. */
static void test_damage_is_refused(void **state)
{
	auto_free char *whole = NULL;
	size_t n, first_end;
	struct err e = ERR_INIT;
	struct journal j;

	(void)state;
	put("10.0.0.1/24", "a");
	put("10.0.0.2/24", "b");
	whole = il_read(&lab, PATH, &n);
	first_end = (size_t)(strchr(whole, '\n') - whole);
	for (size_t i = first_end + 1; i + 1 < n; i++) {
		auto_free char *bad = span_dup((struct span){whole, n});

		bad[i] ^= 0x01;
		il_write(&lab, PATH, bad);
		assert_int_equal(journal_open(&j, &lab.root, PATH, &e), -EBADMSG);
	}
	whole[first_end + 10] ^= 0x20;
	il_write(&lab, PATH, whole);
	assert_refused(-EBADMSG, ERR_IO, "line 2 is damaged: see 'unirail pool check'");
	il_write(&lab, PATH, "");
	assert_refused(-EBADMSG, ERR_IO, "line 1 is damaged");
	il_write(&lab, PATH, "hello\n");
	assert_refused(-EBADMSG, ERR_IO, "line 1 is damaged");
}

static void add_line(const char *line)
{
	size_t n;
	auto_free char *old = il_read(&lab, PATH, &n);
	auto_free char *new =
		xasprintf("%s%s #%016" PRIx64 "\n", old, line, xxh64(line, strlen(line)));

	il_write(&lab, PATH, new);
}

static void test_later_releases(void **state)
{
	struct journal j;

	(void)state;
	put("10.0.0.1/24", "a");
	add_line("~colour t=1 ip=10.0.0.1/24 shade=red free t=9 later=yes ip=10.0.0.1/24");
	open_journal(&j);
	assert_int_equal(find(&j, "10.0.0.1")->state, LEASE_FREE);
	journal_close(&j);
	add_line("borrow t=1 ip=10.0.0.1/24");
	assert_refused(-EPROTO, ERR_UNAVAILABLE, "line 4: 'borrow' is not known to this release");
	il_write(&lab, PATH, "unirail-journal 2 whatever\n");
	assert_refused(-EPROTO, ERR_UNAVAILABLE, "has format 2, this unirail reads format 1");
}

static void test_compaction(void **state)
{
	struct lease l = used("10.0.0.1/24", "keep", "net1"), sticky;
	struct err e = ERR_INIT;
	struct journal j;
	int64_t longest;

	(void)state;
	open_journal(&j);
	commit(&j, &l, 1);
	sticky = used("10.0.0.2/24", "", "net1");
	sticky.state = LEASE_KEPT;
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
	assert_int_equal(journal_compact(&j, 100000, 60000, 60000, &e), 0);
	assert_true(j.size < longest / 50);
	assert_false(journal_is_long(&j));
	l = used("10.0.0.5/24", "after", "net1");
	commit(&j, &l, 1);
	journal_close(&j);
	il_write(&lab, "/j/.journal.0123abcd.tmp", "left by a kill");
	open_journal(&j);
	assert_false(file_exists(&lab.root, "/j/.journal.0123abcd.tmp"));
	assert_int_equal(j.leases.n, 4);
	assert_string_equal(find(&j, "10.0.0.1")->container_id, "keep");
	assert_int_equal(find(&j, "10.0.0.2")->state, LEASE_KEPT);
	assert_true(find(&j, "10.0.0.2")->sticky);
	assert_null(find(&j, "10.0.0.3"));
	assert_int_equal(find(&j, "10.0.0.4")->state, LEASE_FREE);
	assert_string_equal(find(&j, "10.0.0.5")->container_id, "after");
	journal_close(&j);
}

/* A full disk: nothing of the change is there, what was before is, and with room it goes on. */
static void test_full_disk(void **state)
{
	auto_free char *dir = il_path(&lab, "/j");
	struct journal j;
	size_t granted = 0;
	struct lease l;
	char ip[32];
	int r = 0;

	(void)state;
	if (mount("none", dir, "tmpfs", 0, "size=64k") < 0)
		fail_msg("tmpfs: %s (this test wants root)", errno_text(errno));
	open_journal(&j);
	while (r == 0) {
		struct err e = ERR_INIT;

		snprintf(ip, sizeof(ip), "10.0.%zu.%zu/16", (granted + 1) / 200,
			 (granted + 1) % 200);
		l = used(ip, "a-container-of-some-length-0123456789", "net1");
		r = journal_commit(&j, &l, 1, &e);
		granted += r == 0;
		if (r < 0)
			assert_has(e.text, "make room there");
	}
	assert_int_equal(r, -ENOSPC);
	assert_int_equal(j.leases.n, granted);
	journal_close(&j);
	open_journal(&j);
	assert_int_equal(j.leases.n, granted);
	assert_int_equal(j.size, j.end); /* taken back, not left to be cut */
	journal_close(&j);
	if (mount("none", dir, "tmpfs", MS_REMOUNT, "size=256k") < 0)
		fail_msg("remount: %s", errno_text(errno));
	put("10.9.9.9/16", "after");
	open_journal(&j);
	assert_int_equal(j.leases.n, granted + 1);
	journal_close(&j);
	umount(dir);
}

static void test_repair(void **state)
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
	whole = il_read(&lab, PATH, &n);
	strstr(whole, "id=b")[3] = 'x';
	il_write(&lab, PATH, whole);
	buf_init(&said, 4096);
	assert_int_equal(journal_repair(&lab.root, PATH, 1700000009000, &said, &e), 0);
	assert_has(said.p, "line 3 is damaged: held back 10.0.0.2/24");
	assert_has(said.p, PATH ".damaged-1700000009");
	assert_true(file_exists(&lab.root, PATH ".damaged-1700000009"));
	open_journal(&j);
	assert_int_equal(j.leases.n, 3);
	assert_string_equal(find(&j, "10.0.0.1")->container_id, "a");
	assert_int_equal(find(&j, "10.0.0.2")->state, LEASE_USED);
	assert_string_equal(find(&j, "10.0.0.2")->container_id, "");
	assert_string_equal(find(&j, "10.0.0.3")->container_id, "c");
	journal_close(&j);
	buf_reset(&said);
	assert_int_equal(journal_repair(&lab.root, PATH, 0, &said, &e), 0);
	assert_has(said.p, "is not damaged");
	buf_done(&said);
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_xxh64),
		CASE(test_every_field_comes_back),
		CASE(test_text),
		CASE(test_last_word_counts),
		CASE(test_crash_at_every_byte),
		CASE(test_zeros_at_the_end),
		CASE(test_damage_is_refused),
		CASE(test_later_releases),
		CASE(test_compaction),
		CASE(test_full_disk),
		CASE(test_repair),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
