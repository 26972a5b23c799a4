/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "kern/rdma/rdma.h"
#include "cli/verify/verify_pick.h"

enum { WHY_MAX = 600 };

static int read_dev(const struct rdma_dev *from, struct verify_dev *d, struct err *e)
{
	auto_verbs struct verbs_dev *v = NULL;
	int r = verbs_open(&v, from->name, e);

	if (r < 0)
		return r;
	str_copy(d->name, sizeof(d->name), from->name);
	for (size_t i = 0; r == 0 && i < RDMA_PORTS_MAX; i++) {
		struct verbs_port port;

		if (!from->ports[i].port)
			continue;
		r = verbs_port_get(v, from->ports[i].port, &port, e);
		if (r == 0)
			VEC_PUSH(d->ports, d->n_ports) = port;
	}
	return r < 0 ? r : verbs_gids(v, &d->gids, &d->n_gids, e);
}

/* A device that cannot be used is no failure as long as another one is not looked for in vain. */
static void read_devs(struct verify_facts *f, const struct rdma_dev *list, size_t n)
{
	auto_buf struct buf why;
	struct err e = ERR_INIT;

	buf_init(&why, WHY_MAX);
	for (size_t i = 0; i < n; i++) {
		struct verify_dev d = {0};

		if (!list[i].why[0] && read_dev(&list[i], &d, &e) == 0) {
			VEC_PUSH(f->devs, f->n_devs) = d;
			continue;
		}
		free(d.ports);
		free(d.gids);
		buf_printf(&why, "%s%s: %s", why.len ? "; " : "", list[i].name,
			   list[i].why[0] ? list[i].why : e.text);
	}
	f->why = xstrdup(why.p ? why.p : "");
}

int verify_facts_read(struct verify_facts *f, struct err *e)
{
	auto_free struct rdma_dev *list = NULL;
	auto_nl struct nl_wire *w = NULL;
	size_t n;
	int r = rdma_dev_list(&list, &n, &f->supported, e);

	if (r < 0)
		return r;
	read_devs(f, list, n);
	r = nl_open(&w, NL_ROUTE, -1, e);
	if (r == 0)
		r = link_list(w, &f->links, &f->n_links, e);
	return r < 0 ? r : addr_list(w, 0, 0, &f->addrs, &f->n_addrs, e);
}

void verify_facts_done(struct verify_facts *f)
{
	for (size_t i = 0; i < f->n_devs; i++) {
		free(f->devs[i].ports);
		free(f->devs[i].gids);
	}
	free(f->devs);
	free(f->links);
	free(f->addrs);
	free(f->why);
	*f = (struct verify_facts){0};
}
