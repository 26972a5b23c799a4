/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_KERN_NET_LINK_WATCH_H
#define UNIRAIL_KERN_NET_LINK_WATCH_H

/* Reports that a link of the caller's network namespace has changed (RTNLGRP_LINK): added, removed,
 * renamed, carrier gained or lost. The receiver reads the state from the kernel again, because
 * messages may be lost. */

#include <stdbool.h>

#include "base/err.h"

/* Opens a non-blocking descriptor that is readable after a change. */
int link_watch_open(int *fd, struct err *e);
/* Discards queued messages. Returns true if there was at least one, or messages were lost. */
bool link_watch_drain(int fd);

#endif
