/* SPDX-License-Identifier: Apache-2.0 */
#include "kern/pci/devlink.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <linux/devlink.h>
#include <linux/genetlink.h>

#include "base/buf.h"
#include "kern/netlink/attr.h"
#include "kern/pci/internal.h"

static void take_groups(const struct nlattr *groups, struct devlink *d)
{
	struct nlattr *a, *tb[CTRL_ATTR_MCAST_GRP_MAX + 1];
	char name[32];
	int left;

	nla_for_each_nested(a, groups, left)
	{
		nested_attrs(a, tb, CTRL_ATTR_MCAST_GRP_MAX);
		get_str(tb[CTRL_ATTR_MCAST_GRP_NAME], name, sizeof(name));
		if (strcmp(name, DEVLINK_GENL_MCGRP_CONFIG_NAME) == 0)
			d->config_group = get_u32(tb[CTRL_ATTR_MCAST_GRP_ID], 0);
	}
}

static int take_family(void *msg, void *arg)
{
	struct nlattr *tb[CTRL_ATTR_MAX + 1];
	struct devlink *d = arg;
	int r = msg_attrs(msg, sizeof(struct genlmsghdr), tb, CTRL_ATTR_MAX);

	if (r < 0)
		return r;
	d->family = get_u16(tb[CTRL_ATTR_FAMILY_ID], 0);
	if (tb[CTRL_ATTR_MCAST_GROUPS])
		take_groups(tb[CTRL_ATTR_MCAST_GROUPS], d);
	return 0;
}

int devlink_open(struct devlink **ret, struct nl_wire *w, struct err *e)
{
	struct genlmsghdr head = {.cmd = CTRL_CMD_GETFAMILY, .version = 1};
	struct nl_msg *m = msg_new(GENL_ID_CTRL, 0, &head, sizeof(head), MSG_ROOM);
	struct devlink d = {.w = w};
	int r;

	put_str(m, CTRL_ATTR_FAMILY_NAME, DEVLINK_GENL_NAME);
	r = nl_request(w, m, take_family, NULL, &d, e);
	if (r == -ENOENT || (r == 0 && d.family < NLMSG_MIN_TYPE))
		return err_kind(e, ERR_UNAVAILABLE, -EOPNOTSUPP,
				"open devlink: the kernel has no devlink (CONFIG_NET_DEVLINK, "
				"which drivers with an eswitch select)");
	if (r < 0)
		return err_wrap(e, r, "open devlink");
	*ret = xcalloc(1, sizeof(**ret));
	**ret = d;
	return 0;
}

static void devlink_close(struct devlink *d)
{
	free(d);
}

void devlink_cleanup(struct devlink **d)
{
	devlink_close(*d);
	*d = NULL;
}

const char *eswitch_mode_name(enum eswitch_mode mode)
{
	return mode == ESWITCH_LEGACY	   ? "legacy"
	       : mode == ESWITCH_SWITCHDEV ? "switchdev"
					   : "unknown";
}

struct nl_msg *devlink_request(const struct devlink *d, int cmd, int flags)
{
	struct genlmsghdr head = {.cmd = (uint8_t)cmd, .version = DEVLINK_GENL_VERSION};

	return msg_new(d->family, flags, &head, sizeof(head), MSG_ROOM);
}

static void put_handle(struct nl_msg *m, const char *bdf)
{
	put_str(m, DEVLINK_ATTR_BUS_NAME, "pci");
	put_str(m, DEVLINK_ATTR_DEV_NAME, bdf);
}

/* Checks the length of a device name, which may come from a configuration: the room of the message
 * is limited. */
static int check_bdf(const char *bdf, struct err *e)
{
	return strlen(bdf) < DEVLINK_NAME_MAX ? 0
					      : err_kind(e, ERR_CONF, -EINVAL,
							 "'%.40s...' is too long for a PCI "
							 "address or a device name",
							 bdf);
}

static int take_mode(void *msg, void *arg)
{
	struct nlattr *tb[DEVLINK_ATTR_MAX + 1];
	int r = msg_attrs(msg, sizeof(struct genlmsghdr), tb, DEVLINK_ATTR_MAX);

	if (r == 0 && tb[DEVLINK_ATTR_ESWITCH_MODE])
		*(int *)arg = get_u16(tb[DEVLINK_ATTR_ESWITCH_MODE], UINT16_MAX);
	return r;
}

static enum eswitch_mode mode_of(int value)
{
	return value == DEVLINK_ESWITCH_MODE_LEGACY	 ? ESWITCH_LEGACY
	       : value == DEVLINK_ESWITCH_MODE_SWITCHDEV ? ESWITCH_SWITCHDEV
							 : ESWITCH_OTHER;
}

static int no_eswitch(const char *bdf, const char *action, struct err *e)
{
	return err_kind(
		e, ERR_UNAVAILABLE, -EOPNOTSUPP,
		"%s the eswitch mode of '%s': Operation not supported (EOPNOTSUPP): the device "
		"or its driver has no eswitch",
		action, bdf);
}

int devlink_eswitch_get(struct devlink *d, const char *bdf, enum eswitch_mode *ret, struct err *e)
{
	struct nl_msg *m;
	int mode = -1, r = check_bdf(bdf, e);

	if (r < 0)
		return r;
	m = devlink_request(d, DEVLINK_CMD_ESWITCH_GET, 0);
	put_handle(m, bdf);
	r = nl_request(d->w, m, take_mode, NULL, &mode, e);
	if (r == -EOPNOTSUPP || (r == 0 && mode < 0))
		return no_eswitch(bdf, "get", e);
	if (r < 0)
		return err_wrap(e, r, "get the eswitch mode of '%s'", bdf);
	*ret = mode_of(mode);
	return 0;
}

int devlink_eswitch_set(struct devlink *d, const char *bdf, enum eswitch_mode mode, struct err *e)
{
	const char *name = eswitch_mode_name(mode);
	struct nl_msg *m;
	int r = check_bdf(bdf, e);

	if (r < 0)
		return r;
	m = devlink_request(d, DEVLINK_CMD_ESWITCH_SET, NLM_F_ACK);
	put_handle(m, bdf);
	put_u16(m, DEVLINK_ATTR_ESWITCH_MODE,
		mode == ESWITCH_SWITCHDEV ? DEVLINK_ESWITCH_MODE_SWITCHDEV
					  : DEVLINK_ESWITCH_MODE_LEGACY);
	r = nl_request(d->w, m, NULL, NULL, NULL, e);
	if (r == -EOPNOTSUPP)
		return no_eswitch(bdf, "set", e);
	return r < 0 ? err_wrap(e, r, "set the eswitch mode of '%s' to %s", bdf, name) : 0;
}

/* --- versions and parameters --- */

static void put_device(struct nl_msg *m, const char *device)
{
	put_str(m, DEVLINK_ATTR_BUS_NAME, strchr(device, ':') ? "pci" : "auxiliary");
	put_str(m, DEVLINK_ATTR_DEV_NAME, device);
}

struct version {
	const char *name;
	char *ret;
	size_t size;
	bool found;
};

static int take_version(void *msg, void *arg)
{
	struct nlmsghdr *h = msg;
	struct version *v = arg;
	struct nlattr *a, *tb[DEVLINK_ATTR_MAX + 1];
	char name[64];
	int left, r = msg_attrs(msg, sizeof(struct genlmsghdr), tb, DEVLINK_ATTR_MAX);

	if (r < 0)
		return r;
	/* The message has one attribute per component, of which `tb` has only the last. */
	nlmsg_for_each_attr(a, h, sizeof(struct genlmsghdr), left)
	{
		if (nla_type(a) != DEVLINK_ATTR_INFO_VERSION_RUNNING || v->found)
			continue;
		nested_attrs(a, tb, DEVLINK_ATTR_MAX);
		get_str(tb[DEVLINK_ATTR_INFO_VERSION_NAME], name, sizeof(name));
		if (strcmp(name, v->name) != 0)
			continue;
		get_str(tb[DEVLINK_ATTR_INFO_VERSION_VALUE], v->ret, v->size);
		v->found = true;
	}
	return 0;
}

int devlink_info_version(struct devlink *d, const char *device, const char *name, char *ret,
			 size_t size, struct err *e)
{
	struct version v = {name, ret, size, false};
	struct nl_msg *m;
	int r = check_bdf(device, e);

	if (r < 0)
		return r;
	m = devlink_request(d, DEVLINK_CMD_INFO_GET, 0);
	put_device(m, device);
	r = nl_request(d->w, m, take_version, NULL, &v, e);
	if (r < 0)
		return err_wrap(e, r, "get versions of '%s'", device);
	return v.found ? 0 : err_set(e, -ENOENT, "'%s' reports no version of %s", device, name);
}

struct param {
	bool found, on;
};

static int take_param(void *msg, void *arg)
{
	struct nlattr *a, *tb[DEVLINK_ATTR_MAX + 1], *value[DEVLINK_ATTR_MAX + 1];
	struct param *p = arg;
	int left, r = msg_attrs(msg, sizeof(struct genlmsghdr), tb, DEVLINK_ATTR_MAX);

	if (r < 0 || !tb[DEVLINK_ATTR_PARAM])
		return r;
	nested_attrs(tb[DEVLINK_ATTR_PARAM], value, DEVLINK_ATTR_MAX);
	if (!value[DEVLINK_ATTR_PARAM_VALUES_LIST])
		return 0;
	/* the list has one value per configuration mode; a bool is a flag: present means true */
	nla_for_each_nested(a, value[DEVLINK_ATTR_PARAM_VALUES_LIST], left)
	{
		nested_attrs(a, tb, DEVLINK_ATTR_MAX);
		p->on = tb[DEVLINK_ATTR_PARAM_VALUE_DATA] != NULL;
		p->found = true;
		break;
	}
	return 0;
}

int devlink_param_bool(struct devlink *d, const char *device, const char *name, bool *ret,
		       struct err *e)
{
	struct param p = {0};
	struct nl_msg *m;
	int r = check_bdf(device, e);

	if (r < 0)
		return r;
	m = devlink_request(d, DEVLINK_CMD_PARAM_GET, 0);
	put_device(m, device);
	put_str(m, DEVLINK_ATTR_PARAM_NAME, name);
	r = nl_request(d->w, m, take_param, NULL, &p, e);
	if (r < 0)
		return err_wrap(e, r, "get parameter %s of '%s'", name, device);
	if (!p.found)
		return err_set(e, -ENOENT, "'%s' has no parameter %s", device, name);
	*ret = p.on;
	return 0;
}
