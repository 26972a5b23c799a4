/* SPDX-License-Identifier: Apache-2.0 */
/* Names of faults and of system calls. */
#include "trace.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>

#include "base/alloc.h"

/* How the errors are named on the driver's command line. */
static const struct {
	int code;
	const char *name;
} errors[] = {{ENOBUFS, "ENOBUFS"}, {EINTR, "EINTR"},	{ENOMEM, "ENOMEM"},
	      {EBUSY, "EBUSY"},	    {ENOSPC, "ENOSPC"}, {EIO, "EIO"}};

const char *act_name(const struct shot *s)
{
	if (s->act != ACT_FAIL)
		return s->act == ACT_KILL ? "kill" : "call";
	for (size_t i = 0; i < ARRAY_LEN(errors); i++)
		if (errors[i].code == s->err)
			return errors[i].name;
	return errno_text(s->err);
}

int act_parse(const char *word, struct shot *s)
{
	s->act = ACT_KILL;
	if (strcmp(word, "kill") == 0)
		return 0;
	s->act = ACT_FAIL;
	for (size_t i = 0; i < ARRAY_LEN(errors); i++)
		if (strcmp(word, errors[i].name) == 0) {
			s->err = errors[i].code;
			return 0;
		}
	return -EINVAL;
}

#define CALL(name)                                                                                 \
	{                                                                                          \
		SYS_##name, #name                                                                  \
	}
static const struct {
	long nr;
	const char *name;
} names[] = {
	CALL(read),
	CALL(write),
	CALL(close),
	CALL(fstat),
	CALL(lseek),
	CALL(mmap),
	CALL(mprotect),
	CALL(munmap),
	CALL(brk),
	CALL(rt_sigaction),
	CALL(rt_sigprocmask),
	CALL(ioctl),
	CALL(pread64),
	CALL(pwrite64),
	CALL(readv),
	CALL(writev),
	CALL(madvise),
	CALL(dup),
	CALL(getpid),
	CALL(socket),
	CALL(connect),
	CALL(sendto),
	CALL(recvfrom),
	CALL(sendmsg),
	CALL(recvmsg),
	CALL(bind),
	CALL(getsockname),
	CALL(setsockopt),
	CALL(getsockopt),
	CALL(clone),
	CALL(execve),
	CALL(wait4),
	CALL(kill),
	CALL(uname),
	CALL(fcntl),
	CALL(flock),
	CALL(fsync),
	CALL(fdatasync),
	CALL(ftruncate),
	CALL(fchmod),
	CALL(getuid),
	CALL(geteuid),
	CALL(prctl),
	CALL(gettid),
	CALL(futex),
	CALL(getdents64),
	CALL(set_tid_address),
	CALL(clock_gettime),
	CALL(clock_nanosleep),
	CALL(exit_group),
	CALL(exit),
	CALL(openat),
	CALL(mkdirat),
	CALL(unlinkat),
	CALL(renameat),
	CALL(renameat2),
	CALL(linkat),
	CALL(symlinkat),
	CALL(readlinkat),
	CALL(faccessat),
	CALL(ppoll),
	CALL(unshare),
	CALL(setns),
	CALL(pipe2),
	CALL(dup3),
	CALL(memfd_create),
	CALL(getrandom),
	CALL(openat2),
	CALL(statx),
	CALL(epoll_create1),
	CALL(epoll_ctl),
	CALL(epoll_pwait),
	CALL(statfs),
	CALL(fstatfs),
	CALL(newfstatat),
	CALL(nanosleep),
	CALL(mremap),
	CALL(mount),
	CALL(umount2),
	CALL(sched_yield),
	CALL(sched_getaffinity),
	CALL(timerfd_create),
	CALL(tgkill),
	CALL(tkill),
	CALL(fchmodat),
	CALL(fchown),
	CALL(sendmmsg),
	CALL(recvmmsg),
	CALL(getcwd),
#ifdef __x86_64__
	CALL(open),
	CALL(stat),
	CALL(lstat),
	CALL(poll),
	CALL(access),
	CALL(pipe),
	CALL(dup2),
	CALL(fork),
	CALL(rename),
	CALL(mkdir),
	CALL(unlink),
	CALL(rmdir),
	CALL(readlink),
	CALL(chmod),
	CALL(arch_prctl),
	CALL(epoll_wait),
	CALL(symlink),
	CALL(link),
#endif
};

const char *call_name(long nr)
{
	static char text[32];

	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		if (names[i].nr == nr)
			return names[i].name;
	snprintf(text, sizeof(text), "system call %ld", nr);
	return text;
}
