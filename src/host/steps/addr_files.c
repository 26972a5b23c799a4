/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "host/steps/addr.h"

enum { TEXT_MAX = 16 << 10, UUID_MAX = 40 };

/* --- files and owner of an interface --- */

static const struct {
	const char *path;
	unsigned int mode;
} files[HOST_ADDR_FILES] = {
	[HOST_ADDR_NETPLAN] = {"/etc/netplan/12-%s.yaml", 0600},
	[HOST_ADDR_KEYFILE] = {"/etc/NetworkManager/system-connections/unirail-%s.nmconnection",
			       0600},
	[HOST_ADDR_NETWORK] = {"/etc/systemd/network/10-unirail-%s.network", 0644},
	[HOST_ADDR_NETDEV] = {"/etc/systemd/network/10-unirail-%s.netdev", 0644},
	[HOST_ADDR_POLICY] = {"/etc/NetworkManager/dispatcher.d/99-%s-policy-route", 0755},
	[HOST_ADDR_ROUTE] = {"/etc/NetworkManager/dispatcher.d/98-%s-rdma-route", 0755},
};

/* Returns the path of file `i` of an interface, whose name has no '/'. The caller frees it. */
static char *path_of(size_t i, const char *dev)
{
	const char *format = files[i].path, *at = strstr(format, "%s");

	return xasprintf("%.*s%s%s", (int)(at - format), format, dev, at + 2);
}

static bool any_exists(const struct host *h, const char *const *paths)
{
	for (; *paths; paths++)
		if (file_exists(&h->root, *paths))
			return true;
	return false;
}

/* Returns whether a line of a state file of networkd or NetworkManager begins with `line`. */
static bool has_line(const struct host *h, const char *path, const char *line)
{
	auto_buf struct buf b;
	struct span rest, one;

	buf_init(&b, TEXT_MAX);
	if (file_read(&h->root, path, TEXT_MAX, &b, NULL) < 0)
		return false;
	rest = buf_span(&b);
	while (span_cut(&rest, '\n', &one))
		if (span_has_prefix(one, line))
			return true;
	return false;
}

static bool has_netplan(const struct host *h)
{
	static const char *const programs[] = {"/usr/sbin/netplan", "/usr/bin/netplan",
					       "/sbin/netplan", NULL};

	return any_exists(h, programs);
}

static enum host_owner owner(const struct host *h, const struct link *l)
{
	static const char *const nm[] = {"/run/NetworkManager", "/usr/sbin/NetworkManager", NULL};
	static const char *const networkd[] = {"/run/systemd/netif",
					       "/lib/systemd/systemd-networkd",
					       "/usr/lib/systemd/systemd-networkd", NULL};
	auto_free char *device = xasprintf("/run/NetworkManager/devices/%d", l ? l->index : 0);
	auto_free char *state = xasprintf("/run/systemd/netif/links/%d", l ? l->index : 0);

	if (has_netplan(h))
		return HOST_OWNER_NETPLAN;
	if (has_line(h, device, "managed=true"))
		return HOST_OWNER_NM;
	if (has_line(h, state, "ADMIN_STATE=configur"))
		return HOST_OWNER_NETWORKD;
	if (any_exists(h, nm))
		return HOST_OWNER_NM;
	return any_exists(h, networkd) ? HOST_OWNER_NETWORKD : HOST_OWNER_NONE;
}

/* The files that a port can have, in the order of host_addr_if.ports. */
static const enum host_addr_file port_files[] = {HOST_ADDR_KEYFILE, HOST_ADDR_NETWORK};

int host_addr_files_read(const struct host *h, const char *dev, const struct link *l,
			 const struct host_bond *bond, struct host_addr_if *ret, struct err *e)
{
	int r = 0;

	ret->owner = owner(h, l);
	ret->unit = file_exists(&h->root, "/etc/systemd/system/unirail-host.service");
	for (size_t i = 0; i < HOST_ADDR_FILES && r >= 0; i++) {
		auto_free char *path = path_of(i, dev);

		r = host_file_read(h, path, &ret->files[i], e);
	}
	for (; ret->n_ports < bond->n && r >= 0; ret->n_ports++)
		for (size_t k = 0; k < ARRAY_LEN(port_files) && r >= 0; k++) {
			auto_free char *path = path_of(port_files[k], bond->ports[ret->n_ports]);

			r = host_file_read(h, path, &ret->ports[ret->n_ports][k], e);
		}
	return r;
}

void host_addr_if_done(struct host_addr_if *i)
{
	for (size_t k = 0; k < HOST_ADDR_FILES; k++)
		host_file_done(&i->files[k]);
	for (size_t k = 0; k < HOST_BOND_PORTS_MAX; k++) {
		host_file_done(&i->ports[k][0]);
		host_file_done(&i->ports[k][1]);
	}
}

/* --- netplan --- */

static void netplan_addresses(const struct host_addr_plan *a, struct buf *b)
{
	char text[IP_TEXT_MAX];

	if (!a->f[0].has && !a->f[1].has)
		return;
	buf_str(b, "      addresses:\n");
	for (size_t i = 0; i < 2; i++)
		if (a->f[i].has)
			buf_printf(b, "        - \"%s\"\n", ipnet_str(&a->f[i].ip, text));
}

static void netplan_routes(const struct host_addr_plan *a, struct buf *b)
{
	char text[IP_TEXT_MAX];

	if (!a->f[0].gw.family && !a->f[1].gw.family)
		return;
	buf_str(b, "      routes:\n");
	for (size_t i = 0; i < 2; i++) {
		const struct host_addr_family *f = &a->f[i];

		if (!f->gw.family)
			continue;
		buf_printf(b, "        - to: \"%s\"\n          via: \"%s\"\n",
			   i ? "::/0" : "0.0.0.0/0", ip_str(&f->gw, text));
		if (f->policy)
			buf_printf(b, "          table: %u\n", f->table);
		else
			buf_printf(b, "          metric: %d\n", HOST_GATEWAY_METRIC);
	}
	for (size_t i = 0; i < a->n_subnets; i++) {
		buf_printf(b, "        - to: \"%s\"\n", ipnet_str(&a->subnets[i], text));
		buf_printf(b, "          via: \"%s\"\n          on-link: true\n",
			   ip_str(&a->f[a->subnets[i].ip.family == 6].gw, text));
	}
}

static bool has_rule(const struct host_addr_family *f)
{
	return f->policy && f->gw.family;
}

static void netplan_rules(const struct host_addr_plan *a, struct buf *b)
{
	char text[IP_TEXT_MAX];

	if (!has_rule(&a->f[0]) && !has_rule(&a->f[1]))
		return;
	buf_str(b, "      routing-policy:\n");
	for (size_t i = 0; i < 2; i++)
		if (has_rule(&a->f[i]))
			buf_printf(
				b,
				"        - from: \"%s\"\n          table: %u\n          priority: %u\n",
				ip_str(&a->f[i].ip.ip, text), a->f[i].table, a->f[i].priority);
}

static void netplan_bond(const struct host_addr_plan *a, struct buf *b)
{
	buf_str(b, "      interfaces:\n");
	for (size_t i = 0; i < a->bond.n; i++)
		buf_printf(b, "        - %s\n", a->bond.ports[i]);
	buf_printf(b, "      parameters:\n        mode: %s\n        mii-monitor-interval: %d\n",
		   a->bond.mode, HOST_BOND_MIIMON_MS);
	if (host_bond_hashes(&a->bond))
		buf_str(b, "        transmit-hash-policy: layer3+4\n");
}

/* Returns the content of the netplan file; the caller frees it. Declares a bond's ports, since a
 * bond can only name declared interfaces. */
static char *host_addr_netplan(const struct host_addr_plan *a)
{
	struct buf b;

	buf_init(&b, TEXT_MAX);
	buf_str(&b, "# written by 'unirail host addr'\nnetwork:\n  version: 2\n");
	if (a->bond.n)
		buf_str(&b, "  ethernets:\n");
	for (size_t i = 0; i < a->bond.n; i++)
		buf_printf(&b, "    %s:\n      dhcp4: false\n      dhcp6: false\n",
			   a->bond.ports[i]);
	buf_printf(&b, "  %s:\n    %s:\n", a->bond.n ? "bonds" : "ethernets", a->dev);
	if (a->bond.n)
		netplan_bond(a, &b);
	buf_printf(&b, "      dhcp4: %s\n      dhcp6: %s\n", a->f[0].dhcp ? "true" : "false",
		   a->f[1].dhcp ? "true" : "false");
	if (a->mtu)
		buf_printf(&b, "      mtu: %u\n", a->mtu);
	netplan_addresses(a, &b);
	netplan_routes(a, &b);
	netplan_rules(a, &b);
	return buf_take(&b);
}

/* --- NetworkManager --- */

/* Returns the kernel's default metric. Without a metric in the file, NetworkManager would use that
 * of the device, 100 for Ethernet. */
static unsigned int kernel_metric(size_t i)
{
	return i ? HOST_V6_METRIC : 0;
}

static void keyfile_family(const struct host_addr_plan *a, size_t i, struct buf *b)
{
	const struct host_addr_family *f = &a->f[i];
	char text[IP_TEXT_MAX];
	unsigned int n = 0;

	buf_printf(b, "\n[ipv%d]\nmethod=%s\n", i ? 6 : 4,
		   f->dhcp  ? "auto"
		   : f->has ? "manual"
		   : i	    ? "ignore"
			    : "disabled");
	if (f->has)
		buf_printf(b, "address1=%s\n", ipnet_str(&f->ip, text));
	if (f->gw.family && !f->policy) {
		buf_printf(b, "route%u=%s,%s", ++n, i ? "::/0" : "0.0.0.0/0", ip_str(&f->gw, text));
		buf_printf(b, ",%d\n", HOST_GATEWAY_METRIC);
	}
	if (has_rule(f)) {
		buf_printf(b, "route%u=%s,%s,%u\n", ++n, i ? "::/0" : "0.0.0.0/0",
			   ip_str(&f->gw, text), kernel_metric(i));
		buf_printf(b, "route%u_options=table=%u\n", n, f->table);
		buf_printf(b, "routing-rule1=priority %u from %s/%u table %u\n", f->priority,
			   ip_str(&f->ip.ip, text), ip_bits(&f->ip.ip), f->table);
	}
	for (size_t k = 0; k < a->n_subnets; k++) {
		if ((a->subnets[k].ip.family == 6) != (i == 1))
			continue;
		buf_printf(b, "route%u=%s", ++n, ipnet_str(&a->subnets[k], text));
		buf_printf(b, ",%s,%u\nroute%u_options=onlink=true\n", ip_str(&f->gw, text),
			   kernel_metric(i), n);
	}
	if (f->has)
		buf_str(b, "may-fail=false\n");
}

/* Computes a UUID from the interface's name, so that a second run writes the same file. */
static void uuid_of(const char *dev, char ret[static UUID_MAX])
{
	uint64_t a = xxh64(dev, strlen(dev)), b = xxh64(&a, sizeof(a));

	snprintf(ret, UUID_MAX, "%08x-%04x-5%03x-%04x-%012llx", (unsigned int)(a >> 32),
		 (unsigned int)(a >> 16) & 0xffff, (unsigned int)a & 0xfff,
		 0x8000 | ((unsigned int)(b >> 48) & 0x3fff),
		 (unsigned long long)(b & 0xffffffffffffULL));
}

static char *host_addr_keyfile(const struct host_addr_plan *a)
{
	const char *type = a->infiniband ? "infiniband" : "ethernet";
	char uuid[UUID_MAX];
	struct buf b;

	uuid_of(a->dev, uuid);
	buf_init(&b, TEXT_MAX);
	buf_printf(
		&b,
		"# written by 'unirail host addr'\n[connection]\nid=unirail-%s\nuuid=%s\ntype=%s\n"
		"interface-name=%s\nautoconnect-priority=100\n",
		a->dev, uuid, a->bond.n ? "bond" : type, a->dev);
	if (a->bond.n) {
		/* NetworkManager activates the ports with the bond. */
		buf_printf(&b, "autoconnect-slaves=1\n\n[bond]\nmode=%s\nmiimon=%d\n", a->bond.mode,
			   HOST_BOND_MIIMON_MS);
		if (host_bond_hashes(&a->bond))
			buf_str(&b, "xmit_hash_policy=layer3+4\n");
	}
	buf_printf(&b, "\n[%s]\n", type);
	if (a->mtu)
		buf_printf(&b, "mtu=%u\n", a->mtu);
	if (a->infiniband)
		buf_str(&b, "transport-mode=datagram\n");
	keyfile_family(a, 0, &b);
	keyfile_family(a, 1, &b);
	return buf_take(&b);
}

static char *host_addr_port_keyfile(const struct host_addr_plan *a, const char *port)
{
	char uuid[UUID_MAX];

	uuid_of(port, uuid);
	return xasprintf("# written by 'unirail host addr'\n[connection]\nid=unirail-%s\nuuid=%s\n"
			 "type=%s\ninterface-name=%s\nautoconnect-priority=100\nmaster=%s\n"
			 "slave-type=bond\n",
			 port, uuid, a->infiniband ? "infiniband" : "ethernet", port, a->dev);
}

/* --- systemd-networkd --- */

static char *host_addr_network(const struct host_addr_plan *a)
{
	char text[IP_TEXT_MAX];
	struct buf b;

	buf_init(&b, TEXT_MAX);
	buf_printf(&b, "# written by 'unirail host addr'\n[Match]\nName=%s\n", a->dev);
	if (a->mtu)
		buf_printf(&b, "\n[Link]\nMTUBytes=%u\n", a->mtu);
	buf_printf(&b, "\n[Network]\nDHCP=%s\n",
		   a->f[0].dhcp && a->f[1].dhcp ? "yes"
		   : a->f[0].dhcp		? "ipv4"
		   : a->f[1].dhcp		? "ipv6"
						: "no");
	for (size_t i = 0; i < 2; i++)
		if (a->f[i].has)
			buf_printf(&b, "Address=%s\n", ipnet_str(&a->f[i].ip, text));
	for (size_t i = 0; i < 2; i++) {
		const struct host_addr_family *f = &a->f[i];

		if (f->gw.family)
			buf_printf(&b, "\n[Route]\nGateway=%s\n", ip_str(&f->gw, text));
		if (f->gw.family && f->policy)
			buf_printf(&b, "Table=%u\n", f->table);
		else if (f->gw.family)
			buf_printf(&b, "Metric=%d\n", HOST_GATEWAY_METRIC);
		if (has_rule(f))
			buf_printf(&b, "\n[RoutingPolicyRule]\nFrom=%s\nTable=%u\nPriority=%u\n",
				   ip_str(&f->ip.ip, text), f->table, f->priority);
	}
	for (size_t i = 0; i < a->n_subnets; i++) {
		buf_printf(&b, "\n[Route]\nDestination=%s\n", ipnet_str(&a->subnets[i], text));
		buf_printf(&b, "Gateway=%s\nGatewayOnLink=yes\n",
			   ip_str(&a->f[a->subnets[i].ip.family == 6].gw, text));
	}
	return buf_take(&b);
}

static char *host_addr_netdev(const struct host_addr_plan *a)
{
	return xasprintf(
		"# written by 'unirail host addr'\n[NetDev]\nName=%s\nKind=bond\n\n[Bond]\nMode=%s\n"
		"MIIMonitorSec=%dms\n%s",
		a->dev, a->bond.mode, HOST_BOND_MIIMON_MS,
		host_bond_hashes(&a->bond) ? "TransmitHashPolicy=layer3+4\n" : "");
}

static char *host_addr_port_network(const struct host_addr_plan *a, const char *port)
{
	return xasprintf(
		"# written by 'unirail host addr'\n[Match]\nName=%s\n\n[Network]\nBond=%s\n", port,
		a->dev);
}

/* --- steps --- */

/* Adds steps that write the files of the bond's ports for the owner `by`, and remove those of other
 * owners. Returns whether it added a step. */
static bool plan_ports(const struct host_addr_plan *a, enum host_owner by,
		       const struct host_addr_if *found, struct host_plan *p)
{
	bool changed = false;

	for (size_t i = 0; i < found->n_ports && i < a->bond.n; i++) {
		auto_free char *keyfile =
			by == HOST_OWNER_NM ? host_addr_port_keyfile(a, a->bond.ports[i]) : NULL;
		auto_free char *network = by == HOST_OWNER_NETWORKD
						  ? host_addr_port_network(a, a->bond.ports[i])
						  : NULL;

		changed |= host_plan_file(p, "addr", a->dev, &found->ports[i][0], keyfile,
					  files[HOST_ADDR_KEYFILE].mode) != NULL;
		changed |= host_plan_file(p, "addr", a->dev, &found->ports[i][1], network,
					  files[HOST_ADDR_NETWORK].mode) != NULL;
	}
	return changed;
}

static enum host_owner wanted_owner(const char *persist, enum host_owner found)
{
	if (strcmp(persist, "netplan") == 0)
		return HOST_OWNER_NETPLAN;
	if (strcmp(persist, "networkmanager") == 0)
		return HOST_OWNER_NM;
	if (strcmp(persist, "networkd") == 0)
		return HOST_OWNER_NETWORKD;
	return strcmp(persist, "none") == 0 ? HOST_OWNER_NONE : found;
}

int host_addr_files_plan(const struct host_addr_plan *a, const char *persist,
			 const struct host_addr_if *found, struct host_plan *p, struct err *e)
{
	enum host_owner by = wanted_owner(persist, found->owner);
	auto_free char *text = NULL, *netdev = NULL;
	size_t which = HOST_ADDR_FILES;
	bool changed = false;

	if (by == HOST_OWNER_NETPLAN) {
		which = HOST_ADDR_NETPLAN;
		text = host_addr_netplan(a);
	} else if (by == HOST_OWNER_NM) {
		which = HOST_ADDR_KEYFILE;
		text = host_addr_keyfile(a);
	} else if (by == HOST_OWNER_NETWORKD) {
		which = HOST_ADDR_NETWORK;
		text = host_addr_network(a);
		if (a->bond.n)
			netdev = host_addr_netdev(a);
	}
	/* Adds steps that write the owner's files, and that remove the files of other owners and
	 * the script's dispatcher files, which would configure the interface a second time. */
	for (size_t i = 0; i < HOST_ADDR_FILES; i++)
		if (host_plan_file(p, "addr", a->dev, &found->files[i],
				   i == which		   ? text
				   : i == HOST_ADDR_NETDEV ? netdev
							   : NULL,
				   files[i].mode))
			changed = true;
	changed |= plan_ports(a, by, found, p);
	if (!a->f[0].dhcp && !a->f[1].dhcp)
		return 0;
	if (which == HOST_ADDR_FILES)
		return err_kind(
			e, ERR_CONF, -ENOENT,
			strcmp(persist, "none") == 0
				? "DHCP needs the file of the interface's owner, but persist is "
				  "none: set persist to auto"
				: "DHCP needs netplan, NetworkManager or systemd-networkd; "
				  "none of them is on this host");
	if (changed)
		host_plan_remark(p, "addr", a->dev,
				 "DHCP starts at the next boot, or now with '%s'",
				 by == HOST_OWNER_NETPLAN ? "netplan apply"
				 : by == HOST_OWNER_NM	  ? "nmcli connection reload"
							  : "networkctl reload");
	return 0;
}

void host_addr_files_clean(const char *dev, const struct host_addr_if *found, struct host_plan *p)
{
	for (size_t i = 0; i < HOST_ADDR_FILES; i++)
		host_plan_file(p, "addr", dev, &found->files[i], NULL, 0);
	for (size_t i = 0; i < found->n_ports; i++)
		for (size_t k = 0; k < ARRAY_LEN(port_files); k++)
			host_plan_file(p, "addr", dev, &found->ports[i][k], NULL, 0);
}
