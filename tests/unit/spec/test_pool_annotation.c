/* SPDX-License-Identifier: Apache-2.0 */
/* Each row has annotations and settings, and the result for one interface: its pools, or the
 * error. */
#include "testlib.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/log.h"
#include "spec/subnet_annotation.h"
#include "spec/pool_annotation.h"
#include "ipam/pool/pool_cluster.h"
#include "ipam/select/select_pool.h"
#include "ipam_lab.h"
#include "wire/json/json.h"

#define POOL(name, net, more)                                                                      \
	"{\"kind\":\"SpiderIPPool\",\"metadata\":{\"name\":\"" name                                \
	"\"},\"spec\":{\"subnet\":\"" net "\"" more "}}"
#define LABELS(kind, key, value) ",\"" kind "\":{\"matchLabels\":{\"" key "\":\"" value "\"}}"

/*
 * The pod a/p has the label app=gpu and is on node n1 in zone a; its namespace has the label
 * env=prod.
 */
static const char *const lines[] = {
	POOL("rail0", "10.0.0.0/24", ""),
	POOL("rail1", "10.0.1.0/24", ""),
	POOL("rail10", "10.0.10.0/24", ""),
	POOL("rail2", "10.0.2.0/24", ""),
	POOL("rail6", "fd00:6::/64", ""),
	POOL("rail7", "fd00:7::/64", ""),
	POOL("def", "10.1.0.0/24", ",\"default\":true"),
	POOL("def2", "10.1.2.0/24", ",\"default\":true" LABELS("podAffinity", "app", "cpu")),
	POOL("def6", "fd00:1::/64", ",\"default\":true"),
	POOL("gpu", "10.2.0.0/24", LABELS("podAffinity", "app", "gpu")),
	POOL("cpu", "10.2.1.0/24", LABELS("podAffinity", "app", "cpu")),
	POOL("any", "10.2.2.0/24", ",\"podAffinity\":{}"),
	POOL("n1", "10.3.1.0/24", ",\"nodeName\":[\"n0\",\"n1\"]"),
	POOL("n2", "10.3.2.0/24", ",\"nodeName\":[\"n2\"]"),
	POOL("n1b", "10.3.3.0/24", ",\"nodeName\":[\"n1\"]" LABELS("nodeAffinity", "zone", "b")),
	POOL("za", "10.3.4.0/24", LABELS("nodeAffinity", "zone", "a")),
	POOL("zb", "10.3.5.0/24", LABELS("nodeAffinity", "zone", "b")),
	POOL("nsa", "10.4.0.0/24", ",\"namespaceName\":[\"a\"]"),
	POOL("nsb", "10.4.1.0/24", ",\"namespaceName\":[\"b\"]"),
	POOL("nsab", "10.4.2.0/24",
	     ",\"namespaceName\":[\"a\"]" LABELS("namespaceAffinity", "env", "test")),
	POOL("prod", "10.4.3.0/24", LABELS("namespaceAffinity", "env", "prod")),
	POOL("test", "10.4.4.0/24", LABELS("namespaceAffinity", "env", "test")),
	POOL("neta", "10.5.0.0/24", ",\"multusName\":[\"rail-a\"]"),
	POOL("netb", "10.5.1.0/24", ",\"multusName\":[\"team/rail-b\",\"team/rail-c\"]"),
	POOL("off", "10.6.0.0/24", ",\"disable\":true"),
	"{\"kind\":\"SpiderIPPool\",\"metadata\":{\"name\":\"going\",\"deletionTimestamp\":\"2026-01-01"
	"T00:00:00Z\"},\"spec\":{\"subnet\":\"10.6.1.0/24\"}}",
	POOL("broken", "10.6.2.0/24", ",\"ips\":[\"10.6.3.1\"]"),
};

static struct pool_set set;
static struct labels node_labels, ns_labels;
static const char *const net123[] = {"net1", "net2", "net3"};

static int setup(void **state)
{
	(void)state;
	log_threshold = LOG_NONE;
	pool_kube_set(lines, ARRAY_LEN(lines), "kube-system", &set);
	labels_put(&node_labels, "zone", "a");
	labels_put(&ns_labels, "env", "prod");
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	pool_set_done(&set);
	labels_done(&node_labels);
	labels_done(&ns_labels);
	return 0;
}

enum {
	NO4 = 1,
	NO6 = 2,
	NO_PLACE = 4,
	NO_POD = 8,
	NO_NS = 16,
	SUBNETS = 32,
	AUTO = 64,
	MATCH = 128
};

struct row {
	const char *ippools, *ippool, *ns4, *ns6, *subnet; /* annotations */
	/* pools in the network's configuration, names separated by commas */
	const char *conf4, *conf6;
	/* ifname NULL: net1; network: "ns/name" of its NetworkAttachmentDefinition, NULL:
	 * unknown */
	const char *ifname, *network;
	int at; /* position + 1; 0: unknown */
	unsigned int flags;
	/* "rail1 rail0|rail6": IPv4 pools, then IPv6 pools, each in order; with "!" first: a
	 * part of the error */
	const char *want;
};

static void cut(const char *text, const char *ret[8], size_t *n)
{
	static char buf[2][200];
	static int turn;
	char *p = buf[turn = !turn];

	snprintf(p, sizeof(buf[0]), "%s", text ? text : "");
	for (char *word = strtok(p, ","); word; word = strtok(NULL, ","))
		ret[(*n)++] = word;
}

static void annotate(struct labels *l, const char *key, const char *value)
{
	if (value)
		labels_put(l, key, value);
}

static int pools_of(const struct ip_request *a, struct buf *b, struct err *e)
{
	struct select_facts facts = {.pools = &set, .node = "n1"};
	struct pool_list l = {0};

	for (int family = 4; family <= 6; family += 2) {
		int r = select_pools(&facts, a, (uint8_t)family, &l, e);

		if (r < 0)
			return r;
		if (family == 6 && l.n > 0)
			buf_char(b, '|');
		for (size_t i = 0; i < l.n; i++)
			buf_printf(b, "%s%s", i ? " " : "", l.v[i]->name);
		free(l.v);
		l = (struct pool_list){0};
	}
	return 0;
}

static int answer(const struct row *r, const struct pod_facts *pod,
		  const struct labels *ns_annotations, struct buf *b, struct err *e)
{
	const char *conf4[8], *conf6[8];
	struct ipnet master = t_net("10.0.1.200/24");
	struct pod_nic nic = {.ifname = r->ifname ? r->ifname : "net1",
			      .position = r->at - 1,
			      .conf4 = conf4,
			      .conf6 = conf6};
	struct pod_pools_facts f = {.pod = pod,
				    .ns_annotations = r->flags & NO_NS ? NULL : ns_annotations,
				    .conf = {.no4 = r->flags & NO4,
					     .no6 = r->flags & NO6,
					     .subnets = r->flags & SUBNETS,
					     .auto_pools = r->flags & AUTO}};
	struct place_facts place = {&node_labels, &ns_labels, ns_annotations, r->network};
	struct pod_pool_request w;
	struct ip_request a = {.owner = {.container_id = "c",
					 .ifname = nic.ifname,
					 .pod_namespace = pod->ns,
					 .pod_name = pod->name},
			       .pod = r->flags & NO_POD ? NULL : pod,
			       .place = r->flags & NO_PLACE ? NULL : &place,
			       .match_subnet = r->flags & MATCH,
			       .nets = &master,
			       .n_nets = 1,
			       .master = "eth1"};
	int n;

	cut(r->conf4, conf4, &nic.n_conf4);
	cut(r->conf6, conf6, &nic.n_conf6);
	n = pod_pools_request(&f, &nic, 1, &w, e);
	if (n < 0)
		return n;
	pod_pool_request_put(&w, &a);
	n = pools_of(&a, b, e);
	pod_pool_request_done(&w);
	return n;
}

static void check_row(const struct row *r, size_t i)
{
	struct pod_facts pod = {.ns = xstrdup("a"), .name = xstrdup("p"), .uid = xstrdup("u")};
	struct labels ns_annotations = {0};
	struct err e = ERR_INIT;
	auto_buf struct buf b;

	buf_init(&b, 1000);
	labels_put(&pod.labels, "app", "gpu");
	annotate(&pod.annotations, "ipam.spidernet.io/ippools", r->ippools);
	annotate(&pod.annotations, "ipam.spidernet.io/ippool", r->ippool);
	annotate(&pod.annotations, "ipam.spidernet.io/subnet", r->subnet);
	annotate(&ns_annotations, "ipam.spidernet.io/default-ipv4-ippool", r->ns4);
	annotate(&ns_annotations, "ipam.spidernet.io/default-ipv6-ippool", r->ns6);
	if (answer(r, &pod, &ns_annotations, &b, &e) < 0) {
		if (*r->want != '!')
			fail_msg("row %zu: expected '%s', got the error %s", i, r->want, e.text);
		if (!strstr(e.text, r->want + 1))
			fail_msg("row %zu: '%s' does not contain '%s'", i, e.text, r->want + 1);
	} else if (strcmp(b.len ? b.p : "", r->want) != 0) {
		fail_msg("row %zu: expected '%s', got '%s'", i, r->want, b.len ? b.p : "");
	}
	labels_done(&ns_annotations);
	pod_facts_done(&pod);
}

static void check_rows(const struct row *v, size_t n)
{
	for (size_t i = 0; i < n; i++)
		check_row(&v[i], i);
}

/* --- precedence of sources --- */

static void test_pools_of_the_pod_precede_those_of_its_namespace(void **state)
{
	static const struct row v[] = {
		{.want = "def|def6"},
		{.flags = NO6, .want = "def"},
		{.flags = NO4, .want = "|def6"},
		{.conf4 = "rail0", .want = "rail0"},
		{.conf6 = "rail6", .want = "|rail6"},
		{.conf4 = "rail2,rail0,rail2", .conf6 = "rail6", .want = "rail2 rail0|rail6"},
		/*
		 * The namespace has pools of one family: the other family is not requested,
		 * whatever sources of lower precedence have.
		 */
		{.ns4 = "[\"rail1\"]", .conf4 = "rail0", .conf6 = "rail6", .want = "rail1"},
		{.ns6 = "[\"rail6\"]", .conf4 = "rail0", .want = "|rail6"},
		{.ns4 = "[]", .ns6 = "", .conf4 = "rail0", .want = "rail0"},
		{.ns4 = "rail1", .want = "rail1"},
		{.ns4 = "\"rail1\"", .want = "rail1"},
		{.ns4 = "[\"rail2\",\"rail1\",\"rail2\"]", .want = "rail2 rail1"},
		{.ippool = "{\"ipv4\":[\"rail2\"]}",
		 .ns4 = "[\"rail1\"]",
		 .conf4 = "rail0",
		 .want = "rail2"},
		{.ippool = "{\"IPv4\":[\"rail2\"],\"ipv6\":[\"rail6\"],\"color\":1}",
		 .want = "rail2|rail6"},
		{.ippools = "[{\"interface\":\"net1\",\"ipv4\":[\"rail0\"]}]",
		 .ippool = "{\"ipv4\":[\"rail2\"]}",
		 .want = "rail0"},
		/* The namespace need not be known if the pod requests pools. */
		{.ippool = "{\"ipv4\":[\"rail2\"]}", .flags = NO_NS, .want = "rail2"},
		{.conf4 = "rail0",
		 .flags = NO_NS,
		 .want = "!pod 'a/p': its namespace is not known yet"},
		/* One address family is disabled. */
		{.ippool = "{\"ipv4\":[\"rail2\"],\"ipv6\":[\"rail6\"]}",
		 .flags = NO6,
		 .want = "rail2"},
		{.conf4 = "rail2", .conf6 = "rail6", .flags = NO4, .want = "|rail6"},
		{.ippool = "{\"ipv6\":[\"rail6\"]}",
		 .flags = NO6,
		 .want = "!pod 'a/p': interface net1: annotation ipam.spidernet.io/ippool names pools "
			 "of IPv6 only, which is disabled in this cluster"},
		{.conf4 = "rail0",
		 .flags = NO4,
		 .want = "!the network's configuration names pools of "
			 "IPv4 only"},
		/* The annotation subnet requests pools of a SpiderSubnet. */
		{.subnet = "{\"ipv4\":[\"s\"]}", .conf4 = "rail0", .want = "rail0"},
		{.subnet = "{\"ipv4\":[\"s\"]}",
		 .conf4 = "rail0",
		 .flags = SUBNETS,
		 .want = "!when Auto-Pool feature is disabled"},
		{.subnet = "{\"ipv4\":[\"s\"]}",
		 .conf4 = "rail0",
		 .flags = SUBNETS | AUTO,
		 .want = "!SpiderSubnet feature doesn't support no-controller pod: annotation "
			 "'ipam.spidernet.io/subnet' is for the template of a Deployment"},
		{.conf4 = "rail0", .flags = SUBNETS | AUTO, .want = "rail0"},
	};

	(void)state;
	check_rows(v, ARRAY_LEN(v));
}

#define UNNAMED "[{\"ipv4\":[\"rail0\"]},{\"ipv4\":[\"rail1\"]},{\"ipv4\":[\"rail0\"]}]"
#define NAMED                                                                                          \
	"[{\"interface\":\"eth0\",\"ipv4\":[\"rail0\"]},{\"interface\":\"net1\",\"ipv4\":[\"rail1\"]," \
	"\"ipv6\":[\"rail6\"]}]"

static void test_ippools_annotation_selects_by_interface_or_position(void **state)
{
	static const struct row v[] = {
		{.ippools = NAMED, .ifname = "eth0", .want = "rail0"},
		{.ippools = NAMED, .ifname = "net1", .want = "rail1|rail6"},
		/* The position is irrelevant for entries that name an interface. */
		{.ippools = NAMED, .ifname = "net1", .at = 1, .want = "rail1|rail6"},
		{.ippools = NAMED,
		 .ifname = "net7",
		 .want = "!pod 'a/p': wrong input, invalid format of Pod annotation "
			 "'ipam.spidernet.io/ippools': interface net7 must be specified: is 'net1' "
			 "meant for it?"},
		{.ippools = NAMED,
		 .ifname = "storage0",
		 .want = "!interface storage0 must be specified: add an entry for it"},
		/* Entries without an interface are selected by the position of the interface,
		 * whatever the first interface is called. */
		{.ippools = UNNAMED, .ifname = "net1", .at = 1, .want = "rail0"},
		{.ippools = UNNAMED, .ifname = "net2", .at = 2, .want = "rail1"},
		{.ippools = UNNAMED, .ifname = "net3", .at = 3, .want = "rail0"},
		{.ippools = UNNAMED,
		 .ifname = "net4",
		 .at = 4,
		 .want = "!it has 3 entries, and interface net4 is number 4 of the pod's interfaces "
			 "that get addresses: add an entry for it"},
		{.ippools = UNNAMED,
		 .ifname = "net2",
		 .want = "!which of its 3 entries is for interface net2 is ambiguous: give each entry "
			 "its \"interface\""},
		{.ippools = "[{\"ipv4\":[\"rail0\"]}]", .ifname = "net5", .want = "rail0"},
		{.ippools = "[{\"interface\":\"\",\"ipv4\":[\"rail0\"]}]", .at = 1, .want = "rail0"},
		/* A value of the wrong type, or in the wrong annotation, is accepted if it is
		 * unambiguous. */
		{.ippools = "{\"ipv4\":[\"rail0\"]}", .ifname = "net5", .at = 6, .want = "rail0"},
		{.ippools = "{\"interface\":\"net1\",\"ipv4\":\"rail0\"}", .want = "rail0"},
		{.ippool = UNNAMED, .ifname = "net2", .at = 2, .want = "rail1"},
		{.ippool = NAMED, .ifname = "net1", .want = "rail1|rail6"},
		{.ippool = "{\"ipv4\":\"rail0\"}", .want = "rail0"},
		/* Invalid annotations. */
		{.ippools = "[]", .want = "!value requires at least one item"},
		{.ippools =
			 "[{\"interface\":\"net1\",\"ipv4\":[\"rail0\"]},{\"ipv4\":[\"rail1\"]}]",
		 .want = "!NIC should be either all specified or all unspecified: [1] names no interface"},
		{.ippools =
			 "[{\"ipv4\":[\"rail0\"]},{\"interface\":\"net1\",\"ipv4\":[\"rail1\"]}]",
		 .want = "![1] names its interface"},
		{.ippools =
			 "[{\"interface\":\"net1\",\"ipv4\":[\"rail0\"]},{\"interface\":\"net1\","
			 "\"ipv4\":[\"rail1\"]}]",
		 .want = "!duplicate interface net1: [0] and [1] name it"},
		{.ippools = "[{\"interface\":\"net1\"}]",
		 .want = "![0] names no pool: give \"ipv4\""},
		{.ippools = "[{\"interface\":1,\"ipv4\":[\"rail0\"]}]",
		 .want = "![0].interface is number, expected a string"},
		{.ippools =
			 "[{\"interface\":\"net1\",\"ipv4\":[\"rail0\"],\"cleangateway\":\"yes\"}]",
		 .want = "![0].cleangateway is string, expected true or false"},
		{.ippools = "[\"rail0\"]", .want = "![0] is string, expected an object"},
		{.ippools = "[{\"ipv4\":[\"rail0\",7]}]",
		 .want = "![0].ipv4[1] is number, expected the name"},
		{.ippools = "[{\"ipv4\":[\"\"]}]",
		 .want = "![0].ipv4[0] is empty, expected the name"},
		{.ippools = "[{\"ipv4\":{}}]",
		 .want = "![0].ipv4 is object, expected a list of pool names"},
		{.ippools = "[{\"ipv4\":[\"rail0\"]}",
		 .want = "!annotation 'ipam.spidernet.io/ippools': "},
		{.ippools = "rail0", .want = "!annotation 'ipam.spidernet.io/ippools': "},
		{.ippools = "7", .want = "!it is number, expected [{"},
		{.ippool = "\"rail0\"", .want = "!it is string, expected {\"ipv4\":[\"rail0\"]}"},
		{.ippool = "{}",
		 .want = "!annotation 'ipam.spidernet.io/ippool': it names no pool"},
		{.ippool = "{\"ipv4\":[]}", .want = "!it names no pool"},
		{.ippool = "", .want = "!annotation 'ipam.spidernet.io/ippool': "},
		{.ns4 = "[\"rail0\"",
		 .want = "!namespace 'a': wrong input, invalid format of Namespace "
			 "annotation 'ipam.spidernet.io/default-ipv4-ippool': "},
		{.ns6 = "{}",
		 .want = "!'ipam.spidernet.io/default-ipv6-ippool': it is object, expected a "
			 "list"},
	};

	(void)state;
	check_rows(v, ARRAY_LEN(v));
}

/* --- filters of pools --- */

static void test_wildcards_expand_to_pools_in_order(void **state)
{
	static const struct row v[] = {
		{.conf4 = "rail*", .want = "rail0 rail1 rail2 rail10"},
		{.conf6 = "rail*", .want = "|rail6 rail7"},
		{.conf4 = "rail1*,rail*", .want = "rail1 rail10 rail0 rail2"},
		{.conf4 = "rail2,rail?,rail2", .want = "rail2 rail0 rail1"},
		{.conf4 = "rail[^01]", .want = "rail2"},
		{.conf4 = "x*,rail1", .want = "rail1"},
		{.conf4 = "x*", .want = ""},
		{.conf4 = "x*", .conf6 = "rail6", .want = "|rail6"},
		{.conf4 = "rail[-", .want = "!no pool 'rail[-'"},
		{.conf4 = "[]x]",
		 .want = "!failed to match wildcard: IPv4 PoolName pattern '[]x]'"},
		{.conf4 = "rial0", .want = "!no pool 'rial0'; did you mean 'rail0'?"},
		{.conf4 = "rail0,gone-pool-77", .want = "!no pool 'gone-pool-77'"},
		{.conf4 = "rail6",
		 .want = "!expect an IPv4 IPPool, but the version of the IPPool rail6 is "
			 "IPv6"},
		{.conf6 = "rail0", .want = "!all IPv6 IPPools [rail0] of net1 filtered out"},
	};

	(void)state;
	check_rows(v, ARRAY_LEN(v));
}

static void test_unsuitable_pools_are_skipped_with_their_reason(void **state)
{
	static const struct row v[] = {
		{.conf4 = "going", .want = "![terminating IPPool going]"},
		{.conf4 = "off", .want = "![disabled IPPool off]"},
		{.conf4 = "off,rail0", .want = "rail0"},
		{.conf4 = "broken",
		 .want = "!pool 'broken' is invalid: SpiderIPPool 'broken': "
			 "spec.ips[0]: '10.6.3.1' reaches outside the subnet"},
		{.conf4 = "n1", .want = "n1"},
		{.conf4 = "n2", .want = "!unmatched Node name of IPPool n2 (this node is 'n1')"},
		/* If a pool has nodeName, its nodeAffinity is ignored. */
		{.conf4 = "n1b", .want = "n1b"},
		{.conf4 = "za", .want = "za"},
		{.conf4 = "zb", .want = "!unmatched Node affinity of IPPool zb (zone=b)"},
		{.conf4 = "za",
		 .flags = NO_PLACE,
		 .want = "!unmatched Node affinity of IPPool za (zone=a: the labels are not known)"},
		{.conf4 = "nsa", .want = "nsa"},
		{.conf4 = "nsb", .want = "!unmatched Namespace name of IPPool nsb"},
		{.conf4 = "nsab", .want = "nsab"},
		{.conf4 = "prod", .want = "prod"},
		{.conf4 = "test",
		 .want = "!unmatched Namespace affinity of IPPool test (env=test)"},
		{.conf4 = "prod", .flags = NO_PLACE, .want = "!env=prod: the labels are not known"},
		{.conf4 = "gpu", .want = "gpu"},
		{.conf4 = "cpu", .want = "!unmatched Pod affinity of IPPool cpu (app=cpu)"},
		{.conf4 = "gpu",
		 .flags = NO_POD,
		 .want = "!unmatched Pod affinity of IPPool gpu (app=gpu: the labels are not known)"},
		{.conf4 = "any", .want = "any"},
		{.conf4 = "any", .flags = NO_POD, .want = "!unmatched Pod affinity of IPPool any"},
		/* A multusName without a namespace names a network in the agent's namespace. */
		{.conf4 = "neta", .network = "kube-system/rail-a", .want = "neta"},
		{.conf4 = "neta",
		 .network = "a/rail-a",
		 .want = "!the spec.multusName [kube-system/rail-a] in the IPPool neta used by the Pod "
			 "interface net1 is not matched with the multusCR a/rail-a specified by the Pod"},
		{.conf4 = "netb", .network = "team/rail-c", .want = "netb"},
		{.conf4 = "netb", .want = "!the network of the interface, which is not known"},
		{.conf4 = "netb", .flags = NO_PLACE, .want = "!which is not known"},
		/* The network is unknown, but no pool requires a network. */
		{.conf4 = "rail0", .want = "rail0"},
		/* With the flag MATCH, the pool's subnet must be one of the subnets of the
		 * master interface, unless the pool is bound to this network by multusName. */
		{.conf4 = "rail0,rail1", .flags = MATCH, .want = "rail1"},
		{.conf4 = "rail0",
		 .flags = MATCH,
		 .want = "!the ippool's subnet \"10.0.0.0/24\" of rail0 not found on master \"eth1\""},
		{.conf4 = "neta", .network = "kube-system/rail-a", .flags = MATCH, .want = "neta"},
		/* All reasons are reported, in order. */
		{.conf4 = "off,cpu,n2",
		 .want = "!no IPPool available, all IPv4 IPPools [off cpu n2] of net1 filtered out: "
			 "[disabled IPPool off, unmatched Pod affinity of IPPool cpu (app=cpu), unmatched "
			 "Node name of IPPool n2 (this node is 'n1')]"},
	};

	(void)state;
	check_rows(v, ARRAY_LEN(v));
}

static void test_pools_are_ordered_by_their_affinities(void **state)
{
	static const struct row v[] = {
		{.conf4 = "rail0,neta,prod,nsa,za,n1,gpu",
		 .network = "kube-system/rail-a",
		 .want = "gpu n1 za nsa prod neta rail0"},
		{.conf4 = "n1,rail1,n1b,rail0", .want = "n1b n1 rail1 rail0"},
		{.conf4 = "rail1,any,rail0,gpu", .want = "any gpu rail1 rail0"},
		{.conf4 = "prod,nsab,nsa", .want = "nsab nsa prod"},
	};

	(void)state;
	/* Repeated to detect an order that changes from call to call, as Spiderpool's order
	 * does. */
	for (int i = 0; i < 20; i++)
		check_rows(v, ARRAY_LEN(v));
}

/* --- all rails in one call --- */

static void test_pools_of_all_rails_are_selected_at_once(void **state)
{
	static const char *const want[] = {"rail0", "rail1", "rail0"};
	struct pod_facts pod = {.ns = xstrdup("a"), .name = xstrdup("p"), .uid = xstrdup("u")};
	struct pod_pools_facts f = {.pod = &pod, .names = net123, .n_names = 3};
	struct pod_nic nics[3] = {{.ifname = "net1", .position = -1, .conf_clean = true},
				  {.ifname = "net2", .position = -1},
				  {.ifname = "net3", .position = -1}};
	struct pod_pool_request w[3];
	struct err e = ERR_INIT;

	(void)state;
	labels_put(&pod.annotations, "ipam.spidernet.io/ippools",
		   "[{\"ipv4\":[\"rail0\"]},{\"ipv4\":[\"rail1\"],\"cleangateway\":true},"
		   "{\"ipv4\":[\"rail0\"]}]");
	ASSERT_EQ(pod_pools_request(&f, nics, 3, w, &e), 0);
	for (size_t i = 0; i < 3; i++) {
		ASSERT_EQ(w[i].n_pools4, 1);
		ASSERT_STR_EQ(w[i].pools4[0], want[i]);
		/* `cleangateway` of each entry of the annotation is used (default: false), not
		 * `conf_clean` of the configuration. */
		ASSERT_EQ(w[i].clean_gateway, i == 1);
		pod_pool_request_done(&w[i]);
	}
	/* One rail in a call of its own has the same result. */
	ASSERT_EQ(pod_pools_request(&f, &nics[1], 1, w, &e), 0);
	ASSERT_STR_EQ(w[0].pools4[0], "rail1");
	pod_pool_request_done(&w[0]);
	/* If one rail has no entry, the request for all rails is refused. */
	labels_put(&pod.annotations, "ipam.spidernet.io/ippools",
		   "[{\"ipv4\":[\"rail0\"]},{\"ipv4\":[\"rail1\"]}]");
	ASSERT_EQ(pod_pools_request(&f, nics, 3, w, &e), -EINVAL);
	ASSERT_HAS(e.text, "interface net3 is number 3 of the pod's interfaces");
	/* Without the ippools annotation, `conf_clean` of the configuration is used. */
	labels_done(&pod.annotations);
	labels_put(&pod.annotations, "ipam.spidernet.io/ippool", "{\"ipv4\":[\"rail0\"]}");
	ASSERT_EQ(pod_pools_request(&f, nics, 3, w, &e), 0);
	for (size_t i = 0; i < 3; i++) {
		ASSERT_EQ(w[i].clean_gateway, i == 0);
		pod_pool_request_done(&w[i]);
	}
	pod_facts_done(&pod);
}

static void test_interface_without_addresses_has_the_next_position(void **state)
{
	(void)state;
	ASSERT_EQ(pod_nic_position(net123, 3, "net2"), 1);
	ASSERT_EQ(pod_nic_position(net123, 3, "net9"), 3);
	ASSERT_EQ(pod_nic_position(NULL, 0, "net2"), 0);
}

static void test_deleted_or_finished_pod_gets_no_address(void **state)
{
	struct pod_facts pod = {.ns = (char[]){"a"}, .name = (char[]){"p"}};
	struct err e = ERR_INIT;

	(void)state;
	ASSERT_EQ(pod_check_alive(&pod, &e), 0);
	pod.deleting = true;
	ASSERT_EQ(pod_check_alive(&pod, &e), -ESHUTDOWN);
	ASSERT_STR_EQ(e.text, "dead Pod a/p, we cannot allocate IP addresees to it: it is being "
			      "deleted");
	ASSERT_EQ(e.kind, ERR_AGAIN);
	pod = (struct pod_facts){.ns = pod.ns, .name = pod.name, .finished = true};
	ASSERT_EQ(pod_check_alive(&pod, &e), -ESHUTDOWN);
	ASSERT_HAS(e.text, "it is finished");
}

/* --- routes --- */

static int routes(const char *text, struct pool_route **v, size_t *n, struct err *e)
{
	struct pod_facts pod = {.ns = (char[]){"a"}, .name = (char[]){"p"}};
	int r;

	if (text)
		labels_put(&pod.annotations, "ipam.spidernet.io/routes", text);
	r = pod_routes_read(&pod, v, n, e);
	labels_done(&pod.annotations);
	return r;
}

static void test_routes_annotation_is_parsed(void **state)
{
	static const char *const same[] = {
		"[{\"dst\":\"10.9.0.0/16\",\"gw\":\"10.0.0.1\"}]",
		"[{\"dst\":\"10.9.3.4/16\",\"gw\":\"10.0.0.1\",\"x\":1}]",
		"[{\"to\":\"10.9.0.0/16\",\"via\":\"10.0.0.1\"}]",
		"{\"Dst\":\"10.9.0.0/16\",\"GW\":\"10.0.0.1\"}",
	};
	static const struct {
		const char *text, *expected;
	} bad[] = {
		{"[{\"dst\":\"10.9.0.0\",\"gw\":\"10.0.0.1\"}]",
		 "pod 'a/p': wrong input, invalid format of Pod annotation 'ipam.spidernet.io/routes': "
		 "invalid route format 'dst: 10.9.0.0, gw: 10.0.0.1'"},
		{"[{\"dst\":\"10.9.0.0/16\"}]", "invalid route format 'dst: 10.9.0.0/16, gw: '"},
		{"[{\"dst\":\"10.9.0.0/16\",\"gw\":\"fd00::1\"}]", "gw: fd00::1"},
		{"[7]", "invalid route format 'dst: , gw: '"},
		{"7", "it is number, expected a list"},
		{"[", "annotation 'ipam.spidernet.io/routes': "},
	};
	struct pool_route *v;
	size_t n;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(same); i++) {
		struct ipnet want = t_net("10.9.0.0/16");

		ASSERT_EQ_MSG(routes(same[i], &v, &n, NULL), 0, "same[%zu]", i);
		ASSERT_EQ_MSG(n, 1, "same[%zu]", i);
		assert_true(ipnet_eq(&v[0].dst, &want));
		il_assert_ip(&v[0].gw, "10.0.0.1");
		free(v);
	}
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct err e = ERR_INIT;

		ASSERT_EQ_MSG(routes(bad[i].text, &v, &n, &e), -EINVAL, "bad[%zu]", i);
		ASSERT_HAS(e.text, bad[i].expected);
	}
	ASSERT_EQ(routes(NULL, &v, &n, NULL), 0);
	ASSERT_EQ(n, 0);
	free(v);
}

static void add_default(struct ip_allocation *g, const char *gw)
{
	VEC_PUSH(g->routes, g->n_routes) = (struct pool_route){t_net("0.0.0.0/0"), t_ip(gw)};
}

static void test_routes_are_added_to_the_interface_of_their_gateway(void **state)
{
	struct ip_allocation *g = xcalloc(3, sizeof(*g));
	struct ipnet had[] = {t_net("10.0.5.9/24")};
	struct pool_route v[] = {
		{t_net("10.9.0.0/16"), t_ip("10.0.1.1")}, {t_net("10.8.0.0/16"), t_ip("10.0.0.1")},
		{t_net("fd09::/32"), t_ip("fd00::1")},	  {t_net("10.7.0.0/16"), t_ip("10.99.0.1")},
		{t_net("10.6.0.0/16"), t_ip("10.0.5.1")}, {t_net("10.9.0.0/16"), t_ip("10.0.1.2")},
	};
	struct ipnet eight = t_net("10.8.0.0/16");

	(void)state;
	g[0].address = t_net("10.0.0.10/24");
	add_default(&g[0], "10.0.0.1");
	g[1].address = t_net("10.0.1.10/24");
	/* of two interfaces in the same subnet the first has the route */
	g[2].address = t_net("10.0.1.11/24");
	/* No interface has the gateways of fd09::/32 and 10.7.0.0/16 in its subnet; the gateway
	 * of 10.6.0.0/16 is in the subnet of an interface that got its address in an earlier
	 * allocation (`had`), so the route to 10.6.0.0/16 is skipped; the last route is skipped
	 * because the first route has the same destination. */
	ASSERT_EQ(pod_routes_give(v, ARRAY_LEN(v), had, 1, g, 3), 2);
	ASSERT_EQ(g[0].n_routes, 2);
	assert_true(ipnet_eq(&g[0].routes[0].dst, &eight)); /* before the default route */
	assert_true(ipnet_is_default(&g[0].routes[1].dst));
	ASSERT_EQ(g[1].n_routes, 1);
	il_assert_ip(&g[1].routes[0].gw, "10.0.1.1");
	ASSERT_EQ(g[2].n_routes, 0);
	ip_allocations_free(g, 3);
}

/* --- skipped default pools are reported when no pool was requested --- */

static void test_invalid_default_pools_are_reported(void **state)
{
	static const char *const one[] = {
		POOL("d", "10.1.0.0/24", ",\"default\":true,\"ips\":[\"10.2.0.1\"]")};
	struct pool_set bad;
	struct lease_table leases = {0};
	struct select_facts facts = {.pools = &bad, .leases = &leases, .node = "n1"};
	struct ip_request a = {.owner = {.container_id = "c", .ifname = "net1"}};
	struct decision d;
	struct err e = ERR_INIT;

	(void)state;
	pool_kube_set(one, 1, "kube-system", &bad);
	assert_true(select_addresses(&facts, &a, 1, &d, &e) < 0);
	ASSERT_HAS(e.text,
		   "set default: true in one of the 0 pools; 1 cannot be used: SpiderIPPool 'd': "
		   "spec.ips[0]: '10.2.0.1' reaches outside");
	pool_set_done(&bad);
}

/* --- pools created for applications --- */

static const struct made {
	/* kind of the application; key and value of the pod's annotation; value of the pod's
	 * annotation ippool-ip-number (NULL: none) */
	const char *kind, *key, *value, *number;
	/* expected: "IPV4-POOL IPV6-POOL" ("-": none), or "!" and a part of the error */
	const char *is;
	/* expected requests for automatic pools, each as "SUBNET INTERFACE FAMILY COUNT;" */
	const char *asked;
	bool no6; /* IPv6 is disabled */
} made[] = {
	{"Deployment", "subnet", "{\"ipv4\":[\"s\"]}", NULL, "s/u/eth0:4 -", "", false},
	{"Deployment", "subnet", "{\"ipv6\":[\"s\"],\"interface\":\"net7\"}", NULL, "- s/u/net7:6",
	 "", false},
	{"Deployment", "subnets",
	 "[{\"interface\":\"net1\",\"ipv4\":[\"a\",\"x\"],\"ipv6\":[\"b\"]}]", NULL,
	 "a/u/net1:4 b/u/net1:6", "", false},
	{"Deployment", "subnets", "[{\"interface\":\"net2\",\"ipv4\":[\"a\"]}]", NULL,
	 "!interface net1 must be specified", "", false},
	{"Deployment", "subnet", "{", NULL, "!failed to parse anntation", "", false},
	{"Deployment", "subnet", "{\"ipv4\":[\"none\"]}", NULL,
	 "!no matching auto-created IPPool candidate with matchLables '", "", false},
	{"CloneSet", "subnet", "{\"ipv4\":[\"none\"]}", NULL,
	 "!CloneSet/t/x only supports fixed auto-created IPPool IP Number", "", false},
	{"CloneSet", "subnet", "{\"ipv4\":[\"none\"]}", "+2",
	 "!only supports fixed auto-created IPPool IP Number", "", false},
	{"CloneSet", "subnet", "{\"ipv4\":[\"none\"]}", "5", "!no matching auto-created",
	 "none eth0 4 5;", false},
	{"CloneSet", "subnet", "{\"ipv4\":[\"s\"]}", "5", "s/u/eth0:4 -", "s eth0 4 5;", false},
	{"Deployment", "subnet", "{\"ipv4\":[\"s\"],\"ipv6\":[\"t\"]}", NULL, "s/u/eth0:4 -", "",
	 true},
	{"Deployment", "subnet", "{\"ipv6\":[\"s\"]}", NULL,
	 "!names SpiderSubnets of IPv6 only, which is disabled in this cluster", "", true},
};

struct maker {
	char name[100];
	struct buf asked;
};

static const char *find_made(void *arg, const char *key, uint8_t family)
{
	struct maker *m = arg;

	if (!strncmp(key, "none", 4))
		return NULL;
	snprintf(m->name, sizeof(m->name), "%s:%u", key, family);
	return m->name;
}

static void request_made(void *arg, const struct app_id *app, const char *subnet,
			 const char *ifname, uint8_t family, uint32_t count, bool reclaim)
{
	ASSERT_STR_EQ(app->uid, "u");
	assert_true(reclaim);
	buf_printf(&((struct maker *)arg)->asked, "%s %s %u %u;", subnet, ifname, family, count);
}

static void one_made(const struct made *r)
{
	struct app_id app = {(char *)"apps/v1", (char *)r->kind, (char *)"t", (char *)"x",
			     (char *)"u"};
	struct pod_facts pod = {
		.ns = xstrdup("t"), .name = xstrdup("p"), .uid = xstrdup("1"), .node = xstrdup("")};
	struct maker m = {0};
	struct pod_pools_facts f = {.pod = &pod,
				    .conf = {.subnets = true, .auto_pools = true, .no6 = r->no6},
				    .autos = {&app, find_made, request_made, &m}};
	struct pod_nic nic = {.ifname = "net1"};
	auto_free char *key = xasprintf("ipam.spidernet.io/%s", r->key);
	struct pod_pool_request w;
	struct err e = ERR_INIT;
	char is[300];

	buf_init(&m.asked, 1000);
	labels_put(&pod.annotations, key, r->value);
	if (r->number)
		labels_put(&pod.annotations, "ipam.spidernet.io/ippool-ip-number", r->number);
	if (pod_pools_request(&f, &nic, 1, &w, &e) < 0) {
		if (*r->is != '!' || !strstr(e.text, r->is + 1))
			fail_msg("%s: '%s'", r->value, e.text);
		ASSERT_EQ(e.code == -EAGAIN, strstr(r->is, "no matching") != NULL);
	} else {
		snprintf(is, sizeof(is), "%s %s", w.n_pools4 ? w.pools4[0] : "-",
			 w.n_pools6 ? w.pools6[0] : "-");
		ASSERT_STR_EQ(is, r->is);
		pod_pool_request_done(&w);
	}
	ASSERT_STR_EQ(m.asked.len ? m.asked.p : "", r->asked);
	buf_done(&m.asked);
	pod_facts_done(&pod);
}

static void test_applications_get_automatic_pools(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(made); i++)
		one_made(&made[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_applications_get_automatic_pools),
		cmocka_unit_test(test_pools_of_the_pod_precede_those_of_its_namespace),
		cmocka_unit_test(test_ippools_annotation_selects_by_interface_or_position),
		cmocka_unit_test(test_wildcards_expand_to_pools_in_order),
		cmocka_unit_test(test_unsuitable_pools_are_skipped_with_their_reason),
		cmocka_unit_test(test_pools_are_ordered_by_their_affinities),
		cmocka_unit_test(test_pools_of_all_rails_are_selected_at_once),
		cmocka_unit_test(test_interface_without_addresses_has_the_next_position),
		cmocka_unit_test(test_deleted_or_finished_pod_gets_no_address),
		cmocka_unit_test(test_routes_annotation_is_parsed),
		cmocka_unit_test(test_routes_are_added_to_the_interface_of_their_gateway),
		cmocka_unit_test(test_invalid_default_pools_are_reported),
	};

	return T_RUN(tests, setup, teardown);
}
