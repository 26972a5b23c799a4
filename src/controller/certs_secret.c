/* SPDX-License-Identifier: Apache-2.0 */
/* The Secret: watched, made, renewed. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "controller/certs_priv.h"
#include "controller/secret.h"

#define CA_SINCE "unirail.io/ca-since"
/* Who writes it as well: its certificates are not to be replaced in turns. */
#define ISSUED "cert-manager.io/certificate-name"

/* LOOK_MAX_S: a clock that was set may have made what is there too young, or too old. */
enum { LOOK_MAX_S = 300, FIRST_WAIT_MS = 500, MOST_WAIT_MS = 60 * 1000 };

/* --- as it is there --- */

static int decode(void *value, const struct json *object, struct err *e)
{
	const struct json *annotations = json_get(json_get(object, "metadata"), "annotations");
	struct certs_secret *s = value;

	(void)e;
	s->ours = secret_is_ours(object) && !json_get(annotations, ISSUED);
	s->set = (struct certs_set){.ca = secret_text(object, "ca.crt"),
				    .ca_key = secret_text(object, "ca.key"),
				    .cert = secret_text(object, "tls.crt"),
				    .key = secret_text(object, "tls.key"),
				    .ca_since = secret_since(object, CA_SINCE)};
	return 0;
}

static void drop(void *value)
{
	certs_set_done(&((struct certs_secret *)value)->set);
}

static const struct kube_object *there(const struct certs *c)
{
	return kube_informer_get(c->informer, c->conf.ns, c->conf.secret);
}

/* --- as it is to be --- */

static void look_in(struct certs *c, int64_t ms);

/* What is older was before our write. */
static void note_version(struct certs *c, const struct json *object)
{
	const char *version =
		object ? json_string(json_get(json_get(object, "metadata"), "resourceVersion"))
		       : NULL;

	free(c->version);
	c->version = version ? xstrdup(version) : NULL;
}

/* etcd's data are from an earlier time: ours will not come. */
static void on_set_back(void *arg)
{
	note_version(arg, NULL);
	look_in(arg, 0);
}

static void on_written(void *arg, int status, const struct json *object, const struct err *e)
{
	struct certs *c = arg;

	c->call = NULL;
	look_in(c, 0);
	/* Somebody else was first: the watch brings what that made. */
	if (!e || e->code == -EEXIST || e->code == -ESTALE) {
		if (!e)
			note_version(c, object);
		if (!e)
			log_info("Secret written", LOG_S("name", c->conf.secret),
				 LOG_S("what", certs_step_words(c->doing)),
				 LOG_I("status", status));
		kube_backoff_reset(&c->backoff);
		return;
	}
	c->trouble = *e;
	if (status == 403 && !there(c))
		secret_explain_missing(&c->trouble, "Secret", c->conf.ns, c->conf.secret);
	log_error("failed to store the webhooks' certificate", LOG_S("error", c->trouble.text));
	look_in(c, kube_backoff_next(&c->backoff));
}

static void write_secret(struct certs *c, const struct certs_set *s, const char *version)
{
	const struct secret_item items[] = {{.key = "ca.crt", .text = s->ca},
					    {.key = "ca.key", .text = s->ca_key},
					    {.key = "tls.crt", .text = s->cert},
					    {.key = "tls.key", .text = s->key}};
	const struct secret_write w = {.ns = c->conf.ns,
				       .name = c->conf.secret,
				       .type = "kubernetes.io/tls",
				       .version = version,
				       .since_name = CA_SINCE,
				       .since = s->ca_since,
				       .items = items,
				       .n_items = ARRAY_LEN(items)};

	c->call = secret_write(c->conf.kube, &w, on_written, c);
}

static void take_step(struct certs *c, const struct certs_set *is, enum certs_step step,
		      const char *version)
{
	struct certs_set s = {0};
	struct err e = ERR_INIT;

	c->doing = step;
	if (certs_take_step(is, step, &c->conf.wish, now_real_ms() / 1000, &s, &e) < 0) {
		log_error("make a certificate", LOG_S("error", e.text));
		look_in(c, kube_backoff_next(&c->backoff));
		return;
	}
	write_secret(c, &s, version);
	certs_set_done(&s);
}

/* --- when --- */

static void on_time(void *arg)
{
	struct certs *c = arg;

	c->timer = NULL;
	certs_secret_look(c);
}

static void look_in(struct certs *c, int64_t ms)
{
	loop_del_timer(c->timer);
	c->timer = loop_add_timer(c->loop, ms, on_time, c);
}

/* What is not there: as it was, when it was ours; else new, when there was none. */
static void make(struct certs *c)
{
	if (c->tls && !c->ours) {
		log_warn("the Secret of the webhooks' certificate is gone: what was in it goes on "
			 "being served",
			 LOG_S("name", c->conf.secret));
		return;
	}
	c->doing = CERTS_FINE;
	if (c->tls)
		write_secret(c, &c->set, NULL);
	else
		take_step(c, &(struct certs_set){0}, CERTS_ALL, NULL);
}

static void renew(struct certs *c, const struct kube_object *o)
{
	const struct certs_secret *s = o->value;
	int64_t now = now_real_ms() / 1000, wake;
	bool trusted = s->set.ca && c->conf.trusted(c->conf.arg, s->set.ca);
	enum certs_step step = certs_step(&s->set, &c->conf.wish, now, trusted, &wake);

	if (step != CERTS_FINE)
		take_step(c, &s->set, step, o->version);
	else
		look_in(c, (wake - now > LOOK_MAX_S ? LOOK_MAX_S : wake - now) * 1000 + 1);
}

void certs_secret_look(struct certs *c)
{
	const struct kube_object *o;

	if (!c->informer || c->call || !kube_informer_synced(c->informer))
		return;
	o = there(c);
	/* What we wrote is on its way here. */
	if (c->version && (!o || kube_version_older(o->version, c->version)))
		return;
	if (!o)
		make(c);
	else if (c->leads && ((const struct certs_secret *)o->value)->ours)
		renew(c, o);
}

/* --- changes --- */

static void on_changed(void *arg, const struct kube_object *was, const struct kube_object *is)
{
	struct certs *c = arg;

	(void)was;
	if (!is)
		note_version(c, NULL);
	if (is) {
		const struct certs_secret *s = is->value;
		auto_free char *where = xasprintf("Secret '%s/%s'", c->conf.ns, c->conf.secret);

		c->ours = s->ours;
		/* An empty one of ours, as the manifest creates it, is written soon. */
		if (!s->ours || s->set.ca || s->set.cert || s->set.key)
			certs_adopt(c, &s->set, where);
	}
	/* Not from within: the informer has it when this returns. All replicas see it at once. */
	if (kube_informer_synced(c->informer))
		look_in(c, is ? 0 : kube_jitter(0, FIRST_WAIT_MS));
}

static void on_synced(void *arg)
{
	look_in(arg, 0);
}

void certs_secret_start(struct certs *c)
{
	auto_free char *only = xasprintf("metadata.name=%s", c->conf.secret);

	c->backoff = (struct kube_backoff){.base = FIRST_WAIT_MS, .most = MOST_WAIT_MS};
	c->informer = kube_informer_new(
		c->conf.kube,
		&(struct kube_informer_conf){.kind = &secret_kind,
					     .select = {.ns = c->conf.ns, .fields = only},
					     .size = sizeof(struct certs_secret),
					     .decode = decode,
					     .drop = drop,
					     .changed = on_changed,
					     .synced = on_synced,
					     .set_back = on_set_back,
					     .arg = c});
}

void certs_secret_stop(struct certs *c)
{
	kube_cancel(c->call);
	c->call = NULL;
	kube_informer_free(c->informer);
	note_version(c, NULL);
	c->informer = NULL;
}
