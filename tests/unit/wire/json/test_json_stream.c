/* SPDX-License-Identifier: Apache-2.0 */
/* Lists and streams are split into the same pieces wherever the input is divided. */
#include "testlib.h"

#include <stdio.h>
#include <string.h>

#include <errno.h>
#include <stdlib.h>

#include "wire/json/stream.h"

static int run(enum json_split_mode mode, const char *text, size_t first, size_t step, size_t max,
	       struct buf *out, struct err *e)
{
	struct json_split s;
	size_t at = 0, n = strlen(text);
	int r = 0;

	json_split_init(&s, mode, max);
	while (r >= 0 && at < n) {
		size_t len = at == 0 && first ? first : step;
		struct span in = {text + at, len < n - at ? len : n - at}, piece;
		bool item;

		at += in.n;
		while ((r = json_split_in(&s, &in, &piece, &item, e)) > 0)
			buf_printf(out, "%s<%.*s>", item ? "" : "list", (int)piece.n, piece.p);
		assert_true(r < 0 || in.n == 0);
	}
	buf_printf(out, "%s", json_split_is_whole(&s) ? "." : "...");
	if (r < 0)
		ASSERT_EQ(json_split_in(&s, &(struct span){"x", 1}, &(struct span){0},
					&(bool){false}, e),
			  r);
	json_split_done(&s);
	return r;
}

static void check(enum json_split_mode mode, const char *text, const char *want)
{
	for (size_t cut = 0; cut <= strlen(text); cut++) {
		struct err e = ERR_INIT;
		struct buf out;
		int r;

		buf_init(&out, 1 << 16);
		/* cut 0: byte by byte; otherwise in two parts, divided at `cut` */
		r = run(mode, text, cut, cut ? strlen(text) : 1, 4096, &out, &e);
		if (r < 0)
			buf_printf(&out, "!%s", e.text);
		ASSERT_STR_EQ(out.p, want);
		buf_done(&out);
	}
}

static void test_list_is_split_into_items(void **state)
{
	(void)state;
	check(JSON_SPLIT_LIST,
	      "{\"kind\":\"L\",\"items\":[{\"a\":[1,2]}, {\"b\":\"]},{\"}],\"metadata\":{}}",
	      "<{\"a\":[1,2]}><{\"b\":\"]},{\"}>list<{\"kind\":\"L\",\"items\":[],\"metadata\":{}}>.");
	check(JSON_SPLIT_LIST, "{\"items\":[]}", "list<{\"items\":[]}>.");
	check(JSON_SPLIT_LIST, "{\"items\":null,\"x\":\"items\"}",
	      "list<{\"items\":null,\"x\":\"items\"}>.");
	check(JSON_SPLIT_LIST, " { \"items\" : [ 1 ,\n\"a\\\"b\" ] }\n",
	      "<1 ><\"a\\\"b\" >list<{ \"items\" : [] }>.");
	/* Only the array that the list object itself has under the key "items" is split, not an
	 * array in a nested object or after a string "items". */
	check(JSON_SPLIT_LIST,
	      "{\"metadata\":{\"items\":[1]},\"a\":[\"items\",[2]],\"b\":\"items\"}",
	      "list<{\"metadata\":{\"items\":[1]},\"a\":[\"items\",[2]],\"b\":\"items\"}>.");
	check(JSON_SPLIT_LIST, "{\"b\":\"items\",\"c\":[3]}", "list<{\"b\":\"items\",\"c\":[3]}>.");
}

static void test_malformed_lists_are_errors(void **state)
{
	(void)state;
	check(JSON_SPLIT_LIST, "{\"items\":[{\"a\":1},{\"b\":", "<{\"a\":1}>...");
	check(JSON_SPLIT_LIST, "{\"items\":[1,]}",
	      "<1>...!the answer is not a JSON list: a comma with nothing after it");
	check(JSON_SPLIT_LIST, "{\"items\":[,1]}",
	      "...!the answer is not a JSON list: a comma with nothing before it");
	check(JSON_SPLIT_LIST, "{\"items\":[1}",
	      "...!the answer is not a JSON list: unbalanced brackets");
	check(JSON_SPLIT_LIST, "[]", "...!the answer is not a JSON list: not an object");
	check(JSON_SPLIT_LIST, "<html>", "...!the answer is not a JSON list: not an object");
	check(JSON_SPLIT_LIST, "{} {",
	      "list<{}>.!the answer is not a JSON list: data after the end of the object");
}

static void test_stream_is_split_into_objects(void **state)
{
	(void)state;
	check(JSON_SPLIT_STREAM, "{\"type\":\"ADDED\",\"object\":{\"a\":\"}\"}}\n{\"b\":[{}]}\n",
	      "<{\"type\":\"ADDED\",\"object\":{\"a\":\"}\"}}><{\"b\":[{}]}>.");
	check(JSON_SPLIT_STREAM, "{}{}", "<{}><{}>.");
	check(JSON_SPLIT_STREAM, "{\"a\":\"\\\\\"}\n{\"a", "<{\"a\":\"\\\\\"}>...");
	check(JSON_SPLIT_STREAM, "\n\n", ".");
	check(JSON_SPLIT_STREAM, "{}x", "<{}>.!the answer is not a JSON stream: not an object");
}

static void test_too_long_pieces_are_refused(void **state)
{
	struct err e = ERR_INIT;
	struct buf out;

	(void)state;
	buf_init(&out, 1 << 16);
	ASSERT_EQ(run(JSON_SPLIT_STREAM, "{\"a\":\"0123456789\"}", 0, 3, 10, &out, &e), -EFBIG);
	ASSERT_STR_EQ(e.text, "an object of the answer is longer than 10 bytes");
	buf_reset(&out);
	ASSERT_EQ(run(JSON_SPLIT_LIST, "{\"items\":[\"0123456789012345\"]}", 0, 3, 15, &out, &e),
		  -EFBIG);
	buf_reset(&out);
	ASSERT_EQ(run(JSON_SPLIT_LIST, "{\"items\":[\"01\",\"23\",\"45\",\"67\"]}", 0, 3, 15, &out,
		      &e),
		  0);
	buf_done(&out);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_list_is_split_into_items),
		cmocka_unit_test(test_malformed_lists_are_errors),
		cmocka_unit_test(test_stream_is_split_into_objects),
		cmocka_unit_test(test_too_long_pieces_are_refused),
	};

	return T_RUN(tests, NULL, NULL);
}
