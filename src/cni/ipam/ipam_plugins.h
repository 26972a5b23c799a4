/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CNI_IPAM_IPAM_PLUGINS_H
#define UNIRAIL_CNI_IPAM_IPAM_PLUGINS_H

/*
 * host-local, static and whereabouts, for callers in the same process. They read "ipam" from
 * call->conf (host-local and static also "runtimeConfig" and "args") and CNI_ARGS from call->call.
 * An ADD fills *out, which must be empty. A failed ADD leaves nothing allocated.
 */

#include "cni/protocol/cni.h"

/* Returns whether this process runs the plugin of this ipam.type: one of these, or spiderpool. */
bool cni_ipam_is_built_in(const char *type);

int host_local_add(const struct cni_ipam_call *call, struct cni_result *out, struct err *e);
/* DEL: needs only the store, so invalid ranges do not prevent the release. If prevResult has an
 * address of each range set, only the files of these addresses are read. */
int host_local_del(const struct cni_ipam_call *call, struct err *e);
int host_local_check(const struct cni_ipam_call *call, struct err *e);
/* Releases the addresses of attachments that are not in call->call->valid. */
int host_local_gc(const struct cni_ipam_call *call, struct err *e);
int host_local_status(const struct cni_ipam_call *call, struct err *e);

int static_add(const struct cni_ipam_call *call, struct cni_result *out, struct err *e);
int static_check(const struct cni_ipam_call *call, struct err *e);
/* STATUS: validates the configuration */
int static_status(const struct cni_ipam_call *call, struct err *e);

int whereabouts_add(const struct cni_ipam_call *call, struct cni_result *out, struct err *e);
/* DEL: needs only the store; the rest of the configuration may be invalid. */
int whereabouts_del(const struct cni_ipam_call *call, struct err *e);
int whereabouts_check(const struct cni_ipam_call *call, struct err *e);
int whereabouts_gc(const struct cni_ipam_call *call, struct err *e);
int whereabouts_status(const struct cni_ipam_call *call, struct err *e);

#endif
