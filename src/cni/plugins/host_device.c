/* SPDX-License-Identifier: Apache-2.0 */
#include "cni/plugins/host_device.h"

#include <errno.h>
#include <limits.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/path.h"
#include "cni/attach/attach.h"
#include "cni/device/vf_claim.h"
#include "kern/net/altname.h"

/* host-device: moves a device into the pod. */

struct runtime_conf {
	const char *id;
};

struct raw {
	const char *device, *hwaddr, *kernelpath, *pci;
	struct runtime_conf runtime;
};

static const struct json_field runtime_fields[] = {
	JSON_FIELD("deviceID", J_STR, struct runtime_conf, id,
		   JSON_DOC(NULL, "PCI address or auxiliary device, used instead of pciBusID")),
	{0},
};
static const struct json_table runtime_table = {runtime_fields, JSON_GO,
						sizeof(struct runtime_conf)};

static const struct json_field fields[] = {
	JSON_FIELD(
		"device", J_STR, struct raw, device,
		JSON_DOC(
			NULL,
			"name of the device; the first given of device, hwaddr, kernelpath and pciBusID is used")),
	JSON_FIELD("hwaddr", J_STR, struct raw, hwaddr, JSON_DOC(NULL, "MAC of the device")),
	JSON_FIELD("kernelpath", J_STR, struct raw, kernelpath,
		   JSON_DOC(NULL, "absolute path of the device's directory, below /sys/devices/")),
	JSON_FIELD("pciBusID", J_STR, struct raw, pci, JSON_DOC(NULL, "PCI address of the device")),
	JSON_FIELD("runtimeConfig", J_OBJ, struct raw, runtime, .sub = &runtime_table,
		   JSON_DOC(NULL, "object that the runtime adds to the netconf")),
	{0},
};
static const struct json_table table = {fields, JSON_GO, sizeof(struct raw)};

static int read_hwaddr(const char *text, struct mac *ret, struct err *e)
{
	if (!str_if_set(text) || mac_parse(span_of(text), ret) >= 0)
		return 0;
	return err_kind(
		e, ERR_CONF, -EINVAL,
		ORIG("failed to parse MAC address \"%s\" (conf.hwaddr: expected one such as "
		     "02:00:5e:10:00:01)"),
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
	h->device = str_if_set(raw.device);
	h->kernelpath = str_if_set(raw.kernelpath);
	h->pci = str_if_set(raw.pci);
	h->id = str_if_set(raw.runtime.id);
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
		return err_kind(
			e, ERR_UNAVAILABLE, -ENODEV,
			ORIG("failed to find host device: no link has conf.hwaddr %s (is it in "
			     "another pod?)"),
			mac_str(&c->hwaddr, mac));
	return err_kind(
		e, ERR_UNAVAILABLE, -ENODEV,
		ORIG("failed to find host device: no network link at '%s' (is it in another "
		     "pod, or without a driver?)"),
		asked_for(c));
}

static int find(struct nl_wire *w, const struct host_device_conf *c,
		const struct host_device_files *f, struct link *ret, struct err *e)
{
	auto_free struct link *links = NULL;
	const struct link *l;
	size_t n;
	int r;

	/* The kernel also finds a link by an alternative name. */
	if (c->device) {
		r = link_get(w, c->device, ret, e);
		err_default_kind(e, r == -ENODEV ? ERR_UNAVAILABLE : ERR_OTHER);
		return r < 0 ? err_wrap(e, r, ORIG("failed to find host device")) : 0;
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

/* Refuses a VF that sriov or ib-sriov moved to a running pod. */
static int check_owner(const struct root *root, const struct host_device_conf *c, struct err *e)
{
	const char *id = c->device || c->hwaddr.len || c->kernelpath ? NULL
			 : c->id				     ? c->id
								     : c->pci;
	auto_free char *netns = id ? vf_owner(root, id) : NULL;

	return netns ? vf_in_use(root, id, netns, e) : 0;
}

static int inspect(struct attach *a, struct rail *rail, struct err *e)
{
	const struct host_device_conf *c = &rail->conf.host_device;
	auto_host_device struct host_device_files f = {0};
	int r = host_device_read(&a->call->root, c, &f, e);

	if (r >= 0)
		r = check_owner(&a->call->root, c, e);
	if (r < 0)
		return err_wrap(e, r, ORIG("failed to find host device"));
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

/* One message suffices: the kernel first moves the link, which sets the link down, then renames it.
 */
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
			host_device_rename_conflicting(&rail->master, rail->altnames[i], b);
	link_set(b, rail->master.index, rail->master.name, &c);
}

static const char *hint(int code)
{
	return code == -EINVAL ? "bridges, bonds and the like cannot leave their namespace" : NULL;
}

/* Accepts any kind of link as a device; attach_check() compares the MAC. */
static int check(const struct rail_conf *c, const struct link *l, struct err *e)
{
	(void)c, (void)l, (void)e;
	return 0;
}

/* STATUS checks only the path in /sys that the configuration names, so it also succeeds while the
 * device is in a pod. */
static int status(const struct root *root, struct rail *rail, struct err *e)
{
	auto_host_device struct host_device_files f = {0};
	int r = host_device_read(root, &rail->conf.host_device, &f, e);

	if (r < 0)
		return err_wrap(e, r, ORIG("failed to find host device"));
	rail->no_link = f.dpdk;
	return 0;
}

const struct link_driver host_device_kind = {
	.type = "host-device",
	.order = RAIL_HOST_DEVICE,
	.read = read_conf,
	.check = check,
	.hint = hint,
	.inspect = inspect,
	.prepare = host_device_prepare,
	.put = put,
	.undo = host_device_undo,
	.del = host_device_del,
	.gc = host_device_gc,
	.status = status,
};

const struct cni_plugin cni_host_device =
	RAIL_PLUGIN(host_device_kind, "host-device", &table, &rail_common_table);

/* --- the device of the node that a configuration names, found by sysfs and by the node's links
 * --- */

#define PCI "/sys/bus/pci/devices"
#define AUX "/sys/bus/auxiliary/devices"

/* Returns whether the string is a single file name, which cannot leave its directory. */
static bool plain(const char *name)
{
	return *name && !strchr(name, '/') && strcmp(name, ".") != 0 && strcmp(name, "..") != 0;
}

static int below(const char *dir, const char *name, char *ret, size_t size)
{
	return plain(name) && snprintf(ret, size, "%s/%s", dir, name) < (int)size ? 0 : -EINVAL;
}

static bool is_there(const struct root *root, const char *dir, const char *name, char *ret,
		     size_t size)
{
	return below(dir, name, ret, size) == 0 && file_exists(root, ret);
}

static int place_of_id(const struct root *root, const char *id, char *ret, size_t size,
		       struct err *e)
{
	if (is_there(root, PCI, id, ret, size) || is_there(root, AUX, id, ret, size))
		return 0;
	return err_kind(e, ERR_UNAVAILABLE, -ENODEV,
			"runtime config DeviceID %s not found or unsupported (neither in " PCI
			" nor in " AUX ")",
			id);
}

static int place_of_path(const struct root *root, const char *path, char *ret, size_t size,
			 struct err *e)
{
	if (strncmp(path, "/sys/devices/", 13) != 0 || strstr(path, "/..") || strlen(path) >= size)
		return err_kind(e, ERR_CONF, -EINVAL,
				"kernel device path \"%s\" must be absolute and begin with "
				"/sys/devices/ (conf.kernelpath, without '/..')",
				path);
	if (!file_exists(root, path))
		return err_kind(e, ERR_UNAVAILABLE, -ENODEV,
				"conf.kernelpath is '%s', which does not exist", path);
	snprintf(ret, size, "%s", path);
	return 0;
}

/* Finds the device's path in /sys; "" if the configuration names the device by `device` or
 * `hwaddr`. -ENODEV: the device does not exist; -EINVAL: invalid kernelpath. */
static int host_device_place(const struct root *root, const struct host_device_conf *c, char *ret,
			     size_t size, struct err *e)
{
	*ret = '\0';
	if (c->device || c->hwaddr.len)
		return 0;
	if (c->kernelpath)
		return place_of_path(root, c->kernelpath, ret, size, e);
	if (c->id)
		return place_of_id(root, c->id, ret, size, e);
	if (!c->pci)
		return 0;
	if (is_there(root, PCI, c->pci, ret, size))
		return 0;
	return err_kind(e, ERR_UNAVAILABLE, -ENODEV, "conf.pciBusID is '%s', which is not in " PCI,
			c->pci);
}

static bool is_userspace(const char *driver)
{
	static const char *const drivers[] = {"vfio-pci", "uio_pci_generic", "igb_uio"};

	for (size_t i = 0; i < ARRAY_LEN(drivers); i++)
		if (strcmp(drivers[i], driver) == 0)
			return true;
	return false;
}

/* Returns whether the device is given by its PCI address (not by kernelpath) and is bound to a
 * userspace driver. Without a driver: false, and the caller reports that the device has no link. */
static bool is_dpdk(const struct root *root, const char *place)
{
	char path[PATH_MAX], driver[PATH_MAX];

	if (strncmp(place, PCI "/", sizeof(PCI)) != 0 ||
	    snprintf(path, sizeof(path), "%s/driver", place) >= (int)sizeof(path) ||
	    link_read(root, path, driver, sizeof(driver), NULL) < 0)
		return false;
	return is_userspace(path_base(driver));
}

static int list_net(const struct root *root, const char *place, struct host_device_files *f)
{
	char path[PATH_MAX];

	if (snprintf(path, sizeof(path), "%s/net", place) >= (int)sizeof(path))
		return -ENAMETOOLONG;
	return dir_list(root, path, &f->names, &f->n, NULL);
}

/* The links of a virtio NIC are in the directory of its only child, virtio<n>. */
static int list_virtio(const struct root *root, const char *place, struct host_device_files *f)
{
	char path[PATH_MAX], **names;
	size_t n;
	int r = dir_list(root, place, &names, &n, NULL), found = -ENODEV;

	if (r < 0)
		return r;
	for (size_t i = 0; i < n && found < 0; i++)
		if (strncmp(names[i], "virtio", 6) == 0 &&
		    snprintf(path, sizeof(path), "%s/%s", place, names[i]) < (int)sizeof(path))
			found = list_net(root, path, f);
	str_list_free(names, n);
	return found;
}

int host_device_read(const struct root *root, const struct host_device_conf *c,
		     struct host_device_files *ret, struct err *e)
{
	struct host_device_files f = {0};
	char place[PATH_MAX];
	int r = host_device_place(root, c, place, sizeof(place), e);

	if (r < 0)
		return r;
	if (*place) {
		f.dpdk = is_dpdk(root, place);
		/* If neither directory lists a link, the device is in a pod or has no network
		 * driver. */
		if (list_net(root, place, &f) < 0)
			(void)list_virtio(root, place, &f);
	}
	*ret = f;
	return 0;
}

void host_device_files_done(struct host_device_files *f)
{
	str_list_free(f->names, f->n);
	*f = (struct host_device_files){0};
}

/* Returns the link with the MAC. Prefers one without a kind, because a VLAN interface or a bond has
 * the MAC of its device; otherwise returns the first one. */
static const struct link *by_mac(const struct mac *mac, const struct link *links, size_t n)
{
	const struct link *first = NULL;

	for (size_t i = 0; i < n; i++) {
		if (!mac_eq(&links[i].mac, mac))
			continue;
		if (!*links[i].kind)
			return &links[i];
		if (!first)
			first = &links[i];
	}
	return first;
}

const struct link *host_device_pick(const struct host_device_conf *c,
				    const struct host_device_files *f, const struct link *links,
				    size_t n)
{
	const struct link *l = NULL;

	if (c->device)
		return link_find(links, n, c->device);
	if (c->hwaddr.len)
		return by_mac(&c->hwaddr, links, n);
	for (size_t i = 0; i < f->n && !l; i++)
		l = link_find(links, n, f->names[i]);
	return l;
}

bool host_device_is_moved(const struct link *l)
{
	return *l->alias && link_name_ok(l->alias);
}

static bool is_meant(const struct host_device_conf *c, const struct host_device_files *f,
		     const struct link *l)
{
	if (c->device)
		return strcmp(l->alias, c->device) == 0;
	if (c->hwaddr.len)
		return mac_eq(&l->mac, &c->hwaddr);
	for (size_t i = 0; i < f->n; i++)
		if (strcmp(f->names[i], l->name) == 0)
			return true;
	return false;
}

const struct link *host_device_stranded(const struct host_device_conf *c,
					const struct host_device_files *f, const char *ifname,
					const struct link *links, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		const struct link *l = &links[i];

		if (!host_device_is_moved(l) || !is_meant(c, f, l))
			continue;
		if (!link_name_is_kernels(l->name) && (!ifname || strcmp(l->name, ifname) != 0))
			continue;
		if (!link_find(links, n, l->alias))
			return l;
	}
	return NULL;
}
