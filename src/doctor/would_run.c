/* SPDX-License-Identifier: Apache-2.0 */
#include "doctor/would_run.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/num.h"
#include "doctor/kubelet.h"
#include "doctor/lint.h"
#include "host/apply.h"
#include "host/kinds.h"

enum { DEPTH_MAX = 24, CONFIG_MAX = 1 << 20 };

struct run {
	struct doctor *d;
	struct lint l;
	const struct object *o; /* the object that has the pod */
	const struct json *pod;
	const char *where; /* "Pod team/train" */
	struct kubelet_devices devices;
	bool has_devices;
};

/* --- networks --- */

/* Returns the text of the host's CNI configuration file of the network of this name; NULL: none.
 * The caller frees it. */
static char *conf_of_host(const struct doctor *d, const char *name)
{
	char **names = NULL, *ret = NULL;
	size_t n = 0;

	if (dir_list(d->f->root, d->cni_conf, &names, &n, NULL) < 0)
		return NULL;
	for (size_t i = 0; i < n && !ret; i++) {
		auto_free char *path = xasprintf("%s/%s", d->cni_conf, names[i]);
		auto_json struct json_doc *doc = NULL;
		const char *its_name;
		struct buf b;

		buf_init(&b, CONFIG_MAX);
		if (file_read(d->f->root, path, CONFIG_MAX, &b, NULL) == 0 &&
		    json_parse(&doc, buf_span(&b), CONFIG_MAX, NULL) == 0 &&
		    (its_name = json_string(json_get(json_root(doc), "name"))) &&
		    !strcmp(its_name, name))
			ret = buf_take(&b);
		buf_done(&b);
	}
	str_list_free(names, n);
	return ret;
}

static void check_network(struct run *r, const struct lint_network *v)
{
	struct doctor *d = r->d;
	auto_free char *where = xasprintf("network %s/%s", v->ns, v->name);
	auto_free char *text = v->config && *v->config ? xstrdup(v->config)
						       : conf_of_host(d, v->name);
	auto_json struct json_doc *doc = NULL;
	struct err e = ERR_INIT;

	if (!v->object && !text) {
		doctor_find(
			d, FINDING_PROBLEM, where,
			"create the network, or add its manifest to --with; 'kubectl get nad -A' "
			"lists the networks of the cluster",
			"%s requests the network, but the network is neither in the manifests "
			"nor a CNI "
			"configuration of this host",
			r->where);
		return;
	}
	if (!text || json_parse(&doc, span_of(text), CONFIG_MAX, &e) < 0) {
		doctor_find(d, FINDING_PROBLEM, where,
			    "'unirail lint' names the mistake in the network's manifest",
			    "the network has no valid CNI configuration%s%s", e.text[0] ? ": " : "",
			    e.text);
		return;
	}
	doctor_check_config(d, where, json_root(doc));
}

/* --- devices --- */

static void check_resource(struct run *r, const char *name, int64_t wants)
{
	int64_t total, used;
	struct doctor *d = r->d;

	if (!strchr(name, '/') || strstr(name, "kubernetes.io/") || wants <= 0)
		return;
	if (!r->has_devices) {
		doctor_find(
			d, FINDING_SKIPPED, name,
			"run 'unirail doctor' on the node, or on a snapshot of the node",
			"there is no valid checkpoint of the kubelet, so its devices are not known");
		return;
	}
	total = kubelet_total(&r->devices, name);
	used = kubelet_used(&r->devices, name);
	if (total < 0)
		doctor_find(
			d, FINDING_PROBLEM, name,
			"'unirail device plan' shows the resources of this node, 'unirail "
			"device explain' why a device is in none",
			"%s requests %lld, but no device plugin of this node serves the resource",
			r->where, (long long)wants);
	else if (total - used < wants)
		doctor_find(
			d, FINDING_PROBLEM, name,
			"'unirail device list' shows the pod that has each device; 'unirail host vf "
			"PF --num-vfs N' makes more VFs",
			"%s requests %lld, but %lld of %lld are free", r->where, (long long)wants,
			(long long)(total - used), (long long)total);
}

static void check_resources(struct run *r, const struct lint_network *v, size_t n)
{
	struct json_walk w = json_walk_start(json_get(json_get(r->pod, "spec"), "containers"));
	const struct json *c, *amount;
	const char **seen = NULL;
	const char *name;
	size_t n_seen = 0;

	while ((c = json_walk_next(&w, NULL))) {
		const struct json *limits = json_get(json_get(c, "resources"), "limits");
		struct json_walk k = json_walk_start(limits);

		while ((amount = json_walk_next(&k, &name))) {
			bool again = false;

			for (size_t i = 0; i < n_seen; i++)
				again |= !strcmp(seen[i], name);
			if (again)
				continue;
			VEC_PUSH(seen, n_seen) = name;
			check_resource(r, name, lint_requested(r->pod, name));
		}
	}
	/* resources that the networks use and no container requests; assumes that the injection
	 * adds the requests */
	for (size_t i = 0; i < n; i++) {
		bool known = !v[i].resource || lint_requested(r->pod, v[i].resource) > 0;
		int64_t wants = 0;

		for (size_t k = 0; k < n; k++)
			if (!known && v[k].resource && !strcmp(v[k].resource, v[i].resource)) {
				known = k < i;
				wants++;
			}
		if (!known)
			check_resource(r, v[i].resource, wants);
	}
	free(seen);
}

/* --- pools --- */

static bool number(const struct json *v, int64_t *ret)
{
	return v && json_int(v, ret) == 0;
}

static void check_pool(struct run *r, const char *name)
{
	const struct object *o = objects_find(r->l.in, "SpiderIPPool", "", name);
	const struct json *status = o ? json_get(o->v, "status") : NULL;
	auto_free char *where = xasprintf("pool %s", name);
	int64_t total = 0, used = 0;

	if (!o)
		doctor_find(r->d, FINDING_PROBLEM, where,
			    "create the pool, or add its manifest to --with ('kubectl get "
			    "spiderippools -o yaml' prints the manifests)",
			    "%s allocates addresses from the pool, but the pool is not in the "
			    "manifests",
			    r->where);
	else if (json_bool(json_get(json_get(o->v, "spec"), "disable")))
		doctor_find(r->d, FINDING_PROBLEM, where, "set spec.disable to false",
			    "%s allocates addresses from the pool, but the pool is disabled",
			    r->where);
	else if (number(json_get(status, "totalIPCount"), &total) &&
		 number(json_get(status, "allocatedIPCount"), &used) && used >= total)
		doctor_find(r->d, FINDING_PROBLEM, where,
			    "add addresses to spec.ips; 'unirail pool show' lists their owners",
			    "none of the pool's %lld addresses is free for %s", (long long)total,
			    r->where);
}

static void check_pools(struct run *r, const struct lint_network *v, size_t n)
{
	char **names = NULL;
	struct err e = ERR_INIT;
	size_t count = 0;

	if (lint_pools(&r->l, r->o->ns, r->pod, v, n, &names, &count, &e) < 0)
		doctor_find(r->d, FINDING_PROBLEM, r->where, "correct the annotation", "%s",
			    e.text);
	for (size_t i = 0; i < count; i++)
		if (!strpbrk(names[i], "*?["))
			check_pool(r, names[i]);
	str_list_free(names, count);
}

/* --- locked memory --- */

static bool lacks_memlock(const struct doctor *d)
{
	static const char text[] = "[memlock]\nlimit = unlimited\n";
	const struct host_kind *kind = host_kind_find("memlock");
	const struct host_select only = {&kind, 1};
	auto_host_plan struct host_plan p = {0};
	auto_host_conf struct host_conf conf;
	struct host h;
	int r;

	host_conf_init(&conf);
	if ((!d->f->live && !d->f->dir) || host_open(&h, d->f->dir, NULL) < 0)
		return false;
	r = host_conf_parse(&conf, "memlock", span_of(text), NULL);
	if (r >= 0)
		r = host_plan_make(&h, &conf, &only, &p, NULL);
	host_close(&h);
	return r >= 0 && p.n > 0;
}

static bool has_ipc_lock(const struct json *container)
{
	const struct json *c =
		json_get(json_get(json_get(container, "securityContext"), "capabilities"), "add");
	struct json_walk w = json_walk_start(c);
	const struct json *v;

	while ((v = json_walk_next(&w, NULL)))
		if (json_string(v) &&
		    (!strcmp(json_string(v), "IPC_LOCK") ||
		     !strcmp(json_string(v), "CAP_IPC_LOCK") || !strcmp(json_string(v), "ALL")))
			return true;
	return json_bool(json_get(json_get(container, "securityContext"), "privileged"));
}

/* Returns whether the manifest makes the container's processes run as another user than root, so
 * that the capability IPC_LOCK has no effect for them. */
static bool is_user(const struct json *pod, const struct json *container)
{
	const struct json *own = json_get(container, "securityContext");
	const struct json *all = json_get(json_get(pod, "spec"), "securityContext");
	const struct json *id = json_get(own, "runAsUser"), *non = json_get(own, "runAsNonRoot");
	int64_t n = 0;

	if (number(id ? id : json_get(all, "runAsUser"), &n))
		return n != 0;
	return json_bool(non ? non : json_get(all, "runAsNonRoot"));
}

/* Reports the first container that lacks an effective IPC_LOCK. Reports nothing if the host has
 * no RDMA device, if a plan for an unlimited memlock has no steps or cannot be made, or if the
 * agent runs or its NRI plugin is installed: the plugin overrides the runtime's default limit. */
static void check_memlock(struct run *r)
{
	struct json_walk w = json_walk_start(json_get(json_get(r->pod, "spec"), "containers"));
	const struct json *c;

	if (!r->d->f->n_rdma || file_exists(r->d->f->root, "/opt/nri/plugins/10-unirail") ||
	    file_exists(r->d->f->root, "/run/unirail/agent.sock") || !lacks_memlock(r->d))
		return;
	while ((c = json_walk_next(&w, NULL))) {
		const char *name = json_string(json_get(c, "name"));
		bool lock = has_ipc_lock(c), user = is_user(r->pod, c);

		if (lock && !user)
			continue;
		doctor_find(r->d, FINDING_PROBLEM, r->where,
			    "'unirail host memlock', or the agent with its NRI plugin",
			    "container '%s' %s, and the container runtime limits locked memory: "
			    "RDMA cannot register memory",
			    name ? name : "",
			    lock ? "does not run as root, so that IPC_LOCK has no effect"
				 : "has no capability IPC_LOCK");
		doctor_fix(r->d, "memlock unlimited");
		return;
	}
}

/* --- the Node --- */

static bool tolerates(const struct json *pod, const struct json *taint)
{
	struct json_walk w = json_walk_start(json_get(json_get(pod, "spec"), "tolerations"));
	const char *key = json_string(json_get(taint, "key"));
	const char *value = json_string(json_get(taint, "value"));
	const char *effect = json_string(json_get(taint, "effect"));
	const struct json *t;

	while ((t = json_walk_next(&w, NULL))) {
		const char *k = json_string(json_get(t, "key"));
		const char *v = json_string(json_get(t, "value"));
		const char *on = json_string(json_get(t, "effect"));
		const char *op = json_string(json_get(t, "operator"));

		if ((!on || !*on || (effect && !strcmp(on, effect))) &&
		    (!k || !*k || (key && !strcmp(k, key))) &&
		    ((op && !strcmp(op, "Exists")) || !strcmp(v ? v : "", value ? value : "")))
			return true;
	}
	return false;
}

static void check_node(struct run *r)
{
	const struct json *node = r->d->f->node ? json_root(r->d->f->node) : NULL;
	const struct json *labels = json_get(json_get(node, "metadata"), "labels");
	const struct json *wanted = json_get(json_get(r->pod, "spec"), "nodeSelector");
	struct json_walk w = json_walk_start(wanted);
	struct json_walk t = json_walk_start(json_get(json_get(node, "spec"), "taints"));
	const struct json *v;
	const char *key;

	if (!node)
		return;
	while ((v = json_walk_next(&w, &key))) {
		const char *has = json_string(json_get(labels, key)), *wants = json_string(v);

		if (wants && (!has || strcmp(has, wants) != 0))
			doctor_find(r->d, FINDING_PROBLEM, r->where,
				    "change the pod's nodeSelector or the Node's label",
				    "the pod's nodeSelector requires %s=%s, the Node has %s", key,
				    wants, has ? has : "no such label");
	}
	while ((v = json_walk_next(&t, NULL))) {
		const char *taint = json_string(json_get(v, "key"));
		const char *effect = json_string(json_get(v, "effect"));

		if (taint && effect && strcmp(effect, "PreferNoSchedule") != 0 &&
		    !tolerates(r->pod, v))
			doctor_find(r->d, FINDING_PROBLEM, r->where,
				    "add a toleration to the pod, or remove the taint",
				    "the pod does not tolerate the Node's taint %s:%s", taint,
				    effect);
	}
}

/* --- pods --- */

static void check_pod(struct run *r, const struct json *pod, const char *path)
{
	auto_free char *where = *r->o->ns ? xasprintf("%s %s/%s%s%s", r->o->kind, r->o->ns,
						      r->o->name, *path ? " " : "", path)
					  : xasprintf("%s %s", r->o->kind, r->o->name);
	struct lint_network *v = NULL;
	struct err e = ERR_INIT;
	size_t n = 0;

	r->pod = pod;
	r->where = where;
	if (lint_networks(&r->l, r->o->ns, pod, &v, &n, &e) < 0) {
		doctor_find(r->d, FINDING_PROBLEM, where,
			    "correct the annotation, or add the manifests of the networks that it "
			    "selects to --with",
			    "%s", e.text);
		return;
	}
	check_node(r);
	for (size_t i = 0; i < n; i++)
		check_network(r, &v[i]);
	check_resources(r, v, n);
	check_pools(r, v, n);
	check_memlock(r);
	lint_networks_done(v, n);
}

static size_t each_template(struct run *r, const struct json *v, const char *path, int depth)
{
	struct json_walk w = json_walk_start(v);
	const struct json *one;
	const char *key;
	size_t found = 0;

	for (size_t i = 0; depth < DEPTH_MAX && (one = json_walk_next(&w, &key)); i++) {
		auto_free char *at = NULL;

		if (json_kind(one) != JSON_OBJECT && json_kind(one) != JSON_ARRAY)
			continue;
		at = key ? xasprintf("%s%s%s", path, *path ? "." : "", key)
			 : xasprintf("%s[%zu]", path, i);
		if (key && !strcmp(key, "template") &&
		    json_kind(json_get(json_get(one, "spec"), "containers")) == JSON_ARRAY) {
			check_pod(r, one, at);
			found++;
		} else {
			found += each_template(r, one, at, depth + 1);
		}
	}
	return found;
}

size_t would_run(struct doctor *d, const struct objects *in)
{
	struct run r = {.d = d, .l = {.in = in, .own_ns = "kube-system"}};
	size_t n = 0;

	d->out->check = "would-run";
	lint_index_make(&r.l);
	r.has_devices = kubelet_devices_read(d->f->root, &r.devices);
	for (size_t i = 0; i < in->n; i++) {
		r.o = &in->v[i];
		if (!strcmp(r.o->kind, "Pod")) {
			check_pod(&r, r.o->v, "");
			n++;
		} else {
			n += each_template(&r, json_get(r.o->v, "spec"), "spec", 0);
		}
	}
	kubelet_devices_done(&r.devices);
	lint_done(&r.l);
	return n;
}
