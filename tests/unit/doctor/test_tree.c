/* SPDX-License-Identifier: Apache-2.0 */
#include "host_lab.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "doctor/tree.h"

static int unpack(struct host_lab *h, const char *text, struct err *e)
{
	return tree_unpack(&h->root, span_of(text), "x.tree", e);
}

static void content_is(const struct host_lab *h, const char *path, const void *wants, size_t n)
{
	auto_buf struct buf b;

	buf_init(&b, TREE_FILE_MAX);
	ASSERT_EQ(file_read(&h->root, path, TREE_FILE_MAX, &b, NULL), 0);
	ASSERT_EQ(b.len, n);
	assert_memory_equal(b.p ? b.p : "", wants, n);
}

static void test_packed_files_are_unpacked_unchanged(void **state)
{
	static const struct {
		const char *p;
		size_t n;
	} contents[] = {
		{"", 0},
		{"\n", 1},
		{"one", 3},
		{"one\n", 4},
		{"a\nb", 3},
		{"a\nb\n", 4},
		{"\n\n", 2},
		{"\n\na\n\n", 5},
		{"\ta\n\t", 4},
		{" a = b \n", 8},
		{"\\c", 2},
		{"\\\\n\\c\n", 6},
		{"a\0b\n", 4},
		{"\x1b[2J\r\n", 6},
		{"a -> b\n", 7},
		{"#\n#\n", 4},
		{"\xc3\xa4\xff\n", 4},
		{"\\x41\n", 5},
	};
	struct host_lab h;
	auto_buf struct buf b;
	char path[64];
	struct err e = ERR_INIT;

	(void)state;
	host_empty(&h);
	buf_init(&b, 1 << 16);
	tree_put_comment(&b, "what\nfor");
	for (size_t i = 0; i < ARRAY_LEN(contents); i++) {
		snprintf(path, sizeof(path), "/sys/a b\\c\n%zu/x", i);
		tree_put_file(&b, path, (struct span){contents[i].p, contents[i].n});
	}
	tree_put_link(&b, "/sys/link", "../a b -> c\\d");
	tree_put_dir(&b, "/sys/class/infiniband");
	if (tree_unpack(&h.root, buf_span(&b), "x", &e) < 0)
		fail_msg("%s in:\n%s", e.text, b.p);
	for (size_t i = 0; i < ARRAY_LEN(contents); i++) {
		snprintf(path, sizeof(path), "/sys/a b\\c\n%zu/x", i);
		content_is(&h, path, contents[i].p, contents[i].n);
	}
	ASSERT_EQ(link_read(&h.root, "/sys/link", path, sizeof(path), NULL), 0);
	ASSERT_STR_EQ(path, "../a b -> c\\d");
	assert_true(file_exists(&h.root, "/sys/class/infiniband"));
	host_remove(&h);
}

static void test_tree_written_by_hand_is_unpacked(void **state)
{
	struct host_lab h;

	(void)state;
	host_empty(&h);
	ASSERT_EQ(unpack(&h,
			 "# a host\n"
			 "\n"
			 "/a = 1\n"
			 "/b =\n"
			 "/c :\n"
			 "\tx\n"
			 "\t\n"
			 "\ty\n"
			 "/d/e -> ../a\n"
			 "/empty = \\c\n"
			 "/f/\n"
			 "/g = last",
			 NULL),
		  0);
	content_is(&h, "/a", "1\n", 2);
	content_is(&h, "/b", "\n", 1);
	content_is(&h, "/c", "x\n\ny\n", 5);
	content_is(&h, "/d/e", "1\n", 2);
	content_is(&h, "/empty", "", 0);
	content_is(&h, "/g", "last\n", 5);
	ASSERT_EQ(unpack(&h, "/a = 2\n", NULL), 0);
	content_is(&h, "/a", "2\n", 2);
	host_remove(&h);
}

static void test_invalid_trees_are_refused(void **state)
{
	static const struct {
		const char *text, *says;
	} cases[] = {
		{"/a\n", "x.tree:1: expected PATH = TEXT"},
		{"/a 1\n", "x.tree:1: expected PATH = TEXT"},
		{"/a = 1\n/b  = 1\n", "x.tree:2: expected PATH = TEXT"},
		{"a = 1\n", "x.tree:1: expected an absolute path"},
		{"/../a = 1\n", "x.tree:1: expected an absolute path without '..'"},
		{"/a/../../b -> x\n", "without '..'"},
		{"/a/.. = 1\n", "without '..'"},
		{"/a\\x2f..\\x2f.. = 1\n", "without '..'"},
		{"/ = 1\n", "x.tree:1: invalid path"},
		{"/a\\q = 1\n", "x.tree:1: invalid path"},
		{"/a\\x00b = 1\n", "x.tree:1: invalid path"},
		{"/a = \\q\n", "x.tree:1: bad '\\' in a text"},
		{"/a = \\x4\n", "x.tree:1: bad '\\' in a text"},
		{"/a = \\x0x\n", "x.tree:1: bad '\\' in a text"},
		{"/a = \\cb\n", "x.tree:1: bad '\\' in a text"},
		{"/a = \\\n", "x.tree:1: bad '\\' in a text"},
		{"/a -> \n", "x.tree:1: invalid target"},
		{"\tx\n", "x.tree:1: a line outside of a file"},
		{"/a = 1\n\tx\n", "x.tree:2: a line outside of a file"},
		{"/a :\n\tx\\c\n\ty\n", "x.tree:3: a line outside of a file"},
		{"/l -> a\n/l -> b\n", "x.tree:2: create link '/l': File exists (EEXIST)"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct host_lab h;
		struct err e = ERR_INIT;

		host_empty(&h);
		if (unpack(&h, cases[i].text, &e) >= 0)
			fail_msg("'%s' is accepted, expected a refusal", cases[i].text);
		if (!strstr(e.text, cases[i].says))
			fail_msg("'%s': '%s' does not contain '%s'", cases[i].text, e.text,
				 cases[i].says);
		host_remove(&h);
	}
}

/* Unpacking a tree from an untrusted source writes only below the root, even if the tree has
 * links that lead out of it. */
static void test_tree_writes_only_below_its_root(void **state)
{
	struct host_lab h, other;
	char text[512], path[256];

	(void)state;
	host_empty(&h);
	host_empty(&other);
	snprintf(text, sizeof(text), "/out -> %s\n/up -> ../../../../../..%s\n/out/a = 1\n",
		 other.dir, other.dir);
	unpack(&h, text, NULL);
	snprintf(text, sizeof(text), "/up/b = 1\n");
	unpack(&h, text, NULL);
	snprintf(text, sizeof(text), "/file -> %s/c\n/file = 1\n", other.dir);
	unpack(&h, text, NULL);
	for (const char *name = "abc"; *name; name++) {
		snprintf(path, sizeof(path), "/%c", *name);
		assert_false(file_exists(&other.root, path));
	}
	host_remove(&h);
	host_remove(&other);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_packed_files_are_unpacked_unchanged),
		cmocka_unit_test(test_tree_written_by_hand_is_unpacked),
		cmocka_unit_test(test_invalid_trees_are_refused),
		cmocka_unit_test(test_tree_writes_only_below_its_root),
	};

	return T_RUN(tests, NULL, NULL);
}
