/* SPDX-License-Identifier: Apache-2.0 */
#include "cni/device/vf_restore.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/loop.h"
#include "cni/device/vf_apply.h"
#include "cni/device/vf_claim.h"
#include "cni/device/vf_plan.h"
#include "kern/net/altname.h"
#include "kern/sys/netns.h"

/* Time limit for the kernel to move a netdev out of a deleted namespace. */
enum { RESTORE_WAIT_MS = 3000, PAUSE_MS = 50 };

/* --- locating the netdev --- */

static bool by_device(const struct link *l, const struct vf_record *r)
{
	return strcmp(l->device, r->device) == 0;
}

/* Identifies the netdev in the pod if the kernel does not report the PCI device of links: by
 * name and alias; if the original plugin, which sets no alias, wrote the record, by name and by
 * having no link kind (IFLA_INFO_KIND). */
static bool by_name(const struct link *l, const struct vf_record *r)
{
	if (*l->device || !r->ifname || strcmp(l->name, r->ifname) != 0)
		return false;
	return r->by_unirail ? strcmp(l->alias, r->name) == 0 : !*l->kind;
}

/* Identifies a netdev on the node by its alias, for the case that /sys belongs to another
 * namespace than the netlink socket. */
static bool by_alias(const struct link *l, const struct vf_record *r)
{
	return !*l->device && r->by_unirail && *r->name && strcmp(l->alias, r->name) == 0;
}

static const struct link *pick(const struct link *list, size_t n, const struct vf_record *r,
			       bool (*fits)(const struct link *, const struct vf_record *))
{
	for (size_t i = 0; i < n; i++)
		if (fits(&list[i], r))
			return &list[i];
	return NULL;
}

static int find_in_pod(const struct vf_restore_state *h, const struct vf_record *r,
		       struct vf_found *ret, struct err *e)
{
	auto_free struct link *list = NULL;
	const struct link *l;
	size_t n;
	int code = link_list(h->pod, &list, &n, e);

	if (code < 0)
		return code;
	l = pick(list, n, r, by_device);
	if (!l)
		l = pick(list, n, r, by_name);
	if (l)
		*ret = (struct vf_found){VF_IN_POD, *l, false};
	return 0;
}

static bool is_leftover(const struct link *l, const struct vf_record *r)
{
	if (*r->name && strcmp(l->alias, r->name) == 0 && strcmp(r->alias, r->name) != 0)
		return true;
	if (*r->name && strcmp(l->name, r->name) == 0)
		return false;
	return (r->ifname && strcmp(l->name, r->ifname) == 0) || link_name_is_kernels(l->name);
}

static int find_on_node(const struct vf_restore_state *h, const struct vf_record *r,
			struct vf_found *ret, struct err *e)
{
	auto_free struct link *list = NULL;
	struct vf_place p;
	const struct link *l;
	size_t n;
	int code = link_list(h->host, &list, &n, e);

	if (code < 0)
		return code;
	l = pick(list, n, r, by_device);
	if (!l && vf_place_read(h->root, NULL, r->device, &p, NULL) >= 0 && *p.netdev)
		l = link_find(list, n, p.netdev);
	if (!l)
		l = pick(list, n, r, by_alias);
	if (l)
		*ret = (struct vf_found){VF_ON_NODE, *l, is_leftover(l, r)};
	return 0;
}

int vf_restore_find(const struct vf_restore_state *h, const struct vf_record *r,
		    struct vf_found *ret, struct err *e)
{
	int code = 0;

	*ret = (struct vf_found){VF_NOWHERE, {0}, false};
	if (h->pod)
		code = find_in_pod(h, r, ret, e);
	if (code >= 0 && ret->where == VF_NOWHERE)
		code = find_on_node(h, r, ret, e);
	return code < 0 ? code : 0;
}

/* If the pod's namespace was deleted, waits for the netdev, at most RESTORE_WAIT_MS: the kernel
 * moves the netdev to the node asynchronously. */
static int find_in_time(const struct vf_restore_state *h, const struct vf_record *r,
			struct vf_found *ret, struct err *e)
{
	int64_t limit = now_mono_ms() + RESTORE_WAIT_MS;
	int code;

	while ((code = vf_restore_find(h, r, ret, e)) == 0) {
		if (ret->where != VF_NOWHERE || h->pod || now_mono_ms() >= limit)
			return 0;
		nanosleep(&(struct timespec){.tv_nsec = PAUSE_MS * 1000000L}, NULL);
	}
	return code;
}

/* --- attributes that the PF sets --- */

static int no_way(const struct vf_record *r, const char *reason)
{
	log_warn("cannot restore the attributes of the VF through its PF", LOG_S("vf", r->device),
		 LOG_S("reason", reason));
	return 0;
}

/* Restores the attributes through the PF. If the PF has no netdev or does not report the VF,
 * logs a warning and returns 0. */
static int vf_restore_attrs(const struct vf_restore_state *h, const struct vf_place *p,
			    const struct vf_record *r, struct err *e)
{
	struct vf_job job = {.ref = {p->pf.index, p->pf.name, p->number}, .instead = r->mac};
	struct err reason = ERR_INIT;
	struct vf_info now;
	int code;

	if (!p->pf.index)
		return no_way(r, "the PF has no netdev");
	code = vf_get(h->host, p->pf.index, p->pf.name, p->number, &now, &reason);
	if (code == -ENOENT || code == -EOPNOTSUPP || code == -ENODEV)
		return no_way(r, reason.text);
	/* The PF did not answer, so the driver did not refuse: the next restore tries again. */
	if (code < 0)
		return err_kind(e, ERR_AGAIN, code, "%s", reason.text);
	job.want = vf_plan_restore(&r->was, &now, r->requested);
	return vf_apply(h->host, &job, 1, NULL, e);
}

/* --- the netdev, and the whole VF --- */

static int bring_netdev(const struct vf_restore_state *h, const struct vf_record *r,
			const struct vf_place *p, bool up, struct err *e)
{
	const struct link_change set_up = {.set = LINK_SET_UP};
	auto_batch struct nl_batch *b = nl_batch_new();
	struct vf_found f;
	int code;

	/* A VF whose driver is or was a userspace driver, or that has no driver, has no netdev to
	 * restore. */
	if (r->dpdk || !*p->pci.driver || pci_driver_is_dpdk(p->pci.driver))
		return 0;
	code = find_in_time(h, r, &f, e);
	if (code < 0)
		return code;
	if (f.where == VF_NOWHERE) {
		log_warn("the VF's netdev is neither in the pod nor on the node",
			 LOG_S("vf", r->device));
		return 1;
	}
	code = vf_restore_netdev(h, r, &f, e);
	if (code < 0 || !up || !r->up)
		return code;
	link_set(b, 0, r->name, &set_up);
	return nl_batch_commit(h->host, b, e);
}

int vf_restore_come_again(const struct vf_record *r, unsigned int flags, int code,
			  const struct err *reason, struct err *e)
{
	if ((flags & VF_RESTORE_STRICT) || reason->kind == ERR_AGAIN) {
		if (e)
			*e = *reason;
		return code;
	}
	log_error("cannot restore the VF's attributes now: the attributes will be restored before "
		  "another pod gets the VF",
		  LOG_S("vf", r->device), LOG_S("error", reason->text));
	return 1;
}

int vf_restore_found(const char *bdf, int code, const struct err *reason, struct err *e)
{
	if (code >= 0)
		return 1;
	if (!vf_place_is_removed(code)) {
		if (e)
			*e = *reason;
		return err_wrap(e, code, "find VF '%s'", bdf);
	}
	log_warn("the VF no longer exists, nothing is left to restore", LOG_S("vf", bdf),
		 LOG_S("reason", reason->text));
	return 0;
}

int vf_restore_place(const struct root *root, struct nl_wire *host, const struct vf_record *r,
		     struct vf_place *ret, struct err *e)
{
	struct err reason = ERR_INIT;
	int code;

	if (vf_record_is_past(root, r)) {
		log_warn("the VF was recreated after its state was recorded, nothing is left to "
			 "restore",
			 LOG_S("vf", r->device));
		return 0;
	}
	code = vf_place_read(root, host, r->device, ret, &reason);
	return vf_restore_found(r->device, code, &reason, e);
}

int vf_restore(const struct vf_restore_state *h, const struct vf_record *r, unsigned int flags,
	       struct err *e)
{
	struct err reason = ERR_INIT;
	struct vf_place p;
	int code, attrs;

	code = vf_restore_place(h->root, h->host, r, &p, e);
	if (code <= 0)
		return code;
	/* The VF chooses its own MAC again only after the PF has cleared the administrative MAC.
	 * The netdev is moved to the node whether this succeeds or fails. */
	attrs = vf_restore_attrs(h, &p, r, &reason);
	code = bring_netdev(h, r, &p, flags & VF_RESTORE_UP, e);
	return code < 0 || attrs >= 0 ? code : vf_restore_come_again(r, flags, attrs, &reason, e);
}

/* --- move of a VF's netdev back to the node --- */

/* Fails if another link of the node has `name`, the netdev's name on the node. The netdev is then
 * not moved: if it were on the node under its name in the pod, a later restore might not find
 * it. */
static int name_is_free(const struct vf_restore_state *h, const struct vf_found *f,
			const char *name, struct err *e)
{
	struct link other;

	if (link_get(h->host, name, &other, NULL) < 0)
		return 0;
	if (f->where == VF_ON_NODE && other.index == f->link.index)
		return 0;
	return err_set(
		e, -EEXIST,
		ORIG("failed to rename link %s to host name %s: File exists (EEXIST): the node has another link "
		     "of that name (rename that one, and this is tried again)"),
		f->link.name, name);
}

/* Returns whether the alternative name must be removed: it equals the netdev's name on the host, or
 * the pod added it. */
static bool may_not_stay(const struct vf_record *r, const char *altname, bool in_pod)
{
	return strcmp(altname, r->name) == 0 ||
	       (in_pod && r->by_unirail && !str_list_has(r->altnames, r->n_altnames, altname));
}

/* Sets the link down, restores its MTU, and removes the alternative names that equal r->name or
 * that the pod added. */
static int make_ready(struct nl_wire *w, const struct vf_record *r, const struct vf_found *f,
		      struct err *e)
{
	const struct link_change down = {.set = LINK_SET_DOWN};
	const struct link_change mtu = {.set = LINK_SET_MTU, .mtu = r->link_mtu};
	auto_batch struct nl_batch *b = nl_batch_new();
	const struct link *l = &f->link;
	struct err reason = ERR_INIT;
	char **names = NULL;
	size_t n = 0, last;
	int code = altname_list(w, l->index, &names, &n, e);

	if (code < 0)
		return code;
	link_set(b, l->index, l->name, &down);
	for (size_t i = 0; i < n; i++)
		if (may_not_stay(r, names[i], f->where == VF_IN_POD))
			altname_del(b, l->index, l->name, names[i]);
	str_list_free(names, n);
	last = nl_batch_len(b);
	if (r->link_mtu && r->link_mtu != l->mtu)
		link_set(b, l->index, l->name, &mtu);
	code = nl_batch_commit(w, b, &reason);
	if (code >= 0)
		return 0;
	for (size_t i = 0; i < last; i++)
		if (nl_batch_result(b, i) < 0) {
			if (e)
				*e = reason;
			return code;
		}
	/* The maximum MTU of the PF may have been reduced since. */
	log_warn("cannot restore the MTU of the VF", LOG_S("link", l->name),
		 LOG_S("error", reason.text));
	return 0;
}

/* One message suffices: the kernel moves the link, then renames it. */
static int move_to_host(const struct vf_restore_state *h, const struct vf_record *r,
			const struct vf_found *f, struct err *e)
{
	auto_batch struct nl_batch *b = nl_batch_new();
	struct link_change c = {
		.set = LINK_SET_NAME | LINK_SET_ALIAS, .name = r->name, .alias = r->name};
	auto_fd int host_netns = -1;
	int code = name_is_free(h, f, r->name, e);

	if (code >= 0 && f->where == VF_IN_POD) {
		code = netns_current(&host_netns, e);
		c.set |= LINK_SET_NETNS;
		c.netns_fd = host_netns;
	}
	if (code < 0)
		return code;
	if (f->where == VF_ON_NODE && strcmp(f->link.name, r->name) == 0)
		c.set &= ~(unsigned int)LINK_SET_NAME;
	link_set(b, f->link.index, f->link.name, &c);
	code = nl_batch_commit(f->where == VF_IN_POD ? h->pod : h->host, b, e);
	return code < 0 ? err_wrap(e, code, ORIG("failed to move interface %s to init netns"),
				   f->link.name)
			: 0;
}

int vf_restore_altnames(struct nl_wire *host, const struct link *l, const struct vf_record *r,
			struct err *e)
{
	auto_batch struct nl_batch *b = nl_batch_new();
	struct err reason = ERR_INIT;
	char **names = NULL;
	size_t n = 0;
	int code = altname_list(host, l->index, &names, &n, e);

	if (code < 0)
		return code;
	for (size_t i = 0; i < r->n_altnames; i++)
		if (!str_list_has(names, n, r->altnames[i]))
			altname_add(b, l->index, l->name, r->altnames[i]);
	str_list_free(names, n);
	if (nl_batch_len(b) && nl_batch_commit(host, b, &reason) < 0)
		log_warn("cannot restore the alternative names of the VF's netdev",
			 LOG_S("link", l->name), LOG_S("error", reason.text));
	return 0;
}

static int finish(const struct vf_restore_state *h, const struct vf_record *r, struct err *e)
{
	const struct link_change alias = {.set = LINK_SET_ALIAS, .alias = r->alias};
	auto_batch struct nl_batch *b = nl_batch_new();
	struct link l;
	int code = link_get(h->host, r->name, &l, e);

	if (code >= 0)
		code = vf_restore_altnames(h->host, &l, r, e);
	if (code < 0)
		return code;
	link_set(b, l.index, l.name, &alias);
	return nl_batch_commit(h->host, b, e);
}

/* Some drivers (igbvf) allow the VF only the MAC that the PF has set, and may refuse the former
 * MAC. Then this function accepts the administrative MAC of before the ADD or the permanent MAC,
 * but never the pod's MAC. */
static int restore_mac(struct nl_wire *w, const struct vf_record *r, int index, struct err *e)
{
	struct err reason = ERR_INIT;
	struct link l;
	int code = r->mac.len ? vf_apply_link_mac(w, index, &r->mac, &reason) : 0;

	if (code >= 0)
		return 0;
	if (link_get_index(w, index, &l, NULL) >= 0 && !mac_eq(&l.mac, &r->pod_mac) &&
	    (mac_eq(&l.mac, &r->was.mac) || mac_eq(&l.mac, &l.perm))) {
		log_warn("the driver refused the VF's former MAC, so the VF keeps its present MAC",
			 LOG_S("link", l.name), LOG_S("reason", reason.text));
		return 0;
	}
	if (e)
		*e = reason;
	return code;
}

int vf_restore_netdev(const struct vf_restore_state *h, const struct vf_record *r,
		      const struct vf_found *f, struct err *e)
{
	struct nl_wire *w = f->where == VF_IN_POD ? h->pod : h->host;
	struct err reason = ERR_INIT;
	int code, mac;

	/* The netdev is already on the host and restored. */
	if (f->where == VF_ON_NODE && !f->leftover)
		return 0;
	code = make_ready(w, r, f, e);
	if (code < 0)
		return code;
	mac = restore_mac(w, r, f->link.index, &reason);
	code = move_to_host(h, r, f, e);
	if (code >= 0 && mac < 0) {
		/* The alias remains, so that the next restore finds the netdev. */
		if (e)
			*e = reason;
		return mac;
	}
	return code < 0 ? code : finish(h, r, e);
}

/* --- state of a VF whose record is lost, from the device itself --- */

static bool is_free(const struct root *root, const char *bdf)
{
	auto_vf_record struct vf_record r = {0};
	auto_free char *netns = NULL;

	return vf_owner_read(root, bdf, &netns, NULL) == -ENOENT &&
	       !vf_record_of(root, NULL, bdf, NULL, &r);
}

/* Sets *now to the state of the VF, and finds a VF of the same PF that no pod owns. */
static bool find_sibling(const struct vf_restore_state *h, const struct vf_place *p,
			 struct vf_info *now, struct vf_info *sibling)
{
	auto_free struct vf_info *list = NULL;
	auto_free struct pci_vf *vfs = NULL;
	size_t n = 0, n_vfs = 0;
	bool found = false;

	if (vf_list(h->host, p->pf.index, p->pf.name, &list, &n, NULL) < 0 ||
	    pci_vf_list(h->root, p->pci.physfn, &vfs, &n_vfs, NULL) < 0)
		return false;
	for (size_t i = 0; i < n; i++) {
		if (list[i].vf == p->number)
			*now = list[i];
		for (size_t k = 0; k < n_vfs && !found; k++)
			if (vfs[k].vf == list[i].vf && list[i].vf != p->number &&
			    is_free(h->root, vfs[k].bdf)) {
				*sibling = list[i];
				found = true;
			}
	}
	return found;
}

static void guess_attrs(const struct vf_restore_state *h, const struct vf_place *p,
			struct vf_record *r)
{
	struct vf_info now = {0}, sibling = {0};
	bool found = p->pf.index && find_sibling(h, p, &now, &sibling);

	r->was = vf_plan_guess(&now, found ? &sibling : NULL, &r->mac);
	r->was.vf = p->number;
}

/* Some drivers (igbvf) report as hardware MAC the MAC that the PF set last, which is the pod's.
 * Then the VF gets a random MAC. */
static struct mac guess_mac(const struct link *l, const struct mac *pods)
{
	return pods->len && mac_eq(&l->perm, pods) ? mac_random() : l->perm;
}

/* Sets the name to which the netdev is restored: its present name if it is on the node under
 * neither its name in the pod nor the name that the kernel assigns on return from a deleted
 * namespace (dev<ifindex>), otherwise its alias (the name before the move), otherwise a name of
 * systemd's form, "<PF>v<number>". */
static void guess_name(const struct vf_place *p, const struct vf_found *f, const char *ifname,
		       struct vf_record *r)
{
	const struct link *l = &f->link;

	if (f->where == VF_ON_NODE && strcmp(l->name, ifname) != 0 &&
	    !link_name_is_kernels(l->name))
		str_copy(r->name, sizeof(r->name), l->name);
	else if (link_name_ok(l->alias))
		str_copy(r->name, sizeof(r->name), l->alias);
	else
		snprintf(r->name, sizeof(r->name), "%.10sv%u", p->pf.name, p->number & 0xfff);
}

int vf_restore_guess(const struct vf_restore_state *h, const char *bdf, const char *ifname,
		     const struct mac *pods, struct vf_record *ret, struct err *e)
{
	struct vf_record r = {.ifname = xstrdup(ifname)};
	struct vf_found f;
	struct vf_place p;
	int code = vf_place_read(h->root, h->host, bdf, &p, e);

	str_copy(r.device, sizeof(r.device), bdf);
	if (code >= 0)
		code = vf_restore_find(h, &r, &f, e);
	if (code < 0) {
		vf_record_done(&r);
		return code;
	}
	str_copy(r.pf, sizeof(r.pf), p.pf.name);
	r.dpdk = p.dpdk;
	if (f.where != VF_NOWHERE) {
		guess_name(&p, &f, ifname, &r);
		r.mac = guess_mac(&f.link, pods);
		r.link_mtu = f.where == VF_IN_POD || f.leftover ? p.pf.mtu : 0;
	}
	guess_attrs(h, &p, &r);
	*ret = r;
	return 0;
}
