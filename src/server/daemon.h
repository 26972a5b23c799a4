/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_SERVER_DAEMON_H
#define UNIRAIL_SERVER_DAEMON_H

/*
 * What a process that stays does for itself: signals, a file of settings that changes, its pid file,
 * its log, how many connections it has descriptors for.
 */

#include <stdint.h>

#include "base/file.h"
#include "base/loop.h"

struct daemon;

struct daemon_ops {
	void (*reload)(void *arg); /* SIGHUP, and the file changed */
	/* SIGTERM, SIGINT: ends in loop_stop(). A second one stops the loop at once. */
	void (*end)(void *arg);
};

/* From now on signals come by the loop; SIGPIPE is ignored. */
int daemon_new(struct daemon **ret, struct loop *l, const struct daemon_ops *ops, void *arg,
	       struct err *e);
/* Removes the pid file. NULL is fine. */
void daemon_free(struct daemon *d);

/* Reloads when the file is another one than now, each 5 s: one that is mounted from a ConfigMap
 * changes by a link above it, so it is looked at. `path` is borrowed. */
void daemon_watch(struct daemon *d, const char *path);
/* path NULL: none. Root and path are borrowed. */
int daemon_pid_file(struct daemon *d, const struct root *root, const char *path, struct err *e);

/* The words of the settings log-level and log-format. */
int daemon_log(const char *level, const char *format, struct err *e);

/* As many connections as there are descriptors for, so that `reserve` others always have theirs:
 * `wanted`, or fewer and a line in the log. */
int daemon_connections(int64_t wanted, int reserve, struct err *e);

#endif
