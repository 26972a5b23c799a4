/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CNI_IPAM_SPIDERPOOL_INTERNAL_H
#define UNIRAIL_CNI_IPAM_SPIDERPOOL_INTERNAL_H

/* Shared by local.c (ADD, DEL) and spiderpool.c (the other verbs). */

#include "cni/ipam/spiderpool/agent_client.h"

bool spiderpool_has_server(const struct spiderpool_conf *c);
int spiderpool_open(const struct cni_ipam_call *call, const struct spiderpool_conf *c,
		    struct ipam **ret, struct err *e);
struct ip_request spiderpool_request(const struct rail_request *r);

#endif
