/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ipam.ConfigureIface of the original plugins, for all attachments at once: enable IPv6 where
 * needed, add addresses, set links up, wait for duplicate address detection, add routes.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/loop.h"
#include "cni/attach/internal.h"
#include "kern/sys/netns.h"
#include "kern/sys/sysctl.h"

enum { DAD_POLL_MS = 50, DAD_LIMIT_MS = 5000, OPER_UP = 6 /* IF_OPER_UP, RFC 2863 */ };

static bool has_family(const struct rail *rail, int family)
{
	for (size_t i = 0; i < rail->got.n_ips; i++)
		if (rail->got.ips[i].address.ip.family == family)
			return true;
	return false;
}

/*
 * Writes the sysctls that the original plugins write for an IPv6 address, in their order: first
 * those of lo, then those of the link.
 */
static int sysctls_v6(const struct rail *rail, const struct root *root, struct err *e)
{
	const char *ifnames[] = {"lo", rail->ifname};
	char key[128];
	int r = 0;

	for (size_t i = 0; r >= 0 && i < ARRAY_LEN(ifnames); i++) {
		snprintf(key, sizeof(key), "net/ipv6/conf/%s/disable_ipv6", ifnames[i]);
		r = sysctl_ensure(root, key, "0", NULL, e);
		snprintf(key, sizeof(key), "net/ipv6/conf/%s/keep_addr_on_down", ifnames[i]);
		if (r >= 0)
			r = sysctl_ensure(root, key, "1", NULL, e);
	}
	return r;
}

/* Sets a sysctl of the interface to 1. A failure is only logged. */
static void try_sysctl(const struct root *root, int ip, const char *ifname, const char *what)
{
	struct err reason = ERR_INIT;
	char key[128];

	snprintf(key, sizeof(key), "net/ipv%d/conf/%s/%s", ip, ifname, what);
	if (sysctl_set(root, key, "1", &reason) < 0)
		log_debug("failed to set a sysctl of an interface", LOG_S("rail", ifname),
			  LOG_S("error", reason.text));
}

static int sysctls(const struct rail *rail, const struct root *root, struct err *e)
{
	/* optimistic_dad is set before the link is up, because the kernel probes the link-local
	 * address as soon as the link is up. */
	if ((rail->kind->flags & RAIL_OPTIMISTIC_DAD) && !rail->no_link)
		try_sysctl(root, 6, rail->ifname, "optimistic_dad");
	if (rail->kind->flags & RAIL_PROXY_ARP)
		try_sysctl(root, 4, rail->ifname, "proxy_arp");
	if (!rail_has_addresses(rail))
		return 0;
	/* arp_notify, the IPv4 equivalent of ndisc_notify, is set by netlink, not here. */
	try_sysctl(root, 6, rail->ifname, "ndisc_notify");
	return has_family(rail, 6) ? sysctls_v6(rail, root, e) : 0;
}

int attach_sysctls(struct attach *a, struct err *e)
{
	struct netns_visit v = NETNS_VISIT_INIT;
	int r = a->n_rails ? netns_enter(a->netns, &v, e) : 0;

	if (r < 0 || !a->n_rails)
		return r;
	for (size_t i = 0; r >= 0 && i < a->n_rails; i++) {
		r = sysctls(&a->rails[i], &a->call->root, e);
		if (r < 0)
			r = rail_err(&a->rails[i], r, e);
	}
	netns_leave(&v);
	return r;
}

bool rail_is_conflict_free(const struct rail *rail, const struct ipaddr *ip)
{
	for (size_t i = 0; i < rail->n_conflict_free; i++)
		if (ip_eq(&rail->conflict_free[i], ip))
			return true;
	return false;
}

/* An IPv6 address that was probed without a conflict needs no duplicate address detection by the
 * kernel. */
static unsigned int addr_flags(const struct rail *rail, const struct ipaddr *ip)
{
	return ip->family == 6 && rail_is_conflict_free(rail, ip) ? ADDR_NODAD : 0;
}

static bool waits_for_dad(const struct rail *rail)
{
	bool gateway = false, unsure = false;

	for (size_t i = 0; i < rail->got.n_ips; i++) {
		const struct cni_ip *ip = &rail->got.ips[i];

		gateway |= ip->gateway.family == 6;
		unsure |= ip->address.ip.family == 6 &&
			  !rail_is_conflict_free(rail, &ip->address.ip);
	}
	return gateway && unsure && !rail->no_link;
}

/* A batch of messages, and for each message the index of its attachment. */
struct work {
	struct nl_batch *b;
	size_t *owner, n;
};

static void work_done(struct work *w)
{
	nl_batch_cleanup(&w->b);
	free(w->owner);
}

static void work_of(struct work *w, size_t rail)
{
	while (w->n < nl_batch_len(w->b))
		VEC_PUSH(w->owner, w->n) = rail;
}

static int work_commit(struct attach *a, struct work *w, struct err *e)
{
	int r = attach_commit(a, a->pod, w->b, w->owner, e);

	nl_batch_reset(w->b);
	w->n = 0;
	return r;
}

/* Adds the messages that set the MTU and the addresses and then set the link up. A separate
 * message sets arp_notify before the link is set up, so that the kernel announces the addresses. */
static void put_addresses(const struct rail *rail, struct nl_batch *b)
{
	const struct link_change notify = {.set = LINK_SET_ARP_NOTIFY};
	const struct link_change up = {.set = LINK_SET_UP};
	const struct link_change mtu = {.set = LINK_SET_MTU, .mtu = rail->conf.mtu};

	if (rail->no_link)
		return;
	if (rail->conf.mtu && (rail->kind->flags & RAIL_LATE_MTU))
		link_set(b, rail->index, rail->ifname, &mtu);
	if (rail_has_addresses(rail))
		link_set(b, rail->index, rail->ifname, &notify);
	for (size_t i = 0; i < rail->got.n_ips; i++) {
		const struct ipnet *net = &rail->got.ips[i].address;

		addr_add(b, rail->index, rail->ifname, net, addr_flags(rail, &net->ip));
	}
	link_set(b, rail->index, rail->ifname, &up);
}

static void put_routes(const struct rail *rail, struct nl_batch *b)
{
	struct route *list = NULL;
	size_t n = rail->no_link ? 0 : attach_routes(&rail->got, rail->index, &list);

	for (size_t i = 0; i < n; i++) {
		list[i].dev = rail->ifname;
		route_add(b, &list[i], ROUTE_CREATE);
	}
	free(list);
}

/* Returns 1 if detection is complete, 0 if an address is still tentative, -EADDRINUSE if another
 * host has one of the addresses. */
static int dad_done(const struct rail *rail, const struct addr *list, size_t n, struct err *e)
{
	char text[IP_TEXT_MAX];

	for (size_t i = 0; i < n; i++) {
		if (list[i].index != rail->index)
			continue;
		if (addr_is_dadfailed(&list[i]))
			return err_kind(e, ERR_AGAIN, -EADDRINUSE,
					"duplicate address detection found '%s' in use on the link "
					"of '%s'",
					ipnet_str(&list[i].net, text), rail->ifname);
		if (addr_is_tentative(&list[i]))
			return 0;
	}
	return 1;
}

static int all_dad_done(struct attach *a, size_t *slow, struct err *e)
{
	auto_free struct addr *list = NULL;
	size_t n;
	int r = addr_list(a->pod, 6, 0, &list, &n, e);

	for (size_t i = 0; r >= 0 && i < a->n_rails; i++) {
		if (!waits_for_dad(&a->rails[i]))
			continue;
		r = dad_done(&a->rails[i], list, n, e);
		if (r < 0)
			return rail_err(&a->rails[i], r, e);
		if (r == 0) {
			*slow = i;
			return 0;
		}
	}
	return r < 0 ? r : 1;
}

/* Reports the timeout only if the link's operstate is up: without carrier the kernel runs no
 * duplicate address detection, so the addresses remain tentative. */
static int too_slow(struct attach *a, size_t slow, struct err *e)
{
	struct link l;
	int r = link_get_index(a->pod, a->rails[slow].index, &l, e);

	if (r < 0)
		return rail_err(&a->rails[slow], r, e);
	if (l.operstate != OPER_UP)
		return 0;
	err_kind(e, ERR_AGAIN, -ETIMEDOUT, "link '%s' still has tentative addresses after %d s",
		 a->rails[slow].ifname, DAD_LIMIT_MS / 1000);
	return rail_err(&a->rails[slow], -ETIMEDOUT, e);
}

static int wait_for_dad(struct attach *a, struct err *e)
{
	const struct timespec pause = {.tv_nsec = DAD_POLL_MS * 1000000L};
	int64_t limit = now_mono_ms() + DAD_LIMIT_MS;
	size_t slow = 0;
	int r;

	while ((r = all_dad_done(a, &slow, e)) == 0) {
		if (now_mono_ms() >= limit)
			return too_slow(a, slow, e);
		nanosleep(&pause, NULL);
	}
	return r < 0 ? r : 0;
}

int attach_configure(struct attach *a, struct err *e)
{
	__attribute__((cleanup(work_done))) struct work w = {.b = nl_batch_new()};
	bool wait = false;
	int r = 0;

	for (size_t i = 0; i < a->n_rails; i++) {
		wait |= waits_for_dad(&a->rails[i]);
		put_addresses(&a->rails[i], w.b);
		work_of(&w, i);
	}
	if (wait) {
		r = work_commit(a, &w, e);
		if (r >= 0)
			r = wait_for_dad(a, e);
	}
	for (size_t i = 0; r >= 0 && i < a->n_rails; i++) {
		put_routes(&a->rails[i], w.b);
		work_of(&w, i);
	}
	return r < 0 ? r : work_commit(a, &w, e);
}

size_t attach_routes(const struct cni_result *got, int index, struct route **ret)
{
	struct route *list = NULL;
	size_t n = 0;

	for (size_t i = 0; i < got->n_routes; i++) {
		const struct cni_route *from = &got->routes[i];
		struct route *to = &VEC_PUSH(list, n);

		to->dst = from->dst;
		to->family = from->dst.ip.family;
		to->gw = from->gw.family ? from->gw : cni_result_gateway(got, to->family);
		to->index = index;
		to->table = from->has_table ? from->table : 0;
		to->scope = from->has_scope ? (uint8_t)from->scope : SCOPE_UNIVERSE;
		to->priority = from->priority;
		to->mtu = from->mtu;
		to->advmss = from->advmss;
	}
	*ret = list;
	return n;
}
