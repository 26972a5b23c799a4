/* SPDX-License-Identifier: Apache-2.0 */
#include "cni/device/vf_home.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "base/loop.h"
#include "cni/device/vf_apply.h"

/* How long the kernel may take to bring a netdev home out of a namespace that was deleted. */
enum { COMES_HOME_MS = 3000, PAUSE_MS = 50 };

/* --- where it is --- */

static bool by_device(const struct link *l, const struct vf_record *r)
{
	return strcmp(l->device, r->device) == 0;
}

/* A kernel that does not tell devices. The original leaves no alias; but hardware has no kind. */
static bool by_name(const struct link *l, const struct vf_record *r)
{
	if (*l->device || !r->ifname || strcmp(l->name, r->ifname) != 0)
		return false;
	return r->ours ? strcmp(l->alias, r->name) == 0 : !*l->kind;
}

/* Where /sys is not the wire's namespace's. */
static bool by_alias(const struct link *l, const struct vf_record *r)
{
	return !*l->device && r->ours && *r->name && strcmp(l->alias, r->name) == 0;
}

static const struct link *pick(const struct link *list, size_t n, const struct vf_record *r,
			       bool (*fits)(const struct link *, const struct vf_record *))
{
	for (size_t i = 0; i < n; i++)
		if (fits(&list[i], r))
			return &list[i];
	return NULL;
}

static int find_in_pod(const struct vf_home *h, const struct vf_record *r, struct vf_found *ret,
		       struct err *e)
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

bool vf_home_is_kernel_name(const char *name)
{
	return strncmp(name, "dev", 3) == 0 && name[3] &&
	       strspn(name + 3, "0123456789") == strlen(name + 3);
}

static bool is_stray(const struct link *l, const struct vf_record *r)
{
	if (*r->name && strcmp(l->alias, r->name) == 0 && strcmp(r->alias, r->name) != 0)
		return true;
	if (*r->name && strcmp(l->name, r->name) == 0)
		return false;
	return (r->ifname && strcmp(l->name, r->ifname) == 0) || vf_home_is_kernel_name(l->name);
}

static int find_on_node(const struct vf_home *h, const struct vf_record *r, struct vf_found *ret,
			struct err *e)
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
		*ret = (struct vf_found){VF_ON_NODE, *l, is_stray(l, r)};
	return 0;
}

int vf_home_find(const struct vf_home *h, const struct vf_record *r, struct vf_found *ret,
		 struct err *e)
{
	int code = 0;

	*ret = (struct vf_found){VF_NOWHERE, {0}, false};
	if (h->pod)
		code = find_in_pod(h, r, ret, e);
	if (code >= 0 && ret->where == VF_NOWHERE)
		code = find_on_node(h, r, ret, e);
	return code < 0 ? code : 0;
}

/* Namespaces are taken apart behind the back of who deletes them. */
static int find_in_time(const struct vf_home *h, const struct vf_record *r, struct vf_found *ret,
			struct err *e)
{
	int64_t limit = now_mono_ms() + COMES_HOME_MS;
	int code;

	while ((code = vf_home_find(h, r, ret, e)) == 0) {
		if (ret->where != VF_NOWHERE || h->pod || now_mono_ms() >= limit)
			return 0;
		nanosleep(&(struct timespec){.tv_nsec = PAUSE_MS * 1000000L}, NULL);
	}
	return code;
}

/* --- attributes --- */

static int no_way(const struct vf_record *r, const char *why)
{
	log_warn("attributes of the VF are left as they are", LOG_S("vf", r->device),
		 LOG_S("why", why));
	return 0;
}

int vf_home_attrs(const struct vf_home *h, const struct vf_place *p, const struct vf_record *r,
		  struct err *e)
{
	struct vf_job job = {.ref = {p->pf.index, p->pf.name, p->number}, .instead = r->mac};
	struct err why = ERR_INIT;
	struct vf_info now;
	int code;

	if (!p->pf.index)
		return no_way(r, "the PF has no netdev");
	code = vf_get(h->host, p->pf.index, p->pf.name, p->number, &now, &why);
	if (code == -ENOENT || code == -EOPNOTSUPP || code == -ENODEV)
		return no_way(r, why.text);
	/* Not the driver's refusal: the next time there is an answer. */
	if (code < 0)
		return err_kind(e, ERR_AGAIN, code, "%s", why.text);
	job.want = vf_plan_restore(&r->was, &now, r->asked);
	return vf_apply(h->host, &job, 1, NULL, e);
}

/* --- netdev and all --- */

static int bring_netdev(const struct vf_home *h, const struct vf_record *r,
			const struct vf_place *p, bool up, struct err *e)
{
	const struct link_change set_up = {.set = LINK_SET_UP};
	auto_batch struct nl_batch *b = nl_batch_new();
	struct vf_found f;
	int code;

	/* With a userspace driver, then or now, or without any. */
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
	code = vf_home_netdev(h, r, &f, e);
	if (code < 0 || !up || !r->up)
		return code;
	link_set(b, 0, r->name, &set_up);
	return nl_batch_commit(h->host, b, e);
}

/* The netdev is home; what the driver refuses for good is somebody else's to look at. */
int vf_home_come_again(const struct vf_record *r, unsigned int flags, int code,
		       const struct err *why, struct err *e)
{
	if ((flags & VF_HOME_STRICT) || why->kind == ERR_AGAIN) {
		if (e)
			*e = *why;
		return code;
	}
	log_error("attributes of the VF cannot be set back now: they will be before another pod "
		  "gets it",
		  LOG_S("vf", r->device), LOG_S("why", why->text));
	return 1;
}

int vf_home_bring(const struct vf_home *h, const struct vf_record *r, unsigned int flags,
		  struct err *e)
{
	struct err why = ERR_INIT;
	struct vf_place p;
	int code, attrs;

	if (vf_record_is_past(h->root, r)) {
		log_warn("the VF was made anew meanwhile, nothing is left to restore",
			 LOG_S("vf", r->device));
		return 0;
	}
	code = vf_place_read(h->root, h->host, r->device, &p, &why);
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
	/* Its MAC is the VF's own choice again only when the PF has let go of it. Whatever comes of
	 * it, the netdev comes home. */
	attrs = vf_home_attrs(h, &p, r, &why);
	code = bring_netdev(h, r, &p, flags & VF_HOME_UP, e);
	return code < 0 || attrs >= 0 ? code : vf_home_come_again(r, flags, attrs, &why, e);
}
