/* SPDX-License-Identifier: Apache-2.0 */
#include "doctor/facts.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/num.h"
#include "base/paths.h"
#include "doctor/tree.h"
#include "host/steps/nics.h"
#include "kern/net/dcb.h"
#include "kern/sys/netns.h"

enum { RECORD_MAX = TREE_FILE_MAX, VERBS_MAX = 64 << 10 };

/* --- netlink: from the kernel (optionally recorded), or from a recording --- */

struct talk {
	const struct host_source *s;
	const char *name;
	struct nl_wire *w;
	int fd; /* memfd of the recording; -1: none */
};

static int talk_begin(struct talk *t, const struct host_source *s, const char *name,
		      enum nl_proto proto, struct err *e)
{
	auto_free char *file = NULL;
	int r;

	*t = (struct talk){.s = s, .name = name, .fd = -1};
	if (s->dir) {
		file = xasprintf("%s" HOST_NETLINK "/%s.nl", s->dir, name);
		/* A missing recording means that the kernel of the snapshot's host does not have
		 * the protocol. */
		if (access(file, F_OK) < 0)
			return err_set(e, -EPROTONOSUPPORT, "'" HOST_NETLINK "/%s.nl' is missing",
				       name);
		return nl_open_replay(&t->w, file, e);
	}
	r = nl_open(&t->w, proto, -1, e);
	if (r < 0 || !s->record)
		return r;
	t->fd = memfd_create(name, MFD_CLOEXEC);
	if (t->fd < 0)
		return err_sys(e, -errno, "record netlink '%s'", name);
	return nl_record_to(t->w, t->fd, e);
}

static void talk_end(struct talk *t)
{
	auto_buf struct buf b = {0};
	auto_free char *path = xasprintf(HOST_NETLINK "/%s.nl", t->name);

	nl_wire_close(t->w);
	buf_init(&b, RECORD_MAX);
	if (t->fd >= 0 && lseek(t->fd, 0, SEEK_SET) == 0 &&
	    fd_read_all(t->fd, RECORD_MAX, &b, NULL) == 0)
		tree_put_file(t->s->record, path, buf_span(&b));
	cleanup_fd(&t->fd);
}

/* --- netlink requests --- */

static int read_links(struct nl_wire *w, struct host_facts *f, struct err *e)
{
	return link_list(w, &f->links, &f->n_links, e);
}

static int read_addrs(struct nl_wire *w, struct host_facts *f, struct err *e)
{
	return addr_list(w, 0, 0, &f->addrs, &f->n_addrs, e);
}

static int read_routes(struct nl_wire *w, struct host_facts *f, struct err *e)
{
	return route_list(w, 0, 0, &f->routes, &f->n_routes, e);
}

static int read_rules(struct nl_wire *w, struct host_facts *f, struct err *e)
{
	return rule_list(w, 0, &f->rules, &f->n_rules, e);
}

static int read_rdma(struct nl_wire *w, struct host_facts *f, struct err *e)
{
	int r = rdma_nl_list(w, &f->rdma, &f->n_rdma, e);

	f->has_rdma = r == 0;
	return r;
}

static int read_mode(struct nl_wire *w, struct host_facts *f, struct err *e)
{
	int r = rdma_nl_netns_mode(w, &f->mode, e);

	/* Linux before 5.2 does not report the mode, and shares RDMA devices */
	return r == -EOPNOTSUPP ? 0 : r;
}

static const struct {
	const char *name;
	enum nl_proto proto;
	int (*read)(struct nl_wire *w, struct host_facts *f, struct err *e);
	bool may_lack;
} talks[] = {
	{"links", NL_ROUTE, read_links, false},	  {"addresses", NL_ROUTE, read_addrs, false},
	{"routes", NL_ROUTE, read_routes, false}, {"rules", NL_ROUTE, read_rules, false},
	{"rdma", NL_RDMA, read_rdma, true},	  {"mode", NL_RDMA, read_mode, true},
};

static int talk_all(struct host_facts *f, const struct host_source *s, struct err *e)
{
	for (size_t i = 0; i < ARRAY_LEN(talks); i++) {
		struct talk t;
		int r = talk_begin(&t, s, talks[i].name, talks[i].proto, e);

		if (r == 0)
			r = talks[i].read(t.w, f, e);
		talk_end(&t);
		if (r < 0 && !(talks[i].may_lack && r == -EPROTONOSUPPORT))
			return err_wrap(e, r, "read %s of the host", talks[i].name);
		err_clear(e);
	}
	return 0;
}

/*
 * Records DCB of each Ethernet port that is not a VF, in the order in which `unirail host` requests
 * it (host/steps/qos.c), so that a plan of the snapshot gets the same answers. A driver without DCB
 * answers with an error, which is recorded as well.
 */
static void record_dcb(const struct host_source *s)
{
	struct host_nic *nics = NULL;
	struct host h;
	struct talk t;
	struct dcb dcb;
	size_t n = 0;
	int r;

	if (host_open(&h, NULL, NULL) < 0)
		return;
	r = host_nics_read(&h, &nics, &n, NULL);
	if (r == 0 && n && talk_begin(&t, s, "dcb", NL_ROUTE, NULL) == 0) {
		for (size_t i = 0; i < n; i++)
			if (!nics[i].infiniband && nics[i].netdev[0] && !host_nic_is_vf(&nics[i]))
				dcb_get(t.w, nics[i].netdev, &dcb, NULL);
		talk_end(&t);
	}
	free(nics);
	host_close(&h);
}

/* --- libibverbs --- */

static void read_verbs(struct host_facts *f)
{
	rdma_verbs_fill(f->rdma, f->n_rdma);
	for (size_t i = 0; i < f->n_rdma; i++)
		if (!f->rdma[i].in_verbs)
			rdma_explain_no_verbs(f->root, &f->rdma[i]);
}

static void record_verbs(const struct host_facts *f, struct buf *tree)
{
	auto_buf struct buf b = {0};

	buf_init(&b, VERBS_MAX);
	for (size_t i = 0; i < f->n_rdma; i++)
		buf_printf(&b, "%s: %s\n", f->rdma[i].name, f->rdma[i].reason);
	tree_put_file(tree, HOST_VERBS, buf_span(&b));
}

static void replay_verbs(struct host_facts *f)
{
	auto_buf struct buf b = {0};
	struct span rest, line, name;

	buf_init(&b, VERBS_MAX);
	if (file_read(f->root, HOST_VERBS, VERBS_MAX, &b, NULL) < 0)
		return;
	for (rest = buf_span(&b); span_cut(&rest, '\n', &line);) {
		if (!span_cut(&line, ':', &name) || !line.p)
			continue;
		line = span_trim(line);
		for (size_t i = 0; i < f->n_rdma; i++)
			if (span_eq(name, f->rdma[i].name))
				snprintf(f->rdma[i].reason, sizeof(f->rdma[i].reason), "%.*s",
					 (int)line.n, line.p);
	}
}

/* --- namespaces of pods --- */

static int read_pod(const char *name, struct link **ret, size_t *n)
{
	auto_free char *path = xasprintf("/run/netns/%s", name);
	auto_nl struct nl_wire *w = NULL;
	auto_fd int fd = -1;
	int r = netns_open(path, &fd, NULL);

	if (r >= 0)
		r = nl_open(&w, NL_ROUTE, fd, NULL);
	return r < 0 ? r : link_list(w, ret, n, NULL);
}

/* "net1 9000 0000:3b:00.2" */
static bool parse_pod_link(struct span line, struct link *ret)
{
	struct span name, mtu;
	uint64_t v;

	*ret = (struct link){0};
	if (!span_cut(&line, ' ', &name) || !span_cut(&line, ' ', &mtu) || !line.p || !name.n ||
	    name.n >= sizeof(ret->name) || !line.n || line.n >= sizeof(ret->device) ||
	    num_u64(mtu, 0, UINT32_MAX, &v) < 0)
		return false;
	memcpy(ret->name, name.p, name.n);
	memcpy(ret->device, line.p, line.n);
	ret->mtu = (uint32_t)v;
	return true;
}

static int replay_pod(const struct host_facts *f, const char *name, struct link **ret, size_t *n)
{
	auto_free char *path = xasprintf(HOST_PODS "/%s", name);
	auto_buf struct buf b = {0};
	struct span rest, line;
	struct link l;
	int r;

	buf_init(&b, VERBS_MAX);
	r = file_read(f->root, path, VERBS_MAX, &b, NULL);
	if (r < 0)
		return r;
	for (rest = buf_span(&b); span_cut(&rest, '\n', &line);)
		if (parse_pod_link(line, &l))
			VEC_PUSH(*ret, *n) = l;
	return 0;
}

int host_pod_links(const struct host_facts *f, const char *name, struct link **ret, size_t *n)
{
	*ret = NULL;
	*n = 0;
	return f->live ? read_pod(name, ret, n) : replay_pod(f, name, ret, n);
}

/* Adds a file HOST_PODS/NAME for each namespace that has PCI functions. */
static void record_pods(const struct host_facts *f, struct buf *tree)
{
	char **names = NULL;
	size_t n = 0;

	if (geteuid() != 0 || dir_list(f->root, PATH_NETNS, &names, &n, NULL) < 0)
		return;
	for (size_t i = 0; i < n; i++) {
		auto_free char *path = xasprintf(HOST_PODS "/%s", names[i]);
		auto_free struct link *links = NULL;
		auto_buf struct buf b = {0};
		size_t count = 0;

		buf_init(&b, VERBS_MAX);
		if (read_pod(names[i], &links, &count) < 0)
			continue;
		for (size_t k = 0; k < count; k++)
			if (links[k].device[0] && host_pci(f, links[k].device))
				buf_printf(&b, "%s %u %s\n", links[k].name, links[k].mtu,
					   links[k].device);
		if (b.len && !b.over)
			tree_put_file(tree, path, buf_span(&b));
	}
	str_list_free(names, n);
}

/* If HOST_NODE is missing in the snapshot, or is invalid JSON, the Node object is unknown. */
static void read_node(struct host_facts *f)
{
	auto_buf struct buf b = {0};

	buf_init(&b, HOST_NODE_MAX);
	if (file_read(f->root, HOST_NODE, HOST_NODE_MAX, &b, NULL) == 0 &&
	    json_parse(&f->node, buf_span(&b), HOST_NODE_MAX, NULL) < 0)
		f->node = NULL;
}

int host_facts_read(struct host_facts *f, const struct host_source *s, struct err *e)
{
	int r;

	*f = (struct host_facts){
		.root = s->root, .dir = s->dir, .live = !s->dir, .mode = RDMA_NETNS_SHARED};
	r = talk_all(f, s, e);
	if (r < 0)
		return r;
	for (size_t i = 0; i < f->n_rdma; i++)
		rdma_sysfs_fill(f->root, &f->rdma[i]);
	if (f->live) {
		read_verbs(f);
	} else {
		replay_verbs(f);
		read_node(f);
	}
	if (s->record) {
		record_verbs(f, s->record);
		record_dcb(s);
	}
	/* Without this directory the host has no PCI bus, and the list of PCI functions is
	 * empty. */
	if (file_exists(f->root, "/sys/bus/pci/devices"))
		r = pci_list(f->root, &f->pci, &f->n_pci, e);
	if (r == 0 && s->record)
		record_pods(f, s->record);
	return r;
}

void host_facts_done(struct host_facts *f)
{
	free(f->links);
	free(f->addrs);
	route_list_free(f->routes, f->n_routes);
	free(f->rules);
	free(f->rdma);
	free(f->pci);
	json_free(f->node);
	*f = (struct host_facts){0};
}

const struct link *host_port_link(const struct host_facts *f, const struct rdma_port *p)
{
	return p->netdev[0] ? link_find(f->links, f->n_links, p->netdev) : NULL;
}

const struct pci_dev *host_pci(const struct host_facts *f, const char *bdf)
{
	for (size_t i = 0; i < f->n_pci; i++)
		if (!strcmp(f->pci[i].bdf, bdf))
			return &f->pci[i];
	return NULL;
}
