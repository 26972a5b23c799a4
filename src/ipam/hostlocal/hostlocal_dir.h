/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_IPAM_HOSTLOCAL_HOSTLOCAL_DIR_H
#define UNIRAIL_IPAM_HOSTLOCAL_HOSTLOCAL_DIR_H

/* What hostlocal.c and hostlocal.c share. */

#include "ipam/hostlocal/hostlocal.h"

char *hostlocal_path(const struct hostlocal *h, const char *name); /* the caller's */
/* The address is nobody's and the records are loaded. */
int hostlocal_write(struct hostlocal *h, const struct ipaddr *a, const struct hostlocal_owner *who,
		    struct err *e);

#endif
