/* SPDX-License-Identifier: Apache-2.0 */
#include "device/resource/node.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/num.h"
#include "base/path.h"
#include "kern/rdma/rdma.h"

enum {
	PATH_SIZE = 320,
	ROUTES_MAX = 8 << 20,
	INFORMATION_MAX = 16 << 10,
	CLASS_NETWORK = 0x02,
	CLASS_DISPLAY = 0x03,
	CLASS_PROCESSING = 0x12,
	CLASS_VGA = 0x0300,
};

#define INTEL "8086"

static const char *const char_kinds[] =
	{[NODE_UCM] = "ucm", [NODE_ISSM] = "issm", [NODE_UMAD] = "umad", [NODE_UVERBS] = "uverbs"};

const char *node_char_kind_name(enum node_char_kind kind)
{
	return char_kinds[kind];
}

/* Reads the first line of a file; "": the file cannot be read. */
static void read_line(const struct root *r, char *ret, size_t size, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));

static void read_line(const struct root *r, char *ret, size_t size, const char *fmt, ...)
{
	char path[PATH_SIZE];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(path, sizeof(path), fmt, ap);
	va_end(ap);
	if (file_read_line(r, path, ret, size, NULL) < 0)
		*ret = '\0';
}

/* Reads the last part of a symbolic link's target; "": there is no such link. */
static void read_base(const struct root *r, char *ret, size_t size, const char *path)
{
	char target[PATH_SIZE];

	*ret = '\0';
	if (link_read(r, path, target, sizeof(target), NULL) < 0)
		return;
	if (!str_copy(ret, size, path_base(target)))
		*ret = '\0';
}

static const char *bus_of(const char *device)
{
	return pci_bdf_ok(device) ? "pci" : "auxiliary";
}

/* --- netdevs --- */

static bool is_representor(const struct root *r, const char *netdev)
{
	char port[32];

	read_line(r, port, sizeof(port), "/sys/class/net/%.15s/phys_port_name", netdev);
	return strstr(port, "vf") || strstr(port, "sf");
}

static void read_link_type(const struct root *r, struct node_device *d)
{
	char line[16];
	uint64_t type;

	read_line(r, line, sizeof(line), "/sys/class/net/%.15s/type", d->netdev);
	if (num_u64(span_of(line), 0, UINT16_MAX, &type) < 0)
		return;
	/* 1: ARPHRD_ETHER, 32: ARPHRD_INFINIBAND */
	str_copy(d->link_type, sizeof(d->link_type),
		 type == 1    ? "ether"
		 : type == 32 ? "infiniband"
			      : "");
}

struct names {
	char **v;
	size_t n;
};

static void names_done(struct names *l)
{
	str_list_free(l->v, l->n);
}
#define auto_names __attribute__((cleanup(names_done)))

static void read_netdevs(const struct root *r, const struct names *routes, struct node_device *d)
{
	auto_names struct names l = {0};
	bool can_have = d->is_pf || (d->class == NODE_NET && d->index < 0);

	if (pci_children(r, d->id, PCI_NETDEV, &l.v, &l.n, NULL) < 0)
		return;
	for (size_t i = 0; i < l.n; i++) {
		d->default_route = d->default_route || str_list_has(routes->v, routes->n, l.v[i]);
		if (!*d->netdev && !(can_have && is_representor(r, l.v[i])))
			str_copy(d->netdev, sizeof(d->netdev), l.v[i]);
	}
	if (*d->netdev)
		read_link_type(r, d);
}

/* Reads from /proc/net/route the names of the netdevs that have an IPv4 default route. */
static void read_routes(const struct root *r, struct names *ret)
{
	auto_buf struct buf b;
	struct span rest, line;

	buf_init(&b, ROUTES_MAX);
	if (file_read(r, "/proc/net/route", ROUTES_MAX, &b, NULL) < 0)
		return;
	for (rest = buf_span(&b); span_cut(&rest, '\n', &line);) {
		char name[LINK_NAME_MAX] = "", to[16] = "", mask[16] = "";
		auto_free char *text = span_dup(line);

		if (sscanf(text, "%15s %15s %*s %*s %*s %*s %*s %15s", name, to, mask) == 3 &&
		    strcmp(to, "00000000") == 0 && strcmp(mask, "00000000") == 0 &&
		    !str_list_has(ret->v, ret->n, name))
			VEC_PUSH(ret->v, ret->n) = xstrdup(name);
	}
}

/* --- RDMA devices --- */

static int kind_of(const char *name)
{
	for (int k = 0; k < NODE_CHAR_KINDS; k++)
		if (strncmp(name, char_kinds[k], strlen(char_kinds[k])) == 0)
			return k;
	return -1;
}

static int by_kind(const void *a, const void *b)
{
	const struct node_char *x = a, *y = b;

	if (x->kind != y->kind)
		return x->kind < y->kind ? -1 : 1;
	/* sorts "umad2" before "umad10" */
	if (strlen(x->name) != strlen(y->name))
		return strlen(x->name) < strlen(y->name) ? -1 : 1;
	return strcmp(x->name, y->name);
}

static struct node_rdma *rdma_of(struct node_device *d, const char *name)
{
	for (size_t i = 0; i < d->n_rdma; i++)
		if (strcmp(d->rdma[i].name, name) == 0)
			return &d->rdma[i];
	return NULL;
}

static void read_chars(const struct root *r, struct node_device *d, const char *class)
{
	auto_names struct names l = {0};
	char path[PATH_SIZE], hca[PCI_NAME_MAX];

	if (d->class == NODE_SOFT)
		snprintf(path, sizeof(path), "/sys/class/%s", class);
	else
		snprintf(path, sizeof(path), "/sys/bus/%s/devices/%s/%s", bus_of(d->id), d->id,
			 class);
	if (dir_list(r, path, &l.v, &l.n, NULL) < 0)
		return;
	for (size_t i = 0; i < l.n; i++) {
		int kind = kind_of(l.v[i]);
		struct node_rdma *to;

		read_line(r, hca, sizeof(hca), "%s/%.32s/ibdev", path, l.v[i]);
		to = rdma_of(d, hca);
		if (kind < 0 || !to || strlen(l.v[i]) >= NODE_CHAR_MAX)
			continue;
		str_copy(VEC_PUSH(to->chars, to->n_chars).name, NODE_CHAR_MAX, l.v[i]);
		to->chars[to->n_chars - 1].kind = (enum node_char_kind)kind;
	}
}

static void add_rdma(const struct root *r, struct node_device *d, const char *name)
{
	struct node_rdma *to = &VEC_PUSH(d->rdma, d->n_rdma);

	str_copy(to->name, sizeof(to->name), name);
	read_line(r, to->pkey, sizeof(to->pkey), "/sys/class/infiniband/%.63s/ports/1/pkeys/0",
		  name);
}

static void read_rdma(const struct root *r, struct node_device *d)
{
	auto_names struct names l = {0};

	if (d->class == NODE_SOFT)
		add_rdma(r, d, d->id);
	else if (pci_children(r, d->id, PCI_RDMA, &l.v, &l.n, NULL) < 0)
		return;
	for (size_t i = 0; i < l.n; i++)
		add_rdma(r, d, l.v[i]);
	if (!d->n_rdma)
		return;
	read_chars(r, d, "infiniband_cm");
	read_chars(r, d, "infiniband_mad");
	read_chars(r, d, "infiniband_verbs");
	for (size_t i = 0; i < d->n_rdma; i++)
		if (d->rdma[i].n_chars)
			qsort(d->rdma[i].chars, d->rdma[i].n_chars, sizeof(*d->rdma[i].chars),
			      by_kind);
	str_copy(d->pkey, sizeof(d->pkey), d->rdma[0].pkey);
}

/* --- devices for drivers in user space --- */

static void read_user_driver(const struct root *r, const struct pci_dev *p, struct node_device *d)
{
	auto_names struct names l = {0};
	char name[NODE_WORD_MAX], path[PATH_SIZE];

	if (strcmp(p->driver, "vfio-pci") == 0) {
		read_line(r, name, sizeof(name), "/sys/bus/pci/devices/%s/iommu_group/name",
			  p->bdf);
		d->noiommu = strcmp(name, "vfio-noiommu") == 0;
	}
	if (!pci_driver_is_dpdk(p->driver) && strcmp(p->driver, "uio") != 0)
		return;
	snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s/uio", p->bdf);
	if (dir_list(r, path, &l.v, &l.n, NULL) == 0 && l.n)
		str_copy(d->uio, sizeof(d->uio), l.v[0]);
}

/* --- path from the root complex --- */

static char *read_path(const struct root *r, const char *bdf)
{
	auto_buf struct buf b;
	struct pci_path p;

	buf_init(&b, PATH_SIZE * 2);
	if (pci_path_read(r, bdf, &p, NULL) < 0)
		return xstrdup("");
	buf_str(&b, p.root);
	for (size_t i = 0; i < p.n; i++)
		buf_printf(&b, "/%s", p.ports[i]);
	return buf_take(&b);
}

/* --- functions --- */

/* An entry of the list of all VFs, which is sorted by address. With the list, the directory of each
 * PF is read once instead of once for each VF. */
struct vf_entry {
	char bdf[PCI_BDF_MAX];
	uint32_t vf;
};

struct reader {
	const struct root *root;
	struct names routes;
	struct vf_entry *vfs;
	size_t n_vfs;
	struct node_devices *ret;
};

static int by_address(const void *a, const void *b)
{
	return strcmp(((const struct vf_entry *)a)->bdf, ((const struct vf_entry *)b)->bdf);
}

static void list_vfs(struct reader *x, const struct pci_dev *list, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		auto_free struct pci_vf *vfs = NULL;
		size_t count = 0;

		if (!list[i].num_vfs || pci_vf_list(x->root, list[i].bdf, &vfs, &count, NULL) < 0)
			continue;
		for (size_t k = 0; k < count; k++) {
			struct vf_entry *to = &VEC_PUSH(x->vfs, x->n_vfs);

			str_copy(to->bdf, sizeof(to->bdf), vfs[k].bdf);
			to->vf = vfs[k].vf;
		}
	}
	if (x->n_vfs)
		qsort(x->vfs, x->n_vfs, sizeof(*x->vfs), by_address);
}

static int64_t vf_number(const struct reader *x, const char *bdf)
{
	struct vf_entry key;
	const struct vf_entry *at;

	str_copy(key.bdf, sizeof(key.bdf), bdf);
	at = x->n_vfs ? bsearch(&key, x->vfs, x->n_vfs, sizeof(key), by_address) : NULL;
	return at ? (int64_t)at->vf : -1;
}

static void read_children(const struct reader *x, struct node_device *d)
{
	bool dpdk = pci_driver_is_dpdk(d->driver);

	read_netdevs(x->root, &x->routes, d);
	read_rdma(x->root, d);
	d->away = d->index >= 0 && *d->driver && !dpdk && !*d->netdev && !d->n_rdma;
}

static void read_function(const struct reader *x, const struct pci_dev *p, enum node_class class)
{
	struct node_device *d = &VEC_PUSH(x->ret->v, x->ret->n);

	*d = (struct node_device){.class = class,
				  .index = *p->physfn ? vf_number(x, p->bdf) : -1,
				  .is_pf = p->is_pf,
				  .num_vfs = p->num_vfs,
				  .numa = p->numa,
				  .iommu_group = p->iommu_group,
				  .path = read_path(x->root, p->bdf)};
	str_copy(d->id, sizeof(d->id), p->bdf);
	str_copy(d->bdf, sizeof(d->bdf), p->bdf);
	snprintf(d->vendor, sizeof(d->vendor), "%04x", p->vendor);
	snprintf(d->product, sizeof(d->product), "%04x", p->device);
	str_copy(d->driver, sizeof(d->driver), p->driver);
	str_copy(d->pf, sizeof(d->pf), p->physfn);
	read_line(x->root, d->acpi_index, sizeof(d->acpi_index),
		  "/sys/bus/pci/devices/%s/acpi_index", p->bdf);
	read_user_driver(x->root, p, d);
	if (class == NODE_NET)
		read_children(x, d);
}

static void read_aux(const struct reader *x, const struct node_device *parent, const char *name)
{
	struct node_device d = {.class = NODE_AUX,
				.index = -1,
				.numa = parent->numa,
				.iommu_group = -1,
				.path = xstrdup(parent->path)};
	char number[16];
	uint64_t sf;

	str_copy(d.id, sizeof(d.id), name);
	str_copy(d.bdf, sizeof(d.bdf), parent->bdf);
	str_copy(d.pf, sizeof(d.pf), parent->bdf);
	str_copy(d.vendor, sizeof(d.vendor), parent->vendor);
	str_copy(d.product, sizeof(d.product), parent->product);
	str_copy(d.driver, sizeof(d.driver), parent->driver);
	read_line(x->root, number, sizeof(number), "/sys/bus/auxiliary/devices/%.63s/sfnum", name);
	if (num_u64(span_of(number), 0, UINT32_MAX, &sf) == 0)
		d.index = (int64_t)sf;
	read_children(x, &d);
	VEC_PUSH(x->ret->v, x->ret->n) = d;
}

static int by_id(const void *a, const void *b)
{
	return strcmp(((const struct node_device *)a)->id, ((const struct node_device *)b)->id);
}

/* Adds auxiliary devices such as "mlx5_core.sf.4"; "mlx5_core.rdma.0" is not a network device. */
static void list_aux(const struct reader *x)
{
	size_t n = x->ret->n;

	for (size_t i = 0; i < n; i++) {
		auto_names struct names l = {0};
		const struct node_device *d = &x->ret->v[i];
		struct node_device parent = *d;

		if (d->class != NODE_NET || *d->pf ||
		    pci_auxiliary(x->root, d->bdf, &l.v, &l.n, NULL) < 0)
			continue;
		for (size_t k = 0; k < l.n; k++)
			if (strstr(l.v[k], ".sf.") && strlen(l.v[k]) < PCI_NAME_MAX)
				read_aux(x, &parent, l.v[k]);
	}
}

/* --- RDMA devices without hardware --- */

/* Finds the netdev: the file `parent` of a soft-RoCE device names it; other RoCE devices have the
 * netdev of their first GID. */
static void read_soft_netdev(const struct reader *x, struct node_device *d)
{
	char path[PATH_SIZE];

	read_line(x->root, d->netdev, sizeof(d->netdev), "/sys/class/infiniband/%.63s/parent",
		  d->id);
	if (!*d->netdev)
		read_line(x->root, d->netdev, sizeof(d->netdev),
			  "/sys/class/infiniband/%.63s/ports/1/gid_attrs/ndevs/0", d->id);
	snprintf(path, sizeof(path), "/sys/class/net/%.15s", d->netdev);
	if (!*d->netdev || !file_exists(x->root, path)) {
		d->netdev[0] = '\0';
		return;
	}
	d->default_route = str_list_has(x->routes.v, x->routes.n, d->netdev);
	read_link_type(x->root, d);
}

/* soft-RoCE devices are below /sys/devices/virtual. An older kernel has them below the function of
 * their netdev, like an HCA. */
static bool is_soft(const struct reader *x, const char *name)
{
	char path[PATH_SIZE], target[PATH_SIZE];

	snprintf(path, sizeof(path), "/sys/class/infiniband/%.63s", name);
	return strlen(name) < PCI_NAME_MAX &&
	       link_read(x->root, path, target, sizeof(target), NULL) >= 0 &&
	       strstr(target, "/devices/virtual/");
}

static void list_soft(const struct reader *x)
{
	auto_names struct names l = {0};

	if (dir_list(x->root, "/sys/class/infiniband", &l.v, &l.n, NULL) < 0)
		return;
	for (size_t i = 0; i < l.n; i++) {
		struct node_device *d;

		if (!is_soft(x, l.v[i]))
			continue;
		d = &VEC_PUSH(x->ret->v, x->ret->n);
		*d = (struct node_device){.class = NODE_SOFT,
					  .index = -1,
					  .numa = -1,
					  .iommu_group = -1,
					  .path = xstrdup("")};
		str_copy(d->id, sizeof(d->id), l.v[i]);
		read_soft_netdev(x, d);
		read_rdma(x->root, d);
	}
}

static bool is_gpu(const struct pci_dev *p)
{
	bool known = p->vendor == PCI_VENDOR_NVIDIA || p->vendor == PCI_VENDOR_AMD;

	if (*p->physfn)
		return false;
	/* Any vendor's display controller other than VGA, such as a 3D controller, counts as a
	 * GPU. A VGA controller counts only if NVIDIA or AMD made it, because it may be that of
	 * the BMC. */
	return p->class >> 16 == CLASS_DISPLAY ? p->class >> 8 != CLASS_VGA || known
					       : p->class >> 16 == CLASS_PROCESSING && known;
}

void node_gpu_parse_uuid(struct span information, char ret[static NODE_UUID_MAX])
{
	struct span line, key;

	*ret = '\0';
	while (information.n) {
		span_cut(&information, '\n', &line);
		span_cut(&line, ':', &key);
		line = span_trim(line);
		if (!span_eq(span_trim(key), "GPU UUID"))
			continue;
		if (span_has_prefix(line, "GPU-") && line.n < NODE_UUID_MAX &&
		    !memchr(line.p, '?', line.n) && !memchr(line.p, '\0', line.n)) {
			memcpy(ret, line.p, line.n);
			ret[line.n] = '\0';
		}
		return;
	}
}

static void read_uuid(const struct root *r, struct node_gpu *g)
{
	char path[PATH_SIZE];
	auto_buf struct buf b;

	buf_init(&b, INFORMATION_MAX);
	snprintf(path, sizeof(path), "/proc/driver/nvidia/gpus/%s/information", g->bdf);
	if (file_read(r, path, INFORMATION_MAX, &b, NULL) >= 0)
		node_gpu_parse_uuid(buf_span(&b), g->uuid);
}

static void read_gpu(const struct reader *x, const struct pci_dev *p)
{
	struct node_gpu *g = &VEC_PUSH(x->ret->gpus, x->ret->n_gpus);

	str_copy(g->bdf, sizeof(g->bdf), p->bdf);
	g->numa = p->numa;
	g->path = read_path(x->root, p->bdf);
	if (p->vendor == PCI_VENDOR_NVIDIA)
		read_uuid(x->root, g);
}

/* --- vDPA --- */

/* Returns the function with this address; NULL: none. The first n devices are the functions, sorted
 * by address. */
static struct node_device *function_of(const struct node_devices *l, size_t n, const char *bdf)
{
	struct node_device key = {0};

	return n && str_copy(key.id, sizeof(key.id), bdf)
		       ? bsearch(&key, l->v, n, sizeof(key), by_id)
		       : NULL;
}

static void read_vdpa(const struct reader *x, size_t n, const char *name)
{
	auto_names struct names l = {0};
	char path[PATH_SIZE], target[PATH_SIZE], *slash;
	struct node_device *d;

	snprintf(path, sizeof(path), "/sys/bus/vdpa/devices/%.31s", name);
	if (strlen(name) >= NODE_WORD_MAX ||
	    link_read(x->root, path, target, sizeof(target), NULL) < 0)
		return;
	/* ".../0000:3b:00.2/vdpa0" */
	slash = strrchr(target, '/');
	if (!slash)
		return;
	*slash = '\0';
	d = function_of(x->ret, n, path_base(target));
	if (!d)
		return;
	str_copy(d->vdpa, sizeof(d->vdpa), name);
	if (dir_list(x->root, path, &l.v, &l.n, NULL) == 0)
		for (size_t i = 0; i < l.n; i++)
			if (strncmp(l.v[i], "vhost-vdpa-", 11) == 0)
				str_copy(d->vdpa_char, sizeof(d->vdpa_char), l.v[i]);
	snprintf(path, sizeof(path), "/sys/bus/vdpa/devices/%.31s/driver", name);
	read_base(x->root, d->vdpa_driver, sizeof(d->vdpa_driver), path);
}

static void list_vdpa(const struct reader *x, size_t n)
{
	auto_names struct names l = {0};

	if (dir_list(x->root, "/sys/bus/vdpa/devices", &l.v, &l.n, NULL) < 0)
		return;
	for (size_t i = 0; i < l.n; i++)
		read_vdpa(x, n, l.v[i]);
}

/* --- attributes that a VF or SF takes from its PF --- */

/* A device in a pod has RDMA if its PF has RDMA and both have the same driver: mlx5 enables RDMA
 * for all functions or for none. */
static void take_rdma(struct node_device *d, const struct node_device *pf)
{
	if (d->away && node_device_is_rdma(pf) && strcmp(d->driver, pf->driver) == 0)
		d->rdma_enabled = true;
}

static void take_from_pf(const struct reader *x, size_t n)
{
	for (size_t i = 0; i < x->ret->n; i++) {
		struct node_device *d = &x->ret->v[i];
		const struct node_device *pf = *d->pf ? function_of(x->ret, n, d->pf) : NULL;

		if (!pf)
			continue;
		str_copy(d->pf_name, sizeof(d->pf_name), pf->netdev);
		take_rdma(d, pf);
		if (!*d->netdev)
			str_copy(d->link_type, sizeof(d->link_type), pf->link_type);
	}
}

/* --- all devices --- */

static void read_all(struct reader *x, const struct pci_dev *list, size_t n)
{
	size_t functions;

	read_routes(x->root, &x->routes);
	list_vfs(x, list, n);
	for (size_t i = 0; i < n; i++) {
		if (list[i].class >> 16 == CLASS_NETWORK)
			read_function(x, &list[i], NODE_NET);
		if (list[i].class >> 16 == CLASS_PROCESSING)
			read_function(x, &list[i], NODE_ACCELERATOR);
		if (is_gpu(&list[i]))
			read_gpu(x, &list[i]);
	}
	functions = x->ret->n;
	list_aux(x);
	list_soft(x);
	if (x->ret->n > functions)
		qsort(x->ret->v + functions, x->ret->n - functions, sizeof(*x->ret->v), by_id);
	list_vdpa(x, functions);
	take_from_pf(x, functions);
	x->ret->has_rdma_cm = file_exists(x->root, "/dev/infiniband/rdma_cm");
	x->ret->has_vhost_net = file_exists(x->root, "/dev/vhost-net");
}

int node_devices_read(const struct root *r, struct node_devices *ret, struct err *e)
{
	auto_free struct pci_dev *list = NULL;
	struct node_devices d = {0};
	struct reader x = {.root = r, .ret = &d};
	size_t n = 0;
	int code = file_exists(r, "/sys/bus/pci/devices") ? pci_list(r, &list, &n, e) : 0;

	if (code < 0)
		return code;
	read_all(&x, list, n);
	names_done(&x.routes);
	free(x.vfs);
	*ret = d;
	return 0;
}

static enum node_rdma_mode read_mode(void)
{
	enum rdma_netns_mode mode;
	int r = rdma_netns_mode_get(&mode, NULL);

	/* a kernel without RDMA modes always shares devices */
	if (r == -EOPNOTSUPP)
		return NODE_RDMA_SHARED;
	if (r < 0)
		return NODE_RDMA_UNKNOWN;
	return mode == RDMA_NETNS_EXCLUSIVE ? NODE_RDMA_EXCLUSIVE : NODE_RDMA_SHARED;
}

int node_devices_observe(const char *dir, struct node_devices *ret, struct err *e)
{
	struct root root;
	int r = root_open(&root, dir, e);

	if (r < 0)
		return r;
	r = node_devices_read(&root, ret, e);
	root_close(&root);
	if (r == 0 && !dir)
		ret->mode = read_mode();
	return r;
}

/* --- attributes that only devlink reports --- */

static bool wants_rdma(const struct node_device *d)
{
	return (d->class == NODE_NET || d->class == NODE_AUX) && !d->n_rdma &&
	       !pci_driver_is_dpdk(d->driver);
}

static bool wants_ddp(const struct node_device *d)
{
	return d->class != NODE_AUX && strcmp(d->vendor, INTEL) == 0;
}

bool node_device_wants_fact(const struct node_device *d)
{
	return wants_rdma(d) || wants_ddp(d);
}

void node_fact_read(struct devlink *devlink, const struct node_device *d, struct node_fact *ret)
{
	*ret = (struct node_fact){0};
	str_copy(ret->id, sizeof(ret->id), d->id);
	if (wants_rdma(d))
		(void)devlink_param_bool(devlink, d->id, "enable_rdma", &ret->rdma_enabled, NULL);
	if (wants_ddp(d))
		(void)devlink_info_version(devlink, d->id, "fw.app.name", ret->ddp,
					   sizeof(ret->ddp), NULL);
}

void node_devices_set_facts(struct node_devices *d, const struct node_fact *v, size_t n)
{
	size_t functions = node_devices_functions(d);

	for (size_t i = 0, k = 0; i < d->n && k < n; i++) {
		if (strcmp(d->v[i].id, v[k].id) != 0)
			continue;
		if (wants_rdma(&d->v[i]))
			d->v[i].rdma_enabled = v[k].rdma_enabled;
		str_copy(d->v[i].ddp, sizeof(d->v[i].ddp), v[k].ddp);
		k++;
	}
	for (size_t i = 0; i < d->n; i++) {
		const struct node_device *pf = *d->v[i].pf ? function_of(d, functions, d->v[i].pf)
							   : NULL;

		if (pf)
			take_rdma(&d->v[i], pf);
	}
}

void node_devices_read_facts(struct node_devices *d)
{
	auto_free struct node_fact *v = NULL;
	auto_nl struct nl_wire *generic = NULL;
	auto_devlink struct devlink *devlink = NULL;
	size_t n = 0;

	/* Ignores the error: a kernel without generic netlink has no devlink either. */
	if (nl_open(&generic, NL_GENERIC, -1, NULL) < 0 ||
	    devlink_open(&devlink, generic, NULL) < 0)
		return;
	for (size_t i = 0; i < d->n; i++)
		if (node_device_wants_fact(&d->v[i]))
			node_fact_read(devlink, &d->v[i], &VEC_PUSH(v, n));
	node_devices_set_facts(d, v, n);
}

void node_devices_done(struct node_devices *d)
{
	for (size_t i = 0; i < d->n; i++) {
		for (size_t k = 0; k < d->v[i].n_rdma; k++)
			free(d->v[i].rdma[k].chars);
		free(d->v[i].rdma);
		free(d->v[i].path);
	}
	for (size_t i = 0; i < d->n_gpus; i++)
		free(d->gpus[i].path);
	free(d->v);
	free(d->gpus);
	*d = (struct node_devices){0};
}

const struct node_device *node_device_find(const struct node_devices *d, const char *id)
{
	for (size_t i = 0; i < d->n; i++)
		if (strcmp(d->v[i].id, id) == 0)
			return &d->v[i];
	return NULL;
}

static bool is_id(const char *known, const char *id, size_t len)
{
	return *known && strlen(known) == len && memcmp(known, id, len) == 0;
}

const struct node_gpu *node_gpu_find(const struct node_devices *d, const char *id)
{
	const char *replica = strstr(id, "::");
	size_t len = replica ? (size_t)(replica - id) : strlen(id);

	for (size_t i = 0; i < d->n_gpus; i++)
		if (is_id(d->gpus[i].bdf, id, len) || is_id(d->gpus[i].uuid, id, len))
			return &d->gpus[i];
	return NULL;
}

bool node_device_is_rdma(const struct node_device *d)
{
	return d->n_rdma || d->rdma_enabled;
}

size_t node_devices_functions(const struct node_devices *d)
{
	size_t n = d->n;

	while (n && (d->v[n - 1].class == NODE_AUX || d->v[n - 1].class == NODE_SOFT))
		n--;
	return n;
}

int node_device_order(const char *a, const char *b)
{
	bool x = pci_bdf_ok(a), y = pci_bdf_ok(b);

	return x != y ? y - x : strcmp(a, b);
}

static void carry(struct node_device *d, const struct node_device *old, int64_t now_ms)
{
	if (!d->away && old->away)
		d->back_ms = now_ms;
	else if (!d->away && old->back_ms && now_ms - old->back_ms < NODE_RETURN_MS)
		d->back_ms = old->back_ms;
	if (!d->away && !d->back_ms)
		return;
	d->rdma_enabled = d->rdma_enabled || node_device_is_rdma(old);
	if (d->away || !d->n_rdma)
		str_copy(d->pkey, sizeof(d->pkey), old->pkey);
	if (*old->link_type && (d->away || !*d->netdev))
		str_copy(d->link_type, sizeof(d->link_type), old->link_type);
}

void node_devices_carry(struct node_devices *now, const struct node_devices *before, int64_t now_ms)
{
	for (size_t i = 0, k = 0; i < now->n; i++) {
		while (k < before->n && node_device_order(before->v[k].id, now->v[i].id) < 0)
			k++;
		if (k < before->n && strcmp(before->v[k].id, now->v[i].id) == 0)
			carry(&now->v[i], &before->v[k], now_ms);
	}
}

bool node_device_is_partial(const struct node_device *d, int64_t now_ms)
{
	return d->away || (node_device_is_rdma(d) && !d->n_rdma) ||
	       (d->back_ms && now_ms - d->back_ms < NODE_RETURN_MS);
}

static size_t depth(const char *path)
{
	size_t n = *path != '\0';

	for (; *path; path++)
		n += *path == '/';
	return n;
}

/* Returns how many parts both paths have in common at their beginning. */
static size_t common(const char *a, const char *b)
{
	size_t n = 0;

	while (*a && *b) {
		size_t la = strcspn(a, "/"), lb = strcspn(b, "/");

		if (la != lb || memcmp(a, b, la) != 0)
			break;
		n++;
		a += la + (a[la] == '/');
		b += lb + (b[lb] == '/');
	}
	return n;
}

/*
 * A path is root complex, root port, then for each switch its upstream and its downstream port.
 * Devices below one switch share all parts but the last, the downstream port: NCCL's PIX. Devices
 * below different root ports, or below no port, share no switch.
 */
enum node_distance node_distance(const char *path_a, int numa_a, const char *path_b, int numa_b)
{
	size_t n = common(path_a, path_b), a = depth(path_a), b = depth(path_b);

	if (n >= 2 && n + 1 >= a && n + 1 >= b)
		return NODE_SAME_SWITCH;
	if (n >= 2)
		return NODE_SAME_TREE;
	if (n == 1)
		return NODE_SAME_ROOT;
	return numa_a >= 0 && numa_a == numa_b ? NODE_SAME_NUMA : NODE_FAR;
}
