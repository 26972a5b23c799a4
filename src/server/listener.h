/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_SERVER_LISTENER_H
#define UNIRAIL_SERVER_LISTENER_H

/*
 * A listening UNIX socket that is this process's alone.
 *
 * Made by us: PATH.lock is held as long as we listen, so a second server is refused; a socket that
 * a dead one left is replaced, one that somebody answers on (a server of another make) is not; mode
 * 0600 from its first moment. Made by systemd (LISTEN_FDS): taken as it is, and never removed.
 */

#include <stdbool.h>
#include <sys/types.h>

#include "base/err.h"

struct listener {
	int fd, lock;
	char *path;
	dev_t dev;
	ino_t ino; /* of the socket we made */
	bool inherited;
};
#define LISTENER_INIT                                                                              \
	{                                                                                          \
		.fd = -1, .lock = -1                                                               \
	}

int listener_open(struct listener *l, const char *path, struct err *e);
/* Takes the one socket that systemd passed: 1, or 0 when it passed none. */
int listener_inherit(struct listener *l, struct err *e);
/* Removes the path we made, unless something else stands there by now: nobody new finds us, whoever
 * has connected still can be accepted. */
void listener_hide(struct listener *l);
/* That, and lets the next server in. */
void listener_close(struct listener *l);

#endif
