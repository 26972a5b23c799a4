/* SPDX-License-Identifier: Apache-2.0 */
#include "device/serve/sources.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "base/alloc.h"
#include "base/child.h"
#include "base/log.h"
#include "kern/rdma/rdma_watch.h"

/* Intervals at which the reporters are listed. READ_WATCHED_MS: the kernel sends notifications;
 * without notifications READ_ERROR_MS while a reporter has an error, else READ_MS. */
enum { READ_WATCHED_MS = 60 * 1000, READ_MS = 5000, READ_ERROR_MS = 1000 };

struct reporters {
	struct devlink_reporter *v;
	size_t n;
};

struct health_sources {
	struct health_sources_conf conf;
	struct nl_wire *wire;
	struct devlink *devlink;
	int reports, rdma;
	struct loop_fd *watch_reports, *watch_rdma;
	struct reporters known;
	/* notifications received since the child was started, in their order */
	struct reporters news;
	/* child that lists the reporters; not NULL until it has ended, even if it was killed */
	struct child *child;
	/* set only while child_start() runs, for the child process */
	const struct node_devices *node;
	int64_t read_at; /* loop time at which the reporters are to be listed next */
	bool is_error, is_reading_failed;
};

static int by_id(const void *a, const void *b)
{
	return strcmp(((const struct node_device *)a)->id, ((const struct node_device *)b)->id);
}

/* Returns the PF that has the reporter's PCI address; NULL: the node has no function with this
 * address, or the function is not a PF. Functions are sorted by address; auxiliary and software
 * devices follow. */
static const struct node_device *find_pf(const struct node_devices *node,
					 const struct devlink_reporter *p)
{
	struct node_device key = {0};
	const struct node_device *d;
	size_t n = node_devices_functions(node);

	if (strcmp(p->bus, "pci") != 0 || !str_copy(key.id, sizeof(key.id), p->dev))
		return NULL;
	d = n ? bsearch(&key, node->v, n, sizeof(key), by_id) : NULL;
	return d && !d->pf[0] ? d : NULL;
}

void health_reports(const struct devlink_reporter *v, size_t n, const struct node_devices *node,
		    enum health_report *ret)
{
	for (size_t i = 0; i < node->n; i++)
		ret[i] = HEALTH_REPORT_UNKNOWN;
	for (size_t i = 0; i < n; i++) {
		const struct node_device *d = v[i].can_recover ? find_pf(node, &v[i]) : NULL;
		enum health_report state = !v[i].is_error ? HEALTH_REPORT_OK
					   : v[i].of_port ? HEALTH_REPORT_PORT
							  : HEALTH_REPORT_DEVICE;

		if (d && state > ret[d - node->v])
			ret[d - node->v] = state;
	}
}

static bool is_same(const struct devlink_reporter *a, const struct devlink_reporter *b)
{
	return a->of_port == b->of_port && a->port == b->port && strcmp(a->name, b->name) == 0 &&
	       strcmp(a->dev, b->dev) == 0 && strcmp(a->bus, b->bus) == 0;
}

bool health_reporters_update(struct devlink_reporter **v, size_t *n,
			     const struct devlink_reporter *p)
{
	for (size_t i = 0; i < *n; i++)
		if (is_same(&(*v)[i], p)) {
			(*v)[i] = *p;
			return true;
		}
	if (*n >= HEALTH_REPORTERS_MAX)
		return false;
	VEC_PUSH(*v, *n) = *p;
	return true;
}

/* --- child process --- */

/* Retains only reporters that health_reports() uses: those of PFs, with recovery. A thousand VFs
 * have some thousand reporters. */
static size_t keep_pfs(struct devlink_reporter *v, size_t n, const struct node_devices *node)
{
	size_t n_pfs = 0;

	for (size_t i = 0; i < n && n_pfs < HEALTH_REPORTERS_MAX; i++)
		if (v[i].can_recover && find_pf(node, &v[i]))
			v[n_pfs++] = v[i];
	return n_pfs;
}

static int list_devlink(struct devlink_reporter **ret, size_t *n, struct err *e)
{
	auto_nl struct nl_wire *wire = NULL;
	auto_devlink struct devlink *devlink = NULL;
	int r = nl_open(&wire, NL_GENERIC, -1, e);

	if (r >= 0)
		r = devlink_open(&devlink, wire, e);
	return r < 0 ? r : devlink_reporter_list(devlink, ret, n, e);
}

enum { LIST_OK, LIST_NONE, LIST_FAILED };

/* Writes the list for the parent, which is the same program: the structs as they are in memory, or
 * the text of the error. */
static int list_to_stdout(void *arg)
{
	const struct health_sources *s = arg;
	struct devlink_reporter *v = NULL;
	struct err e = ERR_INIT;
	size_t n = 0;
	int r;

	child_close_others();
	r = s->conf.list(&v, &n, &e);
	if (r == -EOPNOTSUPP)
		return LIST_NONE;
	if (r < 0) {
		child_put(e.text, strlen(e.text));
		return LIST_FAILED;
	}
	n = keep_pfs(v, n, s->node);
	return child_put(v, n * sizeof(*v)) ? LIST_OK : LIST_FAILED;
}

/* --- event loop --- */

static void find_errors(struct health_sources *s)
{
	s->is_error = false;
	for (size_t i = 0; i < s->known.n; i++)
		s->is_error |= s->known.v[i].is_error;
}

static void take_list(struct health_sources *s, struct span out)
{
	struct reporters next = {.n = out.n / sizeof(*next.v)};

	if (next.n) {
		next.v = xcalloc(next.n, sizeof(*next.v));
		memcpy(next.v, out.p, next.n * sizeof(*next.v));
	}
	/* applies the notifications again, because the child may have read a reporter before its
	 * notification was sent */
	for (size_t i = 0; i < s->news.n; i++)
		if (!health_reporters_update(&next.v, &next.n, &s->news.v[i]))
			s->read_at = 0;
	free(s->known.v);
	s->known = next;
	find_errors(s);
	s->conf.health(s->conf.arg);
}

static void on_ended(void *arg)
{
	((struct health_sources *)arg)->child = NULL;
}

static void on_list(void *arg, int status, struct span out, const struct err *e)
{
	struct health_sources *s = arg;
	bool is_failed = e || (status != LIST_OK && status != LIST_NONE);
	auto_free char *text = span_dup(out);

	/* after a timeout, s->child stays set until on_ended(): the child was killed, but has
	 * not ended */
	if (!e || e->code != -ETIMEDOUT)
		s->child = NULL;
	if (is_failed && !s->is_reading_failed)
		log_warn("cannot read devlink health reporters, the last state is kept, will retry",
			 LOG_S("error", e ? e->text : text));
	s->is_reading_failed = is_failed;
	if (!is_failed)
		take_list(s, status == LIST_OK ? out : (struct span){NULL, 0});
}

static int64_t interval_ms(const struct health_sources *s)
{
	return s->conf.every_ms	  ? s->conf.every_ms
	       : s->watch_reports ? READ_WATCHED_MS
	       : s->is_error	  ? READ_ERROR_MS
				  : READ_MS;
}

static void start_list(struct health_sources *s, const struct node_devices *node)
{
	const struct child_conf c = {
		.run = list_to_stdout,
		.run_arg = s,
		.timeout_ms = (int)s->conf.list_ms,
		.max = HEALTH_REPORTERS_MAX * sizeof(struct devlink_reporter),
		.ended = on_ended,
	};
	struct err e = ERR_INIT;

	s->node = node;
	s->news.n = 0;
	if (child_start(&s->child, s->conf.loop, &c, on_list, s, &e) < 0)
		on_list(s, 0, (struct span){NULL, 0}, &e);
	s->node = NULL;
}

void health_sources_read(struct health_sources *s, const struct node_devices *node,
			 enum health_report *ret)
{
	int64_t now = loop_now_ms(s->conf.loop);

	bool can_list = s->devlink || s->conf.list != list_devlink;

	if (can_list && !s->child && now >= s->read_at) {
		s->read_at = now + interval_ms(s);
		start_list(s, node);
	}
	health_reports(s->known.v, s->known.n, node, ret);
}

static void take_news(struct health_sources *s, const struct devlink_reporter *p)
{
	if (s->child && s->news.n < HEALTH_REPORTERS_MAX)
		VEC_PUSH(s->news.v, s->news.n) = *p;
	else if (s->child)
		s->read_at = 0;
	if (!health_reporters_update(&s->known.v, &s->known.n, p))
		s->read_at = 0;
}

static void on_report(void *arg, uint32_t events)
{
	struct health_sources *s = arg;
	struct devlink_reporter p;
	bool any = false;
	int r;

	(void)events;
	for (; (r = devlink_watch_next(s->devlink, s->reports, &p)) > 0; any = true)
		if (p.can_recover)
			take_news(s, &p);
	if (r == -ENOBUFS)
		s->read_at = 0;
	if (!any && r != -ENOBUFS)
		return;
	find_errors(s);
	s->conf.health(s->conf.arg);
}

static void on_rdma(void *arg, uint32_t events)
{
	struct health_sources *s = arg;
	struct rdma_event ev;
	bool any = false;
	int r;

	(void)events;
	while ((r = rdma_watch_next(s->rdma, &ev, NULL)) > 0)
		any = true;
	if (any || r == -ENOBUFS)
		s->conf.devices(s->conf.arg);
}

static void watch(struct health_sources *s, int *fd, void (*cb)(void *, uint32_t),
		  struct loop_fd **ret)
{
	struct err e = ERR_INIT;

	if (loop_add_fd(s->conf.loop, *fd, EPOLLIN, cb, s, ret, &e) == 0)
		return;
	log_warn("cannot wait for devlink or RDMA events of the kernel", LOG_S("error", e.text));
	cleanup_fd(fd);
}

static void open_devlink(struct health_sources *s)
{
	if (nl_open(&s->wire, NL_GENERIC, -1, NULL) < 0)
		return;
	if (devlink_open(&s->devlink, s->wire, NULL) < 0) {
		nl_cleanup(&s->wire);
		return;
	}
	if (devlink_watch_open(s->devlink, &s->reports, NULL) == 0)
		watch(s, &s->reports, on_report, &s->watch_reports);
}

void health_sources_open(struct health_sources *s)
{
	if (!s->devlink)
		open_devlink(s);
	if (s->rdma < 0 && rdma_watch_open(&s->rdma, NULL) == 0)
		watch(s, &s->rdma, on_rdma, &s->watch_rdma);
}

struct health_sources *health_sources_new(const struct health_sources_conf *c)
{
	struct health_sources *s = xcalloc(1, sizeof(*s));

	s->conf = *c;
	s->reports = s->rdma = -1;
	if (!c->list)
		s->conf.list = list_devlink;
	if (!c->list_ms)
		s->conf.list_ms = HEALTH_REPORTERS_MS;
	return s;
}

void health_sources_free(struct health_sources *s)
{
	if (!s)
		return;
	loop_del_fd(s->watch_reports);
	loop_del_fd(s->watch_rdma);
	cleanup_fd(&s->reports);
	cleanup_fd(&s->rdma);
	devlink_cleanup(&s->devlink);
	nl_cleanup(&s->wire);
	child_cancel(s->child);
	free(s->known.v);
	free(s->news.v);
	free(s);
}
