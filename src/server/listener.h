/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_SERVER_LISTENER_H
#define UNIRAIL_SERVER_LISTENER_H

/*
 * A listening UNIX socket with a single owner process.
 *
 * Created here: PATH.lock is held as long as the process listens, so a second server is refused. A
 * stale socket of a dead process is replaced; one on which another program accepts connections is
 * not. Mode 0600 from the start. Passed by systemd (LISTEN_FDS): used as it is, and never removed.
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
/* Uses the socket that systemd passed; returns 1, 0 if it passed none, or -errno. */
int listener_inherit(struct listener *l, struct err *e);
/* Removes the socket's path, unless it has been replaced: new clients cannot connect, clients
 * already connected can still be accepted. */
void listener_hide(struct listener *l);
/* Removes the socket's path in the same way, closes the socket, and releases the lock for the next
 * server. */
void listener_close(struct listener *l);

#endif
