/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CNI_CLUSTER_NETWORK_RECORD_H
#define UNIRAIL_CNI_CLUSTER_NETWORK_RECORD_H

/*
 * Records of the networks that the agent named for pods of this node. GC uses them to reach a
 * network of which no cache entry is left; otherwise the addresses of a pod whose entry was lost
 * would stay allocated.
 *
 *	<cniDir>/unirail/networks/<namespace>_<name>-<digest>.json
 *	{"version": 1, "network": the netconf's name, "nad": "team/rail0", "name": "rail0",
 *	 "stateDir": the agent's, "trusted": true, "config": the definition's, unmodified}
 *
 * The digest is the first 32 digits of the content's SHA-256: a record is written once, by the
 * first ADD of a definition, and a changed definition has a new record. Records are not synced: one
 * that a power loss truncated does not match its digest; GC removes it and the next ADD writes it
 * again.
 *
 * Definitions are written by tenants, so the number of records (in total and per namespace) and
 * their size are limited. "trusted" is the agent's reply at the ADD that wrote the record: an
 * administrator wrote the definition (spec/definition.h). GC does not ask the agent, so it executes
 * such a definition as that ADD did, even if the namespace has lost its trust since. Any other
 * definition is checked again; if the check refuses it, the record remains. Only root can change a
 * record: the directory must be owned by root and writable by root only, and neither it nor a
 * record may be a symbolic link.
 *
 * ADD and GC lock the directory: ADD writes its record after its cache entry, and GC removes
 * records only if no entry was added since it read the entries.
 */

#include "cni/cluster/conf.h"

enum {
	NETWORK_RECORDS_MAX = 1024,
	NETWORK_RECORDS_NAMESPACE_MAX = 64,
	NETWORK_RECORD_BYTES_MAX = 64 << 10,
};

struct network_record {
	char *file; /* file name in the directory */
	struct json_doc *doc;
	struct pod_net net;    /* borrowed from doc; `trusted` as at the ADD */
	const char *state_dir; /* state directory of the agent; NULL: the agent named none */
};

/* Records a network that the agent named, as pod_net_read() read it. Failures are logged and do
 * not fail the ADD. */
void network_record_write(const struct cni_call *c, const struct pod_conf *conf,
			  const char *state_dir, const struct pod_net *net);
/*
 * Reads the records of this netconf, sorted by file name. Unreadable records are logged and
 * skipped, records that do not match their digest are removed; without the directory there are
 * none. The caller frees the list with network_records_free().
 */
void network_records_read(const struct cni_call *c, const struct pod_conf *conf,
			  struct network_record **ret, size_t *n);
void network_records_free(struct network_record *list, size_t n);
/* Locks the directory, so that no ADD can write a record, and then removes the files if
 * unchanged(arg) returns true. Failures are logged. */
void network_records_remove(const struct cni_call *c, const struct pod_conf *conf,
			    const char *const *files, size_t n, bool (*unchanged)(void *arg),
			    void *arg);

#endif
