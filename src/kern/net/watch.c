/* SPDX-License-Identifier: Apache-2.0 */
#include "kern/net/watch.h"

#include <errno.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <sys/socket.h>

#include "base/alloc.h"

#define GROUP(number) (1U << ((number)-1))

static const unsigned int groups[] = {
	[NET_WATCH_LINKS] = GROUP(RTNLGRP_LINK),
	[NET_WATCH_CONFIG] = GROUP(RTNLGRP_LINK) | GROUP(RTNLGRP_IPV4_IFADDR) |
			     GROUP(RTNLGRP_IPV6_IFADDR) | GROUP(RTNLGRP_IPV4_ROUTE) |
			     GROUP(RTNLGRP_IPV6_ROUTE) | GROUP(RTNLGRP_IPV4_RULE) |
			     GROUP(RTNLGRP_IPV6_RULE),
};

int net_watch_open(int *ret, enum net_watch_scope scope, struct err *e)
{
	const struct sockaddr_nl a = {.nl_family = AF_NETLINK, .nl_groups = groups[scope]};
	auto_fd int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, NETLINK_ROUTE);

	if (fd < 0 || bind(fd, (const struct sockaddr *)&a, sizeof(a)) < 0)
		return err_sys(e, -errno, "watch the network configuration");
	*ret = take_fd(&fd);
	return 0;
}

bool net_watch_drain(int fd)
{
	bool any = false;
	char b[1];

	for (;;) {
		/* the buffer may be shorter than the message, because its content is not used */
		ssize_t n = recv(fd, b, sizeof(b), MSG_TRUNC);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno != ENOBUFS)
			return any;
		any = true;
	}
}
