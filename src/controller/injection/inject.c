/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "controller/injection/internal.h"
#include "kube/object.h"
#include "spec/annotations.h"
#include "spec/multusconfig.h"

enum { WARNING_MAX = 1024 };

void inject_warn(const struct inject_request *q, const char *fmt, ...)
{
	auto_buf struct buf b;
	va_list ap;

	buf_init(&b, WARNING_MAX);
	if (!q->warn)
		return;
	va_start(ap, fmt);
	buf_vprintf(&b, fmt, ap);
	va_end(ap);
	q->warn(q->arg, b.p);
}

static bool any_value(const char *text)
{
	struct span rest = span_of(text), v;

	return inject_next_value(&rest, &v);
}

bool inject_is_requested(const struct json *annotations)
{
	for (enum inject_key k = 0; k < INJECT_KEYS; k++)
		if (any_value(json_string(json_get(annotations, inject_key_name(k)))))
			return true;
	return false;
}

unsigned int inject_requests(const struct json *annotations)
{
	unsigned int bits = 0;

	for (enum inject_key k = 0; k < INJECT_KEYS; k++) {
		const char *text = json_string(json_get(annotations, inject_key_name(k)));

		bits |= text ? INJECT_HAS(k) : 0;
		bits |= any_value(text) ? INJECT_REQUESTS(k) : 0;
	}
	return bits;
}

static struct inject_choice request_for(const struct inject_request *q, enum inject_key key)
{
	const struct json *annotations = kube_meta(q->pod, "annotations");
	const char *own = json_string(json_get(annotations, inject_key_name(key)));
	struct inject_choice w = {key, own ? own : q->ns_group[key], !own};

	if (!any_value(w.value))
		w.value = NULL;
	return w;
}

static const char *whose(const struct inject_choice *w)
{
	return w->of_ns ? "the namespace's" : "the pod's";
}

/* A request for RDMA takes precedence. If it overrides a network annotation of the pod itself, the
 * user is warned. */
static struct inject_choice request_of(const struct inject_request *q)
{
	struct inject_choice rdma = request_for(q, INJECT_RDMA),
			     net = request_for(q, INJECT_NETWORK);

	if (rdma.value && net.value && !net.of_ns)
		inject_warn(q, "%s annotation '%s' is ignored: %s '%s' takes precedence",
			    whose(&net), inject_key_name(INJECT_NETWORK), whose(&rdma),
			    inject_key_name(INJECT_RDMA));
	return rdma.value ? rdma : net;
}

static int inject_list(const struct inject_request *q, const struct inject_choice *w,
		       const struct inject_nets *nets, struct kube_patch *p);

static int inject(const struct inject_request *q, const struct inject_choice *w,
		  const struct inject_nets *nets, struct kube_patch *patch)
{
	return inject_list(q, w, nets, patch) + inject_containers(q, nets, patch);
}

static int inject_choose(const struct inject_request *q, const struct inject_choice *w,
			 struct inject_nets *ret, struct err *e);

int inject_pod(const struct inject_request *q, struct kube_patch *patch, struct err *e)
{
	struct inject_choice w = request_of(q);
	struct inject_nets nets = {0};
	int r;

	if (!w.value)
		return 0;
	if (json_bool(json_get(json_get(q->pod, "spec"), "hostNetwork"))) {
		if (!w.of_ns)
			inject_warn(q, "ignoring annotation '%s': the pod is on the host's network",
				    inject_key_name(w.key));
		return 0;
	}
	r = inject_choose(q, &w, &nets, e);
	if (r == 0)
		r = inject(q, &w, &nets, patch);
	free(nets.v);
	return r;
}

/* --- which networks a request selects --- */

bool inject_next_value(struct span *rest, struct span *ret)
{
	while (span_cut(rest, ',', ret)) {
		*ret = span_trim(*ret);
		if (ret->n > 0)
			return true;
	}
	return false;
}

/* --- errors about unknown groups --- */

enum { TEXT_MAX = 1024 };

static int not_there(const struct inject_request *q, const struct inject_choice *w,
		     struct span value, struct err *e)
{
	enum inject_key other = w->key == INJECT_RDMA ? INJECT_NETWORK : INJECT_RDMA;
	const struct inject_group *elsewhere = inject_group_of(q->index, other, value);
	auto_buf struct buf b;

	buf_init(&b, TEXT_MAX);
	buf_str(&b, inject_known_groups(q->index, w->key));
	if (elsewhere)
		buf_printf(&b, "; %zu SpiderMultusConfig(s) with '%.*s' in annotation '%s'",
			   elsewhere->configs, (int)value.n, value.p, inject_key_name(other));
	return err_kind(e, ERR_CONF, -ENOENT,
			"no spidermultusconfigs with annotation: %s:%.*s found, requested by "
			"%s%s%s%s",
			inject_key_name(w->key), (int)value.n, value.p,
			w->of_ns ? "namespace '" : "the pod", w->of_ns ? q->ns : "",
			w->of_ns ? "'" : "", b.p);
}

/* --- errors about networks that cannot be injected --- */

static int refuse(const struct inject_net *n, enum inject_key key, const char *cause, struct err *e)
{
	return err_kind(e, ERR_CONF, -EINVAL, "SpiderMultusConfig '%s/%s' with annotation '%s': %s",
			n->ns, n->name, inject_key_name(key), cause);
}

int inject_check(const struct inject_net *n, enum inject_key key, struct err *e)
{
	/* ipoib uses the device of its parent, not one of a device plugin */
	bool ipoib = !strcmp(n->type, "ipoib");
	auto_free char *cause = NULL;

	if (!strcmp(n->type, "ovs") || !strcmp(n->type, "custom")) {
		cause = xasprintf(
			"RDMA resource injection does not support cniType: %s, remove the "
			"annotation",
			n->type);
		return refuse(n, key, cause, e);
	}
	if (key == INJECT_RDMA && !n->resource && !ipoib) {
		cause = xasprintf("no resource to inject is named, set spec.%s.%s",
				  !strcmp(n->type, "ib-sriov") ? "ibsriov" : n->type,
				  n->takes ? "resourceName" : "rdmaResourceName");
		return refuse(n, key, cause, e);
	}
	if (!n->pools && (key == INJECT_RDMA || n->resource)) {
		cause = xasprintf("no pool is named, set spec.%s.ippools.ipv4 or ipv6",
				  !strcmp(n->type, "ib-sriov") ? "ibsriov" : n->type);
		return refuse(n, key, cause, e);
	}
	return 0;
}

/* --- choice of the networks to inject --- */

static int by_rail(const void *a, const void *b)
{
	const struct inject_net *x = *(const struct inject_net *const *)a;
	const struct inject_net *y = *(const struct inject_net *const *)b;
	int r = strverscmp(x->rail, y->rail);

	if (r == 0)
		r = strverscmp(x->ns, y->ns);
	return r ? r : strverscmp(x->name, y->name);
}

static bool has_nad(const struct inject_nets *l, const struct inject_net *n)
{
	for (size_t i = 0; i < l->n; i++)
		if (!strcmp(l->v[i]->ns, n->ns) && !strcmp(l->v[i]->nad, n->nad))
			return true;
	return false;
}

static int add_group(const struct inject_request *q, const struct inject_choice *w,
		     struct span value, struct inject_nets *ret, struct err *e)
{
	const struct inject_group *g = inject_group_of(q->index, w->key, value);

	if (!g)
		return not_there(q, w, value, e);
	if (g->refused)
		return inject_check(g->refused, w->key, e);
	for (size_t i = 0; i < g->n && ret->n <= NET_SELECT_MAX; i++)
		if (!has_nad(ret, g->nets[i]))
			VEC_PUSH(ret->v, ret->n) = g->nets[i];
	if (ret->n <= NET_SELECT_MAX)
		return 0;
	return err_kind(e, ERR_CONF, -E2BIG, "more than %d networks would be injected",
			NET_SELECT_MAX);
}

/*
 * Writes the networks that the request selects to *ret, sorted by rail, each NAD once. Fails if a
 * group does not exist, a network cannot be injected, or there are more than NET_SELECT_MAX
 * networks. The caller frees ret->v.
 */
static int inject_choose(const struct inject_request *q, const struct inject_choice *w,
			 struct inject_nets *ret, struct err *e)
{
	struct inject_nets l = {0};
	struct span rest = span_of(w->value), value;
	int r = 0;

	while (r == 0 && inject_next_value(&rest, &value))
		r = add_group(q, w, value, &l, e);
	if (r < 0) {
		free(l.v);
		return r;
	}
	if (l.n)
		qsort(l.v, l.n, sizeof(struct inject_net *), by_rail);
	*ret = l;
	return 0;
}

/* --- the pod's network annotation; an existing one is replaced, as by Spiderpool's webhook --- */

/* ANNOTATION_MAX: size in bytes of the buffer for the annotation; the API server accepts half of
 * this size. QUOTE_MAX: number of bytes of the former annotation that the warning quotes. */
enum { ANNOTATION_MAX = 512 << 10, QUOTE_MAX = 200 };

static const struct json *annotations_of(const struct json *pod)
{
	return kube_meta(pod, "annotations");
}

/* Returns whether the pod's list, which an earlier injection or the user wrote, has the same
 * networks in the same order. */
static bool is_same(const struct inject_request *q, const char *text,
		    const struct inject_nets *nets)
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
		jo_kstr(to, ANNOTATION_NETWORKS, text);
		jo_end_obj(to);
		return;
	}
	to = kube_patch_add(p, json_get(annotations, ANNOTATION_NETWORKS) ? "replace" : "add",
			    "metadata", "annotations", ANNOTATION_NETWORKS, NULL);
	jo_str(to, text);
}

/*
 * Writes `nets` as the pod's network annotation. Overwrites a different list, or an invalid one,
 * with a warning. Returns 1 if an operation was written, 0 if the list is the same.
 */
static int inject_list(const struct inject_request *q, const struct inject_choice *w,
		       const struct inject_nets *nets, struct kube_patch *p)
{
	const struct json *annotations = annotations_of(q->pod);
	const char *text = json_string(json_get(annotations, ANNOTATION_NETWORKS));
	struct json_out o;
	auto_buf struct buf b;

	buf_init(&b, ANNOTATION_MAX);
	if (text && is_same(q, text, nets))
		return 0;
	if (text && *text)
		inject_warn(q,
			    "the pod's annotation '%s' (%.*s) is replaced with the networks of %s "
			    "annotation '%s': use one of the two",
			    ANNOTATION_NETWORKS, QUOTE_MAX, text,
			    w->of_ns ? "the namespace's" : "the pod's", inject_key_name(w->key));
	jo_init(&o, &b, 0);
	put_networks(&o, nets);
	write_list(annotations, b.p, p);
	return 1;
}

static const char *const keys[INJECT_KEYS] = {ANNOTATION_INJECT_RDMA, ANNOTATION_INJECT_NETWORK};

const char *inject_key_name(enum inject_key key)
{
	return keys[key];
}

static char *dup_string(const struct json *v)
{
	const char *s = json_string(v);

	return s && *s ? xstrdup(s) : NULL;
}

/* Returns the first master, or, if there are several and a bond is named, the name of the bond;
 * NULL: none. */
static char *master_of(const struct json *block)
{
	const struct json *masters = json_get(block, "master");
	char *bond = dup_string(json_get(json_get(block, "bond"), "name"));
	char *first = dup_string(json_at(masters, 0));

	if (json_len(masters) < 2 || !bond) {
		free(bond);
		return first;
	}
	free(first);
	return bond;
}

/* Returns the rail: the node's interface, or the resource of Ethernet VFs; "": other networks. */
static char *rail_of(const struct multus_type *t, const struct json *block)
{
	char *rail = NULL;

	if (t && t->masters)
		rail = master_of(block);
	else if (t && strcmp(t->type, "sriov") == 0)
		rail = dup_string(json_get(block, t->resource));
	return rail ? rail : xstrdup("");
}

static bool has_pools(const struct json *spec, const struct json *block)
{
	const struct json *pools = json_get(block, "ippools");

	return json_bool(json_get(spec, "disableIPAM")) || json_len(json_get(pools, "ipv4")) > 0 ||
	       json_len(json_get(pools, "ipv6")) > 0;
}

static char *or_empty(char *s)
{
	return s ? s : xstrdup("");
}

void inject_net_read(const struct json *smc, struct inject_net *ret)
{
	const struct json *meta = json_get(smc, "metadata"), *spec = json_get(smc, "spec");
	const struct json *annotations = json_get(meta, "annotations"), *block;
	const char *type = json_string(json_get(spec, "cniType"));
	const struct multus_type *t = multus_type_of(type);

	t = t && t->injectable ? t : NULL;
	block = t ? json_get(spec, t->block) : NULL;
	*ret = (struct inject_net){
		.ns = or_empty(dup_string(json_get(meta, "namespace"))),
		.name = or_empty(dup_string(json_get(meta, "name"))),
		.nad = dup_string(json_get(annotations, ANNOTATION_NAD_NAME)),
		.type = xstrdup(type ? type : "custom"),
		.rail = rail_of(t, block),
		.resource = t && t->resource ? dup_string(json_get(block, t->resource)) : NULL,
		.takes = t && t->devices,
		.pools = has_pools(spec, block),
	};
	if (!ret->nad)
		ret->nad = xstrdup(ret->name);
	for (size_t i = 0; i < INJECT_KEYS; i++)
		ret->group[i] = dup_string(json_get(annotations, keys[i]));
}

void inject_net_done(struct inject_net *n)
{
	free(n->ns);
	free(n->name);
	free(n->nad);
	free(n->type);
	free(n->rail);
	free(n->resource);
	for (size_t i = 0; i < INJECT_KEYS; i++)
		free(n->group[i]);
	*n = (struct inject_net){0};
}
