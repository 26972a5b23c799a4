/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CNI_PLUGINS_SRIOV_IB_SRIOV_H
#define UNIRAIL_CNI_PLUGINS_SRIOV_IB_SRIOV_H

/*
 * The ib-sriov plugin: a virtual function of an InfiniBand HCA moves into the pod, with a GUID that
 * its PF sets. Its netconf, keys matched as Go's encoding/json does:
 *
 *	deviceID	PCI address of the VF, or of a PF that is bound to vfio-pci; absent:
 *			runtimeConfig.deviceID
 *	runtimeConfig.infinibandGUID, args.cni.guid	the VF's GUID, the first that is given
 *	guidPool	unirail's own: this node's range of GUIDs, such as
 *			"02:00:00:00:00:00:01:00-02:00:00:00:00:00:01:ff"
 *	pkey		not used here: ib-kubernetes programs the subnet manager with it
 *	link_state	"auto", "enable" or "disable"
 *	rdmaIsolation	the RDMA device goes into the pod as well; needs exclusive mode
 *	ibKubernetesEnabled	args.cni["mellanox.infiniband.app"] must be "configured", and
 *			a GUID given unless vfioPciMode is set
 *	vfioPciMode	the VF is bound to vfio-pci; detected if absent
 *	ipam, dns	as in every link driver, but ipam.type dhcp is refused
 *
 * If no GUID is requested, a VF keeps its GUID. A VF without a GUID (the original refuses it) gets
 * one of guidPool or, without guidPool, a locally administered one derived from its PF's GUID and
 * the VF's number. Both are the same after every reboot.
 *
 * A VF takes a new GUID when its driver is bound again, which recreates netdev and RDMA device.
 * Only one process at a time binds a driver (the original's lock /var/run/cni/ib-sriov/cni.lock),
 * so that the RDMA device gets the name again that a device plugin has reported. A process takes
 * the VF's own lock (cni/device/vf_claim.h) before that lock, because sriov may claim the same VF.
 *
 * ADD moves the RDMA device first, because the move recreates the IPoIB netdev. Unless the kernel
 * has created the new netdev in the pod (since Linux 6.17), ADD then moves the netdev and gives it
 * its final name in one message.
 *
 * Before any change, ADD records the VF's state in /var/lib/cni/ib-sriov/<container>-<interface>,
 * in the original's format. DEL, GC and a failed ADD restore that state, whether or not the pod's
 * namespace still exists: RDMA device, netdev, link state, GUID (a GUID that was all zero becomes
 * ff:..., as with the original) and name, in this order.
 */

#include "cni/device/vf_plan.h"
#include "wire/json/json.h"

#define IB_SRIOV_LOCK "/var/run/cni/ib-sriov/cni.lock"

struct ib_guid_pool {
	uint64_t first, last; /* last 0: none */
};

struct ib_sriov_conf {
	const char *device_id, *pkey, *link_state; /* NULL: none */
	const char *runtime_guid, *args_guid;	   /* GUIDs as the user wrote them; NULL: none */
	const struct json *args_cni;
	uint64_t guid; /* requested GUID; 0: none */
	struct ib_guid_pool pool;
	bool isolation, ib_kubernetes, vfio;
	/* attributes to set on the VF through the PF; filled in when ADD inspects the VF */
	struct vf_attrs want;
};

struct rail_source;
struct rail_conf;
struct attach;
struct rail;

int ib_sriov_read(const struct rail_source *s, struct rail_conf *ret, struct err *e);

extern const struct json_table ib_sriov_table; /* its netconf */
/* ---- GUIDs: ib_conf.c, pure but for ib_guid_place() ---- */

/* Returns whether the GUID is neither all zero nor all ones. */
bool ib_guid_valid(uint64_t guid);
/* Returns the GUID in the last eight bytes of an IPoIB link's address; 0: not an IPoIB link. */
uint64_t ib_guid_of_link(const struct mac *mac);
/* Parses a pool "first-last"; kind ERR_CONF. */
int ib_guid_pool_parse(const char *text, struct ib_guid_pool *ret, struct err *e);
/* Sets *ret to the n-th GUID of the pool, counted from 0; kind ERR_UNAVAILABLE: the pool is
 * smaller. */
int ib_guid_from_pool(const struct ib_guid_pool *p, uint64_t n, uint64_t *ret, struct err *e);
/* Computes the GUID of a VF from its PF's GUID (text) and the VF's number. */
uint64_t ib_guid_derive(const char *pf, uint32_t vf);
/* Sets *ret to the position of a VF among all VFs that the node's HCAs support. The position does
 * not depend on how many VFs exist now. */
int ib_guid_place(const struct root *r, const char *pf, uint32_t vf, uint64_t *ret, struct err *e);

/* ---- the record: ib_conf.c ---- */

struct ib_netconf {
	const struct ib_sriov_conf *c;
	const char *version, *ipam_type; /* "": none */
	/* HostIFGUID of the record: the GUID to which the original plugin restores the VF */
	uint64_t host_guid;
	bool sets_guid;
};
void ib_record_print(const struct vf_record *r, const struct ib_netconf *n, struct buf *b);

/* ---- restore of a VF to the node: ib_restore.c ---- */

/* Takes IB_SRIOV_LOCK. While it is held, no other process changes InfiniBand VFs of the node. */
int ib_restore_lock(const struct root *root, int *fd, struct err *e);
/*
 * Restores RDMA device, netdev, attributes and name according to the record. pod: the namespace to
 * search, -1: it does not exist. flags: VF_RESTORE_* (cni/device/vf_restore.h). A VF that was
 * deleted or recreated needs no restore. Returns 1 (not with VF_RESTORE_STRICT): the devices are on
 * the node, but the PF refuses the attributes.
 */
int ib_restore(struct attach *a, int pod, const struct vf_record *r, unsigned int flags,
	       struct err *e);
/* Unbinds the driver and binds it again, then waits for netdev and RDMA device if the VF had them.
 * */
int ib_restore_rebind(const struct root *root, const char *bdf, const char *driver, bool has_netdev,
		      bool has_rdma, struct err *e);

int ib_sriov_del(struct attach *a, const struct rail *rail, struct err *e);
int ib_sriov_gc(struct attach *a, const struct rail *rail, struct err *e);
/* Call with the VF's lock. Fails with -EBUSY (ERR_AGAIN) if a running pod of this plugin has the
 * VF; restores a VF of a deleted pod. Takes IB_SRIOV_LOCK if the VF has a record. ifname: interface
 * of this call's attachment (NULL: none). If this attachment itself has the VF, the VF is
 * restored even if the pod runs, because a runtime may repeat ADD without a DEL. */
int ib_restore_free_up(struct attach *a, const char *bdf, const char *ifname, struct err *e);

#endif
