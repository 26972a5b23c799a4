/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CNI_PROTOCOL_DELEGATE_H
#define UNIRAIL_CNI_PROTOCOL_DELEGATE_H

/*
 * Other CNI plugins, executed as libcni does: looked up in CNI_PATH, our environment with the
 * six CNI_* variables and CNI_DEPTH (cni_call.h) replaced, the configuration on stdin, one JSON document from stdout, what
 * they log to stderr passed on. "Text file busy" (the plugin is being installed) is tried again
 * for five seconds. There is no time limit: the runtime has one.
 *
 * A plugin's error object becomes *e with its own text, details and code (cni_code() gives the
 * code back).
 */

#include "cni/protocol/cni.h"

struct cni_delegate {
	const char *type;	     /* the plugin's name */
	const char *command;	     /* "ADD" ... */
	const struct cni_call *call; /* container id, namespace, CNI_ARGS, CNI_PATH */
	const char *ifname;	     /* NULL: the call's */
	struct span conf;	     /* all of stdin */
};

/* The plugin's path: the first regular file (symbolic links followed) of that name. */
int cni_delegate_find(const char *type, const char *cni_path, struct buf *ret, struct err *e);
/* Any verb but ADD; what it prints on success is dropped. */
int cni_delegate_run(const struct cni_delegate *d, struct err *e);
/* ADD. A result without a cniVersion is of `version`, the configuration's. *ret is overwritten. */
int cni_delegate_add(const struct cni_delegate *d, enum cni_version version, struct cni_result *ret,
		     struct err *e);

#endif
