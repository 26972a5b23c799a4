/* SPDX-License-Identifier: Apache-2.0 */
#include "doctor/checks.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/option.h"
#include "base/path.h"
#include "host/cni/cni_config.h"
#include "ipam/ipam.h"
#include "wire/json/json.h"

static void doctor_cni_conf(struct doctor *d);

static void doctor_cni_first(struct doctor *d);

static void doctor_cni_links(struct doctor *d);

static void doctor_cni_masters(struct doctor *d);

static void doctor_pools(struct doctor *d);

static void doctor_rail_mtu(struct doctor *d);

static void doctor_rail_subnets(struct doctor *d);

static void doctor_rdma_kernel(struct doctor *d);

static void doctor_rdma_mode(struct doctor *d);

static void doctor_rdma_verbs(struct doctor *d);

static void doctor_orphan_links(struct doctor *d);

static void doctor_vf_drivers(struct doctor *d);

static void doctor_vf_pfs(struct doctor *d);

static void doctor_vf_rdma(struct doctor *d);

/* The checks, in the order in which they run and in which `unirail doctor --list` prints them. */
const struct doctor_check doctor_checks[] = {
	{"rdma-kernel",
	 "the kernel supports RDMA, and each NIC that supports it has an RDMA device",
	 doctor_rdma_kernel},
	{"rdma-verbs", "libibverbs can use each RDMA device", doctor_rdma_verbs},
	{"rdma-ports", "each RDMA port is active", doctor_rdma_ports},
	{"rdma-mode",
	 "the RDMA mode (shared or exclusive) is the one that the CNI configuration needs",
	 doctor_rdma_mode},
	{"link-type", "ports run the protocol that their use needs: Ethernet or InfiniBand",
	 doctor_link_type},
	{"rdma-firmware", "NICs of one model run one version of the firmware",
	 doctor_rdma_firmware},
	{"rail-mtu", "a rail's MTU holds RDMA packets of 4096 bytes", doctor_rail_mtu},
	{"mtu-vfs", "no VF has a larger MTU than its PF", doctor_mtu_vfs},
	{"mtu-conf", "no CNI configuration sets a larger MTU than its master has", doctor_mtu_conf},
	{"mtu-pods", "VFs in pods have the MTU of their PF", doctor_mtu_pods},
	{"rail-subnets", "no two rails of the host are in the same subnet", doctor_rail_subnets},
	{"rdma-gids", "each RDMA port has GIDs, and each RoCE port has GIDs of RoCE v2",
	 doctor_rdma_gids},
	{"rdma-guids", "no two RDMA devices have the same node GUID", doctor_rdma_guids},
	{"rdma-umad", "device nodes for InfiniBand tools exist", doctor_rdma_umad},
	{"rail-macs", "no two rails have the same MAC address", doctor_rail_macs},
	{"rail-rp-filter",
	 "rp_filter does not drop packets that arrive on another rail than the route back uses",
	 doctor_rail_rp_filter},
	{"rail-managed", "no other network manager changes rails", doctor_rail_managed},
	{"rail-networkd", "systemd-networkd keeps rules and routes that it did not make",
	 doctor_rail_networkd},
	{"rail-foreign", "no other CNI uses a rail", doctor_rail_foreign},
	{"host-drift", "the host is in the state of host.conf: QoS, VFs, addresses, limits",
	 doctor_host_drift},
	{"pci-acs", "NICs and GPUs below one PCIe switch reach each other directly",
	 doctor_pci_acs},
	{"pci-read", "RDMA NICs of NVIDIA may read 4096 bytes of memory at once", doctor_pci_read},
	{"gpu-peermem", "RDMA reaches the memory of GPUs", doctor_gpu_peermem},
	{"memlock", "processes that use RDMA have permission to lock memory", doctor_memlock},
	{"vf-drivers", "each VF has a driver", doctor_vf_drivers},
	{"vf-pfs", "each PF has as many VFs as are configured, and its interface is up",
	 doctor_vf_pfs},
	{"vf-rdma", "VFs of an RDMA NIC have RDMA devices", doctor_vf_rdma},
	{"vf-resources",
	 "VFs in the kubelet's resources exist; of a PF's VFs with a driver, all or none are in "
	 "a resource",
	 doctor_vf_resources},
	{"node-resources", "a device plugin of this node serves each resource of its Node object",
	 doctor_node_resources},
	{"node-drivers", "the network operator does not wait for a driver pod",
	 doctor_node_drivers},
	{"node-address", "no other CNI uses a rail's address as the node's address",
	 doctor_node_address},
	{"cni-links", "each link in the CNI directory has an existing target", doctor_cni_links},
	{"cni-conf", "CNI configurations are valid, and their plugins exist", doctor_cni_conf},
	{"cni-first", "the container runtime uses the CNI configuration that calls unirail-cni",
	 doctor_cni_first},
	{"cni-masters", "the host has the links that CNI configurations name as masters",
	 doctor_cni_masters},
	{"pools",
	 "pools exist if a CNI configuration uses them; pools, the journal of allocations and "
	 "pods agree",
	 doctor_pools},
	{"leftover-links", "no interface that was created for a pod remains on the host",
	 doctor_orphan_links},
	{0},
};

void doctor_run(struct doctor *d)
{
	for (const struct doctor_check *c = doctor_checks; c->name; c++) {
		d->out->check = c->name;
		c->run(d);
	}
}

void doctor_find(struct doctor *d, enum finding_level level, const char *subject,
		 const char *remedy, const char *fmt, ...)
{
	struct finding *f = &VEC_PUSH(d->out->v, d->out->n);
	va_list ap;

	va_start(ap, fmt);
	*f = (struct finding){.check = d->out->check,
			      .level = level,
			      .subject = xstrdup(subject),
			      .what = xvasprintf(fmt, ap),
			      .remedy = xstrdup(remedy)};
	va_end(ap);
}

void doctor_fix(struct doctor *d, const char *fmt, ...)
{
	struct finding *f = &d->out->v[d->out->n - 1];
	va_list ap;

	va_start(ap, fmt);
	free(f->fix);
	f->fix = xvasprintf(fmt, ap);
	va_end(ap);
}

void findings_done(struct findings *l)
{
	for (size_t i = 0; i < l->n; i++) {
		free(l->v[i].fix);
		free(l->v[i].subject);
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

/* Checks of the CNI directories: links, configurations, and their requirements for the host. */

enum { CONF_MAX = 1 << 20 };

static void doctor_cni_links(struct doctor *d)
{
	const struct root *root = d->f->root;
	char **names = NULL, target[PATH_MAX];
	size_t n = 0;
	int r = dir_list(root, d->cni_bin, &names, &n, NULL);

	if (r < 0) {
		doctor_skip(d, d->cni_bin, r);
		return;
	}
	for (size_t i = 0; i < n; i++) {
		auto_free char *path = xasprintf("%s/%s", d->cni_bin, names[i]);
		struct stat st;

		if (file_lstat(root, path, &st, NULL) < 0 || !S_ISLNK(st.st_mode) ||
		    file_exists(root, path) ||
		    link_read(root, path, target, sizeof(target), NULL) < 0)
			continue;
		doctor_find(d, FINDING_PROBLEM, path, "'unirail install', or remove the link",
			    "the link leads to '%s', which does not exist", target);
	}
	str_list_free(names, n);
}

/* --- configurations --- */

struct visit {
	doctor_plugin_fn call;
	void *arg;
	bool report_unreadable;
};

/* Returns whether the value of this key is a plugin or an array of plugins. */
static bool holds_plugins(const char *key)
{
	static const char *const keys[] = {"plugins", "delegates", "networks", "ipam"};

	for (size_t i = 0; i < ARRAY_LEN(keys); i++)
		if (!strcmp(key, keys[i]))
			return true;
	return false;
}

static void each_plugin(struct doctor *d, const char *file, const struct json *v, bool plugin,
			const struct visit *visit)
{
	struct json_walk w = json_walk_start(v);
	const char *type = json_string(json_get(v, "type")), *key;
	const struct json *one;

	if (plugin && type && *type)
		visit->call(d, file, v, type, visit->arg);
	while ((one = json_walk_next(&w, &key)))
		if (json_kind(one) == JSON_OBJECT || json_kind(one) == JSON_ARRAY)
			each_plugin(d, file, one, key ? holds_plugins(key) : plugin, visit);
}

/* Reports a problem of a file, unless it is reported already with the same text. */
static void find_once(struct doctor *d, const char *file, const char *remedy, const char *what)
{
	for (size_t i = 0; i < d->out->n; i++)
		if (!strcmp(d->out->v[i].subject, file) && !strcmp(d->out->v[i].what, what))
			return;
	doctor_find(d, FINDING_PROBLEM, file, remedy, "%s", what);
}

static bool ends_with(const char *s, const char *end)
{
	size_t n = strlen(s), m = strlen(end);

	return n >= m && !strcmp(s + n - m, end);
}

static bool is_conf(const char *name)
{
	return ends_with(name, ".conf") || ends_with(name, ".conflist") || ends_with(name, ".json");
}

static void check_installed(struct doctor *d, const char *file, const struct json *plugin,
			    const char *type, void *arg)
{
	auto_free char *path = xasprintf("%s/%s", d->cni_bin, type);
	auto_free char *what = xasprintf("plugin '%s' is not in '%s'", type, d->cni_bin);

	(void)plugin, (void)arg;
	if (!strchr(type, '/') && !file_exists(d->f->root, path))
		find_once(d, file,
			  "'unirail install' installs unirail's plugins; install the other "
			  "plugins from their own packages",
			  what);
}

static void visit_conf(struct doctor *d, const char *file, const struct visit *visit)
{
	auto_json struct json_doc *doc = NULL;
	auto_buf struct buf b;
	struct err e = ERR_INIT;
	int r;

	buf_init(&b, CONF_MAX);
	r = file_read(d->f->root, file, CONF_MAX, &b, &e);
	if (r == 0)
		r = json_parse(&doc, buf_span(&b), CONF_MAX, &e);
	if (r == 0)
		each_plugin(d, file, json_root(doc), true, visit);
	else if (visit->report_unreadable && !doctor_skip(d, file, r))
		doctor_find(
			d, FINDING_PROBLEM, file,
			"correct or remove the file: the container runtime uses the first configuration by name",
			"%s", e.text);
}

static void each_conf(struct doctor *d, const struct visit *visit)
{
	char **names = NULL;
	size_t n = 0;
	int r = dir_list(d->f->root, d->cni_conf, &names, &n, NULL);

	if (r < 0) {
		if (visit->report_unreadable)
			doctor_skip(d, d->cni_conf, r);
		return;
	}
	for (size_t i = 0; i < n; i++) {
		auto_free char *file = xasprintf("%s/%s", d->cni_conf, names[i]);

		if (is_conf(names[i]))
			visit_conf(d, file, visit);
	}
	str_list_free(names, n);
}

void doctor_each_plugin(struct doctor *d, doctor_plugin_fn call, void *arg)
{
	each_conf(d, &(struct visit){.call = call, .arg = arg});
}

static void doctor_cni_conf(struct doctor *d)
{
	each_conf(d, &(struct visit){.call = check_installed, .report_unreadable = true});
}

/* --- masters --- */

/* Plugins whose "master", if they have this key, is a link of the host. host-device is not among them,
 * because its link may be in a pod. */
static bool has_master(const char *type)
{
	static const char *const types[] = {"macvlan", "ipvlan", "vlan", "ipoib", "bond"};

	for (size_t i = 0; i < ARRAY_LEN(types); i++)
		if (!strcmp(type, types[i]))
			return true;
	return false;
}

static char *links_remedy(const struct doctor *d, const char *master)
{
	auto_free const char **names = xcalloc(d->f->n_links + 1, sizeof(*names));
	const char *suggest;

	for (size_t i = 0; i < d->f->n_links; i++)
		names[i] = d->f->links[i].name;
	suggest = opt_suggest(master, names, d->f->n_links);
	return suggest ? xasprintf("did you mean '%s'? 'ip link' lists the links", suggest)
		       : xstrdup("name a link that 'ip link' lists");
}

static void check_master(struct doctor *d, const char *file, const struct json *plugin,
			 const char *type, void *arg)
{
	const char *master = json_string(json_get(plugin, "master"));
	auto_free char *what = NULL, *remedy = NULL;

	(void)arg;
	if (!has_master(type) || !master || !*master ||
	    json_bool(json_get(plugin, "linkInContainer")) ||
	    link_find(d->f->links, d->f->n_links, master))
		return;
	what = xasprintf("master '%s' of plugin '%s' is not a link of this host", master, type);
	remedy = links_remedy(d, master);
	find_once(d, file, remedy, what);
}

static void doctor_cni_masters(struct doctor *d)
{
	if (d->f->n_links)
		each_conf(d, &(struct visit){.call = check_master});
}

/* --- sources of addresses --- */

struct source {
	char *file; /* the first file with a plugin that uses the node's own pools */
	bool agent; /* some plugin uses the node's agent */
};

static void find_source(struct doctor *d, const char *file, const struct json *plugin,
			const char *type, void *arg)
{
	struct source *s = arg;

	(void)d;
	if (json_get(plugin, "agent") || json_get(plugin, "ipam_unix_socket_path") ||
	    !strncmp(type, "multus", strlen("multus")))
		s->agent = true;
	else if (!strcmp(type, "spiderpool") && !s->file)
		s->file = xstrdup(file);
}

/*
 * Returns the path of the first CNI configuration that allocates addresses from the node's own
 * pools; the caller frees it. NULL: no configuration does, or one uses the node's agent.
 */
static char *doctor_local_pools_conf(struct doctor *d)
{
	struct source s = {0};

	each_conf(d, &(struct visit){.call = find_source, .arg = &s});
	if (!s.agent)
		return s.file;
	free(s.file);
	return NULL;
}

/* --- the RDMA mode that configurations need --- */

static void mode_fits(struct doctor *d, const char *file, const struct json *plugin,
		      const char *type, void *arg)
{
	bool shared = d->f->mode == RDMA_NETNS_SHARED;

	(void)plugin, (void)arg;
	if (shared && (!strcmp(type, "rdma") || !strcmp(type, "ib-sriov"))) {
		doctor_find(d, FINDING_PROBLEM, file,
			    "'unirail host rdma-mode exclusive' before any pod runs",
			    "plugin '%s' moves RDMA devices into pods, but network namespaces of "
			    "this host share RDMA devices",
			    type);
		doctor_fix(d, "rdma-mode exclusive");
	}
	if (!shared && (!strcmp(type, "macvlan") || !strcmp(type, "ipvlan"))) {
		doctor_find(d, FINDING_PROBLEM, file,
			    "'unirail host rdma-mode shared' before any pod runs",
			    "rails of '%s' share the NIC's RDMA device, which exclusive mode hides "
			    "from pods",
			    type);
		doctor_fix(d, "rdma-mode shared");
	}
}

void doctor_check_config(struct doctor *d, const char *where, const struct json *config)
{
	static const doctor_plugin_fn checks[] = {check_installed, check_master, doctor_check_layer,
						  doctor_check_mtu, mode_fits};

	for (size_t i = 0; i < ARRAY_LEN(checks); i++) {
		const struct visit visit = {.call = checks[i]};

		if (checks[i] == mode_fits ? d->f->n_rdma > 0 : d->f->n_links > 0)
			each_plugin(d, where, config, true, &visit);
	}
}

static void doctor_rdma_mode(struct doctor *d)
{
	if (d->f->n_rdma)
		each_conf(d, &(struct visit){.call = mode_fits});
}

/* --- RDMA devices, their ports, and the links of the ports --- */

enum { PORT_DOWN = 1, PORT_INIT = 2, PORT_ARMED = 3, PORT_ACTIVE = 4, WHERE_MAX = 128 };
/* smallest MTU for 4096 bytes of RDMA payload with the headers of RoCE (iboe_get_mtu() of the
 * kernel) */
enum { FULL_MTU = 4096 + 96 };

/* Drivers of NICs with RDMA, and the module that creates the RDMA device. */
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

/* In exclusive mode /sys does not show the RDMA devices that are in pods, so no NIC is reported. */
static void doctor_rdma_kernel(struct doctor *d)
{
	const struct host_facts *f = d->f;

	for (size_t i = 0; i < f->n_pci; i++) {
		const struct pci_dev *p = &f->pci[i];
		const char *module = module_for(p->driver);
		bool hidden = f->has_rdma && f->mode == RDMA_NETNS_EXCLUSIVE;
		char remedy[WHERE_MAX];

		if (!module || p->physfn[0] || hidden || count_children(f, p->bdf, PCI_RDMA))
			continue;
		snprintf(remedy, sizeof(remedy), "'modprobe %s', and check 'dmesg' for '%s'",
			 module, p->bdf);
		doctor_find(d, p->class >> 8 == 0x0207 ? FINDING_PROBLEM : FINDING_REMARK, p->bdf,
			    remedy, "the NIC (driver '%s') has no RDMA device%s", p->driver,
			    f->has_rdma ? "" : ": the kernel's RDMA modules are not loaded");
	}
}

static void doctor_rdma_verbs(struct doctor *d)
{
	const struct host_facts *f = d->f;

	for (size_t i = 0; i < f->n_rdma; i++)
		if (f->rdma[i].reason[0])
			doctor_find(d, FINDING_PROBLEM, f->rdma[i].name,
				    "see 'unirail rdma list'; another libibverbs in pods may "
				    "support it",
				    "libibverbs cannot use the device: %s", f->rdma[i].reason);
	if (f->n_rdma && !file_exists(f->root, "/dev/infiniband/rdma_cm"))
		doctor_find(d, FINDING_REMARK, "/dev/infiniband/rdma_cm", "'modprobe rdma_ucm'",
			    "the device node is missing: programs that connect by librdmacm do not "
			    "work");
}

static bool is_ib(const struct rdma_port *p)
{
	return !strcmp(p->link_layer, "InfiniBand");
}

static void port_down(struct doctor *d, const char *where, const struct rdma_port *p)
{
	const struct link *l = host_port_link(d->f, p);
	char remedy[WHERE_MAX] = "check cable, transceiver and switch port";

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
	if (p->state == PORT_ACTIVE && is_ib(p) && (!p->lid || !p->sm_lid))
		doctor_find(d, FINDING_PROBLEM, where,
			    "start a subnet manager (opensm, UFM) in the fabric; 'unirail ibstat' "
			    "shows its LID",
			    "the port is ACTIVE, but %s is 0: no subnet manager is there to answer "
			    "path queries",
			    p->lid ? "the subnet manager's LID" : "its LID");
	if (p->state == PORT_ACTIVE)
		return;
	if (is_ib(p) && (p->state == PORT_INIT || p->state == PORT_ARMED))
		doctor_find(d, FINDING_PROBLEM, where,
			    "start a subnet manager (opensm, UFM) in the fabric, or check why it "
			    "skips this port",
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

const struct link *doctor_next_rail(const struct host_facts *f, size_t *at)
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

static void doctor_rail_mtu(struct doctor *d)
{
	const struct link *l;
	size_t at = 0;

	while ((l = doctor_next_rail(d->f, &at))) {
		char remedy[WHERE_MAX];

		if (l->mtu >= FULL_MTU)
			continue;
		snprintf(remedy, sizeof(remedy),
			 "'unirail host addr %s --mtu 9000', and the same on switch and peers; "
			 "'unirail verify' tests the path to a peer",
			 l->name);
		doctor_find(d, FINDING_REMARK, l->name, remedy,
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
				d, FINDING_REMARK, a->name,
				"use a separate subnet for each rail, or route by source address "
				"and set arp_ignore=1, arp_announce=2",
				"%s is in the same subnet as '%s': each of the two rails may "
				"answer ARP requests for the other's address",
				ipnet_str(&x->net, text), b->name);
			return;
		}
}

static void doctor_rail_subnets(struct doctor *d)
{
	const struct link *a, *b;
	size_t at = 0;

	while ((a = doctor_next_rail(d->f, &at))) {
		size_t more = at;

		while ((b = doctor_next_rail(d->f, &more)))
			if (a != b)
				compare_rails(d, a, b);
	}
}

/* --- unirail's own state: addresses, and links that it created --- */

enum { FOUND_MAX = 1 << 20, LOCK_MS = 5000 };

static void add_findings(struct doctor *d, struct span text)
{
	struct span line;

	while (span_cut(&text, '\n', &line))
		if (line.n)
			doctor_find(d, FINDING_PROBLEM, d->pool_dir,
				    "see 'unirail pool check' and 'unirail pool list'", "%.*s",
				    (int)line.n, line.p);
}

static void cannot_open(struct doctor *d, int r, const struct err *e)
{
	if (r == -EBADMSG)
		doctor_find(d, FINDING_PROBLEM, d->state_dir, "'unirail pool check --repair'", "%s",
			    e->text);
	else
		doctor_find(d, FINDING_REMARK, d->state_dir, "run 'unirail doctor' again", "%s",
			    e->text);
}

/* Checks the pools' files without the store, which is opened only if the state directory exists. */
static void check_pool_files(struct doctor *d, bool report_errors)
{
	auto_free char *user = doctor_local_pools_conf(d);
	struct pool_set set = {0};
	struct err e = ERR_INIT;
	int r = pool_set_load(d->f->root, d->pool_dir, &set, &e);

	if (doctor_skip(d, d->pool_dir, r))
		return;
	if (r < 0 && report_errors)
		doctor_find(d, FINDING_PROBLEM, d->pool_dir,
			    "correct the file; 'unirail pool check' verifies it", "%s", e.text);
	if (r == 0 && !set.n && user)
		doctor_find(d, FINDING_PROBLEM, d->pool_dir,
			    "'unirail pool list' shows an example of a pool's file",
			    "there are no pools, but '%s' allocates from them", user);
	if (r == 0)
		pool_set_done(&set);
}

/* Returns whether the store has records of addresses that this node allocated. A node without
 * records may use another source of addresses, and then needs no pools. */
static bool has_records(struct ipam *store)
{
	auto_free struct ipam_record *v = NULL;
	size_t n = 0;

	return ipam_records(store, &v, &n, NULL) == 0 && n > 0;
}

static void doctor_pools(struct doctor *d)
{
	const struct ipam_paths paths = {
		.pool_dir = d->pool_dir,
		.state_dir = d->state_dir,
		.lock_ms = LOCK_MS,
		.read_only = true,
	};
	struct ipam *store = NULL;
	auto_buf struct buf found = {0};
	struct err e = ERR_INIT;
	struct stat st;
	int r;

	r = file_lstat(d->f->root, d->state_dir, &st, NULL);
	check_pool_files(d, r < 0);
	if (r < 0) {
		doctor_skip(d, d->state_dir, r);
		return;
	}
	buf_init(&found, FOUND_MAX);
	r = ipam_open(&store, d->f->root, &paths, &e);
	if (r == 0 && (file_exists(d->f->root, d->pool_dir) || has_records(store)))
		r = ipam_check(store, &found, &e);
	if (r < 0 && !doctor_skip(d, d->state_dir, r))
		cannot_open(d, r, &e);
	add_findings(d, buf_span(&found));
	ipam_close(store);
}

static void doctor_orphan_links(struct doctor *d)
{
	for (size_t i = 0; i < d->f->n_links; i++) {
		const struct link *l = &d->f->links[i];
		auto_free char *remedy = NULL;

		if (l->group != LINK_GROUP)
			continue;
		remedy = xasprintf("'ip link del %s'", l->name);
		doctor_find(d, FINDING_PROBLEM, l->name, remedy,
			    "this %s of a pod is on the host, not in the pod's network namespace",
			    l->kind);
	}
}

/* --- physical and virtual functions --- */

enum { REMEDY_MAX = 192 };

static bool is_network(const struct pci_dev *p)
{
	return p->class >> 16 == 0x02;
}

static void doctor_vf_drivers(struct doctor *d)
{
	for (size_t i = 0; i < d->f->n_pci; i++) {
		const struct pci_dev *p = &d->f->pci[i];
		char remedy[REMEDY_MAX];

		if (!p->physfn[0] || p->driver[0] || !is_network(p))
			continue;
		snprintf(remedy, sizeof(remedy),
			 "'echo %s >/sys/bus/pci/drivers_probe', or see the VF's driver_override",
			 p->bdf);
		doctor_find(d, FINDING_PROBLEM, p->bdf, remedy,
			    "no driver is bound to this VF of '%s': no pod can use it", p->physfn);
	}
}

static size_t count_vfs(const struct host_facts *f, const char *pf)
{
	size_t n = 0;

	for (size_t i = 0; i < f->n_pci; i++)
		n += !strcmp(f->pci[i].physfn, pf);
	return n;
}

/* Reports the PF's interfaces in this namespace that are down. */
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

static void doctor_vf_pfs(struct doctor *d)
{
	for (size_t i = 0; i < d->f->n_pci; i++) {
		const struct pci_dev *p = &d->f->pci[i];
		size_t n = count_vfs(d->f, p->bdf);

		if (p->physfn[0] && is_network(p) && !host_pci(d->f, p->physfn))
			doctor_find(d, FINDING_PROBLEM, p->bdf, "check 'lspci' and 'dmesg'",
				    "the VF's PF '%s' does not exist", p->physfn);
		if (!p->is_pf || !is_network(p))
			continue;
		if (n != p->num_vfs)
			doctor_find(d, FINDING_PROBLEM, p->bdf,
				    "check 'dmesg'; when no pod uses a VF of this PF, set "
				    "sriov_numvfs to 0 and then back to its value",
				    "%u VFs are configured, %zu exist", p->num_vfs, n);
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

/*
 * Returns whether the VF's netdev is in this namespace and its RDMA device is not. A VF with
 * neither in this namespace is in a pod.
 */
static bool is_parted(const struct host_facts *f, const struct pci_dev *vf)
{
	char **names = NULL;
	size_t n = 0;

	if (pci_children(f->root, vf->bdf, PCI_NETDEV, &names, &n, NULL) < 0)
		return false;
	str_list_free(names, n);
	return n > 0 && !has_rdma(f, vf->bdf);
}

static void doctor_vf_rdma(struct doctor *d)
{
	const struct host_facts *f = d->f;

	for (size_t i = 0; i < f->n_pci; i++) {
		const struct pci_dev *p = &f->pci[i];

		if (!p->physfn[0] || !p->driver[0] || pci_driver_is_dpdk(p->driver) ||
		    !has_rdma(f, p->physfn) || !is_parted(f, p))
			continue;
		doctor_find(
			d, FINDING_PROBLEM, p->bdf,
			"rebind the VF's driver; in exclusive mode find the namespace that has the "
			"device ('rdma dev' there)",
			"the VF's interface exists, its RDMA device does not, though its PF '%s' "
			"has one",
			p->physfn);
	}
}

/* --- whether the container runtime uses the CNI configuration that makes it call unirail-cni --- */

/* Returns the first configuration file, valid or not, in the order of the runtime; skips files
 * that Cilium has renamed, and lists without plugins. */
static const struct cni_config_file *first_of(const struct cni_config_files *l)
{
	for (size_t i = 0; i < l->n; i++)
		if (l->v[i].kind != CNI_CONFIG_EMPTY && l->v[i].kind != CNI_CONFIG_IGNORED)
			return &l->v[i];
	return NULL;
}

static const struct cni_config_file *find(const struct cni_config_files *l,
					  enum cni_config_kind kind)
{
	for (size_t i = 0; i < l->n; i++)
		if (l->v[i].kind == kind)
			return &l->v[i];
	return NULL;
}

/* Returns whether the file of the configuration's first plugin is a link to unirail. */
static bool calls_unirail(const struct doctor *d, const struct cni_config_file *f)
{
	const struct json *conf = f->doc ? json_root(f->doc) : NULL,
			  *list = json_get_go(conf, "plugins");
	const struct json *plugin = json_len(list) ? json_at(list, 0) : conf;
	const char *type = json_string(json_get_go(plugin, "type"));
	char target[PATH_MAX];
	auto_free char *path = NULL;

	if (!type || strchr(type, '/'))
		return false;
	path = xasprintf("%s/%s", d->cni_bin, type);
	if (link_read(d->f->root, path, target, sizeof(target), NULL) < 0)
		return false;
	return strcmp(path_base(target), "unirail") == 0;
}

static void other_is_first(struct doctor *d, const struct cni_config_file *first,
			   const char *generated)
{
	auto_free char *where = xasprintf("%s/%s", d->cni_conf, first->name);

	if (first->kind == CNI_CONFIG_INVALID)
		doctor_find(d, FINDING_PROBLEM, where, "correct or remove the file",
			    "the container runtime reads this file before '%s', and it is invalid: "
			    "%s",
			    generated, first->reason);
	else
		doctor_find(d, FINDING_PROBLEM, where,
			    "remove the file and the program that writes it, or rename unirail's "
			    "file so that it sorts before this file (the agent's setting "
			    "cni-conf-name)",
			    "the container runtime uses this file, not '%s': pods get no rails",
			    generated);
}

static void doctor_cni_first(struct doctor *d)
{
	auto_free char *link = xasprintf("%s/unirail-cni", d->cni_bin);
	const struct cni_config_file *first, *generated, *renamed;
	auto_cni_config struct cni_config_files files = {0};

	if (cni_config_read(d->f->root, d->cni_conf, &files, NULL) < 0)
		return;
	first = first_of(&files);
	renamed = find(&files, CNI_CONFIG_IGNORED);
	generated = find(&files, CNI_CONFIG_GENERATED);
	if (!generated)
		generated = find(&files, CNI_CONFIG_WRITTEN);
	if (!first || first->kind == CNI_CONFIG_GENERATED || first->kind == CNI_CONFIG_WRITTEN ||
	    calls_unirail(d, first))
		return;
	if (generated) {
		other_is_first(d, first, generated->name);
	} else if (renamed) {
		auto_free char *where = xasprintf("%s/%s", d->cni_conf, renamed->name);

		doctor_find(d, FINDING_PROBLEM, where, "install Cilium with cni.exclusive=false",
			    "Cilium has renamed unirail's CNI configuration: pods get no rails");
	} else if (file_exists(d->f->root, link)) {
		doctor_find(
			d, FINDING_REMARK, d->cni_conf,
			"on a node with an agent run 'unirail install --cni-conf-dir DIR' (DIR: the directory that this finding names); otherwise write a configuration that calls unirail-cni",
			"no CNI configuration calls unirail-cni, the first is '%s': pods get no "
			"rails",
			first->name);
	}
}
