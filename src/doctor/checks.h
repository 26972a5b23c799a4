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
	FINDING_REMARK,	 /* works, but not optimally; or cannot be verified from this host */
	FINDING_PROBLEM, /* RDMA or pods will not work */
	FINDING_SKIPPED, /* not checked: the state cannot be read, or is not below this root */
};

struct finding {
	const char *check;
	enum finding_level level;
	char *subject, *what, *remedy;
	/* arguments of `unirail host` that fix the finding: "acs"; NULL: a person has to decide */
	char *fix;
};

struct findings {
	struct finding *v;
	size_t n;
	const char *check; /* name of the running check */
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

/* Adds a finding of the running check. `subject` and `remedy` are copied. */
void doctor_find(struct doctor *d, enum finding_level level, const char *subject,
		 const char *remedy, const char *fmt, ...) __attribute__((format(printf, 5, 6)));

/* Sets the arguments of `unirail host` that fix the last finding: "sysctl
 * net.ipv4.ip_forward=1". */
void doctor_fix(struct doctor *d, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/*
 * If `code` is a missing permission (EACCES, EPERM), reports that `where` was not checked. Returns
 * whether it reported that.
 */
bool doctor_skip(struct doctor *d, const char *where, int code);

/* Calls `call` for the object of each plugin in the CNI configurations that can be read. */
typedef void (*doctor_plugin_fn)(struct doctor *d, const char *file, const struct json *plugin,
				 const char *type, void *arg);
void doctor_each_plugin(struct doctor *d, doctor_plugin_fn call, void *arg);
/*
 * Runs the checks of one CNI configuration against the host: masters, MTUs, link types, RDMA mode,
 * and whether its plugins are installed. `where` is for messages.
 */
void doctor_check_config(struct doctor *d, const char *where, const struct json *config);
void doctor_check_layer(struct doctor *d, const char *file, const struct json *plugin,
			const char *type, void *arg);
void doctor_check_mtu(struct doctor *d, const char *file, const struct json *plugin,
		      const char *type, void *arg);
/* Returns the next Ethernet link of an RDMA port; NULL: there is none. *at is the position of
 * the search: the caller sets it to 0 before the first call, each call advances it. */
const struct link *doctor_next_rail(const struct host_facts *f, size_t *at);

/*
 * Compares the links of one pod with the host: a VF's MTU with its PF's. `pod` is for messages.
 * doctor_mtu_pods() calls it for each named namespace.
 */
void doctor_mtu_pod(struct doctor *d, const char *pod, const struct link *v, size_t n);

/* --- the checks --- */

void doctor_host_drift(struct doctor *d);
void doctor_link_type(struct doctor *d);
void doctor_rdma_firmware(struct doctor *d);
void doctor_mtu_vfs(struct doctor *d);
void doctor_mtu_conf(struct doctor *d);
void doctor_mtu_pods(struct doctor *d);
void doctor_rail_foreign(struct doctor *d);
void doctor_rail_networkd(struct doctor *d);
void doctor_vf_resources(struct doctor *d);
void doctor_node_resources(struct doctor *d);
void doctor_node_drivers(struct doctor *d);
void doctor_node_address(struct doctor *d);

void doctor_rdma_ports(struct doctor *d);
void doctor_pci_acs(struct doctor *d);
void doctor_pci_read(struct doctor *d);
void doctor_rdma_gids(struct doctor *d);
void doctor_rdma_guids(struct doctor *d);
void doctor_rdma_umad(struct doctor *d);
void doctor_rail_macs(struct doctor *d);
void doctor_rail_rp_filter(struct doctor *d);
void doctor_rail_managed(struct doctor *d);
void doctor_gpu_peermem(struct doctor *d);
void doctor_memlock(struct doctor *d);

#endif
