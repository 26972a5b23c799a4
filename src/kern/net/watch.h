/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_KERN_NET_WATCH_H
#define UNIRAIL_KERN_NET_WATCH_H

/* Reports that the network configuration of the caller's network namespace has changed. The
 * receiver reads the state from the kernel again, because the kernel drops notifications when the
 * socket's buffer is full. */

#include <stdbool.h>

#include "base/err.h"

enum net_watch_scope {
	NET_WATCH_LINKS,  /* a link was added or removed, or changed (name, carrier, MTU ...) */
	NET_WATCH_CONFIG, /* also addresses, routes and rules */
};

/* Opens a non-blocking descriptor that is readable after a change. */
int net_watch_open(int *fd, enum net_watch_scope scope, struct err *e);
/* Discards queued notifications; call it before you read the state. Returns true if there was at
 * least one, or if notifications were lost. */
bool net_watch_drain(int fd);

#endif
