/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CNI_PROTOCOL_IPAM_CALL_H
#define UNIRAIL_CNI_PROTOCOL_IPAM_CALL_H

/* Input that the IPAM plugins share: "ipam", and the sources of requested addresses. */

#include "cni/protocol/cni.h"

struct ipam_request {
	const struct json *ipam;
	struct json_strs runtime_ips, args_ips; /* runtimeConfig.ips, args.cni.ips */
	const struct json *ip_ranges;		/* runtimeConfig.ipRanges */
	struct cni_args args;
	struct buf keep; /* owns the strings of args */
};

/* netconf keys that ipam_request_read() reads */
extern const struct json_table ipam_request_table;
int ipam_request_read(const struct cni_ipam_call *call, struct ipam_request *ret, struct err *e);
void ipam_request_done(struct ipam_request *r);
#define auto_ipam_request __attribute__((cleanup(ipam_request_done)))

/* Refuses more than one address of a family if the version is below 0.3.0: a result of such a
 * version has at most one address of each family. */
int ipam_check_families(const struct cni_ipam_call *call, size_t n4, size_t n6, struct err *e);

/* For an IPAM plugin that runs as its own process: returns the call of its only attachment; the
 * whole netconf is the call's `conf`. */
struct cni_ipam_call cni_ipam_call_of(const struct cni_call *c);

#endif
