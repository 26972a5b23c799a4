/* SPDX-License-Identifier: Apache-2.0 */
/* Checks whether rails fit their use: link type, firmware, MTUs of PF, VF and pod, other programs
 * that use rails. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/paths.h"
#include "doctor/checks.h"

enum { WHERE_MAX = 160, ARP_ETHERNET = 1, ARP_INFINIBAND = 32, MTU_LIMIT = 65535 };

/* --- link type --- */

void doctor_check_layer(struct doctor *d, const char *file, const struct json *plugin,
			const char *type, void *arg)
{
	const char *master = json_string(json_get_go(plugin, "master"));
	const struct link *l = master ? link_find(d->f->links, d->f->n_links, master) : NULL;
	bool wants_ib = !strcmp(type, "ipoib");
	char remedy[WHERE_MAX];

	(void)arg;
	if (!l || (!wants_ib && strcmp(type, "macvlan") != 0 && strcmp(type, "ipvlan") != 0 &&
		   strcmp(type, "vlan") != 0))
		return;
	if (wants_ib ? l->arptype != ARP_ETHERNET : l->arptype != ARP_INFINIBAND)
		return;
	snprintf(remedy, sizeof(remedy),
		 wants_ib ? "'unirail host link-type --nics %s --all infiniband', or another plugin"
			  : "'unirail host link-type --nics %s --all roce', or plugin ipoib",
		 l->name);
	doctor_find(d, FINDING_PROBLEM, file, remedy, "plugin '%s' needs %s, but '%s' runs %s",
		    type, wants_ib ? "InfiniBand" : "Ethernet", l->name,
		    wants_ib ? "Ethernet" : "InfiniBand");
}

/* The first port of a PF's RDMA device. */
struct port {
	uint32_t model; /* PCI vendor ID and device ID */
	const struct rdma_dev *dev;
	const char *layer;
};

static int by_model(const void *a, const void *b)
{
	const struct port *x = a, *y = b;

	if (x->model != y->model)
		return x->model < y->model ? -1 : 1;
	return strcmp(x->dev->name, y->dev->name);
}

static size_t list_ports(const struct host_facts *f, struct port *v)
{
	size_t n = 0;

	for (size_t i = 0; i < f->n_rdma; i++) {
		const struct rdma_dev *dev = &f->rdma[i];
		const struct pci_dev *p;
		char bdf[PCI_NAME_MAX];

		if (!dev->ports[0].link_layer[0] ||
		    pci_of(f->root, PCI_RDMA, dev->name, bdf, NULL) < 0)
			continue;
		p = host_pci(f, bdf);
		if (p && !p->physfn[0])
			v[n++] = (struct port){(uint32_t)p->vendor << 16 | p->device, dev,
					       dev->ports[0].link_layer};
	}
	return n;
}

/* Reports the ports of one model whose protocol differs from that of most ports of the model. */
static void compare_ports(struct doctor *d, const struct port *v, size_t n)
{
	size_t ib = 0;

	for (size_t i = 0; i < n; i++)
		ib += !strcmp(v[i].layer, "InfiniBand");
	for (size_t i = 0; i < n && ib && ib < n && ib * 2 != n; i++) {
		bool is_ib = !strcmp(v[i].layer, "InfiniBand");

		if (is_ib != (ib * 2 < n))
			continue;
		doctor_find(
			d, FINDING_REMARK, v[i].dev->name,
			"'unirail host link-type q' shows each port; set the types with --gpu and "
			"--other",
			"the port runs %s, %zu of the %zu ports of NICs of its model run %s",
			v[i].layer, is_ib ? n - ib : ib, n, is_ib ? "Ethernet" : "InfiniBand");
	}
}

/* Calls `compare` for the ports of each model. */
static void each_model(struct doctor *d,
		       void (*compare)(struct doctor *d, const struct port *v, size_t n))
{
	auto_free struct port *v = xcalloc(d->f->n_rdma + 1, sizeof(*v));
	size_t n = list_ports(d->f, v), from = 0;

	qsort(v, n, sizeof(*v), by_model);
	for (size_t i = 1; i <= n; i++)
		if (i == n || v[i].model != v[from].model) {
			compare(d, v + from, i - from);
			from = i;
		}
}

void doctor_link_type(struct doctor *d)
{
	doctor_each_plugin(d, doctor_check_layer, NULL);
	each_model(d, compare_ports);
}

/* --- firmware --- */

static size_t with_firmware(const struct port *v, size_t n, const char *fw)
{
	size_t same = 0;

	for (size_t i = 0; i < n; i++)
		same += !strcmp(v[i].dev->fw, fw);
	return same;
}

/* The most frequent firmware version of the NICs of a model counts as the intended one. */
static void compare_firmware(struct doctor *d, const struct port *v, size_t n)
{
	const char *most = "";
	size_t count = 0;

	for (size_t i = 0; i < n; i++) {
		size_t same = with_firmware(v, n, v[i].dev->fw);

		if (*v[i].dev->fw && same > count) {
			most = v[i].dev->fw;
			count = same;
		}
	}
	for (size_t i = 0; i < n; i++)
		if (*v[i].dev->fw && strcmp(v[i].dev->fw, most) != 0)
			doctor_find(
				d, FINDING_REMARK, v[i].dev->name,
				"install one version on all NICs of a model ('mstflint' or "
				"'mlxfwmanager'), then reset them or switch the node off and on",
				"the NIC's firmware is %s, %zu of the %zu NICs of its model run %s",
				v[i].dev->fw, count, n, most);
}

void doctor_rdma_firmware(struct doctor *d)
{
	each_model(d, compare_firmware);
}

/* --- MTUs --- */

/* Returns the first interface of the PCI function in this network namespace; NULL: none. */
static const struct link *link_of(const struct host_facts *f, const char *bdf)
{
	const struct link *l = NULL;
	char **names = NULL;
	size_t n = 0;

	if (pci_children(f->root, bdf, PCI_NETDEV, &names, &n, NULL) < 0)
		return NULL;
	for (size_t i = 0; i < n && !l; i++)
		l = link_find(f->links, f->n_links, names[i]);
	str_list_free(names, n);
	return l;
}

void doctor_mtu_vfs(struct doctor *d)
{
	const struct host_facts *f = d->f;

	for (size_t i = 0; i < f->n_pci; i++) {
		const struct pci_dev *p = &f->pci[i];
		const struct link *vf = p->physfn[0] ? link_of(f, p->bdf) : NULL;
		const struct link *pf = vf ? link_of(f, p->physfn) : NULL;
		char remedy[WHERE_MAX];

		if (!pf || vf->mtu <= pf->mtu)
			continue;
		snprintf(remedy, sizeof(remedy),
			 "'unirail host addr %s --mtu %u', or 'unirail host vf %s --mtu %u'",
			 pf->name, vf->mtu, pf->name, pf->mtu);
		doctor_find(d, FINDING_PROBLEM, vf->name, remedy,
			    "MTU %u of this VF is larger than the %u of its PF '%s': larger "
			    "packets are lost",
			    vf->mtu, pf->mtu, pf->name);
	}
}

void doctor_check_mtu(struct doctor *d, const char *file, const struct json *plugin,
		      const char *type, void *arg)
{
	const char *master = json_string(json_get_go(plugin, "master"));
	const struct link *l = master ? link_find(d->f->links, d->f->n_links, master) : NULL;
	char remedy[WHERE_MAX];
	int64_t mtu = 0;

	(void)arg;
	if (!l || json_int(json_get_go(plugin, "mtu"), &mtu) < 0 || mtu <= l->mtu ||
	    mtu > MTU_LIMIT)
		return;
	snprintf(remedy, sizeof(remedy),
		 "'unirail host addr %s --mtu %lld', or set a smaller mtu for the plugin", l->name,
		 (long long)mtu);
	doctor_find(
		d, FINDING_PROBLEM, file, remedy,
		"plugin '%s' sets MTU %lld, but its master '%s' has %u: the kernel refuses the larger MTU",
		type, (long long)mtu, l->name, l->mtu);
}

void doctor_mtu_conf(struct doctor *d)
{
	doctor_each_plugin(d, doctor_check_mtu, NULL);
}

void doctor_mtu_pod(struct doctor *d, const char *pod, const struct link *v, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		const struct pci_dev *p = v[i].device[0] ? host_pci(d->f, v[i].device) : NULL;
		const struct link *pf = p && p->physfn[0] ? link_of(d->f, p->physfn) : NULL;
		char where[WHERE_MAX], remedy[WHERE_MAX];

		if (!pf || v[i].mtu == pf->mtu)
			continue;
		snprintf(where, sizeof(where), "'%s' of %s", v[i].name, pod);
		snprintf(remedy, sizeof(remedy),
			 "set mtu in the network of this interface, or 'unirail host vf %s --mtu "
			 "%u' for new pods; 'unirail verify' tests the path to a peer",
			 pf->name, pf->mtu);
		doctor_find(d, v[i].mtu > pf->mtu ? FINDING_PROBLEM : FINDING_REMARK, where, remedy,
			    "MTU %u of this VF is not the %u of its PF '%s'", v[i].mtu, pf->mtu,
			    pf->name);
	}
}

static void check_namespace(struct doctor *d, const char *name)
{
	auto_free char *path = xasprintf("/run/netns/%s", name);
	auto_free struct link *links = NULL;
	size_t n = 0;

	if (host_pod_links(d->f, name, &links, &n) == 0)
		doctor_mtu_pod(d, path, links, n);
}

void doctor_mtu_pods(struct doctor *d)
{
	bool may_read = !d->f->live || geteuid() == 0;
	char **names = NULL;
	bool vfs = false;
	size_t n = 0;

	for (size_t i = 0; i < d->f->n_pci; i++)
		vfs |= d->f->pci[i].physfn[0] != '\0';
	if (!vfs || dir_list(d->f->root, PATH_NETNS, &names, &n, NULL) < 0)
		return;
	if (n && !may_read)
		doctor_skip(d, PATH_NETNS, -EPERM);
	for (size_t i = 0; i < n && may_read; i++)
		check_namespace(d, names[i]);
	str_list_free(names, n);
}

/* --- other programs --- */

static bool file_has(const struct root *r, const char *path, const char *text)
{
	auto_buf struct buf b;

	buf_init(&b, 64 << 10);
	return file_read(r, path, b.max, &b, NULL) == 0 && b.len && strstr(b.p, text);
}

static bool dir_has(const struct root *r, const char *dir, const char *text)
{
	char **names = NULL;
	bool found = false;
	size_t n = 0;

	if (dir_list(r, dir, &names, &n, NULL) < 0)
		return false;
	for (size_t i = 0; i < n && !found; i++) {
		auto_free char *path = xasprintf("%s/%s", dir, names[i]);

		found = file_has(r, path, text);
	}
	str_list_free(names, n);
	return found;
}

/*
 * For links that it configures, networkd removes routing rules and routes that are not in its
 * files, whenever networkd starts or the carrier returns. networkd.conf can turn this off (systemd
 * 249 or later). Reports only the first rail that networkd configures.
 */
void doctor_rail_networkd(struct doctor *d)
{
	static const char key[] = "ManageForeignRoutingPolicyRules=no";
	const struct root *r = d->f->root;
	const struct link *l;
	size_t at = 0;

	if (file_has(r, "/etc/systemd/networkd.conf", key) ||
	    dir_has(r, "/etc/systemd/networkd.conf.d", key) ||
	    dir_has(r, "/run/systemd/networkd.conf.d", key) ||
	    dir_has(r, "/usr/lib/systemd/networkd.conf.d", key))
		return;
	while ((l = doctor_next_rail(d->f, &at))) {
		auto_free char *path = xasprintf("/run/systemd/netif/links/%d", l->index);

		if (!file_has(r, path, "ADMIN_STATE=configured"))
			continue;
		doctor_find(
			d, FINDING_REMARK, l->name,
			"set ManageForeignRoutingPolicyRules=no and ManageForeignRoutes=no in "
			"[Network] of /etc/systemd/networkd.conf; 'unirail host watch' restores what networkd removes",
			"systemd-networkd configures this rail: each time networkd starts, it removes rules and routes that other programs made");
		return;
	}
}

/* Reports rails that are ports of a bridge or the like (not of a bond or team), and rails that
 * carry the tunnel of a pod network. */
void doctor_rail_foreign(struct doctor *d)
{
	const struct host_facts *f = d->f;
	const struct link *l;
	size_t at = 0;

	while ((l = doctor_next_rail(f, &at))) {
		const struct link *m = l->master ? link_find_index(f->links, f->n_links, l->master)
						 : NULL;
		char remedy[WHERE_MAX];

		if (m && strcmp(m->kind, "bond") != 0 && strcmp(m->kind, "team") != 0) {
			snprintf(remedy, sizeof(remedy),
				 "remove the rail from the %s ('ip link set %s nomaster'), and "
				 "remove the program that adds the rail",
				 m->kind[0] ? m->kind : "switch", l->name);
			doctor_find(d, FINDING_PROBLEM, l->name, remedy,
				    "this rail is a port of %s '%s': addresses and macvlans of the "
				    "rail itself do not work",
				    m->kind[0] ? m->kind : "switch", m->name);
		}
		for (size_t i = 0; i < f->n_links; i++) {
			const struct link *t = &f->links[i];

			if (strcmp(t->kind, "vxlan") != 0 || t->parent != l->index ||
			    t->parent_netnsid >= 0)
				continue;
			doctor_find(d, FINDING_PROBLEM, l->name,
				    "name the node's own interface in the pod network's "
				    "configuration (Flannel: --iface, Calico: IP autodetection, "
				    "Cilium: devices)",
				    "the tunnel '%s' of the pod network runs over this rail",
				    t->name);
		}
	}
}
