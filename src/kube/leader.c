/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/leader.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/backoff.h"
#include "base/log.h"
#include "kube/kinds.h"
#include "kube/object.h"
#include "kube/time.h"

enum { BODY_MAX = 8 << 10, ERROR_MAX = 256 };

struct kube_lease {
	struct kube *k;
	struct loop *loop;
	struct kube_lease_conf c;
	char *ns, *name, *id;
	/* last state seen at the server */
	char *holder, *version;
	int64_t transitions, seen_at, silent_ms;
	bool known;    /* `version` is the current one, so a write may use it */
	bool creating; /* the write under way is a create */
	/* state of this process */
	bool held;
	int64_t requested_at;
	struct kube_call *call;
	struct loop_alarm retry, deadline;
	void (*released)(void *arg);
	void *released_arg;
	char logged[ERROR_MAX];
};

static void try(struct kube_lease *l);

static void on_retry(void *arg)
{
	struct kube_lease *l = arg;

	if (l->released)
		l->released(l->released_arg);
	else
		try(l);
}

static void try_later(struct kube_lease *l)
{
	loop_alarm_within(&l->retry, jitter_ms(l->c.retry_ms, l->c.retry_ms * 6 / 5));
}

static void log_failure(struct kube_lease *l, const struct err *e)
{
	if (strncmp(l->logged, e->text, ERROR_MAX - 1) == 0)
		return;
	str_copy(l->logged, sizeof(l->logged), e->text);
	log_warn("kube: failed to acquire, renew or release the lease", LOG_S("error", e->text));
}

/* --- gaining and losing the lease --- */

static void on_deadline(void *arg)
{
	struct kube_lease *l = arg;
	struct err e = ERR_INIT;

	l->held = false;
	err_kind(&e, ERR_AGAIN, -ETIMEDOUT, "lease '%s/%s' could not be renewed for %d ms%s%s",
		 l->ns, l->name, l->c.renew_ms, l->logged[0] ? ": " : "", l->logged);
	l->c.lost(l->c.arg, &e);
}

static void renewed(struct kube_lease *l)
{
	int64_t left = l->requested_at + l->c.renew_ms - loop_now_ms(l->loop);

	/* Does not take the leadership by an answer that arrived after the renewal deadline. */
	if (left <= 0 && !l->held)
		return;
	l->logged[0] = '\0';
	loop_alarm_set(&l->deadline, left);
	if (l->held)
		return;
	l->held = true;
	l->c.gained(l->c.arg);
}

static void lose(struct kube_lease *l)
{
	struct err e = ERR_INIT;

	if (!l->held)
		return;
	l->held = false;
	loop_alarm_cancel(&l->deadline);
	err_set(&e, -ESTALE, "lease '%s/%s' was acquired by '%s'", l->ns, l->name, l->holder);
	l->c.lost(l->c.arg, &e);
}

/* --- state of the Lease at the server --- */

static void replace(char **to, const char *with)
{
	char *copy = xstrdup(with ? with : "");

	free(*to);
	*to = copy;
}

static void take_lease(struct kube_lease *l, const struct json *lease)
{
	const struct json *spec = json_get(lease, "spec");
	const char *version = kube_meta_string(lease, "resourceVersion");

	if (json_int(json_get(spec, "leaseTransitions"), &l->transitions) < 0)
		l->transitions = 0;
	if (!l->version || !version || strcmp(l->version, version))
		l->seen_at = loop_now_ms(l->loop);
	replace(&l->version, version);
	replace(&l->holder, json_string(json_get(spec, "holderIdentity")));
	l->known = version;
}

/* --- write of the Lease --- */

static void put_spec(struct kube_lease *l, struct json_out *o, bool taken)
{
	char now[KUBE_TIME_MAX];
	bool changes = strcmp(l->holder, l->id) != 0;

	kube_micro_time_text(now_real_ms(), now);
	jo_key(o, "spec");
	jo_obj(o);
	jo_kstr(o, "holderIdentity", l->released ? "" : l->id);
	jo_kint(o, "leaseDurationSeconds", l->released ? 1 : (l->c.lease_ms + 999) / 1000);
	jo_kstr(o, "renewTime", now);
	if (changes && !l->released) {
		jo_kstr(o, "acquireTime", now);
		jo_kint(o, "leaseTransitions", taken ? l->transitions + 1 : 0);
	}
	jo_end_obj(o);
}

/* Writes the body of a request: a new Lease (taken false) or an update of the existing one. */
static void put_lease(struct kube_lease *l, struct buf *b, bool taken)
{
	struct json_out o;

	buf_init(b, BODY_MAX);
	jo_init(&o, b, 0);
	jo_obj(&o);
	if (!taken) {
		jo_kstr(&o, "apiVersion", "coordination.k8s.io/v1");
		jo_kstr(&o, "kind", "Lease");
	}
	jo_key(&o, "metadata");
	jo_obj(&o);
	jo_kstr(&o, taken ? "resourceVersion" : "name", taken ? l->version : l->name);
	jo_end_obj(&o);
	put_spec(l, &o, taken);
	jo_end_obj(&o);
}

static void send(struct kube_lease *l, enum kube_verb verb, struct span body, kube_done_fn fn)
{
	const struct kube_request r = {
		.verb = verb,
		.on = {.kind = &kube_leases, .ns = l->ns, .name = l->name},
		.body = body,
		.timeout_ms = l->c.renew_ms / 2,
	};

	l->call = kube_send(l->k, &r, fn, l);
}

static void on_written(void *arg, int status, const struct json *lease, const struct err *e)
{
	struct kube_lease *l = arg;

	l->call = NULL;
	if (!e) {
		take_lease(l, lease);
		renewed(l);
	} else {
		/* The next attempt reads the Lease: another process may have written it, or this
		 * write may have succeeded despite the error. */
		l->known = false;
		if (status == 403 && l->creating) {
			struct err missing = ERR_INIT;

			err_kind(&missing, ERR_CONF, -EACCES,
				 "lease '%s/%s' does not exist and this account may not create it: "
				 "apply deploy/controller.yaml, which contains it",
				 l->ns, l->name);
			log_failure(l, &missing);
		} else if (status != 409) {
			log_failure(l, e);
		}
	}
	try_later(l);
}

static void write_lease(struct kube_lease *l, bool exists)
{
	auto_buf struct buf body;

	put_lease(l, &body, exists);
	l->requested_at = loop_now_ms(l->loop);
	l->creating = !exists;
	send(l, exists ? KUBE_MERGE_PATCH : KUBE_CREATE, buf_span(&body), on_written);
}

/* --- read of the Lease --- */

static bool is_free(const struct kube_lease *l)
{
	return !*l->holder || strcmp(l->holder, l->id) == 0 ||
	       loop_now_ms(l->loop) - l->seen_at >= l->c.lease_ms;
}

static int64_t silence_of(const struct json *lease)
{
	const char *text = json_string(json_get(json_get(lease, "spec"), "renewTime"));
	int64_t at, ms;

	if (!text || kube_time_parse(text, &at) < 0)
		return INT64_MAX;
	ms = now_real_ms() - at;
	return ms > 0 ? ms : 0;
}

static void on_read(void *arg, int status, const struct json *lease, const struct err *e)
{
	struct kube_lease *l = arg;

	l->call = NULL;
	if (status == 404) {
		l->silent_ms = INT64_MAX;
		replace(&l->holder, "");
		write_lease(l, false);
		return;
	}
	if (e) {
		log_failure(l, e);
		try_later(l);
		return;
	}
	take_lease(l, lease);
	if (is_free(l)) {
		l->silent_ms = silence_of(lease);
		write_lease(l, true);
		return;
	}
	lose(l);
	try_later(l);
}

static void try(struct kube_lease *l)
{
	/* A leader that knows the current version renews without a read. Any other process, and
	 * a leader after a failed write, reads the Lease first. */
	if (l->held && l->known)
		write_lease(l, true);
	else
		send(l, KUBE_GET, (struct span){0}, on_read);
}

/* --- functions of leader.h --- */

struct kube_lease *kube_lease_new(struct kube *k, const struct kube_lease_conf *c)
{
	struct kube_lease *l = xcalloc(1, sizeof(*l));

	*l = (struct kube_lease){.k = k,
				 .loop = kube_loop(k),
				 .c = *c,
				 .ns = xstrdup(c->ns),
				 .name = xstrdup(c->name),
				 .id = xstrdup(c->id),
				 .retry = LOOP_ALARM(kube_loop(k), on_retry, l),
				 .deadline = LOOP_ALARM(kube_loop(k), on_deadline, l),
				 .holder = xstrdup("")};
	if (!l->c.lease_ms)
		l->c.lease_ms = KUBE_LEASE_MS;
	if (!l->c.renew_ms)
		l->c.renew_ms = KUBE_RENEW_MS;
	if (!l->c.retry_ms)
		l->c.retry_ms = KUBE_RETRY_MS;
	loop_alarm_set(&l->retry, 0);
	return l;
}

static void stop(struct kube_lease *l)
{
	kube_cancel(l->call);
	loop_alarm_cancel(&l->retry);
	loop_alarm_cancel(&l->deadline);
	l->call = NULL;
	l->held = false;
}

void kube_lease_free(struct kube_lease *l)
{
	if (!l)
		return;
	stop(l);
	free(l->ns);
	free(l->name);
	free(l->id);
	free(l->holder);
	free(l->version);
	free(l);
}

int64_t kube_lease_silent_ms(const struct kube_lease *l)
{
	return l->silent_ms;
}

bool kube_lease_is_held(const struct kube_lease *l)
{
	return l->held;
}

const char *kube_lease_holder(const struct kube_lease *l)
{
	return l->holder;
}

static void on_released(void *arg, int status, const struct json *lease, const struct err *e)
{
	struct kube_lease *l = arg;

	(void)status, (void)lease;
	l->call = NULL;
	if (e)
		log_failure(l, e);
	l->released(l->released_arg);
}

void kube_lease_release(struct kube_lease *l, void (*done)(void *arg), void *arg)
{
	bool held = l->held && l->known;
	auto_buf struct buf body;

	stop(l);
	l->released = done;
	l->released_arg = arg;
	put_lease(l, &body, true);
	if (held)
		send(l, KUBE_MERGE_PATCH, buf_span(&body), on_released);
	else
		loop_alarm_set(&l->retry, 0);
}
