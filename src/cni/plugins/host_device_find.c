/* SPDX-License-Identifier: Apache-2.0 */
/* Which device of the node a configuration means, by sysfs and by the node's links. */
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "cni/plugins/host_device.h"

#define PCI "/sys/bus/pci/devices"
#define AUX "/sys/bus/auxiliary/devices"

/* One name of a folder: no way out of it. */
static bool plain(const char *name)
{
	return *name && !strchr(name, '/') && strcmp(name, ".") != 0 && strcmp(name, "..") != 0;
}

static int below(const char *folder, const char *name, char *ret, size_t size)
{
	return plain(name) && snprintf(ret, size, "%s/%s", folder, name) < (int)size ? 0 : -EINVAL;
}

static bool is_there(const struct root *root, const char *folder, const char *name, char *ret,
		     size_t size)
{
	return below(folder, name, ret, size) == 0 && file_exists(root, ret);
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
				"/sys/devices/ (conf.kernelpath)",
				path);
	if (!file_exists(root, path))
		return err_kind(e, ERR_UNAVAILABLE, -ENODEV,
				"conf.kernelpath is '%s', which is not there", path);
	snprintf(ret, size, "%s", path);
	return 0;
}

int host_device_place(const struct root *root, const struct host_device_conf *c, char *ret,
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

/* A device without any driver has no link either; that is told when none is found. */
static bool is_dpdk(const struct root *root, const char *place)
{
	char path[PATH_MAX], driver[PATH_MAX];
	const char *slash;

	if (strncmp(place, PCI "/", sizeof(PCI)) != 0 ||
	    snprintf(path, sizeof(path), "%s/driver", place) >= (int)sizeof(path) ||
	    link_read(root, path, driver, sizeof(driver), NULL) < 0)
		return false;
	slash = strrchr(driver, '/');
	return is_userspace(slash ? slash + 1 : driver);
}

static int list_net(const struct root *root, const char *place, struct host_device_files *f)
{
	char path[PATH_MAX];

	if (snprintf(path, sizeof(path), "%s/net", place) >= (int)sizeof(path))
		return -ENAMETOOLONG;
	return dir_list(root, path, &f->names, &f->n, NULL);
}

/* A virtio NIC's links are below its one child, virtio<n>. */
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
		/* No folder: the device is in a pod, or nobody drives it. */
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

/* A VLAN interface has its device's address, and so have the ports of a bond. */
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

/* default_device_exit_net() calls it dev<ifindex> when its name is taken. */
static bool named_by_kernel(const char *name)
{
	return strncmp(name, "dev", 3) == 0 && name[3] &&
	       strspn(name + 3, "0123456789") == strlen(name + 3);
}

const struct link *host_device_stranded(const struct host_device_conf *c,
					const struct host_device_files *f, const char *ifname,
					const struct link *links, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		const struct link *l = &links[i];

		if (!host_device_is_moved(l) || !is_meant(c, f, l))
			continue;
		if (!named_by_kernel(l->name) && (!ifname || strcmp(l->name, ifname) != 0))
			continue;
		if (!link_find(links, n, l->alias))
			return l;
	}
	return NULL;
}
