/* SPDX-License-Identifier: Apache-2.0 */
#include "kern/rdma/rdma_set.h"

#include <errno.h>
#include <string.h>

#include <linux/netlink.h>
#include <rdma/rdma_netlink.h>

#include "kern/rdma/rdma_priv.h"

static const char at_boot[] =
	"set it at boot, before the container runtime starts: 'options ib_core netns_mode=0' in "
	"/etc/modprobe.d, or `rdma system set netns exclusive`";

const char *rdma_netns_mode_name(enum rdma_netns_mode mode)
{
	return mode == RDMA_NETNS_SHARED ? "shared" : "exclusive";
}

/* Nothing but the acknowledgement is of interest. */
static int ignore(void *msg, void *arg)
{
	(void)msg;
	(void)arg;
	return 0;
}

static int change(struct nl_wire *w, struct nl_msg *m, struct err *e)
{
	return nl_request(w, m, ignore, NULL, NULL, e);
}

int rdma_nl_netns_mode_set(struct nl_wire *w, enum rdma_netns_mode mode, struct err *e)
{
	struct nl_msg *m = rdma_request(RDMA_NLDEV_CMD_SYS_SET, NLM_F_ACK);
	const char *name = rdma_netns_mode_name(mode);
	int r;

	put_u8(m, RDMA_NLDEV_SYS_ATTR_NETNS_MODE, mode == RDMA_NETNS_SHARED);
	r = change(w, m, e);
	/* rdma_compatdev_set() */
	if (r == -EBUSY)
		return err_kind(
			e, ERR_AGAIN, r,
			"set the RDMA namespace mode to %s: Device or resource busy (EBUSY): the host has other "
			"network namespaces already; %s",
			name, at_boot);
	return r < 0 ? err_wrap(e, r, "set the RDMA namespace mode to %s", name) : 0;
}

struct wanted {
	const char *name;
	uint32_t index;
	bool found;
};

static int match(void *msg, void *arg)
{
	struct nlattr *tb[RDMA_NLDEV_ATTR_MAX];
	struct wanted *want = arg;
	char name[RDMA_NAME_MAX];
	int r = msg_attrs(msg, 0, tb, RDMA_NLDEV_ATTR_MAX - 1);

	if (r < 0)
		return r;
	get_str(tb[RDMA_NLDEV_ATTR_DEV_NAME], name, sizeof(name));
	if (!tb[RDMA_NLDEV_ATTR_DEV_INDEX] || strcmp(name, want->name) != 0)
		return 0;
	want->index = get_u32(tb[RDMA_NLDEV_ATTR_DEV_INDEX], 0);
	want->found = true;
	return 0;
}

static void forget(void *arg)
{
	((struct wanted *)arg)->found = false;
}

int rdma_nl_find(struct nl_wire *w, const char *name, uint32_t *index, struct err *e)
{
	struct wanted want = {.name = name};
	int r = nl_request(w, rdma_request(RDMA_NLDEV_CMD_GET, NLM_F_DUMP), match, forget, &want,
			   e);

	if (r < 0)
		return err_wrap(e, r, "look up RDMA device '%s'", name);
	if (!want.found)
		return err_set(e, -ENODEV,
			       "look up RDMA device '%s': no such device in this network namespace",
			       name);
	*index = want.index;
	return 0;
}

/* ib_device_set_netns_put() has one answer for both. */
static int cannot_move(struct nl_wire *w, const char *name, struct err *e)
{
	enum rdma_netns_mode mode;

	if (rdma_nl_netns_mode(w, &mode, NULL) == 0 && mode == RDMA_NETNS_EXCLUSIVE)
		return err_kind(
			e, ERR_UNAVAILABLE, -EOPNOTSUPP,
			"move RDMA device '%s' to a network namespace: Operation not supported (EOPNOTSUPP): its "
			"driver cannot do that (soft-RoCE never can)",
			name);
	return err_kind(
		e, ERR_UNAVAILABLE, -EOPNOTSUPP,
		"move RDMA device '%s' to a network namespace: Operation not supported (EOPNOTSUPP): the RDMA "
		"namespace mode is shared, wants exclusive: %s",
		name, at_boot);
}

int rdma_nl_move(struct nl_wire *w, uint32_t index, const char *name, int netns_fd, struct err *e)
{
	struct nl_msg *m = rdma_request(RDMA_NLDEV_CMD_SET, NLM_F_ACK);
	int r;

	put_u32(m, RDMA_NLDEV_ATTR_DEV_INDEX, index);
	put_u32(m, RDMA_NLDEV_NET_NS_FD, (uint32_t)netns_fd);
	r = change(w, m, e);
	if (r == -EOPNOTSUPP)
		return cannot_move(w, name, e);
	if (r == -EBUSY)
		return err_kind(
			e, ERR_AGAIN, r,
			"move RDMA device '%s' to a network namespace: Device or resource busy (EBUSY): a process or "
			"the kernel is using it (`rdma resource show qp dev %s`)",
			name, name);
	return r < 0 ? err_wrap(e, r, "move RDMA device '%s' to a network namespace", name) : 0;
}

bool rdma_name_ok(const char *name)
{
	size_t n = strlen(name);

	if (n == 0 || n >= RDMA_NAME_MAX || !strcmp(name, ".") || !strcmp(name, ".."))
		return false;
	for (const char *p = name; *p; p++)
		if (*p <= ' ' || *p > '~' || *p == '/' || *p == '%')
			return false;
	return true;
}

int rdma_nl_rename(struct nl_wire *w, uint32_t index, const char *name, const char *to,
		   struct err *e)
{
	struct nl_msg *m;
	int r;

	if (!rdma_name_ok(to))
		return err_kind(e, ERR_CONF, -EINVAL,
				"rename RDMA device '%s' to '%s': not a device name: wants 1 to 63 "
				"printable bytes without '/' and '%%'",
				name, to);
	m = rdma_request(RDMA_NLDEV_CMD_SET, NLM_F_ACK);
	put_u32(m, RDMA_NLDEV_ATTR_DEV_INDEX, index);
	put_str(m, RDMA_NLDEV_ATTR_DEV_NAME, to);
	r = change(w, m, e);
	return r < 0 ? err_wrap(e, r, "rename RDMA device '%s' to '%s'", name, to) : 0;
}
