/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_AGENT_CONF_H
#define UNIRAIL_AGENT_CONF_H

/*
 * The agent's settings (server/settings.h), in section [agent] of the file (default
 * /etc/unirail/agent.conf). Section [coordinator] has the coordinator's settings
 * (spec/coordinator_settings.h).
 */

#include "spec/coordinator_settings.h"
#include "server/settings.h"

struct agent_conf {
	const char *config, *node, *ns, *kubeconfig, *context, *socket, *state_dir, *hostlocal_dir,
		*cni_cache_dir, *cni_dir, *cni_name;
	const char *listen, *health_listen, *metrics_listen;
	const char *log_level, *log_format, *sandbox, *pid_file;
	bool metrics, gc, conflict_detection, gateway_detection, release_conflict;
	bool ipv4, ipv6, statefulset, kubevirt, subnet;
	const char *device_config, *device_configmap, *device_sweep_prefixes, *host_drift,
		*device_plugin_dir, *device_registry_dir;
	bool device_plugin;
	const char *memlock_hook;
	bool use_cdi;
	const char *nri_socket, *rdma_memlock, *nccl_net, *primary;
	bool nri, rdma_environment;
	uint64_t memlock; /* value of rdma-memlock, see struct nri_policy */
	int64_t conns, health_port, metrics_port, pre_allocate, idle_ms, wait_ms, gc_grace_ms,
		reuse_delay_ms, quarantine_ms, device_sweep_ms, rdma_max_handles, rdma_max_objects,
		queue_pair_wait_ms;
	struct coordinator_settings coordinator;
	struct settings_own own;
};

/* options for --help, shell completion and the man page */
extern const struct opt agent_opts[];
extern const struct settings agent_settings;

/* Reads the settings like settings_read(). On failure *ret is unchanged. */
int agent_conf_read(struct agent_conf *ret, const struct root *root, const struct settings_env *env,
		    int argc, char **argv, struct err *e);
void agent_conf_done(struct agent_conf *c);
/* Sets this node's name to the host name if the settings do not name the node. */
int agent_conf_hostname(struct agent_conf *c, struct err *e);

#endif
