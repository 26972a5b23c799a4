/* SPDX-License-Identifier: Apache-2.0 */
#include "testlib.h"

#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "cni/protocol/cni.h"
#include "cni/protocol/error.h"

static void test_known_keys_of_cni_args_are_read(void **state)
{
	auto_buf struct buf keep;
	struct cni_args a;

	(void)state;
	buf_init(&keep, 4096);
	ASSERT_EQ(cni_args_parse("IgnoreUnknown=1;K8S_POD_NAMESPACE=ns;K8S_POD_NAME=p;"
				 "K8S_POD_INFRA_CONTAINER_ID=abc;K8S_POD_UID=u;IP=10.0.0.1/24;"
				 "MAC=02:00:00:00:00:01;GATEWAY=;X=1;MAC=02:00:00:00:00:02",
				 &a, &keep, NULL),
		  0);
	assert_true(a.ignore_unknown);
	ASSERT_STR_EQ(a.pod_namespace, "ns");
	ASSERT_STR_EQ(a.pod_name, "p");
	ASSERT_STR_EQ(a.infra_container_id, "abc");
	ASSERT_STR_EQ(a.pod_uid, "u");
	ASSERT_STR_EQ(a.ip, "10.0.0.1/24");
	ASSERT_STR_EQ(a.mac, "02:00:00:00:00:02");
	ASSERT_STR_EQ(a.gateway, "");
}

static void test_empty_cni_args_set_nothing(void **state)
{
	auto_buf struct buf keep;
	struct cni_args a = {.ip = "x"};

	(void)state;
	buf_init(&keep, 64);
	ASSERT_EQ(cni_args_parse("", &a, &keep, NULL), 0);
	assert_null(a.ip);
	ASSERT_EQ(cni_args_parse(NULL, &a, &keep, NULL), 0);
}

/* The error texts are those of types.LoadArgs. */
static void test_invalid_cni_args_are_refused(void **state)
{
	static const struct {
		const char *text, *expected;
	} cases[] = {
		{"IP=1;", "ARGS: invalid pair \"\""},
		{"IP", "ARGS: invalid pair \"IP\""},
		{"A=b=c", "ARGS: invalid pair \"A=b=c\""},
		{"K8S_POD=p", "ARGS: unknown args [\"K8S_POD=p\"]"},
		{"mac=1;B=\"\t\x01", "ARGS: unknown args [\"mac=1\" \"B=\\\"\\t\\x01\"]"},
		{"IgnoreUnknown=0;X=1", "ARGS: unknown args [\"X=1\"]"},
		{"IgnoreUnknown=maybe",
		 "ARGS: error parsing value of pair \"IgnoreUnknown=maybe\": boolean unmarshal error: "
		 "invalid input maybe"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct cni_args a = {.mac = "kept"};
		struct err e = ERR_INIT;
		auto_buf struct buf keep;

		buf_init(&keep, 4096);
		ASSERT_EQ_MSG(cni_args_parse(cases[i].text, &a, &keep, &e), -EINVAL, "cases[%zu]",
			      i);
		ASSERT_STR_EQ_MSG(e.text, cases[i].expected, "cases[%zu]", i);
		ASSERT_EQ_MSG(cni_code(&e), 4, "cases[%zu]", i);
		ASSERT_STR_EQ_MSG(a.mac, "kept", "cases[%zu]", i);
	}
}

static void test_too_long_cni_args_are_refused(void **state)
{
	static char text[1 << 20];
	auto_buf struct buf keep;
	struct err e = ERR_INIT;
	struct cni_args a;

	(void)state;
	buf_init(&keep, SIZE_MAX / 2);
	memset(text, 'A', sizeof(text) - 1);
	ASSERT_EQ(cni_args_parse(text, &a, &keep, &e), -E2BIG);
}

static void test_cni_error_codes_survive_wrapping(void **state)
{
	static const unsigned short all[] = {0, 1,  2,	3,  4,	 5,   6,    7,
					     8, 11, 50, 51, 100, 999, 65535};
	struct err e = ERR_INIT;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(all); i++) {
		err_set(&e, -EIO, "x");
		cni_code_set(&e, all[i]);
		err_wrap(&e, -EIO, "outer");
		ASSERT_EQ_MSG(cni_code(&e), all[i], "all[%zu]", i);
	}
	cni_code_set(&e, 11);
	ASSERT_EQ(e.kind, ERR_AGAIN);
	cni_code_set(&e, 1U << 20);
	ASSERT_EQ(cni_code(&e), 999);
}

static void test_error_object_has_code_message_and_details(void **state)
{
	struct err e = ERR_INIT;
	auto_buf struct buf b;

	(void)state;
	buf_init(&b, 4096);
	err_kind(&e, ERR_AGAIN, -EBUSY, "a \"<b>\" c");
	cni_error_print(&e, &b);
	ASSERT_STR_EQ(b.p, "{\n    \"code\": 11,\n    \"msg\": \"a \\\"\\u003cb\\u003e\\\" c\"\n}");
	buf_reset(&b);
	err_details(&e, "more");
	cni_error_print(&e, &b);
	assert_non_null(strstr(b.p, ",\n    \"details\": \"more\"\n}"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_known_keys_of_cni_args_are_read),
		cmocka_unit_test(test_empty_cni_args_set_nothing),
		cmocka_unit_test(test_invalid_cni_args_are_refused),
		cmocka_unit_test(test_too_long_cni_args_are_refused),
		cmocka_unit_test(test_cni_error_codes_survive_wrapping),
		cmocka_unit_test(test_error_object_has_code_message_and_details),
	};

	return T_RUN(tests, NULL, NULL);
}
