/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/migrate/act.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/loop.h"
#include "cli/manifests/manifests.h"
#include "cli/manifests/render.h"
#include "cli/migrate/objects.h"
#include "kube/kinds.h"
#include "spec/annotations.h"

enum { POLL_MS = 500 };

/* --- requests --- */

static int patch(const struct migrate_act *x, const struct kube_kind *kind, const char *ns,
		 const char *name, const char *body, struct err *e)
{
	return migrate_request(x->api,
			       &(struct kube_request){.verb = *body == '[' ? KUBE_JSON_PATCH
									   : KUBE_MERGE_PATCH,
						      .on = {.kind = kind, .ns = ns, .name = name},
						      .body = span_of(body)},
			       NULL, e);
}

/* An object that does not exist counts as deleted. */
static int delete (const struct migrate_act *x, const struct kube_kind *kind, const char *ns,
		   const char *name, struct err *e)
{
	struct err own = ERR_INIT;
	int r = migrate_request(
		x->api,
		&(struct kube_request){.verb = KUBE_DELETE,
				       .on = {.kind = kind, .ns = ns, .name = name}},
		NULL, &own);

	if (r < 0 && r != -ENOENT && e)
		*e = own;
	return r == -ENOENT ? 0 : r;
}

static int get(const struct migrate_act *x, const struct kube_kind *kind, const char *ns,
	       const char *name, struct json_doc **ret, struct err *e)
{
	return migrate_request(x->api,
			       &(struct kube_request){.verb = KUBE_GET,
						      .on = {.kind = kind, .ns = ns, .name = name}},
			       ret, e);
}

/* --- waiting --- */

/* Returns 1 if the state was observed; 0, or a negative errno of kind ERR_AGAIN, if it was not
 * observed yet, with the reason in *e; another negative errno ends the wait. */
typedef int (*observe_fn)(const struct migrate_act *x, void *arg, struct err *e);

static int wait_for(const struct migrate_act *x, const char *what, observe_fn fn, void *arg,
		    struct err *e)
{
	int64_t end = now_mono_ms() + x->wait_ms;
	struct timespec pause = {0, POLL_MS * 1000000L};

	for (;;) {
		struct err reason = ERR_INIT;
		int r = fn(x, arg, &reason);

		if (r == 1)
			return 0;
		if (r < 0 && reason.kind != ERR_AGAIN) {
			if (e)
				*e = reason;
			return r;
		}
		if (now_mono_ms() > end)
			return err_kind(e, ERR_AGAIN, -ETIMEDOUT,
					"%s: timeout after %lld s (--wait): %s", what,
					(long long)x->wait_ms / 1000, reason.text);
		nanosleep(&pause, NULL);
	}
}

/* Numbers of pods of a DaemonSet or Deployment: all of them, and those that are ready. */
struct pods {
	const char *ns, *owner, *node; /* node NULL: all nodes */
	const struct json *labels;     /* matchLabels of an original's workload; NULL: none */
	bool deployment, original;     /* original false: selected by app.kubernetes.io/name */
	size_t n, ready;
	char reason[512]; /* reason why one of the pods is not ready */
};

static void explain(struct pods *p, const struct json *pod)
{
	static const char *const lists[] = {"initContainerStatuses", "containerStatuses"};

	for (size_t i = 0; i < ARRAY_LEN(lists); i++) {
		struct json_walk w = json_walk_start(migrate_at(pod, "status", lists[i], NULL));
		const struct json *v, *waiting;

		while ((v = json_walk_next(&w, NULL)))
			if ((waiting = migrate_at(v, "state", "waiting", NULL)))
				snprintf(p->reason, sizeof(p->reason), ": container '%s': %s %s",
					 json_get_text(v, "name"), json_get_text(waiting, "reason"),
					 json_get_text(waiting, "message"));
	}
}

static int count_pod(void *arg, const struct json *pod, struct err *e)
{
	const struct json *owner = json_at(migrate_at(pod, "metadata", "ownerReferences", NULL), 0);
	struct json_walk w = json_walk_start(migrate_at(pod, "status", "conditions", NULL));
	const char *name = json_get_text(owner, "name");
	struct pods *p = arg;
	size_t n = strlen(p->owner);
	const struct json *v;
	bool ready = false;

	(void)e;
	if (p->deployment
		    ? strncmp(name, p->owner, n) != 0 || name[n] != '-' || strchr(name + n + 1, '-')
		    : strcmp(name, p->owner) != 0)
		return 0;
	if (p->node && strcmp(json_get_text(json_get(pod, "spec"), "nodeName"), p->node) != 0)
		return 0;
	while ((v = json_walk_next(&w, NULL)))
		ready |= strcmp(json_get_text(v, "type"), "Ready") == 0 &&
			 strcmp(json_get_text(v, "status"), "True") == 0;
	ready &= !migrate_at(pod, "metadata", "deletionTimestamp", NULL);
	p->n++;
	p->ready += ready;
	if (!ready)
		explain(p, pod);
	return 0;
}

static int count_pods(const struct migrate_act *x, struct pods *p, struct err *e)
{
	auto_free char *fields = p->node ? xasprintf("spec.nodeName=%s", p->node) : NULL;
	struct json_walk w = json_walk_start(p->labels);
	auto_buf struct buf labels;
	const struct json *v;
	const char *key;

	buf_init(&labels, KUBE_PATH_MAX);
	if (!p->original)
		buf_printf(&labels, "app.kubernetes.io/name=%s", p->owner);
	while ((v = json_walk_next(&w, &key)))
		buf_printf(&labels, "%s%s=%s", labels.len ? "," : "", key, json_string(v));
	p->n = p->ready = 0;
	p->reason[0] = '\0';
	return migrate_list(x->api, &kube_pods, &(struct kube_select){p->ns, labels.p, fields},
			    count_pod, p, e);
}

static int have_ended(const struct migrate_act *x, void *arg, struct err *e)
{
	struct pods *p = arg;
	int r = count_pods(x, p, e);

	if (r == 0 && p->n)
		err_set(e, -EAGAIN, "%zu pods of '%s/%s' still run", p->n, p->ns, p->owner);
	return r < 0 ? r : !p->n;
}

/* Adds the reason that the agent reported in an event of the Node; without permission to read
 * events, adds none. */
static void explain_node(const struct migrate_act *x, struct pods *p)
{
	auto_free char *fields = xasprintf(
		"involvedObject.kind=Node,involvedObject.name=%s,reason=CNIConfigNotUsed", p->node);
	auto_json struct json_doc *d = NULL;
	auto_buf struct buf query;
	struct json_walk w;
	const struct json *v;

	buf_init(&query, KUBE_PATH_MAX);
	kube_path_query(&query, "fieldSelector", fields);
	kube_path_query(&query, "limit", "500");
	if (migrate_request(x->api,
			    &(struct kube_request){.verb = KUBE_LIST,
						   .on = {.kind = &kube_events_kind},
						   .query = query.p},
			    &d, NULL) < 0)
		return;
	w = json_walk_start(json_get(json_root(d), "items"));
	while ((v = json_walk_next(&w, NULL)))
		snprintf(p->reason, sizeof(p->reason), ": %s", json_get_text(v, "message"));
}

static int are_ready(const struct migrate_act *x, void *arg, struct err *e)
{
	struct pods *p = arg;
	int r = count_pods(x, p, e);

	if (r == 0 && p->n && !p->ready && p->node && !*p->reason)
		explain_node(x, p);
	if (r == 0 && !p->ready)
		err_set(e, -EAGAIN, "%s of '%s/%s'%s%s is ready%s",
			p->n ? "no pod" : "there is no pod, so none", p->ns, p->owner,
			p->node ? " on " : "", p->node ? p->node : "", p->reason);
	return r < 0 ? r : p->ready > 0;
}

static int wait_end(const struct migrate_act *x, const struct migrate_workload *w, const char *node,
		    struct err *e)
{
	struct pods p = {.ns = w->ns,
			 .owner = w->name,
			 .node = node,
			 .labels = migrate_at(w->v, "spec", "selector", "matchLabels", NULL),
			 .original = true,
			 .deployment = w->role == ROLE_CONTROLLER};

	return wait_for(x, "end of the originals' pods", have_ended, &p, e);
}

/* --- addresses --- */

static int by_owner(const void *a, const void *b)
{
	const struct migrate_address *x = a, *y = b;
	int r = strcmp(x->pool, y->pool);

	r = r ? r : ip_cmp(&x->ip, &y->ip);
	return r ? r : strcmp(x->uid, y->uid);
}

int migrate_check_addresses(struct migrate_api *a, const struct migrate_cluster *before,
			    struct err *e)
{
	auto_migrate struct migrate_cluster now = {0};
	int r = migrate_observe(a, before->ns, &now, e);

	if (r < 0)
		return r;
	if (now.n_addresses)
		qsort(now.addresses, now.n_addresses, sizeof(*now.addresses), by_owner);
	for (size_t i = 0; i < before->n_addresses && now.n_addresses; i++) {
		const struct migrate_address *was = &before->addresses[i], *is;
		char text[IP_TEXT_MAX];

		if (!was->in_status && !was->adopted)
			continue;
		is = bsearch(was, now.addresses, now.n_addresses, sizeof(*is), by_owner);
		if (is && !is->in_status && !is->adopted)
			return err_kind(e, ERR_AGAIN, -EAGAIN,
					"address %s of pod '%s/%s' is not recorded in SpiderIPPool "
					"'%s' any more",
					ip_str(&is->ip, text), is->ns, is->pod, is->pool);
	}
	return 0;
}

static int are_recorded(const struct migrate_act *x, void *arg, struct err *e)
{
	int r = migrate_check_addresses(x->api, x->c, e);

	(void)arg;
	return r < 0 ? r : 1;
}

/* Returns 1 if status.allocatedIPs, which Spiderpool reads, has every address but those that no
 * pool had recorded before the migration. */
static int are_in_status(const struct migrate_act *x, void *arg, struct err *e)
{
	auto_migrate struct migrate_cluster now = {0};
	char text[IP_TEXT_MAX];
	int r = migrate_observe(x->api, x->c->ns, &now, e);

	(void)arg;
	if (r < 0)
		return r;
	for (size_t i = 0; i < now.n_addresses; i++) {
		const struct migrate_address *a = &now.addresses[i];

		if (a->in_status || a->was_missing)
			continue;
		return err_kind(e, ERR_AGAIN, -EAGAIN,
				"address %s of pod '%s/%s' is not in status.allocatedIPs of "
				"SpiderIPPool '%s'%s",
				ip_str(&a->ip, text), a->ns, a->pod, a->pool,
				now.controller_ready
					? " (the controller's setting max-allocated-ips limits the "
					  "number of addresses there)"
					: ": unirail's controller, which writes it, is not ready");
	}
	return 1;
}

/* Returns 1 if the pod of the address was deleted, 0 if it exists. */
static int is_deleted(const struct migrate_act *x, const struct migrate_address *a, struct err *e)
{
	auto_json struct json_doc *d = NULL;
	struct err own = ERR_INIT;
	int r = get(x, &kube_pods, a->ns, a->pod, &d, &own);

	if (r == -ENOENT)
		return 1;
	if (r < 0) {
		*e = own;
		return r;
	}
	return strcmp(json_get_text(json_get(json_root(d), "metadata"), "uid"), a->uid) != 0;
}

static bool names_address(const struct json *endpoint, const struct migrate_address *a)
{
	struct json_walk w =
		json_walk_start(migrate_at(endpoint, "status", "current", "ips", NULL));
	const struct json *v;

	while ((v = json_walk_next(&w, NULL))) {
		struct span rest = span_of(json_get_text(v, a->ip.family == 4 ? "ipv4" : "ipv6"));
		struct ipaddr ip;
		struct span text;

		if (span_cut(&rest, '/', &text) && ip_parse(text, &ip) == 0 && ip_eq(&ip, &a->ip))
			return true;
	}
	return false;
}

static int check_address(const struct migrate_act *x, const struct migrate_address *a,
			 struct err *e)
{
	auto_json struct json_doc *d = NULL;
	char text[IP_TEXT_MAX];
	int r = get(x, &kube_endpoints, a->ns, a->pod, &d, e);

	if (r < 0 && r != -ENOENT)
		return r;
	if (r == 0 &&
	    (strcmp(json_get_text(migrate_at(json_root(d), "status", "current", NULL), "uid"),
		    a->uid) != 0 ||
	     names_address(json_root(d), a)))
		return 0;
	r = is_deleted(x, a, e);
	return r < 0 ? r
	       : r   ? 0
		     : err_set(e, -ENOENT,
			       "the SpiderEndpoint of pod '%s/%s' was deleted or lost address "
				 "%s: 'unirail migrate undo' returns to Spiderpool",
			       a->ns, a->pod, ip_str(&a->ip, text));
}

/* --- steps --- */

static int save(const struct migrate_act *x, struct err *e)
{
	auto_buf struct buf journal, body;
	struct err own = ERR_INIT;
	struct json_out o;
	int r;

	buf_init(&journal, MIGRATE_TEXT_MAX);
	buf_init(&body, MIGRATE_TEXT_MAX);
	jo_init(&o, &journal, 0);
	migrate_journal(x->c, x->values, &o);
	jo_init(&o, &body, 0);
	jo_obj(&o);
	jo_key(&o, "metadata");
	jo_obj(&o);
	jo_kstr(&o, "name", x->c->ns);
	jo_end_obj(&o);
	jo_end_obj(&o);
	r = migrate_request(
		x->api,
		&(struct kube_request){.verb = KUBE_CREATE,
				       .on = {.kind = &kube_namespaces, .name = x->c->ns},
				       .body = buf_span(&body)},
		NULL, &own);
	if (r < 0 && r != -EEXIST) {
		*e = own;
		return r;
	}
	buf_reset(&body);
	jo_init(&o, &body, 0);
	jo_obj(&o);
	jo_key(&o, "metadata");
	jo_obj(&o);
	jo_kstr(&o, "name", MIGRATE_JOURNAL);
	jo_end_obj(&o);
	jo_key(&o, "data");
	jo_obj(&o);
	jo_kstr(&o, "journal.json", journal.p);
	jo_end_obj(&o);
	jo_end_obj(&o);
	err_clear(&own);
	r = migrate_request(x->api,
			    &(struct kube_request){.verb = KUBE_CREATE,
						   .on = {.kind = &kube_configmaps,
							  .ns = x->c->ns,
							  .name = MIGRATE_JOURNAL},
						   .body = buf_span(&body)},
			    NULL, &own);
	if (r == -EEXIST)
		return patch(x, &kube_configmaps, x->c->ns, MIGRATE_JOURNAL, body.p, e);
	if (r < 0 && e)
		*e = own;
	return r;
}

static int patch_workload(const struct migrate_act *x, const struct migrate_step *s, struct err *e)
{
	const struct migrate_workload *w = &x->c->workloads[s->at];

	return patch(x, w->role == ROLE_CONTROLLER ? &kube_deployments : &kube_daemonsets, w->ns,
		     w->name, s->body, e);
}

static int patch_hooks(const struct migrate_act *x, const struct migrate_step *s, struct err *e)
{
	const struct migrate_hooks *h = &x->c->hooks[s->at];

	return patch(x, h->mutating ? &kube_mutating_webhooks : &kube_validating_webhooks, NULL,
		     h->name, s->body, e);
}

static int install(const struct migrate_act *x, struct err *e)
{
	struct pods p = {.ns = x->c->ns, .owner = "unirail-controller", .deployment = true};
	int r = save(x, e); /* saves the values of this call, for undo */

	if (r == 0)
		r = migrate_objects_create(x->api, x->values, x->c->ns, e);
	if (r == 0)
		r = wait_for(x, "unirail's controller", are_ready, &p, e);
	if (r == 0)
		r = wait_for(x, "addresses of pods", are_recorded, NULL, e);
	return r;
}

static int label_node(const struct migrate_act *x, const char *name, const char *label,
		      const char *value, struct err *e)
{
	auto_free char *body = xasprintf("{\"metadata\":{\"labels\":{\"%s\":%s%s%s}}}", label,
					 value ? "\"" : "", value ? value : "null",
					 value ? "\"" : "");

	return patch(x, &kube_nodes, NULL, name, body, e);
}

static int take_node(const struct migrate_act *x, const struct migrate_node *node, struct err *e)
{
	struct pods p = {.ns = x->c->ns, .owner = "unirail-agent", .node = node->name};
	int r = 0;

	if (strcmp(node->label, "yes") != 0)
		r = label_node(x, node->name, LABEL_MIGRATED, "stopping", e);
	for (size_t i = 0; i < x->c->n_workloads && r == 0; i++)
		if (!x->c->workloads[i].owner && x->c->workloads[i].role != ROLE_CONTROLLER)
			r = wait_end(x, &x->c->workloads[i], node->name, e);
	if (r == 0)
		r = label_node(x, node->name, LABEL_MIGRATED, "yes", e);
	if (r == 0)
		r = wait_for(x, "unirail's agent", are_ready, &p, e);
	for (size_t i = 0; i < x->c->n_addresses && r == 0; i++)
		if (strcmp(x->c->addresses[i].node, node->name) == 0)
			r = check_address(x, &x->c->addresses[i], e);
	return r;
}

/* --- steps of undo --- */

static int end_controller(const struct migrate_act *x, struct err *e)
{
	struct pods p = {.ns = x->c->ns, .owner = "unirail-controller", .deployment = true};
	int r = delete (x, &kube_deployments, x->c->ns, p.owner, e);

	if (r == 0)
		r = wait_for(x, "unirail's controller ends", have_ended, &p, e);
	/* Without a controller, the API server would refuse every request that a webhook with
	 * failurePolicy Fail selects. */
	if (r == 0)
		r = delete (x, &kube_mutating_webhooks, NULL, p.owner, e);
	if (r == 0)
		r = delete (x, &kube_validating_webhooks, NULL, p.owner, e);
	return r;
}

static int return_node(const struct migrate_act *x, const struct migrate_node *node, struct err *e)
{
	struct pods p = {.ns = x->c->ns, .owner = MIGRATE_UNINSTALL, .node = node->name};
	int r = migrate_uninstall_create(x->api, x->values, x->c->ns, e);

	if (r == 0)
		r = label_node(x, node->name, LABEL_UNINSTALL, "yes", e);
	if (r == 0)
		r = wait_for(x, "removal of unirail's files", are_ready, &p, e);
	if (r == 0)
		r = patch(x, &kube_nodes, NULL, node->name,
			  "{\"metadata\":{\"labels\":{\"" LABEL_MIGRATED
			  "\":null,\"" LABEL_UNINSTALL "\":null}}}",
			  e);
	return r;
}

/*
 * Returns 1 if Kubernetes has observed the change (observedGeneration) and all requested pods are
 * ready.
 */
static int is_rolled_out(const struct migrate_act *x, void *arg, struct err *e)
{
	const struct migrate_workload *w = arg;
	bool deployment = w->role == ROLE_CONTROLLER;
	auto_json struct json_doc *d = NULL;
	const struct json *v, *status;
	int64_t generation = 0, seen = 0, want = 0, ready = 0;
	int r = get(x, deployment ? &kube_deployments : &kube_daemonsets, w->ns, w->name, &d, e);

	if (r < 0)
		return r;
	v = json_root(d);
	status = json_get(v, "status");
	json_int(migrate_at(v, "metadata", "generation", NULL), &generation);
	json_int(json_get(status, "observedGeneration"), &seen);
	json_int(deployment ? migrate_at(v, "spec", "replicas", NULL)
			    : json_get(status, "desiredNumberScheduled"),
		 &want);
	json_int(json_get(status, deployment ? "readyReplicas" : "numberReady"), &ready);
	if (seen >= generation && ready >= want)
		return 1;
	err_set(e, -EAGAIN, "%lld of %lld pods of '%s/%s' are ready", (long long)ready,
		(long long)want, w->ns, w->name);
	return 0;
}

static int return_workload(const struct migrate_act *x, const struct migrate_step *s, struct err *e)
{
	int r = patch_workload(x, s, e);

	return r < 0 ? r
		     : wait_for(x, "the original's pods", is_rolled_out, &x->c->workloads[s->at],
				e);
}

static int end_agents(const struct migrate_act *x, struct err *e)
{
	struct pods p = {.ns = x->c->ns, .owner = "unirail-agent"};
	int r = delete (x, &kube_daemonsets, x->c->ns, p.owner, e);

	return r < 0 ? r : wait_for(x, "unirail's agents end", have_ended, &p, e);
}

static int patch_pool(const struct migrate_act *x, const struct migrate_step *s, struct err *e)
{
	const char *name = json_get_text(json_get(x->c->pools[s->at], "metadata"), "name");

	return patch(x, &kube_ippools, NULL, name, s->body, e);
}

static int act(const struct migrate_act *x, const struct migrate_step *s, struct err *e)
{
	int r;

	switch (s->what) {
	case DO_SAVE: return save(x, e);
	case DO_WEBHOOKS:
	case UNDO_WEBHOOKS: return patch_hooks(x, s, e);
	case DO_EXCLUDE: return patch_workload(x, s, e);
	case DO_CONTROLLER:
	case DO_ADDRESSES:
		r = patch_workload(x, s, e);
		return r < 0 ? r : wait_end(x, &x->c->workloads[s->at], NULL, e);
	case DO_INSTALL: return install(x, e);
	case DO_NODE: return take_node(x, &x->c->nodes[s->at], e);
	case UNDO_AGENTS: return end_agents(x, e);
	case UNDO_RECORDS: return wait_for(x, "records for Spiderpool", are_in_status, NULL, e);
	case UNDO_CONTROLLER: return end_controller(x, e);
	case UNDO_POOL: return patch_pool(x, s, e);
	case UNDO_NODE: return return_node(x, &x->c->nodes[s->at], e);
	case UNDO_WORKLOAD: return return_workload(x, s, e);
	case UNDO_OBJECTS: return migrate_objects_delete(x->api, x->values, x->c->ns, e);
	case UNDO_SAVED: return delete (x, &kube_configmaps, x->c->ns, MIGRATE_JOURNAL, e);
	}
	return 0;
}

int migrate_act(const struct migrate_act *x, const struct migrate_plan *p, struct err *e)
{
	for (size_t i = 0; i < p->n; i++) {
		const struct migrate_step *s = &p->steps[i];
		int r;

		printf("%zu/%zu %s: %s\n", i + 1, p->n, s->subject, s->desired);
		fflush(stdout);
		r = act(x, s, e);
		if (r < 0)
			return err_wrap(e, r, "step %zu of %zu, %s", i + 1, p->n, s->subject);
	}
	return 0;
}
