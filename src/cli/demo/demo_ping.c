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

#include "base/cleanup.h"
#include "base/loop.h"
#include "kern/sys/netns.h"
#include "cli/demo/demo.h"

/*
 * ICMP echo on raw sockets bound to a device: what is sent leaves by that NIC and what is
 * received came in by it, so an answer proves the rail in both directions.
 */

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

static void ask(struct demo_ping *p)
{
	struct sockaddr_in to = {.sin_family = AF_INET};
	struct {
		struct icmphdr h;
		uint8_t data[PAYLOAD];
	} m = {.h = {.type = ICMP_ECHO}};

	m.h.un.echo.id = p->id;
	m.h.checksum = checksum((const uint8_t *)&m, sizeof(m));
	memcpy(&to.sin_addr, p->target.b, 4);
	p->asked = now_mono_us();
	/* What the kernel refuses now (no route, no neighbour) shows as no answer. */
	(void)!sendto(p->fd, &m, sizeof(m), 0, (struct sockaddr *)&to, sizeof(to));
}

/* One datagram: true when it answers p, from its target to its own address. */
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
			p->us = now_mono_us() - p->asked;
			return true;
		}
	return false;
}

/* Waits up to `limit_ms` for the answers still missing; returns how many still are. */
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

/* Each is given a moment to answer by itself, so that the times are its own; who does not is
 * waited for together with the others, and asked again. */
static void ask_all(struct demo_ping *v, size_t n)
{
	int64_t end = now_mono_ms() + LIMIT_MS;
	size_t missing = n;

	while (missing && now_mono_ms() < end && !demo_stop) {
		for (size_t i = 0; i < n; i++)
			if (v[i].us < 0) {
				ask(&v[i]);
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

/* Every rail's gateway, and the other pod on the same rail. */
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
			ask_all(d->pings + first, d->n_pings - first);
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
