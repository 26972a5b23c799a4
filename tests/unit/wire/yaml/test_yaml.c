/* SPDX-License-Identifier: Apache-2.0 */
/* YAML converted to JSON, and YAML that is refused. */
#include "testlib.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "wire/json/json.h"
#include "wire/yaml/yaml.h"

static int convert(const char *text, size_t n, struct buf *json, struct err *e)
{
	/* An allocated copy, so that ASan detects a read past its end. */
	char *copy = memcpy(xmalloc(n), text, n);
	int r = yaml_to_json((struct span){copy, n}, json, e);

	free(copy);
	return r;
}

static void good(const char *yaml, const char *json)
{
	struct err e = ERR_INIT;
	struct buf b;

	buf_init(&b, 1 << 20);
	if (convert(yaml, strlen(yaml), &b, &e) < 0)
		fail_msg("%s\nis refused: %s", yaml, e.text);
	ASSERT_STR_EQ(b.p, json);
	buf_done(&b);
}

static void bad(const char *yaml, const char *error)
{
	struct err e = ERR_INIT;
	struct buf b;

	buf_init(&b, 1 << 20);
	if (convert(yaml, strlen(yaml), &b, &e) == 0)
		fail_msg("%s\nis converted to %s, expected a refusal", yaml, b.p);
	ASSERT_STR_EQ(e.text, error);
	ASSERT_EQ(e.kind, ERR_DECODE);
	buf_done(&b);
}

static void test_mappings_become_objects(void **state)
{
	(void)state;
	good("a: 1\nb: two\n", "{\"a\":1,\"b\":\"two\"}");
	good("a:\n  b:\n    c: x\n  d: y\ne: z",
	     "{\"a\":{\"b\":{\"c\":\"x\"},\"d\":\"y\"},\"e\":\"z\"}");
	good("a:\nb: \n", "{\"a\":null,\"b\":null}");
	good("\"a b\": 1\n'c': 2\nd e: 3\n", "{\"a b\":1,\"c\":2,\"d e\":3}");
	good("a:   # comment\n  # another\n  b: 1 # third\n", "{\"a\":{\"b\":1}}");
	good("a: b:c\nurl: https://x:1/#y\n", "{\"a\":\"b:c\",\"url\":\"https://x:1/#y\"}");
	good("a : 1\n", "{\"a\":1}");
	good("a: 1\r\nb:\r\n  c: 2\r\n", "{\"a\":1,\"b\":{\"c\":2}}");
	good("\xef\xbb\xbf"
	     "a: 1",
	     "{\"a\":1}");
}

static void test_sequences_become_arrays(void **state)
{
	(void)state;
	good("- 1\n- b\n-\n- - x\n  - y\n", "[1,\"b\",null,[\"x\",\"y\"]]");
	good("a:\n- 1\n- 2\nb: 3\n", "{\"a\":[1,2],\"b\":3}");
	good("a:\n  - 1\n  - 2\nb: 3\n", "{\"a\":[1,2],\"b\":3}");
	good("- name: x\n  v: 1\n-   name: y\n    v:\n    - 2\n",
	     "[{\"name\":\"x\",\"v\":1},{\"name\":\"y\",\"v\":[2]}]");
	good("- -1\n- -x\n", "[-1,\"-x\"]");
}

static void test_scalars_are_typed(void **state)
{
	(void)state;
	good("- ~\n- null\n- true\n- False\n- yes\n- 0x1f\n- 007\n- +1\n- 1.5\n- 1e3\n- -0\n",
	     "[null,null,true,false,\"yes\",\"0x1f\",\"007\",\"+1\",1.5,1000,0]");
	good("- 2026-11-21\n- 1.2.3\n- .5\n- 1.\n- v1\n",
	     "[\"2026-11-21\",\"1.2.3\",\".5\",\"1.\",\"v1\"]");
	good("- 'it''s'\n- \"a\\tb\\u00e9\\x41\\\\\"\n- ''\n- \"\"\n- 'true'\n",
	     "[\"it's\",\"a\\tb\xc3\xa9"
	     "A\\\\\",\"\",\"\",\"true\"]");
	good("\"\\ud83d\\ude00\"", "\"\xf0\x9f\x98\x80\"");
	good("x", "\"x\"");
	good("", "null");
	good("---\n# nothing\n...\nignored: [", "null");
}

static void test_scalars_over_several_lines_are_joined(void **state)
{
	(void)state;
	good("a: one\n  two\n\n  three\nb: 1", "{\"a\":\"one two\\nthree\",\"b\":1}");
	good("a: 'one\n  two'\n", "{\"a\":\"one two\"}");
	good("a: \"one  \n\n  two\\\n  three\\n \"\n", "{\"a\":\"one\\ntwothree\\n \"}");
	good("a:\n  plain\n  words\n", "{\"a\":\"plain words\"}");
}

static void test_block_scalars_are_converted(void **state)
{
	(void)state;
	good("a: |\n  one\n    two\n\n  three\nb: 1",
	     "{\"a\":\"one\\n  two\\n\\nthree\\n\",\"b\":1}");
	good("a: |-\n  one\n\n", "{\"a\":\"one\"}");
	good("a: |+\n  one\n\n", "{\"a\":\"one\\n\\n\"}");
	good("a: >\n  one\n  two\n\n  three\n   deep\n  four\n",
	     "{\"a\":\"one two\\nthree\\n deep\\nfour\\n\"}");
	good("a: |2\n    x\n", "{\"a\":\"  x\\n\"}");
	good("a: |\nb: 1\n", "{\"a\":\"\",\"b\":1}");
	good("- |\n  x\n- y\n", "[\"x\\n\",\"y\"]");
}

static void test_flow_collections_are_converted(void **state)
{
	(void)state;
	good("{}", "{}");
	good("[ ]", "[]");
	good("a: {b: c, 'd': [1, two, {}], \"e\":5}\nf: []\n",
	     "{\"a\":{\"b\":\"c\",\"d\":[1,\"two\",{}],\"e\":5},\"f\":[]}");
	good("{a: 1,\n b: [x,\n   y,],\n}", "{\"a\":1,\"b\":[\"x\",\"y\"]}");
	good("clusters: [{name: t, cluster: {server: \"https://h:1\", certificate-authority: /x}}]",
	     "{\"clusters\":[{\"name\":\"t\",\"cluster\":{\"server\":\"https://h:1\","
	     "\"certificate-authority\":\"/x\"}}]}");
	good("{\"a\":{\"b\":[1,2.5,null,true,\"x\\n\"]}}",
	     "{\"a\":{\"b\":[1,2.5,null,true,\"x\\n\"]}}");
	good("{\n\t\"a\": 1\n}", "{\"a\":1}");
	good("{a: , b: c d}", "{\"a\":null,\"b\":\"c d\"}");
	good("[a b , c]", "[\"a b\",\"c\"]");
}

static void test_mapping_has_at_most_a_thousand_keys(void **state)
{
	struct err e = ERR_INIT;
	struct buf yaml, json;

	(void)state;
	buf_init(&yaml, 1 << 20);
	buf_init(&json, 1 << 20);
	for (int i = 0; i < YAML_KEYS_MAX; i++)
		buf_printf(&yaml, "k%d: 1\n", i);
	ASSERT_EQ(convert(yaml.p, yaml.len, &json, &e), 0);
	buf_printf(&yaml, "one: 1\n");
	bad(yaml.p, "1001:4: more than 1000 keys in one mapping");
	buf_done(&json);
	buf_done(&yaml);
}

static void test_unsupported_yaml_is_refused(void **state)
{
	(void)state;
	bad("a: &x 1", "1:4: anchors ('&') are not supported: repeat the value");
	bad("a: *x", "1:4: aliases ('*') are not supported: repeat the value");
	bad("a: !!str 1", "1:4: tags ('!') are not supported");
	bad("%YAML 1.2\n---\na: 1", "1:1: directives ('%') are not supported; a value that begins "
				    "with this character needs quotes");
	bad("? a\n: b", "1:1: complex keys ('? ') are not supported");
	bad("a: 1\n<<: 2", "2:3: merge keys are not supported: repeat the keys");
	bad("a: 1\n---\nb: 2", "2:1: a second document begins: only one is supported");
	bad("a: @x", "1:4: '@' cannot begin a key or a value without quotes");
	bad("a:\n\tb: 1", "2:1: a tab cannot indent: use spaces");
}

static void test_invalid_yaml_is_refused_with_its_position(void **state)
{
	(void)state;
	bad("a: 1\na: 2", "2:2: duplicate key 'a'");
	bad("a: 1\n\"\\ufffd\": 2\nb\xff: 3", "3:2: byte 0xff is not UTF-8");
	bad("a: b: c", "1:4: a mapping cannot begin in the line of its key");
	bad("a: - b", "1:4: a sequence cannot begin in the line of its key");
	bad("a: 1\n  b: 2", "2:4: ': ' is not allowed in a plain value: put the value into quotes");
	bad("a:\n  b: 1\n c: 2", "3:2: indented by 1, expected 0");
	bad("a:\n    b: 1\n      c: 2\n",
	    "3:8: ': ' is not allowed in a plain value: put the value into quotes");
	bad("a: 1\nb", "2:2: ': ' is missing after a key");
	bad("a: \"x", "1:6: the closing \" is missing");
	bad("a: 'x\nb: 1",
	    "1:6: the closing ' is missing, or the next line is indented too little");
	bad("a: \"\\q\"", "1:7: escape '\\q' is not known");
	bad("a: \"\\u0000\"", "1:7: the escape is NUL or above U+10FFFF");
	bad("a: \"\\ud800\"", "1:11: the escape is half of a surrogate pair");
	bad("a: [1, 2", "1:9: ']' is missing");
	bad("a: {b c}", "1:8: ': ' is missing after a key");
	bad("a: [1}", "1:6: expected ',' or ']' here");
	bad("a: \"x\" y", "1:8: 'y' is not expected here");
	bad("a: |x\n  y", "1:5: unexpected block scalar indicator 'x' after '|'");
	bad("- a\nb: 1", "2:1: 'b' is not expected here");
	bad("a: 1\n- b", "2:1: a sequence in the middle of a mapping");
	bad("a: x\001", "1:5: byte 0x01 is not allowed in text");
	bad("]", "1:1: ']' is not expected here");
}

static void test_too_deep_yaml_is_refused(void **state)
{
	char deep[128];

	(void)state;
	memset(deep, '[', 31);
	deep[31] = '\0';
	bad(deep, "1:31: nested deeper than 30 levels");
}

static void test_value_over_1_mib_is_refused_also_before_another_value(void **state)
{
	static const char *const ends[] = {"\"\n", "\"\nb: 1\n"};
	enum { LENGTH = (1 << 20) + 1 };

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(ends); i++) {
		auto_buf struct buf yaml, json;
		struct err e = ERR_INIT;

		buf_init(&yaml, 4 * LENGTH);
		buf_init(&json, 4 * LENGTH);
		buf_str(&yaml, "a: \"");
		for (int k = 0; k < LENGTH; k++)
			buf_char(&yaml, 'x');
		buf_str(&yaml, ends[i]);
		ASSERT_EQ_MSG(convert(yaml.p, yaml.len, &json, &e), -EFBIG, "ends[%zu]", i);
	}
}

static void test_nul_byte_is_refused(void **state)
{
	struct err e = ERR_INIT;
	struct buf b;

	(void)state;
	buf_init(&b, 100);
	ASSERT_EQ(convert("a: \0", 4, &b, &e), -22);
	ASSERT_STR_EQ(e.text, "1:4: byte 0x00 is not allowed in text");
	buf_done(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_mappings_become_objects),
		cmocka_unit_test(test_sequences_become_arrays),
		cmocka_unit_test(test_scalars_are_typed),
		cmocka_unit_test(test_scalars_over_several_lines_are_joined),
		cmocka_unit_test(test_block_scalars_are_converted),
		cmocka_unit_test(test_flow_collections_are_converted),
		cmocka_unit_test(test_mapping_has_at_most_a_thousand_keys),
		cmocka_unit_test(test_unsupported_yaml_is_refused),
		cmocka_unit_test(test_invalid_yaml_is_refused_with_its_position),
		cmocka_unit_test(test_too_deep_yaml_is_refused),
		cmocka_unit_test(test_value_over_1_mib_is_refused_also_before_another_value),
		cmocka_unit_test(test_nul_byte_is_refused),
	};

	return T_RUN(tests, NULL, NULL);
}
