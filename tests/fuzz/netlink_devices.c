/* SPDX-License-Identifier: Apache-2.0 */
/* Requests about devices: VFs, eswitches, the use of RDMA devices; and their events. */
#include <errno.h>
#include <stdlib.h>

#include "kern/net/uapi_link.h"

#include "base/alloc.h"
#include "kern/net/altname.h"
#include "kern/pci/devlink.h"
#include "kern/netlink/internal.h"
#include "kern/rdma/rdma_res.h"
#include "kern/rdma/rdma_stat.h"
#include "kern/rdma/rdma_watch.h"
#include "kern/pci/uevent.h"
#include "kern/net/vf.h"
#include "netlink.h"

enum { PF = 3, RDMA_DEV = 0, PORT = 1 };

static void check_vf(const struct vf_info *v)
{
	must(v->mac.len <= MAC_MAX && v->n_vlans <= VF_VLANS_MAX);
	must(v->spoofchk >= -1 && v->spoofchk <= 1 && v->trust >= -1 && v->trust <= 1);
}

int netlink_vfs(struct nl_wire *w, struct err *e)
{
	auto_free struct vf_info *v = NULL;
	size_t n = 0;
	int r = vf_list(w, PF, "ens1", &v, &n, e);

	for (size_t i = 0; i < n; i++) {
		must(i == 0 || v[i - 1].vf <= v[i].vf);
		check_vf(&v[i]);
	}
	return r;
}

int netlink_vf(struct nl_wire *w, struct err *e)
{
	struct vf_info v;
	int r = vf_get(w, PF, "ens1", 1, &v, e);

	if (r == 0) {
		must(v.vf == 1);
		check_vf(&v);
	}
	return r;
}

int netlink_devlink(struct nl_wire *w, struct err *e)
{
	auto_devlink struct devlink *d = NULL;
	enum eswitch_mode mode = ESWITCH_OTHER;
	int r;

	w->proto = NL_GENERIC;
	r = devlink_open(&d, w, e);
	if (r == 0)
		r = devlink_eswitch_get(d, "0000:3b:00.0", &mode, e);
	must(mode <= ESWITCH_OTHER && *eswitch_mode_name(mode));
	return r;
}

int netlink_rdma_used(struct nl_wire *w, struct err *e)
{
	auto_free struct rdma_res *v = NULL;
	size_t n = 0;
	int r;

	w->proto = NL_RDMA;
	r = rdma_nl_res_list(w, RDMA_DEV, RDMA_RES_QP, &v, &n, e);
	for (size_t i = 0; i < n; i++)
		must(ended(v[i].owner, sizeof(v[i].owner)));
	return r;
}

static void check_counts(const struct rdma_count *v, size_t n)
{
	for (size_t i = 0; i < n; i++)
		must(ended(v[i].name, sizeof(v[i].name)));
}

int netlink_rdma_counters(struct nl_wire *w, struct err *e)
{
	auto_free struct rdma_count *stats = NULL;
	size_t n = 0;
	int r;

	w->proto = NL_RDMA;
	r = rdma_nl_stats(w, RDMA_DEV, PORT, &stats, &n, e);
	check_counts(stats, n);
	return r;
}

int netlink_rdma_stats(struct nl_wire *w, struct err *e)
{
	struct rdma_stat *list = NULL;
	size_t n = 0;
	uint32_t mode;
	int r;

	w->proto = NL_RDMA;
	r = rdma_nl_qp_stats(w, RDMA_DEV, PORT, &list, &n, e);
	for (size_t i = 0; i < n; i++) {
		must(ended(list[i].owner, sizeof(list[i].owner)));
		check_counts(list[i].counts, list[i].n_counts);
	}
	rdma_stats_free(list, n);
	list = NULL;
	n = 0;
	if (r == 0)
		r = rdma_nl_mr_stats(w, RDMA_DEV, &list, &n, e);
	rdma_stats_free(list, n);
	return r == 0 ? rdma_nl_qp_stat_mode(w, RDMA_DEV, PORT, &mode, e) : r;
}

int netlink_altnames(struct nl_wire *w, struct err *e)
{
	char **names = NULL;
	size_t n = 0;
	int r = altname_list(w, PF, &names, &n, e);

	for (size_t i = 0; i < n; i++)
		must(strlen(names[i]) < ALTNAME_MAX);
	str_list_free(names, n);
	return r;
}

/* Copies the input, since the address of a datagram must be aligned for a netlink header. */
int netlink_rdma_event(struct nl_wire *w, struct err *e)
{
	struct span in = netlink_bytes();
	auto_free char *datagram = memcpy(xmalloc(in.n), in.p, in.n);
	struct rdma_event v = {0};

	(void)w;
	(void)e;
	if (rdma_event_parse((struct span){datagram, in.n}, &v)) {
		must(v.kind <= RDMA_EVENT_OTHER && ended(v.name, sizeof(v.name)));
		must(ended(v.netdev, sizeof(v.netdev)));
	}
	return 0;
}

int netlink_uevent(struct nl_wire *w, struct err *e)
{
	struct uevent u;

	(void)w;
	(void)e;
	if (uevent_parse(netlink_bytes(), &u)) {
		must(*u.action && *u.devpath && ended(u.action, sizeof(u.action)));
		must(ended(u.devpath, sizeof(u.devpath)) && ended(u.name, sizeof(u.name)));
		must(ended(u.subsystem, sizeof(u.subsystem)));
	}
	return 0;
}
