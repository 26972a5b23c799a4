/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_AGENT_BLOCKS_CNI_CACHE_H
#define UNIRAIL_AGENT_BLOCKS_CNI_CACHE_H

/*
 * The addresses that this node's CNI result caches record for its pods. libcni (in the container
 * runtime and in Multus) and unirail-cni (cni/multi/cache.c) write one file for each attachment
 * before ADD returns, and remove it when DEL succeeds:
 *
 *	<dir>/results/<network>-<containerID>-<interface>		of the container runtime
 *	<dir>/multus/results/<network>-<containerID>-<interface>	of Multus and of unirail-cni
 *
 * So the recorded addresses are correct even if the API server was unavailable and the journal lost
 * its last records. This module reads from each file: the result (of any CNI version) and the
 * result in unirailResult, the pod in cniArgs (K8S_POD_NAMESPACE, K8S_POD_NAME, K8S_POD_UID), and
 * the types of the IPAM plugins in the network's configuration, which the file contains. A result
 * of libcni 0.7 names no pod.
 *
 * Directories and files that users other than root can change are refused. Temporary files
 * (".NAME.tmp") are skipped. Files are limited to CNI_CACHE_FILE_MAX bytes, a directory to
 * CNI_CACHE_FILES_MAX files, all of them to CNI_CACHE_TOTAL_MAX bytes and CNI_CACHE_ADDRESSES_MAX
 * addresses.
 */

#include "base/file.h"
#include "base/ip.h"

enum {
	CNI_CACHE_FILE_MAX = 4 << 20, /* same limit as in cni/multi/cache.c */
	CNI_CACHE_TOTAL_MAX = 32 << 20,
	CNI_CACHE_FILES_MAX = 16384,
	CNI_CACHE_ADDRESSES_MAX = 65536,
};

/* An address of a result. Strings are owned. */
struct cni_cached {
	char *file;
	char *ns, *pod, *uid; /* "": not named in the file */
	char *ifname;
	struct ipaddr ip;
	/* true: Spiderpool's IPAM is the only one in the configuration, so an agent allocated
	 * the address. false: the author of the configuration may have chosen the address (IPAM
	 * plugin static). */
	bool allocated;
};

struct cni_cache {
	struct cni_cached *v;
	size_t n;
	size_t n_dirs; /* number of the two directories that exist */
};

/*
 * Reads all addresses, sorted by namespace and pod. A directory that does not exist counts as
 * empty; if ret->n_dirs is 0, dir is wrong, a mount is missing, or no result was written yet. If
 * one file cannot be read, the whole call fails and the error names the file, because an address of
 * an unknown pod may be in it; *ret is unchanged then.
 */
int cni_cache_read(struct cni_cache *ret, const struct root *r, const char *dir, struct err *e);
/* Appends the addresses of one file to ret. */
int cni_cache_parse(struct cni_cache *ret, const char *file, struct span text, struct err *e);
/* Returns the index of the pod's first entry in c, a result of cni_cache_read(); the pod's other
 * entries follow it. Returns c->n if the pod has none. */
size_t cni_cache_find(const struct cni_cache *c, const char *ns, const char *pod);
void cni_cache_done(struct cni_cache *c);
#define auto_cni_cache __attribute__((cleanup(cni_cache_done)))

#endif
