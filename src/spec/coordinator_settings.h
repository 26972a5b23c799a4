/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_SPEC_COORDINATOR_SETTINGS_H
#define UNIRAIL_SPEC_COORDINATOR_SETTINGS_H

/*
 * Settings of the coordinator plugin: of a SpiderCoordinator object or, on nodes without an API
 * server, of an optional file, default /etc/unirail/agent.conf. The keys of the file are those of
 * the object's spec and status, in upper or lower case:
 *
 *	[coordinator]
 *	mode               = auto            ; auto, underlay, overlay, disabled
 *	overlayPodCIDR     = 10.244.0.0/16   ; lists: commas, or several lines
 *	serviceCIDR        = 10.96.0.0/12
 *	hijackCIDR         = 169.254.0.0/16
 *	policyRoutes       = 10.1.0.0/16 via 10.0.0.1     ; one per line
 *	podMACPrefix       = 0a:1b
 *	tunePodRoutes      = yes
 *	podDefaultRouteNIC = eth0
 *	hostRuleTable      = 500
 *	podRPFilter        = 0               ; -1: rp_filter is not changed
 *	txQueueLen         = 0
 *	vethLinkAddress    = 169.254.100.1
 *	vethMTU            = 1500
 */

#include <stdint.h>

#include "base/file.h"
#include "wire/json/json.h"

#define AGENT_CONF "/etc/unirail/agent.conf"

struct text_list {
	char **v;
	size_t n;
};

struct coordinator_settings {
	char *mode, *mac_prefix, *default_nic, *veth_address;
	struct text_list overlay, service, hijack;
	struct text_list route_dst, route_gw; /* lists of the same length */
	bool tune;
	int64_t rule_table, rp_filter, queue_len, veth_mtu;
};

/* Reads the file; if it does not exist, the defaults apply. On an error (kind ERR_CONF,
 * "agent.conf:3: ...") *ret is unchanged. */
int coordinator_settings_read(const struct root *r, const char *path,
			      struct coordinator_settings *ret, struct err *e);
/*
 * Reads spec and status of a SpiderCoordinator object. On an error (kind ERR_CONF, "spec: mode is
 * ...") *ret is unchanged.
 */
int coordinator_settings_object(const struct json *object, struct coordinator_settings *ret,
				struct err *e);
void coordinator_settings_done(struct coordinator_settings *s);
/* Writes the settings as Spiderpool's CoordinatorConfig. */
void coordinator_settings_json(const struct coordinator_settings *s, struct json_out *o);

void coordinator_settings_init(struct coordinator_settings *s); /* sets the defaults */

#endif
