/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/kinds.h"
#include "kube/object.h"
#include "spec/identity.h"
#include "spec/pod.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/log.h"
#include "base/num.h"
#include "base/sorted.h"
#include "spec/annotations.h"
#include "wire/json/json.h"

/* Returns the index of the key, or where it would be inserted. */
static size_t position(const struct labels *l, const char *key, bool *there)
{
	size_t at = LOWER_BOUND(i, l->n, strcmp(l->v[i].key, key) < 0);

	*there = at < l->n && strcmp(l->v[at].key, key) == 0;
	return at;
}

const char *labels_get(const struct labels *l, const char *key)
{
	bool there = false;
	size_t i = l ? position(l, key, &there) : 0;

	return there ? l->v[i].value : NULL;
}

void labels_put(struct labels *l, const char *key, const char *value)
{
	bool there;
	size_t i = position(l, key, &there);

	if (there) {
		free(l->v[i].value);
		l->v[i].value = xstrdup(value);
		return;
	}
	(void)VEC_PUSH(l->v, l->n);
	memmove(&l->v[i + 1], &l->v[i], (l->n - 1 - i) * sizeof(l->v[0]));
	l->v[i] = (struct label){xstrdup(key), xstrdup(value)};
}

void labels_done(struct labels *l)
{
	for (size_t i = 0; i < l->n; i++) {
		free(l->v[i].key);
		free(l->v[i].value);
	}
	free(l->v);
	*l = (struct labels){0};
}

static int wrong(struct err *e, const char *place, const struct json *v, const char *what)
{
	return err_kind(e, ERR_DECODE, -EINVAL, "%s is %s, expected %s", place, json_kind_name(v),
			what);
}

static int by_key(const void *a, const void *b)
{
	return strcmp(((const struct label *)a)->key, ((const struct label *)b)->key);
}

/* A label with its index in the document, since of equal keys the last one is used. */
struct numbered {
	struct label l;
	size_t i;
};

static int by_key_and_place(const void *a, const void *b)
{
	const struct numbered *x = a, *y = b;
	int r = by_key(&x->l, &y->l);

	return r ? r : x->i < y->i ? -1 : 1;
}

static bool is_sorted(const struct labels *l)
{
	for (size_t i = 1; i < l->n; i++)
		if (by_key(&l->v[i - 1], &l->v[i]) >= 0)
			return false;
	return true;
}

void labels_collect(struct labels *l, const char *key, const char *value)
{
	VEC_PUSH(l->v, l->n) = (struct label){xstrdup(key), xstrdup(value)};
}

/* The API server sends maps sorted by key, so sorting is usually skipped. */
void labels_merge(struct labels *l)
{
	auto_free struct numbered *v = NULL;
	size_t n = 0;

	if (is_sorted(l))
		return;
	v = xcalloc(l->n, sizeof(*v));
	for (size_t i = 0; i < l->n; i++)
		v[i] = (struct numbered){l->v[i], i};
	qsort(v, l->n, sizeof(*v), by_key_and_place);
	for (size_t i = 0; i < l->n; i++)
		if (i + 1 < l->n && by_key(&v[i].l, &v[i + 1].l) == 0) {
			free(v[i].l.key);
			free(v[i].l.value);
		} else {
			l->v[n++] = v[i].l;
		}
	l->n = n;
}

int labels_read(const struct json *v, const char *place, bool (*keep)(const char *key),
		struct labels *ret, struct err *e)
{
	struct json_walk w = json_walk_start(v);
	const struct json *value;
	struct labels l = {0};
	const char *key;

	if (json_kind(v) != JSON_NULL && json_kind(v) != JSON_OBJECT)
		return wrong(e, place, v, "an object");
	while ((value = json_walk_next(&w, &key))) {
		if (keep && !keep(key))
			continue;
		if (json_kind(value) != JSON_STRING) {
			labels_done(&l);
			return err_kind(e, ERR_DECODE, -EINVAL,
					"%s['%.100s'] is %s, expected a string", place, key,
					json_kind_name(value));
		}
		labels_collect(&l, key, json_string(value));
	}
	labels_merge(&l);
	*ret = l;
	return 0;
}

int labels_of(const struct json *metadata, struct labels *ret, struct err *e)
{
	const struct json *v = json_get(metadata, "labels");

	if (json_len(v) <= LABELS_MAX || json_kind(v) != JSON_OBJECT)
		return labels_read(v, "metadata.labels", NULL, ret, e);
	log_limited(LOG_WARN, 2, "an object has too many labels: ignoring all of them",
		    LOG_S("namespace", json_get_text(metadata, "namespace")),
		    LOG_S("name", json_get_text(metadata, "name")),
		    LOG_I("labels", (int64_t)json_len(v)), LOG_I("allowed", LABELS_MAX));
	*ret = (struct labels){0};
	return 0;
}

/* Returns whether the key belongs to the group or a subdomain of it: "vm.kubevirt.io/name". */
static bool in_group(const char *key, size_t len, const char *group)
{
	size_t n = strlen(group);

	return len >= n && memcmp(key + len - n, group, n) == 0 &&
	       (len == n || key[len - n - 1] == '.');
}

bool pod_is_static(const struct pod_facts *p)
{
	const char *source = labels_get(&p->annotations, ANNOTATION_CONFIG_SOURCE);

	return source && strcmp(source, "api") != 0;
}

bool pod_annotation_counts(const char *key)
{
	static const char *const groups[] = {"ipam.spidernet.io",  "cni.spidernet.io",
					     "k8s.v1.cni.cncf.io", "v1.multus-cni.io",
					     "unirail.io",	   "kubevirt.io"};
	const char *slash = strchr(key, '/');

	if (strcmp(key, ANNOTATION_CONFIG_SOURCE) == 0)
		return true;
	for (size_t i = 0; slash && i < sizeof(groups) / sizeof(groups[0]); i++)
		if (in_group(key, (size_t)(slash - key), groups[i]))
			return true;
	return false;
}

void pod_facts_done(struct pod_facts *p)
{
	char *all[] = {p->ns,	      p->name,	     p->uid,	   p->node, p->owner_api,
		       p->owner_kind, p->owner_name, p->owner_uid, p->ends};

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		free(all[i]);
	labels_done(&p->labels);
	labels_done(&p->annotations);
	*p = (struct pod_facts){0};
}

static struct labels copy_labels(const struct labels *l)
{
	struct labels ret = {0};

	for (size_t i = 0; i < l->n; i++)
		VEC_PUSH(ret.v, ret.n) =
			(struct label){xstrdup(l->v[i].key), xstrdup(l->v[i].value)};
	return ret;
}

void pod_facts_copy(const struct pod_facts *p, struct pod_facts *ret)
{
	*ret = (struct pod_facts){
		.ns = str_dup(p->ns),
		.name = str_dup(p->name),
		.uid = str_dup(p->uid),
		.node = str_dup(p->node),
		.labels = copy_labels(&p->labels),
		.annotations = copy_labels(&p->annotations),
		.owner_api = str_dup(p->owner_api),
		.owner_kind = str_dup(p->owner_kind),
		.owner_name = str_dup(p->owner_name),
		.owner_uid = str_dup(p->owner_uid),
		.ends = str_dup(p->ends),
		.host_network = p->host_network,
		.finished = p->finished,
		.deleting = p->deleting,
	};
}

static int get_text(const struct json *obj, const char *key, const char *place, bool required,
		    char **ret, struct err *e)
{
	const struct json *v = json_get(obj, key);
	const char *s = json_string(v);

	if (json_kind(v) == JSON_NULL && !required)
		s = "";
	if (!s)
		return wrong(e, place, v, "a string");
	if (required && s[0] == '\0')
		return err_kind(e, ERR_DECODE, -EINVAL, "%s is empty", place);
	*ret = xstrdup(s);
	return 0;
}

static char *text_or_null(const struct json *obj, const char *key)
{
	const char *s = json_string(json_get(obj, key));

	return s && s[0] ? xstrdup(s) : NULL;
}

/* At most one owner reference has `controller` set. */
static void read_owner(const struct json *metadata, struct pod_facts *p)
{
	struct json_walk w = json_walk_start(json_get(metadata, "ownerReferences"));
	const struct json *v;

	while ((v = json_walk_next(&w, NULL))) {
		if (!json_bool(json_get(v, "controller")))
			continue;
		p->owner_api = text_or_null(v, "apiVersion");
		p->owner_kind = text_or_null(v, "kind");
		p->owner_name = text_or_null(v, "name");
		p->owner_uid = text_or_null(v, "uid");
		return;
	}
}

static int read_metadata(const struct json *m, struct pod_facts *p, struct err *e)
{
	int r = get_text(m, "namespace", "metadata.namespace", true, &p->ns, e);

	if (r == 0)
		r = get_text(m, "name", "metadata.name", true, &p->name, e);
	if (r == 0)
		r = get_text(m, "uid", "metadata.uid", true, &p->uid, e);
	if (r == 0)
		r = labels_of(m, &p->labels, e);
	if (r == 0)
		r = labels_read(json_get(m, "annotations"), "metadata.annotations",
				pod_annotation_counts, &p->annotations, e);
	if (r == 0) {
		read_owner(m, p);
		p->ends = text_or_null(m, "deletionTimestamp");
		p->deleting = p->ends;
	}
	return r;
}

int pod_facts_read(const struct json *object, struct pod_facts *ret, struct err *e)
{
	const struct json *spec = json_get(object, "spec");
	const char *phase = json_string(json_get(json_get(object, "status"), "phase"));
	struct pod_facts p = {0};
	int r = read_metadata(json_get(object, "metadata"), &p, e);

	if (r == 0)
		r = get_text(spec, "nodeName", "spec.nodeName", false, &p.node, e);
	if (r < 0) {
		if (p.name)
			err_wrap(e, r, "pod '%s/%s'", p.ns, p.name);
		else
			err_wrap(e, r, "pod");
		pod_facts_done(&p);
		return r;
	}
	p.host_network = json_bool(json_get(spec, "hostNetwork"));
	p.finished = phase && (strcmp(phase, "Succeeded") == 0 || strcmp(phase, "Failed") == 0);
	*ret = p;
	return 0;
}

static bool is(const char *s, const char *word)
{
	return s && strcmp(s, word) == 0;
}

/* Returns whether `api` is any version of the API group: "kubevirt.io/v1" is one of
 * "kubevirt.io". */
static bool identity_in_group(const char *api, const char *group)
{
	size_t n = strlen(group);

	return api && strncmp(api, group, n) == 0 && api[n] == '/';
}

/* Returns the machine's name: the owner's name or, for a virt-launcher pod without an owner, the
 * value of KubeVirt's annotation or label. NULL: the pod belongs to no machine. */
static const char *machine_of(const struct pod_facts *p)
{
	const char *name = NULL;

	if (p->owner_name && is(p->owner_kind, "VirtualMachineInstance") &&
	    identity_in_group(p->owner_api, "kubevirt.io"))
		return p->owner_name;
	if (p->owner_kind || !is(labels_get(&p->labels, "kubevirt.io"), "virt-launcher"))
		return NULL;
	name = labels_get(&p->annotations, ANNOTATION_VMI_NAME);
	if (!name)
		name = labels_get(&p->labels, LABEL_VM_NAME);
	return name && *name ? name : NULL;
}

static bool is_of_set(const struct pod_facts *p)
{
	char set[254];
	uint64_t ordinal;

	return is(p->owner_kind, "StatefulSet") && identity_in_group(p->owner_api, "apps") &&
	       identity_ordinal(p->name, set, &ordinal);
}

void identity_of(const struct pod_facts *p, const struct identity_conf *c, struct identity *ret)
{
	const char *machine = c->kubevirt ? machine_of(p) : NULL;
	const char *job = labels_get(&p->annotations, ANNOTATION_VMI_MIGRATION);

	*ret = (struct identity){
		.kind = IDENTITY_POD, .ns = p->ns, .name = p->name, .pod = p->name};
	if (machine) {
		ret->kind = IDENTITY_MACHINE;
		ret->name = machine;
		ret->migrating = job && *job;
	} else if (c->statefulset && is_of_set(p)) {
		ret->kind = IDENTITY_STATEFULSET;
	}
}

bool identity_is_sticky(const struct identity *i)
{
	return i->kind != IDENTITY_POD;
}

bool identity_ordinal(const char *pod, char set[static 254], uint64_t *ordinal)
{
	const char *dash = strrchr(pod, '-');
	size_t n = dash ? (size_t)(dash - pod) : 0;

	if (n == 0 || n > 253 || num_u64(span_of(dash + 1), 0, INT32_MAX, ordinal) < 0)
		return false;
	memcpy(set, pod, n);
	set[n] = '\0';
	return true;
}

static bool set_is_over(const char *name, const struct identity_set *s)
{
	char set[254];
	uint64_t ordinal;

	if (!identity_ordinal(name, set, &ordinal))
		return true;
	if (!s->known)
		return false;
	return !s->exists || (int64_t)ordinal < s->start ||
	       (int64_t)ordinal - s->start >= s->replicas;
}

/* A stopped VirtualMachine has no instance but may start again. */
static bool machine_is_over(const struct identity_machine *m)
{
	if (!m->known)
		return false;
	return !(m->vmi_exists && !m->vmi_deleting) && !(m->vm_exists && !m->vm_deleting);
}

bool identity_is_over(const char *name, const struct identity_conf *c,
		      const struct identity_set *set, const struct identity_machine *machine)
{
	return (!c->statefulset || set_is_over(name, set)) &&
	       (!c->kubevirt || machine_is_over(machine));
}

bool identity_lookup_next(struct identity_lookup *q, const struct identity_conf *c, const char *ns,
			  const char *name, struct kube_ref *ret)
{
	uint64_t ordinal;

	if (q->step == IDENTITY_READ_SET &&
	    !(c->statefulset && identity_ordinal(name, q->set_name, &ordinal)))
		q->step = IDENTITY_READ_VMI;
	if (q->step > IDENTITY_READ_SET && !c->kubevirt)
		q->step = IDENTITY_READ_END;
	*ret = (struct kube_ref){.kind = q->step == IDENTITY_READ_SET	? &kube_statefulsets
					 : q->step == IDENTITY_READ_VMI ? &kube_vmis
									: &kube_vms,
				 .ns = ns,
				 .name = q->step == IDENTITY_READ_SET ? q->set_name : name};
	return q->step < IDENTITY_READ_END;
}

void identity_lookup_learn(struct identity_lookup *q, const struct json *object)
{
	const struct json *spec = json_get(object, "spec");
	bool is_deleting = kube_meta_string(object, "deletionTimestamp");

	if (q->step == IDENTITY_READ_SET) {
		q->set = (struct identity_set){
			.known = true,
			.exists = object,
			.start = json_int_or(json_get(json_get(spec, "ordinals"), "start"), 0),
			.replicas = json_int_or(json_get(spec, "replicas"), 1)};
	} else if (q->step == IDENTITY_READ_VMI) {
		q->machine.vmi_exists = object;
		q->machine.vmi_deleting = is_deleting;
	} else {
		q->machine.known = true;
		q->machine.vm_exists = object;
		q->machine.vm_deleting = is_deleting;
	}
	q->step++;
}
