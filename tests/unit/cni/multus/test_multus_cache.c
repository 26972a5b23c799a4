/* SPDX-License-Identifier: Apache-2.0 */
#include "testlib.h"

#include <string.h>

#include "base/alloc.h"
#include "cni/multus/cache.h"

/* {"cniVersion":"0.3.1","name":"podnet","plugins":[{"type":"ptp"}]} */
#define LIST_BYTES                                                                                 \
	"eyJjbmlWZXJzaW9uIjoiMC4zLjEiLCJuYW1lIjoicG9kbmV0IiwicGx1Z2lucyI6W3sidHlwZSI6InB0cCJ9XX0="
#define LIST_CONF "{\"cniVersion\":\"0.3.1\",\"name\":\"podnet\",\"plugins\":[{\"type\":\"ptp\"}]}"
/* {"name":"rail0","type":"macvlan"} */
#define ONE_BYTES "eyJuYW1lIjoicmFpbDAiLCJ0eXBlIjoibWFjdmxhbiJ9"
#define ONE_CONF  "{\"name\":\"rail0\",\"type\":\"macvlan\"}"

/* The format of Multus' development version: Conf and ConfList contain only the keys common to
 * all plugins, Bytes contains the whole configuration in base64. */
static const char head[] =
	"[{\"Conf\":{\"ipam\":{},\"dns\":{}},\"ConfList\":{\"cniVersion\":\"0.3.1\",\"name\":"
	"\"podnet\",\"plugins\":[{\"type\":\"ptp\",\"ipam\":{},\"dns\":{}}]},\"Name\":\"podnet\","
	"\"IsFilterV4Gateway\":false,\"IsFilterV6Gateway\":false,\"Bytes\":\"" LIST_BYTES "\"},"
	"{\"Conf\":{\"name\":\"rail0\",\"type\":\"macvlan\",\"ipam\":{},\"dns\":{}},\"ConfList\":"
	"{\"plugins\":null},\"Name\":\"team/rail0\",\"ifnameRequest\":\"rdma0\",\"macRequest\":"
	"\"02:00:00:00:00:01\",\"ipRequest\":[\"10.0.0.5/24\"],\"default-route\":[\"10.0.0.1\"],"
	"\"IsFilterV4Gateway\":true,\"IsFilterV6Gateway\":true,\"deviceID\":\"0000:3b:02.0\","
	"\"resourceName\":\"nvidia.com/rail0\",\"Bytes\":\"" ONE_BYTES "\"}]";

/* The format of Multus 4.3.0, which has the object CNINetworkConfigList as well. */
static const char v4_3_0[] =
	"[{\"Conf\":{\"cniVersion\":\"0.3.1\",\"name\":\"rail0\",\"type\":\"macvlan\",\"ipam\":{},"
	"\"dns\":{}},\"ConfList\":{\"dns\":{},\"plugins\":null},\"CNINetworkConfigList\":"
	"{\"Name\":\"\",\"CNIVersion\":\"\",\"DisableCheck\":false,\"DisableGC\":false,"
	"\"LoadOnlyInlinedPlugins\":false,\"Plugins\":null,\"Bytes\":null},\"Name\":\"rail0\","
	"\"IsFilterV4Gateway\":false,\"IsFilterV6Gateway\":false,\"Bytes\":\"" ONE_BYTES "\"}]";

static void is(const struct multus_delegate *d, const char *name, const char *ifname,
	       const char *conf)
{
	ASSERT_STR_EQ(d->name, name);
	if (ifname)
		ASSERT_STR_EQ(d->ifname, ifname);
	else
		assert_null(d->ifname);
	assert_non_null(d->conf);
	ASSERT_STR_EQ(d->conf, conf);
	ASSERT_EQ(d->conf_len, strlen(conf));
}

static void test_delegates_of_the_multus_development_version_are_read(void **state)
{
	struct multus_delegate *list;
	size_t n;

	(void)state;
	ASSERT_EQ(multus_delegates_parse(span_of(head), &list, &n, NULL), 0);
	ASSERT_EQ(n, 2);
	is(&list[0], "podnet", NULL, LIST_CONF);
	assert_null(list[0].device_id);
	is(&list[1], "team/rail0", "rdma0", ONE_CONF);
	ASSERT_STR_EQ(list[1].device_id, "0000:3b:02.0");
	multus_delegates_free(list, n);
}

static void test_delegates_of_multus_4_3_0_are_read(void **state)
{
	struct multus_delegate *list;
	size_t n;

	(void)state;
	ASSERT_EQ(multus_delegates_parse(span_of(v4_3_0), &list, &n, NULL), 0);
	ASSERT_EQ(n, 1);
	is(&list[0], "rail0", NULL, ONE_CONF);
	multus_delegates_free(list, n);
}

/* A power failure may truncate the file anywhere (multus-cni#1087). */
static void test_truncated_delegates_file_is_an_error(void **state)
{
	struct multus_delegate *list = NULL;
	size_t n = 7;

	(void)state;
	for (size_t len = 0; len < sizeof(head) - 1; len++) {
		struct err e = ERR_INIT;
		char *copy = span_dup((struct span){head, len});

		assert_true(multus_delegates_parse(span_of(copy), &list, &n, &e) < 0);
		assert_true(e.text[0] != '\0');
		cleanup_free(&copy);
	}
	assert_null(list);
	ASSERT_EQ(n, 7);
}

static void test_delegates_file_must_be_a_list(void **state)
{
	static const char *const texts[] = {"{}", "null", "5", "\"x\"", "[] x"};
	struct multus_delegate *list;
	size_t n;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(texts); i++)
		assert_true(multus_delegates_parse(span_of(texts[i]), &list, &n, NULL) < 0);
	ASSERT_EQ(multus_delegates_parse(span_of("[]"), &list, &n, NULL), 0);
	ASSERT_EQ(n, 0);
	multus_delegates_free(list, n);
}

/* A delegate that cannot be read stays in the list without a configuration, so that the
 * positions of the others are unchanged. */
static void test_unreadable_delegate_stays_in_the_list_without_configuration(void **state)
{
	static const char text[] =
		"[5,{\"Name\":\"a\",\"Bytes\":\"e30\"},{\"Name\":\"b\",\"Bytes\":\"e3?=\"},"
		"{\"Name\":\"c\",\"Bytes\":null},{\"Name\":7,\"Bytes\":\"e30=\"},"
		"{\"Name\":\"d\",\"Bytes\":\"====\"},{\"Name\":\"e\",\"bytes\":\"e30=\"}]";
	struct multus_delegate *list;
	size_t n;

	(void)state;
	ASSERT_EQ(multus_delegates_parse(span_of(text), &list, &n, NULL), 0);
	ASSERT_EQ(n, 7);
	for (size_t i = 0; i < 6; i++)
		if (i != 4)
			assert_null(list[i].conf);
	ASSERT_STR_EQ(list[2].name, "b");
	is(&list[6], "e", NULL, "{}");
	multus_delegates_free(list, n);
}

static const char cached[] =
	"{\"kind\":\"cniCacheV1\",\"containerId\":\"c-1\",\"config\":\"" ONE_BYTES "\",\"ifName\":"
	"\"net1\",\"networkName\":\"rail0\",\"netns\":\"/run/netns/p\",\"cniArgs\":[[\"IgnoreUnknown\","
	"\"true\"]],\"capabilityArgs\":{\"mac\":\"02:00:00:00:00:01\"},\"result\":{\"cniVersion\":"
	"\"1.0.0\",\"ips\":[{\"address\":\"10.0.0.5/24\"}]}}";

static void test_libcni_cache_file_is_read(void **state)
{
	struct libcni_cached c;

	(void)state;
	ASSERT_EQ(libcni_cached_parse(span_of(cached), &c, NULL), 0);
	ASSERT_STR_EQ(c.container_id, "c-1");
	ASSERT_STR_EQ(c.network, "rail0");
	ASSERT_STR_EQ(c.ifname, "net1");
	ASSERT_STR_EQ(c.conf, ONE_CONF);
	ASSERT_EQ(json_len(json_get(c.result, "ips")), 1);
	ASSERT_STR_EQ(json_string(json_get(c.runtime, "mac")), "02:00:00:00:00:01");
	libcni_cached_done(&c);
}

/* libcni 0.7 wrote only the result. */
static void test_cache_file_of_an_old_libcni_is_read(void **state)
{
	struct libcni_cached c;

	(void)state;
	ASSERT_EQ(libcni_cached_parse(span_of("{\"cniVersion\":\"0.4.0\",\"dns\":{}}"), &c, NULL),
		  0);
	ASSERT_STR_EQ(json_string(json_get(c.result, "cniVersion")), "0.4.0");
	assert_null(c.container_id);
	assert_null(c.conf);
	libcni_cached_done(&c);
}

static void test_invalid_cache_files_are_errors(void **state)
{
	static const char *const texts[] = {"",
					    "[]",
					    "null",
					    "{\"kind\":\"cniCacheV2\"}",
					    "{\"kind\":5}",
					    "{\"kind\":\"cniCacheV1\",\"containerId\":5}"};
	struct libcni_cached c;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
		struct err e = ERR_INIT;

		assert_true(libcni_cached_parse(span_of(texts[i]), &c, &e) < 0);
		assert_true(e.text[0] != '\0');
	}
	for (size_t len = 0; len < sizeof(cached) - 1; len++) {
		char *copy = span_dup((struct span){cached, len});

		assert_true(libcni_cached_parse(span_of(copy), &c, NULL) < 0);
		cleanup_free(&copy);
	}
}

/* Delegates are read as they were written, with configurations of every length modulo 3 (base64
 * padding) and with `keeper`, the name in the netconf of the unirail-cni that wrote them. */
static void test_written_delegates_are_read_again(void **state)
{
	char conf[] =
		"{\"cniVersion\":\"1.0.0\",\"name\":\"n\",\"plugins\":[{\"type\":\"a\",\"ipam\":"
		"{\"type\":\"b\",\"x\":1},\"k\":\"<\"}]}      ";
	size_t least = strlen(conf) - 6;

	(void)state;
	for (size_t len = least; len <= least + 6; len++) {
		const struct multus_entry d = {.name = "n",
					       .keeper = "rails",
					       .ifname = len % 2 ? "net1" : NULL,
					       .args = len % 2 ? "MAC=x" : NULL,
					       .version = len % 2 ? "" : NULL,
					       .conf = {conf, len}};
		struct multus_delegate *list;
		auto_buf struct buf b;
		struct json_out o;
		size_t n;

		buf_init(&b, 1 << 16);
		jo_init(&o, &b, 0);
		jo_arr(&o);
		ASSERT_EQ(multus_delegates_put(&o, &d, NULL), 0);
		jo_end_arr(&o);
		assert_non_null(strstr(b.p, "[{\"Conf\":{},\"ConfList\":{\"cniVersion\":\"1.0.0\","
					    "\"name\":\"n\",\"plugins\":[{\"type\":\"a\",\"ipam\":"
					    "{\"type\":\"b\"},\"dns\":{}}]},\"Name\":\"n\","));
		ASSERT_EQ(multus_delegates_parse(buf_span(&b), &list, &n, NULL), 0);
		ASSERT_EQ(n, 1);
		ASSERT_EQ(list->conf_len, len);
		assert_memory_equal(list->conf, conf, len);
		ASSERT_STR_EQ(list->keeper, "rails");
		assert_true(!list->ifname == !d.ifname && !list->args == !d.args &&
			    !list->version == !d.version);
		if (d.ifname) {
			ASSERT_STR_EQ(list->ifname, "net1");
			ASSERT_STR_EQ(list->args, "MAC=x");
			ASSERT_STR_EQ(list->version, "");
		}
		multus_delegates_free(list, n);
	}
}

/*
 * Keys that unirail adds to those of Multus and libcni are read only if their version is known and
 * their types are right.
 */
static void test_additional_keys_of_unirail_are_validated(void **state)
{
	static const struct {
		const char *state, *args;
	} states[] = {{"{\"version\":1,\"cniArgs\":\"A=1\"}", "A=1"},
		      {"{\"version\":1}", NULL},
		      {"{\"version\":1,\"cniArgs\":7}", NULL},
		      {"{\"version\":2,\"cniArgs\":\"A=1\"}", NULL},
		      {"{\"version\":\"1\",\"cniArgs\":\"A=1\"}", NULL},
		      {"{\"cniArgs\":\"A=1\"}", NULL},
		      {"[1]", NULL},
		      {"null", NULL}};
	struct libcni_cached c;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(states); i++) {
		auto_free char *text =
			xasprintf("[{\"Name\":\"a\",\"unirailState\":%s}]", states[i].state);
		struct multus_delegate *list;
		size_t n;

		ASSERT_EQ_MSG(multus_delegates_parse(span_of(text), &list, &n, NULL), 0,
			      "states[%zu]", i);
		ASSERT_STR_EQ_MSG(list->args ? list->args : "",
				  states[i].args ? states[i].args : "", "states[%zu]", i);
		assert_null(list->version);
		multus_delegates_free(list, n);
	}
	ASSERT_EQ(libcni_cached_parse(span_of("{\"kind\":\"cniCacheV1\",\"result\":{},"
					      "\"unirailResult\":{\"version\":1,"
					      "\"result\":{\"ips\":[]}}}"),
				      &c, NULL),
		  0);
	assert_non_null(json_get(c.full, "ips"));
	libcni_cached_done(&c);
	ASSERT_EQ(libcni_cached_parse(span_of("{\"kind\":\"cniCacheV1\",\"result\":{},"
					      "\"unirailResult\":{\"version\":3,"
					      "\"result\":{}}}"),
				      &c, NULL),
		  0);
	assert_null(c.full);
	libcni_cached_done(&c);
}

static void test_written_cache_file_is_read_again(void **state)
{
	const struct libcni_entry c = {.container_id = "c1",
				       .network = "n",
				       .ifname = "net1",
				       .netns = "/run/netns/x",
				       .args = "A=1;B=x=y;C",
				       .conf = span_of(ONE_CONF),
				       .result = span_of("{\"cniVersion\": \"1.0.0\"}")};
	struct libcni_cached got;
	auto_buf struct buf b;
	struct json_out o;

	(void)state;
	buf_init(&b, 1 << 16);
	jo_init(&o, &b, 0);
	ASSERT_EQ(libcni_cached_put(&o, &c, NULL), 0);
	ASSERT_STR_EQ(b.p,
		      "{\"kind\":\"cniCacheV1\",\"containerId\":\"c1\",\"config\":\"" ONE_BYTES
		      "\",\"ifName\":\"net1\",\"networkName\":\"n\",\"netns\":\"/run/netns/x\","
		      "\"cniArgs\":[[\"A\",\"1\"],[\"B\",\"x=y\"],[\"C\",\"\"]],\"result\":"
		      "{\"cniVersion\":\"1.0.0\"}}");
	ASSERT_EQ(libcni_cached_parse(buf_span(&b), &got, NULL), 0);
	ASSERT_STR_EQ(got.conf, ONE_CONF);
	ASSERT_STR_EQ(got.container_id, "c1");
	libcni_cached_done(&got);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_delegates_of_the_multus_development_version_are_read),
		cmocka_unit_test(test_delegates_of_multus_4_3_0_are_read),
		cmocka_unit_test(test_truncated_delegates_file_is_an_error),
		cmocka_unit_test(test_delegates_file_must_be_a_list),
		cmocka_unit_test(test_unreadable_delegate_stays_in_the_list_without_configuration),
		cmocka_unit_test(test_libcni_cache_file_is_read),
		cmocka_unit_test(test_cache_file_of_an_old_libcni_is_read),
		cmocka_unit_test(test_invalid_cache_files_are_errors),
		cmocka_unit_test(test_written_delegates_are_read_again),
		cmocka_unit_test(test_written_cache_file_is_read_again),
		cmocka_unit_test(test_additional_keys_of_unirail_are_validated),
	};

	return T_RUN(tests, NULL, NULL);
}
