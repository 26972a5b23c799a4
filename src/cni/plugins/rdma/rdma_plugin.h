/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CNI_PLUGINS_RDMA_RDMA_PLUGIN_H
#define UNIRAIL_CNI_PLUGINS_RDMA_RDMA_PLUGIN_H

/*
 * The rdma plugin: moves the RDMA device of a NIC into the pod, which needs the RDMA subsystem's
 * exclusive mode. It runs in a chain, after the plugin that moved the NIC. Its netconf, keys
 * matched as Go's encoding/json does:
 *
 *	deviceID	PCI address, or auxiliary device ("mlx5_core.sf.4"). If not given, the first
 *			that exists: runtimeConfig.deviceID, the pciID of prevResult's interface,
 *			the VF whose administrative MAC is the MAC of that interface
 *	args.cni.debug	true: every step is logged
 *
 * Before the move, the device is recorded in a file of the original's format, which both programs
 * can read:
 *
 *	/var/lib/cni/rdma/<network>-<container id>-<interface>
 *	{"version":"1.0","deviceID":"0000:3b:00.2","sandboxRdmaDevName":"mlx5_2",
 *	 "containerRdmaDevName":"mlx5_2", "network":..,"containerID":..,"ifname":..,"netns":..}
 *
 * (one line; the last four are unirail's, for GC). DEL moves the device back under its former name.
 * It also finds the device without the file. If the namespace no longer exists, the kernel has
 * returned the device to the node, under the name that the pod gave it.
 */

#include "cni/plugins/chained.h"
#include "cni/device/rdma_move.h"
#include "kern/pci/pci.h"

#define RDMA_STATE_DIR "/var/lib/cni/rdma"

enum { RDMA_NETNS_MAX = 256 };

/* --- the state file: state.c --- */

struct rdma_state {
	char device[PCI_NAME_MAX];
	/* name of the device on the node (in the file: sandboxRdmaDevName, as in the original) */
	char host_name[RDMA_NAME_MAX];
	char in_pod[RDMA_NAME_MAX]; /* name of the device in the pod */
	/* attachment that owns the device; "" if the file does not name it: the file is of the
	 * original plugin, or a name was too long */
	char network[128], container[256], ifname[16], netns[RDMA_NETNS_MAX];
};

void rdma_state_print(const struct rdma_state *s, struct buf *b);
/* Parses a state file. -EINVAL: the text is not a valid state file. */
int rdma_state_parse(struct span text, struct rdma_state *ret, struct err *e);
char *rdma_state_path(const char *network, const char *container, const char *ifname);
/* Reads a state file. -ENOENT (e set): there is none; -EINVAL: its content is invalid. */
int rdma_state_load(const struct root *r, const char *path, struct rdma_state *ret, struct err *e);
int rdma_state_save(const struct root *r, const char *path, const struct rdma_state *s,
		    struct err *e);
/* GC: removes temporary files of killed processes. */
void rdma_state_sweep(const struct root *r);
/* On entry, e holds the error that the device is in another namespace. If a state file other
 * than `but` names the device and its owner, appends the owner to the text of e. Returns -EBUSY. */
int rdma_state_held(const struct root *r, const char *device, const char *but, struct err *e);
/*
 * Returns whether the state file of this name belongs to an attachment of c's network, and this
 * attachment is not valid any more. A file of the original plugin names its attachment only in the
 * file's name, "<network>-<64 hex digits>-<interface>"; with a name of another form such a file is
 * never stale. Pure.
 */
bool rdma_state_is_stale(const struct cni_call *c, const char *name, const struct rdma_state *s);

/* --- return to the node: restore.c --- */

/* Sets s->in_pod to the current name of the device: the pod may have changed it. */
void rdma_restore_name(const struct root *root, struct rdma_state *s);
/* Returns whether a device of the name s->in_pod is on the node. */
bool rdma_restore_is(const struct rdma_state *s);
/* Opens the network namespace that the state file names, for GC and for a DEL with empty
 * CNI_NETNS. Returns a descriptor, or -1. */
int rdma_restore_netns(const struct rdma_state *s);
/* Moves the device back to the node. netns -1: the pod's namespace does not exist. -EBUSY
 * (ERR_AGAIN): the pod renamed the device, and the kernel has not yet returned it to the node. 0
 * does not mean that the device is on the node, see rdma_restore_is(). */
int rdma_restore(const struct root *root, int netns, struct rdma_state *s, struct err *e);

/* --- selection of the device: rdma.c --- */

/* Reads the device from the configuration; "": not set. Kind ERR_CONF. */
int rdma_conf_device(const struct chained_call *m, char ret[static PCI_NAME_MAX], struct err *e);
/* Reads the device from the configuration, otherwise finds it by prevResult. */
int rdma_device(const struct chained_call *m, const struct cni_result *prev,
		char ret[static PCI_NAME_MAX], struct err *e);
/* Returns the interface of prevResult that identifies the device: the pod's interface with this
 * name; without one, prevResult's interface if it has exactly one. NULL: none. Pure. */
const struct cni_iface *rdma_device_iface(const struct cni_result *prev, const char *ifname);

#endif
