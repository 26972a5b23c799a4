/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_SERVER_CONFINE_H
#define UNIRAIL_SERVER_CONFINE_H

/*
 * The sandbox of a daemon (kern/sys/sandbox.h): its mode and the paths that the settings name. The
 * daemon enters it once, after all start-up work and before it reads the first byte from outside.
 *
 *	setting sandbox = on	a feature the kernel lacks is one line in the log; the daemon continues
 *			  log	nothing is refused: the kernel logs the system calls that `on` would
 *				refuse, Landlock is not used
 *			  off	no restriction; one line in the log
 *
 * confine_file() allows the directory of a file, and the directory of the file to which it resolves
 * through symbolic links, so that files that are replaced (Secrets, ConfigMaps, certificates) stay
 * readable. With SANDBOX_WRITE, confine_dir() creates a missing directory; with any other right, it
 * allows the nearest existing parent instead, except "/".
 */

#include "base/file.h"
#include "kern/sys/sandbox.h"

#define SETTINGS_ON_OFF_LOG "on|off|log"

/* Row of the member `sandbox` for a table of settings. */
#define SETTINGS_SANDBOX(X)                                                                        \
	X("sandbox", OPT_CHOICE, SETTINGS_ON_OFF_LOG,                                              \
	  "refuse system calls and files that this daemon does not need (seccomp, Landlock); "     \
	  "log: refuse nothing, the kernel logs the system calls that would be refused",           \
	  sandbox, 0, 0, "on", "UNIRAIL_SANDBOX", 0)

struct confine {
	const struct root *root;
	enum sandbox_mode mode;
	struct sandbox_path *v;
	char **own;
	size_t n, n_own;
	const char *not_with; /* reason why the sandbox cannot be used, for the log; NULL: none */
};

/* Adds a path; NULL is ignored. */
void confine_dir(struct confine *c, const char *path, enum sandbox_right right);
void confine_file(struct confine *c, const char *path, enum sandbox_right right);
/* Allows what the connection to the API server needs. `files` (NULL-terminated) are re-read while
 * the connection is in use. A `host` that is a name needs /etc for its resolution. A `program`
 * (exec credentials) may need any file or system call, so it disables the sandbox. */
void confine_server(struct confine *c, const char *host, const char *const *files,
		    const char *program);
/* Enters the sandbox and frees the paths. `desc` receives the restrictions that are not in force
 * and why, "" when all are. Never fails: where the kernel does not support a restriction, the
 * daemon runs without it. */
void confine_enter(struct confine *c, const char *setting, char *desc, size_t size);

#endif
