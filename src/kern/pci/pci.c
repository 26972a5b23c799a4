/* SPDX-License-Identifier: Apache-2.0 */
#include "kern/pci/pci.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/num.h"
#include "base/path.h"
#include "kern/pci/internal.h"

bool pci_bdf_ok(const char *s)
{
	static const char hex[] = "0123456789abcdef";
	size_t domain = strspn(s, hex);

	if (domain < 4 || domain > 8 || strlen(s) != domain + strlen(":3b:00.2"))
		return false;
	s += domain;
	return s[0] == ':' && strspn(s + 1, hex) == 2 && s[3] == ':' && strspn(s + 4, hex) == 2 &&
	       s[6] == '.' && s[7] >= '0' && s[7] <= '7';
}

bool pci_driver_is_dpdk(const char *driver)
{
	return !strcmp(driver, "vfio-pci") || !strcmp(driver, "uio_pci_generic") ||
	       !strcmp(driver, "igb_uio");
}

int pci_attr_path(const char *device, const char *attr, char path[static PCI_PATH_MAX],
		  struct err *e)
{
	const char *bus = pci_bdf_ok(device) ? "pci" : "auxiliary";
	int n;

	if (!device[0] || device[0] == '.' || strchr(device, '/') || strlen(device) >= PCI_NAME_MAX)
		return err_kind(
			e, ERR_CONF, -EINVAL,
			"'%s' is not a device: expected a PCI address such as 0000:3b:00.2, or "
			"the name of an auxiliary device",
			device);
	n = snprintf(path, PCI_PATH_MAX, "/sys/bus/%s/devices/%s%s%s", bus, device,
		     attr[0] ? "/" : "", attr);
	return n < PCI_PATH_MAX ? 0 : err_set(e, -ENAMETOOLONG, "'%s': too long", attr);
}

/* Accepts only PCI addresses: auxiliary devices do not have the requested attributes. */
static int pci_path_of(const char *bdf, const char *attr, char path[static PCI_PATH_MAX],
		       struct err *e)
{
	if (!pci_bdf_ok(bdf))
		return err_kind(e, ERR_CONF, -EINVAL,
				"'%s' is not a PCI address such as 0000:3b:00.2", bdf);
	return pci_attr_path(bdf, attr, path, e);
}

static uint64_t read_hex(const struct root *r, const char *bdf, const char *attr, uint64_t max)
{
	char path[PCI_PATH_MAX], line[32];
	uint64_t v = 0;

	if (pci_path_of(bdf, attr, path, NULL) == 0 &&
	    file_read_line(r, path, line, sizeof(line), NULL) == 0)
		num_hex(span_of(line), max, &v);
	return v;
}

/* Returns false unless the attribute is a number from -1 to INT32_MAX. */
static bool pci_read_num(const struct root *r, const char *bdf, const char *attr, int64_t *ret)
{
	char path[PCI_PATH_MAX], line[32];

	return pci_path_of(bdf, attr, path, NULL) == 0 &&
	       file_read_line(r, path, line, sizeof(line), NULL) == 0 &&
	       num_i64(span_of(line), -1, INT32_MAX, ret) == 0;
}

/* Reads the last part of a symbolic link's target. Returns 1, or 0 (and "") if there is no such
 * link, `bdf` is not an address or the part is too long; negative: the link could not be read. */
static int pci_read_link(const struct root *r, const char *bdf, const char *attr, char *ret,
			 size_t size, struct err *e)
{
	char path[PCI_PATH_MAX], target[PCI_PATH_MAX];
	struct err reason = ERR_INIT;
	int code;

	ret[0] = '\0';
	if (pci_path_of(bdf, attr, path, NULL) < 0)
		return 0;
	code = link_read(r, path, target, sizeof(target), &reason);
	if (code == -ENOENT || code == -EINVAL || code == -ENOTDIR)
		return 0;
	if (code < 0) {
		if (e)
			*e = reason;
		return code;
	}
	if (str_copy(ret, size, path_base(target)))
		return 1;
	ret[0] = '\0';
	return 0;
}

static void read_sriov(const struct root *r, struct pci_dev *d)
{
	int64_t n;

	d->is_pf = pci_read_num(r, d->bdf, "sriov_totalvfs", &n) && n >= 0;
	if (!d->is_pf)
		return;
	d->total_vfs = (uint32_t)n;
	if (pci_read_num(r, d->bdf, "sriov_numvfs", &n) && n > 0)
		d->num_vfs = (uint32_t)n;
}

static int read_number(const struct root *r, const char *bdf, const char *attr)
{
	int64_t n = -1;

	return pci_read_num(r, bdf, attr, &n) ? (int)n : -1;
}

static int read_group(const struct root *r, const char *bdf)
{
	char name[16];
	int64_t n;

	return pci_read_link(r, bdf, "iommu_group", name, sizeof(name), NULL) > 0 &&
			       num_i64(span_of(name), 0, INT32_MAX, &n) == 0
		       ? (int)n
		       : -1;
}

/* Returns 0 if the device exists, -ENODEV if it does not; with another error its existence is
 * unknown. */
static int is_there(const struct root *r, const char *bdf, struct err *e)
{
	char path[PCI_PATH_MAX];
	struct stat st;
	int code = pci_path_of(bdf, "", path, e);

	if (code >= 0)
		code = file_lstat(r, path, &st, e);
	if (code != -ENOENT && code != -ENOTDIR)
		return code;
	return err_kind(e, ERR_UNAVAILABLE, -ENODEV, "PCI device '%s' does not exist", bdf);
}

int pci_read(const struct root *r, const char *bdf, struct pci_dev *ret, struct err *e)
{
	struct pci_dev d = {.numa = -1, .iommu_group = -1};
	int code = is_there(r, bdf, e);

	if (code >= 0)
		code = pci_read_link(r, bdf, "driver", d.driver, sizeof(d.driver), e);
	if (code >= 0)
		code = pci_read_link(r, bdf, "physfn", d.physfn, sizeof(d.physfn), e);
	if (code < 0)
		return code;
	str_copy(d.bdf, sizeof(d.bdf), bdf);
	d.vendor = (uint16_t)read_hex(r, bdf, "vendor", UINT16_MAX);
	d.device = (uint16_t)read_hex(r, bdf, "device", UINT16_MAX);
	d.subvendor = (uint16_t)read_hex(r, bdf, "subsystem_vendor", UINT16_MAX);
	d.subdevice = (uint16_t)read_hex(r, bdf, "subsystem_device", UINT16_MAX);
	d.class = (uint32_t)read_hex(r, bdf, "class", UINT32_MAX);
	read_sriov(r, &d);
	d.numa = read_number(r, bdf, "numa_node");
	d.iommu_group = read_group(r, bdf);
	*ret = d;
	return 0;
}

int pci_list(const struct root *r, struct pci_dev **ret, size_t *n, struct err *e)
{
	struct pci_dev *list = NULL, d;
	char **names = NULL;
	size_t n_names = 0, count = 0;
	int code = dir_list(r, "/sys/bus/pci/devices", &names, &n_names, e);

	if (code < 0)
		return err_wrap(e, code, "list PCI devices");
	for (size_t i = 0; i < n_names; i++)
		if (pci_bdf_ok(names[i]) && pci_read(r, names[i], &d, NULL) == 0)
			VEC_PUSH(list, count) = d;
	str_list_free(names, n_names);
	*ret = list;
	*n = count;
	return 0;
}

static int by_number(const void *a, const void *b)
{
	const struct pci_vf *x = a, *y = b;

	return (x->vf > y->vf) - (x->vf < y->vf);
}

/* Returns 1 if the attribute of the PF is a link to a VF ("virtfn3"), 0 if not; negative: the
 * link could not be read. */
static int read_vf(const struct root *r, const char *pf, const char *attr, struct pci_vf *ret,
		   struct err *e)
{
	uint64_t vf;
	int code;

	if (strncmp(attr, "virtfn", strlen("virtfn")) != 0 ||
	    num_u64(span_of(attr + strlen("virtfn")), 0, UINT16_MAX, &vf) < 0)
		return 0;
	code = pci_read_link(r, pf, attr, ret->bdf, sizeof(ret->bdf), e);
	ret->vf = (uint32_t)vf;
	return code > 0 ? pci_bdf_ok(ret->bdf) : code;
}

int pci_vf_list(const struct root *r, const char *pf, struct pci_vf **ret, size_t *n, struct err *e)
{
	struct pci_vf *list = NULL, vf;
	char path[PCI_PATH_MAX], **names = NULL;
	size_t n_names = 0, count = 0;
	int code = pci_path_of(pf, "", path, e);

	if (code == 0)
		code = dir_list(r, path, &names, &n_names, e);
	if (code < 0)
		return err_wrap(e, code, "list VFs of '%s'", pf);
	for (size_t i = 0; code >= 0 && i < n_names; i++) {
		code = read_vf(r, pf, names[i], &vf, e);
		if (code > 0)
			VEC_PUSH(list, count) = vf;
	}
	str_list_free(names, n_names);
	if (code < 0) {
		free(list);
		return err_wrap(e, code, "list VFs of '%s'", pf);
	}
	if (count)
		qsort(list, count, sizeof(*list), by_number);
	*ret = list;
	*n = count;
	return 0;
}

int pci_vf_number(const struct root *r, const char *vf, char pf[static PCI_BDF_MAX], uint32_t *ret,
		  struct err *e)
{
	auto_free struct pci_vf *list = NULL;
	char found[PCI_BDF_MAX];
	size_t n = 0;
	int code = is_there(r, vf, e);

	if (code >= 0)
		code = pci_read_link(r, vf, "physfn", found, sizeof(found), e);
	if (code < 0)
		return code;
	if (!code)
		return err_set(e, -EINVAL, "PCI device '%s' is not a VF: it has no link physfn",
			       vf);
	code = pci_vf_list(r, found, &list, &n, e);
	if (code < 0)
		return code;
	for (size_t i = 0; i < n; i++) {
		if (strcmp(list[i].bdf, vf) != 0)
			continue;
		str_copy(pf, PCI_BDF_MAX, found);
		*ret = list[i].vf;
		return 0;
	}
	return err_kind(e, ERR_AGAIN, -ENOENT, "VF '%s' is not among the %zu VFs of its PF '%s'",
			vf, n, found);
}

/* --- the path from the root complex to a function, and the devices below the function --- */

/* Adds a part of the path; a part "pciDDDD:BB" begins the path again: with VMD there is a second
 * root below the first. */
static void step(struct pci_path *p, struct span part)
{
	auto_free char *name = span_dup(part);

	if (span_has_prefix(part, "pci") && strchr(name, ':')) {
		str_copy(p->root, sizeof(p->root), name);
		p->n = 0;
	} else if (p->root[0] && pci_bdf_ok(name) && p->n < PCI_DEPTH_MAX) {
		str_copy(p->ports[p->n++], sizeof(p->ports[0]), name);
	}
}

int pci_path_read(const struct root *r, const char *bdf, struct pci_path *ret, struct err *e)
{
	char path[PCI_PATH_MAX], target[PCI_PATH_MAX];
	struct pci_path p = {.n = 0};
	struct span rest, part;
	int code = pci_attr_path(bdf, "", path, e);

	if (code == 0)
		code = link_read(r, path, target, sizeof(target), e);
	if (code < 0)
		return err_wrap(e, code, "find the path to PCI device '%s'", bdf);
	for (rest = span_of(target); span_cut(&rest, '/', &part);)
		step(&p, part);
	if (!p.n || strcmp(p.ports[p.n - 1], bdf) != 0)
		return err_set(e, -EBADMSG,
			       "find the path to PCI device '%s': expected the target of the "
			       "link %s to consist of a root complex, at most 15 ports and this "
			       "address, but it is '%s'",
			       bdf, path, target);
	p.n--;
	*ret = p;
	return 0;
}

int pci_path_common(const struct pci_path *a, const struct pci_path *b)
{
	size_t i = 0;

	if (strcmp(a->root, b->root) != 0)
		return -1;
	while (i < a->n && i < b->n && !strcmp(a->ports[i], b->ports[i]))
		i++;
	return (int)i;
}

static const struct {
	const char *dir, *class, *name;
} children[] = {
	[PCI_NETDEV] = {"net", "net", "network device"},
	[PCI_RDMA] = {"infiniband", "infiniband", "RDMA device"},
	[PCI_UVERBS] = {"infiniband_verbs", "infiniband_verbs", "verbs device"},
	[PCI_UMAD] = {"infiniband_mad", "infiniband_mad", "MAD device"},
};

const char *pci_child_name(enum pci_child what)
{
	return children[what].name;
}

int pci_children(const struct root *r, const char *device, enum pci_child what, char ***names,
		 size_t *n, struct err *e)
{
	char path[PCI_PATH_MAX];
	int code = pci_attr_path(device, children[what].dir, path, e);

	if (code < 0)
		return code;
	code = dir_list(r, path, names, n, e);
	if (code != -ENOENT)
		return code < 0 ? err_wrap(e, code, "list %ss of '%s'", children[what].name, device)
				: 0;
	err_clear(e);
	*names = NULL;
	*n = 0;
	return 0;
}

static bool is_auxiliary(const struct root *r, const char *name)
{
	char path[PCI_PATH_MAX];

	return strchr(name, '.') && !pci_bdf_ok(name) && pci_attr_path(name, "", path, NULL) == 0 &&
	       file_exists(r, path);
}

int pci_auxiliary(const struct root *r, const char *bdf, char ***names, size_t *n, struct err *e)
{
	char path[PCI_PATH_MAX], **all = NULL;
	size_t n_all = 0, count = 0;
	int code = pci_attr_path(bdf, "", path, e);

	if (code == 0)
		code = dir_list(r, path, &all, &n_all, e);
	if (code < 0)
		return err_wrap(e, code, "list auxiliary devices of '%s'", bdf);
	for (size_t i = 0; i < n_all; i++) {
		if (is_auxiliary(r, all[i]))
			all[count++] = all[i];
		else
			free(all[i]);
	}
	*names = all;
	*n = count;
	return 0;
}

int pci_of(const struct root *r, enum pci_child what, const char *name,
	   char ret[static PCI_NAME_MAX], struct err *e)
{
	char path[PCI_PATH_MAX], target[PCI_PATH_MAX];
	const char *base;
	int code;

	if (!name[0] || name[0] == '.' || strchr(name, '/') || strlen(name) >= PCI_NAME_MAX)
		return err_kind(e, ERR_CONF, -EINVAL, "'%s' is not a valid name of a %s", name,
				children[what].name);
	snprintf(path, sizeof(path), "/sys/class/%s/%s/device", children[what].class, name);
	code = link_read(r, path, target, sizeof(target), NULL);
	base = code < 0 ? "" : path_base(target);
	/* there is no parent, or it is neither a PCI nor an auxiliary device (for example
	 * "virtio0" or a USB function) */
	if (code < 0 || (!pci_bdf_ok(base) && !is_auxiliary(r, base)) ||
	    !str_copy(ret, PCI_NAME_MAX, base))
		return err_kind(e, ERR_UNAVAILABLE, -ENODEV,
				"%s '%s' does not exist, or has no PCI or auxiliary device as "
				"parent",
				children[what].name, name);
	return 0;
}
