/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_SERVER_CONFINE_H
#define UNIRAIL_SERVER_CONFINE_H

/*
 * A daemon's sandbox (kern/sys/sandbox.h): its mode and the paths that its settings name. Entered once, when
 * everything that happens at the start has happened, before the first byte from outside is read.
 *
 *	setting sandbox = on	what the kernel does not have is one line in the log, and the daemon goes on
 *			  log	the kernel logs what `on` would refuse; no Landlock
 *			  off	one line in the log
 *
 * A path that is no folder stands for its folder, and for the folder that it is in after its symbolic
 * links: files that are replaced (Secrets, ConfigMaps, certificates) stay readable. A folder to read that does
 * not exist yet stands for the nearest one above it that does, but for "/"; a folder to write is made.
 */

#include "base/file.h"
#include "kern/sys/sandbox.h"

#define SETTINGS_ON_OFF_LOG "on|off|log"

/* For the table of settings: member `sandbox`. */
#define SETTINGS_SANDBOX(X)                                                                        \
	X("sandbox", OPT_CHOICE, SETTINGS_ON_OFF_LOG,                                              \
	  "refuse system calls and files that this mode does not need (seccomp, Landlock); log: "  \
	  "only let the kernel log them",                                                          \
	  sandbox, 0, 0, "on", "UNIRAIL_SANDBOX", 0)

struct confine {
	const struct root *root;
	enum sandbox_mode mode;
	struct sandbox_path *v;
	char **own;
	size_t n, n_own;
	const char *not_with; /* what a sandbox would break, as words for people; NULL: nothing */
};

/* A NULL path is passed over. */
void confine_folder(struct confine *c, const char *path, enum sandbox_right right);
void confine_file(struct confine *c, const char *path, enum sandbox_right right);
/* How the API server is reached: `files` (NULL-terminated) are read again while it is used; a `host` that is a
 * name is resolved by what /etc says; a `program` that is executed for credentials needs what cannot be known. */
void confine_server(struct confine *c, const char *host, const char *const *files,
		    const char *program);
/* `words` gets what is not in force and why; "" when all is. Frees the paths. Never fails: a daemon without its
 * sandbox serves. */
void confine_enter(struct confine *c, const char *setting, char *words, size_t size);

#endif
