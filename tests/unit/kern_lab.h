/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_TEST_KERN_LAB_H
#define UNIRAIL_TEST_KERN_LAB_H

/* A fresh network namespace and a wire into it, for tests that ask the real kernel. They need
 * root: without it they fail, since a skipped test proves nothing. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "kern/uapi_link.h"

#include "base/err.h"
#include "base/ip.h"
#include "kern/link.h"
#include "kern/nl.h"

struct lab {
	int ns;
	struct nl_wire *w;
};

void lab_open(struct lab *l);
void lab_close(struct lab *l);

/* The error of the call that is going on or was last. */
extern struct err e;

/* Fails the test with the error's words when the call does not succeed. */
#define OK(call)                                                                                   \
	do {                                                                                       \
		err_clear(&e);                                                                     \
		if ((call) < 0)                                                                    \
			fail_msg("%s", e.text);                                                    \
	} while (0)
/* The call fails with this code and exactly these words. */
#define FAILS(call, with, words)                                                                   \
	do {                                                                                       \
		int lab_code;                                                                      \
                                                                                                   \
		err_clear(&e);                                                                     \
		lab_code = (call);                                                                 \
		assert_string_equal(e.text, words);                                                \
		assert_int_equal(lab_code, with);                                                  \
	} while (0)

struct ipaddr lab_ip(const char *s);
struct ipnet lab_net(const char *s);
struct mac lab_mac(const char *s);

/* A veth pair in the lab, both ends up; returns the first one's index. */
int lab_veth(struct lab *l, const char *name, const char *peer);
struct link lab_link(struct lab *l, const char *name);
/* Commits and empties the batch. */
void lab_commit(struct lab *l, struct nl_batch *b);

/* A wire that replays tests/replay/<name>. */
struct nl_wire *lab_replay(const char *name);

/* Replays mutations of tests/replay/<name>, `rounds` of them, from a fixed seed: use() must come
 * back, whatever it makes of them. Only answers are changed. */
void lab_mutate(const char *name, int rounds, void (*use)(struct nl_wire *w));

#endif
