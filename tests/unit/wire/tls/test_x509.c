/* SPDX-License-Identifier: Apache-2.0 */
/* Creation and verification of certificates. */
#include "testlib.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "tls_certs.h"
#include "wire/tls/tls.h"
#include "wire/tls/x509.h"

enum { DAY = 24 * 3600 };

static const char *const names[] = {"unirail-controller.unirail.svc", "localhost", "127.0.0.1",
				    "fd00::1"};

struct made {
	char *cert, *key;
};

static struct made make(const struct made *ca, const char *name, int64_t from, int64_t to)
{
	int64_t now = time(NULL);
	struct x509_request w = {.name = name, .from = now + from, .to = now + to};
	struct made m = {0};
	struct err e = ERR_INIT;

	if (ca) {
		w.ca = span_of(ca->cert);
		w.ca_key = span_of(ca->key);
		w.names = names;
		w.n_names = ARRAY_LEN(names);
	}
	ASSERT_OK(x509_make(&w, &m.cert, &m.key, &e), &e);
	return m;
}

static void drop(struct made *m)
{
	free(m->cert);
	free(m->key);
}

static void trusts(const char *ca, const struct made *m, const char *name, const char *reason)
{
	struct err e = ERR_INIT;
	int r = x509_trusts(span_of(ca), span_of(m->cert), name, &e);

	if ((r == 0) != !reason || (reason && !strstr(e.text, reason)))
		fail_msg("'%s': %d %s", name, r, e.text);
}

static void test_created_certificate_has_the_requested_fields(void **state)
{
	struct made ca = make(NULL, "unirail-ca", -60, 10 * DAY);
	struct made leaf = make(&ca, "leaf", -60, DAY), again = make(&ca, "leaf", -60, DAY);
	struct x509_facts f;

	(void)state;
	ASSERT_EQ(x509_inspect(span_of(ca.cert), &f, NULL), 0);
	assert_true(f.is_ca);
	assert_in_range(f.to - time(NULL), 10 * DAY - 5, 10 * DAY);
	assert_in_range(time(NULL) - f.from, 60, 65);
	ASSERT_EQ(x509_inspect(span_of(leaf.cert), &f, NULL), 0);
	assert_false(f.is_ca);
	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		trusts(ca.cert, &leaf, names[i], NULL);
	trusts(ca.cert, &leaf, NULL, NULL);
	trusts(ca.cert, &leaf, "other.svc", "not for 'other.svc'");
	trusts(ca.cert, &leaf, "127.0.0.2", "not for '127.0.0.2'");
	trusts(TLS_TEST_CA, &leaf, "localhost", "is not signed by the configured CA");
	ASSERT_EQ(x509_fits(span_of(leaf.cert), span_of(leaf.key), NULL), 0);
	ASSERT_EQ(x509_fits(span_of(leaf.cert), span_of(again.key), NULL), -EINVAL);
	assert_string_not_equal(leaf.cert, again.cert);
	drop(&ca);
	drop(&leaf);
	drop(&again);
}

static void test_bundle_trusts_certificates_of_all_its_cas(void **state)
{
	struct made old = make(NULL, "ca-1", -60, DAY), new = make(NULL, "ca-2", -60, DAY);
	struct made a = make(&old, "leaf", -60, DAY), b = make(&new, "leaf", -60, DAY);
	auto_free char *both = xasprintf("# old\n%s# new\n%s", old.cert, new.cert);
	struct span rest = span_of(both), cert;

	(void)state;
	trusts(both, &a, "localhost", NULL);
	trusts(both, &b, "localhost", NULL);
	trusts(old.cert, &b, "localhost", "is not signed by the configured CA");
	assert_true(x509_next(&rest, &cert));
	assert_memory_equal(cert.p, old.cert, cert.n);
	ASSERT_EQ(strlen(old.cert), cert.n + 1);
	assert_true(x509_next(&rest, &cert));
	assert_memory_equal(cert.p, new.cert, cert.n);
	assert_false(x509_next(&rest, &cert));
	drop(&old);
	drop(&new);
	drop(&a);
	drop(&b);
}

static void test_expired_or_future_certificates_are_refused(void **state)
{
	struct made ca = make(NULL, "ca", -10 * DAY, DAY);
	struct made old = make(&ca, "leaf", -5 * DAY, -DAY),
		    early = make(&ca, "leaf", DAY, 2 * DAY);

	(void)state;
	trusts(ca.cert, &old, "localhost", "has expired on");
	trusts(ca.cert, &early, "localhost", "is not valid before");
	drop(&ca);
	drop(&old);
	drop(&early);
}

/* A TLS server's configuration accepts a certificate that x509_make() has signed, with its key. */
static void test_issued_certificate_is_accepted_for_tls(void **state)
{
	struct made ca = make(NULL, "ca", -60, DAY), leaf = make(&ca, "leaf", -60, DAY);
	const struct tls_material m = {.cert = span_of(leaf.cert), .key = span_of(leaf.key)};
	struct tls_conf *c = NULL;

	(void)state;
	ASSERT_EQ(tls_conf_new(&c, TLS_SERVER, &m, NULL), 0);
	tls_conf_put(c);
	drop(&ca);
	drop(&leaf);
}

static void refused(struct x509_request w, const char *reason)
{
	char *cert = NULL, *key = NULL;
	struct err e = ERR_INIT;

	ASSERT_EQ(x509_make(&w, &cert, &key, &e), -EINVAL);
	if (!strstr(e.text, reason))
		fail_msg("%s", e.text);
	assert_null(cert);
	assert_null(key);
}

static void test_invalid_certificate_requests_are_refused(void **state)
{
	struct made ca = make(NULL, "ca", -60, DAY), other = make(NULL, "ca", -60, DAY);
	const char *many[33] = {"a"};
	struct x509_facts f;

	(void)state;
	refused((struct x509_request){.name = "a,O=b"}, "is not a common name");
	refused((struct x509_request){.name = ""}, "is not a common name");
	refused((struct x509_request){.name = "a", .ca = span_of(ca.cert)},
		"the CA's key is not a key");
	refused((struct x509_request){.name = "a", .ca_key = span_of(ca.key)},
		"the CA is not valid PEM");
	refused((struct x509_request){.name = "a",
				      .ca = span_of(ca.cert),
				      .ca_key = span_of(other.key)},
		"does not belong to the CA");
	refused((struct x509_request){.name = "a", .names = many, .n_names = ARRAY_LEN(many)},
		"has 33 names, the limit is 32");
	ASSERT_EQ(x509_inspect(span_of("x"), &f, NULL), -EINVAL);
	ASSERT_EQ(x509_inspect(span_of(""), &f, NULL), -EINVAL);
	ASSERT_EQ(x509_trusts(span_of("x"), span_of(ca.cert), NULL, NULL), -EINVAL);
	drop(&ca);
	drop(&other);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_created_certificate_has_the_requested_fields),
		cmocka_unit_test(test_bundle_trusts_certificates_of_all_its_cas),
		cmocka_unit_test(test_expired_or_future_certificates_are_refused),
		cmocka_unit_test(test_issued_certificate_is_accepted_for_tls),
		cmocka_unit_test(test_invalid_certificate_requests_are_refused),
	};

	return T_RUN(tests, NULL, NULL);
}
