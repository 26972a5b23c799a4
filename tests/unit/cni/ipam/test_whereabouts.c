/* SPDX-License-Identifier: Apache-2.0 */
/* The IPAM plugin whereabouts with its local store: ranges, allocation, release and messages.
 * Comments name the defects of the original that unirail corrects. */
#include "testlib.h"

#include <errno.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "cni/ipam/whereabouts.h"
#include "cni_invoke.h"
#include "ipam/whereabouts/whereabouts.h"

#define STORE "/var/lib/unirail/ipam/whereabouts/"

/* --- calls --- */

struct owner {
	/* NULL: pod is "p", id is the name of the pod, ifname is "net1" */
	const char *pod, *id, *ifname;
};

static struct answer call(struct t_dir *w, const char *command, const char *ipam,
			  struct owner owner, const char *more)
{
	const char *pod = owner.pod ? owner.pod : "p";
	auto_free char *args =
		xasprintf("IgnoreUnknown=1;K8S_POD_NAMESPACE=ns;K8S_POD_NAME=%s", pod);
	auto_free char *conf = xasprintf("{\"cniVersion\":\"1.1.0\",\"name\":\"net\",\"ipam\":{"
					 "\"type\":\"whereabouts\"%s%s}%s}",
					 *ipam ? "," : "", ipam, more);

	return invoke(&(struct invocation){.plugin = &cni_whereabouts,
					   .command = command,
					   .id = owner.id ? owner.id : pod,
					   .ifname = owner.ifname ? owner.ifname : "net1",
					   .args = args,
					   .root = w->path,
					   .conf = conf});
}

/* Expects that the plugin exits with `status` and that its output contains `text` ("": no
 * output). */
static void said(struct t_dir *w, const char *command, const char *ipam, struct owner owner,
		 int status, const char *text)
{
	auto_answer struct answer a = call(w, command, ipam, owner, "");

	if (a.status != status || (*text ? !strstr(a.out.p, text) : a.out.len != 0))
		fail_msg("%s %s\nstatus %d, output\n%s\ninstead of\n%s", command, ipam, a.status,
			 a.out.p, text);
}

static void gives(struct t_dir *w, const char *ipam, struct owner owner, const char *addresses)
{
	auto_answer struct answer a = call(w, "ADD", ipam, owner, "");
	auto_free char *want = xasprintf("{\"cniVersion\":\"1.1.0\",\"ips\":[%s]}", addresses);

	if (a.status != 0 || strcmp(a.out.p, want) != 0)
		fail_msg("ADD %s\nstatus %d, output\n%s\ninstead of\n%s", ipam, a.status, a.out.p,
			 want);
}

#define A(a)	      "{\"address\":\"" a "\"}"
#define POD(p)	      ((struct owner){.pod = (p)})
#define RANGE(r)      "\"range\":\"" r "\""
#define RANGES(list)  "\"ipRanges\":[" list "]"
#define NAME(n)	      ",\"network_name\":\"" n "\""
#define APART	      ",\"enable_overlapping_ranges\":false"
#define EXCLUDE(list) "\"exclude\":[" list "]"

static void fails(struct t_dir *w, const char *ipam, const char *text)
{
	said(w, "ADD", ipam, POD("p"), 1, text);
}

static void full(struct t_dir *w, const char *ipam, const char *pod)
{
	said(w, "ADD", ipam, POD(pod), 1, "Could not allocate IP in range: ip: ");
}

static void del(struct t_dir *w, const char *ipam, struct owner owner)
{
	said(w, "DEL", ipam, owner, 0, "");
}

static void put(struct t_dir *w, const char *path, const char *text)
{
	auto_free char *dir = span_dup((struct span){path, (size_t)(strrchr(path, '/') - path)});

	ASSERT_EQ(dir_make(&w->root, dir, 0755, NULL), 0);
	ASSERT_EQ(file_replace(&w->root, path, span_of(text), 0600, NULL), 0);
}

/* --- parsing --- */

static void test_addresses_with_leading_zeros_are_parsed(void **state)
{
	static const struct {
		const char *text, *want;
	} cases[] = {
		{"010.0.00.009", "10.0.0.9"},
		{"10.0.0.0", "10.0.0.0"},
		{"000.000.000.000", "0.0.0.0"},
		{"fd00::0001", "fd00::1"},
		{"::ffff:010.1.1.01", "10.1.1.1"},
		{"10.0.0.256", NULL},
		{"10.0.0.0256", NULL},
		{"", NULL},
		{"10.0.0", NULL},
		{"10.0..1", NULL},
		{"fd00::00001", NULL},
		{" 10.0.0.1", NULL},
		{"0x0a.0.0.1", NULL},
		{"00000000000000000000000000000000000000000000000010.0.0.1", "10.0.0.1"},
	};
	char text[IP_TEXT_MAX];
	struct ipaddr a;

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		int r = whereabouts_ip_parse(span_of(cases[i].text), &a);

		if ((r == 0) != (cases[i].want != NULL) ||
		    (r == 0 && strcmp(ip_str(&a, text), cases[i].want) != 0))
			fail_msg("'%s' is %d %s", cases[i].text, r, r ? "" : ip_str(&a, text));
	}
}

struct range_case {
	struct whereabouts_text text;
	const char *net, *usable; /* usable NULL: refused, with `net` in the message */
};

#define EX(...)                                                                                    \
	.exclude = (const char *const[]){__VA_ARGS__},                                             \
	.n_exclude = ARRAY_LEN(((const char *const[]){__VA_ARGS__}))

static const struct range_case ranges[] = {
	{{.range = "10.0.0.0/24"}, "10.0.0.0/24", "10.0.0.1-10.0.0.254"},
	{{.range = "10.0.0.77/24"}, "10.0.0.0/24", "10.0.0.1-10.0.0.254"},
	{{.range = "010.0.0.05/24"}, "10.0.0.0/24", "10.0.0.1-10.0.0.254"},
	{{.range = "10.0.0.5-10.0.0.9/24"}, "10.0.0.0/24", "10.0.0.5-10.0.0.9"},
	{{.range = "10.0.0.9-10.0.0.9/24"}, "10.0.0.0/24", "10.0.0.9"},
	{{.range = "10.0.0.0-10.0.0.255/24"}, "10.0.0.0/24", "10.0.0.1-10.0.0.254"},
	/* Bounds in the range's text have precedence over range_start and range_end. */
	{{.range = "10.0.0.5-10.0.0.9/24", .start = "10.0.0.7", .end = "10.0.0.8"},
	 "10.0.0.0/24",
	 "10.0.0.5-10.0.0.9"},
	{{.range = "10.0.0.0/24", .start = "10.0.0.7", .end = "010.0.0.010"},
	 "10.0.0.0/24",
	 "10.0.0.7-10.0.0.10"},
	{{.range = "10.0.0.0/24", .start = "10.0.0.0", .end = "10.0.0.255"},
	 "10.0.0.0/24",
	 "10.0.0.1-10.0.0.254"},
	{{.range = "10.0.0.0/24", .start = "", .end = ""}, "10.0.0.0/24", "10.0.0.1-10.0.0.254"},
	{{.range = "10.0.0.0/24", .end = "10.0.0.3"}, "10.0.0.0/24", "10.0.0.1-10.0.0.3"},
	{{.range = "10.0.0.0/30"}, "10.0.0.0/30", "10.0.0.1-10.0.0.2"},
	{{.range = "0.0.0.0/30"}, "0.0.0.0/30", "0.0.0.1-0.0.0.2"},
	{{.range = "255.255.255.252/30"}, "255.255.255.252/30", "255.255.255.253-255.255.255.254"},
	{{.range = "0.0.0.0/0"}, "0.0.0.0/0", "0.0.0.1-255.255.255.254"},
	{{.range = "fd00::/64"}, "fd00::/64", "fd00::1-fd00::ffff:ffff:ffff:fffe"},
	{{.range = "fd00::5-fd00::9/64"}, "fd00::/64", "fd00::5-fd00::9"},
	{{.range = "fd00::/126"}, "fd00::/126", "fd00::1-fd00::2"},
	{{.range = "::/0"}, "::/0", "::1-ffff:ffff:ffff:ffff:ffff:ffff:ffff:fffe"},
	{{.range = "ffff:ffff:ffff:ffff:ffff:ffff:ffff:fffc/126"},
	 "ffff:ffff:ffff:ffff:ffff:ffff:ffff:fffc/126",
	 "ffff:ffff:ffff:ffff:ffff:ffff:ffff:fffd-ffff:ffff:ffff:ffff:ffff:ffff:ffff:fffe"},

	{{.range = "10.0.0.0/24", EX("10.0.0.0/25")}, "10.0.0.0/24", "10.0.0.128-10.0.0.254"},
	{{.range = "10.0.0.0/24", EX("10.0.0.8/30", "10.0.0.1")},
	 "10.0.0.0/24",
	 "10.0.0.2-10.0.0.7, 10.0.0.12-10.0.0.254"},
	{{.range = "10.0.0.0/24", EX("10.0.0.9/30")},
	 "10.0.0.0/24",
	 "10.0.0.1-10.0.0.7, 10.0.0.12-10.0.0.254"},
	{{.range = "10.0.0.0/24", EX("10.0.0.192/26", "10.0.0.0/26")},
	 "10.0.0.0/24",
	 "10.0.0.64-10.0.0.191"},
	{{.range = "10.0.0.0/24", EX("010.0.0.01/32")}, "10.0.0.0/24", "10.0.0.2-10.0.0.254"},
	{{.range = "10.0.0.0/24", EX("10.9.0.0/16", "fd00::/8")},
	 "10.0.0.0/24",
	 "10.0.0.1-10.0.0.254"},
	{{.range = "255.255.255.248/29", EX("255.255.255.252/30")},
	 "255.255.255.248/29",
	 "255.255.255.249-255.255.255.251"},
	{{.range = "fd00::/64", EX("fd00::/65", "fd00::8000:0:0:0")},
	 "fd00::/64",
	 "fd00::8000:0:0:1-fd00::ffff:ffff:ffff:fffe"},
	{{.range = "10.0.0.0/24", EX("0.0.0.0/0")}, "10.0.0.0/24", ""},

	{{.range = ""}, "p: invalid CIDR : invalid CIDR address: ", NULL},
	{{.range = NULL}, "p: invalid CIDR : invalid CIDR address: ", NULL},
	{{.range = "10.0.0.0"}, "p: invalid CIDR 10.0.0.0: invalid CIDR address: 10.0.0.0", NULL},
	{{.range = "10.0.0.0/33"},
	 "invalid CIDR 10.0.0.0/33: invalid CIDR address: 10.0.0.0/33",
	 NULL},
	{{.range = "x-10.0.0.9/24"}, "invalid range start IP: x", NULL},
	{{.range = "-10.0.0.9/24"}, "invalid range start IP: ", NULL},
	{{.range = "10.0.0.5-10.0.0.9"},
	 "invalid CIDR (do you have the 'range' parameter set for Whereabouts?) '10.0.0.9': invalid "
	 "CIDR address: 10.0.0.9",
	 NULL},
	{{.range = "10.0.0.5-"},
	 "invalid CIDR (do you have the 'range' parameter set for Whereabouts?) '': invalid CIDR "
	 "address: ",
	 NULL},
	{{.range = "10.1.0.5-10.0.0.9/24"},
	 "invalid range start for CIDR 10.0.0.0/24: 10.1.0.5",
	 NULL},
	{{.range = "fd00::1-10.0.0.9/24"},
	 "invalid range start for CIDR 10.0.0.0/24: fd00::1",
	 NULL},
	{{.range = "10.0.0.9-10.0.0.5/24"},
	 "range start 10.0.0.9 is after range end 10.0.0.5",
	 NULL},
	{{.range = "10.0.0.0/31"},
	 "net mask is too short, subnet 10.0.0.0/31 has no usable IP addresses, it is too small",
	 NULL},
	{{.range = "fd00::/127"}, "subnet fd00::/127 has no usable IP addresses", NULL},
	/* range_start or range_end outside the network is ignored, as in the original. */
	{{.range = "10.0.0.0/24", .start = "10.0.1.1"}, "10.0.0.0/24", "10.0.0.1-10.0.0.254"},
	{{.range = "10.0.0.0/24", .end = "10.0.1.1"}, "10.0.0.0/24", "10.0.0.1-10.0.0.254"},
	{{.range = "10.0.0.0/24", .end = "fd00::1"}, "10.0.0.0/24", "10.0.0.1-10.0.0.254"},
	{{.range = "10.0.0.0/24", .start = "10.0.0.7", .end = "10.0.1.1"},
	 "10.0.0.0/24",
	 "10.0.0.7-10.0.0.254"},
	{{.range = "10.0.0.0/24", .start = "10.0.0.9", .end = "10.0.0.8"},
	 "range start 10.0.0.9 is after range end 10.0.0.8",
	 NULL},
	{{.range = "10.0.0.0/24", .start = "x"},
	 "p: range_start is \"x\", expected an IP address",
	 NULL},
	{{.range = "10.0.0.0/24", .end = "10.0.0.0/24"},
	 "range_end is \"10.0.0.0/24\", expected an IP address",
	 NULL},
	{{.range = "10.0.0.0/24", .start = "10.0.0.255"},
	 "no address can be allocated from 10.0.0.255",
	 NULL},
	{{.range = "10.0.0.0/24", .end = "10.0.0.0"},
	 "no address can be allocated up to 10.0.0.0",
	 NULL},
	{{.range = "10.0.0.0/24", EX("10.0.0.1", "10.0.0.300")},
	 "p: exclude[1]: could not parse exclude range, err: \"invalid CIDR address: 10.0.0.300\"",
	 NULL},
	{{.range = "10.0.0.0/24", EX("")}, "p: exclude[0]: could not parse exclude range", NULL},
};

static void test_ranges_are_parsed_and_invalid_ranges_are_refused(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(ranges); i++) {
		const struct range_case *c = &ranges[i];
		struct err e = ERR_INIT;
		struct whereabouts_range r;
		auto_buf struct buf b;
		char net[IP_TEXT_MAX];
		int n = whereabouts_range_make(&c->text, "p", &r, &e);

		buf_init(&b, 4096);
		if (n < 0) {
			if (c->usable || !strstr(e.text, c->net) || e.kind != ERR_CONF)
				fail_msg("case %zu: %s", i, e.text);
			continue;
		}
		ip_set_str(&r.usable, &b);
		if (!c->usable || strcmp(b.p ? b.p : "", c->usable) != 0 ||
		    strcmp(ipnet_str(&r.net, net), c->net) != 0)
			fail_msg("case %zu: usable addresses %s of network %s", i, b.p,
				 ipnet_str(&r.net, net));
		whereabouts_range_done(&r);
	}
}

static void test_invalid_configuration_is_refused(void **state)
{
	static const struct {
		const char *ipam, *expected;
	} cases[] = {
		{RANGE("10.0.0.0/24") "," EXCLUDE("\"10.0.0.1\",\"nonsense\""),
		 "{\"code\":7,\"msg\":\"conf.ipam: exclude[1]: could not parse exclude range, err: "
		 "\\\"invalid CIDR address: nonsense\\\"\"}"},
		{RANGES("{\"range\":\"10.0.0.0/24\"},{\"range\":\"10.1.0.0/24\"," EXCLUDE(
			 "\"x\"") "}"),
		 "conf.ipam.ipRanges[1]: exclude[0]: could not parse exclude range"},
		{RANGE("10.0.0.0/24") ",\"range_end\":\"10.0.1\"",
		 "{\"code\":7,\"msg\":\"conf.ipam: range_end is \\\"10.0.1\\\", expected an IP address\"}"},
		{RANGE("10.0.0.0/24") ",\"gateway\":\"10.0.0\"",
		 "couldn't parse gateway IP: 10.0.0"},
		{RANGE("10.0.0.0/24") ",\"addresses\":[{\"address\":\"10.1.0.1\"}]",
		 "conf.ipam.addresses[0]: invalid CIDR in addresses 10.1.0.1: invalid CIDR address: "
		 "10.1.0.1"},
		{RANGE("10.0.0.0/24") ",\"addresses\":[{\"address\":\"10.1.0.1/8\",\"gateway\":\"x\"}]",
		 "conf.ipam.addresses[0]: couldn't parse gateway IP: x"},
		{"", "conf.ipam has no addresses: set 'range' or 'ipRanges'"},
		{EXCLUDE("\"10.0.0.1\""), "conf.ipam has no addresses"},
		{RANGE("10.0.0.0/24") ",\"network_name\":\"../x\"",
		 "conf.ipam.network_name is \\\"../x\\\", expected lower case letters"},
		{RANGE("10.0.0.0/24") ",\"network_name\":\"A\"", "conf.ipam.network_name is"},
		{RANGE("10.0.0.0/24") ",\"network_name\":\"a@b\"", "conf.ipam.network_name is"},
		{RANGE("10.0.0.0/24") ",\"state_dir\":\"x\"",
		 "conf.ipam.state_dir is \\\"x\\\", expected an absolute path"},
		{RANGE("10.0.0.0/24") ",\"configuration_path\":\"x\"",
		 "conf.ipam.configuration_path"},
		{RANGE("10.0.0.0/24") ",\"routes\":[{\"dst\":\"x\"}]", "conf.ipam.routes[0].dst"},
		{RANGE("10.0.0.0/24") ",\"dns\":{\"search\":1}", "conf.ipam.dns.search"},
		{"\"range\":5", "conf.ipam.range is 5, expected a string"},
		/* node_slice_size is refused: unirail has no controller that assigns slices to
		 * nodes, so two nodes would allocate the same addresses. */
		{RANGE("10.0.0.0/16") ",\"node_slice_size\":\"/24\"",
		 "{\"code\":2,\"msg\":\"conf.ipam.node_slice_size is \\\"/24\\\""},
	};
	struct t_dir *w = *state;

	for (size_t i = 0; i < ARRAY_LEN(cases); i++)
		fails(w, cases[i].ipam, cases[i].expected);
	assert_false(file_exists(&w->root, STORE));
	said(w, "STATUS", RANGE("10.0.0.0/24") "," EXCLUDE("\"x\""), POD("p"), 1, "exclude[0]");
	expect(&(struct invocation){.plugin = &cni_whereabouts,
				    .command = "ADD",
				    .root = w->path,
				    .conf = "{\"cniVersion\":\"1.0.0\",\"name\":\"n\"}"},
	       1, "{\"code\":7,\"msg\":\"IPAM config missing 'ipam' key\"}");
	expect(&(struct invocation){.plugin = &cni_whereabouts,
				    .command = "ADD",
				    .root = w->path,
				    .conf = "{\"cniVersion\":\"1.0.0\",\"name\":\"n\",\"ipam\":{"
					    "\"type\":\"x\"}}"},
	       1,
	       "{\"code\":7,\"msg\":\"only interested in networks whose IPAM type is 'whereabouts'. "
	       "This one was: x\"}");
}

static void test_pod_name_is_required(void **state)
{
	struct t_dir *w = *state;
	struct invocation v = {.plugin = &cni_whereabouts,
			       .command = "ADD",
			       .root = w->path,
			       .conf = "{\"cniVersion\":\"1.0.0\",\"name\":\"n\",\"ipam\":{"
				       "\"type\":\"whereabouts\"," RANGE("10.0.0.0/24") "}}"};

	expect(&v, 1,
	       "{\"code\":4,\"msg\":\"error at storage engine: IPAM client initialization error: no "
	       "pod name\"}");
	v.args = "K8S_POD_NAME=";
	expect(&v, 1,
	       "{\"code\":4,\"msg\":\"error at storage engine: IPAM client initialization error: no "
	       "pod name\"}");
	v.args = "X=1";
	expect(&v, 1,
	       "{\"code\":4,\"msg\":\"LoadArgs - CNI Args Parsing Error: ARGS: unknown args "
	       "[\\\"X=1\\\"]\"}");
	/* DEL requires no pod name. */
	v.args = "";
	v.command = "DEL";
	expect(&v, 0, "");
}

/* --- results --- */

static void test_result_has_gateway_routes_and_dns(void **state)
{
	static const char conf[] = ",\"name\":\"n\",\"ipam\":{\"type\":\"whereabouts\"," RANGE(
		"10.1.2.9/24") ",\"gateway\":\"010.1.2.254\",\"routes\":[{\"dst\":\"0.0.0.0/0\"},"
			       "{\"dst\":\"10.9.0.0/16\",\"gw\":\"10.1.2.7\"}],"
			       "\"dns\":{\"nameservers\":[\"1.1.1.1\"]},"
			       "\"addresses\":[{\"address\":\"fd00::05/64\","
			       "\"gateway\":\"fd00::1\"}]}}";
	static const struct {
		const char *version, *out;
	} cases[] = {
		{"0.2.0",
		 "{\"cniVersion\":\"0.2.0\",\"ip4\":{\"ip\":\"10.1.2.1/24\",\"gateway\":\"10.1.2.254\","
		 "\"routes\":[{\"dst\":\"0.0.0.0/0\"},{\"dst\":\"10.9.0.0/16\",\"gw\":\"10.1.2.7\"}]},"
		 "\"ip6\":{\"ip\":\"fd00::5/64\",\"gateway\":\"fd00::1\"},"
		 "\"dns\":{\"nameservers\":[\"1.1.1.1\"]}}"},
		{"0.4.0",
		 "{\"cniVersion\":\"0.4.0\",\"ips\":[{\"version\":\"4\",\"address\":\"10.1.2.1/24\","
		 "\"gateway\":\"10.1.2.254\"},{\"version\":\"6\",\"address\":\"fd00::5/64\","
		 "\"gateway\":\"fd00::1\"}],\"routes\":[{\"dst\":\"0.0.0.0/0\"},"
		 "{\"dst\":\"10.9.0.0/16\",\"gw\":\"10.1.2.7\"}],"
		 "\"dns\":{\"nameservers\":[\"1.1.1.1\"]}}"},
		{"1.0.0",
		 "{\"cniVersion\":\"1.0.0\",\"dns\":{\"nameservers\":[\"1.1.1.1\"]},\"ips\":["
		 "{\"address\":\"10.1.2.1/24\",\"gateway\":\"10.1.2.254\"},"
		 "{\"address\":\"fd00::5/64\",\"gateway\":\"fd00::1\"}],\"routes\":["
		 "{\"dst\":\"0.0.0.0/0\"},{\"dst\":\"10.9.0.0/16\",\"gw\":\"10.1.2.7\"}]}"},
	};
	struct t_dir *w = *state;

	/* The pod and the interface are the same in all cases, so each ADD returns the same
	 * address. */
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		auto_free char *text =
			xasprintf("{\"cniVersion\":\"%s\"%s", cases[i].version, conf);

		expect(&(struct invocation){.plugin = &cni_whereabouts,
					    .command = "ADD",
					    .args = "K8S_POD_NAMESPACE=a;K8S_POD_NAME=b",
					    .root = w->path,
					    .conf = text},
		       0, cases[i].out);
	}
}

/*
 * The original puts an IPv4 gateway into IPv6 addresses, and allocates the gateway's address to a
 * pod.
 */
static void test_address_gets_a_gateway_of_its_own_family_only(void **state)
{
	struct t_dir *w = *state;

	gives(w,
	      RANGE("10.0.0.0/24") "," RANGES(
		      "{\"range\":\"fd00::/64\"}") ",\"gateway\":\"10.0.0.1\"",
	      POD("a"), "{\"address\":\"10.0.0.2/24\",\"gateway\":\"10.0.0.1\"}," A("fd00::1/64"));
	/* A gateway outside of the range is accepted. */
	gives(w, RANGE("10.0.0.0/24") ",\"gateway\":\"10.9.0.1\"", POD("b"),
	      "{\"address\":\"10.0.0.1/24\",\"gateway\":\"10.9.0.1\"}");
}

static void test_addresses_of_cni_args_and_netconf_are_added_to_the_result(void **state)
{
	struct t_dir *w = *state;
	struct invocation v = {
		.plugin = &cni_whereabouts,
		.command = "ADD",
		.root = w->path,
		.args = "K8S_POD_NAME=p;IP=10.0.0.1/24, 010.5.0.2/16;GATEWAY=10.5.0.1,10.0.0.254",
		.conf = "{\"cniVersion\":\"1.0.0\",\"name\":\"n\",\"ipam\":{\"type\":\"whereabouts\"," RANGE(
			"10.0.0.0/24") ",\"addresses\":[{\"address\":\"10.5.0.9/16\"}]}}"};

	/* The range does not allocate 10.0.0.1, which the pod gets by CNI_ARGS. */
	expect(&v, 0,
	       "{\"cniVersion\":\"1.0.0\",\"ips\":[" A(
		       "10.0.0.2/24") ","
				      "{\"address\":\"10.5.0.9/16\",\"gateway\":\"10.5.0.1\"},"
				      "{\"address\":\"10.0.0.1/24\",\"gateway\":\"10.0.0.254\"},"
				      "{\"address\":\"10.5.0.2/16\",\"gateway\":\"10.5.0.1\"}]}");
	v.args = "K8S_POD_NAME=p;IP=10.0.0.1";
	expect(&v, 1,
	       "{\"code\":4,\"msg\":\"invalid CIDR 10.0.0.1: invalid CIDR address: 10.0.0.1\"}");
	v.args = "K8S_POD_NAME=p;GATEWAY=x";
	expect(&v, 1, "{\"code\":4,\"msg\":\"invalid gateway address: x\"}");
	/* Without a range the result has only the addresses of the netconf. */
	v.args = "K8S_POD_NAME=p";
	v.conf = "{\"cniVersion\":\"1.0.0\",\"name\":\"n\",\"ipam\":{\"type\":\"whereabouts\","
		 "\"addresses\":[{\"address\":\"10.5.0.9/16\"}]}}";
	expect(&v, 0, "{\"cniVersion\":\"1.0.0\",\"ips\":[" A("10.5.0.9/16") "]}");
	v.command = "CHECK";
	expect(&v, 0, "");
	v.conf =
		"{\"cniVersion\":\"0.2.0\",\"name\":\"n\",\"ipam\":{\"type\":\"whereabouts\"," RANGE(
			"10.0.0.0/24") ",\"addresses\":[{\"address\":\"10.5.0.9/16\"}]}}";
	v.command = "ADD";
	expect(&v, 1,
	       "{\"code\":7,\"msg\":\"CNI version 0.2.0 does not support more than 1 address per "
	       "family\"}");
}

/* --- selection --- */

/* Pods get the addresses of a range in order, until the range is full; then another pod gets
 * each address after its release. */
static void test_addresses_are_allocated_in_order(void **state)
{
	static const struct {
		const char *ipam;
		const char *got[8];
	} cases[] = {
		{RANGE("10.0.0.0/29"),
		 {A("10.0.0.1/29"), A("10.0.0.2/29"), A("10.0.0.3/29"), A("10.0.0.4/29"),
		  A("10.0.0.5/29"), A("10.0.0.6/29")}},
		{RANGE("10.0.0.3-10.0.0.5/16"),
		 {A("10.0.0.3/16"), A("10.0.0.4/16"), A("10.0.0.5/16")}},
		{RANGE("10.0.0.0/29") "," EXCLUDE("\"10.0.0.0/30\",\"10.0.0.5\""),
		 {A("10.0.0.4/29"), A("10.0.0.6/29")}},
		{RANGE("255.255.255.252/30"), {A("255.255.255.253/30"), A("255.255.255.254/30")}},
		{RANGE("fd00::/125") "," EXCLUDE("\"fd00::2/127\""),
		 {A("fd00::1/125"), A("fd00::4/125"), A("fd00::5/125"), A("fd00::6/125")}},
		{RANGE("ffff:ffff:ffff:ffff:ffff:ffff:ffff:fffc/126"),
		 {A("ffff:ffff:ffff:ffff:ffff:ffff:ffff:fffd/126"),
		  A("ffff:ffff:ffff:ffff:ffff:ffff:ffff:fffe/126")}},
		{RANGE("::/126"), {A("::1/126"), A("::2/126")}},
		{RANGE("10.0.0.0/30") "," RANGES("{\"range\":\"fd00::/126\"}"),
		 {A("10.0.0.1/30") "," A("fd00::1/126"), A("10.0.0.2/30") "," A("fd00::2/126")}},
		/* Two ranges of one subnet use one pool: no address is allocated from both. */
		{RANGE("10.0.0.0/24") ",\"range_end\":\"10.0.0.2\"," RANGES(
			 "{\"range\":\"10.0.0.0/24\",\"range_start\":\"10.0.0.2\","
			 "\"range_end\":\"10.0.0.9\"}"),
		 {A("10.0.0.1/24") "," A("10.0.0.2/24")}},
	};
	struct t_dir *w = *state;

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		auto_free char *ipam = xasprintf("%s,\"network_name\":\"n%zu\"", cases[i].ipam, i);
		char pod[16];
		size_t n;

		for (n = 0; n < ARRAY_LEN(cases[i].got) && cases[i].got[n]; n++) {
			snprintf(pod, sizeof(pod), "p%zu", n);
			gives(w, ipam, POD(pod), cases[i].got[n]);
		}
		full(w, ipam, "late");
		for (size_t k = 0; k < n; k++) {
			snprintf(pod, sizeof(pod), "p%zu", k);
			del(w, ipam, POD(pod));
			gives(w, ipam, POD("late"), cases[i].got[k]);
			full(w, ipam, "later");
			del(w, ipam, POD("late"));
			gives(w, ipam, POD(pod), cases[i].got[k]);
		}
	}
}

static void test_exhausted_range_is_reported(void **state)
{
	struct t_dir *w = *state;
	static const char conf[] = RANGE("10.0.0.0/30") "," EXCLUDE("\"10.0.0.2\",\"10.9.0.0/16\"");

	gives(w, conf, POD("a"), A("10.0.0.1/30"));
	said(w, "ADD", conf, POD("b"), 1,
	     "{\"code\":11,\"msg\":\"error at storage engine: Could not allocate IP in range: ip: "
	     "10.0.0.1 / - 10.0.0.2 / range: 10.0.0.0/30 / excludeRanges: [10.0.0.2 10.9.0.0/16]\","
	     "\"details\":\"1 in use: ns/a net1 10.0.0.1\"}");
	said(w, "STATUS", conf, POD("p"), 1,
	     "{\"code\":50,\"msg\":\"Could not allocate IP in range");
	del(w, conf, POD("a"));
	said(w, "STATUS", conf, POD("p"), 0, "");
	/* The configuration leaves no address: a retry does not help. */
	said(w, "ADD", RANGE("10.0.0.0/30") "," EXCLUDE("\"10.0.0.0/24\""), POD("b"), 1,
	     "{\"code\":7,");
}

/* --- owner of an address --- */

static void test_same_pod_gets_the_same_address(void **state)
{
	struct t_dir *w = *state;
	static const char conf[] = RANGE("10.0.0.0/24");

	gives(w, conf, (struct owner){"a", "c1", NULL}, A("10.0.0.1/24"));
	gives(w, conf, (struct owner){"b", "c2", NULL}, A("10.0.0.2/24"));
	gives(w, conf, (struct owner){"a", "c1", NULL}, A("10.0.0.1/24"));
	/*
	 * The sandbox was recreated: it gets the pod's address, and the late DEL of the old sandbox
	 * releases nothing.
	 */
	gives(w, conf, (struct owner){"a", "c3", NULL}, A("10.0.0.1/24"));
	del(w, conf, (struct owner){"a", "c1", NULL});
	gives(w, conf, (struct owner){"c", "c4", NULL}, A("10.0.0.3/24"));
	del(w, conf, (struct owner){"a", "c3", NULL});
	gives(w, conf, (struct owner){"d", "c5", NULL}, A("10.0.0.1/24"));
	/* Another interface is another owner, in the same network too. */
	gives(w, conf, (struct owner){"d", "c5", "net2"}, A("10.0.0.4/24"));
	del(w, conf, (struct owner){"d", "c5", "net2"});
	gives(w, conf, (struct owner){"d", "c5", "net1"}, A("10.0.0.1/24"));
	said(w, "CHECK", conf, (struct owner){"d", "c5", "net2"}, 1, "holds no address of range");
}

/*
 * An address that was excluded after its allocation: its container retains it, a new container does
 * not get it.
 */
static void test_address_excluded_later_stays_with_its_container(void **state)
{
	struct t_dir *w = *state;

	gives(w, RANGE("10.0.0.0/24"), (struct owner){"a", "c1", NULL}, A("10.0.0.1/24"));
	gives(w, RANGE("10.0.0.0/24") "," EXCLUDE("\"10.0.0.1\""), (struct owner){"a", "c1", NULL},
	      A("10.0.0.1/24"));
	said(w, "CHECK", RANGE("10.0.0.0/24") "," EXCLUDE("\"10.0.0.1\""),
	     (struct owner){"a", "c1", NULL}, 0, "");
	gives(w, RANGE("10.0.0.0/24") "," EXCLUDE("\"10.0.0.1\""), (struct owner){"a", "c2", NULL},
	      A("10.0.0.2/24"));
	del(w, RANGE("10.0.0.0/24"), (struct owner){"a", "c1", NULL});
	gives(w, RANGE("10.0.0.0/24"), POD("b"), A("10.0.0.1/24"));
	/* A range is added to the configuration and listed before the range of the container's
	 * address: the container retains this address. */
	gives(w, RANGE("10.5.0.6-10.5.0.9/24"), POD("b"), A("10.5.0.6/24"));
	gives(w, RANGE("10.5.0.1-10.5.0.5/24") "," RANGES("{\"range\":\"10.5.0.6-10.5.0.9/24\"}"),
	      POD("b"), A("10.5.0.1/24") "," A("10.5.0.6/24"));
}

/* Overlapping ranges of one network: each retains its address when the request is repeated. */
static void test_repeated_request_of_overlapping_ranges_gets_the_same_addresses(void **state)
{
	struct t_dir *w = *state;
	static const char conf[] =
		RANGE("10.0.0.1-10.0.0.2/24") "," RANGES("{\"range\":\"10.0.0.2-10.0.0.9/24\"}");

	gives(w, RANGE("10.0.0.0/24"), POD("a"), A("10.0.0.1/24"));
	for (int i = 0; i < 3; i++)
		gives(w, conf, POD("b"), A("10.0.0.2/24") "," A("10.0.0.3/24"));
	said(w, "CHECK", conf, POD("b"), 0, "");
	del(w, conf, POD("b"));
	gives(w, RANGE("10.0.0.0/24"), POD("c"), A("10.0.0.2/24"));
	gives(w, RANGE("10.0.0.0/24"), POD("d"), A("10.0.0.3/24"));
}

static void test_overlapping_ranges_share_no_address(void **state)
{
	struct t_dir *w = *state;

	/* One network name with nested ranges: each address is allocated once. */
	gives(w, RANGE("10.0.0.0/24"), POD("a"), A("10.0.0.1/24"));
	gives(w, RANGE("10.0.0.0/16"), POD("b"), A("10.0.0.2/16"));
	gives(w, RANGE("10.0.0.0/29"), POD("c"), A("10.0.0.3/29"));
	gives(w, RANGE("10.0.0.0/24"), POD("d"), A("10.0.0.4/24"));
	/*
	 * The same pod with another interface: the original allocates the pod's own address again.
	 */
	gives(w, RANGE("10.0.0.0/16"), (struct owner){"a", "a", "net2"}, A("10.0.0.5/16"));
	/* Nested ranges in one ADD also get different addresses. */
	gives(w, RANGE("10.7.0.0/24") "," RANGES("{\"range\":\"10.7.0.0/16\"}"), POD("e"),
	      A("10.7.0.1/24") "," A("10.7.0.2/16"));
	/* Another network name is another network. */
	gives(w, RANGE("10.0.0.0/24") NAME("blue"), POD("f"), A("10.0.0.1/24"));
	gives(w, RANGE("10.0.0.0/16") NAME("blue"), POD("g"), A("10.0.0.2/16"));
	/* enable_overlapping_ranges is false: an address that was allocated from another range
	 * of the network may be allocated again. */
	gives(w, RANGE("10.0.0.0/28") APART, POD("h"), A("10.0.0.1/28"));
	gives(w, RANGE("10.0.0.0/24") APART, POD("i"), A("10.0.0.2/24"));
	/* With the default setting, an ADD skips addresses that are allocated from any range of
	 * the network; with enable_overlapping_ranges false, only those allocated from the same
	 * range. */
	gives(w, RANGE("10.0.0.0/27"), POD("j"), A("10.0.0.6/27"));
	gives(w, RANGE("10.7.0.0/24") "," RANGES("{\"range\":\"10.7.0.0/16\"}") APART, POD("k"),
	      A("10.7.0.2/24") "," A("10.7.0.1/16"));
}

/*
 * The original sets its flag "reservation exists" for the first range and does not reset it for the
 * second, so it makes no reservation for the second range.
 */
static void test_address_of_the_second_range_is_reserved_too(void **state)
{
	struct t_dir *w = *state;
	static const char both[] = RANGE("10.1.0.0/24") "," RANGES("{\"range\":\"10.2.0.0/24\"}");

	gives(w, RANGE("10.1.0.0/24"), POD("a"), A("10.1.0.1/24"));
	gives(w, both, POD("a"), A("10.1.0.1/24") "," A("10.2.0.1/24"));
	gives(w, RANGE("10.2.0.0/16"), POD("b"), A("10.2.0.2/16"));
}

/* A new container of the pod does not get the address of the pod's old container if that address
 * was meanwhile also allocated from an overlapping range. */
static void test_new_container_gets_no_address_allocated_from_an_overlapping_range(void **state)
{
	struct t_dir *w = *state;

	gives(w, RANGE("10.0.0.0/24"), (struct owner){"a", "c1", NULL}, A("10.0.0.1/24"));
	gives(w, RANGE("10.0.0.0/16") APART, (struct owner){"b", "c2", NULL}, A("10.0.0.1/16"));
	gives(w, RANGE("10.0.0.0/24"), (struct owner){"a", "c1", NULL}, A("10.0.0.1/24"));
	gives(w, RANGE("10.0.0.0/24"), (struct owner){"a", "c3", NULL}, A("10.0.0.2/24"));
}

/* --- several ranges: all or none --- */

#define TWO RANGE("10.1.0.0/24") "," RANGES("{\"range\":\"10.2.0.0/30\"}")

static void test_full_second_range_releases_the_address_of_the_first(void **state)
{
	struct t_dir *w = *state;

	gives(w, TWO, POD("a"), A("10.1.0.1/24") "," A("10.2.0.1/30"));
	gives(w, RANGE("10.2.0.0/30"), POD("b"), A("10.2.0.2/30"));
	/* Differs from the original, which never releases the first range's address. */
	full(w, TWO, "c");
	gives(w, RANGE("10.1.0.0/24"), POD("d"), A("10.1.0.2/24"));
	/* The first range's address of an earlier ADD stays allocated. */
	full(w, TWO, "d");
	said(w, "CHECK", RANGE("10.1.0.0/24"), POD("d"), 0, "");
}

static int64_t size_of(struct t_dir *w, const char *path)
{
	struct stat st;

	ASSERT_EQ(file_lstat(&w->root, path, &st, NULL), 0);
	return st.st_size;
}

/*
 * The journal of the second range cannot be written: the address of the first range is released,
 * and an address that moved to a new container belongs to the old container again.
 */
static void test_failed_write_for_the_second_range_releases_the_address_of_the_first(void **state)
{
	struct t_dir *w = *state;
	struct rlimit old, small;
	static const char conf[] = RANGE("10.1.0.0/24") "," RANGES("{\"range\":\"10.2.0.0/24\"}");

	gives(w, RANGE("10.1.0.0/24"), (struct owner){"x", "c1", NULL}, A("10.1.0.1/24"));
	for (int i = 0; i < 40; i++) {
		auto_answer struct answer a = {0};
		char pod[8];

		snprintf(pod, sizeof(pod), "p%d", i);
		a = call(w, "ADD", RANGE("10.2.0.0/24"), POD(pod), "");
		ASSERT_EQ(a.status, 0);
	}
	gives(w, conf, POD("q"), A("10.1.0.2/24") "," A("10.2.0.41/24"));
	ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &old), 0);
	small = old;
	small.rlim_cur = (rlim_t)size_of(w, STORE "10.2.0.0-24/journal");
	assert_true(small.rlim_cur > 4096);
	signal(SIGXFSZ, SIG_IGN);
	ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
	said(w, "ADD", conf, (struct owner){"x", "c2", NULL}, 1,
	     "{\"code\":5,\"msg\":\"error at storage engine: ");
	said(w, "ADD", conf, (struct owner){"y", "c3", NULL}, 1, "{\"code\":5,");
	/* DEL reports the error, but releases the address of the first range. */
	said(w, "DEL", conf, POD("q"), 1, "{\"code\":5,");
	ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &old), 0);
	said(w, "CHECK", RANGE("10.1.0.0/24"), POD("q"), 1, "holds no address");
	said(w, "CHECK", RANGE("10.2.0.0/24"), POD("q"), 0, "");
	said(w, "CHECK", RANGE("10.1.0.0/24"), (struct owner){"x", "c1", NULL}, 0, "");
	said(w, "CHECK", RANGE("10.1.0.0/24"), (struct owner){"x", "c2", NULL}, 1,
	     "holds no address");
	gives(w, RANGE("10.1.0.0/24"), POD("z"), A("10.1.0.2/24"));
}

/* --- release --- */

static void test_del_releases_addresses_of_every_range(void **state)
{
	struct t_dir *w = *state;

	gives(w, RANGE("10.2.0.0/30"), POD("a"), A("10.2.0.1/30"));
	gives(w, RANGE("10.3.0.0/30") NAME("blue"), POD("a"), A("10.3.0.1/30"));
	/*
	 * Differs from the original, which stops at the first range without a match, 10.1.0.0/24.
	 */
	del(w, TWO, POD("a"));
	gives(w, RANGE("10.2.0.0/30"), POD("b"), A("10.2.0.1/30"));
	/* DEL also releases addresses of ranges that were removed from the configuration. */
	gives(w, RANGE("10.3.0.0/30") NAME("blue"), POD("b"), A("10.3.0.1/30"));
}

static void test_del_works_with_an_invalid_configuration(void **state)
{
	struct t_dir *w = *state;
	static const char *const confs[] = {
		"",
		RANGE("nonsense"),
		"\"range\":5",
		RANGE("10.0.0.0/24") "," EXCLUDE("\"x\""),
		RANGE("10.0.0.0/24") ",\"node_slice_size\":\"/28\"",
		RANGE("10.0.0.0/24") ",\"configuration_path\":\"/x/bad.conf\"",
		RANGE("10.0.0.0/24") ",\"kubernetes\":{\"kubeconfig\":\"/k\"}"};

	put(w, "/x/bad.conf", "{");
	for (size_t i = 0; i < ARRAY_LEN(confs); i++) {
		del(w, confs[i], POD("a"));
		gives(w, RANGE("10.0.0.0/24"), POD("a"), A("10.0.0.1/24"));
		del(w, confs[i], POD("a"));
		gives(w, RANGE("10.0.0.0/24"), POD("b"), A("10.0.0.1/24"));
		del(w, RANGE("10.0.0.0/24"), POD("b"));
	}
}

/* Differs from the original, which reports success although the address is not released. */
static void test_del_reports_failed_releases(void **state)
{
	struct t_dir *w = *state;
	static const char damaged[] = "unirail-journal 1 base=0 #0000000000000000\nx\n";

	del(w, RANGE("10.0.0.0/24"), POD("a"));
	assert_false(file_exists(&w->root, STORE)); /* DEL creates no store */
	gives(w, RANGE("10.0.0.0/24"), POD("a"), A("10.0.0.1/24"));
	put(w, STORE "10.9.0.0-24@other/journal", damaged);
	/* A damaged store of another network is ignored. */
	gives(w, RANGE("10.0.0.0/24"), POD("b"), A("10.0.0.2/24"));
	del(w, RANGE("10.0.0.0/24"), POD("b"));
	put(w, STORE "10.0.0.0-24/journal", damaged);
	said(w, "DEL", RANGE("10.0.0.0/24"), POD("a"), 1,
	     "{\"code\":5,\"msg\":\"address store of whereabouts (--state-dir "
	     "/var/lib/unirail/ipam/whereabouts/10.0.0.0-24): journal ");
	said(w, "ADD", RANGE("10.0.0.0/24"), POD("c"), 1, "run 'unirail pool check'");
	/* ADD fails for other ranges too: they may overlap with that of the unreadable store. */
	said(w, "ADD", RANGE("10.1.0.0/24"), POD("c"), 1, "run 'unirail pool check'");
	gives(w, RANGE("10.1.0.0/24") APART, POD("c"), A("10.1.0.1/24"));
}

static void test_check_compares_addresses_with_prev_result(void **state)
{
	struct t_dir *w = *state;
	static const struct {
		const char *ipam, *prev, *expected; /* expected NULL: success */
	} cases[] = {
		{TWO, "", NULL},
		{TWO, ",\"prevResult\":{\"ips\":[" A("10.1.0.1/24") "," A("10.2.0.1/30") "]}",
		 NULL},
		{TWO, ",\"prevResult\":{\"ips\":[" A("10.1.0.1/24") "]}",
		 "whereabouts: net1 holds 10.2.0.1/30, which is not in prevResult"},
		{TWO "," EXCLUDE("\"10.1.0.1\""), "", NULL},
		{RANGE("10.8.0.0/24"), "",
		 "whereabouts: container a interface net1 holds no address of range 10.8.0.0/24"},
		{TWO NAME("blue"), "", "holds no address of range 10.1.0.0/24"},
	};

	said(w, "CHECK", TWO, POD("a"), 1, "holds no address of range 10.1.0.0/24");
	gives(w, TWO, POD("a"), A("10.1.0.1/24") "," A("10.2.0.1/30"));
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		auto_answer struct answer a =
			call(w, "CHECK", cases[i].ipam, POD("a"), cases[i].prev);

		if (a.status != (cases[i].expected != NULL) ||
		    (cases[i].expected && !strstr(a.out.p, cases[i].expected)))
			fail_msg("case %zu: %s", i, a.out.p);
	}
	del(w, TWO, POD("a"));
	said(w, "CHECK", TWO, POD("a"), 1, "holds no address of range 10.1.0.0/24");
}

static void test_gc_releases_addresses_of_invalid_attachments_of_its_network_only(void **state)
{
	struct t_dir *w = *state;
	auto_answer struct answer none = call(w, "GC", TWO, POD("a"), "");
	auto_answer struct answer a = {0}, b = {0};
	auto_free char *other = xasprintf(
		"{\"cniVersion\":\"1.1.0\",\"name\":\"other\",\"ipam\":{\"type\":\"whereabouts\",%s}}",
		TWO);

	ASSERT_EQ(none.status, 0);
	assert_false(file_exists(&w->root, STORE));
	gives(w, TWO, POD("a"), A("10.1.0.1/24") "," A("10.2.0.1/30"));
	gives(w, TWO, POD("b"), A("10.1.0.2/24") "," A("10.2.0.2/30"));
	gives(w, RANGE("10.1.0.0/24"), (struct owner){"a", "a", "net2"}, A("10.1.0.3/24"));
	expect(&(struct invocation){.plugin = &cni_whereabouts,
				    .command = "ADD",
				    .args = "K8S_POD_NAME=o",
				    .root = w->path,
				    .conf = "{\"cniVersion\":\"1.1.0\",\"name\":\"other\",\"ipam\":{"
					    "\"type\":\"whereabouts\"," RANGE("10.1.0.0/24") "}}"},
	       0, "{\"cniVersion\":\"1.1.0\",\"ips\":[" A("10.1.0.4/24") "]}");
	/* GC without cni.dev/valid-attachments considers no container deleted. */
	a = call(w, "GC", TWO, POD("x"), "");
	ASSERT_EQ(a.status, 0);
	said(w, "CHECK", TWO, POD("b"), 0, "");
	b = call(w, "GC", TWO, POD("x"),
		 ",\"cni.dev/valid-attachments\":[{\"containerID\":\"a\",\"ifname\":\"net1\"}]");
	ASSERT_EQ(b.status, 0);
	said(w, "CHECK", TWO, POD("a"), 0, "");
	gives(w, TWO, POD("c"), A("10.1.0.2/24") "," A("10.2.0.2/30"));
	/* The other network's address is still allocated. */
	gives(w, RANGE("10.1.0.0/24"), POD("d"), A("10.1.0.3/24"));
	gives(w, RANGE("10.1.0.0/24"), POD("e"), A("10.1.0.5/24"));
}

/* --- flat files, and netconfs with a kubeconfig --- */

#define KUBE  "\"kubernetes\":{\"kubeconfig\":\"/etc/k\"}"
#define FLAT1 "/etc/kubernetes/cni/net.d/whereabouts.d/whereabouts.conf"
#define FLAT2 "/etc/cni/net.d/whereabouts.d/whereabouts.conf"
#define FLAT3 "/host/etc/cni/net.d/whereabouts.d/whereabouts.conf"

static void test_keys_of_the_flat_file_are_defaults(void **state)
{
	struct t_dir *w = *state;

	put(w, FLAT2,
	    "{" RANGE("10.5.0.0/24") ",\"range_start\":\"10.5.0.7\"," EXCLUDE(
		    "\"10.5.0.7\"") ","
				    "\"enable_overlapping_ranges\":false,\"log_level\":\"debug\",\"etcd_host\":\"e\","
				    "\"datastore\":\"etcd\",\"leader_lease_duration\":1500,\"gateway\":\"10.5.0.254\","
				    "\"routes\":[{\"dst\":\"10.0.0.0/8\"}],\"addresses\":[{\"address\":\"10.6.0.1/8\"}],"
				    "\"network_name\":\"blue\",\"dns\":{\"domain\":\"flat\",\"search\":[\"s\"]}}");
	/* Keys that are empty or missing in the netconf come from the flat file. */
	expect(&(struct invocation){.plugin = &cni_whereabouts,
				    .command = "ADD",
				    .args = "K8S_POD_NAME=a",
				    .root = w->path,
				    .conf = "{\"cniVersion\":\"1.0.0\",\"name\":\"n\",\"ipam\":{"
					    "\"type\":\"whereabouts\",\"range\":\"\",\"exclude\":[],"
					    "\"gateway\":\"10.5.0.253\",\"network_name\":\"red\","
					    "\"dns\":{\"domain\":\"own\"}}}"},
	       0,
	       "{\"cniVersion\":\"1.0.0\",\"dns\":{\"domain\":\"own\",\"search\":[\"s\"]},\"ips\":["
	       "{\"address\":\"10.5.0.8/24\",\"gateway\":\"10.5.0.253\"}," A(
		       "10.6.0.1/8") "],\"routes\":[{\"dst\":\"10.0.0.0/8\"}]}");
	/*
	 * enable_overlapping_ranges of the flat file is ignored: 10.5.0.8, allocated from
	 * 10.5.0.0/24, is not allocated again.
	 */
	said(w, "ADD", RANGE("10.5.0.8-10.5.0.8/16") NAME("red"), POD("b"), 1,
	     "Could not allocate");
	assert_true(file_exists(&w->root, STORE "10.5.0.0-24@red/journal"));
}

static void test_flat_files_are_searched_in_order(void **state)
{
	static const struct {
		const char *path, *address;
	} files[] = {
		{FLAT3, A("10.3.0.1/24")}, {FLAT2, A("10.2.0.1/24")}, {FLAT1, A("10.1.0.1/24")}};
	struct t_dir *w = *state;

	gives(w, RANGE("10.0.0.0/24") ",\"configuration_path\":\"/none\"", POD("a"),
	      A("10.0.0.1/24"));
	for (size_t i = 0; i < ARRAY_LEN(files); i++) {
		auto_free char *text = xasprintf("{\"range\":\"10.%zu.0.0/24\"}", 3 - i);

		put(w, files[i].path, text);
		gives(w, "", POD("a"), files[i].address);
	}
	put(w, "/x/own.conf", "{" RANGE("10.4.0.0/24") "}");
	gives(w, "\"configuration_path\":\"/x/own.conf\"", POD("a"), A("10.4.0.1/24"));
	gives(w, "\"configuration_path\":\"/gone.conf\"", POD("a"), A("10.1.0.1/24"));
	put(w, "/x/own.conf", "{\"range\":5}");
	fails(w, "\"configuration_path\":\"/x/own.conf\"",
	      "LoadIPAMConfig Flatfile (/x/own.conf): ipam.range is 5, expected a string");
	put(w, "/x/own.conf", "{\"etcd_password\":\"secret\"");
	fails(w, "\"configuration_path\":\"/x/own.conf\"",
	      "LoadIPAMConfig Flatfile (/x/own.conf) - JSON Parsing Error: ");
	put(w, "/x/own.conf", "{\"range\":\"10.0.0.0/31\"}");
	fails(w, "\"configuration_path\":\"/x/own.conf\"",
	      "with the defaults of '/x/own.conf': conf.ipam: net mask is too short");
}

/* ADD, CHECK, STATUS and GC refuse a netconf or flat file with a kubeconfig, and the local store
 * is not used: two allocators would allocate the same addresses. */
static void test_netconf_with_a_kubeconfig_is_refused(void **state)
{
	struct t_dir *w = *state;
	static const char conf[] = RANGE("10.0.0.0/24") "," KUBE;
	static const char no[] =
		"{\"code\":50,\"msg\":\"kubernetes.kubeconfig is '/etc/k' in the netconf, ";

	fails(w, conf, "{\"code\":7,\"msg\":\"config file not found\"}");
	put(w, FLAT2, "{\"kubernetes\":{\"kubeconfig\":\"/etc/k2\"}}");
	fails(w, conf, no);
	fails(w, conf, "in the netconf, but unirail stores");
	fails(w, RANGE("10.0.0.0/24"), "kubernetes.kubeconfig is '/etc/k2' in '" FLAT2 "', but");
	said(w, "CHECK", conf, POD("a"), 1, no);
	said(w, "STATUS", conf, POD("a"), 1, no);
	auto_answer struct answer gc =
		call(w, "GC", conf, POD("a"), ",\"cni.dev/valid-attachments\":[]");
	ASSERT_EQ(gc.status, 1);
	assert_non_null(strstr(gc.out.p, no));
	del(w, conf, POD("a"));
	assert_false(file_exists(&w->root, STORE));
	/* An empty kubeconfig is accepted, and the local store is used. */
	put(w, FLAT2, "{}");
	gives(w,
	      RANGE("10.0.0.0/24") ",\"kubernetes\":{\"k8s_api_root\":\"x\",\"kubeconfig\":\"\"}",
	      POD("a"), A("10.0.0.1/24"));
}

static void test_log_levels_are_parsed(void **state)
{
	static const struct {
		const char *word;
		enum log_level level;
	} cases[] = {{"debug", LOG_DEBUG}, {"verbose", LOG_INFO}, {"Error", LOG_ERROR},
		     {"panic", LOG_NONE},  {"loud", LOG_WARN},	  {"", LOG_WARN}};
	struct t_dir *w = *state;

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		auto_free char *text =
			xasprintf("{\"ipam\":{\"type\":\"whereabouts\",\"log_level\":\"%s\","
				  "\"log_file\":\"/l\"}}",
				  cases[i].word);
		auto_whereabouts_conf struct whereabouts_conf c;
		auto_json struct json_doc *d = NULL;
		struct cni_call pod = {.args_text = "", .root = w->root};
		struct cni_ipam_call ipam = {.call = &pod};
		struct log_conf l;

		ASSERT_EQ_MSG(json_parse(&d, span_of(text), 4096, NULL), 0, "cases[%zu]", i);
		ipam.doc = d;
		ipam.conf = json_root(d);
		whereabouts_conf_log(&ipam, &c, &l);
		ASSERT_EQ_MSG(l.level, cases[i].level, "cases[%zu]", i);
		ASSERT_STR_EQ_MSG(l.path, "/l", "cases[%zu]", i);
	}
}

/* The plugin, found by its type, is called in process for two rails: it uses the interface of
 * each rail, not that of the pod's call. */
static void test_call_in_process_uses_the_interface_of_each_rail(void **state)
{
	struct t_dir *w = *state;
	auto_json struct json_doc *d = NULL;
	struct err e = ERR_INIT;
	struct cni_call pod = {.container_id = "pod",
			       .netns = "/ns",
			       .args_text = "K8S_POD_NAMESPACE=a;K8S_POD_NAME=b",
			       .root = w->root};
	struct cni_ipam_call c[2] = {
		{.call = &pod, .name = "n", .ifname = "net3", .version = CNI_1_0_0}};
	struct cni_result r[2] = {0};
	struct cni_ipam_flags flags[2];

	ASSERT_EQ(json_parse(&d,
			     span_of("{\"ipam\":{\"type\":\"whereabouts\"," RANGE(
				     "10.0.0.0/24") ",\"state_dir\":\"/own\"}}"),
			     4096, NULL),
		  0);
	c[0].doc = d;
	c[0].conf = json_root(d);
	c[0].type = cni_ipam_type(c[0].conf);
	c[0].out = &r[0];
	c[0].flags = &flags[0];
	c[1] = c[0];
	c[1].ifname = "net4";
	c[1].out = &r[1];
	c[1].flags = &flags[1];
	ASSERT_OK(cni_ipam_add(c, 2, &e), &e);
	for (size_t i = 0; i < 2; i++) {
		char text[IP_TEXT_MAX];

		ASSERT_STR_EQ(ipnet_str(&r[i].ips[0].address, text),
			      i ? "10.0.0.2/24" : "10.0.0.1/24");
		cni_result_done(&r[i]);
	}
	assert_true(file_exists(&w->root, "/own/whereabouts/10.0.0.0-24/journal"));
	ASSERT_EQ(cni_ipam_check(c, 2, &e), 0);
	ASSERT_EQ(cni_ipam_status(c, 2, &e), 0);
	ASSERT_EQ(cni_ipam_del(c, 2, &e), 0);
	ASSERT_EQ(cni_ipam_check(c, 1, &e), -ENOENT);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, t_dir_setup, t_dir_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_addresses_with_leading_zeros_are_parsed),
		TEST(test_ranges_are_parsed_and_invalid_ranges_are_refused),
		TEST(test_invalid_configuration_is_refused),
		TEST(test_pod_name_is_required),
		TEST(test_result_has_gateway_routes_and_dns),
		TEST(test_address_gets_a_gateway_of_its_own_family_only),
		TEST(test_addresses_of_cni_args_and_netconf_are_added_to_the_result),
		TEST(test_addresses_are_allocated_in_order),
		TEST(test_exhausted_range_is_reported),
		TEST(test_same_pod_gets_the_same_address),
		TEST(test_address_excluded_later_stays_with_its_container),
		TEST(test_repeated_request_of_overlapping_ranges_gets_the_same_addresses),
		TEST(test_overlapping_ranges_share_no_address),
		TEST(test_address_of_the_second_range_is_reserved_too),
		TEST(test_new_container_gets_no_address_allocated_from_an_overlapping_range),
		TEST(test_full_second_range_releases_the_address_of_the_first),
		TEST(test_failed_write_for_the_second_range_releases_the_address_of_the_first),
		TEST(test_del_releases_addresses_of_every_range),
		TEST(test_del_works_with_an_invalid_configuration),
		TEST(test_del_reports_failed_releases),
		TEST(test_check_compares_addresses_with_prev_result),
		TEST(test_gc_releases_addresses_of_invalid_attachments_of_its_network_only),
		TEST(test_keys_of_the_flat_file_are_defaults),
		TEST(test_flat_files_are_searched_in_order),
		TEST(test_netconf_with_a_kubeconfig_is_refused),
		TEST(test_log_levels_are_parsed),
		TEST(test_call_in_process_uses_the_interface_of_each_rail),
	};

	return T_RUN(tests, NULL, NULL);
}
