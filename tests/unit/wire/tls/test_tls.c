/* SPDX-License-Identifier: Apache-2.0 */
/* Both ends of TLS in one process, on a socket pair. */
#include "testlib.h"

#include <stdlib.h>
#include <string.h>

#include <errno.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "tls_certs.h"
#include "wire/tls/tls.h"
#include "wire/tls/x509.h"

struct pair {
	int fds[2];
	struct tls *client, *server;
};

static struct tls_material client_material(const char *alpn)
{
	return (struct tls_material){.ca = span_of(TLS_TEST_CA), .alpn = alpn};
}

static struct tls_material server_material(const char *alpn)
{
	return (struct tls_material){.cert = span_of(TLS_TEST_SERVER),
				     .key = span_of(TLS_TEST_SERVER_KEY),
				     .alpn = alpn};
}

static struct tls_conf *conf(enum tls_side side, const struct tls_material *m)
{
	struct tls_conf *c = NULL;
	struct err e = ERR_INIT;

	ASSERT_OK(tls_conf_new(&c, side, m, &e), &e);
	return c;
}

static struct pair connect_pair(const struct tls_material *client,
				const struct tls_material *server, const char *name)
{
	struct tls_conf *a = conf(TLS_CLIENT, client), *b = conf(TLS_SERVER, server);
	struct pair p;

	ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, p.fds), 0);
	p.client = tls_new(a, p.fds[0], name);
	p.server = tls_new(b, p.fds[1], NULL);
	/* Releases this function's references at once: each connection has its own reference to
	 * its configuration. */
	tls_conf_put(a);
	tls_conf_put(b);
	return p;
}

static void pair_done(struct pair *p)
{
	tls_free(p->client);
	tls_free(p->server);
	close(p->fds[0]);
	close(p->fds[1]);
}

/* Runs both handshakes in turns, until both have completed or failed. */
static void shake(struct pair *p, int *client, int *server, struct err *ce, struct err *se)
{
	*client = *server = -EAGAIN;
	for (int i = 0; i < 50 && (*client == -EAGAIN || *server == -EAGAIN); i++) {
		if (*client == -EAGAIN)
			*client = tls_handshake(p->client, ce);
		if (*client < 0 && *client != -EAGAIN)
			shutdown(p->fds[0], SHUT_RDWR);
		if (*server == -EAGAIN)
			*server = tls_handshake(p->server, se);
		if (*server < 0 && *server != -EAGAIN)
			shutdown(p->fds[1], SHUT_RDWR);
	}
}

static void expect(const struct tls_material *c, const struct tls_material *s, const char *name,
		   int client, const char *client_says, int server, const char *server_says)
{
	struct pair p = connect_pair(c, s, name);
	struct err ce = ERR_INIT, se = ERR_INIT;
	int cr, sr;

	shake(&p, &cr, &sr, &ce, &se);
	ASSERT_STR_EQ(ce.text, client_says);
	ASSERT_EQ(cr, client);
	if (server_says) {
		ASSERT_STR_EQ(se.text, server_says);
		ASSERT_EQ(sr, server);
	} else {
		/* The client of mbedTLS sends its alert unencrypted, and the server of mbedTLS
		 * does not read such an alert: only the server's failure is checked, not its
		 * reason. */
		assert_true(sr < 0);
	}
	/* A failed connection stays failed. */
	if (cr < 0)
		assert_true(tls_read(p.client, &cr, 1, &ce) < 0);
	pair_done(&p);
}

static void test_server_certificate_must_match_the_name(void **state)
{
	const struct tls_material c = client_material(NULL), s = server_material(NULL);

	(void)state;
	expect(&c, &s, "localhost", 0, "", 0, "");
	expect(&c, &s, "127.0.0.1", 0, "", 0, "");
	expect(&c, &s, "::1", 0, "", 0, "");
	expect(&c, &s, "0:0:0:0:0:0:0:1", 0, "", 0, "");
	expect(&c, &s, "127.0.0.2", -EKEYREJECTED,
	       "the server's certificate is for localhost, 127.0.0.1, ::1, not for '127.0.0.2'", 0,
	       NULL);
	expect(&c, &s, "example.com", -EKEYREJECTED,
	       "the server's certificate is for localhost, 127.0.0.1, ::1, not for 'example.com'",
	       0, NULL);
}

static void test_certificate_of_another_ca_is_refused(void **state)
{
	struct tls_material c = client_material(NULL), s = server_material(NULL);

	(void)state;
	c.ca = span_of(TLS_TEST_OTHER_CA);
	expect(&c, &s, "localhost", -EKEYREJECTED,
	       "the server's certificate is not signed by the configured CA", 0, NULL);
	/* One of the two CAs matches, which is sufficient. */
	c.ca = span_of(TLS_TEST_OTHER_CA TLS_TEST_CA);
	expect(&c, &s, "localhost", 0, "", 0, "");
}

static void test_client_certificate_is_verified(void **state)
{
	struct tls_material c = client_material(NULL), s = server_material(NULL);

	(void)state;
	s.ca = span_of(TLS_TEST_CA);
	c.cert = span_of(TLS_TEST_CLIENT);
	c.key = span_of(TLS_TEST_CLIENT_KEY);
	expect(&c, &s, "localhost", 0, "", 0, "");
	c.cert = c.key = (struct span){0};
	expect(&c, &s, "localhost", 0, "", -EKEYREJECTED, "the client's certificate is missing");
	c.cert = span_of(TLS_TEST_CLIENT);
	c.key = span_of(TLS_TEST_CLIENT_KEY);
	s.ca = span_of(TLS_TEST_OTHER_CA);
	/*
	 * TLS 1.3: the client's handshake completes before the server has verified the client's
	 * certificate.
	 */
	expect(&c, &s, "localhost", 0, "", -EKEYREJECTED,
	       "the client's certificate is not signed by the configured CA");
	c.cert = span_of(TLS_TEST_SERVER);
	c.key = span_of(TLS_TEST_SERVER_KEY);
	s.ca = span_of(TLS_TEST_CA);
	expect(&c, &s, "localhost", 0, "", -EKEYREJECTED,
	       "the client's certificate may not be used by a client (key usage)");
}

/* Debian 12's CA bundle has certificates that mbedTLS cannot parse. */
static void test_unreadable_certificate_of_a_bundle_is_skipped(void **state)
{
	static const char bundle[] =
		"-----BEGIN CERTIFICATE-----\nMAAAMAAA\n-----END CERTIFICATE-----\n" TLS_TEST_CA;
	const struct tls_material s = server_material("h2");
	struct tls_material c = client_material("h2");

	(void)state;
	c.ca = span_of(bundle);
	expect(&c, &s, "localhost", 0, "", 0, "");
}

static void test_application_protocol_is_negotiated(void **state)
{
	const struct tls_material h2 = client_material("h2"), other = client_material("other");
	const struct tls_material s = server_material("h2"), none = server_material(NULL);

	(void)state;
	expect(&h2, &s, "localhost", 0, "", 0, "");
	expect(&other, &s, "localhost", -EPROTONOSUPPORT,
	       "TLS handshake: the server says: it does not speak the requested protocol "
	       "(no_application_protocol)",
	       0, NULL);
	expect(&h2, &none, "localhost", -EPROTONOSUPPORT, "the server does not speak 'h2'", 0, "");
}

static void refused(enum tls_side side, struct tls_material m, const char *text)
{
	struct tls_conf *c = NULL;
	struct err e = ERR_INIT;

	ASSERT_EQ(tls_conf_new(&c, side, &m, &e), -EINVAL);
	ASSERT_STR_EQ(e.text, text);
	ASSERT_EQ(e.kind, ERR_CONF);
	assert_null(c);
}

static void test_invalid_certificates_and_keys_are_refused(void **state)
{
	const struct span ca = span_of(TLS_TEST_CA), cert = span_of(TLS_TEST_CLIENT);
	const struct span key = span_of(TLS_TEST_CLIENT_KEY), other = span_of(TLS_TEST_SERVER_KEY);

	(void)state;
	refused(TLS_CLIENT, (struct tls_material){0}, "the CA is missing");
	refused(TLS_CLIENT, (struct tls_material){.ca = span_of("x")},
		"the CA is not valid PEM or not supported (mbedTLS -0x2180)");
	refused(TLS_CLIENT, (struct tls_material){.ca = ca, .cert = cert},
		"a certificate without a key");
	refused(TLS_CLIENT, (struct tls_material){.ca = ca, .key = key},
		"a key without a certificate");
	refused(TLS_CLIENT, (struct tls_material){.ca = ca, .cert = cert, .key = other},
		"the key does not belong to the certificate");
	refused(TLS_CLIENT, (struct tls_material){.ca = ca, .cert = cert, .key = cert},
		"the key is not valid PEM or not supported (mbedTLS -0x3d00)");
	refused(TLS_SERVER, (struct tls_material){.ca = ca}, "the certificate is missing");
}

/* More bytes than the socket's buffers and a TLS record can hold. */
static void test_many_bytes_of_the_client_arrive_at_the_server(void **state)
{
	enum { N = 300000 };
	const struct tls_material c = client_material(NULL), s = server_material(NULL);
	struct pair p = connect_pair(&c, &s, "localhost");
	auto_free char *out = xmalloc(N), *in = xmalloc(N);
	struct err e = ERR_INIT;
	size_t sent = 0, got = 0;
	int cr, sr;

	(void)state;
	shake(&p, &cr, &sr, &e, &e);
	ASSERT_STR_EQ(tls_version(p.client), "TLSv1.3");
	for (size_t i = 0; i < N; i++)
		out[i] = (char)(i * 7 + i / 256);
	while (got < N) {
		ssize_t n = sent < N ? tls_write(p.client, out + sent, N - sent, &e) : 0;

		assert_true(n >= 0 || n == -EAGAIN);
		sent += n > 0 ? (size_t)n : 0;
		n = tls_read(p.server, in + got, N - got, &e);
		assert_true(n > 0 || n == -EAGAIN);
		got += n > 0 ? (size_t)n : 0;
	}
	assert_memory_equal(in, out, N);
	/* tls_free() of the client sends close_notify, which the server reads as the end of the
	 * stream, not as an error. */
	tls_free(p.client);
	p.client = NULL;
	ASSERT_EQ(tls_read(p.server, in, N, &e), 0);
	pair_done(&p);
}

static void test_broken_connection_is_an_error(void **state)
{
	const struct tls_material c = client_material(NULL), s = server_material(NULL);
	struct pair p = connect_pair(&c, &s, "localhost");
	struct err e = ERR_INIT;
	int cr, sr;
	char b;

	(void)state;
	shake(&p, &cr, &sr, &e, &e);
	shutdown(p.fds[1], SHUT_RDWR);
	ASSERT_EQ(tls_read(p.client, &b, 1, &e), -ECONNRESET);
	ASSERT_STR_EQ(e.text, "TLS read: the server closed the connection");
	pair_done(&p);
}

/* --- sessions --- */

struct sides {
	struct tls_conf *client, *server;
};

static struct sides sides_new(const struct tls_material *client, const struct tls_material *server)
{
	return (struct sides){conf(TLS_CLIENT, client), conf(TLS_SERVER, server)};
}

static void sides_done(struct sides *s)
{
	tls_conf_put(s->client);
	tls_conf_put(s->server);
}

enum outcome { FULL, RESUMED, FAILED };

/* Makes one connection and sends one byte in each direction, so that the client has received its
 * ticket. */
static enum outcome connect_once(const struct sides *s, const char *name, struct err *reason)
{
	enum outcome ret = FAILED;
	struct err e = ERR_INIT, other = ERR_INIT;
	struct pair p;
	int cr, sr;
	char b;

	ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, p.fds), 0);
	p.client = tls_new(s->client, p.fds[0], name);
	p.server = tls_new(s->server, p.fds[1], NULL);
	shake(&p, &cr, &sr, &e, &other);
	if (cr == 0 && sr == 0) {
		ASSERT_EQ(tls_write(p.client, "a", 1, &e), 1);
		ASSERT_EQ(tls_read(p.server, &b, 1, &e), 1);
		ASSERT_EQ(tls_write(p.server, "b", 1, &e), 1);
		ASSERT_EQ(tls_read(p.client, &b, 1, &e), 1);
		ASSERT_EQ(b, 'b');
		ret = tls_resumed(p.client) ? RESUMED : FULL;
	} else if (reason) {
		*reason = cr ? e : other;
	}
	pair_done(&p);
	return ret;
}

static void test_session_is_resumed(void **state)
{
	const struct tls_material c = client_material("h2"), s = server_material("h2");
	struct sides both = sides_new(&c, &s);

	(void)state;
	ASSERT_EQ(connect_once(&both, "localhost", NULL), FULL);
	for (int i = 0; i < 5; i++)
		ASSERT_EQ(connect_once(&both, "localhost", NULL), RESUMED);
	/* The certificate of the saved session was verified only for "localhost". */
	ASSERT_EQ(connect_once(&both, "127.0.0.1", NULL), FULL);
	ASSERT_EQ(connect_once(&both, "127.0.0.1", NULL), RESUMED);
	ASSERT_EQ(connect_once(&both, "example.com", NULL), FAILED);
	sides_done(&both);
}

/* Other certificates and another CA need a new tls_conf: that of the server has new ticket keys,
 * that of the client has no saved session. */
static void test_session_is_not_resumed_after_certificates_change(void **state)
{
	struct tls_material c = client_material(NULL), s = server_material(NULL);
	struct sides both = sides_new(&c, &s);
	struct tls_conf *rotated = conf(TLS_SERVER, &s);
	struct err e = ERR_INIT;

	(void)state;
	ASSERT_EQ(connect_once(&both, "localhost", NULL), FULL);
	tls_conf_put(both.server);
	both.server = rotated;
	ASSERT_EQ(connect_once(&both, "localhost", NULL), FULL);
	ASSERT_EQ(connect_once(&both, "localhost", NULL), RESUMED);
	c.ca = span_of(TLS_TEST_OTHER_CA);
	tls_conf_put(both.client);
	both.client = conf(TLS_CLIENT, &c);
	ASSERT_EQ(connect_once(&both, "localhost", &e), FAILED);
	ASSERT_STR_EQ(e.text, "the server's certificate is not signed by the configured CA");
	sides_done(&both);
}

static void test_session_of_a_verified_client_is_resumed(void **state)
{
	struct tls_material c = client_material(NULL), s = server_material(NULL);
	struct sides open = sides_new(&c, &s), both;
	struct err e = ERR_INIT;

	(void)state;
	s.ca = span_of(TLS_TEST_CA);
	/*
	 * The ticket of a server that does not verify clients is not valid on a server that does.
	 */
	both = (struct sides){open.client, conf(TLS_SERVER, &s)};
	ASSERT_EQ(connect_once(&open, "localhost", NULL), FULL);
	ASSERT_EQ(connect_once(&open, "localhost", NULL), RESUMED);
	ASSERT_EQ(connect_once(&both, "localhost", &e), FAILED);
	ASSERT_STR_EQ(e.text, "the client's certificate is missing");
	tls_conf_put(both.client);
	c.cert = span_of(TLS_TEST_CLIENT);
	c.key = span_of(TLS_TEST_CLIENT_KEY);
	both.client = conf(TLS_CLIENT, &c);
	/* From a server that verifies clients, a resumed connection gets no new ticket: the next
	 * connection does a full handshake, which verifies the client's certificate again. */
	for (int i = 0; i < 2; i++) {
		ASSERT_EQ(connect_once(&both, "localhost", NULL), FULL);
		ASSERT_EQ(connect_once(&both, "localhost", NULL), RESUMED);
	}
	tls_conf_put(open.server);
	sides_done(&both);
}

struct chain {
	char *ca, *cert, *key;
};

/* client true: makes a client certificate; false: a server certificate */
static struct chain chain_of(int64_t end, bool client)
{
	static const char *const names[] = {"localhost"};
	int64_t now = time(NULL);
	struct chain v = {0};
	auto_free char *ca_key = NULL;
	struct err e = ERR_INIT;

	ASSERT_EQ(
		x509_make(&(struct x509_request){.name = "ca", .from = now - 60, .to = now + 86400},
			  &v.ca, &ca_key, &e),
		0);
	ASSERT_EQ(x509_make(&(struct x509_request){.name = "leaf",
						   .names = names,
						   .n_names = 1,
						   .from = now - 60,
						   .to = end,
						   .client = client,
						   .ca = span_of(v.ca),
						   .ca_key = span_of(ca_key)},
			    &v.cert, &v.key, &e),
		  0);
	return v;
}

static struct chain chain_until(int64_t end)
{
	return chain_of(end, false);
}

static void chain_done(struct chain *v)
{
	free(v->ca);
	free(v->cert);
	free(v->key);
}

/* The session is resumed until the certificate expires; afterwards the connection fails. */
static void test_session_is_not_resumed_after_the_server_certificate_expires(void **state)
{
	int64_t end = time(NULL) + 3;
	struct chain v = chain_until(end);
	const struct tls_material c = {.ca = span_of(v.ca)};
	const struct tls_material s = {.cert = span_of(v.cert), .key = span_of(v.key)};
	struct sides both = sides_new(&c, &s);
	enum outcome now = connect_once(&both, "localhost", NULL);
	struct err e = ERR_INIT;

	(void)state;
	ASSERT_EQ(now, FULL);
	ASSERT_EQ(connect_once(&both, "localhost", NULL), RESUMED);
	do {
		int64_t before = time(NULL);

		now = connect_once(&both, "localhost", &e);
		/* In its last second the certificate is still valid, but only a full handshake is
		 * done. */
		assert_true(now != RESUMED || before < end);
	} while (now != FAILED && time(NULL) < end + 20);
	ASSERT_EQ(now, FAILED);
	assert_non_null(strstr(e.text, "the server's certificate has expired on"));
	sides_done(&both);
	chain_done(&v);
}

/* A ticket is valid for an hour. It must not outlast the client's certificate. */
static void test_client_whose_certificate_expires_within_an_hour_gets_no_ticket(void **state)
{
	static const struct {
		int64_t seconds;
		enum outcome then;
	} cases[] = {{30 * 60, FULL}, {59 * 60, FULL}, {61 * 60, RESUMED}, {86400, RESUMED}};

	(void)state;
	for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
		struct chain v = chain_of(time(NULL) + cases[i].seconds, true);
		struct tls_material c = client_material(NULL), s = server_material(NULL);
		struct sides both;

		c.cert = span_of(v.cert);
		c.key = span_of(v.key);
		s.ca = span_of(v.ca);
		both = sides_new(&c, &s);
		ASSERT_EQ_MSG(connect_once(&both, "localhost", NULL), FULL, "cases[%zu]", i);
		/* If the server must not issue a ticket, it sends one invalid byte instead,
		 * which disturbs neither this connection nor the next one. */
		ASSERT_EQ_MSG(connect_once(&both, "localhost", NULL), cases[i].then, "cases[%zu]",
			      i);
		ASSERT_EQ_MSG(connect_once(&both, "localhost", NULL), FULL, "cases[%zu]", i);
		sides_done(&both);
		chain_done(&v);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_server_certificate_must_match_the_name),
		cmocka_unit_test(test_certificate_of_another_ca_is_refused),
		cmocka_unit_test(test_client_certificate_is_verified),
		cmocka_unit_test(test_unreadable_certificate_of_a_bundle_is_skipped),
		cmocka_unit_test(test_application_protocol_is_negotiated),
		cmocka_unit_test(test_invalid_certificates_and_keys_are_refused),
		cmocka_unit_test(test_many_bytes_of_the_client_arrive_at_the_server),
		cmocka_unit_test(test_broken_connection_is_an_error),
		cmocka_unit_test(test_session_is_resumed),
		cmocka_unit_test(test_session_is_not_resumed_after_certificates_change),
		cmocka_unit_test(test_session_of_a_verified_client_is_resumed),
		cmocka_unit_test(test_session_is_not_resumed_after_the_server_certificate_expires),
		cmocka_unit_test(
			test_client_whose_certificate_expires_within_an_hour_gets_no_ticket),
	};

	return T_RUN(tests, NULL, NULL);
}
