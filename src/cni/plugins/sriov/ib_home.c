/* SPDX-License-Identifier: Apache-2.0 */
/* ib-sriov: a VF goes back as it was. */
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "base/loop.h"
#include "cni/attach/attach.h"
#include "cni/device/vf_apply.h"
#include "cni/device/vf_home.h"
#include "kern/pci/uevent.h"

enum { LOCK_MS = 120000, LOCK_DIR_MODE = 0700, REBIND_MS = 15000 };

int ib_home_lock(const struct root *root, int *fd, struct err *e)
{
	int r = dir_make(root, "/var/run/cni/ib-sriov", LOCK_DIR_MODE, e);

	return r < 0 ? r : lock_take(root, IB_SRIOV_LOCK, LOCK_MS, fd, e);
}

static int wait_child(int events, const struct root *root, const char *bdf, enum pci_child what,
		      struct err *e)
{
	char name[PCI_NAME_MAX];

	return uevent_wait_child(events, now_mono_ms() + REBIND_MS, root, bdf, what, name, e);
}

int ib_home_rebind(const struct root *root, const char *bdf, const char *driver, bool has_netdev,
		   bool has_rdma, struct err *e)
{
	auto_fd int events = -1;
	int r = uevent_open(&events, e);

	if (r >= 0)
		r = pci_unbind(root, bdf, e);
	if (r >= 0)
		r = pci_bind(root, bdf, driver, e);
	if (r >= 0 && has_rdma)
		r = wait_child(events, root, bdf, PCI_RDMA, e);
	if (r >= 0 && has_netdev)
		r = wait_child(events, root, bdf, PCI_NETDEV, e);
	return r < 0 ? err_wrap(e, r, "bind VF '%s' again, to take its GUID", bdf) : 0;
}

/* --- name and MTU --- */

static void restore_mtu(struct attach *a, const struct link *l, const struct vf_record *r)
{
	const struct link_change c = {.set = LINK_SET_MTU, .mtu = r->link_mtu};
	auto_batch struct nl_batch *b = nl_batch_new();
	struct err why = ERR_INIT;

	if (!r->link_mtu || l->mtu == r->link_mtu)
		return;
	link_set(b, l->index, l->name, &c);
	if (nl_batch_commit(a->host, b, &why) < 0)
		log_warn("MTU of the VF is left as it is", LOG_S("vf", r->device),
			 LOG_S("why", why.text));
}

/* A netdev that was made anew has any name. What else of the same name came meanwhile keeps it. The
 * MTU may be another by now, and what a PF no longer allows is left as it is. */
static int rename_netdev(struct attach *a, const struct vf_record *r, bool up, struct err *e)
{
	struct link_change c = {.set = LINK_SET_ALIAS | LINK_SET_DOWN, .alias = r->alias};
	auto_batch struct nl_batch *b = nl_batch_new();
	char name[PCI_NAME_MAX];
	struct link l;
	int code;

	if (!ib_home_child(&a->call->root, r->device, PCI_NETDEV, name))
		return *r->name ? ib_home_not_yet(r, "the netdev", e) : 0;
	code = link_get(a->host, name, &l, e);
	if (code < 0)
		return code;
	if (strcmp(name, r->name) != 0 && ib_home_name_is_free(a->host, r->name)) {
		c.set |= LINK_SET_NAME;
		c.name = r->name;
	} else if (*r->name && strcmp(name, r->name) != 0) {
		log_warn("the VF's netdev has another name than before, which is taken",
			 LOG_S("name", name), LOG_S("was", r->name));
	}
	if (up && r->up)
		c.set = (c.set & ~(unsigned int)LINK_SET_DOWN) | LINK_SET_UP;
	else if (!link_is_up(&l))
		c.set &= ~(unsigned int)LINK_SET_DOWN;
	link_set(b, l.index, l.name, &c);
	code = nl_batch_commit(a->host, b, e);
	if (code >= 0)
		code = vf_home_altnames(a->host, &l, r, e);
	if (code >= 0)
		restore_mtu(a, &l, r);
	return code < 0 ? err_wrap(e, code, "restore the name of VF '%s'", r->device) : 0;
}

/* --- attributes --- */

static uint64_t guid_to_restore(uint64_t was)
{
	return was ? was : UINT64_MAX;
}

static struct vf_attrs to_restore(const struct vf_record *r, const struct vf_info *now)
{
	struct vf_attrs want = {.to = r->was};

	if (r->ours || (r->asked & VF_ATTR_LINK_STATE))
		want.set |= VF_ATTR_LINK_STATE;
	if (r->was.has_guid) {
		want.to.node_guid = guid_to_restore(r->was.node_guid);
		want.to.port_guid = guid_to_restore(r->was.port_guid);
		/* One that never had any, and was not touched. */
		if (now->node_guid != r->was.node_guid || now->port_guid != r->was.port_guid)
			want.set |= VF_ATTR_GUID;
	}
	want.set = vf_plan_missing(&want, now);
	return want;
}

static int restore_attrs(struct attach *a, const struct vf_place *p, const struct vf_record *r,
			 bool *rebind, struct err *e)
{
	struct vf_job job = {.ref = {p->pf.index, p->pf.name, p->number}};
	struct err why = ERR_INIT;
	struct vf_info now;
	int code;

	if (!p->pf.index) {
		log_warn("link state and GUID of the VF are left as they are: its PF has no netdev",
			 LOG_S("vf", r->device));
		return 0;
	}
	code = vf_get(a->host, p->pf.index, p->pf.name, p->number, &now, &why);
	/* Not the driver's refusal: the next time there is an answer. */
	if (code < 0)
		return err_kind(e, ERR_AGAIN, code, "%s", why.text);
	job.want = to_restore(r, &now);
	*rebind = job.want.set & VF_ATTR_GUID;
	return vf_apply(a->host, &job, 1, NULL, e);
}

/* --- all of it --- */

/* The kill may have come between unbinding and binding. */
static int bind_again(const struct root *root, const struct vf_record *r, struct vf_place *p,
		      struct err *e)
{
	int code;

	if (*p->pci.driver || r->dpdk)
		return 0;
	code = pci_probe(root, r->device, e);
	return code < 0 ? code : pci_read(root, r->device, &p->pci, e);
}

static int bring_devices(struct attach *a, int pod, const struct vf_record *r,
			 const struct vf_place *p, struct err *e)
{
	int code;

	if (r->dpdk || !*p->pci.driver || pci_driver_is_dpdk(p->pci.driver))
		return 0;
	code = ib_home_rdma(&a->call->root, pod, r, e);
	return code < 0 ? code : ib_home_netdev(a, pod, r, e);
}

/* Killed, or failed, after the PF had its GUID back and before the VF was bound again. */
static bool keeps_guid(struct attach *a, const struct vf_record *r)
{
	uint64_t was = r->was.port_guid, guid;
	char name[PCI_NAME_MAX];
	struct link l;

	if (!r->was.has_guid || !(r->asked & VF_ATTR_GUID) ||
	    !ib_home_child(&a->call->root, r->device, PCI_NETDEV, name) ||
	    link_get(a->host, name, &l, NULL) < 0)
		return false;
	guid = ib_guid_of_link(&l.mac);
	return guid && guid != was && guid != guid_to_restore(was);
}

static int bring_again(struct attach *a, const struct vf_record *r, const struct vf_place *p,
		       struct err *e)
{
	int code = ib_home_rebind(&a->call->root, r->device, p->pci.driver, *r->name, *r->rdma, e);

	return code >= 0 && *r->rdma ? ib_home_rdma(&a->call->root, -1, r, e) : code;
}

/* Devices and name come home whatever comes of the attributes. */
static int bring_all(struct attach *a, int pod, const struct vf_record *r, struct vf_place *p,
		     unsigned int flags, struct err *e)
{
	struct err why = ERR_INIT;
	bool rebind = false, driven;
	int attrs, code = bind_again(&a->call->root, r, p, e);

	if (code >= 0)
		code = bring_devices(a, pod, r, p, e);
	if (code < 0)
		return code;
	attrs = restore_attrs(a, p, r, &rebind, &why);
	driven = *p->pci.driver && !pci_driver_is_dpdk(p->pci.driver) && !r->dpdk;
	if (attrs >= 0 && driven && (rebind || keeps_guid(a, r)))
		code = bring_again(a, r, p, e);
	if (code >= 0 && driven)
		code = rename_netdev(a, r, flags & VF_HOME_UP, e);
	return code < 0 || attrs >= 0 ? code : vf_home_come_again(r, flags, attrs, &why, e);
}

int ib_home_bring(struct attach *a, int pod, const struct vf_record *r, unsigned int flags,
		  struct err *e)
{
	struct err why = ERR_INIT;
	struct vf_place p;
	int code;

	if (!*r->device)
		return 0;
	if (vf_record_is_past(&a->call->root, r)) {
		log_warn("the VF was made anew meanwhile, nothing is left to restore",
			 LOG_S("vf", r->device));
		return 0;
	}
	code = vf_place_read(&a->call->root, a->host, r->device, &p, &why);
	if (code < 0 && !vf_place_is_gone(code)) {
		if (e)
			*e = why;
		return err_wrap(e, code, "find VF '%s'", r->device);
	}
	if (code < 0) {
		log_warn("the VF is gone, nothing is left to restore", LOG_S("vf", r->device),
			 LOG_S("why", why.text));
		return 0;
	}
	return bring_all(a, pod, r, &p, flags, e);
}
