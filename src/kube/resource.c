/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/kinds.h"

#include <string.h>

#define SPIDERPOOL(name, namespaced)                                                               \
	{                                                                                          \
		SPIDERPOOL_GROUP, SPIDERPOOL_VERSION, name "s", name, namespaced                   \
	}
#define REGISTRATION(name)                                                                         \
	{                                                                                          \
		"admissionregistration.k8s.io", "v1", name "s", name, false                        \
	}

const struct kube_kind kube_ippools = SPIDERPOOL("spiderippool", false);
const struct kube_kind kube_subnets = SPIDERPOOL("spidersubnet", false);
const struct kube_kind kube_reservedips = SPIDERPOOL("spiderreservedip", false);
const struct kube_kind kube_multusconfigs = SPIDERPOOL("spidermultusconfig", true);
const struct kube_kind kube_coordinators = SPIDERPOOL("spidercoordinator", false);
const struct kube_kind kube_endpoints = SPIDERPOOL("spiderendpoint", true);
const struct kube_kind kube_ipblocks = {UNIRAIL_GROUP, "v1", "spideripblocks", "spideripblock",
					false};
const struct kube_kind kube_nads = {NAD_GROUP, "v1", "network-attachment-definitions",
				    "network-attachment-definition", true};

const struct kube_kind kube_pods = {"", "v1", "pods", "pod", true};
const struct kube_kind kube_nodes = {"", "v1", "nodes", "node", false};
const struct kube_kind kube_namespaces = {"", "v1", "namespaces", "namespace", false};
const struct kube_kind kube_configmaps = {"", "v1", "configmaps", "configmap", true};
const struct kube_kind kube_secrets = {"", "v1", "secrets", "secret", true};
const struct kube_kind kube_events_kind = {"", "v1", "events", "event", true};
const struct kube_kind kube_leases = {"coordination.k8s.io", "v1", "leases", "lease", true};
const struct kube_kind kube_crds = {"apiextensions.k8s.io", "v1", "customresourcedefinitions",
				    "customresourcedefinition", false};
const struct kube_kind kube_deployments = {"apps", "v1", "deployments", "deployment", true};
const struct kube_kind kube_replicasets = {"apps", "v1", "replicasets", "replicaset", true};
const struct kube_kind kube_statefulsets = {"apps", "v1", "statefulsets", "statefulset", true};
const struct kube_kind kube_daemonsets = {"apps", "v1", "daemonsets", "daemonset", true};
const struct kube_kind kube_jobs = {"batch", "v1", "jobs", "job", true};
const struct kube_kind kube_cronjobs = {"batch", "v1", "cronjobs", "cronjob", true};
const struct kube_kind kube_cronjobs_beta = {"batch", "v1beta1", "cronjobs", "cronjob", true};
const struct kube_kind kube_mutating_webhooks = REGISTRATION("mutatingwebhookconfiguration");
const struct kube_kind kube_validating_webhooks = REGISTRATION("validatingwebhookconfiguration");

const struct kube_kind kube_vms = {"kubevirt.io", "v1", "virtualmachines", "virtualmachine", true};
const struct kube_kind kube_vmis = {"kubevirt.io", "v1", "virtualmachineinstances",
				    "virtualmachineinstance", true};

static bool is_plain(char c)
{
	return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
	       (c && strchr("-_.~", c));
}

static void add_escaped(struct buf *b, const char *s)
{
	for (; *s; s++)
		if (is_plain(*s))
			buf_char(b, *s);
		else
			buf_printf(b, "%%%02X", (unsigned char)*s);
}

static void add_part(struct buf *b, const char *s)
{
	if (!s || !*s)
		return;
	buf_char(b, '/');
	add_escaped(b, s);
}

void kube_path(struct buf *b, const struct kube_ref *r)
{
	const struct kube_kind *k = r->kind;

	buf_str(b, *k->group ? "/apis" : "/api");
	add_part(b, k->group);
	add_part(b, k->version);
	if (k->namespaced && r->ns && *r->ns) {
		buf_str(b, "/namespaces");
		add_part(b, r->ns);
	}
	add_part(b, k->plural);
	add_part(b, r->name);
	add_part(b, r->sub);
}

void kube_path_query(struct buf *b, const char *key, const char *value)
{
	if (!value || !*value)
		return;
	buf_char(b, b->p && strchr(b->p, '?') ? '&' : '?');
	buf_str(b, key);
	buf_char(b, '=');
	add_escaped(b, value);
}

void kube_ref_describe(struct buf *b, const struct kube_ref *r)
{
	bool in_ns = r->kind->namespaced && r->ns && *r->ns;

	if (r->name)
		buf_printf(b, "%s%s%s '%s%s%s'", r->sub ? r->sub : "", r->sub ? " of " : "",
			   r->kind->name, in_ns ? r->ns : "", in_ns ? "/" : "", r->name);
	else if (in_ns)
		buf_printf(b, "%s of '%s'", r->kind->plural, r->ns);
	else
		buf_str(b, r->kind->plural);
}
