/* SPDX-License-Identifier: Apache-2.0 */
#include "cni/device/vf_claim.h"
#include "cni/device/vf_place.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/paths.h"
#include "cni/device/vf_stores.h"
#include "kern/sys/netns.h"

#define PCI_DIR	 PATH_SRIOV "/pci"
#define LOCK_DIR PCI_DIR "/vf_lock"

enum { FILE_MODE = 0600, DIR_MODE = 0700 };

static int lock_one(const struct root *root, const char *bdf, int *fd, struct err *e)
{
	auto_free char *path = xasprintf(LOCK_DIR "/%s.lock", bdf);
	int r = lock_take(root, path, VF_LOCK_MS, fd, e);

	if (r != -EWOULDBLOCK)
		return r;
	return err_kind(e, ERR_AGAIN, r,
			"time out while waiting to acquire exclusive lock on [%s]: another "
			"process has locked VF '%s' for more than %d s",
			path, bdf, VF_LOCK_MS / 1000);
}

struct turn {
	const char *bdf;
	size_t i;
};

static int by_address(const void *a, const void *b)
{
	const struct turn *x = a, *y = b;

	return strcmp(x->bdf, y->bdf);
}

/* Fails if a VF is listed twice: a second flock() by this process would wait for the first one. */
static int same_twice(const struct turn *list, size_t n, struct err *e)
{
	for (size_t i = 1; i < n; i++)
		if (strcmp(list[i].bdf, list[i - 1].bdf) == 0)
			return err_kind(
				e, ERR_CONF, -EEXIST,
				"conf.deviceID '%s' is also that of another network of this pod: "
				"a VF serves only one network",
				list[i].bdf);
	return 0;
}

int vf_lock(const struct root *root, const char *const *bdfs, size_t n, int *fds, struct err *e)
{
	auto_free struct turn *list = xcalloc(n, sizeof(*list));
	int r;

	for (size_t i = 0; i < n; i++) {
		list[i] = (struct turn){bdfs[i], i};
		fds[i] = -1;
	}
	qsort(list, n, sizeof(*list), by_address);
	r = same_twice(list, n, e);
	if (r >= 0)
		r = dir_make(root, LOCK_DIR, DIR_MODE, e);
	for (size_t i = 0; r >= 0 && i < n; i++)
		r = lock_one(root, list[i].bdf, &fds[list[i].i], e);
	for (size_t i = 0; r < 0 && i < n; i++)
		cleanup_fd(&fds[i]);
	if (r < 0)
		err_default_kind(e, ERR_IO);
	return r < 0 ? r : 0;
}

static char *owner_path(const char *bdf)
{
	return xasprintf(PCI_DIR "/%s", bdf);
}

int vf_owner_read(const struct root *root, const char *bdf, char **netns, struct err *e)
{
	auto_free char *path = owner_path(bdf);
	auto_buf struct buf text;
	int r;

	buf_init(&text, PATH_MAX);
	r = file_read(root, path, PATH_MAX, &text, e);
	if (r < 0)
		return r;
	*netns = span_dup(span_trim(buf_span(&text)));
	return 0;
}

int vf_owner_write(const struct root *root, const char *bdf, const char *netns, struct err *e)
{
	auto_free char *path = owner_path(bdf);
	int r = dir_make(root, PCI_DIR, DIR_MODE, e);

	if (r >= 0)
		r = file_replace(root, path, span_of(netns), FILE_MODE, e);
	if (r >= 0)
		return 0;
	err_default_kind(e, ERR_IO);
	return err_wrap(e, r, "mark VF '%s' as taken", bdf);
}

int vf_owner_remove(const struct root *root, const char *bdf, struct err *e)
{
	auto_free char *path = owner_path(bdf);
	int r;

	file_sweep(root, path);
	r = file_remove(root, path, e);
	return r < 0 ? err_wrap(e, r, "error cleaning the pci allocation for vf pci address %s",
				bdf)
		     : 0;
}

bool vf_owner_lives(const char *netns)
{
	auto_fd int fd = -1;
	int r;

	if (!*netns)
		return false;
	r = netns_open(netns, &fd, NULL);
	/* A deleted bind mount leaves an empty file. */
	return r >= 0 || (r != -ENOENT && r != -ENOTDIR && r != -EINVAL);
}

/* --- records of VFs --- */

static const struct vf_store *const stores[] = {&sriov_store, &ib_sriov_store};

static void each_record(const struct root *root, const struct vf_store *only, vf_record_fn fn,
			void *arg)
{
	for (size_t i = 0; i < ARRAY_LEN(stores); i++)
		if (!only || only == stores[i])
			vf_record_each(root, stores[i], fn, arg, NULL);
}

struct search {
	const char *bdf, *netns;
	struct vf_record *ret;
	bool found, sure;
};

static int inspect(void *arg, struct vf_record *r, struct err *e)
{
	struct search *s = arg;
	bool sure = r->netns && s->netns && strcmp(r->netns, s->netns) == 0;

	(void)e;
	if (strcmp(r->device, s->bdf) != 0 || (s->found && (s->sure || !sure)))
		return 0;
	vf_record_done(s->ret);
	*s->ret = *r;
	*r = (struct vf_record){0};
	s->found = true;
	s->sure |= sure;
	return 0;
}

bool vf_record_of(const struct root *root, const struct vf_store *store, const char *bdf,
		  const char *netns, struct vf_record *ret)
{
	struct search s = {.bdf = bdf, .netns = netns, .ret = ret};

	*ret = (struct vf_record){0};
	each_record(root, store, inspect, &s);
	return s.found;
}

struct others {
	const char *bdf;
	const char *file; /* file of this attachment, which is skipped */
	bool found;
};

static int find_others(void *arg, struct vf_record *r, struct err *e)
{
	struct others *o = arg;

	(void)e;
	o->found |= strcmp(r->device, o->bdf) == 0 && strcmp(r->file, o->file) != 0;
	return 0;
}

bool vf_record_is_others(const struct root *root, const char *bdf, const char *container,
			 const char *ifname)
{
	auto_free char *file = vf_record_file(container, ifname);
	struct others o = {.bdf = bdf, .file = file};

	each_record(root, NULL, find_others, &o);
	return o.found;
}

static int find_living(void *arg, struct vf_record *r, struct err *e)
{
	struct search *s = arg;

	(void)e;
	if (strcmp(r->device, s->bdf) != 0 || s->found || !r->netns || !vf_owner_lives(r->netns))
		return 0;
	*s->ret = *r;
	*r = (struct vf_record){0};
	s->found = true;
	return 0;
}

char *vf_owner(const struct root *root, const char *bdf)
{
	auto_vf_record struct vf_record r = {0};
	struct search s = {.bdf = bdf, .ret = &r};
	char *netns = NULL;

	if (vf_owner_read(root, bdf, &netns, NULL) >= 0 && vf_owner_lives(netns))
		return netns;
	free(netns);
	each_record(root, NULL, find_living, &s);
	return s.found ? xstrdup(r.netns) : NULL;
}

int vf_in_use(const struct root *root, const char *bdf, const char *netns, struct err *e)
{
	auto_vf_record struct vf_record r = {0};
	auto_buf struct buf owner;

	buf_init(&owner, ERR_TEXT_MAX / 2);
	if (!vf_record_of(root, NULL, bdf, netns, &r))
		buf_str(&owner, "no record names the pod; ");
	else if (r.pod)
		buf_printf(&owner, "pod '%s', container '%s', interface '%s'; ", r.pod, r.container,
			   r.ifname ? r.ifname : "");
	else
		buf_printf(&owner, "record '%s'; ", r.file);
	return err_kind(e, ERR_AGAIN, -EBUSY,
			"pci address %s is already allocated: another pod has the VF (%s"
			"network namespace '%s')",
			bdf, owner.p, netns);
}

/* Returns whether a netdev of the PF represents a VF or SF ("pf0vf3"), in switchdev mode. */
static bool is_representor(const struct root *r, const char *name)
{
	char path[96], port[32];

	snprintf(path, sizeof(path), "/sys/class/net/%.15s/phys_port_name", name);
	return file_read_line(r, path, port, sizeof(port), NULL) == 0 &&
	       (strstr(port, "vf") || strstr(port, "sf"));
}

/* Finds the PF's first netdev that is no representor; if all are representors, the last one. An
 * unreadable directory is an error: if it counted as empty, no attributes would be restored through
 * the PF, and the VF would keep those of a pod. */
static int find_pf(const struct root *r, struct vf_place *p, struct err *e)
{
	char **names = NULL;
	size_t n = 0, i = 0;
	int code = pci_children(r, p->pci.physfn, PCI_NETDEV, &names, &n, e);

	if (code < 0 || !n)
		return code < 0 ? code : 0;
	while (i + 1 < n && is_representor(r, names[i]))
		i++;
	str_copy(p->pf.name, sizeof(p->pf.name), names[i]);
	str_list_free(names, n);
	return 0;
}

static int find_netdev(const struct root *r, struct vf_place *p, struct err *e)
{
	char **names = NULL;
	size_t n = 0;
	int code = pci_children(r, p->pci.bdf, PCI_NETDEV, &names, &n, e);

	if (code < 0)
		return code;
	if (n)
		str_copy(p->netdev, sizeof(p->netdev), names[0]);
	str_list_free(names, n);
	return 0;
}

static int find_function(const struct root *r, const char *bdf, struct vf_place *p, struct err *e)
{
	char pf[PCI_BDF_MAX];
	int code;

	if (!pci_bdf_ok(bdf))
		return err_kind(e, ERR_CONF, -EINVAL,
				"conf.deviceID is '%s', expected a VF's PCI address such as "
				"0000:3b:00.2",
				bdf);
	code = pci_read(r, bdf, &p->pci, e);
	if (code < 0)
		return code;
	if (!*p->pci.physfn)
		return err_kind(e, ERR_CONF, -EINVAL,
				"conf.deviceID '%s' is not a VF: its directory below "
				"/sys/bus/pci/devices has no physfn%s",
				bdf, p->pci.is_pf ? " (it is a PF)" : "");
	code = pci_vf_number(r, bdf, pf, &p->number, e);
	if (code < 0)
		return err_wrap(e, code,
				ORIG("unable to get VF ID with PF: %s and VF pci address %s"),
				p->pci.physfn, bdf);
	return 0;
}

bool vf_place_is_removed(int code)
{
	return code == -ENODEV || code == -ENOENT || code == -EINVAL;
}

int vf_place_read(const struct root *r, struct nl_wire *w, const char *bdf, struct vf_place *ret,
		  struct err *e)
{
	struct vf_place p = {0};
	int code = find_function(r, bdf, &p, e);

	if (code >= 0)
		code = find_netdev(r, &p, e);
	if (code >= 0)
		code = find_pf(r, &p, e);
	if (code < 0)
		return code;
	p.dpdk = !*p.netdev && pci_driver_is_dpdk(p.pci.driver);
	/* -ENODEV is no error: /sys may show another network namespace than the socket's. */
	if (w && *p.pf.name)
		code = link_get(w, p.pf.name, &p.pf, e);
	if (code < 0 && code != -ENODEV)
		return err_wrap(e, code, "PF of VF '%s'", bdf);
	*ret = p;
	return 0;
}

int vf_place_no_pf(const struct vf_place *p, struct err *e)
{
	return err_kind(e, ERR_UNAVAILABLE, -ENODEV,
			ORIG("PF network device not found: PF '%s' of VF '%s' has no netdev (is it "
			     "bound to vfio-pci, or in another namespace?)"),
			p->pci.physfn, p->pci.bdf);
}
