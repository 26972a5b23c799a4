/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/ip.h>
#include <netinet/ip_icmp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/loop.h"
#include "cli/demo/demo.h"
#include "ipam/ipam.h"
#include "kern/net/nft.h"
#include "kern/net/route.h"
#include "kern/sys/netns.h"

enum { REPLY_MARK = 1, TEXT_MAX = 4096, TABLE_DEFAULT = 253 };

static int read_routes_side(struct nl_wire *w, struct demo_facts *f, struct err *e)
{
	int r = link_list(w, &f->links, &f->n_links, e);

	if (r == 0)
		r = addr_list(w, 0, 0, &f->addrs, &f->n_addrs, e);
	if (r == 0)
		r = route_list(w, 0, 0, &f->routes, &f->n_routes, e);
	if (r == 0)
		r = rule_list(w, 0, &f->rules, &f->n_rules, e);
	if (r == 0)
		r = neigh_list(w, 0, 0, &f->neighs, &f->n_neighs, e);
	return r;
}

int demo_facts_read(int netns_fd, struct demo_facts *ret, struct err *e)
{
	auto_nl struct nl_wire *w = NULL, *nf = NULL;
	int r = nl_open(&w, NL_ROUTE, netns_fd, e);

	if (r == 0)
		r = read_routes_side(w, ret, e);
	if (r == 0)
		r = nl_open(&nf, NL_NETFILTER, netns_fd, e);
	if (r == 0)
		r = nft_reply_marks_check(nf, "veth0", REPLY_MARK, e);
	ret->marks = r == 1;
	return r < 0 ? r : 0;
}

void demo_facts_done(struct demo_facts *f)
{
	free(f->links);
	free(f->addrs);
	route_list_free(f->routes, f->n_routes);
	free(f->rules);
	free(f->neighs);
	memset(f, 0, sizeof(*f));
}

static const char *demo_link_name(const struct demo_facts *f, int index)
{
	const struct link *l = link_find_index(f->links, f->n_links, index);

	return l ? l->name : "?";
}

bool demo_link_ip(const struct demo_facts *f, const char *name, struct ipnet *ret)
{
	const struct link *l = link_find(f->links, f->n_links, name);

	for (size_t i = 0; l && i < f->n_addrs; i++)
		if (f->addrs[i].index == l->index && f->addrs[i].net.ip.family == 4) {
			*ret = f->addrs[i].net;
			return true;
		}
	return false;
}

static void put_net(struct buf *b, const char *word, const struct ipnet *n)
{
	char text[IP_TEXT_MAX];

	if (!n->ip.family || ipnet_is_default(n))
		return;
	if (n->len == ip_bits(&n->ip))
		buf_printf(b, "%s %s ", word, ip_str(&n->ip, text));
	else
		buf_printf(b, "%s %s ", word, ipnet_str(n, text));
}

const char *demo_table_name(uint32_t table, char buf[static 16])
{
	if (table == TABLE_MAIN)
		return "main";
	if (table == TABLE_LOCAL)
		return "local";
	if (table == TABLE_DEFAULT)
		return "default";
	snprintf(buf, 16, "%u", table);
	return buf;
}

char *demo_rule_describe(const struct rule *r)
{
	char name[16];
	struct buf b;

	buf_init(&b, TEXT_MAX);
	put_net(&b, "from", &r->src);
	if (!b.len)
		buf_str(&b, "from all ");
	put_net(&b, "to", &r->dst);
	if (r->mark)
		buf_printf(&b, "fwmark 0x%x ", r->mark);
	if (r->iif[0])
		buf_printf(&b, "iif %s ", r->iif);
	buf_printf(&b, "lookup %s", demo_table_name(r->table, name));
	return buf_take(&b);
}

static void put_hop(const struct demo_facts *f, struct buf *b, const struct ipaddr *gw, int index)
{
	char ip[IP_TEXT_MAX];

	if (gw->family)
		buf_printf(b, " via %s", ip_str(gw, ip));
	if (index)
		buf_printf(b, " dev %s", demo_link_name(f, index));
}

char *demo_route_describe(const struct demo_facts *f, const struct route *r)
{
	char text[IP_TEXT_MAX];
	struct buf b;

	buf_init(&b, TEXT_MAX);
	if (ipnet_is_default(&r->dst))
		buf_str(&b, "default");
	else if (r->dst.len == ip_bits(&r->dst.ip))
		buf_str(&b, ip_str(&r->dst.ip, text));
	else
		buf_str(&b, ipnet_str(&r->dst, text));
	put_hop(f, &b, &r->gw, r->index);
	for (size_t i = 0; i < r->n_hops; i++)
		put_hop(f, &b, &r->hops[i].gw, r->hops[i].index);
	if (r->src.family)
		buf_printf(&b, " src %s", ip_str(&r->src, text));
	return buf_take(&b);
}

/* --- state as lines of text: the lines before ADD are compared with those after DEL --- */

struct lines {
	char **v;
	size_t n;
};

static void add_line(struct lines *l, const char *what, char *desc)
{
	VEC_PUSH(l->v, l->n) = xasprintf("%s %s", what, desc);
	free(desc);
}

static void address_lines(struct lines *l, const struct demo_facts *f)
{
	char a[IP_TEXT_MAX], m[MAC_TEXT_MAX];

	for (size_t i = 0; i < f->n_addrs; i++)
		if (!ip_is_link_local(&f->addrs[i].net.ip))
			add_line(l, "address",
				 xasprintf("%s on %s", ipnet_str(&f->addrs[i].net, a),
					   demo_link_name(f, f->addrs[i].index)));
	for (size_t i = 0; i < f->n_neighs; i++)
		if (neigh_is_permanent(&f->neighs[i]))
			add_line(l, "neighbour",
				 xasprintf("%s %s dev %s", ip_str(&f->neighs[i].ip, a),
					   mac_str(&f->neighs[i].mac, m),
					   demo_link_name(f, f->neighs[i].index)));
}

/*
 * Lists the state that an ADD or DEL changes, not the state that the kernel adds and removes by
 * itself: learnt neighbours, link-local addresses and routes, table local.
 */
static struct lines lines_of(const struct demo_facts *f)
{
	struct lines l = {0};

	for (size_t i = 0; i < f->n_links; i++)
		add_line(&l, "link",
			 xasprintf("%s %s mtu %u%s", f->links[i].name, f->links[i].kind,
				   f->links[i].mtu, link_is_up(&f->links[i]) ? " up" : ""));
	for (size_t i = 0; i < f->n_rules; i++) {
		char *desc = demo_rule_describe(&f->rules[i]);

		add_line(&l, "rule",
			 xasprintf("%u (IPv%d) %s", f->rules[i].priority, f->rules[i].family,
				   desc));
		free(desc);
	}
	for (size_t i = 0; i < f->n_routes; i++)
		if (f->routes[i].table != TABLE_LOCAL && !ip_is_link_local(&f->routes[i].dst.ip)) {
			char *desc = demo_route_describe(f, &f->routes[i]);

			add_line(&l, "route", xasprintf("table %u: %s", f->routes[i].table, desc));
			free(desc);
		}
	address_lines(&l, f);
	if (f->marks)
		add_line(&l, "nf_tables", xstrdup("rules that mark replies"));
	qsort(l.v, l.n, sizeof(*l.v), str_order);
	return l;
}

static int read_lines(int netns_fd, struct lines *ret, struct err *e)
{
	struct demo_facts f = {0};
	int r = demo_facts_read(netns_fd, &f, e);

	if (r == 0)
		*ret = lines_of(&f);
	demo_facts_done(&f);
	return r;
}

int demo_facts_remember(struct demo *d, struct err *e)
{
	for (enum demo_ns i = NS_NODE; i < NS_COUNT; i++) {
		struct lines l = {0};
		int r = read_lines(d->ns[i], &l, e);

		if (r < 0)
			return err_wrap(e, r, "read the state of %s", demo_ns_name(i));
		d->before[i] = l.v;
		d->n_before[i] = l.n;
	}
	return 0;
}

/* Reports as a problem each line that is in only one of the two sorted lists. */
static size_t differences(struct demo *d, enum demo_ns ns, const struct lines *after)
{
	char **was = d->before[ns];
	size_t i = 0, k = 0, n = 0;

	while (i < d->n_before[ns] || k < after->n) {
		int c = i == d->n_before[ns] ? 1 : k == after->n ? -1 : strcmp(was[i], after->v[k]);

		if (c < 0)
			demo_problem(d, "%s: missing after DEL: %s", demo_ns_name(ns), was[i]);
		else if (c > 0)
			demo_problem(d, "%s: not removed by DEL: %s", demo_ns_name(ns),
				     after->v[k]);
		n += c != 0;
		i += c <= 0;
		k += c >= 0;
	}
	return n;
}

static int addresses_held(struct demo *d, struct err *e)
{
	auto_ipam struct ipam *store = NULL;
	struct ipam_record *v = NULL;
	char pools[96], state[96], hostlocal[96], ip[IP_TEXT_MAX];
	struct ipam_paths p = {.pool_dir = pools, .state_dir = state, .hostlocal_dir = hostlocal};
	int held = 0, r;
	size_t n;

	snprintf(pools, sizeof(pools), "%s/pools", d->dir);
	snprintf(state, sizeof(state), "%s/state", d->dir);
	snprintf(hostlocal, sizeof(hostlocal), "%s/host-local", d->dir);
	r = ipam_open(&store, &d->root, &p, e);
	if (r == 0)
		r = ipam_records(store, &v, &n, e);
	for (size_t i = 0; r == 0 && i < n; i++) {
		if (strcmp(v[i].state, "used") != 0)
			continue;
		demo_problem(d, "address store: not released by DEL: %s of pool '%s'",
			     ip_str(&v[i].ip, ip), v[i].pool);
		held++;
	}
	free(v);
	return r < 0 ? r : held;
}

int demo_facts_compare(struct demo *d, struct err *e)
{
	int r = 0;

	for (enum demo_ns i = NS_NODE; i < NS_COUNT; i++) {
		struct lines l = {0};

		r = read_lines(d->ns[i], &l, e);
		if (r < 0)
			return err_wrap(e, r, "read the state of %s", demo_ns_name(i));
		d->n_leftovers += differences(d, i, &l);
		str_list_free(l.v, l.n);
	}
	r = addresses_held(d, e);
	d->n_leftovers += r > 0 ? (size_t)r : 0;
	return r < 0 ? r : 0;
}

/* --- checks that the namespace of an attached pod has the expected state --- */

static bool has_default(const struct demo_facts *f, uint32_t table, int index,
			const struct ipaddr *gw)
{
	for (size_t i = 0; i < f->n_routes; i++) {
		const struct route *r = &f->routes[i];

		if (r->table == table && r->index == index && ipnet_is_default(&r->dst) &&
		    ip_eq(&r->gw, gw))
			return true;
	}
	return false;
}

/* Returns the routing table of the rule for packets from this address. 0: no such rule. */
static uint32_t table_of(const struct demo_facts *f, const struct ipaddr *from)
{
	for (size_t i = 0; i < f->n_rules; i++)
		if (ip_eq(&f->rules[i].src.ip, from) && f->rules[i].src.len == ip_bits(from))
			return f->rules[i].table;
	return 0;
}

static void expect_link(struct demo *d, const struct demo_pod *p, const struct demo_nic *n,
			const struct link *l)
{
	if (!link_is_up(l))
		demo_problem(d, "%s: '%s' is down", p->name, l->name);
	if (strcmp(l->kind, "macvlan") != 0)
		demo_problem(d, "%s: '%s' is a '%s', not a macvlan", p->name, l->name, l->kind);
	if (l->mtu != n->mtu)
		demo_problem(d,
			     "%s: '%s' has MTU %u, but its master has "
			     "%u",
			     p->name, l->name, l->mtu, n->mtu);
}

static void expect_nic(struct demo *d, const struct demo_pod *p, size_t nic)
{
	const struct demo_nic *n = &d->nics[nic];
	const struct link *l = link_find(p->facts.links, p->facts.n_links, n->pod_if);
	struct ipnet own = {0};
	uint32_t table = TABLE_MAIN;

	if (!l) {
		demo_problem(d, "%s: '%s' is missing", p->name, n->pod_if);
		return;
	}
	expect_link(d, p, n, l);
	if (!demo_link_ip(&p->facts, n->pod_if, &own) || !ipnet_contains(&n->node, &own.ip)) {
		demo_problem(d, "%s: '%s' has no IPv4 address in the subnet of its master", p->name,
			     n->pod_if);
		return;
	}
	if (nic > 0)
		table = table_of(&p->facts, &own.ip);
	if (!table)
		demo_problem(d,
			     "%s: no rule selects a routing table for packets from "
			     "'%s'",
			     p->name, n->pod_if);
	else if (!has_default(&p->facts, table, l->index, &n->gateway))
		demo_problem(d,
			     "%s: table %u has no default route through '%s' with the "
			     "expected gateway",
			     p->name, table, n->pod_if);
}

void demo_facts_expect(struct demo *d, size_t pod)
{
	const struct demo_pod *p = &d->pods[pod];

	for (size_t i = 0; i < d->n_nics; i++)
		expect_nic(d, p, i);
	if (!link_find(p->facts.links, p->facts.n_links, "veth0"))
		demo_problem(d, "%s: 'veth0', the link to the node, is missing", p->name);
	if (!p->facts.marks)
		demo_problem(d, "%s: the nf_tables rules that mark replies are missing or changed",
			     p->name);
}

/* ICMP echo on raw sockets, each bound to one network device: its packets leave and arrive only
 * through this device, so a reply proves that the rail works in both directions. */

enum { LIMIT_MS = 2000, AGAIN_MS = 400, MOMENT_MS = 5, PAYLOAD = 56 };

static uint16_t checksum(const uint8_t *p, size_t n)
{
	uint32_t sum = 0;

	for (size_t i = 0; i + 1 < n; i += 2)
		sum += (uint32_t)(p[i] << 8 | p[i + 1]);
	while (sum >> 16)
		sum = (sum & 0xffff) + (sum >> 16);
	return htons((uint16_t)~sum);
}

static int open_socket(const char *ifname, struct err *e)
{
	auto_fd int fd = socket(AF_INET, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, IPPROTO_ICMP);

	if (fd < 0)
		return err_sys(e, -errno, "open a raw socket");
	if (setsockopt(fd, SOL_SOCKET, SO_BINDTODEVICE, ifname, (socklen_t)strlen(ifname)) < 0)
		return err_sys(e, -errno, "bind a raw socket to '%s'", ifname);
	return take_fd(&fd);
}

static void send_request(struct demo_ping *p)
{
	struct sockaddr_in to = {.sin_family = AF_INET};
	struct {
		struct icmphdr h;
		uint8_t data[PAYLOAD];
	} m = {.h = {.type = ICMP_ECHO}};

	m.h.un.echo.id = p->id;
	m.h.checksum = checksum((const uint8_t *)&m, sizeof(m));
	memcpy(&to.sin_addr, p->target.b, 4);
	p->requested_us = now_mono_us();
	/* A kernel error (no route, no neighbour) counts as a missing reply. */
	(void)!sendto(p->fd, &m, sizeof(m), 0, (struct sockaddr *)&to, sizeof(to));
}

/* Returns whether a datagram is the reply to ping p: it has the id of p, comes from the target
 * of p and goes to the source address of p. */
static bool answers(const struct demo_ping *p, const uint8_t *b, size_t n)
{
	struct iphdr ip;
	struct icmphdr h;
	size_t head;

	if (n < sizeof(ip))
		return false;
	memcpy(&ip, b, sizeof(ip));
	head = 4u * ip.ihl;
	if (n < head + sizeof(h))
		return false;
	memcpy(&h, b + head, sizeof(h));
	return h.type == ICMP_ECHOREPLY && h.un.echo.id == p->id &&
	       memcmp(&ip.saddr, p->target.b, 4) == 0 && memcmp(&ip.daddr, p->from.b, 4) == 0;
}

static bool receive(struct demo_ping *p)
{
	uint8_t b[2048];
	ssize_t n;

	while ((n = recv(p->fd, b, sizeof(b), 0)) >= 0)
		if (answers(p, b, (size_t)n)) {
			p->us = now_mono_us() - p->requested_us;
			return true;
		}
	return false;
}

/* Waits up to `limit_ms` for the missing replies; returns how many are still missing. */
static size_t collect(struct demo_ping *v, size_t n, int limit_ms)
{
	struct pollfd *fds = xcalloc(n, sizeof(*fds));
	int64_t end = now_mono_ms() + limit_ms;
	size_t missing = 0;

	for (size_t i = 0; i < n; i++) {
		fds[i] = (struct pollfd){.fd = v[i].us < 0 ? v[i].fd : -1, .events = POLLIN};
		missing += v[i].us < 0;
	}
	while (missing && !demo_stop) {
		int64_t left = end - now_mono_ms();

		if (left <= 0 || poll(fds, n, (int)left) < 0)
			break;
		for (size_t i = 0; i < n; i++)
			if (fds[i].revents && receive(&v[i])) {
				fds[i].fd = -1;
				missing--;
			}
	}
	free(fds);
	return missing;
}

/* Sends the requests one at a time and waits briefly for each reply, so that they do not distort
 * each other's times. Then waits for all missing replies together. Repeats both for the requests
 * without a reply until LIMIT_MS have passed. */
static void ping_all(struct demo_ping *v, size_t n)
{
	int64_t end = now_mono_ms() + LIMIT_MS;
	size_t missing = n;

	while (missing && now_mono_ms() < end && !demo_stop) {
		for (size_t i = 0; i < n; i++)
			if (v[i].us < 0) {
				send_request(&v[i]);
				collect(&v[i], 1, MOMENT_MS);
			}
		missing = collect(v, n, AGAIN_MS);
	}
}

static void add_ping(struct demo *d, size_t pod, size_t nic, const char *to,
		     const struct ipaddr *target)
{
	struct demo_ping *p = &VEC_PUSH(d->pings, d->n_pings);
	struct ipnet own = {0};

	demo_link_ip(&d->pods[pod].facts, d->nics[nic].pod_if, &own);
	*p = (struct demo_ping){.pod = pod,
				.nic = nic,
				.to = to,
				.from = own.ip,
				.target = *target,
				.us = -1,
				.fd = -1};
	p->id = htons((uint16_t)(d->n_pings + 1));
}

/* Adds two pings for each NIC of a pod: to the gateway of the NIC and, if the other pod has an
 * address on this NIC, through the NIC to the other pod. */
static void targets(struct demo *d, size_t pod)
{
	const struct demo_pod *other = &d->pods[(pod + 1) % DEMO_PODS];

	for (size_t i = 0; i < d->n_nics; i++) {
		struct ipnet ip = {0};

		add_ping(d, pod, i, "gateway", &d->nics[i].gateway);
		if (demo_link_ip(&other->facts, d->nics[i].pod_if, &ip))
			add_ping(d, pod, i, other->name, &ip.ip);
	}
}

static int open_sockets(struct demo *d, size_t pod, size_t first, struct err *e)
{
	struct netns_visit v = NETNS_VISIT_INIT;
	int r = netns_enter(d->ns[NS_POD + pod], &v, e);

	if (r < 0)
		return r;
	for (size_t i = first; r >= 0 && i < d->n_pings; i++)
		r = d->pings[i].fd = open_socket(d->nics[d->pings[i].nic].pod_if, e);
	netns_leave(&v);
	return r < 0 ? r : 0;
}

int demo_ping_all(struct demo *d, struct err *e)
{
	int r = 0;

	for (size_t pod = 0; r == 0 && pod < DEMO_PODS; pod++) {
		size_t first = d->n_pings;

		targets(d, pod);
		r = open_sockets(d, pod, first, e);
		if (r == 0)
			ping_all(d->pings + first, d->n_pings - first);
	}
	for (size_t i = 0; i < d->n_pings; i++) {
		char ip[IP_TEXT_MAX];

		if (d->pings[i].fd >= 0)
			close(d->pings[i].fd);
		if (r == 0 && d->pings[i].us < 0)
			demo_problem(d, "%s: %s at %s does not answer through '%s'",
				     d->pods[d->pings[i].pod].name, d->pings[i].to,
				     ip_str(&d->pings[i].target, ip),
				     d->nics[d->pings[i].nic].pod_if);
	}
	return r;
}
