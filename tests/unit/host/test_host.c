/* SPDX-License-Identifier: Apache-2.0 */
#include "host_lab.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "host/apply.h"
#include "host/kinds.h"
#include "host/render.h"
#include "host/steps/addr.h"
#include "host/steps/netop.h"
#include "host/steps/rdma_mode.h"
#include "settings_lab.h"

#define STATE "/var/lib/unirail/host"

static struct err e;

/* --- decide(), with the state of the host given as structs --- */

static void bad_conf(const char *text, const char *expected);

/* The state of the kernel: ens1 (up, MTU 1500) and ens2 (up, MTU 4200), without addresses. */
static struct link links[] = {
	{.index = 2, .name = "ens1", .mtu = 1500, .flags = 1},
	{.index = 3, .name = "ens2", .mtu = 4200, .flags = 1},
};

static const char *commands(const struct host_plan *p)
{
	static char text[8192];

	text[0] = '\0';
	for (size_t i = 0; i < p->n; i++) {
		if (strcmp(p->v[i].action.verb, HOST_FILE) == 0)
			continue;
		strcat(text, p->v[i].command);
		strcat(text, "\n");
	}
	return text;
}

static struct host_addr_want wanted(const char *dev, const char *cidr, const char *gw)
{
	struct host_addr_want w = {.head = {.name = dev, .origin = "test"}};

	host_addr_init(&w);
	w.ipv4_ip = cidr;
	w.ipv4_gateway = gw;
	w.policy_route = gw != NULL;
	w.mtu = 4200;
	return w;
}

static int decide(struct host_net *n, struct host_addr_want *w, size_t count, struct host_plan *p)
{
	struct host_want *v[4] = {NULL};
	struct host_addr_if ifs[4] = {{0}};
	const struct host_addr_found f = {.net = n, .has_net = true, .v = ifs, .n = count};
	const struct host_wants wants = {&host_addr, v, count};

	for (size_t i = 0; i < count; i++) {
		v[i] = &w[i].head;
		ASSERT_EQ(host_addr_check(&w[i], &e), 0);
	}
	return host_addr_decide(&wants, &f, p, &e);
}

static void test_plan_of_two_rails_has_addresses_routes_and_rules(void **state)
{
	struct host_net n = {.links = links, .n_links = 2};
	struct host_addr_want w[] = {wanted("ens1", "172.16.1.10/24", "172.16.1.1"),
				     wanted("ens2", "172.16.2.10/24", "172.16.2.1")};
	auto_host_plan struct host_plan p = {0};

	(void)state;
	ASSERT_EQ(decide(&n, w, 2, &p), 0);
	ASSERT_STR_EQ(commands(&p), "ip link set dev ens1 mtu 4200\n"
				    "ip address add 172.16.1.10/24 dev ens1\n"
				    "ip route add default via 172.16.1.1 dev ens1 table 151\n"
				    "ip rule add from 172.16.1.10 lookup 151 priority 32765\n"
				    "ip address add 172.16.2.10/24 dev ens2\n"
				    "ip route add default via 172.16.2.1 dev ens2 table 152\n"
				    "ip rule add from 172.16.2.10 lookup 152 priority 32764\n");
	assert_true(p.v[0].interrupts);
	ASSERT_STR_EQ(host_op_get(&p.v[0].undo, "mtu"), "1500");
}

/* An earlier run has configured everything: the plan has no steps, whichever table and priority
 * that run used. */
static void test_configured_host_has_no_steps(void **state)
{
	struct addr addrs[] = {{.index = 3, .net = t_net("172.16.2.10/24")}};
	struct route routes[] = {{.dst = t_net("0.0.0.0/0"),
				  .gw = t_ip("172.16.2.1"),
				  .index = 3,
				  .table = 155,
				  .family = 4}};
	struct rule rules[] = {{.family = 4,
				.src = t_net("172.16.2.10/32"),
				.table = 155,
				.priority = 1999,
				.has_priority = true}};
	struct host_net n = {links, addrs, routes, rules, 2, 1, 1, 1};
	struct host_addr_want w = wanted("ens2", "172.16.2.10/24", "172.16.2.1");
	auto_host_plan struct host_plan p = {0};

	(void)state;
	ASSERT_EQ(decide(&n, &w, 1, &p), 0);
	ASSERT_STR_EQ(commands(&p), "");
}

static void test_address_with_another_prefix_length_is_replaced(void **state)
{
	struct addr addrs[] = {{.index = 3, .net = t_net("172.16.2.10/16")}};
	struct host_net n = {links, addrs, NULL, NULL, 2, 1, 0, 0};
	struct host_addr_want w = wanted("ens2", "172.16.2.10/24", NULL);
	auto_host_plan struct host_plan p = {0};

	(void)state;
	ASSERT_EQ(decide(&n, &w, 1, &p), 0);
	ASSERT_STR_EQ(commands(&p), "ip address del 172.16.2.10/16 dev ens2\n"
				    "ip address add 172.16.2.10/24 dev ens2\n");
}

static void refused(struct host_net *n, struct host_addr_want *w, size_t count,
		    const char *expected)
{
	auto_host_plan struct host_plan p = {0};

	assert_true(decide(n, w, count, &p) < 0);
	assert_non_null(strstr(e.text, expected));
}

static void test_conflicting_addresses_and_routes_are_named(void **state)
{
	struct addr addrs[] = {{.index = 3, .net = t_net("172.16.1.10/24")}};
	struct route routes[] = {{.dst = t_net("0.0.0.0/0"),
				  .gw = t_ip("10.0.0.1"),
				  .index = 3,
				  .table = TABLE_MAIN,
				  .priority = 10,
				  .family = 4}};
	struct host_net taken = {.links = links, .addrs = addrs, .n_links = 2, .n_addrs = 1};
	struct host_net metric = {.links = links, .routes = routes, .n_links = 2, .n_routes = 1};
	struct host_net plain = {.links = links, .n_links = 2};
	struct host_addr_want w[] = {wanted("ens1", "172.16.1.10/24", "172.16.1.1"),
				     wanted("ens2", "172.16.2.10/24", "172.16.2.1")};
	struct host_addr_want absent = wanted("ens11", "172.16.1.10/24", NULL);

	(void)state;
	refused(&taken, w, 1, "address 172.16.1.10 is taken by interface 'ens2'");
	refused(&plain, &absent, 1, "interface 'ens11' does not exist; did you mean 'ens1'?");
	w[0].table = w[1].table = 200;
	refused(&plain, w, 2, "table 200 is also the table of another interface");
	w[0].table = 0;
	w[0].policy_route = false;
	refused(&metric, w, 1, "is taken by route 'default via 10.0.0.1 dev ens2 metric 10'");
}

/* The steps create the bond, add its ports, and then set MTU and addresses of the bond. What the
 * host already has causes no step. */
static void test_bond_with_two_ports_is_planned_in_order(void **state)
{
	struct link there[] = {links[0],
			       links[1],
			       {.index = 9,
				.name = "bond7",
				.kind = "bond",
				.mtu = 4200,
				.flags = 1,
				.bond_mode = 4}};
	struct host_net none = {.links = links, .n_links = 2};
	struct host_net all = {.links = there, .n_links = 3};
	struct host_addr_want w = wanted("bond7", "172.16.1.10/24", NULL);
	auto_host_plan struct host_plan p = {0}, q = {0};

	(void)state;
	w.bond_ports = "ens1, ens2";
	ASSERT_EQ(decide(&none, &w, 1, &p), 0);
	ASSERT_STR_EQ(commands(&p),
		      "ip link add bond7 type bond mode 802.3ad miimon 100 xmit_hash_policy "
		      "layer3+4\n"
		      "ip link set ens1 down; ip link set ens1 master bond7\n"
		      "ip link set ens2 down; ip link set ens2 master bond7\n"
		      "ip link set dev bond7 mtu 4200\n"
		      "ip link set dev bond7 up\n"
		      "ip address add 172.16.1.10/24 dev bond7\n");
	ASSERT_STR_EQ(host_op_get(&p.v[1].undo, "up"), "yes");
	there[0].master = 9;
	ASSERT_EQ(decide(&all, &w, 1, &q), 0);
	ASSERT_STR_EQ(commands(&q), "ip link set ens2 down; ip link set ens2 master bond7\n"
				    "ip address add 172.16.1.10/24 dev bond7\n");
}

static void test_invalid_bonds_are_refused(void **state)
{
	struct addr addrs[] = {{.index = 3, .net = t_net("172.16.9.9/24")}};
	struct link there[] = {links[0], links[1], {.index = 9, .name = "br0", .kind = "bridge"}};
	struct host_net n = {.links = links, .addrs = addrs, .n_links = 2, .n_addrs = 1};
	struct host_net other = {.links = there, .n_links = 3};
	struct host_addr_want w[] = {wanted("bond7", "172.16.1.10/24", NULL),
				     wanted("ens2", "172.16.2.10/24", NULL)};

	(void)state;
	w[0].bond_ports = "ens1,ens2";
	refused(&n, w, 1, "interface 'ens2' has address 172.16.9.9/24, which a port of a bond");
	refused(&n, w, 2, "its port 'ens2' must not have a section (test): remove that section");
	there[0].master = 9;
	refused(&other, w, 1, "interface 'ens1' is already a port of 'br0'");
	w[0].head.name = "br0";
	refused(&other, w, 1, "interface 'br0' exists and is not a bond");
	w[0].head.name = "bond7";
	w[0].bond_ports = "ens9";
	refused(&n, w, 1, "interface 'ens9' does not exist; did you mean 'ens1'?");
	bad_conf("[interface bond7]\nbond-ports = ens1,bond7\n", "which is the bond itself");
	bad_conf("[interface bond7]\nbond-ports = ens1,ens1\n", "contains 'ens1' twice");
	bad_conf("[interface bond7]\nbond-ports = ens1,a/b\n", "expected names of interfaces");
	bad_conf("[interface bond7]\nbond-mode = 802.3ad\n", "bond-mode is set without bond-ports");
}

static void test_change_of_rdma_mode_is_blocked_while_other_network_namespaces_exist(void **state)
{
	struct host_rdma_mode_want w = {.head = {.origin = "test"}, .mode = "exclusive"};
	struct host_want *v[] = {&w.head};
	struct host_rdma_mode_found f = {.known = true,
					 .mode = "shared",
					 .namespaces = 2,
					 .users = xstrdup("pid 7 (pause)"),
					 .initramfs = "update-initramfs -u",
					 .file = {.path = xstrdup(HOST_RDMA_MODE_FILE)}};
	const struct host_wants wants = {&host_rdma_mode, v, 1};
	auto_host_plan struct host_plan p = {0};

	(void)state;
	ASSERT_EQ(host_rdma_mode.decide(&wants, &f, &p, &e), 0);
	ASSERT_EQ(p.n, 2);
	ASSERT_STR_EQ(host_op_get(&p.v[0].action, "path"), HOST_RDMA_MODE_FILE);
	assert_null(host_op_get(&p.v[0].undo, "text"));
	ASSERT_STR_EQ(p.v[1].command, "rdma system set netns exclusive");
	ASSERT_STR_EQ(host_op_get(&p.v[1].undo, "mode"), "shared");
	assert_non_null(strstr(p.v[1].blocked, "2 other network namespaces exist (pid 7 (pause))"));
	ASSERT_EQ(p.n_remarks, 1);
	host_file_done(&f.file);
	free(f.users);
}

/* --- the configuration --- */

static void bad_conf(const char *text, const char *expected)
{
	auto_host_conf struct host_conf c;

	host_conf_init(&c);
	assert_true(host_conf_parse(&c, "host.conf", span_of(text), &e) < 0);
	if (!strstr(e.text, expected))
		fail_msg("'%s' does not contain '%s'", e.text, expected);
}

static void test_configuration_errors_name_their_line(void **state)
{
	(void)state;
	bad_conf("[interfac ens1]\n",
		 "host.conf:1: section 'interfac' is unknown; did you mean 'interface'?");
	bad_conf("[interface]\n",
		 "host.conf:1: section 'interface' needs a name: '[interface NAME]'");
	bad_conf("[rule x]\n", "host.conf:1: section 'rule' takes no name: write '[rule]'");
	bad_conf("[rule]\ncidr = 172.16.0.0/16\n[rule]\n",
		 "host.conf:3: section 'rule' is already at host.conf:1");
	bad_conf("[rule]\n\npriority = many\n",
		 "host.conf:3: priority is 'many', expected a number 1 to");
	bad_conf("[interface ens1]\ndhcp4 = perhaps\n",
		 "host.conf:2: dhcp4 is 'perhaps', expected yes or no");
	bad_conf("[rdma]\nmode = both\n", "host.conf:2: mode is 'both', expected shared|exclusive");
	bad_conf("cidr = 1\n", "host.conf:1: key 'cidr' is before the first section");
	bad_conf("[rule\n", "host.conf:1: the section header must end in ']'");
	bad_conf("[rule]\nnonsense\n",
		 "host.conf:2: expected 'key = value', '[section]' or a comment");
	bad_conf("[sysctl]\na.b = 1\na.b = 2\n", "host.conf:3: key 'a.b' is already on line 2");
	bad_conf("[interface ens1]\nipv4-ip = 10.0.0.1/24\nipv4-gateway = 10.0.1.1\n",
		 "host.conf:1: interface ens1: ipv4-gateway 10.0.1.1 is outside 10.0.0.1/24");
	bad_conf("[interface ens1]\nipv4-ip = 10.0.0.1/24\nipv4-gateway = 10.0.0.2\ntable = 254\n",
		 "host.conf:1: interface ens1: table is 254, and the kernel's own tables are");
}

static void test_a_file_with_too_many_sections_is_refused(void **state)
{
	auto_buf struct buf text;

	(void)state;
	buf_init(&text, 1 << 20);
	for (int i = 0; i < 4097; i++)
		buf_printf(&text, "[interface e%d]\n", i);
	bad_conf(buf_span(&text).p, "host.conf:4097: more than 4096 sections in the file");
}

/* --- configs/host.conf --- */

/* Returns whether a comment line of the sample (`line`, without "; ") is a key that a user may
 * uncomment, such as "mtu = 4200", and not a sentence or a section. */
static bool is_sample_key(struct span line, struct span *key)
{
	struct span rest = line;

	if (!span_cut(&rest, '=', key) || key->p + key->n == line.p + line.n)
		return false;
	*key = span_trim(*key);
	for (size_t i = 0; i < key->n; i++)
		if (strchr(" :;,()'", key->p[i]))
			return false;
	return key->n > 0;
}

static const struct host_kind *sample_section(struct span line)
{
	for (const struct host_kind *const *k = host_kinds; *k; k++) {
		size_t n = strlen((*k)->section);

		if (line.n > n + 1 && strncmp(line.p + 1, (*k)->section, n) == 0 &&
		    (line.p[n + 1] == ']' || line.p[n + 1] == ' '))
			return *k;
	}
	fail_msg("host.conf: no kind reads '%.*s'", (int)line.n, line.p);
	return NULL;
}

/* Returns false for a key that is useful only on the command line. */
static bool is_in_sample(const char *section, const char *key)
{
	return strcmp(section, "rails") != 0 ||
	       (strcmp(key, "plan") != 0 && strcmp(key, "pools") != 0);
}

static void assert_documented(const char *text, const struct host_kind *k)
{
	auto_free char *named = xasprintf("\n; [%s ", k->section);
	auto_free char *plain = xasprintf("\n; [%s]\n", k->section);
	const char *at = strstr(text, k->flags & HOST_NAMED ? named : plain), *end;
	auto_free char *part = NULL;

	if (!at)
		fail_msg("host.conf has no section '%s'", k->section);
	end = strstr(at + 1, "\n; [");
	part = end ? xasprintf("%.*s", (int)(end - at), at) : xstrdup(at);
	for (const struct opt *o = k->keys; o && o->name; o++) {
		auto_free char *line = xasprintf("\n; %s = ", o->name);

		if (is_in_sample(k->section, o->name) && !strstr(part, line))
			fail_msg("host.conf: section '%s' has no key '%s'", k->section, o->name);
	}
	if (k->flags & HOST_PAIRS && !strstr(part, " = "))
		fail_msg("host.conf: section '%s' has no line", k->section);
}

/*
 * Each key that a kind reads has a line in configs/host.conf, except keys that are useful only on
 * the command line (is_in_sample()), and each line is read by a kind: the file is valid after its
 * keys are uncommented, except the key 'all' of link-type, which cannot be set together with 'gpu'
 * and 'other'.
 */
static void test_sample_host_conf_has_every_key(void **state)
{
	auto_free char *text = settings_lab_text("configs/host.conf");
	struct span rest = span_of(text), line, key;
	auto_host_conf struct host_conf c;
	auto_buf struct buf b;

	(void)state;
	for (const struct host_kind *const *k = host_kinds; *k; k++)
		assert_documented(text, *k);
	buf_init(&b, 1 << 16);
	while (span_cut(&rest, '\n', &line)) {
		if (!span_has_prefix(line, "; "))
			continue;
		line = (struct span){line.p + 2, line.n - 2};
		if (line.p[0] == '[')
			sample_section(line);
		else if (!is_sample_key(line, &key) || span_eq(key, "all"))
			continue;
		buf_printf(&b, "%.*s\n", (int)line.n, line.p);
	}
	host_conf_init(&c);
	if (host_conf_parse(&c, "host.conf", buf_span(&b), &e) < 0)
		fail_msg("%s in\n%s", e.text, b.p);
	for (size_t i = 0; i < c.n; i++)
		if (c.wants[i].n != 1)
			fail_msg("section '%s' occurs %zu times, expected once",
				 c.wants[i].kind->section, c.wants[i].n);
}

/* --- the journal --- */

static void add_file_step(struct host_plan *p, const char *path, const char *was, const char *text)
{
	struct host_file found = {
		.path = xstrdup(path), .text = was ? xstrdup(was) : NULL, .mode = 0644};

	host_plan_file(p, "sysctl", "host", &found, text, 0600);
	host_file_done(&found);
}

struct stop_after {
	size_t n, seen;
};

static bool stop(void *arg)
{
	struct stop_after *s = arg;

	return s->seen++ >= s->n;
}

static void test_journal_undoes_an_interrupted_apply(void **state)
{
	(void)state;
	for (size_t n = 0; n < 3; n++) {
		auto_host_journal struct host_journal j = HOST_JOURNAL_INIT;
		auto_host_plan struct host_plan p = {0};
		struct stop_after after = {n, 0};
		const struct host_progress g = {NULL, stop, &after};
		struct host_outcome o;
		struct host_lab lab;
		struct host h;
		char line[64];

		host_empty(&lab);
		ASSERT_EQ(host_open(&h, lab.dir, &e), 0);
		assert_false(h.kernel);
		host_write(&lab, "/etc/a", "old");
		add_file_step(&p, "/etc/a", "old", "new");
		add_file_step(&p, "/etc/b/c", NULL, "made");
		ASSERT_EQ(host_journal_open(&j, &h.root, STATE, true, &e), 0);
		ASSERT_EQ(host_apply(&h, &p, &j, &g, &o, &e), n < 2 ? -EINTR : 0);
		ASSERT_EQ(o.done, n);
		host_journal_close(&j);
		ASSERT_EQ(host_journal_open(&j, &h.root, STATE, true, &e), 0);
		ASSERT_EQ(j.n, n);
		ASSERT_EQ(host_undo(&h, &j, NULL, NULL, &o, &e), 0);
		ASSERT_EQ(o.done, n);
		ASSERT_EQ(j.n, 0);
		host_read(&lab, "/etc/a", line, sizeof(line));
		ASSERT_STR_EQ(line, "old");
		assert_false(file_exists(&h.root, "/etc/b/c"));
		host_close(&h);
		host_remove(&lab);
	}
}

static void put_journal(struct host_lab *lab, const char *text)
{
	ASSERT_EQ(dir_make(&lab->root, STATE, 0700, &e), 0);
	ASSERT_EQ(file_replace(&lab->root, STATE "/journal", span_of(text), 0600, &e), 0);
}

/*
 * A line truncated by a kill is dropped; a damaged line before others is an error that names the
 * line.
 */
static void test_truncated_last_line_of_the_journal_is_dropped(void **state)
{
	static const char whole[] =
		"{\"seq\":1,\"kind\":\"rule\",\"subject\":\"host\",\"desired\":\"x\",\"action\":{\"verb\":\"a\"},\"undo\":{\"verb\":\"b\",\"k\":\"v\"}}\n";
	auto_host_journal struct host_journal j = HOST_JOURNAL_INIT;
	auto_free char *cut = xasprintf("%s{\"done\":", whole),
		       *bad = xasprintf("{\"don\":1}\n%s", whole);
	struct host_lab lab;

	(void)state;
	host_empty(&lab);
	put_journal(&lab, cut);
	ASSERT_EQ(host_journal_open(&j, &lab.root, STATE, true, &e), 0);
	ASSERT_EQ(j.n, 1);
	assert_true(host_record_is_active(&j.v[0]));
	ASSERT_STR_EQ(host_op_get(&j.v[0].undo, "k"), "v");
	ASSERT_EQ(host_journal_mark(&j, 0, HOST_RECORD_UNDONE, &e), 0);
	host_journal_close(&j);
	ASSERT_EQ(host_journal_open(&j, &lab.root, STATE, true, &e), 0);
	assert_false(host_record_is_active(&j.v[0]));
	ASSERT_EQ(host_journal_clean_up(&j, &e), 0);
	host_journal_close(&j);
	put_journal(&lab, bad);
	ASSERT_EQ(host_journal_open(&j, &lab.root, STATE, true, &e), -EBADMSG);
	assert_non_null(strstr(e.text, "line 1 is damaged"));
	host_remove(&lab);
}

/* Applies a step that creates `path`, in a process that is killed when the journal exceeds `max`
 * bytes. Returns the wait status. */
static int apply_until(struct host_lab *lab, rlim_t max, const char *path)
{
	int status;
	pid_t pid = fork();

	assert_true(pid >= 0);
	if (pid == 0) {
		const struct rlimit limit = {max, max};
		struct host_journal j = HOST_JOURNAL_INIT;
		struct host_plan p = {0};
		struct host_outcome o;
		struct host h;

		signal(SIGXFSZ, SIG_DFL);
		add_file_step(&p, path, NULL, "ours");
		if (host_open(&h, lab->dir, &e) < 0 ||
		    host_journal_open(&j, &h.root, STATE, true, &e) < 0 ||
		    setrlimit(RLIMIT_FSIZE, &limit) < 0)
			_exit(2);
		_exit(host_apply(&h, &p, &j, NULL, &o, &e) < 0 ? 1 : 0);
	}
	ASSERT_EQ(waitpid(pid, &status, 0), pid);
	return status;
}

static void undo_all(struct host_lab *lab, size_t done)
{
	auto_host_journal struct host_journal j = HOST_JOURNAL_INIT;
	struct host_outcome o;
	struct host h;

	ASSERT_EQ(host_open(&h, lab->dir, &e), 0);
	ASSERT_EQ(host_journal_open(&j, &h.root, STATE, true, &e), 0);
	ASSERT_EQ(host_undo(&h, &j, NULL, NULL, &o, &e), 0);
	ASSERT_EQ(o.done, done);
	ASSERT_EQ(j.n, 0);
	host_close(&h);
}

static rlim_t journal_size(struct host_lab *lab)
{
	auto_buf struct buf b;

	buf_init(&b, 1 << 16);
	ASSERT_EQ(file_read(&lab->root, STATE "/journal", 1 << 16, &b, &e), 0);
	return b.len;
}

/*
 * A step fails, and the process is killed before it marks the failure. Undo must not remove a file
 * that another program writes afterwards at the path of the step.
 */
static void test_undo_retains_files_that_a_failed_step_did_not_create(void **state)
{
	struct host_lab lab;
	rlim_t intent;
	char line[64];
	int status;

	(void)state;
	host_empty(&lab);
	host_write(&lab, "/etc/d", "a file where the step expects a directory");
	status = apply_until(&lab, RLIM_INFINITY, "/etc/d/x");
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 1);
	intent = journal_size(&lab) - strlen("{\"failed\":1}\n");
	undo_all(&lab, 0);
	status = apply_until(&lab, intent, "/etc/d/x");
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGXFSZ);
	ASSERT_EQ(journal_size(&lab), intent);
	ASSERT_EQ(file_remove(&lab.root, "/etc/d", &e), 0);
	host_write(&lab, "/etc/d/x", "theirs");
	undo_all(&lab, 0);
	host_read(&lab, "/etc/d/x", line, sizeof(line));
	ASSERT_STR_EQ(line, "theirs");
	host_remove(&lab);
}

/* A step succeeds, and the process is killed before it marks the success: undo reverts the step. */
static void test_undo_reverts_a_step_that_succeeded_before_a_kill(void **state)
{
	struct host_lab lab;
	rlim_t intent;
	int status;

	(void)state;
	host_empty(&lab);
	host_write(&lab, "/etc/y", "of another");
	status = apply_until(&lab, RLIM_INFINITY, "/etc/d/x");
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	intent = journal_size(&lab) - strlen("{\"done\":1}\n");
	undo_all(&lab, 1);
	status = apply_until(&lab, intent, "/etc/d/x");
	assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGXFSZ);
	assert_true(file_exists(&lab.root, "/etc/d/x"));
	undo_all(&lab, 1);
	assert_false(file_exists(&lab.root, "/etc/d/x"));
	host_remove(&lab);
}

/* While the interface has its original MTU, in_effect() returns 1 for the step's undo and 0 for
 * its action. */
static void test_mtu_step_is_not_in_effect_while_the_original_mtu_is_set(void **state)
{
	struct host_net n = {.links = links, .n_links = 2};
	struct host h = {.net = &n};
	auto_host_plan struct host_plan p = {0};

	(void)state;
	host_plan_mtu(&p, "addr", &links[0], 4200);
	ASSERT_EQ(host_addr.in_effect(&h, &p.v[0].action, &e), 0);
	ASSERT_EQ(host_addr.in_effect(&h, &p.v[0].undo, &e), 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_plan_of_two_rails_has_addresses_routes_and_rules),
		cmocka_unit_test(test_configured_host_has_no_steps),
		cmocka_unit_test(test_address_with_another_prefix_length_is_replaced),
		cmocka_unit_test(test_bond_with_two_ports_is_planned_in_order),
		cmocka_unit_test(test_invalid_bonds_are_refused),
		cmocka_unit_test(test_conflicting_addresses_and_routes_are_named),
		cmocka_unit_test(
			test_change_of_rdma_mode_is_blocked_while_other_network_namespaces_exist),
		cmocka_unit_test(test_configuration_errors_name_their_line),
		cmocka_unit_test(test_a_file_with_too_many_sections_is_refused),
		cmocka_unit_test(test_sample_host_conf_has_every_key),
		cmocka_unit_test(test_journal_undoes_an_interrupted_apply),
		cmocka_unit_test(test_truncated_last_line_of_the_journal_is_dropped),
		cmocka_unit_test(test_undo_retains_files_that_a_failed_step_did_not_create),
		cmocka_unit_test(test_undo_reverts_a_step_that_succeeded_before_a_kill),
		cmocka_unit_test(test_mtu_step_is_not_in_effect_while_the_original_mtu_is_set),
	};

	return T_RUN(tests, NULL, NULL);
}
