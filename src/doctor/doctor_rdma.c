/* SPDX-License-Identifier: Apache-2.0 */
/* RDMA devices, their ports, and the links that rails stand on. */
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "doctor/doctor.h"

enum { PORT_DOWN = 1, PORT_INIT = 2, PORT_ARMED = 3, PORT_ACTIVE = 4, WHERE_MAX = 128 };
/* RDMA packets of 4096 bytes and what RoCE puts around them (iboe_get_mtu() of the kernel) */
enum { FULL_MTU = 4096 + 96 };

/* Drivers whose NICs do RDMA, and the module that makes the device. */
static const struct {
	const char *driver, *module;
} rdma_drivers[] = {{"mlx5_core", "mlx5_ib"},
		    {"mlx4_core", "mlx4_ib"},
		    {"bnxt_en", "bnxt_re"},
		    {"ice", "irdma"},
		    {"hns3", "hns_roce_hw_v2"}};

static const char *module_for(const char *driver)
{
	for (size_t i = 0; i < ARRAY_LEN(rdma_drivers); i++)
		if (!strcmp(rdma_drivers[i].driver, driver))
			return rdma_drivers[i].module;
	return NULL;
}

static size_t count_children(const struct host_facts *f, const char *bdf, enum pci_child what)
{
	char **names = NULL;
	size_t n = 0;

	if (pci_children(f->root, bdf, what, &names, &n, NULL) < 0)
		return 0;
	str_list_free(names, n);
	return n;
}

/* In exclusive mode a device may be in a pod, where /sys does not show it. */
void doctor_rdma_kernel(struct doctor *d)
{
	const struct host_facts *f = d->f;

	for (size_t i = 0; i < f->n_pci; i++) {
		const struct pci_dev *p = &f->pci[i];
		const char *module = module_for(p->driver);
		bool hidden = f->has_rdma && f->mode == RDMA_NETNS_EXCLUSIVE;
		char remedy[WHERE_MAX];

		if (!module || p->physfn[0] || hidden || count_children(f, p->bdf, PCI_RDMA))
			continue;
		snprintf(remedy, sizeof(remedy), "'modprobe %s', and look at 'dmesg' for '%s'",
			 module, p->bdf);
		doctor_find(d, p->class >> 8 == 0x0207 ? FINDING_PROBLEM : FINDING_NOTE, p->bdf,
			    remedy, "the NIC (driver '%s') has no RDMA device%s", p->driver,
			    f->has_rdma ? "" : ": the kernel's RDMA is not loaded");
	}
}

void doctor_rdma_verbs(struct doctor *d)
{
	const struct host_facts *f = d->f;

	for (size_t i = 0; i < f->n_rdma; i++)
		if (f->rdma[i].why[0])
			doctor_find(d, FINDING_PROBLEM, f->rdma[i].name,
				    "see 'unirail rdma dev'; pods with another libibverbs may be "
				    "better off",
				    "libibverbs cannot use it: %s", f->rdma[i].why);
	if (f->n_rdma && !file_exists(f->root, "/dev/infiniband/rdma_cm"))
		doctor_find(d, FINDING_NOTE, "/dev/infiniband/rdma_cm", "'modprobe rdma_ucm'",
			    "it is missing: programs that connect by librdmacm do not work");
}

static bool is_ib(const struct rdma_port *p)
{
	return !strcmp(p->link_layer, "InfiniBand");
}

static void port_down(struct doctor *d, const char *where, const struct rdma_port *p)
{
	const struct link *l = host_port_link(d->f, p);
	char remedy[WHERE_MAX] = "look at cable, transceiver and switch port";

	if (l && !link_is_up(l))
		snprintf(remedy, sizeof(remedy), "'ip link set %s up'", l->name);
	doctor_find(d, FINDING_PROBLEM, where, remedy, "the port is %s (%s)%s%s%s",
		    rdma_port_state_name(p->state), rdma_port_phys_state_name(p->phys_state),
		    l ? ", its interface '" : "", l ? l->name : "",
		    !l		    ? ""
		    : link_is_up(l) ? "' has no carrier"
				    : "' is down");
}

static void check_port(struct doctor *d, const struct rdma_dev *dev, const struct rdma_port *p)
{
	char where[WHERE_MAX];

	snprintf(where, sizeof(where), "%s port %u", dev->name, p->port);
	if (p->state == PORT_ACTIVE)
		return;
	if (is_ib(p) && (p->state == PORT_INIT || p->state == PORT_ARMED))
		doctor_find(d, FINDING_PROBLEM, where,
			    "start a subnet manager (opensm, UFM) in the fabric, or look why it "
			    "passes this port over",
			    "the port is %s: no subnet manager has set it up",
			    rdma_port_state_name(p->state));
	else
		port_down(d, where, p);
}

void doctor_rdma_ports(struct doctor *d)
{
	for (size_t i = 0; i < d->f->n_rdma; i++)
		for (size_t k = 0; k < RDMA_PORTS_MAX; k++)
			if (d->f->rdma[i].ports[k].port)
				check_port(d, &d->f->rdma[i], &d->f->rdma[i].ports[k]);
}

/* The links under RDMA ports with Ethernet; NULL at the end. */
static const struct link *next_rail(const struct host_facts *f, size_t *at)
{
	while (*at < f->n_rdma * RDMA_PORTS_MAX) {
		const struct rdma_dev *dev = &f->rdma[*at / RDMA_PORTS_MAX];
		const struct rdma_port *p = &dev->ports[(*at)++ % RDMA_PORTS_MAX];
		const struct link *l = p->port && !is_ib(p) ? host_port_link(f, p) : NULL;

		if (l)
			return l;
	}
	return NULL;
}

void doctor_rail_mtu(struct doctor *d)
{
	const struct link *l;
	size_t at = 0;

	while ((l = next_rail(d->f, &at))) {
		char remedy[WHERE_MAX];

		if (l->mtu >= FULL_MTU)
			continue;
		snprintf(remedy, sizeof(remedy),
			 "'ip link set %s mtu 9000', and the same on switch and peers", l->name);
		doctor_find(d, FINDING_NOTE, l->name, remedy,
			    "MTU %u is less than the %d that RDMA packets of 4096 bytes need",
			    l->mtu, FULL_MTU);
	}
}

static bool same_subnet(const struct ipnet *a, const struct ipnet *b)
{
	struct ipnet x = ipnet_network(a), y = ipnet_network(b);

	return ipnet_eq(&x, &y) && !ip_is_link_local(&a->ip) && a->len < ip_bits(&a->ip);
}

static void compare_rails(struct doctor *d, const struct link *a, const struct link *b)
{
	const struct host_facts *f = d->f;

	for (size_t i = 0; i < f->n_addrs; i++)
		for (size_t k = 0; k < f->n_addrs; k++) {
			const struct addr *x = &f->addrs[i], *y = &f->addrs[k];
			char text[IP_TEXT_MAX];

			if (x->index != a->index || y->index != b->index ||
			    !same_subnet(&x->net, &y->net))
				continue;
			doctor_find(
				d, FINDING_NOTE, a->name,
				"give each rail a subnet of its own, or route by source "
				"address and set arp_ignore=1, arp_announce=2",
				"%s is in the same subnet as '%s': one of them answers for both",
				ipnet_str(&x->net, text), b->name);
			return;
		}
}

void doctor_rail_subnets(struct doctor *d)
{
	const struct link *a, *b;
	size_t at = 0;

	while ((a = next_rail(d->f, &at))) {
		size_t more = at;

		while ((b = next_rail(d->f, &more)))
			if (a != b)
				compare_rails(d, a, b);
	}
}
