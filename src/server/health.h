/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_SERVER_HEALTH_H
#define UNIRAIL_SERVER_HEALTH_H

/*
 * A daemon's TCP ports: for a kubelet's probes, on loopback unless a setting says otherwise, and for Prometheus. Anybody
 * who reaches them may ask, and gets a word or numbers. A request has no body (413) and no other request behind it before its
 * answer (the connection then closes); what crowds of strangers do to each other's connections is in daemon/http_server.h. The
 * agent stays below 4 MB resident whatever they do: tests/hostile/netns/test_hostile_ports.py.
 *
 *	/healthz, /v1/runtime/startup, /v1/runtime/liveness	200 while the loop runs
 *	/readyz, /v1/runtime/readiness				503 when no address can be had, and why to callers on loopback
 *	/metrics						when it is served: see agent/api/metrics.h
 */

#include "base/err.h"
#include "base/loop.h"
#include "base/buf.h"

struct ports;

/* Descriptors that both ports take at most. */
enum { PORTS_CONNS_MAX = 384, PORTS_FDS_MAX = 2 * PORTS_CONNS_MAX + 40 };

struct ports_conf {
	struct loop *loop;
	/* NULL: every address of the host. Where both ports are one, it has the metrics' address. */
	const char *health_listen, *metrics_listen;
	int health, metrics; /* 0: none */
	int (*ready)(void *arg, struct err *e);
	/* To be answered by ports_metrics(), now or later. */
	void (*scrape)(void *arg);
	void *arg;
};

/* A socket that listens on this address (NULL: all) and port; `setting` is what would have to be another
 * one when the port is in use. Negative: why not. */
int ports_listen(const char *address, int port, const char *setting, struct err *e);

/* Listens; what is asked is answered from the loop. */
int ports_new(struct ports **ret, const struct ports_conf *c, struct err *e);
void ports_free(struct ports *p); /* NULL is fine */
/* Answers all that have asked so far. */
void ports_metrics(struct ports *p, struct span text);

#endif
