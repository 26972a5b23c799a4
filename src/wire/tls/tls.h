/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_WIRE_TLS_TLS_H
#define UNIRAIL_WIRE_TLS_TLS_H

/*
 * TLS 1.2 and 1.3 (mbedTLS) on a connected, non-blocking socket. No function waits: if the socket
 * is not ready, it returns -EAGAIN, and tls_events() returns the event to wait for.
 *
 * A client always verifies the server: chain, validity and name. The DNS name or IP address must be
 * in the certificate's subjectAltName; mbedTLS compares a DNS name with the common name if the
 * certificate has no subjectAltName. There is no way to turn the verification off. An IP address is
 * never sent as server name (RFC 6066). A server with a CA requires a client certificate signed by
 * that CA.
 *
 * Sessions are resumed, which costs a fraction of the CPU time of a full handshake. A client saves
 * the session of the last connection of its tls_conf, and tries it once for the next connection to
 * the same server name. A saved session expires when any certificate of the verified chain expires,
 * at the latest a day after the full handshake. After a failed attempt the next handshake is a full
 * one. A server stores no sessions: it issues tickets that are valid for an hour, encrypted with
 * keys of its tls_conf that change every hour. So sessions of a previous tls_conf (other
 * certificates, another CA) cannot be resumed. A server with a CA issues a ticket only after a
 * handshake in which it verified the client's certificates, and only if none of them expires within
 * the hour.
 *
 * Memory of a connection: 23 KiB (one record of 16 KiB in, 4 KiB out, keys).
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/err.h"

enum tls_side { TLS_CLIENT, TLS_SERVER };

struct tls_material {
	/* The CA as PEM, with one or more certificates; required for a client. Unreadable
	 * certificates are skipped if at least one is readable. */
	struct span ca;
	struct span cert,
		key;	  /* chain and private key as PEM; both or neither; required for a server */
	const char *alpn; /* application protocol (ALPN), such as "h2"; borrowed; NULL: no ALPN */
};

/* Certificates and settings, shared by any number of connections; reference-counted. */
struct tls_conf;

/* Errors of the PEM texts have the kind ERR_CONF and name the text: "the CA", "the certificate",
 * "the key". */
int tls_conf_new(struct tls_conf **ret, enum tls_side side, const struct tls_material *m,
		 struct err *e);
struct tls_conf *tls_conf_get(struct tls_conf *c);
void tls_conf_put(struct tls_conf *c); /* accepts NULL */

struct tls;

/* `name`: the DNS name or IP address that a client expects in the server's certificate; a server
 * passes NULL. The caller remains the owner of the descriptor. */
struct tls *tls_new(struct tls_conf *c, int fd, const char *name);
/* after a complete handshake sends close_notify, unless the socket is full; accepts NULL */
void tls_free(struct tls *t);

/*
 * Continues the handshake. Returns 0 when it is complete. -EAGAIN: wait for tls_events().
 * -EKEYREJECTED, kind ERR_UNAVAILABLE: a certificate was rejected, and the text has the reason
 * ("the server's certificate is for ..."). -ECONNRESET: the peer closed the connection. -EPROTO:
 * any other failure of the handshake. -EPROTONOSUPPORT: the peer does not speak the protocol of
 * `alpn`.
 */
int tls_handshake(struct tls *t, struct err *e);

/* Returns the number of bytes, 0 after the peer's close_notify, or a negative code (-ECONNRESET:
 * the peer closed without close_notify). The caller reads until -EAGAIN before it waits again. */
ssize_t tls_read(struct tls *t, void *p, size_t n, struct err *e);
/* Returns the number of bytes written, possibly fewer than n. After -EAGAIN repeat the call with
 * the same bytes and n. */
ssize_t tls_write(struct tls *t, const void *p, size_t n, struct err *e);

/* the event to wait for after -EAGAIN: EPOLLIN or EPOLLOUT */
uint32_t tls_events(const struct tls *t);
/* Returns whether this client connection resumed a session, whose first connection verified the
 * server's certificate. */
bool tls_resumed(struct tls *t);
const char *tls_version(const struct tls *t);

#endif
