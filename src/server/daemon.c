/* SPDX-License-Identifier: Apache-2.0 */
#include "server/daemon.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/log.h"

enum { POLL_MS = 5 * 1000 };

/* Identity of a file when it was last read. */
struct seen {
	ino_t ino;
	off_t size;
	struct timespec mtime;
};

struct daemon {
	struct loop *loop;
	struct daemon_ops ops;
	void *arg;
	int signals;
	struct loop_fd *watch;
	bool ending;
	const char *file;
	struct seen seen;
	struct loop_alarm poll;
	const struct root *root;
	const char *pid_file;
};

/* --- settings file --- */

static struct seen file_state(const char *path)
{
	struct stat st;

	if (!path || stat(path, &st) < 0)
		return (struct seen){0};
	return (struct seen){st.st_ino, st.st_size, st.st_mtim};
}

static bool is_same(const struct seen *a, const struct seen *b)
{
	return a->ino == b->ino && a->size == b->size && a->mtime.tv_sec == b->mtime.tv_sec &&
	       a->mtime.tv_nsec == b->mtime.tv_nsec;
}

static void reload(struct daemon *d)
{
	d->seen = file_state(d->file);
	d->ops.reload(d->arg);
}

static void on_poll(void *arg)
{
	struct daemon *d = arg;
	struct seen now = file_state(d->file);

	loop_alarm_set(&d->poll, POLL_MS);
	if (!is_same(&now, &d->seen))
		reload(d);
}

void daemon_watch(struct daemon *d, const char *path)
{
	d->file = path;
	d->seen = file_state(path);
	loop_alarm_within(&d->poll, POLL_MS);
}

/* --- signals --- */

static void on_signal(void *arg, uint32_t events)
{
	struct signalfd_siginfo info;
	struct daemon *d = arg;

	(void)events;
	if (read(d->signals, &info, sizeof(info)) != sizeof(info))
		return;
	if (info.ssi_signo == SIGHUP) {
		reload(d);
	} else if (d->ending) {
		loop_stop(d->loop, 0);
	} else {
		d->ending = true;
		log_info("shutting down, pending requests are answered first");
		d->ops.end(d->arg);
	}
}

static int watch_signals(struct daemon *d, struct err *e)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGHUP);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	sigprocmask(SIG_BLOCK, &set, NULL);
	signal(SIGPIPE, SIG_IGN);
	d->signals = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
	if (d->signals < 0)
		return err_sys(e, -errno, "wait for signals");
	return loop_add_fd(d->loop, d->signals, EPOLLIN, on_signal, d, &d->watch, e);
}

/* --- creation and destruction --- */

int daemon_new(struct daemon **ret, struct loop *l, const struct daemon_ops *ops, void *arg,
	       struct err *e)
{
	struct daemon *d = xcalloc(1, sizeof(*d));
	int r;

	*d = (struct daemon){.loop = l,
			     .ops = *ops,
			     .arg = arg,
			     .signals = -1,
			     .poll = LOOP_ALARM(l, on_poll, d)};
	r = watch_signals(d, e);
	if (r < 0) {
		daemon_free(d);
		return r;
	}
	*ret = d;
	return 0;
}

void daemon_free(struct daemon *d)
{
	if (!d)
		return;
	if (d->pid_file)
		file_remove(d->root, d->pid_file, NULL);
	loop_alarm_cancel(&d->poll);
	loop_del_fd(d->watch);
	cleanup_fd(&d->signals);
	free(d);
}

int daemon_pid_file(struct daemon *d, const struct root *root, const char *path, struct err *e)
{
	char text[32];
	int r;

	if (!path)
		return 0;
	snprintf(text, sizeof(text), "%d\n", (int)getpid());
	r = file_replace(root, path, span_of(text), 0644, e);
	if (r < 0)
		return r;
	d->root = root;
	d->pid_file = path;
	return 0;
}

/* --- log and limit of connections --- */

int daemon_log(const char *level, const char *format, struct err *e)
{
	struct log_conf l = {.format = strcmp(format, "json") == 0 ? LOG_JSON : LOG_LOGFMT};

	if (log_level_parse(level, &l.level) < 0)
		return err_kind(e, ERR_CONF, -EINVAL,
				"log level '%s' is not known, expected debug, info, warn or error",
				level);
	return log_setup(&l, e);
}

int daemon_connections(int64_t wanted, int reserve, struct err *e)
{
	struct rlimit r;
	int64_t most;

	if (getrlimit(RLIMIT_NOFILE, &r) < 0)
		return err_sys(e, -errno, "read the limit of open files");
	r.rlim_cur = r.rlim_max;
	setrlimit(RLIMIT_NOFILE, &r);
	getrlimit(RLIMIT_NOFILE, &r);
	most = r.rlim_cur > INT32_MAX ? INT32_MAX : (int64_t)r.rlim_cur - reserve;
	if (most < 1)
		return err_kind(
			e, ERR_CONF, -EMFILE,
			"at most %lld open files are allowed, expected %d at least (ulimit -n)",
			(long long)r.rlim_cur, reserve + 1);
	if (wanted > most)
		log_warn("fewer connections than configured: the limit of open files is too low",
			 LOG_I("connections", most));
	return (int)(wanted < most ? wanted : most);
}
