/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_CLI_VERIFY_VERIFY_TCP_H
#define UNIRAIL_CLI_VERIFY_VERIFY_TCP_H

/* The TCP connection between the two sides of `unirail verify` (cli/verify/verify_msg.h). */

#include "cli/verify/verify_msg.h"

enum { VERIFY_PORT = 18520, VERIFY_HOST_MAX = 256, VERIFY_TIMEOUT_MS = 30000 };

/* "HOST", "HOST:PORT", "[IPV6]:PORT", "IPV6" or ":PORT"; missing parts are "" or VERIFY_PORT. */
struct verify_place {
	char host[VERIFY_HOST_MAX];
	uint16_t port;
};
int verify_place_parse(const char *s, struct verify_place *ret, struct err *e);

struct verify_conn {
	int fd;
	size_t n; /* number of bytes in `line` that are not consumed yet */
	char line[VERIFY_LINE_MAX];
};
#define VERIFY_CONN_INIT                                                                           \
	{                                                                                          \
		.fd = -1                                                                           \
	}

int verify_connect(struct verify_conn *c, const struct verify_place *to, int timeout_ms,
		   struct err *e);
int verify_listen(const struct verify_place *at, int *fd, struct err *e);
int verify_accept(int fd, struct verify_conn *c, struct err *e);
void verify_conn_close(struct verify_conn *c);
#define auto_verify_conn __attribute__((cleanup(verify_conn_close)))

/* Local and peer address of the connection. */
int verify_conn_local(const struct verify_conn *c, struct ipaddr *ret, struct err *e);
int verify_conn_peer(const struct verify_conn *c, struct ipaddr *ret, struct err *e);

int verify_put(struct verify_conn *c, const struct verify_msg *m, struct err *e);
/*
 * Receives the next message; a "fail" returns -EREMOTEIO with its text. -EPIPE: the peer has
 * disconnected; *ret is unchanged. timeout_ms -1: no timeout.
 */
int verify_get(struct verify_conn *c, struct verify_msg *ret, int timeout_ms, struct err *e);
/* Calls verify_get() with VERIFY_TIMEOUT_MS; fails with -EPROTO if the message has another verb. */
int verify_expect(struct verify_conn *c, enum verify_verb verb, struct verify_msg *ret,
		  struct err *e);

#endif
