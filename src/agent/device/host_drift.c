/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/device/host_drift.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "kube/kinds.h"
#include "kube/patch.h"
#include "kube/time.h"

enum { REPORT_MAX = 1 << 20, SHOWN = 3 };

struct host_drift {
	struct host_drift_conf conf;
	struct host_drift_state now, published, sent;
	struct loop_alarm timer;
	struct kube_call *call;
	int64_t retry_ms; /* loop time before which nothing is sent, after a failure; 0: none */
	bool has_published, refused;
};

int host_drift_read(struct span text, struct host_drift_state *ret)
{
	struct host_drift_state s = {.known = true};
	auto_json struct json_doc *doc = NULL;
	const struct json *root, *step;
	struct json_walk w;
	struct buf b;
	size_t n = 0;

	if (json_parse(&doc, text, REPORT_MAX, NULL) < 0)
		return -EINVAL;
	root = json_root(doc);
	if (json_int(json_get(root, "steps"), &s.steps) < 0 ||
	    json_int(json_get(root, "blocked"), &s.blocked) < 0)
		return -EINVAL;
	buf_init(&b, HOST_DRIFT_MESSAGE_MAX - 1);
	buf_str(&b, json_get_text(root, "error"));
	for (w = json_walk_start(json_get(root, "drift")); (step = json_walk_next(&w, NULL)); n++)
		if (n < SHOWN)
			buf_printf(&b, "%s%s %s: %.200s, expected %.200s", b.len ? "; " : "",
				   json_get_text(step, "kind"), json_get_text(step, "subject"),
				   json_get_text(step, "current"), json_get_text(step, "desired"));
	/* The report lists only the first steps, and counts all. */
	if (s.steps > SHOWN)
		buf_printf(&b, "; and %" PRId64 " more", s.steps - SHOWN);
	if (!b.len)
		buf_str(&b, "the host is in the state that host.conf requests");
	str_copy(s.message, sizeof(s.message), b.p);
	str_copy(s.reason, sizeof(s.reason),
		 *json_get_text(root, "error") ? "RoundFailed"
		 : s.steps		       ? "StepsLeft"
					       : "InSync");
	buf_done(&b);
	*ret = s;
	return 0;
}

void host_drift_stopped(struct host_drift_state *s)
{
	*s = (struct host_drift_state){.known = false};
	str_copy(s->reason, sizeof(s->reason), "NotWatched");
	str_copy(s->message, sizeof(s->message),
		 "'unirail host watch' has ended: nothing compares the host with host.conf");
}

int64_t host_drift_retry_ms(int code)
{
	return code == -EPERM ? HOST_DRIFT_FORBIDDEN_MS : HOST_DRIFT_CHECK_MS;
}

static bool is_drift(const struct host_drift_state *s)
{
	return s->known && strcmp(s->reason, "InSync") != 0;
}

/* The patch tests that the condition is still at its index: another writer may have moved it. */
static void add_test(struct kube_patch *patch, const char *place)
{
	jo_str(kube_patch_add(patch, "test", "status", "conditions", place, "type", NULL),
	       HOST_DRIFT_CONDITION);
}

bool host_drift_plan(const struct host_drift_state *s, const struct json *node, int64_t now_ms,
		     struct kube_patch *patch)
{
	const struct json *list = json_get(json_get(node, "status"), "conditions"), *c = NULL;
	struct json_walk w = json_walk_start(list);
	const char *status = !s->known ? "Unknown" : is_drift(s) ? "True" : "False";
	char now[KUBE_TIME_MAX], place[24];
	struct json_out *o;
	size_t at = 0;

	while ((c = json_walk_next(&w, NULL)) &&
	       strcmp(json_get_text(c, "type"), HOST_DRIFT_CONDITION) != 0)
		at++;
	snprintf(place, sizeof(place), "%zu", at);
	if (!*s->reason) {
		if (!c)
			return false;
		add_test(patch, place);
		kube_patch_add(patch, "remove", "status", "conditions", place, NULL);
		return true;
	}
	if (c && !strcmp(json_get_text(c, "status"), status) &&
	    !strcmp(json_get_text(c, "reason"), s->reason) &&
	    !strcmp(json_get_text(c, "message"), s->message))
		return false;
	kube_time_text(now_ms, now);
	if (c)
		add_test(patch, place);
	o = c ? kube_patch_add(patch, "replace", "status", "conditions", place, NULL)
	      : kube_patch_add(patch, "add", "status", "conditions", "-", NULL);
	jo_obj(o);
	jo_kstr(o, "type", HOST_DRIFT_CONDITION);
	jo_kstr(o, "status", status);
	jo_kstr(o, "reason", s->reason);
	jo_kstr(o, "message", s->message);
	jo_kstr(o, "lastHeartbeatTime", now);
	jo_kstr(o, "lastTransitionTime",
		c && !strcmp(json_get_text(c, "status"), status)
			? json_get_text(c, "lastTransitionTime")
			: now);
	jo_end_obj(o);
	return true;
}

/* --- reading the report, publishing the drift --- */

static void failed(struct host_drift *d, const struct err *e)
{
	/* On a node without `unirail host watch` the failure is not logged: most likely there is no
	 * condition to remove either. */
	if (!d->refused && *d->sent.reason)
		log_warn("cannot write the Node's condition " HOST_DRIFT_CONDITION
			 "; if the API server denies it, allow the agent to 'get' nodes and to "
			 "'patch' nodes/status",
			 LOG_S("error", e->text));
	d->refused = *d->sent.reason;
	d->retry_ms = loop_now_ms(kube_loop(d->conf.kube)) + host_drift_retry_ms(e->code);
}

static void on_patched(void *arg, int status, const struct json *object, const struct err *e)
{
	struct host_drift *d = arg;

	(void)status, (void)object;
	d->call = NULL;
	if (e) {
		failed(d, e);
		return;
	}
	d->refused = false;
	d->published = d->sent;
	d->has_published = true;
}

static void on_node(void *arg, int status, const struct json *object, const struct err *e)
{
	struct host_drift *d = arg;
	struct kube_patch patch;

	(void)status;
	d->call = NULL;
	if (e) {
		failed(d, e);
		return;
	}
	kube_patch_init(&patch);
	if (host_drift_plan(&d->sent, object, now_real_ms(), &patch)) {
		d->call = kube_send(d->conf.kube,
				    &(struct kube_request){.verb = KUBE_JSON_PATCH,
							   .on = {.kind = &kube_nodes,
								  .name = d->conf.node,
								  .sub = "status"},
							   .body = kube_patch_end(&patch)},
				    on_patched, d);
	} else {
		d->published = d->sent;
		d->has_published = true;
	}
	kube_patch_done(&patch);
}

static void publish(struct host_drift *d)
{
	if (d->call || (d->has_published && !strcmp(d->published.reason, d->now.reason) &&
			!strcmp(d->published.message, d->now.message)))
		return;
	if (loop_now_ms(kube_loop(d->conf.kube)) < d->retry_ms)
		return;
	d->sent = d->now;
	d->call =
		kube_send(d->conf.kube,
			  &(struct kube_request){.verb = KUBE_GET,
						 .on = {.kind = &kube_nodes, .name = d->conf.node}},
			  on_node, d);
}

static void report(struct host_drift *d, const struct host_drift_state *was)
{
	bool drift = is_drift(&d->now);

	if (!d->now.known || (was->known ? !strcmp(was->message, d->now.message) : !drift))
		return;
	d->conf.event(d->conf.arg, drift,
		      !drift				      ? "HostRestored"
		      : !strcmp(d->now.reason, "RoundFailed") ? "HostWatchFailed"
							      : "HostDrift",
		      d->now.message);
}

/* Returns whether the watch that wrote the report has ended without removing it. A watch of a
 * version without lock file counts as running. */
static bool is_left(const struct host_drift *d)
{
	auto_free char *lock = xasprintf("%s.lock", d->conf.path);

	return lock_is_held(d->conf.root, lock) == 0;
}

static void on_check(void *arg)
{
	struct host_drift *d = arg;
	struct host_drift_state was = d->now;
	auto_buf struct buf b;
	int r;

	buf_init(&b, REPORT_MAX);
	loop_alarm_set(&d->timer, HOST_DRIFT_CHECK_MS);
	r = file_read(d->conf.root, d->conf.path, REPORT_MAX, &b, NULL);
	if (r == -ENOENT && !*was.reason) {
		/* no report since the start: removes a condition that an earlier agent left */
	} else if (r == -ENOENT || (r == 0 && is_left(d))) {
		host_drift_stopped(&d->now);
	} else if (r < 0 || host_drift_read(buf_span(&b), &d->now) < 0) {
		return;
	}
	report(d, &was);
	publish(d);
}

struct host_drift *host_drift_new(const struct host_drift_conf *conf)
{
	struct host_drift *d = xcalloc(1, sizeof(*d));

	d->conf = *conf;
	d->timer = LOOP_ALARM(kube_loop(conf->kube), on_check, d);
	loop_alarm_set(&d->timer, 0);
	return d;
}

void host_drift_free(struct host_drift *d)
{
	if (!d)
		return;
	kube_cancel(d->call);
	loop_alarm_cancel(&d->timer);
	free(d);
}

const struct host_drift_state *host_drift_state(const struct host_drift *d)
{
	return &d->now;
}
