/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/num.h"
#include "base/paths.h"
#include "cli/demo/demo.h"
#include "kern/net/link.h"
#include "kern/sys/netns.h"
#include "kern/sys/sysctl.h"

/*
 * Fabric and node: for each NIC a bridge with the gateway's address, and a veth pair between bridge
 * and node, whose end on the node plays the physical NIC:
 *
 *	fabric: br-rail0 (172.16.1.1) --- sw-rail0 =====veth===== rail0 (172.16.1.2) :node
 */

enum { NODE_HOST = 2, GATEWAY_HOST = 1, SHARED_BITS = 24, EXCLUSIVE_BITS = 27 };

static struct ipaddr address(size_t nic, unsigned int host)
{
	return (struct ipaddr){.family = 4, .b = {172, 16, (uint8_t)nic, (uint8_t)host}};
}

static void plan_nic(struct demo *d, size_t i)
{
	struct demo_nic *n = &d->nics[i];
	bool exclusive = i > 0 && strcmp(d->opt.plan, "exclusive") == 0;
	int rail = (int)i - 1;

	if (i == 0)
		snprintf(n->name, sizeof(n->name), "eth0");
	else
		snprintf(n->name, sizeof(n->name), "rail%d", rail);
	snprintf(n->pod_if, sizeof(n->pod_if), i == 0 ? "eth0" : "net%zu", i);
	snprintf(n->pool, sizeof(n->pool), exclusive ? "%s-*" : "%s", n->name);
	n->mtu = i == 0 ? 1500 : 9000;
	n->gateway = address(i, GATEWAY_HOST);
	n->node.ip = address(i, NODE_HOST);
	n->node.len = exclusive ? EXCLUSIVE_BITS : SHARED_BITS;
}

void demo_plan(struct demo *d)
{
	d->n_nics = (size_t)d->opt.rails + 1;
	for (size_t i = 0; i < d->n_nics; i++)
		plan_nic(d, i);
}

static const char *bridge_name(const struct demo_nic *n, char buf[static LINK_NAME_MAX])
{
	snprintf(buf, LINK_NAME_MAX, "br-%.12s", n->name);
	return buf;
}

static int add_bridges(struct demo *d, struct nl_wire *w, struct err *e)
{
	auto_batch struct nl_batch *b = nl_batch_new();
	char name[LINK_NAME_MAX];

	for (size_t i = 0; i < d->n_nics; i++) {
		struct link_spec s = LINK_SPEC_INIT;

		s.name = bridge_name(&d->nics[i], name);
		s.kind = "bridge";
		s.up = true;
		link_add(b, &s);
	}
	return nl_batch_commit(w, b, e);
}

static void add_cable(struct demo *d, struct nl_batch *b, const struct demo_nic *n, int bridge)
{
	struct link_spec s = LINK_SPEC_INIT;
	char port[LINK_NAME_MAX];

	snprintf(port, sizeof(port), "sw-%.12s", n->name);
	s.name = port;
	s.kind = "veth";
	s.mtu = n->mtu;
	s.master = bridge;
	s.up = true;
	s.peer_name = n->name;
	s.peer_netns_fd = d->ns[NS_NODE];
	link_add(b, &s);
}

static int add_cables(struct demo *d, struct nl_wire *w, struct err *e)
{
	auto_batch struct nl_batch *b = nl_batch_new();
	auto_free struct link *links = NULL;
	char name[LINK_NAME_MAX], ip[IP_TEXT_MAX];
	size_t n;
	int r = link_list(w, &links, &n, e);

	for (size_t i = 0; r == 0 && i < d->n_nics; i++) {
		const struct demo_nic *nic = &d->nics[i];
		const struct link *br = link_find(links, n, bridge_name(nic, name));
		struct ipnet gw = {nic->gateway, nic->node.len};

		if (!br)
			return err_set(e, -ENODEV,
				       "create the fabric: the bridge of gateway "
				       "'%s' does not exist",
				       ip_str(&nic->gateway, ip));
		add_cable(d, b, nic, br->index);
		addr_add(b, br->index, br->name, &gw, 0);
	}
	return r < 0 ? r : nl_batch_commit(w, b, e);
}

static int set_up_masters(struct demo *d, struct nl_wire *w, struct err *e)
{
	auto_batch struct nl_batch *b = nl_batch_new();
	auto_free struct link *links = NULL;
	struct route def = {.family = 4, .dst.ip.family = 4};
	size_t n;
	int r = link_list(w, &links, &n, e);

	for (size_t i = 0; r == 0 && i < d->n_nics; i++) {
		const struct demo_nic *nic = &d->nics[i];
		const struct link *l = link_find(links, n, nic->name);
		struct link_change c = {.set = LINK_SET_MTU | LINK_SET_UP, .mtu = nic->mtu};

		if (!l)
			return err_set(e, -ENODEV, "configure the node: link '%s' does not exist",
				       nic->name);
		link_set(b, l->index, l->name, &c);
		addr_add(b, l->index, l->name, &nic->node, 0);
		if (i > 0)
			continue;
		def.index = l->index;
		def.dev = nic->name;
	}
	def.gw = d->nics[0].gateway;
	route_add(b, &def, ROUTE_CREATE);
	return r < 0 ? r : nl_batch_commit(w, b, e);
}

static int without(int r, const char *kind, const char *option, struct err *e)
{
	if (r != -EOPNOTSUPP)
		return r;
	err_clear(e);
	return err_kind(e, ERR_UNAVAILABLE, r,
			"create a %s link: the kernel does not support this type: load its module "
			"(modprobe %s) or build the kernel with %s",
			kind, kind, option);
}

/* Checks that the kernel has macvlan before a pod needs it. */
static int try_macvlan(struct nl_wire *w, struct err *e)
{
	auto_batch struct nl_batch *add = nl_batch_new(), *del = nl_batch_new();
	struct link_spec s = LINK_SPEC_INIT;
	struct link master, made;
	int r = link_get(w, "eth0", &master, e);

	if (r < 0)
		return r;
	s.name = "try0";
	s.kind = "macvlan";
	s.parent = master.index;
	s.macvlan_mode = MACVLAN_BRIDGE;
	link_add(add, &s);
	r = nl_batch_commit(w, add, e);
	if (r < 0)
		return without(r, "macvlan", "CONFIG_MACVLAN", e);
	r = link_get(w, "try0", &made, e);
	if (r < 0)
		return r;
	link_del(del, made.index, made.name);
	return nl_batch_commit(w, del, e);
}

/* Disables IPv6 in a namespace: fabric and node use IPv4 only, and the kernel then adds no
 * link-local addresses and routes there. */
static int no_ipv6(struct demo *d, int ns, struct err *e)
{
	struct netns_visit v = NETNS_VISIT_INIT;
	int r = netns_enter(ns, &v, e);

	if (r < 0)
		return r;
	r = sysctl_ensure(&d->root, "net/ipv6/conf/all/disable_ipv6", "1", NULL, e);
	if (r == 0)
		r = sysctl_ensure(&d->root, "net/ipv6/conf/default/disable_ipv6", "1", NULL, e);
	netns_leave(&v);
	return r;
}

int demo_fabric_build(struct demo *d, struct err *e)
{
	auto_nl struct nl_wire *fabric = NULL, *node = NULL;
	int r = no_ipv6(d, d->ns[NS_FABRIC], e);

	if (r == 0)
		r = no_ipv6(d, d->ns[NS_NODE], e);
	if (r == 0)
		r = nl_open(&fabric, NL_ROUTE, d->ns[NS_FABRIC], e);
	if (r == 0)
		r = nl_open(&node, NL_ROUTE, d->ns[NS_NODE], e);
	if (r == 0)
		r = without(add_bridges(d, fabric, e), "bridge", "CONFIG_BRIDGE", e);
	if (r == 0)
		r = without(add_cables(d, fabric, e), "veth", "CONFIG_VETH", e);
	if (r == 0)
		r = set_up_masters(d, node, e);
	return r < 0 ? r : try_macvlan(node, e);
}

#define KEEP_DIR  "/run/unirail-demo"
#define KEEP_NS	  "/run/netns/unirail-demo-"
#define KEEP_HINT "if it exists, 'unirail demo --clean' removes it"

/* Numbers of include/uapi/linux/capability.h, which only kern/ may include. */
enum { CAP_NET_ADMIN_BIT = 12, CAP_NET_RAW_BIT = 13, CAP_SYS_ADMIN_BIT = 21 };

static const struct {
	unsigned int bit;
	const char *name;
} needed[] = {
	{CAP_NET_ADMIN_BIT, "CAP_NET_ADMIN"},
	{CAP_SYS_ADMIN_BIT, "CAP_SYS_ADMIN"},
	{CAP_NET_RAW_BIT, "CAP_NET_RAW"},
};

const char *demo_ns_name(enum demo_ns ns)
{
	static const char *const names[NS_COUNT] = {"fabric", "node", "pod-1", "pod-2"};

	return names[ns];
}

static int capabilities(const struct root *root, uint64_t *ret, struct err *e)
{
	auto_buf struct buf b;
	struct span rest, line;
	int r;

	buf_init(&b, 1 << 16);
	r = file_read(root, "/proc/self/status", 1 << 16, &b, e);
	if (r < 0)
		return r;
	rest = buf_span(&b);
	while (span_cut(&rest, '\n', &line)) {
		struct span key;

		if (!span_cut(&line, ':', &key) || !span_eq(key, "CapEff"))
			continue;
		r = num_hex(span_trim(line), UINT64_MAX, ret);
		return r < 0 ? err_set(e, r,
				       "parse '/proc/self/status': CapEff is not a "
				       "hexadecimal number")
			     : 0;
	}
	return err_set(e, -ENOENT, "parse '/proc/self/status': line CapEff is missing");
}

static int check_capabilities(const struct root *root, struct err *e)
{
	uint64_t have = 0;
	int r = capabilities(root, &have, e);

	if (r < 0)
		return r;
	for (size_t i = 0; i < ARRAY_LEN(needed); i++)
		if (!(have >> needed[i].bit & 1))
			return err_kind(
				e, ERR_UNAVAILABLE, -EPERM,
				"create network namespaces: no %s: run 'unirail demo' as root, "
				"or without root: unshare -Urn unirail demo",
				needed[i].name);
	return 0;
}

/*
 * Mounts a tmpfs in a new mount namespace of this process and its children. The kernel removes the
 * tmpfs when the last of these processes ends. If mounting is not permitted (a container's
 * profile), *ret stays empty.
 */
static void private_tmpfs(char *ret, size_t size)
{
	static const char *const over[] = {"/tmp", "/run", "/mnt", "/dev/shm"};

	if (unshare(CLONE_NEWNS) < 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
		return;
	for (size_t i = 0; i < ARRAY_LEN(over); i++) {
		if (mount("tmpfs", over[i], "tmpfs", MS_NOSUID | MS_NODEV, "mode=0700,size=64m") <
		    0)
			continue;
		snprintf(ret, size, "%s", over[i]);
		return;
	}
}

static int open_dir(struct demo *d, struct err *e)
{
	if (d->opt.keep) {
		if (mkdir(KEEP_DIR, 0700) < 0)
			return err_sys(e, -errno, "make '%s' (%s)", KEEP_DIR, KEEP_HINT);
		snprintf(d->dir, sizeof(d->dir), "%s", KEEP_DIR);
		return 0;
	}
	private_tmpfs(d->dir, sizeof(d->dir));
	if (d->dir[0]) {
		d->dir_is_mount = true;
		return 0;
	}
	snprintf(d->dir, sizeof(d->dir), "/tmp/unirail-demo-XXXXXX");
	if (!mkdtemp(d->dir)) {
		int r = -errno;

		d->dir[0] = '\0';
		return err_sys(e, r, "create a directory for pools and state in '/tmp'");
	}
	return 0;
}

static int open_ns(struct demo *d, struct err *e)
{
	for (enum demo_ns i = 0; i < NS_COUNT; i++) {
		int r = netns_new(true, &d->ns[i], e);

		if (r < 0)
			return err_wrap(e, r, "create the namespace of %s", demo_ns_name(i));
		snprintf(d->ns_path[i], sizeof(d->ns_path[i]), "/proc/%d/fd/%d", (int)getpid(),
			 d->ns[i]);
	}
	return 0;
}

static int pin_ns(struct demo *d, struct err *e)
{
	int r = dir_make(&d->root, PATH_NETNS, 0755, e);

	if (r < 0)
		return r;
	d->ns_mounted = true;
	for (enum demo_ns i = 0; i < NS_COUNT; i++) {
		snprintf(d->ns_path[i], sizeof(d->ns_path[i]), KEEP_NS "%s", demo_ns_name(i));
		r = netns_pin(d->ns[i], d->ns_path[i], e);
		if (r < 0)
			return err_wrap(e, r, "mount the namespace of %s in " PATH_NETNS,
					demo_ns_name(i));
	}
	return 0;
}

static void name_container(char *ret, size_t size)
{
	unsigned char raw[32];

	/* getrandom(2) fills requests of up to 256 bytes completely. */
	if (getrandom(raw, sizeof(raw), 0) < 0)
		abort();
	for (size_t i = 0; i < sizeof(raw); i++)
		snprintf(ret + 2 * i, size - 2 * i, "%02x", raw[i]);
}

int demo_place_open(struct demo *d, struct err *e)
{
	int r;

	for (size_t i = 0; i < NS_COUNT; i++)
		d->ns[i] = -1;
	r = check_capabilities(&d->root, e);
	if (r == 0)
		r = open_dir(d, e);
	if (r < 0)
		return r;
	/*
	 * Opens the root again: open_dir() may have changed the mount namespace in which paths are
	 * resolved.
	 */
	root_close(&d->root);
	r = root_open(&d->root, NULL, e);
	if (r == 0)
		r = open_ns(d, e);
	if (r == 0 && d->opt.keep)
		r = pin_ns(d, e);
	for (size_t i = 0; i < DEMO_PODS; i++) {
		struct demo_pod *p = &d->pods[i];

		snprintf(p->name, sizeof(p->name), "%s", demo_ns_name(NS_POD + i));
		name_container(p->container_id, sizeof(p->container_id));
	}
	return r;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *f)
{
	(void)st, (void)type, (void)f;
	remove(path);
	return 0;
}

static void remove_tree(const char *dir)
{
	nftw(dir, remove_one, 16, FTW_DEPTH | FTW_PHYS | FTW_MOUNT);
}

static int unpin(const char *path, struct err *e)
{
	return access(path, F_OK) < 0 ? 0 : netns_unpin(path, e) < 0 ? -EIO : 1;
}

int demo_place_clean(struct demo *d, struct err *e)
{
	int removed = 0;

	(void)d;
	for (enum demo_ns i = 0; i < NS_COUNT; i++) {
		char path[64];
		int r;

		snprintf(path, sizeof(path), KEEP_NS "%s", demo_ns_name(i));
		r = unpin(path, e);
		if (r < 0)
			return r;
		removed += r;
	}
	if (access(KEEP_DIR, F_OK) == 0) {
		remove_tree(KEEP_DIR);
		removed++;
	}
	return removed;
}

void demo_place_close(struct demo *d)
{
	for (enum demo_ns i = 0; i < NS_COUNT; i++) {
		if (d->ns_mounted)
			unpin(d->ns_path[i], NULL);
		if (d->ns[i] >= 0)
			close(d->ns[i]);
		d->ns[i] = -1;
	}
	if (d->dir[0] && !d->dir_is_mount)
		remove_tree(d->dir);
	d->dir[0] = '\0';
}
