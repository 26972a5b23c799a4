/* SPDX-License-Identifier: Apache-2.0 */
/* Whether a certificate is the peer's, and the words when it is not. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <mbedtls/net_sockets.h>

#include "base/cleanup.h"
#include "wire/tls/tls_priv.h"

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

static void note_ip(struct tls_check *c, struct span raw, bool *found)
{
	struct ipaddr a = {.family = raw.n == 4 ? 4 : 6};
	char text[IP_TEXT_MAX];

	if (raw.n != 4 && raw.n != 16)
		return;
	memcpy(a.b, raw.p, raw.n);
	*found |= c->ip.family && ip_eq(&a, &c->ip);
	add_name(c, span_of(ip_str(&a, text)));
}

/* Notes what the certificate is for; true when the expected address is among it. */
static bool note_names(struct tls_check *c, const mbedtls_x509_crt *crt)
{
	bool found = false;

	for (const mbedtls_x509_sequence *s = &crt->subject_alt_names; s && s->buf.p; s = s->next) {
		struct span raw = {(const char *)s->buf.p, s->buf.len};
		int type = s->buf.tag & MBEDTLS_ASN1_TAG_VALUE_MASK;

		if (type == MBEDTLS_X509_SAN_IP_ADDRESS)
			note_ip(c, raw, &found);
		else if (type == MBEDTLS_X509_SAN_DNS_NAME)
			add_name(c, raw);
	}
	return found;
}

static int64_t seconds_of(const mbedtls_x509_time *t)
{
	struct tm tm = {.tm_year = t->year - 1900,
			.tm_mon = t->mon - 1,
			.tm_mday = t->day,
			.tm_hour = t->hour,
			.tm_min = t->min,
			.tm_sec = t->sec};

	return timegm(&tm);
}

int tls_check_cert(void *arg, mbedtls_x509_crt *crt, int depth, uint32_t *flags)
{
	struct tls_check *c = arg;
	int64_t end = seconds_of(&crt->valid_to);

	if (!c->looked || end < c->end)
		c->end = end;
	c->looked = true;
	if (depth == 0 && c->name && !note_names(c, crt) && c->ip.family)
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

static int out_of_time(const struct tls_check *c, const char *who, struct err *e)
{
	bool early = c->flags & MBEDTLS_X509_BADCERT_FUTURE;
	char limit[32], now[32];
	time_t t = time(NULL);
	struct tm tm;

	when(early ? &c->from : &c->to, limit);
	strftime(now, sizeof(now), "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&t, &tm));
	return err_kind(e, ERR_UNAVAILABLE, -EKEYREJECTED,
			"%s certificate %s %s, and this machine's clock says %s", who,
			early ? "is not valid before" : "has expired on", limit, now);
}

int tls_check_err(const struct tls_check *c, enum tls_side side, struct err *e)
{
	const char *who = side == TLS_CLIENT ? "the server's" : "the client's";

	if (c->flags & (MBEDTLS_X509_BADCERT_EXPIRED | MBEDTLS_X509_BADCERT_FUTURE))
		return out_of_time(c, who, e);
	if (c->flags & MBEDTLS_X509_BADCERT_NOT_TRUSTED)
		return err_kind(e, ERR_UNAVAILABLE, -EKEYREJECTED,
				"%s certificate is not signed by the CA that was given", who);
	if (c->flags & MBEDTLS_X509_BADCERT_CN_MISMATCH)
		return err_kind(e, ERR_UNAVAILABLE, -EKEYREJECTED,
				"%s certificate is for %s, not for '%s'", who,
				c->names.len ? c->names.p : "no name at all", c->name);
	if (c->flags & MBEDTLS_X509_BADCERT_MISSING)
		return err_kind(e, ERR_UNAVAILABLE, -EKEYREJECTED, "%s certificate is missing",
				who);
	if (c->flags & (MBEDTLS_X509_BADCERT_BAD_KEY | MBEDTLS_X509_BADCERT_BAD_MD |
			MBEDTLS_X509_BADCERT_BAD_PK))
		return err_kind(e, ERR_UNAVAILABLE, -EKEYREJECTED,
				"%s certificate has a key or a signature that is too weak", who);
	if (c->flags & (MBEDTLS_X509_BADCERT_EXT_KEY_USAGE | MBEDTLS_X509_BADCERT_KEY_USAGE))
		return err_kind(e, ERR_UNAVAILABLE, -EKEYREJECTED,
				"%s certificate is not made for a %s (its key usage)", who,
				side == TLS_CLIENT ? "server" : "client");
	return err_kind(e, ERR_UNAVAILABLE, -EKEYREJECTED, "%s certificate is not valid (0x%x)",
			who, c->flags);
}

/* RFC 8446, 6: the ones that tell a person something. */
static const struct {
	int alert;
	const char *words;
} alerts[] = {
	{40, "it found no common parameters (handshake_failure)"},
	{42, "it refuses our certificate (bad_certificate)"},
	{43, "it refuses our certificate (unsupported_certificate)"},
	{44, "our certificate is revoked (certificate_revoked)"},
	{45, "our certificate has expired (certificate_expired)"},
	{46, "it refuses our certificate (certificate_unknown)"},
	{48, "it does not know the CA of our certificate (unknown_ca)"},
	{49, "access denied (access_denied)"},
	{70, "it speaks another version of TLS (protocol_version)"},
	{112, "it does not know that server name (unrecognized_name)"},
	{116, "it wants a client certificate (certificate_required)"},
	{120, "it does not speak the protocol that was asked for (no_application_protocol)"},
};

static const char *alert_words(int alert, char *room, size_t size)
{
	for (size_t i = 0; i < ARRAY_LEN(alerts); i++)
		if (alerts[i].alert == alert)
			return alerts[i].words;
	snprintf(room, size, "alert %d", alert);
	return room;
}

static bool is_about_certificates(int alert)
{
	return (alert >= 42 && alert <= 49) || alert == 116;
}

int tls_code_err(int code, int alert, enum tls_side side, const char *doing, struct err *e)
{
	const char *peer = side == TLS_CLIENT ? "the server" : "the client";
	char room[32];

	if (code == MBEDTLS_ERR_SSL_FATAL_ALERT_MESSAGE && alert >= 0)
		return err_kind(e, ERR_UNAVAILABLE,
				is_about_certificates(alert) ? -EKEYREJECTED : -EPROTO,
				"TLS %s: %s says: %s", doing, peer,
				alert_words(alert, room, sizeof(room)));
	if (code == MBEDTLS_ERR_SSL_CONN_EOF || code == MBEDTLS_ERR_NET_CONN_RESET)
		return err_kind(e, ERR_AGAIN, -ECONNRESET, "TLS %s: %s closed the connection",
				doing, peer);
	if (code == MBEDTLS_ERR_SSL_BAD_PROTOCOL_VERSION)
		return err_kind(e, ERR_UNAVAILABLE, -EPROTO,
				"TLS %s: %s speaks neither TLS 1.2 nor 1.3", doing, peer);
	if (code == MBEDTLS_ERR_SSL_INVALID_RECORD)
		return err_kind(e, ERR_UNAVAILABLE, -EPROTO, "TLS %s: %s does not speak TLS", doing,
				peer);
	return err_kind(e, ERR_UNAVAILABLE, -EPROTO, "TLS %s: mbedTLS -0x%04x", doing,
			(unsigned int)-code);
}
