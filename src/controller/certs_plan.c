/* SPDX-License-Identifier: Apache-2.0 */
#include "controller/certs_plan.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "wire/random.h"
#include "wire/x509.h"

/* EARLY_S: clocks differ; AGAIN_S: for who does not trust a new CA yet. */
enum { EARLY_S = 300, AGAIN_S = 1, CA_MAX = 64 << 10 };

void certs_set_done(struct certs_set *s)
{
	if (s->ca_key)
		explicit_bzero(s->ca_key, strlen(s->ca_key));
	if (s->key)
		explicit_bzero(s->key, strlen(s->key));
	free(s->ca);
	free(s->ca_key);
	free(s->cert);
	free(s->key);
	*s = (struct certs_set){0};
}

/* --- what there is --- */

int certs_usable(const struct certs_set *s, struct err *e)
{
	static const char remedy[] =
		"put certificate and key in together, or delete it to have both "
		"made anew";
	int r;

	if (!s->cert || !s->key)
		return err_kind(e, ERR_CONF, -EINVAL, "%s is missing: %s",
				s->cert ? "tls.key" : "tls.crt", remedy);
	r = x509_fits(span_of(s->cert), span_of(s->key), e);
	return r < 0 ? err_wrap(e, r, "tls.crt and tls.key") : 0;
}

int certs_believed(const struct certs_set *s, const char *name, struct err *e)
{
	int r = s->ca ? x509_trusts(span_of(s->ca), span_of(s->cert), name, e) : 0;

	return r < 0 ? err_wrap(e, r, "held against ca.crt") : 0;
}

/* The one that signs. */
static struct span signer(const struct certs_set *s)
{
	struct span rest = span_of(s->ca), first = {0};

	x509_next(&rest, &first);
	return first;
}

static bool can_sign(const struct certs_set *s)
{
	struct x509_facts f;

	return s->ca && s->ca_key && x509_look(signer(s), &f, NULL) == 0 && f.is_ca &&
	       x509_fits(signer(s), span_of(s->ca_key), NULL) == 0 &&
	       x509_trusts(signer(s), signer(s), NULL, NULL) == 0;
}

/* When a certificate is renewed. */
static int64_t due(struct span cert)
{
	struct x509_facts f;

	if (x509_look(cert, &f, NULL) < 0)
		return 0;
	return f.to - (f.to - f.from) / 3;
}

static bool has_names(const struct certs_set *s, const struct certs_wish *w)
{
	for (size_t i = 0; i < w->n_names; i++)
		if (x509_trusts(span_of(s->ca), span_of(s->cert), w->names[i], NULL) < 0)
			return false;
	return true;
}

/* The first that expires of those trusted. */
static int64_t first_end(const struct certs_set *s)
{
	struct span rest = span_of(s->ca), cert;
	int64_t first = INT64_MAX;
	struct x509_facts f;

	while (x509_next(&rest, &cert))
		if (x509_look(cert, &f, NULL) < 0)
			return 0;
		else if (f.to < first)
			first = f.to;
	return first;
}

static int64_t earlier(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

enum certs_step certs_step(const struct certs_set *is, const struct certs_wish *w, int64_t now,
			   bool trusted, int64_t *wake)
{
	bool serves = certs_usable(is, NULL) == 0 && certs_believed(is, NULL, NULL) == 0, old;
	int64_t settled = is->ca_since + w->settle, leaf;

	*wake = now;
	if (!can_sign(is))
		return serves ? CERTS_CA : CERTS_ALL;
	if (!serves)
		return CERTS_LEAF;
	if (due(signer(is)) <= now)
		return CERTS_CA;
	old = x509_trusts(signer(is), span_of(is->cert), NULL, NULL) < 0;
	leaf = old || !has_names(is, w) ? now : due(span_of(is->cert));
	if (leaf <= now && settled <= now && trusted)
		return CERTS_LEAF;
	if (first_end(is) <= now)
		return CERTS_PRUNE;
	*wake = earlier(due(signer(is)), first_end(is));
	if (leaf > now)
		*wake = earlier(*wake, leaf);
	else
		*wake = earlier(*wake, settled > now ? settled : now + AGAIN_S);
	return CERTS_FINE;
}

/* --- what there is to be --- */

static char *copy(const char *s)
{
	return s ? xstrdup(s) : NULL;
}

/* Valid from a little earlier, but not so much that it would be due at once. */
static int64_t from(int64_t now, int64_t life)
{
	return now - earlier(EARLY_S, life / 8);
}

static int make_ca(const struct certs_wish *w, int64_t now, struct certs_set *s, struct err *e)
{
	unsigned char r[4];
	auto_free char *name = NULL, *ca = NULL, *key = NULL;
	int n;

	/* Two that are trusted at once are told apart by their names, too. */
	random_bytes(r, sizeof(r));
	name = xasprintf("%.48s-ca-%02x%02x%02x%02x", w->name, r[0], r[1], r[2], r[3]);
	n = x509_make(&(struct x509_wish){.name = name,
					  .from = from(now, w->ca_life),
					  .to = now + w->ca_life},
		      &ca, &key, e);
	if (n < 0)
		return n;
	free(s->ca);
	free(s->ca_key);
	s->ca = take(ca);
	s->ca_key = take(key);
	s->ca_since = now;
	return 0;
}

static int make_leaf(const struct certs_wish *w, int64_t now, struct certs_set *s, struct err *e)
{
	auto_free char *cert = NULL, *key = NULL;
	struct x509_facts ca;
	int r = x509_look(signer(s), &ca, e);

	if (r == 0)
		r = x509_make(&(struct x509_wish){.name = w->name,
						  .names = w->names,
						  .n_names = w->n_names,
						  .from = from(now, w->life),
						  .to = earlier(now + w->life, ca.to),
						  .ca = signer(s),
						  .ca_key = span_of(s->ca_key)},
			      &cert, &key, e);
	if (r < 0)
		return r;
	free(s->cert);
	free(s->key);
	s->cert = take(cert);
	s->key = take(key);
	return 0;
}

/* What was trusted and has not expired is still. */
static void add_trusted(struct certs_set *s, const char *ca, int64_t now)
{
	struct span rest = span_of(ca), cert;
	struct x509_facts f;
	struct buf b;

	buf_init(&b, CA_MAX);
	buf_str(&b, s->ca ? s->ca : "");
	while (x509_next(&rest, &cert)) {
		if (x509_look(cert, &f, NULL) < 0 || f.to <= now)
			continue;
		buf_add(&b, cert.p, cert.n);
		buf_char(&b, '\n');
	}
	free(s->ca);
	s->ca = b.len ? buf_take(&b) : NULL;
	buf_done(&b);
}

int certs_take_step(const struct certs_set *is, enum certs_step step, const struct certs_wish *w,
		    int64_t now, struct certs_set *ret, struct err *e)
{
	struct certs_set s = {.ca_since = is->ca_since};
	int r = 0;

	s.ca_key = copy(is->ca_key);
	s.cert = copy(is->cert);
	s.key = copy(is->key);
	if (step == CERTS_ALL || step == CERTS_CA)
		r = make_ca(w, now, &s, e);
	add_trusted(&s, is->ca, now);
	if (r == 0 && (step == CERTS_ALL || step == CERTS_LEAF))
		r = make_leaf(w, now, &s, e);
	if (r < 0)
		certs_set_done(&s);
	else
		*ret = s;
	return r;
}

const char *certs_step_words(enum certs_step step)
{
	switch (step) {
	case CERTS_FINE: return "as it was";
	case CERTS_ALL: return "a CA and a certificate are made";
	case CERTS_CA: return "a new CA is trusted beside the old one";
	case CERTS_LEAF: return "a new certificate is made";
	case CERTS_PRUNE: return "a CA that has expired is not trusted any more";
	}
	return "";
}
