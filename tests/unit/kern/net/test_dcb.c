/* SPDX-License-Identifier: Apache-2.0 */
#include "kern_lab.h"

#include <errno.h>
#include <string.h>

#include "kern/net/dcb.h"

#define PORT "ens1f0np0"

static const struct dcb_entry dscps[] = {{DCB_SEL_DSCP, 3, 26}, {DCB_SEL_DSCP, 6, 48}};

static void check_read(struct nl_wire *w, struct dcb *d)
{
	OK(dcb_get(w, PORT, d, &e));
	assert_true(d->has_ets && d->has_pfc && d->has_buffers && d->has_dcbx);
	assert_false(dcb_trusts_dscp(d));
	ASSERT_EQ(d->pfc.enabled, 0);
	ASSERT_EQ(d->pfc.delay, 7);
	ASSERT_EQ(d->pfc.sent[3], 5);
	ASSERT_EQ(d->ets.tsa[7], DCB_TSA_VENDOR);
	ASSERT_EQ(d->ets.prio_tc[5], 5);
	ASSERT_EQ(d->buffers.size[0], 163840);
	ASSERT_EQ(d->buffers.total, 262016);
	ASSERT_EQ(d->dscp_prio[26], -1);
	ASSERT_EQ(d->dcbx, DCB_HOST | DCB_IEEE);
	assert_true(d->has_peer_pfc);
	assert_false(d->has_peer_ets);
	ASSERT_EQ(d->peer_pfc.enabled, 1 << 3);
	ASSERT_EQ(d->n_peer_apps, 2);
	ASSERT_EQ(d->peer_apps[1].protocol, 48);
}

static void test_dcb_settings_are_read_and_set(void **state)
{
	auto_nl struct nl_wire *w = kern_replay("dcb.nl");
	struct dcb_buffers b = {.prio_buffer = {[3] = 1}, .size = {131072, 131072}};
	struct dcb_ets ets;
	struct dcb d;

	(void)state;
	check_read(w, &d);
	OK(dcb_add_apps(w, PORT, dscps, 2, &e));
	OK(dcb_del_apps(w, PORT, dscps, 1, &e));
	d.pfc.enabled = 1 << 3;
	OK(dcb_set_pfc(w, PORT, &d.pfc, &e));
	ets = (struct dcb_ets){.max_tcs = 8,
			       .tx_bw = {50, 50},
			       .tsa = {DCB_TSA_ETS, DCB_TSA_ETS},
			       .prio_tc = {[3] = 1}};
	OK(dcb_set_ets(w, PORT, &ets, &e));
	OK(dcb_set_buffers(w, PORT, &b, &e));
	OK(dcb_set_dcbx(w, PORT, DCB_HOST | DCB_IEEE, &e));
	FAILS(dcb_set_dcbx(w, PORT, 0, &e), -EINVAL,
	      "set the DCBX mode of '" PORT "' to 0: the driver refuses it");
	ASSERT_EQ(dcb_set_pfc(w, PORT, &d.pfc, &e), -EOPNOTSUPP);
	FAILS(dcb_get(w, PORT, &d, &e), -EOPNOTSUPP,
	      "read DCB of '" PORT "': Operation not supported (EOPNOTSUPP): the driver or "
	      "firmware does not support it on this interface; a VF uses the settings of its PF");
	ASSERT_EQ(e.kind, ERR_UNAVAILABLE);
	OK(nl_replay_finished(w, &e));
}

static void test_invalid_dcb_arguments_are_refused(void **state)
{
	auto_nl struct nl_wire *w = kern_replay("dcb.nl");
	struct dcb d;

	(void)state;
	ASSERT_EQ(dcb_get(w, "", &d, &e), -EINVAL);
	ASSERT_EQ(dcb_get(w, "sixteen-letters-", &d, &e), -EINVAL);
	ASSERT_EQ(dcb_add_apps(w, PORT, dscps, 1000, &e), -E2BIG);
	OK(dcb_add_apps(w, PORT, dscps, 0, &e));
}

/* Runs on the real kernel, where a veth has no DCB. */
static void test_interface_without_dcb_is_not_supported(void **state)
{
	struct kern_lab l;
	struct dcb d;

	(void)state;
	kern_open(&l);
	kern_veth(&l, "a", "b");
	ASSERT_EQ(dcb_get(l.w, "a", &d, &e), -EOPNOTSUPP);
	kern_close(&l);
}

static void use(struct nl_wire *w)
{
	struct dcb d = {0};

	dcb_get(w, PORT, &d, NULL);
	dcb_add_apps(w, PORT, dscps, 2, NULL);
	dcb_del_apps(w, PORT, dscps, 1, NULL);
}

static void test_mutated_dcb_answers_do_not_crash(void **state)
{
	(void)state;
	kern_mutate("dcb.nl", 1000, use);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_dcb_settings_are_read_and_set),
		cmocka_unit_test(test_invalid_dcb_arguments_are_refused),
		cmocka_unit_test(test_interface_without_dcb_is_not_supported),
		cmocka_unit_test(test_mutated_dcb_answers_do_not_crash),
	};

	return T_RUN(tests, NULL, NULL);
}
