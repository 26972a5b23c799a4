/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/endpoint/endpoint.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "block/migration.h"
#include "kube/kinds.h"
#include "spec/annotations.h"
#include "wire/json/json.h"

/* --- endpoints computed from leases --- */

static void endpoint_done(struct endpoint *p)
{
	free(p->ns);
	free(p->name);
	free(p->uid);
	free(p->ips);
}

void endpoints_required_done(struct endpoints_required *w)
{
	for (size_t i = 0; i < w->n; i++)
		endpoint_done(&w->v[i]);
	free(w->v);
	*w = (struct endpoints_required){0};
}

static int by_name(const void *a, const void *b)
{
	const struct endpoint *x = a, *y = b;
	int r = strcmp(x->ns, y->ns);

	return r ? r : strcmp(x->name, y->name);
}

const struct endpoint *endpoints_required_find(const struct endpoints_required *w, const char *ns,
					       const char *name)
{
	const struct endpoint key = {.ns = (char *)ns, .name = (char *)name};

	return w->n ? bsearch(&key, w->v, w->n, sizeof(key), by_name) : NULL;
}

static bool counts(const struct lease *l)
{
	return (l->state == LEASE_USED || l->state == LEASE_RETAINED) && *l->pod_name &&
	       *l->pod_namespace;
}

/* Sorts leases by pod name, container and time of the request, and those of one request in the
 * natural order of their interfaces: net2 before net10. */
static int in_order(const void *a, const void *b)
{
	const struct lease *x = *(const struct lease *const *)a;
	const struct lease *y = *(const struct lease *const *)b;
	int r = strcmp(x->pod_namespace, y->pod_namespace);

	if (r == 0)
		r = strcmp(x->pod_name, y->pod_name);
	if (r == 0)
		r = strcmp(x->container_id, y->container_id);
	if (r == 0)
		r = (x->at_ms > y->at_ms) - (x->at_ms < y->at_ms);
	if (r == 0)
		r = strverscmp(x->ifname, y->ifname);
	return r ? r : (x > y) - (x < y);
}

static bool same_name(const struct lease *a, const struct lease *b)
{
	return strcmp(a->pod_name, b->pod_name) == 0 &&
	       strcmp(a->pod_namespace, b->pod_namespace) == 0;
}

/* A range of the sorted leases. */
struct part {
	const struct lease *const *v;
	size_t n;
};

static void put_routes(struct json_out *o, const struct pool *p)
{
	if (p->n_routes == 0)
		return;
	jo_key(o, "routes");
	jo_arr(o);
	for (size_t i = 0; i < p->n_routes; i++) {
		jo_obj(o);
		jo_kstr(o, "dst", ipnet_str(&p->routes[i].dst, (char[IP_TEXT_MAX]){0}));
		jo_kstr(o, "gw", ip_str(&p->routes[i].gw, (char[IP_TEXT_MAX]){0}));
		jo_end_obj(o);
	}
	jo_end_arr(o);
}

static const struct lease *find(const struct part *c, const char *ifname, uint8_t family)
{
	for (size_t i = 0; i < c->n; i++)
		if (c->v[i]->state == LEASE_USED && c->v[i]->address.ip.family == family &&
		    strcmp(c->v[i]->ifname, ifname) == 0)
			return c->v[i];
	return NULL;
}

static void put_address(struct json_out *o, const struct lease *l, const struct pool *p)
{
	bool v6 = l->address.ip.family == 6;

	jo_kstr(o, v6 ? "ipv6" : "ipv4", ipnet_str(&l->address, (char[IP_TEXT_MAX]){0}));
	jo_kstr(o, v6 ? "ipv6Pool" : "ipv4Pool", l->pool);
	if (p && p->gateway.family)
		jo_kstr(o, v6 ? "ipv6Gateway" : "ipv4Gateway",
			ip_str(&p->gateway, (char[IP_TEXT_MAX]){0}));
}

/* Writes routes of one family only, because the routes of the other family would need a second key
 * of the same name. */
static void put_interface(struct json_out *o, const struct part *c, const struct pool_set *s,
			  const char *ifname)
{
	const struct lease *l4 = find(c, ifname, 4), *l6 = find(c, ifname, 6);
	const struct pool *p4 = l4 ? pool_find(s, l4->pool) : NULL;
	const struct pool *p6 = l6 ? pool_find(s, l6->pool) : NULL;

	jo_obj(o);
	jo_kstr(o, "interface", ifname);
	if (l4)
		put_address(o, l4, p4);
	if (l6)
		put_address(o, l6, p6);
	if (p4 && p4->n_routes)
		put_routes(o, p4);
	else if (p6)
		put_routes(o, p6);
	jo_kint(o, "vlan", 0);
	jo_end_obj(o);
}

static bool is_first_of_interface(const struct part *c, size_t at)
{
	for (size_t i = 0; i < at; i++)
		if (c->v[i]->state == LEASE_USED && strcmp(c->v[i]->ifname, c->v[at]->ifname) == 0)
			return false;
	return true;
}

static char *ips_of(const struct part *c, const struct pool_set *s)
{
	struct json_out o;
	struct buf b;

	buf_init(&b, ENDPOINT_MAX);
	jo_init(&o, &b, 0);
	jo_arr(&o);
	for (size_t i = 0; i < c->n; i++)
		if (c->v[i]->state == LEASE_USED && is_first_of_interface(c, i))
			put_interface(&o, c, s, c->v[i]->ifname);
	jo_end_arr(&o);
	return buf_take(&b);
}

/* Returns the leases of the latest container of the name; n is 0 if no address of the name is
 * used. */
static struct part last_container(const struct part *name)
{
	struct part ret = {name->v, 0};
	const struct lease *last = NULL;

	for (size_t i = 0; i < name->n; i++)
		if (name->v[i]->state == LEASE_USED && (!last || name->v[i]->at_ms > last->at_ms))
			last = name->v[i];
	for (size_t i = 0; i < name->n && last; i++) {
		if (strcmp(name->v[i]->container_id, last->container_id) != 0)
			continue;
		if (ret.n++ == 0)
			ret.v = name->v + i;
	}
	return ret;
}

static struct endpoint endpoint_of(const struct part *name, const struct pool_set *s)
{
	const struct lease *any = name->v[0];
	struct part c = last_container(name);
	bool sticky = c.n == 0;

	for (size_t i = 0; i < c.n; i++)
		sticky |= c.v[i]->sticky;
	return (struct endpoint){
		.ns = xstrdup(any->pod_namespace),
		.name = xstrdup(any->pod_name),
		.uid = xstrdup(c.n ? c.v[0]->pod_uid : any->pod_uid),
		.ips = c.n ? ips_of(&c, s) : xstrdup("[]"),
		.retained = c.n == 0,
		.sticky = sticky,
	};
}

void endpoints_required(const struct lease_table *t, const struct pool_set *s,
			struct endpoints_required *ret)
{
	auto_free const struct lease **v = xcalloc(t->n + 1, sizeof(*v));
	size_t n = 0;

	*ret = (struct endpoints_required){0};
	for (size_t i = 0; i < t->n; i++)
		if (counts(&t->v[i]))
			v[n++] = &t->v[i];
	qsort(v, n, sizeof(*v), in_order);
	for (size_t i = 0, end; i < n; i = end) {
		struct part name = {v + i, 0};

		for (end = i; end < n && same_name(v[i], v[end]);)
			end++;
		name.n = end - i;
		VEC_PUSH(ret->v, ret->n) = endpoint_of(&name, s);
	}
}

/* --- JSON of a SpiderEndpoint --- */

/* Returns the name of the Deployment of a ReplicaSet's pod; NULL: it has none. The name of the
 * ReplicaSet is that of the Deployment, followed by the pod template hash. */
static char *deployment_of(const struct pod_facts *p)
{
	const char *hash = labels_get(&p->labels, "pod-template-hash");
	size_t n = strlen(p->owner_name), m = hash ? strlen(hash) : 0;

	if (m == 0 || n < m + 2 || p->owner_name[n - m - 1] != '-' ||
	    strcmp(p->owner_name + n - m, hash) != 0)
		return NULL;
	return span_dup((struct span){p->owner_name, n - m - 1});
}

static void put_owner(struct json_out *o, const struct pod_facts *p)
{
	bool set = p->owner_kind && p->owner_name;
	auto_free char *deployment =
		set && strcmp(p->owner_kind, "ReplicaSet") == 0 ? deployment_of(p) : NULL;

	jo_kstr(o, "ownerControllerName", deployment ? deployment : set ? p->owner_name : p->name);
	jo_kstr(o, "ownerControllerType", deployment ? "Deployment" : set ? p->owner_kind : "Pod");
}

static char *sorted(const struct json *v)
{
	struct json_out o;
	struct buf b;

	buf_init(&b, ENDPOINT_MAX);
	jo_init(&o, &b, 0);
	jo_val(&o, v, true);
	return buf_take(&b);
}

char *endpoint_status_of(const struct json *object)
{
	const struct json *status = json_get(object, "status");

	return json_kind(status) == JSON_OBJECT ? sorted(status) : xstrdup("");
}

char *endpoint_status(const struct endpoint *p, const struct pod_facts *pod, const char *node)
{
	auto_json struct json_doc *ips = NULL, *doc = NULL;
	auto_buf struct buf b;
	struct json_out o;

	buf_init(&b, ENDPOINT_MAX);
	jo_init(&o, &b, 0);
	if (json_parse(&ips, span_of(p->ips), ENDPOINT_MAX, NULL) < 0)
		return xstrdup("");
	jo_obj(&o);
	jo_key(&o, "current");
	jo_obj(&o);
	jo_key(&o, "ips");
	jo_val(&o, json_root(ips), false);
	jo_kstr(&o, "node", node);
	jo_kstr(&o, "uid", p->uid);
	jo_end_obj(&o);
	put_owner(&o, pod);
	jo_end_obj(&o);
	if (b.over || json_parse(&doc, buf_span(&b), ENDPOINT_MAX, NULL) < 0)
		return xstrdup("");
	return sorted(json_root(doc));
}

static void put_meta(struct json_out *o, const struct endpoint *p, const struct pod_facts *pod,
		     const char *label, bool create)
{
	jo_key(o, "labels");
	jo_obj(o);
	jo_kstr(o, LABEL_NODE, label);
	/* the pod uses the addresses that were retained for its name, so the label that requests
	 * their migration is removed */
	if (!create)
		jo_kstr(o, LABEL_REQUESTED_FROM, NULL);
	jo_end_obj(o);
	if (!create) {
		jo_key(o, "annotations");
		jo_obj(o);
		jo_kstr(o, ANNOTATION_REQUESTED_BY, NULL);
		jo_end_obj(o);
	}
	jo_key(o, "ownerReferences");
	jo_arr(o);
	if (!p->sticky) {
		jo_obj(o);
		jo_kstr(o, "apiVersion", "v1");
		jo_kstr(o, "kind", "Pod");
		jo_kstr(o, "name", pod->name);
		jo_kstr(o, "uid", pod->uid);
		jo_end_obj(o);
	}
	jo_end_arr(o);
}

static char *body(const struct endpoint *p, const struct pod_facts *pod, const char *node,
		  const char *label, bool create)
{
	auto_free char *status = endpoint_status(p, pod, node);
	struct json_out o;
	struct buf b;

	buf_init(&b, ENDPOINT_MAX);
	buf_str(&b, "{");
	if (create)
		buf_printf(&b, "\"apiVersion\":\"%s\",\"kind\":\"SpiderEndpoint\",",
			   SPIDERPOOL_API);
	buf_str(&b, "\"metadata\":");
	jo_init(&o, &b, 0);
	jo_obj(&o);
	if (create)
		jo_kstr(&o, "name", p->name);
	put_meta(&o, p, pod, label, create);
	/* Removes Spiderpool's finalizer. Usually Spiderpool's controller does that, but it may
	 * have been uninstalled; unirail needs no finalizer here. */
	if (!create) {
		jo_key(&o, "finalizers");
		jo_null(&o);
	}
	jo_end_obj(&o);
	buf_printf(&b, ",\"status\":%s}", status);
	return buf_take(&b);
}

char *endpoint_create_text(const struct endpoint *p, const struct pod_facts *pod, const char *node,
			   const char *label)
{
	return body(p, pod, node, label, true);
}

char *endpoint_patch_text(const struct endpoint *p, const struct pod_facts *pod, const char *node,
			  const char *label)
{
	return body(p, pod, node, label, false);
}
