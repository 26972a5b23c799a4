/* SPDX-License-Identifier: Apache-2.0 */
/* Expected bytes and files: those of the plugin host-local of containernetworking/plugins,
 * v1.9.1. */
#include "testlib.h"

#include <errno.h>
#include <sys/stat.h>

#include "cni/ipam/ipam_plugins.h"
#include "cni_invoke.h"
#include "ipam/hostlocal/hostlocal.h"

#define NET "/var/lib/cni/networks/n/"

static void put(struct t_dir *w, const char *name, const char *text)
{
	auto_free char *path = xasprintf(NET "%s", name);

	ASSERT_EQ(dir_make(&w->root, NET, 0755, NULL), 0);
	ASSERT_EQ(file_replace(&w->root, path, span_of(text), 0600, NULL), 0);
}

static void file_is(struct t_dir *w, const char *name, const char *text)
{
	auto_free char *path = xasprintf(NET "%s", name);
	auto_buf struct buf b;

	buf_init(&b, 4096);
	if (file_read(&w->root, path, 4096, &b, NULL) < 0)
		fail_msg("file '%s' cannot be read", name);
	ASSERT_STR_EQ(b.p, text);
}

static void no_file(struct t_dir *w, const char *name)
{
	auto_free char *path = xasprintf(NET "%s", name);

	if (file_exists(&w->root, path))
		fail_msg("file '%s' exists", name);
}

static struct invocation call(struct t_dir *w, const char *command, const char *conf)
{
	return (struct invocation){
		.plugin = &cni_host_local, .command = command, .root = w->path, .conf = conf};
}

#define CONF(v, ipam)	  "{\"cniVersion\":\"" v "\",\"name\":\"n\",\"ipam\":{" ipam "}}"
#define CONF2(ipam, more) "{\"cniVersion\":\"1.1.0\",\"name\":\"n\",\"ipam\":{" ipam "}," more "}"
#define SUBNET		  "\"subnet\":\"10.1.2.0/24\""
#define SMALL		  SUBNET ",\"rangeStart\":\"10.1.2.1\",\"rangeEnd\":\"10.1.2.3\""
#define TWO		  "\"ranges\":[[{" SUBNET "}],[{\"subnet\":\"fd00::/64\"}]]"
#define IP4(a)		  "{\"address\":\"" a "/24\",\"gateway\":\"10.1.2.1\"}"
#define ADDED(v, list)	  "{\"cniVersion\":\"" v "\",\"ips\":[" list "]}"
#define EXHAUSTED                                                                                         \
	"{\"code\":11,\"msg\":\"failed to allocate for range 0: no IP addresses available in range set: " \
	"10.1.2.1-10.1.2.3\"}"

static void test_files_have_the_names_and_content_of_the_original(void **state)
{
	struct t_dir *w = *state;
	struct invocation v = call(w, "ADD", CONF("1.0.0", SUBNET));
	struct stat st;

	expect(&v, 0, ADDED("1.0.0", IP4("10.1.2.2")));
	file_is(w, "10.1.2.2", "c1\r\neth0");
	file_is(w, "last_reserved_ip.0", "10.1.2.2");
	file_is(w, "lock", "");
	ASSERT_EQ(file_lstat(&w->root, NET "10.1.2.2", &st, NULL), 0);
	ASSERT_EQ(st.st_mode & 07777, 0600);
	v.id = "c2";
	expect(&v, 0, ADDED("1.0.0", IP4("10.1.2.3")));
	file_is(w, "last_reserved_ip.0", "10.1.2.3");
	v.command = "DEL";
	expect(&v, 0, "");
	no_file(w, "10.1.2.3");
	file_is(w, "10.1.2.2", "c1\r\neth0");
	expect(&v, 0, "");
	/* Round robin: 10.1.2.3 is free, but the search begins after the address allocated last. */
	v.command = "ADD";
	expect(&v, 0, ADDED("1.0.0", IP4("10.1.2.4")));
}

static void test_result_has_the_form_of_the_requested_cni_version(void **state)
{
	static const struct {
		const char *conf, *out;
	} cases[] = {
		{CONF("0.2.0", TWO),
		 "{\"cniVersion\":\"0.2.0\",\"ip4\":{\"ip\":\"10.1.2.2/24\",\"gateway\":\"10.1.2.1\"},"
		 "\"ip6\":{\"ip\":\"fd00::2/64\",\"gateway\":\"fd00::1\"},\"dns\":{}}"},
		{CONF("0.4.0", TWO ",\"routes\":[{\"dst\":\"0.0.0.0/0\"}]"),
		 "{\"cniVersion\":\"0.4.0\",\"ips\":[{\"version\":\"4\",\"address\":\"10.1.2.3/24\","
		 "\"gateway\":\"10.1.2.1\"},{\"version\":\"6\",\"address\":\"fd00::3/64\","
		 "\"gateway\":\"fd00::1\"}],\"routes\":[{\"dst\":\"0.0.0.0/0\"}],\"dns\":{}}"},
		{CONF("1.1.0", TWO),
		 "{\"cniVersion\":\"1.1.0\",\"ips\":[" IP4(
			 "10.1.2.4") ",{\"address\":\"fd00::4/64\",\"gateway\":\"fd00::1\"}]}"},
	};
	struct t_dir *w = *state;

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		char id[8];
		struct invocation v = call(w, "ADD", cases[i].conf);

		snprintf(id, sizeof(id), "v%zu", i);
		v.id = id;
		expect(&v, 0, cases[i].out);
	}
	file_is(w, "fd00::4", "v2\r\neth0");
	file_is(w, "last_reserved_ip.1", "fd00::4");
}

static void test_exhausted_range_is_reported_until_a_release(void **state)
{
	struct t_dir *w = *state;
	struct invocation v = call(w, "ADD", CONF("1.0.0", SMALL));

	v.id = "a";
	expect(&v, 0, ADDED("1.0.0", IP4("10.1.2.2")));
	v.id = "b";
	expect(&v, 0, ADDED("1.0.0", IP4("10.1.2.3")));
	v.id = "c";
	expect(&v, 1, EXHAUSTED);
	/* The address allocated last is tried last. */
	v.id = "b";
	v.command = "DEL";
	expect(&v, 0, "");
	v.id = "c";
	v.command = "ADD";
	expect(&v, 0, ADDED("1.0.0", IP4("10.1.2.3")));
}

static void test_search_starts_after_the_last_reserved_address(void **state)
{
	static const struct {
		const char *last, *next;
	} cases[] = {{"10.1.2.254", "10.1.2.2"}, {"10.1.2.9", "10.1.2.10"},
		     {"10.9.9.9", "10.1.2.2"},	 {"garbage", "10.1.2.2"},
		     {"", "10.1.2.2"},		 {"10.1.2.1", "10.1.2.2"}};
	struct t_dir *w = *state;

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct invocation v = call(w, "ADD", CONF("1.0.0", SUBNET));
		auto_free char *want = xasprintf("{\"cniVersion\":\"1.0.0\",\"ips\":[{\"address\":"
						 "\"%s/24\",\"gateway\":\"10.1.2.1\"}]}",
						 cases[i].next);

		put(w, "last_reserved_ip.0", cases[i].last);
		expect(&v, 0, want);
		v.command = "DEL";
		expect(&v, 0, "");
	}
}

static void test_ranges_are_used_one_after_the_other(void **state)
{
	struct t_dir *w = *state;
	struct invocation v =
		call(w, "ADD",
		     CONF("1.0.0",
			  "\"ranges\":[[{\"subnet\":\"10.1.2.0/24\",\"rangeStart\":\"10.1.2.4\","
			  "\"rangeEnd\":\"10.1.2.5\"},{\"subnet\":\"10.1.3.0/30\"}]]"));
	static const char *const want[] = {
		ADDED("1.0.0", IP4("10.1.2.4")), ADDED("1.0.0", IP4("10.1.2.5")),
		ADDED("1.0.0", "{\"address\":\"10.1.3.2/30\",\"gateway\":\"10.1.3.1\"}")};

	for (size_t i = 0; i < ARRAY_LEN(want); i++) {
		char id[8];

		snprintf(id, sizeof(id), "r%zu", i);
		v.id = id;
		expect(&v, 0, want[i]);
	}
	v.id = "x";
	expect(&v, 1,
	       "{\"code\":11,\"msg\":\"failed to allocate for range 0: no IP addresses available in "
	       "range set: 10.1.2.4-10.1.2.5,10.1.3.1-10.1.3.2\"}");
}

static void test_requested_addresses_are_allocated_or_refused(void **state)
{
	static const struct {
		const char *args, *conf;
		int status;
		const char *out;
	} cases[] = {
		{"IP=10.1.2.77", CONF("1.1.0", SUBNET), 0, ADDED("1.1.0", IP4("10.1.2.77"))},
		{"IP=10.1.2.78/24", CONF("1.1.0", SUBNET), 0, ADDED("1.1.0", IP4("10.1.2.78"))},
		{"IP=", CONF("1.1.0", SUBNET), 0, ADDED("1.1.0", IP4("10.1.2.79"))},
		{NULL,
		 CONF2(TWO, "\"args\":{\"cni\":{\"ips\":[\"10.1.2.9\"]}},"
			    "\"runtimeConfig\":{\"ips\":[\"fd00::9/64\"]}"),
		 0,
		 ADDED("1.1.0",
		       IP4("10.1.2.9") ",{\"address\":\"fd00::9/64\",\"gateway\":\"fd00::1\"}")},
		{NULL,
		 CONF2(SUBNET, "\"runtimeConfig\":{\"ipRanges\":[[{\"subnet\":\"10.7.0.0/24\"}]]}"),
		 0,
		 ADDED("1.1.0",
		       "{\"address\":\"10.7.0.2/24\",\"gateway\":\"10.7.0.1\"}," IP4("10.1.2.2"))},
		{"IP=10.1.2.1", CONF("1.1.0", SUBNET), 1,
		 "{\"code\":7,\"msg\":\"failed to allocate for range 0: requested ip 10.1.2.1 is "
		 "subnet's gateway\"}"},
		{"IP=10.1.2.50", CONF("1.1.0", SUBNET), 1,
		 "{\"code\":11,\"msg\":\"failed to allocate for range 0: requested IP address "
		 "10.1.2.50 is not available in range set 10.1.2.1-10.1.2.254\"}"},
		{NULL, CONF2(SUBNET, "\"runtimeConfig\":{\"ips\":[\"10.9.9.9\",\"fd00::1\"]}"), 1,
		 "{\"code\":7,\"msg\":\"failed to allocate all requested IPs: 10.9.9.9 fd00::1\"}"},
		{"IP=x", CONF("1.1.0", SUBNET), 1,
		 "{\"code\":4,\"msg\":\"ARGS: error parsing value of pair \\\"IP=x\\\": invalid IP "
		 "address x\"}"},
		{NULL, CONF2(SUBNET, "\"runtimeConfig\":{\"ips\":[\"\"]}"), 1,
		 "{\"code\":7,\"msg\":\"cannot understand ip: IP \\u003cnil\\u003e not v4 nor v6\"}"},
	};
	struct t_dir *w = *state;

	put(w, "10.1.2.50", "other\r\neth0");
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct invocation v = call(w, "ADD", cases[i].conf);

		v.args = cases[i].args;
		expect(&v, cases[i].status, cases[i].out);
		v.command = "DEL";
		expect(&v, 0, "");
	}
}

static void expect_too_many(struct t_dir *w)
{
	struct buf b;
	auto_free char *conf = NULL;
	struct invocation v;

	buf_init(&b, 8192);
	buf_str(&b, "{\"cniVersion\":\"1.0.0\",\"name\":\"n\",\"ipam\":{\"ranges\":[[]");
	for (int i = 0; i < 256; i++)
		buf_str(&b, ",[]");
	buf_str(&b, "]}}");
	conf = buf_take(&b);
	v = call(w, "ADD", conf);
	expect(&v, 1,
	       "{\"code\":7,\"msg\":\"conf.ipam.ranges: more than 256 range sets in total (a pod gets one "
	       "address of each set)\"}");
}

static void test_invalid_ranges_are_refused(void **state)
{
	static const struct {
		const char *ipam, *msg;
	} cases[] = {
		{"", "no IP ranges specified"},
		{"\"ranges\":[]", "no IP ranges specified"},
		{"\"ranges\":[[]]", "invalid range set 0: empty range set"},
		{"\"ranges\":[[{}]]", "invalid range set 0: IP \\u003cnil\\u003e not v4 nor v6"},
		{"\"subnet\":\"10.1.2.1/24\"",
		 "invalid range set 0: Network has host bits set. For a subnet mask of length 24 the "
		 "network address is 10.1.2.0"},
		{"\"subnet\":\"10.1.2.0/31\"",
		 "invalid range set 0: Network 10.1.2.0/31 too small to allocate from"},
		{"\"subnet\":\"fd00::/127\"",
		 "invalid range set 0: Network fd00::/127 too small to allocate from"},
		{SUBNET ",\"rangeStart\":\"10.1.3.1\"",
		 "invalid range set 0: RangeStart 10.1.3.1 not in network 10.1.2.0/24"},
		{SUBNET ",\"rangeStart\":\"10.1.2.9\",\"rangeEnd\":\"10.1.2.8\"",
		 "invalid range set 0: RangeStart 10.1.2.9 not in network 10.1.2.0/24"},
		{SUBNET ",\"rangeEnd\":\"fd00::1\"",
		 "invalid range set 0: RangeEnd fd00::1 not in network 10.1.2.0/24"},
		{"\"ranges\":[[{" SUBNET "},{\"subnet\":\"fd00::/64\"}]]",
		 "invalid range set 0: mixed address families"},
		{"\"ranges\":[[{" SUBNET "},{" SMALL "}]]",
		 "invalid range set 0: subnets 10.1.2.1-10.1.2.254 and 10.1.2.1-10.1.2.3 overlap"},
		{"\"ranges\":[[{" SUBNET "}],[{\"subnet\":\"fd00::/64\"}],[{" SMALL "}]]",
		 "range set 0 overlaps with 2"},
		{SUBNET ",\"dataDir\":\"rel\"",
		 "conf.ipam.dataDir is \\\"rel\\\", expected an absolute path"},
		{SUBNET ",\"ranges\":{}",
		 "conf.ipam.ranges is an object, expected an array of range sets"},
		{"\"ranges\":[[{\"subnet\":\"x\"}]]",
		 "conf.ipam.ranges[0][0].subnet is \\\"x\\\", expected an address and prefix length like "
		 "10.0.0.0/24"},
		{SUBNET ",\"routes\":[{}]", "conf.ipam.routes[0].dst is missing"},
	};
	struct t_dir *w = *state;

	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		auto_free char *conf = xasprintf(
			"{\"cniVersion\":\"1.0.0\",\"name\":\"n\",\"ipam\":{%s}}", cases[i].ipam);
		auto_free char *out = xasprintf("{\"code\":7,\"msg\":\"%s\"}", cases[i].msg);
		struct invocation v = call(w, "ADD", conf);

		expect(&v, 1, out);
	}
	expect_too_many(w);
	expect(&(struct invocation){.plugin = &cni_host_local,
				    .command = "ADD",
				    .root = w->path,
				    .conf = CONF("0.2.0", SUBNET
						 ",\"ranges\":[[{\"subnet\":\"10.2.0.0/16\"}]]")},
	       1,
	       "{\"code\":7,\"msg\":\"CNI version 0.2.0 does not support more than 1 address per "
	       "family\"}");
	assert_false(file_exists(&w->root, NET));
}

/* Two later ADDs of the same owner fail: the first in its only range set, the second in the
 * second of its two range sets. */
static void test_failed_add_releases_its_addresses_only(void **state)
{
	struct t_dir *w = *state;
	struct invocation v = call(w, "ADD", CONF("1.0.0", SUBNET));
	static const char dup[] =
		"{\"code\":999,\"msg\":\"failed to allocate for range %d: 10.1.2.2 has "
		"been allocated to c1, duplicate allocation is not allowed\"}";
	char want[256];

	expect(&v, 0, ADDED("1.0.0", IP4("10.1.2.2")));
	snprintf(want, sizeof(want), dup, 0);
	expect(&v, 1, want);
	v.conf = CONF("1.0.0", "\"ranges\":[[{\"subnet\":\"10.3.0.0/24\"}],[{" SUBNET "}]]");
	snprintf(want, sizeof(want), dup, 1);
	expect(&v, 1, want);
	no_file(w, "10.3.0.2");
	/* Differs from the original, which releases the address of the earlier ADD here. */
	file_is(w, "10.1.2.2", "c1\r\neth0");
	/* Another interface of the pod is another owner. */
	v.ifname = "eth1";
	v.conf = CONF("1.0.0", SUBNET);
	expect(&v, 0, ADDED("1.0.0", IP4("10.1.2.3")));
}

static void test_records_without_interface_are_recognized(void **state)
{
	struct t_dir *w = *state;
	struct invocation v = call(w, "ADD", CONF("1.0.0", SUBNET));

	put(w, "10.1.2.9", "c1\n");
	expect(&v, 1,
	       "{\"code\":999,\"msg\":\"failed to allocate for range 0: 10.1.2.9 has been allocated to "
	       "c1, duplicate allocation is not allowed\"}");
	v.command = "CHECK";
	expect(&v, 0, "");
	put(w, "10.1.2.8", "c1\r\neth0");
	v.command = "DEL";
	expect(&v, 0, "");
	no_file(w, "10.1.2.8");
	file_is(w, "10.1.2.9", "c1\n"); /* deleted only if the owner has no other record */
	expect(&v, 0, "");
	no_file(w, "10.1.2.9");
}

#define PREV(ip) "\"prevResult\":{\"ips\":[{\"address\":\"" ip "/24\"}]}"

static void test_del_releases_addresses_of_the_owner_only(void **state)
{
	struct t_dir *w = *state;
	struct invocation v = call(w, "DEL", CONF("1.0.0", SUBNET));

	expect(&v, 0, "");
	assert_false(file_exists(&w->root, NET));
	put(w, "10.1.2.2", "c1\r\neth0");
	put(w, "10.1.2.3", "c1\r\neth0");
	put(w, "10.1.2.4", "c2\r\neth0");
	/* prevResult has the address of another container, so DEL searches the files of all
	 * addresses. */
	v.conf = CONF2(SUBNET, PREV("10.1.2.4"));
	expect(&v, 0, "");
	no_file(w, "10.1.2.2");
	no_file(w, "10.1.2.3");
	file_is(w, "10.1.2.4", "c2\r\neth0");
	put(w, "10.1.2.2", "c1\r\neth0");
	v.conf = CONF2(SUBNET, PREV("10.1.2.2"));
	expect(&v, 0, "");
	no_file(w, "10.1.2.2");
	/* DEL releases the address although the range is invalid. */
	put(w, "10.1.2.2", "c1\r\neth0");
	v.conf = CONF("1.0.0", "\"subnet\":\"10.1.2.1/24\"");
	expect(&v, 0, "");
	no_file(w, "10.1.2.2");
	v.conf = "{\"cniVersion\":\"1.0.0\",\"name\":\"n\"}";
	expect(&v, 1, "{\"code\":7,\"msg\":\"IPAM config missing 'ipam' key\"}");
}

static void test_check_requires_an_address_of_the_owner(void **state)
{
	struct t_dir *w = *state;
	struct invocation v = call(w, "CHECK", CONF("1.0.0", SUBNET));
	static const char missing[] =
		"{\"code\":999,\"msg\":\"host-local: Failed to find address added by container c1\"}";

	expect(&v, 1, missing);
	put(w, "10.1.2.2", "c1\r\neth1");
	expect(&v, 1, missing);
	put(w, "10.1.2.3", "c1\r\neth0");
	expect(&v, 0, "");
	put(w, "10.1.2.4", "c2\r\neth0");
	v.conf = CONF2(SUBNET, PREV("10.1.2.4"));
	expect(&v, 1,
	       "{\"code\":999,\"msg\":\"host-local: address 10.1.2.4 in prevResult of container "
	       "c1 is recorded for container c2, interface eth0\"}");
	v.conf = CONF2(SUBNET, PREV("10.1.2.3"));
	expect(&v, 0, "");
}

#define VALID(list) CONF2(SUBNET, "\"cni.dev/valid-attachments\":[" list "]")

static void test_gc_releases_addresses_of_invalid_attachments(void **state)
{
	struct t_dir *w = *state;
	struct invocation v = call(w, "GC", VALID(""));

	expect(&v, 0, "");
	assert_false(file_exists(&w->root, NET));
	put(w, "10.1.2.2", "a\r\neth0");
	put(w, "10.1.2.3", "a\r\neth1");
	put(w, "10.1.2.4", "old");
	put(w, "10.1.2.5", "gone");
	put(w, "10.1.2.6", "");
	put(w, "last_reserved_ip.0", "10.1.2.6");
	put(w, "fd00::1", "b\r\neth0");
	/* without a list of valid attachments GC releases no address */
	v.conf = CONF("1.1.0", SUBNET);
	expect(&v, 0, "");
	file_is(w, "fd00::1", "b\r\neth0");
	v.conf = VALID("{\"containerID\":\"a\",\"ifname\":\"eth0\"},{\"containerID\":\"old\","
		       "\"ifname\":\"x\"}");
	expect(&v, 0, "");
	file_is(w, "10.1.2.2", "a\r\neth0");
	no_file(w, "10.1.2.3");
	file_is(w, "10.1.2.4", "old");
	no_file(w, "10.1.2.5");
	file_is(w, "10.1.2.6", ""); /* a file without an owner is retained */
	no_file(w, "fd00::1");
	file_is(w, "last_reserved_ip.0", "10.1.2.6");
	/* An empty file counts as an allocated address. */
	v = call(w, "ADD", CONF("1.0.0", SMALL));
	put(w, "10.1.2.3", "");
	expect(&v, 1, EXHAUSTED);
}

static void test_status_reports_missing_ranges_and_a_file_as_data_directory(void **state)
{
	struct t_dir *w = *state;
	struct invocation v = call(w, "STATUS", CONF("1.1.0", SUBNET));

	expect(&v, 0, "");
	v.conf = CONF("1.1.0", "");
	expect(&v, 1, "{\"code\":7,\"msg\":\"no IP ranges specified\"}");
	ASSERT_EQ(file_replace(&w->root, "/file", span_of(""), 0600, NULL), 0);
	v.conf = CONF("1.1.0", SUBNET ",\"dataDir\":\"/file\"");
	expect(&v, 1,
	       "{\"code\":50,\"msg\":\"address store of network 'n': create directory '/file': "
	       "Not a directory (ENOTDIR)\"}");
}

static void test_dns_is_read_from_resolv_conf(void **state)
{
	struct t_dir *w = *state;
	struct invocation v =
		call(w, "ADD", CONF("0.4.0", SUBNET ",\"resolvConf\":\"/resolv.conf\""));

	expect(&v, 1,
	       "{\"code\":5,\"msg\":\"conf.ipam.resolvConf: open '/resolv.conf': No such file or directory (ENOENT)\"}");
	no_file(w, "10.1.2.2");
	ASSERT_EQ(
		file_replace(&w->root, "/resolv.conf",
			     span_of("# c\n;c\n\nnameserver 1.1.1.1\n nameserver\t8.8.8.8 x\r\n"
				     "domain  d.e \nsearch a b\nsearch c\noptions ndots:5 rotate\n"
				     "nameserver\nbogus x\nnameserver 9.9.9.9"),
			     0600, NULL),
		0);
	expect(&v, 0,
	       "{\"cniVersion\":\"0.4.0\",\"ips\":[{\"version\":\"4\",\"address\":\"10.1.2.2/24\","
	       "\"gateway\":\"10.1.2.1\"}],\"dns\":{\"nameservers\":[\"1.1.1.1\",\"8.8.8.8\","
	       "\"9.9.9.9\"],\"domain\":\"d.e\",\"search\":[\"a\",\"b\",\"c\"],"
	       "\"options\":[\"ndots:5\",\"rotate\"]}}");
}

/* Only temporary files of unirail are removed. */
static void test_unreadable_records_count_as_allocated_and_other_files_are_retained(void **state)
{
	struct t_dir *w = *state;
	struct invocation v = call(w, "ADD", CONF("1.0.0", SMALL));
	static char big[8192];

	memset(big, 'x', sizeof(big) - 1);
	ASSERT_EQ(dir_make(&w->root, NET "10.1.2.2", 0755, NULL), 0);
	put(w, "10.1.2.3", big);
	put(w, "not-an-ip", "c1\r\neth0");
	put(w, ".10.1.2.2.0123abcd.tmp", "left by a kill");
	put(w, ".somebody.0123abcd.tmp", "another's");
	expect(&v, 1, EXHAUSTED);
	no_file(w, ".10.1.2.2.0123abcd.tmp");
	file_is(w, ".somebody.0123abcd.tmp", "another's");
	v.command = "DEL";
	expect(&v, 0, "");
	file_is(w, "not-an-ip", "c1\r\neth0");
}

/* The lock is the same as the original's: flock on the file `lock`. */
static void test_store_is_locked_like_the_original(void **state)
{
	struct t_dir *w = *state;
	struct hostlocal a = HOSTLOCAL_INIT;
	int fd;

	ASSERT_EQ(hostlocal_open(&a, &w->root, "/d", "n", true, NULL), 0);
	ASSERT_EQ(lock_take(&w->root, "/d/n/lock", 0, &fd, NULL), -EWOULDBLOCK);
	hostlocal_close(&a);
	ASSERT_EQ(lock_take(&w->root, "/d/n/lock", 0, &fd, NULL), 0);
	close(fd);
	ASSERT_EQ(hostlocal_open(&a, &w->root, "/d", "other", false, NULL), -ENOENT);
}

/* unirail-cni calls host-local as a function for each rail, with the network name and interface
 * of the rail, which differ from those of the pod's CNI call. */
static void test_call_in_process_uses_name_and_interface_of_the_rail(void **state)
{
	struct t_dir *w = *state;
	auto_json struct json_doc *d = NULL;
	auto_result struct cni_result r = {0};
	struct err e = ERR_INIT;
	struct cni_call pod = {.container_id = "pod", .args_text = "", .root = w->root};
	struct cni_ipam_call c = {
		.call = &pod, .name = "n", .ifname = "net3", .version = CNI_1_0_0};

	ASSERT_EQ(json_parse(&d, span_of("{\"ipam\":{" SUBNET "}}"), 4096, NULL), 0);
	c.doc = d;
	c.conf = json_root(d);
	ASSERT_EQ(host_local_add(&c, &r, &e), 0);
	file_is(w, "10.1.2.2", "pod\r\nnet3");
	ASSERT_EQ(host_local_del(&c, &e), 0);
	no_file(w, "10.1.2.2");
	c.name = "../../etc";
	ASSERT_EQ(host_local_del(&c, &e), -EINVAL);
	ASSERT_EQ(e.kind, ERR_CONF);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, t_dir_setup, t_dir_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(test_files_have_the_names_and_content_of_the_original),
		TEST(test_result_has_the_form_of_the_requested_cni_version),
		TEST(test_exhausted_range_is_reported_until_a_release),
		TEST(test_search_starts_after_the_last_reserved_address),
		TEST(test_ranges_are_used_one_after_the_other),
		TEST(test_requested_addresses_are_allocated_or_refused),
		TEST(test_invalid_ranges_are_refused),
		TEST(test_failed_add_releases_its_addresses_only),
		TEST(test_records_without_interface_are_recognized),
		TEST(test_del_releases_addresses_of_the_owner_only),
		TEST(test_check_requires_an_address_of_the_owner),
		TEST(test_gc_releases_addresses_of_invalid_attachments),
		TEST(test_status_reports_missing_ranges_and_a_file_as_data_directory),
		TEST(test_dns_is_read_from_resolv_conf),
		TEST(test_unreadable_records_count_as_allocated_and_other_files_are_retained),
		TEST(test_store_is_locked_like_the_original),
		TEST(test_call_in_process_uses_name_and_interface_of_the_rail),
	};

	return T_RUN(tests, NULL, NULL);
}
