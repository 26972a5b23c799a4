/* SPDX-License-Identifier: Apache-2.0 */
/* The links of all rails: made in the pod's namespace with their final names and MACs. */
#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "cni/attach_private.h"

int attach_commit(struct attach *a, struct nl_wire *w, struct nl_batch *b, const size_t *owner,
		  struct err *e)
{
	int r;

	if (!nl_batch_len(b))
		return 0;
	r = nl_batch_commit(w, b, e);
	if (r >= 0)
		return 0;
	for (size_t i = 0; i < nl_batch_len(b); i++)
		if (nl_batch_result(b, i) < 0)
			return rail_err(&a->rails[owner[i]], r, e);
	return r;
}

static int undo_links(void *arg, struct err *e)
{
	struct attach *a = *(struct attach **)arg;
	auto_free const char **names = xcalloc(a->n_rails, sizeof(*names));
	size_t n = 0;

	for (size_t i = 0; i < a->n_rails; i++)
		if (a->rails[i].made)
			names[n++] = a->rails[i].ifname;
	return attach_delete(a, names, n, e);
}

static void add_link(const struct attach *a, const struct rail *rail, struct nl_batch *b)
{
	struct link_spec s = LINK_SPEC_INIT;

	s.name = rail->ifname;
	s.kind = "macvlan";
	s.parent = rail->master.index;
	s.netns_fd = rail->conf.in_container ? -1 : a->netns;
	s.mac = rail->conf.mac;
	s.mtu = rail->conf.mtu;
	s.group = LINK_GROUP;
	s.macvlan_mode = rail->conf.mode;
	s.macvlan_bcqueuelen = rail->conf.bcqueuelen;
	link_add(b, &s);
}

/*
 * A batch is carried out in order and not stopped by a failure: what worked is undone. So is what
 * failed, since the failure may be that the answer was lost; only a name that was there is not ours.
 */
static void mark_made(struct attach *a, const struct nl_batch *b, const size_t *owner)
{
	for (size_t i = 0; i < nl_batch_len(b); i++)
		a->rails[owner[i]].made = nl_batch_result(b, i) != -EEXIST;
}

static int make_links(struct attach *a, bool in_container, struct err *e)
{
	auto_batch struct nl_batch *b = nl_batch_new();
	auto_free size_t *owner = xcalloc(a->n_rails, sizeof(*owner));
	size_t n = 0;
	int r;

	for (size_t i = 0; i < a->n_rails; i++) {
		if (a->rails[i].conf.in_container != in_container)
			continue;
		add_link(a, &a->rails[i], b);
		owner[n++] = i;
	}
	if (!n)
		return 0;
	r = attach_commit(a, in_container ? a->pod : a->host, b, owner, e);
	mark_made(a, b, owner);
	return r;
}

/* Indexes and MACs are the kernel's choice: one dump tells them all. */
static int learn(struct attach *a, struct err *e)
{
	int r = attach_list_pod(a, e);

	for (size_t i = 0; r >= 0 && i < a->n_rails; i++) {
		struct rail *rail = &a->rails[i];
		const struct link *l = link_find(a->pod_links, a->n_pod_links, rail->ifname);

		if (!l) {
			err_set(e, -ENODEV, "macvlan '%s' was made and is gone again",
				rail->ifname);
			return rail_err(rail, -ENODEV, e);
		}
		rail->index = l->index;
		rail->mac = l->mac;
		rail->arptype = l->arptype;
	}
	return r;
}

int attach_links(struct attach *a, struct err *e)
{
	int r;

	if (!a->n_rails)
		return 0;
	undo_push(&a->undo, "delete macvlans", undo_links, &a, sizeof(a));
	r = make_links(a, false, e);
	if (r >= 0)
		r = make_links(a, true, e);
	if (r >= 0)
		r = learn(a, e);
	return r;
}

static bool among(const char *name, const char *const *names, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (span_eq(span_of(name), names[i]))
			return true;
	return false;
}

bool attach_group_is_ours(const struct link *pod, size_t n, const char *const *names,
			  size_t n_names)
{
	size_t ours = 0;

	for (size_t i = 0; i < n; i++) {
		if (pod[i].group != LINK_GROUP)
			continue;
		if (!among(pod[i].name, names, n_names))
			return false;
		ours++;
	}
	return ours > 1;
}

int attach_delete(struct attach *a, const char *const *names, size_t n, struct err *e)
{
	auto_batch struct nl_batch *b = nl_batch_new();
	bool group;
	int r;

	if (!a->pod || !n)
		return 0;
	if (n == 1) {
		link_del(b, 0, names[0]);
		return nl_batch_commit(a->pod, b, e);
	}
	r = attach_list_pod(a, e);
	if (r < 0)
		return r;
	group = attach_group_is_ours(a->pod_links, a->n_pod_links, names, n);
	/* One message for the whole group costs one unregistration, not one a link. */
	if (group)
		link_del_group(b, LINK_GROUP);
	for (size_t i = 0; i < a->n_pod_links; i++) {
		const struct link *l = &a->pod_links[i];

		if (among(l->name, names, n) && !(group && l->group == LINK_GROUP))
			link_del(b, l->index, l->name);
	}
	if (!nl_batch_len(b))
		return 0;
	return nl_batch_commit(a->pod, b, e);
}
