/* SPDX-License-Identifier: Apache-2.0 */
#include "controller/conf.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/paths.h"
#include "controller/injection/inject.h"
#include "server/confine.h"

#define CONTROLLER_CONF "/etc/unirail/controller.conf"

enum { HOUR_MS = 3600 * 1000, MINUTE_MS = 60 * 1000 };

#define YEARS_MS ((int64_t)HOUR_MS * 24 * 365 * 100)

/* server/settings.h describes the columns. */
#define KEYS(X)                                                                                                            \
	X("config", OPT_STR, "FILE", "path of the settings file", config, 0, 0, CONTROLLER_CONF,                           \
	  "UNIRAIL_CONFIG", 0)                                                                                             \
	X("name", OPT_STR, "NAME", "name of this replica (default: the host name)", name, 0, 0,                            \
	  "", "POD_NAME SPIDERPOOL_POD_NAME", 0)                                                                           \
	X("namespace", OPT_STR, "NS",                                                                                      \
	  "namespace of the Lease, the Secrets and other objects of the controller", ns, 0, 0,                             \
	  "unirail", "POD_NAMESPACE SPIDERPOOL_POD_NAMESPACE", 0)                                                          \
	SETTINGS_KUBE(X)                                                                                                   \
	SETTINGS_PORTS(X, "5720", "5721")                                                                                  \
	X("lease", OPT_DUR, "TIME",                                                                                        \
	  "duration of the leader's Lease; another replica leads after it expires", lease_ms,                              \
	  2000, HOUR_MS, "15s", "UNIRAIL_LEASE SPIDERPOOL_LEADER_DURATION", 0)                                             \
	X("lease-renew", OPT_DUR, "TIME",                                                                                  \
	  "time after which a leader that cannot renew its Lease stops leading", renew_ms, 1000,                           \
	  HOUR_MS, "10s", "UNIRAIL_LEASE_RENEW SPIDERPOOL_LEADER_RENEW_DEADLINE", 0)                                       \
	X("lease-retry", OPT_DUR, "TIME",                                                                                  \
	  "interval between attempts to acquire or renew the Lease", retry_ms, 100, HOUR_MS, "2s",                         \
	  "UNIRAIL_LEASE_RETRY SPIDERPOOL_LEADER_RETRY_PERIOD", 0)                                                         \
	X("leader-grace", OPT_DUR, "TIME",                                                                                 \
	  "time for which a new leader, after a minute without a leader, waits for the agents' "                           \
	  "reports before it counts or releases anything",                                                                 \
	  leader_grace_ms, 0, HOUR_MS, "30s", "UNIRAIL_LEADER_GRACE", 0)                                                   \
	X("multus-config", OPT_BOOL, SETTINGS_YES_NO,                                                                      \
	  "maintain a NetworkAttachmentDefinition for each SpiderMultusConfig", multus, 0, 0,                              \
	  "yes", "UNIRAIL_MULTUS_CONFIG SPIDERPOOL_MULTUS_CONFIG_ENABLED", 0)                                              \
	X("coordinator", OPT_BOOL, SETTINGS_YES_NO,                                                                        \
	  "maintain the cluster's CIDRs in the SpiderCoordinator's status", coordinator, 0, 0,                             \
	  "yes", "UNIRAIL_COORDINATOR SPIDERPOOL_COORDINATOR_ENABLED", 0)                                                  \
	X("default-coordinator", OPT_BOOL, SETTINGS_YES_NO,                                                                \
	  "create a SpiderCoordinator if none exists", make_coordinator, 0, 0, "yes",                                      \
	  "UNIRAIL_DEFAULT_COORDINATOR", 0)                                                                                \
	X("default-network", OPT_BOOL, SETTINGS_YES_NO,                                                                    \
	  "create a SpiderMultusConfig of the cluster's default network", make_network, 0, 0,                              \
	  "yes", "UNIRAIL_DEFAULT_NETWORK", 0)                                                                             \
	X("coordinator-mode", OPT_CHOICE, "auto|underlay|overlay|disabled",                                                \
	  "mode of the SpiderCoordinator that is created", mode, 0, 0, "auto",                                             \
	  "UNIRAIL_COORDINATOR_MODE SPIDERPOOL_INIT_DEFAULT_COORDINATOR_MODE", 0)                                          \
	X("coordinator-cidr-type", OPT_CHOICE, "auto|cluster|calico|cilium|none",                                          \
	  "podCIDRType of the SpiderCoordinator that is created", cidr_type, 0, 0, "auto",                                 \
	  "UNIRAIL_COORDINATOR_CIDR_TYPE SPIDERPOOL_INIT_DEFAULT_COORDINATOR_POD_CIDR_TYPE", 0)                            \
	X("coordinator-hijack", OPT_STR, "CIDRS",                                                                          \
	  "hijackCIDR of the SpiderCoordinator that is created, separated by commas", hijack, 0,                           \
	  0, "169.254.0.0/16",                                                                                             \
	  "UNIRAIL_COORDINATOR_HIJACK SPIDERPOOL_INIT_DEFAULT_COORDINATOR_HIJACK_CIDR", 0)                                 \
	X("coordinator-name", OPT_STR, "NAME",                                                                             \
	  "name of the SpiderCoordinator that is created; agents read only 'default'",                                     \
	  coordinator_name, 0, 0, "default", "SPIDERPOOL_COORDINATOR_DEAFULT_NAME", 0)                                     \
	X("default-ipv4-subnet", OPT_STR, "NAME",                                                                          \
	  "name of the SpiderSubnet to create for the default IPv4 pool; empty: none",                                     \
	  default4.subnet, 0, 0, "", "SPIDERPOOL_INIT_DEFAULT_IPV4_SUBNET_NAME", 0)                                        \
	X("default-ipv4-pool", OPT_STR, "NAME",                                                                            \
	  "name of the default IPv4 pool, a SpiderIPPool to create if it does not exist, for "                             \
	  "pods "                                                                                                          \
	  "that name no pool; empty: none",                                                                                \
	  default4.name, 0, 0, "", "SPIDERPOOL_INIT_DEFAULT_IPV4_IPPOOL_NAME", 0)                                          \
	X("default-ipv4-cidr", OPT_STR, "CIDR", "subnet of the default IPv4 pool", default4.cidr,                          \
	  0, 0, "", "SPIDERPOOL_INIT_DEFAULT_IPV4_IPPOOL_SUBNET", 0)                                                       \
	X("default-ipv4-ips", OPT_STR, "RANGES",                                                                           \
	  "address ranges of the default IPv4 pool, separated by commas", default4.ips, 0, 0, "",                          \
	  "SPIDERPOOL_INIT_DEFAULT_IPV4_IPPOOL_IPRANGES", 0)                                                               \
	X("default-ipv4-gateway", OPT_STR, "ADDRESS", "gateway of the default IPv4 pool",                                  \
	  default4.gateway, 0, 0, "", "SPIDERPOOL_INIT_DEFAULT_IPV4_IPPOOL_GATEWAY", 0)                                    \
	X("default-ipv6-subnet", OPT_STR, "NAME",                                                                          \
	  "name of the SpiderSubnet to create for the default IPv6 pool; empty: none",                                     \
	  default6.subnet, 0, 0, "", "SPIDERPOOL_INIT_DEFAULT_IPV6_SUBNET_NAME", 0)                                        \
	X("default-ipv6-pool", OPT_STR, "NAME",                                                                            \
	  "name of the default IPv6 pool, a SpiderIPPool to create if it does not exist, for "                             \
	  "pods "                                                                                                          \
	  "that name no pool; empty: none",                                                                                \
	  default6.name, 0, 0, "", "SPIDERPOOL_INIT_DEFAULT_IPV6_IPPOOL_NAME", 0)                                          \
	X("default-ipv6-cidr", OPT_STR, "CIDR", "subnet of the default IPv6 pool", default6.cidr,                          \
	  0, 0, "", "SPIDERPOOL_INIT_DEFAULT_IPV6_IPPOOL_SUBNET", 0)                                                       \
	X("default-ipv6-ips", OPT_STR, "RANGES",                                                                           \
	  "address ranges of the default IPv6 pool, separated by commas", default6.ips, 0, 0, "",                          \
	  "SPIDERPOOL_INIT_DEFAULT_IPV6_IPPOOL_IPRANGES", 0)                                                               \
	X("default-ipv6-gateway", OPT_STR, "ADDRESS", "gateway of the default IPv6 pool",                                  \
	  default6.gateway, 0, 0, "", "SPIDERPOOL_INIT_DEFAULT_IPV6_IPPOOL_GATEWAY", 0)                                    \
	X("cni-config-dir", OPT_STR, "DIR",                                                                                \
	  "directory of CNI configurations, from which podCIDRType auto detects the cluster's CNI",                        \
	  cni_dir, 0, 0, PATH_CNI_CONF, "SPIDERPOOL_CNI_CONFIG_DIR", 0)                                                    \
	X("cluster-network-file", OPT_STR, "FILE",                                                                         \
	  "file from which the name of the cluster's network is read if the configurations in "                            \
	  "cni-config-dir are not readable",                                                                               \
	  network_file, 0, 0, "/var/run/spidernet/public/cluster-network",                                                 \
	  "UNIRAIL_CLUSTER_NETWORK_FILE", 0)                                                                               \
	X("cilium-configmap", OPT_STR, "NS/NAME", "ConfigMap of Cilium's settings", cilium, 0, 0,                          \
	  "kube-system/cilium-config", "SPIDERPOOL_CILIUM_CONFIGMAP_NAMESPACE_NAME", 0)                                    \
	X("gc", OPT_BOOL, SETTINGS_YES_NO,                                                                                 \
	  "release the resources (addresses, blocks, records) of deleted pods and nodes", gc, 0,                           \
	  0, "yes", "UNIRAIL_GC SPIDERPOOL_GC_IP_ENABLED", 0)                                                              \
	X("gc-grace", OPT_DUR, "TIME",                                                                                     \
	  "time after the deletion of a pod or node before gc releases its resources",                                     \
	  gc_grace_ms, 1000, HOUR_MS, "60s", "UNIRAIL_GC_GRACE", 0)                                                        \
	X("gc-delay", OPT_DUR, "TIME", "time to wait after gc-grace before gc releases resources",                         \
	  gc_delay_ms, 0, HOUR_MS, "0s", "UNIRAIL_GC_DELAY SPIDERPOOL_GC_ADDITIONAL_GRACE_DELAY",                          \
	  0)                                                                                                               \
	X("gc-interval", OPT_DUR, "TIME", "interval between two full scans of gc", gc_interval_ms,                         \
	  1000, 24 * HOUR_MS, "600s",                                                                                      \
	  "UNIRAIL_GC_INTERVAL SPIDERPOOL_GC_DEFAULT_INTERVAL_DURATION", 0)                                                \
	X("max-allocated-ips", OPT_INT, "COUNT",                                                                           \
	  "maximum number of records in a pool's status.allocatedIPs", records_max, 0, 100000,                             \
	  "5000", "UNIRAIL_MAX_ALLOCATED_IPS SPIDERPOOL_IPPOOL_MAX_ALLOCATED_IPS", 0)                                      \
	X("enable-statefulset", OPT_BOOL, SETTINGS_YES_NO,                                                                 \
	  "retain the addresses of StatefulSet pods; must equal the agents' setting", statefulset,                         \
	  0, 0, "yes", "UNIRAIL_ENABLE_STATEFULSET", 0)                                                                    \
	X("enable-kubevirt-static-ip", OPT_BOOL, SETTINGS_YES_NO,                                                          \
	  "retain the addresses of KubeVirt virtual machines", kubevirt, 0, 0, "yes",                                      \
	  "UNIRAIL_ENABLE_KUBEVIRT_STATIC_IP", 0)                                                                          \
	X("webhook-port", OPT_INT, "PORT", "TCP port of the webhooks (HTTPS); 0: no webhooks",                             \
	  webhook_port, 0, 65535, "5722", "SPIDERPOOL_WEBHOOK_PORT", 0)                                                    \
	X("webhook-service", OPT_STR, "NAME",                                                                              \
	  "Service of the webhooks; its port must be webhook-port", webhook_service, 0, 0,                                 \
	  "unirail-controller", "UNIRAIL_WEBHOOK_SERVICE", 0)                                                              \
	X("webhook-url", OPT_STR, "URL",                                                                                   \
	  "base URL of the webhooks instead of a Service, for a controller outside the cluster: https://HOST:PORT",        \
	  webhook_url, 0, 0, "", "UNIRAIL_WEBHOOK_URL", 0)                                                                 \
	X("webhook-secret", OPT_STR, "NAME",                                                                               \
	  "Secret of the webhooks' certificate, created if missing", webhook_secret, 0, 0,                                 \
	  "unirail-controller-certs", "UNIRAIL_WEBHOOK_SECRET", 0)                                                         \
	X("webhook-ca-secret", OPT_STR, "NAME",                                                                            \
	  "Secret that has the CA of the webhooks' certificate and the CA's key; created if missing",                      \
	  webhook_ca_secret, 0, 0, "unirail-controller-ca", "UNIRAIL_WEBHOOK_CA_SECRET", 0)                                \
	X("webhook-token-secret", OPT_STR, "NAME",                                                                         \
	  "Secret of the token in the webhooks' paths, created if missing", webhook_token, 0, 0,                           \
	  "unirail-controller-token", "UNIRAIL_WEBHOOK_TOKEN_SECRET", 0)                                                   \
	X("webhook-cert", OPT_STR, "FILE",                                                                                 \
	  "file of the webhooks' certificate, instead of the Secret", webhook_cert, 0, 0, "",                              \
	  "UNIRAIL_WEBHOOK_CERT", 0)                                                                                       \
	X("webhook-key", OPT_STR, "FILE", "file of the key of the webhooks' certificate",                                  \
	  webhook_key, 0, 0, "", "UNIRAIL_WEBHOOK_KEY", 0)                                                                 \
	X("webhook-ca", OPT_STR, "FILE",                                                                                   \
	  "file of the CA of the webhooks' certificate, for the API server", webhook_ca, 0, 0, "",                         \
	  "UNIRAIL_WEBHOOK_CA", 0)                                                                                         \
	X("webhook-client-ca", OPT_STR, "FILE",                                                                            \
	  "file of the CA that must have signed the API server's client certificate; a "                                   \
	  "connection without such a certificate is refused",                                                              \
	  webhook_client_ca, 0, 0, "", "UNIRAIL_WEBHOOK_CLIENT_CA", 0)                                                     \
	X("webhook-names", OPT_STR, "NAMES",                                                                               \
	  "additional names and addresses in the webhooks' certificate, separated by commas",                              \
	  webhook_names, 0, 0, "", "UNIRAIL_WEBHOOK_NAMES", 0)                                                             \
	X("cluster-domain", OPT_STR, "NAME", "domain of the cluster's DNS", cluster_domain, 0, 0,                          \
	  "cluster.local", "UNIRAIL_CLUSTER_DOMAIN", 0)                                                                    \
	X("cert-life", OPT_DUR, "TIME",                                                                                    \
	  "lifetime of a serving certificate; it is renewed after two thirds", cert_life_ms,                               \
	  MINUTE_MS / 6, YEARS_MS, "8760h", "UNIRAIL_CERT_LIFE", 0)                                                        \
	X("ca-life", OPT_DUR, "TIME", "lifetime of the webhooks' CA", ca_life_ms, MINUTE_MS / 6,                           \
	  YEARS_MS, "87600h", "UNIRAIL_CA_LIFE", 0)                                                                        \
	X("ca-publish", OPT_DUR, "TIME",                                                                                   \
	  "time for which a new CA or token is published before it is used", ca_publish_ms, 0,                             \
	  HOUR_MS, "60s", "UNIRAIL_CA_PUBLISH", 0)                                                                         \
	X("token-life", OPT_DUR, "TIME",                                                                                   \
	  "lifetime of the token in a webhook's path; replicas accept a new token for ca-publish before it is registered", \
	  token_life_ms, 1000, YEARS_MS, "24h", "UNIRAIL_TOKEN_LIFE", 0)                                                   \
	X("webhook-linger", OPT_DUR, "TIME",                                                                               \
	  "time after SIGTERM for which the webhooks still answer", linger_ms, 0, HOUR_MS, "3s",                           \
	  "UNIRAIL_WEBHOOK_LINGER", 0)                                                                                     \
	X("inject", OPT_BOOL, SETTINGS_YES_NO,                                                                             \
	  "inject networks and resources into pods at creation", inject, 0, 0, "yes",                                      \
	  "UNIRAIL_INJECT SPIDERPOOL_POD_RESOURCE_INJECT_ENABLED", 1)                                                      \
	X("namespaces-include", OPT_STR, "NAMES",                                                                          \
	  "namespaces whose pods are injected; NAME or NAME*; empty: all", include, 0, 0, "",                              \
	  "UNIRAIL_NAMESPACES_INCLUDE", 1)                                                                                 \
	X("namespaces-exclude", OPT_STR, "NAMES",                                                                          \
	  "namespaces whose pods are never injected, besides the controller's own", exclude, 0, 0,                         \
	  INJECT_EXCLUDE, "UNIRAIL_NAMESPACES_EXCLUDE", 1)                                                                 \
	X("pod-failure-policy", OPT_CHOICE, "Ignore|Fail",                                                                 \
	  "failurePolicy of the pod webhook, which applies while no controller answers",                                   \
	  pod_failure, 0, 0, "Ignore", "UNIRAIL_POD_FAILURE_POLICY", 1)                                                    \
	X("inject-ipc-lock", OPT_BOOL, SETTINGS_YES_NO,                                                                    \
	  "add the capability IPC_LOCK to containers that get a device", ipc_lock, 0, 0, "no",                             \
	  "UNIRAIL_INJECT_IPC_LOCK", 1)                                                                                    \
	X("enable-ipv4", OPT_BOOL, SETTINGS_YES_NO, "accept IPv4 pools", ipv4, 0, 0, "yes",                                \
	  "UNIRAIL_ENABLE_IPV4", 1)                                                                                        \
	X("enable-ipv6", OPT_BOOL, SETTINGS_YES_NO, "accept IPv6 pools", ipv6, 0, 0, "yes",                                \
	  "UNIRAIL_ENABLE_IPV6", 1)                                                                                        \
	X("protect-used", OPT_BOOL, SETTINGS_YES_NO,                                                                       \
	  "refuse the deletion of pools and subnets in use", protect_used, 0, 0, "no",                                     \
	  "UNIRAIL_PROTECT_USED", 1)                                                                                       \
	X("subnet", OPT_BOOL, SETTINGS_YES_NO,                                                                             \
	  "create pools from SpiderSubnets for the applications that request pools", subnet, 0, 0,                         \
	  "yes", "UNIRAIL_SUBNET", 0)                                                                                      \
	X("subnet-redundant-ips", OPT_INT, "COUNT",                                                                        \
	  "default number of addresses that a pool created from a SpiderSubnet has in addition "                           \
	  "to one per replica of its application; an application can request another number",                              \
	  subnet_redundant_ips, 0, 100000, "0", "UNIRAIL_SUBNET_REDUNDANT_IPS", 0)                                         \
	X("subnet-reuse-delay", OPT_DUR, "TIME",                                                                           \
	  "minimum time before an address released by a pool of a SpiderSubnet is used by "                                \
	  "another pool",                                                                                                  \
	  subnet_reuse_delay_ms, 1000, 24 * HOUR_MS, "15s", "UNIRAIL_SUBNET_REUSE_DELAY", 0)                               \
	SETTINGS_SANDBOX(X)                                                                                                \
	SETTINGS_PID_FILE(X)

#define AS_OPT(...) SETTINGS_OPT(struct controller_conf, __VA_ARGS__)

const struct opt controller_opts[] = {KEYS(AS_OPT){0}};
static const struct settings_row rows[] = {KEYS(SETTINGS_ROW)};

const struct settings controller_settings = {
	.opts = controller_opts,
	.rows = rows,
	.n = ARRAY_LEN(rows),
	.prog = "unirail controller",
	.help = "run the cluster's controller: webhooks, networks, pools, garbage collection",
	.section = "controller",
	.own = offsetof(struct controller_conf, own),
};

/* Checks the durations of the leader election; an invalid combination would cause two leaders, or
 * none. */
static int check_lease(const struct controller_conf *c, struct err *e)
{
	if (c->retry_ms < c->renew_ms && c->renew_ms < c->lease_ms)
		return 0;
	return err_kind(e, ERR_CONF, -EINVAL,
			"lease is %lldms, lease-renew %lldms, lease-retry %lldms: lease-renew must "
			"be shorter than lease, and lease-retry shorter than lease-renew",
			(long long)c->lease_ms, (long long)c->renew_ms, (long long)c->retry_ms);
}

/* Refuses incomplete certificate settings, and a webhook-url that does not begin with https://
 * or has a path. */
static int check_webhooks(const struct controller_conf *c, struct err *e)
{
	if (!c->webhook_cert != !c->webhook_key)
		return err_kind(e, ERR_CONF, -EINVAL,
				"%s is missing: webhook-cert and webhook-key "
				"belong together",
				c->webhook_cert ? "webhook-key" : "webhook-cert");
	if (c->webhook_ca && !c->webhook_cert)
		return err_kind(
			e, ERR_CONF, -EINVAL,
			"webhook-ca requires webhook-cert: without files, the CA is ca.crt of the "
			"Secret");
	if (c->webhook_url && (strncmp(c->webhook_url, "https://", 8) || !c->webhook_url[8] ||
			       strchr(c->webhook_url + 8, '/')))
		return err_kind(e, ERR_CONF, -EINVAL,
				"webhook-url is '%.100s', expected https://HOST:PORT",
				c->webhook_url);
	return 0;
}

static bool is_namespace(struct span name)
{
	static const char letters[] = "abcdefghijklmnopqrstuvwxyz0123456789-";
	enum { NAMESPACE_MAX = 63 };
	size_t n = name.n;

	if (n > 0 && name.p[n - 1] == '*')
		n--;
	for (size_t i = 0; i < n; i++)
		if (!memchr(letters, name.p[i], sizeof(letters) - 1))
			return false;
	return n <= NAMESPACE_MAX;
}

/* With an invalid namespace the API server would refuse the MutatingWebhookConfiguration. */
static int check_namespaces(const char *setting, const char *list, struct err *e)
{
	struct span rest = span_of(list), name;

	while (span_cut(&rest, ',', &name)) {
		name = span_trim(name);
		if (!is_namespace(name))
			return err_kind(e, ERR_CONF, -EINVAL,
					"%s has '%.*s', expected names of namespaces with commas "
					"between, such as 'kube-system, team-*'",
					setting, (int)(name.n < 100 ? name.n : 100), name.p);
	}
	return 0;
}

static int default_name(struct controller_conf *c, struct err *e)
{
	char name[256] = "";

	if (c->name)
		return 0;
	if (gethostname(name, sizeof(name) - 1) < 0)
		return err_sys(e, -errno, "read the host's name");
	c->name = settings_own(&controller_settings, c, name);
	return 0;
}

int controller_conf_read(struct controller_conf *ret, const struct root *root,
			 const struct settings_env *env, int argc, char **argv, struct err *e)
{
	struct controller_conf c = {0};
	int r = settings_read(&controller_settings, &c, root, env, argc, argv, e);

	if (r == 0)
		r = check_lease(&c, e);
	if (r == 0)
		r = check_webhooks(&c, e);
	if (r == 0)
		r = check_namespaces("namespaces-include", c.include, e);
	if (r == 0)
		r = check_namespaces("namespaces-exclude", c.exclude, e);
	if (r == 0)
		r = default_name(&c, e);
	if (r < 0) {
		controller_conf_done(&c);
		return r;
	}
	*ret = c;
	return 0;
}

void controller_conf_done(struct controller_conf *c)
{
	settings_done(&controller_settings, c);
	*c = (struct controller_conf){0};
}
