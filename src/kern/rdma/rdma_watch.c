/* SPDX-License-Identifier: Apache-2.0 */
#include "kern/rdma/rdma_watch.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>

#include <linux/netlink.h>
#include <rdma/rdma_netlink.h>

#include "base/cleanup.h"
#include "kern/rdma/rdma_priv.h"

enum { ATTRS = RDMA_NLDEV_ATTR_MAX, DATAGRAM_MAX = 8192 };

static int see_mode(void *msg, void *arg)
{
	struct nlattr *tb[ATTRS];
	int r = msg_attrs(msg, 0, tb, ATTRS - 1);

	if (r == 0)
		*(bool *)arg = get_u8(tb[RDMA_NLDEV_SYS_ATTR_MONITOR_MODE], 0) != 0;
	return r;
}

int rdma_nl_events_known(struct nl_wire *w, struct err *e)
{
	bool known = false;
	int r = nl_request(w, rdma_request(RDMA_NLDEV_CMD_SYS_GET, 0), see_mode, NULL, &known, e);

	return r < 0 ? err_wrap(e, r, "ask whether RDMA events are sent") : known;
}

int rdma_watch_open(int *fd, struct err *e)
{
	int group = RDMA_NL_GROUP_NOTIFY;
	auto_fd int s = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_RDMA);

	if (s < 0 && errno == EPROTONOSUPPORT)
		return err_kind(
			e, ERR_UNAVAILABLE, -EPROTONOSUPPORT,
			"listen to RDMA events: Protocol not supported (EPROTONOSUPPORT): this kernel has no RDMA: "
			"load module ib_core");
	if (s < 0)
		return err_sys(e, -errno, "listen to RDMA events");
	if (setsockopt(s, SOL_NETLINK, NETLINK_ADD_MEMBERSHIP, &group, sizeof(group)) < 0)
		return err_sys(e, -errno, "join the group of RDMA events");
	*fd = take_fd(&s);
	return 0;
}

static enum rdma_event_kind kind_of(uint8_t type)
{
	switch (type) {
	case RDMA_REGISTER_EVENT: return RDMA_EVENT_REGISTER;
	case RDMA_UNREGISTER_EVENT: return RDMA_EVENT_UNREGISTER;
	case RDMA_NETDEV_ATTACH_EVENT: return RDMA_EVENT_NETDEV_ATTACH;
	case RDMA_NETDEV_DETACH_EVENT: return RDMA_EVENT_NETDEV_DETACH;
	default: return RDMA_EVENT_OTHER;
	}
}

bool rdma_event_parse(struct span datagram, struct rdma_event *ret)
{
	const struct nlmsghdr *h = (const void *)datagram.p;
	struct nlattr *tb[ATTRS];

	if (datagram.n > INT32_MAX || !nlmsg_ok(h, (int)datagram.n) ||
	    h->nlmsg_type != RDMA_NL_GET_TYPE(RDMA_NL_NLDEV, RDMA_NLDEV_CMD_MONITOR) ||
	    msg_attrs(h, 0, tb, ATTRS - 1) < 0 || !tb[RDMA_NLDEV_ATTR_EVENT_TYPE])
		return false;
	*ret = (struct rdma_event){
		.kind = kind_of(get_u8(tb[RDMA_NLDEV_ATTR_EVENT_TYPE], UINT8_MAX)),
		.index = get_u32(tb[RDMA_NLDEV_ATTR_DEV_INDEX], 0),
		.port = get_u32(tb[RDMA_NLDEV_ATTR_PORT_INDEX], 0),
		.netdev_index = (int)get_u32(tb[RDMA_NLDEV_ATTR_NDEV_INDEX], 0)};
	get_str(tb[RDMA_NLDEV_ATTR_DEV_NAME], ret->name, sizeof(ret->name));
	get_str(tb[RDMA_NLDEV_ATTR_NDEV_NAME], ret->netdev, sizeof(ret->netdev));
	return true;
}

int rdma_watch_next(int fd, struct rdma_event *ret, struct err *e)
{
	_Alignas(struct nlmsghdr) char bytes[DATAGRAM_MAX];

	for (;;) {
		struct sockaddr_nl from = {0};
		socklen_t len = sizeof(from);
		ssize_t n = recvfrom(fd, bytes, sizeof(bytes), 0, (struct sockaddr *)&from, &len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return errno == EAGAIN ? 0 : err_sys(e, -errno, "read RDMA events");
		if (from.nl_pid == 0 && rdma_event_parse((struct span){bytes, (size_t)n}, ret))
			return 1;
	}
}
