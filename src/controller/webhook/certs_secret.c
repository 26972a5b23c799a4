/* SPDX-License-Identifier: Apache-2.0 */
/* Watches, creates and renews the certificate's Secret. The CA's Secret is not watched: it is
 * read when a step may be due, and written when a CA is created or its key is moved. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "controller/webhook/internal.h"
#include "controller/webhook/secret.h"
#include "kube/kinds.h"
#include "kube/object.h"
#include "spec/annotations.h"

/*
 * Annotation of a Secret that cert-manager writes. unirail does not write such a Secret, because
 * cert-manager would overwrite it in turn.
 */
#define ISSUED "cert-manager.io/certificate-name"

/* CHECK_MAX_S: longest time between two checks of the certificate; after a change of the clock
 * it may be expired, or not valid yet. */
enum { CHECK_MAX_S = 300, FIRST_WAIT_MS = 500, MOST_WAIT_MS = 60 * 1000 };

/* --- watched Secret --- */

static int decode(void *value, const struct json *object, struct err *e)
{
	const struct json *annotations = kube_meta(object, "annotations");
	struct certs_secret *s = value;

	(void)e;
	s->managed = secret_is_managed(object) && !json_get(annotations, ISSUED);
	s->set = (struct certs_set){.ca = secret_text(object, "ca.crt"),
				    /* Only an earlier version of unirail wrote the CA's key to
				     * this Secret; the leader moves the key to the CA's Secret. */
				    .ca_key = s->managed ? secret_text(object, "ca.key") : NULL,
				    .cert = secret_text(object, "tls.crt"),
				    .key = secret_text(object, "tls.key"),
				    .ca_since = secret_since(object, ANNOTATION_CA_SINCE)};
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

/* --- write of the Secrets --- */

static void schedule_in(struct certs *c, int64_t ms)
{
	loop_alarm_set(&c->timer, ms);
}

/* Stores the resourceVersion that a write of this replica returned (object NULL: forgets it).
 * While the watch shows an older version, the watch lags. */
static void store_version(struct certs *c, const struct json *object)
{
	const char *version = object ? kube_meta_string(object, "resourceVersion") : NULL;

	free(c->version);
	c->version = version ? xstrdup(version) : NULL;
}

/* After an etcd restore the watch never delivers the version that this process wrote. */
static void on_etcd_restored(void *arg)
{
	store_version(arg, NULL);
	schedule_in(arg, 0);
}

/* Stores and logs an error, and schedules the next attempt. */
static void failed(struct certs *c, const char *what, const struct err *e)
{
	c->sync_error = *e;
	log_error(what, LOG_S("error", c->sync_error.text));
	schedule_in(c, backoff_next(&c->backoff));
}

static const char *written_name(const struct certs *c)
{
	return c->to_ca ? c->conf.ca_secret : c->conf.secret;
}

static void on_written(void *arg, int status, const struct json *object, const struct err *e)
{
	struct certs *c = arg;
	struct err cause;

	c->call = NULL;
	/* -EEXIST and -ESTALE are not errors: another replica wrote first. The watch
	 * (certificate's Secret) or the next read (CA's Secret) delivers what that replica
	 * wrote. */
	if (!e || e->code == -EEXIST || e->code == -ESTALE) {
		if (!e && !c->to_ca)
			store_version(c, object);
		if (!e)
			log_info("Secret written", LOG_S("name", written_name(c)),
				 LOG_S("what", certs_describe_step(c->doing)),
				 LOG_I("status", status));
		backoff_reset(&c->backoff);
		schedule_in(c, 0);
		return;
	}
	cause = *e;
	if (status == 403 && c->creates)
		secret_explain_missing(&cause, "Secret", c->conf.ns, written_name(c));
	failed(c, "failed to store the webhooks' certificate or its CA", &cause);
}

static void write_secret(struct certs *c, const struct certs_set *s, const char *version)
{
	const struct secret_item items[] = {{.key = "ca.crt", .text = s->ca},
					    {.key = "ca.key", .remove = version != NULL},
					    {.key = "tls.crt", .text = s->cert},
					    {.key = "tls.key", .text = s->key}};
	const struct secret_write w = {.ns = c->conf.ns,
				       .name = c->conf.secret,
				       .type = "kubernetes.io/tls",
				       .version = version,
				       .since_name = ANNOTATION_CA_SINCE,
				       .since = s->ca_since,
				       .items = items,
				       .n_items = ARRAY_LEN(items)};

	c->to_ca = false;
	c->creates = !version;
	c->call = secret_write(c->conf.kube, &w, on_written, c);
}

static void write_ca(struct certs *c, const struct certs_set *s, const char *version)
{
	const struct secret_item items[] = {{.key = "ca.crt", .text = s->ca},
					    {.key = "ca.key", .text = s->ca_key}};
	const struct secret_write w = {.ns = c->conf.ns,
				       .name = c->conf.ca_secret,
				       .version = version,
				       .items = items,
				       .n_items = ARRAY_LEN(items)};

	c->to_ca = true;
	c->creates = !version;
	c->call = secret_write(c->conf.kube, &w, on_written, c);
}

/* --- conditions of a step --- */

/* Returns whether the watch has not delivered our last write yet. */
static bool is_behind(const struct certs *c, const struct kube_object *o)
{
	return c->version && (!o || kube_version_older(o->version, c->version));
}

/*
 * Any replica creates a missing Secret if it serves no certificate yet. The leader renews an
 * existing Secret if it is unirail's own.
 */
static bool may_renew(const struct certs *c, const struct kube_object *o)
{
	if (is_behind(c, o))
		return false;
	return o ? c->leads && ((const struct certs_secret *)o->value)->managed : !c->tls;
}

static const struct certs_set *set_of(const struct kube_object *o)
{
	static const struct certs_set none;

	return o ? &((const struct certs_secret *)o->value)->set : &none;
}

static bool is_trusted(const struct certs *c, const struct certs_set *s)
{
	return s->ca && c->conf.trusted(c->conf.arg, s->ca);
}

/* --- steps that need the CA's key --- */

struct stored_ca {
	struct certs_set set;
	bool managed;
	const char *version; /* resourceVersion of the Secret; NULL: the Secret does not exist */
};

static void carry_out(struct certs *c, const struct certs_write *w, const struct stored_ca *ca,
		      const struct kube_object *o)
{
	struct err e = ERR_INIT;

	c->doing = w->step;
	if (w->step == CERTS_FINE) {
		schedule_in(c, backoff_next(&c->backoff));
	} else if (!w->to_ca) {
		write_secret(c, &w->set, o ? o->version : NULL);
	} else if (!ca->version || ca->managed) {
		write_ca(c, &w->set, ca->version);
	} else {
		err_kind(&e, ERR_CONF, -EPERM,
			 "Secret '%s/%s' is named as Secret of the webhooks' CA but not managed by "
			 "the controller: label it " LABEL_MANAGED_BY "=unirail-controller, "
			 "or name another in webhook-ca-secret",
			 c->conf.ns, c->conf.ca_secret);
		failed(c, "failed to store the webhooks' certificate or its CA", &e);
	}
}

static void renew(struct certs *c, const struct stored_ca *ca)
{
	const struct kube_object *o = there(c);
	const struct certs_set *is = set_of(o);
	struct certs_write w;
	struct err e = ERR_INIT;

	if (!may_renew(c, o)) {
		schedule_in(c, 0);
		return;
	}
	if (certs_next(is, &ca->set, &c->conf.request, now_real_ms() / 1000, is_trusted(c, is), &w,
		       &e) < 0) {
		failed(c, "failed to create a certificate", &e);
		return;
	}
	carry_out(c, &w, ca, o);
	certs_set_done(&w.set);
}

static void on_ca(void *arg, int status, const struct json *object, const struct err *e)
{
	struct certs *c = arg;
	struct stored_ca ca = {0};
	struct err cause;

	c->call = NULL;
	if (e && status != 404) {
		cause = *e;
		if (status == 403)
			err_wrap(
				&cause, cause.code,
				"the controller's account may not read the CA's Secret '%s/%s', kubectl apply -f "
				"deploy/controller.yaml allows it",
				c->conf.ns, c->conf.ca_secret);
		failed(c, "failed to read the CA of the webhooks' certificate", &cause);
		return;
	}
	if (!e) {
		ca.set.ca = secret_text(object, "ca.crt");
		ca.set.ca_key = secret_text(object, "ca.key");
		ca.managed = secret_is_managed(object);
		ca.version = kube_meta_string(object, "resourceVersion");
	}
	renew(c, &ca);
	certs_set_done(&ca.set);
}

static void read_ca(struct certs *c)
{
	const struct kube_request r = {.verb = KUBE_GET,
				       .on = {&kube_secrets, c->conf.ns, c->conf.ca_secret, NULL}};

	c->call = kube_send(c->conf.kube, &r, on_ca, c);
}

/* --- steps without the CA's key --- */

/* Recreates the deleted Secret with its last content if unirail manages the Secret; otherwise
 * only logs the deletion. */
static void write_again(struct certs *c)
{
	if (!c->managed) {
		log_warn("the Secret of the webhooks' certificate was deleted: its last content is "
			 "served",
			 LOG_S("name", c->conf.secret));
		return;
	}
	c->doing = CERTS_FINE;
	write_secret(c, &c->set, NULL);
}

void certs_secret_check(void *arg)
{
	struct certs *c = arg;
	const struct kube_object *o;
	int64_t now = now_real_ms() / 1000, wake;

	if (!c->informer || c->call || !kube_informer_synced(c->informer))
		return;
	o = there(c);
	if (!o && c->tls && !is_behind(c, o))
		write_again(c);
	else if (!may_renew(c, o))
		return;
	else if (certs_is_due(set_of(o), &c->conf.request, now, is_trusted(c, set_of(o)), &wake))
		read_ca(c);
	else
		schedule_in(c, (wake - now > CHECK_MAX_S ? CHECK_MAX_S : wake - now) * 1000 + 1);
}

/* --- changes of the watched Secret --- */

static void on_changed(void *arg, const struct kube_object *was, const struct kube_object *is)
{
	struct certs *c = arg;

	(void)was;
	if (!is)
		store_version(c, NULL);
	if (is) {
		const struct certs_secret *s = is->value;
		auto_free char *where = xasprintf("Secret '%s/%s'", c->conf.ns, c->conf.secret);

		c->managed = s->managed;
		/* Ignores a managed Secret without content: the manifest creates the Secret
		 * empty, and the leader fills it. */
		if (!s->managed || s->set.ca || s->set.cert || s->set.key)
			certs_adopt(c, &s->set, where);
	}
	/* The check runs in the next turn of the loop; after a deletion it is delayed by a
	 * random time, because all replicas notice the deletion at the same time. */
	if (kube_informer_synced(c->informer))
		schedule_in(c, is ? 0 : jitter_ms(0, FIRST_WAIT_MS));
}

static void on_synced(void *arg)
{
	schedule_in(arg, 0);
}

void certs_secret_start(struct certs *c)
{
	auto_free char *only = xasprintf("metadata.name=%s", c->conf.secret);

	c->backoff = (struct backoff){.base = FIRST_WAIT_MS, .most = MOST_WAIT_MS};
	c->informer = kube_informer_new(
		c->conf.kube,
		&(struct kube_informer_conf){.kind = &kube_secrets,
					     .select = {.ns = c->conf.ns, .fields = only},
					     .size = sizeof(struct certs_secret),
					     .decode = decode,
					     .drop = drop,
					     .changed = on_changed,
					     .synced = on_synced,
					     .etcd_restored = on_etcd_restored,
					     .arg = c});
}

void certs_secret_stop(struct certs *c)
{
	kube_cancel(c->call);
	c->call = NULL;
	kube_informer_free(c->informer);
	store_version(c, NULL);
	c->informer = NULL;
}
