/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_DEVICE_RESOURCE_NODE_H
#define UNIRAIL_DEVICE_RESOURCE_NODE_H

/*
 * Reads into plain structs those devices of a node that can belong to a resource. Everything comes
 * from sysfs, /proc and /dev under a root (Documentation/ABI/testing/sysfs-bus-pci,
 * sysfs-class-net, sysfs-class-infiniband), so a recorded host can be read as well; only the RDMA
 * mode comes from netlink, and DDP profiles and the parameter enable_rdma come from devlink (struct
 * node_fact).
 *
 * Unlike device/inventory.h, it reads only attributes that a selector or a response needs (not the 256 GIDs of a port,
 * or settings of VFs), because a device plugin rescans nodes with 1,000 VFs.
 */

#include "kern/net/link.h"
#include "kern/pci/devlink.h"
#include "kern/pci/pci.h"

enum { NODE_WORD_MAX = 32, NODE_CHAR_MAX = 24, NODE_UUID_MAX = 48, NODE_DDP_MAX = 64 };

enum node_class {
	NODE_NET,	  /* PCI class 02: Ethernet, InfiniBand */
	NODE_ACCELERATOR, /* PCI class 12 */
	NODE_AUX,	  /* a scalable function, "mlx5_core.sf.4" */
	NODE_SOFT, /* an RDMA device without hardware (soft-RoCE), which has no PCI attributes; its id is its name */
};

/* Kinds of character devices, in the order of rdmamap, which both originals use. */
enum node_char_kind { NODE_UCM, NODE_ISSM, NODE_UMAD, NODE_UVERBS, NODE_CHAR_KINDS };
/* returns a name such as "ucm", "issm", "umad", "uverbs" */
const char *node_char_kind_name(enum node_char_kind kind);

/* A character device of an HCA: /dev/infiniband/NAME. */
struct node_char {
	enum node_char_kind kind;
	char name[NODE_CHAR_MAX]; /* "uverbs0" */
};

struct node_rdma {
	char name[PCI_NAME_MAX];
	char pkey[8]; /* first PKey of port 1, "0xffff"; "": unknown */
	/* character devices of all ports, sorted by kind, then by name */
	struct node_char *chars;
	size_t n_chars;
};

struct node_device {
	enum node_class class;
	char id[PCI_NAME_MAX]; /* PCI address, or name of the auxiliary or software device */
	char bdf[PCI_BDF_MAX]; /* PCI address of the function, or of an auxiliary device's parent */
	char vendor[5], product[5];
	char driver[PCI_DRIVER_MAX]; /* "": none */
	char pf[PCI_BDF_MAX];	     /* PF of a VF, parent of an auxiliary device; "": neither */
	/* netdev of the device in `pf`, in switchdev mode the uplink netdev; "": none in this
	 * namespace */
	char pf_name[LINK_NAME_MAX];
	int64_t index; /* VF number or SF number; -1: neither, or unknown */
	bool is_pf;    /* the function can have VFs */
	uint32_t num_vfs;
	int numa; /* -1: unknown */
	/* the first of the device's netdevs in the order of their names; representors do not
	 * count; "": none in this namespace */
	char netdev[LINK_NAME_MAX];
	/* "ether" or "infiniband"; a VF or SF without a netdev has the link type of the PF's
	 * netdev; "": unknown */
	char link_type[16];
	bool default_route; /* one of its netdevs has the node's IPv4 default route */
	char acpi_index[NODE_WORD_MAX];
	char pkey[8];
	char ddp[NODE_DDP_MAX];		 /* name of the running DDP package; "": unknown */
	char vdpa[NODE_WORD_MAX];	 /* "vdpa0"; "": none */
	char vdpa_driver[NODE_WORD_MAX]; /* "vhost_vdpa", "virtio_vdpa" */
	char vdpa_char[NODE_WORD_MAX];	 /* "vhost-vdpa-0": name in /dev */
	char uio[NODE_CHAR_MAX];	 /* "uio0"; "": none */
	int iommu_group;		 /* -1: none */
	bool noiommu;
	struct node_rdma *rdma;
	size_t n_rdma;
	/* the device has RDMA even while its RDMA device is in a pod: reported by devlink, or taken
	 * from the PF or the last scan */
	bool rdma_enabled;
	/* VF or SF with a kernel driver, but without netdev and RDMA device here: it is in a pod */
	bool away;
	/* time at which the device was first seen again after it had been away; 0: it is away
	 * now, or was not away within the last NODE_RETURN_MS */
	int64_t back_ms;
	const char *unhealthy; /* the reason, owned by device/serve/health; NULL: healthy */
	/* the root complex and the ports above the function,
	 * "pci0000:3a/0000:3a:01.0/0000:3b:00.0/0000:3c:04.0"; "": unknown */
	char *path;
};

struct node_gpu {
	char bdf[PCI_BDF_MAX];
	/* id that NVIDIA's device plugin gives the GPU, "GPU-7b1f0c8e-..."; "": unknown, or a
	 * GPU of another vendor */
	char uuid[NODE_UUID_MAX];
	int numa;
	char *path;
};

enum { NODE_RETURN_MS = 10 * 1000 };

enum node_rdma_mode { NODE_RDMA_UNKNOWN, NODE_RDMA_SHARED, NODE_RDMA_EXCLUSIVE };

struct node_devices {
	/* functions sorted by address, then auxiliary and software devices sorted by name */
	struct node_device *v;
	size_t n;
	/* display controllers that are not VGA (such as 3D controllers) of any vendor; VGA
	 * controllers and processing accelerators only of NVIDIA and AMD; no VFs; sorted by
	 * address */
	struct node_gpu *gpus;
	size_t n_gpus;
	enum node_rdma_mode mode; /* set only by node_devices_observe(): netlink reports it */
	bool has_rdma_cm, has_vhost_net;
};

/* Reads all attributes except the RDMA mode and those that need devlink. A host without PCI is
 * not an error. */
int node_devices_read(const struct root *r, struct node_devices *ret, struct err *e);
/* Reads this host (dir NULL) with the RDMA mode, or the files of another host, whose RDMA mode is unknown. */
int node_devices_observe(const char *dir, struct node_devices *ret, struct err *e);
void node_devices_done(struct node_devices *d);
#define auto_node_devices __attribute__((cleanup(node_devices_done)))

/*
 * Attributes of a device that only devlink reports. A driver holds the devlink lock of a device
 * while it resets the device. A request may wait for this lock for seconds, and a killed process
 * ends only after this wait. So in a daemon a child process sends the requests
 * (device/serve/facts.h).
 */
struct node_fact {
	char id[PCI_NAME_MAX];
	bool rdma_enabled;
	char ddp[NODE_DDP_MAX];
};

/* Returns whether devlink is needed for the device: it has no RDMA device here but may have one in
 * a pod, or it may run a DDP package. */
bool node_device_wants_fact(const struct node_device *d);
/* May block. */
void node_fact_read(struct devlink *devlink, const struct node_device *d, struct node_fact *ret);
/* v: results of node_fact_read() in the order of the devices. A device without a result is not
 * changed, except that a device in a pod takes rdma_enabled from its PF if both have the same
 * driver. */
void node_devices_set_facts(struct node_devices *d, const struct node_fact *v, size_t n);
/* Reads and sets the facts of all devices; may block. Without devlink in the kernel, none is set. */
void node_devices_read_facts(struct node_devices *d);

/*
 * Retains attributes of devices that are in a pod, whose netdev and RDMA device are not visible
 * here: copies from `before` the link type, the PKey and whether the device has RDMA, so that it
 * stays in its resource. Does the same for NODE_RETURN_MS after the device has returned, because
 * the kernel returns netdev, RDMA device and character devices one after the other. `before` is
 * borrowed. now_ms: monotonic, not 0.
 */
void node_devices_carry(struct node_devices *now, const struct node_devices *before,
			int64_t now_ms);
/* Returns whether parts of the device may have been in a pod when it was read, so that it must be
 * read again before it is allocated. */
bool node_device_is_partial(const struct node_device *d, int64_t now_ms);

/* Returns how many of the devices are PCI functions, which are at the beginning of the list. */
size_t node_devices_functions(const struct node_devices *d);
/* Compares two ids by the order of struct node_devices; the result is like that of strcmp(). */
int node_device_order(const char *a, const char *b);
const struct node_device *node_device_find(const struct node_devices *d, const char *id);
bool node_device_is_rdma(const struct node_device *d);

/*
 * Finds a GPU by the id that a GPU device plugin reported to the kubelet. The id is the GPU's PCI
 * address or NVIDIA's UUID; a suffix "::N" (replica of a shared GPU) is ignored. NULL: no GPU of
 * this node, or a part of a GPU (a MIG device has its own UUID).
 */
const struct node_gpu *node_gpu_find(const struct node_devices *d, const char *id);
/* Reads the line "GPU UUID:" of /proc/driver/nvidia/gpus/BDF/information. "": missing, or not known to the driver yet
 * ("GPU-????"). */
void node_gpu_parse_uuid(struct span information, char ret[static NODE_UUID_MAX]);

/* Distance between two devices; a smaller value is nearer. NODE_SAME_SWITCH: below the same PCIe
 * switch, or directly below the same port (NCCL's path type PIX); NODE_SAME_TREE: same root port
 * (PXB); NODE_SAME_ROOT: same root complex (PHB); NODE_SAME_NUMA: same NUMA node; NODE_FAR: none
 * of these (SYS). */
enum node_distance { NODE_SAME_SWITCH, NODE_SAME_TREE, NODE_SAME_ROOT, NODE_SAME_NUMA, NODE_FAR };
enum node_distance node_distance(const char *path_a, int numa_a, const char *path_b, int numa_b);

#endif
