/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_DEVICE_RESOURCE_NODE_H
#define UNIRAIL_DEVICE_RESOURCE_NODE_H

/*
 * Observe: the devices of a node that a resource can hold, as plain structs. Everything comes from sysfs, /proc and /dev
 * under a root (Documentation/ABI/testing/sysfs-bus-pci, sysfs-class-net, sysfs-class-infiniband), so that a recorded host
 * does as well; only DDP profiles and the parameter enable_rdma need devlink.
 *
 * Unlike device/inventory.h nothing is read that no selector and no answer needs (the 256 GIDs of a port, settings of VFs):
 * a device plugin rescans nodes of 1,000 VFs.
 */

#include "kern/net/link.h"
#include "kern/pci/devlink.h"
#include "kern/pci/pci.h"

enum { NODE_WORD_MAX = 32, NODE_CHAR_MAX = 24, NODE_UUID_MAX = 48 };

enum node_class {
	NODE_NET,	  /* PCI class 02: Ethernet, InfiniBand */
	NODE_ACCELERATOR, /* PCI class 12 */
	NODE_AUX,	  /* a scalable function, "mlx5_core.sf.4" */
};

/* In the order in which rdmamap lists them, and so both originals. */
enum node_char_kind { NODE_UCM, NODE_ISSM, NODE_UMAD, NODE_UVERBS, NODE_CHAR_KINDS };
const char *node_char_kind_name(enum node_char_kind kind); /* "ucm", "issm", "umad", "uverbs" */

/* A character device of an HCA: /dev/infiniband/NAME. */
struct node_char {
	enum node_char_kind kind;
	char name[NODE_CHAR_MAX]; /* "uverbs0" */
};

struct node_rdma {
	char name[PCI_NAME_MAX];
	char pkey[8];		 /* port 1's first one, "0xffff"; "" unknown */
	struct node_char *chars; /* of all ports: by kind, then by name */
	size_t n_chars;
};

struct node_device {
	enum node_class class;
	char id[PCI_NAME_MAX]; /* the PCI address, or the auxiliary device's name */
	char bdf[PCI_BDF_MAX]; /* of the function; of an auxiliary device's parent */
	char vendor[5], product[5];
	char driver[PCI_DRIVER_MAX]; /* "" none */
	char pf[PCI_BDF_MAX];	     /* a VF's PF, an auxiliary device's parent; "" neither */
	char pf_name[LINK_NAME_MAX]; /* netdev of that PF: in switchdev mode its uplink; "" none here */
	int64_t index;		     /* VF number, SF number; -1 neither */
	bool is_pf;		     /* can have VFs */
	uint32_t num_vfs;
	int numa;		    /* -1 unknown */
	char netdev[LINK_NAME_MAX]; /* the first by name, without representors; "" none here */
	char link_type
		[16]; /* "ether", "infiniband"; of the PF's netdev where it has none itself; "" unknown */
	bool default_route; /* a netdev of it carries the node's IPv4 default route */
	char acpi_index[NODE_WORD_MAX];
	char pkey[8];
	char ddp[64];			 /* name of the DDP package that runs; "" unknown */
	char vdpa[NODE_WORD_MAX];	 /* "vdpa0"; "" none */
	char vdpa_driver[NODE_WORD_MAX]; /* "vhost_vdpa", "virtio_vdpa" */
	char vdpa_char[NODE_WORD_MAX];	 /* "vhost-vdpa-0": in /dev */
	char uio[NODE_CHAR_MAX];	 /* "uio0"; "" none */
	int iommu_group;		 /* -1 none */
	bool noiommu;
	struct node_rdma *rdma;
	size_t n_rdma;
	bool rdma_enabled; /* devlink says so: also while the RDMA device is in a pod */
	bool away; /* a VF or SF with a kernel driver that has neither netdev nor RDMA device here: it is in a pod */
	int64_t back_ms; /* when it was first seen here after it had been away; 0: it was not, or long ago */
	const char *unhealthy; /* the reason, owned by device/serve/health; NULL: healthy */
	char *path; /* "pci0000:3a/0000:3a:01.0/0000:3b:00.0": the root complex and the ports above it; "" unknown */
};

struct node_gpu {
	char bdf[PCI_BDF_MAX];
	char uuid[NODE_UUID_MAX]; /* "GPU-7b1f0c8e-...": the id of NVIDIA's device plugin; "" unknown or of another vendor */
	int numa;
	char *path;
};

enum { NODE_RETURN_MS = 10 * 1000 };

enum node_rdma_mode { NODE_RDMA_UNKNOWN, NODE_RDMA_SHARED, NODE_RDMA_EXCLUSIVE };

struct node_devices {
	struct node_device *v; /* functions by address, then auxiliary devices by name */
	size_t n;
	struct node_gpu *gpus; /* display and 3D controllers with a driver, by address */
	size_t n_gpus;
	enum node_rdma_mode mode; /* set by the caller: netlink tells, not sysfs */
	bool has_rdma_cm, has_vhost_net;
};

/* devlink: NULL: DDP profiles and enable_rdma are not asked for. No PCI is no error. */
int node_devices_read(const struct root *r, struct devlink *devlink, struct node_devices *ret,
		      struct err *e);
/* Of this host (dir NULL), with devlink and the RDMA mode; or of another host's files, whose RDMA mode is unknown. */
int node_devices_observe(const char *dir, struct node_devices *ret, struct err *e);
void node_devices_done(struct node_devices *d);
#define auto_node_devices __attribute__((cleanup(node_devices_done)))

/*
 * For a device in a pod, its netdev and its RDMA device are not visible. What `before` knew of it
 * (link type, PKey) is copied, and that it has RDMA is kept, so that it stays in its resource. The
 * same holds for NODE_RETURN_MS after it was away: the kernel brings back the netdev, the RDMA
 * device and its character devices one after the other. `before` stays the caller's. now_ms:
 * monotonic, not 0.
 */
void node_devices_carry(struct node_devices *now, const struct node_devices *before,
			int64_t now_ms);
/* Part of it may have been elsewhere when it was read: read it again before it is given to a container. */
bool node_device_is_partial(const struct node_device *d, int64_t now_ms);

const struct node_device *node_device_find(const struct node_devices *d, const char *id);
bool node_device_is_rdma(const struct node_device *d);

/*
 * The GPU that a device plugin of GPUs gave the kubelet the id of: its PCI address, or NVIDIA's UUID; "::N" after it (one of
 * several replicas of a shared GPU) is ignored. NULL: none of this node, or a part of a GPU (a MIG device has a UUID of its own).
 */
const struct node_gpu *node_gpu_find(const struct node_devices *d, const char *id);
/* From /proc/driver/nvidia/gpus/BDF/information, its line "GPU UUID:". "": none, or not known to the driver yet ("GPU-????"). */
void node_gpu_parse_uuid(struct span information, char ret[static NODE_UUID_MAX]);

/* How near two devices are, nearest first: as NCCL's path types PIX, PXB, PHB, SYS. Equal paths are the same switch. */
enum node_distance { NODE_SAME_SWITCH, NODE_SAME_TREE, NODE_SAME_ROOT, NODE_SAME_NUMA, NODE_FAR };
enum node_distance node_distance(const char *path_a, int numa_a, const char *path_b, int numa_b);

#endif
