/* SPDX-License-Identifier: Apache-2.0 */
/* The networks annotation of a pod in both formats, valid and invalid. */
#include "testlib.h"

#include <stdlib.h>
#include <string.h>

#include "spec/network_annotation.h"
#include "base/alloc.h"

static void put_strs(struct buf *b, const char *key, const struct json_strs *l)
{
	for (size_t i = 0; i < l->n; i++)
		buf_printf(b, "%s%s", i ? "+" : key, l->v[i]);
}

/* Appends the parsed network: ns/name@if and, in brackets, the other fields. */
static void put(struct buf *b, const struct network_request *a)
{
	buf_printf(b, "%s%s/%s", b->len ? " " : "", a->ns, a->name);
	if (a->ifname)
		buf_printf(b, "@%s", a->ifname);
	if (a->mac)
		buf_printf(b, "[mac %s]", a->mac);
	if (a->guid)
		buf_printf(b, "[guid %s]", a->guid);
	if (a->device_id)
		buf_printf(b, "[device %s]", a->device_id);
	put_strs(b, "[ips ", &a->ips);
	put_strs(b, "[via ", &a->routes);
	if (a->ports)
		buf_printf(b, "[%zu ports]", json_len(a->ports));
	if (a->bandwidth)
		buf_printf(b, "[%zu limits]", json_len(a->bandwidth));
	if (a->cni_args)
		buf_printf(b, "[%zu args]", json_len(a->cni_args));
}

static const struct {
	const char *text, *is;
} good[] = {
	{"", ""},
	{"rail0", "pod/rail0"},
	{"a", "pod/a"},
	{"0", "pod/0"},
	{"team/rail0", "team/rail0"},
	{"rail0@net9", "pod/rail0@net9"},
	{"team/rail0@rdma0", "team/rail0@rdma0"},
	{"rail0,rail1", "pod/rail0 pod/rail1"},
	{" rail0 ,\n\trail1\r\n", "pod/rail0 pod/rail1"},
	{"rail0,rail0,rail0", "pod/rail0 pod/rail0 pod/rail0"},
	{"a/x@i0,b/y@i1,z", "a/x@i0 b/y@i1 pod/z"},
	{"team / rail0 @ net9", "team/rail0@net9"},
	{"/rail0", "pod/rail0"},
	{"rail0@", "pod/rail0"},
	{"a-b-c/d--e", "a-b-c/d--e"},
	{"rail0@ABC_def.0-1", "pod/rail0@ABC_def.0-1"},
	{"rail0@fifteen-bytes-x", "pod/rail0@fifteen-bytes-x"},

	{"[]", ""},
	{"[{\"name\":\"rail0\"}]", "pod/rail0"},
	{" [ { \"name\" : \"rail0\" } ] ", "pod/rail0"},
	{"[{\"NAME\":\"rail0\",\"Namespace\":\"team\"}]", "team/rail0"},
	{"[{\"name\":\"a\",\"name\":\"b\"}]", "pod/b"},
	{"[{\"name\":\"rail.0\",\"namespace\":\"\"}]", "pod/rail.0"},
	{"[{\"name\":\"rail0\",\"namespace\":null}]", "pod/rail0"},
	{"[{\"name\":\"rail0\",\"interface\":\"net9\"}]", "pod/rail0@net9"},
	{"[{\"name\":\"rail0\",\"interface\":\"\"}]", "pod/rail0"},
	{"[{\"name\":\"rail0\",\"interfaceRequest\":\"old0\"}]", "pod/rail0@old0"},
	{"[{\"name\":\"rail0\",\"interfaceRequest\":\"old0\",\"interface\":\"new0\"}]",
	 "pod/rail0@new0"},
	{"[{\"name\":\"a\"},{\"name\":\"a\",\"namespace\":\"x\"}]", "pod/a x/a"},
	{"[{\"name\":\"a\",\"mac\":\"02:00:5e:10:00:01\"}]", "pod/a[mac 02:00:5e:10:00:01]"},
	{"[{\"name\":\"a\",\"mac\":\"0200.5e10.0001\"}]", "pod/a[mac 0200.5e10.0001]"},
	{"[{\"name\":\"a\",\"mac\":\"\"}]", "pod/a"},
	{"[{\"name\":\"a\",\"infiniband-guid\":\"c2:11:22:33:44:55:66:77\"}]",
	 "pod/a[guid c2:11:22:33:44:55:66:77]"},
	{"[{\"name\":\"a\",\"deviceID\":\"0000:3b:02.1\"}]", "pod/a[device 0000:3b:02.1]"},
	{"[{\"name\":\"a\",\"ips\":[\"10.0.0.9\",\"fd00::9/64\"]}]",
	 "pod/a[ips 10.0.0.9+fd00::9/64"},
	{"[{\"name\":\"a\",\"ips\":[]}]", "pod/a"},
	{"[{\"name\":\"a\",\"default-route\":[\"10.0.0.1\",\"fd00::1\"]}]",
	 "pod/a[via 10.0.0.1+fd00::1"},
	{"[{\"name\":\"a\",\"portMappings\":[{\"hostPort\":80,\"containerPort\":8080}]}]",
	 "pod/a[1 ports]"},
	{"[{\"name\":\"a\",\"bandwidth\":{\"ingressRate\":1,\"egressRate\":2}}]",
	 "pod/a[2 limits]"},
	{"[{\"name\":\"a\",\"cni-args\":{\"guid\":\"x\"}}]", "pod/a[1 args]"},
	{"[{\"name\":\"a\",\"ipam-claim-reference\":\"b\",\"else\":[1]}]", "pod/a"},
};

static const struct {
	const char *text, *word;
} bad[] = {
	{" ", "mismatch @ ''"},
	{",", "mismatch @ ''"},
	{"rail0,", "mismatch @ ''"},
	{"a//b", "failed at '/'"},
	{"a/b/c", "failed at '/'"},
	{"a@b@c", "failed at '@'"},
	{"a@b/c@d", "failed at '@'"},
	{"team/", "mismatch @ ''"},
	{"Rail0", "mismatch @ 'Rail0'"},
	{"rail.0", "mismatch @ 'rail.0'"},
	{"rail_0", "mismatch @ 'rail_0'"},
	{"-rail", "mismatch @ '-rail'"},
	{"rail-", "mismatch @ 'rail-'"},
	{"Team/rail0", "mismatch @ 'Team'"},
	{"ra il", "mismatch @ 'ra il'"},
	{"rail0;rail1", "mismatch @ 'rail0;rail1'"},
	{"r\xc3\xa4il", "mismatch"},
	{"rail0@sixteen-bytes-xy", "interface name 'sixteen-bytes-xy'"},
	{"rail0@a b", "interface name 'a b'"},
	{"rail0@a:b", "interface name 'a:b'"},
	{"rail0@..", "interface name '..'"},

	{"{\"name\":\"a\"}", "the annotation is an object, expected an array of networks"},
	{"\"a\"", "the annotation is \"a\", expected an array of networks"},
	{"[\"a\"]", "[0] is \"a\", expected an object"},
	{"[null]", "[0] is null, expected an object"},
	{"[{\"name\":\"a\"},7]", "[1] is 7, expected an object"},
	{"[{\"name\":\"a\"}", "JSON format"},
	{"[{\"name\":\"a\"}] x", "JSON format"},
	{"[{'name':'a'}]", "JSON format"},
	{"[{}]", "[0] has no 'name'"},
	{"[{\"name\":\"\"}]", "[0] has no 'name'"},
	{"[{\"name\":1}]", "[0].name is 1, expected a string"},
	{"[{\"name\":\"team/rail0\"}]", "set the namespace with the key 'namespace'"},
	{"[{\"name\":\"a\",\"namespace\":\"x y\"}]", "[0].namespace is 'x y'"},
	{"[{\"name\":\"a\",\"interface\":\"sixteen-bytes-xy\"}]", "'sixteen-bytes-xy'"},
	{"[{\"name\":\"a\",\"interface\":\"a/b\"}]", "'a/b'"},
	{"[{\"name\":\"a\",\"mac\":\"02:00\"}]", "[0].mac is '02:00'"},
	{"[{\"name\":\"a\",\"mac\":5}]", "[0].mac is 5"},
	{"[{\"name\":\"a\",\"infiniband-guid\":\"0x1\"}]", "[0].infiniband-guid is '0x1'"},
	{"[{\"name\":\"a\",\"ips\":\"10.0.0.9\"}]", "[0].ips is \"10.0.0.9\""},
	{"[{\"name\":\"a\",\"ips\":[\"10.0.0.256\"]}]", "[0].ips[0] is '10.0.0.256'"},
	{"[{\"name\":\"a\"},{\"name\":\"b\",\"ips\":[\"1.1.1.1\",\"\"]}]", "[1].ips[1] is ''"},
	{"[{\"name\":\"a\",\"ips\":[\"10.0.0.9/33\"]}]", "[0].ips[0]"},
	{"[{\"name\":\"a\",\"default-route\":[\"10.0.0.0/8\"]}]", "[0].default-route[0]"},
	{"[{\"name\":\"a\",\"default-route\":\"10.0.0.1\"}]", "[0].default-route is \"10.0.0.1\""},
	{"[{\"name\":\"a\",\"portMappings\":{}}]", "[0].portMappings is an object"},
	{"[{\"name\":\"a\",\"bandwidth\":[]}]", "[0].bandwidth is an array"},
	{"[{\"name\":\"a\",\"cni-args\":\"x\"}]", "[0].cni-args is \"x\""},
};

static void test_valid_network_annotations_are_parsed(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(good); i++) {
		struct net_select s = {0};
		struct err e = ERR_INIT;
		auto_buf struct buf b;

		buf_init(&b, 4096);
		if (net_select_parse(good[i].text, "pod", &s, &e) < 0)
			fail_msg("'%s': %s", good[i].text, e.text);
		for (size_t k = 0; k < s.n; k++)
			put(&b, &s.v[k]);
		if (strcmp(b.p ? b.p : "", good[i].is) != 0)
			fail_msg("'%s' is parsed as '%s', expected '%s'", good[i].text,
				 b.p ? b.p : "", good[i].is);
		net_select_done(&s);
	}
}

static void test_invalid_network_annotations_are_refused(void **state)
{
	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
		struct net_select s = {.n = 77};
		struct err e = ERR_INIT;

		if (net_select_parse(bad[i].text, "pod", &s, &e) == 0)
			fail_msg("'%s' is accepted, expected a refusal", bad[i].text);
		if (!strstr(e.text, bad[i].word))
			fail_msg("'%s': '%s' does not contain '%s'", bad[i].text, e.text,
				 bad[i].word);
		ASSERT_EQ_MSG(e.kind, ERR_CONF, "bad[%zu]", i);
		ASSERT_EQ_MSG(s.n, 77, "bad[%zu]", i);
	}
}

static void test_number_of_networks_is_limited(void **state)
{
	struct net_select s = {0};
	struct err e = ERR_INIT;
	auto_buf struct buf b;

	(void)state;
	buf_init(&b, 1 << 20);
	for (int i = 0; i < NET_SELECT_MAX; i++)
		buf_printf(&b, "%sn%d", i ? "," : "", i);
	ASSERT_EQ(net_select_parse(b.p, "pod", &s, &e), 0);
	ASSERT_EQ(s.n, NET_SELECT_MAX);
	net_select_done(&s);
	buf_str(&b, ",last");
	assert_true(net_select_parse(b.p, "pod", &s, &e) < 0);
	assert_non_null(strstr(e.text, "more than 127 networks"));
	ASSERT_EQ(net_select_parse(NULL, "pod", &s, &e), 0);
	ASSERT_EQ(s.n, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_valid_network_annotations_are_parsed),
		cmocka_unit_test(test_invalid_network_annotations_are_refused),
		cmocka_unit_test(test_number_of_networks_is_limited),
	};

	return T_RUN(tests, NULL, NULL);
}
