/* SPDX-License-Identifier: Apache-2.0 */
/* The coordinator's decisions, on plain structs; a plan is compared as text. */
#include "testlib.h"

#include <errno.h>
#include <net/if.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "cni/plugins/coordinator/internal.h"
#include "kern/net/link.h"

enum { LO = 1, ETH0 = 2, VETH0 = 3, NET1 = 4, NET2 = 5, HOST_END = 70, OTHER = 80 };

static struct mac mac(uint8_t last)
{
	return (struct mac){.len = 6, .b = {0x0a, 0, 0, 0, 0, last}};
}

/* --- state of the pod and the node --- */

static struct coordinator_facts facts;
static struct coordinator_conf conf;
/* The last plan: its NIC, and its steps as text. */
static struct coordinator_nic nic;
static char *planned;

static void add_link(int index, const char *name)
{
	struct link *l = &VEC_PUSH(facts.links, facts.n_links);

	l->index = index;
	str_copy(l->name, sizeof(l->name), name);
	l->flags = IFF_UP | (index == LO ? IFF_LOOPBACK : IFF_BROADCAST | IFF_MULTICAST);
	l->mac = mac((uint8_t)index);
	l->txqlen = 1000;
}

static void add_addr(int index, const char *text)
{
	struct addr *a = &VEC_PUSH(facts.addrs, facts.n_addrs);
	struct route *r = &VEC_PUSH(facts.routes, facts.n_routes);

	a->index = index;
	a->net = t_net(text);
	/* the connected route that the kernel creates */
	r->dst = ipnet_network(&a->net);
	r->family = a->net.ip.family;
	r->index = index;
	r->table = TABLE_MAIN;
	r->type = 1;
	r->scope = r->family == 4 ? SCOPE_LINK : 0;
	r->priority = r->family == 6 ? 256 : 0;
	if (r->family == 4)
		r->src = a->net.ip;
}

static void add_route(const char *dst, const char *gw, int index)
{
	struct route *r = &VEC_PUSH(facts.routes, facts.n_routes);

	r->dst = t_net(dst);
	r->family = r->dst.ip.family;
	r->gw = t_ip(gw);
	r->index = index;
	r->table = TABLE_MAIN;
	r->type = 1;
	r->priority = r->family == 6 ? 1024 : 0;
}

static void add_host_ip(const char *text)
{
	VEC_PUSH(facts.host_ips, facts.n_host_ips) = t_ip(text);
}

static void add_lookup(const char *pod, const char *src)
{
	VEC_PUSH(facts.lookups, facts.n_lookups) =
		(struct coordinator_lookup){t_ip(pod), t_ip(src)};
}

/* A pod with eth0 (macvlan) and veth0, in the state that the coordinator finds when it plans
 * eth0. */
static void underlay_pod(void)
{
	coordinator_facts_done(&facts);
	facts = (struct coordinator_facts){0};
	add_link(LO, "lo");
	add_link(ETH0, "eth0");
	add_link(VETH0, "veth0");
	add_addr(ETH0, "172.16.0.20/24");
	add_route("0.0.0.0/0", "172.16.0.1", ETH0);
	add_lookup("172.16.0.20", "172.16.0.2");
	add_host_ip("172.16.1.2");
	add_host_ip("172.16.0.2");
	facts.host_veth.index = HOST_END;
	facts.host_veth.mac = mac(HOST_END);
	str_copy(facts.host_veth.name, sizeof(facts.host_veth.name), "vethabc");
}

static void plug(int index, const char *name, const char *address, const char *gw)
{
	add_link(index, name);
	add_addr(index, address);
	if (gw)
		add_route(strchr(gw, ':') ? "::/0" : "0.0.0.0/0", gw, index);
}

/* A pod whose eth0 is a veth of another plugin. */
static void overlay_pod(void)
{
	coordinator_facts_done(&facts);
	facts = (struct coordinator_facts){0};
	add_link(LO, "lo");
	add_link(ETH0, "eth0");
	add_addr(ETH0, "10.233.70.5/32");
	add_route("0.0.0.0/0", "169.254.1.1", ETH0);
	add_lookup("10.233.70.5", "172.16.0.2");
	add_host_ip("172.16.0.2");
	facts.host_veth.index = HOST_END;
	facts.host_veth.mac = mac(HOST_END);
	str_copy(facts.host_veth.name, sizeof(facts.host_veth.name), "cali0");
}

/* --- plans as text --- */

static void put_ip(struct buf *b, const char *word, const struct ipaddr *a)
{
	char text[IP_TEXT_MAX];

	if (a->family)
		buf_printf(b, " %s %s", word, ip_str(a, text));
}

static void put_route(struct buf *b, const struct route *r)
{
	char text[IP_TEXT_MAX];

	buf_printf(b, "route %s", ipnet_str(&r->dst, text));
	put_ip(b, "via", &r->gw);
	buf_printf(b, " dev %d", r->index);
	put_ip(b, "src", &r->src);
	if (r->scope)
		buf_printf(b, " scope %d", r->scope);
	if (r->mtu)
		buf_printf(b, " mtu %u", r->mtu);
	if (r->onlink)
		buf_str(b, " onlink");
	buf_printf(b, " table %u", r->table);
}

static void put_rule(struct buf *b, const struct rule *r)
{
	char text[IP_TEXT_MAX];

	buf_str(b, "rule");
	if (r->src.ip.family)
		buf_printf(b, " from %s", ipnet_str(&r->src, text));
	if (r->mark)
		buf_printf(b, " fwmark %u", r->mark);
	buf_printf(b, " v%d table %u", r->family, r->table);
	if (r->has_priority)
		buf_printf(b, " pref %u", r->priority);
}

static void put_step(struct buf *b, const struct coordinator_step *s)
{
	char text[MAC_TEXT_MAX], a[IP_TEXT_MAX];

	buf_str(b, s->side == COORD_POD ? "pod " : "host ");
	switch (s->what) {
	case COORD_LINK_UP: buf_printf(b, "up %d", s->index); break;
	case COORD_LINK_MAC: buf_printf(b, "mac %d %s", s->index, mac_str(&s->mac, text)); break;
	case COORD_LINK_TXQLEN: buf_printf(b, "txqlen %d %u", s->index, s->num); break;
	case COORD_ADDR_ADD:
		buf_printf(b, "addr %s dev %d", ipnet_str(&s->net, a), s->index);
		break;
	case COORD_SYSCTL: buf_printf(b, "%s=%s", s->key, s->value); break;
	case COORD_NEIGH_DEL:
		buf_printf(b, "-neigh %s dev %d", ip_str(&s->net.ip, a), s->index);
		break;
	case COORD_NEIGH_ADD:
		buf_printf(b, "neigh %s dev %d %s", ip_str(&s->net.ip, a), s->index,
			   mac_str(&s->mac, text));
		break;
	case COORD_ROUTE_DEL: buf_char(b, '-'); /* fall through */
	case COORD_ROUTE_ADD: put_route(b, &s->route); break;
	case COORD_RULE_ADD: put_rule(b, &s->rule); break;
	case COORD_MARKS: buf_printf(b, "marks %s %u", s->ifname, s->num); break;
	}
	buf_char(b, '\n');
}

static struct coordinator_conf conf_of(void)
{
	return (struct coordinator_conf){.default_nic = "eth0",
					 .tune_routes = true,
					 .host_table = 500,
					 .rp_filter = -1,
					 .veth_mtu = 1500};
}

/* Plans the NIC with `facts` and `conf`; stores the result in `planned` and `nic`. */
static int try_plan(const char *ifname, struct err *e)
{
	struct coordinator_plan *steps = xcalloc(1, sizeof(*steps));
	struct buf b;
	int r;

	nic = (struct coordinator_nic){.conf = &conf, .ifname = ifname, .network = "net"};
	buf_init(&b, 1 << 16);
	r = coordinator_plan_nic(&nic, 0, &facts, steps, e);
	for (size_t i = 0; i < steps->n; i++)
		put_step(&b, &steps->steps[i]);
	coordinator_plan_free(steps);
	buf_str(&b, "");
	free(planned);
	planned = buf_take(&b);
	return r;
}

static void plan(const char *ifname)
{
	struct err e = ERR_INIT;

	ASSERT_OK(try_plan(ifname, &e), &e);
}

static void says(const char *ifname, const char *want)
{
	plan(ifname);
	ASSERT_STR_EQ(planned, want);
}

static void refuses(const char *ifname, const char *word)
{
	struct err e = ERR_INIT;

	assert_true(try_plan(ifname, &e) < 0);
	ASSERT_HAS(e.text, word);
}

/* --- underlay --- */

/* The IPv6 CIDR gets no route, because eth0 has no IPv6 address. */
static void test_first_underlay_nic_gets_routes_to_the_node_and_the_cidrs(void **state)
{
	struct ipnet cidrs[] = {t_net("10.233.64.0/18"), t_net("10.233.0.0/18"),
				t_net("fd09::/64")};

	(void)state;
	underlay_pod();
	conf.cidrs = cidrs;
	conf.n_cidrs = 3;
	conf.rp_filter = 0;
	says("eth0", "pod net/ipv4/conf/all/rp_filter=0\n"
		     "host neigh 172.16.0.20 dev 70 0a:00:00:00:00:03\n"
		     "pod neigh 172.16.0.2 dev 3 0a:00:00:00:00:46\n"
		     "pod neigh 172.16.1.2 dev 3 0a:00:00:00:00:46\n"
		     "pod route 172.16.0.2/32 dev 3 src 172.16.0.20 scope 253 table 101\n"
		     "pod route 172.16.0.2/32 dev 3 src 172.16.0.20 scope 253 table 254\n"
		     "pod route 172.16.1.2/32 dev 3 src 172.16.0.20 scope 253 table 101\n"
		     "pod route 172.16.1.2/32 dev 3 src 172.16.0.20 scope 253 table 254\n"
		     "host route 172.16.0.20/32 dev 70 scope 253 table 500\n"
		     "host rule v4 table 500 pref 1000\n"
		     "pod route 10.233.64.0/18 via 172.16.0.2 dev 3 src 172.16.0.20 table 254\n"
		     "pod route 10.233.0.0/18 via 172.16.0.2 dev 3 src 172.16.0.20 table 254\n"
		     "pod marks veth0 1\n"
		     "pod rule fwmark 1 v4 table 100 pref 1000\n"
		     "pod route 0.0.0.0/0 via 172.16.0.2 dev 3 src 172.16.0.20 table 100\n");
}

/* The table number follows from the number of links that are up, without lo: with 3 links, net1
 * uses table 101, which has routes of eth0 as well; with 4 links, net2 uses table 102. */
static void test_later_underlay_nics_get_tables_of_their_own(void **state)
{
	(void)state;
	underlay_pod();
	plan("eth0");
	plug(NET1, "net1", "172.16.1.20/24", "172.16.1.1");
	says("net1", "host neigh 172.16.1.20 dev 70 0a:00:00:00:00:03\n"
		     "host route 172.16.1.20/32 dev 70 scope 253 table 500\n"
		     "host rule v4 table 500 pref 1000\n"
		     "pod rule from 172.16.1.20/32 v4 table 101\n"
		     "pod route 172.16.1.0/24 dev 4 src 172.16.1.20 scope 253 table 101\n"
		     "pod route 0.0.0.0/0 via 172.16.1.1 dev 4 table 101\n"
		     "pod -route 0.0.0.0/0 via 172.16.1.1 dev 4 table 254\n");
	plug(NET2, "net2", "172.16.2.20/24", "172.16.2.1");
	says("net2", "host neigh 172.16.2.20 dev 70 0a:00:00:00:00:03\n"
		     "pod route 172.16.0.2/32 dev 3 src 172.16.0.20 scope 253 table 102\n"
		     "pod route 172.16.1.2/32 dev 3 src 172.16.0.20 scope 253 table 102\n"
		     "host route 172.16.2.20/32 dev 70 scope 253 table 500\n"
		     "host rule v4 table 500 pref 1000\n"
		     "pod rule from 172.16.2.20/32 v4 table 102\n"
		     "pod route 172.16.2.0/24 dev 5 src 172.16.2.20 scope 253 table 102\n"
		     "pod route 0.0.0.0/0 via 172.16.2.1 dev 5 table 102\n"
		     "pod -route 0.0.0.0/0 via 172.16.2.1 dev 5 table 254\n");
}

/* A call for all NICs hides the links of later NICs from the plan of a NIC: the plan is the same
 * as in a chain, in which the later links do not exist yet. */
static void test_plan_of_a_nic_ignores_hidden_later_nics(void **state)
{
	static const char *const names[] = {"eth0", "net1", "net2"};
	static const int hidden[] = {NET1, NET2};
	char *one[3];

	(void)state;
	underlay_pod();
	plan("eth0");
	one[0] = take(planned);
	plug(NET1, "net1", "172.16.1.20/24", "172.16.1.1");
	plan("net1");
	one[1] = take(planned);
	plug(NET2, "net2", "172.16.2.20/24", "172.16.2.1");
	plan("net2");
	one[2] = take(planned);

	underlay_pod();
	plug(NET1, "net1", "172.16.1.20/24", "172.16.1.1");
	plug(NET2, "net2", "172.16.2.20/24", "172.16.2.1");
	add_lookup("172.16.2.20", "172.16.9.9");
	for (size_t i = 0; i < 3; i++) {
		facts.hidden = hidden + i;
		facts.n_hidden = 2 - i;
		if (i == 2)
			facts.n_lookups--;
		plan(names[i]);
		ASSERT_STR_EQ(planned, one[i]);
		free(one[i]);
	}
	facts.hidden = NULL;
}

static void test_hidden_link_is_reported_as_missing(void **state)
{
	static const int hidden[] = {NET1};

	(void)state;
	underlay_pod();
	plug(NET1, "net1", "172.16.1.20/24", "172.16.1.1");
	facts.hidden = hidden;
	facts.n_hidden = 1;
	refuses("net1", "Link not found");
}

/* eth0's plan routes the node's packets for eth0's address through the coordinator's veth pair.
 * net1's plan therefore ignores the kernel's lookup for this address and uses the node address
 * that eth0's plan chose. */
static void test_later_nic_keeps_the_chosen_node_address(void **state)
{
	struct ipnet cidr = t_net("10.96.0.0/12");

	(void)state;
	underlay_pod();
	plan("eth0");
	facts.lookups[0].src = t_ip("172.16.7.7");
	add_host_ip("172.16.7.7");
	plug(NET1, "net1", "172.16.1.20/24", NULL);
	conf.cidrs = &cidr;
	conf.n_cidrs = 1;
	plan("net1");
	ASSERT_HAS(planned, "pod route 10.96.0.0/12 via 172.16.0.2 dev 3");
}

static void test_dual_stack_pod_gets_routes_of_both_families(void **state)
{
	(void)state;
	underlay_pod();
	add_addr(ETH0, "fd00::20/64");
	add_addr(ETH0, "fe80::1/64");
	add_route("::/0", "fd00::1", ETH0);
	add_lookup("fd00::20", "fd00::2");
	says("eth0", "pod net/ipv6/conf/all/disable_ipv6=0\n"
		     "host neigh 172.16.0.20 dev 70 0a:00:00:00:00:03\n"
		     "host neigh fd00::20 dev 70 0a:00:00:00:00:03\n"
		     "pod neigh 172.16.0.2 dev 3 0a:00:00:00:00:46\n"
		     "pod neigh fd00::2 dev 3 0a:00:00:00:00:46\n"
		     "pod neigh 172.16.1.2 dev 3 0a:00:00:00:00:46\n"
		     "pod route 172.16.0.2/32 dev 3 src 172.16.0.20 scope 253 table 101\n"
		     "pod route 172.16.0.2/32 dev 3 src 172.16.0.20 scope 253 table 254\n"
		     "pod route fd00::2/128 dev 3 table 101\n"
		     "pod route fd00::2/128 dev 3 table 254\n"
		     "pod route 172.16.1.2/32 dev 3 src 172.16.0.20 scope 253 table 101\n"
		     "pod route 172.16.1.2/32 dev 3 src 172.16.0.20 scope 253 table 254\n"
		     "host route 172.16.0.20/32 dev 70 scope 253 table 500\n"
		     "host route fd00::20/128 dev 70 table 500\n"
		     "host rule v4 table 500 pref 1000\n"
		     "host rule v6 table 500 pref 1000\n"
		     "pod marks veth0 1\n"
		     "pod rule fwmark 1 v4 table 100 pref 1000\n"
		     "pod route 0.0.0.0/0 via 172.16.0.2 dev 3 src 172.16.0.20 table 100\n"
		     "pod rule fwmark 1 v6 table 100 pref 1000\n"
		     "pod route ::/0 via fd00::2 dev 3 table 100\n");
}

/* If the node has no IPv6 address, the original adds an empty address to its list of the node's
 * addresses and continues. */
static void test_ipv6_pod_gets_no_ipv6_route_to_a_node_without_ipv6(void **state)
{
	(void)state;
	underlay_pod();
	add_addr(ETH0, "fd00::20/64");
	add_route("::/0", "fd00::1", ETH0);
	says("eth0", "pod net/ipv6/conf/all/disable_ipv6=0\n"
		     "host neigh 172.16.0.20 dev 70 0a:00:00:00:00:03\n"
		     "host neigh fd00::20 dev 70 0a:00:00:00:00:03\n"
		     "pod neigh 172.16.0.2 dev 3 0a:00:00:00:00:46\n"
		     "pod neigh 172.16.1.2 dev 3 0a:00:00:00:00:46\n"
		     "pod route 172.16.0.2/32 dev 3 src 172.16.0.20 scope 253 table 101\n"
		     "pod route 172.16.0.2/32 dev 3 src 172.16.0.20 scope 253 table 254\n"
		     "pod route 172.16.1.2/32 dev 3 src 172.16.0.20 scope 253 table 101\n"
		     "pod route 172.16.1.2/32 dev 3 src 172.16.0.20 scope 253 table 254\n"
		     "host route 172.16.0.20/32 dev 70 scope 253 table 500\n"
		     "host route fd00::20/128 dev 70 table 500\n"
		     "host rule v4 table 500 pref 1000\n"
		     "host rule v6 table 500 pref 1000\n"
		     "pod marks veth0 1\n"
		     "pod rule fwmark 1 v4 table 100 pref 1000\n"
		     "pod route 0.0.0.0/0 via 172.16.0.2 dev 3 src 172.16.0.20 table 100\n"
		     "pod rule fwmark 1 v6 table 100 pref 1000\n");
}

/* The kernel joins the IPv6 default routes of several NICs into one multipath route: only net1's
 * hop is moved. */
static void test_one_hop_of_an_ipv6_multipath_default_is_moved(void **state)
{
	struct route *r;

	(void)state;
	underlay_pod();
	add_addr(ETH0, "fd00::20/64");
	plug(NET1, "net1", "fd01::20/64", NULL);
	r = &VEC_PUSH(facts.routes, facts.n_routes);
	*r = (struct route){.dst = t_net("::/0"),
			    .family = 6,
			    .table = TABLE_MAIN,
			    .priority = 1024,
			    .mtu = 4200,
			    .type = 1,
			    .n_hops = 2};
	r->hops = xcalloc(2, sizeof(*r->hops));
	r->hops[0] = (struct route_hop){ETH0, t_ip("fd00::1"), 1};
	r->hops[1] = (struct route_hop){NET1, t_ip("fd01::1"), 1};
	says("net1", "pod net/ipv6/conf/all/disable_ipv6=0\n"
		     "host neigh fd01::20 dev 70 0a:00:00:00:00:03\n"
		     "host route fd01::20/128 dev 70 table 500\n"
		     "host rule v6 table 500 pref 1000\n"
		     "pod rule from fd01::20/128 v6 table 101\n"
		     "pod route fd01::/64 dev 4 table 101\n"
		     "pod route ::/0 via fd01::1 dev 4 mtu 4200 table 101\n"
		     "pod -route ::/0 via fd01::1 dev 4 mtu 4200 table 254\n");
	/* the plan updated the facts: the IPv6 default route in table main now has only the hop
	 * of eth0 */
	for (size_t i = 0; i < facts.n_routes; i++)
		if (facts.routes[i].table == TABLE_MAIN && ipnet_is_default(&facts.routes[i].dst) &&
		    facts.routes[i].family == 6)
			assert_true(!facts.routes[i].n_hops && facts.routes[i].index == ETH0);
}

static void test_default_route_is_moved_to_the_selected_nic(void **state)
{
	(void)state;
	underlay_pod();
	plan("eth0");
	plug(NET1, "net1", "172.16.1.20/24", "172.16.1.1");
	conf.default_route_nic = "net1";
	plan("net1");
	ASSERT_HAS(planned, "pod rule from 172.16.0.20/32 v4 table 101\n");
	ASSERT_HAS(planned, "pod route 0.0.0.0/0 via 172.16.0.1 dev 2 table 101\n"
			    "pod -route 0.0.0.0/0 via 172.16.0.1 dev 2 table 254\n");
	assert_null(strstr(planned, "-route 0.0.0.0/0 via 172.16.1.1"));
}

/*
 * Selecting a NIC that does not exist is an error; selecting a NIC that the same call creates later
 * is not.
 */
static void test_selected_default_route_nic_must_exist(void **state)
{
	static const int hidden[] = {NET2};

	(void)state;
	underlay_pod();
	plug(NET1, "net1", "172.16.1.20/24", "172.16.1.1");
	conf.default_route_nic = "net2";
	refuses("net1", "podDefaultRouteNIC: net2 don't exist in pod");
	plug(NET2, "net2", "172.16.2.20/24", "172.16.2.1");
	facts.hidden = hidden;
	facts.n_hidden = 1;
	plan("net1");
	ASSERT_HAS(planned, "pod rule from 172.16.1.20/32");
	facts.hidden = NULL;
	facts.n_hidden = 0;
}

static void test_nic_gets_no_rules_if_no_other_nic_has_a_default_route(void **state)
{
	(void)state;
	underlay_pod();
	facts.n_routes--; /* eth0's default */
	plug(NET1, "net1", "172.16.1.20/24", "172.16.1.1");
	plan("net1");
	assert_null(strstr(planned, "rule from"));
	assert_null(strstr(planned, "-route"));
}

static void test_policy_routes_go_to_table_main_or_for_later_nics_to_their_table(void **state)
{
	struct coordinator_policy policy[] = {{t_net("10.60.0.0/16"), t_ip("172.16.1.99")},
					      {t_net("fd60::/64"), t_ip("fd01::99")}};

	(void)state;
	conf.policy = policy;
	conf.n_policy = 2;
	underlay_pod();
	plan("eth0");
	ASSERT_HAS(planned, "pod route 10.60.0.0/16 via 172.16.1.99 dev 2 table 254\n");
	assert_null(strstr(planned, "fd60"));
	plug(NET1, "net1", "172.16.1.20/24", "172.16.1.1");
	plan("net1");
	ASSERT_HAS(planned, "pod route 10.60.0.0/16 via 172.16.1.99 dev 4 table 101\n");
}

/* --- overlay --- */

static void test_overlay_nics_get_neighbours_routes_and_rules(void **state)
{
	(void)state;
	overlay_pod();
	plug(NET1, "net1", "172.16.1.20/24", "172.16.1.1");
	says("net1", "host neigh 172.16.1.20 dev 70 0a:00:00:00:00:02\n"
		     "pod neigh 172.16.0.2 dev 2 0a:00:00:00:00:46\n"
		     "pod route 172.16.0.2/32 dev 2 src 10.233.70.5 scope 253 table 101\n"
		     "pod route 172.16.0.2/32 dev 2 src 10.233.70.5 scope 253 table 254\n"
		     "host route 172.16.1.20/32 dev 70 scope 253 table 500\n"
		     "host rule v4 table 500 pref 1000\n"
		     "pod rule from 172.16.1.20/32 v4 table 101\n"
		     "pod rule from 10.233.70.5/32 v4 table 100\n"
		     "pod route 0.0.0.0/0 via 169.254.1.1 dev 2 table 100\n"
		     "pod route 172.16.1.0/24 dev 4 src 172.16.1.20 scope 253 table 101\n"
		     "pod route 0.0.0.0/0 via 172.16.1.1 dev 4 table 101\n"
		     "pod -route 0.0.0.0/0 via 172.16.1.1 dev 4 table 254\n");
	plug(NET2, "net2", "172.16.2.20/24", "172.16.2.1");
	says("net2", "host neigh 172.16.2.20 dev 70 0a:00:00:00:00:02\n"
		     "pod route 172.16.0.2/32 dev 2 src 10.233.70.5 scope 253 table 102\n"
		     "host route 172.16.2.20/32 dev 70 scope 253 table 500\n"
		     "host rule v4 table 500 pref 1000\n"
		     "pod rule from 172.16.2.20/32 v4 table 102\n"
		     "pod route 172.16.2.0/24 dev 5 src 172.16.2.20 scope 253 table 102\n"
		     "pod route 0.0.0.0/0 via 172.16.2.1 dev 5 table 102\n"
		     "pod -route 0.0.0.0/0 via 172.16.2.1 dev 5 table 254\n");
}

/*
 * The IPv6 default route of eth0 is copied to table 100, also if it is one hop of a multipath
 * route.
 */
static void test_overlay_copies_each_hop_of_an_ipv6_multipath_default_route(void **state)
{
	struct route *r;

	(void)state;
	overlay_pod();
	add_addr(ETH0, "fd00:70::5/128");
	plug(NET1, "net1", "172.16.1.20/24", "172.16.1.1");
	add_addr(NET1, "fd01::20/64");
	r = &VEC_PUSH(facts.routes, facts.n_routes);
	*r = (struct route){.dst = t_net("::/0"),
			    .family = 6,
			    .table = TABLE_MAIN,
			    .priority = 1024,
			    .type = 1,
			    .n_hops = 2};
	r->hops = xcalloc(2, sizeof(*r->hops));
	r->hops[0] = (struct route_hop){ETH0, t_ip("fd00:70::1"), 1};
	r->hops[1] = (struct route_hop){NET1, t_ip("fd01::1"), 1};
	plan("net1");
	ASSERT_HAS(planned, "pod rule from fd00:70::5/128 v6 table 100\n");
	ASSERT_HAS(planned, "pod route ::/0 via fd00:70::1 dev 2 table 100\n");
	ASSERT_HAS(planned, "pod route ::/0 via fd01::1 dev 4 table 101\n");
	assert_null(strstr(planned, "-route ::/0 via fd00:70::1"));
}

/* The kernel accepts a gateway outside of every subnet only with the onlink flag. */
static void test_onlink_flag_is_retained_in_copied_routes(void **state)
{
	(void)state;
	overlay_pod();
	facts.routes[facts.n_routes - 1].onlink = true;
	plug(NET1, "net1", "172.16.1.20/24", "172.16.1.1");
	plan("net1");
	ASSERT_HAS(planned, "via 169.254.1.1 dev 2 onlink table 100\n");
}

/* --- stage --- */

static void test_mode_and_table_follow_from_the_links_of_the_pod(void **state)
{
	struct coordinator_stage s;
	struct err e = ERR_INIT;

	(void)state;
	overlay_pod();
	add_link(NET1, "net1");
	ASSERT_EQ(coordinator_stage(&conf, &facts, "net1", &s, &e), 0);
	assert_true(s.mode == COORD_OVERLAY && s.first && s.table == 101);
	add_link(NET2, "net2");
	ASSERT_EQ(coordinator_stage(&conf, &facts, "net2", &s, &e), 0);
	assert_true(s.mode == COORD_OVERLAY && !s.first && s.table == 102);
	/* A link that is down is not counted. */
	add_link(6, "dummy0");
	facts.links[facts.n_links - 1].flags = IFF_BROADCAST | IFF_MULTICAST;
	ASSERT_EQ(coordinator_stage(&conf, &facts, "net2", &s, &e), 0);
	ASSERT_EQ(s.table, 102);
	ASSERT_EQ(coordinator_stage(&conf, &facts, "eth0", &s, &e), 0);
	assert_true(s.mode == COORD_UNDERLAY && s.first && s.table == 101);
	conf.mode = COORD_OVERLAY;
	assert_true(coordinator_stage(&conf, &facts, "eth0", &s, &e) < 0);
	conf.mode = COORD_UNDERLAY;
	err_clear(&e);
	assert_true(coordinator_stage(&conf, &facts, "net1", &s, &e) < 0);
	ASSERT_HAS(e.text, "please enable coordinator plugin in previous interface");
}

static void test_overlay_mode_is_refused_in_a_pod_with_veth0(void **state)
{
	(void)state;
	underlay_pod();
	plug(NET1, "net1", "172.16.1.20/24", NULL);
	conf.mode = COORD_OVERLAY;
	refuses("net1", "veth0");
}

static void test_nic_with_only_a_link_local_address_is_refused(void **state)
{
	(void)state;
	underlay_pod();
	add_link(NET1, "net1");
	add_addr(NET1, "fe80::1/64");
	refuses("net1", "no usable IP addresses on \"net1\"");
}

static void test_veth_is_created_only_for_underlay_eth0(void **state)
{
	struct coordinator_conf overlay = conf_of();
	struct coordinator_nic nics[] = {{.ifname = "net1", .conf = &conf},
					 {.ifname = "eth0", .conf = &conf}};
	size_t at;

	(void)state;
	assert_true(coordinator_wants_veth(nics, 2, &at));
	ASSERT_EQ(at, 1);
	assert_false(coordinator_wants_veth(nics, 1, &at));
	overlay.mode = COORD_OVERLAY;
	nics[1].conf = &overlay;
	assert_false(coordinator_wants_veth(nics, 2, &at));
	nics[1].conf = NULL;
	assert_false(coordinator_wants_veth(nics, 2, &at));
}

/* --- the NIC --- */

static void test_mac_prefix_queue_length_and_veth_address_are_set(void **state)
{
	char text[MAC_TEXT_MAX];

	(void)state;
	underlay_pod();
	conf.has_mac_prefix = true;
	conf.mac_prefix[0] = 0x0a;
	conf.mac_prefix[1] = 0x1b;
	conf.txqlen = 4321;
	conf.veth_addr = t_ip("169.254.200.1");
	facts.links[1].flags &= ~(uint32_t)IFF_UP;
	plan("eth0");
	ASSERT_EQ(strncmp(planned,
			  "pod up 2\n"
			  "pod addr 169.254.200.1/32 dev 3\n"
			  "pod mac 2 0a:1b:ac:10:00:14\n"
			  "pod txqlen 2 4321\n",
			  strlen("pod up 2\npod addr 169.254.200.1/32 dev 3\n"
				 "pod mac 2 0a:1b:ac:10:00:14\npod txqlen 2 4321\n")),
		  0);
	ASSERT_STR_EQ(mac_str(&nic.mac, text), "0a:1b:ac:10:00:14");

	/* IPv6: the MAC ends with the last four bytes of the address */
	underlay_pod();
	plug(NET1, "net1", "fd00::a:b0c/64", NULL);
	plan("net1");
	ASSERT_STR_EQ(mac_str(&nic.mac, text), "0a:1b:00:0a:0b:0c");
}

/* --- the node --- */

static void test_stale_neighbours_and_routes_of_the_node_to_the_address_are_removed(void **state)
{
	struct route stale = {.dst = t_net("172.16.0.20"),
			      .family = 4,
			      .index = OTHER,
			      .table = 500,
			      .scope = SCOPE_LINK};

	(void)state;
	underlay_pod();
	VEC_PUSH(facts.host_neighs, facts.n_host_neighs) =
		(struct neigh){.index = OTHER, .ip = t_ip("172.16.0.20")};
	VEC_PUSH(facts.host_neighs, facts.n_host_neighs) =
		(struct neigh){.index = OTHER, .ip = t_ip("172.16.0.21")};
	VEC_PUSH(facts.host_routes, facts.n_host_routes) = stale;
	stale.dst = t_net("172.16.0.21");
	VEC_PUSH(facts.host_routes, facts.n_host_routes) = stale;
	plan("eth0");
	ASSERT_HAS(planned, "host -neigh 172.16.0.20 dev 80\n");
	ASSERT_HAS(planned, "host -route 172.16.0.20/32 dev 80 scope 253 table 500\n"
			    "host route 172.16.0.20/32 dev 70 scope 253 table 500\n");
	assert_null(strstr(planned, "172.16.0.21"));
}

/* A plan has no step for a route that exists already, so undo never removes such a route. */
static void test_second_plan_repeats_no_existing_route(void **state)
{
	(void)state;
	underlay_pod();
	plan("eth0");
	ASSERT_HAS(planned, "route");
	plan("eth0");
	assert_null(strstr(planned, "route"));
}

static void test_interfaces_of_other_cnis_do_not_belong_to_the_node(void **state)
{
	static const char *const not [] = {"lo",	 "docker0",	"veth12",
					   "cali123",	 "cni0",	"flannel.1",
					   "kube-ipvs0", "cilium_host", "virbr0"};
	static const char *const own[] = {"eth0", "ens1f0np0", "bond0", "br0", "lo1", "rail0"};
	char name[LINK_NAME_MAX];

	(void)state;
	for (size_t i = 0; i < sizeof(not ) / sizeof(not [0]); i++)
		assert_false(link_is_nodes_own(not [i]));
	for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++)
		assert_true(link_is_nodes_own(own[i]));
	coordinator_host_veth_name("0123456789abcdef", name);
	ASSERT_STR_EQ(name, "veth0123456789a");
	coordinator_host_veth_name("x", name);
	ASSERT_STR_EQ(name, "vethx");
}

/*
 * Only veth links that unirail marked for this network, and whose pod was deleted, are leftovers.
 */
static void test_only_marked_leftovers_of_deleted_pods_are_found(void **state)
{
	const struct cni_attachment valid[] = {{"alive", "eth0"}};
	struct link l = {.kind = "veth", .name = "vethdead", .alias = "unirail rails dead"};

	(void)state;
	assert_true(coordinator_is_leftover(&l, "rails", valid, 1));
	assert_false(coordinator_is_leftover(&l, "rail", valid, 1));
	assert_false(coordinator_is_leftover(&l, "other", valid, 1));
	str_copy(l.alias, sizeof(l.alias), "unirail rails alive");
	assert_false(coordinator_is_leftover(&l, "rails", valid, 1));
	assert_true(coordinator_is_leftover(&l, "rails", valid, 0));
	str_copy(l.alias, sizeof(l.alias), "");
	assert_false(coordinator_is_leftover(&l, "rails", valid, 0));
	str_copy(l.alias, sizeof(l.alias), "unirail rails dead");
	str_copy(l.kind, sizeof(l.kind), "macvlan");
	assert_false(coordinator_is_leftover(&l, "rails", valid, 0));
}

/* --- netconf --- */

static int read_conf(const char *text, struct coordinator_conf *c, struct json_doc **d,
		     struct err *e)
{
	err_clear(e);
	ASSERT_EQ(json_parse(d, span_of(text), 1 << 16, e), 0);
	return coordinator_conf_read(*d, json_root(*d), c, e);
}

static void test_omitted_configuration_has_defaults(void **state)
{
	struct json_doc *d;
	struct coordinator_conf c;
	struct err e = ERR_INIT;

	(void)state;
	ASSERT_EQ(read_conf("{}", &c, &d, &e), 0);
	assert_true(c.mode == COORD_AUTO && c.tune_routes && c.host_table == 500 &&
		    c.rp_filter == 0);
	assert_true(c.veth_mtu == 1500 && !c.txqlen && !c.has_mac_prefix && !c.veth_addr.family);
	ASSERT_STR_EQ(c.default_nic, "eth0");
	assert_null(c.default_route_nic);
	coordinator_conf_done(&c);
	json_free(d);
}

static void test_configuration_keys_are_read(void **state)
{
	struct json_doc *d;
	struct coordinator_conf c;
	struct err e = ERR_INIT;
	char text[IP_TEXT_MAX];

	(void)state;
	ASSERT_EQ(
		read_conf(
			"{\"mode\":\"disable\",\"hijackCIDR\":[\"10.9.9.9\"],"
			"\"serviceCIDR\":[\"10.0.0.0/18\"],\"OverlayPodCIDR\":[\"10.1.0.7/16\"],"
			"\"tunePodRoutes\":false,\"podDefaultRouteNIC\":\"net1\",\"podRPFilter\":-3,"
			"\"podMACPrefix\":\"0a-1B\",\"hostRuleTable\":0,\"vethMTU\":1400,"
			"\"policyRoutes\":[{\"dst\":\"10.7.0.0/16\",\"gw\":\"10.0.0.1\"}],"
			"\"detectGateway\":true,\"logOptions\":{\"logLevel\":\"debug\"}}",
			&c, &d, &e),
		0);
	assert_true(c.mode == COORD_DISABLED && !c.tune_routes && c.rp_filter == -1);
	assert_true(c.host_table == 500 && c.veth_mtu == 1400 && c.mac_prefix[1] == 0x1b);
	ASSERT_STR_EQ(c.default_route_nic, "net1");
	ASSERT_EQ(c.n_cidrs, 3);
	ASSERT_STR_EQ(ipnet_str(&c.cidrs[0], text), "10.1.0.0/16");
	ASSERT_STR_EQ(ipnet_str(&c.cidrs[2], text), "10.9.9.9/32");
	ASSERT_EQ(c.n_policy, 1);
	coordinator_conf_done(&c);
	json_free(d);
}

static void test_invalid_configuration_is_refused(void **state)
{
	static const struct {
		const char *text, *word;
	} bad[] = {
		{"{\"mode\":\"sideways\"}", "conf.mode is 'sideways'"},
		{"{\"podMACPrefix\":\"01:00\"}", "unicast"},
		{"{\"podMACPrefix\":\"0,:00\"}", "conf.podMACPrefix is '0,:00'"},
		{"{\"podMACPrefix\":\"0x:00\"}", "conf.podMACPrefix"},
		{"{\"podRPFilter\":3}", "invalid rp_filter value"},
		{"{\"vethMTU\":0}", "vethMTU must be greater than 0"},
		{"{\"hijackCIDR\":[\"10.0.0.0/8\",\"x\"]}", "conf.hijackCIDR[1] is 'x'"},
		{"{\"vethLinkAddress\":\"x\"}", "conf.vethLinkAddress is 'x'"},
		{"{\"policyRoutes\":[{\"dst\":\"x\",\"gw\":\"10.0.0.1\"}]}", "invalid route dst"},
		{"{\"policyRoutes\":[{\"dst\":\"10.0.0.0/8\",\"gw\":\"x\"}]}", "invalid route gw"},
		{"{\"policyRoutes\":[{\"dst\":\"10.0.0.0/8\",\"gw\":\"fd00::1\"}]}", "families"},
	};
	struct err e = ERR_INIT;

	(void)state;
	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct json_doc *d;
		struct coordinator_conf c;

		assert_true(read_conf(bad[i].text, &c, &d, &e) < 0);
		ASSERT_EQ(e.kind, ERR_CONF);
		if (!strstr(e.text, bad[i].word))
			fail_msg("'%s' is not in '%s'", bad[i].word, e.text);
		json_free(d);
	}
}

/* --- the node's policy rule --- */

static void test_host_rule_is_idle_without_routes_in_its_table(void **state)
{
	const struct route v4 = {.family = 4, .table = 500};

	(void)state;
	assert_true(coordinator_host_rule_is_idle(4, NULL, 0));
	assert_false(coordinator_host_rule_is_idle(4, &v4, 1));
	assert_true(coordinator_host_rule_is_idle(6, &v4, 1));
}

static int setup(void **state)
{
	(void)state;
	conf = conf_of();
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	coordinator_facts_done(&facts);
	facts = (struct coordinator_facts){0};
	free(take(planned));
	return 0;
}

#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_host_rule_is_idle_without_routes_in_its_table),
		TEST(test_first_underlay_nic_gets_routes_to_the_node_and_the_cidrs),
		TEST(test_later_underlay_nics_get_tables_of_their_own),
		TEST(test_plan_of_a_nic_ignores_hidden_later_nics),
		TEST(test_hidden_link_is_reported_as_missing),
		TEST(test_later_nic_keeps_the_chosen_node_address),
		TEST(test_dual_stack_pod_gets_routes_of_both_families),
		TEST(test_ipv6_pod_gets_no_ipv6_route_to_a_node_without_ipv6),
		TEST(test_one_hop_of_an_ipv6_multipath_default_is_moved),
		TEST(test_default_route_is_moved_to_the_selected_nic),
		TEST(test_selected_default_route_nic_must_exist),
		TEST(test_nic_gets_no_rules_if_no_other_nic_has_a_default_route),
		TEST(test_policy_routes_go_to_table_main_or_for_later_nics_to_their_table),
		TEST(test_overlay_nics_get_neighbours_routes_and_rules),
		TEST(test_onlink_flag_is_retained_in_copied_routes),
		TEST(test_overlay_copies_each_hop_of_an_ipv6_multipath_default_route),
		TEST(test_mode_and_table_follow_from_the_links_of_the_pod),
		TEST(test_overlay_mode_is_refused_in_a_pod_with_veth0),
		TEST(test_nic_with_only_a_link_local_address_is_refused),
		TEST(test_veth_is_created_only_for_underlay_eth0),
		TEST(test_mac_prefix_queue_length_and_veth_address_are_set),
		TEST(test_stale_neighbours_and_routes_of_the_node_to_the_address_are_removed),
		TEST(test_second_plan_repeats_no_existing_route),
		TEST(test_interfaces_of_other_cnis_do_not_belong_to_the_node),
		TEST(test_only_marked_leftovers_of_deleted_pods_are_found),
		TEST(test_omitted_configuration_has_defaults),
		TEST(test_configuration_keys_are_read),
		TEST(test_invalid_configuration_is_refused),
	};

	return T_RUN(tests, NULL, NULL);
}
