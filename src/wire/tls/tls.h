/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_WIRE_TLS_TLS_H
#define UNIRAIL_WIRE_TLS_TLS_H

/*
 * TLS 1.2 and 1.3 (mbedTLS) on a connected, non-blocking socket. It never waits: a call that needs
 * the socket returns -EAGAIN, and tls_events() says what for.
 *
 * A client always verifies the server: chain, validity and name (DNS or IP address in the
 * certificate's subjectAltName); there is no way to turn that off. An IP address is never sent as
 * server name (RFC 6066). A server with a CA wants clients to show a certificate it has signed.
 *
 * Sessions are resumed, which costs the processor a fraction of a full handshake. A client keeps the session of the last connection of
 * its tls_conf, for a server of the same name, until a certificate of the verified chain expires, a day at most, and one attempt: if that
 * fails the next handshake is a full one. A server gives tickets of an hour, encrypted with keys of its tls_conf that
 * rotate hourly; it keeps nothing itself. So a new tls_conf (other certificates, another CA) resumes nothing that was before
 * it. With a CA a ticket is given only after a handshake that verified the client's certificate, and not when that expires
 * within the hour.
 *
 * What a connection holds: 23 KiB (one record of 16 KiB in, 4 KiB out, keys).
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/err.h"

enum tls_side { TLS_CLIENT, TLS_SERVER };

struct tls_material {
	/* PEM, one certificate or more; a client must have it. Unreadable ones are skipped beside a readable one. */
	struct span ca;
	struct span cert,
		key;	  /* PEM, chain and private key; both or neither, a server must have them */
	const char *alpn; /* the one protocol spoken on top, "h2"; NULL: none is named */
};

/* Certificates and settings, shared by any number of connections; counted. */
struct tls_conf;

/* Errors name what could not be read: "the CA", "the certificate", "the key"; kind ERR_CONF. */
int tls_conf_new(struct tls_conf **ret, enum tls_side side, const struct tls_material *m,
		 struct err *e);
struct tls_conf *tls_conf_get(struct tls_conf *c);
void tls_conf_put(struct tls_conf *c); /* NULL is fine */

struct tls;

/* `name` is what a client expects in the server's certificate: a DNS name or an IP address. The
 * descriptor stays the caller's. */
struct tls *tls_new(struct tls_conf *c, int fd, const char *name);
void tls_free(struct tls *t); /* NULL is fine; says goodbye if the socket takes it at once */

/*
 * 0: done. -EAGAIN: wait for tls_events(). -EKEYREJECTED, kind ERR_UNAVAILABLE: a certificate was
 * rejected, and the text has the reason ("the server's certificate is for ..."). -EPROTO,
 * -ECONNRESET. -EPROTONOSUPPORT: the peer does not speak the protocol of `alpn`.
 */
int tls_handshake(struct tls *t, struct err *e);

/* Bytes, 0 at the peer's end, or negative; read until -EAGAIN before waiting again. */
ssize_t tls_read(struct tls *t, void *p, size_t n, struct err *e);
/* Bytes taken, perhaps fewer than n. After -EAGAIN the next call repeats the same bytes, and n. */
ssize_t tls_write(struct tls *t, const void *p, size_t n, struct err *e);

uint32_t tls_events(const struct tls *t); /* EPOLLIN or EPOLLOUT, after -EAGAIN */
/* A client's connection that resumed a session: the server's certificate was verified when that began. */
bool tls_resumed(struct tls *t);
const char *tls_version(const struct tls *t);

#endif
