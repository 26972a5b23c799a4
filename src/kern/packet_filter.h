/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_KERN_PACKET_FILTER_H
#define UNIRAIL_KERN_PACKET_FILTER_H

#include "kern/packet.h"

/* Attaches the filter that packet_open_probe() promises. */
int packet_filter(int fd, int family, const struct packet_watch *w, size_t n, struct err *e);

#endif
