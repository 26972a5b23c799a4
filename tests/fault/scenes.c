/* SPDX-License-Identifier: Apache-2.0 */
/* The interrupted operations. */
#include "fault.h"

#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "kern/net/addr.h"
#include "kern/net/link.h"

enum { COMES_MS = 30000 };

#define NAMED(name) "{\"cniVersion\":\"1.1.0\",\"name\":\"" name "\","

#define HOST_LOCAL(subnet)                                                                         \
	"{\"type\":\"host-local\",\"ranges\":[[{\"subnet\":\"" subnet                              \
	"\",\"rangeStart\":\"172.16."                                                              \
	"0.10\",\"rangeEnd\":\"172.16.0.20\",\"gateway\":\"172.16.0.1\"}]],\"routes\":[{\"dst\":"  \
	"\"0.0.0.0/0\"}]}"
#define SPIDERPOOL(pool, more)                                                                     \
	"{\"type\":\"spiderpool\",\"default_ipv4_ippool\":[\"" pool "\"]" more "}"
#define WHEREABOUTS                                                                                \
	"{\"type\":\"whereabouts\",\"range\":\"172.16.0.0/24\",\"gateway\":\"172.16.0.1\"}"
/* One probe with a short interval, because a scene has many ADDs and each waits for its probes. */
#define DETECT                                                                                     \
	",\"enable_gateway_detection\":true,\"enable_ip_conflict_detection\":true,\"detect\":{"    \
	"\"tries\":1,\"interval_ms\":10,\"total_ms\":2000}"
#define SILENT ",\"enable_gateway_detection\":false,\"enable_ip_conflict_detection\":false"

#define IPV6(pool) ",\"default_ipv6_ippool\":[\"" pool "\"]"

#define MACVLAN(nic, ipam)                                                                         \
	"\"type\":\"macvlan\",\"master\":\"" nic "\",\"mode\":\"bridge\",\"ipam\":" ipam "}"
#define COORDINATOR                                                                                \
	"\"type\":\"coordinator\",\"mode\":\"underlay\",\"hijackCIDR\":[\"10.96.0.0/12\"]}"
#define TUNING                                                                                     \
	"\"type\":\"tuning\",\"sysctl\":{\"net.ipv4.conf.IFNAME.rp_filter\":\"2\"},\"mtu\":1400}"

#define NET(nic, ifname, more)                                                                     \
	"{\"name\":\"" nic "\",\"ifname\":\"" ifname                                               \
	"\",\"plugins\":[{" MACVLAN(nic, SPIDERPOOL(nic, more)) ",{" COORDINATOR "]}"
#define RAILS(more)                                                                                \
	NAMED("rails")                                                                             \
	"\"type\":\"unirail-cni\",\"networks\":[" NET("eth0", "eth0", more) "," NET(               \
		"rail0", "net1", more) "," NET("rail1", "net2", more) "]}"

static const char pools[] =
	"[pool eth0]\nsubnet=172.16.0.0/24\nips=172.16.0.10-172.16.0.20\ngateway=172.16.0.1\n"
	"[pool rail0]\nsubnet=172.16.1.0/24\nips=172.16.1.10-172.16.1.20\ngateway=172.16.1.1\n"
	"[pool rail1]\nsubnet=172.16.2.0/24\nips=172.16.2.10-172.16.2.20\ngateway=172.16.2.1\n";

static void with_pools(struct lab *l)
{
	lab_file(l, "/etc/unirail/pools/rails.conf", pools);
}

/* Creates two plugins of another project, which `--replace` stores as backups. */
static void with_old_plugins(struct lab *l)
{
	lab_file(l, "/opt/cni/bin/macvlan", "#!/bin/sh\nexit 1\n");
	lab_file(l, "/opt/cni/bin/static", "#!/bin/sh\nexit 2\n");
}

/* Creates a link with the name of the host end of the pod's veth pair, so that ADD fails after
 * it has created all rails. */
static void in_the_way(struct lab *l)
{
	auto_batch struct nl_batch *b = nl_batch_new();
	auto_nl struct nl_wire *w = lab_wire(&l->node);
	struct link_spec s = LINK_SPEC_INIT;

	s.name = "veth0123456789a";
	s.kind = "veth";
	s.peer_name = "obstacle";
	link_add(b, &s);
	if (nl_batch_commit(w, b, NULL) < 0)
		die("the veth pair that causes the conflict cannot be created");
}

static void out_of_the_way(struct lab *l)
{
	auto_batch struct nl_batch *b = nl_batch_new();
	auto_nl struct nl_wire *w = lab_wire(&l->node);

	link_del(b, 0, "obstacle");
	nl_batch_commit(w, b, NULL);
}

static const char lease[] =
	"{\"cniVersion\":\"1.1.0\",\"name\":\"rails\",\"type\":\"spiderpool\",\"ipam\":" SPIDERPOOL(
		"eth0", "") "}";

/* Creates the NIC that the plugin moves into the pod. */
static void with_spare(struct lab *l)
{
	auto_batch struct nl_batch *b = nl_batch_new();
	auto_nl struct nl_wire *w = lab_wire(&l->node);
	struct link_spec s = LINK_SPEC_INIT;

	with_pools(l);
	s.name = "spare";
	s.kind = "veth";
	s.peer_name = "far"; /* s.up is not set: the NIC is down, as DEL leaves it */
	link_add(b, &s);
	if (nl_batch_commit(w, b, NULL) < 0)
		die("the spare NIC cannot be created");
}

static void without_spare(struct lab *l)
{
	auto_batch struct nl_batch *b = nl_batch_new();
	auto_nl struct nl_wire *w = lab_wire(&l->node);

	link_del(b, 0, "far");
	nl_batch_commit(w, b, NULL);
}

/* The first VF of the first igb port of the guest of tests/vm. */
#define VF0 "0000:01:10.0"

static void with_vf(struct lab *l)
{
	with_pools(l);
	vf_borrow(l);
}

static const char pools6[] =
	"[pool eth0]\nsubnet=172.16.0.0/24\nips=172.16.0.10-172.16.0.20\ngateway=172.16.0.1\n"
	"[pool rail0]\nsubnet=172.16.1.0/24\nips=172.16.1.10-172.16.1.20\ngateway=172.16.1.1\n"
	"[pool eth0v6]\nsubnet=fd00:16:0::/64\nips=fd00:16:0::10-fd00:16:0::20\ngateway=fd00:16:0::1\n"
	"[pool rail0v6]\nsubnet=fd00:16:1::/64\nips=fd00:16:1::10-fd00:16:1::20\ngateway=fd00:16:1::1\n";

static void change_ipv6(struct lab *l, bool there)
{
	static const char *const nics[] = {"eth0", "rail0"};
	auto_batch struct nl_batch *b = nl_batch_new();
	auto_nl struct nl_wire *w = lab_wire(&l->node);

	for (uint8_t i = 0; i < ARRAY_LEN(nics); i++) {
		const struct ipnet n = {
			.ip = {6, {0xfd, 0, 0, 0x16, 0, i, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2}},
			.len = 64};
		struct link k;

		if (link_get(w, nics[i], &k, NULL) < 0)
			die("the node has no link '%s'", nics[i]);
		if (there)
			addr_add(b, k.index, nics[i], &n, 0);
		else
			addr_del(b, k.index, nics[i], &n);
	}
	if (nl_batch_commit(w, b, NULL) < 0)
		die("the node's IPv6 addresses cannot be changed");
}

static bool is_tentative(struct nl_wire *w)
{
	auto_free struct addr *v = NULL;
	size_t n = 0;

	if (addr_list(w, 6, 0, &v, &n, NULL) < 0)
		die("the node's addresses cannot be listed");
	for (size_t i = 0; i < n; i++)
		if (addr_is_tentative(&v[i]))
			return true;
	return false;
}

static void with_ipv6(struct lab *l)
{
	auto_nl struct nl_wire *w = lab_wire(&l->node);

	lab_file(l, "/etc/unirail/pools/rails.conf", pools6);
	change_ipv6(l, true);
	for (int waited = 0; is_tentative(w); waited += 10) {
		if (waited > COMES_MS)
			die("the node's IPv6 addresses stay tentative");
		usleep(10000);
	}
}

static void without_ipv6(struct lab *l)
{
	change_ipv6(l, false);
}

#define ARGV(...) ((char *const[]){"unirail", __VA_ARGS__, NULL})

const struct scene scenes[] = {
	{.name = "macvlan-host-local",
	 .steps = {{"macvlan", "net1", NAMED("n") MACVLAN("eth0", HOST_LOCAL("172.16.0.0/24"))}},
	 .small = true},
	{.name = "macvlan-spiderpool",
	 .steps = {{"macvlan", "net1", NAMED("n") MACVLAN("eth0", SPIDERPOOL("eth0", ""))}},
	 .prepare = with_pools,
	 .small = true},
	{.name = "spiderpool-alone",
	 .steps = {{"spiderpool", "net1", lease}},
	 .prepare = with_pools,
	 .small = true},
	{.name = "macvlan-whereabouts",
	 .steps = {{"macvlan", "net1", NAMED("n") MACVLAN("eth0", WHEREABOUTS)}},
	 .small = true},
	{.name = "chain",
	 .steps = {{"macvlan", "eth0", NAMED("a") MACVLAN("eth0", SPIDERPOOL("eth0", ""))},
		   {"coordinator", "eth0", NAMED("a") COORDINATOR},
		   {"macvlan", "net1", NAMED("b") MACVLAN("rail0", SPIDERPOOL("rail0", ""))},
		   {"coordinator", "net1", NAMED("b") COORDINATOR}},
	 .prepare = with_pools},
	{.name = "chain-tuning-sbr",
	 .steps = {{"macvlan", "net1", NAMED("n") MACVLAN("eth0", HOST_LOCAL("172.16.0.0/24"))},
		   {"tuning", "net1", NAMED("n") TUNING},
		   {"sbr", "net1", NAMED("n") "\"type\":\"sbr\"}"}},
	 .lenient = true, /* a DEL of tuning succeeds in any case: cni/plugins/tuning/tuning.c */
	 .no_gc = true},
	{.name = "unirail-cni",
	 .steps = {{"unirail-cni", "eth0", RAILS("")}},
	 .prepare = with_pools},
	{.name = "unirail-cni-detect",
	 .steps = {{"unirail-cni", "eth0", RAILS(DETECT)}},
	 .prepare = with_pools},
	{.name = "unirail-cni-other",
	 .steps = {{"unirail-cni", "eth0", RAILS(SILENT)}},
	 .prepare = with_pools,
	 .other = true},
	{.name = "unirail-cni-fails",
	 .steps = {{"unirail-cni", "eth0", RAILS(SILENT)}},
	 .prepare = with_pools,
	 .arm = in_the_way,
	 .disarm = out_of_the_way},
	{.name = "unirail-cni-ipv6",
	 .steps = {{"unirail-cni", "eth0",
		    NAMED("rails") "\"type\":\"unirail-cni\",\"networks\":[" NET(
			    "eth0", "eth0", IPV6("eth0v6")) "," NET("rail0", "net1",
								    IPV6("rail0v6")) "]}"}},
	 .prepare = with_ipv6,
	 .dismantle = without_ipv6},
	{.name = "host-device",
	 .steps = {{"host-device", "net1",
		    NAMED("n") "\"type\":\"host-device\",\"device\":\"spare\",\"ipam\":" SPIDERPOOL(
			    "rail0", "") "}"}},
	 .prepare = with_spare,
	 .dismantle = without_spare,
	 .no_gc = true, /* the NIC is in the pod */
	 .small = true},
	{.name = "host-device-vf",
	 .steps = {{"host-device", "net1",
		    NAMED("n") "\"type\":\"host-device\",\"device\":\"vf0\",\"ipam\":" SPIDERPOOL(
			    "rail0", "") "}"}},
	 .prepare = with_vf,
	 .dismantle = vf_return,
	 .no_gc = true, /* the VF is in the pod */
	 .small = true,
	 .vf = true},
	{.name = "sriov",
	 .steps =
		 {{"sriov", "net1",
		   NAMED("n") "\"type\":\"sriov\",\"deviceID\":\"" VF0
			      "\",\"vlan\":7,\"vlanQoS\":3,\"mac\":\"02:00:00:00:07:01\",\"mtu\":1400,"
			      "\"max_tx_rate\":100,\"spoofchk\":\"off\",\"trust\":\"on\",\"ipam\":" SPIDERPOOL(
				      "rail0", "") "}"}},
	 .prepare = with_vf,
	 .dismantle = vf_return,
	 /* if the driver refuses to restore an attribute, DEL succeeds and retains the VF's
	  * record, by which GC or the next pod's ADD restores the attribute */
	 .lenient = true,
	 .small = true,
	 .vf = true},
	{.name = "sriov-rdma",
	 .steps = {{"sriov", "net1",
		    NAMED("n") "\"type\":\"sriov\",\"deviceID\":\"" VF0
			       "\",\"ipam\":" SPIDERPOOL("rail0", SILENT) "}"},
		   {"rdma", "net1", NAMED("n") "\"type\":\"rdma\",\"deviceID\":\"" VF0 "\"}"}},
	 .prepare = with_vf,
	 .dismantle = vf_return,
	 .lenient = true,
	 .small = true,
	 .vf = true,
	 .first = true},
	{.name = "ib-sriov",
	 .steps = {{"ib-sriov", "net1",
		    NAMED("n") "\"type\":\"ib-sriov\",\"deviceID\":\"" VF0
			       "\",\"rdmaIsolation\":true,\"link_state\":\"enable\","
			       "\"runtimeConfig\":{\"infinibandGUID\":\"02:00:00:00:00:00:00:01\"},"
			       "\"ipam\":" SPIDERPOOL("rail0", SILENT) "}"}},
	 .prepare = with_vf,
	 .dismantle = vf_return,
	 .lenient = true,
	 .small = true,
	 .vf = true,
	 .first = true},
	{.name = "install", .argv = ARGV("install", "/opt/cni/bin")},
	{.name = "install-replace",
	 .argv = ARGV("install", "--replace", "/opt/cni/bin"),
	 .prepare = with_old_plugins},
	{.name = "uninstall",
	 .argv = ARGV("install", "--uninstall", "/opt/cni/bin"),
	 .before = ARGV("install", "--replace", "/opt/cni/bin"),
	 .prepare = with_old_plugins},
	{.name = "pool-release",
	 .steps = {{"spiderpool", "net1", lease}},
	 .argv = ARGV("pool", "release", "--yes", "172.16.0.10"),
	 .prepare = with_pools,
	 .small = true},
	{0},
};

const struct scene *scene_find(const char *name)
{
	for (const struct scene *s = scenes; s->name; s++)
		if (strcmp(s->name, name) == 0)
			return s;
	return NULL;
}
