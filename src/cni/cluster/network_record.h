/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CNI_CLUSTER_NETWORK_RECORD_H
#define UNIRAIL_CNI_CLUSTER_NETWORK_RECORD_H

/*
 * The networks that pods of this node had from the agent, so that GC reaches a network of which no note is left: who lost
 * the note of its last pod would otherwise keep that pod's addresses allocated for ever.
 *
 *	<cniDir>/unirail/networks/<namespace>_<name>-<digest>.json
 *	{"version": 1, "network": the netconf's name, "nad": "team/rail0", "name": "rail0",
 *	 "stateDir": the agent's, "trusted": true, "config": the definition's, as its author wrote it}
 *
 * The digest is the first 32 digits of the content's SHA-256, so a record is written once, by the first ADD of a definition,
 * and a definition that changes has another record. Records are not synced: one that a power loss cut off does not match its
 * digest; GC removes it and the next ADD writes it again.
 *
 * Definitions are written by tenants. The number of records is limited, in all and for each namespace, and their size.
 * "trusted" is the agent's answer at the ADD that wrote the record: an administrator wrote the definition (spec/definition.h). GC has
 * no agent to ask, so it executes such a definition as that ADD did, also when the namespace has lost its trust since; any other
 * is checked again, and keeps its record when it is refused. Nobody but root can change a record: the folder must belong to root
 * and be writable by root alone, and neither it nor a record may be a symbolic link.
 *
 * ADD and GC lock the folder: ADD writes its record when its note is written already, GC removes records only when no note
 * has come since it read the notes.
 */

#include "cni/cluster/conf.h"

enum {
	NETWORK_RECORDS_MAX = 1024,
	NETWORK_RECORDS_NAMESPACE_MAX = 64,
	NETWORK_RECORD_BYTES_MAX = 64 << 10,
};

struct network_record {
	char *file; /* in the folder */
	struct json_doc *doc;
	struct pod_net net;    /* borrowed from doc; trusted as at the ADD */
	const char *state_dir; /* NULL: the agent named none */
};

/* A network that the agent named, as pod_net_read() read it. Failures are logged: an ADD does not fail for them. */
void network_record_write(const struct cni_call *c, const struct pod_conf *conf,
			  const char *state_dir, const struct pod_net *net);
/*
 * Those of this netconf, sorted by file. What cannot be read is logged and left out, what does not match its digest is
 * removed; no folder: none. network_records_free() frees them.
 */
void network_records_read(const struct cni_call *c, const struct pod_conf *conf,
			  struct network_record **ret, size_t *n);
void network_records_free(struct network_record *list, size_t n);
/*
 * Removes the files unless unchanged(arg) says, while no ADD writes a record, that notes have come since.
 * Failures are logged.
 */
void network_records_remove(const struct cni_call *c, const struct pod_conf *conf,
			    const char *const *files, size_t n, bool (*unchanged)(void *arg),
			    void *arg);

#endif
