/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_SERVER_HEALTH_H
#define UNIRAIL_SERVER_HEALTH_H

/*
 * TCP ports of a daemon: health for the kubelet's probes (on loopback unless configured otherwise),
 * and metrics for Prometheus. Both answer without authentication. A request with a body is refused
 * (413). Bytes that are received in the same read as a request and follow it are ignored, and the
 * connection closes after the answer. server/http_server.h describes how connections of unknown
 * peers compete. The agent stays below 4 MB resident under any load on these ports:
 * tests/hostile/netns/test_hostile_ports.py.
 *
 *	/healthz, /v1/runtime/startup, /v1/runtime/liveness	200 while the loop runs
 *	/readyz, /v1/runtime/readiness				503 while ports_conf.ready() fails; the
 *								reason only to callers on loopback
 *	/metrics						if enabled: see `unirail help metrics`
 */

#include "base/err.h"
#include "base/loop.h"
#include "base/buf.h"

struct ports;

/* PORTS_CONNS_MAX: maximum number of connections of one port. PORTS_FDS_MAX: maximum number of
 * descriptors of both ports together. */
enum { PORTS_CONNS_MAX = 384, PORTS_FDS_MAX = 2 * PORTS_CONNS_MAX + 40 };

struct ports_conf {
	struct loop *loop;
	/* NULL: all addresses of the host. If both ports are the same, the metrics address
	 * applies. */
	const char *health_listen, *metrics_listen;
	int health, metrics; /* 0: disabled */
	int (*ready)(void *arg, struct err *e);
	/* Called when a scrape arrives while none is pending. The callback must call
	 * ports_metrics(), at once or later; that call answers all scrapes that have arrived by
	 * then. */
	void (*scrape)(void *arg);
	void *arg;
};

/* Returns a socket that listens on this address (NULL: all) and port, or -errno. `setting` is the
 * name of the setting to change when the port is in use, for the error. */
int ports_listen(const char *address, int port, const char *setting, struct err *e);

/* Listens; requests are answered from the loop. */
int ports_new(struct ports **ret, const struct ports_conf *c, struct err *e);
void ports_free(struct ports *p); /* accepts NULL */
/* Answers all pending scrapes. */
void ports_metrics(struct ports *p, struct span text);

#endif
