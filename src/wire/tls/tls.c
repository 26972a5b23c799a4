/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/tls/tls.h"

#include <errno.h>
#include <mbedtls/net_sockets.h>
#include <psa/crypto.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>

#include "base/alloc.h"
#include "base/random.h"
#include "wire/tls/internal.h"

/* One connection. */

struct tls {
	struct tls_conf *conf;
	mbedtls_ssl_context ssl;
	struct tls_check check;
	int fd;
	bool starved; /* the last read or write of the socket returned EAGAIN */
	bool left;    /* tls_bye() was called */
	uint32_t events;
	/* expiry of the session that this connection resumes, seconds since the epoch */
	int64_t until;
	int broken; /* mbedTLS error that all further calls return */
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
	/* Not an error here: the peer has closed, usually after an alert with the reason, which the
	 * next read returns. */
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

static void forget(struct tls_saved_session *k)
{
	mbedtls_ssl_session_free(&k->session);
	mbedtls_ssl_session_init(&k->session);
	free(k->name);
	*k = (struct tls_saved_session){.session = k->session};
}

/* If the saved session of a client is of this server name and has not expired, makes the
 * handshake try to resume the session, and sets *until to the session's expiry. */
static void tls_session_use(struct tls_conf *c, mbedtls_ssl_context *ssl,
			    const struct tls_check *check, int64_t *until)
{
	struct tls_saved_session *k = &c->saved;

	if (!k->name || !check->name || strcmp(k->name, check->name))
		return;
	/* Tries a session only once: if this connection fails, the next handshake is a full one. */
	if (time(NULL) < k->until && mbedtls_ssl_set_session(ssl, &k->session) == 0)
		*until = k->until;
	forget(k);
}

struct tls *tls_new(struct tls_conf *c, int fd, const char *name)
{
	struct tls *t = xcalloc(1, sizeof(*t));

	t->conf = tls_conf_get(c);
	t->fd = fd;
	t->events = EPOLLIN;
	tls_check_init(&t->check, name);
	mbedtls_ssl_init(&t->ssl);
	/* Both calls can fail for lack of memory, and the second for a name of more than 255 bytes:
	 * `broken` keeps the failure, and the handshake reports it. */
	t->broken = mbedtls_ssl_setup(&t->ssl, &c->ssl);
	if (!t->broken)
		t->broken = mbedtls_ssl_set_hostname(&t->ssl, t->check.ip.family ? NULL : name);
	mbedtls_ssl_set_verify(&t->ssl, tls_check_cert, &t->check);
	if (!t->broken)
		tls_session_use(c, &t->ssl, &t->check, &t->until);
	mbedtls_ssl_set_bio(&t->ssl, t, give, get, NULL);
	return t;
}

/* Sends close_notify if the handshake is complete and the connection not broken. If the socket
 * is full, nothing is sent. Nothing may be written afterwards. */
static void tls_bye(struct tls *t)
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

static void tls_session_keep(struct tls_conf *c, const mbedtls_ssl_context *ssl,
			     const struct tls_check *check, int64_t until);

/* Returns whether to repeat the call immediately. mbedTLS also returns WANT_READ after a message
 * without application data (a session ticket), although it may have buffered more. */
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

/* Must be called before each mbedtls_ssl_handshake(), mbedtls_ssl_read() and
 * mbedtls_ssl_write(). */
static void at_hand(struct tls *t)
{
	t->starved = false;
	t->conf->at_hand = &t->check;
}

static int tls_code_err(int code, int alert, enum tls_side side, const char *doing, struct err *e);

static int fail(struct tls *t, int r, const char *doing, struct err *e)
{
	uint32_t flags = mbedtls_ssl_get_verify_result(&t->ssl);
	int alert = -1;

	if (r == MBEDTLS_ERR_SSL_WANT_READ || r == MBEDTLS_ERR_SSL_WANT_WRITE)
		return -EAGAIN;
	/* Adds the flags that mbedTLS sets after tls_check_cert() has returned, such as those of
	 * the key usage. UINT32_MAX: mbedTLS has verified no certificate. */
	if (flags != UINT32_MAX)
		t->check.flags |= flags & ~(uint32_t)MBEDTLS_X509_BADCERT_SKIP_VERIFY;
	/* mbedTLS has no function for the alert's number; its two bytes are still in the input
	 * buffer. */
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
	/* With TLS 1.3 the ticket arrives after the handshake. */
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
	/* Treats 0 as an error: the connection ended without close_notify, so an attacker may have
	 * truncated it. */
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
	return t->conf->side == TLS_CLIENT && !t->check.verified &&
	       mbedtls_ssl_is_handshake_over(&t->ssl);
}

const char *tls_version(const struct tls *t)
{
	return mbedtls_ssl_get_version(&t->ssl);
}

/* --- certificates and settings shared by connections --- */

int tls_random(void *arg, unsigned char *p, size_t n)
{
	(void)arg;
	random_bytes(p, n);
	return 0;
}

static int bad(const char *what, int code, struct err *e)
{
	return err_kind(e, ERR_CONF, -EINVAL,
			"%s is not valid PEM or not supported (mbedTLS -0x%04x)", what,
			(unsigned int)-code);
}

/* mbedTLS expects the length of PEM to include the NUL. */
static char *with_nul(struct span pem)
{
	return span_dup(pem);
}

static void wipe(char *text)
{
	explicit_bzero(text, strlen(text));
}

/* Adds the certificates of `pem`; returns how many of them mbedTLS cannot read, or -EINVAL if it
 * can read none. */
static int read_certs(mbedtls_x509_crt *into, struct span pem, const char *what, struct err *e)
{
	auto_free char *text = with_nul(pem);
	int r = mbedtls_x509_crt_parse(into, (unsigned char *)text, strlen(text) + 1);

	return r < 0 ? bad(what, r, e) : r;
}

static int read_key(struct tls_conf *c, struct span pem, struct err *e)
{
	auto_free char *text = with_nul(pem);
	int r = mbedtls_pk_parse_key(&c->key, (unsigned char *)text, strlen(text) + 1, NULL, 0,
				     tls_random, NULL);

	wipe(text);
	if (r == MBEDTLS_ERR_PK_PASSWORD_REQUIRED || r == MBEDTLS_ERR_PK_PASSWORD_MISMATCH)
		return err_kind(e, ERR_CONF, -EINVAL,
				"the key is encrypted: use a key without a passphrase");
	if (r < 0)
		return bad("the key", r, e);
	if (mbedtls_pk_check_pair(&c->cert.pk, &c->key, tls_random, NULL))
		return err_kind(e, ERR_CONF, -EINVAL, "the key does not belong to the certificate");
	return 0;
}

static int read_own(struct tls_conf *c, const struct tls_material *m, struct err *e)
{
	int r;

	if (!m->cert.n && !m->key.n)
		return 0;
	if (!m->cert.n || !m->key.n)
		return err_kind(e, ERR_CONF, -EINVAL, "a %s without a %s",
				m->cert.n ? "certificate" : "key",
				m->cert.n ? "key" : "certificate");
	r = read_certs(&c->cert, m->cert, "the certificate", e);
	if (r > 0)
		r = err_kind(e, ERR_CONF, -EINVAL,
			     "the certificate: %d certificates of its chain cannot be read", r);
	if (r == 0)
		r = read_key(c, m->key, e);
	if (r == 0)
		mbedtls_ssl_conf_own_cert(&c->ssl, &c->cert, &c->key);
	return r;
}

static int read_ca(struct tls_conf *c, const struct tls_material *m, struct err *e)
{
	int r;

	if (!m->ca.n)
		return c->side == TLS_SERVER ? 0
					     : err_kind(e, ERR_CONF, -EINVAL, "the CA is missing");
	/* CA bundles of distributions contain certificates that mbedTLS cannot read; other
	 * libraries skip them, too. */
	r = read_certs(&c->ca, m->ca, "the CA", e);
	if (r < 0)
		return r;
	mbedtls_ssl_conf_ca_chain(&c->ssl, &c->ca, NULL);
	mbedtls_ssl_conf_authmode(&c->ssl, MBEDTLS_SSL_VERIFY_REQUIRED);
	return 0;
}

static int tls_sessions_init(struct tls_conf *c);

static int set_up(struct tls_conf *c, const struct tls_material *m, struct err *e)
{
	int endpoint = c->side == TLS_CLIENT ? MBEDTLS_SSL_IS_CLIENT : MBEDTLS_SSL_IS_SERVER;
	int r = psa_crypto_init();

	if (r == 0)
		r = mbedtls_ssl_config_defaults(&c->ssl, endpoint, MBEDTLS_SSL_TRANSPORT_STREAM,
						MBEDTLS_SSL_PRESET_DEFAULT);
	if (r)
		return err_set(e, -ENOMEM, "set TLS up: mbedTLS %d", r);
	mbedtls_ssl_conf_rng(&c->ssl, tls_random, NULL);
	r = tls_sessions_init(c);
	if (r)
		return err_set(e, -ENOMEM, "set TLS up: mbedTLS %d", r);
	mbedtls_ssl_conf_min_tls_version(&c->ssl, MBEDTLS_SSL_VERSION_TLS1_2);
	c->alpn[0] = m->alpn;
	if (m->alpn && mbedtls_ssl_conf_alpn_protocols(&c->ssl, c->alpn))
		return err_set(e, -EINVAL, "set TLS up: mbedTLS refuses the ALPN protocol '%s'",
			       m->alpn);
	return 0;
}

int tls_conf_new(struct tls_conf **ret, enum tls_side side, const struct tls_material *m,
		 struct err *e)
{
	struct tls_conf *c = xcalloc(1, sizeof(*c));
	int r;

	c->users = 1;
	c->side = side;
	mbedtls_ssl_config_init(&c->ssl);
	mbedtls_x509_crt_init(&c->ca);
	mbedtls_x509_crt_init(&c->cert);
	mbedtls_pk_init(&c->key);
	r = set_up(c, m, e);
	if (r == 0)
		r = read_ca(c, m, e);
	if (r == 0)
		r = read_own(c, m, e);
	if (r == 0 && side == TLS_SERVER && !m->cert.n)
		r = err_kind(e, ERR_CONF, -EINVAL, "the certificate is missing");
	if (r < 0)
		tls_conf_put(c);
	else
		*ret = c;
	return r;
}

struct tls_conf *tls_conf_get(struct tls_conf *c)
{
	c->users++;
	return c;
}

static void tls_sessions_done(struct tls_conf *c)
{
	forget(&c->saved);
	mbedtls_ssl_session_free(&c->saved.session);
	mbedtls_ssl_ticket_free(&c->tickets);
}

void tls_conf_put(struct tls_conf *c)
{
	if (!c || --c->users)
		return;
	mbedtls_ssl_config_free(&c->ssl);
	tls_sessions_done(c);
	mbedtls_x509_crt_free(&c->ca);
	mbedtls_x509_crt_free(&c->cert);
	mbedtls_pk_free(&c->key);
	free(c);
}

/* --- verification of the peer's certificate, and error messages for its failures --- */

enum { NAMES_MAX = 256 };

void tls_check_init(struct tls_check *c, const char *name)
{
	*c = (struct tls_check){.name = name ? xstrdup(name) : NULL};
	if (name)
		ip_parse(span_of(name), &c->ip);
	buf_init(&c->names, NAMES_MAX);
}

void tls_check_done(struct tls_check *c)
{
	free(c->name);
	buf_done(&c->names);
}

static void add_name(struct tls_check *c, struct span name)
{
	if (c->names.len + name.n + 4 > NAMES_MAX)
		return;
	buf_str(&c->names, c->names.len ? ", " : "");
	for (size_t i = 0; i < name.n; i++)
		buf_char(&c->names, name.p[i] < ' ' || name.p[i] > '~' ? '?' : name.p[i]);
}

static void match_ip(struct tls_check *c, struct span raw, bool *found)
{
	struct ipaddr a = {.family = raw.n == 4 ? 4 : 6};
	char text[IP_TEXT_MAX];

	if (raw.n != 4 && raw.n != 16)
		return;
	memcpy(a.b, raw.p, raw.n);
	*found |= c->ip.family && ip_eq(&a, &c->ip);
	add_name(c, span_of(ip_str(&a, text)));
}

/* Collects the names of the certificate; returns whether the expected IP address is one of them. */
static bool match_names(struct tls_check *c, const mbedtls_x509_crt *crt)
{
	bool found = false;

	for (const mbedtls_x509_sequence *s = &crt->subject_alt_names; s && s->buf.p; s = s->next) {
		struct span raw = {(const char *)s->buf.p, s->buf.len};
		int type = s->buf.tag & MBEDTLS_ASN1_TAG_VALUE_MASK;

		if (type == MBEDTLS_X509_SAN_IP_ADDRESS)
			match_ip(c, raw, &found);
		else if (type == MBEDTLS_X509_SAN_DNS_NAME)
			add_name(c, raw);
	}
	return found;
}

int tls_check_cert(void *arg, mbedtls_x509_crt *crt, int depth, uint32_t *flags)
{
	struct tls_check *c = arg;
	int64_t end = x509_seconds(&crt->valid_to);

	if (!c->verified || end < c->end)
		c->end = end;
	c->verified = true;
	if (depth == 0 && c->name && !match_names(c, crt) && c->ip.family)
		*flags |= MBEDTLS_X509_BADCERT_CN_MISMATCH;
	if (*flags & (MBEDTLS_X509_BADCERT_EXPIRED | MBEDTLS_X509_BADCERT_FUTURE)) {
		c->from = crt->valid_from;
		c->to = crt->valid_to;
	}
	c->flags |= *flags;
	return 0;
}

static void when(const mbedtls_x509_time *t, char ret[static 32])
{
	snprintf(ret, 32, "%04d-%02d-%02dT%02d:%02d:%02dZ", t->year, t->mon, t->day, t->hour,
		 t->min, t->sec);
}

static int out_of_time(const struct tls_check *c, const char *peer, struct err *e)
{
	bool early = c->flags & MBEDTLS_X509_BADCERT_FUTURE;
	char limit[32], now[32];
	time_t t = time(NULL);
	struct tm tm;

	when(early ? &c->from : &c->to, limit);
	strftime(now, sizeof(now), "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&t, &tm));
	return err_kind(e, ERR_UNAVAILABLE, -EKEYREJECTED,
			"%s certificate %s %s, and the clock of this machine is at %s", peer,
			early ? "is not valid before" : "has expired on", limit, now);
}

int tls_check_err(const struct tls_check *c, enum tls_side side, struct err *e)
{
	const char *peer = side == TLS_CLIENT ? "the server's" : "the client's";

	if (c->flags & (MBEDTLS_X509_BADCERT_EXPIRED | MBEDTLS_X509_BADCERT_FUTURE))
		return out_of_time(c, peer, e);
	if (c->flags & MBEDTLS_X509_BADCERT_NOT_TRUSTED)
		return err_kind(e, ERR_UNAVAILABLE, -EKEYREJECTED,
				"%s certificate is not signed by the configured CA", peer);
	if (c->flags & MBEDTLS_X509_BADCERT_CN_MISMATCH)
		return err_kind(e, ERR_UNAVAILABLE, -EKEYREJECTED,
				"%s certificate is for %s, not for '%s'", peer,
				c->names.len ? c->names.p : "no name", c->name);
	if (c->flags & MBEDTLS_X509_BADCERT_MISSING)
		return err_kind(e, ERR_UNAVAILABLE, -EKEYREJECTED, "%s certificate is missing",
				peer);
	if (c->flags & (MBEDTLS_X509_BADCERT_BAD_KEY | MBEDTLS_X509_BADCERT_BAD_MD |
			MBEDTLS_X509_BADCERT_BAD_PK))
		return err_kind(e, ERR_UNAVAILABLE, -EKEYREJECTED,
				"%s certificate has a key or a signature that is too weak", peer);
	if (c->flags & (MBEDTLS_X509_BADCERT_EXT_KEY_USAGE | MBEDTLS_X509_BADCERT_KEY_USAGE))
		return err_kind(e, ERR_UNAVAILABLE, -EKEYREJECTED,
				"%s certificate may not be used by a %s (key usage)", peer,
				side == TLS_CLIENT ? "server" : "client");
	return err_kind(e, ERR_UNAVAILABLE, -EKEYREJECTED, "%s certificate is not valid (0x%x)",
			peer, c->flags);
}

/* RFC 8446, 6: alerts that help to find the cause. */
static const struct {
	int alert;
	const char *text;
} alerts[] = {
	{40, "it found no common parameters (handshake_failure)"},
	{42, "it refuses unirail's certificate (bad_certificate)"},
	{43, "it refuses unirail's certificate (unsupported_certificate)"},
	{44, "unirail's certificate is revoked (certificate_revoked)"},
	{45, "unirail's certificate has expired (certificate_expired)"},
	{46, "it refuses unirail's certificate (certificate_unknown)"},
	{48, "it does not know the CA of unirail's certificate (unknown_ca)"},
	{49, "access denied (access_denied)"},
	{70, "it speaks another version of TLS (protocol_version)"},
	{112, "it does not serve that server name (unrecognized_name)"},
	{116, "it requires a client certificate (certificate_required)"},
	{120, "it does not speak the requested protocol (no_application_protocol)"},
};

static const char *alert_describe(int alert, char *room, size_t size)
{
	for (size_t i = 0; i < ARRAY_LEN(alerts); i++)
		if (alerts[i].alert == alert)
			return alerts[i].text;
	snprintf(room, size, "alert %d", alert);
	return room;
}

static bool is_about_certificates(int alert)
{
	return (alert >= 42 && alert <= 49 && alert != 47) || alert == 116;
}

/* Sets e for an mbedTLS error code; alert: number of the alert that the peer sent, or -1. */
static int tls_code_err(int code, int alert, enum tls_side side, const char *doing, struct err *e)
{
	const char *peer = side == TLS_CLIENT ? "the server" : "the client";
	char room[32];

	if (code == MBEDTLS_ERR_SSL_FATAL_ALERT_MESSAGE && alert >= 0)
		return err_kind(e, ERR_UNAVAILABLE,
				is_about_certificates(alert) ? -EKEYREJECTED
				: alert == 120		     ? -EPROTONOSUPPORT
							     : -EPROTO,
				"TLS %s: %s says: %s", doing, peer,
				alert_describe(alert, room, sizeof(room)));
	if (code == MBEDTLS_ERR_SSL_CONN_EOF || code == MBEDTLS_ERR_NET_CONN_RESET)
		return err_kind(e, ERR_AGAIN, -ECONNRESET, "TLS %s: %s closed the connection",
				doing, peer);
	if (code == MBEDTLS_ERR_SSL_BAD_PROTOCOL_VERSION)
		return err_kind(e, ERR_UNAVAILABLE, -EPROTO,
				"TLS %s: %s speaks neither TLS 1.2 nor 1.3", doing, peer);
	if (code == MBEDTLS_ERR_SSL_INVALID_RECORD)
		return err_kind(e, ERR_UNAVAILABLE, -EPROTO,
				"TLS %s: %s does not speak TLS, or sent an invalid record", doing,
				peer);
	return err_kind(e, ERR_UNAVAILABLE, -EPROTO, "TLS %s: mbedTLS -0x%04x", doing,
			(unsigned int)-code);
}

/* --- session resumption: the last session of a client, the tickets of a server --- */

/* TICKET_S: lifetime of a ticket and of the key that encrypts it. VERIFIED_S: maximum time between
 * full handshakes. */
enum { TICKET_S = 3600, VERIFIED_S = 24 * 3600 };

/* --- sessions of a client --- */

/* Saves the session of this client connection for later resumption; `until`: as tls_session_use()
 * set it. */
static void tls_session_keep(struct tls_conf *c, const mbedtls_ssl_context *ssl,
			     const struct tls_check *check, int64_t until)
{
	struct tls_saved_session *k = &c->saved;
	int64_t now = time(NULL);

	if (!check->name)
		return;
	if (check->verified)
		until = check->end < now + VERIFIED_S ? check->end : now + VERIFIED_S;
	forget(k);
	if (until <= now || mbedtls_ssl_get_session(ssl, &k->session) != 0)
		return;
	k->name = xstrdup(check->name);
	k->until = until;
}

/* --- session tickets of a server --- */

/*
 * On a server with a CA a ticket replaces the verification of the client certificate. So no ticket
 * is issued after a handshake without verification (a resumed one), or if a certificate of the
 * chain expires before the ticket would. In both cases the client receives one invalid byte as a
 * ticket, since mbedTLS closes a TLS 1.3 connection when no ticket can be written.
 */
static bool may_give(const struct tls_conf *c)
{
	const struct tls_check *check = c->at_hand;

	if (!c->ca.version)
		return true;
	return check && check->verified && !check->flags && check->end >= time(NULL) + TICKET_S;
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

/* Enables the resumption of sessions on a client or a server. Returns 0 or an error of mbedTLS. */
static int tls_sessions_init(struct tls_conf *c)
{
	mbedtls_ssl_session_init(&c->saved.session);
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
