/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `unirail host KIND ...`: options, operands and the variables of the original scripts become a
 * section of host.d; a query shows the present values.
 */
#include "host_lab.h"

#include <string.h>

#include "base/alloc.h"
#include "cli/host.h"
#include "host/apply.h"
#include "host/conf.h"
#include "host/dropin.h"
#include "host/kinds.h"

enum { ARGS_MAX = 8 };

static struct err e;

/* arg: an array of strings "NAME=value" that ends with NULL */
static const char *get(void *arg, const char *name)
{
	size_t n = strlen(name);

	for (const char *const *v = arg; *v; v++)
		if (strncmp(*v, name, n) == 0 && (*v)[n] == '=')
			return *v + n + 1;
	return NULL;
}

static const struct cmd *command(const char *kind)
{
	if (!host_cmds[0].name)
		host_cmds_init();
	for (const struct cmd *c = host_cmds; c->name; c++)
		if (strcmp(c->name, kind) == 0)
			return c;
	fail_msg("no command '%s'", kind);
	return NULL;
}

static int args_of(const char *line, char *text, size_t size, char **argv)
{
	char *save = NULL;
	int n = 0;

	str_copy(text, size, line);
	for (char *w = strtok_r(text, " ", &save); w && n < ARGS_MAX;
	     w = strtok_r(NULL, " ", &save))
		argv[n++] = w;
	return n;
}

/* Returns the section of host.d that `unirail host KIND LINE` makes, as text; NULL: neither
 * `variables` nor `line` gives a key. The caller frees it. */
static char *section(const char *kind, const char *const *variables, const char *line)
{
	const struct host_kind *k = host_kind_find(kind);
	const struct host_env env = {get, (void *)(uintptr_t)variables};
	struct host_options o = {.output = "text"};
	auto_host_conf struct host_conf c;
	char text[256], *argv[ARGS_MAX];
	int n = args_of(line, text, sizeof(text), argv);
	const struct host_wants *w;
	bool given = false;

	host_conf_init(&c);
	if (host_conf_command(&c, k, command(kind), "unirail host", &env, n, argv, &o, &given, &e) <
	    0)
		fail_msg("%s %s: %s", kind, line, e.text);
	w = host_conf_wants(&c, k);
	ASSERT_EQ(w->n, given);
	return given ? host_dropin_text(k, w->v[0]) : NULL;
}

static void is_section(const char *kind, const char *const *variables, const char *line,
		       const char *wanted)
{
	auto_free char *text = section(kind, variables, line);
	const char *body = text ? strchr(text, '\n') : NULL;

	ASSERT_STR_EQ(body ? body + 1 : "", wanted);
}

static const char *const none[] = {NULL};

/* The documented invocation of rdma-qos.sh sets variables of the script to their default values.
 * `unirail host qos` with these variables must still write a section. */
static void test_option_with_the_default_value_makes_a_section(void **state)
{
	static const char *const documented[] = {"GPU_RDMA_PRIORITY=5", "GPU_CNP_PRIORITY=6", NULL};

	(void)state;
	is_section("qos", documented, "", "[qos]\n");
	is_section("qos", none, "--priority 5", "[qos]\n");
	is_section("qos", none, "--trust dscp", "[qos]\n");
	is_section("acs", none, "path", "[acs]\n");
	is_section("qos", none, "", "");
	is_section("qos", none, "-o json", "");
}

static void test_variables_of_the_original_scripts_become_keys_of_host_conf(void **state)
{
	static const char *const addr[] = {"INTERFACE=ens1",
					   "IPV4_IP=172.16.1.10/24",
					   "IPV4_GATEWAY=172.16.1.1",
					   "IPV6_IP=fd00::10/64",
					   "IPV6_GATEWAY=fd00::1",
					   "MTU=4200",
					   "DHCP4=false",
					   "DHCP6=",
					   "ENABLE_POLICY_ROUTE=true",
					   "POLICY_ROUTE_TABLE=200",
					   "ENABLE_RDMA_DEFAULT_ROUTE=true",
					   "RDMA_SUBNET=172.16.0.0/16",
					   NULL};
	static const char *const dhcp[] = {"INTERFACE=ens1", "DHCP4=true", "DHCP6=true", NULL};
	static const char *const clean[] = {"INTERFACE=ens1", "mode=clean", NULL};
	static const char *const rule[] = {"RDMA_CIDR=172.16.0.0/16", NULL};
	static const char *const one[] = {"RDMA_MODE=roce", NULL};
	static const char *const two[] = {"GPU_RDMA_MODE=infiniband", "OTHER_RDMA_MODE=roce", NULL};
	static const char *const qos[] = {"GPU_RDMA_PRIORITY=1", "GPU_CNP_PRIORITY=2",
					  "GPU_RDMA_QOS=09", "GPU_CNP_QOS=17", NULL};
	static const char *const other_name[] = {"GPU_RDMA_PRIORITY=1", "GPU_NIC_QOS=49", NULL};

	(void)state;
	is_section("addr", addr, "",
		   "[interface ens1]\nipv4-ip = 172.16.1.10/24\nipv4-gateway = 172.16.1.1\n"
		   "ipv6-ip = fd00::10/64\nipv6-gateway = fd00::1\nmtu = 4200\npolicy-route = yes\n"
		   "table = 200\nrdma-default-route = yes\nrdma-subnet = 172.16.0.0/16\n");
	is_section("addr", dhcp, "", "[interface ens1]\ndhcp4 = yes\ndhcp6 = yes\n");
	is_section("addr", clean, "", "[interface ens1]\nmode = clean\n");
	is_section("rule", rule, "", "[rule]\ncidr = 172.16.0.0/16\n");
	is_section("link-type", one, "", "[link-type]\nall = roce\n");
	is_section("link-type", two, "", "[link-type]\ngpu = infiniband\nother = roce\n");
	is_section("qos", qos, "",
		   "[qos]\npriority = 1\ncnp-priority = 2\ndscp = 9\ncnp-dscp = 17\n");
	is_section("qos", other_name, "", "[qos]\npriority = 1\ncnp-dscp = 49\n");
	/* The command line overrides a variable. */
	is_section("rule", rule, "172.17.0.0/16", "[rule]\ncidr = 172.17.0.0/16\n");
	is_section("addr", dhcp, "ens2 --mtu 9000",
		   "[interface ens2]\nmtu = 9000\ndhcp4 = yes\ndhcp6 = yes\n");
}

static bool is_query(const char *kind, const char *line, struct host_options *o)
{
	static char text[256]; /* *o points into it */
	char *argv[ARGS_MAX];
	int n = args_of(line, text, sizeof(text), argv);

	*o = (struct host_options){.output = "text"};
	return host_conf_is_query(host_kind_find(kind), command(kind), "unirail host", n, argv, o);
}

static void test_query_with_keys_or_other_operands_is_not_recognized(void **state)
{
	struct host_options o;

	(void)state;
	assert_true(is_query("qos", "q", &o));
	ASSERT_STR_EQ(o.output, "text");
	assert_true(is_query("qos", "--root / query -o json", &o));
	ASSERT_STR_EQ(o.output, "json");
	assert_true(is_query("gpudirect", "q", &o));
	assert_true(is_query("addr", "q", &o));
	assert_false(is_query("qos", "q --nics mlx5_0", &o));
	assert_false(is_query("addr", "--ipv4-ip q ens1", &o));
	assert_false(is_query("addr", "ens1 q", &o));
	assert_false(is_query("qos", "q --unknown", &o));
	assert_false(is_query("qos", "q --help", &o));
}

static void test_query_without_a_section_succeeds_for_every_kind(void **state)
{
	static const char *const trees[] = {"hw_eight_ofed.tree", "hw_infiniband.tree",
					    "hw_vm.tree"};

	(void)state;
	for (size_t t = 0; t < ARRAY_LEN(trees); t++) {
		struct host_lab lab;
		struct host h;

		host_unpack(&lab, trees[t]);
		ASSERT_EQ_MSG(host_open(&h, lab.dir, &e), 0, "trees[%zu]", t);
		for (const struct host_kind *const *k = host_kinds; *k; k++) {
			const struct host_kind *only = *k;
			const struct host_select one = {&only, 1};
			auto_host_conf struct host_conf c;
			struct host_rows rows = {0};

			host_conf_init(&c);
			if (host_show(&h, &c, &one, &rows, &e) < 0)
				fail_msg("%s of %s: %s", (*k)->name, trees[t], e.text);
			host_rows_done(&rows);
		}
		host_close(&h);
		host_remove(&lab);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_option_with_the_default_value_makes_a_section),
		cmocka_unit_test(test_variables_of_the_original_scripts_become_keys_of_host_conf),
		cmocka_unit_test(test_query_with_keys_or_other_operands_is_not_recognized),
		cmocka_unit_test(test_query_without_a_section_succeeds_for_every_kind),
	};

	return T_RUN(tests, NULL, NULL);
}
