/* SPDX-License-Identifier: Apache-2.0 */
#include "cni/plugins/sriov/ib_sriov.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/loop.h"
#include "cni/attach/attach.h"
#include "cni/device/vf_conf.h"
#include "cni/device/rdma_move.h"
#include "cni/device/vf_apply.h"
#include "cni/device/vf_place.h"
#include "cni/device/vf_rail.h"
#include "cni/device/vf_restore.h"
#include "cni/device/vf_stores.h"
#include "cni/plugins/sriov/sriov.h"
#include "kern/net/altname.h"
#include "kern/pci/uevent.h"

/* ib-sriov: attaches a VF of an InfiniBand HCA. */

static bool ib_is_made_here(const struct rail *rail)
{
	return rail->kind == &ib_sriov_kind;
}

/* --- locks and ownership of VFs --- */

static const char *id_of(const struct rail *rail)
{
	return rail->conf.ib_sriov.device_id;
}

static int check_id(const struct rail *rail, struct err *e)
{
	if (id_of(rail))
		return 0;
	return err_kind(e, ERR_CONF, -EINVAL, ORIG("deviceID is required (conf.deviceID)"));
}

/* First restores the VF if a deleted pod of ib-sriov has it: while the VF is in that pod's
 * namespace, sriov_free_up(), which restores from a record of sriov, may fail. */
static int claim_one(struct attach *a, const struct rail *rail, struct err *e)
{
	int r = ib_restore_free_up(a, id_of(rail), rail->ifname, e);

	return r < 0 ? r : sriov_free_up(a, id_of(rail), e);
}

/*
 * Locks the VFs, then takes the node's one lock of InfiniBand VFs (IB_SRIOV_LOCK), whose descriptor
 * the pod's first ib-sriov attachment stores. ib_restore_free_up() of another ADD takes the node's
 * lock while it has locks of VFs, so this order prevents a deadlock.
 */
static int claim(struct attach *a, struct err *e)
{
	struct rail *first = NULL;
	int r = 0;

	for (size_t i = 0; i < a->n_rails; i++) {
		r = ib_is_made_here(&a->rails[i]) ? check_id(&a->rails[i], e) : 0;
		if (r < 0)
			return rail_err(&a->rails[i], r, e);
	}
	r = vf_rail_lock(a, &ib_sriov_kind, id_of, e);
	for (size_t i = 0; r >= 0 && i < a->n_rails; i++) {
		if (!ib_is_made_here(&a->rails[i]))
			continue;
		first = first ? first : &a->rails[i];
		r = claim_one(a, &a->rails[i], e);
		if (r < 0)
			return rail_err(&a->rails[i], r, e);
	}
	return r < 0 ? r : ib_restore_lock(&a->call->root, &first->vf->node_lock, e);
}

/* --- CHECK and STATUS --- */

static int check(const struct rail_conf *c, const struct link *l, struct err *e)
{
	const char *id = c->ib_sriov.device_id;

	if (*l->device && id && strcmp(l->device, id) != 0)
		return err_set(e, -EINVAL, "interface '%s' is device '%s', expected VF '%s'",
			       l->name, l->device, id);
	if (c->ib_sriov.guid && ib_guid_of_link(&l->mac) != c->ib_sriov.guid)
		return err_set(e, -EINVAL, "interface '%s' does not have the requested GUID",
			       l->name);
	return 0;
}

static int verify(struct attach *a, const struct rail *rail, struct err *e)
{
	auto_vf_record struct vf_record rec = {0};
	char name[RDMA_NAME_MAX];
	int r;

	if (!rail->conf.ib_sriov.isolation || rail->no_link)
		return 0;
	r = rdma_move_mode(RDMA_NETNS_EXCLUSIVE, "conf.rdmaIsolation", e);
	if (r >= 0)
		r = vf_record_load(&a->call->root, &ib_sriov_store, a->call->container_id,
				   rail->ifname, &rec, e);
	if (r < 0)
		return r;
	if (!rdma_move_name(&a->call->root, rec.device, name))
		str_copy(name, sizeof(name), rec.rdma);
	r = rdma_move_is_in(a->netns, name, e);
	if (r == 0)
		return err_set(e, -ENODEV,
			       "RDMA device '%s' of '%s' is not in the pod's network namespace",
			       name, rec.device);
	return r < 0 ? r : 0;
}

/* Checks a PF that goes to a virtual machine as a whole: ADD sets none of its attributes and
 * moves no device. */
static int ib_inspect_whole_pf(struct rail *rail, bool vfio, struct err *e)
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

/* Returns whether the function is bound to vfio-pci. Sets *vf to whether it is a VF; *vf is
 * unchanged if the function does not exist. */
static bool ib_is_vfio(const struct root *root, const char *bdf, bool *vf)
{
	struct pci_dev d;

	if (pci_read(root, bdf, &d, NULL) < 0)
		return false;
	*vf = *d.physfn;
	return strcmp(d.driver, "vfio-pci") == 0;
}

/* STATUS also succeeds while the VF is in a pod, because STATUS does not need the VF's netdev. */
static int status(const struct root *root, struct rail *rail, struct err *e)
{
	const struct ib_sriov_conf *c = &rail->conf.ib_sriov;
	bool vf = true;
	struct vf_place p;
	int r = c->isolation ? rdma_move_mode(RDMA_NETNS_EXCLUSIVE, "conf.rdmaIsolation", e) : 0;

	if (r < 0 || !c->device_id)
		return r;
	rail->no_link = ib_is_vfio(root, c->device_id, &vf);
	if (!vf)
		return ib_inspect_whole_pf(rail, rail->no_link, e);
	return vf_place_read(root, NULL, c->device_id, &p, e);
}

static int ib_sriov_inspect(struct attach *a, struct rail *rail, struct err *e);

static int ib_sriov_prepare(struct attach *a, struct err *e);

static void ib_sriov_put(const struct attach *a, const struct rail *rail, struct nl_batch *b);

const struct link_driver ib_sriov_kind = {
	.type = "ib-sriov",
	.order = RAIL_IB_SRIOV,
	.read = ib_sriov_read,
	.check = check,
	.hint = vf_rail_hint,
	.claim = claim,
	.inspect = ib_sriov_inspect,
	.prepare = ib_sriov_prepare,
	.put = ib_sriov_put,
	.del = ib_sriov_del,
	.gc = ib_sriov_gc,
	.status = status,
	.verify = verify,
};

const struct cni_plugin cni_ib_sriov =
	RAIL_PLUGIN(ib_sriov_kind, "ib-sriov", &ib_sriov_table, &rail_common_table);

/* --- ib-sriov: reads the state before any change --- */

enum { IPOIB_ADDRESS = 20 };

static int inspect_pf(struct attach *a, const struct rail *rail, struct err *e)
{
	struct vf_rail *v = rail->vf;
	const struct vf_place *p = &v->place;
	int r;

	if (!p->pf.index)
		return vf_place_no_pf(p, e);
	if (!link_is_up(&p->pf))
		log_warn("the PF is down: its VFs may have no carrier", LOG_S("pf", p->pf.name));
	r = vf_get(a->host, p->pf.index, p->pf.name, p->number, &v->now, e);
	return r < 0 ? err_wrap(e, r, ORIG("failed to find vf %u"), p->number) : 0;
}

static int inspect_netdev(struct attach *a, struct rail *rail, struct err *e)
{
	const struct vf_place *p = &rail->vf->place;
	struct vf_record *rec = &rail->vf->record;
	int r;

	if (!*p->netdev)
		return err_kind(
			e, ERR_UNAVAILABLE, -ENODEV,
			ORIG("failed to get VF device information: VF '%s' has no IPoIB "
			     "interface (its driver is '%s'; is module ib_ipoib loaded, or is it "
			     "in another pod?)"),
			p->pci.bdf, *p->pci.driver ? p->pci.driver : "none");
	r = link_get(a->host, p->netdev, &rail->master, e);
	if (r >= 0 && rail->master.mac.len != IPOIB_ADDRESS)
		return err_kind(
			e, ERR_CONF, -EINVAL,
			"VF '%s' is not an InfiniBand VF: '%s' has no IPoIB address (sriov is "
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
				"VF %s GUID is not valid, and PF '%s' has no valid GUID to derive "
				"one from (set conf.runtimeConfig.infinibandGUID or "
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

static int inspect_rdma(struct attach *a, const struct rail *rail, struct err *e)
{
	struct vf_record *rec = &rail->vf->record;
	const char *bdf = rail->vf->place.pci.bdf;
	int r;

	if (!rail->conf.ib_sriov.isolation)
		return 0;
	r = rdma_move_mode(RDMA_NETNS_EXCLUSIVE, "conf.rdmaIsolation", e);
	if (r >= 0)
		r = rdma_move_find(&a->call->root, bdf, rec->rdma, e);
	return r;
}

static int inspect_vf(struct attach *a, struct rail *rail, struct err *e)
{
	struct vf_rail *v = rail->vf;
	struct vf_attrs want = {.set = 0};
	uint64_t guid = 0;
	int r = inspect_pf(a, rail, e);

	if (r >= 0 && !v->place.dpdk)
		r = inspect_netdev(a, rail, e);
	if (r >= 0 && !v->place.dpdk)
		r = inspect_rdma(a, rail, e);
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
	/* If the PF reports the requested GUID but the netdev has another one, the GUID counts
	 * as not yet set: the driver is then bound again, and the netdev takes the GUID. */
	if (guid && !v->place.dpdk && ib_guid_of_link(&rail->master.mac) != guid)
		want.set |= VF_ATTR_GUID;
	vf_rail_record(a, rail, want.set);
	rail->conf.ib_sriov.want = want;
	return 0;
}

static int ib_sriov_inspect(struct attach *a, struct rail *rail, struct err *e)
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
		return ib_inspect_whole_pf(rail, vfio, e);
	r = vf_place_read(root, a->host, bdf, &rail->vf->place, e);
	if (r < 0)
		return err_wrap(e, r, ORIG("failed to get VF device information"));
	rail->no_link = rail->vf->place.dpdk;
	rail->uplink = &rail->vf->place.pf;
	return inspect_vf(a, rail, e);
}

/* --- ib-sriov: changes of an ADD, on the node and during the move into the pod --- */

enum { NETDEV_MS = 5000 };

static int undo_all(void *arg, struct err *e)
{
	struct attach *a = *(struct attach **)arg;
	int first = 0;

	for (size_t i = a->n_rails; i-- > 0;) {
		struct rail *rail = &a->rails[i];
		int r;

		if (!ib_is_made_here(rail) || !rail->vf || !rail->vf->record.file)
			continue;
		r = ib_restore(a, a->netns, &rail->vf->record, VF_RESTORE_UP, first < 0 ? NULL : e);
		if (r == 0)
			r = vf_record_remove(&a->call->root, &ib_sriov_store, rail->vf->record.file,
					     first < 0 ? NULL : e);
		first = first < 0 ? first : r;
	}
	return first < 0 ? first : 0;
}

static int write_record(const struct attach *a, const struct rail *rail, struct err *e)
{
	struct vf_record *rec = &rail->vf->record;
	const struct ib_netconf n = {
		.c = &rail->conf.ib_sriov,
		.version = cni_version_str(a->call->version),
		.ipam_type = rail->ipam.conf ? rail->ipam.type : "",
		.sets_guid = rail->conf.ib_sriov.want.set & VF_ATTR_GUID,
		.host_guid = rec->dpdk ? UINT64_MAX : ib_guid_of_link(&rec->mac),
	};
	auto_buf struct buf text;

	buf_init(&text, VF_RECORD_MAX);
	ib_record_print(rec, &n, &text);
	if (text.over)
		return err_kind(e, ERR_CONF, -E2BIG,
				"the record of the VF, which contains "
				"conf.args.cni, has more than %d bytes",
				VF_RECORD_MAX);
	/* The name is set before the record is written, because a failed write may have left the
	 * file, and undo needs its name. */
	rec->file = vf_record_file(rec->container, rec->ifname);
	return vf_record_save(&a->call->root, &ib_sriov_store, rec, buf_span(&text), e);
}

static int set_attrs(struct attach *a, const struct rail *rail, struct err *e)
{
	const struct vf_place *p = &rail->vf->place;
	const struct vf_job job = {
		{p->pf.index, p->pf.name, p->number}, rail->conf.ib_sriov.want, {0}};

	return vf_apply(a->host, &job, 1, NULL, e);
}

/* Waits for the VF's netdev, which is a new link after a rebind or a move of the RDMA device. */
static int find_netdev_again(struct attach *a, struct rail *rail, int events, struct err *e)
{
	char name[PCI_NAME_MAX];
	int r = uevent_wait_child(events, now_mono_ms() + NETDEV_MS, &a->call->root,
				  rail->vf->place.pci.bdf, PCI_NETDEV, name, e);

	return r < 0 ? r : link_get(a->host, name, &rail->master, e);
}

static int check_guid(const struct rail *rail, struct err *e)
{
	uint64_t has = ib_guid_of_link(&rail->master.mac),
		 want = rail->conf.ib_sriov.want.to.port_guid;
	char text[VF_GUID_TEXT_MAX], other[VF_GUID_TEXT_MAX];

	if (has == want)
		return 0;
	return err_kind(e, ERR_AGAIN, -EAGAIN,
			"VF '%s' has GUID %s after its driver was bound again, expected %s",
			rail->vf->place.pci.bdf, vf_guid_str(has, text), vf_guid_str(want, other));
}

static int take_guid(struct attach *a, struct rail *rail, int events, struct err *e)
{
	const struct vf_place *p = &rail->vf->place;
	struct vf_record *rec = &rail->vf->record;
	char now[RDMA_NAME_MAX];
	int r;

	if (!(rail->conf.ib_sriov.want.set & VF_ATTR_GUID) || p->dpdk)
		return 0;
	r = ib_restore_rebind(&a->call->root, p->pci.bdf, p->pci.driver, true, *rec->rdma, e);
	if (r >= 0)
		r = find_netdev_again(a, rail, events, e);
	if (r >= 0)
		r = check_guid(rail, e);
	if (r < 0 || !*rec->rdma)
		return r;
	r = rdma_move_find(&a->call->root, p->pci.bdf, now, e);
	return r < 0 ? r : rdma_move_rename(now, rec->rdma, e);
}

/* Gives the VF's netdev in the pod its name and alias, and stores it as the attachment's link. */
static int name_netdev_in_pod(struct attach *a, struct rail *rail, const struct link *l,
			      struct err *e)
{
	auto_batch struct nl_batch *b = nl_batch_new();
	const struct link_change c = {
		.set = LINK_SET_NAME | LINK_SET_ALIAS,
		.name = rail->ifname,
		.alias = rail->vf->record.name,
	};
	int r;

	link_set(b, l->index, l->name, &c);
	r = nl_batch_commit(a->pod, b, e);
	if (r < 0)
		return r;
	rail->master = *l;
	rail->index = l->index;
	return 1;
}

/* Since Linux 6.17 a move of the RDMA device creates the netdev in the namespace to which the RDMA
 * device moves, before the kernel answers; earlier, in the node's namespace. Returns 1 if the
 * netdev is in the pod, 0 if not. */
static int find_netdev_in_pod(struct attach *a, struct rail *rail, struct err *e)
{
	auto_free struct link *list = NULL;
	size_t n = 0;
	int r = link_list(a->pod, &list, &n, e);

	for (size_t i = 0; r >= 0 && i < n; i++)
		if (strcmp(list[i].device, rail->vf->place.pci.bdf) == 0)
			return name_netdev_in_pod(a, rail, &list[i], e);
	return r < 0 ? r : 0;
}

static int isolate(struct attach *a, struct rail *rail, int events, struct err *e)
{
	auto_nl struct nl_wire *w = NULL;
	int r;

	if (!*rail->vf->record.rdma)
		return 0;
	r = nl_open(&w, NL_RDMA, -1, e);
	if (r >= 0)
		r = rdma_move(w, &a->call->root, rail->vf->record.rdma, a->netns,
			      RDMA_MOVE_LIMIT_MS, e);
	if (r >= 0)
		r = find_netdev_in_pod(a, rail, e);
	return r ? r : find_netdev_again(a, rail, events, e);
}

static int prepare_one(struct attach *a, struct rail *rail, struct err *e)
{
	auto_fd int events = -1;
	int r = write_record(a, rail, e);

	if (r >= 0)
		r = set_attrs(a, rail, e);
	if (r >= 0)
		r = uevent_open(&events, e);
	if (r >= 0)
		r = take_guid(a, rail, events, e);
	if (r >= 0)
		r = isolate(a, rail, events, e);
	return r < 0 ? rail_err(rail, r, e) : 0;
}

static int ib_sriov_prepare(struct attach *a, struct err *e)
{
	int r = 0;

	undo_push(&a->undo, "restore InfiniBand VFs", undo_all, &a, sizeof(a));
	for (size_t i = 0; r >= 0 && i < a->n_rails; i++)
		if (ib_is_made_here(&a->rails[i]) && *a->rails[i].vf->record.device)
			r = prepare_one(a, &a->rails[i], e);
	return r;
}

/* One message suffices: the kernel first moves the link, which sets the link down, then renames it.
 */
static void ib_sriov_put(const struct attach *a, const struct rail *rail, struct nl_batch *b)
{
	const struct vf_record *rec = &rail->vf->record;
	const struct link_change c = {
		.set = LINK_SET_NETNS | LINK_SET_NAME | LINK_SET_ALIAS,
		.netns_fd = a->netns,
		.name = rail->ifname,
		.alias = rec->name,
	};

	/* isolate() found the netdev in the pod. */
	if (rail->index)
		return;
	/* Removes those alternative names of the netdev that a link of the pod or an interface
	 * of this ADD has: links and alternative names share one set of names. A recreated
	 * netdev has no alternative names. */
	if (rail->master.mac.len == rec->mac.len && mac_eq(&rail->master.mac, &rec->mac) &&
	    !*rec->rdma)
		for (size_t i = 0; i < rec->n_altnames; i++)
			if (attach_name_taken(a, rec->altnames[i]))
				altname_del(b, rail->master.index, rail->master.name,
					    rec->altnames[i]);
	link_set(b, rail->master.index, rail->master.name, &c);
}
