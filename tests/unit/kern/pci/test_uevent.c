/* SPDX-License-Identifier: Apache-2.0 */
#include "kern_lab.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/loop.h"
#include "kern/sys/netns.h"
#include "kern/pci/uevent.h"

#define SPAN(s) ((struct span){s, sizeof(s) - 1})

static void test_uevents_are_parsed(void **state)
{
	struct uevent u;

	(void)state;
	assert_true(uevent_parse(SPAN("add@/devices/pci0000:00/x/net/ens1f0v3\0ACTION=add\0"
				      "DEVPATH=/devices/pci0000:00/x/net/ens1f0v3\0SUBSYSTEM=net\0"
				      "INTERFACE=ens1f0v3\0IFINDEX=9\0SEQNUM=1\0"),
				 &u));
	ASSERT_STR_EQ(u.action, "add");
	ASSERT_STR_EQ(u.subsystem, "net");
	ASSERT_STR_EQ(u.name, "ens1f0v3");
	assert_true(uevent_parse(SPAN("bind@/d/0000:3b:00.2\0ACTION=bind\0DEVPATH=/d/0000:3b:00.2"),
				 &u));
	ASSERT_STR_EQ(u.name, "0000:3b:00.2");
	assert_false(uevent_parse(SPAN("libudev\0\xfe\xed\xca\xfe ACTION=add\0"), &u));
	assert_false(uevent_parse(SPAN("add@/x\0ACTION=add\0"), &u));
	assert_false(uevent_parse(SPAN(""), &u));
}

static int make_then_see(void *arg, struct err *err)
{
	static int rounds;
	struct kern_lab *l = arg;

	(void)err;
	if (rounds++ == 0)
		/* the interface appears after the first check, before the wait */
		kern_veth(l, "net1", "peer");
	return rounds > 1;
}

/*
 * The event arrives after the first check and before the wait. It ends the wait at once; without
 * the event the next check would be a second later.
 */
static void test_event_received_before_the_wait_ends_the_wait(void **state)
{
	struct netns_visit v = NETNS_VISIT_INIT;
	int64_t start = now_mono_ms();
	struct kern_lab l;
	int fd;

	(void)state;
	kern_open(&l);
	OK(netns_enter(l.ns, &v, &e));
	OK(uevent_open(&fd, &e));
	netns_leave(&v);
	OK(uevent_wait(fd, start + 10000, "net1", make_then_see, &l, &e));
	assert_in_range(now_mono_ms() - start, 0, 900);
	close(fd);
	kern_close(&l);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_uevents_are_parsed),
		cmocka_unit_test(test_event_received_before_the_wait_ends_the_wait),
	};

	return T_RUN(tests, NULL, NULL);
}
