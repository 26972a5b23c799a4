/* SPDX-License-Identifier: Apache-2.0 */
/* ib-sriov: a VF goes back as it was. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "base/loop.h"
#include "cni/attach.h"
#include "cni/rdma_move.h"
#include "cni/vf_apply.h"
#include "cni/vf_home.h"
#include "kern/netns.h"
#include "kern/uevent.h"

enum {
	LOCK_MS = 120000,
	LOCK_DIR_MODE = 0700,
	REBIND_MS = 15000,
	COMES_HOME_MS = 3000,
	PAUSE_MS = 25,
};

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

/* --- RDMA device --- */

static void pause_a_little(void)
{
	const struct timespec t = {.tv_nsec = PAUSE_MS * 1000000L};

	nanosleep(&t, NULL);
}

/* A namespace that was deleted is taken apart behind the back of who did it. */
static bool has_child(const struct root *root, const char *bdf, enum pci_child what, char *name)
{
	char **names = NULL;
	size_t n = 0;
	bool found;

	if (pci_children(root, bdf, what, &names, &n, NULL) < 0)
		return false;
	found = n > 0 && str_copy(name, PCI_NAME_MAX, names[0]);
	str_list_free(names, n);
	return found;
}

static bool wait_home(const struct root *root, const char *bdf, enum pci_child what, char *name)
{
	int64_t end = now_mono_ms() + COMES_HOME_MS;

	while (!has_child(root, bdf, what, name)) {
		if (now_mono_ms() >= end)
			return false;
		pause_a_little();
	}
	return true;
}

static int not_home(const struct vf_record *r, const char *what, struct err *e)
{
	return err_kind(e, ERR_AGAIN, -EBUSY,
			"%s of VF '%s' is neither in the pod nor on the node: something keeps the "
			"pod's network namespace",
			what, r->device);
}

static int bring_rdma(const struct root *root, int pod, const struct vf_record *r, struct err *e)
{
	char name[PCI_NAME_MAX];
	struct err why = ERR_INIT;
	int code = 0;

	if (!*r->rdma)
		return 0;
	if (!rdma_move_name(root, r->device, name))
		str_copy(name, sizeof(name), r->rdma);
	if (pod >= 0 && !has_child(root, r->device, PCI_RDMA, name))
		code = rdma_move_is_in(pod, name, e);
	if (code > 0)
		return rdma_move_home(pod, root, name, r->rdma, e);
	if (code < 0)
		return code;
	if (!wait_home(root, r->device, PCI_RDMA, name))
		return not_home(r, "the RDMA device", e);
	if (rdma_move_rename(name, r->rdma, &why) < 0)
		log_warn("an RDMA device keeps the name that a pod gave it", LOG_S("device", name),
			 LOG_S("was", r->rdma), LOG_S("error", why.text));
	return 0;
}

/* --- netdev --- */

static bool is_vfs(const struct link *l, const struct vf_record *r)
{
	if (*l->device)
		return strcmp(l->device, r->device) == 0;
	return r->ifname && strcmp(l->name, r->ifname) == 0 && *r->name &&
	       strcmp(l->alias, r->name) == 0;
}

static bool is_free(struct nl_wire *host, const char *name)
{
	struct link other;

	return *name && link_get(host, name, &other, NULL) < 0;
}

static int take_out(struct attach *a, struct nl_wire *w, const struct link *l,
		    const struct vf_record *r, struct err *e)
{
	auto_batch struct nl_batch *b = nl_batch_new();
	struct link_change c = {.set = LINK_SET_NETNS};
	auto_fd int home = -1;
	int code = netns_current(&home, e);

	if (code < 0)
		return code;
	c.netns_fd = home;
	/* Its name may be taken on the node, and the one it has here as well: name it on the way. */
	if (is_free(a->host, r->name)) {
		c.set |= LINK_SET_NAME;
		c.name = r->name;
	}
	link_set(b, l->index, l->name, &c);
	return nl_batch_commit(w, b, e);
}

static int bring_netdev(struct attach *a, int pod, const struct vf_record *r, struct err *e)
{
	auto_free struct link *list = NULL;
	auto_nl struct nl_wire *w = NULL;
	char name[PCI_NAME_MAX];
	size_t n = 0;
	int code = pod >= 0 ? nl_open(&w, NL_ROUTE, pod, e) : 0;

	if (code >= 0 && w)
		code = link_list(w, &list, &n, e);
	if (code < 0)
		return code;
	for (size_t i = 0; i < n; i++)
		if (is_vfs(&list[i], r))
			return take_out(a, w, &list[i], r, e);
	if (!wait_home(&a->call->root, r->device, PCI_NETDEV, name))
		return not_home(r, "the netdev", e);
	return 0;
}

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

	if (!has_child(&a->call->root, r->device, PCI_NETDEV, name))
		return 0;
	code = link_get(a->host, name, &l, e);
	if (code < 0)
		return code;
	if (strcmp(name, r->name) != 0 && is_free(a->host, r->name)) {
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
	struct vf_info now;
	int code;

	if (!p->pf.index) {
		log_warn("link state and GUID of the VF are left as they are: its PF has no netdev",
			 LOG_S("vf", r->device));
		return 0;
	}
	code = vf_get(a->host, p->pf.index, p->pf.name, p->number, &now, e);
	if (code < 0)
		return code;
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
	code = bring_rdma(&a->call->root, pod, r, e);
	return code < 0 ? code : bring_netdev(a, pod, r, e);
}

static int bring_again(struct attach *a, const struct vf_record *r, const struct vf_place *p,
		       struct err *e)
{
	int code = ib_home_rebind(&a->call->root, r->device, p->pci.driver, *r->name, *r->rdma, e);

	return code >= 0 && *r->rdma ? bring_rdma(&a->call->root, -1, r, e) : code;
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
	if (attrs >= 0 && rebind && driven)
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
