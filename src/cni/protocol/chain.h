/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CNI_PROTOCOL_CHAIN_H
#define UNIRAIL_CNI_PROTOCOL_CHAIN_H

/* Executes one plugin of a chain from CNI_PATH, with the netconf that libcni would pass. */

#include "cni/protocol/cni.h"

struct chain_call {
	const struct cni_call *call; /* environment, and cniVersion of the netconf */
	const struct json *plugin;   /* configuration object of the plugin */
	const char *type;
	const char *network, *ifname;
	const struct cni_result *prev;	    /* NULL: none */
	const struct json *runtime;	    /* runtimeConfig of the runtime; may be NULL */
	const struct cni_attachment *valid; /* for GC: attachments that exist */
	size_t n_valid;
	const char *label; /* prefix of errors; NULL: none */
};

/* Pure. Writes the netconf: the plugin's object with cniVersion (unless call->no_version), name,
 * runtimeConfig, prevResult and (for GC) the valid attachments. */
int chain_conf(const struct chain_call *c, bool gc, struct buf *b, struct err *e);

int chain_add(const struct chain_call *c, struct cni_result *out, struct err *e);
/* Runs one of the verbs DEL, CHECK, GC, STATUS. */
int chain_run(const struct chain_call *c, const char *command, struct err *e);

#endif
