/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_SERVER_LISTENER_H
#define UNIRAIL_SERVER_LISTENER_H

/*
 * A listening UNIX socket with a single owner process.
 *
 * A process that creates the socket holds PATH.lock as long as it listens, so a second server is
 * refused. When it creates the socket, the process replaces a stale socket of a dead process, but
 * not a socket on which another program accepts connections. The new socket has mode 0600 from the
 * start. A socket that systemd passes (LISTEN_FDS) is used as it is and never removed.
 */

#include <stdbool.h>
#include <sys/types.h>

#include "base/err.h"

struct listener {
	int fd, lock;
	char *path;
	dev_t dev;
	ino_t ino; /* dev, ino: those of the socket that this process created */
	bool inherited;
};
#define LISTENER_INIT                                                                              \
	{                                                                                          \
		.fd = -1, .lock = -1                                                               \
	}

int listener_open(struct listener *l, const char *path, struct err *e);
/* Uses the socket that systemd passed. Returns 1 on success, 0 if systemd passed none, or
 * -errno. */
int listener_inherit(struct listener *l, struct err *e);
/* Removes the socket's path, unless another file has replaced it. New clients can no longer
 * connect then; clients that have already connected can still be accepted. */
void listener_hide(struct listener *l);
/* Removes the socket's path like listener_hide(), closes the socket, and releases the lock for
 * the next server. */
void listener_close(struct listener *l);

#endif
