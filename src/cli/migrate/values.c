/* SPDX-License-Identifier: Apache-2.0 */
/* Spiderpool's settings, and the configurations of device plugins, as values of the chart. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/num.h"
#include "base/paths.h"
#include "cli/migrate/migrate.h"
#include "wire/yaml/yaml.h"

/* Keys of conf.yml in the ConfigMap spiderpool-conf. An absent bool is false, as in Go. */
static const struct {
	const char *key, *path;
	enum json_kind kind;
} settings[] = {
	{"enableIPv4", "ipam.enableIPv4", JSON_BOOL},
	{"enableIPv6", "ipam.enableIPv6", JSON_BOOL},
	{"enableStatefulSet", "ipam.enableStatefulSet", JSON_BOOL},
	{"enableKubevirtStaticIP", "ipam.enableKubevirtStaticIP", JSON_BOOL},
	{"enableIPConflictDetection", "ipam.enableIPConflictDetection", JSON_BOOL},
	{"enableGatewayDetection", "ipam.enableGatewayDetection", JSON_BOOL},
	{"enableSpiderSubnet", "ipam.spiderSubnet.enable", JSON_BOOL},
	{"clusterSubnetAutoPoolDefaultRedundantIPNumber",
	 "ipam.spiderSubnet.autoPool.defaultRedundantIPNumber", JSON_NUMBER},
	{"enableValidatingResourcesDeletedWebhook",
	 "spiderpoolController.enableValidatingResourcesDeletedWebhook", JSON_BOOL},
};

/* Environment variables of Spiderpool's agent and controller. For an absent variable the default
 * of unirail's chart applies. */
static const struct {
	enum migrate_role role;
	const char *name, *path;
	enum json_kind kind;
} variables[] = {
	{ROLE_ADDRESSES, "SPIDERPOOL_LOG_LEVEL", "spiderpoolAgent.debug.logLevel", JSON_STRING},
	{ROLE_ADDRESSES, "SPIDERPOOL_HEALTH_PORT", "spiderpoolAgent.httpPort", JSON_NUMBER},
	{ROLE_ADDRESSES, "SPIDERPOOL_METRIC_HTTP_PORT", "spiderpoolAgent.prometheus.port",
	 JSON_NUMBER},
	{ROLE_CONTROLLER, "SPIDERPOOL_LOG_LEVEL", "spiderpoolController.debug.logLevel",
	 JSON_STRING},
	{ROLE_CONTROLLER, "SPIDERPOOL_HEALTH_PORT", "spiderpoolController.httpPort", JSON_NUMBER},
	{ROLE_CONTROLLER, "SPIDERPOOL_METRIC_HTTP_PORT", "spiderpoolController.prometheus.port",
	 JSON_NUMBER},
	{ROLE_CONTROLLER, "SPIDERPOOL_WEBHOOK_PORT", "spiderpoolController.webhookPort",
	 JSON_NUMBER},
	{ROLE_CONTROLLER, "SPIDERPOOL_GC_IP_ENABLED", "ipam.gc.enabled", JSON_BOOL},
	{ROLE_CONTROLLER, "SPIDERPOOL_GC_DEFAULT_INTERVAL_DURATION",
	 "ipam.gc.gcAll.intervalInSecond", JSON_NUMBER},
	{ROLE_CONTROLLER, "SPIDERPOOL_GC_ADDITIONAL_GRACE_DELAY",
	 "ipam.gc.gcDeletingTimeOutPodDelay", JSON_NUMBER},
	{ROLE_CONTROLLER, "SPIDERPOOL_MULTUS_CONFIG_ENABLED", "multus.enableMultusConfig",
	 JSON_BOOL},
	{ROLE_CONTROLLER, "SPIDERPOOL_COORDINATOR_ENABLED", "coordinator.enabled", JSON_BOOL},
	{ROLE_CONTROLLER, "SPIDERPOOL_COORDINATOR_DEAFULT_NAME", "coordinator.name", JSON_STRING},
	{ROLE_CONTROLLER, "SPIDERPOOL_CILIUM_CONFIGMAP_NAMESPACE_NAME", "global.ciliumConfigMap",
	 JSON_STRING},
};

/*
 * Returns the object that has the last key of a path, and sets *key to that key; creates missing
 * objects.
 */
static struct json_tree *parent(struct json_tree *t, const char *path, const char **key)
{
	struct span rest = span_of(path), word;

	*key = strrchr(path, '.') + 1;
	while (span_cut(&rest, '.', &word) && rest.p) {
		auto_free char *name = span_dup(word);

		t = json_tree_member_object(t, name);
	}
	return t;
}

static void put(struct json_tree *t, const char *path, struct json_tree *v)
{
	const char *key;
	struct json_tree *to = parent(t, path, &key);

	json_tree_put(to, key, v);
}

static void put_bool(struct json_tree *t, const char *path, bool on)
{
	const char *key;
	struct json_tree *to = parent(t, path, &key);

	json_tree_put_bool(to, key, on);
}

static void put_text(struct json_tree *t, const char *path, const char *text)
{
	const char *key;
	struct json_tree *to = parent(t, path, &key);

	json_tree_put_text(to, key, text);
}

static const struct migrate_workload *workload(const struct migrate_cluster *c,
					       enum migrate_role role)
{
	for (size_t i = 0; i < c->n_workloads; i++)
		if (c->workloads[i].role == role)
			return &c->workloads[i];
	return NULL;
}

static const struct json *config_of(const struct migrate_cluster *c, const char *ns,
				    const char *name)
{
	for (size_t i = 0; i < c->n_configs; i++) {
		const struct json *m = json_get(c->configs[i], "metadata");

		if (strcmp(json_get_text(m, "namespace"), ns) == 0 &&
		    strcmp(json_get_text(m, "name"), name) == 0)
			return json_get(c->configs[i], "data");
	}
	return NULL;
}

/* --- Spiderpool --- */

static void add_settings(struct json_tree *t, const struct json *conf)
{
	const struct json *inject = json_get(conf, "podResourceInject");

	for (size_t i = 0; i < ARRAY_LEN(settings); i++) {
		const struct json *v = json_get(conf, settings[i].key);

		if (settings[i].kind == JSON_BOOL)
			put_bool(t, settings[i].path, json_bool(v));
		else if (json_kind(v) == settings[i].kind)
			put(t, settings[i].path, json_tree_of(v));
	}
	put_bool(t, "spiderpoolController.podResourceInject.enabled",
		 json_bool(json_get(inject, "enabled")));
	for (size_t i = 0; i < 2; i++) {
		const char *key = i ? "namespacesInclude" : "namespacesExclude";
		const struct json *list = json_get(inject, key);
		auto_free char *path = xasprintf("spiderpoolController.podResourceInject.%s", key);

		if (json_kind(list) == JSON_ARRAY && json_len(list))
			put(t, path, json_tree_of(list));
	}
}

static void remark_settings(const struct json *conf, struct buf *remarks)
{
	if (*json_get_text(json_get(conf, "iaasNetworkProvider"), "serverUrl"))
		buf_str(remarks, "iaasNetworkProvider.serverUrl is set: unirail has no provider of "
				 "cloud networks\n");
	if (json_bool(json_get(conf, "tuneSysctlConfig")))
		buf_str(remarks,
			"tuneSysctlConfig is enabled: sysctls that Spiderpool set on a node "
			"remain until the node restarts; to set them afterwards use kind "
			"'sysctl' of 'unirail host'\n");
	if (json_bool(migrate_at(conf, "agent", "networkResourcePlugin", "enabled", NULL)))
		buf_str(remarks, "agent.networkResourcePlugin is enabled: unirail has no resources "
				 "spidernet.io/IF-nic; pods that request them stay Pending\n");
}

static void add_spiderpool(const struct migrate_cluster *c, struct json_tree *t,
			   struct buf *remarks)
{
	for (size_t i = 0; i < c->n_configs; i++) {
		const char *text = json_string(migrate_at(c->configs[i], "data", "conf.yml", NULL));
		auto_json struct json_doc *d = NULL;
		auto_buf struct buf b;
		struct err e = ERR_INIT;

		buf_init(&b, MIGRATE_TEXT_MAX);
		if (!text)
			continue;
		if (yaml_to_json(span_of(text), &b, &e) < 0 ||
		    json_parse(&d, buf_span(&b), MIGRATE_TEXT_MAX, &e) < 0) {
			buf_printf(remarks,
				   "conf.yml of ConfigMap '%s' cannot be read, defaults apply: "
				   "%s\n",
				   json_get_text(json_get(c->configs[i], "metadata"), "name"),
				   e.text);
			return;
		}
		add_settings(t, json_root(d));
		remark_settings(json_root(d), remarks);
		return;
	}
}

static void add_variable(struct json_tree *t, size_t i, const char *text)
{
	int64_t n;

	if (variables[i].kind == JSON_STRING && *text) {
		put_text(t, variables[i].path, text);
	} else if (variables[i].kind == JSON_BOOL &&
		   (strcmp(text, "true") == 0 || strcmp(text, "false") == 0)) {
		put_bool(t, variables[i].path, *text == 't');
	} else if (variables[i].kind == JSON_NUMBER &&
		   num_i64(span_of(text), 1, INT32_MAX, &n) == 0) {
		const char *key;
		struct json_tree *to = parent(t, variables[i].path, &key);

		json_tree_put_int(to, key, n);
	}
}

static void add_variables(const struct migrate_workload *x, struct json_tree *t)
{
	struct json_walk containers =
		json_walk_start(migrate_at(x->v, "spec", "template", "spec", "containers", NULL));
	const struct json *container, *v;

	while ((container = json_walk_next(&containers, NULL))) {
		struct json_walk w = json_walk_start(json_get(container, "env"));

		while ((v = json_walk_next(&w, NULL)))
			for (size_t i = 0; i < ARRAY_LEN(variables); i++)
				if (variables[i].role == x->role &&
				    strcmp(variables[i].name, json_get_text(v, "name")) == 0)
					add_variable(t, i, json_get_text(v, "value"));
	}
}

/* Adds the nodes' CNI directories that differ from the defaults, such as those of k3s. */
static void add_directories(const struct migrate_workload *x, struct json_tree *t)
{
	struct json_walk w =
		json_walk_start(migrate_at(x->v, "spec", "template", "spec", "volumes", NULL));
	const struct json *v;

	while ((v = json_walk_next(&w, NULL))) {
		const char *path = json_get_text(json_get(v, "hostPath"), "path");
		size_t n = strlen(path);

		while (n > 1 && path[n - 1] == '/')
			n--;
		auto_free char *plain = span_dup((struct span){path, n});

		if (n > 8 && strcmp(plain + n - 6, "/net.d") == 0 &&
		    strcmp(plain, PATH_CNI_CONF) != 0)
			put_text(t, "global.cniConfHostPath", plain);
		if (n > 8 && strcmp(plain + n - 4, "/bin") == 0 && strstr(plain, "cni") &&
		    strcmp(plain, PATH_CNI_BIN) != 0)
			put_text(t, "global.cniBinHostPath", plain);
	}
}

/* --- device plugins --- */

/* Returns the text of the only file of a ConfigMap that the plugin's pods mount, if the text
 * contains the key `list`; NULL: no such ConfigMap. */
static const char *plugin_config(const struct migrate_cluster *c, const struct migrate_workload *x,
				 const char *list)
{
	struct json_walk w =
		json_walk_start(migrate_at(x->v, "spec", "template", "spec", "volumes", NULL));
	const struct json *v, *file;

	while ((v = json_walk_next(&w, NULL))) {
		const char *name = json_get_text(json_get(v, "configMap"), "name");
		struct json_walk files = json_walk_start(config_of(c, x->ns, name));

		if (*name && files.left == 1 && (file = json_walk_next(&files, NULL)) &&
		    json_string(file) && strstr(json_string(file), list))
			return json_string(file);
	}
	return NULL;
}

static void add_devices(const struct migrate_cluster *c, struct json_tree *t, struct buf *remarks)
{
	for (size_t i = 0; i < c->n_workloads; i++) {
		const struct migrate_workload *x = &c->workloads[i];
		bool shared = x->role == ROLE_SHARED;
		const char *text;

		if ((!shared && x->role != ROLE_VF) || x->owner)
			continue;
		text = plugin_config(c, x, shared ? "configList" : "resourceList");
		if (!text) {
			buf_printf(
				remarks,
				"DaemonSet '%s/%s' mounts no ConfigMap that consists of a "
				"single file with the key %s: set %sDevicePlugin.config, otherwise resources "
				"are named by rail\n",
				x->ns, x->name, shared ? "configList" : "resourceList",
				shared ? "rdmaShared" : "sriov");
			continue;
		}
		put_bool(t, shared ? "rdmaSharedDevicePlugin.deploy" : "sriovDevicePlugin.deploy",
			 true);
		put_text(t, shared ? "rdmaSharedDevicePlugin.config" : "sriovDevicePlugin.config",
			 text);
	}
}

struct json_tree *migrate_values(const struct migrate_cluster *c, struct buf *remarks)
{
	const struct migrate_workload *agent = workload(c, ROLE_ADDRESSES);
	struct json_tree *t = json_tree_new(JSON_OBJECT);
	size_t n = 0;

	if (agent || workload(c, ROLE_CONTROLLER))
		add_spiderpool(c, t, remarks);
	for (size_t i = 0; i < c->n_workloads; i++) {
		if (c->workloads[i].role == ROLE_ADDRESSES ||
		    c->workloads[i].role == ROLE_CONTROLLER)
			add_variables(&c->workloads[i], t);
		if (c->workloads[i].role == ROLE_ADDRESSES || c->workloads[i].role == ROLE_NETWORKS)
			add_directories(&c->workloads[i], t);
	}
	add_devices(c, t, remarks);
	for (size_t i = 0; i < c->n_nodes; i++)
		n += !c->nodes[i].windows;
	if (n == 1) { /* a second replica would need a second node */
		struct json_tree *x = json_tree_member_object(t, "spiderpoolController");

		json_tree_put_int(x, "replicas", 1);
	}
	return t;
}
