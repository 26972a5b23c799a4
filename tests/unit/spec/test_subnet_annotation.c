/* SPDX-License-Identifier: Apache-2.0 */
/* Pools created for applications: requests in pod templates, and names and labels of the pools. */
#include "testlib.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/alloc.h"
#include "spec/subnet_annotation.h"
#include "block/block.h"
#include "spec/annotations.h"

static const struct {
	const char *subnet, *subnets, *number, *reclaim, *is;
} good[] = {
	{"{\"ipv4\":[\"s\"]}", NULL, NULL, NULL, "each eth0=s/- +1 reclaim"},
	{"{\"ipv4\":[\"s\",\"t\"],\"ipv6\":[\"u\"]}", NULL, NULL, NULL, "each eth0=s/u +1 reclaim"},
	{"{\"IPv4\":[\"s\"],\"interface\":\"net1\"}", NULL, "5", "false", "each net1=s/- 5 stays"},
	{"{\"ipv6\":[\"s\"],\"else\":1}", NULL, "+2", "F", "each eth0=-/s +2 stays"},
	{"[{\"ipv4\":[\"s\"]}]", NULL, " 0 ", "1", "each eth0=s/- 0 reclaim"},
	{"[{\"ipv4\":[\"s\"]},{\"interface\":\"n\",\"ipv4\":[\"s\"]}]", NULL, NULL, NULL,
	 "eth0=s/- n=s/- +1 reclaim"},
	{"nonsense",
	 "[{\"interface\":\"a\",\"ipv4\":[\"x\"]},{\"interface\":\"b\",\"ipv6\":[\"y\"]}]", "+0",
	 "T", "a=x/- b=-/y +0 reclaim"},
	{NULL, "{\"interface\":\"a\",\"ipv4\":[\"x\"]}", NULL, NULL, "a=x/- +1 reclaim"},
};

static const struct {
	const char *subnet, *subnets, *number, *reclaim, *word;
} bad[] = {
	{"{", NULL, NULL, NULL, "failed to parse anntation 'ipam.spidernet.io/subnet' value '{'"},
	{"7", NULL, NULL, NULL, "it is 7, expected an object"},
	{"{}", NULL, NULL, NULL, "it names no subnet"},
	{"{\"ipv4\":\"s\"}", NULL, NULL, NULL, "it.ipv4 is \"s\""},
	{"[]", NULL, NULL, NULL, "the list is empty"},
	{NULL, "[{\"ipv4\":[\"s\"]},3]", NULL, NULL, "ipam.spidernet.io/subnets' value"},
	{NULL, "[{\"ipv4\":[\"s\"]},{\"ipv4\":[\"s\"]}]", NULL, NULL,
	 "it's invalid to use the same Interface name for multiple interfaces: eth0"},
	{"{\"ipv4\":[\"s\"]}", NULL, "-1", NULL, "value must equal or greater than 0"},
	{"{\"ipv4\":[\"s\"]}", NULL, "+-1", NULL, "invalid input '+-1'"},
	{"{\"ipv4\":[\"s\"]}", NULL, "", NULL, "invalid input ''"},
	{"{\"ipv4\":[\"s\"]}", NULL, "five", NULL, "invalid input 'five'"},
	{"{\"ipv4\":[\"s\"]}", NULL, NULL, "no", "is 'no', expected \"true\" or \"false\""},
};

static void put(struct labels *l, const char *key, const char *value)
{
	if (value)
		labels_put(l, key, value);
}

static int read_annotations(const char *subnet, const char *subnets, const char *number,
			    const char *reclaim, struct auto_pool_request *w, struct err *e)
{
	struct labels l = {0};
	int r;

	put(&l, ANNOTATION_SUBNET, subnet);
	put(&l, ANNOTATION_SUBNETS, subnets);
	put(&l, ANNOTATION_POOL_NUMBER, number);
	put(&l, ANNOTATION_POOL_RECLAIM, reclaim);
	r = auto_pool_request_read(&l, 1, w, e);
	labels_done(&l);
	return r;
}

static void test_subnet_annotations_become_pool_requests(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(good); i++) {
		struct auto_pool_request w;
		struct err e = ERR_INIT;
		auto_buf struct buf b;

		buf_init(&b, 1000);
		if (read_annotations(good[i].subnet, good[i].subnets, good[i].number,
				     good[i].reclaim, &w, &e) != 1)
			fail_msg("%s: %s", good[i].is, e.text);
		buf_str(&b, w.single ? "each " : "");
		for (size_t k = 0; k < w.n; k++)
			buf_printf(&b, "%s=%s/%s ", w.v[k].ifname,
				   w.v[k].subnet4 ? w.v[k].subnet4 : "-",
				   w.v[k].subnet6 ? w.v[k].subnet6 : "-");
		buf_printf(&b, "%s%u %s", w.fixed ? "" : "+", w.number,
			   w.reclaim ? "reclaim" : "stays");
		ASSERT_STR_EQ_MSG(b.p, good[i].is, "good[%zu]", i);
		auto_pool_request_done(&w);
	}
}

static void test_invalid_subnet_annotations_are_refused(void **state)
{
	struct auto_pool_request w;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct err e = ERR_INIT;

		if (read_annotations(bad[i].subnet, bad[i].subnets, bad[i].number, bad[i].reclaim,
				     &w, &e) >= 0)
			fail_msg("accepted, expected a refusal with '%s'", bad[i].word);
		if (!strstr(e.text, bad[i].word))
			fail_msg("'%s' does not contain '%s'", e.text, bad[i].word);
		ASSERT_EQ_MSG(e.kind, ERR_CONF, "bad[%zu]", i);
	}
	ASSERT_EQ(read_annotations(NULL, NULL, "x", "y", &w, NULL), 0);
}

static void test_at_most_64_interfaces_may_have_a_subnet(void **state)
{
	enum { MOST = 64 };
	struct auto_pool_request w;

	(void)state;
	for (int n = MOST; n <= MOST + 1; n++) {
		auto_buf struct buf b;
		struct err e = ERR_INIT;

		buf_init(&b, 8000);
		for (int i = 0; i < n; i++)
			buf_printf(&b, "%s{\"interface\":\"n%d\",\"ipv4\":[\"s\"]}", i ? "," : "[",
				   i);
		buf_str(&b, "]");
		ASSERT_EQ(read_annotations(NULL, b.p, NULL, NULL, &w, &e), n == MOST ? 1 : -EINVAL);
		if (n == MOST)
			auto_pool_request_done(&w);
		else
			ASSERT_HAS(e.text, "the list has more than 64 interfaces");
	}
}

static struct app_id app(const char *api, const char *kind, const char *name, const char *uid)
{
	return (struct app_id){(char *)api, (char *)kind, (char *)"t", (char *)name, (char *)uid};
}

static void test_pool_names_have_family_application_and_interface(void **state)
{
	struct app_id a =
		app("apps/v1", "Deployment", "web", "6f0f1a2b-1111-2222-3333-ABCDEF012345");
	char name[AUTO_POOL_NAME_MAX + 1], wide[254], block[BLOCK_NAME_MAX + 1];
	char *text;

	(void)state;
	auto_pool_name(&a, "eth0", 4, name);
	ASSERT_STR_EQ(name, "auto4-web-eth0-abcde");
	auto_pool_name(&a, "Net_1", 6, name);
	ASSERT_STR_EQ(name, "auto6-web-net-1-abcde");
	memset(wide, 'x', sizeof(wide) - 1);
	wide[sizeof(wide) - 1] = '\0';
	a.name = wide;
	auto_pool_name(&a, "net1", 4, name);
	ASSERT_EQ(block_name(name, ~(u128)0, block),
		  0); /* the pool name leaves space for the longest block index */
	ASSERT_EQ(strlen(block), AUTO_POOL_NAME_MAX);
	ASSERT_STR_EQ(name + strlen(name) - 12, "x-net1-abcde");
	a.name = (char *)"web";
	a.uid = (char *)"12";
	auto_pool_name(&a, "eth0", 4, name);
	ASSERT_STR_EQ(name, "auto4-web-eth0-12");

	text = app_id_text(&a);
	ASSERT_STR_EQ(text, "apps_v1_Deployment_t_web");
	free(text);
	a.api = (char *)"v1";
	text = app_id_text(&a);
	ASSERT_STR_EQ(text, "v1_Deployment_t_web");
	free(text);
	text = auto_pool_cidr_label("10.6.0.0/16");
	ASSERT_STR_EQ(text, "10-6-0-0-16");
	free(text);
	text = auto_pool_cidr_label("fd00::/64");
	ASSERT_STR_EQ(text, "fd00---64");
	free(text);
	text = auto_pool_api("apps.kruise.io_v1alpha1");
	ASSERT_STR_EQ(text, "apps.kruise.io/v1alpha1");
	free(text);
}

static void test_pool_labels_identify_their_application(void **state)
{
	struct app_id a = app("apps/v1", "StatefulSet", "db", "u"), b = app("v1", "Odd", "db", "u");
	struct labels l = {0};
	char *key;

	(void)state;
	assert_true(app_id_is_known(&a));
	assert_false(app_id_is_known(&b));
	assert_false(app_id_same(&a, &b));
	app_id_labels(&a, &l);
	ASSERT_EQ(l.n, 5);
	ASSERT_STR_EQ(labels_get(&l, "ipam.spidernet.io/app-api-group"), "apps");
	ASSERT_STR_EQ(labels_get(&l, "ipam.spidernet.io/app-api-version"), "v1");
	assert_null(auto_pool_key(&l));
	app_id_labels(&b, &l);
	ASSERT_STR_EQ(labels_get(&l, "ipam.spidernet.io/app-api-group"), "");
	ASSERT_STR_EQ(labels_get(&l, "ipam.spidernet.io/app-api-version"), "v1");
	labels_put(&l, LABEL_OWNER_SUBNET, "s");
	labels_put(&l, LABEL_OWNER_UID, "u");
	labels_put(&l, LABEL_INTERFACE, "eth0");
	key = auto_pool_key(&l);
	ASSERT_STR_EQ(key, "s/u/eth0");
	free(key);
	labels_done(&l);
}

/* A label value has at most 63 characters; the API server refuses longer values. */
static void test_long_application_names_have_distinct_labels(void **state)
{
	static const char name[] =
		"a-very-long-name-of-an-application-that-somebody-made-with-a-chart-x1";
	static const char other[] =
		"a-very-long-name-of-an-application-that-somebody-made-with-a-chart-x2";
	struct app_id a = app("apps/v1", "Deployment", name, "u");
	struct labels l = {0};
	char *key, *of;

	(void)state;
	auto_pool_labels(&a, name, "10.6.0.0/16", "eth0", true, &l);
	ASSERT_EQ(strlen(labels_get(&l, LABEL_OWNER_NAME)), 63);
	ASSERT_EQ(strlen(labels_get(&l, LABEL_OWNER_SUBNET)), 63);
	assert_true(auto_pool_label_is(labels_get(&l, LABEL_OWNER_NAME), name));
	assert_false(auto_pool_label_is(labels_get(&l, LABEL_OWNER_NAME), other));
	assert_false(auto_pool_label_is(NULL, name));
	assert_true(auto_pool_label_is("web", "web"));
	key = auto_pool_key(&l);
	of = auto_pool_key_of(name, "u", "eth0");
	ASSERT_STR_EQ(key, of);
	free(key);
	free(of);
	labels_done(&l);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_subnet_annotations_become_pool_requests),
		cmocka_unit_test(test_invalid_subnet_annotations_are_refused),
		cmocka_unit_test(test_at_most_64_interfaces_may_have_a_subnet),
		cmocka_unit_test(test_pool_names_have_family_application_and_interface),
		cmocka_unit_test(test_pool_labels_identify_their_application),
		cmocka_unit_test(test_long_application_names_have_distinct_labels),
	};

	return T_RUN(tests, NULL, NULL);
}
