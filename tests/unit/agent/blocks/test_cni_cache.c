/* SPDX-License-Identifier: Apache-2.0 */
/* Addresses in the CNI result caches of a node, as libcni, Multus and unirail-cni write them. */
#include "testlib.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "agent/blocks/cni_cache.h"
#include "base/alloc.h"
#include "cni/multus/cache.h"

#define ARGS "IgnoreUnknown=1;K8S_POD_NAMESPACE=t;K8S_POD_NAME=%s;K8S_POD_UID=u-%s"

static void put(struct t_dir *w, const char *folder, const char *name, const char *text)
{
	auto_free char *dir = xasprintf("/cni/%s", folder);
	auto_free char *path = xasprintf("%s/%s", dir, name);

	ASSERT_EQ(dir_make(&w->root, dir, 0700, NULL), 0);
	ASSERT_EQ(file_replace(&w->root, path, span_of(text), 0600, NULL), 0);
}

/* A cache file written by unirail-cni's own code. */
static char *written(const char *pod, const char *conf, const char *result, const char *full)
{
	auto_free char *args = xasprintf(ARGS, pod, pod);
	struct json_out o;
	struct buf b;

	buf_init(&b, 1 << 16);
	jo_init(&o, &b, 0);
	ASSERT_EQ(libcni_cached_put(&o,
				    &(struct libcni_entry){"c1", "rail", "net1", "/run/netns/x",
							   args, span_of(conf), span_of(result),
							   span_of(full)},
				    NULL),
		  0);
	return buf_take(&b);
}

static void expect(const struct cni_cached *c, const char *pod, const char *ip, bool allocated)
{
	auto_free char *uid = xasprintf("u-%s", pod);
	char text[IP_TEXT_MAX];

	ASSERT_STR_EQ(ip_str(&c->ip, text), ip);
	ASSERT_STR_EQ(c->ns, *pod ? "t" : "");
	ASSERT_STR_EQ(c->pod, pod);
	ASSERT_STR_EQ(c->uid, *pod ? uid : "");
	ASSERT_STR_EQ(c->ifname, *pod ? "net1" : "");
	ASSERT_EQ(c->allocated, allocated);
}

#define SPIDERPOOL                                                                                 \
	"{\"name\":\"rail\",\"plugins\":[{\"type\":\"macvlan\",\"ipam\":{\"type\":\"spiderpool\"}}]}"
#define RESULT                                                                                     \
	"{\"cniVersion\":\"1.0.0\",\"ips\":[{\"address\":\"172.16.1.9/24\"},{\"address\":\"fd00::9/64\"}]}"

static void test_cache_files_of_unirail_cni_are_read(void **state)
{
	auto_free char *text = written("a", SPIDERPOOL, RESULT, "");
	auto_free char *old = written(
		"b", SPIDERPOOL, "{\"cniVersion\":\"0.2.0\",\"ip4\":{\"ip\":\"172.16.1.7/24\"}}",
		"{\"cniVersion\":\"1.1.0\",\"ips\":[{\"address\":\"172.16.1.8/24\"}]}");
	auto_cni_cache struct cni_cache c = {0};

	(void)state;
	ASSERT_EQ(cni_cache_parse(&c, "f", span_of(text), NULL), 0);
	ASSERT_EQ(cni_cache_parse(&c, "f", span_of(old), NULL), 0);
	ASSERT_EQ(c.n, 4);
	expect(&c.v[0], "a", "172.16.1.9", true);
	expect(&c.v[1], "a", "fd00::9", true);
	expect(&c.v[2], "b", "172.16.1.7", true);
	expect(&c.v[3], "b", "172.16.1.8", true);
}

/* A tenant with the right to write network-attachment-definitions could choose any address with
 * the IPAM plugin static. */
static void test_only_addresses_of_spiderpool_ipam_count_as_allocated(void **state)
{
	static const struct {
		const char *conf;
		bool allocated;
	} v[] = {
		{"{\"type\":\"macvlan\",\"ipam\":{\"type\":\"spiderpool\"}}", true},
		{"{\"type\":\"macvlan\",\"IPAM\":{\"Type\":\"spiderpool\"}}", true},
		{"{\"type\":\"macvlan\",\"ipam\":{\"type\":\"static\"}}", false},
		{"{\"type\":\"macvlan\"}", false},
		{"{\"plugins\":[{\"type\":\"macvlan\",\"ipam\":{\"type\":\"spiderpool\"}},"
		 "{\"type\":\"macvlan\",\"ipam\":{\"type\":\"static\"}}]}",
		 false},
		{"{\"plugins\":[{\"type\":\"macvlan\",\"ipam\":{\"type\":\"spiderpool\"}},"
		 "{\"type\":\"tuning\",\"ipam\":{}}]}",
		 true},
		{"{\"plugins\":[{\"type\":\"unirail-cni\",\"networks\":[{\"ipam\":{\"type\":"
		 "\"spiderpool\"}}],\"defaults\":{\"ipam\":{\"type\":\"static\"}}}]}",
		 false},
		{"{\"plugins\":[{\"type\":\"unirail-cni\",\"networks\":[{\"plugins\":[{\"ipam\":{"
		 "\"type\":\"spiderpool\"}}]}]}]}",
		 true},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(v); i++) {
		auto_free char *text = written("a", v[i].conf, RESULT, "");
		auto_cni_cache struct cni_cache c = {0};

		ASSERT_EQ_MSG(cni_cache_parse(&c, "f", span_of(text), NULL), 0, "v[%zu]", i);
		expect(&c.v[0], "a", "172.16.1.9", v[i].allocated);
	}
}

static void test_cache_files_of_other_programs_are_read(void **state)
{
	static const char *const texts[] = {
		"{\"cniVersion\":\"0.3.1\",\"ips\":[{\"version\":\"4\",\"address\":\"10.0.0.3/24\"}]}",
		"{\"kind\":\"cniCacheV1\",\"result\":{\"ips\":[{\"address\":\"10.0.0.3/24\"}]},"
		"\"config\":\"not base64!\",\"cniArgs\":[[\"K8S_POD_NAME\"],[],7,[1,2],\"x\"]}"};
	auto_cni_cache struct cni_cache c = {0};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
		ASSERT_EQ_MSG(cni_cache_parse(&c, "f", span_of(texts[i]), NULL), 0, "texts[%zu]",
			      i);
		expect(&c.v[i], "", "10.0.0.3", false);
	}
	/* The result of a plugin without addresses. */
	ASSERT_EQ(cni_cache_parse(&c, "f", span_of("{\"kind\":\"cniCacheV1\",\"result\":{}}"),
				  NULL),
		  0);
	ASSERT_EQ(c.n, 2);
}

static void test_invalid_cache_files_are_errors(void **state)
{
	static const char *const texts[] = {"",
					    "{\"kind\":\"cniCacheV1\",\"resu",
					    "[]",
					    "7",
					    "{\"ips\":7}",
					    "{\"ips\":[7]}",
					    "{\"ips\":[{\"address\":\"x\"}]}",
					    "{\"ip4\":{\"ip\":7}}",
					    "{\"kind\":\"cniCacheV1\",\"result\":{\"ips\":{}}}"};
	struct t_dir *w = *state;
	auto_cni_cache struct cni_cache c = {0};

	for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
		struct err e = ERR_INIT;

		put(w, "results", "broken-c-net1", texts[i]);
		assert_true(cni_cache_read(&c, &w->root, "/cni", &e) < 0);
		assert_non_null(strstr(e.text, "/cni/results/broken-c-net1"));
		ASSERT_EQ_MSG(c.n, 0, "texts[%zu]", i);
	}
}

static void test_libcni_and_multus_directories_are_read(void **state)
{
	struct t_dir *w = *state;
	auto_cni_cache struct cni_cache c = {0};
	auto_free char *b = written("b", SPIDERPOOL, RESULT, ""),
		       *a = written("a", SPIDERPOOL, RESULT, "");
	size_t at;

	ASSERT_EQ(cni_cache_read(&c, &w->root, "/cni", NULL), 0);
	ASSERT_EQ(c.n, 0);
	ASSERT_EQ(c.n_dirs, 0);
	put(w, "results", "rail-c2-net1", b);
	put(w, "results", ".rail-c2-net1.01234567.tmp", "{");
	put(w, "multus/results", "rail-c1-net1", a);
	put(w, "multus", "c1", "[");
	ASSERT_EQ(cni_cache_read(&c, &w->root, "/cni", NULL), 0);
	ASSERT_EQ(c.n, 4);
	ASSERT_EQ(c.n_dirs, 2);
	at = cni_cache_find(&c, "t", "b");
	ASSERT_EQ(at, 2);
	ASSERT_STR_EQ(c.v[at].file, "/cni/results/rail-c2-net1");
	ASSERT_EQ(cni_cache_find(&c, "t", "a"), 0);
	ASSERT_STR_EQ(c.v[0].file, "/cni/multus/results/rail-c1-net1");
	ASSERT_EQ(cni_cache_find(&c, "t", "aa"), c.n);
	ASSERT_EQ(cni_cache_find(&c, "u", "a"), c.n);
}

static void refused(struct t_dir *w, const char *expected)
{
	struct err e = ERR_INIT;
	struct cni_cache c = {0};

	assert_true(cni_cache_read(&c, &w->root, "/cni", &e) < 0);
	if (!strstr(e.text, expected))
		fail_msg("'%s' is not in: %s", expected, e.text);
}

static void test_paths_that_other_users_can_write_and_links_and_fifos_are_refused(void **state)
{
	struct t_dir *w = *state;
	auto_free char *dir = xasprintf("%s/cni/results", w->path);
	auto_free char *file = xasprintf("%s/rail-c1-net1", dir);
	auto_free char *to = xasprintf("%s/elsewhere", w->path);

	put(w, "results", "rail-c1-net1", "{}");
	ASSERT_EQ(chmod(file, 0666), 0);
	refused(w, "/cni/results/rail-c1-net1");
	ASSERT_EQ(unlink(file), 0);
	ASSERT_EQ(mkfifo(file, 0600), 0);
	refused(w, "/cni/results/rail-c1-net1");
	ASSERT_EQ(unlink(file), 0);
	ASSERT_EQ(symlink("/etc/hostname", file), 0);
	refused(w, "/cni/results/rail-c1-net1");
	ASSERT_EQ(unlink(file), 0);
	ASSERT_EQ(chmod(dir, 0777), 0);
	refused(w, "directory '/cni/results' is writable by users other than root");
	ASSERT_EQ(rename(dir, to), 0);
	ASSERT_EQ(symlink("/elsewhere", dir), 0);
	refused(w, "/cni/results");
}

static void test_too_large_cache_files_are_refused(void **state)
{
	struct t_dir *w = *state;
	auto_free char *dir = xasprintf("%s/cni/results", w->path);
	auto_free char *file = xasprintf("%s/big", dir);
	auto_buf struct buf b;

	put(w, "results", "big", "{}");
	ASSERT_EQ(truncate(file, CNI_CACHE_FILE_MAX + 1), 0);
	refused(w, "/cni/results/big");
	buf_init(&b, CNI_CACHE_FILE_MAX);
	buf_printf(&b, "{\"ips\":[");
	for (int i = 0; i <= CNI_CACHE_ADDRESSES_MAX; i++)
		buf_printf(&b, "%s{\"address\":\"10.0.0.1\"}", i ? "," : "");
	buf_printf(&b, "]}");
	ASSERT_EQ(file_replace(&w->root, "/cni/results/big", buf_span(&b), 0600, NULL), 0);
	refused(w, "more than 65536 addresses");
}

#define CASE(f) cmocka_unit_test_setup_teardown(f, t_dir_setup, t_dir_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_cache_files_of_unirail_cni_are_read),
		cmocka_unit_test(test_only_addresses_of_spiderpool_ipam_count_as_allocated),
		cmocka_unit_test(test_cache_files_of_other_programs_are_read),
		CASE(test_invalid_cache_files_are_errors),
		CASE(test_libcni_and_multus_directories_are_read),
		CASE(test_paths_that_other_users_can_write_and_links_and_fifos_are_refused),
		CASE(test_too_large_cache_files_are_refused),
	};

	return T_RUN(tests, NULL, NULL);
}
