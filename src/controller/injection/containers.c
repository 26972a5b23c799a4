/* SPDX-License-Identifier: Apache-2.0 */
/* Resources and capabilities that the containers need for the networks. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/num.h"
#include "controller/injection/internal.h"

struct need {
	const char *resource; /* borrowed */
	uint64_t count;
};

struct needs {
	struct need *v;
	size_t n;
};

/* --- required resources --- */

static struct need *need_of(struct needs *l, const char *resource)
{
	for (size_t i = 0; i < l->n; i++)
		if (!strcmp(l->v[i].resource, resource))
			return &l->v[i];
	return NULL;
}

/* Counts the required devices of each resource: one for each network that takes a device of its
 * own. If all networks of a resource use shared devices, the count is 1. */
static void count(const struct inject_nets *nets, struct needs *needs)
{
	for (size_t i = 0; i < nets->n; i++) {
		const char *resource = nets->v[i]->resource;

		if (resource && !need_of(needs, resource))
			VEC_PUSH(needs->v, needs->n) = (struct need){resource, 0};
		if (resource && nets->v[i]->takes)
			need_of(needs, resource)->count++;
	}
	for (size_t i = 0; i < needs->n; i++)
		if (needs->v[i].count == 0)
			needs->v[i].count = 1;
}

/* --- limits of containers --- */

/* An init container with restartPolicy Always runs as long as the pod. */
static bool is_sidecar(const struct json *container)
{
	const char *policy = json_string(json_get(container, "restartPolicy"));

	return policy && !strcmp(policy, "Always");
}

struct each {
	const struct json *pod;
	struct json_walk w;
	const char *list;
	size_t next, at; /* at: index of the last container returned */
};

/* Iterates over the containers that run as long as the pod: containers, then sidecars. */
static const struct json *next_container(struct each *i)
{
	const struct json *spec = json_get(i->pod, "spec"), *c;

	if (!i->list) {
		i->list = "containers";
		i->w = json_walk_start(json_get(spec, i->list));
	}
	while ((c = json_walk_next(&i->w, NULL)) || !strcmp(i->list, "containers")) {
		if (!c) {
			i->list = "initContainers";
			i->next = 0;
			i->w = json_walk_start(json_get(spec, i->list));
			continue;
		}
		i->at = i->next++;
		if (!strcmp(i->list, "containers") || is_sidecar(c))
			return c;
	}
	return NULL;
}

static const struct json *quantity_of(const struct json *container, const char *resource)
{
	const struct json *resources = json_get(container, "resources");
	const struct json *limit = json_get(json_get(resources, "limits"), resource);

	return limit ? limit : json_get(json_get(resources, "requests"), resource);
}

/* Returns whether a container already requests the resource. If so, warns the user when the
 * requests of all containers together are less than need->count. */
static bool is_held(const struct inject_request *q, const struct need *need)
{
	struct each i = {.pod = q->pod};
	const struct json *c, *v;
	bool held = false, clear = true;
	uint64_t sum = 0, one;
	int64_t n;

	while ((c = next_container(&i))) {
		v = quantity_of(c, need->resource);
		if (!v)
			continue;
		held = true;
		if (json_int(v, &n) == 0)
			sum += n > 0 ? (uint64_t)n : 0;
		else if (num_u64(span_of(json_string(v)), 0, 1U << 20, &one) == 0)
			sum += one;
		else
			/* the value is not a plain number ("2k") or is invalid: no warning */
			clear = false;
	}
	if (held && clear && sum < need->count)
		inject_warn(q,
			    "the pod's containers request %llu of resource '%s' but its networks "
			    "need %llu: requests are not changed",
			    (unsigned long long)sum, need->resource,
			    (unsigned long long)need->count);
	return held;
}

static void put_limit(struct json_out *o, const struct need *need)
{
	auto_free char *text = xasprintf("%llu", (unsigned long long)need->count);

	jo_str(o, text);
}

static void put_limits(struct json_out *o, const struct needs *add)
{
	jo_obj(o);
	for (size_t i = 0; i < add->n; i++) {
		jo_key(o, add->v[i].resource);
		put_limit(o, &add->v[i]);
	}
	jo_end_obj(o);
}

/* Writes limits only: the API server sets missing requests to the limits. */
static int write_limits(const struct json *first, const struct needs *add, struct kube_patch *p)
{
	const struct json *resources = json_get(first, "resources");
	struct json_out *o;

	if (add->n == 0)
		return 0;
	if (json_kind(resources) != JSON_OBJECT) {
		o = kube_patch_add(p, "add", "spec", "containers", "0", "resources", NULL);
		jo_obj(o);
		jo_key(o, "limits");
		put_limits(o, add);
		jo_end_obj(o);
		return 1;
	}
	if (json_kind(json_get(resources, "limits")) != JSON_OBJECT) {
		put_limits(kube_patch_add(p, "add", "spec", "containers", "0", "resources",
					  "limits", NULL),
			   add);
		return 1;
	}
	for (size_t i = 0; i < add->n; i++)
		put_limit(kube_patch_add(p, "add", "spec", "containers", "0", "resources", "limits",
					 add->v[i].resource, NULL),
			  &add->v[i]);
	return (int)add->n;
}

/* --- capability to lock memory --- */

static bool may_lock(const struct json *context)
{
	const struct json *add = json_get(json_get(context, "capabilities"), "add"), *v;
	struct json_walk w = json_walk_start(add);

	if (json_bool(json_get(context, "privileged")))
		return true;
	while ((v = json_walk_next(&w, NULL))) {
		const char *s = json_string(v);

		if (s &&
		    (!strcmp(s, "IPC_LOCK") || !strcmp(s, "CAP_IPC_LOCK") || !strcmp(s, "ALL")))
			return true;
	}
	return false;
}

static void put_caps(struct json_out *o)
{
	jo_arr(o);
	jo_str(o, "IPC_LOCK");
	jo_end_arr(o);
}

static int write_lock(const struct each *at, const struct json *container, struct kube_patch *p)
{
	const struct json *context = json_get(container, "securityContext");
	const struct json *caps = json_get(context, "capabilities");
	auto_free char *i = xasprintf("%zu", at->at);
	struct json_out *o;

	if (json_kind(context) != JSON_OBJECT) {
		o = kube_patch_add(p, "add", "spec", at->list, i, "securityContext", NULL);
		jo_obj(o);
		jo_key(o, "capabilities");
		jo_obj(o);
		jo_key(o, "add");
		put_caps(o);
		jo_end_obj(o);
		jo_end_obj(o);
	} else if (json_kind(caps) != JSON_OBJECT) {
		o = kube_patch_add(p, "add", "spec", at->list, i, "securityContext", "capabilities",
				   NULL);
		jo_obj(o);
		jo_key(o, "add");
		put_caps(o);
		jo_end_obj(o);
	} else if (json_kind(json_get(caps, "add")) != JSON_ARRAY) {
		put_caps(kube_patch_add(p, "add", "spec", at->list, i, "securityContext",
					"capabilities", "add", NULL));
	} else {
		jo_str(kube_patch_add(p, "add", "spec", at->list, i, "securityContext",
				      "capabilities", "add", "-", NULL),
		       "IPC_LOCK");
	}
	return 1;
}

static bool holds_any(const struct json *container, const struct needs *needs)
{
	for (size_t i = 0; i < needs->n; i++)
		if (quantity_of(container, needs->v[i].resource))
			return true;
	return false;
}

static int write_locks(const struct inject_request *q, const struct needs *needs, bool to_first,
		       struct kube_patch *p)
{
	struct each i = {.pod = q->pod};
	const struct json *c;
	bool first = true;
	int n = 0;

	while ((c = next_container(&i))) {
		if (((first && to_first) || holds_any(c, needs)) &&
		    !may_lock(json_get(c, "securityContext")))
			n += write_lock(&i, c, p);
		first = false;
	}
	return n;
}

int inject_containers(const struct inject_request *q, const struct inject_nets *nets,
		      struct kube_patch *p)
{
	const struct json *first = json_at(json_get(json_get(q->pod, "spec"), "containers"), 0);
	struct needs needs = {0}, add = {0};
	int n;

	if (!first) /* the API server rejects a pod without containers */
		return 0;
	count(nets, &needs);
	for (size_t i = 0; i < needs.n; i++)
		if (!is_held(q, &needs.v[i]))
			VEC_PUSH(add.v, add.n) = needs.v[i];
	n = write_limits(first, &add, p);
	if (q->ipc_lock)
		n += write_locks(q, &needs, add.n > 0, p);
	free(needs.v);
	free(add.v);
	return n;
}
