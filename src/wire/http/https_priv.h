/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_WIRE_HTTP_HTTPS_PRIV_H
#define UNIRAIL_WIRE_HTTP_HTTPS_PRIV_H

/* What https.c and https.c share; not for other folders. */

#include "base/ip.h"
#include "wire/http/https.h"
#include "wire/resolve.h"

enum https_state {
	HTTPS_RESOLVING,
	HTTPS_CONNECTING,
	HTTPS_HANDSHAKE,
	HTTPS_OPEN,
	HTTPS_CLOSED,
};

struct https {
	struct loop *loop;
	const struct https_ops *ops;
	void *arg;
	char *host, *name, *where; /* where: "host:port", as in a URL */
	uint16_t port;
	struct tls_conf *conf;
	enum https_state state;
	/* opening */
	struct resolve *resolve;
	struct ipaddr addrs[RESOLVE_MAX];
	size_t n_addrs, next_addr;
	struct loop_timer *deadline, *attempt;
	int connect_ms;
	struct err last; /* why the address before did not do */
	/* the connection */
	int fd;
	struct loop_fd *watch;
	struct tls *tls;
	struct h2 *h2;
	struct buf out; /* taken from h2, not written yet */
	size_t out_at;
	struct loop_timer *kick, *quiet;
	int64_t heard;
	bool pinged;
};

/* The end: callbacks, after which c may be gone. */
void https_fail(struct https *c, const struct err *why);
void https_drop(struct https *c); /* socket and TLS only */
/* TLS is up. */
int https_begin(struct https *c, struct err *e);
void https_on_bytes(struct https *c);

#endif
