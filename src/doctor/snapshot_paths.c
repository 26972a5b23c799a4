/* SPDX-License-Identifier: Apache-2.0 */
/* What a snapshot takes. A check that reads something new adds its path here. */
#include <stdlib.h>
#include <string.h>

#include "base/num.h"
#include "doctor/snapshot.h"

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
	{"driver", SNAP_TEXT},
	{"iommu_group", SNAP_TEXT},
	{"physfn", SNAP_TEXT},
	{"virtfn*", SNAP_TEXT},
	/* network and RDMA children that are nothing but folders here */
	{"net", SNAP_TEXT},
	{"infiniband", SNAP_TEXT},
	/* mlx5's own: VF GUIDs and policy, in the driver of NVIDIA's package */
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
	/* IPoIB, and RoCE in the driver of NVIDIA's package */
	{"mode", SNAP_TEXT},
	{"pkey", SNAP_TEXT},
	{"umcast", SNAP_TEXT},
	{"ecn/*/enable/*", SNAP_TEXT},
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

/* Network controllers (class 0x02), what RDMA needs of a host, and no other function. */
static bool is_network(const struct root *r, const char *device)
{
	char path[4096], class[16];

	if (!str_copy(path, sizeof(path) - sizeof("/class"), device))
		return false;
	strcat(path, "/class");
	return file_read_line(r, path, class, sizeof(class), NULL) == 0 &&
	       !strncmp(class, "0x02", 4);
}

const struct snap_devices snap_devices[] = {
	{"/sys/bus/pci/devices", pci, is_network},
	{"/sys/bus/auxiliary/devices", auxiliary, NULL},
	{"/sys/class/net", net, NULL},
	{"/sys/class/infiniband", infiniband, NULL},
	{"/sys/class/infiniband_verbs", verbs, NULL},
	{"/sys/class/infiniband_mad", mad, NULL},
	{0},
};

const struct snap_rule snap_rules[] = {
	{"/sys/bus/pci/drivers/vfio-pci", SNAP_NAME},
	{"/sys/module/ib_*/parameters/*", SNAP_TEXT},
	{"/sys/module/mlx5_*/parameters/*", SNAP_TEXT},
	{"/sys/module/mlx4_*/parameters/*", SNAP_TEXT},
	{"/sys/module/ib_*/version", SNAP_TEXT},
	{"/sys/module/mlx5_*/version", SNAP_TEXT},
	{"/sys/module/nvidia_peermem/version", SNAP_TEXT},
	{"/proc/version", SNAP_TEXT},
	{"/proc/cmdline", SNAP_WORDS},
	{"/proc/modules", SNAP_TEXT},
	{"/proc/mounts", SNAP_TEXT},
	{"/proc/self/mounts", SNAP_TEXT},
	{"/proc/net/dev", SNAP_TEXT},
	{"/proc/net/bonding/*", SNAP_TEXT},
	{"/proc/sys/kernel/hostname", SNAP_TEXT},
	{"/proc/sys/kernel/osrelease", SNAP_TEXT},
	{"/proc/sys/net/ipv4/ip_forward", SNAP_TEXT},
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
	{"/etc/cni/net.d/*.cilium_bak", SNAP_JSON}, /* what Cilium renames */
	{"/etc/unirail/*.conf", SNAP_LINES},
	{"/etc/unirail/*.json", SNAP_JSON},
	{"/etc/unirail/pools/*.conf", SNAP_LINES},
	{"/etc/unirail/pools/*.json", SNAP_JSON},
	{"/opt/cni/bin/.unirail-install.json", SNAP_JSON},
	{"/opt/cni/bin/*", SNAP_NAME},
	{"/var/lib/unirail/ipam/*", SNAP_TEXT},
	{"/var/lib/cni/networks/*/*", SNAP_TEXT},
	{0},
};
