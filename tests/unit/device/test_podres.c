/* SPDX-License-Identifier: Apache-2.0 */
#include "testlib.h"

#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "device/podres.h"

/* Pod "p" of namespace "ns" with container "c", which has resource x/y: device "1" on NUMA node
 * 0, and device "2" on NUMA nodes 0 (an empty message) and 1. The kubelet lists another
 * resource, z, between the two devices. */
static const char good[] = "\x0a\x38"
			   "\x0a\x01p\x12\x02ns"
			   "\x1a\x2f"
			   "\x0a\x01"
			   "c"
			   "\x12\x0e\x0a\x03x/y\x12\x01"
			   "1\x1a\x04\x0a\x02\x08\x00"
			   "\x12\x03\x0a\x01z"
			   "\x12\x10\x0a\x03x/y\x12\x01"
			   "2\x1a\x06\x0a\x00\x0a\x02\x08\x01"
			   "\x1a\x03\x00\x01\x02"; /* cpu_ids, which the decoder skips */
enum { GOOD = sizeof(good) - 1 };

static void test_pod_resources_are_decoded(void **state)
{
	auto_podres struct podres_list l = {0};
	struct podres_container *c;
	struct err e = ERR_INIT;

	(void)state;
	if (podres_decode((struct span){good, GOOD}, &l, &e) < 0)
		fail_msg("%s", e.text);
	ASSERT_EQ(l.n_pods, 1);
	ASSERT_STR_EQ(l.pods[0].name, "p");
	ASSERT_STR_EQ(l.pods[0].ns, "ns");
	ASSERT_EQ(l.pods[0].n_containers, 1);
	c = &l.pods[0].containers[0];
	ASSERT_STR_EQ(c->name, "c");
	ASSERT_EQ(c->n_devices, 3);
	ASSERT_STR_EQ(c->devices[1].resource, "z");
	ASSERT_EQ(c->devices[1].n_nodes, 0);

	podres_merge(c);
	ASSERT_EQ(c->n_devices, 2);
	ASSERT_STR_EQ(c->devices[0].resource, "x/y");
	ASSERT_EQ(c->devices[0].n_ids, 2);
	ASSERT_STR_EQ(c->devices[0].ids[0], "1");
	ASSERT_STR_EQ(c->devices[0].ids[1], "2");
	ASSERT_EQ(c->devices[0].n_nodes, 2);
	ASSERT_EQ(c->devices[0].nodes[0], 0);
	ASSERT_EQ(c->devices[0].nodes[1], 1);
	ASSERT_STR_EQ(c->devices[1].resource, "z");
	ASSERT_EQ(c->devices[1].n_ids, 0);
}

static void test_empty_pod_resources_are_decoded(void **state)
{
	auto_podres struct podres_list l = {0};

	(void)state;
	ASSERT_EQ(podres_decode((struct span){NULL, 0}, &l, NULL), 0);
	ASSERT_EQ(l.n_pods, 0);
	/* A pod without fields: every string is empty, none is NULL. */
	ASSERT_EQ(podres_decode((struct span){"\x0a\x00", 2}, &l, NULL), 0);
	ASSERT_EQ(l.n_pods, 1);
	ASSERT_STR_EQ(l.pods[0].name, "");
	ASSERT_STR_EQ(l.pods[0].ns, "");
}

static void test_last_of_repeated_fields_is_used(void **state)
{
	auto_podres struct podres_list l = {0};

	(void)state;
	ASSERT_EQ(podres_decode(span_of("\x0a\x07\x0a\x01"
					"a\x0a\x02"
					"bc"),
				&l, NULL),
		  0);
	ASSERT_STR_EQ(l.pods[0].name, "bc");
}

static void test_malformed_pod_resources_are_refused(void **state)
{
	static const struct {
		size_t n;
		const char *p;
	} bad[] = {
		{4, "\x0a\xff\xff\xff"},	 /* the varint of the length does not end */
		{6, "\x0a\xff\xff\xff\xff\x0f"}, /* 4 GiB */
		{7, "\x0a\x05\x0a\x09"
		    "abc"}, /* longer than the enclosing message */
		{7, "\x0a\x05\x0a\x03"
		    "a\0b"},	 /* NUL in a name */
		{2, "\x0b\x00"}, /* a group */
	};
	struct podres_list l = {.n_pods = 77};
	struct err e = ERR_INIT;

	(void)state;
	for (size_t n = 1; n < GOOD; n++) {
		char *cut = xmalloc(n);

		memcpy(cut, good, n);
		ASSERT_EQ(podres_decode((struct span){cut, n}, &l, NULL), -EBADMSG);
		cleanup_free(&cut);
	}
	for (size_t i = 0; i < ARRAY_LEN(bad); i++)
		if (podres_decode((struct span){bad[i].p, bad[i].n}, &l, &e) != -EBADMSG)
			fail_msg("row %zu", i);
	ASSERT_EQ(e.kind, ERR_DECODE);
	ASSERT_EQ(l.n_pods, 77);
}

/* Arbitrary bytes: the result is an error or a list. */
static void test_pod_resources_with_changed_bytes_do_not_crash(void **state)
{
	char in[GOOD];

	(void)state;
	for (size_t i = 0; i < GOOD; i++) {
		for (int v = 0; v < 256; v++) {
			auto_podres struct podres_list l = {0};

			memcpy(in, good, GOOD);
			in[i] = (char)v;
			podres_decode((struct span){in, GOOD}, &l, NULL);
			for (size_t k = 0; k < l.n_pods; k++)
				for (size_t c = 0; c < l.pods[k].n_containers; c++)
					podres_merge(&l.pods[k].containers[c]);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_pod_resources_are_decoded),
		cmocka_unit_test(test_empty_pod_resources_are_decoded),
		cmocka_unit_test(test_last_of_repeated_fields_is_used),
		cmocka_unit_test(test_malformed_pod_resources_are_refused),
		cmocka_unit_test(test_pod_resources_with_changed_bytes_do_not_crash),
	};

	return T_RUN(tests, NULL, NULL);
}
