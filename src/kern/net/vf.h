/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_KERN_NET_VF_H
#define UNIRAIL_KERN_NET_VF_H

/*
 * VFs through their PF's link, by rtnetlink (IFLA_VFINFO_LIST). The PF is in the wire's namespace,
 * the VF's own netdev may be anywhere. Order and reading back are the caller's: some drivers take
 * an attribute and answer late.
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
	struct mac mac; /* the administrative one, as long as the PF's; all zero: the VF's choice */
	struct vf_vlan vlans[VF_VLANS_MAX]; /* today's kernels tell one */
	size_t n_vlans;
	uint32_t min_rate, max_rate; /* Mbit/s, 0: no limit */
	int spoofchk, trust;	     /* 0, 1; -1: the driver does not tell */
	uint32_t link_state;	     /* VF_LINK_* */
	bool has_guid;
	uint64_t node_guid, port_guid; /* numbers: the first byte of the text is the highest */
};

/*
 * All VFs of a PF, by number; free() the list. -EOPNOTSUPP: the PF has VFs, but its driver reports
 * nothing about them. -EMSGSIZE: not all were reported, since the list is one attribute and
 * holds 64
 * KiB (some 250 VFs; old kernels cut it in silence). The answer's own size is no limit: the wire
 * asks again with a buffer as large as needed.
 */
int vf_list(struct nl_wire *w, int pf_index, const char *pf, struct vf_info **ret, size_t *n,
	    struct err *e);
/* One VF, even out of a list that was cut behind it; -ENOENT: the PF has no such VF. */
int vf_get(struct nl_wire *w, int pf_index, const char *pf, uint32_t vf, struct vf_info *ret,
	   struct err *e);

/* Whose VF; `pf` is for the message's words: "set VF 3 of 'ens1f0np0': mac 02:..". */
struct vf_ref {
	int pf_index;
	const char *pf;
	uint32_t vf;
};

/* Each adds one message to the batch and returns its index. -EOPNOTSUPP in its result: the driver
 * does not support it. */
size_t vf_set_mac(struct nl_batch *b, const struct vf_ref *v, const struct mac *mac);
size_t vf_set_vlan(struct nl_batch *b, const struct vf_ref *v, const struct vf_vlan *vlan);
size_t vf_set_rate(struct nl_batch *b, const struct vf_ref *v, uint32_t min, uint32_t max);
size_t vf_set_spoofchk(struct nl_batch *b, const struct vf_ref *v, bool on);
size_t vf_set_trust(struct nl_batch *b, const struct vf_ref *v, bool on);
size_t vf_set_link_state(struct nl_batch *b, const struct vf_ref *v, enum vf_link_state state);
/* InfiniBand; the VF's driver sees them when it is bound the next time. */
size_t vf_set_node_guid(struct nl_batch *b, const struct vf_ref *v, uint64_t guid);
size_t vf_set_port_guid(struct nl_batch *b, const struct vf_ref *v, uint64_t guid);

enum { VF_GUID_TEXT_MAX = 24 };
/* "0c:42:a1:03:00:16:05:1c"; parse takes exactly that form and refuses all zero: 0 or -EINVAL. */
const char *vf_guid_str(uint64_t guid, char buf[static VF_GUID_TEXT_MAX]);
int vf_guid_parse(struct span s, uint64_t *ret);

#endif
