/* SPDX-License-Identifier: Apache-2.0 */
/* When certificates are renewed; the served certificate is trusted at all times. */
#include "testlib.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "controller/webhook/certs_plan.h"
#include "wire/tls/x509.h"

enum { DAY = 24 * 3600 };

static const char *const names[] = {"unirail-controller.unirail.svc", "127.0.0.1"};
static const char *const more[] = {"unirail-controller.unirail.svc", "127.0.0.1", "hooks.example"};

static struct certs_goal goal = {.name = "unirail-controller",
				 .names = names,
				 .n_names = ARRAY_LEN(names),
				 .ca_life = 3650 * DAY,
				 .life = 365 * DAY,
				 .publish_s = 60};

static int64_t now;

static struct certs_set take_step(const struct certs_set *is, enum certs_step step,
				  const struct certs_goal *w, int64_t at)
{
	struct certs_set s = {0};
	struct err e = ERR_INIT;

	ASSERT_OK(certs_take_step(is, step, w, at, &s, &e), &e);
	return s;
}

static void goes_to(struct certs_set *s, enum certs_step step, const struct certs_goal *w,
		    int64_t at)
{
	struct certs_set next = take_step(s, step, w, at);

	certs_set_done(s);
	*s = next;
}

static struct certs_set made(int64_t at)
{
	return take_step(&(struct certs_set){0}, CERTS_ALL, &goal, at);
}

static size_t n_trusted(const struct certs_set *s)
{
	struct span rest = span_of(s->ca), cert;
	size_t n = 0;

	while (x509_next(&rest, &cert))
		n++;
	return n;
}

/* Fails the test unless the next step is `step` and the time until the next check is between
 * `from` and `to` seconds. */
static void next_is(const struct certs_set *s, const struct certs_goal *w, int64_t at, bool trusted,
		    enum certs_step step, int64_t from, int64_t to)
{
	int64_t wake;

	ASSERT_EQ(certs_step(s, w, at, trusted, &wake), step);
	assert_in_range(wake - at, from, to);
}

static void test_first_step_creates_ca_and_certificate(void **state)
{
	struct certs_set none = {0}, s = made(now);
	struct err e = ERR_INIT;

	(void)state;
	next_is(&none, &goal, now, true, CERTS_ALL, 0, 0);
	ASSERT_EQ(certs_usable(&s, &e), 0);
	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		ASSERT_EQ_MSG(certs_believed(&s, names[i], &e), 0, "names[%zu]", i);
	ASSERT_EQ(certs_believed(&s, "other", &e), -EKEYREJECTED);
	/* The certificate is due when two thirds of its year are over. */
	next_is(&s, &goal, now, true, CERTS_FINE, 242 * DAY, 244 * DAY);
	certs_set_done(&s);
}

static void test_certificate_is_renewed_after_two_thirds_of_its_life(void **state)
{
	struct certs_set s = made(now - 250 * DAY);
	auto_free char *cert = xstrdup(s.cert), *ca = xstrdup(s.ca);

	(void)state;
	next_is(&s, &goal, now, true, CERTS_LEAF, 0, 0);
	goes_to(&s, CERTS_LEAF, &goal, now);
	assert_string_not_equal(s.cert, cert);
	ASSERT_STR_EQ(s.ca, ca); /* the CA is unchanged, so no API server needs an update */
	ASSERT_EQ(certs_believed(&s, names[0], NULL), 0);
	next_is(&s, &goal, now, true, CERTS_FINE, 200 * DAY, 244 * DAY);
	certs_set_done(&s);
}

/*
 * The new CA signs nothing before all API servers trust it; the old CA stays trusted until it
 * expires.
 */
static void test_new_ca_signs_after_all_servers_trust_it(void **state)
{
	struct certs_set s = made(now - 2500 * DAY);
	auto_free char *old = xstrdup(s.ca), *cert = NULL;
	struct x509_facts f;

	(void)state;
	goes_to(&s, CERTS_LEAF, &goal, now - 100 * DAY);
	cert = xstrdup(s.cert);
	next_is(&s, &goal, now, true, CERTS_CA, 0, 0);
	goes_to(&s, CERTS_CA, &goal, now);
	ASSERT_EQ(n_trusted(&s), 2);
	ASSERT_STR_EQ(s.cert, cert);
	ASSERT_EQ(certs_believed(&s, names[0], NULL), 0);
	next_is(&s, &goal, now, true, CERTS_FINE, 60, 60);
	next_is(&s, &goal, now + 61, false, CERTS_FINE, 1, 1);
	next_is(&s, &goal, now + 61, true, CERTS_LEAF, 0, 0);
	goes_to(&s, CERTS_LEAF, &goal, now + 61);
	ASSERT_EQ(n_trusted(&s), 2);
	ASSERT_EQ(certs_believed(&s, names[0], NULL), 0);
	ASSERT_EQ(x509_trusts(span_of(old), span_of(s.cert), NULL, NULL), -EKEYREJECTED);
	ASSERT_EQ(x509_inspect(span_of(old), &f, NULL), 0);
	/* when the old CA expires, the certificate is due as well */
	next_is(&s, &goal, f.to, true, CERTS_LEAF, 0, 0);
	goes_to(&s, CERTS_PRUNE, &goal, f.to);
	ASSERT_EQ(n_trusted(&s), 1);
	assert_null(strstr(s.ca, old));
	certs_set_done(&s);
}

static void test_certificate_does_not_outlive_its_ca(void **state)
{
	struct certs_set s = made(now - 3400 * DAY);
	struct x509_facts ca, leaf;

	(void)state;
	goes_to(&s, CERTS_LEAF, &goal, now);
	ASSERT_EQ(x509_inspect(span_of(s.ca), &ca, NULL), 0);
	ASSERT_EQ(x509_inspect(span_of(s.cert), &leaf, NULL), 0);
	ASSERT_EQ(ca.to, leaf.to);
	certs_set_done(&s);
}

static void test_missing_name_renews_the_certificate(void **state)
{
	struct certs_goal w = goal;
	struct certs_set s = made(now - DAY);

	(void)state;
	w.names = more;
	w.n_names = ARRAY_LEN(more);
	next_is(&s, &w, now, true, CERTS_LEAF, 0, 0);
	goes_to(&s, CERTS_LEAF, &w, now);
	next_is(&s, &w, now, true, CERTS_FINE, DAY, 365 * DAY);
	/* A certificate with more names than needed is not renewed. */
	next_is(&s, &goal, now, true, CERTS_FINE, DAY, 365 * DAY);
	certs_set_done(&s);
}

static void test_certificate_with_a_lifetime_of_seconds_is_not_renewed_at_once(void **state)
{
	struct certs_goal w = goal;
	struct certs_set s;

	(void)state;
	w.life = 12;
	w.ca_life = 60;
	s = take_step(&(struct certs_set){0}, CERTS_ALL, &w, now);
	next_is(&s, &w, now, true, CERTS_FINE, 6, 8);
	certs_set_done(&s);
}

static void lose(char **part)
{
	free(*part);
	*part = NULL;
}

static void test_missing_or_foreign_keys_are_replaced(void **state)
{
	struct certs_set s = made(now), other = made(now);
	struct err e = ERR_INIT;

	(void)state;
	lose(&s.key);
	ASSERT_EQ(certs_usable(&s, &e), -EINVAL);
	ASSERT_STR_EQ(e.text, "tls.key is missing: store certificate and key together, or "
			      "delete their Secret to have both created again");
	next_is(&s, &goal, now, true, CERTS_LEAF, 0, 0);
	s.key = xstrdup(other.key);
	ASSERT_EQ(certs_usable(&s, &e), -EINVAL);
	assert_non_null(strstr(e.text, "the key does not belong to the certificate"));
	next_is(&s, &goal, now, true, CERTS_LEAF, 0, 0);
	goes_to(&s, CERTS_LEAF, &goal, now);
	ASSERT_EQ(certs_believed(&s, names[0], NULL), 0);
	/* The CA's key is lost: a second CA is added, and the served certificate stays in use. */
	lose(&s.ca_key);
	next_is(&s, &goal, now, true, CERTS_CA, 0, 0);
	goes_to(&s, CERTS_CA, &goal, now);
	ASSERT_EQ(n_trusted(&s), 2);
	ASSERT_EQ(certs_believed(&s, names[0], NULL), 0);
	/* No usable certificate is left. */
	lose(&s.ca);
	lose(&s.cert);
	ASSERT_EQ(certs_usable(&s, &e), -EINVAL);
	assert_non_null(strstr(e.text, "tls.crt is missing"));
	next_is(&s, &goal, now, true, CERTS_ALL, 0, 0);
	certs_set_done(&s);
	certs_set_done(&other);
}

/* --- the CA's Secret and the serving Secret --- */

struct two {
	struct certs_set serving, ca;
};

static void two_done(struct two *t)
{
	certs_set_done(&t->serving);
	certs_set_done(&t->ca);
}

/* Executes the next write as the API server does; its step must be `step`. The CA's key must be
 * written only to the CA's Secret, and the key of the certificate never to it. */
static void writes(struct two *t, int64_t at, bool trusted, enum certs_step step)
{
	struct certs_write w;
	struct err e = ERR_INIT;
	struct certs_set *to;

	ASSERT_OK(certs_next(&t->serving, &t->ca, &goal, at, trusted, &w, &e), &e);
	ASSERT_STR_EQ(certs_describe_step(w.step), certs_describe_step(step));
	if (step == CERTS_FINE) {
		certs_set_done(&w.set);
		return;
	}
	to = w.to_ca ? &t->ca : &t->serving;
	ASSERT_EQ(w.to_ca, w.set.ca_key != NULL);
	if (w.to_ca)
		assert_null(w.set.key);
	certs_set_done(to);
	*to = w.set;
}

static void assert_due(const struct two *t, int64_t at, bool trusted, bool due)
{
	int64_t wake;

	ASSERT_EQ(certs_is_due(&t->serving, &goal, at, trusted, &wake), due);
	if (!due)
		assert_true(wake > at);
}

static struct two split(int64_t at)
{
	struct two t = {0};

	assert_due(&t, at, true, true);
	/* the CA is written first: a crash between the writes loses nothing */
	writes(&t, at, true, CERTS_CA);
	assert_due(&t, at, true, true);
	writes(&t, at, true, CERTS_LEAF);
	assert_due(&t, at, true, false);
	writes(&t, at, true, CERTS_FINE);
	ASSERT_EQ(certs_usable(&t.serving, NULL), 0);
	ASSERT_EQ(certs_believed(&t.serving, names[0], NULL), 0);
	return t;
}

static void test_ca_and_certificate_are_written_to_two_secrets(void **state)
{
	struct two t = split(now - 250 * DAY);
	auto_free char *key = xstrdup(t.ca.ca_key), *cert = NULL;

	(void)state;
	assert_due(&t, now, true, true);
	writes(&t, now, true, CERTS_LEAF);
	ASSERT_STR_EQ(t.ca.ca_key, key);
	assert_due(&t, now, true, false);
	two_done(&t);

	/* The CA is due, the certificate is not. */
	writes(&t, now - 2500 * DAY, true, CERTS_CA);
	writes(&t, now - 100 * DAY, true, CERTS_LEAF);
	cert = xstrdup(t.serving.cert);
	assert_due(&t, now - 90 * DAY, true, false);
	assert_due(&t, now, true, true);
	writes(&t, now, true, CERTS_CA);
	writes(&t, now, true, CERTS_TRUST);
	ASSERT_EQ(n_trusted(&t.serving), 2);
	ASSERT_STR_EQ(t.serving.cert, cert);
	assert_due(&t, now, true, false); /* API servers must trust the new CA first */
	assert_due(&t, now + 61, true, true);
	writes(&t, now + 61, true, CERTS_LEAF);
	ASSERT_EQ(certs_believed(&t.serving, names[0], NULL), 0);
	two_done(&t);
}

/* The serving Secret was written by an earlier version, which stored the CA's key in it. */
static void test_ca_key_is_moved_out_of_the_serving_secret(void **state)
{
	struct two t = {.serving = made(now)};
	auto_free char *ca = xstrdup(t.serving.ca), *ca_key = xstrdup(t.serving.ca_key),
		       *cert = xstrdup(t.serving.cert), *key = xstrdup(t.serving.key);

	(void)state;
	assert_due(&t, now, true, true);
	writes(&t, now, true, CERTS_MOVE_KEY);
	ASSERT_STR_EQ(t.ca.ca_key, ca_key);
	assert_non_null(t.serving.ca_key);
	/* if the process crashes before it removes the key from the serving Secret, the next
	 * process does so */
	writes(&t, now, true, CERTS_REMOVE_KEY);
	assert_null(t.serving.ca_key);
	ASSERT_STR_EQ(t.serving.ca, ca);
	ASSERT_STR_EQ(t.serving.cert, cert);
	ASSERT_STR_EQ(t.serving.key, key);
	assert_due(&t, now, true, false);
	writes(&t, now, true, CERTS_FINE);
	two_done(&t);
}

/* After a downgrade an earlier version created another CA, whose key is moved to the CA's
 * Secret. A key that does not belong to the first CA of the serving Secret is removed and not
 * moved. */
static void test_ca_key_of_a_downgraded_version_is_moved_again(void **state)
{
	struct two t = split(now);
	auto_free char *was = xstrdup(t.ca.ca_key), *key = NULL;

	(void)state;
	goes_to(&t.serving, CERTS_CA, &goal, now);
	key = xstrdup(t.serving.ca_key);
	writes(&t, now, true, CERTS_MOVE_KEY);
	ASSERT_STR_EQ(t.ca.ca_key, key);
	writes(&t, now, true, CERTS_REMOVE_KEY);
	ASSERT_EQ(n_trusted(&t.serving), 2);
	writes(&t, now, false, CERTS_FINE);
	t.serving.ca_key = take(was); /* the key of the former CA */
	writes(&t, now, true, CERTS_REMOVE_KEY);
	ASSERT_STR_EQ(t.ca.ca_key, key);
	two_done(&t);
}

/* The CA's Secret is empty, or has another CA. certs_next() detects this, and the served
 * certificate stays trusted. The controller reads the CA's Secret only when a write is due. */
static void test_lost_or_replaced_ca_secret_is_detected(void **state)
{
	struct two t = split(now - 250 * DAY), other = split(now);

	(void)state;
	certs_set_done(&t.ca);
	assert_due(&t, now, true, true);
	writes(&t, now, true, CERTS_CA);
	writes(&t, now, true, CERTS_TRUST);
	ASSERT_EQ(n_trusted(&t.serving), 2);
	ASSERT_EQ(certs_believed(&t.serving, names[0], NULL), 0);
	writes(&t, now + 59, true, CERTS_FINE);
	writes(&t, now + 61, false, CERTS_FINE);
	assert_due(&t, now + 61, false, false);
	writes(&t, now + 61, true, CERTS_LEAF);
	ASSERT_EQ(certs_believed(&t.serving, names[0], NULL), 0);
	certs_set_done(&t.ca);
	t.ca = other.ca;
	other.ca = (struct certs_set){0};
	writes(&t, now + 62, true, CERTS_TRUST);
	writes(&t, now + 62, true, CERTS_FINE);
	ASSERT_EQ(n_trusted(&t.serving), 3);
	/* A CA certificate that does not match its key signs nothing. */
	lose(&t.ca.ca_key);
	t.ca.ca_key = xstrdup("nonsense");
	writes(&t, now + 63, true, CERTS_CA);
	two_done(&t);
	two_done(&other);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_first_step_creates_ca_and_certificate),
		cmocka_unit_test(test_certificate_is_renewed_after_two_thirds_of_its_life),
		cmocka_unit_test(test_new_ca_signs_after_all_servers_trust_it),
		cmocka_unit_test(test_certificate_does_not_outlive_its_ca),
		cmocka_unit_test(test_missing_name_renews_the_certificate),
		cmocka_unit_test(
			test_certificate_with_a_lifetime_of_seconds_is_not_renewed_at_once),
		cmocka_unit_test(test_missing_or_foreign_keys_are_replaced),
		cmocka_unit_test(test_ca_and_certificate_are_written_to_two_secrets),
		cmocka_unit_test(test_ca_key_is_moved_out_of_the_serving_secret),
		cmocka_unit_test(test_ca_key_of_a_downgraded_version_is_moved_again),
		cmocka_unit_test(test_lost_or_replaced_ca_secret_is_detected),
	};

	now = time(NULL);
	return T_RUN(tests, NULL, NULL);
}
