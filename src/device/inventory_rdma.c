/* SPDX-License-Identifier: Apache-2.0 */
/* RDMA devices of a function, their ports and GIDs. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/num.h"
#include "device/inventory_priv.h"

enum { PATH_SIZE = 192 };

/* Nobody uses the entry, or (InfiniBand) the port was given no GUID: the last half is zero. */
static bool is_unused(const char *gid)
{
	static const char none[] = "0000:0000:0000:0000";
	size_t n = strlen(gid);

	return n < sizeof(none) - 1 || strcmp(gid + n - (sizeof(none) - 1), none) == 0;
}

static void port_line(const struct root *r, const char *port, const char *what, char *ret,
		      size_t size)
{
	char path[PATH_SIZE];

	snprintf(path, sizeof(path), "%s/%s", port, what);
	inventory_line(r, ret, size, path);
}

static void take_gid(const struct root *r, const char *port, const char *index,
		     struct inventory_port *p)
{
	struct inventory_gid g = {.index = atoi(index)};
	char what[48];

	snprintf(what, sizeof(what), "gids/%.15s", index);
	port_line(r, port, what, g.gid, sizeof(g.gid));
	if (is_unused(g.gid))
		return;
	snprintf(what, sizeof(what), "gid_attrs/types/%.15s", index);
	port_line(r, port, what, g.type, sizeof(g.type));
	snprintf(what, sizeof(what), "gid_attrs/ndevs/%.15s", index);
	port_line(r, port, what, g.netdev, sizeof(g.netdev));
	VEC_PUSH(p->gids, p->n_gids) = g;
}

static int by_index(const void *a, const void *b)
{
	const struct inventory_gid *x = a, *y = b;

	return x->index < y->index ? -1 : x->index > y->index;
}

static void read_gids(const struct root *r, const char *port, struct inventory_port *p)
{
	char path[PATH_SIZE], **names = NULL;
	size_t n = 0;

	snprintf(path, sizeof(path), "%s/gids", port);
	if (dir_list(r, path, &names, &n, NULL) < 0)
		return;
	for (size_t i = 0; i < n; i++)
		take_gid(r, port, names[i], p);
	str_list_free(names, n);
	if (p->n_gids)
		qsort(p->gids, p->n_gids, sizeof(*p->gids), by_index);
}

/* "4: ACTIVE" */
static void cut_number(char *state)
{
	char *name = strstr(state, ": ");

	if (name)
		memmove(state, name + 2, strlen(name + 2) + 1);
}

static void read_port(const struct root *r, const char *device, const char *number,
		      struct inventory_rdma *d)
{
	struct inventory_port p = {0};
	char port[PATH_SIZE / 2 + 48];
	uint64_t n;

	if (num_u64(span_of(number), 1, UINT32_MAX, &n) < 0)
		return;
	p.port = (uint32_t)n;
	snprintf(port, sizeof(port), "/sys/class/infiniband/%.63s/ports/%.15s", device, number);
	port_line(r, port, "state", p.state, sizeof(p.state));
	cut_number(p.state);
	port_line(r, port, "link_layer", p.link_layer, sizeof(p.link_layer));
	port_line(r, port, "rate", p.rate, sizeof(p.rate));
	read_gids(r, port, &p);
	VEC_PUSH(d->ports, d->n_ports) = p;
}

static void read_device(const struct root *r, const char *name, struct inventory_function *f)
{
	struct inventory_rdma d = {0};
	char path[PATH_SIZE], **ports = NULL;
	size_t n = 0;

	str_copy(d.name, sizeof(d.name), name);
	snprintf(path, sizeof(path), "/sys/class/infiniband/%.63s/node_guid", name);
	inventory_line(r, d.node_guid, sizeof(d.node_guid), path);
	snprintf(path, sizeof(path), "/sys/class/infiniband/%.63s/ports", name);
	if (dir_list(r, path, &ports, &n, NULL) >= 0)
		for (size_t i = 0; i < n; i++)
			read_port(r, name, ports[i], &d);
	str_list_free(ports, n);
	VEC_PUSH(f->rdma, f->n_rdma) = d;
}

int inventory_rdma_read(const struct root *r, struct inventory_function *f, struct err *e)
{
	char **names = NULL;
	size_t n = 0;
	int code = pci_children(r, f->pci.bdf, PCI_RDMA, &names, &n, e);

	for (size_t i = 0; code >= 0 && i < n; i++)
		read_device(r, names[i], f);
	str_list_free(names, n);
	return code < 0 ? code : 0;
}
