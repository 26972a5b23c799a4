/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_SPEC_NETWORK_ANNOTATION_H
#define UNIRAIL_SPEC_NETWORK_ANNOTATION_H

/*
 * Parser of the pod annotation k8s.v1.cni.cncf.io/networks, in both forms:
 *
 *	rail0, team/rail1@net9
 *	[{"name": "rail0", "namespace": "team", "interface": "net9", "mac": "02:...",
 *	  "ips": ["10.0.0.9/24"], "default-route": ["10.0.0.1"], ...}]
 *
 * A value that contains '[', '{' or '"' is JSON, whose keys are matched as by Go's encoding/json;
 * any other value is a list. Names in a list consist of lower case letters, digits and '-'; names
 * in JSON may be any object name.
 */

#include "wire/json/json.h"

/* Borrowed members belong to the selection's document; NULL: absent. */
struct network_request {
	char *ns, *name, *ifname; /* owned; ifname NULL: net1, net2, ... by position */
	const char *mac, *guid;	  /* guid: InfiniBand GUID */
	/* id of the requested device; agent/network/plan.h decides whether it is used */
	const char *device_id;
	struct json_strs ips;	      /* addresses, with or without a prefix length */
	struct json_strs routes;      /* default-route: gateways */
	const struct json *ports;     /* portMappings: an array */
	const struct json *bandwidth; /* an object */
	const struct json *cni_args;  /* an object */
};

struct net_select {
	struct json_doc *doc; /* parsed annotation; NULL: the annotation has the list form */
	struct network_request *v;
	size_t n;
};

enum { NET_SELECT_MAX = 127 };

/* pod_ns is the namespace of network names without a namespace. Errors have kind ERR_CONF; *ret is
 * unchanged on failure. Text NULL or "": no networks. */
int net_select_parse(const char *text, const char *pod_ns, struct net_select *ret, struct err *e);
void net_select_done(struct net_select *s);

#endif
