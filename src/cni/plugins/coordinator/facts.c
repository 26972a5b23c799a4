/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <net/if.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "cni/plugins/coordinator/internal.h"
#include "kern/net/link.h"

/* Facts of the coordinator: this file reads the state of pod and host, once for all NICs. */

void coordinator_facts_done(struct coordinator_facts *f)
{
	free(f->links);
	free(f->addrs);
	route_list_free(f->routes, f->n_routes);
	free(f->host_ips);
	free(f->lookups);
	route_list_free(f->host_routes, f->n_host_routes);
	free(f->host_neighs);
	coordinator_known_routes_done(&f->known[0]);
	coordinator_known_routes_done(&f->known[1]);
	*f = (struct coordinator_facts){0};
}

static int pod_facts(struct attach *a, struct coordinator_facts *f, struct err *e)
{
	int r = attach_list_pod(a, e);

	if (r < 0)
		return r;
	f->n_links = a->n_pod_links;
	f->links = xmalloc(f->n_links * sizeof(*f->links));
	if (f->n_links)
		memcpy(f->links, a->pod_links, f->n_links * sizeof(*f->links));
	r = addr_list(a->pod, 0, 0, &f->addrs, &f->n_addrs, e);
	if (r >= 0)
		r = route_list(a->pod, 0, 0, &f->routes, &f->n_routes, e);
	return r < 0 ? r : 0;
}

/* Returns whether the kernel answered that there is no usable route, as opposed to a failed
 * request. */
static bool is_unreachable(int code)
{
	switch (code) {
	case -ENETUNREACH:
	case -EHOSTUNREACH:
	case -EINVAL:
	case -EACCES:
	case -EAGAIN:
	case -ENODEV:
	case -EAFNOSUPPORT:
	case -EOPNOTSUPP: return true;
	default: return false;
	}
}

/* Looks up the node's route to each usable address of the pod; unreachable addresses are left
 * out. */
static int lookups(struct attach *a, struct coordinator_facts *f, struct err *e)
{
	for (size_t i = 0; i < f->n_addrs; i++) {
		const struct ipaddr *ip = &f->addrs[i].net.ip;
		struct err reason = ERR_INIT;
		struct route r;
		int code = coordinator_ip_usable(ip) ? route_lookup(a->host, ip, &r, &reason)
						     : -EINVAL;

		if (code >= 0) {
			VEC_PUSH(f->lookups, f->n_lookups) =
				(struct coordinator_lookup){*ip, r.src};
			continue;
		}
		if (is_unreachable(code))
			continue;
		if (e)
			*e = reason;
		return code;
	}
	return 0;
}

/* Whether a link counts as the node's own. Links are requested one by one and remembered here,
 * because a node has few links with addresses, and many without. */
struct known {
	int index;
	bool counts;
};

/* Returns 1 if the link is the node's own (link_is_nodes_own()), 0 if not, or -errno. */
static int link_counts(struct attach *a, int index, struct known **list, size_t *n, struct err *e)
{
	struct link l;
	bool counts;
	int r;

	for (size_t i = 0; i < *n; i++)
		if ((*list)[i].index == index)
			return (*list)[i].counts;
	/* -ENODEV: the link was deleted meanwhile, and its addresses with it: so they are ignored.
	 * */
	r = link_get_index(a->host, index, &l, e);
	if (r < 0 && r != -ENODEV)
		return r;
	counts = r >= 0 && link_is_nodes_own(l.name);
	VEC_PUSH(*list, *n) = (struct known){index, counts};
	return counts;
}

/* Fills the list with the attachments' masters on the node, whose names need no request to the
 * kernel. */
static size_t known_masters(const struct attach *a, struct known **ret)
{
	struct known *list = NULL;
	size_t n = 0;

	for (size_t i = 0; i < a->n_rails; i++) {
		const struct link *l = &a->rails[i].master;

		if (!a->rails[i].conf.in_container)
			VEC_PUSH(list, n) = (struct known){l->index, link_is_nodes_own(l->name)};
	}
	*ret = list;
	return n;
}

static int host_ips(struct attach *a, struct coordinator_facts *f, struct err *e)
{
	auto_free struct known *known = NULL;
	size_t n_known = known_masters(a, &known);
	int r = attach_host_addrs(a, e);

	for (size_t i = 0; r >= 0 && i < a->n_host_addrs; i++) {
		const struct addr *ad = &a->host_addrs[i];

		if (!coordinator_ip_usable(&ad->net.ip))
			continue;
		r = link_counts(a, ad->index, &known, &n_known, e);
		if (r > 0)
			VEC_PUSH(f->host_ips, f->n_host_ips) = ad->net.ip;
	}
	return r < 0 ? r : 0;
}

static bool seen_table(const struct coordinator_nic *nics, size_t i)
{
	for (size_t k = 0; k < i; k++)
		if (nics[k].conf && nics[k].conf->host_table == nics[i].conf->host_table)
			return true;
	return false;
}

static int host_routes(struct attach *a, const struct coordinator_nic *nics, size_t n,
		       struct coordinator_facts *f, struct err *e)
{
	for (size_t i = 0; i < n; i++) {
		struct route *list;
		size_t count;
		int r;

		if (!nics[i].conf || seen_table(nics, i))
			continue;
		r = route_list(a->host, 0, nics[i].conf->host_table, &list, &count, e);
		if (r < 0)
			return err_wrap(e, r, "host table %u", nics[i].conf->host_table);
		for (size_t k = 0; k < count; k++)
			VEC_PUSH(f->host_routes, f->n_host_routes) = list[k];
		free(list); /* the array only: the routes now belong to f->host_routes */
	}
	return 0;
}

/* Finds the host end of the pod's link to its node; a missing one is not an error here. */
static int find_host_veth(struct attach *a, const struct coordinator_nic *nics, size_t n,
			  struct coordinator_facts *f, struct err *e)
{
	const struct link *exit = link_find(f->links, f->n_links, COORD_VETH);
	struct link l;
	int r;

	for (size_t i = 0; !exit && i < n; i++)
		if (nics[i].conf)
			exit = link_find(f->links, f->n_links, nics[i].conf->default_nic);
	if (!exit || strcmp(exit->kind, "veth") != 0 || !exit->parent)
		return 0;
	/* exit->parent may be the index of a link in a namespace other than the host's, while an
	 * unrelated link of the host has the same index. So the host's link is accepted only if
	 * it is a veth whose own peer index is that of `exit`. */
	r = link_get_index(a->host, exit->parent, &l, e);
	if (r >= 0 && strcmp(l.kind, "veth") == 0 && l.parent == exit->index)
		f->host_veth = l;
	if (r == -ENODEV)
		err_clear(e);
	else if (r < 0)
		return err_wrap(e, r, "find the node's end of '%s'", exit->name);
	return 0;
}

int coordinator_facts_collect(struct attach *a, const struct coordinator_nic *nics, size_t n,
			      struct coordinator_facts *f, struct err *e)
{
	int r = pod_facts(a, f, e);

	if (r >= 0)
		r = host_ips(a, f, e);
	if (r >= 0)
		r = host_routes(a, nics, n, f, e);
	if (r >= 0)
		r = neigh_list(a->host, 0, 0, &f->host_neighs, &f->n_host_neighs, e);
	if (r >= 0)
		r = lookups(a, f, e);
	return r < 0 ? r : find_host_veth(a, nics, n, f, e);
}

/* --- mode, first NIC and table number of a NIC; usable links and addresses --- */

bool coordinator_hidden(const struct coordinator_facts *f, int index)
{
	for (size_t i = 0; i < f->n_hidden; i++)
		if (f->hidden[i] == index)
			return true;
	return false;
}

const struct link *coordinator_link(const struct coordinator_facts *f, const char *name)
{
	const struct link *l = link_find(f->links, f->n_links, name);

	return l && !coordinator_hidden(f, l->index) ? l : NULL;
}

unsigned int coordinator_family_bit(const struct ipaddr *a)
{
	return a->family == 4 ? COORD_V4 : a->family == 6 ? COORD_V6 : 0;
}

bool coordinator_ip_usable(const struct ipaddr *a)
{
	return a->family && !ip_is_link_local(a) && !ip_is_multicast(a) && !ip_is_loopback(a);
}

size_t coordinator_link_ips(const struct coordinator_facts *f, int index, unsigned int families,
			    struct ipaddr **ret)
{
	struct ipaddr *list = NULL;
	size_t n = 0;

	for (size_t i = 0; i < f->n_addrs; i++) {
		const struct ipaddr *ip = &f->addrs[i].net.ip;

		if (f->addrs[i].index == index && coordinator_ip_usable(ip) &&
		    (families & coordinator_family_bit(ip)))
			VEC_PUSH(list, n) = *ip;
	}
	*ret = list;
	return n;
}

void coordinator_host_veth_name(const char *container_id, char ret[static LINK_NAME_MAX])
{
	snprintf(ret, LINK_NAME_MAX, "veth%.11s", container_id);
}

/* Returns the number of links that the original counts when it chooses table numbers. */
static unsigned int count_links(const struct coordinator_facts *f)
{
	const uint32_t want = IFF_UP | IFF_BROADCAST | IFF_MULTICAST;
	unsigned int n = 0;

	for (size_t i = 0; i < f->n_links; i++)
		if ((f->links[i].flags & want) == want && !coordinator_hidden(f, f->links[i].index))
			n++;
	return n;
}

static int stage_underlay(const struct coordinator_conf *c, const struct coordinator_facts *f,
			  const char *ifname, struct coordinator_stage *ret, struct err *e)
{
	ret->mode = COORD_UNDERLAY;
	ret->first = strcmp(ifname, c->default_nic) == 0;
	if (!ret->first && !coordinator_link(f, COORD_VETH))
		return err_kind(e, ERR_CONF, -ENODEV,
				"underlay mode needs '" COORD_VETH
				"', and no coordinator has made it "
				"for '%s'; please enable coordinator plugin in previous interface",
				c->default_nic);
	/* For the first NIC after eth0, count_links() returns three (veth0, eth0, net1), which
	 * gives net1 the table 101, as in the original. */
	ret->table = ret->first ? COORD_FIRST_NIC_TABLE + 1 : count_links(f) + 98;
	return 0;
}

static int stage_overlay(const struct coordinator_conf *c, const struct coordinator_facts *f,
			 const char *ifname, struct coordinator_stage *ret, struct err *e)
{
	ret->mode = COORD_OVERLAY;
	if (strcmp(ifname, c->default_nic) == 0)
		return err_kind(e, ERR_CONF, -EINVAL,
				"overlay mode is for NICs other than '%s', not for '%s' itself "
				"(use underlay, or change conf.podDefaultCniNic)",
				c->default_nic, ifname);
	if (coordinator_link(f, COORD_VETH))
		return err_kind(e, ERR_CONF, -EEXIST,
				"overlay mode, but '" COORD_VETH
				"' shows that an earlier NIC of the "
				"pod uses underlay mode");
	ret->first = count_links(f) == 2;
	ret->table = ret->first ? COORD_FIRST_NIC_TABLE + 1 : count_links(f) + 99;
	return 0;
}

int coordinator_stage(const struct coordinator_conf *c, const struct coordinator_facts *f,
		      const char *ifname, struct coordinator_stage *ret, struct err *e)
{
	enum coordinator_mode mode = c->mode;

	if (mode == COORD_AUTO)
		mode = strcmp(ifname, c->default_nic) == 0 || coordinator_link(f, COORD_VETH)
			       ? COORD_UNDERLAY
			       : COORD_OVERLAY;
	if (mode == COORD_UNDERLAY)
		return stage_underlay(c, f, ifname, ret, e);
	return stage_overlay(c, f, ifname, ret, e);
}

bool coordinator_wants_veth(const struct coordinator_nic *nics, size_t n, size_t *at)
{
	for (size_t i = 0; i < n; i++) {
		const struct coordinator_conf *c = nics[i].conf;

		if (c && (c->mode == COORD_AUTO || c->mode == COORD_UNDERLAY) &&
		    strcmp(nics[i].ifname, c->default_nic) == 0) {
			*at = i;
			return true;
		}
	}
	return false;
}
