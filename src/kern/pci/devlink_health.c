/* SPDX-License-Identifier: Apache-2.0 */
#include "kern/pci/devlink_health.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include <linux/devlink.h>
#include <linux/genetlink.h>

#include "base/alloc.h"
#include "kern/netlink/attr.h"
#include "kern/pci/internal.h"

enum {
	DATAGRAM_MAX = 8192,
	/* enum devlink_health_reporter_state of the kernel, which UAPI headers do not define */
	IN_ERROR = 1,
};

struct reporters {
	struct devlink_reporter *v;
	size_t n;
};

/* Returns 1 if the message is a reporter, 0 if it has another subject, -EBADMSG if it is
 * truncated. */
static int read_reporter(const void *msg, struct devlink_reporter *ret)
{
	struct nlattr *tb[DEVLINK_ATTR_MAX + 1], *of[DEVLINK_ATTR_MAX + 1];
	struct devlink_reporter p = {.of_port = false};
	int r = msg_attrs(msg, sizeof(struct genlmsghdr), tb, DEVLINK_ATTR_MAX);

	if (r < 0 || !tb[DEVLINK_ATTR_HEALTH_REPORTER])
		return r < 0 ? r : 0;
	get_str(tb[DEVLINK_ATTR_BUS_NAME], p.bus, sizeof(p.bus));
	get_str(tb[DEVLINK_ATTR_DEV_NAME], p.dev, sizeof(p.dev));
	p.of_port = tb[DEVLINK_ATTR_PORT_INDEX] != NULL;
	p.port = get_u32(tb[DEVLINK_ATTR_PORT_INDEX], 0);
	nested_attrs(tb[DEVLINK_ATTR_HEALTH_REPORTER], of, DEVLINK_ATTR_MAX);
	get_str(of[DEVLINK_ATTR_HEALTH_REPORTER_NAME], p.name, sizeof(p.name));
	p.is_error = get_u8(of[DEVLINK_ATTR_HEALTH_REPORTER_STATE], 0) == IN_ERROR;
	/* the kernel sends this attribute only for reporters that can recover */
	p.can_recover = of[DEVLINK_ATTR_HEALTH_REPORTER_AUTO_RECOVER] != NULL;
	*ret = p;
	return 1;
}

static int take_reporter(void *msg, void *arg)
{
	struct reporters *all = arg;
	struct devlink_reporter p;
	int r = read_reporter(msg, &p);

	if (r > 0)
		VEC_PUSH(all->v, all->n) = p;
	return r < 0 ? r : 0;
}

static void forget(void *arg)
{
	((struct reporters *)arg)->n = 0;
}

int devlink_reporter_list(struct devlink *d, struct devlink_reporter **ret, size_t *n,
			  struct err *e)
{
	struct nl_msg *m = devlink_request(d, DEVLINK_CMD_HEALTH_REPORTER_GET, NLM_F_DUMP);
	struct reporters all = {NULL, 0};
	int r = nl_request(d->w, m, take_reporter, forget, &all, e);

	if (r < 0) {
		free(all.v);
		return err_wrap(e, r, "list devlink health reporters");
	}
	*ret = all.v;
	*n = all.n;
	return 0;
}

int devlink_watch_open(const struct devlink *d, int *fd, struct err *e)
{
	int s;

	if (!d->config_group)
		return err_kind(e, ERR_UNAVAILABLE, -EOPNOTSUPP,
				"watch devlink: the kernel reports no multicast group of "
				"notifications");
	s = nl_listen(NETLINK_GENERIC, d->config_group);
	if (s < 0)
		return err_sys(e, s, "watch devlink");
	*fd = s;
	return 0;
}

bool devlink_report_parse(const struct devlink *d, struct span datagram,
			  struct devlink_reporter *ret)
{
	const struct nlmsghdr *h = (const void *)datagram.p;

	return datagram.n <= INT32_MAX && nlmsg_ok(h, (int)datagram.n) &&
	       h->nlmsg_type == d->family && read_reporter(h, ret) > 0;
}

int devlink_watch_next(const struct devlink *d, int fd, struct devlink_reporter *ret)
{
	_Alignas(struct nlmsghdr) char bytes[DATAGRAM_MAX];
	int n;

	while ((n = nl_receive(fd, bytes, sizeof(bytes))) > 0)
		if (devlink_report_parse(d, (struct span){bytes, (size_t)n}, ret))
			return 1;
	return n == -ENOBUFS ? -ENOBUFS : 0;
}
