/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_KERN_SYS_CAPS_H
#define UNIRAIL_KERN_SYS_CAPS_H

#include "base/err.h"

/*
 * Permanently drops the privileges that a process does not need if it only accesses files. Drops
 * every capability except CAP_DAC_OVERRIDE (access to other users' files), also from the bounding
 * set if the process has CAP_SETPCAP, and sets no_new_privs, so that execve() gains none. Adds no
 * capability. Afterwards the process cannot change network namespaces, devices or the clock.
 */
int caps_files_only(struct err *e);

/* Returns 0 if this process has CAP_NET_ADMIN, which changes of links need, else -EPERM; e has the
 * remedy. A caller checks this first, so that it allocates no address and writes no file for an
 * interface that it could not create. */
int caps_net_admin(struct err *e);

#endif
