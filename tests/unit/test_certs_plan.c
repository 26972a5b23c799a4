/* SPDX-License-Identifier: Apache-2.0 */
/* When what is renewed, and that what is served is trusted all the while. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/cleanup.h"
#include "controller/certs_plan.h"
#include "wire/x509.h"

enum { DAY = 24 * 3600 };

static const char *const names[] = {"unirail-controller.unirail.svc", "127.0.0.1"};
static const char *const more[] = {"unirail-controller.unirail.svc", "127.0.0.1", "hooks.example"};

static struct certs_wish wish = {.name = "unirail-controller",
				 .names = names,
				 .n_names = ARRAY_LEN(names),
				 .ca_life = 3650 * DAY,
				 .life = 365 * DAY,
				 .settle = 60};

static int64_t now;

static struct certs_set take_step(const struct certs_set *is, enum certs_step step,
				  const struct certs_wish *w, int64_t at)
{
	struct certs_set s = {0};
	struct err e = ERR_INIT;

	if (certs_take_step(is, step, w, at, &s, &e) < 0)
		fail_msg("%s", e.text);
	return s;
}

static void goes_to(struct certs_set *s, enum certs_step step, const struct certs_wish *w,
		    int64_t at)
{
	struct certs_set next = take_step(s, step, w, at);

	certs_set_done(s);
	*s = next;
}

static struct certs_set made(int64_t at)
{
	return take_step(&(struct certs_set){0}, CERTS_ALL, &wish, at);
}

static size_t n_trusted(const struct certs_set *s)
{
	struct span rest = span_of(s->ca), cert;
	size_t n = 0;

	while (x509_next(&rest, &cert))
		n++;
	return n;
}

/* The step, and how long until it is looked at again. */
static void next_is(const struct certs_set *s, const struct certs_wish *w, int64_t at, bool trusted,
		    enum certs_step step, int64_t from, int64_t to)
{
	int64_t wake;

	assert_int_equal(certs_step(s, w, at, trusted, &wake), step);
	assert_in_range(wake - at, from, to);
}

static void test_first(void **state)
{
	struct certs_set none = {0}, s = made(now);
	struct err e = ERR_INIT;

	(void)state;
	next_is(&none, &wish, now, true, CERTS_ALL, 0, 0);
	assert_int_equal(certs_usable(&s, &e), 0);
	for (size_t i = 0; i < ARRAY_LEN(names); i++)
		assert_int_equal(certs_believed(&s, names[i], &e), 0);
	assert_int_equal(certs_believed(&s, "other", &e), -EKEYREJECTED);
	/* Until two thirds of the certificate's year are over. */
	next_is(&s, &wish, now, true, CERTS_FINE, 242 * DAY, 244 * DAY);
	certs_set_done(&s);
}

static void test_leaf(void **state)
{
	struct certs_set s = made(now - 250 * DAY);
	auto_free char *cert = xstrdup(s.cert), *ca = xstrdup(s.ca);

	(void)state;
	next_is(&s, &wish, now, true, CERTS_LEAF, 0, 0);
	goes_to(&s, CERTS_LEAF, &wish, now);
	assert_string_not_equal(s.cert, cert);
	assert_string_equal(s.ca, ca); /* nobody has to be told */
	assert_int_equal(certs_believed(&s, names[0], NULL), 0);
	next_is(&s, &wish, now, true, CERTS_FINE, 200 * DAY, 244 * DAY);
	certs_set_done(&s);
}

/* The new CA signs nothing before everybody trusts it, the old one is trusted until it expires. */
static void test_ca(void **state)
{
	struct certs_set s = made(now - 2500 * DAY);
	auto_free char *old = xstrdup(s.ca), *cert = NULL;
	struct x509_facts f;

	(void)state;
	goes_to(&s, CERTS_LEAF, &wish, now - 100 * DAY);
	cert = xstrdup(s.cert);
	next_is(&s, &wish, now, true, CERTS_CA, 0, 0);
	goes_to(&s, CERTS_CA, &wish, now);
	assert_int_equal(n_trusted(&s), 2);
	assert_string_equal(s.cert, cert);
	assert_int_equal(certs_believed(&s, names[0], NULL), 0);
	next_is(&s, &wish, now, true, CERTS_FINE, 60, 60);
	next_is(&s, &wish, now + 61, false, CERTS_FINE, 1, 1);
	next_is(&s, &wish, now + 61, true, CERTS_LEAF, 0, 0);
	goes_to(&s, CERTS_LEAF, &wish, now + 61);
	assert_int_equal(n_trusted(&s), 2);
	assert_int_equal(certs_believed(&s, names[0], NULL), 0);
	assert_int_equal(x509_trusts(span_of(old), span_of(s.cert), NULL, NULL), -EKEYREJECTED);
	assert_int_equal(x509_look(span_of(old), &f, NULL), 0);
	next_is(&s, &wish, f.to, true, CERTS_LEAF, 0, 0); /* a year later it is due as well */
	goes_to(&s, CERTS_PRUNE, &wish, f.to);
	assert_int_equal(n_trusted(&s), 1);
	assert_null(strstr(s.ca, old));
	certs_set_done(&s);
}

/* No certificate lives longer than who signed it. */
static void test_ends_with_its_ca(void **state)
{
	struct certs_set s = made(now - 3400 * DAY);
	struct x509_facts ca, leaf;

	(void)state;
	goes_to(&s, CERTS_LEAF, &wish, now);
	assert_int_equal(x509_look(span_of(s.ca), &ca, NULL), 0);
	assert_int_equal(x509_look(span_of(s.cert), &leaf, NULL), 0);
	assert_int_equal(ca.to, leaf.to);
	certs_set_done(&s);
}

static void test_names(void **state)
{
	struct certs_wish w = wish;
	struct certs_set s = made(now - DAY);

	(void)state;
	w.names = more;
	w.n_names = ARRAY_LEN(more);
	next_is(&s, &w, now, true, CERTS_LEAF, 0, 0);
	goes_to(&s, CERTS_LEAF, &w, now);
	next_is(&s, &w, now, true, CERTS_FINE, DAY, 365 * DAY);
	/* Fewer are no reason. */
	next_is(&s, &wish, now, true, CERTS_FINE, DAY, 365 * DAY);
	certs_set_done(&s);
}

/* A certificate that lives for seconds is not due when it is made. */
static void test_short_lives(void **state)
{
	struct certs_wish w = wish;
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

static void test_halves(void **state)
{
	struct certs_set s = made(now), other = made(now);
	struct err e = ERR_INIT;

	(void)state;
	lose(&s.key);
	assert_int_equal(certs_usable(&s, &e), -EINVAL);
	assert_string_equal(e.text, "tls.key is missing: put certificate and key in together, or "
				    "delete it to have both made anew");
	next_is(&s, &wish, now, true, CERTS_LEAF, 0, 0);
	s.key = xstrdup(other.key);
	assert_int_equal(certs_usable(&s, &e), -EINVAL);
	assert_non_null(strstr(e.text, "the key does not belong to the certificate"));
	next_is(&s, &wish, now, true, CERTS_LEAF, 0, 0);
	goes_to(&s, CERTS_LEAF, &wish, now);
	assert_int_equal(certs_believed(&s, names[0], NULL), 0);
	/* The CA's key is lost: another CA beside it, and what is served goes on. */
	lose(&s.ca_key);
	next_is(&s, &wish, now, true, CERTS_CA, 0, 0);
	goes_to(&s, CERTS_CA, &wish, now);
	assert_int_equal(n_trusted(&s), 2);
	assert_int_equal(certs_believed(&s, names[0], NULL), 0);
	/* Nothing is left that fits. */
	lose(&s.ca);
	lose(&s.cert);
	assert_int_equal(certs_usable(&s, &e), -EINVAL);
	assert_non_null(strstr(e.text, "tls.crt is missing"));
	next_is(&s, &wish, now, true, CERTS_ALL, 0, 0);
	certs_set_done(&s);
	certs_set_done(&other);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_first),  cmocka_unit_test(test_leaf),
		cmocka_unit_test(test_ca),     cmocka_unit_test(test_ends_with_its_ca),
		cmocka_unit_test(test_names),  cmocka_unit_test(test_short_lives),
		cmocka_unit_test(test_halves),
	};

	now = time(NULL);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
