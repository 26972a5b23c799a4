/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CNI_MULTUS_INTERNAL_H
#define UNIRAIL_CNI_MULTUS_INTERNAL_H

/* The networks that Multus attached to a pod, as found by import.c. cni/cluster reads its own cache
 * entries with the same functions. */

#include "cni/multus/cache.h"
#include "cni/protocol/cni.h"

enum { MULTUS_CONF_MAX = 4 << 20 };

struct cache_file {
	char *path, *name;
	struct libcni_cached cached;
	bool taken; /* it belongs to a delegate of the scratch file, or to another container */
};

/* A network of the pod. */
struct network {
	const char *name; /* for messages */
	char *ifname;
	struct span conf;
	/* delegate's name, part of the name of the device information file; NULL: no file */
	const char *device;
	const char *args;    /* arguments that the network adds to CNI_ARGS; NULL: none */
	const char *version; /* cniVersion of its definition; "": none; NULL: the version in conf */
	struct cache_file *file; /* NULL: none */
};

struct multus {
	const struct cni_call *call;
	const char *dir;
	char *scratch, *args;
	bool found; /* the scratch file exists */
	struct multus_delegate *delegates;
	size_t n_delegates;
	struct cache_file *files;
	size_t n_files;
	struct network *nets;
	size_t n_nets;
	struct err first; /* the first failure */
	/* true: the DEL of a network without a readable cache file has failed, so the scratch
	 * file must remain for the retry */
	bool forgotten;
};

/* Finds the networks of a pod. m->call and m->dir are inputs. */
void multus_find(struct multus *m);
/* Returns whether this call's network wrote the scratch file, for a pod that it attached itself. */
bool multus_is_own(const struct multus *m);
void multus_done(struct multus *m);
#define auto_multus __attribute__((cleanup(multus_done)))

/* Returns the network's name in a configuration, owned by *keep; "": no name. */
const char *multus_conf_name(struct span conf, struct json_doc **keep);

#endif
