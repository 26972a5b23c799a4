/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_IPAM_HOSTLOCAL_HOSTLOCAL_DIR_H
#define UNIRAIL_IPAM_HOSTLOCAL_HOSTLOCAL_DIR_H

/* Internals of hostlocal.c. */

#include "ipam/hostlocal/hostlocal.h"

char *hostlocal_path(const struct hostlocal *h, const char *name); /* freed by the caller */
/* Writes the record of an address that has none. Requires hostlocal_records(). */
int hostlocal_write(struct hostlocal *h, const struct ipaddr *a,
		    const struct hostlocal_owner *owner, struct err *e);

#endif
