/* SPDX-License-Identifier: Apache-2.0 */
/* How doctor's findings become `unirail host` commands that agree with the settings of
 * host.conf. */
#include "testlib.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "cli/doctor_fix.h"

static void become(const char *conf, const char *const *fixes, size_t n, const char *const *want,
		   size_t n_want)
{
	auto_host_conf struct host_conf c;
	auto_fix struct fix_commands l = {0};
	struct finding v[8] = {0};
	const struct findings found = {.v = v, .n = n};

	host_conf_init(&c);
	ASSERT_EQ(host_conf_parse(&c, "host.conf", span_of(conf), NULL), 0);
	for (size_t i = 0; i < n; i++)
		v[i].fix = (char *)fixes[i];
	fix_collect(&found, &c, &l);
	ASSERT_EQ(l.n, n_want);
	for (size_t i = 0; i < n_want; i++) {
		auto_free char *text = fix_text(&l.v[i]);

		ASSERT_STR_EQ(text, want[i]);
	}
}

#define BECOME(conf, ...)                                                                          \
	become(conf, fixes, ARRAY_LEN(fixes), (const char *const[]){__VA_ARGS__},                  \
	       ARRAY_LEN(((const char *const[]){__VA_ARGS__})))

static void test_findings_of_one_kind_become_one_command(void **state)
{
	static const char *const fixes[] = {"acs", "sysctl a.b=2", NULL, "acs", "sysctl c.d=1"};

	(void)state;
	BECOME("", "unirail host acs", "unirail host sysctl a.b=2 c.d=1");
}

static void test_list_arguments_of_findings_are_joined(void **state)
{
	static const char *const fixes[] = {"modules --load ib_umad,rdma_ucm",
					    "modules --load ib_umad,rdma_ucm,nvidia_peermem",
					    "nm-ignore --interfaces veth*,ens1",
					    "nm-ignore --interfaces veth*,ens2"};

	(void)state;
	BECOME("", "unirail host modules --load ib_umad,rdma_ucm,nvidia_peermem",
	       "unirail host nm-ignore --interfaces 'veth*,ens1,ens2'");
}

static void test_command_includes_the_settings_of_host_conf(void **state)
{
	static const char *const fixes[] = {"sysctl net.ipv4.conf.ens1.rp_filter=2",
					    "modules --load ib_umad"};

	(void)state;
	BECOME("[sysctl]\nnet.ipv4.conf.ens1.rp_filter = 1\nnet.ipv4.tcp_ecn = 1\n"
	       "[modules]\nload = ib_ipoib\n",
	       "unirail host sysctl net.ipv4.conf.ens1.rp_filter=2 net.ipv4.tcp_ecn=1",
	       "unirail host modules --load ib_umad,ib_ipoib");
}

static void test_findings_of_drift_become_one_apply_command(void **state)
{
	static const char *const fixes[] = {"apply qos", "apply vf", "apply qos"};

	(void)state;
	BECOME("[qos]\npriority = 3\n", "unirail host apply qos vf");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_findings_of_one_kind_become_one_command),
		cmocka_unit_test(test_list_arguments_of_findings_are_joined),
		cmocka_unit_test(test_command_includes_the_settings_of_host_conf),
		cmocka_unit_test(test_findings_of_drift_become_one_apply_command),
	};

	return T_RUN(tests, NULL, NULL);
}
