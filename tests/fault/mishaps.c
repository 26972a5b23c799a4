/* SPDX-License-Identifier: Apache-2.0 */
/* The failures of one of eight rails. */
#include "fault.h"
#include "rails.h"

#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "kern/net/addr.h"
#include "kern/net/link.h"

static void commit(struct nl_wire *w, struct nl_batch *b)
{
	struct err e = ERR_INIT;

	if (nl_batch_commit(w, b, &e) < 0)
		die("%s", e.text);
}

void rail_nic(int rail, char name[static LINK_NAME_MAX])
{
	snprintf(name, LINK_NAME_MAX, "rail%d", rail % RAILS);
}

void rail_ifname(int rail, char name[static LINK_NAME_MAX])
{
	snprintf(name, LINK_NAME_MAX, "net%d", rail % RAILS + 1);
}

static void set_mtu(struct lab *l, int rail, uint32_t mtu)
{
	auto_batch struct nl_batch *b = nl_batch_new();
	auto_nl struct nl_wire *w = lab_wire(&l->node);
	struct link_change c = {.set = LINK_SET_MTU, .mtu = mtu};
	char name[LINK_NAME_MAX];

	rail_nic(rail, name);
	link_set(b, 0, name, &c);
	commit(w, b);
}

static void mtu_falls(struct lab *l, int rail)
{
	set_mtu(l, rail, 1400);
}

static void mtu_rises(struct lab *l, int rail)
{
	set_mtu(l, rail, 9000);
}

/* Creates another link with the name of the rail's interface in the pod: a veth, whose peer
 * distinguishes it from unirail's link. */
static void name_taken(struct lab *l, int rail)
{
	auto_batch struct nl_batch *b = nl_batch_new();
	auto_nl struct nl_wire *w = lab_wire(&l->pod);
	struct link_spec s = LINK_SPEC_INIT;
	char name[LINK_NAME_MAX];

	rail_ifname(rail, name);
	s.name = name;
	s.kind = "veth";
	s.peer_name = "obstacle";
	link_add(b, &s);
	/* an error is ignored: unirail's link may already have the name */
	nl_batch_commit(w, b, NULL);
}

static void name_free(struct lab *l, int rail)
{
	auto_batch struct nl_batch *b = nl_batch_new();
	auto_nl struct nl_wire *w = lab_wire(&l->pod);

	(void)rail;
	link_del(b, 0, "obstacle");
	commit(w, b);
}

static void link_goes(struct lab *l, int rail)
{
	auto_batch struct nl_batch *b = nl_batch_new();
	auto_nl struct nl_wire *w = lab_wire(&l->pod);
	char name[LINK_NAME_MAX];

	rail_ifname(rail, name);
	link_del(b, 0, name);
	commit(w, b);
}

static void fabric_address(struct lab *l, int rail, unsigned int host, bool there)
{
	auto_batch struct nl_batch *b = nl_batch_new();
	auto_nl struct nl_wire *w = lab_wire(&l->fabric);
	const struct ipnet n = {.ip = {4, {172, 16, (uint8_t)(rail + 1), (uint8_t)host}},
				.len = 24};
	char name[LINK_NAME_MAX + 3], nic[LINK_NAME_MAX];
	struct link k;

	rail_nic(rail, nic);
	snprintf(name, sizeof(name), "sw-%s", nic);
	if (link_get(w, name, &k, NULL) < 0)
		die("the fabric has no link '%s'", name);
	if (there)
		addr_add(b, k.index, name, &n, 0);
	else
		addr_del(b, k.index, name, &n);
	commit(w, b);
}

static void gateway_falls_silent(struct lab *l, int rail)
{
	fabric_address(l, rail, 1, false);
}

static void gateway_speaks(struct lab *l, int rail)
{
	fabric_address(l, rail, 1, true);
}

static void add_conflict(struct lab *l, int rail)
{
	fabric_address(l, rail, 10, true);
}

static void remove_conflict(struct lab *l, int rail)
{
	fabric_address(l, rail, 10, false);
}

static void lease_of_another(struct lab *l, int rail, enum verb v)
{
	char nic[LINK_NAME_MAX];
	auto_free char *conf = NULL;
	struct outcome o;
	struct step st = {"spiderpool", "other0", NULL};

	rail_nic(rail, nic);
	conf = xasprintf(
		"{\"cniVersion\":\"1.1.0\",\"name\":\"other\",\"type\":\"spiderpool\",\"ipam\":{"
		"\"type\":\"spiderpool\",\"default_ipv4_ippool\":[\"%s\"]}}",
		nic);
	st.conf = conf;
	outcome_init(&o);
	call_plugin(l, &st, v, &pod_other, NULL, NULL, &o);
	if (o.status != 0)
		die("CNI call of the other pod failed: %s", o.out.p);
	outcome_done(&o);
}

static void another_takes_it(struct lab *l, int rail)
{
	lease_of_another(l, rail, V_ADD);
}

static void another_gives_it_back(struct lab *l, int rail)
{
	lease_of_another(l, rail, V_DEL);
}

const struct mishap mishaps[] = {
	{"mtu", .mtu = 9001, .expected = {"MTU", "9001"}},
	{"mtu-race", mtu_falls, mtu_rises, .race = true, .mtu = 9000,
	 .expected = {"create macvlan", "Invalid argument (EINVAL)"},
	 .instead = "invalid MTU 9000"},
	{"name-taken", name_taken, name_free, .expected = {"File exists (EEXIST)"}},
	{"name-race", name_taken, name_free, .race = true, .expected = {"File exists (EEXIST)"}},
	{"link-goes", link_goes, NULL, .race = true, .expected = {NULL}},
	{"no-master", .master = "nic99", .expected = {"nic99"}},
	{"exhausted", another_takes_it, another_gives_it_back, .only = true,
	 .expected = {"used out"}},
	{"silent-gateway", gateway_falls_silent, gateway_speaks, .detect = true,
	 .expected = {"gateway", "unreachable"}},
	{"conflict", add_conflict, remove_conflict, .only = true, .detect = true,
	 .expected = {"conflict"}, .quarantines = true},
	{"refused", .refuse = true, .expected = {"Operation not supported (EOPNOTSUPP)"},
	 .instead = "Invalid argument (EINVAL)"},
	{"del-refused", .refuse_del = true, .expected = {"Operation not supported (EOPNOTSUPP)"},
	 .instead = "Invalid argument (EINVAL)"},
	{0},
};
