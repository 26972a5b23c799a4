/* SPDX-License-Identifier: Apache-2.0 */
/* The agent's table of settings. */
#include "agent/agent_conf.h"

#include <errno.h>
#include <stddef.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "host/cni_config.h"
#include "ipam/ipam.h"

enum { DAY_MS = 24 * 3600 * 1000 };

/* daemon/settings.h has what the columns are. */
#define KEYS(X)                                                                                    \
	X("config", OPT_STR, "FILE", "settings", config, 0, 0, AGENT_CONF, "UNIRAIL_CONFIG", 0)    \
	X("node", OPT_STR, "NAME", "this node's name, as the API server has it", node, 0, 0, "",   \
	  "NODE_NAME SPIDERPOOL_NODE_NAME SPIDERPOOL_NODENAME", 0)                                 \
	X("namespace", OPT_STR, "NS", "of networks that a pool names without one (the agent's)",   \
	  ns, 0, 0, "", "POD_NAMESPACE SPIDERPOOL_POD_NAMESPACE", 0)                               \
	SETTINGS_KUBE(X)                                                                           \
	X("socket", OPT_STR, "PATH", "where CNI plugins ask", socket, 0, 0,                        \
	  "/var/run/spidernet/spiderpool.sock", "UNIRAIL_SOCKET", 0)                               \
	X("state-dir", OPT_STR, "DIR", "journal, blocks and pools last seen", state_dir, 0, 0,     \
	  IPAM_STATE_DIR, "UNIRAIL_STATE_DIR", 0)                                                  \
	X("hostlocal-dir", OPT_STR, "DIR", "addresses of host-local", hostlocal_dir, 0, 0,         \
	  IPAM_HOSTLOCAL_DIR, "UNIRAIL_HOSTLOCAL_DIR", 0)                                          \
	X("cni-conf-name", OPT_STR, "NAME.conflist",                                               \
	  "CNI configuration for the container runtime that this agent generates; it has to sort " \
	  "before all others of the folder; empty: none is written",                               \
	  cni_name, 0, 0, "", "UNIRAIL_CNI_CONF_NAME", 0)                                          \
	X("cni-conf-dir", OPT_STR, "DIR", "the folder that the container runtime reads it from",   \
	  cni_dir, 0, 0, CNI_CONFIG_DIR, "UNIRAIL_CNI_CONF_DIR", 0)                                \
	X("max-connections", OPT_INT, "N", "connections to the socket at a time", conns, 1, 4096,  \
	  "256", "UNIRAIL_MAX_CONNECTIONS", 0)                                                     \
	SETTINGS_PORTS(X, "5710", "5711")                                                          \
	X("reserve", OPT_INT, "N", "free addresses of a pool in use that are held ready here",     \
	  reserve, 1, 1024, "4", "UNIRAIL_RESERVE", 0)                                             \
	X("block-idle", OPT_DUR, "TIME", "after it a block that is not needed is given back",      \
	  idle_ms, 1000, DAY_MS, "300s", "UNIRAIL_BLOCK_IDLE", 0)                                  \
	X("wait", OPT_DUR, "TIME", "how long a pod waits for addresses from the cluster", wait_ms, \
	  0, 60000, "15s", "UNIRAIL_WAIT", 1)                                                      \
	X("rest", OPT_DUR, "TIME", "before a freed address is used again", rest_ms, 0, 3600000,    \
	  "60s", "UNIRAIL_REST", 1)                                                                \
	X("quarantine", OPT_DUR, "TIME", "for an address that somebody else answered for",         \
	  quarantine_ms, 0, 30 * (int64_t)DAY_MS, "10m", "UNIRAIL_QUARANTINE", 1)                  \
	X("conflict-detection", OPT_CHOICE, SETTINGS_YES_NO,                                       \
	  "ask the link before an address is used", conflict_detection, 0, 0, "no",                \
	  "UNIRAIL_CONFLICT_DETECTION", 1)                                                         \
	X("gateway-detection", OPT_CHOICE, SETTINGS_YES_NO, "ask whether the gateway is there",    \
	  gateway_detection, 0, 0, "no", "UNIRAIL_GATEWAY_DETECTION", 1)                           \
	X("release-conflict-ips", OPT_CHOICE, SETTINGS_YES_NO,                                     \
	  "let a plugin give addresses in conflict back", release_conflict, 0, 0, "yes",           \
	  "SPIDERPOOL_ENABLED_RELEASE_CONFLICT_IPS", 1)                                            \
	X("enable-ipv4", OPT_CHOICE, SETTINGS_YES_NO, "give out addresses of IPv4 pools", ipv4, 0, \
	  0, "yes", "UNIRAIL_ENABLE_IPV4", 1)                                                      \
	X("enable-ipv6", OPT_CHOICE, SETTINGS_YES_NO, "and of IPv6 pools", ipv6, 0, 0, "yes",      \
	  "UNIRAIL_ENABLE_IPV6", 1)                                                                \
	X("enable-statefulset", OPT_CHOICE, SETTINGS_YES_NO,                                       \
	  "pods of a StatefulSet keep their addresses", statefulset, 0, 0, "yes",                  \
	  "UNIRAIL_ENABLE_STATEFULSET", 1)                                                         \
	X("enable-kubevirt-static-ip", OPT_CHOICE, SETTINGS_YES_NO, "and KubeVirt machines",       \
	  kubevirt, 0, 0, "yes", "UNIRAIL_ENABLE_KUBEVIRT_STATIC_IP", 1)                           \
	X("subnet", OPT_CHOICE, SETTINGS_YES_NO,                                                   \
	  "pods may have pools that are made of SpiderSubnets", subnet, 0, 0, "yes",               \
	  "UNIRAIL_SUBNET", 1)                                                                     \
	X("gc", OPT_CHOICE, SETTINGS_YES_NO, "free addresses of pods that are gone without a DEL", \
	  gc, 0, 0, "yes", "UNIRAIL_GC SPIDERPOOL_GC_IP_ENABLED", 1)                               \
	X("gc-grace", OPT_DUR, "TIME", "how long such a pod has been gone by then", gc_grace_ms,   \
	  1000, DAY_MS, "60s", "UNIRAIL_GC_GRACE", 1)                                              \
	SETTINGS_PID_FILE(X)

#define AS_OPT(...) SETTINGS_OPT(struct agent_conf, __VA_ARGS__)

const struct opt agent_opts[] = {KEYS(AS_OPT){0}};
static const struct settings_row rows[] = {KEYS(SETTINGS_ROW)};

const struct settings agent_settings = {
	.opts = agent_opts,
	.rows = rows,
	.n = ARRAY_LEN(rows),
	.prog = "unirail agent",
	.help = "this node's part of the cluster",
	.section = "agent",
	.other = "coordinator",
	.own = offsetof(struct agent_conf, own),
};

int agent_conf_read(struct agent_conf *ret, const struct root *root, const struct settings_env *env,
		    int argc, char **argv, struct err *e)
{
	struct agent_conf c = {0};
	int r = settings_read(&agent_settings, &c, root, env, argc, argv, e);

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
	/* As the kubelet has it. */
	for (char *s = name; *s; s++)
		if (*s >= 'A' && *s <= 'Z')
			*s = (char)(*s - 'A' + 'a');
	c->node = settings_own(&agent_settings, c, name);
	return 0;
}
