/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_KERN_SYS_SANDBOX_H
#define UNIRAIL_KERN_SYS_SANDBOX_H

/*
 * Restricts a daemon once it serves: the system calls of its mode (seccomp) and
 * the files of its table of paths (Landlock). Both are inherited by children and cannot be taken
 * back. The caller has set no_new_privs (kern/sys/caps.h does).
 *
 *	not in the mode's list		fails with EPERM, so that the request fails and the daemon goes on;
 *					one line in the log, once for each system call, names it (but fork,
 *					clone and setuid, which libc calls with signals blocked)
 *	another architecture's call	ends the process (on x86_64 also the calls of the x32 ABI)
 *	memory that can be executed	none any more: mmap and mprotect with PROT_EXEC fail with EPERM
 *	a file outside the paths	fails with EACCES. What is open stays open. Metadata (stat) and
 *					connect() to a UNIX socket are not held by Landlock.
 *
 * Not in a build with AddressSanitizer, which needs more than a daemon does: -EOPNOTSUPP.
 */

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

/* Each has a column in the table of sandbox.c. */
enum sandbox_mode { SANDBOX_IPAM_SERVE, SANDBOX_AGENT, SANDBOX_CONTROLLER };

/* `log_only`: nothing fails; the kernel's log (audit, type=1326) has what would. -EOPNOTSUPP: the
 * kernel has no seccomp filters (or, log_only, cannot log: before Linux 4.14). */
int sandbox_calls(enum sandbox_mode mode, bool log_only, struct err *e);

enum sandbox_right {
	SANDBOX_READ,	 /* files and names of a folder and all below it, or one file */
	SANDBOX_WRITE,	 /* that, and write, create, rename and remove files and folders */
	SANDBOX_SOCKETS, /* that, and create UNIX sockets */
	SANDBOX_REMOVE,	 /* remove files */
};

/* Absolute; symbolic links are followed at once. One that does not exist is left out. */
struct sandbox_path {
	const char *path;
	enum sandbox_right right;
};

/* *abi is the kernel's version of Landlock: 2 and later know renames between folders, 4 and later also
 * refuse to open TCP ports, 6 and later also signals to processes outside. -EOPNOTSUPP: the kernel
 * has none (before Linux 5.13, or not in its lsm= list). */
int sandbox_paths(const struct sandbox_path *v, size_t n, int *abi, struct err *e);

#endif
