/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CNI_MULTUS_IMPORT_H
#define UNIRAIL_CNI_MULTUS_IMPORT_H

/*
 * DEL of a pod that Multus attached while this node's runtime still called Multus instead of
 * unirail-cni. conf.cniDir, else conf.multusCniDir (default /var/lib/cni/multus; "": nothing is
 * imported) is the directory of Multus' state.
 *
 * The delegates of the scratch file are deleted, last one first: the plugins listed in import.c run
 * in process, others are executed, with the result in libcni's cache as prevResult. An unreadable
 * scratch file is only logged, since the cache files of the container also name its networks. The
 * cache file of a deleted network is removed. The scratch file is removed when each remaining
 * network has a cache file, so that a retried DEL deletes the remaining networks.
 *
 * If Multus attached the pod: returns 1 if all its networks are deleted, otherwise the error of the
 * first failed deletion. Returns 0 if the files name no network of the pod. Returns 0 and does
 * nothing if Multus executed this plugin as one of its delegates, or if the files are this
 * network's own entry.
 */

#include "cni/protocol/cni.h"

extern const struct json_table multus_import_table; /* conf.multusCniDir */
int multus_del(const struct cni_call *c, struct err *e);
/* Like multus_del(), with Multus' state in `dir`. */
int multus_del_in(const struct cni_call *c, const char *dir, struct err *e);

/* Returns whether the container has a scratch file (Multus' record of its delegates) that this
 * network did not write. */
bool multus_has(const struct cni_call *c, const char *dir);
/* Removes this network's own entry of the container; it does not touch other entries. */
void multus_forget(const struct cni_call *c, const char *dir);

#endif
