/* SPDX-License-Identifier: Apache-2.0 */
#include "testlib.h"

#include "base/alloc.h"
#include "block/codec.h"
#include "block/table.h"

static void object(const char *claim, const char *released, struct block_object *ret)
{
	auto_free char *text = xasprintf(
		"{'metadata':{'name':'a-0','uid':'u1','resourceVersion':'5'},"
		"'spec':{'pool':'a','cidr':'10.1.0.0/28','node':'n1','nodeUID':'u2','claim':'%s',"
		"'released':{%s},'requested':{}}}",
		claim, released);
	auto_json struct json_doc *d = t_json_quoted(text);

	ASSERT_EQ(block_object_read(json_root(d), ret, NULL), 0);
}

/* An agent detects a second agent under its node's name by changes that only the owner of a
 * block makes. */
static void test_changes_of_the_owner_differ_from_those_of_peers(void **state)
{
	static const struct {
		const char *claim, *was, *is;
		bool owner;
	} v[] = {
		{"t1", "", "", false},
		{"t2", "", "", true},
		/* the owner releases and reclaims */
		{"t1", "", "'10.1.0.3':'*'", true},
		{"t1", "'10.1.0.2':'n2/t'", "'10.1.0.2':'n2/t','10.1.0.3':'@n3*'", true},
		{"t1", "'10.1.0.3':'*'", "", true},
		/* peers borrow, return and assert */
		{"t1", "'10.1.0.3':'*'", "'10.1.0.3':'n2/t'", false},
		{"t1", "'10.1.0.3':'@n2*'", "'10.1.0.3':'n2/t'", false},
		{"t1", "'10.1.0.2':'n2/t','10.1.0.3':'n3/t'", "'10.1.0.3':'n3/t'", false},
		{"t1", "", "'10.1.0.3':'n2/t'", false},
		/* the controller removes the entries of deleted nodes, and '?' */
		{"t1", "'10.1.0.2':'?','10.1.0.3':'@n3*'", "", false},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(v); i++) {
		struct block_object was, is;

		object("t1", v[i].was, &was);
		object(v[i].claim, v[i].is, &is);
		ASSERT_EQ_MSG(block_changed_by_owner(&was, &is), v[i].owner, "v[%zu]", i);
		block_object_done(&was);
		block_object_done(&is);
	}
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_changes_of_the_owner_differ_from_those_of_peers),
	};

	return T_RUN(tests, NULL, NULL);
}
