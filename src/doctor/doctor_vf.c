/* SPDX-License-Identifier: Apache-2.0 */
/* Physical and virtual functions. */
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "doctor/doctor.h"

enum { REMEDY_MAX = 192 };

static bool is_network(const struct pci_dev *p)
{
	return p->class >> 16 == 0x02;
}

void doctor_vf_drivers(struct doctor *d)
{
	for (size_t i = 0; i < d->f->n_pci; i++) {
		const struct pci_dev *p = &d->f->pci[i];
		char remedy[REMEDY_MAX];

		if (!p->physfn[0] || p->driver[0] || !is_network(p))
			continue;
		snprintf(remedy, sizeof(remedy),
			 "'echo %s >/sys/bus/pci/drivers_probe', or see its driver_override",
			 p->bdf);
		doctor_find(d, FINDING_PROBLEM, p->bdf, remedy,
			    "no driver is bound to this VF of '%s': no pod can have it", p->physfn);
	}
}

static size_t count_vfs(const struct host_facts *f, const char *pf)
{
	size_t n = 0;

	for (size_t i = 0; i < f->n_pci; i++)
		n += !strcmp(f->pci[i].physfn, pf);
	return n;
}

/* The PF's interfaces in this namespace that are down. */
static void check_pf_link(struct doctor *d, const struct pci_dev *pf)
{
	const struct host_facts *f = d->f;
	char **names = NULL, remedy[REMEDY_MAX];
	size_t n = 0;

	if (pci_children(f->root, pf->bdf, PCI_NETDEV, &names, &n, NULL) < 0)
		return;
	for (size_t i = 0; i < n; i++) {
		const struct link *l = link_find(f->links, f->n_links, names[i]);

		if (!l || link_is_up(l))
			continue;
		snprintf(remedy, sizeof(remedy), "'ip link set %s up'", l->name);
		doctor_find(d, FINDING_PROBLEM, l->name, remedy,
			    "the PF is down, so its %u VFs have no link", pf->num_vfs);
	}
	str_list_free(names, n);
}

void doctor_vf_pfs(struct doctor *d)
{
	for (size_t i = 0; i < d->f->n_pci; i++) {
		const struct pci_dev *p = &d->f->pci[i];
		size_t n = count_vfs(d->f, p->bdf);

		if (p->physfn[0] && is_network(p) && !host_pci(d->f, p->physfn))
			doctor_find(d, FINDING_PROBLEM, p->bdf, "look at 'lspci' and 'dmesg'",
				    "its PF '%s' is not there", p->physfn);
		if (!p->is_pf || !is_network(p))
			continue;
		if (n != p->num_vfs)
			doctor_find(d, FINDING_PROBLEM, p->bdf,
				    "look at 'dmesg'; set sriov_numvfs to 0 and back once no pod "
				    "has one of them",
				    "%u VFs are configured, %zu are there", p->num_vfs, n);
		if (p->num_vfs && !pci_driver_is_dpdk(p->driver))
			check_pf_link(d, p);
	}
}

static bool has_rdma(const struct host_facts *f, const char *bdf)
{
	char **names = NULL;
	size_t n = 0;

	if (pci_children(f->root, bdf, PCI_RDMA, &names, &n, NULL) < 0)
		return false;
	str_list_free(names, n);
	return n > 0;
}

/* With a netdev here and no RDMA device the two were parted; without either it is in a pod. */
static bool is_parted(const struct host_facts *f, const struct pci_dev *vf)
{
	char **names = NULL;
	size_t n = 0;

	if (pci_children(f->root, vf->bdf, PCI_NETDEV, &names, &n, NULL) < 0)
		return false;
	str_list_free(names, n);
	return n > 0 && !has_rdma(f, vf->bdf);
}

void doctor_vf_rdma(struct doctor *d)
{
	const struct host_facts *f = d->f;

	for (size_t i = 0; i < f->n_pci; i++) {
		const struct pci_dev *p = &f->pci[i];

		if (!p->physfn[0] || !p->driver[0] || pci_driver_is_dpdk(p->driver) ||
		    !has_rdma(f, p->physfn) || !is_parted(f, p))
			continue;
		doctor_find(
			d, FINDING_PROBLEM, p->bdf,
			"bind its driver anew; in exclusive mode look which namespace has the "
			"device ('rdma dev' there)",
			"the VF's interface is here, its RDMA device is not, though its PF '%s' "
			"has one",
			p->physfn);
	}
}
