/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions that are resumed: a client's last one, a server's tickets. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/cleanup.h"
#include "wire/tls/tls_priv.h"

/* TICKET_S: life of a ticket, and of the key that encrypts it. VERIFIED_S: from a full handshake to the next one at the latest. */
enum { TICKET_S = 3600, VERIFIED_S = 24 * 3600 };

/* --- a client's --- */

static void forget(struct tls_kept *k)
{
	mbedtls_ssl_session_free(&k->session);
	mbedtls_ssl_session_init(&k->session);
	free(k->name);
	*k = (struct tls_kept){.session = k->session};
}

void tls_session_use(struct tls_conf *c, mbedtls_ssl_context *ssl, const struct tls_check *check,
		     int64_t *until)
{
	struct tls_kept *k = &c->kept;

	if (!k->name || !check->name || strcmp(k->name, check->name))
		return;
	/* Not again if this connection fails: the next handshake is a full one. */
	if (time(NULL) < k->until && mbedtls_ssl_set_session(ssl, &k->session) == 0)
		*until = k->until;
	forget(k);
}

void tls_session_keep(struct tls_conf *c, const mbedtls_ssl_context *ssl,
		      const struct tls_check *check, int64_t until)
{
	struct tls_kept *k = &c->kept;
	int64_t now = time(NULL);

	if (!check->name)
		return;
	if (check->looked)
		until = check->end < now + VERIFIED_S ? check->end : now + VERIFIED_S;
	forget(k);
	if (until <= now || mbedtls_ssl_get_session(ssl, &k->session) != 0)
		return;
	k->name = xstrdup(check->name);
	k->until = until;
}

/* --- a server's --- */

/*
 * A ticket stands for the client certificate that its handshake verified. So none is given after a handshake that verified none
 * (it was resumed itself), nor when a certificate of the chain expires before the ticket: the client then gets a byte
 * that is no ticket, since mbedTLS ends a connection of TLS 1.3 for which no ticket can be written.
 */
static bool may_give(const struct tls_conf *c)
{
	const struct tls_check *check = c->at_hand;

	if (!c->ca.version)
		return true;
	return check && check->looked && !check->flags && check->end >= time(NULL) + TICKET_S;
}

static int write_ticket(void *arg, const mbedtls_ssl_session *session, unsigned char *start,
			const unsigned char *end, size_t *n, uint32_t *lifetime)
{
	struct tls_conf *c = arg;

	if (may_give(c))
		return mbedtls_ssl_ticket_write(&c->tickets, session, start, end, n, lifetime);
	if (start >= end)
		return MBEDTLS_ERR_SSL_BUFFER_TOO_SMALL;
	*start = 0;
	*n = 1;
	*lifetime = 0;
	return 0;
}

static int read_ticket(void *arg, mbedtls_ssl_session *session, unsigned char *p, size_t n)
{
	struct tls_conf *c = arg;

	return mbedtls_ssl_ticket_parse(&c->tickets, session, p, n);
}

/* --- */

int tls_sessions_init(struct tls_conf *c)
{
	mbedtls_ssl_session_init(&c->kept.session);
	mbedtls_ssl_ticket_init(&c->tickets);
	if (c->side == TLS_CLIENT) {
		mbedtls_ssl_conf_tls13_enable_signal_new_session_tickets(
			&c->ssl, MBEDTLS_SSL_TLS1_3_SIGNAL_NEW_SESSION_TICKETS_ENABLED);
		return 0;
	}
	mbedtls_ssl_conf_session_tickets_cb(&c->ssl, write_ticket, read_ticket, c);
	return mbedtls_ssl_ticket_setup(&c->tickets, tls_random, NULL, MBEDTLS_CIPHER_AES_256_GCM,
					TICKET_S);
}

void tls_sessions_done(struct tls_conf *c)
{
	forget(&c->kept);
	mbedtls_ssl_session_free(&c->kept.session);
	mbedtls_ssl_ticket_free(&c->tickets);
}
