/* SPDX-License-Identifier: Apache-2.0 */
#include "doctor/snapshot.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/num.h"
#include "doctor/redact.h"
#include "doctor/tree.h"

static bool is_zero_gid(struct span s)
{
	for (size_t i = 0; i < s.n; i++)
		if (!strchr("0:\n", s.p[i]))
			return false;
	return true;
}

static void left_out(struct snapshot *s, const char *path, const char *reason)
{
	auto_free char *text = xasprintf("%s: left out: %s", path, reason);

	tree_put_comment(s->out, text);
	s->n_left++;
}

/* Returns the length without the zeros at the end, rounded up so that no register is truncated. */
static size_t without_zeros(struct span s)
{
	enum { ROUND = 64 };
	size_t n = s.n;

	while (n && s.p[n - 1] == '\0')
		n--;
	n = (n + ROUND - 1) / ROUND * ROUND;
	return n < s.n ? n : s.n;
}

static void put_content(struct snapshot *s, const char *path, struct span text, enum snap_how how)
{
	auto_buf struct buf b;

	buf_init(&b, 2 * SNAPSHOT_FILE_MAX);
	if (how == SNAP_GID && is_zero_gid(text))
		return;
	if (how == SNAP_JSON && redact_json(text, &b) < 0) {
		left_out(s, path, "no JSON");
		return;
	}
	if (how == SNAP_LINES)
		redact_lines(text, &b);
	else if (how == SNAP_CMDLINE)
		redact_cmdline(text, &b);
	else if (how != SNAP_JSON)
		buf_add(&b, text.p, how == SNAP_BYTES ? without_zeros(text) : text.n);
	tree_put_file(s->out, path, buf_span(&b));
	s->n_files++;
}

/* Unreadable and write-only sysfs attributes are skipped silently. */
static void put_file(struct snapshot *s, const char *path, const struct stat *st, enum snap_how how)
{
	auto_buf struct buf b;
	auto_fd int fd = -1;

	buf_init(&b, SNAPSHOT_FILE_MAX);
	if (how == SNAP_NAME || !S_ISREG(st->st_mode)) {
		tree_put_file(s->out, path, span_of(""));
		s->n_files++;
		return;
	}
	if (st->st_size > SNAPSHOT_FILE_MAX) {
		left_out(s, path, "too large");
		return;
	}
	fd = file_open(s->root, path, O_RDONLY | O_NONBLOCK, 0, NULL);
	if (fd < 0)
		return;
	if (fd_read_all(fd, SNAPSHOT_FILE_MAX, &b, NULL) == 0)
		put_content(s, path, buf_span(&b), how);
	else if (b.len)
		left_out(s, path, "too large");
}

static void put_path(struct snapshot *s, const char *path, enum snap_how how)
{
	char target[PATH_MAX];
	struct stat st;

	if (file_lstat(s->root, path, &st, NULL) < 0)
		return;
	if (S_ISLNK(st.st_mode)) {
		if (link_read(s->root, path, target, sizeof(target), NULL) == 0)
			tree_put_link(s->out, path, target);
	} else if (S_ISDIR(st.st_mode)) {
		tree_put_dir(s->out, path);
	} else {
		put_file(s, path, &st, how);
	}
}

/* --- patterns --- */

/* The pattern has one '*'. As in a shell, the '*' does not match a leading dot. */
static bool name_fits(const char *name, struct span pattern)
{
	const char *star = memchr(pattern.p, '*', pattern.n);
	size_t head = (size_t)(star - pattern.p), tail = pattern.n - head - 1, n = strlen(name);

	if (n < head + tail || (head == 0 && name[0] == '.'))
		return false;
	return !memcmp(name, pattern.p, head) && !memcmp(name + n - tail, star + 1, tail);
}

/* Includes each path that consists of the literal path `at` and a remainder that matches the
 * pattern `rest`, which is "" or "/...". */
static void walk(struct snapshot *s, const char *at, const char *rest, enum snap_how how)
{
	struct span names = span_of(rest[0] ? rest + 1 : rest), part;
	auto_free char *plain = NULL;
	char **list = NULL;
	size_t n = 0;

	if (!*rest) {
		put_path(s, at, how);
		return;
	}
	span_cut(&names, '/', &part);
	rest += 1 + part.n;
	if (!memchr(part.p, '*', part.n)) {
		plain = xasprintf("%s/%.*s", at, (int)part.n, part.p);
		walk(s, plain, rest, how);
		return;
	}
	if (dir_list(s->root, at, &list, &n, NULL) < 0)
		return;
	for (size_t i = 0; i < n; i++) {
		auto_free char *path = xasprintf("%s/%s", at, list[i]);

		if (name_fits(list[i], part))
			walk(s, path, rest, how);
	}
	str_list_free(list, n);
}

/* --- devices that links point to --- */

/* "/sys/class/net" and "../../devices/x" -> "/sys/devices/x" */
static char *join(const char *dir, const char *target)
{
	char path[PATH_MAX];
	char *end;

	if (target[0] == '/')
		return xstrdup(target);
	str_copy(path, sizeof(path), dir);
	while (!strncmp(target, "../", 3)) {
		target += 3;
		end = strrchr(path, '/');
		if (end)
			*end = '\0';
	}
	return xasprintf("%s/%s", path, target);
}

static void take_device(struct snapshot *s, const struct snap_devices *d, const char *name)
{
	auto_free char *link = xasprintf("%s/%s", d->dir, name), *device = NULL;
	char target[PATH_MAX];

	if (link_read(s->root, link, target, sizeof(target), NULL) < 0)
		return;
	device = join(d->dir, target);
	if (d->wanted && !d->wanted(s->root, device))
		return;
	tree_put_link(s->out, link, target);
	for (const struct snap_rule *r = d->rules; r->glob; r++) {
		auto_free char *rest = xasprintf("/%s", r->glob);

		walk(s, device, rest, r->how);
	}
}

static void take_devices(struct snapshot *s, const struct snap_devices *d)
{
	char **names = NULL;
	size_t n = 0;

	if (dir_list(s->root, d->dir, &names, &n, NULL) < 0)
		return;
	if (!n)
		tree_put_dir(s->out, d->dir);
	for (size_t i = 0; i < n; i++)
		take_device(s, d, names[i]);
	str_list_free(names, n);
}

/* --- processes that have an RDMA device open --- */

#define UVERBS "/dev/infiniband/uverbs"

/* Writes the link of the process's first descriptor of an RDMA device. Returns false if the
 * process has none, or if its descriptors cannot be listed. */
static bool take_descriptor(struct snapshot *s, const char *pid)
{
	auto_free char *dir = xasprintf("/proc/%s/fd", pid);
	char **names = NULL, target[PATH_MAX];
	bool found = false;
	size_t n = 0;

	if (dir_list(s->root, dir, &names, &n, NULL) < 0)
		return false;
	for (size_t i = 0; i < n && !found; i++) {
		auto_free char *path = xasprintf("%s/%s", dir, names[i]);

		found = link_read(s->root, path, target, sizeof(target), NULL) == 0 &&
			!strncmp(target, UVERBS, strlen(UVERBS));
		if (found)
			tree_put_link(s->out, path, target);
	}
	str_list_free(names, n);
	return found;
}

static void take_processes(struct snapshot *s)
{
	static const char *const files[] = {"comm", "limits", "status"};
	char **names = NULL;
	size_t n = 0;

	if (dir_list(s->root, "/proc", &names, &n, NULL) < 0)
		return;
	for (size_t i = 0; i < n; i++) {
		if (names[i][0] < '1' || names[i][0] > '9' || !take_descriptor(s, names[i]))
			continue;
		for (size_t k = 0; k < ARRAY_LEN(files); k++) {
			auto_free char *path = xasprintf("/proc/%s/%s", names[i], files[k]);

			put_path(s, path, SNAP_TEXT);
		}
	}
	str_list_free(names, n);
}

/* Paths of a snapshot; terminated by {0}. */
static const struct snap_rule snap_rules[] = {
	{"/sys/bus/pci/drivers/vfio-pci", SNAP_NAME},
	{"/sys/module/ib_*/parameters/*", SNAP_TEXT},
	{"/sys/module/mlx5_*/parameters/*", SNAP_TEXT},
	{"/sys/module/mlx4_*/parameters/*", SNAP_TEXT},
	{"/sys/module/ib_*/version", SNAP_TEXT},
	{"/sys/module/mlx5_*/version", SNAP_TEXT},
	{"/sys/module/ib_*/refcnt", SNAP_TEXT},
	{"/sys/module/rdma_*/refcnt", SNAP_TEXT},
	{"/sys/module/mlx5_*/refcnt", SNAP_TEXT},
	{"/sys/module/nv_peer_mem/refcnt", SNAP_TEXT},
	{"/sys/module/nvidia/refcnt", SNAP_TEXT},
	{"/sys/module/nvidia_peermem/refcnt", SNAP_TEXT},
	{"/sys/module/nvidia_peermem/version", SNAP_TEXT},
	{"/sys/module/nvidia/version", SNAP_TEXT},
	{"/proc/driver/nvidia/version", SNAP_TEXT},
	{"/sys/kernel/iommu_groups/*/type", SNAP_TEXT},
	{"/sys/kernel/debug/mlx5/*/cc_params/np_*", SNAP_TEXT},
	{"/sys/kernel/config/rdma_cm/*/ports/*/default_roce_*", SNAP_TEXT},
	{"/run/NetworkManager/devices/*", SNAP_LINES},
	{"/run/systemd/netif/links/*", SNAP_LINES},
	{"/run/systemd/networkd.conf.d/*", SNAP_LINES},
	{"/run/unirail/*.json", SNAP_JSON},
	{"/usr/lib/systemd/networkd.conf.d/*", SNAP_LINES},
	{"/etc/systemd/networkd.conf", SNAP_LINES},
	{"/etc/systemd/networkd.conf.d/*", SNAP_LINES},
	{"/etc/systemd/network/*", SNAP_LINES},
	{"/etc/netplan/*.yaml", SNAP_LINES},
	{"/etc/NetworkManager/conf.d/*", SNAP_LINES},
	{"/proc/version", SNAP_TEXT},
	{"/proc/cmdline", SNAP_CMDLINE},
	{"/proc/modules", SNAP_TEXT},
	{"/proc/mounts", SNAP_TEXT},
	{"/proc/self/mounts", SNAP_TEXT},
	{"/proc/net/dev", SNAP_TEXT},
	{"/proc/net/bonding/*", SNAP_TEXT},
	{"/proc/sys/kernel/hostname", SNAP_TEXT},
	{"/proc/sys/kernel/osrelease", SNAP_TEXT},
	{"/proc/sys/net/ipv4/ip_forward", SNAP_TEXT},
	{"/proc/sys/net/ipv4/tcp_ecn", SNAP_TEXT},
	{"/proc/sys/net/ipv4/conf/*/accept_local", SNAP_TEXT},
	{"/proc/sys/net/ipv4/conf/*/arp_announce", SNAP_TEXT},
	{"/proc/sys/net/ipv4/conf/*/arp_filter", SNAP_TEXT},
	{"/proc/sys/net/ipv4/conf/*/arp_ignore", SNAP_TEXT},
	{"/proc/sys/net/ipv4/conf/*/arp_notify", SNAP_TEXT},
	{"/proc/sys/net/ipv4/conf/*/forwarding", SNAP_TEXT},
	{"/proc/sys/net/ipv4/conf/*/rp_filter", SNAP_TEXT},
	{"/proc/sys/net/ipv4/neigh/default/gc_thresh*", SNAP_TEXT},
	{"/proc/sys/net/ipv6/conf/*/accept_dad", SNAP_TEXT},
	{"/proc/sys/net/ipv6/conf/*/accept_ra", SNAP_TEXT},
	{"/proc/sys/net/ipv6/conf/*/disable_ipv6", SNAP_TEXT},
	{"/proc/sys/net/ipv6/conf/*/forwarding", SNAP_TEXT},
	{"/dev/infiniband/*", SNAP_NAME},
	{"/dev/vfio/*", SNAP_NAME},
	{"/run/netns/*", SNAP_NAME},
	{"/var/run", SNAP_NAME},
	{"/etc/os-release", SNAP_TEXT},
	{"/usr/lib/os-release", SNAP_TEXT},
	{"/etc/modprobe.d/*", SNAP_LINES},
	{"/etc/modules-load.d/*", SNAP_LINES},
	{"/etc/sysctl.d/*", SNAP_LINES},
	{"/etc/cni/net.d/*.conf", SNAP_JSON},
	{"/etc/cni/net.d/*.conflist", SNAP_JSON},
	{"/etc/cni/net.d/*.json", SNAP_JSON},
	{"/etc/cni/net.d/*.cilium_bak", SNAP_JSON}, /* configurations renamed by Cilium */
	{"/etc/unirail/*.conf", SNAP_LINES},
	{"/etc/unirail/host.d/*.conf", SNAP_LINES},
	{"/etc/unirail/*.json", SNAP_JSON},
	{"/etc/unirail/pools/*.conf", SNAP_LINES},
	{"/etc/unirail/pools/*.json", SNAP_JSON},
	{"/opt/cni/bin/.unirail-install.json", SNAP_JSON},
	{"/opt/cni/bin/*", SNAP_NAME},
	{"/opt/nri/plugins/*", SNAP_NAME},
	{"/var/lib/unirail/ipam/*", SNAP_TEXT},
	{"/var/lib/kubelet/device-plugins/kubelet_internal_checkpoint", SNAP_JSON},
	{"/var/lib/cni/networks/*/*", SNAP_TEXT},
	{0},
};

void snapshot_take(struct snapshot *s)
{
	take_processes(s);
	for (const struct snap_devices *d = snap_devices; d->dir; d++)
		take_devices(s, d);
	for (const struct snap_rule *r = snap_rules; r->glob; r++)
		walk(s, "", r->glob, r->how);
}

/* The attributes of devices in a snapshot. A check that reads a new attribute needs a rule in these
 * tables. */

static const struct snap_rule pci[] = {
	{"vendor", SNAP_TEXT},
	{"device", SNAP_TEXT},
	{"subsystem_vendor", SNAP_TEXT},
	{"subsystem_device", SNAP_TEXT},
	{"class", SNAP_TEXT},
	{"revision", SNAP_TEXT},
	{"numa_node", SNAP_TEXT},
	{"local_cpulist", SNAP_TEXT},
	{"current_link_speed", SNAP_TEXT},
	{"current_link_width", SNAP_TEXT},
	{"max_link_speed", SNAP_TEXT},
	{"max_link_width", SNAP_TEXT},
	{"sriov_totalvfs", SNAP_TEXT},
	{"sriov_numvfs", SNAP_TEXT},
	{"sriov_drivers_autoprobe", SNAP_TEXT},
	{"driver_override", SNAP_TEXT},
	{"config", SNAP_BYTES},	 /* ACS, MaxReadReq */
	{"resource", SNAP_TEXT}, /* BARs of GPUs */
	{"driver", SNAP_TEXT},
	{"iommu_group", SNAP_TEXT},
	{"physfn", SNAP_TEXT},
	{"virtfn*", SNAP_TEXT},
	/* directories, of which only the existence is included; the rules of /sys/class/net and
	 * /sys/class/infiniband include their contents */
	{"net", SNAP_TEXT},
	{"infiniband", SNAP_TEXT},
	/* GUIDs and policy of VFs, which only the mlx5 driver of NVIDIA's package has */
	{"sriov/*/node", SNAP_TEXT},
	{"sriov/*/port", SNAP_TEXT},
	{"sriov/*/policy", SNAP_TEXT},
	{0},
};

static const struct snap_rule net[] = {
	{"address", SNAP_TEXT},
	{"addr_assign_type", SNAP_TEXT},
	{"type", SNAP_TEXT},
	{"mtu", SNAP_TEXT},
	{"flags", SNAP_TEXT},
	{"ifindex", SNAP_TEXT},
	{"iflink", SNAP_TEXT},
	{"ifalias", SNAP_TEXT},
	{"operstate", SNAP_TEXT},
	{"carrier", SNAP_TEXT},
	{"carrier_changes", SNAP_TEXT},
	{"speed", SNAP_TEXT},
	{"duplex", SNAP_TEXT},
	{"dev_id", SNAP_TEXT},
	{"dev_port", SNAP_TEXT},
	{"phys_port_name", SNAP_TEXT},
	{"phys_switch_id", SNAP_TEXT},
	{"tx_queue_len", SNAP_TEXT},
	{"device", SNAP_TEXT},
	{"master", SNAP_TEXT},
	{"upper_*", SNAP_TEXT},
	{"lower_*", SNAP_TEXT},
	{"bonding/mode", SNAP_TEXT},
	{"bonding/slaves", SNAP_TEXT},
	/* files of IPoIB, and of RoCE with the driver of NVIDIA's package */
	{"mode", SNAP_TEXT},
	{"pkey", SNAP_TEXT},
	{"umcast", SNAP_TEXT},
	{"ecn/*/enable/*", SNAP_TEXT},
	{"ecn/*/cnp_*", SNAP_TEXT},
	{"qos/trust", SNAP_TEXT},
	{"qos/pfc", SNAP_TEXT},
	{0},
};

static const struct snap_rule infiniband[] = {
	{"device", SNAP_TEXT},
	{"node_type", SNAP_TEXT},
	{"node_desc", SNAP_TEXT},
	{"node_guid", SNAP_TEXT},
	{"sys_image_guid", SNAP_TEXT},
	{"fw_ver", SNAP_TEXT},
	{"hca_type", SNAP_TEXT},
	{"board_id", SNAP_TEXT},
	{"parent", SNAP_TEXT},
	{"ports/*/state", SNAP_TEXT},
	{"ports/*/phys_state", SNAP_TEXT},
	{"ports/*/rate", SNAP_TEXT},
	{"ports/*/lid", SNAP_TEXT},
	{"ports/*/sm_lid", SNAP_TEXT},
	{"ports/*/link_layer", SNAP_TEXT},
	{"ports/*/cap_mask", SNAP_TEXT},
	{"ports/*/pkeys/0", SNAP_TEXT},
	{"ports/*/gids/*", SNAP_GID},
	{"ports/*/gid_attrs/ndevs/*", SNAP_TEXT},
	{"ports/*/gid_attrs/types/*", SNAP_TEXT},
	{"ports/*/counters/*", SNAP_TEXT},
	{"ports/*/hw_counters/*", SNAP_TEXT},
	{"hw_counters/*", SNAP_TEXT},
	{"tc/*/traffic_class", SNAP_TEXT},
	{0},
};

static const struct snap_rule verbs[] = {{"ibdev", SNAP_TEXT},
					 {"dev", SNAP_TEXT},
					 {"abi_version", SNAP_TEXT},
					 {0}};
static const struct snap_rule mad[] = {{"ibdev", SNAP_TEXT},
				       {"dev", SNAP_TEXT},
				       {"port", SNAP_TEXT},
				       {0}};
static const struct snap_rule auxiliary[] = {{"driver", SNAP_TEXT}, {"sfnum", SNAP_TEXT}, {0}};

/* Returns whether the PCI function concerns RDMA: true for network controllers (class 0x02),
 * GPUs (0x03), accelerators (0x12), and PCI-to-PCI bridges (0x0604), which may be above one of
 * these. */
static bool concerns_rdma(const struct root *r, const char *device)
{
	char path[4096], class[16];

	if (!str_copy(path, sizeof(path) - sizeof("/class"), device))
		return false;
	strcat(path, "/class");
	return file_read_line(r, path, class, sizeof(class), NULL) == 0 &&
	       (!strncmp(class, "0x02", 4) || !strncmp(class, "0x03", 4) ||
		!strncmp(class, "0x12", 4) || !strncmp(class, "0x0604", 6));
}

const struct snap_devices snap_devices[] = {
	{"/sys/bus/pci/devices", pci, concerns_rdma},
	{"/sys/bus/auxiliary/devices", auxiliary, NULL},
	{"/sys/class/net", net, NULL},
	{"/sys/class/infiniband", infiniband, NULL},
	{"/sys/class/infiniband_verbs", verbs, NULL},
	{"/sys/class/infiniband_mad", mad, NULL},
	{0},
};
