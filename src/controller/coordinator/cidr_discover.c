/* SPDX-License-Identifier: Apache-2.0 */
#include "controller/coordinator/cidr_read.h"
#include "controller/coordinator/cidr_sources.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/ip.h"
#include "base/log.h"
#include "kube/informer.h"
#include "kube/kinds.h"
#include "kube/time.h"

enum { CONF_MAX = 256 << 10, PUBLISHED_MAX = 256 };

/* --- lists of CIDRs --- */

void cidr_list_done(struct cidr_list *l)
{
	str_list_free(l->v, l->n);
	*l = (struct cidr_list){0};
}

static bool has(const struct cidr_list *l, struct span s)
{
	for (size_t i = 0; i < l->n; i++)
		if (span_eq(s, l->v[i]))
			return true;
	return false;
}

static bool is_between(char c)
{
	return c == ',' || c == '"' || c == '\'' || isspace((unsigned char)c);
}

void cidr_list_add(struct cidr_list *l, const char *text)
{
	while (text && *text) {
		struct span s = {text, 0};
		struct ipnet net;

		while (text[s.n] && !is_between(text[s.n]))
			s.n++;
		if (ipnet_parse(s, &net) == 0 && !has(l, s))
			VEC_PUSH(l->v, l->n) = span_dup(s);
		text += s.n + (text[s.n] != '\0');
	}
}

void cidr_list_copy(struct cidr_list *l, const struct cidr_list *from)
{
	for (size_t i = 0; i < from->n; i++)
		cidr_list_add(l, from->v[i]);
}

static int by_address(const void *a, const void *b)
{
	const struct ipnet *x = a, *y = b;
	int r = ip_cmp(&x->ip, &y->ip);

	return r ? r : x->len - y->len;
}

/* Returns whether a and b are the lower and the upper half of one subnet. */
static bool are_halves(const struct ipnet *a, const struct ipnet *b)
{
	struct ipnet whole = {a->ip, (uint8_t)(a->len - 1)};

	return a->len == b->len && a->len > 0 && ipnet_contains(&whole, &b->ip) &&
	       !ipnet_has_host_bits(&whole) && !ip_eq(&a->ip, &b->ip);
}

void cidr_list_join(struct cidr_list *l)
{
	auto_free struct ipnet *v = xcalloc(l->n, sizeof(*v));
	char text[IP_TEXT_MAX];
	size_t n = 0, top = 0;

	for (size_t i = 0; i < l->n; i++)
		if (ipnet_parse(span_of(l->v[i]), &v[n]) == 0) {
			v[n] = ipnet_network(&v[n]);
			n++;
		}
	qsort(v, n, sizeof(*v), by_address);
	cidr_list_done(l);
	for (size_t i = 0; i < n; i++) {
		if (top > 0 && ipnet_contains(&v[top - 1], &v[i].ip))
			continue;
		v[top++] = v[i];
		for (; top > 1 && are_halves(&v[top - 2], &v[top - 1]); top--)
			v[top - 2].len--;
	}
	for (size_t i = 0; i < top; i++)
		VEC_PUSH(l->v, l->n) = xstrdup(ipnet_str(&v[i], text));
}

void cidr_facts_done(struct cidr_facts *f)
{
	cidr_list_done(&f->pods);
	cidr_list_done(&f->services);
	free(f->mode);
	*f = (struct cidr_facts){0};
}

/* --- CIDRs of one object --- */

static const struct json *at(const struct json *v, const char *a, const char *b)
{
	return json_get(json_get(v, a), b);
}

static void add_strings(struct cidr_list *l, const struct json *list)
{
	struct json_walk w = json_walk_start(list);
	const struct json *v;

	while ((v = json_walk_next(&w, NULL)))
		cidr_list_add(l, json_string(v));
}

static void set_since(const struct json *object, struct cidr_facts *f)
{
	const char *text = json_string(at(object, "metadata", "creationTimestamp"));

	if (!text || kube_time_parse(text, &f->since_ms) < 0)
		f->since_ms = 0;
}

/* Adds the CIDRs of each line that has this key, such as " podSubnet: 10.244.0.0/16,fd00::/48 #
 * comment". */
static void add_line(struct cidr_list *l, const char *text, const char *key)
{
	struct span rest = span_of(text), line;

	while (span_cut(&rest, '\n', &line)) {
		struct span s = span_trim(line), value = s;

		if (!span_has_prefix(s, key) || !span_cut(&s, ':', &value) || !span_eq(value, key))
			continue;
		span_cut(&s, '#', &value);
		auto_free char *dup = span_dup(value);
		cidr_list_add(l, dup);
	}
}

void cidr_of_kubeadm(const struct json *object, struct cidr_facts *f)
{
	const char *text = json_string(at(object, "data", "ClusterConfiguration"));

	if (!text)
		return;
	add_line(&f->pods, text, "podSubnet");
	add_line(&f->services, text, "serviceSubnet");
}

/* Adds the CIDRs of an argument "<key>=<CIDRs>", or of the argument after "<key>". */
static void add_option(struct cidr_list *l, const struct json *message, const char *key)
{
	struct json_walk w = json_walk_start(message);
	const struct json *v;
	size_t n = strlen(key);
	bool next = false;

	while ((v = json_walk_next(&w, NULL))) {
		const char *s = json_string(v);

		if (next && s)
			cidr_list_add(l, s);
		next = s && strcmp(s, key) == 0;
		if (s && strncmp(s, key, n) == 0 && s[n] == '=')
			cidr_list_add(l, s + n + 1);
	}
}

void cidr_of_manager(const struct json *object, struct cidr_facts *f)
{
	static const char *const places[] = {"command", "args"};
	struct json_walk w = json_walk_start(at(object, "spec", "containers"));
	const struct json *c;

	while ((c = json_walk_next(&w, NULL)))
		for (size_t i = 0; i < ARRAY_LEN(places); i++) {
			const struct json *message = json_get(c, places[i]);

			add_option(&f->pods, message, "--cluster-cidr");
			add_option(&f->services, message, "--service-cluster-ip-range");
		}
	set_since(object, f);
}

void cidr_of_service_cidr(const struct json *object, struct cidr_facts *f)
{
	add_strings(&f->services, at(object, "spec", "cidrs"));
	set_since(object, f);
}

void cidr_of_node(const struct json *object, struct cidr_facts *f)
{
	const char *one = json_string(at(object, "spec", "podCIDR"));

	add_strings(&f->pods, at(object, "spec", "podCIDRs"));
	cidr_list_add(&f->pods, one);
}

void cidr_of_calico(const struct json *object, struct cidr_facts *f)
{
	if (!at(object, "metadata", "deletionTimestamp"))
		cidr_list_add(&f->pods, json_string(at(object, "spec", "cidr")));
	set_since(object, f);
}

void cidr_of_cilium(const struct json *object, struct cidr_facts *f)
{
	const struct json *data = json_get(object, "data");
	const char *mode = json_string(json_get(data, "ipam"));

	f->mode = mode && *mode ? xstrdup(mode) : NULL;
	if (!mode || strncmp(mode, "cluster-pool", strlen("cluster-pool")) != 0)
		return;
	cidr_list_add(&f->pods, json_string(json_get(data, "cluster-pool-ipv4-cidr")));
	cidr_list_add(&f->pods, json_string(json_get(data, "cluster-pool-ipv6-cidr")));
}

void cidr_of_cilium_pool(const struct json *object, struct cidr_facts *f)
{
	const struct json *spec = json_get(object, "spec");

	add_strings(&f->pods, at(spec, "ipv4", "cidrs"));
	add_strings(&f->pods, at(spec, "ipv6", "cidrs"));
	set_since(object, f);
}

/* --- podCIDRType, and the node's CNI --- */

static const char *const types[] = {"auto", "cluster", "calico", "cilium", "none"};

int cidr_type_parse(const char *text, enum cidr_type *ret)
{
	for (size_t i = 0; i < ARRAY_LEN(types); i++)
		if (strcmp(text, types[i]) == 0) {
			*ret = (enum cidr_type)i;
			return 0;
		}
	return -EINVAL;
}

static bool is_conf(const char *name)
{
	const char *dot = strrchr(name, '.');

	return dot && (strcmp(dot, ".conf") == 0 || strcmp(dot, ".conflist") == 0);
}

/* Returns whether the first plugin delegates to other networks, like Multus. */
static bool is_meta(const struct json *conf)
{
	static const char *const metas[] = {"multus", "multus-shim", "unirail-cni"};
	const char *type = json_string(json_get(conf, "type"));

	if (!type)
		type = json_string(json_get(json_at(json_get(conf, "plugins"), 0), "type"));
	for (size_t i = 0; type && i < ARRAY_LEN(metas); i++)
		if (strcmp(type, metas[i]) == 0)
			return true;
	return false;
}

/* Returns the podCIDRType of the CNI whose network has this name; CIDR_NONE: unknown name. */
static enum cidr_type by_name(const char *name)
{
	static const struct {
		const char *name;
		enum cidr_type type;
	} known[] = {
		{"calico", CIDR_CALICO}, {"k8s-pod-network", CIDR_CALICO},
		{"cilium", CIDR_CILIUM}, {"flannel", CIDR_CLUSTER},
		{"cbr0", CIDR_CLUSTER},	 {"kindnet", CIDR_CLUSTER},
	};

	for (size_t i = 0; i < ARRAY_LEN(known); i++)
		if (strcmp(name, known[i].name) == 0)
			return known[i].type;
	return CIDR_NONE;
}

/* Reads the network name of one CNI configuration. Returns 1 and sets *ret (NULL: it has no name);
 * 0: the configuration is missing or invalid, or its plugin delegates to other networks; -EACCES:
 * readable by root only. */
static int read_name(const struct root *root, const char *path, char **ret)
{
	auto_json struct json_doc *doc = NULL;
	const char *name;
	auto_buf struct buf b;
	int r;

	buf_init(&b, CONF_MAX);
	r = file_read(root, path, CONF_MAX, &b, NULL);
	if (r == -EACCES)
		return r;
	if (r < 0 || json_parse(&doc, buf_span(&b), CONF_MAX, NULL) < 0 || is_meta(json_root(doc)))
		return 0;
	name = json_string(json_get(json_root(doc), "name"));
	*ret = name && *name ? xstrdup(name) : NULL;
	return 1;
}

static int read_published(const struct root *root, const struct cidr_cni *cni, const char *unread,
			  char **ret, struct err *e)
{
	char name[PUBLISHED_MAX];

	if (cni->published && file_read_line(root, cni->published, name, sizeof(name), NULL) == 0 &&
	    *name) {
		*ret = xstrdup(name);
		return 0;
	}
	return err_kind(e, ERR_CONF, -EACCES,
			"the cluster's CNI is not known: '%.100s' is readable by root only, and "
			"no agent has published '%.100s' on this node: wait for the agent, or set "
			"podCIDRType",
			unread, cni->published ? cni->published : "");
}

int cidr_network(const struct root *root, const struct cidr_cni *cni, char **ret, struct err *e)
{
	char **names = NULL, *found = NULL;
	size_t n = 0;
	int r = dir_list(root, cni->dir, &names, &n, NULL);

	if (r == -EACCES)
		return read_published(root, cni, cni->dir, ret, e);
	r = 0;
	for (size_t i = 0; i < n && r == 0; i++) {
		auto_free char *path = xasprintf("%s/%s", cni->dir, names[i]);

		if (is_conf(names[i]))
			r = read_name(root, path, &found);
		if (r < 0)
			r = read_published(root, cni, path, &found, e) < 0 ? -EACCES : 1;
	}
	str_list_free(names, n);
	if (r < 0)
		return r;
	*ret = found;
	return 0;
}

enum cidr_type cidr_probe(const struct root *root, const struct cidr_cni *cni, struct err *e)
{
	auto_free char *name = NULL;

	if (cidr_network(root, cni, &name, e) < 0)
		return CIDR_UNREADABLE;
	return name ? by_name(name) : CIDR_NONE;
}

static const struct kube_kind services = {"networking.k8s.io", "v1", "servicecidrs", "servicecidr",
					  false};
static const struct kube_kind services_old = {"networking.k8s.io", "v1beta1", "servicecidrs",
					      "servicecidr", false};
static const struct kube_kind calico = {"crd.projectcalico.org", "v1", "ippools", "Calico ippool",
					false};
static const struct kube_kind cilium_pools = {"cilium.io", "v2alpha1", "ciliumpodippools",
					      "ciliumpodippool", false};

static const struct kind {
	const struct kube_kind *kind;
	struct kube_select select;
	void (*read)(const struct json *object, struct cidr_facts *f);
} kinds[CIDR_SOURCES] = {
	[CIDR_KUBEADM] = {&kube_configmaps,
			  {.ns = "kube-system", .fields = "metadata.name=kubeadm-config"},
			  cidr_of_kubeadm},
	[CIDR_MANAGER] = {&kube_pods,
			  {.labels = "component=kube-controller-manager"},
			  cidr_of_manager},
	[CIDR_SERVICES] = {&services, {0}, cidr_of_service_cidr},
	[CIDR_SERVICES_OLD] = {&services_old, {0}, cidr_of_service_cidr},
	[CIDR_NODES] = {&kube_nodes, {0}, cidr_of_node},
	[CIDR_CALICO_POOLS] = {&calico, {0}, cidr_of_calico},
	[CIDR_CILIUM_CONFIG] = {&kube_configmaps, {0}, cidr_of_cilium},
	[CIDR_CILIUM_POOLS] = {&cilium_pools, {0}, cidr_of_cilium_pool},
};

struct source {
	struct cidr_sources *s;
	enum cidr_source at;
	struct kube_informer *i; /* NULL: not watched */
	struct err cause;	 /* code 0: no error */
};

struct cidr_sources {
	struct kube *k;
	char *cilium_ns, *cilium_name; /* the name as a field selector */
	struct source v[CIDR_SOURCES];
	void (*changed)(void *arg);
	void *arg;
};

/* --- watched objects --- */

#define DECODE(name, source)                                                                       \
	static int name(void *value, const struct json *object, struct err *e)                     \
	{                                                                                          \
		(void)e;                                                                           \
		kinds[source].read(object, value);                                                 \
		return 0;                                                                          \
	}
DECODE(read_kubeadm, CIDR_KUBEADM)
DECODE(read_manager, CIDR_MANAGER)
DECODE(read_service, CIDR_SERVICES)
DECODE(read_node, CIDR_NODES)
DECODE(read_calico, CIDR_CALICO_POOLS)
DECODE(read_cilium, CIDR_CILIUM_CONFIG)
DECODE(read_cilium_pool, CIDR_CILIUM_POOLS)

static int (*const decoders[CIDR_SOURCES])(void *value, const struct json *object,
					   struct err *e) = {
	[CIDR_KUBEADM] = read_kubeadm,	    [CIDR_MANAGER] = read_manager,
	[CIDR_SERVICES] = read_service,	    [CIDR_SERVICES_OLD] = read_service,
	[CIDR_NODES] = read_node,	    [CIDR_CALICO_POOLS] = read_calico,
	[CIDR_CILIUM_CONFIG] = read_cilium, [CIDR_CILIUM_POOLS] = read_cilium_pool,
};

static void drop(void *value)
{
	cidr_facts_done(value);
}

static void on_changed(void *arg, const struct kube_object *was, const struct kube_object *is)
{
	struct source *v = arg;

	(void)was, (void)is;
	v->s->changed(v->s->arg);
}

static void on_synced(void *arg)
{
	struct source *v = arg;

	v->s->changed(v->s->arg);
}

/* A kind that is not installed is not an error; it has no objects. */
static void on_sync_error(void *arg, const struct err *cause)
{
	struct source *v = arg;

	if (cause && cause->code == v->cause.code)
		return;
	if (cause && cause->code != -ENOENT && cause->kind != ERR_AGAIN)
		log_warn("cannot read a source of the cluster's CIDRs",
			 LOG_S("error", cause->text));
	v->cause = cause ? *cause : (struct err)ERR_INIT;
	v->s->changed(v->s->arg);
}

/* --- sources to watch --- */

static void follow(struct source *v)
{
	struct kube_informer_conf c = {
		.kind = kinds[v->at].kind,
		.select = kinds[v->at].select,
		.cached = v->at == CIDR_NODES,
		.size = sizeof(struct cidr_facts),
		.decode = decoders[v->at],
		.drop = drop,
		.changed = on_changed,
		.synced = on_synced,
		.sync_error = on_sync_error,
		.arg = v,
	};

	if (v->at == CIDR_CILIUM_CONFIG)
		c.select = (struct kube_select){.ns = v->s->cilium_ns, .fields = v->s->cilium_name};
	err_clear(&v->cause);
	v->i = kube_informer_new(v->s->k, &c);
}

void cidr_sources_want(struct cidr_sources *s, unsigned int wants)
{
	for (int i = 0; i < CIDR_SOURCES; i++) {
		bool wanted = wants & 1u << i;

		if (wanted && !s->v[i].i) {
			follow(&s->v[i]);
		} else if (!wanted && s->v[i].i) {
			kube_informer_free(s->v[i].i);
			s->v[i].i = NULL;
		}
	}
}

/* --- state of the sources --- */

/* Sorts objects by age, the oldest first; those of the same age stay in the order of their names.
 * */
static void sort(const struct cidr_facts **list, size_t n)
{
	for (size_t i = 1; i < n; i++)
		for (size_t k = i; k > 0 && list[k - 1]->since_ms > list[k]->since_ms; k--) {
			const struct cidr_facts *f = list[k];

			list[k] = list[k - 1];
			list[k - 1] = f;
		}
}

/* Appends the CIDRs of a node; collect() then joins those of all nodes, and removes duplicates. */
static void append(struct cidr_list *l, const struct cidr_list *from)
{
	for (size_t i = 0; i < from->n; i++)
		VEC_PUSH(l->v, l->n) = xstrdup(from->v[i]);
}

static enum cidr_state state_of(const struct source *v)
{
	if (!v->i)
		return CIDR_UNKNOWN;
	if (kube_informer_synced(v->i))
		return CIDR_KNOWN;
	if (v->cause.code == -ENOENT)
		return CIDR_ABSENT;
	return v->cause.code < 0 && v->cause.kind != ERR_AGAIN ? CIDR_FAILED : CIDR_UNKNOWN;
}

static void collect(const struct source *v, struct cidr_known *ret)
{
	size_t n = v->i ? kube_informer_count(v->i) : 0;
	const struct cidr_facts **list = xcalloc(n, sizeof(*list));

	*ret = (struct cidr_known){.state = state_of(v), .cause = v->cause.text, .objects = n};
	for (size_t i = 0; i < n; i++)
		list[i] = kube_informer_at(v->i, i)->value;
	sort(list, n);
	for (size_t i = 0; i < n; i++) {
		(v->at == CIDR_NODES ? append : cidr_list_copy)(&ret->facts.pods, &list[i]->pods);
		cidr_list_copy(&ret->facts.services, &list[i]->services);
		if (list[i]->mode && !ret->facts.mode)
			ret->facts.mode = xstrdup(list[i]->mode);
	}
	free(list);
	if (v->at == CIDR_NODES)
		cidr_list_join(&ret->facts.pods);
}

void cidr_sources_known(const struct cidr_sources *s, struct cidr_known ret[static CIDR_SOURCES])
{
	for (int i = 0; i < CIDR_SOURCES; i++)
		collect(&s->v[i], &ret[i]);
}

void cidr_known_done(struct cidr_known known[static CIDR_SOURCES])
{
	for (int i = 0; i < CIDR_SOURCES; i++)
		cidr_facts_done(&known[i].facts);
}

/* --- creation and destruction --- */

struct cidr_sources *cidr_sources_new(struct kube *k, const char *cilium,
				      void (*changed)(void *arg), void *arg)
{
	const char *slash = strchr(cilium, '/');
	struct cidr_sources *s = xcalloc(1, sizeof(*s));

	*s = (struct cidr_sources){.k = k, .changed = changed, .arg = arg};
	s->cilium_ns = slash ? span_dup((struct span){cilium, (size_t)(slash - cilium)})
			     : xstrdup("kube-system");
	s->cilium_name = xasprintf("metadata.name=%s", slash ? slash + 1 : cilium);
	for (int i = 0; i < CIDR_SOURCES; i++)
		s->v[i] = (struct source){.s = s, .at = (enum cidr_source)i};
	return s;
}

void cidr_sources_free(struct cidr_sources *s)
{
	if (!s)
		return;
	for (int i = 0; i < CIDR_SOURCES; i++)
		kube_informer_free(s->v[i].i);
	free(s->cilium_ns);
	free(s->cilium_name);
	free(s);
}
