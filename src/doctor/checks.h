/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_DOCTOR_CHECKS_H
#define UNIRAIL_DOCTOR_CHECKS_H

/*
 * What is wrong with a host. A check looks at the facts and at files under their root, and tells
 * findings: where, what is wrong there, what to do. It changes nothing and knows no other check.
 */

#include "doctor/facts.h"

enum finding_level {
	FINDING_NOTE,	 /* works, but not as well as it could; or only somebody else can tell */
	FINDING_PROBLEM, /* RDMA, or pods, will not work */
	FINDING_SKIPPED, /* not checked, because this user may not read it */
};

struct finding {
	const char *check;
	enum finding_level level;
	char *where, *what, *remedy;
};

struct findings {
	struct finding *v;
	size_t n;
	const char *check; /* the one that is running */
};

struct doctor {
	const struct host_facts *f;
	const char *cni_bin, *cni_conf, *pool_dir, *state_dir;
	struct findings *out;
};

struct doctor_check {
	const char *name;
	const char *about; /* what it holds to be right */
	void (*run)(struct doctor *d);
};
extern const struct doctor_check doctor_checks[]; /* ended by {0} */

void doctor_run(struct doctor *d);
void findings_done(struct findings *l);
#define auto_findings __attribute__((cleanup(findings_done)))
size_t findings_count(const struct findings *l, enum finding_level level);

/* For checks: `where` and `remedy` are copied. */
void doctor_find(struct doctor *d, enum finding_level level, const char *where, const char *remedy,
		 const char *fmt, ...) __attribute__((format(printf, 5, 6)));

/* Reports that `where` could not be checked, when `code` says that this user may not read it (EACCES, EPERM). Returns
 * whether it did. */
bool doctor_skip(struct doctor *d, const char *where, int code);

/* Name of the first CNI configuration that takes addresses from the node's own pools, without an agent. Caller frees;
 * NULL: none does. */
char *doctor_local_pools_conf(struct doctor *d);

/* --- the checks; checks.c, checks.c, checks.c, checks.c --- */

void doctor_rdma_kernel(struct doctor *d);
void doctor_rdma_verbs(struct doctor *d);
void doctor_rdma_ports(struct doctor *d);
void doctor_rail_mtu(struct doctor *d);
void doctor_rail_subnets(struct doctor *d);
void doctor_vf_drivers(struct doctor *d);
void doctor_vf_pfs(struct doctor *d);
void doctor_vf_rdma(struct doctor *d);
void doctor_cni_links(struct doctor *d);
void doctor_cni_conf(struct doctor *d);
void doctor_cni_first(struct doctor *d); /* checks.c */
void doctor_cni_masters(struct doctor *d);
void doctor_rdma_mode(struct doctor *d);
void doctor_pools(struct doctor *d);
void doctor_stray_links(struct doctor *d);

#endif
