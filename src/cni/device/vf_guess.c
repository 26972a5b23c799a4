/* SPDX-License-Identifier: Apache-2.0 */
/* What a VF was, from the device itself: its record is lost. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "cni/device/vf_claim.h"
#include "cni/device/vf_home.h"
#include "cni/device/vf_plan.h"

static bool is_free(const struct root *root, const char *bdf)
{
	auto_vf_record struct vf_record r = {0};
	auto_free char *netns = NULL;

	return vf_owner_read(root, bdf, &netns, NULL) == -ENOENT &&
	       !vf_record_of(root, NULL, bdf, NULL, &r);
}

/* A VF of the same PF that nobody has. */
static bool find_sibling(const struct vf_home *h, const struct vf_place *p, struct vf_info *now,
			 struct vf_info *sibling)
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

static void guess_attrs(const struct vf_home *h, const struct vf_place *p, struct vf_record *r)
{
	struct vf_info now = {0}, sibling = {0};
	bool found = p->pf.index && find_sibling(h, p, &now, &sibling);

	r->was = vf_plan_guess(&now, found ? &sibling : NULL, &r->mac);
	r->was.vf = p->number;
}

/* What some drivers (igbvf) call the hardware's own is what the PF told them last: the pod's. Then
 * it gets a new one, as from a driver that has none to give. */
static struct mac guess_mac(const struct link *l, const struct mac *pods)
{
	return pods->len && mac_eq(&l->perm, pods) ? mac_random() : l->perm;
}

/* Away: the name it went out by, else what systemd would call it. */
static void guess_name(const struct vf_place *p, const struct vf_found *f, const char *ifname,
		       struct vf_record *r)
{
	const struct link *l = &f->link;

	if (f->where == VF_ON_NODE && strcmp(l->name, ifname) != 0 &&
	    !vf_home_is_kernel_name(l->name))
		str_copy(r->name, sizeof(r->name), l->name);
	else if (link_name_ok(l->alias))
		str_copy(r->name, sizeof(r->name), l->alias);
	else
		snprintf(r->name, sizeof(r->name), "%.10sv%u", p->pf.name, p->number & 0xfff);
}

int vf_home_guess(const struct vf_home *h, const char *bdf, const char *ifname,
		  const struct mac *pods, struct vf_record *ret, struct err *e)
{
	struct vf_record r = {.ifname = xstrdup(ifname)};
	struct vf_found f;
	struct vf_place p;
	int code = vf_place_read(h->root, h->host, bdf, &p, e);

	str_copy(r.device, sizeof(r.device), bdf);
	if (code >= 0)
		code = vf_home_find(h, &r, &f, e);
	if (code < 0) {
		vf_record_done(&r);
		return code;
	}
	str_copy(r.pf, sizeof(r.pf), p.pf.name);
	r.dpdk = p.dpdk;
	if (f.where != VF_NOWHERE) {
		guess_name(&p, &f, ifname, &r);
		r.mac = guess_mac(&f.link, pods);
		r.link_mtu = f.where == VF_IN_POD || f.stray ? p.pf.mtu : 0;
	}
	guess_attrs(h, &p, &r);
	*ret = r;
	return 0;
}
