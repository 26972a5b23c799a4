/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The loopback plugin: ADD sets the pod's `lo` up, DEL sets it down. ADD and CHECK fail if lo has
 * an address that is not a loopback address. CNI_IFNAME is ignored. The result is prevResult,
 * unchanged; without a prevResult it is lo with its first address of each family.
 */
#include <errno.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "cni/plugins/chained.h"

#define LO "lo"

struct lo {
	struct nl_wire *w;
	struct link link;
	struct addr *addrs;
	size_t n;
};

static void lo_done(struct lo *l)
{
	free(l->addrs);
}
#define auto_lo __attribute__((cleanup(lo_done)))

static int lo_inspect(struct lo *l, struct nl_wire *w, struct err *e)
{
	int r = link_get(w, LO, &l->link, e);

	l->w = w;
	return r < 0 ? r : addr_list(w, 0, l->link.index, &l->addrs, &l->n, e);
}

static int lo_set(struct nl_wire *w, int index, bool up, struct err *e)
{
	struct link_change c = {.set = up ? LINK_SET_UP : LINK_SET_DOWN};
	auto_batch struct nl_batch *b = nl_batch_new();

	link_set(b, index, LO, &c);
	return nl_batch_commit(w, b, e);
}

struct lo_down {
	struct nl_wire *w;
	int index;
};

static int undo_up(void *arg, struct err *e)
{
	const struct lo_down *d = arg;

	return lo_set(d->w, d->index, false, e);
}

static int only_loopback(const struct lo *l, struct err *e)
{
	char text[IP_TEXT_MAX];

	for (size_t i = 0; i < l->n; i++)
		if (!ip_is_loopback(&l->addrs[i].net.ip))
			return err_set(
				e, -EINVAL,
				"loopback interface found with non-loopback address \"%s\" (take it "
				"off lo, or give it to another interface)",
				ip_str(&l->addrs[i].net.ip, text));
	return 0;
}

static void put_first(const struct lo *l, int family, struct cni_result *out)
{
	for (size_t i = 0; i < l->n; i++)
		if (l->addrs[i].net.ip.family == family) {
			const struct cni_ip ip = {.address = l->addrs[i].net};

			cni_result_ip(out, &ip);
			return;
		}
}

static int up(const struct chained_call *m, struct undo *u, struct lo *l, struct err *e)
{
	int r = lo_inspect(l, m->pod, e);

	if (r >= 0)
		r = only_loopback(l, e);
	if (r < 0 || link_is_up(&l->link))
		return r;
	r = lo_set(m->pod, l->link.index, true, e);
	if (r < 0)
		return r;
	undo_push(u, "set lo down", undo_up, &(struct lo_down){m->pod, l->link.index},
		  sizeof(struct lo_down));
	/* The kernel gives lo its addresses when lo comes up. */
	free(l->addrs);
	l->addrs = NULL;
	return addr_list(m->pod, 0, l->link.index, &l->addrs, &l->n, e);
}

static int add(const struct chained_call *m, struct cni_result *prev, struct undo *u, struct err *e)
{
	auto_lo struct lo l = {0};
	int r = up(m, u, &l, e);

	if (r < 0 || m->has_prev)
		return r;
	cni_result_iface(prev, LO, "00:00:00:00:00:00", m->call->netns);
	put_first(&l, 4, prev);
	put_first(&l, 6, prev);
	return 0;
}

static int del(const struct chained_call *m, const struct cni_result *prev, struct err *e)
{
	struct link l;
	int r;

	(void)prev;
	if (!m->pod)
		return 0;
	r = link_get(m->pod, LO, &l, e);
	return r < 0 ? r : lo_set(m->pod, l.index, false, e);
}

static bool has(const struct lo *l, const struct ipnet *net)
{
	for (size_t i = 0; i < l->n; i++)
		if (ipnet_eq(&l->addrs[i].net, net))
			return true;
	return false;
}

/* Compares the addresses only if prevResult contains lo: in a chain prevResult may describe another
 * interface. */
static int check(const struct chained_call *m, const struct cni_result *prev, struct err *e)
{
	auto_lo struct lo l = {0};
	int iface = cni_result_pod_iface(prev, LO);
	char text[IP_TEXT_MAX];
	int r = lo_inspect(&l, m->pod, e);

	if (r >= 0 && !link_is_up(&l.link))
		r = err_set(e, -ENETDOWN, "loopback interface is down");
	if (r >= 0)
		r = only_loopback(&l, e);
	for (size_t i = 0; r >= 0 && iface >= 0 && i < prev->n_ips; i++)
		if (prev->ips[i].iface == iface && !has(&l, &prev->ips[i].address))
			r = err_set(e, -ENOENT, "Failed to match addr %s on interface %s",
				    ipnet_str(&prev->ips[i].address, text), LO);
	return r;
}

/* STATUS always succeeds: ADD needs only the pod's namespace. */
static int status(const struct chained_call *m, struct err *e)
{
	(void)m, (void)e;
	return 0;
}

const struct cni_meta chained_loopback = {
	.type = "loopback",
	.add = add,
	.del = del,
	.check = check,
	.status = status,
};
const struct cni_plugin cni_loopback = META_PLUGIN(loopback, NULL);
