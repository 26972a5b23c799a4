/* SPDX-License-Identifier: Apache-2.0 */
#include "device/plugin/plugin.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/inotify.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/paths.h"
#include "base/random.h"
#include "device/plugin/internal.h"
#include "device/plugin/message.h"

enum {
	/* interval of checks for changes that inotify does not report: a file system mounted over
	 * the directory */
	CHECK_MS = 5000,
	REGISTER_MS = 15000,
	RETRY_BASE_MS = 200,
	RETRY_MAX_MS = 30000,
	/* time from an accepted registration until the kubelet must call ListAndWatch */
	STREAM_WAIT_MS = 3000,
	SIBLING_CLOSED_MS = 1000,
	NAME_CUT = 48,
	BACKLOG = 64,
	DOMAIN_LABEL_MAX = 253,
	QUALIFIED_NAME_MAX = 63,
};

#define KUBELET_SOCKET	"kubelet.sock"
#define REGISTER_METHOD "/v1beta1.Registration/Register"

struct place {
	char *path; /* path of the directory; NULL: the directory is not used */
	int wd;	    /* inotify watch; -1: none */
	dev_t dev;
	ino_t ino; /* dev, ino: identify the directory that is watched */
};

struct device_plugins {
	struct loop *loop;
	struct place dir, registry;
	int register_ms;
	int inotify;
	struct loop_fd *watch;
	struct loop_alarm check; /* timer of the next check, periodic or immediate */
	struct device_plugin *plugins;
};

/* --- names --- */

static bool is_label_char(char c)
{
	return isalnum((unsigned char)c) || c == '-';
}

static bool domain_ok(struct span d)
{
	struct span label;

	if (!d.n || d.n > DOMAIN_LABEL_MAX)
		return false;
	while (span_cut(&d, '.', &label)) {
		if (!label.n || label.n > 63 || label.p[0] == '-' || label.p[label.n - 1] == '-')
			return false;
		for (size_t i = 0; i < label.n; i++)
			if (!is_label_char(label.p[i]) || isupper((unsigned char)label.p[i]))
				return false;
	}
	return true;
}

static bool name_ok(struct span s)
{
	if (!s.n || s.n > QUALIFIED_NAME_MAX || !isalnum((unsigned char)s.p[0]) ||
	    !isalnum((unsigned char)s.p[s.n - 1]))
		return false;
	for (size_t i = 0; i < s.n; i++)
		if (!is_label_char(s.p[i]) && s.p[i] != '_' && s.p[i] != '.')
			return false;
	return true;
}

static bool has_suffix(struct span s, const char *suffix)
{
	size_t n = strlen(suffix);

	return s.n >= n && !memcmp(s.p + s.n - n, suffix, n);
}

int plugin_resource_check(const char *resource, struct err *e)
{
	struct span name = span_of(resource), domain;

	if (!span_cut(&name, '/', &domain) || !name.p)
		return err_kind(
			e, ERR_CONF, -EINVAL,
			"resource name '%s': expected DOMAIN/NAME, for instance rdma/hca_shared",
			resource);
	if (span_has_prefix(domain, "requests."))
		return err_kind(e, ERR_CONF, -EINVAL,
				"resource name '%s': the kubelet refuses the prefix 'requests.'",
				resource);
	/* "kubernetes.io/" anywhere in the name makes it a native resource (IsNativeResource). */
	if (has_suffix(domain, "kubernetes.io"))
		return err_kind(e, ERR_CONF, -EINVAL,
				"resource name '%s': a domain that ends with kubernetes.io is "
				"reserved for Kubernetes",
				resource);
	if (!domain_ok(domain))
		return err_kind(e, ERR_CONF, -EINVAL,
				"resource name '%s': '%.*s' is not a DNS domain in lower case",
				resource, (int)domain.n, domain.p);
	if (!name_ok(name))
		return err_kind(
			e, ERR_CONF, -EINVAL,
			"resource name '%s': '%.*s' is not 1 to 63 letters, digits, '-', '_' or "
			"'.', with a letter or digit at both ends",
			resource, (int)name.n, name.p);
	return 0;
}

/* Sets ret to the name of a socket file, without ".sock". The kubelet skips names that begin with a
 * dot. */
static void socket_name(char *ret, size_t size, const char *wanted)
{
	size_t n = strlen(wanted);

	snprintf(ret, size, "%.*s", NAME_CUT, wanted);
	for (char *p = ret; *p; p++)
		if (*p == '/' || (*p == '.' && p == ret))
			*p = '-';
	if (n > NAME_CUT)
		snprintf(ret + NAME_CUT - 9, size - NAME_CUT + 9, "-%08x",
			 (unsigned int)xxh64(wanted, n));
}

/* --- errors --- */

static void set_error(struct device_plugin *p, const char *text)
{
	if (!strcmp(p->sync_error, text))
		return;
	str_copy(p->sync_error, sizeof(p->sync_error), text);
	if (*text)
		log_warn("device plugin is not registered, retrying",
			 LOG_S("resource", p->resource), LOG_S("error", text));
}

/* Reports that the kubelet accepts or drops the resource. */
static void notify(struct device_plugin *p)
{
	bool is_held = p->n_streams > 0;

	if (is_held == p->was_reported)
		return;
	p->was_reported = is_held;
	if (is_held)
		log_info("device plugin registered", LOG_S("resource", p->resource),
			 LOG_S("socket", p->path), LOG_I("devices", (int64_t)p->list.n));
	if (p->ops->registered)
		p->ops->registered(p->arg, is_held, p->sync_error);
}

/* --- the socket --- */

/* Returns whether a process accepts connections on the socket. */
static bool is_served(const struct sockaddr_un *a)
{
	auto_fd int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	return fd >= 0 &&
	       (connect(fd, (const struct sockaddr *)a, sizeof(*a)) == 0 || errno == EAGAIN);
}

/* Chooses the path of a socket that no process serves; removes a stale socket at this path. */
static int choose_path(const char *dir, const char *name, struct sockaddr_un *a, struct err *e)
{
	unsigned char suffix[4];
	struct stat st;

	*a = (struct sockaddr_un){.sun_family = AF_UNIX};
	if (snprintf(a->sun_path, sizeof(a->sun_path), "%s/%s.sock", dir, name) >=
	    (int)sizeof(a->sun_path) - 9)
		return err_kind(e, ERR_CONF, -ENAMETOOLONG,
				"directory '%s' is too long a path for a socket '%s.sock'", dir,
				name);
	if (lstat(a->sun_path, &st) < 0)
		return 0;
	if (!S_ISSOCK(st.st_mode))
		return err_kind(e, ERR_CONF, -EEXIST, "'%s' exists and is not a socket: remove it",
				a->sun_path);
	if (!is_served(a)) {
		unlink(a->sun_path);
		return 0;
	}
	random_bytes(suffix, sizeof(suffix));
	snprintf(a->sun_path, sizeof(a->sun_path), "%s/%s.%02x%02x%02x%02x.sock", dir, name,
		 suffix[0], suffix[1], suffix[2], suffix[3]);
	return 0;
}

static int socket_bind(struct device_plugin *p, const struct sockaddr_un *a, struct err *e)
{
	auto_fd int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	mode_t old = umask(0177);
	struct stat st;
	int r = 0;

	if (fd < 0 || bind(fd, (const struct sockaddr *)a, sizeof(*a)) < 0)
		r = -errno;
	umask(old);
	if (!r && (lstat(a->sun_path, &st) < 0 || listen(fd, BACKLOG) < 0))
		r = -errno;
	if (r == -EACCES || r == -EPERM)
		return err_sys(e, r,
			       "listen on '%s' (if the directory was replaced since the start: "
			       "restart unirail)",
			       a->sun_path);
	if (r < 0)
		return err_sys(e, r, "listen on '%s'", a->sun_path);
	p->fd = take_fd(&fd);
	p->dev = st.st_dev;
	p->ino = st.st_ino;
	str_copy(p->path, sizeof(p->path), a->sun_path);
	return 0;
}

static bool is_dir(const char *path)
{
	struct stat st;

	return path && stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

static int plugin_open(struct device_plugin *p, struct err *e)
{
	const struct device_plugins *s = p->set;
	struct sockaddr_un a;
	int r;

	p->in_registry = is_dir(s->registry.path);
	if (!p->in_registry && !is_dir(s->dir.path))
		return err_kind(
			e, ERR_UNAVAILABLE, -ENOENT,
			"directory '%s' is missing: is the kubelet running, and the directory "
			"mounted here?",
			s->dir.path);
	r = choose_path(p->in_registry ? s->registry.path : s->dir.path, p->name, &a, e);
	/* listens and serves before Register is sent, because the kubelet connects before it
	 * answers Register */
	if (!r)
		r = socket_bind(p, &a, e);
	if (!r)
		r = grpc_server_new(&p->server, s->loop, p->fd, NULL, plugin_methods, p, e);
	return r;
}

static bool is_own(const struct device_plugin *p)
{
	struct stat st;

	return p->fd >= 0 && lstat(p->path, &st) == 0 && st.st_dev == p->dev && st.st_ino == p->ino;
}

static void registration_stop(struct device_plugin *p)
{
	grpc_cancel(p->registering);
	p->registering = NULL;
	loop_del_timer(p->retry);
	p->retry = NULL;
	p->kubelet.st_ino = 0;
}

/* Closes connections first and removes the path last: another agent of this node, which waits for
 * the removal, must register after the kubelet has noticed the end of these connections. */
static void plugin_close(struct device_plugin *p)
{
	bool own = is_own(p);
	int fd = take_fd(&p->fd);

	registration_stop(p);
	grpc_server_free(p->server);
	p->server = NULL;
	if (own)
		unlink(p->path);
	if (fd >= 0)
		close(fd);
}

/* --- registration --- */

static void plugin_try(struct device_plugin *p);

static void on_retry(void *arg)
{
	struct device_plugin *p = arg;

	p->retry = NULL;
	plugin_try(p);
}

static void retry_in(struct device_plugin *p, int64_t ms)
{
	loop_del_timer(p->retry);
	p->retry = loop_add_timer(p->set->loop, ms, on_retry, p);
}

static void failed(struct device_plugin *p, const char *reason)
{
	set_error(p, reason);
	retry_in(p, backoff_next(&p->backoff));
}

static void on_registered(void *arg, struct span reply, const struct err *e)
{
	struct device_plugin *p = arg;

	(void)reply;
	p->registering = NULL;
	plugin_on_status(p, e ? e->text : "");
}

void plugin_on_status(struct device_plugin *p, const char *error)
{
	char text[ERR_TEXT_MAX];

	if (*error) {
		p->kubelet.st_ino = 0;
		snprintf(text, sizeof(text), "register '%s' with the kubelet: %.900s", p->resource,
			 error);
		/* with plugins_registry the kubelet retries; plugin_try() has set a timer for a new
		 * socket */
		if (p->in_registry)
			set_error(p, text);
		else
			failed(p, text);
		return;
	}
	/* the kubelet has accepted; the registration is complete when it calls ListAndWatch */
	if (!p->n_streams)
		retry_in(p, STREAM_WAIT_MS);
}

void plugin_on_stream(struct device_plugin *p)
{
	if (p->n_streams) {
		backoff_reset(&p->backoff);
		set_error(p, "");
	} else if (p->fd >= 0 && !p->registering) {
		set_error(p, "the kubelet's ListAndWatch call has ended");
		retry_in(p, backoff_next(&p->backoff));
	}
	notify(p);
}

static void kubelet_path(const struct device_plugins *s, char *ret, size_t size)
{
	snprintf(ret, size, "%s/" KUBELET_SOCKET, s->dir.path);
}

static int start_register(struct device_plugin *p, struct err *e)
{
	char path[PATH_MAX];
	auto_buf struct buf b;
	struct grpc_call call = {
		.socket = path,
		.method = REGISTER_METHOD,
		.timeout_ms = p->set->register_ms,
		.max = 4096,
		.remedy = "is the kubelet running?",
	};

	kubelet_path(p->set, path, sizeof(path));
	if (stat(path, &p->kubelet) < 0)
		p->kubelet.st_ino = 0;
	buf_init(&b, 4096);
	message_register_encode(strrchr(p->path, '/') + 1, p->resource, p->ops->prestart != NULL,
				p->ops->preferred != NULL, &b);
	call.request = buf_span(&b);
	return grpc_start(p->set->loop, &call, on_registered, p, &p->registering, e);
}

/* Creates the socket if there is none; without plugins_registry then sends Register. */
static void plugin_try(struct device_plugin *p)
{
	struct err e = ERR_INIT;
	char text[ERR_TEXT_MAX];
	bool waited = p->fd >= 0 && p->in_registry;
	int r = 0;

	if (p->registering || p->n_streams)
		return;
	/* with plugins_registry the kubelet detects the plugin again only when a new socket
	 * appears */
	if (waited || (p->fd >= 0 && !is_own(p)))
		plugin_close(p);
	if (p->fd < 0)
		r = plugin_open(p, &e);
	if (!r && !p->in_registry)
		r = start_register(p, &e);
	if (r < 0) {
		snprintf(text, sizeof(text), "register '%s' with the kubelet: %.900s", p->resource,
			 e.text);
		failed(p, text);
	} else if (p->in_registry) {
		/* waits with backoff for the kubelet, then creates a new socket */
		retry_in(p, STREAM_WAIT_MS + backoff_next(&p->backoff));
	}
}

static void plugin_restart(struct device_plugin *p)
{
	plugin_close(p);
	backoff_reset(&p->backoff);
	plugin_try(p);
}

/* --- the directories --- */

static void place_watch(struct device_plugins *s, struct place *d)
{
	struct stat st;

	if (!d->path || stat(d->path, &st) < 0)
		return;
	if (d->wd >= 0 && st.st_dev == d->dev && st.st_ino == d->ino)
		return;
	if (d->wd >= 0)
		inotify_rm_watch(s->inotify, d->wd);
	d->wd = inotify_add_watch(s->inotify, d->path,
				  IN_CREATE | IN_DELETE | IN_MOVED_TO | IN_MOVED_FROM |
					  IN_DELETE_SELF | IN_MOVE_SELF | IN_ONLYDIR);
	d->dev = st.st_dev;
	d->ino = st.st_ino;
}

static void plugin_check(struct device_plugin *p)
{
	char path[PATH_MAX];
	struct stat st;

	if (p->fd < 0) {
		if (!p->retry || is_dir(p->set->dir.path))
			plugin_try(p);
		return;
	}
	if (!is_own(p)) {
		log_info("socket of a device plugin was removed, registering again",
			 LOG_S("resource", p->resource), LOG_S("socket", p->path));
		plugin_restart(p);
		return;
	}
	if (p->in_registry || p->registering)
		return;
	kubelet_path(p->set, path, sizeof(path));
	if (stat(path, &st) < 0)
		return;
	if (st.st_ino != p->kubelet.st_ino || st.st_dev != p->kubelet.st_dev ||
	    st.st_ctim.tv_sec != p->kubelet.st_ctim.tv_sec ||
	    st.st_ctim.tv_nsec != p->kubelet.st_ctim.tv_nsec) {
		bool is_new = p->kubelet.st_ino != 0;

		/* a new kubelet: closes the connections of the previous one */
		if (is_new)
			plugin_restart(p);
		else if (!p->retry)
			plugin_try(p);
	}
}

static void check(struct device_plugins *s)
{
	place_watch(s, &s->dir);
	place_watch(s, &s->registry);
	for (struct device_plugin *p = s->plugins; p; p = p->next)
		plugin_check(p);
}

static void on_check(void *arg)
{
	struct device_plugins *s = arg;

	check(s);
	loop_alarm_set(&s->check, CHECK_MS);
}

/* Returns whether the file is "NAME.sock" or "NAME.xxxxxxxx.sock", but not the socket of this
 * process. */
static bool is_sibling(const struct device_plugin *p, const char *file)
{
	size_t n = strlen(p->name);
	const char *own = strrchr(p->path, '/');

	if (strncmp(file, p->name, n) || (own && !strcmp(own + 1, file)))
		return false;
	return !strcmp(file + n, ".sock") || (file[n] == '.' && strlen(file + n) == 14);
}

static void on_sibling_closed(void *arg)
{
	struct device_plugin *p = arg;

	p->retry = NULL;
	log_info("another device plugin of this resource has stopped, registering again",
		 LOG_S("resource", p->resource));
	plugin_restart(p);
}

static void on_removed(struct device_plugins *s, const char *file)
{
	for (struct device_plugin *p = s->plugins; p; p = p->next)
		if (p->fd >= 0 && is_sibling(p, file)) {
			loop_del_timer(p->retry);
			p->retry = loop_add_timer(s->loop, SIBLING_CLOSED_MS, on_sibling_closed, p);
		}
}

static void on_kubelet(struct device_plugins *s)
{
	for (struct device_plugin *p = s->plugins; p; p = p->next)
		if (!p->n_streams && !p->registering) {
			backoff_reset(&p->backoff);
			retry_in(p, 0);
		}
}

static void on_event(struct device_plugins *s, const struct inotify_event *ev)
{
	if (ev->mask & (IN_IGNORED | IN_DELETE_SELF | IN_MOVE_SELF)) {
		if (ev->wd == s->dir.wd)
			s->dir.wd = -1;
		if (ev->wd == s->registry.wd)
			s->registry.wd = -1;
		return;
	}
	if (!ev->len)
		return;
	if (ev->mask & (IN_DELETE | IN_MOVED_FROM))
		on_removed(s, ev->name);
	else if (!strcmp(ev->name, KUBELET_SOCKET))
		on_kubelet(s);
}

static void on_inotify(void *arg, uint32_t events)
{
	struct device_plugins *s = arg;
	_Alignas(struct inotify_event) char b[4096];
	ssize_t n;

	(void)events;
	while ((n = read(s->inotify, b, sizeof(b))) > 0) {
		for (char *at = b; at < b + n;) {
			const struct inotify_event *ev = (const struct inotify_event *)at;

			on_event(s, ev);
			at += sizeof(*ev) + ev->len;
		}
	}
	loop_alarm_within(&s->check, 0);
}

/* --- functions of plugin.h --- */

int device_plugins_new(struct device_plugins **ret, struct loop *l,
		       const struct device_plugins_conf *c, struct err *e)
{
	const char *registry = c->registry ? c->registry : DEVICE_PLUGIN_REGISTRY;
	struct device_plugins *s = xcalloc(1, sizeof(*s));
	int r;

	*s = (struct device_plugins){
		.loop = l,
		.check = LOOP_ALARM(l, on_check, s),
		.dir = {.path = xstrdup(c->dir ? c->dir : PATH_DEVICE_PLUGINS), .wd = -1},
		.registry = {.path = *registry ? xstrdup(registry) : NULL, .wd = -1},
		.register_ms = c->register_ms ? c->register_ms : REGISTER_MS,
		.inotify = inotify_init1(IN_NONBLOCK | IN_CLOEXEC),
	};
	if (s->inotify < 0) {
		r = err_sys(
			e, -errno,
			"watch the kubelet's directories (see sysctl fs.inotify.max_user_instances)");
		device_plugins_free(s);
		return r;
	}
	r = loop_add_fd(l, s->inotify, EPOLLIN, on_inotify, s, &s->watch, e);
	if (r < 0) {
		device_plugins_free(s);
		return r;
	}
	on_check(s);
	*ret = s;
	return 0;
}

void device_plugins_free(struct device_plugins *s)
{
	if (!s)
		return;
	while (s->plugins)
		plugin_stop(s->plugins);
	loop_alarm_cancel(&s->check);
	loop_del_fd(s->watch);
	cleanup_fd(&s->inotify);
	free(s->dir.path);
	free(s->registry.path);
	free(s);
}

static void on_changed(void *arg)
{
	struct device_plugin *p = arg;

	if (plugin_list_update(p))
		for (size_t i = 0; i < p->n_streams; i++)
			grpc_in_send(p->streams[i], buf_span(&p->message));
}

int plugin_serve(struct device_plugins *s, const char *resource, const char *name,
		 const struct device_plugin_ops *ops, void *arg, struct device_plugin **ret,
		 struct err *e)
{
	struct device_plugin *p;
	int r = plugin_resource_check(resource, e);

	if (r < 0)
		return r;
	for (p = s->plugins; p; p = p->next)
		if (!strcmp(p->resource, resource))
			return err_kind(e, ERR_CONF, -EEXIST, "resource '%s' is served already",
					resource);
	p = xcalloc(1, sizeof(*p));
	*p = (struct device_plugin){.set = s,
				    .resource = xstrdup(resource),
				    .ops = ops,
				    .arg = arg,
				    .fd = -1,
				    .changed = LOOP_ALARM(s->loop, on_changed, p),
				    .backoff = {RETRY_BASE_MS, RETRY_MAX_MS, 0},
				    .next = s->plugins};
	socket_name(p->name, sizeof(p->name), name);
	buf_init(&p->message, GRPC_MESSAGE_MAX);
	s->plugins = p;
	/* starts by a timer, so that *ret is set before the first callback */
	retry_in(p, 0);
	*ret = p;
	return 0;
}

void plugin_changed(struct device_plugin *p)
{
	loop_alarm_within(&p->changed, 0);
}

void plugin_stop(struct device_plugin *p)
{
	struct device_plugin **at;

	if (!p)
		return;
	for (at = &p->set->plugins; *at != p;)
		at = &(*at)->next;
	*at = p->next;
	p->ops = &(const struct device_plugin_ops){0};
	plugin_close(p);
	registration_stop(p);
	loop_alarm_cancel(&p->changed);
	device_plugin_list_done(&p->list);
	buf_done(&p->message);
	free(p->resource);
	free(p);
}

bool plugin_is_registered(const struct device_plugin *p)
{
	return p->n_streams > 0;
}

const char *plugin_error(const struct device_plugin *p)
{
	return p->n_streams ? "" : p->sync_error[0] ? p->sync_error : "waiting for the kubelet";
}
