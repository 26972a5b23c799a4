/* SPDX-License-Identifier: Apache-2.0 */
#include "kern/net/net_watch.h"

#include <errno.h>
#include <sys/socket.h>

#include <linux/netlink.h>
#include <linux/rtnetlink.h>

#include "base/alloc.h"

int net_watch_open(int *ret, struct err *e)
{
	static const int groups[] = {RTNLGRP_LINK,	 RTNLGRP_IPV4_IFADDR, RTNLGRP_IPV6_IFADDR,
				     RTNLGRP_IPV4_ROUTE, RTNLGRP_IPV6_ROUTE,  RTNLGRP_IPV4_RULE,
				     RTNLGRP_IPV6_RULE};
	struct sockaddr_nl any = {.nl_family = AF_NETLINK};
	auto_fd int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE);

	if (fd < 0 || bind(fd, (struct sockaddr *)&any, sizeof(any)) < 0)
		return err_sys(e, -errno, "open a socket for network notifications");
	for (size_t i = 0; i < ARRAY_LEN(groups); i++)
		if (setsockopt(fd, SOL_NETLINK, NETLINK_ADD_MEMBERSHIP, &groups[i], sizeof(int)) <
		    0)
			return err_sys(e, -errno, "subscribe to network notifications");
	*ret = take_fd(&fd);
	return 0;
}

void net_watch_drain(int fd)
{
	char bytes[8192];

	for (;;) {
		ssize_t n = recv(fd, bytes, sizeof(bytes), MSG_DONTWAIT);

		if (n >= 0 || errno == EINTR || errno == ENOBUFS)
			continue;
		return;
	}
}
