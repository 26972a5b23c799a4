/* SPDX-License-Identifier: Apache-2.0 */
#include "controller/webhook/certs.h"
#include "controller/webhook/certs_plan.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/random.h"
#include "controller/webhook/internal.h"
#include "wire/tls/x509.h"

/* The certificate in use, certificates from files, and the functions of certs_plan.h. */

enum { FILES_MS = 10 * 1000, FILE_MAX = 256 << 10 };

/* --- the certificate in use --- */

static bool same(const char *a, const char *b)
{
	return a && b ? !strcmp(a, b) : a == b;
}

static void keep(struct certs *c, const struct certs_set *s)
{
	struct certs_set was = c->set;

	c->set = (struct certs_set){.ca = str_dup(s->ca),
				    .cert = str_dup(s->cert),
				    .key = str_dup(s->key),
				    .ca_since = s->ca_since};
	certs_set_done(&was);
}

/* Stores the error; logs it with the message `outcome` unless the last stored error has the same
 * text. */
static void is_failing(struct certs *c, const char *where, const char *outcome, const struct err *e)
{
	struct err t = *e;

	err_wrap(&t, t.code, "the webhooks' certificate in %s", where);
	if (strcmp(c->sync_error.text, t.text))
		log_error(outcome, LOG_S("error", t.text));
	c->sync_error = t;
}

static void is_rejected(struct certs *c, const char *where, const struct err *e)
{
	is_failing(c, where,
		   c->tls ? "webhook certificate rejected, keeping the current one"
			  : "no webhook certificate to serve",
		   e);
}

static int load(struct certs *c, const struct certs_set *s, struct err *e)
{
	const struct tls_material m = {
		.ca = span_of(c->conf.client_ca), .cert = span_of(s->cert), .key = span_of(s->key)};
	struct tls_conf *tls;
	int r = certs_usable(s, e);

	if (r == 0)
		r = tls_conf_new(&tls, TLS_SERVER, &m, e);
	if (r < 0)
		return r;
	tls_conf_put(c->tls);
	c->tls = tls;
	return 0;
}

static void serve(struct certs *c, const struct certs_set *s, const char *where)
{
	struct x509_facts f = {0};
	struct err e = ERR_INIT;
	bool first = !c->tls, swapped = !same(c->set.cert, s->cert);

	if (load(c, s, &e) < 0) {
		is_rejected(c, where, &e);
		return;
	}
	keep(c, s);
	if (x509_inspect(span_of(s->cert), &f, NULL) == 0)
		c->end = f.to;
	/* A certificate that fails this check is used nevertheless, because the API server may
	 * trust another CA or connect by another name. */
	if (certs_believed(s, c->conf.request.names[0], &e) < 0)
		is_failing(c, where,
			   "webhook certificate in use, but its verification with "
			   "ca.crt failed",
			   &e);
	else
		err_clear(&c->sync_error);
	if (first || swapped)
		log_info("webhook certificate in use", LOG_S("from", where),
			 LOG_I("until", c->end));
	c->conf.changed(c->conf.arg);
}

void certs_adopt(struct certs *c, const struct certs_set *s, const char *where)
{
	bool there = c->tls && !c->sync_error.code;

	if (there && same(c->set.cert, s->cert) && same(c->set.key, s->key) &&
	    same(c->set.ca, s->ca))
		c->set.ca_since = s->ca_since;
	else
		serve(c, s, where);
}

/* --- the certificate's files --- */

static int read_file(struct certs *c, const char *path, char **ret, struct err *e)
{
	auto_buf struct buf b;
	int r;

	buf_init(&b, FILE_MAX);
	if (!path)
		return 0;
	r = file_read(c->conf.root, path, FILE_MAX, &b, e);
	if (r < 0)
		return r;
	*ret = xstrdup(b.len ? b.p : "");
	return 0;
}

static int read_files(struct certs *c, struct certs_set *s, struct err *e)
{
	int r = read_file(c, c->conf.cert_file, &s->cert, e);

	if (r == 0)
		r = read_file(c, c->conf.key_file, &s->key, e);
	return r < 0 ? r : read_file(c, c->conf.ca_file, &s->ca, e);
}

static void inspect_files(void *arg)
{
	struct certs *c = arg;
	struct certs_set s = {0};
	struct err e = ERR_INIT;

	loop_alarm_set(&c->timer, FILES_MS);
	if (read_files(c, &s, &e) < 0)
		is_rejected(c, "files", &e);
	else
		certs_adopt(c, &s, c->conf.cert_file);
	certs_set_done(&s);
}

/* --- creation and destruction --- */

struct certs *certs_new(const struct certs_conf *conf)
{
	struct certs *c = xcalloc(1, sizeof(*c));

	c->conf = *conf;
	c->loop = kube_loop(conf->kube);
	err_set(&c->sync_error, -EAGAIN, "the webhooks' certificate has not been read yet");
	c->sync_error.kind = ERR_AGAIN;
	c->timer = LOOP_ALARM(c->loop, conf->cert_file ? inspect_files : certs_secret_check, c);
	if (conf->cert_file)
		loop_alarm_set(&c->timer, 0);
	else
		certs_secret_start(c);
	return c;
}

void certs_free(struct certs *c)
{
	if (!c)
		return;
	certs_secret_stop(c);
	loop_alarm_cancel(&c->timer);
	tls_conf_put(c->tls);
	certs_set_done(&c->set);
	free(c);
}

struct tls_conf *certs_tls(const struct certs *c)
{
	return c->tls;
}

const char *certs_ca(const struct certs *c)
{
	return c->set.ca;
}

int64_t certs_end(const struct certs *c)
{
	return c->end;
}

int certs_sync_error(const struct certs *c, struct err *e)
{
	if (c->sync_error.code && e)
		*e = c->sync_error;
	return c->sync_error.code;
}

void certs_lead(struct certs *c, bool leads)
{
	c->leads = leads;
	if (leads && !c->conf.cert_file)
		certs_secret_check(c);
}

/* EARLY_S: tolerance for clock differences. AGAIN_S: interval of checks whether a new CA is
 * trusted. */
enum { EARLY_S = 300, AGAIN_S = 1, CA_MAX = 64 << 10 };

static void wipe(char **key)
{
	if (*key)
		explicit_bzero(*key, strlen(*key));
	free(*key);
	*key = NULL;
}

void certs_set_done(struct certs_set *s)
{
	wipe(&s->ca_key);
	wipe(&s->key);
	free(s->ca);
	free(s->cert);
	*s = (struct certs_set){0};
}

/* --- evaluation of a certificate --- */

int certs_usable(const struct certs_set *s, struct err *e)
{
	static const char remedy[] =
		"store certificate and key together, or delete their Secret to have both created "
		"again";
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

	return r < 0 ? err_wrap(e, r, "verify tls.crt with ca.crt") : 0;
}

static bool same_text(struct span a, struct span b)
{
	return a.n == b.n && (!a.n || !memcmp(a.p, b.p, a.n));
}

/* Returns the CA that signs, which is the first one. */
static struct span signer(const struct certs_set *s)
{
	struct span rest = span_of(s->ca), first = {0};

	x509_next(&rest, &first);
	return first;
}

static bool signer_is_ca(const struct certs_set *s)
{
	struct x509_facts f;

	return s->ca && x509_inspect(signer(s), &f, NULL) == 0 && f.is_ca &&
	       x509_trusts(signer(s), signer(s), NULL, NULL) == 0;
}

static bool can_sign(const struct certs_set *s)
{
	return s->ca_key && signer_is_ca(s) && x509_fits(signer(s), span_of(s->ca_key), NULL) == 0;
}

/* Returns the time at which a certificate has to be renewed; 0 (at once): it cannot be read. */
static int64_t due(struct span cert)
{
	struct x509_facts f;

	if (x509_inspect(cert, &f, NULL) < 0)
		return 0;
	return f.to - (f.to - f.from) / 3;
}

static bool has_names(const struct certs_set *s, const struct certs_goal *w)
{
	for (size_t i = 0; i < w->n_names; i++)
		if (x509_trusts(span_of(s->ca), span_of(s->cert), w->names[i], NULL) < 0)
			return false;
	return true;
}

/* Returns the earliest expiry of the trusted CAs; 0: one of them cannot be read. */
static int64_t first_end(const struct certs_set *s)
{
	struct span rest = span_of(s->ca), cert;
	int64_t first = INT64_MAX;
	struct x509_facts f;

	while (x509_next(&rest, &cert))
		if (x509_inspect(cert, &f, NULL) < 0)
			return 0;
		else if (f.to < first)
			first = f.to;
	return first;
}

static int64_t earlier(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

static enum certs_step step_of(const struct certs_set *is, bool signs, const struct certs_goal *w,
			       int64_t now, bool trusted, int64_t *wake)
{
	bool serves = certs_usable(is, NULL) == 0 && certs_believed(is, NULL, NULL) == 0, old;
	int64_t ready_at = is->ca_since + w->publish_s, leaf;

	*wake = now;
	if (!signs)
		return serves ? CERTS_CA : CERTS_ALL;
	if (!serves)
		return CERTS_LEAF;
	if (due(signer(is)) <= now)
		return CERTS_CA;
	old = x509_trusts(signer(is), span_of(is->cert), NULL, NULL) < 0;
	leaf = old || !has_names(is, w) ? now : due(span_of(is->cert));
	if (leaf <= now && ready_at <= now && trusted)
		return CERTS_LEAF;
	if (first_end(is) <= now)
		return CERTS_PRUNE;
	*wake = earlier(due(signer(is)), first_end(is));
	if (leaf > now)
		*wake = earlier(*wake, leaf);
	else
		*wake = earlier(*wake, ready_at > now ? ready_at : now + AGAIN_S);
	return CERTS_FINE;
}

enum certs_step certs_step(const struct certs_set *is, const struct certs_goal *w, int64_t now,
			   bool trusted, int64_t *wake)
{
	return step_of(is, can_sign(is), w, now, trusted, wake);
}

bool certs_is_due(const struct certs_set *serving, const struct certs_goal *w, int64_t now,
		  bool trusted, int64_t *wake)
{
	*wake = now;
	return serving->ca_key ||
	       step_of(serving, signer_is_ca(serving), w, now, trusted, wake) != CERTS_FINE;
}

/* --- issue of certificates --- */

/*
 * Computes notBefore: a little in the past, but not so far that the certificate would be due for
 * renewal at once.
 */
static int64_t from(int64_t now, int64_t life)
{
	return now - earlier(EARLY_S, life / 8);
}

static int make_ca(const struct certs_goal *w, int64_t now, struct certs_set *s, struct err *e)
{
	unsigned char r[4];
	auto_free char *name = NULL, *ca = NULL, *key = NULL;
	int n;

	/* Adds a random part to the subject, so that CAs that are trusted at the same time differ.
	 * */
	random_bytes(r, sizeof(r));
	name = xasprintf("%.48s-ca-%02x%02x%02x%02x", w->name, r[0], r[1], r[2], r[3]);
	n = x509_make(&(struct x509_request){.name = name,
					     .from = from(now, w->ca_life),
					     .to = now + w->ca_life},
		      &ca, &key, e);
	if (n < 0)
		return n;
	free(s->ca);
	wipe(&s->ca_key);
	s->ca = take(ca);
	s->ca_key = take(key);
	s->ca_since = now;
	return 0;
}

static int make_leaf(const struct certs_goal *w, int64_t now, struct certs_set *s, struct err *e)
{
	auto_free char *cert = NULL, *key = NULL;
	struct x509_facts ca;
	int r = x509_inspect(signer(s), &ca, e);

	if (r == 0)
		r = x509_make(&(struct x509_request){.name = w->name,
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
	wipe(&s->key);
	s->cert = take(cert);
	s->key = take(key);
	return 0;
}

/* Appends the CAs of `ca` to those of the set, except expired or invalid ones and the set's
 * signer. */
static void add_trusted(struct certs_set *s, const char *ca, int64_t now)
{
	struct span rest = span_of(ca), cert;
	struct x509_facts f;
	struct buf b;

	buf_init(&b, CA_MAX);
	buf_str(&b, s->ca ? s->ca : "");
	while (x509_next(&rest, &cert)) {
		if (x509_inspect(cert, &f, NULL) < 0 || f.to <= now || same_text(cert, signer(s)))
			continue;
		buf_add(&b, cert.p, cert.n);
		buf_char(&b, '\n');
	}
	free(s->ca);
	s->ca = b.len ? buf_take(&b) : NULL;
	buf_done(&b);
}

int certs_take_step(const struct certs_set *is, enum certs_step step, const struct certs_goal *w,
		    int64_t now, struct certs_set *ret, struct err *e)
{
	struct certs_set s = {.ca_since = is->ca_since};
	int r = 0;

	s.ca_key = str_dup(is->ca_key);
	s.cert = str_dup(is->cert);
	s.key = str_dup(is->key);
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

/* --- the next write, to the Secret of the CA or of the certificate --- */

static char *signer_text(const struct certs_set *s)
{
	struct span first = signer(s);

	return xasprintf("%.*s\n", (int)first.n, first.p);
}

static bool same_signer(const struct certs_set *a, const struct certs_set *b)
{
	return a->ca && b->ca && same_text(signer(a), signer(b));
}

static void put_ca(const struct certs_set *from, enum certs_step step, struct certs_write *ret)
{
	*ret = (struct certs_write){.step = step,
				    .to_ca = true,
				    .set = {.ca = signer_text(from),
					    .ca_key = str_dup(from->ca_key)}};
}

/* Plans the write for a Secret of an earlier version of unirail, which has the CA's key beside
 * the certificate. */
static void next_of_old(const struct certs_set *serving, const struct certs_set *ca,
			struct certs_write *ret)
{
	if (can_sign(serving) && !(can_sign(ca) && same_signer(serving, ca))) {
		put_ca(serving, CERTS_MOVE_KEY, ret);
		return;
	}
	*ret = (struct certs_write){.step = CERTS_REMOVE_KEY,
				    .set = {.ca = str_dup(serving->ca),
					    .cert = str_dup(serving->cert),
					    .key = str_dup(serving->key),
					    .ca_since = serving->ca_since}};
}

/* Puts the CA of the CA's Secret in front of the trusted ones; it is trusted since `now`. */
static void trust(struct certs_set *s, const struct certs_set *ca, int64_t now)
{
	auto_free char *before = s->ca;

	s->ca = signer_text(ca);
	add_trusted(s, before, now);
	s->ca_since = now;
}

int certs_next(const struct certs_set *serving, const struct certs_set *ca,
	       const struct certs_goal *w, int64_t now, bool trusted, struct certs_write *ret,
	       struct err *e)
{
	struct certs_set is = {.ca_since = serving->ca_since}, next = {0};
	bool other = can_sign(ca) && !same_signer(serving, ca) && due(signer(ca)) > now;
	enum certs_step step;
	int64_t wake;
	int r = 0;

	if (serving->ca_key) {
		next_of_old(serving, ca, ret);
		return 0;
	}
	is.ca = str_dup(serving->ca);
	is.cert = str_dup(serving->cert);
	is.key = str_dup(serving->key);
	is.ca_key = str_dup(ca->ca_key);
	if (other)
		trust(&is, ca, now);
	step = certs_step(&is, w, now, trusted && !other, &wake);
	if (step == CERTS_ALL)
		step = CERTS_CA;
	if (step == CERTS_FINE && other)
		step = CERTS_TRUST;
	if (step == CERTS_TRUST || step == CERTS_FINE)
		next = is, is = (struct certs_set){0};
	else
		r = certs_take_step(&is, step, w, now, &next, e);
	certs_set_done(&is);
	if (r < 0)
		return r;
	if (step == CERTS_CA) {
		put_ca(&next, step, ret);
		certs_set_done(&next);
		return 0;
	}
	wipe(&next.ca_key);
	*ret = (struct certs_write){.step = step, .set = next};
	return 0;
}

const char *certs_describe_step(enum certs_step step)
{
	switch (step) {
	case CERTS_FINE: return "the last content is written again";
	case CERTS_ALL: return "a CA and a certificate are created";
	case CERTS_CA: return "a new CA is created";
	case CERTS_LEAF: return "a new certificate is created";
	case CERTS_PRUNE: return "an expired CA is no longer trusted";
	case CERTS_TRUST: return "a new CA is trusted in addition to the old CA";
	case CERTS_MOVE_KEY: return "the CA's key is moved to a Secret of its own";
	case CERTS_REMOVE_KEY: return "the CA's key is removed from the certificate's Secret";
	}
	return "";
}
