/* SPDX-License-Identifier: Apache-2.0 */
/* The loopback plugin, run in the test's process. Also tests how chained plugins are found by
 * their type, and which runtimeConfig they get. */
#include "meta_lab.h"

#include <errno.h>

#include "cni/multi/registry.h"
#include "kern/net/addr.h"

static void test_chained_plugin_is_found_by_its_type(void **state)
{
	static const char *const types[] = {"tuning", "sbr", "loopback", "ifacer"};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(types); i++) {
		const struct cni_meta *p = chained_find(types[i]);

		assert_non_null(p);
		ASSERT_STR_EQ_MSG(p->type, types[i], "types[%zu]", i);
		assert_true(p->add && p->del && p->check && p->status);
	}
	assert_null(chained_find("macvlan"));
	assert_null(chained_find(""));
}

/*
 * A plugin that runs as its own process finds runtimeConfig in its configuration. In a chain that
 * runs in one process, the plugin gets only the keys of runtimeConfig that its `capabilities`
 * declare.
 */
static void test_runtime_config_is_limited_to_capabilities(void **state)
{
	auto_json struct json_doc *offered = NULL;
	struct chained_lab l;

	(void)state;
	OK(json_parse(&offered, span_of("{\"mac\":\"m\",\"ips\":[]}"), 100, &e));
	chained_open(&l, false,
		     "{'runtimeConfig':{'MAC':'own'},'capabilities':{'mac':true,'ips':false}}");
	ASSERT_STR_EQ(json_string(chained_runtime(&l.m, "mac")), "own");
	assert_null(chained_runtime(&l.m, "ips"));
	l.m.runtime = json_root(offered);
	ASSERT_STR_EQ(json_string(chained_runtime(&l.m, "mac")), "m");
	assert_null(chained_runtime(&l.m, "ips"));
	assert_null(chained_runtime(&l.m, "bandwidth"));
	chained_set(&l, "{}");
	assert_null(chained_runtime(&l.m, "mac"));
	chained_close(&l);
}

static void test_add_sets_lo_up_and_undo_sets_it_down(void **state)
{
	auto_result struct cni_result r = {0};
	struct chained_lab l;
	struct link lo;

	(void)state;
	chained_open(&l, true, "{}");
	l.m.has_prev = false;
	lo = kern_link(&l.lab, "lo");
	if (link_is_up(&lo))
		OK(chained_loopback.del(&l.m, &r, &e));
	OK(chained_loopback.add(&l.m, &r, &l.undo, &e));
	lo = kern_link(&l.lab, "lo");
	assert_true(link_is_up(&lo));
	ASSERT_EQ(r.n_ifaces, 1);
	ASSERT_STR_EQ(r.ifaces[0].name, "lo");
	ASSERT_STR_EQ(r.ifaces[0].mac, "00:00:00:00:00:00");
	ASSERT_STR_EQ(r.ifaces[0].sandbox, l.netns);
	assert_true(r.n_ips >= 1 && r.ips[0].address.ip.family == 4 && r.ips[0].iface == 0);
	OK(chained_loopback.check(&l.m, &r, &e));
	ASSERT_EQ(undo_run(&l.undo), 0);
	lo = kern_link(&l.lab, "lo");
	assert_false(link_is_up(&lo));
	FAILS(chained_loopback.check(&l.m, &r, &e), -ENETDOWN, "loopback interface is down");
	chained_close(&l);
}

/* The failure of a later plugin must not set a link down that was up before ADD. */
static void test_undo_leaves_a_loopback_that_was_up(void **state)
{
	auto_result struct cni_result r = {0};
	struct chained_lab l;
	struct link lo;

	(void)state;
	chained_open(&l, true, "{}");
	l.m.has_prev = false;
	OK(chained_loopback.add(&l.m, &r, &l.undo, &e));
	undo_disarm(&l.undo);
	OK(chained_loopback.add(&l.m, &r, &l.undo, &e));
	ASSERT_EQ(undo_run(&l.undo), 0);
	lo = kern_link(&l.lab, "lo");
	assert_true(link_is_up(&lo));
	chained_close(&l);
}

static void test_del_without_a_namespace_succeeds(void **state)
{
	auto_result struct cni_result r = {0};
	struct chained_lab l;

	(void)state;
	chained_open(&l, false, "{}");
	OK(chained_loopback.del(&l.m, &r, &e));
	OK(chained_loopback.status(&l.m, &e));
	chained_close(&l);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_chained_plugin_is_found_by_its_type),
		cmocka_unit_test(test_runtime_config_is_limited_to_capabilities),
		cmocka_unit_test(test_add_sets_lo_up_and_undo_sets_it_down),
		cmocka_unit_test(test_undo_leaves_a_loopback_that_was_up),
		cmocka_unit_test(test_del_without_a_namespace_succeeds),
	};

	return T_RUN(tests, NULL, NULL);
}
