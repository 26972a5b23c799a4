/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CLI_VIEWS_H
#define UNIRAIL_CLI_VIEWS_H

/*
 * RDMA devices as `ibdev2netdev` and `show_gids` of NVIDIA's mlnx-tools and `ibstat` of
 * infiniband-diags print them, from sysfs below a root. The layout is that of the originals, since
 * scripts read it.
 */

#include "base/file.h"

void views_ibdev2netdev(const struct root *r, struct buf *b);
/* device NULL: all devices. Fails with -ENODEV if there is no such device. */
int views_show_gids(const struct root *r, const char *device, struct buf *b, struct err *e);
/* port 0: all ports; device as in views_show_gids(). */
int views_ibstat(const struct root *r, const char *device, unsigned int port, struct buf *b,
		 struct err *e);
/* `ibstat -l`: names of devices, one per line. */
void views_list(const struct root *r, struct buf *b);

#endif
