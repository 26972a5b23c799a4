/* SPDX-License-Identifier: Apache-2.0 */
#include "controller/webhooks.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/log.h"
#include "controller/admission/webhook.h"
#include "controller/injection/webhook.h"
#include "controller/registration/registration.h"
#include "controller/registration/tokenless.h"
#include "controller/registration/match_condition.h"
#include "controller/webhook/certs.h"
#include "controller/webhook/dispatch.h"
#include "controller/webhook/tokens.h"
#include "server/daemon.h"
#include "server/health.h"
#include "server/prometheus.h"
#include "wire/tls/x509.h"

/* CONNS_MAX: over HTTP/1.1 each review in flight needs its own connection, and an API server has
 * up to 600 requests in flight. */
enum {
	CONNS_MAX = 2000,
	FD_RESERVE = 64 + PORTS_FDS_MAX,
	BODIES_MAX = 48 << 20, /* bytes of all reviews together */
	/* bytes per second; at a lower rate the API server would time out before the end of the
	 * body */
	BODY_RATE = 64 << 10,
	/* time limit for the TLS handshake and for the first request, long because a handshake
	 * waits until those of other clients are computed; slow clients are evicted earlier if
	 * connections run out */
	FIRST_MS = 30 * 1000,
	IDLE_MS = 150 * 1000, /* longer than the API server keeps an idle connection (90 s) */
	DRAIN_MS = 12 * 1000, /* longer than the API server waits for a reply */
	NAMES_MAX = 24,
	CLIENT_CA_MAX = 256 << 10,
};

struct webhooks {
	struct webhooks_conf conf;
	struct controller_conf first; /* settings that require a restart */
	struct loop *loop;
	int fd;
	struct http_server *server; /* HTTPS server; NULL: no certificate or no token yet */
	struct reviews *reviews;
	struct review_route *routes;
	struct admit_webhook *admit;
	struct inject_webhook *inject;
	struct certs *certs;
	struct tokens *tokens;
	struct tokenless *bare;
	char *client_ca;	/* PEM; NULL: none */
	char *names[NAMES_MAX]; /* names of the controller in the certificate */
	size_t n_names;
	struct inject_scope scope;
	char *exclude;
	/* leader only */
	bool leads;
	struct registration *registration;
	struct match_condition *match_condition;
	/* changes that earlier registrations reverted; `registration` counts its own */
	uint64_t restored;
	struct loop_timer *linger;
	void (*drained)(void *arg);
	void *drained_arg;
};

static bool serves(const struct webhooks *w)
{
	return w->server;
}

/* --- names in the certificate --- */

static void add_name(struct webhooks *w, char *name)
{
	if (w->n_names < NAMES_MAX && *name)
		w->names[w->n_names++] = name;
	else
		free(name);
}

/* Returns the host of "https://host:port". */
static struct span host_of(const char *url)
{
	struct span rest = span_of(url + strlen("https://"));
	size_t n = 0;

	if (rest.n && *rest.p == '[') {
		const char *end = memchr(rest.p, ']', rest.n);

		return (struct span){rest.p + 1, end ? (size_t)(end - rest.p) - 1 : 0};
	}
	while (n < rest.n && !strchr(":/", rest.p[n]))
		n++;
	return (struct span){rest.p, n};
}

static void name_it(struct webhooks *w)
{
	const struct controller_conf *c = &w->first;
	struct span rest = span_of(c->webhook_names), name;

	add_name(w, xasprintf("%s.%s.svc", c->webhook_service, c->ns));
	add_name(w, xasprintf("%s.%s", c->webhook_service, c->ns));
	add_name(w, xasprintf("%s.%s.svc.%s", c->webhook_service, c->ns, c->cluster_domain));
	if (c->webhook_url)
		add_name(w, span_dup(host_of(c->webhook_url)));
	while (c->webhook_names && span_cut(&rest, ',', &name))
		add_name(w, span_dup(span_trim(name)));
}

/* --- registration at the API server --- */

static struct registration_form form_of(const struct webhooks *w)
{
	const struct controller_conf *c = w->conf.conf;

	return (struct registration_form){
		.url = w->first.webhook_url,
		.ns = w->first.ns,
		.service = w->first.webhook_service,
		.port = (int)w->first.webhook_port,
		.token = tokens_current(w->tokens),
		.ca = certs_ca(w->certs),
		.scope = &w->scope,
		.pods = c->inject,
		.pods_fail_closed = !strcmp(c->pod_failure, "Fail"),
		.condition = w->match_condition ? match_condition_text(w->match_condition) : NULL};
}

static void register_again(void *arg)
{
	struct webhooks *w = arg;
	const struct registration_form f = form_of(w);

	if (w->registration)
		registration_update(w->registration, &f);
}

static void start_registration(struct webhooks *w)
{
	if (!w->leads || !serves(w) || w->registration)
		return;
	w->match_condition = match_condition_new(w->loop, w->conf.cache, register_again, w);
	w->registration = registration_new(&(struct registration_conf){w->conf.kube, form_of(w)});
}

void webhooks_lead(struct webhooks *w, bool leads)
{
	w->leads = leads;
	if (!leads) {
		w->restored += w->registration ? registration_restored(w->registration) : 0;
		registration_free(w->registration);
		match_condition_free(w->match_condition);
		w->registration = NULL;
		w->match_condition = NULL;
	}
	start_registration(w);
	certs_lead(w->certs, leads);
	tokens_lead(w->tokens, leads);
}

/* --- certificate and HTTPS server --- */

static bool is_trusted(void *arg, const char *ca)
{
	const struct webhooks *w = arg;

	return w->registration && registration_trusts(w->registration, ca);
}

static int open_server(struct webhooks *w, struct err *e)
{
	struct http_limits limits = HTTP_LIMITS_INIT;
	int conns = daemon_connections(CONNS_MAX, FD_RESERVE, e);

	if (conns < 0)
		return conns;
	limits.anyone = true;
	limits.max_conns = conns;
	limits.body_max = REVIEW_MAX;
	limits.bodies_max = BODIES_MAX;
	limits.idle_ms = IDLE_MS;
	limits.body_rate = BODY_RATE;
	limits.first_ms = FIRST_MS;
	limits.secret = true;
	conns = http_server_new(&w->server, w->loop, w->fd, &limits, reviews_handle, w->reviews, e);
	if (conns == 0)
		http_server_check(w->server, reviews_check);
	return conns;
}

static bool have_registered(void *arg, const char *token)
{
	const struct webhooks *w = arg;

	return w->registration && registration_has(w->registration, token);
}

static bool accept_path(void *arg, struct span *path)
{
	const struct webhooks *w = arg;

	return tokens_accept(w->tokens, path) || tokenless_accept(w->bare, *path);
}

/* Called when the certificate or the token has changed. */
static void on_certs(void *arg)
{
	struct webhooks *w = arg;
	struct err e = ERR_INIT;

	if (!certs_tls(w->certs) || !tokens_current(w->tokens))
		return;
	if (!w->server && open_server(w, &e) < 0) {
		log_error("cannot serve the webhooks", LOG_S("error", e.text));
		return;
	}
	http_server_use_tls(w->server, certs_tls(w->certs));
	start_registration(w);
	register_again(w);
}

static void start_certs(struct webhooks *w)
{
	const struct controller_conf *c = &w->first;

	w->tokens = tokens_new(&(struct tokens_conf){.kube = w->conf.kube,
						     .ns = c->ns,
						     .secret = c->webhook_token,
						     .life = c->token_life_ms / 1000,
						     .publish_s = c->ca_publish_ms / 1000,
						     .changed = on_certs,
						     .registered = have_registered,
						     .arg = w});
	w->bare = tokenless_new(w->conf.kube, c->ca_publish_ms / 1000);
	w->certs =
		certs_new(&(struct certs_conf){.kube = w->conf.kube,
					       .root = w->conf.root,
					       .ns = c->ns,
					       .secret = c->webhook_secret,
					       .ca_secret = c->webhook_ca_secret,
					       .cert_file = c->webhook_cert,
					       .key_file = c->webhook_key,
					       .ca_file = c->webhook_ca,
					       .client_ca = w->client_ca,
					       .request = {.name = REGISTRATION_NAME,
							   .names = (const char *const *)w->names,
							   .n_names = w->n_names,
							   .ca_life = c->ca_life_ms / 1000,
							   .life = c->cert_life_ms / 1000,
							   .publish_s = c->ca_publish_ms / 1000},
					       .changed = on_certs,
					       .trusted = is_trusted,
					       .arg = w});
}

/* --- handlers of reviews --- */

static struct review_route route_of(const struct webhooks *w, const struct webhook *h)
{
	static const review_webhook by[] = {[WEBHOOK_DEFAULT] = admit_webhook_default,
					    [WEBHOOK_CHECK] = admit_webhook_check,
					    [WEBHOOK_INJECT] = inject_webhook_review};

	return (struct review_route){
		.path = h->path,
		.group = h->group,
		.version = h->version,
		.kind = h->kind,
		.webhook = by[h->by],
		.trial = h->by == WEBHOOK_INJECT ? inject_webhook_try : admit_webhook_try,
		.arg = h->by == WEBHOOK_INJECT ? (void *)w->inject : (void *)w->admit};
}

/* Also excludes the controller's own namespace, whose pods must start while no replica replies. */
static void read_scope(struct webhooks *w)
{
	const struct controller_conf *c = w->conf.conf;

	free(w->exclude);
	w->exclude = xasprintf("%s%s%s", c->exclude ? c->exclude : "", c->exclude ? ", " : "",
			       w->first.ns);
	w->scope = (struct inject_scope){.include = c->include, .exclude = w->exclude};
}

static struct admit_webhook_conf admit_conf(const struct webhooks *w)
{
	const struct controller_conf *c = w->conf.conf;

	return (struct admit_webhook_conf){.kube = w->conf.kube,
					   .cache = w->conf.cache,
					   .ns = w->first.ns,
					   .no_ipv4 = !c->ipv4,
					   .no_ipv6 = !c->ipv6,
					   .protect_used = c->protect_used};
}

static void start_hosts(struct webhooks *w)
{
	const struct admit_webhook_conf admit = admit_conf(w);

	w->admit = admit_webhook_new(&admit);
	w->inject = inject_webhook_new(
		&(struct inject_webhook_conf){.loop = w->loop,
					      .cache = w->conf.cache,
					      .scope = w->scope,
					      .ipc_lock = w->conf.conf->ipc_lock});
	w->routes = xcalloc(registration_count, sizeof(*w->routes));
	for (size_t i = 0; i < registration_count; i++)
		w->routes[i] = route_of(w, &registration_table[i]);
	w->reviews = reviews_new(w->loop, w->routes, registration_count, accept_path, w);
}

void webhooks_settings(struct webhooks *w, const struct controller_conf *conf)
{
	struct admit_webhook_conf admit;

	w->conf.conf = conf;
	read_scope(w);
	admit = admit_conf(w);
	admit_webhook_settings(w->admit, &admit);
	inject_webhook_settings(w->inject, &w->scope, conf->ipc_lock);
	register_again(w);
}

/* --- creation and destruction --- */

static int read_client_ca(const struct webhooks_conf *c, char **ret, struct err *e)
{
	const char *path = c->conf->webhook_client_ca;
	auto_buf struct buf b;
	struct x509_facts f;
	int r;

	buf_init(&b, CLIENT_CA_MAX);
	if (!path)
		return 0;
	r = file_read(c->root, path, CLIENT_CA_MAX, &b, e);
	if (r == 0)
		r = x509_inspect(buf_span(&b), &f, e);
	if (r < 0)
		return err_wrap(e, r, "webhook-client-ca");
	*ret = buf_take(&b);
	return 0;
}

int webhooks_new(struct webhooks **ret, const struct webhooks_conf *c, struct err *e)
{
	auto_free char *client_ca = NULL;
	struct webhooks *w;
	int fd = read_client_ca(c, &client_ca, e);

	if (fd == 0)
		fd = ports_listen(c->conf->listen, (int)c->conf->webhook_port, "webhook-port", e);
	if (fd < 0)
		return fd;
	w = xcalloc(1, sizeof(*w));
	*w = (struct webhooks){.conf = *c,
			       .first = *c->conf,
			       .loop = kube_loop(c->kube),
			       .fd = fd,
			       .client_ca = take(client_ca)};
	read_scope(w);
	name_it(w);
	start_hosts(w);
	start_certs(w);
	*ret = w;
	return 0;
}

void webhooks_free(struct webhooks *w)
{
	if (!w)
		return;
	webhooks_lead(w, false);
	loop_del_timer(w->linger);
	inject_webhook_free(w->inject);
	admit_webhook_free(w->admit);
	reviews_free(w->reviews);
	http_server_free(w->server);
	certs_free(w->certs);
	tokens_free(w->tokens);
	tokenless_free(w->bare);
	cleanup_fd(&w->fd);
	free(w->routes);
	free(w->exclude);
	free(w->client_ca);
	for (size_t i = 0; i < w->n_names; i++)
		free(w->names[i]);
	free(w);
}

static void on_lingered(void *arg)
{
	struct webhooks *w = arg;

	w->linger = NULL;
	http_server_drain(w->server, DRAIN_MS, w->drained, w->drained_arg);
}

void webhooks_drain(struct webhooks *w, void (*done)(void *arg), void *arg)
{
	if (!serves(w)) {
		done(arg);
		return;
	}
	w->drained = done;
	w->drained_arg = arg;
	http_server_reject(w->server);
	w->linger = loop_add_timer(w->loop, w->first.linger_ms, on_lingered, w);
}

bool webhooks_inject(const struct webhooks *w, const char *ns)
{
	return w->conf.conf->inject && inject_in_scope(&w->scope, ns);
}

const char *webhooks_namespace(const struct webhooks *w)
{
	return w->first.ns;
}

int webhooks_registered(const struct webhooks *w, struct err *e)
{
	const char *missing = w->registration ? registration_missing(w->registration) : NULL;

	if (!w->leads || (w->registration && registration_complete(w->registration)))
		return 0;
	if (missing)
		return err_kind(e, ERR_AGAIN, -EAGAIN,
				"the %s '" REGISTRATION_NAME
				"' is missing and this account may not create it: kubectl apply -f "
				"deploy/controller.yaml",
				missing);
	return err_kind(e, ERR_AGAIN, -EAGAIN,
			"the webhooks are not registered at the API server yet");
}

int webhooks_ready(struct webhooks *w, struct err *e)
{
	if (serves(w))
		return 0;
	if (tokens_sync_error(w->tokens, e) < 0)
		return tokens_sync_error(w->tokens, NULL);
	return certs_sync_error(w->certs, e);
}

void webhooks_metrics(struct webhooks *w, struct buf *b)
{
	sample_gauge(b, "unirail_controller_certificate_end_seconds", certs_end(w->certs),
		     "Expiry of the webhooks' certificate, seconds since the epoch.");
	sample_gauge(b, "unirail_controller_certificate_error",
		     certs_sync_error(w->certs, NULL) != 0,
		     "1 if the webhooks' certificate was not read yet, or its last read, check or "
		     "write failed, otherwise 0.");
	sample_counter(b, "unirail_controller_webhooks_restored_total",
		       w->restored + (w->registration ? registration_restored(w->registration) : 0),
		       "Changes of the webhook configurations by other programs, each of which was "
		       "reverted.");
	reviews_metrics(w->reviews, b);
}
