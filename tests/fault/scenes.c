/* SPDX-License-Identifier: Apache-2.0 */
/* What is interrupted. */
#include "fault.h"

#include <string.h>

#include "kern/link.h"

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
/* Probing takes as long as it waits: short, and many of them. */
#define DETECT                                                                                     \
	",\"enable_gateway_detection\":true,\"enable_ip_conflict_detection\":true,\"detect\":{"    \
	"\"tries\":1,\"interval_ms\":10,\"total_ms\":2000}"
#define SILENT ",\"enable_gateway_detection\":false,\"enable_ip_conflict_detection\":false"

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

/* Two of somebody else's plugins, which `--replace` keeps. */
static void with_old_plugins(struct lab *l)
{
	lab_file(l, "/opt/cni/bin/macvlan", "#!/bin/sh\nexit 1\n");
	lab_file(l, "/opt/cni/bin/static", "#!/bin/sh\nexit 2\n");
}

/* The name of the host's end of the pod's veth pair is taken: found out when all rails are there. */
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
		die("the veth pair in the way cannot be made");
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
	 .lenient = true}, /* "nothing here keeps a pod from going", cni/tuning.c */
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
	{.name = "install", .argv = ARGV("install", "/opt/cni/bin"), .small = true},
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
