/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_DEVICE_ALLOCATED_H
#define UNIRAIL_DEVICE_ALLOCATED_H

/*
 * The devices that the kubelet allocated to one pod, by resource, to be assigned to its networks in
 * turn. The kubelet's order has no meaning, so PCI addresses are sorted by number and other
 * ids naturally ("vf-2" before "vf-10"), over all containers. So the n-th network of a resource
 * gets the same device each time, whether the kubelet's socket or its checkpoint is read.
 */

#include "base/file.h"
#include "device/podres_pb.h"

struct allocated_ids {
	char *resource, **ids;
	size_t n, taken;
};

struct allocated {
	struct allocated_ids *v;
	size_t n;
};

void allocated_done(struct allocated *a);
#define auto_allocated __attribute__((cleanup(allocated_done)))

/* Appends an id unless the list already has it. */
void allocated_add(struct allocated *a, struct span resource, struct span id);
void allocated_sort(struct allocated *a);
/* Returns the next id of the resource, owned by `a`; NULL: none is left. */
const char *allocated_take(struct allocated *a, const char *resource);
/* Returns whether the kubelet allocated this device to the pod. resource NULL: any resource. */
bool allocated_has(const struct allocated *a, const char *resource, const char *id);

/* --- sources; each appends its ids and sorts the list --- */
void allocated_podres(struct allocated *a, const struct podres_list *l, const char *ns,
		      const char *name);
/*
 * Reads the kubelet's checkpoint file, in which DeviceIDs is one list, or one list for each NUMA
 * node. The pod is identified by its UID.
 */
int allocated_checkpoint(struct allocated *a, struct span text, const char *uid, struct err *e);

/*
 * The kubelet's allocations of all pods, requested once: from its socket below the root, or without
 * a socket from its checkpoint; without both no pod has devices. kubelet_query() waits
 * PODRES_TIMEOUT_MS at most. A kubelet limits the rate of such requests (about 100 per second, 10
 * at once) and refuses more, so read many pods by one request.
 */
struct kubelet {
	struct podres_list list;
	struct buf checkpoint;
	bool has_list;
};
int kubelet_query(struct kubelet *k, const struct root *root, struct err *e);
int kubelet_devices(const struct kubelet *k, const char *ns, const char *name, const char *uid,
		    struct allocated *a, struct err *e);
void kubelet_done(struct kubelet *k);
#define auto_kubelet __attribute__((cleanup(kubelet_done)))

/*
 * Writes and parses lines of "resource<tab>id", by which a child process passes the ids to its
 * parent.
 */
void allocated_print(const struct allocated *a, struct buf *b);
void allocated_parse(struct allocated *a, struct span text);

#endif
