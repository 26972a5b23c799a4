/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CNI_MULTUS_CACHE_H
#define UNIRAIL_CNI_MULTUS_CACHE_H

/*
 * What Multus and libcni keep of a pod between ADD and DEL, as bytes; import.c has the files.
 *
 *	<cniDir>/<containerID>				Multus' scratch file: its delegates, in order
 *	<cniDir>/results/<network>-<containerID>-<if>	libcni's cache of what each answered
 *
 * Of a delegate `Bytes` (base64 of its configuration) is what counts; Conf and ConfList hold the
 * keys that are common to all plugins. v4.3.0 writes a CNINetworkConfigList as well, later ones do
 * not. Multus writes neither file in one step: after a power loss either may end anywhere.
 *
 * The same files of a pod that unirail-cni attached (cni/multi/cache.c) have keys that Multus and libcni
 * do not know and ignore:
 *
 *	"unirail"	in each delegate: the network of that unirail-cni
 *	"unirailState"	in each delegate: {"version": 1, "cniArgs": what its plugins get behind CNI_ARGS,
 *			"cniVersion": its definition's ("": none), where the configuration that Multus
 *			is to call has another}
 *	"unirailResult"	in a cache file whose result its version cannot hold:
 *			{"version": 1, "result": the same of version 1.1.0}
 *
 * Of another version than 1 these are not read, and what Multus and libcni know counts.
 */

#include "wire/json/json.h"

/* Strings are owned. */
struct multus_delegate {
	char *name;	 /* "team/rail0", or the network's own name; "" */
	char *ifname;	 /* requested; NULL: named by its position, net<i> */
	char *device_id; /* NULL: none */
	char *conf;	 /* its configuration: a plugin's or a list's; NULL: cannot be read */
	size_t conf_len;
	char *keeper;  /* the unirail-cni network that wrote it; NULL: Multus did */
	char *args;    /* unirailState.cniArgs; NULL: none */
	char *version; /* unirailState.cniVersion; "": the definition has none; NULL: conf's */
};

int multus_delegates_parse(struct span text, struct multus_delegate **ret, size_t *n,
			   struct err *e);
void multus_delegates_free(struct multus_delegate *list, size_t n);

/* A file of libcni's cache: kind cniCacheV1, or the bare result of libcni before 0.7. What the
 * file does not have is NULL. */
struct libcni_cached {
	struct json_doc *doc; /* owns all but conf */
	const char *container_id, *network, *ifname;
	char *conf; /* the configuration that was used */
	size_t conf_len;
	const struct json *result;
	const struct json *full;    /* unirailResult's; NULL: none */
	const struct json *runtime; /* capabilityArgs */
};

int libcni_cached_parse(struct span text, struct libcni_cached *ret, struct err *e);
void libcni_cached_done(struct libcni_cached *c);

/* --- writing, in cache.c --- */

struct json_out;
/* An element of a scratch file, as Multus writes it: `conf` is a list of plugins. */
struct multus_entry {
	const char *name, *keeper;
	const char *ifname;  /* NULL: CNI_IFNAME */
	const char *device;  /* NULL: none */
	const char *args;    /* NULL: none */
	const char *version; /* "": none; NULL: conf's */
	struct span conf;
};
int multus_delegates_put(struct json_out *o, const struct multus_entry *d, struct err *e);

/* A file of libcni's cache; args is CNI_ARGS. */
struct libcni_entry {
	const char *container_id, *network, *ifname, *netns, *args;
	struct span conf, result;
	struct span full; /* the result of version 1.1.0; empty: `result` has all of it */
};
int libcni_cached_put(struct json_out *o, const struct libcni_entry *c, struct err *e);

#endif
