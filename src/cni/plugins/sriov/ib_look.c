/* SPDX-License-Identifier: Apache-2.0 */
/* ib-sriov: what is there before anything is changed. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "cni/attach/attach.h"
#include "cni/device/rdma_move.h"
#include "cni/device/vf_place.h"
#include "cni/device/vf_rail.h"
#include "kern/net/altname.h"

enum { IPOIB_ADDRESS = 20 };

static int look_pf(struct attach *a, const struct rail *rail, struct err *e)
{
	struct vf_rail *v = rail->vf;
	const struct vf_place *p = &v->place;
	int r;

	if (!p->pf.index)
		return vf_place_no_pf(p, e);
	if (!link_is_up(&p->pf))
		log_warn("the PF is down: its VFs have no carrier", LOG_S("pf", p->pf.name));
	r = vf_get(a->host, p->pf.index, p->pf.name, p->number, &v->now, e);
	return r < 0 ? err_wrap(e, r, "failed to find vf %u", p->number) : 0;
}

static int look_netdev(struct attach *a, struct rail *rail, struct err *e)
{
	const struct vf_place *p = &rail->vf->place;
	struct vf_record *rec = &rail->vf->record;
	int r;

	if (!*p->netdev)
		return err_kind(
			e, ERR_UNAVAILABLE, -ENODEV,
			"failed to get VF device information: VF '%s' has no IPoIB "
			"interface (its driver is '%s'; is module ib_ipoib loaded, or is it "
			"in another pod?)",
			p->pci.bdf, *p->pci.driver ? p->pci.driver : "none");
	r = link_get(a->host, p->netdev, &rail->master, e);
	if (r >= 0 && rail->master.mac.len != IPOIB_ADDRESS)
		return err_kind(e, ERR_CONF, -EINVAL,
				"VF '%s' is no InfiniBand VF: '%s' has no IPoIB address (sriov is "
				"for Ethernet)",
				p->pci.bdf, p->netdev);
	if (r >= 0)
		r = altname_list(a->host, rail->master.index, &rec->altnames, &rec->n_altnames, e);
	return r < 0 ? err_wrap(e, r, "VF '%s'", p->pci.bdf) : 0;
}

static int pick_guid(struct attach *a, struct rail *rail, uint64_t *ret, struct err *e)
{
	const struct ib_sriov_conf *c = &rail->conf.ib_sriov;
	const struct vf_place *p = &rail->vf->place;
	uint64_t now = p->dpdk ? rail->vf->now.port_guid : ib_guid_of_link(&rail->master.mac);
	char text[VF_GUID_TEXT_MAX];
	uint64_t n, pf = ib_guid_of_link(&p->pf.mac);
	int r;

	*ret = 0;
	if (c->guid || ib_guid_valid(now)) {
		*ret = c->guid;
		return 0;
	}
	if (c->pool.last) {
		r = ib_guid_place(&a->call->root, p->pci.physfn, p->number, &n, e);
		return r < 0 ? r : ib_guid_from_pool(&c->pool, n, ret, e);
	}
	if (!ib_guid_valid(pf))
		return err_kind(e, ERR_UNAVAILABLE, -EINVAL,
				"VF %s GUID is not valid, and neither is that of PF '%s' to derive "
				"one from (give one by conf.runtimeConfig.infinibandGUID or "
				"conf.guidPool)",
				p->pci.bdf, p->pf.name);
	*ret = ib_guid_derive(vf_guid_str(pf, text), p->number);
	return 0;
}

static void want_link_state(const struct ib_sriov_conf *c, struct vf_attrs *want)
{
	static const char *const names[] = {"auto", "enable", "disable"};

	for (uint32_t i = 0; c->link_state && i < 3; i++)
		if (strcmp(names[i], c->link_state) == 0) {
			want->set |= VF_ATTR_LINK_STATE;
			want->to.link_state = i;
		}
}

static int look_rdma(struct attach *a, const struct rail *rail, struct err *e)
{
	struct vf_record *rec = &rail->vf->record;
	const char *bdf = rail->vf->place.pci.bdf;
	int r;

	/* Waited for after a rebind, where there is one. */
	if (!rail->conf.ib_sriov.isolation)
		return 0;
	r = rdma_move_mode(RDMA_NETNS_EXCLUSIVE, "conf.rdmaIsolation", e);
	if (r >= 0)
		r = rdma_move_find(&a->call->root, bdf, rec->rdma, e);
	return r;
}

static int look_vf(struct attach *a, struct rail *rail, struct err *e)
{
	struct vf_rail *v = rail->vf;
	struct vf_attrs want = {.set = 0};
	uint64_t guid = 0;
	int r = look_pf(a, rail, e);

	if (r >= 0 && !v->place.dpdk)
		r = look_netdev(a, rail, e);
	if (r >= 0 && !v->place.dpdk)
		r = look_rdma(a, rail, e);
	if (r >= 0)
		r = pick_guid(a, rail, &guid, e);
	if (r < 0)
		return r;
	want_link_state(&rail->conf.ib_sriov, &want);
	if (guid) {
		want.set |= VF_ATTR_GUID;
		want.to.node_guid = want.to.port_guid = guid;
	}
	want.set = vf_plan_missing(&want, &v->now);
	/* Set on the PF, and never taken on by the VF: bound again, it is. */
	if (guid && !v->place.dpdk && ib_guid_of_link(&rail->master.mac) != guid)
		want.set |= VF_ATTR_GUID;
	vf_rail_record(a, rail, want.set);
	rail->conf.ib_sriov.want = want;
	return 0;
}

bool ib_is_vfio(const struct root *root, const char *bdf, bool *vf)
{
	struct pci_dev d;

	if (pci_read(root, bdf, &d, NULL) < 0)
		return false;
	*vf = *d.physfn;
	return strcmp(d.driver, "vfio-pci") == 0;
}

int ib_look_whole_pf(struct rail *rail, bool vfio, struct err *e)
{
	const char *bdf = rail->conf.ib_sriov.device_id;

	if (!vfio)
		return err_kind(e, ERR_CONF, -EINVAL,
				"PF device %s requires vfioPciMode to be enabled (conf.deviceID is "
				"not a VF, and its driver is not vfio-pci)",
				bdf);
	rail->no_link = true;
	return 0;
}

int ib_sriov_look(struct attach *a, struct rail *rail, struct err *e)
{
	const char *bdf = rail->conf.ib_sriov.device_id;
	const struct root *root = &a->call->root;
	bool vf = true, vfio = ib_is_vfio(root, bdf, &vf);
	int r;

	if (rail->conf.ib_sriov.vfio && !vfio)
		return err_kind(e, ERR_CONF, -EINVAL,
				"vfioPciMode is enabled but device %s is not bound to vfio-pci "
				"driver",
				bdf);
	if (!vf)
		return ib_look_whole_pf(rail, vfio, e);
	r = vf_place_read(root, a->host, bdf, &rail->vf->place, e);
	if (r < 0)
		return err_wrap(e, r, "failed to get VF device information");
	rail->no_link = rail->vf->place.dpdk;
	rail->uplink = &rail->vf->place.pf;
	return look_vf(a, rail, e);
}
