/* SPDX-License-Identifier: Apache-2.0 */
/* The agent's settings: their sources, their errors, and their documentation. */
#include "testlib.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent/conf.h"
#include "base/alloc.h"
#include "settings_lab.h"

static int read_conf(struct agent_conf *c, const char *file, const char *const *vars,
		     const char *const *flags, struct err *e)
{
	static const char *const none[] = {NULL};
	const struct settings_env env = {settings_lab_env, (void *)(vars ? vars : none)};
	char *argv[16] = {(char *)"--config", (char *)"/etc/agent.conf"};
	int argc = 2;

	il_write(&il_lab, "/etc/agent.conf", file ? file : "");
	for (; flags && *flags; flags++)
		argv[argc++] = (char *)*flags;
	return agent_conf_read(c, &il_lab.root, &env, argc, argv, e);
}

static void test_settings_have_documented_defaults(void **state)
{
	struct agent_conf c;

	(void)state;
	ASSERT_EQ(read_conf(&c, NULL, NULL, NULL, NULL), 0);
	ASSERT_STR_EQ(c.socket, "/var/run/spidernet/spiderpool.sock");
	ASSERT_STR_EQ(c.state_dir, "/var/lib/unirail/ipam");
	ASSERT_EQ(c.health_port, 5710);
	ASSERT_EQ(c.metrics_port, 5711);
	ASSERT_EQ(c.reuse_delay_ms, 60000);
	ASSERT_EQ(c.quarantine_ms, 600000);
	ASSERT_EQ(c.wait_ms, 15000);
	assert_null(c.node);
	assert_null(c.listen);
	assert_true(c.metrics);
	assert_false(c.gateway_detection);
	ASSERT_STR_EQ(c.coordinator.mode, "auto");
	agent_conf_done(&c);
}

static void test_flags_override_variables_and_variables_the_file(void **state)
{
	static const char file[] =
		"[agent]\nnode = f\nreuse-delay = 1s\nlog-level = debug\npre-allocate = 9\n"
		"[coordinator]\nmode = underlay\n";
	static const char *const vars[] = {"NODE_NAME=e",
					   "UNIRAIL_REUSE_DELAY=2s",
					   "UNIRAIL_WAIT=",
					   "SPIDERPOOL_LOG_LEVEL=warning",
					   "SPIDERPOOL_ENABLED_METRIC=False",
					   NULL};
	static const char *const flags[] = {"--node=g", "--log-level", "error", NULL};
	struct agent_conf c;

	(void)state;
	ASSERT_EQ(read_conf(&c, file, NULL, NULL, NULL), 0);
	ASSERT_STR_EQ(c.node, "f");
	ASSERT_STR_EQ(c.log_level, "debug");
	agent_conf_done(&c);
	ASSERT_EQ(read_conf(&c, file, vars, NULL, NULL), 0);
	ASSERT_STR_EQ(c.node, "e");
	ASSERT_EQ(c.reuse_delay_ms, 2000);
	ASSERT_EQ(c.wait_ms, 15000);
	ASSERT_STR_EQ(c.log_level, "warn");
	assert_false(c.metrics);
	ASSERT_EQ(c.pre_allocate, 9);
	agent_conf_done(&c);
	ASSERT_EQ(read_conf(&c, file, vars, flags, NULL), 0);
	ASSERT_STR_EQ(c.node, "g");
	ASSERT_STR_EQ(c.log_level, "error");
	ASSERT_EQ(c.reuse_delay_ms, 2000);
	ASSERT_STR_EQ(c.coordinator.mode, "underlay");
	agent_conf_done(&c);
}

/*
 * A unirail variable takes precedence over a Spiderpool variable; SPIDERPOOL_NODENAME is
 * read like SPIDERPOOL_NODE_NAME.
 */
static void test_unirail_variables_override_spiderpool_variables(void **state)
{
	static const char *const both[] = {"SPIDERPOOL_LOG_LEVEL=error", "UNIRAIL_LOG_LEVEL=debug",
					   "SPIDERPOOL_NODENAME=n", NULL};
	struct agent_conf c;

	(void)state;
	ASSERT_EQ(read_conf(&c, NULL, both, NULL, NULL), 0);
	ASSERT_STR_EQ(c.log_level, "debug");
	ASSERT_STR_EQ(c.node, "n");
	agent_conf_done(&c);
}

static void test_invalid_settings_are_refused_with_an_exact_error(void **state)
{
	static const struct {
		const char *file, *var, *flag, *expected;
	} v[] = {
		{"[agent]\nreuse-dely = 1s\n", NULL, NULL,
		 "agent.conf:2: key 'reuse-dely' is not known in this section; did you mean 'reuse-delay'?"},
		{"[agent]\nlog-level = info\nhealth-port = 99999\n", NULL, NULL,
		 "agent.conf:3: health-port is '99999', expected 0 to 65535"},
		{"[agent]\nmetrics = perhaps\n", NULL, NULL,
		 "agent.conf:2: metrics is 'perhaps', expected one of yes|no"},
		{"[agents]\na = b\n", NULL, NULL,
		 "agent.conf:2: section 'agents' is not known, expected 'agent' or 'coordinator'"},
		{"[agent]\nnonsense\n", NULL, NULL,
		 "agent.conf:2: expected 'key = value', '[section]' or a comment"},
		{"[agent]\nconfig = /x\n", NULL, NULL,
		 "agent.conf:2: key 'config' is not allowed in a configuration file; give the file's "
		 "path with --config"},
		{"[agent]\nsocket = x\n", NULL, NULL, "socket is 'x', expected an absolute path"},
		{"[agent]\nmemlock-hook = /opt/cni/bin/unirail-cni\n", NULL, NULL,
		 "memlock-hook requires use-cdi = yes: the hook is part of CDI specifications"},
		{"[coordinator]\nmode = x\n", NULL, NULL,
		 "agent.conf:2: mode is 'x', expected auto, underlay, overlay or disabled"},
		{NULL, "SPIDERPOOL_HEALTH_PORT=x", NULL,
		 "variable SPIDERPOOL_HEALTH_PORT: health-port is 'x', expected 0 to 65535"},
		{NULL, "UNIRAIL_BLOCK_IDLE=1ms", NULL,
		 "variable UNIRAIL_BLOCK_IDLE: block-idle is '1ms', expected a time from 1000ms to "
		 "86400000ms (60s, 500ms, 10m)"},
		{NULL, NULL, "--reuse-dely=1",
		 "unknown option '--reuse-dely=1'; did you mean '--reuse-delay'?"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(v); i++) {
		const char *vars[] = {v[i].var, NULL}, *flags[] = {v[i].flag, NULL};
		struct err e = ERR_INIT;
		struct agent_conf c;

		assert_true(read_conf(&c, v[i].file, vars, flags, &e) < 0);
		ASSERT_STR_EQ_MSG(e.text, v[i].expected, "v[%zu]", i);
	}
}

static void test_missing_file_named_by_an_option_is_an_error(void **state)
{
	char *argv[] = {(char *)"--config", (char *)"/etc/none.conf"};
	struct err e = ERR_INIT;
	struct agent_conf c;

	(void)state;
	ASSERT_EQ(agent_conf_read(&c, &il_lab.root, NULL, 2, argv, &e), -ENOENT);
	assert_non_null(strstr(e.text, "/etc/none.conf"));
}

static void test_changed_settings_that_require_a_restart_are_named(void **state)
{
	struct agent_conf a, b;

	(void)state;
	ASSERT_EQ(read_conf(&a, "[agent]\nreuse-delay = 1s\n", NULL, NULL, NULL), 0);
	ASSERT_EQ(read_conf(&b, "[agent]\nreuse-delay = 2s\nwait = 1s\n", NULL, NULL, NULL), 0);
	assert_null(settings_needs_restart(&agent_settings, &a, &b));
	agent_conf_done(&b);
	ASSERT_EQ(read_conf(&b, "[agent]\nsocket = /x\n", NULL, NULL, NULL), 0);
	ASSERT_STR_EQ(settings_needs_restart(&agent_settings, &a, &b), "socket");
	agent_conf_done(&a);
	agent_conf_done(&b);
}

/* --- documents --- */

/* configs/agent.conf has each key except config, with its default, and is a valid configuration. */
static void test_sample_file_has_every_key_with_its_default(void **state)
{
	auto_free char *sample = settings_lab_sample(&agent_settings, "configs/agent.conf");
	struct agent_conf c, d;

	(void)state;
	ASSERT_EQ(read_conf(&c, sample, NULL, NULL, NULL), 0);
	ASSERT_EQ(read_conf(&d, "", NULL, NULL, NULL), 0);
	assert_null(settings_needs_restart(&agent_settings, &c, &d));
	agent_conf_done(&c);
	agent_conf_done(&d);
}

static void test_generated_reference_has_every_key(void **state)
{
	(void)state;
	settings_lab_reference(&agent_settings);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(test_settings_have_documented_defaults, il_setup,
						il_teardown),
		cmocka_unit_test_setup_teardown(test_flags_override_variables_and_variables_the_file,
						il_setup, il_teardown),
		cmocka_unit_test_setup_teardown(test_unirail_variables_override_spiderpool_variables,
						il_setup, il_teardown),
		cmocka_unit_test_setup_teardown(
			test_invalid_settings_are_refused_with_an_exact_error, il_setup,
			il_teardown),
		cmocka_unit_test_setup_teardown(test_missing_file_named_by_an_option_is_an_error,
						il_setup, il_teardown),
		cmocka_unit_test_setup_teardown(
			test_changed_settings_that_require_a_restart_are_named, il_setup,
			il_teardown),
		cmocka_unit_test_setup_teardown(test_sample_file_has_every_key_with_its_default,
						il_setup, il_teardown),
		cmocka_unit_test_setup_teardown(test_generated_reference_has_every_key, il_setup,
						il_teardown),
	};

	return T_RUN(tests, NULL, NULL);
}
