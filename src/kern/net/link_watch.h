/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_KERN_NET_LINK_WATCH_H
#define UNIRAIL_KERN_NET_LINK_WATCH_H

/* Reports that a link of the caller's network namespace has changed (RTNLGRP_LINK): added, removed,
 * renamed, carrier gained or lost. A receiver reads the state again from the kernel, since messages
 * may be lost. */

#include <stdbool.h>

#include "base/err.h"

/* A non-blocking descriptor to wait for. */
int link_watch_open(int *fd, struct err *e);
/* Discards what is queued; true: at least one message, or a loss of some. */
bool link_watch_drain(int fd);

#endif
