/* SPDX-License-Identifier: Apache-2.0 */
/* host-device: into the pod. */
#include "cni/plugins/host_device.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "cni/attach/attach.h"
#include "cni/device/vf_claim.h"
#include "kern/net/altname.h"

struct runtime_conf {
	const char *id;
};

struct raw {
	const char *device, *hwaddr, *kernelpath, *pci;
	struct runtime_conf runtime;
};

static const struct json_field runtime_fields[] = {
	{.name = "deviceID", .type = J_STR, .offset = offsetof(struct runtime_conf, id)},
	{0},
};
static const struct json_table runtime_table = {runtime_fields, JSON_GO,
						sizeof(struct runtime_conf)};

static const struct json_field fields[] = {
	{.name = "device", .type = J_STR, .offset = offsetof(struct raw, device)},
	{.name = "hwaddr", .type = J_STR, .offset = offsetof(struct raw, hwaddr)},
	{.name = "kernelpath", .type = J_STR, .offset = offsetof(struct raw, kernelpath)},
	{.name = "pciBusID", .type = J_STR, .offset = offsetof(struct raw, pci)},
	{.name = "runtimeConfig",
	 .type = J_OBJ,
	 .offset = offsetof(struct raw, runtime),
	 .sub = &runtime_table},
	{0},
};
static const struct json_table table = {fields, JSON_GO, sizeof(struct raw)};

static const char *given(const char *s)
{
	return s && *s ? s : NULL;
}

static int read_hwaddr(const char *text, struct mac *ret, struct err *e)
{
	if (!given(text) || mac_parse(span_of(text), ret) >= 0)
		return 0;
	return err_kind(e, ERR_CONF, -EINVAL,
			"failed to parse MAC address \"%s\" (conf.hwaddr wants one such as "
			"02:00:5e:10:00:01)",
			text);
}

static int read_conf(const struct rail_source *s, struct rail_conf *ret, struct err *e)
{
	struct rail_conf c = {0};
	struct host_device_conf *h = &c.host_device;
	struct raw raw = {0};
	int r = rail_read_common(s, &c, e);

	if (r >= 0)
		r = rail_read_own(s, &table, &raw, e);
	if (r >= 0)
		r = read_hwaddr(raw.hwaddr, &h->hwaddr, e);
	if (r < 0)
		return r;
	h->device = given(raw.device);
	h->kernelpath = given(raw.kernelpath);
	h->pci = given(raw.pci);
	h->id = given(raw.runtime.id);
	if (!h->device && !h->hwaddr.len && !h->kernelpath && !h->pci && !h->id)
		return err_kind(e, ERR_CONF, -EINVAL,
				"specify either \"device\", \"hwaddr\", \"kernelpath\" or "
				"\"pciBusID\"");
	*ret = c;
	return 0;
}

static const char *asked_for(const struct host_device_conf *c)
{
	if (c->device)
		return c->device;
	return c->kernelpath ? c->kernelpath : c->id ? c->id : c->pci;
}

static int not_found(const struct host_device_conf *c, struct err *e)
{
	char mac[MAC_TEXT_MAX];

	if (c->hwaddr.len)
		return err_kind(e, ERR_UNAVAILABLE, -ENODEV,
				"failed to find host device: no link has conf.hwaddr %s (is it in "
				"another pod?)",
				mac_str(&c->hwaddr, mac));
	return err_kind(e, ERR_UNAVAILABLE, -ENODEV,
			"failed to find host device: no network link at '%s' (is it in another "
			"pod, or without a driver?)",
			asked_for(c));
}

static int find(struct nl_wire *w, const struct host_device_conf *c,
		const struct host_device_files *f, struct link *ret, struct err *e)
{
	auto_free struct link *links = NULL;
	const struct link *l;
	size_t n;
	int r;

	/* The kernel knows alternative names, too. */
	if (c->device) {
		r = link_get(w, c->device, ret, e);
		err_default_kind(e, r == -ENODEV ? ERR_UNAVAILABLE : ERR_OTHER);
		return r < 0 ? err_wrap(e, r, "failed to find host device") : 0;
	}
	r = link_list(w, &links, &n, e);
	if (r < 0)
		return r;
	l = host_device_pick(c, f, links, n);
	if (!l)
		return not_found(c, e);
	*ret = *l;
	return 0;
}

/* A VF that sriov or ib-sriov gave to a pod that lives. */
static int check_holder(const struct root *root, const struct host_device_conf *c, struct err *e)
{
	const char *id = c->device || c->hwaddr.len || c->kernelpath ? NULL
			 : c->id				     ? c->id
								     : c->pci;
	auto_free char *netns = id ? vf_holder(root, id) : NULL;

	return netns ? vf_in_use(root, id, netns, e) : 0;
}

static int look(struct attach *a, struct rail *rail, struct err *e)
{
	const struct host_device_conf *c = &rail->conf.host_device;
	auto_host_device struct host_device_files f = {0};
	int r = host_device_read(&a->call->root, c, &f, e);

	if (r >= 0)
		r = check_holder(&a->call->root, c, e);
	if (r < 0)
		return err_wrap(e, r, "failed to find host device");
	rail->no_link = f.dpdk;
	if (f.dpdk)
		return 0;
	r = find(a->host, c, &f, &rail->master, e);
	if (r >= 0)
		r = altname_list(a->host, rail->master.index, &rail->altnames, &rail->n_altnames,
				 e);
	if (r < 0)
		return r;
	if (link_is_loopback(&rail->master))
		return err_kind(e, ERR_CONF, -EINVAL,
				"'%s' is the loopback, which cannot leave its namespace",
				rail->master.name);
	return 0;
}

/* One message: the kernel moves the link, which sets it down, then names it. */
static void put(const struct attach *a, const struct rail *rail, struct nl_batch *b)
{
	const struct link_change c = {
		.set = LINK_SET_NETNS | LINK_SET_NAME | LINK_SET_ALIAS,
		.netns_fd = a->netns,
		.name = rail->ifname,
		.alias = rail->master.name,
	};

	for (size_t i = 0; i < rail->n_altnames; i++)
		if (attach_name_taken(a, rail->altnames[i]))
			host_device_put_aside(&rail->master, rail->altnames[i], b);
	link_set(b, rail->master.index, rail->master.name, &c);
}

static const char *hint(int code)
{
	return code == -EINVAL ? "bridges, bonds and the like cannot leave their namespace" : NULL;
}

/* Any kind of link can be a device; who it is, is known by its MAC. */
static int check(const struct rail_conf *c, const struct link *l, struct err *e)
{
	(void)c, (void)l, (void)e;
	return 0;
}

/* A device that is in a pod now is no reason to call the node unfit. */
static int status(const struct root *root, struct rail *rail, struct err *e)
{
	auto_host_device struct host_device_files f = {0};
	int r = host_device_read(root, &rail->conf.host_device, &f, e);

	if (r < 0)
		return err_wrap(e, r, "failed to find host device");
	rail->no_link = f.dpdk;
	return 0;
}

const struct rail_kind host_device_kind = {
	.type = "host-device",
	.read = read_conf,
	.check = check,
	.hint = hint,
	.look = look,
	.prepare = host_device_prepare,
	.put = put,
	.undo = host_device_undo,
	.del = host_device_del,
	.gc = host_device_gc,
	.status = status,
};

const struct cni_plugin cni_host_device = RAIL_PLUGIN(host_device_kind, "host-device");
