/* SPDX-License-Identifier: Apache-2.0 */
/* Certificates and settings that connections share. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <psa/crypto.h>

#include "base/cleanup.h"
#include "base/random.h"
#include "wire/tls/tls_priv.h"

int tls_random(void *arg, unsigned char *p, size_t n)
{
	(void)arg;
	random_bytes(p, n);
	return 0;
}

static int bad(const char *what, int code, struct err *e)
{
	return err_kind(e, ERR_CONF, -EINVAL, "%s is not valid PEM (mbedTLS -0x%04x)", what,
			(unsigned int)-code);
}

/* mbedTLS takes PEM with its NUL counted. */
static char *with_nul(struct span pem)
{
	return span_dup(pem);
}

static void wipe(char *text)
{
	explicit_bzero(text, strlen(text));
}

/* Adds the certificates of `pem`; returns how many of them mbedTLS cannot read. */
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
				"the key is encrypted: give it without a passphrase");
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
	/* Bundles of distributions have certificates that mbedTLS does not read: other libraries skip those, too. */
	r = read_certs(&c->ca, m->ca, "the CA", e);
	if (r < 0)
		return r;
	mbedtls_ssl_conf_ca_chain(&c->ssl, &c->ca, NULL);
	mbedtls_ssl_conf_authmode(&c->ssl, MBEDTLS_SSL_VERIFY_REQUIRED);
	return 0;
}

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
		return err_set(e, -EINVAL, "set TLS up: protocol '%s'", m->alpn);
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
