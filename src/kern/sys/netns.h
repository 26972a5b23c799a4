/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_KERN_SYS_NETNS_H
#define UNIRAIL_KERN_SYS_NETNS_H

/* Network namespaces, always by descriptor. */

#include <stdbool.h>

#include "base/err.h"

/* Opens a namespace path and checks that it is one (nsfs or proc magic). Errors are of kind
 * ERR_NETNS; the path missing is -ENOENT with the text users grep for:
 * `failed to Statfs "<path>": no such file or directory`; a path that is no namespace is -EINVAL
 * `unknown FS magic on "<path>": <hex>`. */
int netns_open(const char *path, int *fd, struct err *e);
int netns_current(int *fd, struct err *e);
/* 1 same namespace, 0 different. */
int netns_same(int a, int b, struct err *e);
/* Makes the namespace visible at path (bind mount, as `ip netns add` does). */
int netns_pin(int fd, const char *path, struct err *e);
int netns_unpin(const char *path, struct err *e);

/*
 * Work inside: enter, do, leave. Single-threaded callers only.
 *	struct netns_visit v = NETNS_VISIT_INIT;
 *	r = netns_enter(fd, &v, e);
 *	...
 *	netns_leave(&v);
 */
struct netns_visit {
	int origin; /* -1: not inside */
};
#define NETNS_VISIT_INIT                                                                           \
	{                                                                                          \
		-1                                                                                 \
	}
int netns_enter(int fd, struct netns_visit *v, struct err *e);
void netns_leave(struct netns_visit *v); /* aborts the process when the thread cannot return */

#endif
