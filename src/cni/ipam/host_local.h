/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CNI_IPAM_HOST_LOCAL_H
#define UNIRAIL_CNI_IPAM_HOST_LOCAL_H

#include "cni/protocol/ipam_call.h"
#include "ipam/hostlocal/hostlocal.h"

struct host_local_conf {
	const char *data_dir; /* never NULL after the configuration is read */
	const char *resolv_conf;
	const struct json *routes;
	/* one of the sets may point to this member, so the struct must not be moved */
	struct hostlocal_range legacy;
	struct hostlocal_set *sets;
	size_t n_sets;
	struct ipaddr *wanted; /* requested addresses, without duplicates */
	size_t n_wanted;
};

/* Reads only the location of the store. */
int host_local_conf_store(const struct cni_ipam_call *call, struct host_local_conf *ret,
			  struct err *e);
/* Reads and validates the whole configuration, as the original does. */
int host_local_conf_read(const struct cni_ipam_call *call, struct host_local_conf *ret,
			 struct err *e);
void host_local_conf_done(struct host_local_conf *c);
#define auto_host_local_conf __attribute__((cleanup(host_local_conf_done)))

/* Reads the file of resolvConf into dns. */
int host_local_dns(const struct root *root, const char *path, struct cni_dns *dns, struct err *e);

#endif
