/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CNI_MULTUS_INTERNAL_H
#define UNIRAIL_CNI_MULTUS_INTERNAL_H

/*
 * The networks that Multus gave a pod, as import.c finds them; cni/cluster reads its cache entries
 * by the same.
 */

#include "cni/multus/cache.h"
#include "cni/protocol/cni.h"

enum { MULTUS_CONF_MAX = 4 << 20 };

struct cache_file {
	char *path, *name;
	struct libcni_cached cached;
	bool taken; /* a delegate's */
};

/* A network that the pod has. */
struct network {
	const char *name; /* for messages */
	char *ifname;
	struct span conf;
	const char *device;	 /* name for its device file; NULL: none */
	const char *args;	 /* what it adds to CNI_ARGS; NULL: nothing */
	const char *version;	 /* its definition's, "": none; NULL: conf's */
	struct cache_file *file; /* NULL: none */
};

struct multus {
	const struct cni_call *call;
	const char *dir;
	char *scratch, *args;
	bool found; /* the scratch file */
	struct multus_delegate *delegates;
	size_t n_delegates;
	struct cache_file *files;
	size_t n_files;
	struct network *nets;
	size_t n_nets;
	struct err first; /* what failed first */
	bool forgotten;	  /* something failed that no cache file records */
};

/* m->call and m->dir are inputs. */
void multus_find(struct multus *m);
/* The scratch file was written by this call's network for a pod of its own. */
bool multus_is_own(const struct multus *m);
void multus_done(struct multus *m);
#define auto_multus __attribute__((cleanup(multus_done)))

/* The network's name in a configuration, owned by *keep; "": it has none. */
const char *multus_conf_name(struct span conf, struct json_doc **keep);

#endif
