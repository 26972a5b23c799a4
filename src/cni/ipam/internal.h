/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CNI_IPAM_INTERNAL_H
#define UNIRAIL_CNI_IPAM_INTERNAL_H

/* Shared by the files of this directory. */

#include "cni/ipam/whereabouts.h"

/* The netconf's keys as written. */
int whereabouts_keys_read(const struct cni_ipam_call *call, struct whereabouts_conf *c,
			  struct err *e);
/* The flat file's, into what is empty. */
int whereabouts_keys_merge(const struct cni_ipam_call *call, struct whereabouts_conf *c,
			   struct err *e);
/* The netconf's dns over the flat file's, which merge() put there, key by key. */
int whereabouts_keys_dns(const struct cni_ipam_call *call, struct whereabouts_conf *c,
			 struct err *e);
/* A netconf that keys_read() refused: what giving back needs. */
void whereabouts_keys_salvage(const struct cni_ipam_call *call, struct whereabouts_conf *c);

#endif
