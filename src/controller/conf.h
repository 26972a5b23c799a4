/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CONTROLLER_CONF_H
#define UNIRAIL_CONTROLLER_CONF_H

/*
 * The controller's settings (server/settings.h), from section [controller] of the configuration
 * file (default /etc/unirail/controller.conf). `unirail help settings controller` lists them.
 */

#include "controller/bootstrap.h"
#include "server/settings.h"

struct controller_conf {
	const char *config, *name, *ns, *kubeconfig, *context;
	const char *listen, *health_listen, *metrics_listen;
	const char *log_level, *log_format, *sandbox, *pid_file;
	bool metrics;
	int64_t health_port, metrics_port;
	int64_t lease_ms, renew_ms, retry_ms, leader_grace_ms;
	bool multus; /* whether to write the NADs of SpiderMultusConfigs */
	/* CIDRs */
	const char *coordinator_name, *cni_dir, *network_file, *cilium;
	bool coordinator;
	/* default objects */
	const char *mode, *cidr_type, *hijack;
	bool make_coordinator, make_network;
	struct defaults_pool default4, default6;
	bool gc, statefulset, kubevirt; /* controller/gc/address_gc.h */
	int64_t gc_grace_ms, gc_delay_ms, gc_interval_ms, records_max;
	/* webhooks */
	int64_t webhook_port, linger_ms, ca_life_ms, cert_life_ms, ca_publish_ms, token_life_ms;
	const char *webhook_url, *webhook_service, *webhook_secret, *webhook_ca_secret,
		*webhook_token, *webhook_names, *cluster_domain;
	const char *webhook_cert, *webhook_key, *webhook_ca, *webhook_client_ca;
	const char *include, *exclude, *pod_failure;
	bool inject, ipc_lock;
	bool ipv4, ipv6, protect_used;
	bool subnet; /* whether to create automatic pools of SpiderSubnets */
	int64_t subnet_redundant_ips, subnet_reuse_delay_ms;
	struct settings_own own;
};

/* Options for --help, completion and the man page. */
extern const struct opt controller_opts[];
extern const struct settings controller_settings;

/* Reads the settings like settings_read(). On failure *ret is unchanged; on success ret->name is
 * not NULL. */
int controller_conf_read(struct controller_conf *ret, const struct root *root,
			 const struct settings_env *env, int argc, char **argv, struct err *e);
void controller_conf_done(struct controller_conf *c);

#endif
