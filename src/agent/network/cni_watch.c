/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/network/cni_watch.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/inotify.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/log.h"

enum { REASON_MAX = 700, FORGET_MS = 10 * 60 * 1000, BACKOFF_MIN_MS = 1000 };

#define CHANGES                                                                                    \
	(IN_CREATE | IN_DELETE | IN_CLOSE_WRITE | IN_MOVED_FROM | IN_MOVED_TO | IN_DELETE_SELF |   \
	 IN_MOVE_SELF | IN_ONLYDIR)

struct cni_watch {
	struct cni_watch_conf conf;
	int fd;
	struct loop_fd *watch;
	struct loop_alarm timer;
	bool swept; /* this process has removed generated files with other names */
	/* the files indicate that the container runtime uses the generated configuration or a
	 * user's configuration of unirail-cni */
	bool used;
	bool waits; /* there is no network to wrap: the kubelet reports the node as not ready */
	bool wrote; /* the generated file was up to date after the last scan of the directory */
	char *network;
	char *cause;
	/* number of removals of the file by another program, each less than FORGET_MS after the
	 * previous removal */
	int removals;
	int64_t removed_ms, backoff_ms;
};

/* --- reports of the watch's state --- */

static void report(struct cni_watch *w, bool warning, const char *text)
{
	if (w->conf.events)
		kube_events_add(w->conf.events,
				&(struct kube_event){.api_version = "v1",
						     .kind = "Node",
						     .name = w->conf.node,
						     /* the UID of the Event's object is the node's
						      * name, as in the kubelet's Events */
						     .uid = w->conf.node,
						     .warning = warning,
						     .reason = warning ? "CNIConfigNotUsed"
								       : "CNIConfigUsed",
						     .message = text});
}

/* Logs a changed state. event: a cause is also written as a warning Event, because an administrator
 * must act. The change from any cause to none is always written as an Event. */
static void take_state(struct cni_watch *w, bool used, const char *cause, bool event)
{
	bool was_reported = w->cause && *w->cause,
	     changed = !w->cause || strcmp(w->cause, cause) != 0;

	w->used = used;
	if (!changed)
		return;
	free(w->cause);
	w->cause = xstrdup(cause);
	if (*cause) {
		log_warn("the container runtime does not use unirail's CNI configuration as "
			 "intended",
			 LOG_S("reason", cause));
		if (event)
			report(w, true, cause);
		return;
	}
	log_info("the container runtime uses unirail's CNI configuration",
		 LOG_S("file", w->conf.name), LOG_S("network", w->network));
	if (was_reported)
		report(w, false, "the container runtime uses unirail's CNI configuration");
}

/* --- scan of the CNI configuration directory --- */

/* Counts a removal: the generated file existed at the last scan and is missing now. */
static void count_removal(struct cni_watch *w, int64_t now)
{
	bool again = w->removals > 0 && now - w->removed_ms < FORGET_MS;

	w->removals = again ? w->removals + 1 : 1;
	w->removed_ms = now;
	if (!again)
		w->backoff_ms = 0;
	else if (w->backoff_ms == 0)
		w->backoff_ms = BACKOFF_MIN_MS;
	else if (w->backoff_ms < CNI_WATCH_BACKOFF_MAX_MS / 2)
		w->backoff_ms *= 2;
	else
		w->backoff_ms = CNI_WATCH_BACKOFF_MAX_MS;
}

static bool is_removed_again(const struct cni_watch *w, int64_t now)
{
	return w->removals > 2 && now - w->removed_ms < FORGET_MS;
}

static const char *renamed(const struct cni_config_files *l)
{
	for (size_t i = 0; i < l->n; i++)
		if (l->v[i].kind == CNI_CONFIG_IGNORED)
			return l->v[i].name;
	return NULL;
}

static bool is_there(const struct cni_config_files *l, const char *name)
{
	for (size_t i = 0; i < l->n; i++)
		if (strcmp(l->v[i].name, name) == 0)
			return true;
	return false;
}

static void describe_removal(const struct cni_watch *w, const struct cni_config_files *l,
			     struct buf *b)
{
	const char *as = renamed(l);

	buf_printf(b, "another program repeatedly removes '%s/%s'", w->conf.dir, w->conf.name);
	if (as)
		buf_printf(b,
			   ", renaming the file to '%s': install Cilium with cni.exclusive=false",
			   as);
	else
		buf_str(b, ": stop that program; while the file is missing, pods get no rails");
}

static void inspect(struct cni_watch *w, const struct cni_config_files *l,
		    struct cni_config_plan *p)
{
	int64_t now = loop_now_ms(w->conf.loop), left;
	bool deleted = w->wrote && p->write && !is_there(l, w->conf.name);
	struct err e = ERR_INIT;
	auto_buf struct buf cause;

	buf_init(&cause, REASON_MAX);
	if (deleted)
		count_removal(w, now);
	left = p->write && w->removals ? w->removed_ms + w->backoff_ms - now : 0;
	w->wrote = p->text.len > 0 && !p->write;
	if (left > 0) {
		loop_alarm_within(&w->timer, left);
	} else if (cni_config_apply(w->conf.root, w->conf.dir, w->conf.name, p, &e) < 0) {
		buf_printf(&cause, "%s; mount '%s' writable into the agent's pod", e.text,
			   w->conf.dir);
	} else {
		w->wrote = p->text.len > 0;
	}
	if (!cause.len)
		cni_config_describe(p, w->conf.dir, w->conf.name, &cause);
	if (!cause.len && (left > 0 || is_removed_again(w, now)))
		describe_removal(w, l, &cause);
	free(w->network);
	w->network = xstrdup(p->state == CNI_CONFIG_IS_FIRST && p->file ? p->file : "");
	w->waits = p->state == CNI_CONFIG_NO_NETWORK && !e.code;
	take_state(w,
		   p->state == CNI_CONFIG_IS_WRITTEN ||
			   (p->state == CNI_CONFIG_IS_FIRST && w->wrote),
		   cause.len ? buf_span(&cause).p : "", !w->waits);
}

/*
 * Sets the inotify watch again in case the directory was recreated; on the same directory this has
 * no effect.
 */
static void follow(struct cni_watch *w)
{
	if (w->fd >= 0 && inotify_add_watch(w->fd, w->conf.dir, CHANGES) < 0 && errno != ENOENT)
		log_debug("cannot watch a directory, polling it", LOG_S("directory", w->conf.dir));
}

static void scan(struct cni_watch *w)
{
	auto_cni_config struct cni_config_files files = {0};
	struct cni_config_plan p;
	struct err e = ERR_INIT;
	int r = dir_make(w->conf.root, w->conf.dir, 0755, &e);

	follow(w);
	if (r == 0)
		r = cni_config_read(w->conf.root, w->conf.dir, &files, &e);
	/* Removes files of other names only once: two agents with different file names would
	 * otherwise remove each other's file forever. */
	if (r == 0 && !w->swept) {
		r = cni_config_remove(w->conf.root, w->conf.dir, &files, w->conf.name, &e);
		w->swept = r >= 0;
	}
	if (r < 0) {
		w->waits = false;
		take_state(w, false, e.text, true);
		return;
	}
	cni_config_plan(&files, w->conf.dir, w->conf.name, w->conf.socket, &p);
	inspect(w, &files, &p);
	cni_config_plan_done(&p);
}

/* --- timer and inotify events of the watch --- */

static void on_time(void *arg)
{
	struct cni_watch *w = arg;

	loop_alarm_within(&w->timer, CNI_WATCH_EVERY_MS);
	scan(w);
}

static void on_changes(void *arg, uint32_t events)
{
	char buf[4096] __attribute__((aligned(__alignof__(struct inotify_event))));
	struct cni_watch *w = arg;

	(void)events;
	while (read(w->fd, buf, sizeof(buf)) > 0)
		;
	loop_alarm_within(&w->timer, CNI_WATCH_DELAY_MS);
}

/* --- start and stop of the watch --- */

int cni_watch_new(struct cni_watch **ret, const struct cni_watch_conf *c, struct err *e)
{
	struct cni_watch *w;
	int r = cni_config_check_name(c->name, e);

	if (r < 0)
		return err_wrap(e, r, "setting cni-conf-name");
	w = xcalloc(1, sizeof(*w));
	*w = (struct cni_watch){.conf = *c,
				.fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC),
				.timer = LOOP_ALARM(c->loop, on_time, w)};
	if (w->fd < 0)
		log_warn("no inotify: changes of the CNI configuration directory are noticed by "
			 "polling only",
			 LOG_S("error", strerror(errno)));
	else
		r = loop_add_fd(c->loop, w->fd, EPOLLIN, on_changes, w, &w->watch, e);
	if (r < 0) {
		cni_watch_free(w);
		return r;
	}
	on_time(w);
	*ret = w;
	return 0;
}

void cni_watch_free(struct cni_watch *w)
{
	if (!w)
		return;
	loop_alarm_cancel(&w->timer);
	loop_del_fd(w->watch);
	cleanup_fd(&w->fd);
	free(w->network);
	free(w->cause);
	free(w);
}

/* --- queries of the watch's state --- */

bool cni_watch_used(const struct cni_watch *w)
{
	return w && w->used;
}

int cni_watch_ready(const struct cni_watch *w, struct err *e)
{
	if (!w || w->used || w->waits)
		return 0;
	return err_kind(e, ERR_AGAIN, -EAGAIN, "%s", w->cause);
}

void cni_watch_put(const struct cni_watch *w, struct json_out *o)
{
	if (!w) {
		jo_null(o);
		return;
	}
	jo_obj(o);
	jo_kbool(o, "used", w->used);
	jo_kstr(o, "file", w->conf.name);
	jo_kstr(o, "network", w->network ? w->network : "");
	jo_kstr(o, "reason", w->cause ? w->cause : "");
	jo_end_obj(o);
}
