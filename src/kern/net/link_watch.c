/* SPDX-License-Identifier: Apache-2.0 */
#include "kern/net/link_watch.h"

#include <errno.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <sys/socket.h>

#include "base/alloc.h"

int link_watch_open(int *fd, struct err *e)
{
	const struct sockaddr_nl a = {.nl_family = AF_NETLINK, .nl_groups = RTMGRP_LINK};
	auto_fd int s = socket(AF_NETLINK, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, NETLINK_ROUTE);

	if (s < 0 || bind(s, (const struct sockaddr *)&a, sizeof(a)) < 0)
		return err_sys(e, -errno, "watch links");
	*fd = take_fd(&s);
	return 0;
}

bool link_watch_drain(int fd)
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
