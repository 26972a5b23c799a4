/* SPDX-License-Identifier: Apache-2.0 */
/* DEL and GC: what the rails had in the pod, and what their devices left on the node. */
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "cni/attach/attach_private.h"

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

/* A link that was made is deleted by its name. */
void attach_read_conf(struct rail *rail, const struct rail_source *s)
{
	struct err why = ERR_INIT;

	if (!rail_kind_moves(rail->kind) || rail->kind->read(s, &rail->conf, &why) >= 0)
		return;
	log_warn("configuration is not valid, going on without it", LOG_S("link", rail->ifname),
		 LOG_S("error", why.text));
}

struct names {
	const char **list;
	size_t n;
	char (*temp)[LINK_NAME_MAX]; /* by rail */
};

static void names_done(struct names *names)
{
	free(names->list);
	free(names->temp);
}

static void take_names(const struct attach *a, const struct rail *rails, size_t n,
		       struct names *names)
{
	names->temp = xcalloc(n, sizeof(*names->temp));
	for (size_t i = 0; i < n; i++) {
		if (rail_kind_moves(rails[i].kind))
			continue;
		VEC_PUSH(names->list, names->n) = rails[i].ifname;
		if (attach_temp_name(a, rails[i].ifname, names->temp[i]))
			VEC_PUSH(names->list, names->n) = names->temp[i];
	}
}

/* Links that are made go together, but for those that outlive their namespace. */
static int remove_one(struct attach *a, const struct rail *rail, struct err *e)
{
	if (rail_kind_moves(rail->kind))
		return rail->kind->del(a, rail, e);
	return !a->pod && rail->kind->gc ? rail->kind->gc(a, rail, e) : 0;
}

int attach_remove(struct attach *a, const struct rail *rails, size_t n, const char *const *others,
		  size_t n_others, struct err *e)
{
	__attribute__((cleanup(names_done))) struct names names = {0};
	int first = 0, r;

	for (size_t i = 0; i < n; i++) {
		r = remove_one(a, &rails[i], first < 0 ? NULL : e);
		if (r < 0 && first >= 0)
			first = rail_err(&rails[i], r, e);
	}
	take_names(a, rails, n, &names);
	for (size_t i = 0; i < n_others; i++)
		VEC_PUSH(names.list, names.n) = others[i];
	r = attach_delete(a, names.list, names.n, first < 0 ? NULL : e);
	return first < 0 ? first : r;
}

int attach_gc(const struct cni_call *c, const struct rail *rail, struct err *e)
{
	auto_attach struct attach a = ATTACH_INIT;
	int r;

	if (!rail->kind->gc)
		return 0;
	a.call = c;
	r = nl_open(&a.host, NL_ROUTE, -1, e);
	if (r >= 0)
		r = rail->kind->gc(&a, rail, e);
	return r < 0 ? rail_err(rail, r, e) : 0;
}
