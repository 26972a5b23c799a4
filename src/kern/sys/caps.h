/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_KERN_SYS_CAPS_H
#define UNIRAIL_KERN_SYS_CAPS_H

#include "base/err.h"

/*
 * Permanently drops the privileges that a process does not need if it only accesses files: every
 * capability except CAP_DAC_OVERRIDE (access to other users' files), the bounding set where the
 * process may change it, and privileges gained by execve (no_new_privs). No capability is added.
 * Afterwards the process cannot change network namespaces, devices or the clock.
 */
int caps_files_only(struct err *e);

/* Returns 0 if this process may change links, else -EPERM with the remedy. Call it before addresses
 * are allocated and files are written for an interface that could not be created. */
int caps_net_admin(struct err *e);

#endif
