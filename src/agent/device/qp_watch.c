/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/device/qp_watch.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/child.h"
#include "base/log.h"
#include "base/num.h"
#include "base/sorted.h"
#include "kube/kinds.h"
#include "kube/object.h"
#include "kube/time.h"
#include "wire/http/grpc.h"

enum {
	CONTAINERS_MAX = 4096, /* limit of containers with RDMA devices on a node */
	ROUND_MIN_MS = 1000,
	ROUND_MAX_MS = 30 * 1000,
	/* interval of inspections of a container without a queue pair, and delay of the next
	 * read of a Pod object after a failed read; a container whose state is unknown is
	 * inspected again after this time or after_ms, whichever is longer */
	AGAIN_MS = 60 * 1000,
	REQUEST_MS = 5000,
	INSPECT_MS = 30 * 1000,
	OUT_MAX = 4 << 20,
};

enum phase { WAITS, LACKS, HAS };

struct rdma_container {
	char *ns, *pod, *uid, *container;
	/* container ID at the runtime; NULL: the start of the container is not known yet */
	char *id;
	char *resource;
	char **devices;
	size_t n_devices;
	enum phase phase;
	/* loop time of the next inspection, or of the next read of the Pod object */
	int64_t next_ms;
	bool is_listed, is_alone;
};

struct qp_watch {
	struct qp_watch_conf conf;
	struct rdma_container *v; /* sorted by UID of the pod and name of the container */
	size_t n;
	struct loop_alarm timer;
	struct grpc_async *list_call;
	struct kube_call *call;
	char *ns, *pod; /* the Pod object that the last `call` requested; NULL: none yet */
	struct child *child;
	size_t *due; /* indexes in v of the containers that `child` inspects */
	size_t n_due;
	struct log_once reported; /* last logged error */
};

/* --- list of containers --- */

static int compare(const struct rdma_container *h, const char *uid, const char *container)
{
	int r = strcmp(h->uid, uid);

	return r ? r : strcmp(h->container, container);
}

static void rdma_container_done(struct rdma_container *h)
{
	free(h->ns);
	free(h->pod);
	free(h->uid);
	free(h->container);
	free(h->id);
	free(h->resource);
	str_list_free(h->devices, h->n_devices);
}

static void on_device(void *arg, const char *device)
{
	struct rdma_container *h = arg;

	for (size_t i = 0; i < h->n_devices; i++)
		if (strcmp(h->devices[i], device) == 0)
			return;
	VEC_PUSH(h->devices, h->n_devices) = xstrdup(device);
}

static void read_devices(const struct qp_watch *w, const struct podres_container *c,
			 struct rdma_container *ret)
{
	for (size_t i = 0; i < c->n_devices; i++) {
		const struct podres_devices *d = &c->devices[i];
		size_t before = ret->n_devices;

		for (size_t k = 0; k < d->n_ids; k++)
			w->conf.devices(w->conf.arg, d->resource, d->ids[k], on_device, ret);
		if (ret->n_devices > before && !ret->resource)
			ret->resource = xstrdup(d->resource);
	}
}

static void put(struct qp_watch *w, struct rdma_container *new, int64_t now_ms)
{
	size_t at = LOWER_BOUND(i, w->n, compare(&w->v[i], new->uid, new->container) < 0);

	if (at < w->n && compare(&w->v[at], new->uid, new->container) == 0) {
		w->v[at].is_listed = true;
		rdma_container_done(new);
		return;
	}
	if (w->n == CONTAINERS_MAX) {
		rdma_container_done(new);
		return;
	}
	new->is_listed = true;
	new->next_ms = now_ms + w->conf.after_ms;
	VEC_PUSH(w->v, w->n) = *new;
	memmove(w->v + at + 1, w->v + at, (w->n - 1 - at) * sizeof(*w->v));
	w->v[at] = *new;
}

static void forget_unlisted(struct qp_watch *w)
{
	size_t n_left = 0;

	for (size_t i = 0; i < w->n; i++)
		if (w->v[i].is_listed)
			w->v[n_left++] = w->v[i];
		else
			rdma_container_done(&w->v[i]);
	w->n = n_left;
	for (size_t i = 0; i < w->n; i++)
		w->v[i].is_alone = !(i && strcmp(w->v[i - 1].uid, w->v[i].uid) == 0) &&
				   !(i + 1 < w->n && strcmp(w->v[i + 1].uid, w->v[i].uid) == 0);
}

void qp_watch_list(struct qp_watch *w, const struct podres_list *list, int64_t now_ms)
{
	for (size_t i = 0; i < w->n; i++)
		w->v[i].is_listed = false;
	for (size_t i = 0; i < list->n_pods; i++) {
		const struct podres_pod *p = &list->pods[i];
		const char *uid = w->conf.uid(w->conf.arg, p->ns, p->name);

		for (size_t k = 0; uid && *uid && k < p->n_containers; k++) {
			struct rdma_container h = {0};

			read_devices(w, &p->containers[k], &h);
			if (!h.n_devices) {
				rdma_container_done(&h);
				continue;
			}
			h.ns = xstrdup(p->ns);
			h.pod = xstrdup(p->name);
			h.uid = xstrdup(uid);
			h.container = xstrdup(p->containers[k].name);
			put(w, &h, now_ms);
		}
	}
	forget_unlisted(w);
}

/* --- start time of a container --- */

bool qp_watch_next_pod(const struct qp_watch *w, int64_t now_ms, const char **ns, const char **pod)
{
	for (size_t i = 0; i < w->n; i++) {
		const struct rdma_container *h = &w->v[i];

		if (h->phase != WAITS || h->id || h->next_ms > now_ms)
			continue;
		*ns = h->ns;
		*pod = h->pod;
		return true;
	}
	return false;
}

static const struct json *status_of(const struct json *pod, const char *container)
{
	static const char *const lists[] = {"containerStatuses", "initContainerStatuses"};

	for (size_t i = 0; i < ARRAY_LEN(lists); i++) {
		struct json_walk w = json_walk_start(json_get(json_get(pod, "status"), lists[i]));
		const struct json *v;

		while ((v = json_walk_next(&w, NULL))) {
			const char *name = json_string(json_get(v, "name"));

			if (name && strcmp(name, container) == 0)
				return v;
		}
	}
	return NULL;
}

static void take_status(struct qp_watch *w, struct rdma_container *h, const struct json *pod,
			int64_t now_ms, int64_t wall_ms)
{
	const struct json *status = status_of(pod, h->container);
	const char *since =
		json_string(json_get(json_get(json_get(status, "state"), "running"), "startedAt"));
	const char *id = json_string(json_get(status, "containerID")), *slashes;
	const char *uid = kube_meta_string(pod, "uid");
	int64_t start_ms;

	h->next_ms = now_ms + w->conf.after_ms;
	if (!uid || strcmp(uid, h->uid) != 0 || !since || !id ||
	    kube_time_parse(since, &start_ms) < 0)
		return;
	slashes = strstr(id, "://");
	h->id = xstrdup(slashes ? slashes + 3 : id);
	if (wall_ms - start_ms >= w->conf.after_ms)
		h->next_ms = now_ms;
	else if (wall_ms > start_ms)
		h->next_ms = now_ms + w->conf.after_ms - (wall_ms - start_ms);
}

void qp_watch_take_pod(struct qp_watch *w, const char *ns, const char *pod,
		       const struct json *object, int64_t now_ms, int64_t wall_ms)
{
	for (size_t i = 0; i < w->n; i++) {
		struct rdma_container *h = &w->v[i];

		if (h->phase != WAITS || h->id || strcmp(h->ns, ns) || strcmp(h->pod, pod))
			continue;
		if (object)
			take_status(w, h, object, now_ms, wall_ms);
		else
			h->next_ms = now_ms + AGAIN_MS;
	}
}

/* --- containers to inspect, and the results --- */

static bool is_due(const struct rdma_container *h, int64_t now_ms)
{
	return h->phase != HAS && h->id && h->next_ms <= now_ms;
}

void qp_watch_due(struct qp_watch *w, int64_t now_ms, struct qp_target **ret, size_t *n)
{
	struct qp_target *v = NULL;

	*n = 0;
	w->n_due = 0;
	for (size_t i = 0; i < w->n; i++) {
		const struct rdma_container *h = &w->v[i];

		if (!is_due(h, now_ms))
			continue;
		VEC_PUSH(w->due, w->n_due) = i;
		/* a pod's only container with RDMA devices is found by the pod's UID, because
		 * the container's ID changes when the container restarts */
		VEC_PUSH(v, *n) = (struct qp_target){
			.uid = h->uid,
			.id = h->is_alone || !*h->id ? NULL : h->id,
			.devices = (const char *const *)h->devices,
			.n_devices = h->n_devices,
		};
	}
	*ret = v;
}

static void report(const struct qp_watch *w, const struct rdma_container *h, bool is_warning,
		   const char *reason, const char *text)
{
	if (is_warning)
		log_warn(text, LOG_S("namespace", h->ns), LOG_S("pod", h->pod));
	else
		log_info(text, LOG_S("namespace", h->ns), LOG_S("pod", h->pod));
	if (w->conf.event)
		w->conf.event(w->conf.arg, is_warning, h->ns, h->pod, h->uid, reason, text);
}

static void warn(struct qp_watch *w, const char *text)
{
	if (!log_once(&w->reported, text))
		return;
	log_warn("cannot inspect queue pairs of containers", LOG_S("error", text));
}

static void found(struct qp_watch *w, struct rdma_container *h, enum qp_state state,
		  const char *reason, int64_t now_ms)
{
	auto_free char *text = NULL;

	h->next_ms = now_ms + AGAIN_MS;
	if (state == QP_UNKNOWN) {
		if (w->conf.after_ms > AGAIN_MS)
			h->next_ms = now_ms + w->conf.after_ms;
		warn(w, reason);
		return;
	}
	if (state == QP_NONE && h->phase == WAITS) {
		h->phase = LACKS;
		text = xasprintf(
			"container '%s' has %s, has run for at least %lld s and has no queue pair: %s",
			h->container, h->resource, (long long)(w->conf.after_ms / 1000), reason);
		report(w, h, true, "NoQueuePair", text);
	} else if (state == QP_PRESENT) {
		if (h->phase == LACKS) {
			text = xasprintf("container '%s' uses RDMA now", h->container);
			report(w, h, false, "QueuePairPresent", text);
		}
		h->phase = HAS;
	}
}

void qp_watch_take(struct qp_watch *w, size_t i, enum qp_state state, const char *reason,
		   int64_t now_ms)
{
	if (i < w->n_due)
		found(w, &w->v[w->due[i]], state, reason, now_ms);
}

/* --- child process: writes a line "INDEX STATE REASON" for each container, or "!ERROR" --- */

struct work {
	const struct qp_watch *watch;
	struct qp_target *v;
	size_t n;
};

static int inspect(void *arg)
{
	struct work *work = arg;
	auto_nl struct nl_wire *wire = NULL;
	struct err e = ERR_INIT;
	auto_buf struct buf b;
	int r = nl_open(&wire, NL_RDMA, -1, &e);

	if (r == 0)
		r = qp_inspect(wire, work->watch->conf.root, work->v, work->n, &e);
	buf_init(&b, OUT_MAX);
	if (r < 0)
		buf_printf(&b, "!%s\n", e.text);
	for (size_t i = 0; i < work->n && r == 0; i++)
		buf_printf(&b, "%zu %d %s\n", i, (int)work->v[i].state, work->v[i].reason);
	return fd_write_all(STDOUT_FILENO, b.p, b.len, NULL) < 0;
}

static void take_line(struct qp_watch *w, struct span line, int64_t now_ms)
{
	auto_free char *reason = NULL;
	struct span index, state;
	uint64_t i, s;

	if (!span_cut(&line, ' ', &index) || !span_cut(&line, ' ', &state) ||
	    num_u64(index, 0, CONTAINERS_MAX, &i) < 0 || num_u64(state, 0, QP_NONE, &s) < 0)
		return;
	reason = line.p ? span_dup(line) : xstrdup("");
	qp_watch_take(w, (size_t)i, (enum qp_state)s, reason, now_ms);
}

/* --- one round: reads devices (kubelet), start times (API server), queue pairs (kernel) --- */

static void list_pods(void *arg);

static void next_round(struct qp_watch *w)
{
	int64_t ms = w->conf.after_ms / 4;

	if (ms < ROUND_MIN_MS)
		ms = ROUND_MIN_MS;
	if (ms > ROUND_MAX_MS)
		ms = ROUND_MAX_MS;
	loop_alarm_set(&w->timer, ms);
}

static int64_t now_of(const struct qp_watch *w)
{
	return loop_now_ms(kube_loop(w->conf.kube));
}

static void on_inspected(void *arg, int status, struct span out, const struct err *e)
{
	struct qp_watch *w = arg;
	struct span rest = out, line;

	w->child = NULL;
	if (e || status != 0)
		warn(w, e ? e->text : "the child process could not write its result");
	while (!e && span_cut(&rest, '\n', &line)) {
		auto_free char *text = span_has_prefix(line, "!") ? span_dup(line) : NULL;

		if (text)
			warn(w, text + 1);
		else
			take_line(w, line, now_of(w));
	}
	next_round(w);
}

static void start_inspection(struct qp_watch *w)
{
	auto_free struct qp_target *v = NULL;
	struct work work = {.watch = w};
	const struct child_conf child = {
		.run = inspect, .run_arg = &work, .timeout_ms = INSPECT_MS, .max = OUT_MAX};
	struct err e = ERR_INIT;

	qp_watch_due(w, now_of(w), &v, &work.n);
	work.v = v;
	if (!work.n) {
		next_round(w);
	} else if (child_start(&w->child, kube_loop(w->conf.kube), &child, on_inspected, w, &e) <
		   0) {
		warn(w, e.text);
		next_round(w);
	}
}

static void read_starts(struct qp_watch *w);

static void on_pod(void *arg, int status, const struct json *object, const struct err *e)
{
	struct qp_watch *w = arg;

	(void)status;
	w->call = NULL;
	if (e)
		warn(w, e->text);
	qp_watch_take_pod(w, w->ns, w->pod, object, now_of(w), now_real_ms());
	read_starts(w);
}

static void read_starts(struct qp_watch *w)
{
	const char *ns, *pod;

	if (!qp_watch_next_pod(w, now_of(w), &ns, &pod)) {
		start_inspection(w);
		return;
	}
	free(w->ns);
	free(w->pod);
	w->ns = xstrdup(ns);
	w->pod = xstrdup(pod);
	w->call = kube_send(
		w->conf.kube,
		&(struct kube_request){.verb = KUBE_GET,
				       .on = {.kind = &kube_pods, .ns = w->ns, .name = w->pod}},
		on_pod, w);
}

static void on_pods(void *arg, struct span reply, const struct err *reason)
{
	struct qp_watch *w = arg;
	auto_podres struct podres_list list = {0};
	struct err e = ERR_INIT;

	w->list_call = NULL;
	if (reason) {
		warn(w, reason->text);
		next_round(w);
		return;
	}
	if (podres_decode(reply, &list, &e) < 0)
		warn(w, e.text);
	else
		qp_watch_list(w, &list, now_of(w));
	read_starts(w);
}

static void list_pods(void *arg)
{
	struct qp_watch *w = arg;
	const struct grpc_call call = {
		.socket = w->conf.podres, .method = PODRES_LIST, .timeout_ms = REQUEST_MS};
	struct err e = ERR_INIT;

	if (grpc_start(kube_loop(w->conf.kube), &call, on_pods, w, &w->list_call, &e) < 0) {
		warn(w, e.text);
		next_round(w);
	}
}

struct qp_watch *qp_watch_new(const struct qp_watch_conf *conf)
{
	struct qp_watch *w = xcalloc(1, sizeof(*w));

	w->conf = *conf;
	if (conf->kube) {
		w->timer = LOOP_ALARM(kube_loop(conf->kube), list_pods, w);
		next_round(w);
	}
	return w;
}

void qp_watch_free(struct qp_watch *w)
{
	if (!w)
		return;
	grpc_cancel(w->list_call);
	kube_cancel(w->call);
	child_cancel(w->child);
	loop_alarm_cancel(&w->timer);
	for (size_t i = 0; i < w->n; i++)
		rdma_container_done(&w->v[i]);
	free(w->v);
	free(w->due);
	free(w->ns);
	free(w->pod);
	free(w);
}
