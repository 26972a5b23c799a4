/* SPDX-License-Identifier: Apache-2.0 */
/* The pod's annotation of networks: what it has stays, what is missing comes after it. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "controller/inject_priv.h"

enum { ANNOTATION_MAX = 512 << 10 }; /* the API server takes half of that */

static const struct json *annotations_of(const struct json *pod)
{
	return json_get(json_get(pod, "metadata"), "annotations");
}

void inject_list_done(struct inject_list *l)
{
	net_select_done(&l->has);
	free(l->miss);
	*l = (struct inject_list){0};
}

static bool has_net(const struct net_select *has, const struct inject_net *n)
{
	for (size_t i = 0; i < has->n; i++)
		if (!strcmp(has->v[i].ns, n->ns) && !strcmp(has->v[i].name, n->nad))
			return true;
	return false;
}

int inject_list_read(const struct inject_ask *q, const struct inject_nets *nets,
		     struct inject_list *ret, struct err *e)
{
	const char *text = json_string(json_get(annotations_of(q->pod), INJECT_NETWORKS));
	struct inject_list l = {0};
	int r = net_select_parse(text, q->ns, &l.has, e);

	if (r < 0)
		return err_wrap(e, r, "metadata.annotations[%s]", INJECT_NETWORKS);
	for (size_t i = 0; i < nets->n; i++)
		if (!has_net(&l.has, nets->v[i]))
			VEC_PUSH(l.miss, l.n_miss) = nets->v[i];
	if (l.has.n + l.n_miss > NET_SELECT_MAX) {
		r = err_kind(e, ERR_CONF, -E2BIG,
			     "the pod has %zu networks and %zu would be injected, %d at most",
			     l.has.n, l.n_miss, NET_SELECT_MAX);
		inject_list_done(&l);
		return r;
	}
	*ret = l;
	return 0;
}

/* --- names of interfaces --- */

static bool is_named(const struct net_select *has, const char *ifname)
{
	for (size_t i = 0; i < has->n; i++)
		if (has->v[i].ifname && !strcmp(has->v[i].ifname, ifname))
			return true;
	return false;
}

static bool is_net(const struct net_select *has, size_t number)
{
	auto_free char *ifname = xasprintf("net%zu", number);

	if (is_named(has, ifname))
		return true;
	return number >= 1 && number <= has->n && !has->v[number - 1].ifname;
}

/* Those that come are named as their places in the list would have it. Where the pod's own networks have
 * such a name already, the lowest that are left. */
static bool is_taken(const struct inject_list *l)
{
	for (size_t i = 0; i < l->n_miss; i++)
		if (is_net(&l->has, l->has.n + i + 1))
			return true;
	return false;
}

/* --- writing --- */

static void put(struct json_out *o, const char *name, const char *ns, const char *ifname)
{
	jo_obj(o);
	jo_kstr(o, "name", name);
	jo_kstr(o, "namespace", ns);
	if (ifname)
		jo_kstr(o, "interface", ifname);
	jo_end_obj(o);
}

static void put_own(struct json_out *o, const struct net_select *has)
{
	struct json_walk w = json_walk_start(has->doc ? json_root(has->doc) : NULL);
	const struct json *v;

	while ((v = json_walk_next(&w, NULL)))
		jo_val(o, v, false);
	for (size_t i = 0; !has->doc && i < has->n; i++)
		put(o, has->v[i].name, has->v[i].ns, has->v[i].ifname);
}

static void put_missing(struct json_out *o, const struct inject_list *l)
{
	size_t number = is_taken(l) ? 0 : l->has.n;

	for (size_t i = 0; i < l->n_miss; i++) {
		auto_free char *ifname = NULL;

		while (is_net(&l->has, ++number))
			;
		ifname = xasprintf("net%zu", number);
		put(o, l->miss[i]->nad, l->miss[i]->ns, ifname);
	}
}

int inject_list_write(const struct inject_ask *q, const struct inject_list *l, struct kube_patch *p)
{
	const struct json *annotations = annotations_of(q->pod);
	struct json_out o, *to;
	auto_buf struct buf b;

	buf_init(&b, ANNOTATION_MAX);
	if (l->n_miss == 0)
		return 0;
	jo_init(&o, &b, 0);
	jo_arr(&o);
	put_own(&o, &l->has);
	put_missing(&o, l);
	jo_end_arr(&o);
	if (json_kind(annotations) != JSON_OBJECT) {
		to = kube_patch_add(p, "add", "metadata", "annotations", NULL);
		jo_obj(to);
		jo_kstr(to, INJECT_NETWORKS, b.p);
		jo_end_obj(to);
		return 1;
	}
	to = kube_patch_add(p, json_get(annotations, INJECT_NETWORKS) ? "replace" : "add",
			    "metadata", "annotations", INJECT_NETWORKS, NULL);
	jo_str(to, b.p);
	return 1;
}
