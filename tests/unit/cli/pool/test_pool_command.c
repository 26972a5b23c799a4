/* SPDX-License-Identifier: Apache-2.0 */
#include "testlib.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/log.h"
#include "cli/pool/pool.h"
#include "ipam_lab.h"
#include "cli/cli.h"
#include "wire/json/json.h"

#define POOLS                                                                                      \
	"[pool rail0]\nsubnet=10.0.0.0/24\nips=10.0.0.10-10.0.0.19\ngateway=10.0.0.1\n"            \
	"[pool wide]\nsubnet=fd00::/64\ndefault=yes\n[reserved]\nips=10.0.0.19\n"

static int setup(void **state)
{
	il_setup(state);
	il_lab.paths.now_ms = NULL;
	il_pools(&il_lab, POOLS);
	return 0;
}

/* Runs `unirail pool ARGUMENTS...` on the directories of the lab. */
static int run(const char *arguments)
{
	auto_free char *line = xasprintf("pool %s --root %s --pool-dir /pools --state-dir /state",
					 arguments, il_lab.dir);
	const char *args[32] = {0};
	size_t n = 0;

	for (char *w = strtok(line, " "); w; w = strtok(NULL, " "))
		args[n++] = w;
	return t_main(pool_main, args);
}

static void says(const char *arguments, int status, const char *out, const char *err)
{
	int r = run(arguments);

	ASSERT_HAS(t_out, out);
	ASSERT_HAS(t_err, err);
	ASSERT_EQ_MSG(r, status, "'%s': %s", arguments, t_err);
}

static void take_for_pod(const char *id, const char *pod)
{
	static const char *const names[] = {"rail0"};
	struct ip_request a = {.owner = {.container_id = id,
					 .ifname = "net1",
					 .pod_namespace = "team",
					 .pod_name = pod,
					 .network = "rails"},
			       .pools4 = names,
			       .n_pools4 = 1};
	auto_ipam struct ipam *i = il_open(&il_lab);
	struct ip_allocation *g;
	struct err e = ERR_INIT;
	size_t n;

	ASSERT_EQ(ipam_allocate(i, &a, 1, &g, &n, &e), 0);
	ip_allocations_free(g, n);
}

static void test_list_shows_pools_with_their_counts(void **state)
{
	auto_json struct json_doc *doc = NULL;
	const struct json *pool;
	struct err e = ERR_INIT;
	int64_t n;

	(void)state;
	take_for_pod("c1", "a");
	says("list", 0,
	     "POOL   IP VERSION  SUBNET       USED  TOTAL                 FREE                  "
	     "COOLDOWN  QUARANTINED  DEFAULT  STATE\n"
	     "rail0  4           10.0.0.0/24  1     10                    8                     "
	     "0         0            no       ready\n"
	     "wide   6           fd00::/64    0     18446744073709551615  ",
	     "");
	ASSERT_EQ(run("list -o json"), 0);
	ASSERT_OK(json_parse(&doc, span_of(t_out), 1 << 20, &e), &e);
	pool = json_at(json_get(json_root(doc), "pools"), 0);
	ASSERT_STR_EQ(json_string(json_get(pool, "name")), "rail0");
	ASSERT_EQ(json_int(json_get(pool, "used"), &n), 0);
	ASSERT_EQ(n, 1);
	ASSERT_EQ(json_int(json_get(pool, "reserved"), &n), 0);
	ASSERT_EQ(n, 1);
	ASSERT_EQ(json_int(json_get(pool, "free"), &n), 0);
	ASSERT_EQ(n, 8);
	ASSERT_STR_EQ(json_string(json_get(pool, "gateway")), "10.0.0.1");
}

static void test_list_without_pools_explains_how_to_create_a_pool(void **state)
{
	struct err e = ERR_INIT;

	(void)state;
	ASSERT_EQ(file_remove(&il_lab.root, "/pools/rails.conf", &e), 0);
	says("list", 0, "no pool in '/pools'. Create a file there, such as rails.conf with", "");
	says("list", 0, "[pool rail0]", "");
	says("list -o json", 0, "\"pools\": []", "");
	il_pools(&il_lab, "[pool a]\nsubnet=10.0.0.0/40\n");
	says("list", 1, "", "unirail pool list: pool directory '/pools': rails.conf:2: subnet");
}

static void test_show_and_owner_commands_print_the_pod(void **state)
{
	(void)state;
	says("show rail0", 0,
	     "no address of pool 'rail0' is in use on this node, 9 addresses are free here", "");
	take_for_pod("0123456789abcdef", "a");
	says("show rail0", 0, "10.0.0.10  used   team/a  net1       0123456789ab  rails", "");
	says("show rail0 -o json", 0, "\"containerId\": \"0123456789abcdef\"", "");
	says("show rail", 1, "", "no pool 'rail'; did you mean 'rail0'?");
	says("owner 10.0.0.10", 0, "team/a", "");
	says("owner 10.0.0.10 -o json", 0, "\"pod\": \"a\"", "");
	says("owner 10.0.0.11", 1, "", "10.0.0.11 has no owner: it is free in pool 'rail0'");
	says("owner 10.0.0.19", 1, "", "it is reserved");
	says("owner 10.9.0.1", 1, "", "it is in no pool");
	says("owner 10.0.0.999", 2, "", "'10.0.0.999' is not an address");
}

static void test_next_free_addresses_are_listed(void **state)
{
	(void)state;
	take_for_pod("c1", "a");
	says("free rail0 3", 0, "10.0.0.11\n10.0.0.12\n10.0.0.13\n", "");
	says("free wide 2", 0, "fd00::1\nfd00::2\n", "");
	says("free wide 2 -o json", 0, "\"fd00::2\"", "");
	says("free rail0 no", 2, "", "'no' is not a number from 1 to");
	says("free nothing", 1, "", "no pool 'nothing'");
}

static void test_release_requires_confirmation(void **state)
{
	(void)state;
	take_for_pod("c1", "a");
	says("release 10.0.0.10 --dry-run", 0, "would release 10.0.0.10 (used by team/a net1)", "");
	says("release 10.0.0.10", 1, "would release 10.0.0.10",
	     "repeat with --yes if no running pod");
	says("owner 10.0.0.10", 0, "team/a", "");
	says("release 10.0.0.10 --yes", 0, "released 10.0.0.10 (used by team/a net1)", "");
	says("release 10.0.0.10 --yes", 1, "", "10.0.0.10 has no owner");
	take_for_pod("c2", "b");
	says("release 10.0.0.10 --yes -o json", 0, "\"released\": true", "");
}

static const char *const reading[] = {"list",	    "show rail0",
				      "free rail0", "owner 10.0.0.10",
				      "check",	    "release 10.0.0.10 --dry-run"};

static void test_reading_commands_create_no_directory(void **state)
{
	auto_free char *state_dir = il_path(&il_lab, "/state");

	(void)state;
	rmdir(state_dir); /* a failure is ignored: the directory need not exist */
	for (size_t i = 0; i < ARRAY_LEN(reading); i++) {
		int status = run(reading[i]);

		if (file_exists(&il_lab.root, "/state"))
			fail_msg("'%s' created the state directory (status %d)", reading[i],
				 status);
	}
}

/* Every file of the state directory: name, inode, modification time, content. */
static char *snapshot(void)
{
	char **names = NULL;
	size_t n = 0;
	struct buf b;

	buf_init(&b, 1 << 20);
	ASSERT_EQ(dir_list(&il_lab.root, "/state", &names, &n, NULL), 0);
	for (size_t i = 0; i < n; i++) {
		auto_free char *path = xasprintf("/state/%s", names[i]), *text = NULL;
		struct stat st;
		size_t len;

		ASSERT_EQ(file_lstat(&il_lab.root, path, &st, NULL), 0);
		text = il_read(&il_lab, path, &len);
		buf_printf(&b, "%s inode=%ju written=%jd.%09ld\n", names[i], (uintmax_t)st.st_ino,
			   (intmax_t)st.st_mtim.tv_sec, st.st_mtim.tv_nsec);
		buf_add(&b, text, len);
	}
	str_list_free(names, n);
	return buf_take(&b);
}

/* The state after a killed writer: an outdated anchor, an incomplete line, a temporary file. */
static void test_reading_commands_write_nothing(void **state)
{
	auto_free char *before = NULL, *anchor = NULL, *journal = NULL, *torn = NULL;
	size_t n;

	(void)state;
	take_for_pod("c1", "a");
	anchor = il_read(&il_lab, "/state/journal.anchor", &n);
	take_for_pod("c2", "b");
	il_write(&il_lab, "/state/journal.anchor", anchor);
	journal = il_read(&il_lab, "/state/journal", &n);
	torn = xasprintf("%sallocate t=17637", journal);
	il_write(&il_lab, "/state/journal", torn);
	il_write(&il_lab, "/state/.journal.01234567.tmp", "unirail-journal 1 base=0");
	before = snapshot();
	for (size_t i = 0; i < ARRAY_LEN(reading); i++) {
		int status = run(reading[i]);
		auto_free char *after = snapshot();

		/* `check` reports the incomplete line. */
		ASSERT_EQ_MSG(status, strcmp(reading[i], "check") == 0, "'%s': %s%s", reading[i],
			      t_out, t_err);
		if (strcmp(before, after) != 0)
			fail_msg("'%s' wrote:\nbefore:\n%s\nafter:\n%s", reading[i], before, after);
	}
	says("release 10.0.0.10 --yes", 0, "released 10.0.0.10", "");
	assert_false(file_exists(&il_lab.root, "/state/.journal.01234567.tmp"));
	says("owner 10.0.0.11", 0, "team/b", "");
}

static void test_check_reports_a_damaged_journal(void **state)
{
	size_t n;
	char *text;

	(void)state;
	says("check", 0,
	     "checked 2 pools, 0 addresses in the journal and in host-local's files, and the network namespaces of their pods: "
	     "nothing found\n",
	     "");
	take_for_pod("c1", "a");
	take_for_pod("c2", "b");
	text = il_read(&il_lab, "/state/journal", &n);
	strstr(text, "id=c1")[4] = '7';
	il_write(&il_lab, "/state/journal", text);
	free(text);
	says("list", 1, "", "line 2 is damaged: run 'unirail pool check'");
	says("check", 1, "'unirail pool check --repair' writes a new journal", "");
	says("check -o json", 1, "\"ok\": false", "");
	says("check --repair", 0, "line 2 is damaged: reserved 10.0.0.10/24", "");
	says("check", 1, "10.0.0.10 is reserved since the repair of the journal", "");
	says("release 10.0.0.10 --yes", 0, "released 10.0.0.10", "");
	says("check", 0, "nothing found", "");
	says("owner 10.0.0.11", 0, "team/b", "");
}

/*
 * `check --repair` finds an address that the truncated journal lost, with its owner, in libcni's
 * cache.
 */
static void test_check_finds_addresses_missing_in_the_journal(void **state)
{
	size_t n;
	char *text;

	(void)state;
	take_for_pod("c1", "a");
	take_for_pod("c2", "b");
	text = il_read(&il_lab, "/state/journal", &n);
	strchr(strchr(text, '\n') + 1, '\n')[1] = '\0';
	il_write(&il_lab, "/state/journal", text);
	free(text);
	says("list", 1, "", "is truncated (");
	says("check", 1, "in use by pods of this node", "");
	il_write(&il_lab, "/var/lib/cni/results/rails-c2-eth0",
		 "{\"kind\":\"cniCacheV1\",\"containerId\":\"c2\",\"ifName\":\"eth0\","
		 "\"networkName\":\"rails\",\"result\":{\"interfaces\":[{\"name\":\"eth0\"},"
		 "{\"name\":\"net1\",\"sandbox\":\"/run/netns/b\"}],\"ips\":["
		 "{\"address\":\"192.168.0.9/24\",\"interface\":0},"
		 "{\"address\":\"10.0.0.11/24\",\"interface\":1}]}}");
	il_write(&il_lab, "/var/lib/cni/results/rails-c3-eth0", "no JSON");
	says("check --repair", 0, "10.0.0.11 is in use: container c2 net1 in /run/netns/b", "");
	says("owner 10.0.0.10", 0, "team/a", "");
	says("owner 10.0.0.11", 0, "c2", "");
	says("owner 192.168.0.9", 1, "", "");
	says("list", 0, "", "");
}

static void test_usage_errors_exit_with_2(void **state)
{
	(void)state;
	says("lsit", 2, "", "unirail pool");
	says("show", 2, "", "unirail pool show");
	says("list --colour", 2, "", "unknown option '--colour'");
	says("list -o yaml", 2, "", "is not one of text|json");
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, setup, il_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		CASE(test_list_shows_pools_with_their_counts),
		CASE(test_list_without_pools_explains_how_to_create_a_pool),
		CASE(test_show_and_owner_commands_print_the_pod),
		CASE(test_next_free_addresses_are_listed),
		CASE(test_release_requires_confirmation),
		CASE(test_reading_commands_create_no_directory),
		CASE(test_reading_commands_write_nothing),
		CASE(test_check_reports_a_damaged_journal),
		CASE(test_check_finds_addresses_missing_in_the_journal),
		CASE(test_usage_errors_exit_with_2),
	};

	return T_RUN(tests, NULL, NULL);
}
