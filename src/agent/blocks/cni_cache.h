/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_AGENT_BLOCKS_CNI_CACHE_H
#define UNIRAIL_AGENT_BLOCKS_CNI_CACHE_H

/*
 * The addresses that this node's CNI result caches record for its pods. libcni (in the container runtime and in Multus) and
 * unirail-cni (cni/multi/cache.c) write one file for each attachment before ADD returns, and remove it when DEL succeeds:
 *
 *	<dir>/results/<network>-<containerID>-<interface>		of the container runtime
 *	<dir>/multus/results/<network>-<containerID>-<interface>	of Multus and of unirail-cni
 *
 * So they are right when the API server was not available and the journal lost its last records. Of a file the result counts
 * (of any CNI version, and unirailResult), the pod in cniArgs (K8S_POD_NAMESPACE, K8S_POD_NAME, K8S_POD_UID), and the IPAM
 * types in its configuration. A result of libcni before 0.7 names no pod.
 *
 * Only root can change the folders and the files, or they are refused. Temporary files (".NAME.tmp") are skipped. Files are
 * limited to CNI_CACHE_FILE_MAX bytes, a folder to CNI_CACHE_FILES_MAX files, all of them to CNI_CACHE_TOTAL_MAX bytes and
 * CNI_CACHE_ADDRESSES_MAX addresses.
 */

#include "base/file.h"
#include "base/ip.h"

#define CNI_CACHE_DIR "/var/lib/cni"

enum {
	CNI_CACHE_FILE_MAX = 4 << 20, /* as the writers limit it */
	CNI_CACHE_TOTAL_MAX = 32 << 20,
	CNI_CACHE_FILES_MAX = 16384,
	CNI_CACHE_ADDRESSES_MAX = 65536,
};

/* An address of a result. Strings are owned. */
struct cni_cached {
	char *file;
	char *ns, *pod, *uid; /* "": the file does not name it */
	char *ifname;
	struct ipaddr ip;
	/* Spiderpool's IPAM is the only one in the configuration, so an agent granted the address. Otherwise whoever wrote the
	 * configuration may have chosen it (IPAM plugin static). */
	bool granted;
};

struct cni_cache {
	struct cni_cached *v;
	size_t n;
};

/*
 * All addresses, sorted by namespace and pod. No folder: no addresses. One file that cannot be read fails the whole call,
 * and the error names it: an address of an unknown pod may be in it. *ret is left alone then.
 */
int cni_cache_read(struct cni_cache *ret, const struct root *r, const char *dir, struct err *e);
/* The content of one file, appended to ret. */
int cni_cache_parse(struct cni_cache *ret, const char *file, struct span text, struct err *e);
/* The first entry of a pod in the order of cni_cache_read(); its others follow. ret->n: none. */
size_t cni_cache_find(const struct cni_cache *c, const char *ns, const char *pod);
void cni_cache_done(struct cni_cache *c);
#define auto_cni_cache __attribute__((cleanup(cni_cache_done)))

#endif
