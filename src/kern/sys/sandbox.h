/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_KERN_SYS_SANDBOX_H
#define UNIRAIL_KERN_SYS_SANDBOX_H

/*
 * Restricts a daemon after its start to the system calls of its mode (seccomp) and the files of its
 * table of paths (Landlock). Children inherit the restrictions, which cannot be removed. The caller
 * must have set no_new_privs (kern/sys/caps.h does).
 *
 *	a system call that is not	fails with EPERM, so that the request fails and the daemon continues.
 *	in the mode's list		The log names each such call once, except fork, clone and setuid and
 *					their variants, which libc makes with signals blocked.
 *	a system call of another	ends the process (on x86_64 also a call of the x32 ABI)
 *	architecture
 *	new executable memory		mmap and mprotect with PROT_EXEC fail with EPERM
 *	a file outside the paths	cannot be opened or changed: EACCES. Open files stay open. Landlock
 *					restricts neither metadata (stat) nor connect() to a UNIX socket.
 *
 * A build with AddressSanitizer has no sandbox (-EOPNOTSUPP), because the sanitizer needs more
 * system calls than a daemon.
 */

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"

/* Daemons with a sandbox; calls[] in sandbox.c lists the system calls that each may make. */
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

/* An absolute path. sandbox_paths() resolves symbolic links once, and ignores a path that does not
 * exist or that the process may not access. */
struct sandbox_path {
	const char *path;
	enum sandbox_right right;
};

/* Restricts this process to the paths. *abi: the kernel's version of Landlock. With version 2 or
 * later the process can rename files between directories; with 4 or later it can no longer bind TCP
 * ports; with 6 or later it can no longer send signals to processes, or connect to abstract UNIX
 * sockets, outside of the sandbox. -EOPNOTSUPP: the kernel has no Landlock (before Linux 5.13,
 * or not in its lsm= list), or the container runtime's seccomp profile refuses it. */
int sandbox_paths(const struct sandbox_path *v, size_t n, int *abi, struct err *e);

#endif
