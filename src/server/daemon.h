/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_SERVER_DAEMON_H
#define UNIRAIL_SERVER_DAEMON_H

/*
 * Process-level tasks of a daemon: signals, reload of the settings file, pid file, log, and the
 * number of connections that the descriptor limit allows.
 */

#include <stdint.h>

#include "base/file.h"
#include "base/loop.h"

struct daemon;

struct daemon_ops {
	void (*reload)(void *arg); /* called on SIGHUP, and when the settings file changes */
	/* Called on SIGTERM and SIGINT: shuts down, then calls loop_stop(). A second SIGTERM or
	 * SIGINT stops the loop at once. */
	void (*end)(void *arg);
};

/* Starts to deliver signals through the loop; SIGPIPE is ignored. */
int daemon_new(struct daemon **ret, struct loop *l, const struct daemon_ops *ops, void *arg,
	       struct err *e);
/* Removes the pid file. Accepts NULL. */
void daemon_free(struct daemon *d);

/* Calls ops->reload when the file changes or is replaced. The file is checked every 5 s, since
 * an update of a ConfigMap volume changes only a symbolic link in the path of the file. `path`
 * is borrowed. */
void daemon_watch(struct daemon *d, const char *path);
/* Writes the pid file. path NULL: none. `root` and `path` are borrowed. */
int daemon_pid_file(struct daemon *d, const struct root *root, const char *path, struct err *e);

/* Applies the values of the settings log-level and log-format. */
int daemon_log(const char *level, const char *format, struct err *e);

/* Raises the descriptor limit to its maximum and returns how many connections it allows with
 * `reserve` descriptors left for other uses: `wanted`, or fewer with a line in the log. -EMFILE:
 * none. */
int daemon_connections(int64_t wanted, int reserve, struct err *e);

#endif
