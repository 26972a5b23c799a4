/* SPDX-License-Identifier: Apache-2.0 */
/* What is served, and files that it comes from. */
#include "controller/webhook/certs.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "controller/webhook/certs_priv.h"
#include "wire/tls/x509.h"

enum { FILES_MS = 10 * 1000, FILE_MAX = 256 << 10 };

/* --- what is there --- */

static char *copy(const char *s)
{
	return s ? xstrdup(s) : NULL;
}

static bool same(const char *a, const char *b)
{
	return a && b ? !strcmp(a, b) : a == b;
}

static void keep(struct certs *c, const struct certs_set *s)
{
	struct certs_set was = c->set;

	c->set = (struct certs_set){.ca = copy(s->ca),
				    .cert = copy(s->cert),
				    .key = copy(s->key),
				    .ca_since = s->ca_since};
	certs_set_done(&was);
}

/* Each text once. */
static void in_trouble(struct certs *c, const char *where, const struct err *e)
{
	struct err t = *e;

	err_wrap(&t, t.code, "the webhooks' certificate in %s", where);
	if (strcmp(c->trouble.text, t.text))
		log_error(c->tls ? "the certificate that is served stays"
				 : "no certificate to serve",
			  LOG_S("error", t.text));
	c->trouble = t;
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
		in_trouble(c, where, &e);
		return;
	}
	keep(c, s);
	if (x509_look(span_of(s->cert), &f, NULL) == 0)
		c->end = f.to;
	/* It is served all the same: nothing is better, and who trusts another CA may take it. */
	if (certs_believed(s, c->conf.wish.names[0], &e) < 0)
		in_trouble(c, where, &e);
	else
		err_clear(&c->trouble);
	if (first || swapped)
		log_info("certificate", LOG_S("from", where), LOG_I("until", c->end));
	c->conf.changed(c->conf.arg);
}

void certs_adopt(struct certs *c, const struct certs_set *s, const char *where)
{
	bool there = c->tls && !c->trouble.code;

	if (there && same(c->set.cert, s->cert) && same(c->set.key, s->key) &&
	    same(c->set.ca, s->ca)) {
		keep(c, s);
		return;
	}
	serve(c, s, where);
}

/* --- files --- */

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

static void look_at_files(void *arg)
{
	struct certs *c = arg;
	struct certs_set s = {0};
	struct err e = ERR_INIT;

	c->timer = loop_add_timer(c->loop, FILES_MS, look_at_files, c);
	if (read_files(c, &s, &e) < 0)
		in_trouble(c, "files", &e);
	else
		certs_adopt(c, &s, c->conf.cert_file);
	certs_set_done(&s);
}

/* --- life --- */

struct certs *certs_new(const struct certs_conf *conf)
{
	struct certs *c = xcalloc(1, sizeof(*c));

	c->conf = *conf;
	c->loop = kube_loop(conf->kube);
	err_set(&c->trouble, -EAGAIN, "the webhooks' certificate has not been read yet");
	c->trouble.kind = ERR_AGAIN;
	if (conf->cert_file)
		c->timer = loop_add_timer(c->loop, 0, look_at_files, c);
	else
		certs_secret_start(c);
	return c;
}

void certs_free(struct certs *c)
{
	if (!c)
		return;
	certs_secret_stop(c);
	loop_del_timer(c->timer);
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

int certs_trouble(const struct certs *c, struct err *e)
{
	if (c->trouble.code && e)
		*e = c->trouble;
	return c->trouble.code;
}

void certs_lead(struct certs *c, bool leads)
{
	c->leads = leads;
	if (leads && !c->conf.cert_file)
		certs_secret_look(c);
}
