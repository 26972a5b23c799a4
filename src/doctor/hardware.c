/* SPDX-License-Identifier: Apache-2.0 */
/* Checks of the settings that `unirail host` makes (PCIe path between NIC and GPU, GIDs, GUIDs
 * and MAC addresses, modules, limits), and a check for NetworkManager. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/num.h"
#include "doctor/checks.h"
#include "kern/pci/config.h"

enum { WHERE_MAX = 128, CLASS_BRIDGE = 0x0604, CLASS_DISPLAY = 0x03 };
enum { MAX_READ_WANTED = 4096, CAP_IPC_LOCK_BIT = 14, GIDS_MAX = 256 };
enum { MEMLOCK_MIN = 64 << 20 };

/* --- PCI --- */

static bool is_gpu(const struct pci_dev *p)
{
	return p->class >> 16 == CLASS_DISPLAY && p->vendor == PCI_VENDOR_NVIDIA;
}

static bool is_rdma_pf(const struct host_facts *f, const struct pci_dev *p)
{
	char **names = NULL;
	size_t n = 0;

	if (p->class >> 16 != 0x02 || p->physfn[0] ||
	    pci_children(f->root, p->bdf, PCI_RDMA, &names, &n, NULL) < 0)
		return false;
	str_list_free(names, n);
	return n > 0;
}

/* Reports each bridge above the NIC that redirects traffic by ACS. seen[i] is true if function i
 * of the host has been checked, so that no bridge is reported twice. */
static void check_bridges(struct doctor *d, const struct pci_path *path, bool *seen)
{
	const struct host_facts *f = d->f;

	for (size_t i = 0; i < f->n_pci; i++) {
		struct pci_acs acs;
		bool above = false;
		int r;

		for (size_t k = 0; k < path->n; k++)
			above |= !strcmp(f->pci[i].bdf, path->ports[k]);
		if (!above || seen[i] || f->pci[i].class >> 8 != CLASS_BRIDGE)
			continue;
		seen[i] = true;
		r = pci_acs_read(f->root, f->pci[i].bdf, &acs, NULL);
		if (r == -EACCES && doctor_skip(d, f->pci[i].bdf, r))
			continue;
		if (r == 1 && acs.control & PCI_ACS_REDIRECTS) {
			doctor_find(d, FINDING_REMARK, f->pci[i].bdf, "'unirail host acs'",
				    "ACS (control 0x%04x) sends traffic between the NIC below this "
				    "port and a GPU through the root complex",
				    acs.control);
			doctor_fix(d, "acs");
		}
	}
}

void doctor_pci_acs(struct doctor *d)
{
	const struct host_facts *f = d->f;
	auto_free bool *seen = xcalloc(f->n_pci + 1, sizeof(*seen));

	for (size_t i = 0; i < f->n_pci; i++) {
		struct pci_path nic, gpu;
		bool near = false;

		if (!is_rdma_pf(f, &f->pci[i]) ||
		    pci_path_read(f->root, f->pci[i].bdf, &nic, NULL) < 0)
			continue;
		for (size_t k = 0; k < f->n_pci && !near; k++)
			near = is_gpu(&f->pci[k]) &&
			       pci_path_read(f->root, f->pci[k].bdf, &gpu, NULL) == 0 &&
			       pci_path_common(&nic, &gpu) >= 1;
		if (near)
			check_bridges(d, &nic, seen);
	}
}

void doctor_pci_read(struct doctor *d)
{
	const struct host_facts *f = d->f;

	for (size_t i = 0; i < f->n_pci; i++) {
		struct pci_devctl ctl;

		if (!is_rdma_pf(f, &f->pci[i]) || f->pci[i].vendor != 0x15b3 ||
		    pci_devctl_read(f->root, f->pci[i].bdf, &ctl, NULL) <= 0 ||
		    ctl.max_read >= MAX_READ_WANTED)
			continue;
		doctor_find(d, FINDING_REMARK, f->pci[i].bdf,
			    "'unirail host pci --max-read-request 4096'",
			    "MaxReadReq is %u bytes: with 4096 the NIC needs fewer PCIe requests "
			    "to read memory",
			    ctl.max_read);
		doctor_fix(d, "pci --max-read-request %d", MAX_READ_WANTED);
	}
}

/* --- RDMA devices --- */

static bool gid_is_zero(const char *s)
{
	return strspn(s, "0:") == strlen(s);
}

struct gid_count {
	/* numbers of GID entries: in use; of type RoCE v2; in use with a readable type */
	size_t used, v2, typed;
};

/* Returns false if the snapshot does not have the port's directory, so that its GIDs are unknown.
 * */
static bool count_gids(const struct root *r, const char *device, uint32_t port,
		       struct gid_count *ret)
{
	auto_free char *dir = xasprintf("/sys/class/infiniband/%s/ports/%u", device, port);
	auto_free char *state = xasprintf("%s/state", dir);
	char line[64];

	*ret = (struct gid_count){0};
	if (!file_exists(r, state))
		return false;
	for (unsigned int i = 0; i < GIDS_MAX; i++) {
		auto_free char *path = xasprintf("%s/gids/%u", dir, i);
		auto_free char *type = xasprintf("%s/gid_attrs/types/%u", dir, i);

		if (file_read_line(r, path, line, sizeof(line), NULL) < 0 || gid_is_zero(line))
			continue;
		ret->used++;
		if (file_read_line(r, type, line, sizeof(line), NULL) < 0)
			continue;
		ret->typed++;
		ret->v2 += !strcmp(line, "RoCE v2");
	}
	return true;
}

static void check_gids(struct doctor *d, const struct rdma_dev *dev, const struct rdma_port *p)
{
	struct gid_count n;
	char where[WHERE_MAX];

	if (!count_gids(d->f->root, dev->name, p->port, &n))
		return;
	snprintf(where, sizeof(where), "%s port %u", dev->name, p->port);
	if (!n.used)
		doctor_find(
			d, FINDING_PROBLEM, where,
			"set the port's interface up and give the interface an address: 'unirail "
			"host addr'",
			"the GID table is empty: no connection can be made over this port");
	else if (!strcmp(p->link_layer, "Ethernet") && n.typed == n.used && !n.v2)
		doctor_find(d, FINDING_PROBLEM, where,
			    "give the port's interface an address ('unirail host addr'), and allow "
			    "RoCE "
			    "v2 in the NIC's firmware",
			    "none of the port's %zu GIDs is of RoCE v2: routed RoCE does not work",
			    n.used);
}

void doctor_rdma_gids(struct doctor *d)
{
	const struct host_facts *f = d->f;

	for (size_t i = 0; i < f->n_rdma; i++)
		for (size_t k = 0; k < RDMA_PORTS_MAX; k++)
			if (f->rdma[i].ports[k].port)
				check_gids(d, &f->rdma[i], &f->rdma[i].ports[k]);
}

static const struct link *rail_of(const struct host_facts *f, const struct rdma_dev *d)
{
	return host_port_link(f, &d->ports[0]);
}

static int by_guid(const void *a, const void *b)
{
	const struct rdma_dev *x = *(const struct rdma_dev *const *)a,
			      *y = *(const struct rdma_dev *const *)b;

	return x->node_guid < y->node_guid ? -1 : x->node_guid > y->node_guid;
}

void doctor_rdma_guids(struct doctor *d)
{
	const struct host_facts *f = d->f;
	auto_free const struct rdma_dev **list = xcalloc(f->n_rdma + 1, sizeof(*list));

	for (size_t i = 0; i < f->n_rdma; i++)
		list[i] = &f->rdma[i];
	if (f->n_rdma)
		qsort(list, f->n_rdma, sizeof(*list), by_guid);
	for (size_t i = 1; i < f->n_rdma; i++)
		if (list[i]->node_guid && list[i]->node_guid == list[i - 1]->node_guid)
			doctor_find(
				d, FINDING_PROBLEM, list[i]->name,
				"give each VF a GUID of its own: 'unirail host vf PF --num-vfs N'",
				"node GUID %016llx is that of '%s' as well",
				(unsigned long long)list[i]->node_guid, list[i - 1]->name);
}

struct rail_mac {
	const struct link *l;
	uint64_t mac;
};

static int by_mac(const void *a, const void *b)
{
	const struct rail_mac *x = a, *y = b;

	if (x->mac != y->mac)
		return x->mac < y->mac ? -1 : 1;
	return x->l->index - y->l->index;
}

void doctor_rail_macs(struct doctor *d)
{
	const struct host_facts *f = d->f;
	auto_free struct rail_mac *list = xcalloc(f->n_rdma + 1, sizeof(*list));
	size_t n = 0;

	for (size_t i = 0; i < f->n_rdma; i++) {
		const struct link *l = rail_of(f, &f->rdma[i]);

		/* skips links with a master, since the ports of a bond share an address */
		if (!l || l->mac.len != 6 || l->master)
			continue;
		list[n].l = l;
		for (size_t k = 0; k < 6; k++)
			list[n].mac = list[n].mac << 8 | l->mac.b[k];
		n += list[n].mac != 0;
	}
	qsort(list, n, sizeof(*list), by_mac);
	for (size_t i = 1; i < n; i++)
		if (list[i].mac == list[i - 1].mac && list[i].l->index != list[i - 1].l->index)
			doctor_find(
				d, FINDING_PROBLEM, list[i].l->name,
				"give each interface a MAC address of its own: 'unirail host vf "
				"PF --num-vfs N' for VFs",
				"the MAC address is that of '%s' as well", list[i - 1].l->name);
}

void doctor_rdma_umad(struct doctor *d)
{
	const struct host_facts *f = d->f;

	for (size_t i = 0; i < f->n_rdma; i++) {
		if (strcmp(f->rdma[i].ports[0].link_layer, "InfiniBand") != 0 ||
		    file_exists(f->root, "/dev/infiniband/umad0"))
			continue;
		doctor_find(d, FINDING_REMARK, "/dev/infiniband/umad0", "'unirail host modules'",
			    "the device node is missing (module ib_umad): opensm, ibstat and other "
			    "tools of "
			    "InfiniBand do not work");
		doctor_fix(d, "modules --load ib_umad,rdma_ucm");
		return;
	}
}

/* --- rails --- */

static int64_t rp_filter(const struct root *r, const char *name)
{
	auto_free char *path = xasprintf("/proc/sys/net/ipv4/conf/%s/rp_filter", name);
	char line[16];
	int64_t v = 0;

	return file_read_line(r, path, line, sizeof(line), NULL) == 0 &&
			       num_i64(span_of(line), 0, 2, &v) == 0
		       ? v
		       : 0;
}

/*
 * Of the values of rp_filter for the interface and for "all", the kernel uses the larger one. A
 * host with a single rail is not checked, because its replies leave through the interface on which
 * the requests arrive.
 */
void doctor_rail_rp_filter(struct doctor *d)
{
	const struct host_facts *f = d->f;
	int64_t all = rp_filter(f->root, "all");
	size_t rails = 0;

	for (size_t i = 0; i < f->n_rdma; i++)
		rails += rail_of(f, &f->rdma[i]) != NULL;
	for (size_t i = 0; i < f->n_rdma && rails > 1; i++) {
		const struct link *l = rail_of(f, &f->rdma[i]);
		int64_t own = l ? rp_filter(f->root, l->name) : 0;
		char remedy[WHERE_MAX];

		if (!l || (own > all ? own : all) != 1)
			continue;
		snprintf(remedy, sizeof(remedy),
			 "'unirail host sysctl net.ipv4.conf.%s.rp_filter=2'", l->name);
		doctor_find(d, FINDING_REMARK, l->name, remedy,
			    "rp_filter is strict: the kernel drops packets that arrive on another "
			    "rail than the route back uses");
		doctor_fix(d, "sysctl net.ipv4.conf.%s.rp_filter=2", l->name);
	}
}

void doctor_rail_managed(struct doctor *d)
{
	const struct host_facts *f = d->f;

	for (size_t i = 0; i < f->n_rdma; i++) {
		const struct link *l = rail_of(f, &f->rdma[i]);
		auto_free char *path = l ? xasprintf("/run/NetworkManager/devices/%d", l->index)
					 : NULL;
		auto_buf struct buf b;

		buf_init(&b, 4096);
		if (!l || file_read(f->root, path, 4096, &b, NULL) < 0 || !b.len ||
		    !strstr(b.p, "managed=true"))
			continue;
		doctor_find(
			d, FINDING_REMARK, l->name, "'unirail host nm-ignore'",
			"NetworkManager manages this rail and may remove its addresses, rules and "
			"routes");
		doctor_fix(d, "nm-ignore --interfaces veth*,%s", l->name);
	}
}

/* --- GPUs --- */

void doctor_gpu_peermem(struct doctor *d)
{
	const struct host_facts *f = d->f;
	char line[256] = "";
	bool gpu = false;

	for (size_t i = 0; i < f->n_pci; i++)
		gpu |= is_gpu(&f->pci[i]);
	if (!gpu || !f->n_rdma || !file_exists(f->root, "/sys/module/nvidia") ||
	    file_exists(f->root, "/sys/module/nvidia_peermem") ||
	    file_exists(f->root, "/sys/module/nv_peer_mem"))
		return;
	/* NVIDIA's open driver exports GPU memory as dma-buf and needs neither nvidia_peermem
	 * nor nv_peer_mem. */
	if (file_read_line(f->root, "/proc/driver/nvidia/version", line, sizeof(line), NULL) == 0 &&
	    strstr(line, "Open Kernel Module"))
		return;
	doctor_find(
		d, FINDING_PROBLEM, "nvidia_peermem",
		"'unirail host modules --load ib_umad,rdma_ucm,nvidia_peermem'",
		"the module is not loaded: RDMA cannot reach GPU memory, so data takes the way through host memory");
	doctor_fix(d, "modules --load ib_umad,rdma_ucm,nvidia_peermem");
}

/* --- memory that programs may lock --- */

static bool opens_verbs(const struct root *r, const char *pid)
{
	auto_free char *dir = xasprintf("/proc/%s/fd", pid);
	char **names = NULL, target[PATH_MAX];
	bool found = false;
	size_t n = 0;

	if (dir_list(r, dir, &names, &n, NULL) < 0)
		return false;
	for (size_t i = 0; i < n && !found; i++) {
		auto_free char *path = xasprintf("%s/%s", dir, names[i]);

		found = link_read(r, path, target, sizeof(target), NULL) == 0 &&
			!strncmp(target, "/dev/infiniband/uverbs",
				 strlen("/dev/infiniband/uverbs"));
	}
	str_list_free(names, n);
	return found;
}

/* Reads the number after a label at the start of a line; false: the value is "unlimited", there
 * is no such line, or the file cannot be read. */
static bool number_of(const struct root *r, const char *pid, const char *file, const char *label,
		      bool hex, uint64_t *ret)
{
	auto_free char *path = xasprintf("/proc/%s/%s", pid, file);
	auto_buf struct buf b;

	buf_init(&b, 64 << 10);
	return file_read(r, path, b.max, &b, NULL) >= 0 &&
	       num_labelled(buf_span(&b), label, hex, ret) == 0;
}

static void check_process(struct doctor *d, const char *pid)
{
	auto_free char *path = xasprintf("/proc/%s/comm", pid);
	char comm[32] = "", where[WHERE_MAX];
	uint64_t limit, caps = 0;

	if (!number_of(d->f->root, pid, "limits", "Max locked memory", false, &limit) ||
	    limit >= MEMLOCK_MIN || !opens_verbs(d->f->root, pid))
		return;
	number_of(d->f->root, pid, "status", "CapEff:", true, &caps);
	if (caps >> CAP_IPC_LOCK_BIT & 1)
		return;
	file_read_line(d->f->root, path, comm, sizeof(comm), NULL);
	snprintf(where, sizeof(where), "process %s (%s)", pid, comm);
	doctor_find(d, FINDING_PROBLEM, where,
		    "'unirail host memlock', then recreate the pod of the process; CAP_IPC_LOCK "
		    "works for user 0 only",
		    "the process uses RDMA and may lock %llu KiB: memory registration fails, and "
		    "NCCL falls back "
		    "to TCP",
		    (unsigned long long)(limit >> 10));
}

void doctor_memlock(struct doctor *d)
{
	char **names = NULL;
	size_t n = 0;

	if (!d->f->n_rdma || dir_list(d->f->root, "/proc", &names, &n, NULL) < 0)
		return;
	for (size_t i = 0; i < n; i++)
		if (names[i][0] >= '1' && names[i][0] <= '9')
			check_process(d, names[i]);
	str_list_free(names, n);
}
