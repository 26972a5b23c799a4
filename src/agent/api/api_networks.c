/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Our routes about a pod's networks; agent/network/nets.h does the work.
 *
 * networks {"containerID", "podNamespace", "podName", "podUID", "ifName", "own", "clusterNetwork",
 *           "defaultNetworks": [], "systemNamespaces": [], "namespaceIsolation",
 *           "globalNamespaces", "multusNamespace"}
 *          own: how many networks the netconf has itself; the others as in a Multus configuration
 *          {"networks": [cni/cluster/pod_net.h's], "replacesFirst", "warnings": [], "coordinator": {as in
 *           /v1/coordinator/config}, "stateDir"}
 *          replacesFirst: the first of them is in the place of the netconf's first
 * done     besides what api_pods.c has: {"podNamespace", "podName", "podUID", "networkStatus",
 *           "message"}: the annotation to be written, and the words of the event
 */
#include <errno.h>
#include <string.h>

#include "agent/api/api.h"
#include "agent/network/nets.h"

#define FIELD(key, kind, member, ...)                                                              \
	{                                                                                          \
		key, kind, .offset = offsetof(struct api_networks_args, member), __VA_ARGS__       \
	}

static const struct json_field fields[] = {
	FIELD("containerID", J_STR, container_id),
	FIELD("podNamespace", J_STR, pod_namespace),
	FIELD("podName", J_STR, pod_name),
	FIELD("podUID", J_STR, pod_uid),
	FIELD("ifName", J_STR, ifname),
	FIELD("own", J_INT, own, .min = 0, .max = NET_SELECT_MAX),
	FIELD("clusterNetwork", J_STR, cluster_network),
	FIELD("defaultNetworks", J_STRS, defaults),
	FIELD("systemNamespaces", J_STRS, system_ns,
	      .has = offsetof(struct api_networks_args, has_system)),
	FIELD("namespaceIsolation", J_BOOL, isolation),
	FIELD("globalNamespaces", J_STR, global_ns),
	FIELD("multusNamespace", J_STR, multus_ns),
	{0}};
static const struct json_table table = {fields, JSON_CLOSED, 0};

int api_read_networks(struct api_call *c)
{
	const struct api_networks_args *p = c->args;
	int r = api_body(c, "networks", &table);

	if (r == 0)
		r = api_not_empty(c, "podNamespace", p->pod_namespace);
	if (r == 0)
		r = api_not_empty(c, "podName", p->pod_name);
	return r;
}

static const char *or_else(const char *s, const char *otherwise)
{
	return s && *s ? s : otherwise;
}

void api_networks(struct api_call *c)
{
	static const char *system_ns[] = {"kube-system"};
	const struct api_networks_args *p = c->args;
	const struct net_wish w = {
		.ifname = or_else(p->ifname, "eth0"),
		.pod_uid = p->pod_uid,
		.own = p->own,
		.cluster_network = p->cluster_network && *p->cluster_network ? p->cluster_network
									     : NULL,
		.multus_ns = or_else(p->multus_ns, "kube-system"),
		.global_ns = or_else(p->global_ns, "default"),
		.defaults = p->defaults,
		.system_ns = p->has_system ? p->system_ns : (struct json_strs){system_ns, 1},
		.isolation = p->isolation,
	};
	struct json_doc *doc = c->doc;

	if (!c->api->conf.nets) {
		api_refuse(c, 404, 404, "this server knows no cluster, and no pod's networks");
		return;
	}
	c->doc = NULL;
	nets_ask(c->api->conf.nets, c->q, doc, p->pod_namespace, p->pod_name, &w);
}

void api_networks_done(struct api_call *c, const struct api_done_args *p)
{
	const struct nets_status s = {.container_id = p->container_id,
				      .ns = or_else(p->pod_namespace, ""),
				      .name = or_else(p->pod_name, ""),
				      .uid = or_else(p->pod_uid, ""),
				      .annotation = p->status,
				      .words = p->message};

	if (p->status && c->api->conf.nets && *s.ns && *s.name)
		nets_tell(c->api->conf.nets, &s);
}
