/* SPDX-License-Identifier: Apache-2.0 */
/* A VF's netdev on its way home. */
#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "cni/device/vf_apply.h"
#include "cni/device/vf_home.h"
#include "kern/net/altname.h"
#include "kern/sys/netns.h"

/* Half a way home, under the pod's name, would leave nobody who finds it. */
static int name_is_free(const struct vf_home *h, const struct vf_found *f, const char *name,
			struct err *e)
{
	struct link other;

	if (link_get(h->host, name, &other, NULL) < 0)
		return 0;
	if (f->where == VF_ON_NODE && other.index == f->link.index)
		return 0;
	return err_set(
		e, -EEXIST,
		"failed to rename link %s to host name %s: File exists (EEXIST): the node has another link "
		"of that name (rename that one, and this is tried again)",
		f->link.name, name);
}

static bool has(char *const *names, size_t n, const char *name)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(names[i], name) == 0)
			return true;
	return false;
}

/* In the way at home, or given by the pod. */
static bool may_not_stay(const struct vf_record *r, const char *altname, bool in_pod)
{
	return strcmp(altname, r->name) == 0 ||
	       (in_pod && r->ours && !has(r->altnames, r->n_altnames, altname));
}

/* Down, with the MTU of before, and without the alternative names that may not stay. */
static int make_ready(struct nl_wire *w, const struct vf_record *r, const struct vf_found *f,
		      struct err *e)
{
	const struct link_change down = {.set = LINK_SET_DOWN};
	const struct link_change mtu = {.set = LINK_SET_MTU, .mtu = r->link_mtu};
	auto_batch struct nl_batch *b = nl_batch_new();
	const struct link *l = &f->link;
	struct err why = ERR_INIT;
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
	code = nl_batch_commit(w, b, &why);
	if (code >= 0)
		return 0;
	for (size_t i = 0; i < last; i++)
		if (nl_batch_result(b, i) < 0) {
			if (e)
				*e = why;
			return code;
		}
	/* The PF's may have become smaller meanwhile. */
	log_warn("MTU of the VF is left as it is", LOG_S("link", l->name), LOG_S("why", why.text));
	return 0;
}

/* One message: the kernel moves the link, then names it. */
static int move_home(const struct vf_home *h, const struct vf_record *r, const struct vf_found *f,
		     struct err *e)
{
	auto_batch struct nl_batch *b = nl_batch_new();
	struct link_change c = {
		.set = LINK_SET_NAME | LINK_SET_ALIAS, .name = r->name, .alias = r->name};
	auto_fd int home = -1;
	int code = name_is_free(h, f, r->name, e);

	if (code >= 0 && f->where == VF_IN_POD) {
		code = netns_current(&home, e);
		c.set |= LINK_SET_NETNS;
		c.netns_fd = home;
	}
	if (code < 0)
		return code;
	if (f->where == VF_ON_NODE && strcmp(f->link.name, r->name) == 0)
		c.set &= ~(unsigned int)LINK_SET_NAME;
	link_set(b, f->link.index, f->link.name, &c);
	code = nl_batch_commit(f->where == VF_IN_POD ? h->pod : h->host, b, e);
	return code < 0 ? err_wrap(e, code, "failed to move interface %s to init netns",
				   f->link.name)
			: 0;
}

int vf_home_altnames(struct nl_wire *host, const struct link *l, const struct vf_record *r,
		     struct err *e)
{
	auto_batch struct nl_batch *b = nl_batch_new();
	struct err why = ERR_INIT;
	char **names = NULL;
	size_t n = 0;
	int code = altname_list(host, l->index, &names, &n, e);

	if (code < 0)
		return code;
	for (size_t i = 0; i < r->n_altnames; i++)
		if (!has(names, n, r->altnames[i]))
			altname_add(b, l->index, l->name, r->altnames[i]);
	str_list_free(names, n);
	if (nl_batch_len(b) && nl_batch_commit(host, b, &why) < 0)
		log_warn("alternative name is lost", LOG_S("link", l->name),
			 LOG_S("why", why.text));
	return 0;
}

static int finish(const struct vf_home *h, const struct vf_record *r, struct err *e)
{
	const struct link_change alias = {.set = LINK_SET_ALIAS, .alias = r->alias};
	auto_batch struct nl_batch *b = nl_batch_new();
	struct link l;
	int code = link_get(h->host, r->name, &l, e);

	if (code >= 0)
		code = vf_home_altnames(h->host, &l, r, e);
	if (code < 0)
		return code;
	link_set(b, l.index, l.name, &alias);
	return nl_batch_commit(h->host, b, e);
}

/* A driver that lets the VF have no MAC but the PF's word (igbvf) may refuse what it had before that
 * word was given. It must not keep the pod's. */
static int restore_mac(struct nl_wire *w, const struct vf_record *r, int index, struct err *e)
{
	struct err why = ERR_INIT;
	struct link l;
	int code = r->mac.len ? vf_apply_link_mac(w, index, &r->mac, &why) : 0;

	if (code >= 0)
		return 0;
	if (link_get_index(w, index, &l, NULL) >= 0 && !mac_eq(&l.mac, &r->pod_mac) &&
	    (mac_eq(&l.mac, &r->was.mac) || mac_eq(&l.mac, &l.perm))) {
		log_warn("MAC of the VF is the driver's choice", LOG_S("link", l.name),
			 LOG_S("why", why.text));
		return 0;
	}
	if (e)
		*e = why;
	return code;
}

int vf_home_netdev(const struct vf_home *h, const struct vf_record *r, const struct vf_found *f,
		   struct err *e)
{
	struct nl_wire *w = f->where == VF_IN_POD ? h->pod : h->host;
	struct err why = ERR_INIT;
	int code, mac;

	/* At home already, and as it was. */
	if (f->where == VF_ON_NODE && !f->stray)
		return 0;
	code = make_ready(w, r, f, e);
	if (code < 0)
		return code;
	mac = restore_mac(w, r, f->link.index, &why);
	code = move_home(h, r, f, e);
	if (code >= 0 && mac < 0) {
		/* The alias stays: who comes again finds it by that. */
		if (e)
			*e = why;
		return mac;
	}
	return code < 0 ? code : finish(h, r, e);
}
