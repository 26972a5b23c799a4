/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CNI_DEVICE_VF_RECORD_H
#define UNIRAIL_CNI_DEVICE_VF_RECORD_H

/*
 * The state of a VF before a pod got it, on disk before the first change: a process that is killed
 * at any instruction leaves either an unchanged VF or a record to restore it from. One file per
 * attachment, DIR/<container>-<interface>, in format and place of the original plugin's cache, so
 * that either program can delete a pod of the other. Additional data is in the member "unirail",
 * which the Go programs ignore.
 *
 * The file is written once: all changes of an ADD are known when it begins, and the restore
 * compares with the current state, so it does not matter how far the ADD came.
 */

#include "base/file.h"
#include "kern/pci/pci.h"
#include "kern/net/vf.h"
#include "wire/json/json.h"

enum { VF_RECORD_MAX = 1 << 20 };

struct vf_record {
	char *file; /* file name; NULL: not on disk yet */
	char *network;
	char device[PCI_BDF_MAX]; /* the VF */
	char pf[LINK_NAME_MAX];	  /* name of the PF's netdev at the ADD; "": none */
	uint32_t mtu;		  /* MTU in the pod */
	struct mac pod_mac;	  /* the requested MAC; len 0: none */
	unsigned int requested;	  /* VF_ATTR_* that the pod was given (cni/device/vf_plan.h) */

	/* state of the VF before the ADD */
	struct vf_info was;	  /* was.vf is the VF number; MAC length 0: unknown */
	char name[LINK_NAME_MAX]; /* name of the netdev; "": none (DPDK) */
	struct mac mac;		  /* effective MAC */
	uint32_t link_mtu;	  /* MTU of the netdev; 0: not known */

	/* from the member "unirail"; in a record without it, the store's parse() and
	 * vf_record_load() set what the record's text and file name contain */
	bool by_unirail;
	char *container, *ifname, *netns;
	char *pod;  /* "namespace/name"; NULL: not known */
	char *boot; /* boot id of the kernel: VFs do not survive a reboot */
	/* identifies the function among those that had this PCI address since boot */
	char *instance;
	char alias[LINK_ALIAS_MAX];
	char **altnames;
	size_t n_altnames;
	bool up, dpdk;
	char rdma[PCI_NAME_MAX]; /* the VF's RDMA device; "": it has none, or it was not moved */
};

void vf_record_done(struct vf_record *r);
#define auto_vf_record __attribute__((cleanup(vf_record_done)))

/* --- the member "unirail" of a record --- */
void vf_record_put(struct json_out *o, const struct vf_record *r);
/* Reads the member "unirail"; without it, in a record of the original plugin, r is unchanged. GUIDs
 * are stored in r->was. */
int vf_record_take(struct json_doc *d, const struct json *v, struct vf_record *r, struct err *e);

/* --- files of the records --- */
/* A plugin's directory and file format. */
struct vf_store {
	const char *dir; /* "/var/lib/cni/sriov" */
	int (*parse)(struct span text, struct vf_record *ret, struct err *e);
};

/* Reads a record. -ENOENT: there is none; other errors: it exists but cannot be read. */
int vf_record_load(const struct root *root, const struct vf_store *s, const char *container,
		   const char *ifname, struct vf_record *ret, struct err *e);
/* Writes `text`, in the format that the store's parse() reads; file mode 0600, directory 0700,
 * both synced before it returns. Sets r->file. DIR/.lock is held meanwhile:
 * vf_record_sweep() takes this lock, so it finds no temporary file that is still being written. */
int vf_record_save(const struct root *root, const struct vf_store *s, struct vf_record *r,
		   struct span text, struct err *e);
/* GC: removes temporary files of killed processes. */
void vf_record_sweep(const struct root *root, const struct vf_store *s);
/* Removes the record; a missing file is success. */
int vf_record_remove(const struct root *root, const struct vf_store *s, const char *file,
		     struct err *e);
/* Calls fn for each readable record. A negative return ends the iteration and is returned; the
 * record is freed after the call. */
typedef int (*vf_record_fn)(void *arg, struct vf_record *r, struct err *e);
int vf_record_each(const struct root *root, const struct vf_store *s, vf_record_fn fn, void *arg,
		   struct err *e);
/* "<container>-<ifname>"; the caller frees it. */
char *vf_record_file(const char *container, const char *ifname);
/* Reads the kernel's boot id; "" if /proc does not provide it. */
void vf_record_boot(const struct root *root, char ret[static 40]);
/* Reads the inode number of the function's sysfs entry, which changes when the function is
 * recreated; "" if there is no entry. */
void vf_record_instance(const struct root *root, const char *bdf, char ret[static 24]);

/* Returns whether the function was recreated after the record was written, by a reboot or a change
 * of the number of VFs. The recorded state is then obsolete. */
bool vf_record_is_past(const struct root *root, const struct vf_record *r);

#endif
