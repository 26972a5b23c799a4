/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_AGENT_NRI_MESSAGE_H
#define UNIRAIL_AGENT_NRI_MESSAGE_H

/* Decoder and encoder of NRI's messages (nri.proto). Decoders fail with -EINVAL for bytes that are
 * not a valid message. */

#include "agent/nri/adjust.h"

/* Event numbers of containerd/nri pkg/api/api.proto: bit N-1 of the mask is event N. A runtime
 * refuses a plugin that subscribes to an unknown event. */
enum { NRI_CREATE_CONTAINER = 4 };

struct nri_create;

/* A decoded CreateContainer request, which owns the strings that the functions below return. */
int nri_create_decode(struct nri_create **ret, struct span message, struct err *e);
void nri_create_cleanup(struct nri_create **c);
#define auto_nri_create __attribute__((cleanup(nri_create_cleanup)))
const struct nri_container *nri_create_container(const struct nri_create *c);
/* never NULL; "": unknown */
const char *nri_create_pod_uid(const struct nri_create *c);
const char *nri_create_pod(const struct nri_create *c);	 /* "namespace/name" */
const char *nri_create_name(const struct nri_create *c); /* name of the container */

void nri_put_adjustment(struct buf *b, const struct nri_adjustment *a);
void nri_put_registration(struct buf *b, const char *name, const char *index);
void nri_put_events(struct buf *b, uint32_t mask);

struct nri_runtime {
	char name[64], version[64];
};
int nri_configure_decode(struct span message, struct nri_runtime *ret, struct err *e);
/* Sets *more to whether further parts of the Synchronize request follow. The reply must have the
 * same value of `more`. */
int nri_synchronize_decode(struct span message, bool *more, struct err *e);
void nri_put_synchronized(struct buf *b, bool more);

#endif
