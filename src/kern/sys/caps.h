/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_KERN_SYS_CAPS_H
#define UNIRAIL_KERN_SYS_CAPS_H

#include "base/err.h"

/*
 * Gives up, for good, whatever a process that only works on files can do without: every capability
 * but CAP_DAC_OVERRIDE (files of others that root may read and write), the bounding set where that
 * is ours to change, and what execve could bring back (no_new_privs). A process that had less has
 * less. Network namespaces, devices and the clock are out of reach afterwards.
 */
int caps_files_only(struct err *e);

/* 0 where this process may change links, else -EPERM with what to do: asked before an address is
 * taken and files are written for an interface that cannot be made. */
int caps_net_admin(struct err *e);

#endif
