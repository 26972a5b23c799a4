/* SPDX-License-Identifier: Apache-2.0 */
#include "testlib.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "block/release.h"
#include "block/codec.h"

/* Two nodes are deleted: "old", and "n1" with a known UID other than u2. */
static bool is_deleted(void *arg, const char *node, const char *uid)
{
	(void)arg;
	return strcmp(node, "old") == 0 ||
	       (strcmp(node, "n1") == 0 && *uid && strcmp(uid, "u2") != 0);
}

static bool is_lost(void *arg, const struct ipaddr *ip)
{
	(void)arg;
	return ip->b[3] == 9;
}

static struct block_object object_of(const char *node, const char *uid, const char *released)
{
	auto_free char *text = xasprintf(
		"{\"metadata\":{\"name\":\"p-0\",\"uid\":\"u\",\"resourceVersion\":\"7\"},"
		"\"spec\":{\"pool\":\"p\",\"cidr\":\"10.0.0.0/28\",\"node\":\"%s\","
		"\"nodeUID\":\"%s\",\"claim\":\"c-1\",\"released\":{%s},\"requested\":{}}}",
		node, uid, released);
	auto_json struct json_doc *d = NULL;
	struct block_object o;

	ASSERT_EQ(json_parse(&d, span_of(text), 1 << 16, NULL), 0);
	ASSERT_EQ(block_object_read(json_root(d), &o, NULL), 0);
	return o;
}

/* Returns the controller's next request for the block, as "METHOD BODY"; "" if there is none. */
static char *next(const char *node, const char *uid, const char *released, const char *retained)
{
	struct block_object o = object_of(node, uid, released);
	struct block_release f = {.is_deleted = is_deleted, .is_lost = is_lost};
	struct block_op op;
	struct ipaddr ip;
	char *ret = xstrdup("");

	if (retained) {
		ASSERT_EQ(ip_parse(span_of(retained), &ip), 0);
		f.retained = &ip;
		f.n_retained = 1;
	}
	if (block_release_next(&o, &f, &op)) {
		struct block_request q;

		block_request(&op, "", "", &q);
		free(ret);
		ret = xasprintf("%s %s", q.method, q.body.p);
		block_request_done(&q);
		block_op_done(&op);
	}
	block_object_done(&o);
	return ret;
}

#define OWNER                                                                                      \
	"{\"op\":\"test\",\"path\":\"/metadata/resourceVersion\",\"value\":\"7\"},"                \
	"{\"op\":\"replace\",\"path\":\"/spec/node\",\"value\":\"-\"},"                            \
	"{\"op\":\"add\",\"path\":\"/spec/nodeUID\",\"value\":\"-\"},"                             \
	"{\"op\":\"replace\",\"path\":\"/spec/claim\",\"value\":\"-\"},"                           \
	"{\"op\":\"remove\",\"path\":\"/metadata/labels/unirail.io~1node\"}"
#define DELETE                                                                                       \
	"DELETE {\"apiVersion\":\"v1\",\"kind\":\"DeleteOptions\",\"preconditions\":{\"uid\":\"u\"," \
	"\"resourceVersion\":\"7\"}}"
#define ENTRY(op, ip, from, value)                                                                 \
	"PATCH [{\"op\":\"test\",\"path\":\"/spec/released/" ip "\",\"value\":\"" from "\"},"      \
	"{\"op\":\"" op "\",\"path\":\"/spec/released/" ip "\"" value "}]"

static void test_blocks_and_entries_of_deleted_nodes_are_released(void **state)
{
	static const struct {
		const char *node, *uid, *released, *retained, *want;
	} v[] = {
		/* An existing node retains its block, with what it has released and reserved. */
		{"n1", "u2", "", NULL, ""},
		{"n1", "u2", "\"10.0.0.1\":\"*\",\"10.0.0.2\":\"n2/t\",\"10.0.0.3\":\"@n2\"", NULL,
		 ""},
		{"n1", "u2", "", "10.0.0.5", ""},
		/* The block of a node that was deleted or recreated is deleted. */
		{"old", "u1", "", NULL, DELETE},
		{"old", "u1", "\"10.0.0.1\":\"*\"", NULL, DELETE},
		{"n1", "u1", "", NULL, DELETE},
		{"old", "u1", "\"10.0.0.1\":\"old/t\"", NULL, DELETE},
		/* If the block of such a node has an entry of another node or "?", or an address
		 * that is retained for a name, the block loses its owner and retains these
		 * entries. */
		{"old", "u1", "\"10.0.0.2\":\"n2/t\"", NULL, "PATCH [" OWNER "]"},
		{"old", "u1", "\"10.0.0.2\":\"@n2\"", NULL, "PATCH [" OWNER "]"},
		{"old", "u1", "\"10.0.0.2\":\"?\"", NULL, "PATCH [" OWNER "]"},
		{"old", "u1", "", "10.0.0.5",
		 "PATCH [" OWNER
		 ",{\"op\":\"add\",\"path\":\"/spec/released/10.0.0.5\",\"value\":\"@-\"}]"},
		{"old", "u1", "\"10.0.0.5\":\"n2/t\"", "10.0.0.5", "PATCH [" OWNER "]"},
		{"old", "u1", "", "10.0.1.5", DELETE},
		/* An entry of a deleted node, in the block of any node, is removed, or becomes
		 * "@-" if its address is retained for a name. "?" is removed when no node has
		 * the address (is_lost()). */
		{"n1", "u2", "\"10.0.0.2\":\"old/t\"", NULL,
		 ENTRY("remove", "10.0.0.2", "old/t", "")},
		{"n1", "u2", "\"10.0.0.2\":\"@old\"", NULL,
		 ENTRY("remove", "10.0.0.2", "@old", "")},
		{"n1", "u2", "\"10.0.0.2\":\"old/t\"", "10.0.0.2",
		 ENTRY("replace", "10.0.0.2", "old/t", ",\"value\":\"@-\"")},
		{"n1", "u2", "\"10.0.0.9\":\"?\"", NULL, ENTRY("remove", "10.0.0.9", "?", "")},
		{"n1", "u2", "\"10.0.0.8\":\"?\"", NULL, ""},
		/* An entry "@-" is removed when its address is not retained for a name. */
		{"-", "-", "\"10.0.0.5\":\"@-\"", "10.0.0.5", ""},
		{"n1", "u2", "\"10.0.0.5\":\"@-\"", "10.0.0.5", ""},
		{"-", "-", "\"10.0.0.5\":\"@-\"", NULL, ENTRY("remove", "10.0.0.5", "@-", "")},
		/* A block without an owner is deleted if it has no entries, or only entries of
		 * available addresses ("*", "@node*"). */
		{"-", "-", "", NULL, DELETE},
		{"-", "-", "\"10.0.0.1\":\"*\"", NULL, DELETE},
		{"-", "-", "\"10.0.0.2\":\"n2/t\"", NULL, ""},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(v); i++) {
		auto_free char *got = next(v[i].node, v[i].uid, v[i].released, v[i].retained);

		if (strcmp(got, v[i].want) != 0)
			fail_msg("%s %s {%s}: %s, expected %s", v[i].node, v[i].uid, v[i].released,
				 got, v[i].want);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_blocks_and_entries_of_deleted_nodes_are_released)};

	return T_RUN(tests, NULL, NULL);
}
