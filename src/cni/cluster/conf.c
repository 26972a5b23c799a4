/* SPDX-License-Identifier: Apache-2.0 */
#include "cni/cluster/conf.h"

#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/paths.h"

struct raw {
	struct pod_conf conf;
	const char *kubeconfig, *log_file, *log_level, *chain_name, *chroot;
};

#define FIELD(key, kind, member, ...) JSON_FIELD(key, kind, struct raw, member, ##__VA_ARGS__)

static const struct json_field fields[] = {
	FIELD("agent", J_STR, conf.agent,
	      JSON_OWN(PATH_AGENT_SOCKET,
		       "socket of the node's agent; if the netconf of unirail-cni does not have "
		       "this key, only the networks of the netconf are attached")),
	FIELD("clusterNetwork", J_STR, conf.cluster_network,
	      JSON_DOC(NULL, "the pod's first network: a definition, a name in confDir or a path")),
	FIELD("delegates", J_VAL, conf.delegates,
	      JSON_DOC(NULL, "multus: the pod's first networks, if clusterNetwork is not set")),
	FIELD("networks", J_VAL, conf.networks,
	      JSON_OWN(NULL,
		       "unirail-cni: the pod's first networks, if clusterNetwork is not set")),
	FIELD("defaultNetworks", J_STRS, conf.default_networks,
	      JSON_DOC(NULL, "further networks of every pod outside systemNamespaces")),
	FIELD("systemNamespaces", J_STRS, conf.system_namespaces,
	      .has = offsetof(struct raw, conf.has_system),
	      JSON_DOC("kube-system", "namespaces whose pods do not get defaultNetworks")),
	FIELD("multusNamespace", J_STR, conf.multus_namespace,
	      JSON_DOC("kube-system",
		       "namespace of the definitions that clusterNetwork and defaultNetworks "
		       "name, and that annotation v1.multus-cni.io/default-network names without "
		       "a namespace")),
	FIELD("namespaceIsolation", J_BOOL, conf.isolation,
	      JSON_DOC("false", "if true, a pod may use only definitions of its own namespace "
				"and of globalNamespaces")),
	FIELD("globalNamespaces", J_STR, conf.global_namespaces,
	      JSON_DOC("default",
		       "namespaces, separated by commas, whose definitions every pod may use")),
	FIELD("confDir", J_STR, conf.conf_dir,
	      JSON_DOC(PATH_MULTUS_CONF,
		       "directory with the configuration of a network that has no definition, or "
		       "whose definition has no spec.config")),
	FIELD("cniDir", J_STR, conf.cni_dir,
	      JSON_DOC(PATH_MULTUS,
		       "directory in which attachments are recorded in Multus' format")),
	FIELD("binDir", J_STR, conf.bin_dir,
	      JSON_DOC(PATH_CNI_BIN, "directory of plugins, searched before "
				     "the directories of CNI_PATH")),
	FIELD("readinessindicatorfile", J_STR, conf.ready_file,
	      JSON_DOC(NULL, "an ADD waits for this file, at most 45 s")),
	FIELD("kubeconfig", J_STR, kubeconfig,
	      JSON_DOC(NULL, "not read, since the agent has its own kubeconfig; if set, multus "
			     "uses the agent even if the netconf has delegates")),
	FIELD("logFile", J_STR, log_file, JSON_DOC(NULL, "file to which multus writes its log")),
	FIELD("logLevel", J_STR, log_level, JSON_DOC(NULL, "panic, error, verbose or debug")),
	FIELD("auxiliaryCNIChainName", J_STR, chain_name,
	      JSON_DOC(NULL, "accepted without effect")),
	FIELD("chrootDir", J_STR, chroot,
	      JSON_DOC(NULL,
		       "multus-shim: mount point of the node's root in the container of Multus' "
		       "daemon, removed from the start of paths")),
	{0}};
const struct json_table pod_conf_table = {fields, JSON_GO, 0};

bool pod_conf_names_pod(const struct json *conf)
{
	return str_if_set(json_string(json_get_go(conf, "agent"))) != NULL;
}

static void set_default(const char **s, const char *otherwise)
{
	*s = str_if_set(*s) ? *s : otherwise;
}

static int want_absolute(const char *path, const char *key, struct err *e)
{
	if (!path || *path == '/')
		return 0;
	return err_kind(e, ERR_CONF, -EINVAL, "conf.%s is '%s', expected an absolute path", key,
			path);
}

static int check_paths(const struct pod_conf *c, struct err *e)
{
	int r = want_absolute(c->agent, "agent", e);

	if (r == 0)
		r = want_absolute(c->conf_dir, "confDir", e);
	if (r == 0)
		r = want_absolute(c->cni_dir, "cniDir", e);
	if (r == 0)
		r = want_absolute(c->bin_dir, "binDir", e);
	return r < 0 ? r : want_absolute(c->ready_file, "readinessindicatorfile", e);
}

/* Converts a path in the container of Multus' daemon to the path on the node: removes the mount
 * point of the node's root (chrootDir, or as in the manifests of Multus /hostroot or /host). */
static void leave_container(const char **path, const char *chroot)
{
	const char *const mounts[] = {str_if_set(chroot), "/hostroot", "/host"};

	for (size_t i = 0; *path && i < ARRAY_LEN(mounts); i++) {
		size_t n = mounts[i] ? strlen(mounts[i]) : 0;

		if (n > 1 && strncmp(*path, mounts[i], n) == 0 && (*path)[n] == '/') {
			*path += n;
			return;
		}
	}
}

static void leave_containers(struct raw *raw)
{
	struct pod_conf *c = &raw->conf;
	const char **paths[] = {&c->cluster_network, &c->conf_dir,   &c->cni_dir,
				&c->bin_dir,	     &c->ready_file, &raw->log_file};

	for (size_t i = 0; i < ARRAY_LEN(paths); i++)
		leave_container(paths[i], raw->chroot);
}

static void find_defaults(struct raw *raw, const struct cni_call *call, bool multus)
{
	struct pod_conf *c = &raw->conf;
	bool shim = call->type && strcmp(call->type, "multus-shim") == 0;
	/* multus-shim needs an agent although its netconf has no kubeconfig: Multus' daemon has
	 * credentials of its own */
	bool alone = c->delegates && !str_if_set(raw->kubeconfig) &&
		     !str_if_set(c->cluster_network) && !shim;

	c->agent = str_if_set(c->agent);
	if (multus && !c->agent && !alone)
		c->agent = PATH_AGENT_SOCKET;
	c->cluster_network = str_if_set(c->cluster_network);
	if (c->cluster_network && strchr(c->cluster_network, '/')) {
		c->cluster_path = c->cluster_network;
		c->cluster_network = NULL;
	}
	set_default(&c->conf_dir, PATH_MULTUS_CONF);
	set_default(&c->cni_dir, PATH_MULTUS);
	set_default(&c->bin_dir, PATH_CNI_BIN);
	set_default(&c->multus_namespace, "kube-system");
	set_default(&c->global_namespaces, "default");
	c->ready_file = str_if_set(c->ready_file);
	if (multus)
		c->networks = NULL;
	else
		c->delegates = NULL;
	/* As in Multus, clusterNetwork replaces the delegates. */
	if (c->cluster_network || c->cluster_path)
		c->delegates = c->networks = NULL;
}

static int check_list(const struct json *v, const char *key, struct err *e)
{
	if (json_kind(v) == JSON_NULL || json_kind(v) == JSON_ARRAY)
		return 0;
	return json_wants(v, key, "an array", e);
}

static int check(const struct pod_conf *c, struct err *e)
{
	int r = check_paths(c, e);

	if (r == 0)
		r = check_list(c->delegates, "conf.delegates", e);
	if (r == 0)
		r = check_list(c->networks, "conf.networks", e);
	if (r == 0 && !c->cluster_network && !pod_conf_networks(c))
		r = err_kind(
			e, ERR_CONF, -EINVAL,
			ORIG("LoadNetConf: at least one delegate/clusterNetwork must be specified"));
	return r;
}

size_t pod_conf_networks(const struct pod_conf *c)
{
	const struct json *list = c->delegates ? c->delegates : c->networks;

	if (c->cluster_path)
		return 1;
	return json_kind(list) == JSON_ARRAY ? json_len(list) : 0;
}

static void start_log(const struct raw *raw)
{
	static const struct {
		const char *name;
		enum log_level level;
	} levels[] = {{"panic", LOG_ERROR},
		      {"error", LOG_ERROR},
		      {"verbose", LOG_INFO},
		      {"debug", LOG_DEBUG}};
	struct log_conf l = {.level = log_threshold,
			     .path = str_if_set(raw->log_file),
			     .max_bytes = 100 << 20,
			     .max_files = 5};
	struct err e = ERR_INIT;

	for (size_t i = 0; raw->log_level && i < ARRAY_LEN(levels); i++)
		if (strcmp(raw->log_level, levels[i].name) == 0)
			l.level = levels[i].level;
	if (log_setup(&l, &e) < 0)
		log_warn("cannot open the log file that conf.logFile names",
			 LOG_S("error", e.text));
}

int pod_conf_read(const struct cni_call *c, bool multus, struct pod_conf *ret, struct err *e)
{
	struct raw raw = {0};
	int r = json_read(c->doc, c->conf, &pod_conf_table, &raw, "conf", e);

	if (r >= 0 && c->daemon) {
		r = json_read(c->daemon, json_root(c->daemon), &pod_conf_table, &raw,
			      "daemon-config.json", e);
		leave_containers(&raw);
	}
	if (r < 0)
		return r;
	find_defaults(&raw, c, multus);
	r = check(&raw.conf, e);
	if (r < 0)
		return r;
	if (multus && (str_if_set(raw.log_file) || str_if_set(raw.log_level)))
		start_log(&raw);
	if (str_if_set(raw.chain_name))
		log_warn("conf.auxiliaryCNIChainName does nothing: add the plugins of this chain "
			 "to the 'plugins' list of the network's configuration",
			 LOG_S("name", raw.chain_name));
	*ret = raw.conf;
	return 0;
}

void pod_conf_or_default(const struct cni_call *c, bool multus, struct pod_conf *ret)
{
	struct raw raw = {0};
	struct err e = ERR_INIT;

	if (pod_conf_read(c, multus, ret, &e) == 0)
		return;
	log_warn("netconf is invalid, using the default of every key", LOG_S("error", e.text));
	find_defaults(&raw, c, multus);
	*ret = raw.conf;
}
