/* SPDX-License-Identifier: Apache-2.0 */
/* When a network is reported because no node has its device resource. */
#include "testlib.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "controller/gc/unserved.h"

struct lab {
	struct unserved_table table;
	char said[256];
};

/* Appends the event to the text of the lab: "-a=x/a ": resource x/a of network a is missing;
 * "-a=x/b(x/a) ": x/b is missing and x/a is suggested; "~" instead of "-": the suggestion
 * changed; "+": the resource is available. */
static void on_report(void *arg, const struct unserved_network *n, enum unserved_event ev)
{
	struct lab *l = arg;
	bool suggestion = ev != UNSERVED_AVAILABLE && n->suggestion;
	size_t at = strlen(l->said);

	snprintf(l->said + at, sizeof(l->said) - at, "%c%s=%s%s%s%s ", "-~+"[ev], n -> name,
		 n -> resource, suggestion ? "(" : "", suggestion ? n->suggestion : "",
		 suggestion ? ")" : "");
}

/* nets: "name=resource name=resource"; resources: sorted and separated by blanks. Returns the
 * time of the next decision, or -1 if there is none before the input changes. */
static int64_t decide(struct lab *l, const char *nets, const char *resources, int64_t now_ms)
{
	struct span rest = span_of(nets), word, name;
	struct unserved_network *v = NULL;
	char *names[8];
	size_t n = 0, n_names = 0;
	int64_t due;

	*l->said = '\0';
	while (span_cut(&rest, ' ', &word)) {
		struct unserved_network *x;

		if (!word.n)
			continue;
		x = &VEC_PUSH(v, n);
		span_cut(&word, '=', &name);
		*x = (struct unserved_network){.uid = span_dup(name),
					       .ns = xstrdup("t"),
					       .name = span_dup(name),
					       .resource = span_dup(word)};
	}
	rest = span_of(resources);
	while (span_cut(&rest, ' ', &word))
		if (word.n)
			names[n_names++] = span_dup(word);
	due = unserved_update(&l->table, v, n, (const char *const *)names, n_names, now_ms,
			      on_report, l);
	for (size_t i = 0; i < n_names; i++)
		free(names[i]);
	free(v);
	return due;
}

static void test_missing_resource_is_reported_once_after_the_grace_period(void **state)
{
	struct lab l = {0};

	(void)state;
	ASSERT_EQ(decide(&l, "b=x/b a=x/a", "x/a", 1000), 1000 + UNSERVED_GRACE_MS);
	ASSERT_STR_EQ(l.said, "");
	/* The resource of network c is missing, too, but only since 2000 ms. */
	ASSERT_EQ(decide(&l, "b=x/b a=x/a c=x/c", "x/a", 2000), 1000 + UNSERVED_GRACE_MS);
	ASSERT_EQ(decide(&l, "b=x/b a=x/a c=x/c", "x/a", 1000 + UNSERVED_GRACE_MS),
		  2000 + UNSERVED_GRACE_MS);
	ASSERT_STR_EQ(l.said, "-b=x/b(x/a) ");
	ASSERT_EQ(decide(&l, "c=x/c b=x/b", "x/a", 9 * UNSERVED_GRACE_MS), -1);
	ASSERT_STR_EQ(l.said, "-c=x/c(x/a) ");
	ASSERT_EQ(decide(&l, "c=x/c b=x/b", "x/b y/dd", 9 * UNSERVED_GRACE_MS), -1);
	ASSERT_STR_EQ(l.said, "+b=x/b ~c=x/c(x/b) ");
	unserved_table_done(&l.table);
}

static void test_resource_missing_for_a_short_time_is_not_reported(void **state)
{
	struct lab l = {0};

	(void)state;
	decide(&l, "a=x/a", "", 0);
	/* The resource is available again before the grace period ends, as after a restart of a
	 * kubelet. */
	ASSERT_EQ(decide(&l, "a=x/a", "x/a", UNSERVED_GRACE_MS - 1), -1);
	ASSERT_STR_EQ(l.said, "");
	ASSERT_EQ(decide(&l, "a=x/a", "", UNSERVED_GRACE_MS), 2 * UNSERVED_GRACE_MS);
	ASSERT_STR_EQ(l.said, "");
	unserved_table_done(&l.table);
}

static void test_changed_network_is_decided_again_and_deleted_network_is_forgotten(void **state)
{
	struct lab l = {0};

	(void)state;
	decide(&l, "a=x/a", "", 0);
	decide(&l, "a=x/a", "", UNSERVED_GRACE_MS);
	ASSERT_STR_EQ(l.said, "-a=x/a ");
	/* When the network gets another resource that is missing, a new grace period starts. */
	ASSERT_EQ(decide(&l, "a=x/b", "", UNSERVED_GRACE_MS), 2 * UNSERVED_GRACE_MS);
	ASSERT_STR_EQ(l.said, "");
	ASSERT_EQ(decide(&l, "", "", 3 * UNSERVED_GRACE_MS), -1);
	ASSERT_STR_EQ(l.said, "");
	ASSERT_EQ(l.table.n, 0);
	unserved_table_done(&l.table);
}

static void test_similar_resource_name_is_suggested(void **state)
{
	struct lab l = {0};

	(void)state;
	decide(&l, "a=x/rail1", "", 0);
	decide(&l, "a=x/rail1", "", UNSERVED_GRACE_MS);
	ASSERT_STR_EQ(l.said, "-a=x/rail1 ");
	decide(&l, "a=x/rail1", "other/thing x/rial1", 2 * UNSERVED_GRACE_MS);
	ASSERT_STR_EQ(l.said, "~a=x/rail1(x/rial1) ");
	decide(&l, "a=x/rail1", "other/thing x/rial1", 3 * UNSERVED_GRACE_MS);
	ASSERT_STR_EQ(l.said, "");
	decide(&l, "a=x/rail1", "other/thing", 3 * UNSERVED_GRACE_MS);
	ASSERT_STR_EQ(l.said, "~a=x/rail1 ");
	unserved_table_done(&l.table);
}

static void assert_annotation(const struct lab *l, bool decided, const char *resource,
			      const char *is, const char *wants)
{
	auto_free char *s = unserved_table_annotation(&l->table, decided, "a", resource, is);

	if (!wants)
		assert_null(s);
	else
		ASSERT_STR_EQ(s ? s : "none", wants);
}

static void test_annotation_of_a_previous_leader_stays_until_the_new_leader_decides(void **state)
{
	const char *b = "{\"resource\":\"x/b\"}", *c = "{\"resource\":\"x/c\"}";
	const char *near = "{\"resource\":\"x/b\",\"suggestion\":\"x/a\"}";
	struct lab l = {0};

	(void)state;
	/*
	 * The decision of the previous leader stays until this leader decides, unless the network
	 * has another resource now.
	 */
	assert_annotation(&l, false, "x/b", near, near);
	assert_annotation(&l, false, "x/b", c, NULL);
	assert_annotation(&l, false, "x/b", "no JSON", NULL);
	assert_annotation(&l, false, "x/b", NULL, NULL);
	decide(&l, "a=x/b", "x/a", 0);
	assert_annotation(&l, true, "x/b", b, b);
	assert_annotation(&l, true, "x/b", NULL, NULL);
	decide(&l, "a=x/b", "x/a", UNSERVED_GRACE_MS);
	assert_annotation(&l, true, "x/b", NULL, near);
	/* The network now has the resource x/d, but the table still has x/b: this leader has not
	 * decided about x/d yet, so the annotation about x/b is removed. */
	assert_annotation(&l, true, "x/d", near, NULL);
	decide(&l, "a=x/b", "x/a x/b", UNSERVED_GRACE_MS);
	assert_annotation(&l, true, "x/b", near, NULL);
	unserved_table_done(&l.table);
}

static void test_suggestions_for_many_networks_are_limited(void **state)
{
	const size_t n = 4 * UNSERVED_SUGGESTIONS_MAX;
	const char *const resources[] = {"x/rail"};
	size_t suggestion = 0;
	struct lab l = {0};

	(void)state;
	for (int round = 0; round < 2; round++) {
		struct unserved_network *v = NULL;
		size_t count = 0;

		for (size_t i = 0; i < n; i++)
			VEC_PUSH(v, count) =
				(struct unserved_network){.uid = xasprintf("%zu", i),
							  .ns = xstrdup("t"),
							  .name = xstrdup("n"),
							  .resource = xstrdup("x/rai")};
		unserved_update(&l.table, v, n, resources, 1, round * UNSERVED_GRACE_MS, on_report,
				&l);
		free(v);
	}
	ASSERT_EQ(l.table.n, n);
	for (size_t i = 0; i < n; i++)
		suggestion += l.table.v[i].suggestion != NULL;
	ASSERT_EQ(suggestion, UNSERVED_SUGGESTIONS_MAX);
	unserved_table_done(&l.table);
}

static void test_extended_resources_of_a_node_are_listed(void **state)
{
	static const struct {
		const char *capacity, *first, *second;
	} cases[] = {
		{"\"cpu\":\"4\",\"x/a\":\"8\",\"x/b\":\"0\",\"x/c\":\"1k\"", "x/a", "x/c"},
		{"\"x/b\":\"0\"", NULL, NULL},
		{"\"x/b\":7,\"x/c\":null", NULL, NULL},
		{"", NULL, NULL},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		auto_free char *text =
			xasprintf("{\"status\":{\"capacity\":{%s}}}", cases[i].capacity);
		auto_json struct json_doc *d = NULL;
		auto_free char *list = NULL;

		ASSERT_EQ_MSG(json_parse(&d, span_of(text), 4096, NULL), 0, "cases[%zu]", i);
		list = gc_cache_read_resources(json_root(d));
		if (!cases[i].first) {
			assert_null(list);
			continue;
		}
		ASSERT_STR_EQ_MSG(list, cases[i].first, "cases[%zu]", i);
		ASSERT_STR_EQ_MSG(list + 4, cases[i].second, "cases[%zu]", i);
		ASSERT_EQ_MSG(list[8], '\0', "cases[%zu]", i);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_missing_resource_is_reported_once_after_the_grace_period),
		cmocka_unit_test(test_resource_missing_for_a_short_time_is_not_reported),
		cmocka_unit_test(
			test_changed_network_is_decided_again_and_deleted_network_is_forgotten),
		cmocka_unit_test(test_similar_resource_name_is_suggested),
		cmocka_unit_test(
			test_annotation_of_a_previous_leader_stays_until_the_new_leader_decides),
		cmocka_unit_test(test_suggestions_for_many_networks_are_limited),
		cmocka_unit_test(test_extended_resources_of_a_node_are_listed),
	};

	return T_RUN(tests, NULL, NULL);
}
