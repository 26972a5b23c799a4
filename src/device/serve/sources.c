/* SPDX-License-Identifier: Apache-2.0 */
#include "device/serve/sources.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "base/alloc.h"
#include "base/log.h"
#include "kern/rdma/rdma_watch.h"

/* Notifications come at once; this is for kernels without them. */
enum { READ_MS = 5000, READ_ERROR_MS = 1000 };

struct health_sources {
	struct health_sources_conf conf;
	struct nl_wire *wire;
	struct devlink *devlink;
	int reports, rdma;
	struct loop_fd *watch_reports, *watch_rdma;
	struct devlink_reporter *v; /* of PFs, as they were last read */
	size_t n;
	int64_t read_at; /* when they are read again */
	bool is_error, is_reading_failed;
};

static int by_id(const void *a, const void *b)
{
	return strcmp(((const struct node_device *)a)->id, ((const struct node_device *)b)->id);
}

/* Functions are sorted by address; auxiliary devices follow. NULL: none of this node, or no PF. */
static const struct node_device *find_pf(const struct node_devices *node,
					 const struct devlink_reporter *p)
{
	struct node_device key = {0};
	const struct node_device *d;
	size_t n = node->n;

	if (strcmp(p->bus, "pci") != 0 || !str_copy(key.id, sizeof(key.id), p->dev))
		return NULL;
	while (n && node->v[n - 1].class == NODE_AUX)
		n--;
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

/* A thousand VFs have some thousand reporters, which say nothing here: only those of PFs are kept. */
static void keep_pfs(struct health_sources *s, const struct node_devices *node)
{
	size_t n = 0;

	s->is_error = false;
	for (size_t i = 0; i < s->n; i++)
		if (s->v[i].can_recover && find_pf(node, &s->v[i])) {
			s->is_error |= s->v[i].is_error;
			s->v[n++] = s->v[i];
		}
	s->n = n;
	if (n)
		s->v = xrealloc(s->v, n * sizeof(*s->v));
}

static void read_reporters(struct health_sources *s, const struct node_devices *node)
{
	struct devlink_reporter *v = NULL;
	struct err e = ERR_INIT;
	size_t n = 0;
	int r = devlink_reporter_list(s->devlink, &v, &n, &e);

	if (r < 0 && r != -EOPNOTSUPP && !s->is_reading_failed)
		log_warn("cannot read devlink health reporters, will retry",
			 LOG_S("error", e.text));
	s->is_reading_failed = r < 0;
	free(s->v);
	s->v = v;
	s->n = n;
	keep_pfs(s, node);
}

void health_sources_read(struct health_sources *s, const struct node_devices *node,
			 enum health_report *ret)
{
	int64_t now = loop_now_ms(s->conf.loop);

	if (s->devlink && now >= s->read_at) {
		read_reporters(s, node);
		s->read_at = now + (s->is_error ? READ_ERROR_MS : READ_MS);
	}
	health_reports(s->v, s->n, node, ret);
}

static void on_report(void *arg, uint32_t events)
{
	struct health_sources *s = arg;

	(void)events;
	if (!devlink_watch_drain(s->devlink, s->reports))
		return;
	s->read_at = 0;
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
	log_warn("cannot wait for events of the kernel", LOG_S("error", e.text));
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
	free(s->v);
	free(s);
}
