/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_TESTS_IPAM_LAB_H
#define UNIRAIL_TESTS_IPAM_LAB_H

/*
 * For tests of addresses: a temporary root with pools and a journal, and a clock that only advances
 * when the test sets it. Include after cmocka.
 */

#include "ipam/ipam.h"

struct ipam_lab {
	char dir[T_DIR_MAX];
	struct root root;
	struct ipam_paths paths;
};

extern int64_t il_clock_ms; /* time that il_now() returns */
int64_t il_now(void);

/* The lab of a test program that needs only one; the fixtures il_setup() and il_teardown() of
 * cmocka create and delete it for each test, and suppress log lines. */
extern struct ipam_lab il_lab;
int il_setup(void **state);
int il_teardown(void **state);

/* creates a root with the directory /pools, and sets il_clock_ms to its initial value */
void il_make(struct ipam_lab *l);
void il_drop(struct ipam_lab *l);
void il_write(const struct ipam_lab *l, const char *path, const char *text);
void il_pools(const struct ipam_lab *l, const char *ini); /* writes /pools/rails.conf */
struct ipam *il_open(const struct ipam_lab *l);
/*
 * Allocates one address of the named pool (NULL: the default pools) to (id, ifname); fails the test
 * if no address is free.
 */
struct ipaddr il_take(const struct ipam_lab *l, const char *id, const char *ifname,
		      const char *pool);
int il_free(const struct ipam_lab *l, const char *id, const char *ifname);
/* number of records of the store with this state */
size_t il_records(const struct ipam_lab *l, const char *state);
void il_assert_ip(const struct ipaddr *a, const char *text);
/* Returns the content of a file below the root; *n: its size. */
char *il_read(const struct ipam_lab *l, const char *path, size_t *n);
/* absolute path on the host; the caller frees */
char *il_path(const struct ipam_lab *l, const char *path);

#endif
