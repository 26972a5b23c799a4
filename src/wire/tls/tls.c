/* SPDX-License-Identifier: Apache-2.0 */
/* One connection. */
#include "wire/tls/tls.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <mbedtls/net_sockets.h>

#include "base/cleanup.h"
#include "wire/tls/tls_priv.h"

struct tls {
	struct tls_conf *conf;
	mbedtls_ssl_context ssl;
	struct tls_check check;
	int fd;
	bool starved; /* the socket had nothing */
	bool left;    /* we have said goodbye */
	uint32_t events;
	int64_t until; /* of the session that this connection resumes */
	int broken;    /* once it failed it stays failed */
};

static int give(void *arg, const unsigned char *p, size_t n)
{
	struct tls *t = arg;
	ssize_t r;

	do
		r = send(t->fd, p, n, MSG_NOSIGNAL);
	while (r < 0 && errno == EINTR);
	if (r >= 0)
		return (int)r;
	/* A peer that refuses and closes has said why: the next read finds it. */
	if (errno == EPIPE || errno == ECONNRESET)
		return (int)n;
	t->starved = errno == EAGAIN;
	return t->starved ? MBEDTLS_ERR_SSL_WANT_WRITE : MBEDTLS_ERR_NET_CONN_RESET;
}

static int get(void *arg, unsigned char *p, size_t n)
{
	struct tls *t = arg;
	ssize_t r;

	do
		r = recv(t->fd, p, n, 0);
	while (r < 0 && errno == EINTR);
	if (r >= 0)
		return (int)r;
	t->starved = errno == EAGAIN;
	return t->starved ? MBEDTLS_ERR_SSL_WANT_READ : MBEDTLS_ERR_NET_CONN_RESET;
}

struct tls *tls_new(struct tls_conf *c, int fd, const char *name)
{
	struct tls *t = xcalloc(1, sizeof(*t));

	t->conf = tls_conf_get(c);
	t->fd = fd;
	t->events = EPOLLIN;
	tls_check_init(&t->check, name);
	mbedtls_ssl_init(&t->ssl);
	/* Both fail for want of memory only, and then the handshake says so. */
	t->broken = mbedtls_ssl_setup(&t->ssl, &c->ssl);
	if (!t->broken)
		t->broken = mbedtls_ssl_set_hostname(&t->ssl, t->check.ip.family ? NULL : name);
	mbedtls_ssl_set_verify(&t->ssl, tls_check_cert, &t->check);
	if (!t->broken)
		tls_session_use(c, &t->ssl, &t->check, &t->until);
	mbedtls_ssl_set_bio(&t->ssl, t, give, get, NULL);
	return t;
}

void tls_bye(struct tls *t)
{
	if (!t->left && !t->broken && mbedtls_ssl_is_handshake_over(&t->ssl))
		mbedtls_ssl_close_notify(&t->ssl);
	t->left = true;
}

void tls_free(struct tls *t)
{
	if (!t)
		return;
	tls_bye(t);
	mbedtls_ssl_free(&t->ssl);
	tls_check_done(&t->check);
	tls_conf_put(t->conf);
	free(t);
}

/* True: the call has to be made again, at once. WANT_READ also comes after a message that is none
 * of ours (a session ticket), when more may have been read already. */
static bool again(struct tls *t, int r)
{
	if (r == MBEDTLS_ERR_SSL_RECEIVED_NEW_SESSION_TICKET) {
		tls_session_keep(t->conf, &t->ssl, &t->check, t->until);
		return true;
	}
	if (r != MBEDTLS_ERR_SSL_WANT_READ && r != MBEDTLS_ERR_SSL_WANT_WRITE)
		return false;
	t->events = r == MBEDTLS_ERR_SSL_WANT_READ ? EPOLLIN : EPOLLOUT;
	return !t->starved;
}

/* Before each call of mbedTLS. */
static void at_hand(struct tls *t)
{
	t->starved = false;
	t->conf->at_hand = &t->check;
}

static int fail(struct tls *t, int r, const char *doing, struct err *e)
{
	uint32_t flags = mbedtls_ssl_get_verify_result(&t->ssl);
	int alert = -1;

	if (r == MBEDTLS_ERR_SSL_WANT_READ || r == MBEDTLS_ERR_SSL_WANT_WRITE)
		return -EAGAIN;
	/* The usage of a key is judged after the callback; all ones: nothing was judged. */
	if (flags != UINT32_MAX)
		t->check.flags |= flags & ~(uint32_t)MBEDTLS_X509_BADCERT_SKIP_VERIFY;
	/* No call tells which alert it was; its two bytes are still there. */
	if (r == MBEDTLS_ERR_SSL_FATAL_ALERT_MESSAGE && t->ssl.MBEDTLS_PRIVATE(in_msg))
		alert = t->ssl.MBEDTLS_PRIVATE(in_msg)[1];
	t->broken = r;
	if (t->check.flags)
		return tls_check_err(&t->check, t->conf->side, e);
	return tls_code_err(r, alert, t->conf->side, doing, e);
}

static int check_alpn(struct tls *t, struct err *e)
{
	const char *want = t->conf->alpn[0], *have = mbedtls_ssl_get_alpn_protocol(&t->ssl);

	if (!want || (have && span_eq(span_of(have), want)))
		return 0;
	t->broken = MBEDTLS_ERR_SSL_NO_APPLICATION_PROTOCOL;
	return err_kind(e, ERR_UNAVAILABLE, -EPROTONOSUPPORT, "the %s does not speak '%s'",
			t->conf->side == TLS_CLIENT ? "server" : "client", want);
}

int tls_handshake(struct tls *t, struct err *e)
{
	int r = t->broken;

	if (!r)
		do {
			at_hand(t);
			r = mbedtls_ssl_handshake(&t->ssl);
		} while (again(t, r));
	t->conf->at_hand = NULL;
	if (r)
		return fail(t, r, "handshake", e);
	/* TLS 1.3 has a ticket later. */
	if (mbedtls_ssl_get_version_number(&t->ssl) == MBEDTLS_SSL_VERSION_TLS1_2)
		tls_session_keep(t->conf, &t->ssl, &t->check, t->until);
	return check_alpn(t, e);
}

ssize_t tls_read(struct tls *t, void *p, size_t n, struct err *e)
{
	int r = t->broken;

	if (!r)
		do {
			at_hand(t);
			r = mbedtls_ssl_read(&t->ssl, p, n);
		} while (again(t, r));
	t->conf->at_hand = NULL;
	if (r == MBEDTLS_ERR_SSL_PEER_CLOSE_NOTIFY)
		return 0;
	/* 0: the connection ended without a goodbye; somebody may have cut it. */
	return r <= 0 ? fail(t, r ? r : MBEDTLS_ERR_SSL_CONN_EOF, "read", e) : r;
}

ssize_t tls_write(struct tls *t, const void *p, size_t n, struct err *e)
{
	int r = t->broken;

	if (!r)
		do {
			at_hand(t);
			r = mbedtls_ssl_write(&t->ssl, p, n);
		} while (again(t, r));
	t->conf->at_hand = NULL;
	return r < 0 ? fail(t, r, "write", e) : r;
}

uint32_t tls_events(const struct tls *t)
{
	return t->events;
}

bool tls_resumed(struct tls *t)
{
	return t->conf->side == TLS_CLIENT && !t->check.looked &&
	       mbedtls_ssl_is_handshake_over(&t->ssl);
}

const char *tls_version(const struct tls *t)
{
	return mbedtls_ssl_get_version(&t->ssl);
}
