/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_TESTS_TRACE_H
#define UNIRAIL_TESTS_TRACE_H

/* One run of a program, stopped at its n-th system call. */

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/err.h"

enum act {
	ACT_NONE,  /* the run is not traced */
	ACT_COUNT, /* every call is counted */
	ACT_KILL,  /* SIGKILL instead of the n-th call */
	ACT_FAIL,  /* the n-th call returns -err and, unless it is close(), is not made */
	ACT_CALL,  /* fn(arg) before the n-th call */
	ACT_EACH,  /* fn(arg) before each call */
};

struct shot {
	enum act act;
	int err;
	/* which call is hit: 1 is the first; counting continues over all runs with this shot */
	long n;
	/* number of a system call (SYS_*): calls of other kinds are not counted; 0: all are */
	long only_nr;
	/* Calls that allocate or free memory are not counted: in a child that was forked without
	 * exec, their number depends on the heap that the child inherits, and therefore on
	 * earlier runs. */
	bool no_memory;
	void (*fn)(void *arg);
	void *arg;
	/* out */
	long seen; /* calls so far */
	bool hit;
	pid_t pid; /* the child, which is stopped at the call while fn() runs */
	long nr;   /* the system call that was hit */
	unsigned long args[3];
};

enum { OUTCOME_MAX = 1 << 22 }; /* maximum of stdout and of stderr, in bytes */

struct outcome {
	int status; /* exit status; -1: ended by `sig` or by the time limit */
	int sig;
	bool late; /* killed at the time limit */
	struct buf out, err;
};
void outcome_init(struct outcome *o);
void outcome_done(struct outcome *o);

struct command {
	const char *dir;  /* chroot */
	const char *path; /* of the program, in dir */
	char *const *argv, *const *env;
	struct span in;
};
/*
 * For a child that has called PTRACE_TRACEME: injects the fault and waits until the child has
 * ended; returns the last wait status.
 */
int trace_child(pid_t pid, struct shot *s, struct outcome *o);
/* Runs the program in the caller's network namespace. An error of the driver ends the driver. */
void run(const struct command *c, struct shot *s, struct outcome *o);
const char *call_name(long nr);
/* "kill", "EIO" ... */
const char *act_name(const struct shot *s);
int act_parse(const char *word, struct shot *s);

/* Prints an error of the test program itself, and ends the program with exit status 3. */
void die(const char *fmt, ...) __attribute__((format(printf, 1, 2), noreturn));

#endif
