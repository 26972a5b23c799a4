/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_KERN_NET_VF_H
#define UNIRAIL_KERN_NET_VF_H

/*
 * VFs through their PF's link, by rtnetlink (IFLA_VFINFO_LIST). The PF is in the wire's namespace,
 * the VF's own netdev may be anywhere. The caller decides on the order of the changes, and reads
 * the VF again to check them, because some drivers apply an attribute later.
 */

#include "kern/net/link.h"

enum { VF_VLANS_MAX = 4, VF_VLAN_8021Q = 0x8100, VF_VLAN_8021AD = 0x88a8 };
enum vf_link_state { VF_LINK_AUTO, VF_LINK_ENABLE, VF_LINK_DISABLE };

struct vf_vlan {
	uint16_t id;	/* 0: none */
	uint8_t qos;	/* 0..7 */
	uint16_t proto; /* VF_VLAN_8021Q, VF_VLAN_8021AD */
};

struct vf_info {
	uint32_t vf;
	/* administrative MAC address, as long as the PF's address; all zero: the VF chooses its
	 * own */
	struct mac mac;
	struct vf_vlan vlans[VF_VLANS_MAX]; /* VLANs; current kernels report one */
	size_t n_vlans;
	uint32_t min_rate, max_rate; /* Mbit/s, 0: no limit */
	int spoofchk, trust;	     /* 0 or 1; -1: not reported by the driver */
	uint32_t link_state;	     /* VF_LINK_* */
	bool has_guid;
	/* GUIDs as integers, whose most significant byte is the first byte of the text */
	uint64_t node_guid, port_guid;
};

/*
 * Lists all VFs of a PF, sorted by number; the caller frees the list. -EOPNOTSUPP: the PF has VFs,
 * but its driver reports nothing about them. -EMSGSIZE: the list is incomplete, because the driver
 * does not report some VFs, or because the list is one attribute of at most 64 KiB (about 250 VFs),
 * which old kernels truncate silently. The size of the whole response is no limit: the wire repeats
 * the request with a larger buffer.
 */
int vf_list(struct nl_wire *w, int pf_index, const char *pf, struct vf_info **ret, size_t *n,
	    struct err *e);
/* Reads one VF, even from a list that was truncated after it; -ENOENT: the PF has no such VF. */
int vf_get(struct nl_wire *w, int pf_index, const char *pf, uint32_t vf, struct vf_info *ret,
	   struct err *e);

/* A VF of a PF; `pf` is the PF's name for error messages: "set VF 3 of 'ens1f0np0': mac 02:..". */
struct vf_ref {
	int pf_index;
	const char *pf;
	uint32_t vf;
};

/* Each function adds one message to the batch and returns its index. The result -EOPNOTSUPP means
 * that the driver does not support the setting. */
size_t vf_set_mac(struct nl_batch *b, const struct vf_ref *v, const struct mac *mac);
size_t vf_set_vlan(struct nl_batch *b, const struct vf_ref *v, const struct vf_vlan *vlan);
size_t vf_set_rate(struct nl_batch *b, const struct vf_ref *v, uint32_t min, uint32_t max);
size_t vf_set_spoofchk(struct nl_batch *b, const struct vf_ref *v, bool on);
size_t vf_set_trust(struct nl_batch *b, const struct vf_ref *v, bool on);
size_t vf_set_link_state(struct nl_batch *b, const struct vf_ref *v, enum vf_link_state state);
/* Sets the InfiniBand GUIDs of a VF, which the VF's driver reads when it is bound the next time. */
size_t vf_set_node_guid(struct nl_batch *b, const struct vf_ref *v, uint64_t guid);
size_t vf_set_port_guid(struct nl_batch *b, const struct vf_ref *v, uint64_t guid);

enum { VF_GUID_TEXT_MAX = 24 };
/* Convert a GUID from and to "0c:42:a1:03:00:16:05:1c". vf_guid_parse() accepts only this form,
 * with hex digits of either case, and returns -EINVAL for any other text and for a GUID of
 * zeros. */
const char *vf_guid_str(uint64_t guid, char buf[static VF_GUID_TEXT_MAX]);
int vf_guid_parse(struct span s, uint64_t *ret);

#endif
