/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CNI_CLUSTER_DEL_H
#define UNIRAIL_CNI_CLUSTER_DEL_H

/*
 * What was noted of a container in Multus' files (cni/multi/cache.c), as a call of unirail-cni again:
 * so CHECK and DEL need neither agent, API server, pod nor definition.
 */

#include "cni/protocol/cni.h"

enum pod_note_kind {
	POD_NOTE_NONE,
	POD_NOTE_OTHER, /* Multus' own, or it cannot be read: cni/multus/import.h */
	POD_NOTE_OURS,
};

struct pod_note {
	struct cni_call call; /* with the document, and the runtime's prevResult */
	struct cni_result *
		*results; /* what each network said, in the document's order; NULL: not known */
	size_t n_results;
	bool has_results; /* of one at least */
};

/* `c` is the call; what it has of prevResult counts where no result is noted. */
enum pod_note_kind pod_note_read(const struct cni_call *c, const char *cni_dir, const char *bin_dir,
				 struct pod_note *ret);
/* The noted results become those of x's networks, which were read of n->call. */
struct aio;
void pod_note_results(struct pod_note *n, struct aio *x);
/* DEL of what is noted; pod_del.c. */
int pod_note_del(struct pod_note *n, struct err *e);
/* A noted network as one of unirail-cni's configuration; without what is of its one attachment unless
 * `attached`. */
struct network;
struct json_out;
int pod_note_put_network(struct json_out *o, const struct network *net, bool attached,
			 struct err *e);
void pod_note_done(struct pod_note *n);
#define auto_pod_note __attribute__((cleanup(pod_note_done)))

/* --- device information files, below /var/run/k8s.cni.cncf.io/devinfo --- */

/* The device plugin's file of a device to where the pod's network has it; nothing is there: nothing
 * happens. */
void pod_devinfo_copy(const struct root *r, const char *resource, const char *device,
		      const char *to);
struct json_doc *pod_devinfo_read(const struct root *r, const char *path); /* NULL: none */
void pod_devinfo_remove(const struct root *r, const char *path);

#endif
