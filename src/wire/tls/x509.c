/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/tls/x509.h"

#include <errno.h>
#include <mbedtls/ecp.h>
#include <mbedtls/oid.h>
#include <mbedtls/sha256.h>
#include <psa/crypto.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/ip.h"
#include "base/random.h"
#include "wire/tls/internal.h"

/* Certificates: inspection and creation. */

/* Reads all certificates of a PEM text; `what` names the text in errors. */
static int x509_read(mbedtls_x509_crt *into, struct span pem, const char *what, struct err *e)
{
	auto_free char *text = span_dup(pem);
	int r = mbedtls_x509_crt_parse(into, (unsigned char *)text, strlen(text) + 1);

	if (r == 0)
		return 0;
	if (r > 0)
		return err_kind(e, ERR_CONF, -EINVAL, "%s: %d of its certificates cannot be read",
				what, r);
	return err_kind(e, ERR_CONF, -EINVAL,
			"%s is not valid PEM or not supported (mbedTLS -0x%04x)", what,
			(unsigned int)-r);
}

static int x509_read_key(mbedtls_pk_context *into, struct span pem, const char *what, struct err *e)
{
	auto_free char *text = span_dup(pem);
	int r = mbedtls_pk_parse_key(into, (unsigned char *)text, strlen(text) + 1, NULL, 0,
				     tls_random, NULL);

	explicit_bzero(text, strlen(text));
	return r ? err_kind(e, ERR_CONF, -EINVAL,
			    "%s is not a key in PEM or not supported "
			    "(mbedTLS -0x%04x)",
			    what, (unsigned int)-r)
		 : 0;
}

int64_t x509_seconds(const mbedtls_x509_time *t)
{
	struct tm tm = {.tm_year = t->year - 1900,
			.tm_mon = t->mon - 1,
			.tm_mday = t->day,
			.tm_hour = t->hour,
			.tm_min = t->min,
			.tm_sec = t->sec};

	return timegm(&tm);
}

int x509_inspect(struct span pem, struct x509_facts *ret, struct err *e)
{
	mbedtls_x509_crt crt;
	int r;

	mbedtls_x509_crt_init(&crt);
	r = x509_read(&crt, pem, "the certificate", e);
	if (r == 0)
		*ret = (struct x509_facts){.from = x509_seconds(&crt.valid_from),
					   .to = x509_seconds(&crt.valid_to),
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

/* --- creation of certificates --- */

enum { PEM_MAX = 8 << 10, SERIAL = 16, KEY_ID = 20, NAMES_MAX = 32 };

struct making {
	const struct x509_request *w;
	bool is_ca; /* signs itself */
	mbedtls_x509_crt ca;
	mbedtls_pk_context ca_key, key;
	mbedtls_x509write_cert out;
	mbedtls_x509_san_list names[NAMES_MAX];
	struct ipaddr ips[NAMES_MAX];
	char subject[128], issuer[MBEDTLS_X509_MAX_DN_NAME_SIZE];
	char text[PEM_MAX];
};

static int failed(int r, const char *what, struct err *e)
{
	return err_set(e, -EINVAL, "%s: mbedTLS -0x%04x", what, (unsigned int)-r);
}

static int make_key(struct making *m, struct err *e)
{
	int r = mbedtls_pk_setup(&m->key, mbedtls_pk_info_from_type(MBEDTLS_PK_ECKEY));

	if (r == 0)
		r = mbedtls_ecp_gen_key(MBEDTLS_ECP_DP_SECP256R1, mbedtls_pk_ec(m->key), tls_random,
					NULL);
	return r ? failed(r, "create a key", e) : 0;
}

static int read_ca(struct making *m, struct err *e)
{
	int r;

	if (m->is_ca)
		return 0;
	r = x509_read(&m->ca, m->w->ca, "the CA", e);
	if (r == 0)
		r = x509_read_key(&m->ca_key, m->w->ca_key, "the CA's key", e);
	if (r == 0 && mbedtls_pk_check_pair(&m->ca.pk, &m->ca_key, tls_random, NULL))
		r = err_kind(e, ERR_CONF, -EINVAL, "the CA's key does not belong to the CA");
	return r;
}

static int set_names(struct making *m, struct err *e)
{
	bool plain = *m->w->name;

	for (const char *p = m->w->name; *p; p++)
		plain &= (*p >= '0' && *p <= '9') || ((*p | 32) >= 'a' && (*p | 32) <= 'z') ||
			 strchr(".-_", *p);
	if (!plain || strlen(m->w->name) > 64)
		return err_kind(
			e, ERR_CONF, -EINVAL,
			"'%.80s' is not a common name: expected 1 to 64 letters, digits, '.', '-' or '_'",
			m->w->name);
	if (m->w->n_names > NAMES_MAX)
		return err_kind(e, ERR_CONF, -EINVAL,
				"the certificate has %zu names, the limit is %d", m->w->n_names,
				NAMES_MAX);
	snprintf(m->subject, sizeof(m->subject), "CN=%s", m->w->name);
	if (m->is_ca)
		snprintf(m->issuer, sizeof(m->issuer), "%s", m->subject);
	else if (mbedtls_x509_dn_gets(m->issuer, sizeof(m->issuer), &m->ca.subject) < 0)
		return err_kind(e, ERR_CONF, -EINVAL, "the CA's name cannot be read");
	return 0;
}

static int set_validity(struct making *m)
{
	char at[2][16];
	const int64_t when[2] = {m->w->from, m->w->to};

	for (int i = 0; i < 2; i++) {
		time_t t = (time_t)when[i];
		struct tm tm;

		strftime(at[i], sizeof(at[i]), "%Y%m%d%H%M%S", gmtime_r(&t, &tm));
	}
	return mbedtls_x509write_crt_set_validity(&m->out, at[0], at[1]);
}

static int set_alternatives(struct making *m)
{
	if (m->w->n_names == 0)
		return 0;
	for (size_t i = 0; i < m->w->n_names; i++) {
		mbedtls_x509_san_list *s = &m->names[i];
		struct ipaddr *a = &m->ips[i];
		const char *name = m->w->names[i];

		s->node.type = MBEDTLS_X509_SAN_DNS_NAME;
		s->node.san.unstructured_name.p = (unsigned char *)name;
		s->node.san.unstructured_name.len = strlen(name);
		if (ip_parse(span_of(name), a) == 0) {
			s->node.type = MBEDTLS_X509_SAN_IP_ADDRESS;
			s->node.san.unstructured_name.p = a->b;
			s->node.san.unstructured_name.len = a->family == 4 ? 4 : 16;
		}
		s->next = i + 1 < m->w->n_names ? s + 1 : NULL;
	}
	return mbedtls_x509write_crt_set_subject_alternative_name(&m->out, m->names);
}

/* Key identifier: the first 20 bytes of the SHA-256 of the SubjectPublicKeyInfo (RFC 7093, 2,
 * method 4, shortened), since SHA-1 is not linked. */
static int set_key_id(struct making *m)
{
	unsigned char der[256], hash[32], id[2 + KEY_ID] = {0x04, KEY_ID};
	int n = mbedtls_pk_write_pubkey_der(&m->key, der, sizeof(der));

	if (n < 0)
		return n;
	mbedtls_sha256(der + sizeof(der) - n, (size_t)n, hash, 0);
	memcpy(id + 2, hash, KEY_ID);
	return mbedtls_x509write_crt_set_extension(
		&m->out, MBEDTLS_OID_SUBJECT_KEY_IDENTIFIER,
		MBEDTLS_OID_SIZE(MBEDTLS_OID_SUBJECT_KEY_IDENTIFIER), 0, id, sizeof(id));
}

static int set_issuer_id(struct making *m)
{
	const mbedtls_x509_buf *ca = &m->ca.subject_key_id;
	unsigned char id[4 + KEY_ID] = {0x30, 2 + KEY_ID, 0x80, KEY_ID};

	if (m->is_ca || ca->len != KEY_ID)
		return 0;
	memcpy(id + 4, ca->p, KEY_ID);
	return mbedtls_x509write_crt_set_extension(
		&m->out, MBEDTLS_OID_AUTHORITY_KEY_IDENTIFIER,
		MBEDTLS_OID_SIZE(MBEDTLS_OID_AUTHORITY_KEY_IDENTIFIER), 0, id, sizeof(id));
}

static int set_usage(struct making *m)
{
	mbedtls_asn1_sequence server = {.buf = {MBEDTLS_ASN1_OID,
						MBEDTLS_OID_SIZE(MBEDTLS_OID_SERVER_AUTH),
						(unsigned char *)MBEDTLS_OID_SERVER_AUTH}};
	mbedtls_asn1_sequence client = {.buf = {MBEDTLS_ASN1_OID,
						MBEDTLS_OID_SIZE(MBEDTLS_OID_CLIENT_AUTH),
						(unsigned char *)MBEDTLS_OID_CLIENT_AUTH}};
	unsigned int usage = m->is_ca ? MBEDTLS_X509_KU_KEY_CERT_SIGN | MBEDTLS_X509_KU_CRL_SIGN
				      : MBEDTLS_X509_KU_DIGITAL_SIGNATURE;
	int r = mbedtls_x509write_crt_set_basic_constraints(&m->out, m->is_ca, -1);

	if (r == 0)
		r = mbedtls_x509write_crt_set_key_usage(&m->out, usage);
	if (r == 0 && !m->is_ca)
		r = mbedtls_x509write_crt_set_ext_key_usage(&m->out,
							    m->w->client ? &client : &server);
	return r;
}

static int describe(struct making *m)
{
	unsigned char serial[SERIAL];
	int r;

	random_bytes(serial, sizeof(serial));
	serial[0] = (serial[0] & 0x7f) | 0x40;
	mbedtls_x509write_crt_set_version(&m->out, MBEDTLS_X509_CRT_VERSION_3);
	mbedtls_x509write_crt_set_md_alg(&m->out, MBEDTLS_MD_SHA256);
	mbedtls_x509write_crt_set_subject_key(&m->out, &m->key);
	mbedtls_x509write_crt_set_issuer_key(&m->out, m->is_ca ? &m->key : &m->ca_key);
	r = mbedtls_x509write_crt_set_serial_raw(&m->out, serial, sizeof(serial));
	if (r == 0)
		r = mbedtls_x509write_crt_set_subject_name(&m->out, m->subject);
	if (r == 0)
		r = mbedtls_x509write_crt_set_issuer_name(&m->out, m->issuer);
	if (r == 0)
		r = set_validity(m);
	if (r == 0)
		r = set_usage(m);
	if (r == 0)
		r = set_key_id(m);
	if (r == 0)
		r = set_issuer_id(m);
	return r ? r : set_alternatives(m);
}

static int write_out(struct making *m, char **cert, char **key, struct err *e)
{
	auto_free char *c = NULL;
	int r = mbedtls_x509write_crt_pem(&m->out, (unsigned char *)m->text, sizeof(m->text),
					  tls_random, NULL);

	if (r)
		return failed(r, "sign a certificate", e);
	c = xstrdup(m->text);
	r = mbedtls_pk_write_key_pem(&m->key, (unsigned char *)m->text, sizeof(m->text));
	if (r)
		return failed(r, "write a key", e);
	*cert = take(c);
	*key = xstrdup(m->text);
	return 0;
}

static int make(struct making *m, char **cert, char **key, struct err *e)
{
	int r = psa_crypto_init();

	if (r)
		return err_set(e, -ENOMEM, "initialize the PSA library: mbedTLS %d", r);
	r = read_ca(m, e);
	if (r == 0)
		r = set_names(m, e);
	if (r == 0)
		r = make_key(m, e);
	if (r < 0)
		return r;
	r = describe(m);
	return r ? failed(r, "set the fields of a certificate", e) : write_out(m, cert, key, e);
}

int x509_make(const struct x509_request *w, char **cert, char **key, struct err *e)
{
	struct making *m = xcalloc(1, sizeof(*m));
	int r;

	m->w = w;
	m->is_ca = !w->ca.n && !w->ca_key.n;
	mbedtls_x509_crt_init(&m->ca);
	mbedtls_pk_init(&m->ca_key);
	mbedtls_pk_init(&m->key);
	mbedtls_x509write_crt_init(&m->out);
	r = make(m, cert, key, e);
	mbedtls_x509write_crt_free(&m->out);
	mbedtls_x509_crt_free(&m->ca);
	mbedtls_pk_free(&m->ca_key);
	mbedtls_pk_free(&m->key);
	explicit_bzero(m, sizeof(*m));
	free(m);
	return r;
}
