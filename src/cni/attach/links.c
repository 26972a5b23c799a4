/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "cni/attach/internal.h"
#include "wire/tls/digest.h"

/* --- the links of all attachments: creation, moves into the pod, final names, undo --- */

/* Returns the attachment whose message failed first; NULL: the error belongs to no attachment. */
static const struct rail *culprit(const struct attach *a, const struct nl_batch *b,
				  const size_t *owner)
{
	for (size_t i = 0; i < nl_batch_len(b); i++)
		if (nl_batch_result(b, i) < 0)
			return &a->rails[owner[i]];
	return NULL;
}

int attach_commit(struct attach *a, struct nl_wire *w, struct nl_batch *b, const size_t *owner,
		  struct err *e)
{
	const struct rail *rail;
	int r;

	if (!nl_batch_len(b))
		return 0;
	r = nl_batch_commit(w, b, e);
	if (r >= 0)
		return 0;
	rail = culprit(a, b, owner);
	return rail ? rail_err(rail, r, e) : r;
}

bool attach_name_taken(const struct attach *a, const char *name)
{
	for (size_t i = 0; i < a->n_rails; i++)
		if (strcmp(a->rails[i].ifname, name) == 0)
			return true;
	return link_find(a->pod_links, a->n_pod_links, name);
}

static const char *made_name(const struct rail *rail)
{
	return *rail->temp ? rail->temp : rail->ifname;
}

/* Finds the current names by ifindex, because the reply to a rename may be lost. */
static void settle_names(struct attach *a)
{
	bool unsure = false;

	for (size_t i = 0; i < a->n_rails; i++)
		unsure |= *a->rails[i].temp && a->rails[i].index;
	if (!unsure || attach_list_pod(a, NULL) < 0)
		return;
	for (size_t i = 0; i < a->n_rails; i++) {
		struct rail *rail = &a->rails[i];
		const struct link *l = link_find_index(a->pod_links, a->n_pod_links, rail->index);

		if (l && span_eq(span_of(l->name), rail->ifname))
			*rail->temp = '\0';
	}
}

static int attach_delete(struct attach *a, const char *const *names, size_t n, struct err *e);

/* Deletes the created links and restores the moved devices. Continues after an error and returns
 * the first error. */
static int undo_links(void *arg, struct err *e)
{
	struct attach *a = *(struct attach **)arg;
	auto_free const char **names = xcalloc(a->n_rails, sizeof(*names));
	size_t n = 0;
	int first = 0, r;

	settle_names(a);
	for (size_t i = 0; i < a->n_rails; i++) {
		const struct rail *rail = &a->rails[i];

		if (!rail->made)
			continue;
		if (!link_driver_moves(rail->kind)) {
			names[n++] = made_name(rail);
			continue;
		}
		r = rail->kind->undo ? rail->kind->undo(a, rail, first < 0 ? NULL : e) : 0;
		first = first < 0 ? first : r;
	}
	r = attach_delete(a, names, n, first < 0 ? NULL : e);
	return first < 0 ? first : r;
}

/*
 * Before Linux 6.15 a new link's name must also be free in the namespace of the request: the
 * node's, which usually has an eth0. So if the node has a link of that name, the new link is
 * created under a temporary name and then renamed. DEL computes the same temporary name, since the
 * process of the ADD may have been killed before the rename.
 */
static bool attach_temp_name(const struct attach *a, const char *ifname,
			     char ret[static LINK_NAME_MAX])
{
	auto_free char *path = xasprintf("/proc/sys/net/ipv4/conf/%s", ifname);
	char hex[DIGEST_HEX];

	*ret = '\0';
	if (!file_exists(&a->call->root, path))
		return false;
	digest_sha256(span_of(ifname), hex);
	snprintf(ret, LINK_NAME_MAX, "ur-%.10s", hex);
	return true;
}

static void make_link(const struct attach *a, struct rail *rail, struct nl_batch *b)
{
	struct link_spec s = LINK_SPEC_INIT;

	*rail->temp = '\0';
	if (!rail->conf.in_container)
		attach_temp_name(a, rail->ifname, rail->temp);
	s.name = made_name(rail);
	s.kind = rail->kind->type;
	s.parent = rail->master.index;
	s.netns_fd = rail->conf.in_container ? -1 : a->netns;
	s.mac = rail->conf.mac;
	s.mtu = rail->conf.mtu;
	s.group = LINK_GROUP;
	rail->kind->spec(&rail->conf, &rail->master, &s);
	link_add(b, &s);
}

static void put_link(const struct attach *a, struct rail *rail, struct nl_batch *b)
{
	if (link_driver_moves(rail->kind))
		rail->kind->put(a, rail, b);
	else
		make_link(a, rail, b);
}

/*
 * The kernel runs a batch in order and continues after a failure. Undo covers successful messages,
 * and also failed ones, since the reply may have been lost or the move of a device may be
 * incomplete. The exception is -EEXIST for a link to create: another link had the name, or the VLAN
 * id on the master, before.
 */
static void mark_made(struct attach *a, const struct nl_batch *b, const size_t *owner)
{
	for (size_t i = 0; i < nl_batch_len(b); i++) {
		struct rail *rail = &a->rails[owner[i]];

		rail->made = link_driver_moves(rail->kind) || nl_batch_result(b, i) != -EEXIST;
	}
}

/* Adds to the kernel's error: the driver's hint, the final name of a link with a temporary name,
 * and the attachment's label. */
static int explain(const struct rail *rail, int code, struct err *e)
{
	const char *hint = rail->kind->hint ? rail->kind->hint(code) : NULL;

	if (hint && e)
		err_kind(e, e->kind, code, "%s (%s)", e->text, hint);
	if (*rail->temp)
		err_wrap(e, code, "'%s'", rail->ifname);
	return rail_err(rail, code, e);
}

static int put_links(struct attach *a, bool in_container, struct err *e)
{
	auto_batch struct nl_batch *b = nl_batch_new();
	auto_free size_t *owner = NULL;
	const struct rail *rail;
	size_t n = 0;
	int r;

	for (size_t i = 0; i < a->n_rails; i++) {
		if (a->rails[i].no_link || a->rails[i].conf.in_container != in_container)
			continue;
		put_link(a, &a->rails[i], b);
		while (n < nl_batch_len(b))
			VEC_PUSH(owner, n) = i;
	}
	if (!n)
		return 0;
	r = nl_batch_commit(in_container ? a->pod : a->host, b, e);
	mark_made(a, b, owner);
	rail = r < 0 ? culprit(a, b, owner) : NULL;
	return rail ? explain(rail, r, e) : r;
}

/* Reads ifindexes and MACs, which the kernel chooses, with one dump. */
static int learn(struct attach *a, struct err *e)
{
	int r = attach_list_pod(a, e);

	for (size_t i = 0; r >= 0 && i < a->n_rails; i++) {
		struct rail *rail = &a->rails[i];
		const struct link *l;

		if (rail->no_link)
			continue;
		l = link_find(a->pod_links, a->n_pod_links, made_name(rail));
		if (!l) {
			err_set(e, -ENODEV,
				"%s '%s' does not exist in the pod after it was "
				"created or moved there",
				rail->kind->type, rail->ifname);
			return rail_err(rail, -ENODEV, e);
		}
		rail->index = l->index;
		rail->mac = l->mac;
		rail->arptype = l->arptype;
	}
	return r;
}

static int final_names(struct attach *a, struct err *e)
{
	auto_batch struct nl_batch *b = nl_batch_new();
	auto_free size_t *owner = xcalloc(a->n_rails, sizeof(*owner));
	size_t n = 0;
	int r;

	for (size_t i = 0; i < a->n_rails; i++) {
		const struct rail *rail = &a->rails[i];
		const struct link_change c = {.set = LINK_SET_NAME, .name = rail->ifname};

		if (!*rail->temp)
			continue;
		link_set(b, rail->index, rail->temp, &c);
		owner[n++] = i;
	}
	r = attach_commit(a, a->pod, b, owner, e);
	for (size_t i = 0; i < n; i++)
		if (nl_batch_result(b, i) >= 0)
			*a->rails[owner[i]].temp = '\0';
	return r;
}

/*
 * Discards the cached list of addresses, because a device that moved away took its addresses along.
 */
static void forget_moved(struct attach *a)
{
	bool any = false;

	for (size_t i = 0; i < a->n_rails; i++)
		any |= link_driver_moves(a->rails[i].kind);
	if (!any)
		return;
	free(a->host_addrs);
	a->host_addrs = NULL;
	a->have_host_addrs = false;
}

/* Returns the driver in use that follows `after` in the order of the drivers, or the first one if
 * `after` is NULL; NULL: none is left. */
static const struct link_driver *next_kind(const struct attach *a, const struct link_driver *after)
{
	const struct link_driver *next = NULL;

	for (size_t i = 0; i < a->n_rails; i++) {
		const struct link_driver *k = a->rails[i].kind;

		if (k && (!after || k->order > after->order) && (!next || k->order < next->order))
			next = k;
	}
	return next;
}

int attach_each_kind(struct attach *a,
		     int (*step)(struct attach *, const struct link_driver *, struct err *),
		     struct err *e)
{
	const struct link_driver *k = NULL;
	int r = 0;

	while (r >= 0 && (k = next_kind(a, k)))
		r = step(a, k, e);
	return r < 0 ? r : 0;
}

static int prepare(struct attach *a, const struct link_driver *k, struct err *e)
{
	return k->prepare ? k->prepare(a, e) : 0;
}

static int settle(struct attach *a, const struct link_driver *k, struct err *e)
{
	return k->settle ? k->settle(a, e) : 0;
}

int attach_prepare(struct attach *a, struct err *e)
{
	return attach_each_kind(a, prepare, e);
}

int attach_links(struct attach *a, struct err *e)
{
	int r;

	if (!a->n_rails)
		return 0;
	undo_push(&a->undo, "remove links", undo_links, &a, sizeof(a));
	r = put_links(a, false, e);
	if (r >= 0)
		r = put_links(a, true, e);
	forget_moved(a);
	if (r >= 0)
		r = learn(a, e);
	if (r >= 0)
		r = final_names(a, e);
	if (r >= 0)
		r = attach_each_kind(a, settle, e);
	return r;
}

/* --- DEL and GC: links in the pod, and state of the drivers on the node --- */

static bool among(const char *name, const char *const *names, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (span_eq(span_of(name), names[i]))
			return true;
	return false;
}

bool attach_group_is_of_pod(const struct link *pod, size_t n, const char *const *names,
			    size_t n_names)
{
	size_t n_found = 0;

	for (size_t i = 0; i < n; i++) {
		if (pod[i].group != LINK_GROUP)
			continue;
		if (!among(pod[i].name, names, n_names))
			return false;
		n_found++;
	}
	return n_found > 1;
}

/* Deletes links by name; absent links count as deleted. */
static int attach_delete(struct attach *a, const char *const *names, size_t n, struct err *e)
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
	group = attach_group_is_of_pod(a->pod_links, a->n_pod_links, names, n);
	/* Deletes the links by one message for their group, which costs the kernel one
	 * unregistration instead of one per link. */
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

/* Reads the configuration of moved devices. Created links are deleted by name, without their
 * configuration. */
void attach_read_conf(struct rail *rail, const struct rail_source *s)
{
	struct err reason = ERR_INIT;

	if (!link_driver_moves(rail->kind) || rail->kind->read(s, &rail->conf, &reason) >= 0)
		return;
	log_warn("ignoring the invalid configuration", LOG_S("link", rail->ifname),
		 LOG_S("error", reason.text));
}

struct names {
	const char **list;
	size_t n;
	char (*temp)[LINK_NAME_MAX]; /* by attachment */
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
		if (link_driver_moves(rails[i].kind))
			continue;
		VEC_PUSH(names->list, names->n) = rails[i].ifname;
		if (attach_temp_name(a, rails[i].ifname, names->temp[i]))
			VEC_PUSH(names->list, names->n) = names->temp[i];
	}
}

/* Restores a moved device. Created links are deleted later in one batch; if the pod's namespace
 * does not exist, gc() removes what the driver left on the node. */
static int remove_one(struct attach *a, const struct rail *rail, struct err *e)
{
	if (link_driver_moves(rail->kind))
		return rail->kind->del(a, rail, e);
	return !a->pod && rail->kind->gc ? rail->kind->gc(a, rail, e) : 0;
}

int attach_remove(struct attach *a, const struct rail *rails, size_t n, const char *const *others,
		  size_t n_peers, struct err *e)
{
	__attribute__((cleanup(names_done))) struct names names = {0};
	int first = 0, r;

	for (size_t i = 0; i < n; i++) {
		r = remove_one(a, &rails[i], first < 0 ? NULL : e);
		if (r < 0 && first >= 0)
			first = rail_err(&rails[i], r, e);
	}
	take_names(a, rails, n, &names);
	for (size_t i = 0; i < n_peers; i++)
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
