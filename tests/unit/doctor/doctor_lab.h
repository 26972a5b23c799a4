/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_TEST_DOCTOR_LAB_H
#define UNIRAIL_TEST_DOCTOR_LAB_H

/*
 * Checks of the doctor on a recorded or constructed host. The lab records that a check has a pair
 * if the check reports a finding on a host, and later, after the test has mended the host, reports
 * no finding on it. doctor_lab_verify() fails if a check of this program has no pair, or if a check
 * of the doctor's table belongs to no program.
 */

#include "host_lab.h"

#include "doctor/checks.h"

enum { DOCTOR_LAB_CHECKS = 64 };

struct doctor_lab {
	struct host_lab host;
	struct host_facts f;
	struct findings found; /* of the last run */
	struct rdma_dev rdma[3];
	struct link links[4];
	struct addr addrs[1];
	bool is_broken[DOCTOR_LAB_CHECKS]; /* the check reported a finding on this host */
};

/* Creates a host from the file `tree` in tests/hosts, with its PCI functions; NULL: a host
 * without hardware. */
void doctor_lab_begin(struct doctor_lab *l, const char *tree);
/* Like doctor_lab_begin(), with eth0 and the RoCE rails ens1 (mlx5_0, 172.16.1.10/24) and ens2
 * (mlx5_1). */
void doctor_lab_begin_rails(struct doctor_lab *l, const char *tree);
void doctor_lab_end(struct doctor_lab *l);
struct doctor doctor_lab_doctor(struct doctor_lab *l);

/* Runs a check of the doctor's table; returns its number of findings. */
size_t doctor_lab_run(struct doctor_lab *l, void (*check)(struct doctor *));
void doctor_lab_run_all(struct doctor_lab *l);

/*
 * doctor_lab_first_is() fails the test unless the first finding is at `where`, its text contains
 * `what`, and its remedy contains `remedy`. doctor_lab_finds() requires the same of the check's
 * first finding at `where`. doctor_lab_find() returns that finding, or NULL; doctor_lab_count()
 * returns the number of findings of the check.
 */
void doctor_lab_first_is(const struct doctor_lab *l, const char *where, const char *what,
			 const char *remedy);
void doctor_lab_finds(const struct doctor_lab *l, const char *check, const char *where,
		      const char *what, const char *remedy);
const struct finding *doctor_lab_find(const struct doctor_lab *l, const char *check,
				      const char *where);
size_t doctor_lab_count(const struct doctor_lab *l, const char *check);

/* Call this in the last test of a program; `program` is its name, such as "test_doctor". */
void doctor_lab_verify(const char *program);

#endif
