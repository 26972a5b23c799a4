/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_KERN_PROBE_PACKET_FILTER_H
#define UNIRAIL_KERN_PROBE_PACKET_FILTER_H

#include "kern/probe/packet.h"

/* Attaches the filter that packet_open_probe() documents. */
int packet_filter(int fd, int family, const struct packet_watch *w, size_t n, struct err *e);

#endif
