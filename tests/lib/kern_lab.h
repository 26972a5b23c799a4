/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_TEST_KERN_LAB_H
#define UNIRAIL_TEST_KERN_LAB_H

/*
 * A new network namespace and a netlink socket in it, for tests that use the real kernel. Such
 * tests need root. Without root they fail: they are not skipped, because a skipped test proves
 * nothing.
 */
#include "testlib.h"

#include "kern/net/uapi_link.h"

#include "base/err.h"
#include "base/ip.h"
#include "kern/net/link.h"
#include "kern/netlink/nl.h"

struct kern_lab {
	int ns;
	struct nl_wire *w;
};

void kern_open(struct kern_lab *l);
void kern_close(struct kern_lab *l);

/* The error of the current or the last call in OK() or FAILS(). */
static struct err e __attribute__((unused));

/* Fails the test with the text of the error unless the call succeeds. */
#define OK(call)                                                                                   \
	do {                                                                                       \
		err_clear(&e);                                                                     \
		if ((call) < 0)                                                                    \
			fail_msg("%s", e.text);                                                    \
	} while (0)
/* Fails the test unless the call fails with this code and exactly this error text. */
#define FAILS(call, with, expected)                                                                \
	do {                                                                                       \
		int kern_code;                                                                     \
                                                                                                   \
		err_clear(&e);                                                                     \
		kern_code = (call);                                                                \
		ASSERT_STR_EQ(e.text, expected);                                                   \
		ASSERT_EQ(kern_code, with);                                                        \
	} while (0)

/* Creates a veth pair in the lab's namespace, both ends up; returns the index of the first end. */
int kern_veth(struct kern_lab *l, const char *name, const char *peer);
struct link kern_link(struct kern_lab *l, const char *name);
/* Commits and empties the batch. */
void kern_commit(struct kern_lab *l, struct nl_batch *b);

/* A wire that replays the recording tests/replay/<name>. */
struct nl_wire *kern_replay(const char *name);

/*
 * Calls use() `rounds` times, each time with another mutation of tests/replay/<name>, from a fixed
 * seed. Only the answers are mutated. The calls that use() makes may fail, but must neither crash
 * nor hang.
 */
void kern_mutate(const char *name, int rounds, void (*use)(struct nl_wire *w));

#endif
