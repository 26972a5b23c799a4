/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CNI_MULTUS_CACHE_H
#define UNIRAIL_CNI_MULTUS_CACHE_H

/*
 * Formats of the files in which Multus and libcni store a pod's networks between ADD and DEL;
 * import.c reads the files.
 *
 *	<cniDir>/<containerID>				Multus' scratch file: its delegates, in order
 *	<cniDir>/results/<network>-<containerID>-<if>	libcni's cache: a network's result
 *
 * The configuration of a delegate is `Bytes` (base64); Conf and ConfList only have the keys that
 * are common to all plugins. Multus 4.2.2 to 4.3.0 write a CNINetworkConfigList as well; Multus
 * 4.2.0 and the main branch of Multus do not.
 * Neither file is written atomically: after a power loss both may be truncated.
 *
 * The same files of a pod that unirail-cni attached (cni/multi/cache.c) have keys that Multus and
 * libcni do not know and ignore:
 *
 *	"unirail"	in each delegate: `name` in the netconf of that unirail-cni
 *	"unirailState"	in each delegate: {"version": 1, "cniArgs": appended to CNI_ARGS for its plugins,
 *			"cniVersion": version of its definition ("": none), if the configuration for
 *			Multus has another version}
 *	"unirailResult"	in a cache file whose version cannot represent the whole result:
 *			{"version": 1, "result": the result in version 1.1.0}
 *
 * An unirailState or unirailResult whose "version" is not 1 is ignored, and only the keys of Multus
 * and libcni are used.
 */

#include "wire/json/json.h"

/* A delegate of a scratch file; it owns its strings. */
struct multus_delegate {
	char *name; /* "team/rail0", or the name in the network's configuration; may be "" */
	/* requested interface name; NULL: CNI_IFNAME for the first delegate, net1, net2 ... for the
	 * following ones */
	char *ifname;
	char *device_id; /* NULL: none */
	char *conf;	 /* configuration of a plugin or a list; NULL: cannot be read */
	size_t conf_len;
	/* name of the unirail-cni network that wrote the entry; NULL: Multus wrote it */
	char *keeper;
	char *args; /* unirailState.cniArgs; NULL: none */
	/* unirailState.cniVersion; "": the definition has no version; NULL: the version in conf */
	char *version;
};

int multus_delegates_parse(struct span text, struct multus_delegate **ret, size_t *n,
			   struct err *e);
void multus_delegates_free(struct multus_delegate *list, size_t n);

/* A file of libcni's cache: kind cniCacheV1, or the bare result of libcni 0.7. Missing members are
 * NULL. */
struct libcni_cached {
	struct json_doc *doc; /* owns all other members except conf */
	const char *container_id, *network, *ifname;
	char *conf; /* the configuration with which the network was added */
	size_t conf_len;
	const struct json *result;
	const struct json *full;    /* result in unirailResult; NULL: none */
	const struct json *runtime; /* capabilityArgs */
};

int libcni_cached_parse(struct span text, struct libcni_cached *ret, struct err *e);
void libcni_cached_done(struct libcni_cached *c);

/* --- writing --- */

struct json_out;
/* A delegate to be written to a scratch file in Multus' format; `conf` is a list of plugins. */
struct multus_entry {
	const char *name, *keeper;
	const char *ifname;  /* NULL: CNI_IFNAME */
	const char *device;  /* NULL: none */
	const char *args;    /* NULL: none */
	const char *version; /* version of the definition; "": none; NULL: the version in conf */
	struct span conf;
};
int multus_delegates_put(struct json_out *o, const struct multus_entry *d, struct err *e);

/* An entry to be written to libcni's cache; args is CNI_ARGS. */
struct libcni_entry {
	const char *container_id, *network, *ifname, *netns, *args;
	struct span conf, result;
	struct span full; /* the result in version 1.1.0; empty: `result` is complete */
};
int libcni_cached_put(struct json_out *o, const struct libcni_entry *c, struct err *e);

#endif
