/* SPDX-License-Identifier: Apache-2.0 */
/* The pod's annotation of networks: the injected ones replace whatever it has, as in the original. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "controller/injection/inject_priv.h"

enum { ANNOTATION_MAX = 512 << 10 /* the API server takes half of that */, QUOTE_MAX = 200 };

static const struct json *annotations_of(const struct json *pod)
{
	return json_get(json_get(pod, "metadata"), "annotations");
}

/* The same networks in the same order: of an earlier injection, or written out by the user. */
static bool is_same(const struct inject_ask *q, const char *text, const struct inject_nets *nets)
{
	struct net_select has = {0};
	bool same;

	if (net_select_parse(text, q->ns, &has, NULL) < 0)
		return false;
	same = has.n == nets->n;
	for (size_t i = 0; same && i < nets->n; i++)
		same = !strcmp(has.v[i].ns, nets->v[i]->ns) &&
		       !strcmp(has.v[i].name, nets->v[i]->nad);
	net_select_done(&has);
	return same;
}

static void put_networks(struct json_out *o, const struct inject_nets *nets)
{
	jo_arr(o);
	for (size_t i = 0; i < nets->n; i++) {
		auto_free char *ifname = xasprintf("net%zu", i + 1);

		jo_obj(o);
		jo_kstr(o, "name", nets->v[i]->nad);
		jo_kstr(o, "namespace", nets->v[i]->ns);
		jo_kstr(o, "interface", ifname);
		jo_end_obj(o);
	}
	jo_end_arr(o);
}

static void write_list(const struct json *annotations, const char *text, struct kube_patch *p)
{
	struct json_out *to;

	if (json_kind(annotations) != JSON_OBJECT) {
		to = kube_patch_add(p, "add", "metadata", "annotations", NULL);
		jo_obj(to);
		jo_kstr(to, INJECT_NETWORKS, text);
		jo_end_obj(to);
		return;
	}
	to = kube_patch_add(p, json_get(annotations, INJECT_NETWORKS) ? "replace" : "add",
			    "metadata", "annotations", INJECT_NETWORKS, NULL);
	jo_str(to, text);
}

int inject_list(const struct inject_ask *q, const struct inject_wish *w,
		const struct inject_nets *nets, struct kube_patch *p, struct err *e)
{
	const struct json *annotations = annotations_of(q->pod);
	const char *text = json_string(json_get(annotations, INJECT_NETWORKS));
	struct json_out o;
	auto_buf struct buf b;

	buf_init(&b, ANNOTATION_MAX);
	if (nets->n > NET_SELECT_MAX)
		return err_kind(e, ERR_CONF, -E2BIG,
				"%zu networks would be injected, %d is the maximum", nets->n,
				NET_SELECT_MAX);
	if (text && is_same(q, text, nets))
		return 0;
	if (text && *text)
		inject_warn(
			q,
			"the pod's annotation '%s' (%.*s) is overwritten with the networks that "
			"%s annotation '%s' injects: use one of the two",
			INJECT_NETWORKS, QUOTE_MAX, text,
			w->of_ns ? "the namespace's" : "the pod's", inject_key_name(w->key));
	jo_init(&o, &b, 0);
	put_networks(&o, nets);
	write_list(annotations, b.p, p);
	return 1;
}
