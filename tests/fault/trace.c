/* SPDX-License-Identifier: Apache-2.0 */
/* One run of the binary, stopped at its n-th system call. */
#include "trace.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"

enum { LIMIT_S = 120, STOP_SYSCALL = SIGTRAP | 0x80 };

/* --- registers --- */

#ifdef __x86_64__
static long call_number(pid_t pid)
{
	return ptrace(PTRACE_PEEKUSER, pid, offsetof(struct user, regs.orig_rax), 0);
}

static void set_call_number(pid_t pid, long nr)
{
	ptrace(PTRACE_POKEUSER, pid, offsetof(struct user, regs.orig_rax), nr);
}

static void set_return(pid_t pid, long value)
{
	ptrace(PTRACE_POKEUSER, pid, offsetof(struct user, regs.rax), value);
}
#else
static long call_number(pid_t pid)
{
	struct user_regs_struct regs;
	struct iovec v = {&regs, sizeof(regs)};

	ptrace(PTRACE_GETREGSET, pid, NT_PRSTATUS, &v);
	return (long)regs.regs[8];
}

static void set_call_number(pid_t pid, long nr)
{
	int value = (int)nr;
	struct iovec v = {&value, sizeof(value)};

	ptrace(PTRACE_SETREGSET, pid, NT_ARM_SYSTEM_CALL, &v);
}

static void set_return(pid_t pid, long value)
{
	struct user_regs_struct regs;
	struct iovec v = {&regs, sizeof(regs)};

	ptrace(PTRACE_GETREGSET, pid, NT_PRSTATUS, &v);
	regs.regs[0] = (unsigned long)value;
	ptrace(PTRACE_SETREGSET, pid, NT_PRSTATUS, &v);
}
#endif

/* --- the child --- */

struct pipes {
	int in, out, err;
};

/* Creates a file in memory. stdin, stdout and stderr of the child are such files, so the child
 * never waits for a reader. */
static int scratch(struct span text)
{
	int fd = memfd_create("fault", MFD_CLOEXEC);

	if (fd < 0 || fd_write_all(fd, text.p, text.n, NULL) < 0 || lseek(fd, 0, SEEK_SET) < 0)
		die("memfd: %s", errno_text(errno));
	return fd;
}

static void __attribute__((noreturn))
become(const struct command *c, const struct pipes *p, bool traced)
{
	prctl(PR_SET_PDEATHSIG, SIGKILL); /* killed with the driver */
	dup2(p->in, STDIN_FILENO);
	dup2(p->out, STDOUT_FILENO);
	dup2(p->err, STDERR_FILENO);
	if (chroot(c->dir) == 0 && chdir("/") == 0 &&
	    (!traced || ptrace(PTRACE_TRACEME, 0, 0, 0) == 0))
		execve(c->path, c->argv, c->env);
	_exit(126);
}

static void slurp(int fd, struct buf *b)
{
	lseek(fd, 0, SEEK_SET);
	if (fd_read_all(fd, OUTCOME_MAX, b, NULL) < 0)
		die("the binary's output cannot be read");
	close(fd);
}

/* --- the time limit --- */

static volatile sig_atomic_t rung;

static void ring(int sig)
{
	(void)sig;
	rung = 1;
}

static void set_alarm(long seconds)
{
	struct sigaction sa = {.sa_handler = ring};
	struct itimerval t = {{0, 0}, {seconds, 0}};

	rung = 0;
	sigaction(SIGALRM, &sa, NULL);
	setitimer(ITIMER_REAL, &t, NULL);
}

static int wait_child(pid_t pid, struct outcome *o)
{
	int st;

	while (waitpid(pid, &st, __WALL) < 0) {
		if (errno != EINTR)
			die("waitpid: %s", errno_text(errno));
		if (!rung)
			continue;
		o->late = true;
		rung = 0;
		kill(pid, SIGKILL);
	}
	return st;
}

/* --- injection of the fault --- */

static void record_call(pid_t pid, struct shot *s)
{
	struct __ptrace_syscall_info info = {0};

	s->hit = true;
	s->pid = pid;
	s->nr = call_number(pid);
	if (ptrace(PTRACE_GET_SYSCALL_INFO, pid, sizeof(info), &info) > 0)
		for (size_t i = 0; i < ARRAY_LEN(s->args); i++)
			s->args[i] = info.entry.args[i];
}

static bool is_for_memory(long nr)
{
	return nr == SYS_brk || nr == SYS_mmap || nr == SYS_munmap || nr == SYS_mremap ||
	       nr == SYS_madvise || nr == SYS_mprotect;
}

static bool is_due(pid_t pid, struct shot *s)
{
	long nr = call_number(pid);

	if ((s->only_nr && nr != s->only_nr) || (s->no_memory && is_for_memory(nr)))
		return false;
	s->seen++;
	return s->act == ACT_EACH || (s->act != ACT_COUNT && s->seen == s->n);
}

/* Called at the entry of a system call. True: the child is not stopped at further system calls. */
static bool at_entry(pid_t pid, struct shot *s)
{
	if (!is_due(pid, s))
		return false;
	record_call(pid, s);
	if (s->act == ACT_CALL || s->act == ACT_EACH)
		s->fn(s->arg);
	else if (s->act == ACT_KILL)
		kill(pid, SIGKILL);
	else if (s->nr != SYS_close) /* close() closes the descriptor even if it returns an error */
		set_call_number(pid, -1);
	return s->act == ACT_CALL || s->act == ACT_KILL;
}

/* Returns the signal to deliver to the child; 0: none, since the stop is due to ptrace or to the
 * SIGSTOP that a child of model_run.c raises before it calls the store. */
static long forward(int st)
{
	int sig = WSTOPSIG(st);

	return sig == SIGTRAP || sig == STOP_SYSCALL || sig == SIGSTOP ? 0 : sig;
}

int trace_child(pid_t pid, struct shot *s, struct outcome *o)
{
	bool entered = false, over = false;
	int st = wait_child(pid, o);

	if (WIFSTOPPED(st))
		ptrace(PTRACE_SETOPTIONS, pid, 0, PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL);
	while (WIFSTOPPED(st)) {
		if (WSTOPSIG(st) == STOP_SYSCALL) {
			entered = !entered;
			if (entered)
				over = at_entry(pid, s);
			else if (s->hit && s->act == ACT_FAIL) {
				set_return(pid, -s->err);
				over = true;
			}
		}
		ptrace(over ? PTRACE_CONT : PTRACE_SYSCALL, pid, 0, forward(st));
		st = wait_child(pid, o);
	}
	return st;
}

void run(const struct command *c, struct shot *s, struct outcome *o)
{
	struct pipes p = {scratch(c->in), scratch(span_of("")), scratch(span_of(""))};
	bool traced = s && s->act != ACT_NONE && !s->hit;
	pid_t pid;
	int st;

	outcome_done(o);
	outcome_init(o);
	set_alarm(LIMIT_S);
	pid = fork();
	if (pid < 0)
		die("fork: %s", errno_text(errno));
	if (pid == 0)
		become(c, &p, traced);
	st = traced ? trace_child(pid, s, o) : wait_child(pid, o);
	set_alarm(0);
	o->status = WIFEXITED(st) ? WEXITSTATUS(st) : -1;
	o->sig = WIFSIGNALED(st) ? WTERMSIG(st) : 0;
	close(p.in);
	slurp(p.out, &o->out);
	slurp(p.err, &o->err);
}

void die(const char *fmt, ...)
{
	va_list ap;

	fputs("fault: ", stderr);
	va_start(ap, fmt);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fputc('\n', stderr);
	_exit(3);
}

void outcome_init(struct outcome *o)
{
	*o = (struct outcome){0};
	buf_init(&o->out, OUTCOME_MAX);
	buf_init(&o->err, OUTCOME_MAX);
}

void outcome_done(struct outcome *o)
{
	buf_done(&o->out);
	buf_done(&o->err);
}
