/* SPDX-License-Identifier: Apache-2.0 */
/* The agent's table of settings. */
#include "agent/conf.h"

#include <errno.h>
#include <stddef.h>
#include <unistd.h>

#include "agent/blocks/cni_cache.h"
#include "agent/nri/nri.h"
#include "base/alloc.h"
#include "base/paths.h"
#include "device/plugin/plugin.h"
#include "device/serve/serve.h"
#include "host/cni/cni_config.h"
#include "ipam/ipam.h"
#include "server/confine.h"

enum { DAY_MS = 24 * 3600 * 1000, RDMA_MAX = INT32_MAX - 1 };

/* server/settings.h describes the columns. */
#define KEYS(X)                                                                                           \
	X("config", OPT_STR, "FILE", "path of the settings file", config, 0, 0, AGENT_CONF,               \
	  "UNIRAIL_CONFIG", 0)                                                                            \
	X("node", OPT_STR, "NAME", "this node's name, as in its Node object", node, 0, 0, "",             \
	  "NODE_NAME SPIDERPOOL_NODE_NAME SPIDERPOOL_NODENAME", 0)                                        \
	X("namespace", OPT_STR, "NS",                                                                     \
	  "namespace of networks and ConfigMaps that are named without one; its network definitions are " \
	  "trusted (default: the agent's namespace)",                                                     \
	  ns, 0, 0, "", "POD_NAMESPACE SPIDERPOOL_POD_NAMESPACE", 0)                                      \
	SETTINGS_KUBE(X)                                                                                  \
	X("socket", OPT_STR, "PATH", "path of the socket that serves CNI plugins", socket, 0, 0,          \
	  PATH_AGENT_SOCKET, "UNIRAIL_SOCKET", 0)                                                         \
	X("state-dir", OPT_STR, "DIR",                                                                    \
	  "directory of the journal, the block log and the cached pools", state_dir, 0, 0,                \
	  PATH_IPAM_STATE, "UNIRAIL_STATE_DIR", 0)                                                        \
	X("hostlocal-dir", OPT_STR, "DIR", "directory of host-local's allocations", hostlocal_dir,        \
	  0, 0, PATH_HOST_LOCAL, "UNIRAIL_HOSTLOCAL_DIR", 0)                                              \
	X("cni-cache-dir", OPT_STR, "DIR",                                                                \
	  "directory whose CNI result caches (results, multus/results) are read after the "               \
	  "journal was lost or damaged",                                                                  \
	  cni_cache_dir, 0, 0, PATH_CNI_CACHE, "UNIRAIL_CNI_CACHE_DIR", 0)                                \
	X("cni-conf-name", OPT_STR, "NAME.conflist",                                                      \
	  "file name of the CNI configuration that the agent generates; it must sort before all "         \
	  "other files of cni-conf-dir; empty: generate none",                                            \
	  cni_name, 0, 0, "", "UNIRAIL_CNI_CONF_NAME", 0)                                                 \
	X("cni-conf-dir", OPT_STR, "DIR",                                                                 \
	  "directory from which the container runtime reads CNI configurations", cni_dir, 0, 0,           \
	  PATH_CNI_CONF, "UNIRAIL_CNI_CONF_DIR", 0)                                                       \
	X("max-connections", OPT_INT, "N",                                                                \
	  "maximum number of concurrent connections to the socket", conns, 1, 4096, "256",                \
	  "UNIRAIL_MAX_CONNECTIONS", 0)                                                                   \
	SETTINGS_PORTS(X, "5710", "5711")                                                                 \
	X("pre-allocate", OPT_INT, "N",                                                                   \
	  "number of free addresses to keep on this node for each pool in use", pre_allocate, 1,          \
	  1024, "4", "UNIRAIL_PRE_ALLOCATE", 0)                                                           \
	X("block-idle", OPT_DUR, "TIME", "idle time after which an unused block is released",             \
	  idle_ms, 1000, DAY_MS, "300s", "UNIRAIL_BLOCK_IDLE", 0)                                         \
	X("wait", OPT_DUR, "TIME", "maximum time that a pod waits for addresses from the cluster",        \
	  wait_ms, 0, 60000, "15s", "UNIRAIL_WAIT", 1)                                                    \
	X("reuse-delay", OPT_DUR, "TIME",                                                                 \
	  "time for which a released address (state cooldown) is allocated only if no other is free",     \
	  reuse_delay_ms, 0, 3600000, "60s", "UNIRAIL_REUSE_DELAY", 1)                                    \
	X("quarantine", OPT_DUR, "TIME", "time for which an address in conflict is not allocated",        \
	  quarantine_ms, 0, 30 * (int64_t)DAY_MS, "10m", "UNIRAIL_QUARANTINE", 1)                         \
	X("conflict-detection", OPT_BOOL, SETTINGS_YES_NO,                                                \
	  "probe each address for conflicts before it is used", conflict_detection, 0, 0, "no",           \
	  "UNIRAIL_CONFLICT_DETECTION", 1)                                                                \
	X("gateway-detection", OPT_BOOL, SETTINGS_YES_NO,                                                 \
	  "probe whether the gateway of each address is reachable", gateway_detection, 0, 0, "no",        \
	  "UNIRAIL_GATEWAY_DETECTION", 1)                                                                 \
	X("release-conflict-ips", OPT_BOOL, SETTINGS_YES_NO,                                              \
	  "allow CNI plugins to release addresses that are in conflict", release_conflict, 0, 0,          \
	  "yes", "SPIDERPOOL_ENABLED_RELEASE_CONFLICT_IPS", 1)                                            \
	X("enable-ipv4", OPT_BOOL, SETTINGS_YES_NO, "allocate addresses of IPv4 pools", ipv4, 0,          \
	  0, "yes", "UNIRAIL_ENABLE_IPV4", 1)                                                             \
	X("enable-ipv6", OPT_BOOL, SETTINGS_YES_NO, "allocate addresses of IPv6 pools", ipv6, 0,          \
	  0, "yes", "UNIRAIL_ENABLE_IPV6", 1)                                                             \
	X("enable-statefulset", OPT_BOOL, SETTINGS_YES_NO,                                                \
	  "retain the addresses of StatefulSet pods", statefulset, 0, 0, "yes",                           \
	  "UNIRAIL_ENABLE_STATEFULSET", 1)                                                                \
	X("enable-kubevirt-static-ip", OPT_BOOL, SETTINGS_YES_NO,                                         \
	  "retain the addresses of KubeVirt virtual machines", kubevirt, 0, 0, "yes",                     \
	  "UNIRAIL_ENABLE_KUBEVIRT_STATIC_IP", 1)                                                         \
	X("subnet", OPT_BOOL, SETTINGS_YES_NO,                                                            \
	  "create pools from SpiderSubnets for pods that request them", subnet, 0, 0, "yes",              \
	  "UNIRAIL_SUBNET", 1)                                                                            \
	X("gc", OPT_BOOL, SETTINGS_YES_NO,                                                                \
	  "release addresses of deleted pods for which no CNI DEL arrived", gc, 0, 0, "yes",              \
	  "UNIRAIL_GC SPIDERPOOL_GC_IP_ENABLED", 1)                                                       \
	X("gc-grace", OPT_DUR, "TIME",                                                                    \
	  "time after the deletion of a pod before gc releases its addresses", gc_grace_ms, 1000,         \
	  DAY_MS, "60s", "UNIRAIL_GC_GRACE", 1)                                                           \
	X("device-plugin", OPT_BOOL, SETTINGS_YES_NO,                                                     \
	  "advertise RDMA devices and VFs to the kubelet", device_plugin, 0, 0, "yes",                    \
	  "UNIRAIL_DEVICE_PLUGIN", 0)                                                                     \
	X("device-config", OPT_STR, "PATH",                                                               \
	  "file or directory of resource configurations (configList, resourceList); without "             \
	  "a configuration, resources are named by rail",                                                 \
	  device_config, 0, 0, PATH_RESOURCES, "UNIRAIL_DEVICE_CONFIG", 0)                                \
	X("device-configmap", OPT_STR, "[NAMESPACE/]NAME[,...]",                                          \
	  "ConfigMaps of the cluster with resource configurations: the key with the node's name, "        \
	  "else config.json, else *.json; if set, resources are not named by rail",                       \
	  device_configmap, 0, 0, "", "UNIRAIL_DEVICE_CONFIGMAP", 0)                                      \
	X("device-sweep", OPT_DUR, "TIME",                                                                \
	  "time after which an extended resource that unirail served on this node, and that no "          \
	  "device plugin serves any more (capacity 0), is removed from the Node object; 0: never",        \
	  device_sweep_ms, 0, DAY_MS, "5m", "UNIRAIL_DEVICE_SWEEP", 0)                                    \
	X("device-sweep-prefixes", OPT_STR, "PREFIX[,...]",                                               \
	  "prefixes of resources (the part before '/') that only unirail serves: device-sweep also "      \
	  "removes such resources if another program served them before",                                 \
	  device_sweep_prefixes, 0, 0, "", "UNIRAIL_DEVICE_SWEEP_PREFIXES", 0)                            \
	X("use-cdi", OPT_BOOL, SETTINGS_YES_NO,                                                           \
	  "name allocated devices by CDI instead of by their device nodes (Kubernetes 1.28 and "          \
	  "later, and a container runtime with CDI)",                                                     \
	  use_cdi, 0, 0, "no", "UNIRAIL_USE_CDI", 0)                                                      \
	X("memlock-hook", OPT_STR, "PATH",                                                                \
	  "with use-cdi: path of unirail on the host, which the container runtime runs as a hook "        \
	  "that sets rdma-memlock; for runtimes without NRI; empty: no hook",                             \
	  memlock_hook, 0, 0, "", "UNIRAIL_MEMLOCK_HOOK", 1)                                              \
	X("rdma-max-handles", OPT_INT, "N",                                                               \
	  "limit of open handles on an RDMA device of a shared resource, for each allocated id of the "   \
	  "pod (hca_handle of the cgroup controller rdma); 0: no limit",                                  \
	  rdma_max_handles, 0, RDMA_MAX, "0", "UNIRAIL_RDMA_MAX_HANDLES", 0)                              \
	X("rdma-max-objects", OPT_INT, "N",                                                               \
	  "limit of objects (queue pairs, completion queues, memory regions ...) on an RDMA device of "   \
	  "a shared resource, for each allocated id of the pod (hca_object of the cgroup controller "     \
	  "rdma); 0: no limit",                                                                           \
	  rdma_max_objects, 0, RDMA_MAX, "0", "UNIRAIL_RDMA_MAX_OBJECTS", 0)                              \
	X("queue-pair-wait", OPT_DUR, "TIME",                                                             \
	  "time after which a container that has an RDMA resource and no queue pair gets an event "       \
	  "with the cause; 0: never",                                                                     \
	  queue_pair_wait_ms, 0, 7 * (int64_t)DAY_MS, "10m", "UNIRAIL_QUEUE_PAIR_WAIT", 0)                \
	X("host-drift", OPT_STR, "PATH",                                                                  \
	  "file in which 'unirail host watch' reports drift of this node; the agent publishes it as "     \
	  "metrics, events and the Node's condition HostDrift; empty: none",                              \
	  host_drift, 0, 0, "/var/lib/unirail/host/drift.json", "UNIRAIL_HOST_DRIFT", 0)                  \
	X("device-plugin-dir", OPT_STR, "DIR",                                                            \
	  "directory of the kubelet's socket for device plugins", device_plugin_dir, 0, 0,                \
	  PATH_DEVICE_PLUGINS, "UNIRAIL_DEVICE_PLUGIN_DIR", 0)                                            \
	X("device-registry-dir", OPT_STR, "DIR",                                                          \
	  "directory in which the kubelet detects plugins; used instead of device-plugin-dir if "         \
	  "it exists",                                                                                    \
	  device_registry_dir, 0, 0, DEVICE_PLUGIN_REGISTRY, "UNIRAIL_DEVICE_REGISTRY_DIR", 0)            \
	X("nri", OPT_BOOL, SETTINGS_YES_NO, "register as an NRI plugin of the container runtime",         \
	  nri, 0, 0, "yes", "UNIRAIL_NRI", 0)                                                             \
	X("nri-socket", OPT_STR, "PATH", "path of the container runtime's NRI socket", nri_socket,        \
	  0, 0, NRI_SOCKET, "UNIRAIL_NRI_SOCKET", 0)                                                      \
	X("rdma-memlock", OPT_STR, "BYTES",                                                               \
	  "limit of locked memory of containers with RDMA devices, set through NRI or "                   \
	  "memlock-hook: unlimited, a number of bytes, or no (do not change it)",                         \
	  rdma_memlock, 0, 0, "unlimited", "UNIRAIL_RDMA_MEMLOCK", 1)                                     \
	X("rdma-environment", OPT_BOOL, SETTINGS_YES_NO,                                                  \
	  "set the variables of NCCL (NCCL_NET: see nccl-net), UCX, NVSHMEM, Gloo and unirail "           \
	  "in containers with RDMA devices, through NRI",                                                 \
	  rdma_environment, 0, 0, "yes", "UNIRAIL_RDMA_ENVIRONMENT", 1)                                   \
	X("nccl-net", OPT_CHOICE, "auto|IB",                                                              \
	  "IB: set NCCL_NET=IB, with which NCCL fails instead of using TCP; a pod requests it "           \
	  "by the annotation unirail.io/nccl-net",                                                        \
	  nccl_net, 0, 0, "auto", "UNIRAIL_NCCL_NET", 1)                                                  \
	X("primary-interface", OPT_STR, "NAME",                                                           \
	  "name of the interface of a pod's primary network", primary, 0, 0, "eth0",                      \
	  "UNIRAIL_PRIMARY_INTERFACE", 1)                                                                 \
	SETTINGS_SANDBOX(X)                                                                               \
	SETTINGS_PID_FILE(X)

#define AS_OPT(...) SETTINGS_OPT(struct agent_conf, __VA_ARGS__)

const struct opt agent_opts[] = {KEYS(AS_OPT){0}};
static const struct settings_row rows[] = {KEYS(SETTINGS_ROW)};

const struct settings agent_settings = {
	.opts = agent_opts,
	.rows = rows,
	.n = ARRAY_LEN(rows),
	.prog = "unirail agent",
	.help = "run the node's agent: allocate addresses from the cluster's pools",
	.section = "agent",
	.other = "coordinator",
	.own = offsetof(struct agent_conf, own),
};

static int check_hook(const struct agent_conf *c, struct err *e)
{
	if (c->memlock_hook && *c->memlock_hook && !c->use_cdi)
		return err_kind(e, ERR_CONF, -EINVAL,
				"memlock-hook requires use-cdi = yes: the hook is part of CDI "
				"specifications");
	return 0;
}

int agent_conf_read(struct agent_conf *ret, const struct root *root, const struct settings_env *env,
		    int argc, char **argv, struct err *e)
{
	struct agent_conf c = {0};
	int r = settings_read(&agent_settings, &c, root, env, argc, argv, e);

	if (r == 0)
		r = nri_memlock_parse(c.rdma_memlock, &c.memlock, e);
	if (r == 0)
		r = check_hook(&c, e);
	if (r == 0)
		r = coordinator_settings_read(root, c.config, &c.coordinator, e);
	if (r < 0) {
		agent_conf_done(&c);
		return r;
	}
	*ret = c;
	return 0;
}

void agent_conf_done(struct agent_conf *c)
{
	coordinator_settings_done(&c->coordinator);
	settings_done(&agent_settings, c);
	*c = (struct agent_conf){0};
}

int agent_conf_hostname(struct agent_conf *c, struct err *e)
{
	char name[256] = "";

	if (c->node)
		return 0;
	if (gethostname(name, sizeof(name) - 1) < 0)
		return err_sys(e, -errno, "read the host's name");
	/* The kubelet converts the host name to lower case for its node's name. */
	for (char *s = name; *s; s++)
		if (*s >= 'A' && *s <= 'Z')
			*s = (char)(*s - 'A' + 'a');
	c->node = settings_own(&agent_settings, c, name);
	return 0;
}
