/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CNI_MACVLAN_H
#define UNIRAIL_CNI_MACVLAN_H

/*
 * The macvlan plugin's netconf, keys matched as Go's encoding/json does:
 *
 *	master          device below; default: that of the (first) default route
 *	mode            "" or bridge, private, vepa, passthru
 *	mtu             0: the master's; never above the master's
 *	mac             runtimeConfig.mac > CNI_ARGS MAC > mac
 *	linkInContainer the master is in the pod's namespace
 *	bcqueuelen      0: the kernel's choice
 *	ipam, dns       as everywhere; without ipam.type the link is only set up
 *
 * Everything here is pure: what the kernel holds comes in as plain structs.
 */

#include "cni/result.h"
#include "kern/link.h"

struct macvlan_conf {
	const char *master; /* NULL: the default route's device */
	enum macvlan_mode mode;
	uint32_t mtu, bcqueuelen;
	struct mac mac; /* len 0: the kernel's choice */
	bool in_container;
	const struct json *ipam, *dns; /* borrowed from the document; may be NULL */
};

/* `defaults` (may be NULL) is read first, then conf on top of it; args_mac is CNI_ARGS' MAC or
 * NULL. Kind ERR_CONF, the field named. */
int macvlan_conf_read(struct json_doc *d, const struct json *defaults, const struct json *conf,
		      const char *args_mac, struct macvlan_conf *ret, struct err *e);
/* Whether the wished MTU fits the master: `invalid MTU %d, must be [0, master MTU(%d)]`. */
int macvlan_fits(const struct macvlan_conf *c, const struct link *master, struct err *e);
const char *macvlan_mode_name(uint32_t mode); /* "bridge"; "unknown" */
/* conf.dns onto a result. */
int cni_dns_read(struct json_doc *d, const struct json *dns, struct cni_dns *ret, struct err *e);

#endif
