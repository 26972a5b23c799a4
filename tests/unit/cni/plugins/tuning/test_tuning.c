/* SPDX-License-Identifier: Apache-2.0 */
/* The tuning plugin: precedence of the sources of its settings, the backup file for DEL,
 * allowlist patterns, and undo. */
#include "meta_lab.h"

#include <errno.h>
#include <net/if.h>
#include <regex.h>
#include <unistd.h>

#include "base/paths.h"
#include "cni/plugins/tuning/tuning.h"
#include "kern/sys/netns.h"
#include "kern/sys/sysctl.h"

/* --- names of sysctls --- */

static void test_sysctl_names_become_paths(void **state)
{
	static const char *const good[][3] = {
		{"net.ipv4.conf.IFNAME.arp_notify", "net1", "net/ipv4/conf/net1/arp_notify"},
		{"net.ipv4.conf.IFNAME.arp_notify", "net1.100",
		 "net/ipv4/conf/net1.100/arp_notify"},
		{"net/ipv4/conf/IFNAME/arp_notify", "a.b", "net/ipv4/conf/a.b/arp_notify"},
		{"net.ipv4..ip_forward", "net1", "net/ipv4/ip_forward"},
		{".net.core.somaxconn.", "net1", "net/core/somaxconn"},
		/* only the first IFNAME is replaced */
		{"net.IFNAME.IFNAME", "x", "net/x/IFNAME"},
		{"net.ipv4.conf.IFNAME.arp_notify", "", "net/ipv4/conf/IFNAME/arp_notify"},
	};
	static const char *const bad[][2] = {
		{"kernel.panic",
		 "invalid net sysctl key: \"kernel/panic\" (expected one below net)"},
		{"net", "invalid net sysctl key: \"net\" (expected one below net)"},
		{"net.", "invalid net sysctl key: \"net/\" (expected one below net)"},
		{"", "invalid net sysctl key: \"\" (expected one below net)"},
		{"network.x", "invalid net sysctl key: \"network/x\" (expected one below net)"},
		{"fs.net.x", "invalid net sysctl key: \"fs/net/x\" (expected one below net)"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(good); i++) {
		auto_free char *p = tuning_sysctl_path(good[i][0], good[i][1], &e);

		assert_non_null(p);
		ASSERT_STR_EQ_MSG(p, good[i][2], "good[%zu]", i);
	}
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		assert_null(tuning_sysctl_path(bad[i][0], "net1", &e));
		ASSERT_STR_EQ_MSG(e.text, bad[i][1], "bad[%zu]", i);
		ASSERT_EQ_MSG(e.kind, ERR_CONF, "bad[%zu]", i);
	}
}

/* --- configuration --- */

/* Returns the settings that are set, as "mac=.. mtu=.. promisc=.. allmulti=.. txqlen=..
 * path=value ...". */
static char *summary(const struct tuning_conf *c)
{
	const struct tuning_attrs *w = &c->want;
	struct buf b;

	buf_init(&b, 1024);
	if (c->mac_text)
		buf_printf(&b, "mac=%s ", c->mac_text);
	if (w->mtu)
		buf_printf(&b, "mtu=%u ", w->mtu);
	if (w->has_promisc)
		buf_printf(&b, "promisc=%d ", w->promisc);
	if (w->has_allmulti)
		buf_printf(&b, "allmulti=%d ", w->allmulti);
	if (w->has_txqlen)
		buf_printf(&b, "txqlen=%u ", w->txqlen);
	for (size_t i = 0; i < c->n_sysctls; i++)
		buf_printf(&b, "%s=%s ", c->sysctls[i].path, c->sysctls[i].value);
	return buf_take(&b);
}

static void expect_conf(const char *args, const char *conf, const char *want)
{
	auto_tuning_conf struct tuning_conf c;
	auto_free char *got = NULL;
	struct chained_lab l;

	chained_open(&l, false, conf);
	l.call.args_text = args;
	OK(tuning_conf_read(&l.m, &c, &e));
	got = summary(&c);
	ASSERT_STR_EQ(got, want);
	assert_true((c.mac_text != NULL) == (c.want.mac.len == 6));
	chained_close(&l);
}

#define A "0a:00:00:00:00:01"
#define B "0a:00:00:00:00:02"

static void test_tuning_args_take_precedence_over_the_configuration(void **state)
{
	(void)state;
	expect_conf("", "{}", "");
	expect_conf("", "{'mac':'" A "','mtu':1400,'promisc':true,'allmulti':false,'txQLen':0}",
		    "mac=" A " mtu=1400 promisc=1 allmulti=0 txqlen=0 ");
	expect_conf("MAC=" B, "{'mac':'" A "'}", "mac=" B " ");
	expect_conf("MAC=" A, "{'runtimeConfig':{'mac':'" B "'}}", "mac=" B " ");
	expect_conf("MAC=" A, "{'runtimeConfig':{'mac':'" A "'},'args':{'cni':{'mac':'" B "'}}}",
		    "mac=" B " ");
	/* a key of args.cni has precedence even if its value is an empty string, false or 0 */
	expect_conf("",
		    "{'mac':'" A "','promisc':true,'mtu':9,'args':{'cni':{'mac':'','promisc':"
		    "false,'mtu':0}}}",
		    "");
	expect_conf("", "{'mac':'" A "','args':{'cni':{'mac':null,'txQLen':5,'allmulti':true}}}",
		    "mac=" A " allmulti=1 txqlen=5 ");
	expect_conf("", "{'MTU':1400,'SYSCTL':{'net.a':'1'}}", "mtu=1400 net/a=1 ");
	expect_conf("", "{'args':null,'sysctl':null}", "");
}

/* The original plugin panics if args has sysctls and the configuration has none (the first
 * case). */
static void test_sysctls_of_args_override_the_configuration(void **state)
{
	(void)state;
	expect_conf("", "{'args':{'cni':{'sysctl':{'net.a':'1'}}}}", "net/a=1 ");
	expect_conf("",
		    "{'sysctl':{'net.a':'1','net.b':'2'},'args':{'cni':{'sysctl':{'net.a':'3',"
		    "'net.c':'4'}}}}",
		    "net/a=3 net/b=2 net/c=4 ");
	/* args.cni may spell the same sysctl in another way */
	expect_conf("", "{'sysctl':{'net.a':'1'},'args':{'cni':{'sysctl':{'net/a':'3'}}}}",
		    "net/a=3 ");
	/* two spellings of a sysctl in one object must have the same value */
	expect_conf("", "{'sysctl':{'net.a':'1','net/a':'1'}}", "net/a=1 ");
}

static void test_invalid_tuning_configuration_is_refused(void **state)
{
	static const char *const rows[][2] = {
		{"{'sysctl':{'net.a':'1','net.a':'1'}}",
		 "duplicated sysctl keys are not allowed: conf.sysctl has 'net.a' twice"},
		{"{'sysctl':{'net.a':'1','net/a':'2'}}",
		 "duplicated sysctl keys are not allowed: conf.sysctl has 'net.a' and 'net/a', "
		 "which are one sysctl, with different values"},
		/* the same within args.cni, for a sysctl that conf.sysctl has as well */
		{"{'sysctl':{'net.a':'1'},'args':{'cni':{'sysctl':{'net.a':'2','net/a':'3'}}}}",
		 "duplicated sysctl keys are not allowed: conf.args.cni.sysctl has 'net.a' and "
		 "'net/a', which are one sysctl, with different values"},
		{"{'sysctl':{'net.a':1}}",
		 "conf.sysctl.net.a is number, expected a string such as \"1\""},
		{"{'args':{'cni':{'sysctl':{'vm.a':'1'}}}}",
		 "invalid net sysctl key: \"vm/a\" (expected one below net)"},
		{"{'args':{'cni':7}}", "conf.args.cni is number, expected an object"},
		{"{'mac':'x'}", "invalid args x for MAC addr: address x: invalid MAC address"},
		{"{'runtimeConfig':{'mac':5}}",
		 "conf.runtimeConfig.mac is number, expected a string"},
		{"{'dataDir':'x'}", "conf.dataDir is 'x', expected an absolute path"},
	};
	struct tuning_conf c;
	struct chained_lab l;

	(void)state;
	chained_open(&l, false, "{}");
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		chained_set(&l, rows[i][0]);
		FAILS(tuning_conf_read(&l.m, &c, &e), -EINVAL, rows[i][1]);
		ASSERT_EQ_MSG(e.kind, ERR_CONF, "rows[%zu]", i);
	}
	chained_set(&l, "{'dataDir':7}");
	ASSERT_STR_EQ(tuning_data_dir(&l.m), PATH_TUNING);
	chained_set(&l, "{'datadir':'/x'}");
	ASSERT_STR_EQ(tuning_data_dir(&l.m), "/x");
	chained_close(&l);
}

/* --- the file for DEL --- */

static void expect_backup(const struct tuning_attrs *a, const char *text)
{
	struct tuning_attrs back = {0};
	auto_buf struct buf b;

	buf_init(&b, 4096);
	tuning_backup_print(a, &b);
	ASSERT_STR_EQ(b.p, text);
	OK(tuning_backup_parse(span_of(text), &back, &e));
	assert_memory_equal(&back, a, sizeof(back));
}

static void test_attributes_recorded_for_del_are_written_and_read(void **state)
{
	static const char *const bad[] = {"",
					  "{",
					  "[]",
					  "{\"mtu\":-1}",
					  "{\"mtu\":\"1\"}",
					  "{\"mac\":\"zz\"}",
					  "{\"promisc\":1}",
					  "{\"txQLen\":4294967296}"};
	struct tuning_attrs a = {0}, back;

	(void)state;
	expect_backup(&a, "{}");
	a.has_txqlen = true;
	expect_backup(&a, "{\n \"txQLen\": 0\n}");
	a = (struct tuning_attrs){.mac = t_mac("0a:58:00:00:00:01"),
				  .mtu = 1500,
				  .has_promisc = true,
				  .has_allmulti = true,
				  .allmulti = true,
				  .has_txqlen = true,
				  .txqlen = 1000};
	expect_backup(&a, "{\n \"mac\": \"0a:58:00:00:00:01\",\n \"promisc\": false,\n \"mtu\": "
			  "1500,\n \"allmulti\": true,\n \"txQLen\": 1000\n}");
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		err_clear(&e);
		ASSERT_EQ_MSG(tuning_backup_parse(span_of(bad[i]), &back, &e), -EINVAL, "bad[%zu]",
			      i);
		assert_true(e.text[0]);
	}
	/* a later version of the original may write more keys */
	OK(tuning_backup_parse(span_of("{\"mtu\":1400,\"new\":[1]}"), &back, &e));
	ASSERT_EQ(back.mtu, 1400);
}

static void test_original_attributes_are_recorded_once(void **state)
{
	const struct link l = {.mac = t_mac(A),
			       .mtu = 1500,
			       .txqlen = 7,
			       .flags = IFF_ALLMULTI,
			       .promisc = 1 /* a process listens on the interface */};
	struct tuning_attrs want = {.mtu = 9000, .has_promisc = true, .promisc = true}, got, sum;
	struct tuning_attrs more = {.mac = t_mac(B), .mtu = 8000, .has_allmulti = true};

	(void)state;
	assert_false(tuning_touches(&(struct tuning_attrs){0}));
	assert_true(tuning_touches(&want));
	got = tuning_found(&want, &l);
	ASSERT_EQ(got.mtu, 1500);
	assert_true(got.has_promisc && !got.promisc);
	ASSERT_EQ(got.mac.len, 0);
	assert_false(got.has_allmulti || got.has_txqlen);
	more = tuning_found(&more, &l);
	assert_true(mac_eq(&more.mac, &l.mac) && more.allmulti);
	/* A merge retains the values that the first tuning recorded, and adds attributes that
	 * only the second tuning recorded. */
	got.mtu = 1234;
	sum = tuning_merge(&got, &more);
	ASSERT_EQ(sum.mtu, 1234);
	assert_true(mac_eq(&sum.mac, &l.mac) && sum.has_promisc && sum.has_allmulti &&
		    sum.allmulti);
	assert_false(sum.has_txqlen);
}

static void test_each_attribute_is_set_by_a_separate_link_change(void **state)
{
	struct link_change c[TUNING_CHANGES];
	const struct tuning_attrs all = {.mac = t_mac(A),
					 .mtu = 1400,
					 .has_promisc = true,
					 .has_allmulti = true,
					 .has_txqlen = true};

	(void)state;
	ASSERT_EQ(tuning_changes(&(struct tuning_attrs){0}, c), 0);
	ASSERT_EQ(tuning_changes(&all, c), TUNING_CHANGES);
	ASSERT_EQ(c[0].set, LINK_SET_MAC);
	ASSERT_EQ(c[1].set, LINK_SET_PROMISC);
	ASSERT_EQ(c[2].set, LINK_SET_MTU);
	ASSERT_EQ(c[3].set, LINK_SET_ALLMULTI);
	ASSERT_EQ(c[4].set, LINK_SET_TXQLEN);
	ASSERT_EQ(c[2].mtu, 1400);
	assert_false(c[1].promisc || c[3].allmulti);
}

/* --- CHECK --- */

static void test_sysctl_values_are_compared_by_fields(void **state)
{
	(void)state;
	assert_true(sysctl_same_value("1", "1"));
	assert_true(sysctl_same_value("4096\t131072\t6291456", "4096 131072  6291456 "));
	assert_true(sysctl_same_value("", "  \n"));
	assert_false(sysctl_same_value("1", "10"));
	assert_false(sysctl_same_value("1 2", "12"));
	assert_false(sysctl_same_value("1 2", "1"));
}

static void test_check_reports_attributes_that_differ(void **state)
{
	struct link l = {.name = "net1", .mac = t_mac(A), .mtu = 1500, .txqlen = 1000};
	struct tuning_conf c = {.mac_text = "0A:00:00:00:00:01", .want.mac = t_mac(A)};

	(void)state;
	/* The original compares MACs as text, so upper-case letters are a difference, and it
	 * reports an interface as misconfigured while tcpdump listens on it. unirail accepts
	 * both. */
	l.promisc = 1;
	OK(tuning_check_link(&c, &l, &e));
	c.want.mac = t_mac(B);
	c.mac_text = B;
	FAILS(tuning_check_link(&c, &l, &e), -EINVAL,
	      "Error: Tuning configured Ethernet of net1 is " B ", current value is " A);
	c.want.mac.len = 0;
	l.flags = IFF_PROMISC;
	FAILS(tuning_check_link(&c, &l, &e), -EINVAL,
	      "Error: Tuning link net1 configured promisc is false, current value is 1");
	c.want.promisc = true;
	OK(tuning_check_link(&c, &l, &e));
	c.want.mtu = 1400;
	FAILS(tuning_check_link(&c, &l, &e), -EINVAL,
	      "Error: Tuning configured MTU of net1 is 1400, current value is 1500");
	c.want.mtu = 0;
	c.want.has_allmulti = c.want.allmulti = true;
	FAILS(tuning_check_link(&c, &l, &e), -EINVAL,
	      "Error: Tuning configured all-multicast mode of net1 is true, current value is "
	      "false");
	c.want.allmulti = false;
	c.want.has_txqlen = true;
	FAILS(tuning_check_link(&c, &l, &e), -EINVAL,
	      "Error: Tuning configured Transmit Queue Length of net1 is 0, current value is 1000");
}

/* --- allowlist --- */

static void expect_match(const char *go, const char *text, bool matches)
{
	auto_buf struct buf posix;
	regex_t re;

	buf_init(&posix, 4096);
	OK(tuning_pattern(go, &posix, &e));
	if (regcomp(&re, posix.p, REG_EXTENDED | REG_NOSUB) != 0)
		fail_msg("'%s' became '%s'", go, posix.p);
	if ((regexec(&re, text, 0, NULL, 0) == 0) != matches)
		fail_msg("pattern '%s' (POSIX '%s') %s '%s'", go, posix.p,
			 matches ? "misses" : "matches", text);
	regfree(&re);
}

/* The expected results are those of Go's regexp for the same patterns and texts. */
static void test_allowlist_patterns_match_like_go(void **state)
{
	static const struct {
		const char *go, *yes, *no;
	} rows[] = {
		{"net.ipv4", "net.ipv4", "nex.ipv6"},
		{"net.ipv4", "netxipv4", "net.ipv"},
		{"^net\\.core\\.[a-z_]+$", "net.core.somaxconn", "net.core.x1"},
		{"^(?:a|b)c$", "bc", "c"},
		{"^(?P<n>ab){2}$", "abab", "ab"},
		{"^a{2,3}?$", "aaa", "aaaa"},
		{"^a{,3}$", "a{,3}", "aaa"},
		{"^a+?b*?c??$", "aab", "b"},
		{"^\\d\\D\\w\\W\\s\\S$", "1x_- y", "1x_-xy"},
		{"^[\\d\\-]$", "-", "d"},
		{"^[]a^-]$", "]", "b"},
		{"^[a\\]]$", "]", "\\"},
		{"^[^a-c]$", "d", "b"},
		{"^[^\\w]$", "-", "w"},
		{"^[[:alpha:]_]$", "_", "1"},
		{"^[[:^alpha:]]$", "1", "a"},
		{"^[+-.]$", ",", "/"},
		{"^[\\^]$", "^", "x"},
		{"^[^^]$", "x", "^"},
		{"^[\\^-]$", "-", "x"},
		{"^\\-\\/\\_$", "-/_", "x/_"},
		{"\\Anet\\z", "net", "nets"},
		{"a$|^b", "b", "ab."},
		{"", "anything", NULL},
		{"a||b", "c", NULL},
		{"()", "c", NULL},
		{"^\\$\\(\\)$", "$()", "x"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		expect_match(rows[i].go, rows[i].yes, true);
		if (rows[i].no)
			expect_match(rows[i].go, rows[i].no, false);
	}
}

static void test_unsupported_allowlist_patterns_are_refused(void **state)
{
	static const char *const bad[] = {"*a",	    "a**",	  "a+*", "(?i)a", "(?=a)",
					  "(a",	    "a)",	  "[a",	 "[z-a]", "\\",
					  "\\bnet", "\\pL",	  "\\1", "[\\n]", "[[:x:]]",
					  "(?P<a",  "[\xc3\xa4]", "|*",	 "a\\A?"};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		auto_buf struct buf posix;

		buf_init(&posix, 4096);
		err_clear(&e);
		if (tuning_pattern(bad[i], &posix, &e) != -EINVAL)
			fail_msg("'%s' is converted to '%s', expected a refusal", bad[i], posix.p);
		ASSERT_EQ_MSG(e.kind, ERR_CONF, "bad[%zu]", i);
	}
}

static void test_sysctls_must_match_the_allowlist(void **state)
{
	struct tuning_sysctl list[] = {{.key = "net.a.IFNAME.x", .value = "1"},
				       {.key = "net.b", .value = "1"}};
	const struct tuning_conf c = {.sysctls = list, .n_sysctls = 2}, none = {0};

	(void)state;
	OK(tuning_allow(&c, "/l", span_of("a.IFNAME\n\n  net\\.b$ \n"), &e));
	OK(tuning_allow(&none, "/l", span_of(""), &e));
	/* A pattern is matched with the key as the configuration writes it, in which IFNAME is
	 * not replaced by the interface's name. */
	FAILS(tuning_allow(&c, "/l", span_of("net1"), &e), -EPERM,
	      "Sysctl net.a.IFNAME.x is not allowed. Only the following sysctls are allowed: "
	      "[net1] (/l)");
	FAILS(tuning_allow(&c, "/l", span_of("net.a\r\nx"), &e), -EPERM,
	      "Sysctl net.b is not allowed. Only the following sysctls are allowed: [net.a x] "
	      "(/l)");
	FAILS(tuning_allow(&none, "/l", span_of("ok\n(x"), &e), -EINVAL,
	      "/l:2: '(x': missing closing ) at ''");
	ASSERT_EQ(e.kind, ERR_CONF);
}

/* --- ADD and undo, in the test's process --- */

static void state_of(struct chained_lab *l, struct tuning_attrs *attrs, char value[static 16])
{
	const struct tuning_attrs all = {.mac.len = 6,
					 .mtu = 1,
					 .has_promisc = true,
					 .has_allmulti = true,
					 .has_txqlen = true};
	struct netns_visit v = NETNS_VISIT_INIT;
	struct link link = kern_link(&l->lab, "net1");

	*attrs = tuning_found(&all, &link);
	OK(netns_enter(l->lab.ns, &v, &e));
	OK(sysctl_get(&l->call.root, "net/ipv4/conf/net1/proxy_arp", value, 16, &e));
	netns_leave(&v);
}

static void test_failed_chain_restores_the_link(void **state)
{
	char dir[T_DIR_MAX], before[16], after[16];
	auto_free char *conf = NULL, *file = NULL;
	struct tuning_attrs old, now;
	auto_result struct cni_result r;
	struct chained_lab l;
	struct root root;

	(void)state;
	t_dir_make(dir, &root);
	conf = xasprintf("{'dataDir':'%s','sysctl':{'net.ipv4.conf.IFNAME.proxy_arp':'1'},'mac':'" A
			 "','mtu':1400,'promisc':true,'allmulti':true,'txQLen':5}",
			 dir);
	file = xasprintf("%s/c1_net1.json", dir);
	chained_prev(&r, NULL, 0);
	chained_open(&l, true, conf);
	kern_veth(&l.lab, "net1", "far1");
	state_of(&l, &old, before);
	OK(chained_tuning.add(&l.m, &r, &l.undo, &e));
	ASSERT_STR_EQ(r.ifaces[0].mac, A);
	state_of(&l, &now, after);
	ASSERT_EQ(now.mtu, 1400);
	ASSERT_EQ(now.txqlen, 5);
	assert_true(now.promisc && now.allmulti);
	ASSERT_STR_EQ(after, "1");
	ASSERT_EQ(access(file, F_OK), 0);
	OK(chained_tuning.check(&l.m, &r, &e));
	/* a later plugin of the chain fails */
	ASSERT_EQ(undo_run(&l.undo), 0);
	state_of(&l, &now, after);
	assert_memory_equal(&now, &old, sizeof(now));
	ASSERT_STR_EQ(after, before);
	assert_int_not_equal(access(file, F_OK), 0);
	chained_close(&l);
	t_dir_remove(dir, &root);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sysctl_names_become_paths),
		cmocka_unit_test(test_tuning_args_take_precedence_over_the_configuration),
		cmocka_unit_test(test_sysctls_of_args_override_the_configuration),
		cmocka_unit_test(test_invalid_tuning_configuration_is_refused),
		cmocka_unit_test(test_attributes_recorded_for_del_are_written_and_read),
		cmocka_unit_test(test_original_attributes_are_recorded_once),
		cmocka_unit_test(test_each_attribute_is_set_by_a_separate_link_change),
		cmocka_unit_test(test_sysctl_values_are_compared_by_fields),
		cmocka_unit_test(test_check_reports_attributes_that_differ),
		cmocka_unit_test(test_allowlist_patterns_match_like_go),
		cmocka_unit_test(test_unsupported_allowlist_patterns_are_refused),
		cmocka_unit_test(test_sysctls_must_match_the_allowlist),
		cmocka_unit_test(test_failed_chain_restores_the_link),
	};

	return T_RUN(tests, NULL, NULL);
}
