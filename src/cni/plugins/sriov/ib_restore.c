/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/loop.h"
#include "cni/attach/attach.h"
#include "cni/device/rdma_move.h"
#include "cni/device/vf_apply.h"
#include "cni/device/vf_claim.h"
#include "cni/device/vf_place.h"
#include "cni/device/vf_restore.h"
#include "cni/device/vf_stores.h"
#include "kern/pci/uevent.h"
#include "kern/sys/netns.h"

/* ib-sriov: DEL, GC, and VFs of deleted pods. */

/* Opens the pod's namespace that the record names. Returns a descriptor, or -1. */
static int open_netns(const struct vf_record *r)
{
	int fd = -1;

	return r->netns && *r->netns && netns_open(r->netns, &fd, NULL) >= 0 ? fd : -1;
}

/* Returns 1 if some attributes are not restored (ib_restore()); the record then stays. */
static int release(struct attach *a, int pod, const struct vf_record *r, unsigned int flags,
		   struct err *e)
{
	int code = ib_restore(a, pod, r, flags, e);

	if (code || !r->file)
		return code;
	return vf_record_remove(&a->call->root, &ib_sriov_store, r->file, e);
}

/* --- DEL --- */

/* Returns whether another attachment, of ib-sriov or sriov, owns the VF. */
static bool is_others(const struct attach *a, const struct rail *rail, const char *bdf)
{
	auto_free char *netns = NULL;

	return vf_owner_read(&a->call->root, bdf, &netns, NULL) >= 0 ||
	       vf_record_is_others(&a->call->root, bdf, a->call->container_id, rail->ifname);
}

/* Fills r, for a VF without a record, from the VF's netdev and RDMA device in the pod. */
static int guess(struct attach *a, const struct rail *rail, struct vf_record *r)
{
	const char *id = rail->conf.ib_sriov.device_id;
	const struct link *l;
	struct pci_dev d;

	if (!a->pod || attach_list_pod(a, NULL) < 0)
		return -ENOENT;
	l = link_find(a->pod_links, a->n_pod_links, rail->ifname);
	if (l && *l->device)
		id = l->device;
	/* Leaves alone a function that is not a VF, a device that is not InfiniBand (host-device
	 * may have moved it), and a VF of another attachment. */
	if (!id || pci_read(&a->call->root, id, &d, NULL) < 0 || !*d.physfn ||
	    (l && !ib_guid_of_link(&l->mac)) || is_others(a, rail, id))
		return -ENOENT;
	str_copy(r->device, sizeof(r->device), id);
	if (l && link_name_ok(l->alias))
		str_copy(r->name, sizeof(r->name), l->alias);
	if (!rdma_move_name(&a->call->root, id, r->rdma) ||
	    rdma_move_is_in(a->netns, r->rdma, NULL) <= 0)
		r->rdma[0] = '\0';
	return *r->rdma || l ? 0 : -ENOENT;
}

static int load(struct attach *a, const struct rail *rail, struct vf_record *r, struct err *e)
{
	struct err reason = ERR_INIT;
	int code = vf_record_load(&a->call->root, &ib_sriov_store, a->call->container_id,
				  rail->ifname, r, &reason);

	if (code >= 0 || code == -ENOENT)
		return code;
	if (reason.kind != ERR_DECODE) {
		if (e)
			*e = reason;
		return code;
	}
	log_warn("the record of a VF is invalid, restoring only the netdev and the RDMA device "
		 "that are found in the pod",
		 LOG_S("error", reason.text));
	r->file = vf_record_file(a->call->container_id, rail->ifname);
	return -ENOENT;
}

/* Locks the VF, then takes IB_SRIOV_LOCK: the same order as in ADD. */
static int lock_vf(struct attach *a, const struct rail *rail, const struct vf_record *r, int *vf,
		   int *all, struct err *e)
{
	const char *bdf = *r->device ? r->device : rail->conf.ib_sriov.device_id;
	int code = bdf ? vf_lock(&a->call->root, &bdf, 1, vf, e) : 0;

	return code < 0 ? code : ib_restore_lock(&a->call->root, all, e);
}

/* Removes temporary files of a killed process. */
static int drop_broken(struct attach *a, const struct rail *rail, struct err *e)
{
	auto_free char *file = vf_record_file(a->call->container_id, rail->ifname);

	return vf_record_remove(&a->call->root, &ib_sriov_store, file, e);
}

static int del_locked(struct attach *a, const struct rail *rail, struct err *e)
{
	auto_vf_record struct vf_record r = {0};
	auto_fd int other = -1;
	int code = load(a, rail, &r, e);

	if (code == -ENOENT && guess(a, rail, &r) < 0 && !r.file)
		return drop_broken(a, rail, e);
	if (code < 0 && code != -ENOENT)
		return code;
	/* Uses the namespace in the record, because CNI_NETNS is empty. */
	if (a->netns < 0 && !*a->call->netns)
		other = open_netns(&r);
	code = release(a, a->netns < 0 ? other : a->netns, &r, 0, e);
	/* If the VF is not completely restored (1), DEL succeeds, because a retry would fail as
	 * well. The record stays for GC and for the ADD of the next pod that gets the VF. */
	return code > 0 ? 0 : code;
}

int ib_sriov_del(struct attach *a, const struct rail *rail, struct err *e)
{
	auto_vf_record struct vf_record r = {0};
	auto_fd int vf = -1, all = -1;
	int code = load(a, rail, &r, e);

	if (code < 0 && code != -ENOENT)
		return code;
	/* del_locked() reads the record again, because the process that had the lock may have
	 * changed it. */
	code = lock_vf(a, rail, &r, &vf, &all, e);
	return code < 0 ? code : del_locked(a, rail, e);
}

/* --- GC --- */

struct collecting {
	struct attach *a;
	int first;
};

static int collect(void *arg, struct vf_record *r, struct err *e)
{
	struct collecting *g = arg;
	const struct cni_call *c = g->a->call;
	auto_fd int netns = -1;
	bool stale;
	int code;

	if (!r->network || strcmp(r->network, c->name) != 0)
		return 0;
	stale = r->container ? !cni_is_valid(c, r->container, r->ifname)
			     : cni_file_is_stale(c, r->file);
	if (!stale)
		return 0;
	netns = open_netns(r);
	code = release(g->a, netns, r, 0, g->first < 0 ? NULL : e);
	g->first = g->first < 0 ? g->first : code;
	return 0;
}

int ib_sriov_gc(struct attach *a, const struct rail *rail, struct err *e)
{
	struct collecting g = {.a = a};
	auto_fd int lock = -1;
	int code;

	(void)rail;
	if (!a->call->has_valid || !file_exists(&a->call->root, ib_sriov_store.dir))
		return 0;
	code = ib_restore_lock(&a->call->root, &lock, e);
	if (code >= 0)
		vf_record_sweep(&a->call->root, &ib_sriov_store);
	if (code >= 0)
		code = vf_record_each(&a->call->root, &ib_sriov_store, collect, &g, e);
	return code < 0 ? code : g.first < 0 ? g.first : 0;
}

/* --- VFs that an ADD finds in use --- */

static bool is_same(const struct cni_call *c, const struct vf_record *r, const char *ifname)
{
	return ifname && r->container && r->ifname && strcmp(r->container, c->container_id) == 0 &&
	       strcmp(r->ifname, ifname) == 0;
}

/* Restores only a VF of a deleted pod, or of this attachment if its ADD is repeated. If another
 * attachment, of a running pod, has the VF, sets *living to the path of that pod's namespace
 * (the caller frees the string) and returns 1. */
static int restore_from_deleted_pod(struct attach *a, const char *bdf, const char *ifname,
				    char **living, struct err *e)
{
	const struct root *root = &a->call->root;
	auto_vf_record struct vf_record r = {0};
	auto_fd int netns = -1;
	struct vf_place p;
	int code;

	if (!vf_record_of(root, &ib_sriov_store, bdf, NULL, &r))
		return 0;
	/* A record of the original plugin names no namespace. Without a namespace, only a VF
	 * whose netdev is on the node is certainly not in a pod; any other VF is not restored. */
	if (!r.netns && (vf_place_read(root, a->host, bdf, &p, NULL) < 0 || !*p.netdev))
		return 0;
	if (r.netns && vf_owner_lives(r.netns) && !is_same(a->call, &r, ifname)) {
		*living = xstrdup(r.netns);
		return 1;
	}
	log_info("restoring a VF of a deleted pod or of an earlier ADD", LOG_S("vf", bdf),
		 LOG_S("record", r.file));
	netns = open_netns(&r);
	code = release(a, netns, &r, VF_RESTORE_STRICT, e);
	return code < 0 ? err_wrap(e, code, "restore VF '%s' after a deleted pod or an earlier ADD",
				   bdf)
			: 0;
}

int ib_restore_free_up(struct attach *a, const char *bdf, const char *ifname, struct err *e)
{
	const struct root *root = &a->call->root;
	auto_vf_record struct vf_record r = {0};
	auto_free char *living = NULL;
	auto_fd int lock = -1;
	int code;

	if (!vf_record_of(root, &ib_sriov_store, bdf, NULL, &r))
		return 0;
	code = ib_restore_lock(root, &lock, e);
	if (code >= 0)
		code = restore_from_deleted_pod(a, bdf, ifname, &living, e);
	return code > 0 ? vf_in_use(root, bdf, living, e) : code;
}

/* --- ib-sriov: restores a VF to its former state --- */

enum { LOCK_MS = 120000, LOCK_DIR_MODE = 0700, REBIND_MS = 15000 };

int ib_restore_lock(const struct root *root, int *fd, struct err *e)
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

int ib_restore_rebind(const struct root *root, const char *bdf, const char *driver, bool has_netdev,
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
	return r < 0 ? err_wrap(e, r,
				"bind the driver of VF '%s' again, so that the VF takes "
				"the GUID set through its PF",
				bdf)
		     : 0;
}

/* --- name and MTU --- */

static void restore_mtu(struct attach *a, const struct link *l, const struct vf_record *r)
{
	const struct link_change c = {.set = LINK_SET_MTU, .mtu = r->link_mtu};
	auto_batch struct nl_batch *b = nl_batch_new();
	struct err reason = ERR_INIT;

	if (!r->link_mtu || l->mtu == r->link_mtu)
		return;
	link_set(b, l->index, l->name, &c);
	if (nl_batch_commit(a->host, b, &reason) < 0)
		log_warn("cannot restore the MTU of the VF", LOG_S("vf", r->device),
			 LOG_S("error", reason.text));
}

/* Sets name to the first netdev or RDMA device of the VF; returns false if there is none. */
static bool ib_restore_child(const struct root *root, const char *bdf, enum pci_child what,
			     char *name)
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

/* Returns whether no link has the name; "" is never free. */
static bool ib_restore_name_is_free(struct nl_wire *host, const char *name)
{
	struct link other;

	return *name && link_get(host, name, &other, NULL) < 0;
}

/* Sets the error that `what` is neither in the pod nor on the node, kind ERR_AGAIN; returns -EBUSY.
 * */
static int ib_restore_not_yet(const struct vf_record *r, const char *what, struct err *e)
{
	return err_kind(
		e, ERR_AGAIN, -EBUSY,
		"%s of VF '%s' is neither in the pod nor on the node: a process may still hold "
		"the pod's network namespace open",
		what, r->device);
}

/* A recreated netdev may have any name. Another link that has taken the former name keeps it. An
 * MTU that the PF no longer allows is not restored. */
static int rename_netdev(struct attach *a, const struct vf_record *r, bool up, struct err *e)
{
	struct link_change c = {.set = LINK_SET_ALIAS | LINK_SET_DOWN, .alias = r->alias};
	auto_batch struct nl_batch *b = nl_batch_new();
	char name[PCI_NAME_MAX];
	struct link l;
	int code;

	if (!ib_restore_child(&a->call->root, r->device, PCI_NETDEV, name))
		return *r->name ? ib_restore_not_yet(r, "the netdev", e) : 0;
	code = link_get(a->host, name, &l, e);
	if (code < 0)
		return code;
	if (strcmp(name, r->name) != 0 && ib_restore_name_is_free(a->host, r->name)) {
		c.set |= LINK_SET_NAME;
		c.name = r->name;
	} else if (*r->name && strcmp(name, r->name) != 0) {
		log_warn("cannot restore the name of the VF's netdev: another link has the name",
			 LOG_S("name", name), LOG_S("host_name", r->name));
	}
	if (up && r->up)
		c.set = (c.set & ~(unsigned int)LINK_SET_DOWN) | LINK_SET_UP;
	else if (!link_is_up(&l))
		c.set &= ~(unsigned int)LINK_SET_DOWN;
	link_set(b, l.index, l.name, &c);
	code = nl_batch_commit(a->host, b, e);
	if (code >= 0)
		code = vf_restore_altnames(a->host, &l, r, e);
	if (code >= 0)
		restore_mtu(a, &l, r);
	return code < 0 ? err_wrap(e, code, "restore the netdev of VF '%s'", r->device) : 0;
}

/* --- link state and GUID, set through the PF --- */

static uint64_t guid_to_restore(uint64_t was)
{
	return was ? was : UINT64_MAX;
}

static struct vf_attrs to_restore(const struct vf_record *r, const struct vf_info *now)
{
	struct vf_attrs want = {.to = r->was};

	if (r->by_unirail || (r->requested & VF_ATTR_LINK_STATE))
		want.set |= VF_ATTR_LINK_STATE;
	if (r->was.has_guid) {
		want.to.node_guid = guid_to_restore(r->was.node_guid);
		want.to.port_guid = guid_to_restore(r->was.port_guid);
		/* The GUID of a VF is restored only if it was changed. */
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
	struct err reason = ERR_INIT;
	struct vf_info now;
	int code;

	if (!p->pf.index) {
		log_warn("cannot restore link state and GUID of the VF: its PF has no netdev in "
			 "the node's network namespace",
			 LOG_S("vf", r->device));
		return 0;
	}
	code = vf_get(a->host, p->pf.index, p->pf.name, p->number, &now, &reason);
	if (code == -ENOENT || code == -EOPNOTSUPP || code == -ENODEV) {
		log_warn("cannot restore link state and GUID of the VF: its PF does not report it",
			 LOG_S("vf", r->device), LOG_S("error", reason.text));
		return 0;
	}
	/* The attributes could not be read, which is not a refusal by the driver: with ERR_AGAIN
	 * the call (DEL, GC or ADD) fails, so that the runtime repeats it. */
	if (code < 0)
		return err_kind(e, ERR_AGAIN, code, "%s", reason.text);
	job.want = to_restore(r, &now);
	*rebind = job.want.set & VF_ATTR_GUID;
	return vf_apply(a->host, &job, 1, NULL, e);
}

/* --- restore of a whole VF --- */

/* Binds a VF that has no driver: a process may have been killed between unbinding and binding. */
static int bind_again(const struct root *root, const struct vf_record *r, struct vf_place *p,
		      struct err *e)
{
	int code;

	if (*p->pci.driver || r->dpdk)
		return 0;
	code = pci_probe(root, r->device, e);
	return code < 0 ? code : pci_read(root, r->device, &p->pci, e);
}

static int ib_restore_netdev(struct attach *a, int pod, const struct vf_record *r, struct err *e);

static int ib_restore_rdma(const struct root *root, int pod, const struct vf_record *r,
			   struct err *e);

static int bring_devices(struct attach *a, int pod, const struct vf_record *r,
			 const struct vf_place *p, struct err *e)
{
	int code;

	if (r->dpdk || !*p->pci.driver || pci_driver_is_dpdk(p->pci.driver))
		return 0;
	code = ib_restore_rdma(&a->call->root, pod, r, e);
	return code < 0 ? code : ib_restore_netdev(a, pod, r, e);
}

/* Returns whether the netdev still has the pod's GUID: a process was killed, or failed, after it
 * restored the GUID through the PF and before it bound the VF again. */
static bool keeps_guid(struct attach *a, const struct vf_record *r)
{
	uint64_t was = r->was.port_guid, guid;
	char name[PCI_NAME_MAX];
	struct link l;

	if (!r->was.has_guid || !(r->requested & VF_ATTR_GUID) ||
	    !ib_restore_child(&a->call->root, r->device, PCI_NETDEV, name) ||
	    link_get(a->host, name, &l, NULL) < 0)
		return false;
	guid = ib_guid_of_link(&l.mac);
	return guid && guid != was && guid != guid_to_restore(was);
}

static int bring_again(struct attach *a, const struct vf_record *r, const struct vf_place *p,
		       struct err *e)
{
	int code =
		ib_restore_rebind(&a->call->root, r->device, p->pci.driver, *r->name, *r->rdma, e);

	return code >= 0 && *r->rdma ? ib_restore_rdma(&a->call->root, -1, r, e) : code;
}

/* Devices and name are restored even if restoring the attributes fails. */
static int bring_all(struct attach *a, int pod, const struct vf_record *r, struct vf_place *p,
		     unsigned int flags, struct err *e)
{
	struct err reason = ERR_INIT;
	bool rebind = false, driven;
	int attrs, code = bind_again(&a->call->root, r, p, e);

	if (code >= 0)
		code = bring_devices(a, pod, r, p, e);
	if (code < 0)
		return code;
	attrs = restore_attrs(a, p, r, &rebind, &reason);
	driven = *p->pci.driver && !pci_driver_is_dpdk(p->pci.driver) && !r->dpdk;
	if (attrs >= 0 && driven && (rebind || keeps_guid(a, r)))
		code = bring_again(a, r, p, e);
	if (code >= 0 && driven)
		code = rename_netdev(a, r, flags & VF_RESTORE_UP, e);
	return code < 0 || attrs >= 0 ? code : vf_restore_come_again(r, flags, attrs, &reason, e);
}

int ib_restore(struct attach *a, int pod, const struct vf_record *r, unsigned int flags,
	       struct err *e)
{
	struct vf_place p;
	int code;

	if (!*r->device)
		return 0;
	code = vf_restore_place(&a->call->root, a->host, r, &p, e);
	if (code <= 0)
		return code;
	return bring_all(a, pod, r, &p, flags, e);
}

/* ib-sriov: moves the devices of a VF from the pod to the node, or waits until the kernel has
 * returned them to the node. */

enum { RESTORE_WAIT_MS = 3000, PAUSE_MS = 25 };

/* --- RDMA device --- */

static void pause_a_little(void)
{
	const struct timespec t = {.tv_nsec = PAUSE_MS * 1000000L};

	nanosleep(&t, NULL);
}

static bool wait_restored(const struct root *root, const char *bdf, enum pci_child what, char *name)
{
	int64_t end = now_mono_ms() + RESTORE_WAIT_MS;

	while (!ib_restore_child(root, bdf, what, name)) {
		if (now_mono_ms() >= end)
			return false;
		pause_a_little();
	}
	return true;
}

/* Moves the RDMA device out of the pod. If the device is not in the pod, or the pod's namespace
 * was deleted (pod is -1), waits until the device is on the node and renames it. -EBUSY
 * (ERR_AGAIN): the device was not found, or the driver refuses to move it out of the pod because
 * a process uses it. */
static int ib_restore_rdma(const struct root *root, int pod, const struct vf_record *r,
			   struct err *e)
{
	char name[PCI_NAME_MAX];
	struct err reason = ERR_INIT;
	int code = 0;

	if (!*r->rdma)
		return 0;
	if (!rdma_move_name(root, r->device, name))
		str_copy(name, sizeof(name), r->rdma);
	if (pod >= 0 && !ib_restore_child(root, r->device, PCI_RDMA, name))
		code = rdma_move_is_in(pod, name, e);
	if (code > 0)
		return rdma_move_restore(pod, root, name, r->rdma, e);
	if (code < 0)
		return code;
	if (!wait_restored(root, r->device, PCI_RDMA, name))
		return ib_restore_not_yet(r, "the RDMA device", e);
	if (rdma_move_rename(name, r->rdma, &reason) < 0)
		log_warn("cannot restore the name of the VF's RDMA device", LOG_S("device", name),
			 LOG_S("host_name", r->rdma), LOG_S("error", reason.text));
	return 0;
}

/* --- netdev of the VF --- */

static bool is_vfs(const struct link *l, const struct vf_record *r)
{
	if (*l->device)
		return strcmp(l->device, r->device) == 0;
	return r->ifname && strcmp(l->name, r->ifname) == 0 && *r->name &&
	       strcmp(l->alias, r->name) == 0;
}

static int take_out(struct attach *a, struct nl_wire *w, const struct link *l,
		    const struct vf_record *r, struct err *e)
{
	auto_batch struct nl_batch *b = nl_batch_new();
	struct link_change c = {.set = LINK_SET_NETNS};
	auto_fd int host_netns = -1;
	int code = netns_current(&host_netns, e);

	if (code < 0)
		return code;
	c.netns_fd = host_netns;
	/*
	 * The message that moves the netdev also renames it, because a link of the node may have
	 * the name that the netdev has in the pod. If a link of the node has the netdev's former
	 * name, the message does not rename the netdev.
	 */
	if (ib_restore_name_is_free(a->host, r->name)) {
		c.set |= LINK_SET_NAME;
		c.name = r->name;
	}
	link_set(b, l->index, l->name, &c);
	return nl_batch_commit(w, b, e);
}

static int ib_restore_netdev(struct attach *a, int pod, const struct vf_record *r, struct err *e)
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
	if (!wait_restored(&a->call->root, r->device, PCI_NETDEV, name))
		return ib_restore_not_yet(r, "the netdev", e);
	return 0;
}
