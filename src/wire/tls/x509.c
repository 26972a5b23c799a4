/* SPDX-License-Identifier: Apache-2.0 */
/* Certificates are looked at. */
#include "wire/tls/x509.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/cleanup.h"
#include "wire/tls/tls_priv.h"
#include "wire/tls/x509_priv.h"

int x509_read(mbedtls_x509_crt *into, struct span pem, const char *what, struct err *e)
{
	auto_free char *text = span_dup(pem);
	int r = mbedtls_x509_crt_parse(into, (unsigned char *)text, strlen(text) + 1);

	if (r == 0)
		return 0;
	if (r > 0)
		return err_kind(e, ERR_CONF, -EINVAL, "%s: %d of its certificates cannot be read",
				what, r);
	return err_kind(e, ERR_CONF, -EINVAL, "%s is not valid PEM (mbedTLS -0x%04x)", what,
			(unsigned int)-r);
}

int x509_read_key(mbedtls_pk_context *into, struct span pem, const char *what, struct err *e)
{
	auto_free char *text = span_dup(pem);
	int r = mbedtls_pk_parse_key(into, (unsigned char *)text, strlen(text) + 1, NULL, 0,
				     tls_random, NULL);

	explicit_bzero(text, strlen(text));
	return r ? err_kind(e, ERR_CONF, -EINVAL, "%s is no key in PEM (mbedTLS -0x%04x)", what,
			    (unsigned int)-r)
		 : 0;
}

static int64_t seconds(const mbedtls_x509_time *t)
{
	struct tm tm = {.tm_year = t->year - 1900,
			.tm_mon = t->mon - 1,
			.tm_mday = t->day,
			.tm_hour = t->hour,
			.tm_min = t->min,
			.tm_sec = t->sec};

	return timegm(&tm);
}

int x509_look(struct span pem, struct x509_facts *ret, struct err *e)
{
	mbedtls_x509_crt crt;
	int r;

	mbedtls_x509_crt_init(&crt);
	r = x509_read(&crt, pem, "the certificate", e);
	if (r == 0)
		*ret = (struct x509_facts){.from = seconds(&crt.valid_from),
					   .to = seconds(&crt.valid_to),
					   .is_ca = crt.MBEDTLS_PRIVATE(ca_istrue)};
	mbedtls_x509_crt_free(&crt);
	return r;
}

static int verify(mbedtls_x509_crt *ca, mbedtls_x509_crt *chain, const char *name, struct err *e)
{
	struct tls_check check;
	uint32_t flags = 0;
	int r;

	tls_check_init(&check, name);
	r = mbedtls_x509_crt_verify(chain, ca, NULL, check.ip.family ? NULL : name, &flags,
				    tls_check_cert, &check);
	check.flags |= flags;
	if (r)
		r = tls_check_err(&check, TLS_CLIENT, e);
	tls_check_done(&check);
	return r;
}

int x509_trusts(struct span ca, struct span chain, const char *name, struct err *e)
{
	mbedtls_x509_crt c, s;
	int r;

	mbedtls_x509_crt_init(&c);
	mbedtls_x509_crt_init(&s);
	r = x509_read(&c, ca, "the CA", e);
	if (r == 0)
		r = x509_read(&s, chain, "the certificate", e);
	if (r == 0)
		r = verify(&c, &s, name, e);
	mbedtls_x509_crt_free(&c);
	mbedtls_x509_crt_free(&s);
	return r;
}

int x509_fits(struct span cert, struct span key, struct err *e)
{
	mbedtls_x509_crt crt;
	mbedtls_pk_context pk;
	int r;

	mbedtls_x509_crt_init(&crt);
	mbedtls_pk_init(&pk);
	r = x509_read(&crt, cert, "the certificate", e);
	if (r == 0)
		r = x509_read_key(&pk, key, "the key", e);
	if (r == 0 && mbedtls_pk_check_pair(&crt.pk, &pk, tls_random, NULL))
		r = err_kind(e, ERR_CONF, -EINVAL, "the key does not belong to the certificate");
	mbedtls_x509_crt_free(&crt);
	mbedtls_pk_free(&pk);
	return r;
}

bool x509_next(struct span *rest, struct span *cert)
{
	static const char begin[] = "-----BEGIN CERTIFICATE-----",
			  end[] = "-----END CERTIFICATE-----";
	const char *a = rest->n ? memmem(rest->p, rest->n, begin, sizeof(begin) - 1) : NULL, *b;

	if (!a)
		return false;
	b = memmem(a, (size_t)(rest->p + rest->n - a), end, sizeof(end) - 1);
	if (!b)
		return false;
	b += sizeof(end) - 1;
	*cert = (struct span){a, (size_t)(b - a)};
	*rest = (struct span){b, (size_t)(rest->p + rest->n - b)};
	return true;
}
