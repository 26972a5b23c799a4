/* SPDX-License-Identifier: Apache-2.0 */
/* cli/manifests: unpacking of embedded files, --set, and checks of values. */
#include "testlib.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "cli/manifests/embedded.h"
#include "cli/manifests/render.h"
#include "cli/manifests/values.h"
#include "wire/yaml/yaml.h"

static void test_packed_file_with_an_invalid_length_or_distance_is_refused(void **state)
{
	(void)state;
	static const unsigned char good[] = {2, 'a', 'b', 'c', 128 + 2, 3, 0, 0, 'd'};
	char to[16];

	ASSERT_EQ(embedded_unpack(good, sizeof(good), to, sizeof(to)), 10);
	assert_memory_equal(to, "abcabcabcd", 10);
	/* Refused: each prefix that ends within an element, and each output size that is too
	 * small. */
	for (size_t n = 1; n < sizeof(good); n++)
		if (n != 4 && n != 7)
			ASSERT_EQ(embedded_unpack(good, n, to, sizeof(to)), -EBADMSG);
	for (size_t size = 0; size < 10; size++)
		ASSERT_EQ(embedded_unpack(good, sizeof(good), to, size), -EBADMSG);
	/* Refused: a copy from before the start of the output, and a copy with distance 0. */
	ASSERT_EQ(embedded_unpack((const unsigned char[]){0, 'a', 128, 2, 0}, 5, to, 16), -EBADMSG);
	ASSERT_EQ(embedded_unpack((const unsigned char[]){0, 'a', 128, 0, 0}, 5, to, 16), -EBADMSG);
}

static void test_embedded_files_are_found_by_name(void **state)
{
	(void)state;
	auto_embedded struct embedded d = {0};
	const char *name = NULL;
	int n = 0;

	embedded_open(&d);
	assert_non_null(embedded_text(&d, "rules.yaml"));
	assert_non_null(strstr(embedded_text(&d, "agent.yaml"), "\nkind: DaemonSet\n"));
	assert_null(embedded_text(&d, "agent"));
	while ((name = embedded_next(&d, name)))
		n++;
	assert_true(n > 12);
}

static void set_is(const char *text, const char *want)
{
	auto_tree struct json_tree *t = json_tree_new(JSON_OBJECT);
	struct err e = ERR_INIT;
	auto_buf struct buf b;
	struct json_out o;
	int r;

	buf_init(&b, 4096);
	r = values_add_set(t, text, &e);
	jo_init(&o, &b, 0);
	json_tree_write(t, &o);
	if (want && r < 0)
		fail_msg("%s: %s", text, e.text);
	if (want)
		ASSERT_STR_EQ(b.p, want);
	else
		ASSERT_EQ(r, -EINVAL);
}

static void test_values_of_option_set_are_parsed_and_invalid_ones_refused(void **state)
{
	(void)state;
	set_is("a=b", "{\"a\":\"b\"}");
	set_is("a.b=1,a.c=true,d=", "{\"a\":{\"b\":1,\"c\":true},\"d\":\"\"}");
	set_is("a={x,1,false}", "{\"a\":[\"x\",1,false]}");
	set_is("a={}", "{\"a\":[]}");
	set_is("a\\.b=c\\,d", "{\"a.b\":\"c,d\"}");
	set_is("a[0].b=1,a[0].c=2,a[1].b=3", "{\"a\":[{\"b\":1,\"c\":2},{\"b\":3}]}");
	set_is("a=null", "{\"a\":null}");
	set_is("a=007", "{\"a\":\"007\"}");
	set_is("a=x=y", "{\"a\":\"x=y\"}");
	set_is("a=1,a.b=2", NULL);
	set_is("a[1].b=1", NULL);
	set_is("a[x].b=1", NULL);
	set_is("a[0]", NULL);
	set_is("a[0]=1", NULL);
	set_is("a[99999999].b=1", NULL);
	set_is("a", NULL);
	set_is("", NULL);
	set_is("=", NULL);
	set_is("a={x", NULL);
	set_is("a={x}y", NULL);
	set_is("a=1,", NULL);
	set_is("a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a.a=1", NULL);
}

static const char rules_text[] =
	"rules:\n"
	"- {v: a.b, t: bool, d: true, conf: [agent/x], help: h}\n"
	"- {v: a.text, t: string, d: x, edit: [{in: agent.yaml, find: FIND, put: \"%\"}], help: h}\n"
	"- {v: a.n, t: int, d: 1, min: 1, max: 9, help: h}\n"
	"- {v: a.old, t: int, now: a.n}\n"
	"- {v: a.no, t: bool, d: false, note: because}\n"
	"- {v: names, t: strings, d: [], conf: [agent/names], help: h}\n"
	"- {v: items, t: objects, d: [], help: h}\n"
	"- {v: list, t: objects, d: [], need: name, keys: {name: string, n: {m: int}}, help: h}\n";

static void check_is(const char *values, const char *message)
{
	auto_json struct json_doc *rules = NULL, *doc = NULL;
	struct err e = ERR_INIT;
	auto_buf struct buf b;
	int r;

	buf_init(&b, 1 << 16);
	ASSERT_EQ(yaml_to_json(span_of(rules_text), &b, NULL), 0);
	ASSERT_EQ(json_parse(&rules, buf_span(&b), 1 << 16, NULL), 0);
	ASSERT_EQ(json_parse(&doc, span_of(values), 1 << 16, NULL), 0);
	r = values_check(json_root(doc), json_get(json_root(rules), "rules"), &e);
	if (message && !strstr(e.text, message))
		fail_msg("%s: '%s'", values, e.text);
	ASSERT_EQ(r, message ? -EINVAL : 0);
}

static void test_unknown_or_invalid_values_are_refused(void **state)
{
	(void)state;
	check_is(
		"{\"a\":{\"b\":false,\"text\":\"x:y\",\"n\":9},\"list\":[{\"name\":\"a\",\"n\":{\"m\":1}}]}",
		NULL);
	check_is("{\"a\":null}", NULL);
	check_is("{\"a\":{\"old\":1}}", NULL);
	check_is("{\"a\":{\"bb\":false}}", "value 'a.bb' is unknown; did you mean 'a.b'?");
	check_is("{\"a.b\":false}", "value 'a.b' is unknown");
	check_is("{\"\":1}", "value '' is unknown");
	check_is("{\"a\":[]}", "a is ");
	check_is("{\"a\":{\"b\":1}}", "a.b is 1, expected true or false");
	check_is("{\"a\":{\"n\":10}}", "a.n is 10, expected 1 to 9");
	check_is("{\"a\":{\"text\":\"x: y\"}}", "a.text is \"x: y\", expected letters");
	check_is("{\"a\":{\"text\":\"x\\ny\"}}", "a.text is ");
	check_is("{\"list\":[{}]}", "list[0].name is missing");
	check_is("{\"list\":[1]}", "list[0] is 1, expected an object");
	check_is("{\"list\":[{\"name\":\"a\",\"x\":1}]}", "value 'list[0].x' is unknown");
	check_is("{\"list\":[{\"name\":\"a\",\"n\":1}]}", "list[0].n is 1, expected an object");
	check_is("{\"list\":[{\"name\":\"a/b\"}]}", "list[0].name is missing or invalid");
	check_is("{\"names\":[\"a\",\"10.0.0.0/8\"]}", NULL);
	check_is("{\"names\":[\"a\",null]}", "names[1] is null, expected a text");
	check_is("{\"items\":[{},null]}", "items[1] is null, expected an object");
	check_is("{\"list\":[null]}", "list[0] is null, expected an object");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_packed_file_with_an_invalid_length_or_distance_is_refused),
		cmocka_unit_test(test_embedded_files_are_found_by_name),
		cmocka_unit_test(test_values_of_option_set_are_parsed_and_invalid_ones_refused),
		cmocka_unit_test(test_unknown_or_invalid_values_are_refused),
	};

	return T_RUN(tests, NULL, NULL);
}
