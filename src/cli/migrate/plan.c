/* SPDX-License-Identifier: Apache-2.0 */
/* The steps of `unirail migrate`, and the problems that prevent them. Sends no requests. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "cli/migrate/migrate.h"
#include "spec/annotations.h"
#include "spec/definition.h"

enum { NAMED_MAX = 20 };

static void line(struct migrate_lines *l, char *text)
{
	VEC_PUSH(l->v, l->n) = text;
}

static struct migrate_step *step(struct migrate_plan *p, enum migrate_do what, size_t at,
				 char *subject)
{
	struct migrate_step *s = &VEC_PUSH(p->steps, p->n);

	s->what = what;
	s->at = at;
	s->subject = subject;
	return s;
}

static const char *kind_of(const struct migrate_workload *x)
{
	return x->role == ROLE_CONTROLLER ? "deployment" : "daemonset";
}

/* --- bodies of patches, which the printed kubectl commands contain as well --- */

static char *text_of(const struct json_tree *t)
{
	struct json_out o;
	struct buf b;

	buf_init(&b, MIGRATE_TEXT_MAX);
	jo_init(&o, &b, 0);
	json_tree_write(t, &o);
	return buf_take(&b);
}

/* Returns a patch whose node affinity excludes nodes with LABEL_MIGRATED. A node needs to match
 * only one term, so each term gets the condition. */
static char *exclude_body(const struct migrate_workload *x)
{
	const struct json *have = migrate_at(x->v, "spec", "template", "spec", "affinity", NULL);
	auto_tree struct json_tree *t = json_tree_new(JSON_OBJECT);
	struct json_tree *spec = json_tree_member_object(t, "spec"), *affinity, *terms, *term;

	spec = json_tree_member_object(json_tree_member_object(spec, "template"), "spec");
	json_tree_put(spec, "affinity", have ? json_tree_of(have) : json_tree_new(JSON_OBJECT));
	affinity = json_tree_member_object(json_tree_member(spec, "affinity"), "nodeAffinity");
	terms = json_tree_member_array(
		json_tree_member_object(affinity, "requiredDuringSchedulingIgnoredDuringExecution"),
		"nodeSelectorTerms");
	if (!json_tree_first(terms))
		json_tree_push(terms, json_tree_new(JSON_OBJECT));
	for (term = json_tree_first(terms); term; term = json_tree_next(term)) {
		struct json_tree *v = json_tree_new(JSON_OBJECT);

		json_tree_put_text(v, "key", LABEL_MIGRATED);
		json_tree_put_text(v, "operator", "DoesNotExist");
		json_tree_push(json_tree_member_array(term, "matchExpressions"), v);
	}
	return text_of(t);
}

#define NEVER "{\"spec\":{\"template\":{\"spec\":{\"nodeSelector\":{\"" LABEL_MIGRATED "\":%s}}}}}"

static char *patch_command(const char *ns, const char *what, const char *name, const char *body)
{
	struct buf b;

	buf_init(&b, MIGRATE_TEXT_MAX);
	buf_printf(&b, "kubectl %s%s%spatch %s %s --type %s -p '", ns ? "-n " : "", ns ? ns : "",
		   ns ? " " : "", what, name, *body == '[' ? "json" : "merge");
	/* Escapes each ' of the body for the shell: an expression of a webhook may contain it. */
	for (; *body; body++)
		buf_str(&b, *body == '\'' ? "'\\''" : (char[]){*body, '\0'});
	buf_char(&b, '\'');
	return buf_take(&b);
}

/* --- the journal --- */

static const struct json *journal_list(const struct migrate_cluster *c, const char *key)
{
	return json_get(c->journal, key);
}

static const struct json *saved(const struct migrate_cluster *c, const char *list, const char *kind,
				const char *ns, const char *name)
{
	struct json_walk w = json_walk_start(journal_list(c, list));
	const struct json *v;

	while ((v = json_walk_next(&w, NULL)))
		if (strcmp(json_get_text(v, "kind"), kind) == 0 &&
		    strcmp(json_get_text(v, "namespace"), ns) == 0 &&
		    strcmp(json_get_text(v, "name"), name) == 0)
			return v;
	return NULL;
}

static const struct json *saved_workload(const struct migrate_cluster *c,
					 const struct migrate_workload *x)
{
	return saved(c, "workloads", kind_of(x), x->ns, x->name);
}

static const char *hooks_kind(const struct migrate_hooks *h)
{
	return h->mutating ? "mutatingwebhookconfiguration" : "validatingwebhookconfiguration";
}

static const struct json *saved_hooks(const struct migrate_cluster *c,
				      const struct migrate_hooks *h)
{
	return saved(c, "webhooks", hooks_kind(h), "", h->name);
}

static bool in_list(const struct json *list, const char *name)
{
	struct json_walk w = json_walk_start(list);
	const struct json *v;

	while ((v = json_walk_next(&w, NULL)))
		if (json_string(v) && strcmp(json_string(v), name) == 0)
			return true;
	return false;
}

static void put_old(struct json_out *o, const struct json *list)
{
	struct json_walk w = json_walk_start(list);
	const struct json *v;

	while ((v = json_walk_next(&w, NULL)))
		jo_val(o, v, false);
}

static void put_workloads(const struct migrate_cluster *c, struct json_out *o)
{
	jo_key(o, "workloads");
	jo_arr(o);
	put_old(o, journal_list(c, "workloads"));
	for (size_t i = 0; i < c->n_workloads; i++) {
		const struct migrate_workload *x = &c->workloads[i];
		const struct json *spec = migrate_at(x->v, "spec", "template", "spec", NULL);

		if (x->owner || saved_workload(c, x))
			continue;
		jo_obj(o);
		jo_kstr(o, "kind", kind_of(x));
		jo_kstr(o, "namespace", x->ns);
		jo_kstr(o, "name", x->name);
		jo_kint(o, "replicas", x->replicas);
		jo_key(o, "affinity");
		jo_val(o, json_get(spec, "affinity"), false);
		jo_end_obj(o);
	}
	jo_end_arr(o);
}

static void put_hooks(const struct migrate_cluster *c, struct json_out *o)
{
	jo_key(o, "webhooks");
	jo_arr(o);
	put_old(o, journal_list(c, "webhooks"));
	for (size_t i = 0; i < c->n_hooks; i++) {
		const struct migrate_hooks *h = &c->hooks[i];

		if (saved_hooks(c, h))
			continue;
		jo_obj(o);
		jo_kstr(o, "kind", hooks_kind(h));
		jo_kstr(o, "namespace", "");
		jo_kstr(o, "name", h->name);
		jo_key(o, "webhooks");
		jo_val(o, json_get(h->v, "webhooks"), false);
		jo_end_obj(o);
	}
	jo_end_arr(o);
}

/*
 * Lists the pools that had ANNOTATION_BLOCK_PREFIX before the migration. Only the first run can read
 * that from the cluster; later runs copy the list from the journal.
 */
static void put_pools(const struct migrate_cluster *c, struct json_out *o)
{
	jo_key(o, "pools");
	jo_arr(o);
	put_old(o, journal_list(c, "pools"));
	for (size_t i = 0; i < c->n_pools && !c->journal; i++) {
		const struct json *m = json_get(c->pools[i], "metadata");

		if (migrate_at(m, "annotations", ANNOTATION_BLOCK_PREFIX, NULL))
			jo_str(o, json_get_text(m, "name"));
	}
	jo_end_arr(o);
}

/*
 * Lists addresses that no pool had recorded before the migration: undo does not wait for their
 * records.
 */
static void put_unrecorded_addresses(const struct migrate_cluster *c, struct json_out *o)
{
	jo_key(o, "unrecordedAddresses");
	if (c->journal) {
		jo_val(o, json_get(c->journal, "unrecordedAddresses"), false);
		return;
	}
	jo_obj(o);
	for (size_t i = 0; i < c->n_addresses; i++) {
		const struct migrate_address *a = &c->addresses[i];
		auto_free char *key = migrate_address_key(a);

		if (!a->in_status && !a->adopted)
			jo_kbool(o, key, true);
	}
	jo_end_obj(o);
}

void migrate_journal(const struct migrate_cluster *c, const struct json_tree *values,
		     struct json_out *o)
{
	jo_obj(o);
	jo_kint(o, "version", 1);
	put_workloads(c, o);
	put_hooks(c, o);
	put_pools(c, o);
	put_unrecorded_addresses(c, o);
	jo_key(o, "nodes");
	jo_arr(o);
	for (size_t i = 0; i < c->n_nodes; i++)
		if (c->nodes[i].planned)
			jo_str(o, c->nodes[i].name);
	jo_end_arr(o);
	jo_key(o, "values");
	json_tree_write(values, o);
	jo_end_obj(o);
}

/* --- problems and warnings --- */

/* Returns whether a part of the configuration, at any depth, uses this IPAM plugin. */
static bool uses_ipam(const struct json *v, const char *type)
{
	struct json_walk w = json_walk_start(v);
	const struct json *x;

	if (strcmp(json_get_text(json_get(v, "ipam"), "type"), type) == 0)
		return true;
	while ((x = json_walk_next(&w, NULL)))
		if ((json_kind(x) == JSON_OBJECT || json_kind(x) == JSON_ARRAY) &&
		    uses_ipam(x, type))
			return true;
	return false;
}

static const char *trust_of(const struct migrate_cluster *c, const char *ns)
{
	for (size_t i = 0; i < c->n_namespaces; i++) {
		const struct json *m = json_get(c->namespaces[i], "metadata");

		if (strcmp(json_get_text(m, "name"), ns) == 0)
			return json_string(migrate_at(m, "annotations", ANNOTATION_TRUSTED, NULL));
	}
	return NULL;
}

static void check_networks(const struct migrate_cluster *c, struct migrate_plan *p)
{
	static const struct definition_rules rules = {.logs_pass = true};

	for (size_t i = 0; i < c->n_networks; i++) {
		const struct migrate_network *x = &c->networks[i];
		auto_json struct json_doc *d = NULL;
		struct err e = ERR_INIT;

		if (!*x->config)
			continue;
		if (json_parse(&d, span_of(x->config), MIGRATE_TEXT_MAX, &e) < 0) {
			line(&p->warnings,
			     xasprintf("NetworkAttachmentDefinition '%s/%s' is invalid, so pods "
				       "that use it fail with unirail: %s",
				       x->ns, x->name, e.text));
			continue;
		}
		if (uses_ipam(json_root(d), "whereabouts"))
			line(&p->problems,
			     xasprintf("NetworkAttachmentDefinition '%s/%s' has the IPAM plugin "
				       "whereabouts: unirail's whereabouts stores addresses on each "
				       "node and does not read those in the cluster, so addresses "
				       "would be allocated twice; first change the network to a "
				       "SpiderIPPool and the IPAM plugin spiderpool",
				       x->ns, x->name));
		if (!definition_trusted(x->ns, trust_of(c, x->ns), c->ns) &&
		    definition_check(json_root(d), &rules, &e) < 0)
			line(&p->warnings,
			     xasprintf("NetworkAttachmentDefinition '%s/%s' would be refused on "
				       "the nodes (%s); to allow it: kubectl annotate namespace "
				       "%s " ANNOTATION_TRUSTED "=true",
				       x->ns, x->name, e.text, x->ns));
	}
}

static void check_active(const struct migrate_cluster *c, struct migrate_plan *p)
{
	const char *ns = c->agent_ns;

	if (ns && strcmp(ns, c->ns) != 0)
		line(&p->problems,
		     xasprintf("unirail is installed in namespace '%s': use -n %s", ns, ns));
	else if (ns && !c->journal)
		line(&p->problems,
		     xasprintf("DaemonSet '%s/unirail-agent' exists, but there is no journal of a "
			       "migration: Spiderpool's agents and unirail's allocate the same "
			       "addresses. Before the migration continue with Spiderpool alone: "
			       "kubectl -n %s delete daemonset/unirail-agent "
			       "deployment/unirail-controller",
			       ns, ns));
}

static void check_workloads(const struct migrate_cluster *c, struct migrate_plan *p)
{
	if (!c->n_workloads && !c->journal)
		line(&p->problems,
		     xstrdup("this cluster has neither Spiderpool nor Multus: install unirail with "
			     "kubectl or Helm (deploy/README.md)"));
	for (size_t i = 0; i < c->n_workloads; i++) {
		const struct migrate_workload *x = &c->workloads[i];

		if (x->owner)
			line(x->role == ROLE_SHARED || x->role == ROLE_VF ? &p->warnings
									  : &p->problems,
			     xasprintf("%s '%s/%s' is managed by a %s, which would revert changes, "
				       "so the migration does not change the workload%s",
				       kind_of(x), x->ns, x->name, x->owner,
				       x->role == ROLE_SHARED || x->role == ROLE_VF
					       ? ": it continues to advertise its device resources, "
						 "beside those of unirail"
					       : ": remove the workload from the managing object "
						 "first"));
	}
}

/*
 * Spiderpool's daemons and Multus may exist only once: a user could create a DaemonSet with the
 * name of one of them, and the migration would use the settings of that DaemonSet.
 */
static void check_once(const struct migrate_cluster *c, struct migrate_plan *p)
{
	for (size_t i = 0; i < c->n_workloads; i++)
		for (size_t k = 0; k < i && c->workloads[i].role <= ROLE_NETWORKS; k++) {
			const struct migrate_workload *x = &c->workloads[k], *y = &c->workloads[i];

			if (x->role != y->role)
				continue;
			line(&p->problems,
			     xasprintf("%s '%s/%s' and '%s/%s' seem to be the same program: delete "
				       "the object that is not in use",
				       kind_of(x), x->ns, x->name, y->ns, y->name));
			return;
		}
}

/*
 * A preStop hook of Spiderpool's container multus-cni removes 00-multus.conf; pods would then be
 * created without their networks.
 */
static void check_hooks(const struct migrate_cluster *c, struct migrate_plan *p)
{
	for (size_t i = 0; i < c->n_workloads; i++) {
		const struct migrate_workload *x = &c->workloads[i];
		struct json_walk w = json_walk_start(
			migrate_at(x->v, "spec", "template", "spec", "containers", NULL));
		const struct json *v;

		while ((v = json_walk_next(&w, NULL)))
			if (x->role == ROLE_ADDRESSES &&
			    strcmp(json_get_text(v, "name"), "multus-cni") == 0 &&
			    migrate_at(v, "lifecycle", "preStop", NULL))
				line(&p->problems,
				     xasprintf(
					     "container multus-cni of DaemonSet '%s/%s' removes "
					     "Multus' configuration when it ends, so pods would be "
					     "created without their networks. First run: helm "
					     "upgrade --reuse-values --set "
					     "multus.multusCNI.uninstall=false",
					     x->ns, x->name));
	}
}

static void check_definitions(const struct migrate_cluster *c, struct migrate_plan *p)
{
	for (size_t i = 0; i < c->n_definitions; i++) {
		const struct migrate_definition *x = &c->definitions[i];

		line(&p->warnings,
		     xasprintf("definition %s belongs to release '%s' in namespace '%s': the "
			       "migration does not change it, but 'helm uninstall' of that release "
			       "deletes it with all its objects. Before 'helm uninstall' run: "
			       "kubectl annotate crd %s " ANNOTATION_HELM_POLICY "=keep",
			       x->name, x->release, x->release_ns, x->name));
	}
}

static void check_node(const struct migrate_node *x, struct migrate_plan *p)
{
	if (!x->has_network)
		line(&p->problems,
		     xasprintf("node '%s' has no CNI configuration (%s): install the cluster's own "
			       "network there, or delete the Node",
			       x->name, x->reason));
	else if (!x->ready)
		line(&p->problems,
		     xasprintf(
			     "node '%s' is not Ready (%s): the originals on it cannot be stopped, "
			     "and would allocate the same addresses; repair it, or delete the Node",
			     x->name, *x->reason ? x->reason : "no reason reported"));
}

static void check_addresses(const struct migrate_cluster *c, struct migrate_plan *p)
{
	size_t n = 0;

	for (size_t i = 0; i < c->n_addresses; i++) {
		const struct migrate_address *a = &c->addresses[i];
		char text[IP_TEXT_MAX];

		if (a->in_status || a->adopted || a->was_missing || n++ >= NAMED_MAX)
			continue;
		line(&p->warnings,
		     xasprintf(
			     "address %s of pod '%s/%s' is not recorded in SpiderIPPool '%s': the "
			     "address may be allocated to a second pod, also by Spiderpool; delete "
			     "the pod so that it gets another address",
			     ip_str(&a->ip, text), a->ns, a->pod, a->pool));
	}
	if (n > MIGRATE_UNRECORDED_MAX)
		line(&p->problems,
		     xasprintf("%zu addresses of pods are not recorded in their SpiderIPPools: "
			       "repair status.allocatedIPs first",
			       n));
	if (n > NAMED_MAX)
		line(&p->warnings,
		     xasprintf("%zu more addresses of pods are not recorded in their SpiderIPPools",
			       n - NAMED_MAX));
}

/* --- steps of the migration --- */

static void plan_hooks(const struct migrate_cluster *c, struct migrate_plan *p)
{
	for (size_t i = 0; i < c->n_hooks; i++) {
		const struct migrate_hooks *h = &c->hooks[i];
		struct migrate_step *s;

		if (!h->n)
			continue;
		s = step(p, DO_WEBHOOKS, i, xasprintf("%s '%s'", hooks_kind(h), h->name));
		s->current = xasprintf("%zu webhooks", h->n);
		s->desired = xstrdup("no webhooks; unirail's controller registers its own");
		s->body = xstrdup("{\"webhooks\":[]}");
		s->command = patch_command(NULL, hooks_kind(h), h->name, s->body);
		s->undo = xasprintf("restores the webhooks that the journal has saved");
	}
}

static void plan_controller(const struct migrate_workload *x, size_t i, struct migrate_plan *p)
{
	struct migrate_step *s;

	if (x->excluded && !x->pods)
		return;
	s = step(p, DO_CONTROLLER, i, xasprintf("deployment '%s/%s'", x->ns, x->name));
	s->current = xasprintf("%lld replicas, %zu pods", (long long)x->replicas, x->pods);
	s->desired = xstrdup("no replicas: unirail's controller reconciles the same objects");
	s->body = xstrdup("{\"spec\":{\"replicas\":0}}");
	s->command = xasprintf("kubectl -n %s scale deployment/%s --replicas=0", x->ns, x->name);
	s->undo = xasprintf("kubectl -n %s scale deployment/%s --replicas=%lld", x->ns, x->name,
			    (long long)x->replicas);
}

static void plan_exclude(const struct migrate_workload *x, size_t i, struct migrate_plan *p)
{
	struct migrate_step *s;

	if (x->excluded)
		return;
	s = step(p, DO_EXCLUDE, i, xasprintf("daemonset '%s/%s'", x->ns, x->name));
	s->current = xstrdup("runs on every node that it selects");
	s->desired = xstrdup("does not run on nodes with the label " LABEL_MIGRATED
			     "; its pods restart once on every node");
	s->body = exclude_body(x);
	s->command = patch_command(x->ns, "daemonset", x->name, s->body);
	s->undo = xstrdup("restores the affinity that the journal has saved");
}

static void plan_addresses(const struct migrate_workload *x, size_t i, struct migrate_plan *p)
{
	struct migrate_step *s;

	if (x->excluded && !x->pods)
		return;
	s = step(p, DO_ADDRESSES, i, xasprintf("daemonset '%s/%s'", x->ns, x->name));
	s->current = xasprintf("%zu pods", x->pods);
	s->desired =
		xstrdup("no pods on any node; until a node is migrated, new pods with addresses "
			"of pools stay in ContainerCreating there");
	s->body = xasprintf(NEVER, "\"never\"");
	s->command = patch_command(x->ns, "daemonset", x->name, s->body);
	auto_free char *back = xasprintf(NEVER, "null");
	s->undo = patch_command(x->ns, "daemonset", x->name, back);
}

static void plan_workloads(const struct migrate_cluster *c, enum migrate_do what,
			   struct migrate_plan *p)
{
	for (size_t i = 0; i < c->n_workloads; i++) {
		const struct migrate_workload *x = &c->workloads[i];

		if (x->owner)
			continue;
		if (x->role == ROLE_CONTROLLER && what == DO_CONTROLLER)
			plan_controller(x, i, p);
		else if (x->role == ROLE_ADDRESSES && what == DO_ADDRESSES)
			plan_addresses(x, i, p);
		else if (x->role > ROLE_CONTROLLER && what == DO_EXCLUDE)
			plan_exclude(x, i, p);
	}
}

static void plan_install(const struct migrate_cluster *c, struct migrate_plan *p)
{
	struct migrate_step *s;

	if (c->agent_ns && c->controller && c->controller_ready)
		return;
	s = step(p, DO_INSTALL, 0, xasprintf("unirail in namespace '%s'", c->ns));
	s->current = xstrdup(c->agent_ns ? "the controller is not ready" : "absent");
	s->desired =
		xstrdup("the controller runs; agents run on nodes with the label " LABEL_MIGRATED
			"=yes; definitions that exist stay as they are");
	s->command = xasprintf(
		"unirail migrate values >values.json; unirail manifests -n %s -f values.json "
		"--set 'spiderpoolAgent.nodeSelector.unirail\\.io/migrated=yes' | "
		"kubectl apply -f -",
		c->ns);
	s->undo = xasprintf("kubectl -n %s delete daemonset/unirail-agent "
			    "deployment/unirail-controller",
			    c->ns);
}

static bool is_wanted(const char *name, const char *const *only, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(only[i], name) == 0)
			return true;
	return n == 0;
}

static void plan_node(const struct migrate_cluster *c, size_t i, struct migrate_plan *p)
{
	const struct migrate_node *x = &c->nodes[i];
	struct migrate_step *s;

	if (strcmp(x->label, "yes") == 0 && x->agent_ready && !x->originals)
		return;
	s = step(p, DO_NODE, i, xasprintf("node '%s'", x->name));
	s->current = xasprintf("%zu pods of the originals, %zu addresses of pods", x->originals,
			       x->addresses);
	s->desired =
		xasprintf("unirail's agent is ready; the %zu addresses stay with their pods, which "
			  "keep running",
			  x->addresses);
	s->command =
		xasprintf("kubectl label node %s " LABEL_MIGRATED
			  "=stopping --overwrite; when the originals' pods have ended: kubectl "
			  "label node %s " LABEL_MIGRATED "=yes --overwrite",
			  x->name, x->name);
	s->undo = xasprintf("kubectl label node %s " LABEL_MIGRATED
			    "-, after deploy/uninstall removed "
			    "unirail's files",
			    x->name);
}

static bool is_saved(const struct migrate_cluster *c)
{
	if (!c->journal)
		return false;
	for (size_t i = 0; i < c->n_workloads; i++)
		if (!c->workloads[i].owner && !saved_workload(c, &c->workloads[i]))
			return false;
	for (size_t i = 0; i < c->n_hooks; i++)
		if (!saved_hooks(c, &c->hooks[i]))
			return false;
	return true;
}

static void plan_save(const struct migrate_cluster *c, struct migrate_plan *p)
{
	struct migrate_step *s = &VEC_PUSH(p->steps, p->n);

	memmove(p->steps + 1, p->steps, (p->n - 1) * sizeof(*s));
	p->steps[0] = (struct migrate_step){
		.what = DO_SAVE,
		.subject = xasprintf("configmap '%s/" MIGRATE_JOURNAL "'", c->ns),
		.current = xstrdup(c->journal ? "lacks the state of some objects" : "absent"),
		.desired = xstrdup("affinity, replicas and webhooks of the originals, for undo"),
		.command = xasprintf(
			"kubectl create namespace %s; kubectl get -o yaml the objects below",
			c->ns),
		.undo = xasprintf("kubectl -n %s delete configmap " MIGRATE_JOURNAL, c->ns),
	};
}

/* No step deletes an original program: the user deletes it when undo is no longer needed. */
static void plan_follow_up(const struct migrate_cluster *c, struct migrate_plan *p)
{
	struct migrate_lines *l = &p->follow_up;

	for (size_t i = 0; i < c->n_workloads; i++) {
		const struct migrate_workload *x = &c->workloads[i];
		const struct json *annotations = migrate_at(x->v, "metadata", "annotations", NULL);
		const char *release = json_get_text(annotations, ANNOTATION_HELM_RELEASE);

		if (x->owner)
			continue;
		if (*release && x->role == ROLE_ADDRESSES)
			line(l,
			     xasprintf("helm -n %s uninstall %s --no-hooks   # without --no-hooks "
				       "Spiderpool deletes every pool and definition",
				       json_get_text(annotations, ANNOTATION_HELM_NAMESPACE),
				       release));
		else if (!*release)
			line(l,
			     xasprintf("kubectl -n %s delete %s/%s", x->ns, kind_of(x), x->name));
	}
	for (size_t i = 0; i < c->n_hooks; i++)
		line(l,
		     xasprintf("kubectl delete %s %s", hooks_kind(&c->hooks[i]), c->hooks[i].name));
	line(l, xasprintf("kubectl -n %s patch daemonset/unirail-agent --type json -p "
			  "'[{\"op\":\"remove\",\"path\":\"/spec/template/spec/nodeSelector\"}]'   "
			  "# then agents run on new nodes, too",
			  c->ns));
	line(l, xasprintf("kubectl -n %s delete configmap " MIGRATE_JOURNAL "   # last: no undo is "
			  "possible afterwards",
			  c->ns));
}

void migrate_plan(const struct migrate_cluster *c, const char *const *only, size_t n,
		  struct migrate_plan *ret)
{
	struct migrate_plan *p = ret;

	*p = (struct migrate_plan){0};
	check_active(c, p);
	check_workloads(c, p);
	if (!c->n_workloads && !c->journal)
		return;
	check_once(c, p);
	check_hooks(c, p);
	check_definitions(c, p);
	check_networks(c, p);
	check_addresses(c, p);
	plan_hooks(c, p);
	plan_workloads(c, DO_CONTROLLER, p);
	plan_workloads(c, DO_EXCLUDE, p);
	plan_workloads(c, DO_ADDRESSES, p);
	plan_install(c, p);
	for (size_t i = 0; i < c->n_nodes; i++) {
		const struct migrate_node *x = &c->nodes[i];
		bool named = n && is_wanted(x->name, only, n);

		/*
		 * With --node checks the other planned nodes as well: Spiderpool's agents end on
		 * all of them.
		 */
		if (x->planned || named)
			check_node(x, p);
		if (named || (!n && x->planned))
			plan_node(c, i, p);
	}
	for (size_t i = 0; i < n; i++)
		if (!migrate_node_find(c, only[i]))
			line(&p->problems, xasprintf("the cluster has no node '%s': 'kubectl get "
						     "nodes' lists them",
						     only[i]));
	if (p->n && !is_saved(c))
		plan_save(c, p);
	if (c->n_workloads)
		plan_follow_up(c, p);
}

/* --- steps of the undo --- */

static void plan_ends(const struct migrate_cluster *c, struct migrate_plan *p)
{
	struct migrate_step *s;
	size_t agents = 0, missing = 0;

	for (size_t i = 0; i < c->n_pods; i++)
		agents += c->pods[i].unirail && strcmp(c->pods[i].ns, c->ns) == 0;
	for (size_t i = 0; i < c->n_addresses; i++)
		missing += !c->addresses[i].in_status && !c->addresses[i].was_missing;
	if (c->agent_ns || agents) {
		s = step(p, UNDO_AGENTS, 0, xasprintf("daemonset '%s/unirail-agent'", c->ns));
		s->current = xasprintf("%zu pods", agents);
		s->desired = xstrdup(
			"deleted; until Spiderpool's agents run again, new pods with addresses "
			"of pools stay in ContainerCreating");
		s->command = xasprintf("kubectl -n %s delete daemonset/unirail-agent", c->ns);
	}
	if (c->agent_ns || agents || missing) {
		s = step(p, UNDO_RECORDS, 0, xstrdup("SpiderIPPools"));
		s->current =
			xasprintf("%zu addresses of pods are not in status.allocatedIPs", missing);
		s->desired =
			xstrdup("unirail's controller has added these addresses to the status, "
				"from which Spiderpool reads them");
	}
	if (c->controller) {
		s = step(p, UNDO_CONTROLLER, 0,
			 xasprintf("deployment '%s/unirail-controller'", c->ns));
		s->current = xstrdup("runs");
		s->desired = xstrdup("deleted, with its webhooks");
		s->command =
			xasprintf("kubectl -n %s delete deployment/unirail-controller; kubectl "
				  "delete mutatingwebhookconfiguration,"
				  "validatingwebhookconfiguration unirail-controller",
				  c->ns);
	}
}

static void plan_pools(const struct migrate_cluster *c, struct migrate_plan *p)
{
	for (size_t i = 0; i < c->n_pools; i++) {
		const struct json *m = json_get(c->pools[i], "metadata");
		const struct json *annotations = json_get(m, "annotations");
		const char *name = json_get_text(m, "name");
		bool adopted = json_get(annotations, ANNOTATION_ADOPTED);
		bool prefix = json_get(annotations, ANNOTATION_BLOCK_PREFIX) &&
			      !in_list(journal_list(c, "pools"), name);
		struct migrate_step *s;

		if (!adopted && !prefix)
			continue;
		s = step(p, UNDO_POOL, i, xasprintf("spiderippool '%s'", name));
		s->current = xstrdup("has annotations of unirail");
		s->desired = xstrdup("without the annotations that unirail added: a later "
				     "migration reads status.allocatedIPs again");
		s->body = xasprintf("{\"metadata\":{\"annotations\":{%s%s%s}}}",
				    adopted ? "\"" ANNOTATION_ADOPTED "\":null" : "",
				    adopted && prefix ? "," : "",
				    prefix ? "\"" ANNOTATION_BLOCK_PREFIX "\":null" : "");
		s->command = patch_command(NULL, "spiderippool", name, s->body);
	}
}

static void plan_nodes_back(const struct migrate_cluster *c, struct migrate_plan *p)
{
	for (size_t i = 0; i < c->n_nodes; i++) {
		const struct migrate_node *x = &c->nodes[i];
		struct migrate_step *s;

		if (!*x->label && !x->files_label)
			continue;
		if (!x->ready)
			line(&p->problems,
			     xasprintf(
				     "node '%s' is not Ready (%s): unirail's files on it cannot be "
				     "removed; repair it, or delete the Node",
				     x->name, x->reason));
		s = step(p, UNDO_NODE, i, xasprintf("node '%s'", x->name));
		s->current = xasprintf("label " LABEL_MIGRATED "=%s", x->label);
		s->desired =
			xstrdup("unirail's CNI configuration and links are removed; Multus and the "
				"device plugins return");
		s->command =
			xasprintf("kubectl label node %s " LABEL_UNINSTALL
				  "=yes; when deploy/uninstall is ready there: kubectl label node "
				  "%s " LABEL_UNINSTALL "- " LABEL_MIGRATED "-",
				  x->name, x->name);
	}
}

static void plan_workload_back(const struct migrate_cluster *c, size_t i, struct migrate_plan *p)
{
	const struct migrate_workload *x = &c->workloads[i];
	const struct json *was = saved_workload(c, x), *affinity = json_get(was, "affinity");
	struct migrate_step *s;
	int64_t replicas = 1;

	json_int(json_get(was, "replicas"), &replicas);
	if (!was || !x->excluded || (x->role == ROLE_CONTROLLER && !replicas))
		return;
	s = step(p, UNDO_WORKLOAD, i, xasprintf("%s '%s/%s'", kind_of(x), x->ns, x->name));
	if (x->role == ROLE_CONTROLLER) {
		s->current = xstrdup("no replicas");
		s->desired = xasprintf("%lld replicas", (long long)replicas);
		s->body = xasprintf("{\"spec\":{\"replicas\":%lld}}", (long long)replicas);
	} else if (x->role == ROLE_ADDRESSES) {
		s->current = xstrdup("selects no node");
		s->desired = xstrdup("selects nodes as before");
		s->body = xasprintf(NEVER, "null");
	} else {
		struct json_out o;
		struct buf b;

		buf_init(&b, MIGRATE_TEXT_MAX);
		buf_printf(&b, "[{\"op\":\"%s\",\"path\":\"/spec/template/spec/affinity\"",
			   json_kind(affinity) == JSON_NULL ? "remove" : "replace");
		if (json_kind(affinity) != JSON_NULL) {
			buf_str(&b, ",\"value\":");
			jo_init(&o, &b, 0);
			jo_val(&o, affinity, false);
		}
		buf_str(&b, "}]");
		s->current = xstrdup("does not run on nodes with the label " LABEL_MIGRATED);
		s->desired = xstrdup("the affinity as before");
		s->body = buf_take(&b);
	}
	s->command = patch_command(x->ns, kind_of(x), x->name, s->body);
}

static void plan_hooks_back(const struct migrate_cluster *c, struct migrate_plan *p)
{
	for (size_t i = 0; i < c->n_hooks; i++) {
		const struct migrate_hooks *h = &c->hooks[i];
		const struct json *was = json_get(saved_hooks(c, h), "webhooks");
		struct migrate_step *s;
		struct json_out o;
		struct buf b;

		if (h->n || !json_len(was))
			continue;
		buf_init(&b, MIGRATE_TEXT_MAX);
		jo_init(&o, &b, 0);
		jo_obj(&o);
		jo_key(&o, "webhooks");
		jo_val(&o, was, false);
		jo_end_obj(&o);
		s = step(p, UNDO_WEBHOOKS, i, xasprintf("%s '%s'", hooks_kind(h), h->name));
		s->current = xstrdup("no webhooks");
		s->desired = xasprintf("%zu webhooks", json_len(was));
		s->body = buf_take(&b);
		s->command = patch_command(NULL, hooks_kind(h), h->name, s->body);
	}
}

void migrate_plan_undo(const struct migrate_cluster *c, struct migrate_plan *ret)
{
	struct migrate_plan *p = ret;
	struct migrate_step *s;

	*p = (struct migrate_plan){0};
	if (!c->journal)
		return;
	plan_ends(c, p);
	plan_pools(c, p);
	plan_nodes_back(c, p);
	for (size_t i = 0; i < c->n_workloads; i++)
		plan_workload_back(c, i, p);
	plan_hooks_back(c, p);
	s = step(p, UNDO_OBJECTS, 0, xasprintf("unirail in namespace '%s'", c->ns));
	s->current = xstrdup("accounts, roles, ConfigMaps and webhooks");
	s->desired = xstrdup("deleted; definitions and the namespace stay");
	s = step(p, UNDO_SAVED, 0, xasprintf("configmap '%s/" MIGRATE_JOURNAL "'", c->ns));
	s->current = xstrdup("the originals' state before the migration");
	s->desired = xstrdup("deleted");
	s->command = xasprintf("kubectl -n %s delete configmap " MIGRATE_JOURNAL, c->ns);
	line(&p->follow_up,
	     xasprintf("namespace '%s', unirail's definition SpiderIPBlock with its blocks, "
		       "and /var/lib/unirail on the nodes: a later migration uses them again",
		       c->ns));
}

static void lines_done(struct migrate_lines *l)
{
	for (size_t i = 0; i < l->n; i++)
		free(l->v[i]);
	free(l->v);
}

void migrate_plan_done(struct migrate_plan *p)
{
	for (size_t i = 0; i < p->n; i++) {
		struct migrate_step *s = &p->steps[i];

		free(s->subject);
		free(s->current);
		free(s->desired);
		free(s->body);
		free(s->command);
		free(s->undo);
	}
	free(p->steps);
	lines_done(&p->problems);
	lines_done(&p->warnings);
	lines_done(&p->follow_up);
	*p = (struct migrate_plan){0};
}
