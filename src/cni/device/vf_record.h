/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CNI_DEVICE_VF_RECORD_H
#define UNIRAIL_CNI_DEVICE_VF_RECORD_H

/*
 * What a VF was before a pod got it, on disk before its first change: a program that is killed at
 * any instruction leaves either a VF as it was or a record to put it back by. One file an
 * attachment, DIR/<container>-<interface>, in the form and place of the original's cache, so that
 * a pod made by either is deleted by the other. What only we keep stands in it under "unirail",
 * which the Go programs pass over.
 *
 * The file is written once: everything that an ADD will do is known when it begins, and going back
 * compares with what is there, so that it does not matter how far the ADD came.
 */

#include "base/file.h"
#include "kern/pci/pci.h"
#include "kern/net/vf.h"
#include "wire/json/json.h"

enum { VF_RECORD_MAX = 1 << 20 };

struct vf_record {
	char *file; /* its name in the folder; NULL: not on disk yet */
	char *network;
	char device[PCI_BDF_MAX]; /* the VF */
	char pf[LINK_NAME_MAX];	  /* its PF's netdev then; "" none */
	uint32_t mtu;		  /* in the pod */
	struct mac pod_mac;	  /* what it asked for; len 0: nothing */
	unsigned int asked;	  /* VF_ATTR_* that the pod was given (cni/device/vf_plan.h) */

	/* as it was */
	struct vf_info was;	  /* was.vf is the number; MAC length 0: not known */
	char name[LINK_NAME_MAX]; /* the netdev's; "": it had none (DPDK) */
	struct mac mac;		  /* its effective one */
	uint32_t link_mtu;	  /* 0: not known */

	/* in our own records only */
	bool ours;
	char *container, *ifname, *netns;
	char *pod;	/* "namespace/name"; NULL: not known */
	char *boot;	/* which boot of the kernel: VFs do not outlive it */
	char *instance; /* which of the functions that had this address since then */
	char alias[LINK_ALIAS_MAX];
	char **altnames;
	size_t n_altnames;
	bool up, dpdk;
	char rdma[PCI_NAME_MAX]; /* the VF's RDMA device; "" none, or none was moved */
};

void vf_record_done(struct vf_record *r);
#define auto_vf_record __attribute__((cleanup(vf_record_done)))

/* --- the part under "unirail" --- */
void vf_record_put(struct json_out *o, const struct vf_record *r);
/* v absent: the original's record, left as it is. GUIDs go into r->was. */
int vf_record_take(struct json_doc *d, const struct json *v, struct vf_record *r, struct err *e);

/* --- files --- */
/* A plugin's folder and form. */
struct vf_store {
	const char *dir; /* "/var/lib/cni/sriov" */
	int (*parse)(struct span text, struct vf_record *ret, struct err *e);
};

/* -ENOENT: there is none. Any other failure: there is one that cannot be read. */
int vf_record_load(const struct root *root, const struct vf_store *s, const char *container,
		   const char *ifname, struct vf_record *ret, struct err *e);
/* text: what the store's parse reads. File 0600, folder 0700, both on disk at return. Sets
 * r->file. DIR/.lock is held meanwhile, so that GC can tell what nobody writes any more. */
int vf_record_save(const struct root *root, const struct vf_store *s, struct vf_record *r,
		   struct span text, struct err *e);
/* GC: what kills left of files that were being written. */
void vf_record_sweep(const struct root *root, const struct vf_store *s);
/* None is success. */
int vf_record_remove(const struct root *root, const struct vf_store *s, const char *file,
		     struct err *e);
/* Of every file that can be read. A negative return ends the walk and is returned; the record is
 * gone after the call. */
typedef int (*vf_record_fn)(void *arg, struct vf_record *r, struct err *e);
int vf_record_each(const struct root *root, const struct vf_store *s, vf_record_fn fn, void *arg,
		   struct err *e);
/* "<container>-<ifname>"; free() it. */
char *vf_record_file(const char *container, const char *ifname);
/* This boot of the kernel; "" when /proc does not tell. */
void vf_record_boot(const struct root *root, char ret[static 40]);
/* The number of the function's entry in sysfs, which a function that is made anew does not get
 * again; "" when there is none. */
void vf_record_instance(const struct root *root, const char *bdf, char ret[static 24]);

/* The function was made anew since, by a reboot or a change of the number of VFs: what the pod had
 * is no more. */
bool vf_record_is_past(const struct root *root, const struct vf_record *r);

#endif
