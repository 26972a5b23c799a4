/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cli/migrate: state read from objects, the steps to unirail and back, and problems that prevent
 * them.
 */
#include "testlib.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "cli/manifests/manifests.h"
#include "cli/manifests/render.h"
#include "cli/migrate/migrate.h"

static void add(struct migrate_cluster *c, const char *kind, const char *text)
{
	auto_json struct json_doc *d = NULL;
	struct err e = ERR_INIT;
	int r = json_parse(&d, span_of(text), MIGRATE_TEXT_MAX, &e);

	ASSERT_STR_EQ(r < 0 ? e.text : "", "");
	migrate_add(c, kind, json_root(d));
}

#define DAEMONSET(ns, name, image, more)                                                           \
	"{\"metadata\":{\"namespace\":\"" ns "\",\"name\":\"" name "\"},\"spec\":{\"template\":{"  \
	"\"spec\":{\"containers\":[{\"name\":\"c\",\"image\":\"" image "\"}]" more "}}}}"
#define POD(ns, owner_kind, owner, node)                                                           \
	"{\"metadata\":{\"namespace\":\"" ns                                                       \
	"\",\"name\":\"p\",\"ownerReferences\":[{\"kind\":\"" owner_kind "\",\"name\":\"" owner    \
	"\"}]},\"spec\":{\"nodeName\":\"" node                                                     \
	"\"},\"status\":{\"conditions\":[{\"type\":\"Ready\",\"status\":\"True\"}]}}"
#define NODE(name, labels)                                                                         \
	"{\"metadata\":{\"name\":\"" name "\",\"labels\":{" labels                                 \
	"}},\"status\":{\"conditions\":"                                                           \
	"[{\"type\":\"Ready\",\"status\":\"True\"}]}}"

static void add_spiderpool(struct migrate_cluster *c)
{
	c->ns = "unirail";
	add(c, "DaemonSet",
	    DAEMONSET("spiderpool", "spiderpool-agent",
		      "ghcr.io/spidernet-io/spiderpool/spiderpool-agent:v1.0.1",
		      ",\"nodeSelector\":{\"kubernetes.io/os\":\"linux\"}"));
	add(c, "DaemonSet",
	    DAEMONSET("kube-system", "kube-multus-ds",
		      "ghcr.io/k8snetworkplumbingwg/multus-cni:v4.1.4", ""));
	add(c, "DaemonSet",
	    DAEMONSET("kube-system", "x", "quay.io/multus-dynamic-networks-controller:v1", ""));
	add(c, "Deployment",
	    "{\"metadata\":{\"namespace\":\"spiderpool\",\"name\":\"spiderpool-controller\"},"
	    "\"spec\":{\"replicas\":2,\"template\":{\"spec\":{}}}}");
	add(c, "Node", NODE("n2", ""));
	add(c, "Node", NODE("n1", ""));
	add(c, "Node", NODE("unused", ""));
	add(c, "Pod", POD("spiderpool", "DaemonSet", "spiderpool-agent", "n1"));
	add(c, "Pod", POD("spiderpool", "DaemonSet", "spiderpool-agent", "n2"));
	add(c, "Pod", POD("kube-system", "DaemonSet", "kube-multus-ds", "n1"));
	add(c, "Pod", POD("spiderpool", "ReplicaSet", "spiderpool-controller-5d4f", "n1"));
	add(c, "Pod", POD("spiderpool", "ReplicaSet", "spiderpool-controller-other-5d4f", "n1"));
	add(c, "ValidatingWebhookConfiguration",
	    "{\"metadata\":{\"name\":\"spiderpool-controller\"},\"webhooks\":[{\"name\":"
	    "\"spiderippool.spiderpool.spidernet.io\"},{\"name\":\"x\"}]}");
	add(c, "MutatingWebhookConfiguration",
	    "{\"metadata\":{\"name\":\"other\"},\"webhooks\":[{\"name\":\"x.example.org\"}]}");
}

static void add_addresses(struct migrate_cluster *c)
{
	add(c, "SpiderIPPool",
	    "{\"metadata\":{\"name\":\"rail1\",\"annotations\":{\"unirail.io/block-prefix\":\"28\"}},"
	    "\"status\":{\"allocatedIPs\":\"{\\\"10.6.0.2\\\":{\\\"pod\\\":\\\"t/web-0\\\","
	    "\\\"podUid\\\":\\\"u\\\"},\\\"10.6.0.3\\\":{\\\"pod\\\":\\\"t/other\\\",\\\"podUid\\\":"
	    "\\\"u2\\\"}}\"}}");
	add(c, "SpiderEndpoint",
	    "{\"metadata\":{\"namespace\":\"t\",\"name\":\"web-0\"},\"status\":{\"current\":{\"uid\":"
	    "\"u\",\"node\":\"n1\",\"ips\":[{\"interface\":\"net1\",\"ipv4\":\"10.6.0.2/24\","
	    "\"ipv4Pool\":\"rail1\"}]}}}");
}

static void assert_steps(const struct migrate_plan *p, const enum migrate_do *want, size_t n)
{
	for (size_t i = 0; i < p->n && i < n; i++)
		ASSERT_EQ(p->steps[i].what, want[i]);
	ASSERT_EQ(p->n, n);
}

static const char *has(const struct migrate_lines *l, const char *expected)
{
	for (size_t i = 0; i < l->n; i++)
		if (strstr(l->v[i], expected))
			return l->v[i];
	return NULL;
}

static void test_steps_are_planned_in_order(void **state)
{
	static const enum migrate_do want[] = {DO_SAVE,	     DO_WEBHOOKS, DO_CONTROLLER, DO_EXCLUDE,
					       DO_ADDRESSES, DO_INSTALL,  DO_NODE,	 DO_NODE};
	auto_migrate struct migrate_cluster c = {0};
	struct migrate_plan p;

	(void)state;
	add_spiderpool(&c);
	add_addresses(&c);
	migrate_resolve(&c);
	ASSERT_EQ(c.n_workloads, 3);
	ASSERT_EQ(c.workloads[2].pods, 1);
	migrate_plan(&c, NULL, 0, &p);
	ASSERT_EQ(p.problems.n, 0);
	ASSERT_EQ(p.warnings.n, 0);
	assert_steps(&p, want, ARRAY_LEN(want));
	ASSERT_STR_EQ(p.steps[3].command,
		      "kubectl -n kube-system patch daemonset kube-multus-ds --type merge -p "
		      "'{\"spec\":{\"template\":{\"spec\":{\"affinity\":{\"nodeAffinity\":{"
		      "\"requiredDuringSchedulingIgnoredDuringExecution\":{\"nodeSelectorTerms\":[{"
		      "\"matchExpressions\":[{\"key\":\"unirail.io/migrated\",\"operator\":"
		      "\"DoesNotExist\"}]}]}}}}}}}'");
	ASSERT_STR_EQ(p.steps[4].undo,
		      "kubectl -n spiderpool patch daemonset spiderpool-agent --type merge -p "
		      "'{\"spec\":{\"template\":{\"spec\":{\"nodeSelector\":{"
		      "\"unirail.io/migrated\":null}}}}}'");
	ASSERT_STR_EQ(p.steps[6].subject, "node 'n1'");
	ASSERT_STR_EQ(p.steps[6].current, "2 pods of the originals, 1 addresses of pods");
	assert_non_null(
		has(&p.follow_up, "kubectl -n kube-system delete daemonset/kube-multus-ds"));
	migrate_plan_done(&p);
}

static void test_only_the_named_nodes_are_migrated(void **state)
{
	static const char *const only[] = {"n2", "n9"};
	auto_migrate struct migrate_cluster c = {0};
	struct migrate_plan p;

	(void)state;
	add_spiderpool(&c);
	migrate_resolve(&c);
	migrate_plan(&c, only, 2, &p);
	ASSERT_EQ(p.problems.n, 1);
	ASSERT_STR_EQ(p.problems.v[0],
		      "the cluster has no node 'n9': 'kubectl get nodes' lists them");
	ASSERT_EQ(p.n, 7);
	ASSERT_STR_EQ(p.steps[6].subject, "node 'n2'");
	migrate_plan_done(&p);
}

/* Node selector terms are alternatives, so the condition that excludes migrated nodes is added
 * to each term; the rest of the affinity is retained. */
static void test_every_selector_term_excludes_migrated_nodes(void **state)
{
	auto_migrate struct migrate_cluster c = {.ns = "unirail"};
	struct migrate_plan p;

	(void)state;
	add(&c, "DaemonSet",
	    DAEMONSET("n", "kube-multus-ds", "i",
		      ",\"affinity\":{\"podAffinity\":{},\"nodeAffinity\":{"
		      "\"requiredDuringSchedulingIgnoredDuringExecution\":{\"nodeSelectorTerms\":["
		      "{\"matchExpressions\":[{\"key\":\"a\",\"operator\":\"Exists\"}]},"
		      "{\"matchFields\":[]}]}}}"));
	migrate_resolve(&c);
	migrate_plan(&c, NULL, 0, &p);
	ASSERT_EQ(p.steps[1].what, DO_EXCLUDE);
	ASSERT_STR_EQ(
		p.steps[1].body,
		"{\"spec\":{\"template\":{\"spec\":{\"affinity\":{\"podAffinity\":{},\"nodeAffinity\":{"
		"\"requiredDuringSchedulingIgnoredDuringExecution\":{\"nodeSelectorTerms\":["
		"{\"matchExpressions\":[{\"key\":\"a\",\"operator\":\"Exists\"},"
		"{\"key\":\"unirail.io/migrated\",\"operator\":\"DoesNotExist\"}]},"
		"{\"matchFields\":[],\"matchExpressions\":["
		"{\"key\":\"unirail.io/migrated\",\"operator\":\"DoesNotExist\"}]}]}}}}}}}");
	migrate_plan_done(&p);
}

static void journal_text(const struct migrate_cluster *c, struct buf *b)
{
	struct json_out o;

	buf_init(b, MIGRATE_TEXT_MAX);
	jo_init(&o, b, 0);
	migrate_journal(c, NULL, &o);
}

/*
 * A cluster in which all steps are done; the journal has the original state, which is no longer
 * observable.
 */
static void add_migrated(struct migrate_cluster *c)
{
	auto_migrate struct migrate_cluster before = {0};
	auto_buf struct buf journal, object;
	struct json_out o;

	add_spiderpool(&before);
	add_addresses(&before);
	migrate_resolve(&before);
	journal_text(&before, &journal);
	c->ns = "unirail";
	add(c, "DaemonSet",
	    DAEMONSET("spiderpool", "spiderpool-agent", "i",
		      ",\"nodeSelector\":{\"unirail.io/migrated\":\"never\"}"));
	add(c, "DaemonSet",
	    DAEMONSET("kube-system", "kube-multus-ds", "i",
		      ",\"affinity\":{\"nodeAffinity\":{"
		      "\"requiredDuringSchedulingIgnoredDuringExecution\":{\"nodeSelectorTerms\":["
		      "{\"matchExpressions\":[{\"key\":\"unirail.io/migrated\",\"operator\":"
		      "\"DoesNotExist\"}]}]}}}"));
	add(c, "DaemonSet", DAEMONSET("unirail", "unirail-agent", "i", ""));
	add(c, "Deployment",
	    "{\"metadata\":{\"namespace\":\"spiderpool\",\"name\":\"spiderpool-controller\"},"
	    "\"spec\":{\"replicas\":0,\"template\":{\"spec\":{}}}}");
	add(c, "Deployment",
	    "{\"metadata\":{\"namespace\":\"unirail\",\"name\":\"unirail-controller\"},"
	    "\"status\":{\"readyReplicas\":1}}");
	add(c, "ValidatingWebhookConfiguration",
	    "{\"metadata\":{\"name\":\"spiderpool-controller\"},\"webhooks\":[]}");
	add(c, "Node", NODE("n1", "\"unirail.io/migrated\":\"yes\""));
	add(c, "Node", NODE("n2", "\"unirail.io/migrated\":\"yes\""));
	add(c, "Pod", POD("unirail", "DaemonSet", "unirail-agent", "n1"));
	add(c, "Pod", POD("unirail", "DaemonSet", "unirail-agent", "n2"));
	buf_init(&object, MIGRATE_TEXT_MAX);
	jo_init(&o, &object, 0);
	jo_obj(&o);
	jo_key(&o, "metadata");
	jo_obj(&o);
	jo_kstr(&o, "namespace", "unirail");
	jo_kstr(&o, "name", MIGRATE_JOURNAL);
	jo_end_obj(&o);
	jo_key(&o, "data");
	jo_obj(&o);
	jo_kstr(&o, "journal.json", journal.p);
	jo_end_obj(&o);
	jo_end_obj(&o);
	add(c, "ConfigMap", object.p);
}

static void test_migrated_cluster_needs_no_steps(void **state)
{
	auto_migrate struct migrate_cluster c = {0};
	struct migrate_plan p;

	(void)state;
	add_migrated(&c);
	add_addresses(&c);
	migrate_resolve(&c);
	migrate_plan(&c, NULL, 0, &p);
	ASSERT_EQ(p.problems.n, 0);
	ASSERT_EQ(p.n, 0);
	ASSERT_EQ(p.follow_up.n, 6);
	migrate_plan_done(&p);
}

static void test_journal_retains_the_state_before_the_migration(void **state)
{
	auto_migrate struct migrate_cluster c = {0};
	auto_buf struct buf b;

	(void)state;
	add_migrated(&c);
	migrate_resolve(&c);
	journal_text(&c, &b);
	assert_non_null(strstr(b.p, "\"name\":\"spiderpool-controller\",\"replicas\":2"));
	assert_null(strstr(b.p, "\"replicas\":0"));
	assert_null(strstr(b.p, "DoesNotExist"));
	assert_non_null(strstr(
		b.p, "\"pools\":[\"rail1\"],\"unrecordedAddresses\":{},\"nodes\":[\"n1\",\"n2\"]"));
}

static void test_undo_is_planned_in_reverse_order(void **state)
{
	static const enum migrate_do want[] = {UNDO_AGENTS,   UNDO_RECORDS,  UNDO_CONTROLLER,
					       UNDO_POOL,     UNDO_NODE,     UNDO_NODE,
					       UNDO_WORKLOAD, UNDO_WORKLOAD, UNDO_WORKLOAD,
					       UNDO_WEBHOOKS, UNDO_OBJECTS,  UNDO_SAVED};
	auto_migrate struct migrate_cluster c = {0};
	struct migrate_plan p;

	(void)state;
	add_migrated(&c);
	add_addresses(&c);
	add(&c, "SpiderIPPool",
	    "{\"metadata\":{\"name\":\"rail2\",\"annotations\":{\"unirail.io/block-prefix\":\"28\","
	    "\"unirail.io/adopted\":\"{}\"}}}");
	migrate_resolve(&c);
	migrate_plan_undo(&c, &p);
	assert_steps(&p, want, ARRAY_LEN(want));
	/* Only rail1 had the annotation unirail.io/block-prefix before the migration. */
	ASSERT_STR_EQ(p.steps[3].command,
		      "kubectl patch spiderippool rail2 --type merge -p '{\"metadata\":{"
		      "\"annotations\":{\"unirail.io/adopted\":null,\"unirail.io/block-prefix\":"
		      "null}}}'");
	ASSERT_STR_EQ(p.steps[7].body,
		      "[{\"op\":\"remove\",\"path\":\"/spec/template/spec/affinity\"}]");
	ASSERT_STR_EQ(p.steps[8].body, "{\"spec\":{\"replicas\":2}}");
	ASSERT_STR_EQ(p.steps[9].body,
		      "{\"webhooks\":[{\"name\":\"spiderippool.spiderpool.spidernet.io\"},"
		      "{\"name\":\"x\"}]}");
	migrate_plan_done(&p);
}

static void test_undo_without_a_journal_has_no_steps(void **state)
{
	auto_migrate struct migrate_cluster c = {0};
	struct migrate_plan p;

	(void)state;
	add_spiderpool(&c);
	migrate_resolve(&c);
	migrate_plan_undo(&c, &p);
	ASSERT_EQ(p.n, 0);
	migrate_plan_done(&p);
}

#define NOT_READY(name, message)                                                                   \
	"{\"metadata\":{\"name\":\"" name "\"},\"status\":{\"conditions\":[{\"type\":\"Ready\","   \
	"\"status\":\"False\",\"message\":\"" message "\"}]}}"

static void test_obstacles_of_a_migration_are_reported(void **state)
{
	static const struct {
		const char *kind, *object, *expected;
		/* 0: a problem; 1: a warning; 2: a problem, tested without the objects of
		 * add_spiderpool() */
		int how;
	} cases[] = {
		{"DaemonSet", DAEMONSET("unirail", "unirail-agent", "i", ""),
		 "there is no journal of a migration", false},
		{"DaemonSet", DAEMONSET("x", "unirail-agent", "i", ""), "use -n x", false},
		{"Node", NOT_READY("n3", "x: NetworkReady=false reason:NetworkPluginNotReady"),
		 "node 'n3' has no CNI configuration", false},
		{"Node", NOT_READY("n3", "Kubelet stopped posting node status."),
		 "node 'n3' is not Ready (Kubelet stopped", false},
		{"NetworkAttachmentDefinition",
		 "{\"metadata\":{\"namespace\":\"t\",\"name\":\"w\"},\"spec\":{\"config\":\"{"
		 "\\\"plugins\\\":[{\\\"type\\\":\\\"macvlan\\\",\\\"ipam\\\":{\\\"type\\\":"
		 "\\\"whereabouts\\\"}}]}\"}}",
		 "'t/w' has the IPAM plugin whereabouts", false},
		{"NetworkAttachmentDefinition",
		 "{\"metadata\":{\"namespace\":\"t\",\"name\":\"i\"},\"spec\":{\"config\":\"{"
		 "\\\"type\\\":\\\"ifacer\\\"}\"}}",
		 "kubectl annotate namespace t unirail.io/trusted-definitions=true", true},
		{"CustomResourceDefinition",
		 "{\"metadata\":{\"name\":\"spiderippools.spiderpool.spidernet.io\",\"annotations\":{"
		 "\"meta.helm.sh/release-name\":\"sp\",\"meta.helm.sh/release-namespace\":\"k\"}},"
		 "\"spec\":{\"group\":\"spiderpool.spidernet.io\"}}",
		 "belongs to release 'sp' in namespace 'k'", true},
		{"SpiderEndpoint",
		 "{\"metadata\":{\"namespace\":\"t\",\"name\":\"lost\"},\"status\":{\"current\":{"
		 "\"uid\":\"u\",\"node\":\"n1\",\"ips\":[{\"ipv6\":\"fd00::2/64\",\"ipv6Pool\":"
		 "\"rail6\"}]}}}",
		 "address fd00::2 of pod 't/lost' is not recorded in SpiderIPPool 'rail6'", true},
		{"DaemonSet",
		 "{\"metadata\":{\"namespace\":\"nv\",\"name\":\"sriov\",\"ownerReferences\":[{\"kind\":"
		 "\"NicClusterPolicy\",\"controller\":true}]},\"spec\":{\"template\":{\"spec\":{"
		 "\"containers\":[{\"image\":\"nvcr.io/sriov-network-device-plugin:v3\"}]}}}}",
		 "is managed by a NicClusterPolicy", true},
		{"DaemonSet", DAEMONSET("tenant", "kube-multus-ds", "i", ""),
		 "'kube-system/kube-multus-ds' and 'tenant/kube-multus-ds' seem to be the same program",
		 false},
		{"DaemonSet",
		 "{\"metadata\":{\"namespace\":\"s\",\"name\":\"spiderpool-agent\"},\"spec\":{"
		 "\"template\":{\"spec\":{\"containers\":[{\"name\":\"multus-cni\",\"lifecycle\":{"
		 "\"preStop\":{}}}]}}}}",
		 "--set multus.multusCNI.uninstall=false", 2},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		auto_migrate struct migrate_cluster c = {0};
		struct migrate_plan p;

		if (cases[i].how < 2)
			add_spiderpool(&c);
		c.ns = "unirail";
		add(&c, "Pod", POD("spiderpool", "DaemonSet", "spiderpool-agent", "n3"));
		add(&c, cases[i].kind, cases[i].object);
		migrate_resolve(&c);
		migrate_plan(&c, NULL, 0, &p);
		assert_non_null(
			has(cases[i].how == 1 ? &p.warnings : &p.problems, cases[i].expected));
		ASSERT_EQ_MSG(p.problems.n + p.warnings.n, 1, "cases[%zu]", i);
		migrate_plan_done(&p);
	}
}

/* The value "stopping" of the Node's label records that its migration was started: the pods of
 * the original DaemonSets may have ended before `unirail migrate` was killed. */
static void test_started_migration_of_a_node_is_completed(void **state)
{
	auto_migrate struct migrate_cluster c = {0};
	struct migrate_plan p;

	(void)state;
	add_migrated(&c);
	add(&c, "Node", NODE("new", "\"unirail.io/migrated\":\"stopping\""));
	migrate_resolve(&c);
	migrate_plan(&c, NULL, 0, &p);
	ASSERT_EQ(p.n, 1);
	ASSERT_STR_EQ(p.steps[0].subject, "node 'new'");
	migrate_plan_done(&p);
}

/* Undo does not wait for the record of an address that had no record before the migration. */
static void test_undo_ignores_addresses_without_a_previous_record(void **state)
{
	static const char lost[] =
		"{\"metadata\":{\"namespace\":\"t\",\"name\":\"lost\"},\"status\":{"
		"\"current\":{\"uid\":\"u\",\"node\":\"n1\",\"ips\":[{\"ipv4\":"
		"\"10.6.0.9/24\",\"ipv4Pool\":\"rail1\"}]}}}";
	auto_migrate struct migrate_cluster before = {.ns = "unirail"}, c = {.ns = "unirail"};
	auto_buf struct buf journal, object;
	struct migrate_plan p;
	struct json_out o;

	(void)state;
	add(&before, "SpiderEndpoint", lost);
	migrate_resolve(&before);
	journal_text(&before, &journal);
	assert_non_null(strstr(journal.p, "\"unrecordedAddresses\":{\"rail1 10.6.0.9\":true}"));
	buf_init(&object, MIGRATE_TEXT_MAX);
	jo_init(&o, &object, 0);
	jo_str(&o, journal.p);
	auto_free char *text = xasprintf("{\"metadata\":{\"namespace\":\"unirail\",\"name\":"
					 "\"unirail-migration\"},\"data\":{\"journal.json\":%s}}",
					 object.p);
	add(&c, "SpiderEndpoint", lost);
	add(&c, "ConfigMap", text);
	migrate_resolve(&c);
	migrate_plan_undo(&c, &p);
	ASSERT_EQ(p.steps[0].what, UNDO_OBJECTS);
	migrate_plan_done(&p);
}

/* Quotes in an expression of a webhook are escaped in the shell command, and unchanged in the
 * body of the request. */
static void test_quotes_are_escaped_in_commands(void **state)
{
	auto_migrate struct migrate_cluster before = {.ns = "unirail"}, c = {.ns = "unirail"};
	auto_buf struct buf journal, object;
	struct migrate_plan p;
	struct json_out o;

	(void)state;
	add(&before, "ValidatingWebhookConfiguration",
	    "{\"metadata\":{\"name\":\"spiderpool-controller\"},\"webhooks\":[{\"name\":\"a\","
	    "\"e\":\"x == 'y'\"}]}");
	journal_text(&before, &journal);
	buf_init(&object, MIGRATE_TEXT_MAX);
	jo_init(&o, &object, 0);
	jo_str(&o, journal.p);
	auto_free char *text = xasprintf("{\"metadata\":{\"namespace\":\"unirail\",\"name\":"
					 "\"unirail-migration\"},\"data\":{\"journal.json\":%s}}",
					 object.p);
	add(&c, "ConfigMap", text);
	add(&c, "ValidatingWebhookConfiguration",
	    "{\"metadata\":{\"name\":\"spiderpool-controller\"}}");
	migrate_resolve(&c);
	migrate_plan_undo(&c, &p);
	ASSERT_EQ(p.steps[0].what, UNDO_WEBHOOKS);
	assert_non_null(strstr(p.steps[0].command, "\"x == '\\''y'\\''\""));
	assert_non_null(strstr(p.steps[0].body, "\"x == 'y'\""));
	migrate_plan_done(&p);
}

static void test_cluster_without_spiderpool_and_multus_is_a_problem(void **state)
{
	auto_migrate struct migrate_cluster c = {.ns = "unirail"};
	struct migrate_plan p;

	(void)state;
	migrate_resolve(&c);
	migrate_plan(&c, NULL, 0, &p);
	assert_non_null(has(&p.problems, "neither Spiderpool nor Multus"));
	migrate_plan_done(&p);
}

/* The ConfigMap, environment variables and directories of Spiderpool, and the configurations of
 * the device plugins, become values of the chart. */
static void test_settings_of_originals_become_chart_values(void **state)
{
	auto_migrate struct migrate_cluster c = {.ns = "unirail"};
	auto_tree struct json_tree *t = NULL;
	auto_buf struct buf annotations, b, out;
	struct err e = ERR_INIT;
	struct json_out o;

	(void)state;
	add(&c, "Node", NODE("n1", ""));
	add(&c, "DaemonSet",
	    "{\"metadata\":{\"namespace\":\"s\",\"name\":\"spiderpool-agent\"},\"spec\":{\"template\":{"
	    "\"spec\":{\"volumes\":[{\"hostPath\":{\"path\":\"/var/lib/rancher/k3s/agent/etc/cni/net.d/"
	    "\"}},{\"hostPath\":{\"path\":\"/opt/cni/bin\"}}],\"containers\":[{\"env\":[{\"name\":"
	    "\"SPIDERPOOL_HEALTH_PORT\",\"value\":\"5810\"},{\"name\":\"SPIDERPOOL_LOG_LEVEL\","
	    "\"value\":\"debug\"}]}]}}}}");
	add(&c, "DaemonSet",
	    "{\"metadata\":{\"namespace\":\"d\",\"name\":\"x\"},\"spec\":{\"template\":{\"spec\":{"
	    "\"containers\":[{\"image\":\"ghcr.io/mellanox/k8s-rdma-shared-dev-plugin:v1.5.3\"}],"
	    "\"volumes\":[{\"configMap\":{\"name\":\"rdma-devices\"}}]}}}}");
	add(&c, "DaemonSet", DAEMONSET("d", "kube-sriov-device-plugin", "i", ""));
	add(&c, "ConfigMap",
	    "{\"metadata\":{\"namespace\":\"d\",\"name\":\"rdma-devices\"},\"data\":{\"config.json\":"
	    "\"{\\\"configList\\\":[]}\"}}");
	add(&c, "ConfigMap",
	    "{\"metadata\":{\"namespace\":\"s\",\"name\":\"spiderpool-conf\"},\"data\":{\"conf.yml\":"
	    "\"enableIPv4: true\\nenableSpiderSubnet: true\\ntuneSysctlConfig: true\\n"
	    "clusterSubnetAutoPoolDefaultRedundantIPNumber: 2\\npodResourceInject:\\n  enabled: true\\n"
	    "  namespacesExclude:\\n  - kube-system\\n\"}}");
	migrate_resolve(&c);
	buf_init(&annotations, 4096);
	buf_init(&out, RENDER_MAX);
	buf_init(&b, 4096);
	t = migrate_values(&c, &annotations);
	jo_init(&o, &b, 0);
	json_tree_write(t, &o);
	ASSERT_STR_EQ(
		b.p,
		"{\"ipam\":{\"enableIPv4\":true,\"enableIPv6\":false,\"enableStatefulSet\":false,"
		"\"enableKubevirtStaticIP\":false,\"enableIPConflictDetection\":false,"
		"\"enableGatewayDetection\":false,\"spiderSubnet\":{\"enable\":true,\"autoPool\":{"
		"\"defaultRedundantIPNumber\":2}}},\"spiderpoolController\":{"
		"\"enableValidatingResourcesDeletedWebhook\":false,\"podResourceInject\":{\"enabled\":"
		"true,\"namespacesExclude\":[\"kube-system\"]},\"replicas\":1},\"spiderpoolAgent\":{"
		"\"httpPort\":5810,\"debug\":{\"logLevel\":\"debug\"}},\"global\":{\"cniConfHostPath\":"
		"\"/var/lib/rancher/k3s/agent/etc/cni/net.d\"},\"rdmaSharedDevicePlugin\":{\"deploy\":"
		"true,\"config\":\"{\\\"configList\\\":[]}\"}}");
	assert_non_null(strstr(annotations.p, "tuneSysctlConfig"));
	assert_non_null(strstr(annotations.p,
			       "DaemonSet 'd/kube-sriov-device-plugin' mounts no ConfigMap"));
	/* The chart accepts all values of the result. */
	ASSERT_EQ(manifests_render(t, "unirail", &out, &annotations, &e), 0);
	assert_non_null(strstr(out.p, "enable-ipv6 = no"));
	assert_non_null(strstr(out.p, "path: /var/lib/rancher/k3s/agent/etc/cni/net.d\n"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_steps_are_planned_in_order),
		cmocka_unit_test(test_only_the_named_nodes_are_migrated),
		cmocka_unit_test(test_every_selector_term_excludes_migrated_nodes),
		cmocka_unit_test(test_migrated_cluster_needs_no_steps),
		cmocka_unit_test(test_journal_retains_the_state_before_the_migration),
		cmocka_unit_test(test_undo_is_planned_in_reverse_order),
		cmocka_unit_test(test_undo_without_a_journal_has_no_steps),
		cmocka_unit_test(test_obstacles_of_a_migration_are_reported),
		cmocka_unit_test(test_started_migration_of_a_node_is_completed),
		cmocka_unit_test(test_undo_ignores_addresses_without_a_previous_record),
		cmocka_unit_test(test_quotes_are_escaped_in_commands),
		cmocka_unit_test(test_cluster_without_spiderpool_and_multus_is_a_problem),
		cmocka_unit_test(test_settings_of_originals_become_chart_values),
	};

	return T_RUN(tests, NULL, NULL);
}
