/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/network/plan.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "spec/annotations.h"

/* CONFIG_MAX: limit in bytes of the configurations of all networks of a pod together.
 * RESOURCES_MAX: limit in bytes of the list of resources in a warning. */
enum { CONFIG_MAX = 1 << 20, RESOURCES_MAX = 300 };

void net_plan_done(struct net_plan *p)
{
	for (size_t i = 0; i < p->n; i++) {
		free(p->v[i].ns);
		free(p->v[i].name);
		free(p->v[i].ifname);
		free(p->v[i].resource);
		free(p->v[i].device);
		free(p->v[i].requested);
		json_free(p->v[i].config);
	}
	for (size_t i = 0; i < p->n_warnings; i++)
		free(p->warnings[i]);
	free(p->v);
	free(p->warnings);
	net_select_done(&p->first);
	net_select_done(&p->requested);
	*p = (struct net_plan){0};
}

struct planning {
	const struct net_request *w;
	const struct pod_facts *pod;
	const struct net_lookup *l;
	struct net_plan *p;
};

static char *label(const struct net_choice *c)
{
	return c->ns ? xasprintf("%s/%s", c->ns, c->name) : xstrdup(c->name);
}

/* --- adding one network to the plan --- */

/* A string of whitespace counts as no configuration. Each use of a definition is parsed again and
 * counts towards the limit, since a pod may name a large definition for each interface. */
static int take_config(const struct planning *t, struct net_choice *c, const char *text,
		       struct err *e)
{
	struct span s = span_trim(span_of(text));
	int r;

	if (!s.n)
		return 0;
	t->p->config_bytes += s.n;
	if (t->p->config_bytes > CONFIG_MAX)
		return err_kind(e, ERR_CONF, -E2BIG,
				"the configurations of the pod's networks together exceed %d "
				"bytes: request fewer networks, or make their definitions smaller",
				CONFIG_MAX);
	r = json_parse(&c->config, s, CONFIG_MAX, e);
	if (r < 0 && e)
		e->kind = ERR_CONF;
	if (r < 0)
		return err_wrap(e, r,
				"spec.config of the network-attachment-definition is not JSON");
	if (json_kind(json_root(c->config)) != JSON_OBJECT)
		return json_wants(json_root(c->config),
				  "spec.config of the network-attachment-definition", "an object",
				  e);
	return 0;
}

static struct net_choice *push(const struct planning *t, const char *ns, const char *name)
{
	struct net_choice *c = &VEC_PUSH(t->p->v, t->p->n);

	c->ns = ns ? xstrdup(ns) : NULL;
	c->name = xstrdup(name);
	return c;
}

/* A definition in multusNamespace counts as written by an administrator, since the default networks
 * come from there, unless an annotation of that namespace denies trust or the cache does not
 * have the namespace. The admission webhook has the same rule. */
static int take_nad(const struct planning *t, const struct net_nad *nad, struct net_choice *c,
		    struct err *e)
{
	if (nad->left_out)
		return err_kind(
			e, ERR_CONF, -EFBIG,
			"the agent does not store the network-attachment-definition of %zu "
			"bytes, because of a size limit (256 KiB for one definition, 1 MiB for "
			"those of a namespace, 8 MiB in all): make the definition smaller, or "
			"delete other definitions and change this definition again",
			nad->left_out);
	c->trusted = nad->trusted || (!nad->distrusted && strcmp(c->ns, t->w->multus_ns) == 0);
	c->resource = nad->resource && *nad->resource ? xstrdup(nad->resource) : NULL;
	return take_config(t, c, nad->config, e);
}

static int add_requested(const struct planning *t, const struct network_request *request,
			 const char *annotation, struct err *e)
{
	struct net_choice *c = push(t, request->ns, request->name);
	struct net_nad nad = {0};
	int r = 0;

	c->request = request;
	if (t->l->nad(t->l->arg, request->ns, request->name, &nad)) {
		r = take_nad(t, &nad, c, e);
	} else {
		t->p->lacks_nad = true;
		r = err_kind(e, ERR_CONF, -ENOENT,
			     "cannot find a network-attachment-definition (%s) in namespace (%s)",
			     request->name, request->ns);
	}
	return r < 0 ? err_wrap(e, r, "network '%s/%s' (annotation %s)", request->ns, request->name,
				annotation)
		     : 0;
}

/* Adds the network of clusterNetwork or of an element of defaultNetworks: the name of a
 * definition, the network name in a CNI configuration file, or a path. */
static int add_named(const struct planning *t, const char *name, const char *key, struct err *e)
{
	const char *ns = t->w->multus_ns;
	struct net_nad nad = {0};
	int r;

	if (strchr(name, '/') || !t->l->nad(t->l->arg, ns, name, &nad)) {
		push(t, NULL, name);
		return 0;
	}
	r = take_nad(t, &nad, push(t, ns, name), e);
	return r < 0 ? err_wrap(e, r, "network '%s/%s' (conf.%s)", ns, name, key) : 0;
}

/* --- selection of the pod's networks --- */

static int select_from(const struct planning *t, const char *annotation, const char *ns,
		       struct net_select *ret, struct err *e)
{
	const char *text = labels_get(&t->pod->annotations, annotation);
	int r = net_select_parse(text, ns, ret, e);

	return r < 0 ? err_wrap(e, r, "annotation %s", annotation) : 0;
}

static int choose_first(const struct planning *t, struct err *e)
{
	struct net_plan *p = t->p;
	int r = select_from(t, ANNOTATION_DEFAULT_NETWORK, t->w->multus_ns, &p->first, e);

	if (r < 0)
		return r;
	if (p->first.n > 1)
		return err_kind(e, ERR_CONF, -EINVAL,
				"annotation " ANNOTATION_DEFAULT_NETWORK
				": more than one default network is specified");
	p->has_first = p->first.n || t->w->cluster_network;
	p->replaces_first = p->first.n && t->w->n_netconf > 0;
	if (p->first.n)
		return add_requested(t, p->first.v, ANNOTATION_DEFAULT_NETWORK, e);
	return t->w->cluster_network ? add_named(t, t->w->cluster_network, "clusterNetwork", e) : 0;
}

static int choose_defaults(const struct planning *t, struct err *e)
{
	int r = 0;

	if (json_strs_has(&t->w->system_ns, t->pod->ns))
		return 0;
	for (size_t i = 0; r == 0 && i < t->w->defaults.n; i++)
		r = add_named(t, t->w->defaults.v[i], "defaultNetworks", e);
	return r;
}

static bool is_global(const char *list, const char *ns)
{
	struct span rest = span_of(list), one;

	while (span_cut(&rest, ',', &one))
		if (span_eq(span_trim(one), ns))
			return true;
	return false;
}

static int check_isolation(const struct planning *t, const struct network_request *a, struct err *e)
{
	if (!t->w->isolation || strcmp(a->ns, t->pod->ns) == 0 || is_global(t->w->global_ns, a->ns))
		return 0;
	return err_kind(e, ERR_CONF, -EPERM,
			"namespace isolation enabled, annotation violates permission, pod is in "
			"namespace %s but refers to target namespace %s (network '%s')",
			t->pod->ns, a->ns, a->name);
}

static int choose_requested(const struct planning *t, struct err *e)
{
	struct net_select *s = &t->p->requested;
	int r = select_from(t, ANNOTATION_NETWORKS, t->pod->ns, s, e);

	for (size_t i = 0; r == 0 && i < s->n; i++) {
		r = check_isolation(t, &s->v[i], e);
		if (r == 0)
			r = add_requested(t, &s->v[i], ANNOTATION_NETWORKS, e);
	}
	return r;
}

/* --- names of the interfaces --- */

static void name_interfaces(const struct planning *t)
{
	struct net_plan *p = t->p;
	size_t place = t->w->n_netconf > 0 ? (size_t)t->w->n_netconf : 1;

	for (size_t i = 0; i < p->n; i++) {
		const struct network_request *request = p->v[i].request;
		bool first = i == 0 && p->has_first;

		if (request && request->ifname)
			p->v[i].ifname = xstrdup(request->ifname);
		else if (!first)
			p->v[i].ifname = xasprintf("net%zu", place);
		place += !first;
	}
}

/* Compares all pairs: NET_SELECT_MAX and defaultNetworks limit their number. */
static int check_interfaces(const struct planning *t, struct err *e)
{
	const struct net_plan *p = t->p;

	for (size_t i = 0; i < p->n; i++)
		for (size_t k = 0; k <= i; k++) {
			const char *is = p->v[i].ifname ? p->v[i].ifname : t->w->ifname;
			const char *other = p->v[k].ifname ? p->v[k].ifname : t->w->ifname;
			auto_free char *a = NULL, *b = NULL;

			if (i == k ? p->has_first || strcmp(is, t->w->ifname) != 0
				   : strcmp(is, other) != 0)
				continue;
			a = label(&p->v[k]);
			b = label(&p->v[i]);
			if (i == k)
				return err_kind(e, ERR_CONF, -EEXIST,
						"network '%s' requests interface '%s', which the "
						"pod's first network uses",
						b, is);
			return err_kind(e, ERR_CONF, -EEXIST,
					"interface '%s' is used twice, for network '%s' and "
					"for network '%s'",
					is, a, b);
		}
	return 0;
}

static int check_uid(const struct planning *t, struct err *e)
{
	const char *uid = t->w->pod_uid;

	if (!*t->pod->uid)
		return err_kind(e, ERR_CONF, -EINVAL, "the pod has no UID");
	if (!uid || !*uid || strcmp(uid, t->pod->uid) == 0 || pod_is_static(t->pod))
		return 0;
	return err_kind(e, ERR_AGAIN, -ESTALE,
			"expected pod UID \"%s\" but got \"%s\" from Kube API", uid, t->pod->uid);
}

int net_plan_make(const struct net_request *w, const struct pod_facts *pod,
		  const struct net_lookup *l, struct net_plan *ret, struct err *e)
{
	const struct planning t = {w, pod, l, ret};
	int r;

	*ret = (struct net_plan){0};
	r = check_uid(&t, e);
	if (r == 0)
		r = choose_first(&t, e);
	if (r == 0)
		r = choose_defaults(&t, e);
	if (r == 0)
		r = choose_requested(&t, e);
	if (r == 0) {
		name_interfaces(&t);
		r = check_interfaces(&t, e);
	}
	return r < 0 ? err_wrap(e, r, "pod '%s/%s'", pod->ns, pod->name) : 0;
}

/* --- devices of the networks --- */

static const char *requested_device(const struct net_choice *c)
{
	return c->request ? c->request->device_id : NULL;
}

bool net_plan_wants_devices(const struct net_plan *p)
{
	for (size_t i = 0; i < p->n; i++)
		if (p->v[i].resource || requested_device(&p->v[i]))
			return true;
	return false;
}

static void warn(struct net_plan *p, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void warn(struct net_plan *p, const char *fmt, ...)
{
	auto_buf struct buf b;
	va_list ap;

	buf_init(&b, ERR_TEXT_MAX);
	va_start(ap, fmt);
	buf_vprintf(&b, fmt, ap);
	va_end(ap);
	VEC_PUSH(p->warnings, p->n_warnings) = buf_take(&b);
}

/* Returns the deviceID of the annotation if the pod may use it; NULL: none is requested, or the
 * kubelet did not allocate it. */
static const char *authorize_device(struct net_plan *p, const struct net_choice *c,
				    const struct allocated *a)
{
	const char *id = requested_device(c), *resource = c->resource;

	if (!id || allocated_has(a, resource, id))
		return id;
	warn(p,
	     "network '%s/%s': ignoring deviceID '%s' of the pod's annotation: the kubelet did "
	     "not allocate this device%s%s%s to the pod (request the device in a container's "
	     "limits)",
	     c->ns, c->name, id, resource ? " of resource '" : "", resource ? resource : "",
	     resource ? "'" : "");
	return NULL;
}

/* The limits of the pod's containers may name a resource that differs from the definition's, so the
 * warning names both. */
static void warn_no_device(struct net_plan *p, const struct net_choice *c,
			   const struct allocated *a)
{
	auto_buf struct buf has;

	buf_init(&has, RESOURCES_MAX);
	for (size_t i = 0; i < a->n; i++)
		buf_printf(&has, "%s'%s' (%zu)", i ? ", " : "", a->v[i].resource, a->v[i].n);
	warn(p,
	     "network '%s/%s': the pod has no device of resource '%s' left: its containers have "
	     "%s%s; add %s to a container's limits",
	     c->ns, c->name, c->resource, has.len ? "devices of " : "none at all",
	     has.len ? has.p : "", c->resource);
}

void net_plan_devices(struct net_plan *p, struct allocated *a)
{
	for (size_t i = 0; i < p->n; i++) {
		struct net_choice *c = &p->v[i];
		const char *id = c->resource ? allocated_take(a, c->resource) : NULL;
		const char *requested = authorize_device(p, c, a);

		/* As in Multus: the device allocated for the network takes precedence. */
		if (id)
			c->device = xstrdup(id);
		else if (requested)
			c->requested = xstrdup(requested);
		else if (c->resource)
			warn_no_device(p, c, a);
	}
}

/* --- writes the plan as JSON for the CNI process --- */

static void put_text(struct json_out *o, const char *key, const char *text)
{
	if (text)
		jo_kstr(o, key, text);
}

static void put_val(struct json_out *o, const char *key, const struct json *v)
{
	if (json_kind(v) == JSON_NULL)
		return;
	jo_key(o, key);
	jo_val(o, v, false);
}

static void put_strs(struct json_out *o, const char *key, const struct json_strs *l)
{
	if (!l->n)
		return;
	jo_key(o, key);
	jo_strs(o, l);
}

static void put_request(struct json_out *o, const struct network_request *a)
{
	put_text(o, "mac", a->mac);
	put_text(o, "infinibandGUID", a->guid);
	put_strs(o, "ips", &a->ips);
	put_strs(o, "defaultRoute", &a->routes);
	put_val(o, "portMappings", a->ports);
	put_val(o, "bandwidth", a->bandwidth);
	put_val(o, "cniArgs", a->cni_args);
}

static void put_choice(struct json_out *o, const struct net_choice *c)
{
	auto_free char *nad = c->ns ? xasprintf("%s/%s", c->ns, c->name) : NULL;

	jo_obj(o);
	put_text(o, "nad", nad);
	jo_kstr(o, !nad && strchr(c->name, '/') ? "path" : "name", c->name);
	put_text(o, "ifname", c->ifname);
	put_text(o, "resource", c->resource);
	put_text(o, "deviceID", c->device);
	put_text(o, "requestedDeviceID", c->requested);
	if (c->request)
		put_request(o, c->request);
	if (c->config)
		put_val(o, "config", json_root(c->config));
	if (c->trusted)
		jo_kbool(o, "trusted", true);
	jo_end_obj(o);
}

void net_plan_put(const struct net_plan *p, struct json_out *o)
{
	jo_key(o, "networks");
	jo_arr(o);
	for (size_t i = 0; i < p->n; i++)
		put_choice(o, &p->v[i]);
	jo_end_arr(o);
	jo_kbool(o, "replacesFirst", p->replaces_first);
	jo_kstrs(o, "warnings", p->warnings, p->n_warnings);
}
