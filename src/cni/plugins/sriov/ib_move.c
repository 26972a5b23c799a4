/* SPDX-License-Identifier: Apache-2.0 */
/* ib-sriov: what an ADD changes, on the node and on the way into the pod. */
#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/loop.h"
#include "cni/attach/attach.h"
#include "cni/device/rdma_move.h"
#include "cni/device/vf_apply.h"
#include "cni/device/vf_home.h"
#include "cni/device/vf_rail.h"
#include "kern/net/altname.h"
#include "kern/pci/uevent.h"

enum { NETDEV_MS = 5000 };

static int undo_all(void *arg, struct err *e)
{
	struct attach *a = *(struct attach **)arg;
	int first = 0;

	for (size_t i = a->n_rails; i-- > 0;) {
		struct rail *rail = &a->rails[i];
		int r;

		if (!ib_is_ours(rail) || !rail->vf || !rail->vf->record.file)
			continue;
		r = ib_home_bring(a, a->netns, &rail->vf->record, VF_HOME_UP, first < 0 ? NULL : e);
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
		.ipam_type = rail->ipam.conf ? cni_ipam_type(rail->ipam.conf) : "",
		.sets_guid = rail->conf.ib_sriov.want.set & VF_ATTR_GUID,
		.host_guid = rec->dpdk ? UINT64_MAX : ib_guid_of_link(&rec->mac),
	};
	auto_buf struct buf text;

	buf_init(&text, VF_RECORD_MAX);
	ib_record_print(rec, &n, &text);
	if (text.over)
		return err_kind(e, ERR_CONF, -E2BIG, "conf.args.cni is more than %d bytes",
				VF_RECORD_MAX);
	/* A save that fails may have left the file: undoing it wants the name. */
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

/* After a rebind or a move of the RDMA device the netdev is another one. */
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
			"VF '%s' has GUID %s after its driver was bound again, wants %s",
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
	r = ib_home_rebind(&a->call->root, p->pci.bdf, p->pci.driver, true, *rec->rdma, e);
	if (r >= 0)
		r = find_netdev_again(a, rail, events, e);
	if (r >= 0)
		r = check_guid(rail, e);
	if (r < 0 || !*rec->rdma)
		return r;
	r = rdma_move_find(&a->call->root, p->pci.bdf, now, e);
	return r < 0 ? r : rdma_move_rename(now, rec->rdma, e);
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
	return r < 0 ? r : find_netdev_again(a, rail, events, e);
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

int ib_sriov_prepare(struct attach *a, struct err *e)
{
	int r = 0;

	undo_push(&a->undo, "put InfiniBand VFs back", undo_all, &a, sizeof(a));
	for (size_t i = 0; r >= 0 && i < a->n_rails; i++)
		if (ib_is_ours(&a->rails[i]) && *a->rails[i].vf->record.device)
			r = prepare_one(a, &a->rails[i], e);
	return r;
}

/* One message: the kernel moves the link, which sets it down, then names it. */
void ib_sriov_put(const struct attach *a, const struct rail *rail, struct nl_batch *b)
{
	const struct vf_record *rec = &rail->vf->record;
	const struct link_change c = {
		.set = LINK_SET_NETNS | LINK_SET_NAME | LINK_SET_ALIAS,
		.netns_fd = a->netns,
		.name = rail->ifname,
		.alias = rec->name,
	};

	/* Alternative names take part in whether a name is free; a netdev made anew has none. */
	if (rail->master.mac.len == rec->mac.len && mac_eq(&rail->master.mac, &rec->mac) &&
	    !*rec->rdma)
		for (size_t i = 0; i < rec->n_altnames; i++)
			if (attach_name_taken(a, rec->altnames[i]))
				altname_del(b, rail->master.index, rail->master.name,
					    rec->altnames[i]);
	link_set(b, rail->master.index, rail->master.name, &c);
}
