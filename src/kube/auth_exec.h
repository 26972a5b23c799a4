/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_KUBE_AUTH_EXEC_H
#define UNIRAIL_KUBE_AUTH_EXEC_H

#include "base/child.h"
#include "kube/auth.h"

/* Runs the program of a kubeconfig (client.authentication.k8s.io); auth.c only. */
int kube_exec_start(struct child **ret, struct loop *l, const struct kube_exec *x,
		    child_done_fn done, void *arg, struct err *e);
/* Converts the exit status or failure of the program; e is set when it failed. */
int kube_exec_result(const struct kube_exec *x, int status, const struct err *reason,
		     struct err *e);

#endif
