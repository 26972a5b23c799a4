/* SPDX-License-Identifier: Apache-2.0 */
/* ipoib: netconf, requests to the kernel, leftover links. */
#include "testlib.h"

#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "cni/attach/attach.h"
#include "rail_lab.h"

static struct err e;

static int read_text(const char *more, struct rail_conf *c)
{
	auto_free char *text = xasprintf("{\"master\":\"ib0\"%s%s}", *more ? "," : "", more);

	return rl_read(&ipoib_kind, text, NULL, c, &e);
}

static struct rail_conf conf(const char *more)
{
	struct rail_conf c;

	ASSERT_OK(read_text(more, &c), &e);
	return c;
}

static void refused(const char *more, enum err_kind kind, const char *expected)
{
	struct rail_conf c;

	assert_true(read_text(more, &c) < 0);
	ASSERT_STR_EQ(e.text, expected);
	ASSERT_EQ(e.kind, kind);
}

static void test_partition_keys_are_parsed(void **state)
{
	static const struct {
		const char *text;
		uint16_t pkey;
	} all[] = {
		{"", 0},
		{"\"pkey\":null", 0},
		{"\"pkey\":\"\"", 0},
		{"\"pkey\":\"0x8001\"", 0x8001},
		{"\"pkey\":\"0x0001\"", 0x8001},
		{"\"pkey\":\"0X7FFF\"", 0xffff},
		{"\"PKey\":32769", 0x8001},
		{"\"pkey\":1000", 0x83e8},
		{"\"pkey\":\"1000\"", 0x83e8},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(all); i++)
		ASSERT_EQ_MSG(conf(all[i].text).ipoib.pkey, all[i].pkey, "all[%zu]", i);
}

static void test_invalid_partition_keys_are_refused(void **state)
{
	static const char *const all[] = {"0",	   "\"0\"", "\"0x8000\"",  "32768",
					  "65536", "-1",    "\"0x10000\"", "\"0x\"",
					  "\"x\"", "true",  "\"0x0x1\"",   "1.5",
					  "[1]"};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(all); i++) {
		auto_free char *text = xasprintf("\"pkey\":%s", all[i]);
		struct rail_conf c;

		if (read_text(text, &c) >= 0)
			fail_msg("'%s' is accepted, expected a refusal", text);
		ASSERT_EQ_MSG(e.kind, ERR_CONF, "all[%zu]", i);
		assert_non_null(strstr(e.text, "conf.pkey is "));
		assert_non_null(strstr(e.text, "expected a partition key, 0x0001 to 0x7fff"));
	}
}

static void test_invalid_ipoib_configuration_is_refused(void **state)
{
	struct rail_conf c;

	(void)state;
	refused("\"master\":\"\"", ERR_CONF, "host master interface is missing (conf.master)");
	refused("\"mode\":\"ud\"", ERR_CONF, "conf.mode is 'ud', expected datagram or connected");
	refused("\"ipam\":{\"type\":\"dhcp\"}", ERR_UNSUPPORTED,
		"ipam dhcp type is not supported (conf.ipam.type)");
	assert_true(read_text("\"mtu\":-1", &c) < 0);
}

static struct link device(const char *kind)
{
	struct link l = {
		.index = 7, .mtu = 2044, .ipoib_pkey = 0xffff, .ipoib_mode = LINK_IPOIB_CONNECTED};

	strcpy(l.name, "ib0");
	strcpy(l.kind, kind);
	return l;
}

static void test_ipoib_master_must_be_ipoib(void **state)
{
	const struct link ib = device("ipoib"), veth = device("veth"), eth = device("");
	struct rail_conf c = conf("\"mtu\":2044");

	(void)state;
	ASSERT_EQ(ipoib_kind.fits(&c, &ib, &e), 0);
	ASSERT_EQ(ipoib_kind.fits(&c, &veth, &e), -EINVAL);
	ASSERT_STR_EQ(e.text, "master device is (veth) not of type ipoib (conf.master is 'ib0')");
	ASSERT_EQ(ipoib_kind.fits(&c, &eth, &e), -EINVAL);
	c = conf("\"mtu\":2045");
	ASSERT_EQ(ipoib_kind.fits(&c, &ib, &e), -EINVAL);
	assert_non_null(strstr(e.text, "invalid MTU 2045, must be [0, master MTU(2044)]"));
}

static void test_ipoib_child_has_pkey_and_mode(void **state)
{
	const struct link ib = device("ipoib");
	struct link_spec s = LINK_SPEC_INIT;
	struct rail_conf c = conf("");

	(void)state;
	ipoib_kind.spec(&c, &ib, &s);
	ASSERT_EQ(s.ipoib_pkey, 0xffff);
	ASSERT_EQ(s.ipoib_mode, LINK_IPOIB_CONNECTED);
	assert_true(s.ipoib_umcast);
	c = conf("\"pkey\":\"0x8001\",\"mode\":\"datagram\"");
	ipoib_kind.spec(&c, &ib, &s);
	ASSERT_EQ(s.ipoib_pkey, 0x8001);
	ASSERT_EQ(s.ipoib_mode, LINK_IPOIB_DATAGRAM);
}

static void test_ipoib_check_compares_kind_and_pkey(void **state)
{
	struct link l = device("ipoib");
	struct rail_conf c = conf("\"pkey\":\"0x8001\"");

	(void)state;
	ASSERT_EQ(ipoib_kind.check(&c, &l, &e), -EINVAL);
	ASSERT_STR_EQ(e.text, "container interface ib0 has partition key 0xffff, expected "
			      "0x8001");
	l.ipoib_pkey = 0x8001;
	ASSERT_EQ(ipoib_kind.check(&c, &l, &e), 0);
	l = device("vlan");
	ASSERT_EQ(ipoib_kind.check(&c, &l, &e), -EINVAL);
	ASSERT_STR_EQ(e.text, "container interface ib0 not of type ipoib");
}

/* When a pod's network namespace is deleted, the kernel moves the IPoIB child interfaces in it
 * to the node. Only children with unirail's link group are leftovers of unirail. */
static void test_only_marked_ipoib_children_are_leftovers(void **state)
{
	struct link l = device("ipoib");

	(void)state;
	l.group = LINK_GROUP;
	assert_false(ipoib_is_leftover(&l)); /* no parent, so not a child */
	l.parent = 3;
	assert_true(ipoib_is_leftover(&l));
	l.group = 0;
	assert_false(ipoib_is_leftover(&l)); /* a child that an administrator made */
	l = device("macvlan");
	l.group = LINK_GROUP;
	l.parent = 3;
	assert_false(ipoib_is_leftover(&l));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_partition_keys_are_parsed),
		cmocka_unit_test(test_invalid_partition_keys_are_refused),
		cmocka_unit_test(test_invalid_ipoib_configuration_is_refused),
		cmocka_unit_test(test_ipoib_master_must_be_ipoib),
		cmocka_unit_test(test_ipoib_child_has_pkey_and_mode),
		cmocka_unit_test(test_ipoib_check_compares_kind_and_pkey),
		cmocka_unit_test(test_only_marked_ipoib_children_are_leftovers),
	};

	return T_RUN(tests, NULL, rl_teardown);
}
