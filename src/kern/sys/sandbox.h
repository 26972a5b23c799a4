/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_KERN_SYS_SANDBOX_H
#define UNIRAIL_KERN_SYS_SANDBOX_H

/*
 * Restricts a daemon after its start to the system calls of its mode (seccomp) and the files of its table of paths
 * (Landlock). Children inherit the restrictions, which cannot be removed. The caller must have set no_new_privs
 * (kern/sys/caps.h does).
 *
 *	not in the mode's list		fails with EPERM, so that the request fails and the daemon continues;
 *					one line in the log, once for each system call, names it (but fork,
 *					clone and setuid, which libc calls with signals blocked)
 *	another architecture's call	ends the process (on x86_64 also the calls of the x32 ABI)
 *	memory that can be executed	none any more: mmap and mprotect with PROT_EXEC fail with EPERM
 *	a file outside the paths	fails with EACCES. Open files stay open. Landlock does not
 *					restrict metadata (stat) and connect() to a UNIX socket.
 *
 * A build with AddressSanitizer has no sandbox, because the sanitizer needs more than a daemon: -EOPNOTSUPP.
 */

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

/* Each mode has a column in the table of sandbox.c. */
enum sandbox_mode { SANDBOX_IPAM_SERVE, SANDBOX_AGENT, SANDBOX_CONTROLLER };

/* `log_only`: no call fails; the kernel logs refused calls (audit, type=1326). -EOPNOTSUPP: the kernel has no seccomp
 * filters (or, with log_only, cannot log: before Linux 4.14). */
int sandbox_calls(enum sandbox_mode mode, bool log_only, struct err *e);

enum sandbox_right {
	SANDBOX_READ, /* read files and list directories below a directory, or read one file */
	/* like READ; also write, create, rename and remove files and directories */
	SANDBOX_WRITE,
	SANDBOX_SOCKETS, /* like WRITE; also create UNIX sockets */
	SANDBOX_REMOVE,	 /* remove files */
};

/* An absolute path; symbolic links are resolved at once. A path that does not exist or may not be
 * accessed is ignored. */
struct sandbox_path {
	const char *path;
	enum sandbox_right right;
};

/* *abi: the kernel's version of Landlock: 2 and later can rename between directories, 4 and later also refuse to open
 * TCP ports, 6 and later also signals to other processes. -EOPNOTSUPP: the kernel has no Landlock (before Linux 5.13,
 * or not in its lsm= list). */
int sandbox_paths(const struct sandbox_path *v, size_t n, int *abi, struct err *e);

#endif
