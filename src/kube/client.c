/* SPDX-License-Identifier: Apache-2.0 */
/* The connection that requests go by; call.c has the requests. */
#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "kube/client_priv.h"

enum { CONNECT_MS = 15000, BACKOFF_MS = 200, BACKOFF_MAX_MS = 20000 };

static void pump(void *arg);

static void on_credentials(void *arg)
{
	kube_pump_soon(arg);
}

struct kube *kube_new(struct loop *l, const struct root *root, const struct kube_conf *c,
		      const struct kube_settings *s)
{
	struct kube *k = xcalloc(1, sizeof(*k));

	*k = (struct kube){
		.loop = l, .conf = c, .set = *s, .backoff = {BACKOFF_MS, BACKOFF_MAX_MS, 0}};
	if (!k->set.timeout_ms)
		k->set.timeout_ms = KUBE_TIMEOUT_MS;
	if (!k->set.agent)
		k->set.agent = "unirail";
	k->auth = kube_auth_new(l, root, c, on_credentials, k);
	return k;
}

static void conn_free(struct kube_conn *c)
{
	if (c)
		https_free(c->h);
	free(c);
}

void kube_free(struct kube *k)
{
	if (!k)
		return;
	kube_calls_drop(k);
	conn_free(k->conn);
	while (k->old) {
		struct kube_conn *c = k->old;

		k->old = c->next;
		conn_free(c);
	}
	loop_del_timer(k->pump);
	loop_del_timer(k->again);
	loop_del_timer(k->tidy);
	kube_auth_free(k->auth);
	free(k);
}

struct loop *kube_loop(const struct kube *k)
{
	return k->loop;
}

/* --- the connection's life --- */

static void on_ready(void *arg)
{
	struct kube_conn *c = arg;

	c->ready = true;
	if (c->k->trouble)
		log_info("kube: connected again");
	c->k->trouble = false;
	kube_pump_soon(c->k);
}

static void unlink_old(struct kube_conn *c)
{
	for (struct kube_conn **p = &c->k->old; *p; p = &(*p)->next)
		if (*p == c) {
			*p = c->next;
			return;
		}
}

static void note_trouble(struct kube *k, const struct err *e)
{
	if (!k->trouble && !k->set.impatient)
		log_warn("kube: no connection to the API server", LOG_S("error", e->text));
	k->trouble = true;
}

static void on_again(void *arg)
{
	struct kube *k = arg;

	k->again = NULL;
	pump(k);
}

static void wait_again(struct kube *k)
{
	if (!k->again)
		k->again = loop_add_timer(k->loop, kube_backoff_next(&k->backoff), on_again, k);
}

static void on_closed(void *arg, const struct err *e)
{
	struct kube_conn *c = arg;
	struct kube *k = c->k;
	struct err why = *e;
	bool ready = c->ready;

	if (c != k->conn) {
		unlink_old(c);
		conn_free(c);
		return;
	}
	k->conn = NULL;
	conn_free(c);
	/* Perhaps the CA or our certificate is a new one by now. */
	if (why.code == -EKEYREJECTED)
		kube_auth_rejected(k->auth);
	wait_again(k);
	if (ready)
		return;
	note_trouble(k, &why);
	kube_calls_no_connection(k, &why);
}

/* Less than a request has: the reason why there is no connection is known before its time is up. */
static int connect_ms(const struct kube *k)
{
	int most = k->set.timeout_ms - k->set.timeout_ms / 8;

	return CONNECT_MS < most ? CONNECT_MS : most;
}

static void open_conn(struct kube *k)
{
	static const struct https_ops ops = {on_ready, on_closed};
	const struct https_conf conf = {
		.host = k->conf->host,
		.port = k->conf->port,
		.tls_name = k->conf->tls_name,
		.tls = kube_auth_tls(k->auth),
		.connect_ms = connect_ms(k),
	};
	struct kube_conn *c = xcalloc(1, sizeof(*c));

	c->k = k;
	c->generation = kube_auth_generation(k->auth);
	c->h = https_open(k->loop, &conf, &ops, c);
	k->conn = c;
}

/* No new requests by this one; what it carries goes on. */
static void retire(struct kube *k)
{
	struct kube_conn *c = k->conn;

	k->conn = NULL;
	c->next = k->old;
	k->old = c;
	kube_tidy_soon(k);
}

static void on_tidy(void *arg)
{
	struct kube *k = arg;
	struct kube_conn *c, *next;

	k->tidy = NULL;
	for (c = k->old; c; c = next) {
		next = c->next;
		if (https_streams(c->h))
			continue;
		unlink_old(c);
		conn_free(c);
	}
}

void kube_tidy_soon(struct kube *k)
{
	if (k->old && !k->tidy)
		k->tidy = loop_add_timer(k->loop, 0, on_tidy, k);
}

/* --- what next? --- */

static bool have_credentials(struct kube *k)
{
	struct err e = ERR_INIT;
	int r = kube_auth_refresh(k->auth, &e);

	if (r >= 0)
		return r > 0;
	err_wrap(&e, r, "kube");
	note_trouble(k, &e);
	wait_again(k);
	kube_calls_no_connection(k, &e);
	return false;
}

static void pump(void *arg)
{
	struct kube *k = arg;

	if (!kube_calls_wait(k) || k->again || !have_credentials(k))
		return;
	if (k->conn && (k->conn->generation != kube_auth_generation(k->auth) ||
			(k->conn->ready && !https_takes_requests(k->conn->h))))
		retire(k);
	if (!k->conn)
		open_conn(k);
	else if (k->conn->ready)
		kube_calls_submit(k);
}

static void on_pump(void *arg)
{
	struct kube *k = arg;

	k->pump = NULL;
	pump(k);
}

void kube_pump_soon(struct kube *k)
{
	if (!k->pump)
		k->pump = loop_add_timer(k->loop, 0, on_pump, k);
}
