/* SPDX-License-Identifier: Apache-2.0 */
#include "testlib.h"

#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "block/codec.h"
#include "ipam_lab.h"

static int read_text(const char *text, struct block_object *o, struct err *e)
{
	auto_json struct json_doc *d = NULL;

	ASSERT_EQ(json_parse(&d, span_of(text), 1 << 16, NULL), 0);
	return block_object_read(json_root(d), o, e);
}

static void test_block_object_is_decoded(void **state)
{
	struct block_object o;
	struct err e = ERR_INIT;
	char net[IP_TEXT_MAX];

	(void)state;
	ASSERT_EQ(
		read_text(
			"{\"metadata\":{\"name\":\"p-1\",\"uid\":\"u\",\"resourceVersion\":\"7\"},"
			"\"spec\":{\"pool\":\"p\",\"cidr\":\"10.0.0.16/28\",\"node\":\"n1\","
			"\"claim\":\"c-1\",\"released\":{\"10.0.0.17\":\"*\",\"10.0.0.18\":\"n2/t\"},"
			"\"requested\":{\"n3@*\":4,\"n4@*\":-1}}}",
			&o, &e),
		0);
	ASSERT_STR_EQ(o.name, "p-1");
	ASSERT_STR_EQ(o.version, "7");
	ASSERT_STR_EQ(ipnet_str(&o.net, net), "10.0.0.16/28");
	ASSERT_EQ(o.n_released, 2);
	ASSERT_STR_EQ(o.released[1].to, "n2/t");
	ASSERT_EQ(o.n_requested, 1);
	ASSERT_EQ(o.requested[0].count, 4);
	assert_false(o.reports);
	ASSERT_EQ(block_unreleased(&o), 14);
	ASSERT_EQ(block_spare(&o), 14);
	block_object_done(&o);
}

/* The owner can remove a request only by its exact key, so a key that does not fit is not
 * truncated. */
static void test_request_with_a_key_that_is_too_long_is_ignored(void **state)
{
	(void)state;
	for (int n = 0; n < 2; n++) {
		auto_free char *text = xasprintf(
			"{\"metadata\":{\"name\":\"p-1\",\"uid\":\"u\",\"resourceVersion\":\"7\"},"
			"\"spec\":{\"pool\":\"p\",\"cidr\":\"10.0.0.16/28\",\"node\":\"n1\",\"claim\":\"c\","
			"\"released\":{},\"requested\":{\"n2@%0*d\":1}}}",
			BLOCK_REQUESTED_MAX - 4 + n, 0);
		struct block_object o;

		ASSERT_EQ_MSG(read_text(text, &o, NULL), 0, "n %d", n);
		ASSERT_EQ_MSG(o.n_requested, n == 0, "n %d", n);
		block_object_done(&o);
	}
}

static void test_reported_unavailable_addresses_limit_free_capacity(void **state)
{
	static const struct {
		const char *unavailable;
		bool reports;
		uint32_t spare;
	} v[] = {{"0", true, 15},
		 {"9", true, 6},
		 {"16", true, 0},
		 {"-1", false, 15},
		 {"\"9\"", false, 15}};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(v); i++) {
		auto_free char *text = xasprintf(
			"{\"metadata\":{\"name\":\"p-1\",\"uid\":\"u\",\"resourceVersion\":\"7\"},"
			"\"spec\":{\"pool\":\"p\",\"cidr\":\"10.0.0.16/28\",\"node\":\"n1\",\"claim\":\"c\","
			"\"released\":{\"10.0.0.17\":\"?\"},\"requested\":{},\"unavailable\":%s}}",
			v[i].unavailable);
		struct block_object o;

		ASSERT_EQ_MSG(read_text(text, &o, NULL), 0, "v[%zu]", i);
		ASSERT_EQ_MSG(o.reports, v[i].reports, "v[%zu]", i);
		ASSERT_EQ_MSG(block_spare(&o), v[i].spare, "v[%zu]", i);
		block_object_done(&o);
	}
}

static void test_invalid_block_object_is_refused(void **state)
{
	static const struct {
		const char *text, *says;
	} bad[] = {
		{"{}", "metadata.name"},
		{"{\"metadata\":{\"name\":\"p-1\",\"uid\":\"u\",\"resourceVersion\":\"7\"},"
		 "\"spec\":{\"pool\":\"p\",\"node\":\"\",\"claim\":\"\",\"cidr\":\"10.0.0.17/28\"}}",
		 "SpiderIPBlock 'p-1': spec.cidr"},
		{"{\"metadata\":{\"name\":\"p-1\",\"uid\":\"u\",\"resourceVersion\":\"7\"},"
		 "\"spec\":{\"pool\":\"p\",\"node\":\"\",\"claim\":\"\",\"cidr\":\"10.0.0.16/28\","
		 "\"released\":{\"ten\":\"*\"}}}",
		 "'ten' is not an address"},
		{"{\"metadata\":{\"name\":\"p-1\",\"uid\":\"u\",\"resourceVersion\":\"7\"},"
		 "\"spec\":{\"pool\":\"p\",\"node\":\"\",\"claim\":\"\",\"cidr\":\"10.0.0.16/28\"}}",
		 "spec.released"},
	};
	struct block_object o;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct err e = ERR_INIT;

		ASSERT_EQ_MSG(read_text(bad[i].text, &o, &e), -EINVAL, "bad[%zu]", i);
		ASSERT_HAS(e.text, bad[i].says);
	}
}

static void test_node_name_becomes_a_label_of_at_most_63_characters(void **state)
{
	char text[BLOCK_LABEL_MAX], name[200];

	(void)state;
	ASSERT_STR_EQ(block_label("node-1.example", text), "node-1.example");
	memset(name, 'n', sizeof(name) - 1);
	name[sizeof(name) - 1] = '\0';
	ASSERT_EQ(strlen(block_label(name, text)), 63);
	name[100] = 'x';
	assert_string_not_equal(block_label(name, (char[BLOCK_LABEL_MAX]){0}), text);
}

static void assert_request(const struct block_op *op, const char *method, const char *path,
			   const char *body)
{
	struct block_request q;

	block_request(op, "n1", "nu", &q);
	ASSERT_STR_EQ(q.method, method);
	ASSERT_STR_EQ(q.path.p, path);
	ASSERT_STR_EQ(q.body.len ? q.body.p : "", body);
	block_request_done(&q);
}

static struct block_op an_op(enum block_op_kind kind)
{
	struct block_op op = {.kind = kind,
			      .name = "p-1",
			      .pool = "p",
			      .net = t_net("10.0.0.16/28"),
			      .uid = "u",
			      .version = "7",
			      .token = "c-1",
			      .ip = t_ip("10.0.0.17")};

	return op;
}

#define ONE BLOCK_PATH "/p-1"
#define AT7 "{\"op\":\"test\",\"path\":\"/metadata/resourceVersion\",\"value\":\"7\"}"

static void test_create_request_has_owner_and_entries(void **state)
{
	struct block_op op = an_op(OP_CREATE);
	struct ipaddr ips[] = {t_ip("10.0.0.20")};

	(void)state;
	assert_request(
		&op, "POST", BLOCK_PATH,
		"{\"apiVersion\":\"unirail.io/v1\",\"kind\":\"SpiderIPBlock\",\"metadata\":{"
		"\"name\":\"p-1\",\"labels\":{\"unirail.io/node\":\"n1\",\"unirail.io/pool\":"
		"\"p\"}},\"spec\":{\"pool\":\"p\",\"cidr\":\"10.0.0.16/28\",\"node\":\"n1\","
		"\"nodeUID\":\"nu\",\"claim\":\"c-1\",\"released\":{},\"requested\":{}}}");
	op.ips = ips;
	op.n_ips = 1;
	strcpy(op.to, "?");
	assert_request(
		&op, "POST", BLOCK_PATH,
		"{\"apiVersion\":\"unirail.io/v1\",\"kind\":\"SpiderIPBlock\",\"metadata\":{"
		"\"name\":\"p-1\",\"labels\":{\"unirail.io/node\":\"n1\",\"unirail.io/pool\":"
		"\"p\"}},\"spec\":{\"pool\":\"p\",\"cidr\":\"10.0.0.16/28\",\"node\":\"n1\","
		"\"nodeUID\":\"nu\",\"claim\":\"c-1\",\"released\":{\"10.0.0.20\":\"?\"},"
		"\"requested\":{}}}");
}

static void test_requests_bound_to_a_version_contain_the_resource_version(void **state)
{
	struct block_op op = an_op(OP_DELETE);
	struct ipaddr ips[] = {t_ip("10.0.0.20"), t_ip("10.0.0.21")};

	(void)state;
	assert_request(
		&op, "DELETE", ONE,
		"{\"apiVersion\":\"v1\",\"kind\":\"DeleteOptions\",\"preconditions\":{\"uid\":"
		"\"u\",\"resourceVersion\":\"7\"}}");
	op = an_op(OP_TAKE_OVER);
	assert_request(&op, "PATCH", ONE,
		       "[" AT7 ",{\"op\":\"test\",\"path\":\"/spec/node\",\"value\":\"-\"},"
		       "{\"op\":\"replace\",\"path\":\"/spec/node\",\"value\":\"n1\"},"
		       "{\"op\":\"add\",\"path\":\"/spec/nodeUID\",\"value\":\"nu\"},"
		       "{\"op\":\"replace\",\"path\":\"/spec/claim\",\"value\":\"c-1\"},"
		       "{\"op\":\"add\",\"path\":\"/metadata/labels/unirail.io~1node\",\"value\":"
		       "\"n1\"}]");
	op = an_op(OP_DISOWN);
	assert_request(&op, "PATCH", ONE,
		       "[" AT7 ",{\"op\":\"replace\",\"path\":\"/spec/node\",\"value\":\"-\"},"
		       "{\"op\":\"add\",\"path\":\"/spec/nodeUID\",\"value\":\"-\"},"
		       "{\"op\":\"replace\",\"path\":\"/spec/claim\",\"value\":\"-\"},"
		       "{\"op\":\"remove\",\"path\":\"/metadata/labels/unirail.io~1node\"}]");
	op = an_op(OP_RELEASE);
	op.ips = ips;
	op.n_ips = 2;
	strcpy(op.to, "*");
	strcpy(op.request_of, "n2@*");
	assert_request(&op, "PATCH", ONE,
		       "[" AT7
		       ",{\"op\":\"add\",\"path\":\"/spec/released/10.0.0.20\",\"value\":\"*\"},"
		       "{\"op\":\"add\",\"path\":\"/spec/released/10.0.0.21\",\"value\":\"*\"},"
		       "{\"op\":\"remove\",\"path\":\"/spec/requested/n2@*\"}]");
	op.n_ips = 0;
	op.report = true;
	assert_request(&op, "PATCH", ONE,
		       "[" AT7 ",{\"op\":\"add\",\"path\":\"/spec/unavailable\",\"value\":0},"
		       "{\"op\":\"remove\",\"path\":\"/spec/requested/n2@*\"}]");
	op = an_op(OP_ASSERT);
	op.ips = ips;
	op.n_ips = 1;
	strcpy(op.to, "n1/c-2");
	assert_request(
		&op, "PATCH", ONE,
		"[" AT7
		",{\"op\":\"add\",\"path\":\"/spec/released/10.0.0.20\",\"value\":\"n1/c-2\"}]");
	op = an_op(OP_ADOPT);
	assert_request(&op, "PATCH", ONE,
		       "[" AT7 ",{\"op\":\"replace\",\"path\":\"/spec/node\",\"value\":\"n1\"},"
		       "{\"op\":\"add\",\"path\":\"/spec/nodeUID\",\"value\":\"nu\"},"
		       "{\"op\":\"replace\",\"path\":\"/spec/claim\",\"value\":\"c-1\"},"
		       "{\"op\":\"add\",\"path\":\"/metadata/labels/unirail.io~1node\",\"value\":"
		       "\"n1\"}]");
	op = an_op(OP_TOUCH);
	assert_request(&op, "PATCH", ONE,
		       "{\"metadata\":{\"resourceVersion\":\"7\",\"annotations\":{"
		       "\"unirail.io/seen\":\"7\"}}}");
}

static void test_changes_of_entries_test_the_previous_value(void **state)
{
	struct block_op op = an_op(OP_BORROW);
	struct ipaddr two[] = {t_ip("10.0.0.17"), t_ip("10.0.0.20")};

	(void)state;
	op.ips = two;
	op.n_ips = 2;
	strcpy(op.from, "*");
	strcpy(op.to, "n1/c-1");
	assert_request(
		&op, "PATCH", ONE,
		"[{\"op\":\"test\",\"path\":\"/spec/released/10.0.0.17\",\"value\":\"*\"},"
		"{\"op\":\"test\",\"path\":\"/spec/released/10.0.0.20\",\"value\":\"*\"},"
		"{\"op\":\"replace\",\"path\":\"/spec/released/10.0.0.17\",\"value\":\"n1/c-1\"},"
		"{\"op\":\"replace\",\"path\":\"/spec/released/10.0.0.20\",\"value\":\"n1/c-1\"}]");
	op = an_op(OP_RETURN);
	strcpy(op.from, "n1/c-1");
	assert_request(
		&op, "PATCH", ONE,
		"[{\"op\":\"test\",\"path\":\"/spec/released/10.0.0.17\",\"value\":\"n1/c-1\"},"
		"{\"op\":\"remove\",\"path\":\"/spec/released/10.0.0.17\"}]");
	op = an_op(OP_REQUEST);
	op.count = 3;
	op.ip = (struct ipaddr){0};
	assert_request(&op, "PATCH", ONE,
		       "[{\"op\":\"add\",\"path\":\"/spec/requested/n1@*\",\"value\":3}]");
	op.count = 1;
	ASSERT_EQ(ip_parse(span_of("fd00::5"), &op.ip), 0);
	assert_request(&op, "PATCH", ONE,
		       "[{\"op\":\"add\",\"path\":\"/spec/requested/n1@fd00::5\",\"value\":1}]");
	op = an_op(OP_LIST);
	assert_request(&op, "GET", BLOCK_PATH "?labelSelector=unirail.io%2Fpool%3Dp&limit=500", "");
}

static void test_outcome_of_a_request_follows_from_its_http_status(void **state)
{
	(void)state;
	ASSERT_EQ(block_outcome_of(OP_CREATE, 201), BLOCK_OK);
	ASSERT_EQ(block_outcome_of(OP_CREATE, 409), BLOCK_REFUSED);
	/* The request is not valid: the response does not report whether the object exists. */
	ASSERT_EQ(block_outcome_of(OP_CREATE, 422), BLOCK_UNKNOWN);
	ASSERT_EQ(block_outcome_of(OP_BORROW, 422), BLOCK_REFUSED);
	ASSERT_EQ(block_outcome_of(OP_READ, 404), BLOCK_ABSENT);
	/* 404 for OP_CREATE: the CustomResourceDefinition is not installed. 500, or 0 (no
	 * response): the request may have been executed. In each case the state of the block is
	 * unknown. */
	ASSERT_EQ(block_outcome_of(OP_CREATE, 404), BLOCK_UNKNOWN);
	ASSERT_EQ(block_outcome_of(OP_DELETE, 500), BLOCK_UNKNOWN);
	ASSERT_EQ(block_outcome_of(OP_DELETE, 0), BLOCK_UNKNOWN);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_block_object_is_decoded),
		cmocka_unit_test(test_invalid_block_object_is_refused),
		cmocka_unit_test(test_request_with_a_key_that_is_too_long_is_ignored),
		cmocka_unit_test(test_reported_unavailable_addresses_limit_free_capacity),
		cmocka_unit_test(test_node_name_becomes_a_label_of_at_most_63_characters),
		cmocka_unit_test(test_create_request_has_owner_and_entries),
		cmocka_unit_test(test_requests_bound_to_a_version_contain_the_resource_version),
		cmocka_unit_test(test_changes_of_entries_test_the_previous_value),
		cmocka_unit_test(test_outcome_of_a_request_follows_from_its_http_status),
	};

	return T_RUN(tests, NULL, NULL);
}
