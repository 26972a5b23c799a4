/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_DOCTOR_CHECKS_H
#define UNIRAIL_DOCTOR_CHECKS_H

/*
 * Diagnoses a host. A check reads the host's state (doctor/facts.h) and files under its root, and
 * reports findings: where, what is wrong, and the remedy. A check changes nothing and does not
 * depend on other checks.
 */

#include "doctor/facts.h"

enum finding_level {
	FINDING_NOTE,	 /* works, but not optimally; or cannot be verified from this host */
	FINDING_PROBLEM, /* RDMA or pods will not work */
	FINDING_SKIPPED, /* not checked: no permission to read it */
};

struct finding {
	const char *check;
	enum finding_level level;
	char *where, *what, *remedy;
};

struct findings {
	struct finding *v;
	size_t n;
	const char *check; /* the running check */
};

struct doctor {
	const struct host_facts *f;
	const char *cni_bin, *cni_conf, *pool_dir, *state_dir;
	struct findings *out;
};

struct doctor_check {
	const char *name;
	const char *about; /* what the check verifies */
	void (*run)(struct doctor *d);
};
extern const struct doctor_check doctor_checks[]; /* terminated by {0} */

void doctor_run(struct doctor *d);
void findings_done(struct findings *l);
#define auto_findings __attribute__((cleanup(findings_done)))
size_t findings_count(const struct findings *l, enum finding_level level);

/* Adds a finding of the running check. `where` and `remedy` are copied. */
void doctor_find(struct doctor *d, enum finding_level level, const char *where, const char *remedy,
		 const char *fmt, ...) __attribute__((format(printf, 5, 6)));

/*
 * Reports that `where` was not checked, if `code` is a missing permission (EACCES, EPERM). Returns
 * whether it did.
 */
bool doctor_skip(struct doctor *d, const char *where, int code);

/*
 * Name of the first CNI configuration that allocates addresses from the node's own pools, without
 * an agent. The caller frees it; NULL: there is none.
 */
char *doctor_local_pools_conf(struct doctor *d);

/* --- the checks --- */

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
void doctor_cni_first(struct doctor *d);
void doctor_cni_masters(struct doctor *d);
void doctor_rdma_mode(struct doctor *d);
void doctor_pools(struct doctor *d);
void doctor_stray_links(struct doctor *d);

#endif
