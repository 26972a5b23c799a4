/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CLI_KUBE_H
#define UNIRAIL_CLI_KUBE_H

/* Shared by the parts of kube.c: options and API access, and `kube get`. */

#include "kube/client.h"

struct kube_opts {
	const char *kubeconfig, *context, *ns, *labels, *fields, *output;
	bool all, watch, cached;
	int64_t timeout_ms;
};

struct kube_tool {
	const struct kube_opts *o;
	struct kube_conf conf;
	struct loop *loop;
	struct kube *k;
	const char *ns; /* "": all namespaces */
	bool json;
	struct err e;
};

/* Stops the loop: exit status 0, or 1 with e. */
void kube_tool_stop(struct kube_tool *t, const struct err *e);
/* KIND[,KIND...] [NAME]; returns the exit status. */
int kube_tool_get(struct kube_tool *t, const char *kinds, const char *name);

#endif
