/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_KERN_NET_DCB_H
#define UNIRAIL_KERN_NET_DCB_H

/*
 * Data Center Bridging of a network device, by RTM_GETDCB and RTM_SETDCB of rtnetlink
 * (net/dcb/dcbnl.c, include/uapi/linux/dcbnl.h): what `mlnx_qos`, `dcb` and `lldptool` read and set.
 *
 * Reading needs no capability. -EOPNOTSUPP: the driver has no DCB, or the device is a VF, an SF or
 * a link on top of a PF (macvlan, ipvlan, VLAN), which use the settings of the PF. Setting needs
 * CAP_NET_ADMIN in the initial user namespace.
 *
 * The setters write even if nothing changes: the caller compares first. mlx5 takes the port down and
 * up when the set of priorities with PFC changes. mlx5 has no separate setting for the trust mode: it trusts DSCP
 * while its application table has an entry for a DSCP, otherwise the 802.1p priority.
 */

#include "kern/netlink/nl.h"

enum { DCB_PRIOS = 8, DCB_DSCPS = 64, DCB_TRUST_MAX = 8, DCB_PEER_APPS_MAX = 128 };

enum dcb_selector { DCB_SEL_ETHERTYPE = 1, DCB_SEL_DSCP = 5, DCB_SEL_PCP = 255 };
enum dcb_tsa { DCB_TSA_STRICT = 0, DCB_TSA_CBS = 1, DCB_TSA_ETS = 2, DCB_TSA_VENDOR = 255 };
/* Bits of dcb.dcbx. DCB_HOST: the host runs DCBX; without it the firmware does and may overwrite
 * settings. DCB_LLD: another entity than the host runs it. DCB_CEE, DCB_IEEE: version of the
 * protocol. DCB_STATIC: no negotiation, settings are fixed. */
enum dcb_dcbx { DCB_HOST = 1, DCB_LLD = 2, DCB_CEE = 4, DCB_IEEE = 8, DCB_STATIC = 16 };

struct dcb_ets {
	uint8_t willing, max_tcs, cbs;
	/* bandwidth of each traffic class in percent; the classes with TSA ETS add up to 100 */
	uint8_t tx_bw[DCB_PRIOS];
	uint8_t rx_bw[DCB_PRIOS];
	uint8_t tsa[DCB_PRIOS];	    /* enum dcb_tsa of each traffic class */
	uint8_t prio_tc[DCB_PRIOS]; /* traffic class of each priority */
};

struct dcb_pfc {
	uint8_t max_tcs;
	uint8_t enabled; /* one bit per priority */
	uint8_t mbc;
	uint16_t delay; /* mlx5: length of the cable in metres */
	/* numbers of pause frames; the setter ignores them */
	uint64_t sent[DCB_PRIOS], received[DCB_PRIOS];
};

struct dcb_entry {
	uint8_t selector, priority;
	uint16_t protocol; /* DSCP 0..63 if the selector is DCB_SEL_DSCP */
};

struct dcb_buffers {
	uint8_t prio_buffer[DCB_PRIOS];
	uint32_t size[DCB_PRIOS]; /* bytes */
	uint32_t total;		  /* total size in bytes; the setter ignores it */
};

struct dcb {
	bool has_ets, has_pfc, has_buffers, has_dcbx;
	struct dcb_ets ets;
	struct dcb_pfc pfc;
	struct dcb_buffers buffers;
	int8_t dscp_prio[DCB_DSCPS]; /* priority of each DSCP; -1: no entry */
	/* selectors in order of precedence; only of drivers with a trust table */
	uint8_t trust[DCB_TRUST_MAX];
	size_t n_trust;
	uint8_t dcbx;
	/* Settings that the switch announces by LLDP. The kernel has them only from a driver
	 * whose firmware runs DCBX. */
	bool has_peer_ets, has_peer_pfc;
	struct dcb_ets peer_ets;
	struct dcb_pfc peer_pfc;
	struct dcb_entry peer_apps[DCB_PEER_APPS_MAX];
	size_t n_peer_apps;
};

/* Returns whether the device classifies packets by DSCP: by the trust table if there is one, else
 * by mlx5's rule above. */
bool dcb_trusts_dscp(const struct dcb *d);

/* Reads the settings. -ENODEV: no such device; -EOPNOTSUPP (kind ERR_UNAVAILABLE): see the top
 * of this file. */
int dcb_get(struct nl_wire *w, const char *ifname, struct dcb *ret, struct err *e);

int dcb_set_pfc(struct nl_wire *w, const char *ifname, const struct dcb_pfc *pfc, struct err *e);
/* Writes all members of ets except rx_bw: received traffic gets the bandwidths of tx_bw. */
int dcb_set_ets(struct nl_wire *w, const char *ifname, const struct dcb_ets *ets, struct err *e);
/* Sets the buffers; also disables the driver's automatic configuration of buffers. */
int dcb_set_buffers(struct nl_wire *w, const char *ifname, const struct dcb_buffers *b,
		    struct err *e);
int dcb_add_apps(struct nl_wire *w, const char *ifname, const struct dcb_entry *v, size_t n,
		 struct err *e);
int dcb_del_apps(struct nl_wire *w, const char *ifname, const struct dcb_entry *v, size_t n,
		 struct err *e);
/* Sets the DCBX mode, bits of enum dcb_dcbx; 0: the firmware runs DCBX. -EINVAL: the driver refuses
 * the mode. */
int dcb_set_dcbx(struct nl_wire *w, const char *ifname, uint8_t mode, struct err *e);

#endif
