/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_SPEC_NETWORK_ANNOTATION_H
#define UNIRAIL_SPEC_NETWORK_ANNOTATION_H

/*
 * A pod's wish for networks, as in its annotation k8s.v1.cni.cncf.io/networks, in both forms:
 *
 *	rail0, team/rail1@net9
 *	[{"name": "rail0", "namespace": "team", "interface": "net9", "mac": "02:...",
 *	  "ips": ["10.0.0.9/24"], "default-route": ["10.0.0.1"], ...}]
 *
 * A text with '[', '{' or '"' in it is JSON, whose keys match as Go's encoding/json does; else it
 * is a list. Names of a list are of lower case letters, digits and '-'; those of JSON may be anything
 * that an object can be called.
 */

#include "wire/json/json.h"

/* What is borrowed is the selection's document's; NULL: not there. */
struct net_ask {
	char *ns, *name, *ifname;     /* owned; ifname NULL: goes by its place */
	const char *mac, *guid;	      /* guid: of InfiniBand */
	const char *device_id;	      /* a request: agent/network/plan.h says when it is honored */
	struct json_strs ips;	      /* an address, or one with its prefix length */
	struct json_strs routes;      /* default-route: gateways */
	const struct json *ports;     /* portMappings: an array */
	const struct json *bandwidth; /* an object */
	const struct json *cni_args;  /* an object */
};

struct net_select {
	struct json_doc *doc; /* NULL: it was a list */
	struct net_ask *v;
	size_t n;
};

enum { NET_SELECT_MAX = 127 };

/* pod_ns is for names without one. Kind ERR_CONF; *ret is left alone then. Text NULL or "": none. */
int net_select_parse(const char *text, const char *pod_ns, struct net_select *ret, struct err *e);
void net_select_done(struct net_select *s);

#endif
