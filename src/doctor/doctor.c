/* SPDX-License-Identifier: Apache-2.0 */
#include "doctor/doctor.h"

#include <errno.h>
#include <stdlib.h>

/* In the order in which one thing needs the other. */
const struct doctor_check doctor_checks[] = {
	{"rdma-kernel", "the kernel has RDMA, and each NIC that can do it has its RDMA device",
	 doctor_rdma_kernel},
	{"rdma-verbs", "libibverbs can use each RDMA device", doctor_rdma_verbs},
	{"rdma-ports", "each RDMA port is active", doctor_rdma_ports},
	{"rdma-mode", "namespaces share or own RDMA devices as the CNI configuration needs it",
	 doctor_rdma_mode},
	{"rail-mtu", "a rail's MTU holds RDMA packets of 4096 bytes", doctor_rail_mtu},
	{"rail-subnets", "no two rails of the host are in one subnet", doctor_rail_subnets},
	{"vf-drivers", "each VF has a driver", doctor_vf_drivers},
	{"vf-pfs", "each PF has the VFs it says, and a link for them", doctor_vf_pfs},
	{"vf-rdma", "VFs of an RDMA NIC have RDMA devices", doctor_vf_rdma},
	{"cni-links", "links in the CNI folder lead to something", doctor_cni_links},
	{"cni-conf", "CNI configurations can be read, and their plugins are there",
	 doctor_cni_conf},
	{"cni-first", "the container runtime uses the CNI configuration that calls unirail-cni",
	 doctor_cni_first},
	{"cni-masters", "the host has the links that CNI configurations name as masters",
	 doctor_cni_masters},
	{"pools",
	 "there are pools where a CNI configuration uses them; pools, journal and pods "
	 "agree",
	 doctor_pools},
	{"stray-links", "nothing that was made for a pod is left on the host", doctor_stray_links},
	{0},
};

void doctor_run(struct doctor *d)
{
	for (const struct doctor_check *c = doctor_checks; c->name; c++) {
		d->out->check = c->name;
		c->run(d);
	}
}

void doctor_find(struct doctor *d, enum finding_level level, const char *where, const char *remedy,
		 const char *fmt, ...)
{
	struct finding *f = &VEC_PUSH(d->out->v, d->out->n);
	struct buf b;
	va_list ap;

	buf_init(&b, 4096);
	va_start(ap, fmt);
	buf_vprintf(&b, fmt, ap);
	va_end(ap);
	*f = (struct finding){.check = d->out->check,
			      .level = level,
			      .where = xstrdup(where),
			      .what = buf_take(&b),
			      .remedy = xstrdup(remedy)};
}

void findings_done(struct findings *l)
{
	for (size_t i = 0; i < l->n; i++) {
		free(l->v[i].where);
		free(l->v[i].what);
		free(l->v[i].remedy);
	}
	free(l->v);
	*l = (struct findings){0};
}

size_t findings_count(const struct findings *l, enum finding_level level)
{
	size_t n = 0;

	for (size_t i = 0; i < l->n; i++)
		n += l->v[i].level == level;
	return n;
}

bool doctor_skip(struct doctor *d, const char *where, int code)
{
	if (code != -EACCES && code != -EPERM)
		return false;
	doctor_find(d, FINDING_SKIPPED, where, "run as root", "%s", errno_text(code));
	return true;
}
