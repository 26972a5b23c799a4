/* SPDX-License-Identifier: Apache-2.0 */
#include "spec/pool_annotation.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/log.h"
#include "base/option.h"
#include "spec/annotations.h"
#include "spec/subnet_annotation.h"
#include "wire/json/json.h"

enum { ANNOTATIONS_MAX = 256 << 10 }; /* the API server's limit for all annotations of an object */

/* An annotation, and the pod or namespace that has it (for error and log messages). */
struct annotation {
	const char *key, *value;
	bool of_namespace;
	const char *ns, *name;
};

/* An entry of the annotation `ippools`, or the content of `ippool`. */
struct pod_entry {
	char *ifname; /* NULL: the entry names no interface */
	struct pod_pool_request request;
};

struct pod_entries {
	struct pod_entry *v;
	size_t n;
	bool each; /* there is only one entry, v[0], which applies to every interface */
};

void pod_pool_request_done(struct pod_pool_request *w)
{
	str_list_free(w->pools4, w->n_pools4);
	str_list_free(w->pools6, w->n_pools6);
	*w = (struct pod_pool_request){0};
}

void pod_pool_request_put(const struct pod_pool_request *w, struct ip_request *a)
{
	a->pools4 = (const char *const *)w->pools4;
	a->n_pools4 = w->n_pools4;
	a->pools6 = (const char *const *)w->pools6;
	a->n_pools6 = w->n_pools6;
	a->no4 = w->no4;
	a->no6 = w->no6;
	a->clean_gateway = w->clean_gateway;
}

/* Adds the name if the list does not have it. */
static void pod_names_add(char ***v, size_t *n, const char *name)
{
	for (size_t i = 0; i < *n; i++)
		if (strcmp((*v)[i], name) == 0)
			return;
	VEC_PUSH(*v, *n) = xstrdup(name);
}

static void copy(char ***v, size_t *n, const char *const *from, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (*from[i])
			pod_names_add(v, n, from[i]);
}

/* --- parsing of annotations --- */

/* Sets the error "pod 'a/b': wrong input, invalid format of Pod annotation 'KEY': ...", or for
 * an annotation of a namespace "namespace 'a': ...". */
static int annotation_error(const struct annotation *n, struct err *e, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
static int annotation_error(const struct annotation *n, struct err *e, const char *fmt, ...)
{
	char text[ERR_TEXT_MAX];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	if (n->of_namespace)
		return err_kind(
			e, ERR_CONF, -EINVAL,
			"namespace '%s': wrong input, invalid format of Namespace annotation "
			"'%s': %s",
			n->ns, n->key, text);
	return err_kind(e, ERR_CONF, -EINVAL,
			"pod '%s/%s': wrong input, invalid format of Pod annotation '%s': %s",
			n->ns, n->name, n->key, text);
}

static void annotation_log_default(const struct annotation *n, const char *what, const char *as)
{
	log_limited(LOG_WARN, 3, "accepting an annotation of another form than documented",
		    LOG_S("namespace", n->ns), LOG_S("pod", n->of_namespace ? "" : n->name),
		    LOG_S("annotation", n->key), LOG_S("value", what), LOG_S("interpreted_as", as));
}

static int annotation_parse(const struct annotation *n, struct json_doc **ret, struct err *e)
{
	struct err reason = ERR_INIT;

	if (json_parse(ret, span_of(n->value), ANNOTATIONS_MAX, &reason) < 0)
		return annotation_error(n, e, "%s", reason.text);
	return 0;
}

/* Reads a list of names, or one name. place: path of v within the annotation, for example
 * "[1].ipv4"; "": v is the whole annotation. */
static int read_names(const struct annotation *n, const struct json *v, const char *place,
		      char ***ret, size_t *count, struct err *e)
{
	struct json_walk w = json_walk_start(v);
	const struct json *x;

	if (json_kind(v) == JSON_NULL)
		return 0;
	if (json_string(v) && *json_string(v)) {
		annotation_log_default(n, "a name", "a list of one name");
		pod_names_add(ret, count, json_string(v));
		return 0;
	}
	if (json_kind(v) != JSON_ARRAY)
		return annotation_error(
			n, e, "%s%sis %s, expected a list of pool names such as [\"rail0\"]", place,
			*place ? " " : "it ", json_kind_name(v));
	for (size_t i = 0; (x = json_walk_next(&w, NULL)); i++) {
		if (!json_string(x) || !*json_string(x))
			return annotation_error(n, e, "%s[%zu] is %s, expected the name of a pool",
						place, i,
						json_string(x) ? "empty" : json_kind_name(x));
		pod_names_add(ret, count, json_string(x));
	}
	return 0;
}

/* Reads an annotation that is a list of pool names, for example ["p"], or one pool name. */
static int pod_names_read(const struct annotation *n, char ***ret, size_t *count, struct err *e)
{
	auto_json struct json_doc *doc = NULL;
	struct span text = span_trim(span_of(n->value));
	int r;

	if (text.n == 0)
		return 0;
	/* Accepts one name without quotes and brackets, although it is not JSON. */
	if (strcspn(n->value, "[]{}\"', \t\n") == strlen(n->value) &&
	    strcmp(n->value, "null") != 0) {
		annotation_log_default(n, "a name", "a list of one name");
		pod_names_add(ret, count, n->value);
		return 0;
	}
	r = annotation_parse(n, &doc, e);
	return r < 0 ? r : read_names(n, json_root(doc), "", ret, count, e);
}

static void warn_unknown(const struct annotation *n, const struct json *v)
{
	static const char *const known[] = {"interface", "ipv4", "ipv6", "cleangateway"};
	struct json_walk w = json_walk_start(v);
	const char *key;

	while (json_walk_next(&w, &key)) {
		size_t i = 0;

		while (i < ARRAY_LEN(known) && strcasecmp(known[i], key) != 0)
			i++;
		if (i == ARRAY_LEN(known))
			log_limited(LOG_WARN, 3,
				    "an annotation has an unknown key, which is "
				    "ignored",
				    LOG_S("namespace", n->ns), LOG_S("pod", n->name),
				    LOG_S("annotation", n->key), LOG_S("key", key));
	}
}

static int read_lists(const struct annotation *n, const struct json *v, const char *at,
		      struct pod_pool_request *w, struct err *e)
{
	char place[64];
	int r;

	snprintf(place, sizeof(place), "%s%sipv4", at, *at ? "." : "");
	r = read_names(n, json_get_go(v, "ipv4"), place, &w->pools4, &w->n_pools4, e);
	snprintf(place, sizeof(place), "%s%sipv6", at, *at ? "." : "");
	if (r == 0)
		r = read_names(n, json_get_go(v, "ipv6"), place, &w->pools6, &w->n_pools6, e);
	if (r == 0 && w->n_pools4 + w->n_pools6 == 0)
		r = annotation_error(n, e,
				     "%s%snames no pool: give \"ipv4\" or \"ipv6\" a list of names",
				     at, *at ? " " : "it ");
	return r;
}

static int read_entry(const struct annotation *n, const struct json *v, const char *at,
		      struct pod_entry *x, struct err *e)
{
	const struct json *ifname = json_get_go(v, "interface");
	const struct json *clean = json_get_go(v, "cleangateway");

	if (json_kind(v) != JSON_OBJECT)
		return annotation_error(
			n, e, "%s%sis %s, expected an object such as {\"ipv4\":[\"rail0\"]}", at,
			*at ? " " : "it ", json_kind_name(v));
	warn_unknown(n, v);
	if (json_kind(ifname) != JSON_NULL && !json_string(ifname))
		return annotation_error(n, e, "%s.interface is %s, expected a string", at,
					json_kind_name(ifname));
	if (json_kind(clean) != JSON_NULL && json_kind(clean) != JSON_BOOL)
		return annotation_error(n, e, "%s.cleangateway is %s, expected true or false", at,
					json_kind_name(clean));
	if (json_string(ifname) && *json_string(ifname))
		x->ifname = xstrdup(json_string(ifname));
	x->request.clean_gateway = json_bool(clean);
	return read_lists(n, v, at, &x->request, e);
}

static int check_names(const struct annotation *n, const struct pod_entries *l, struct err *e)
{
	for (size_t i = 0; i < l->n; i++) {
		if (!l->v[i].ifname != !l->v[0].ifname)
			return annotation_error(
				n, e,
				"NIC should be either all specified or all unspecified: [%zu] "
				"names %s interface, unlike [0]",
				i, l->v[i].ifname ? "its" : "no");
		for (size_t j = 0; j < i && l->v[i].ifname; j++)
			if (strcmp(l->v[i].ifname, l->v[j].ifname) == 0)
				return annotation_error(
					n, e, "duplicate interface %s: [%zu] and [%zu] name it",
					l->v[i].ifname, j, i);
	}
	return 0;
}

static int read_list(const struct annotation *n, const struct json *list, struct pod_entries *ret,
		     struct err *e)
{
	struct json_walk w = json_walk_start(list);
	const struct json *v;
	int r = 0;

	while (r == 0 && (v = json_walk_next(&w, NULL))) {
		char at[32];

		snprintf(at, sizeof(at), "[%zu]", ret->n);
		r = read_entry(n, v, at, &VEC_PUSH(ret->v, ret->n), e);
	}
	if (r == 0 && ret->n == 0)
		return annotation_error(n, e, "value requires at least one item");
	return r == 0 ? check_names(n, ret, e) : r;
}

static int read_one(const struct annotation *n, const struct json *v, struct pod_entries *ret,
		    struct err *e)
{
	int r = read_entry(n, v, "", &VEC_PUSH(ret->v, ret->n), e);

	ret->each = r == 0 && !ret->v[0].ifname;
	return r;
}

/* Accepts both forms for both annotations: a list, the form of `ippools`, and an object, the
 * form of `ippool`. Warns if the value has the form of the other annotation. */
static int read_annotation(const struct annotation *n, bool is_list, struct pod_entries *ret,
			   struct err *e)
{
	auto_json struct json_doc *doc = NULL;
	int r = annotation_parse(n, &doc, e);
	const struct json *v;

	if (r < 0)
		return r;
	v = json_root(doc);
	if (is_list && json_kind(v) == JSON_OBJECT)
		annotation_log_default(n, "an object",
				       json_get_go(v, "interface") ? "a list of one object"
								   : ANNOTATION_IPPOOL);
	else if (!is_list && json_kind(v) == JSON_ARRAY)
		annotation_log_default(n, "a list", ANNOTATION_IPPOOLS);
	else if (json_kind(v) != JSON_OBJECT && json_kind(v) != JSON_ARRAY)
		return annotation_error(n, e, "it is %s, expected %s", json_kind_name(v),
					is_list ? "[{\"interface\":\"net1\",\"ipv4\":[\"rail0\"]}]"
						: "{\"ipv4\":[\"rail0\"]}");
	return json_kind(v) == JSON_ARRAY ? read_list(n, v, ret, e) : read_one(n, v, ret, e);
}

static void pod_entries_done(struct pod_entries *l)
{
	for (size_t i = 0; i < l->n; i++) {
		free(l->v[i].ifname);
		pod_pool_request_done(&l->v[i].request);
	}
	free(l->v);
	*l = (struct pod_entries){0};
}

/* Reads the annotation `ippools`, or `ippool` if the pod has no `ippools`; sets ret->n to 0 if
 * the pod has neither annotation. */
static int pod_entries_read(const struct pod_facts *p, struct pod_entries *ret, struct err *e)
{
	const char *list = labels_get(&p->annotations, ANNOTATION_IPPOOLS);
	const char *one = labels_get(&p->annotations, ANNOTATION_IPPOOL);
	struct annotation n = {list ? ANNOTATION_IPPOOLS : ANNOTATION_IPPOOL, list ? list : one,
			       false, p->ns, p->name};
	struct pod_entries l = {0};
	int r = n.value ? read_annotation(&n, list != NULL, &l, e) : 0;

	if (r < 0) {
		pod_entries_done(&l);
		return r;
	}
	*ret = l;
	return 0;
}

/* --- selection of the annotation or default that determines the pools of an interface --- */

static int position_of(const struct pod_pools_facts *f, const struct pod_nic *nic)
{
	for (size_t i = 0; i < f->n_names; i++)
		if (strcmp(f->names[i], nic->ifname) == 0)
			return (int)i;
	return nic->position;
}

static const struct pod_entry *entry_named(const struct pod_entries *l, const char *ifname)
{
	for (size_t i = 0; i < l->n; i++)
		if (strcmp(l->v[i].ifname, ifname) == 0)
			return &l->v[i];
	return NULL;
}

static int not_named(const struct annotation *n, const struct pod_entries *l, const char *ifname,
		     struct err *e)
{
	auto_free const char **names = xcalloc(l->n, sizeof(*names));
	const char *near;

	for (size_t i = 0; i < l->n; i++)
		names[i] = l->v[i].ifname;
	near = opt_suggest(ifname, names, l->n);
	if (near)
		return annotation_error(
			n, e,
			"interface %s must be specified: is '%s' meant for it? Else add "
			"an entry for it",
			ifname, near);
	return annotation_error(n, e, "interface %s must be specified: add an entry for it",
				ifname);
}

static int entry_for(const struct pod_pools_facts *f, const struct annotation *n,
		     const struct pod_entries *l, const struct pod_nic *nic,
		     const struct pod_entry **ret, struct err *e)
{
	int at = position_of(f, nic);

	if (l->each || (!l->v[0].ifname && l->n == 1 && at < 0)) {
		*ret = &l->v[0];
		return 0;
	}
	if (l->v[0].ifname) {
		*ret = entry_named(l, nic->ifname);
		return *ret ? 0 : not_named(n, l, nic->ifname, e);
	}
	if (at < 0)
		return annotation_error(
			n, e,
			"which of its %zu entries is for interface %s is ambiguous: "
			"give each entry its \"interface\"",
			l->n, nic->ifname);
	if ((size_t)at >= l->n)
		return annotation_error(
			n, e,
			"it has %zu entries, and interface %s is number %d of the pod's "
			"interfaces that get addresses: add an entry for it",
			l->n, nic->ifname, at + 1);
	*ret = &l->v[at];
	return 0;
}

static void warn_strangers(const struct pod_pools_facts *f, const struct annotation *n,
			   const struct pod_entries *l)
{
	for (size_t i = 0; i < l->n && f->n_names > 0 && l->v[0].ifname; i++) {
		size_t k = 0;

		while (k < f->n_names && strcmp(f->names[k], l->v[i].ifname) != 0)
			k++;
		if (k == f->n_names)
			log_limited(
				LOG_WARN, 3,
				"an annotation has pools for an interface that the pod does not have",
				LOG_S("namespace", n->ns), LOG_S("pod", n->name),
				LOG_S("annotation", n->key), LOG_S("interface", l->v[i].ifname));
	}
}

static int from_entries(const struct pod_pools_facts *f, const struct pod_entries *l,
			const struct pod_nic *nics, size_t n, struct pod_pool_request *ret,
			struct err *e)
{
	bool list = labels_get(&f->pod->annotations, ANNOTATION_IPPOOLS) != NULL;
	struct annotation annotation = {list ? ANNOTATION_IPPOOLS : ANNOTATION_IPPOOL, NULL, false,
					f->pod->ns, f->pod->name};

	warn_strangers(f, &annotation, l);
	for (size_t i = 0; i < n; i++) {
		const struct pod_entry *x;
		int r = entry_for(f, &annotation, l, &nics[i], &x, e);

		if (r < 0)
			return r;
		copy(&ret[i].pools4, &ret[i].n_pools4, (const char *const *)x->request.pools4,
		     x->request.n_pools4);
		copy(&ret[i].pools6, &ret[i].n_pools6, (const char *const *)x->request.pools6,
		     x->request.n_pools6);
		ret[i].clean_gateway = l->each ? nics[i].conf_clean : x->request.clean_gateway;
		ret[i].from = list ? "annotation " ANNOTATION_IPPOOLS
				   : "annotation " ANNOTATION_IPPOOL;
	}
	return 0;
}

static int from_namespace(const struct pod_pools_facts *f, struct pod_pool_request *ret,
			  struct err *e)
{
	struct annotation n = {ANNOTATION_DEFAULT_IPPOOL4,
			       labels_get(f->ns_annotations, ANNOTATION_DEFAULT_IPPOOL4), true,
			       f->pod->ns, f->pod->name};
	int r = n.value ? pod_names_read(&n, &ret->pools4, &ret->n_pools4, e) : 0;

	n.key = ANNOTATION_DEFAULT_IPPOOL6;
	n.value = labels_get(f->ns_annotations, ANNOTATION_DEFAULT_IPPOOL6);
	if (r == 0 && n.value)
		r = pod_names_read(&n, &ret->pools6, &ret->n_pools6, e);
	ret->from = "annotations " ANNOTATION_DEFAULT_IPPOOL4 " and " ANNOTATION_DEFAULT_IPPOOL6
		    " of the namespace";
	return r;
}

static int from_others(const struct pod_pools_facts *f, const struct pod_nic *nic,
		       struct pod_pool_request *ret, struct err *e)
{
	int r;

	if (!f->ns_annotations)
		return err_kind(e, ERR_AGAIN, -EAGAIN,
				"pod '%s/%s': its namespace is not known yet, and the namespace's "
				"annotations may name pools for interface %s",
				f->pod->ns, f->pod->name, nic->ifname);
	r = from_namespace(f, ret, e);
	ret->clean_gateway = nic->conf_clean;
	if (r < 0 || ret->n_pools4 + ret->n_pools6 > 0)
		return r;
	copy(&ret->pools4, &ret->n_pools4, nic->conf4, nic->n_conf4);
	copy(&ret->pools6, &ret->n_pools6, nic->conf6, nic->n_conf6);
	ret->from = ret->n_pools4 + ret->n_pools6 > 0 ? "the network's configuration"
						      : "the default pools";
	return 0;
}

static void drop(char ***v, size_t *n)
{
	str_list_free(*v, *n);
	*v = NULL;
	*n = 0;
}

/* Removes the pools of a disabled IP family. Fails if the request named pools and none remains:
 * an empty list would select the default pools. */
static int drop_families(const struct pod_pools_facts *f, const struct pod_nic *nic,
			 struct pod_pool_request *w, struct err *e)
{
	bool listed = w->n_pools4 + w->n_pools6 > 0;

	w->no4 = f->conf.no4;
	w->no6 = f->conf.no6;
	if (w->no4)
		drop(&w->pools4, &w->n_pools4);
	if (w->no6)
		drop(&w->pools6, &w->n_pools6);
	if (!listed || w->n_pools4 + w->n_pools6 > 0)
		return 0;
	return err_kind(
		e, ERR_CONF, -EINVAL,
		"pod '%s/%s': interface %s: %s names pools of IPv%d only, which is disabled in "
		"this cluster",
		f->pod->ns, f->pod->name, nic->ifname, w->from, w->no4 ? 4 : 6);
}

/* Checks the subnet annotations; returns 1 if the pod uses pools created for its application. */
static int pod_pools_check_subnets(const struct pod_pools_facts *f, struct err *e)
{
	const struct labels *l = &f->pod->annotations;
	const char *key = labels_get(l, ANNOTATION_SUBNETS)  ? ANNOTATION_SUBNETS
			  : labels_get(l, ANNOTATION_SUBNET) ? ANNOTATION_SUBNET
							     : NULL;

	if (!key)
		return 0;
	if (f->conf.subnets && !f->conf.auto_pools)
		return err_kind(e, ERR_CONF, -EINVAL,
				"pod '%s/%s': it's invalid to use '" ANNOTATION_SUBNETS
				"' or '" ANNOTATION_SUBNET
				"' annotation when Auto-Pool feature is disabled: name pools with "
				"annotation '" ANNOTATION_IPPOOL "'",
				f->pod->ns, f->pod->name);
	if (!f->conf.subnets) {
		log_limited(LOG_WARN, 3, "an annotation is ignored: SpiderSubnet is disabled",
			    LOG_S("namespace", f->pod->ns), LOG_S("pod", f->pod->name),
			    LOG_S("annotation", key));
		return 0;
	}
	if (!f->autos.app)
		return err_kind(e, ERR_CONF, -EINVAL,
				"pod '%s/%s': SpiderSubnet feature doesn't support no-controller "
				"pod: annotation '%s' is for the template of a Deployment or the "
				"like",
				f->pod->ns, f->pod->name, key);
	return 1;
}

static int not_made(const struct pod_pools_facts *f, const struct auto_pool_request *w,
		    const char *subnet, const char *ifname, uint8_t family, struct err *e)
{
	const struct app_id *app = f->autos.app;

	if (!app_id_is_known(app) && !w->fixed)
		return err_kind(e, ERR_CONF, -EINVAL,
				"%s/%s/%s only supports fixed auto-created IPPool IP Number: its "
				"pod template needs annotation '" ANNOTATION_POOL_NUMBER
				"' with a number",
				app->kind, app->ns, app->name);
	if (!app_id_is_known(app))
		f->autos.make(f->autos.arg, app, subnet, ifname, family, w->number, w->reclaim);
	return err_kind(
		e, ERR_AGAIN, -EAGAIN,
		"no matching auto-created IPPool candidate with matchLables '" LABEL_OWNER_SUBNET
		"=%s," LABEL_OWNER_UID "=%s," LABEL_INTERFACE "=%s," LABEL_IP_VERSION
		"=IPv%u': is there a SpiderSubnet '%s', and a controller that makes pools? "
		"See the events of %s '%s/%s'",
		subnet, app->uid, ifname, family, subnet, app->kind, app->ns, app->name);
}

static int made_for(const struct pod_pools_facts *f, const struct auto_pool_request *w,
		    const char *subnet, const char *ifname, uint8_t family,
		    struct pod_pool_request *ret, struct err *e)
{
	auto_free char *key = NULL;
	const char *pool;

	if (!subnet || (family == 4 ? f->conf.no4 : f->conf.no6))
		return 0;
	key = auto_pool_key_of(subnet, f->autos.app->uid, ifname);
	pool = f->autos.find(f->autos.arg, key, family);
	if (!pool)
		return not_made(f, w, subnet, ifname, family, e);
	if (!app_id_is_known(f->autos.app) && w->fixed)
		f->autos.make(f->autos.arg, f->autos.app, subnet, ifname, family, w->number,
			      w->reclaim);
	if (family == 4)
		pod_names_add(&ret->pools4, &ret->n_pools4, pool);
	else
		pod_names_add(&ret->pools6, &ret->n_pools6, pool);
	return 0;
}

/* Returns the entry for an interface; the single entry of `subnet` applies to each interface. */
static const struct auto_nic *nic_of(const struct auto_pool_request *w, const char *ifname)
{
	for (size_t i = 0; i < w->n; i++)
		if (w->single || !strcmp(w->v[i].ifname, ifname))
			return &w->v[i];
	return NULL;
}

static int from_subnet(const struct pod_pools_facts *f, const struct auto_pool_request *w,
		       const struct pod_nic *nic, struct pod_pool_request *ret, struct err *e)
{
	const struct auto_nic *x = nic_of(w, nic->ifname);
	int r;

	if (!x)
		return err_kind(e, ERR_CONF, -EINVAL,
				"pod '%s/%s': wrong input, annotation '" ANNOTATION_SUBNETS
				"': interface %s must be specified: add an entry for it",
				f->pod->ns, f->pod->name, nic->ifname);
	ret->clean_gateway = nic->conf_clean;
	ret->from = "the pools created from SpiderSubnets";
	r = made_for(f, w, x->subnet4, x->ifname, 4, ret, e);
	if (r == 0)
		r = made_for(f, w, x->subnet6, x->ifname, 6, ret, e);
	if (r < 0 || ret->n_pools4 + ret->n_pools6 > 0)
		return r;
	return err_kind(e, ERR_CONF, -EINVAL,
			"pod '%s/%s': interface %s: the annotation names SpiderSubnets of IPv%d "
			"only, which is disabled in this cluster",
			f->pod->ns, f->pod->name, nic->ifname, x->subnet4 ? 4 : 6);
}

static int pod_pools_from_subnets(const struct pod_pools_facts *f, const struct pod_nic *nics,
				  size_t n, struct pod_pool_request *ret, struct err *e)
{
	struct auto_pool_request w = {0};
	int r = auto_pool_request_read(&f->pod->annotations, 0, &w, e);

	if (r < 0)
		return err_wrap(e, r, "pod '%s/%s': wrong input", f->pod->ns, f->pod->name);
	r = 0;
	for (size_t i = 0; i < n && r == 0; i++)
		r = from_subnet(f, &w, &nics[i], &ret[i], e);
	auto_pool_request_done(&w);
	return r;
}

static int request(const struct pod_pools_facts *f, const struct pod_nic *nics, size_t n,
		   struct pod_pool_request *ret, struct err *e)
{
	struct pod_entries l = {0};
	int made = pod_pools_check_subnets(f, e), r = made;

	if (r == 0)
		r = pod_entries_read(f->pod, &l, e);
	if (made == 1)
		r = pod_pools_from_subnets(f, nics, n, ret, e);
	else if (r == 0 && l.n > 0)
		r = from_entries(f, &l, nics, n, ret, e);
	else
		for (size_t i = 0; i < n && r == 0; i++)
			r = from_others(f, &nics[i], &ret[i], e);
	for (size_t i = 0; i < n && r == 0; i++)
		r = drop_families(f, &nics[i], &ret[i], e);
	pod_entries_done(&l);
	return r;
}

int pod_pools_request(const struct pod_pools_facts *f, const struct pod_nic *nics, size_t n,
		      struct pod_pool_request *ret, struct err *e)
{
	auto_free struct pod_pool_request *v = xcalloc(n + 1, sizeof(*v));
	int r = request(f, nics, n, v, e);

	for (size_t i = 0; i < n; i++)
		if (r < 0)
			pod_pool_request_done(&v[i]);
		else
			ret[i] = v[i];
	return r;
}

int pod_nic_position(const char *const *held, size_t n, const char *ifname)
{
	size_t i = 0;

	while (i < n && strcmp(held[i], ifname) != 0)
		i++;
	return (int)i;
}

int pod_check_alive(const struct pod_facts *p, struct err *e)
{
	if (!p->deleting && !p->finished)
		return 0;
	return err_kind(e, ERR_AGAIN, -ESHUTDOWN,
			"dead Pod %s/%s, we cannot allocate IP addresees to it: it is %s", p->ns,
			p->name, p->deleting ? "being deleted" : "finished");
}

/* --- annotation ipam.spidernet.io/routes: parsing it, and adding its routes to the pod's
 * interfaces --- */

/* Returns the string of the member `key` ("dst", "gw"), or of `other` ("to", "via"), which some
 * manifests use instead; "": there is neither. */
static const char *end_of(const struct annotation *n, const struct json *v, const char *key,
			  const char *other)
{
	const char *s = json_string(json_get_go(v, key));

	if (s || !json_string(json_get_go(v, other)))
		return s ? s : "";
	annotation_log_default(n, other, key);
	return json_string(json_get_go(v, other));
}

static int read_route(const struct annotation *n, const struct json *v, struct pool_route *ret,
		      struct err *e)
{
	const char *dst = end_of(n, v, "dst", "to"), *gw = end_of(n, v, "gw", "via");
	struct ipnet net;
	struct ipaddr via;

	if (ipnet_parse(span_of(dst), &net) < 0 || ip_parse(span_of(gw), &via) < 0 ||
	    net.ip.family != via.family)
		return annotation_error(n, e,
					"invalid route format 'dst: %.60s, gw: %.60s': expected "
					"{\"dst\":\"10.9.0.0/16\",\"gw\":\"10.6.0.1\"}",
					dst, gw);
	*ret = (struct pool_route){ipnet_network(&net), via};
	return 0;
}

static int read_routes(const struct annotation *n, const struct json *v, struct pool_route **ret,
		       size_t *count, struct err *e)
{
	struct json_walk w = json_walk_start(v);
	const struct json *x;
	int r = 0;

	if (json_kind(v) == JSON_OBJECT) {
		annotation_log_default(n, "an object", "a list of one object");
		return read_route(n, v, &VEC_PUSH(*ret, *count), e);
	}
	if (json_kind(v) != JSON_ARRAY && json_kind(v) != JSON_NULL)
		return annotation_error(n, e, "it is %s, expected a list of {\"dst\", \"gw\"}",
					json_kind_name(v));
	while (r == 0 && (x = json_walk_next(&w, NULL)))
		r = read_route(n, x, &VEC_PUSH(*ret, *count), e);
	return r;
}

int pod_routes_read(const struct pod_facts *p, struct pool_route **ret, size_t *n, struct err *e)
{
	struct annotation annotation = {ANNOTATION_ROUTES,
					labels_get(&p->annotations, ANNOTATION_ROUTES), false,
					p->ns, p->name};
	auto_json struct json_doc *doc = NULL;
	struct pool_route *v = NULL;
	size_t count = 0;
	int r = annotation.value ? annotation_parse(&annotation, &doc, e) : 0;

	if (r == 0 && annotation.value)
		r = read_routes(&annotation, json_root(doc), &v, &count, e);
	if (r < 0) {
		free(v);
		return r;
	}
	*ret = v;
	*n = count;
	return 0;
}

static bool has_route(const struct ip_allocation *g, const struct pool_route *r)
{
	for (size_t i = 0; i < g->n_routes; i++)
		if (ipnet_eq(&g->routes[i].dst, &r->dst))
			return true;
	return false;
}

static void put_route(struct ip_allocation *g, const struct pool_route *r)
{
	size_t at = g->n_routes;

	if (has_route(g, r))
		/* the existing route to this destination, for example the pool's, takes
		 * precedence */
		return;
	if (at > 0 && ipnet_is_default(&g->routes[at - 1].dst))
		at--;
	(void)VEC_PUSH(g->routes, g->n_routes);
	memmove(&g->routes[at + 1], &g->routes[at], (g->n_routes - 1 - at) * sizeof(*g->routes));
	g->routes[at] = *r;
}

static bool holds(const struct ipnet *v, size_t n, const struct ipaddr *gw)
{
	for (size_t i = 0; i < n; i++)
		if (v[i].ip.family == gw->family && ipnet_contains(&v[i], gw))
			return true;
	return false;
}

size_t pod_routes_give(const struct pool_route *v, size_t n, const struct ipnet *had, size_t n_had,
		       struct ip_allocation *allocations, size_t n_allocations)
{
	size_t homeless = 0;

	for (size_t i = 0; i < n; i++) {
		size_t k = 0;

		if (holds(had, n_had, &v[i].gw))
			continue;
		while (k < n_allocations && !holds(&allocations[k].address, 1, &v[i].gw))
			k++;
		if (k < n_allocations)
			put_route(&allocations[k], &v[i]);
		else
			homeless++;
	}
	return homeless;
}
