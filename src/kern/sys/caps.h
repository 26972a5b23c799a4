/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_KERN_SYS_CAPS_H
#define UNIRAIL_KERN_SYS_CAPS_H

#include "base/err.h"

/*
 * Permanently drops what a process that only works on files does not need: every capability except
 * CAP_DAC_OVERRIDE (access to other users' files), the bounding set where the process may change
 * it, and privileges gained by execve (no_new_privs). Capabilities it did not have are not added.
 * Afterwards it cannot change network namespaces, devices or the clock.
 */
int caps_files_only(struct err *e);

/* 0 if this process may change links, else -EPERM with the remedy: called before an address is
 * allocated and files are written for an interface that could not be created. */
int caps_net_admin(struct err *e);

#endif
