/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_TESTS_IPAM_LAB_H
#define UNIRAIL_TESTS_IPAM_LAB_H

/*
 * A temporary root with pools and a journal, and a clock that does not advance by itself, for tests
 * of addresses. Include after cmocka.
 */

#include "ipam/ipam.h"

struct ipam_lab {
	char dir[64];
	struct root root;
	struct ipam_paths paths;
};

extern int64_t il_clock_ms; /* time that il_now() returns */
int64_t il_now(void);

void il_make(struct ipam_lab *l); /* an empty root, folders of pools and state below it */
void il_drop(struct ipam_lab *l);
void il_write(const struct ipam_lab *l, const char *path, const char *text);
void il_pools(const struct ipam_lab *l, const char *ini); /* rails.conf */
struct ipam *il_open(const struct ipam_lab *l);
/* One address of (id, ifname) from the named pool (NULL: the defaults); fails the test when there
 * is none. */
struct ipaddr il_take(const struct ipam_lab *l, const char *id, const char *ifname,
		      const char *pool);
int il_free(const struct ipam_lab *l, const char *id, const char *ifname);
struct ipaddr il_ip(const char *text);
struct ipnet il_net(const char *text);
void il_assert_ip(const struct ipaddr *a, const char *text);
/* The size of a file below the root, and its bytes. */
char *il_read(const struct ipam_lab *l, const char *path, size_t *n);
char *il_path(const struct ipam_lab *l, const char *path); /* on the host; free() */

#define assert_has(text, part) il_assert_has(text, part, __FILE__, __LINE__)
void il_assert_has(const char *text, const char *part, const char *file, int line);

#endif
