/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_KERN_SYS_NETNS_H
#define UNIRAIL_KERN_SYS_NETNS_H

/* Network namespaces. A file descriptor stands for an open namespace. */

#include <stdbool.h>

#include "base/err.h"

/*
 * Opens a namespace path and checks that it is a network namespace. Errors are of kind ERR_NETNS.
 * If the path does not exist: -ENOENT with the text of the original plugins, `failed to Statfs
 * "<path>": no such file or directory`; if its filesystem is neither nsfs nor proc: -EINVAL with
 * `unknown FS magic on "<path>": <hex>`.
 */
int netns_open(const char *path, int *fd, struct err *e);
int netns_current(int *fd, struct err *e);
/* Returns 1 if both descriptors are of the same namespace, 0 if not; negative: fstat() failed. */
int netns_same(int a, int b, struct err *e);
/* Makes the namespace visible at a path by a bind mount, as `ip netns add` does. */
int netns_pin(int fd, const char *path, struct err *e);
int netns_unpin(const char *path, struct err *e);

/*
 * Executes code inside of a namespace. Only for single-threaded callers.
 *	struct netns_visit v = NETNS_VISIT_INIT;
 *	r = netns_enter(fd, &v, e);
 *	...
 *	netns_leave(&v);
 */
struct netns_visit {
	int origin; /* descriptor of the caller's namespace; -1: not entered */
};
#define NETNS_VISIT_INIT                                                                           \
	{                                                                                          \
		-1                                                                                 \
	}
int netns_enter(int fd, struct netns_visit *v, struct err *e);
void netns_leave(struct netns_visit *v); /* aborts the process if the thread cannot return */

#endif
