/* SPDX-License-Identifier: Apache-2.0 */
#include "device/serve/port_events.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/num.h"
#include "kern/rdma/verbs_dev.h"

struct hca {
	struct port_events *p;
	struct verbs_dev *dev;
	struct loop_fd *watch;
	struct hca *next;
};

struct port_events {
	struct port_events_conf conf;
	struct hca *hcas;
};

static void hca_free(struct hca *h)
{
	loop_del_fd(h->watch);
	verbs_close(h->dev);
	free(h);
}

static void forget(struct hca *h)
{
	struct hca **at = &h->p->hcas;

	while (*at != h)
		at = &(*at)->next;
	*at = h->next;
	log_info("RDMA device is gone or has failed, its ports are polled if it comes back",
		 LOG_S("device", verbs_name(h->dev)));
	hca_free(h);
}

static void on_event(void *arg, uint32_t events)
{
	struct hca *h = arg;
	const struct port_events_conf c = h->p->conf;
	int r;

	(void)events;
	while ((r = verbs_event_next(h->dev)) > 0)
		;
	if (r < 0)
		forget(h);
	c.changed(c.arg);
}

bool port_events_wants(const struct node_device *d)
{
	return d->class == NODE_NET && !d->pf[0] && !d->netdev[0] && d->n_rdma;
}

/* Returns the use count of the driver's module; -1: it is not a module. */
static int64_t read_uses(const struct root *r, const char *name)
{
	char path[256], line[32];
	int64_t n;

	snprintf(path, sizeof(path), "/sys/class/infiniband/%s/device/driver/module/refcnt", name);
	return file_read_line(r, path, line, sizeof(line), NULL) == 0 &&
			       num_i64(span_of(line), 0, INT64_MAX, &n) == 0
		       ? n
		       : -1;
}

/* Opens an HCA. If the kernel counts the open HCA as a use of the driver's module, which then
 * could not be unloaded, closes the HCA again and returns -EBUSY. */
static int open_unheld(const struct port_events *p, const char *name, struct verbs_dev **ret,
		       struct err *e)
{
	int64_t before = read_uses(p->conf.root, name);
	int r = verbs_open(ret, name, e);

	if (r < 0 || read_uses(p->conf.root, name) <= before)
		return r;
	verbs_close(*ret);
	*ret = NULL;
	return err_kind(
		e, ERR_UNAVAILABLE, -EBUSY,
		"the device's driver cannot be unloaded while a process has the device open");
}

static void open_hca(struct port_events *p, const char *name)
{
	struct verbs_dev *dev = NULL;
	struct err e = ERR_INIT;
	struct hca *h;
	int fd = open_unheld(p, name, &dev, &e);

	if (fd >= 0)
		fd = verbs_events_fd(dev, &e);
	if (fd < 0) {
		log_info("cannot receive events of an RDMA device's ports, polling them",
			 LOG_S("device", name), LOG_S("reason", e.text));
		verbs_close(dev);
		return;
	}
	h = xcalloc(1, sizeof(*h));
	*h = (struct hca){.p = p, .dev = dev};
	if (loop_add_fd(p->conf.loop, fd, EPOLLIN, on_event, h, &h->watch, &e) < 0) {
		log_warn("cannot wait for events of an RDMA device", LOG_S("device", name),
			 LOG_S("error", e.text));
		hca_free(h);
		return;
	}
	h->next = p->hcas;
	p->hcas = h;
}

struct port_events *port_events_new(const struct port_events_conf *c,
				    const struct node_devices *node)
{
	struct port_events *p = xcalloc(1, sizeof(*p));

	p->conf = *c;
	for (size_t i = 0; i < node->n; i++)
		for (size_t k = 0; port_events_wants(&node->v[i]) && k < node->v[i].n_rdma; k++)
			open_hca(p, node->v[i].rdma[k].name);
	return p;
}

void port_events_free(struct port_events *p)
{
	if (!p)
		return;
	while (p->hcas) {
		struct hca *h = p->hcas;

		p->hcas = h->next;
		hca_free(h);
	}
	free(p);
}
