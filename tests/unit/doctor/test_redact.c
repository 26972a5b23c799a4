/* SPDX-License-Identifier: Apache-2.0 */
#include "testlib.h"

#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "doctor/redact.h"

static void test_secrets_in_json_are_left_out(void **state)
{
	static const char text[] =
		"{\"type\": \"x\", \"pkey\": \"0x8001\", \"apiToken\": \"hunter2\","
		" \"kube\": {\"Password\": {\"a\": \"hunter2\"}, \"auth\": [\"hunter2\"]},"
		" \"use_auth\": true, \"list\": [\"eyJhbGciOi\", \"-----BEGIN KEY-----\", 7]}";
	auto_buf struct buf b;

	(void)state;
	buf_init(&b, 4096);
	ASSERT_EQ(redact_json(span_of(text), &b), 0);
	assert_null(strstr(b.p, "hunter2"));
	assert_null(strstr(b.p, "eyJ"));
	assert_null(strstr(b.p, "BEGIN"));
	assert_non_null(strstr(b.p, "\"pkey\": \"0x8001\""));
	assert_non_null(strstr(b.p, "\"apiToken\": \"(left out)\""));
	assert_non_null(strstr(b.p, "\"use_auth\": true"));
	assert_non_null(strstr(b.p, "7"));
	buf_reset(&b);
	ASSERT_EQ(redact_json(span_of("{\"token\": \"hunter2\""), &b), -EINVAL);
	ASSERT_EQ(b.len, 0);
}

static void test_secrets_in_configuration_files_are_left_out(void **state)
{
	auto_buf struct buf b;

	(void)state;
	buf_init(&b, 4096);
	redact_lines(span_of("[pool a]\nsubnet = 172.16.1.0/24\nToken = hunter2 more\n"
			     "client-key: hunter2\n-----BEGIN RSA PRIVATE KEY-----\nhunter2\n"
			     "-----END RSA PRIVATE KEY-----\nend = 1\nwhat = Bearer hunter2"),
		     &b);
	ASSERT_STR_EQ(b.p, "[pool a]\nsubnet = 172.16.1.0/24\nToken = (left out)\n"
			   "client-key: (left out)\n(left out)\n(left out)\n(left out)\n"
			   "end = 1\nwhat = (left out)");
}

/* Files of netplan, systemd-networkd and NetworkManager. */
static void test_secrets_in_network_files_are_left_out(void **state)
{
	static const char text[] =
		"network:\n  wifis:\n    wlan0:\n      access-points:\n"
		"        \"home\": {password: \"hunter2\", mode: infrastructure}\n"
		"        office:\n          auth:\n            key-management: eap\n            password: |\n"
		"              hunter2\n      dhcp4: true\n  tunnels:\n    wg0:\n      mode: wireguard\n"
		"      key: hunter2\n      \"key\": hunter2\n      peers:\n        - keys: {public: abc, shared: hunter2}\n"
		"          endpoint: 1.2.3.4:5\n        - keys:\n            public: abc\n            shared: hunter2\n"
		"[WireGuardPeer]\nPresharedKey=hunter2\nPublicKey=abc\n[MACsecTransmitAssociation]\nKey=hunter2\n"
		"[IPoIB]\nPKey=0x8001\n[proxy]\nurl=http://user:hunter2@10.0.0.1:3128/\nwifi-sec.psk=hunter2\n"
		"address=fe80::1@eth0\nserver=http://10.0.0.1:80/a@b\n";
	auto_buf struct buf b;

	(void)state;
	buf_init(&b, 8192);
	redact_lines(span_of(text), &b);
	assert_null(strstr(b.p, "hunter2"));
	assert_non_null(strstr(b.p, "\"home\": {password: (left out)\n"));
	assert_non_null(strstr(b.p, "\n      dhcp4: true\n"));
	assert_non_null(strstr(b.p, "\n          endpoint: 1.2.3.4:5\n"));
	assert_non_null(strstr(b.p, "\nPublicKey=abc\n"));
	assert_non_null(strstr(b.p, "\nPKey=0x8001\n"));
	assert_non_null(strstr(b.p, "\naddress=fe80::1@eth0\nserver=http://10.0.0.1:80/a@b\n"));
}

static void test_secrets_on_the_kernel_command_line_are_left_out(void **state)
{
	auto_buf struct buf b;

	(void)state;
	buf_init(&b, 4096);
	redact_cmdline(span_of("root=/dev/sda quiet join_token=hunter2 ib_core.netns_mode=0\n"),
		       &b);
	ASSERT_STR_EQ(b.p, "root=/dev/sda quiet join_token=(left out) ib_core.netns_mode=0\n");
	buf_reset(&b);
	redact_cmdline(span_of("inst.ks=http://u:hunter2@10.0.0.1/ks quiet\n"), &b);
	ASSERT_STR_EQ(b.p, "inst.ks=(left out) quiet\n");
	buf_reset(&b);
	redact_cmdline(
		span_of("netroot=iscsi:user:hunter2:rev:hunter2@10.0.0.1::3260::iqn.2026-01.io:a ip=dhcp "
			"netroot=iscsi:@10.0.0.1::3260::iqn.2026-01.io:b root=iscsi:u:hunter2@h::::t\n"),
		&b);
	ASSERT_STR_EQ(b.p,
		      "netroot=(left out) ip=dhcp netroot=iscsi:@10.0.0.1::3260::iqn.2026-01.io:b "
		      "root=(left out)\n");
	buf_reset(&b);
	redact_cmdline(
		span_of("rd.iscsi.password=\"hunter2 hunter2\" netroot=\"iscsi:u:hun ter2@h\" a=\"b c\" "
			"\"passwd=hunter2 hunter2\"\tsshpw=hunter2 quiet"),
		&b);
	assert_null(strstr(b.p, "hunter2"));
	assert_null(strstr(b.p, "ter2"));
	assert_non_null(strstr(b.p, "a=\"b c\""));
	assert_non_null(strstr(b.p, "quiet"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_secrets_in_json_are_left_out),
		cmocka_unit_test(test_secrets_in_configuration_files_are_left_out),
		cmocka_unit_test(test_secrets_in_network_files_are_left_out),
		cmocka_unit_test(test_secrets_on_the_kernel_command_line_are_left_out),
	};

	return T_RUN(tests, NULL, NULL);
}
