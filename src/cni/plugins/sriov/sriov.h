/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CNI_PLUGINS_SRIOV_SRIOV_H
#define UNIRAIL_CNI_PLUGINS_SRIOV_SRIOV_H

/*
 * The sriov plugin: a virtual function of a NIC of the node moves into the pod, with the attributes
 * that only its PF can set. Its netconf, keys matched as Go's encoding/json does:
 *
 *	deviceID	the VF's PCI address; absent: runtimeConfig.deviceID
 *	vlan		0..4094, 0: none. The VF keeps its VLAN if this key is absent; likewise for
 *			each of the keys from mac to link_state below
 *	vlanQoS		0..7, only with vlan; default 0
 *	vlanProto	"802.1q" (default) or "802.1ad", only with vlan
 *	mac		used if neither runtimeConfig.mac nor MAC of CNI_ARGS is set
 *	mtu		in the pod, at most the PF's (not in the original)
 *	min_tx_rate, max_tx_rate	Mbit/s, 0: none; if only one is given, the other becomes 0
 *	spoofchk, trust	"on"; anything else that is not empty is off, as in the original
 *	link_state	"auto", "enable" or "disable"
 *	logLevel, logFile	level and file of the log if sriov is a process of its own
 *	ipam, dns	as in every link driver
 *
 * A VF bound to a userspace driver (DPDK) has no link: ADD only sets the VF's attributes, allocates
 * addresses and prints a result. A PF that is bound to vfio has no driver that sets attributes: its
 * VFs are moved unchanged, and a netconf with attributes is refused.
 *
 * The VF's state is recorded in /var/lib/cni/sriov/<container>-<interface> before any change
 * (cni/device/vf_record.h). DEL, GC and a failed ADD restore all of it: attributes, name, MAC, MTU,
 * alias and alternative names. Without a record, DEL restores what the device itself reports. An
 * ADD also restores a VF of a pod whose namespace no longer exists.
 */

#include "cni/device/vf_plan.h"

struct attach;

extern const struct json_table sriov_table; /* its netconf */
struct sriov_conf {
	const char *device_id; /* NULL: none */
	struct vf_attrs want;  /* attributes to set on the VF through the PF */
	bool has_vlan, has_min, has_max;
	const char *vlan_proto, *spoofchk, *trust, *link_state, *runtime_mac; /* NULL: none */
	const char *log_level, *log_file;				      /* NULL: none */
};

/* --- the record's file, in the original's format (conf.c); VFs in use (restore.c) --- */

struct sriov_netconf {
	const struct sriov_conf *c;
	const struct json *conf; /* dns, capabilities and prevResult are stored; may be NULL */
	const char *version, *ipam_type; /* "": none */
};
/* Call with the VF's lock. Restores a VF of a deleted pod. -EBUSY (ERR_AGAIN): a running pod has
 * the VF, or a process keeps the namespace of the deleted pod. */
int sriov_free_up(struct attach *a, const char *bdf, struct err *e);
void sriov_record_print(const struct vf_record *r, const struct sriov_netconf *n, struct buf *b);

#endif
