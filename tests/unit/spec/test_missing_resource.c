/* SPDX-License-Identifier: Apache-2.0 */
/* The annotation of networks whose device resource does not exist on any node. */
#include "testlib.h"

#include <string.h>

#include "base/alloc.h"
#include "spec/missing_resource.h"

static void test_missing_resource_is_written_and_read(void **state)
{
	auto_free char *both = missing_resource_text("x/a", "y/a"),
		       *one = missing_resource_text("x/a", NULL);
	struct missing_resource m;

	(void)state;
	ASSERT_STR_EQ(both, "{\"resource\":\"x/a\",\"suggestion\":\"y/a\"}");
	assert_true(missing_resource_read(both, &m));
	ASSERT_STR_EQ(m.resource, "x/a");
	ASSERT_STR_EQ(m.suggestion, "y/a");
	missing_resource_done(&m);
	assert_true(missing_resource_read(one, &m));
	assert_null(m.suggestion);
	missing_resource_done(&m);
}

/*
 * A tenant with the right to write NetworkAttachmentDefinitions chooses the value of the
 * annotation, and `unirail status` prints its texts to a terminal: texts that are not valid names
 * are ignored.
 */
static void test_invalid_annotation_texts_are_ignored(void **state)
{
	static const char *const texts[] = {
		"",
		"x/a",
		"[]",
		"{}",
		"{\"resource\":7}",
		"{\"resource\":\"\"}",
		"{\"suggestion\":\"x/a\"}",
		"{\"resource\":\"\\u001b[31m\"}",
		"{\"resource\":\"x/a\\nready\"}",
		"{\"resource\":\"x/a\",\"suggestion\":\"\\u001b[31m\"}",
		"{\"resource\":\"x/a b\"}",
	};
	char large[2 * MISSING_RESOURCE_NAME_MAX];
	struct missing_resource m;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(texts); i++) {
		assert_false(missing_resource_read(texts[i], &m));
		assert_null(m.resource);
	}
	assert_false(missing_resource_read(NULL, &m));
	memset(large, 'a', sizeof(large) - 1);
	large[sizeof(large) - 1] = '\0';
	assert_null(missing_resource_text(large, NULL));
	assert_null(missing_resource_text("x/\n", NULL));
}

static void test_similar_resource_name_is_suggested(void **state)
{
	static const char *const list[] = {"rdma/hca_shared_devices_a", "rdma/rdma_v100",
					   "spidernet.io/gpu1sriov", "spidernet.io/gpu2sriov"};
	static const struct {
		const char *name, *suggestion;
	} cases[] = {
		{"spidernet.io/rdma_v100", "rdma/rdma_v100"}, /* another prefix */
		{"spidernet.io/gpu1sriv", "spidernet.io/gpu1sriov"},
		{"spidernet.io/gpu2_sriov", "spidernet.io/gpu2sriov"},
		{"nvidia.com/gpu", NULL},
		{"", NULL},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		const char *s = missing_resource_suggest(cases[i].name, list, ARRAY_LEN(list));

		if (cases[i].suggestion)
			ASSERT_STR_EQ_MSG(s ? s : "none", cases[i].suggestion, "cases[%zu]", i);
		else
			assert_null(s);
	}
	assert_null(missing_resource_suggest("x/a", NULL, 0));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_missing_resource_is_written_and_read),
		cmocka_unit_test(test_invalid_annotation_texts_are_ignored),
		cmocka_unit_test(test_similar_resource_name_is_suggested),
	};

	return T_RUN(tests, NULL, NULL);
}
