/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CNI_MULTUS_IMPORT_H
#define UNIRAIL_CNI_MULTUS_IMPORT_H

/*
 * DEL of a pod that Multus attached, before this node's runtime called unirail-cni in its place.
 * conf.cniDir, else conf.multusCniDir (default /var/lib/cni/multus; "": never) is where Multus kept
 * its state.
 *
 * Each delegate of the scratch file, last one first: unirail's plugins in process, any other
 * executed, with the result in libcni's cache as prevResult. A scratch file that cannot be read is
 * reported and stops nothing: the cache files of the container tell about its networks as well.
 * What was deleted loses its cache file, and the scratch file goes when nothing is left or what is
 * left has a cache file; so a DEL after one that failed does what is left.
 *
 * 1: it was Multus', and all of it is gone. 0: it was not (or Multus itself calls us as one of its
 * delegates, or it is this network's own entry).
 */

#include "cni/protocol/cni.h"

extern const struct json_table multus_import_table; /* conf.multusCniDir */
int multus_del(const struct cni_call *c, struct err *e);
/* The same with its state in `dir`. */
int multus_del_in(const struct cni_call *c, const char *dir, struct err *e);

/* The container has a scratch file, and it is not this network's own entry. */
bool multus_has(const struct cni_call *c, const char *dir);
/* Removes this network's own entry of the container; other entries stay. */
void multus_forget(const struct cni_call *c, const char *dir);

#endif
