/* SPDX-License-Identifier: Apache-2.0 */
#include "controller/coordinator/cidr_sources.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "kube/informer.h"
#include "kube/kinds.h"

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
	struct kube_informer *i; /* NULL: not wanted */
	struct err why;		 /* code 0: nothing is wrong */
};

struct cidr_sources {
	struct kube *k;
	char *cilium_ns, *cilium_name; /* the name as a selector */
	struct source v[CIDR_SOURCES];
	void (*changed)(void *arg);
	void *arg;
};

/* --- what comes --- */

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

/* A kind that is not installed is no trouble: there is none of it. */
static void on_trouble(void *arg, const struct err *why)
{
	struct source *v = arg;

	if (why && why->code == v->why.code)
		return;
	if (why && why->code != -ENOENT && why->kind != ERR_AGAIN)
		log_warn("where the cluster's CIDRs are to be found cannot be read",
			 LOG_S("error", why->text));
	v->why = why ? *why : (struct err)ERR_INIT;
	v->s->changed(v->s->arg);
}

/* --- which --- */

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
		.trouble = on_trouble,
		.arg = v,
	};

	if (v->at == CIDR_CILIUM_CONFIG)
		c.select = (struct kube_select){.ns = v->s->cilium_ns, .fields = v->s->cilium_name};
	err_clear(&v->why);
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

/* --- what is known --- */

/* The older first; those of one age stay in the order of their names. */
static void sort(const struct cidr_facts **list, size_t n)
{
	for (size_t i = 1; i < n; i++)
		for (size_t k = i; k > 0 && list[k - 1]->since_ms > list[k]->since_ms; k--) {
			const struct cidr_facts *f = list[k];

			list[k] = list[k - 1];
			list[k - 1] = f;
		}
}

/* Of many: they are joined, each of them once. */
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
	if (v->why.code == -ENOENT)
		return CIDR_ABSENT;
	return v->why.code < 0 && v->why.kind != ERR_AGAIN ? CIDR_FAILED : CIDR_UNKNOWN;
}

static void collect(const struct source *v, struct cidr_known *ret)
{
	size_t n = v->i ? kube_informer_count(v->i) : 0;
	const struct cidr_facts **list = xcalloc(n, sizeof(*list));

	*ret = (struct cidr_known){.state = state_of(v), .why = v->why.text, .objects = n};
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

/* --- life --- */

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
