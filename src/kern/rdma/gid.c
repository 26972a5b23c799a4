/* SPDX-License-Identifier: Apache-2.0 */
#include "kern/rdma/gid.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <linux/mount.h>

#include "base/alloc.h"
#include "base/num.h"
#include "kern/sys/netns.h"

enum { PATH_SIZE = 256, LINE_SIZE = 64 };

struct port {
	const struct root *sys;
	char dir[PATH_SIZE]; /* .../ports/1 */
};

/* An unused entry has neither type nor netdev: reading them fails with EINVAL. */
static bool read_entry(const struct port *p, const char *what, size_t i, char *ret)
{
	char path[PATH_SIZE + 64];

	snprintf(path, sizeof(path), "%s/%s/%zu", p->dir, what, i);
	return file_read_line(p->sys, path, ret, LINE_SIZE, NULL) >= 0;
}

static bool read_gid(const struct port *p, size_t i, struct ipaddr *ret)
{
	char line[LINE_SIZE];

	return read_entry(p, "gids", i, line) && ip_parse(span_of(line), ret) >= 0 &&
	       !ip_is_unspecified(ret);
}

static bool is_v2_of(const struct port *p, size_t i, const char *ndev)
{
	char type[LINE_SIZE], name[LINE_SIZE];

	return read_entry(p, "gid_attrs/types", i, type) && strcmp(type, "RoCE v2") == 0 &&
	       read_entry(p, "gid_attrs/ndevs", i, name) && strcmp(name, ndev) == 0;
}

static size_t count_gids(const struct port *p)
{
	char path[PATH_SIZE + 64], **names = NULL;
	size_t n = 0;

	snprintf(path, sizeof(path), "%s/gids", p->dir);
	if (dir_list(p->sys, path, &names, &n, NULL) < 0)
		return 0;
	str_list_free(names, n);
	return n;
}

static bool is_infiniband(const struct port *p)
{
	char path[PATH_SIZE + 64], line[LINE_SIZE];

	snprintf(path, sizeof(path), "%s/link_layer", p->dir);
	return file_read_line(p->sys, path, line, sizeof(line), NULL) >= 0 &&
	       strcmp(line, "InfiniBand") == 0;
}

static bool find_in(const struct port *p, const struct ipaddr *address, const char *ndev,
		    struct gid *ret)
{
	struct ipaddr a;
	size_t n;

	ret->infiniband = is_infiniband(p);
	if (ret->infiniband) {
		ret->index = 0;
		return read_gid(p, 0, &ret->address);
	}
	n = count_gids(p);
	for (size_t i = 0; i < n; i++) {
		if (!read_gid(p, i, &a) || !ip_eq(&a, address) || !is_v2_of(p, i, ndev))
			continue;
		ret->index = (int)i;
		ret->address = a;
		return true;
	}
	return false;
}

static int list_ports(const struct root *sys, const char *dir, const char *device, char *path,
		      char ***names, size_t *n, struct err *e)
{
	if (snprintf(path, PATH_SIZE, "%s/class/infiniband/%s/ports", dir, device) >= PATH_SIZE)
		return err_set(e, -ENAMETOOLONG, "RDMA device '%s': the name is too long", device);
	return dir_list(sys, path, names, n, e);
}

int gid_find(const struct root *sys, const char *dir, const char *device,
	     const struct ipaddr *address, const char *ndev, struct gid *ret, struct err *e)
{
	struct gid g = {.port = 0};
	char path[PATH_SIZE], **names = NULL;
	struct port p = {.sys = sys};
	size_t n = 0;
	uint64_t number;
	bool found = false;
	int r = list_ports(sys, dir, device, path, &names, &n, e);

	if (r < 0)
		return r;
	str_copy(g.device, sizeof(g.device), device);
	for (size_t i = 0; i < n && !found; i++) {
		if (num_u64(span_of(names[i]), 1, UINT8_MAX, &number) < 0 ||
		    snprintf(p.dir, sizeof(p.dir), "%.200s/%.16s", path, names[i]) < 0)
			continue;
		g.port = (uint32_t)number;
		found = find_in(&p, address, ndev, &g);
	}
	str_list_free(names, n);
	if (found)
		*ret = g;
	return found;
}

bool gid_netdev(const struct root *sys, const char *dir, const char *device,
		char ret[static GID_NDEV_MAX])
{
	struct port p = {.sys = sys};
	char line[LINE_SIZE];

	if (snprintf(p.dir, sizeof(p.dir), "%s/class/infiniband/%s/ports/1", dir, device) >=
	    (int)sizeof(p.dir))
		return false;
	return read_entry(&p, "gid_attrs/ndevs", 0, line) && str_copy(ret, GID_NDEV_MAX, line);
}

const char *gid_str(const struct ipaddr *address, char buf[static IP_TEXT_MAX])
{
	char text[IP_TEXT_MAX];

	if (address->family != 4)
		return ip_str(address, buf);
	snprintf(buf, IP_TEXT_MAX, "::ffff:%.40s", ip_str(address, text));
	return buf;
}

/* musl has no wrappers for these system calls. */
static int mount_sysfs(void)
{
	auto_fd int fs = (int)syscall(SYS_fsopen, "sysfs", FSOPEN_CLOEXEC);
	int fd;

	if (fs < 0 || syscall(SYS_fsconfig, fs, FSCONFIG_CMD_CREATE, NULL, NULL, 0) < 0)
		return -errno;
	fd = (int)syscall(SYS_fsmount, fs, FSMOUNT_CLOEXEC, MOUNT_ATTR_RDONLY);
	return fd < 0 ? -errno : fd;
}

int netns_sysfs(int netns_fd, struct root *ret, struct err *e)
{
	struct netns_visit v = NETNS_VISIT_INIT;
	int r = netns_enter(netns_fd, &v, e), fd;

	if (r < 0)
		return r;
	fd = mount_sysfs();
	netns_leave(&v);
	if (fd < 0)
		return err_sys(e, fd, "mount sysfs in the pod's network namespace");
	*ret = (struct root){.fd = fd};
	return 0;
}
