/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_KERN_NET_NET_WATCH_H
#define UNIRAIL_KERN_NET_NET_WATCH_H

/* Notifications that links, addresses, routes or rules of the caller's namespace changed. The receiver reads the state
 * again, because the kernel drops notifications when the socket's buffer is full. */

#include "base/err.h"

/* Opens a descriptor that is readable after a change. */
int net_watch_open(int *fd, struct err *e);
/* Discards all notifications; call it before you read the state. */
void net_watch_drain(int fd);

#endif
