/* SPDX-License-Identifier: Apache-2.0 */
/* VFs listed and configured through their PF's link. tests/replay/make_vf.py composes the
 * replayed files. */
#include "kern_lab.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "kern/net/vf.h"

enum { PF = 7 };

static void test_80_vfs_are_listed(void **state)
{
	auto_nl struct nl_wire *w = kern_replay("vf_list.nl");
	auto_free struct vf_info *list = NULL;
	struct mac mac = t_mac("02:00:00:00:00:03");
	size_t n;

	(void)state;
	OK(vf_list(w, PF, "ens1f0np0", &list, &n, &e));
	OK(nl_replay_finished(w, &e));
	ASSERT_EQ(n, 80);
	for (uint32_t i = 0; i < n; i++)
		ASSERT_EQ(list[i].vf, i);
	assert_true(mac_eq(&list[3].mac, &mac));
	ASSERT_EQ(list[3].n_vlans, 1);
	ASSERT_EQ(list[3].vlans[0].id, 103);
	ASSERT_EQ(list[3].vlans[0].qos, 5);
	ASSERT_EQ(list[3].vlans[0].proto, VF_VLAN_8021AD);
	ASSERT_EQ(list[3].min_rate, 100);
	ASSERT_EQ(list[3].max_rate, 2000);
	ASSERT_EQ(list[3].spoofchk, 1);
	ASSERT_EQ(list[3].trust, -1);
	ASSERT_EQ(list[3].link_state, VF_LINK_DISABLE);
	assert_false(list[3].has_guid);
}

static void test_guids_of_an_infiniband_vf_are_read(void **state)
{
	auto_nl struct nl_wire *w = kern_replay("vf_ib.nl");
	char text[VF_GUID_TEXT_MAX];
	struct vf_info vf;

	(void)state;
	OK(vf_get(w, PF, "ibs1", 1, &vf, &e));
	ASSERT_EQ(vf.mac.len, 20);
	assert_true(vf.has_guid);
	ASSERT_STR_EQ(vf_guid_str(vf.node_guid, text), "0c:42:a1:03:00:16:05:1c");
	ASSERT_STR_EQ(vf_guid_str(vf.port_guid, text), "0c:42:a1:03:00:16:05:1d");
	FAILS(vf_get(w, PF, "ibs1", 9, &vf, &e), -ENOENT,
	      "look up VF 9 of 'ibs1': the PF has 2 VFs");
}

static void test_truncated_vf_list_is_an_error(void **state)
{
	auto_nl struct nl_wire *w = kern_replay("vf_cut.nl");
	struct vf_info vf, *list = NULL;
	size_t n = 0;

	(void)state;
	FAILS(vf_list(w, PF, "pf0", &list, &n, &e), -EMSGSIZE,
	      "list VFs of 'pf0': the kernel reported only 2 of 300 VFs: its list "
	      "(IFLA_VFINFO_LIST) of at most 64 KiB is full (use fewer VFs), or the driver does not "
	      "report the others");
	OK(vf_get(w, PF, "pf0", 1, &vf, &e));
	ASSERT_EQ(vf.vf, 1);
	err_clear(&e);
	ASSERT_EQ(vf_get(w, PF, "pf0", 200, &vf, &e), -EMSGSIZE);
	FAILS(vf_list(w, PF, "pf0", &list, &n, &e), -EOPNOTSUPP,
	      "list VFs of 'pf0': the PF has 8 VFs, but its driver reports nothing about them");
	OK(nl_replay_finished(w, &e));
	assert_null(list);
}

/* The replay compares the bytes of each message with the recording. */
static void test_each_vf_attribute_is_set_by_one_message(void **state)
{
	auto_nl struct nl_wire *w = kern_replay("vf_set.nl");
	auto_batch struct nl_batch *b = nl_batch_new();
	const struct vf_ref v = {PF, "ens1f0np0", 3};
	struct mac mac = t_mac("02:00:00:00:00:03");

	(void)state;
	vf_set_vlan(b, &v, &(struct vf_vlan){103, 5, VF_VLAN_8021AD});
	vf_set_mac(b, &v, &mac);
	vf_set_rate(b, &v, 100, 2000);
	vf_set_spoofchk(b, &v, true);
	ASSERT_EQ(vf_set_trust(b, &v, false), 4);
	vf_set_link_state(b, &v, VF_LINK_DISABLE);
	vf_set_node_guid(b, &v, 0x0c42a1030016051c);
	vf_set_port_guid(b, &v, 0x0c42a1030016051d);
	FAILS(nl_batch_commit(w, b, &e), -EOPNOTSUPP,
	      "set VF 3 of 'ens1f0np0': trust off: Operation not supported (EOPNOTSUPP)");
	ASSERT_EQ(nl_batch_result(b, 5), 0);
	OK(nl_replay_finished(w, &e));
}

static void test_guids_are_parsed(void **state)
{
	uint64_t guid = 1;

	(void)state;
	ASSERT_EQ(vf_guid_parse(span_of("0C:42:a1:03:00:16:05:1c"), &guid), 0);
	assert_true(guid == 0x0c42a1030016051c);
	ASSERT_EQ(vf_guid_parse(span_of("00:00:00:00:00:00:00:00"), &guid), -EINVAL);
	ASSERT_EQ(vf_guid_parse(span_of("0c:42:a1:03:00:16:05"), &guid), -EINVAL);
	ASSERT_EQ(vf_guid_parse(span_of("0c42:a1:03:00:16:05:1cc"), &guid), -EINVAL);
	ASSERT_EQ(vf_guid_parse(span_of("0x:42:a1:03:00:16:05:1c"), &guid), -EINVAL);
	assert_true(guid == 0x0c42a1030016051c);
}

static void use_list(struct nl_wire *w)
{
	auto_free struct vf_info *list = NULL;
	size_t n = 0;

	vf_list(w, PF, "pf0", &list, &n, NULL);
	for (size_t i = 0; i < n; i++)
		assert_in_range(list[i].n_vlans, 0, VF_VLANS_MAX);
}

static void test_mutated_vf_answers_do_not_crash(void **state)
{
	(void)state;
	kern_mutate("vf_list.nl", 300, use_list);
	kern_mutate("vf_ib.nl", 1000, use_list);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_80_vfs_are_listed),
		cmocka_unit_test(test_guids_of_an_infiniband_vf_are_read),
		cmocka_unit_test(test_truncated_vf_list_is_an_error),
		cmocka_unit_test(test_each_vf_attribute_is_set_by_one_message),
		cmocka_unit_test(test_guids_are_parsed),
		cmocka_unit_test(test_mutated_vf_answers_do_not_crash),
	};

	return T_RUN(tests, NULL, NULL);
}
