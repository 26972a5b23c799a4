/* SPDX-License-Identifier: Apache-2.0 */
/* Sends gratuitous ARP and unsolicited neighbour advertisements for the given addresses only. */
#include "kern/probe/probe.h"

#include <errno.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/log.h"
#include "kern/probe/packet.h"
#include "kern/sys/netns.h"

static int announce(int fd, const struct packet_link *links, size_t n, const struct announce *a,
		    struct err *e)
{
	const struct packet_link *l = packet_link_find(links, n, a->index);
	const struct mac *mine = a->mac.len || !l ? &a->mac : &l->mac;
	int r;

	if (!l)
		return err_set(e, -ENODEV, "Link not found (index %d)", a->index);
	r = packet_link_usable(l, a->ifname, e);
	if (r < 0)
		return r;
	if (!mine->len || mine->len != l->mac.len || l->broadcast.len != mine->len)
		return err_set(e, -EINVAL,
			       "the MAC address to announce has %u bytes, that of the link has %u: "
			       "both and the link's broadcast address must have the same length",
			       mine->len, l->mac.len);
	r = packet_announce(fd, l, mine, &a->ip);
	return r < 0 ? err_sys(e, r, "send a packet") : 0;
}

static int open_in(int netns_fd, int *fd, struct packet_link **links, size_t *n, struct err *e)
{
	struct netns_visit v = NETNS_VISIT_INIT;
	auto_nl struct nl_wire *w = NULL;
	int r = nl_open(&w, NL_ROUTE, netns_fd, e);

	if (!r)
		r = packet_links(w, links, n, e);
	if (!r && netns_fd >= 0)
		r = netns_enter(netns_fd, &v, e);
	if (r < 0)
		return r;
	r = packet_open_send(fd, e);
	netns_leave(&v);
	return r;
}

void announce_all(int netns_fd, const struct announce *a, size_t n)
{
	auto_free struct packet_link *links = NULL;
	auto_fd int fd = -1;
	char ip[IP_TEXT_MAX];
	struct err e = ERR_INIT;
	size_t n_links;

	if (n && open_in(netns_fd, &fd, &links, &n_links, &e) < 0) {
		log_debug("failed to announce addresses", LOG_S("error", e.text));
		return;
	}
	for (size_t i = 0; i < n; i++) {
		err_clear(&e);
		if (announce(fd, links, n_links, &a[i], &e) < 0)
			log_debug("failed to announce an address",
				  LOG_S("ip", ip_str(&a[i].ip, ip)), LOG_S("link", a[i].ifname),
				  LOG_S("error", e.text));
	}
}
