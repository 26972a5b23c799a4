/* SPDX-License-Identifier: Apache-2.0 */
/* The controller's settings: their sources, their errors, and their documentation. */
#include "testlib.h"

#include "base/alloc.h"
#include "controller/conf.h"
#include "settings_lab.h"

static int read_conf(struct controller_conf *c, const char *file, const char *const *vars,
		     struct err *e)
{
	static const char *const none[] = {NULL};
	const struct settings_env env = {settings_lab_env, (void *)(vars ? vars : none)};
	char *argv[] = {(char *)"--config", (char *)"/etc/c.conf"};

	il_write(&il_lab, "/etc/c.conf", file);
	return controller_conf_read(c, &il_lab.root, &env, 2, argv, e);
}

static void test_variables_of_spiderpools_controller_are_read(void **state)
{
	static const char *const vars[] = {"SPIDERPOOL_POD_NAMESPACE=kube-system",
					   "SPIDERPOOL_POD_NAME=spiderpool-controller-0",
					   "SPIDERPOOL_HEALTH_PORT=15720",
					   "SPIDERPOOL_LEADER_DURATION=30",
					   "SPIDERPOOL_LEADER_RENEW_DEADLINE=20",
					   "SPIDERPOOL_LEADER_RETRY_PERIOD=4",
					   "SPIDERPOOL_COORDINATOR_DEAFULT_NAME=other",
					   "SPIDERPOOL_COORDINATOR_ENABLED=true",
					   "SPIDERPOOL_MULTUS_CONFIG_ENABLED=false",
					   "SPIDERPOOL_GC_IP_ENABLED=false",
					   "SPIDERPOOL_GC_DEFAULT_INTERVAL_DURATION=300",
					   "SPIDERPOOL_GC_ADDITIONAL_GRACE_DELAY=5",
					   "SPIDERPOOL_IPPOOL_MAX_ALLOCATED_IPS=100",
					   NULL};
	struct controller_conf c;

	(void)state;
	ASSERT_EQ(read_conf(&c, "", vars, NULL), 0);
	ASSERT_STR_EQ(c.ns, "kube-system");
	ASSERT_STR_EQ(c.name, "spiderpool-controller-0");
	ASSERT_EQ(c.health_port, 15720);
	ASSERT_EQ(c.metrics_port, 5721);
	ASSERT_EQ(c.lease_ms, 30000);
	ASSERT_EQ(c.renew_ms, 20000);
	ASSERT_EQ(c.retry_ms, 4000);
	ASSERT_STR_EQ(c.coordinator_name, "other");
	assert_true(c.coordinator);
	assert_false(c.multus);
	assert_false(c.gc);
	ASSERT_EQ(c.gc_grace_ms, 60000);
	ASSERT_EQ(c.gc_delay_ms, 5000);
	ASSERT_EQ(c.gc_interval_ms, 300000);
	ASSERT_EQ(c.records_max, 100);
	controller_conf_done(&c);
}

static void test_invalid_settings_are_refused_with_an_exact_error(void **state)
{
	static const struct {
		const char *file, *expected;
	} v[] = {
		{"[controller]\nlease = 10s\nlease-renew = 10s\n",
		 "lease is 10000ms, lease-renew 10000ms, lease-retry 2000ms: lease-renew must "
		 "be shorter than lease, and lease-retry shorter than lease-renew"},
		{"[controller]\nlease-retry = 11s\n",
		 "lease is 15000ms, lease-renew 10000ms, lease-retry 11000ms: lease-renew must "
		 "be shorter than lease, and lease-retry shorter than lease-renew"},
		{"[controller]\nnamespaces-exclude = kube-system metallb-system\n",
		 "namespaces-exclude has 'kube-system metallb-system', expected names of namespaces "
		 "with commas between, such as 'kube-system, team-*'"},
		{"[controller]\nnamespaces-include = a, *-b\n",
		 "namespaces-include has '*-b', expected names of namespaces with commas between, "
		 "such as 'kube-system, team-*'"},
		{"[agent]\n\nreuse-delay = 1s\n",
		 "c.conf:3: section 'agent' is not known, expected 'controller'"},
		{"[controller]\nlease = soon\n",
		 "c.conf:2: lease is 'soon', expected a time from 2000ms to 3600000ms (60s, 500ms, 10m)"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(v); i++) {
		struct controller_conf c;
		struct err e = ERR_INIT;

		assert_true(read_conf(&c, v[i].file, NULL, &e) < 0);
		ASSERT_STR_EQ_MSG(e.text, v[i].expected, "v[%zu]", i);
	}
}

static void test_namespace_patterns_are_read(void **state)
{
	struct controller_conf c;
	struct err e = ERR_INIT;

	(void)state;
	ASSERT_EQ(read_conf(&c,
			    "[controller]\nnamespaces-include = team-*,*\n"
			    "namespaces-exclude = , kube-system ,a\n",
			    NULL, &e),
		  0);
	ASSERT_STR_EQ(c.include, "team-*,*");
	controller_conf_done(&c);
}

static void test_sample_file_has_every_key_with_its_default(void **state)
{
	auto_free char *sample =
		settings_lab_sample(&controller_settings, "configs/controller.conf");
	struct controller_conf c, d;

	(void)state;
	ASSERT_EQ(read_conf(&c, sample, NULL, NULL), 0);
	ASSERT_EQ(read_conf(&d, "", NULL, NULL), 0);
	assert_null(settings_needs_restart(&controller_settings, &c, &d));
	assert_non_null(c.name); /* the host's name */
	controller_conf_done(&c);
	controller_conf_done(&d);
	settings_lab_reference(&controller_settings);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_variables_of_spiderpools_controller_are_read,
						il_setup, il_teardown),
		cmocka_unit_test_setup_teardown(
			test_invalid_settings_are_refused_with_an_exact_error, il_setup,
			il_teardown),
		cmocka_unit_test_setup_teardown(test_namespace_patterns_are_read, il_setup,
						il_teardown),
		cmocka_unit_test_setup_teardown(test_sample_file_has_every_key_with_its_default,
						il_setup, il_teardown),
	};

	return T_RUN(tests, NULL, NULL);
}
