/* SPDX-License-Identifier: Apache-2.0 */
/* ifacer's decisions on plain structs, and its netlink messages. The messages are only captured,
 * because the kernel that runs the test may support neither bonds nor VLAN interfaces. */
#include "meta_lab.h"

#include <errno.h>
#include <net/if.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include <linux/rtnetlink.h>

#include "cni/plugins/ifacer.h"
#include "kern/netlink/attr.h"

/* --- configuration --- */

struct conf {
	struct chained_lab l; /* the document of l owns the strings of c */
	struct ifacer_conf c;
};

static int read_conf(struct conf *c, const char *text)
{
	chained_open(&c->l, false, text);
	err_clear(&e);
	return ifacer_conf_read(c->l.m.doc, c->l.m.conf, &c->c, &e);
}

static void conf_done(struct conf *c)
{
	chained_close(&c->l);
}
#define auto_conf __attribute__((cleanup(conf_done)))

static void test_omitted_ifacer_settings_have_defaults(void **state)
{
	auto_conf struct conf c;

	(void)state;
	OK(read_conf(&c, "{'interfaces':['a','b'],'vlanid':4094,'bond':{}}"));
	ASSERT_STR_EQ(c.c.bond_name, "sp_bond0");
	ASSERT_EQ(c.c.vlan, 4094);
	ASSERT_EQ(c.c.bond.set, 1U << LINK_BOND_MODE);
	assert_true(ifacer_wants_bond(&c.c) && ifacer_wants_vlan(&c.c));
}

static void test_bond_and_vlan_are_created_only_if_configured(void **state)
{
	static const struct {
		const char *conf;
		bool bond, vlan;
	} rows[] = {
		{"{'interfaces':['a']}", false, false},
		{"{'interfaces':['a'],'vlanID':5}", false, true},
		{"{'interfaces':['a'],'vlanID':5,'bond':{}}", false, true},
		{"{'interfaces':['a','b']}", false, false},
		{"{'interfaces':['a','b'],'vlanID':5}", false, false},
		{"{'interfaces':['a','b'],'bond':null}", false, false},
		{"{'interfaces':['a','b'],'bond':{'name':'b0'}}", true, false},
		{"{'interfaces':['a','b','c'],'bond':{'name':'b0'},'vlanID':5}", true, true},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		auto_conf struct conf c;

		OK(read_conf(&c, rows[i].conf));
		ASSERT_EQ_MSG(ifacer_wants_bond(&c.c), rows[i].bond, "rows[%zu]", i);
		ASSERT_EQ_MSG(ifacer_wants_vlan(&c.c), rows[i].vlan, "rows[%zu]", i);
	}
}

/* --- options --- */

static const char *const option_names[LINK_BOND_OPTIONS] = {
	[LINK_BOND_MIIMON] = "miimon",
	[LINK_BOND_UPDELAY] = "updelay",
	[LINK_BOND_DOWNDELAY] = "downdelay",
	[LINK_BOND_USE_CARRIER] = "use_carrier",
	[LINK_BOND_ARP_INTERVAL] = "arp_interval",
	[LINK_BOND_ARP_VALIDATE] = "arp_validate",
	[LINK_BOND_XMIT_HASH_POLICY] = "xmit_hash_policy",
	[LINK_BOND_NUM_PEER_NOTIF] = "num_peer_notif",
	[LINK_BOND_LACP_RATE] = "lacp_rate",
	[LINK_BOND_PEER_NOTIF_DELAY] = "peer_notif_delay",
	[LINK_BOND_TLB_DYNAMIC_LB] = "tlb_dynamic_lb",
	[LINK_BOND_AD_ACTOR_SYS_PRIO] = "ad_actor_sys_prio",
	[LINK_BOND_FAIL_OVER_MAC] = "fail_over_mac",
};

static char *summary(const struct ifacer_conf *c)
{
	char text[IP_TEXT_MAX], mac[MAC_TEXT_MAX];
	struct buf b;

	buf_init(&b, 1024);
	for (unsigned int o = 0; o < LINK_BOND_OPTIONS; o++)
		if (link_bond_has(&c->bond, o))
			buf_printf(&b, "%s=%u ", option_names[o] ? option_names[o] : "?",
				   c->bond.value[o]);
	if (c->bond.ad_actor_system.len)
		buf_printf(&b, "system=%s ", mac_str(&c->bond.ad_actor_system, mac));
	for (size_t i = 0; i < c->bond.n_arp_targets; i++)
		buf_printf(&b, "target=%s ", ip_str(&c->bond.arp_targets[i], text));
	if (c->primary[0])
		buf_printf(&b, "primary=%s ", c->primary);
	if (c->active_slave[0])
		buf_printf(&b, "active=%s ", c->active_slave);
	return buf_take(&b);
}

static void test_bond_options_are_parsed(void **state)
{
	static const char *const rows[][2] = {
		{"", ""},
		{"miimon=100", "miimon=100 "},
		{" miimon = 100 ; up_delay=200;down_delay=300 ",
		 "miimon=100 updelay=200 downdelay=300 "},
		{"updelay=1;downdelay=2", "updelay=1 downdelay=2 "},
		/* empty items, items that are not key=value and unknown options are ignored in
		 * any position; the original fails on some of them */
		{"miimon=100;;lacp_rate=1", "miimon=100 lacp_rate=1 "},
		{";miimon=100;", "miimon=100 "},
		{"nonsense;miimon=100", "miimon=100 "},
		{"a=b=c;miimon=100;unknown=7", "miimon=100 "},
		/* symbolic values of the bonding driver */
		{"lacp_rate=fast;xmit_hash_policy=layer3+4;arp_validate=none;fail_over_mac=active",
		 "fail_over_mac=1 xmit_hash_policy=1 lacp_rate=1 "},
		/* the value 0 is sent only for options whose default in the driver is not 0 */
		{"miimon=0;lacp_rate=slow;use_carrier=0;tlb_dynamic_lb=off;num_grat_arp=0",
		 "use_carrier=0 num_peer_notif=0 tlb_dynamic_lb=0 "},
		/* peer_notif_delay sets the delay; the original sets num_peer_notif instead */
		{"peer_notif_delay=200;num_peer_notif=3", "num_peer_notif=3 peer_notif_delay=200 "},
		{"arp_interval=500;arp_ip_target=[\"10.0.0.1\", \"10.0.0.2\"]",
		 "arp_interval=500 target=10.0.0.1 target=10.0.0.2 "},
		{"arp_ip_target=10.0.0.1,10.0.0.2", "target=10.0.0.1 target=10.0.0.2 "},
		{"primary=ens1;active_slave=ens2;ad_actor_system=02:00:00:00:00:01",
		 "system=02:00:00:00:00:01 primary=ens1 active=ens2 "},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		struct ifacer_conf c = {0};
		auto_free char *got = NULL;

		OK(ifacer_options(rows[i][0], &c, &e));
		got = summary(&c);
		ASSERT_STR_EQ_MSG(got, rows[i][1], "rows[%zu]", i);
	}
}

static void test_invalid_bond_options_are_refused(void **state)
{
	static const char *const rows[][2] = {
		{"miimon=x", "miimon is 'x', expected 0 to 2147483647"},
		{"miimon=-1", "miimon is '-1', expected 0 to 2147483647"},
		{"lacp_rate=2", "lacp_rate is '2', expected 0 to 1, or a word such as slow"},
		{"miimon=100;;lacp_rate=",
		 "lacp_rate is '', expected 0 to 1, or a word such as slow"},
		{"ad_actor_sys_prio=0", "ad_actor_sys_prio is '0', expected 1 to 65535"},
		{"ad_actor_system=x", "ad_actor_system is 'x', expected a MAC address"},
		{"arp_ip_target=fd00::1", "arp_ip_target is 'fd00::1', expected IPv4 addresses"},
		{"primary=a/b", "primary is 'a/b', expected an interface's name"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
		auto_free char *want = xasprintf("conf.bond.options: %s", rows[i][1]);
		struct ifacer_conf c = {0};

		FAILS(ifacer_options(rows[i][0], &c, &e), -EINVAL, want);
		ASSERT_EQ_MSG(e.kind, ERR_CONF, "rows[%zu]", i);
	}
}

/* --- plans --- */

enum { LO = 1, ENS1, ENS2, OTHER, BOND0 = 10, VLAN };

static struct link link_of(int index, const char *name, const char *kind, bool up)
{
	struct link l = {.index = index, .flags = up ? IFF_UP : 0};

	str_copy(l.name, sizeof(l.name), name);
	str_copy(l.kind, sizeof(l.kind), kind);
	if (index == LO)
		l.flags |= IFF_LOOPBACK;
	return l;
}

struct node {
	struct link links[8];
	size_t n;
};

static struct link *put_link(struct node *n, int index, const char *name, const char *kind, bool up)
{
	n->links[n->n] = link_of(index, name, kind, up);
	return &n->links[n->n++];
}

static struct node node(void)
{
	struct node n = {.n = 0};

	put_link(&n, LO, "lo", "", true);
	put_link(&n, ENS1, "ens1", "", true);
	put_link(&n, ENS2, "ens2", "", false);
	return n;
}

static char *plan_text(const struct ifacer_plan *p)
{
	struct buf b;

	buf_init(&b, 1024);
	if (p->makes_bond)
		buf_printf(&b, "bond %s mode %u, ", p->bond_name, p->bond.value[LINK_BOND_MODE]);
	for (size_t i = 0; i < p->n_ports; i++)
		buf_printf(&b, "port %s(%d)%s, ", p->ports[i].name, p->ports[i].index,
			   p->ports[i].was_up ? " up" : "");
	if (link_bond_has(&p->bond, LINK_BOND_PRIMARY))
		buf_printf(&b, "primary %u, ", p->bond.value[LINK_BOND_PRIMARY]);
	if (p->active_slave)
		buf_printf(&b, "active %d, ", p->active_slave);
	if (p->sets_bond_up)
		buf_printf(&b, "bond %d up, ", p->bond_index);
	if (p->sets_parent_up)
		buf_printf(&b, "parent %d up, ", p->parent_index);
	if (p->makes_vlan)
		buf_printf(&b, "vlan %s id %u on %d, ", p->vlan_name, p->vlan, p->parent_index);
	else if (p->sets_vlan_up)
		buf_printf(&b, "vlan %d up, ", p->vlan_index);
	return buf_take(&b);
}

static void expect_plan(const char *conf, const struct node *n, const char *want)
{
	auto_free char *got = NULL;
	auto_conf struct conf c;
	struct ifacer_plan p;

	OK(read_conf(&c, conf));
	OK(ifacer_plan(&c.c, n->links, n->n, &p, &e));
	got = plan_text(&p);
	ASSERT_STR_EQ(got, want);
	ifacer_plan_done(&p);
}

static void expect_refusal(const char *conf, const struct node *n, enum err_kind kind,
			   const char *expected)
{
	auto_conf struct conf c;
	struct ifacer_plan p;

	OK(read_conf(&c, conf));
	err_clear(&e);
	assert_true(ifacer_plan(&c.c, n->links, n->n, &p, &e) < 0);
	ASSERT_STR_EQ(e.text, expected);
	ASSERT_EQ(e.kind, kind);
}

#define VLAN5  "{'interfaces':['ens1'],'vlanID':5}"
#define BOND   "{'interfaces':['ens1','ens2'],'bond':{'name':'bond0','mode':1}}"
#define BOND_V "{'interfaces':['ens1','ens2'],'bond':{'name':'bond0','mode':1},'vlanID':5}"

static void test_vlan_interfaces_are_planned_on_their_master(void **state)
{
	struct node n = node();
	struct link *v;

	(void)state;
	expect_plan("{'interfaces':['gone']}", &n, "");
	expect_plan(VLAN5, &n, "vlan ens1.5 id 5 on 2, ");
	expect_plan("{'interfaces':['ens2'],'vlanID':5}", &n,
		    "parent 3 up, vlan ens2.5 id 5 on 3, ");
	v = put_link(&n, VLAN, "ens1.5", "vlan", false);
	v->vlan_id = 5;
	v->parent = ENS1;
	expect_plan(VLAN5, &n, "vlan 11 up, ");
	v->flags = IFF_UP;
	expect_plan(VLAN5, &n, "");
	expect_refusal(
		"{'interfaces':['ens2'],'vlanID':5}", &n, ERR_CONF,
		"failed to createVlanDevice: cannot have multiple different vlan interfaces "
		"with the same vlanId 5 on node at the same time ('ens1.5' has it, 'ens2.5' is "
		"requested)");
	/* the original uses any link with this name */
	v->parent = ENS2;
	expect_refusal(VLAN5, &n, ERR_CONF,
		       "failed to createVlanDevice: 'ens1.5' exists and is not VLAN 5 of 'ens1': "
		       "remove or rename it");
	v->parent = ENS1;
	v->vlan_id = 6;
	expect_refusal(VLAN5, &n, ERR_CONF,
		       "failed to createVlanDevice: 'ens1.5' exists and is not VLAN 5 of 'ens1': "
		       "remove or rename it");
	expect_refusal("{'interfaces':['gone'],'vlanID':7}", &n, ERR_UNAVAILABLE,
		       "failed to createVlanDevice: interface 'gone': Link not found on this node");
}

static void test_bonds_are_planned_with_their_ports(void **state)
{
	struct node n = node();
	struct link *b, *v;

	(void)state;
	expect_plan(BOND, &n, "bond bond0 mode 1, port ens1(2) up, port ens2(3), bond 0 up, ");
	expect_plan(
		BOND_V, &n,
		"bond bond0 mode 1, port ens1(2) up, port ens2(3), bond 0 up, vlan bond0.5 id 5 "
		"on 0, ");
	expect_plan(
		"{'interfaces':['ens1','ens2'],'bond':{'options':'primary=ens2;active_slave=ens1'}}",
		&n,
		"bond sp_bond0 mode 0, port ens1(2) up, port ens2(3), primary 3, active 2, bond 0 "
		"up, ");
	/* a bond without ports, left by a killed process, gets the configured ports */
	b = put_link(&n, BOND0, "bond0", "bond", true);
	b->bond_mode = 1;
	expect_plan(BOND, &n, "port ens1(2) up, port ens2(3), ");
	/* a bond that has a port retains its options and ports: another program may have
	 * configured it */
	n.links[1].master = BOND0;
	expect_plan(BOND, &n, "");
	b->flags = 0;
	expect_plan(BOND_V, &n, "bond 10 up, vlan bond0.5 id 5 on 10, ");
	v = put_link(&n, VLAN, "bond0.5", "vlan", true);
	v->vlan_id = 5;
	v->parent = BOND0;
	b->flags = IFF_UP;
	expect_plan(BOND_V, &n, "");
	str_copy(b->kind, sizeof(b->kind), "bridge");
	expect_refusal(BOND, &n, ERR_CONF,
		       "failed to createBondDevice: createBondDevice failure: a non-bond type "
		       "interface named bond0 already exists on the host (conf.bond.name)");
}

static void test_interfaces_unsuitable_as_ports_are_refused(void **state)
{
	struct node n = node();

	(void)state;
	put_link(&n, OTHER, "br0", "bridge", true);
	n.links[2].master = OTHER;
	expect_refusal(
		BOND, &n, ERR_CONF,
		"failed to createBondDevice: interface 'ens2' is already a port of 'br0': remove it from there first");
	expect_refusal(
		"{'interfaces':['ens1','lo'],'bond':{}}", &n, ERR_CONF,
		"failed to createBondDevice: interface 'lo' is the loopback, which cannot be a port of a bond");
	expect_refusal("{'interfaces':['ens1','gone'],'bond':{}}", &n, ERR_UNAVAILABLE,
		       "failed to createBondDevice: interface 'gone': Link not found on this node");
}

static void expect_verdict(const char *conf, const struct node *n, const char *expected)
{
	auto_conf struct conf c;
	int r;

	OK(read_conf(&c, conf));
	err_clear(&e);
	r = ifacer_check(&c.c, n->links, n->n, &e);
	ASSERT_STR_EQ(e.text, expected);
	assert_true((r < 0) == (*expected != '\0'));
}

static void test_check_reports_missing_or_different_links(void **state)
{
	struct node n = node();
	struct link *b, *v;

	(void)state;
	expect_verdict("{'interfaces':['gone']}", &n, "");
	expect_verdict(VLAN5, &n, "interface 'ens1.5': Link not found on this node");
	expect_verdict(BOND, &n, "bond 'bond0': Link not found on this node");
	b = put_link(&n, BOND0, "bond0", "bond", false);
	expect_verdict(BOND, &n, "bond 'bond0' has mode 0, conf.bond.mode is 1");
	b->bond_mode = 1;
	expect_verdict(BOND, &n, "interface 'ens1' is not a port of bond 'bond0'");
	n.links[1].master = n.links[2].master = BOND0;
	expect_verdict(BOND, &n, "link 'bond0' is down");
	b->flags = IFF_UP;
	expect_verdict(BOND, &n, "");
	expect_verdict(BOND_V, &n, "interface 'bond0.5': Link not found on this node");
	v = put_link(&n, VLAN, "bond0.5", "vlan", false);
	v->vlan_id = 5;
	v->parent = BOND0;
	expect_verdict(BOND_V, &n, "link 'bond0.5' is down");
	v->flags = IFF_UP;
	expect_verdict(BOND_V, &n, "");
}

/* --- messages --- */

static void put_attr(struct buf *b, const struct nlattr *a)
{
	const unsigned char *p = nla_data(a);

	buf_printf(b, "%d:", nla_type(a));
	for (int i = 0; i < nla_len(a); i++)
		buf_printf(b, "%02x", p[i]);
	buf_char(b, ' ');
}

static void put_data(struct buf *b, const struct nlattr *data)
{
	const struct nlattr *a;
	int rest;

	if (!data)
		return;
	a = nla_data(data);
	rest = nla_len(data);
	for (; nla_ok(a, rest); a = nla_next(a, &rest))
		put_attr(b, a);
}

/* Appends the message as text, for example "NEW 0 bond0 create bond 1:01" or "SET 5 flags 0/1
 * master 9". */
static void put_message(struct buf *b, const struct nlmsghdr *h)
{
	struct nlattr *tb[IFLA_MAX + 1], *info[IFLA_INFO_MAX + 1];
	const struct ifinfomsg *head = nlmsg_data(h);
	char name[32], kind[32];

	ASSERT_EQ(msg_attrs(h, sizeof(*head), tb, IFLA_MAX), 0);
	nested_attrs(tb[IFLA_LINKINFO], info, IFLA_INFO_MAX);
	get_str(tb[IFLA_IFNAME], name, sizeof(name));
	get_str(info[IFLA_INFO_KIND], kind, sizeof(kind));
	buf_printf(b, "%s %d %s", h->nlmsg_type == RTM_NEWLINK ? "NEW" : "SET", head->ifi_index,
		   name);
	if (h->nlmsg_type == RTM_NEWLINK)
		buf_str(b, h->nlmsg_flags & NLM_F_CREATE ? " create" : " change");
	if (head->ifi_change)
		buf_printf(b, " flags %x/%x", head->ifi_flags, head->ifi_change);
	if (tb[IFLA_MASTER])
		buf_printf(b, " master %u", get_u32(tb[IFLA_MASTER], 0));
	if (tb[IFLA_LINK])
		buf_printf(b, " on %u", get_u32(tb[IFLA_LINK], 0));
	if (*kind)
		buf_printf(b, " %s ", kind);
	put_data(b, info[IFLA_INFO_DATA]);
	buf_char(b, '\n');
}

/* Returns all messages of a batch, captured as sent on the socket, as text with one line for
 * each. */
static char *sent(struct nl_batch *batch)
{
	auto_fd int fd = memfd_create("record", MFD_CLOEXEC);
	auto_buf struct buf bytes;
	static char text[1 << 16];
	const struct nlmsghdr *h;
	struct kern_lab lab;
	struct buf b;
	ssize_t n;
	int rest;

	kern_open(&lab);
	OK(nl_record_to(lab.w, fd, &e));
	nl_batch_commit(lab.w, batch, NULL);
	kern_close(&lab);
	n = pread(fd, text, sizeof(text) - 1, 0);
	assert_true(n > 0);
	text[n] = '\0';
	buf_init(&bytes, sizeof(text));
	for (const char *p = strstr(text, "> ") + 2; *p != '\n'; p += 2) {
		unsigned int byte;

		ASSERT_EQ(sscanf(p, "%2x", &byte), 1);
		buf_char(&bytes, (char)byte);
	}
	buf_init(&b, 8192);
	h = (const void *)bytes.p;
	rest = (int)bytes.len;
	for (; nlmsg_ok(h, rest); h = nlmsg_next((void *)(uintptr_t)h, &rest))
		put_message(&b, h);
	return buf_take(&b);
}

static void test_vlan_interface_is_created_by_the_expected_messages(void **state)
{
	struct ifacer_plan p = {.makes_vlan = true,
				.sets_parent_up = true,
				.vlan = 5,
				.vlan_name = "ens1.5",
				.parent = "ens1"};
	auto_batch struct nl_batch *b = nl_batch_new();
	auto_free char *got = NULL;

	(void)state;
	ifacer_put_vlan(&p, 4711, b);
	got = sent(b);
	ASSERT_STR_EQ(got, "SET 4711  flags 1/1\n"
			   "NEW 0 ens1.5 create flags 1/1 on 4711 vlan 1:0500 \n");
}

static void test_ports_are_added_to_a_bond_by_the_expected_messages(void **state)
{
	struct ifacer_port ports[] = {{"ens1", 4711, true}, {"ens2", 4712, false}};
	const struct ifacer_plan p = {.sets_bond_up = true,
				      .bond_name = "bond0",
				      .ports = ports,
				      .n_ports = 2,
				      .active_slave = 4712};
	auto_batch struct nl_batch *b = nl_batch_new();
	auto_free char *got = NULL;

	(void)state;
	ifacer_put_ports(&p, 4720, b);
	ifacer_put_active(&p, 4720, b);
	got = sent(b);
	ASSERT_STR_EQ(got, "SET 4711  flags 0/1\n"
			   "SET 4711  master 4720\n"
			   "SET 4711  flags 1/1\n"
			   "SET 4712  flags 0/1\n"
			   "SET 4712  master 4720\n"
			   "SET 4712  flags 1/1\n"
			   "SET 4720  flags 1/1\n"
			   "NEW 4720  change bond 2:68120000 \n"); /* IFLA_BOND_ACTIVE_SLAVE */
}

/* The attribute number and the width of each option must be those of linux/if_link.h. */
static void test_bond_options_are_set_by_attributes_of_the_kernels_header(void **state)
{
	auto_batch struct nl_batch *b = nl_batch_new();
	struct link_spec s = LINK_SPEC_INIT;
	struct link_bond all = {.ad_actor_system = t_mac("02:00:00:00:00:01")};
	auto_free char *got = NULL;

	(void)state;
	for (unsigned int o = 0; o < LINK_BOND_OPTIONS; o++)
		link_bond_set(&all, o, o + 1);
	all.arp_targets[all.n_arp_targets++] = t_ip("10.0.0.1");
	all.arp_targets[all.n_arp_targets++] = t_ip("10.0.0.2");
	s.name = "bond0";
	s.kind = "bond";
	s.bond = &all;
	link_add(b, &s);
	got = sent(b);
	ASSERT_STR_EQ(
		got,
		"NEW 0 bond0 create bond 1:01 2:02000000 3:03000000 4:04000000 5:05000000 6:06 "
		"7:07000000 9:08000000 10:09000000 11:0a000000 12:0b 13:0c 14:0d 15:0e000000 "
		"16:0f 17:10 18:11000000 19:12000000 20:13000000 21:14 22:15 24:1600 25:1700 "
		"27:18 28:19000000 26:020000000001 8:080000000a000001080001000a000002 \n");
}

/* The kernel must refuse a link of an unknown kind, and must not have created the requested
 * link. */
static void test_unknown_link_kind_is_detected(void **state)
{
	auto_free struct link *links = NULL;
	struct kern_lab lab;
	size_t n = 0;

	(void)state;
	kern_open(&lab);
	assert_true(link_kind_known(lab.w, "bond", &e) >= 0);
	assert_true(link_kind_known(lab.w, "vlan", &e) >= 0);
	ASSERT_EQ(link_kind_known(lab.w, "smokesignal", &e), 0);
	OK(link_list(lab.w, &links, &n, &e));
	assert_null(link_find(links, n, "unirail-kind"));
	kern_close(&lab);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_omitted_ifacer_settings_have_defaults),
		cmocka_unit_test(test_bond_and_vlan_are_created_only_if_configured),
		cmocka_unit_test(test_bond_options_are_parsed),
		cmocka_unit_test(test_invalid_bond_options_are_refused),
		cmocka_unit_test(test_vlan_interfaces_are_planned_on_their_master),
		cmocka_unit_test(test_bonds_are_planned_with_their_ports),
		cmocka_unit_test(test_interfaces_unsuitable_as_ports_are_refused),
		cmocka_unit_test(test_check_reports_missing_or_different_links),
		cmocka_unit_test(test_vlan_interface_is_created_by_the_expected_messages),
		cmocka_unit_test(test_ports_are_added_to_a_bond_by_the_expected_messages),
		cmocka_unit_test(test_bond_options_are_set_by_attributes_of_the_kernels_header),
		cmocka_unit_test(test_unknown_link_kind_is_detected),
	};

	return T_RUN(tests, NULL, NULL);
}
