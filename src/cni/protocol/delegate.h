/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CNI_PROTOCOL_DELEGATE_H
#define UNIRAIL_CNI_PROTOCOL_DELEGATE_H

/*
 * Executes other CNI plugins as libcni does. cni_delegate_run() and cni_delegate_add() search
 * CNI_PATH for the plugin and run it with this process' environment, in which they replace the six
 * CNI_* variables and CNI_DEPTH (cni_call.h). The plugin reads the configuration from stdin and
 * writes one JSON document to stdout. Its stderr is copied to this process' stderr; if the plugin
 * fails without output on stdout, its stderr is instead the error's message. "Text file busy" (the
 * plugin is being installed) is retried for five seconds. There is no time limit: the runtime has
 * one.
 *
 * A plugin's error object becomes *e with its text, details and code (cni_code() returns that
 * code).
 */

#include "cni/protocol/cni.h"

struct cni_delegate {
	const char *type;	     /* the plugin's name */
	const char *command;	     /* "ADD" ... */
	const struct cni_call *call; /* supplies container id, namespace, CNI_ARGS, CNI_PATH */
	const char *ifname;	     /* CNI_IFNAME of the plugin; NULL: the value of the call */
	struct span conf;	     /* the configuration, which is the whole input on stdin */
};

/* Finds the plugin: the first file of that name in the directories of cni_path that is a regular
 * file or a symbolic link to one. */
int cni_delegate_find(const char *type, const char *cni_path, struct buf *ret, struct err *e);
/* Runs any verb but ADD; its output on success is discarded. */
int cni_delegate_run(const struct cni_delegate *d, struct err *e);
/* Runs ADD. A result without cniVersion is parsed as `version`, the configuration's version. *ret
 * is overwritten. */
int cni_delegate_add(const struct cni_delegate *d, enum cni_version version, struct cni_result *ret,
		     struct err *e);

#endif
