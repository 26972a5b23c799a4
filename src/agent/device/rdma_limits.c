/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/device/rdma_limits.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "wire/http/grpc.h"

enum {
	RETRY_MS = 500,
	IDLE_MS = 60 * 1000,
	/* time after an Allocate within which the kubelet lists the pod and creates its control
	 * group */
	NEW_MS = 10 * 1000,
	GRACE_MS = 30 * 1000, /* a failure that lasts this long is reported */
	REQUEST_MS = 5000,
};

struct rdma_limits {
	struct rdma_limits_conf conf;
	struct loop_alarm timer;
	struct grpc_async *list_call;
	int64_t allocated_ms; /* loop time of the last Allocate */
	char *failure;	      /* first failure of the last round; NULL: all limits are set */
	int64_t failing_ms;   /* loop time since which `failure` has been the first failure */
	bool is_reported;
};

/* --- computing the limits of all pods --- */

struct found {
	const struct rdma_limits_conf *conf;
	struct rdma_limit *v;
	size_t n;
	/* ns, pod and uid are those of the pod whose devices are being read */
	struct rdma_limit of;
};

static void on_device(void *arg, const char *device)
{
	struct found *f = arg;
	struct rdma_limit *l = &VEC_PUSH(f->v, f->n);

	*l = f->of;
	l->device = device;
	l->limit = f->conf->per_id;
}

static int by_pod_and_device(const void *a, const void *b)
{
	const struct rdma_limit *x = a, *y = b;
	int r = strcmp(x->ns, y->ns);

	if (r == 0)
		r = strcmp(x->pod, y->pod);
	return r ? r : strcmp(x->device, y->device);
}

static uint32_t add(uint32_t a, uint32_t b)
{
	return a >= CGROUP_RDMA_MAX - b ? CGROUP_RDMA_MAX : a + b;
}

void rdma_limits_decide(const struct rdma_limits_conf *conf, const struct podres_list *list,
			struct rdma_limit **ret, size_t *n)
{
	struct found f = {.conf = conf};
	size_t n_merged = 0;

	for (size_t i = 0; i < list->n_pods; i++) {
		const struct podres_pod *p = &list->pods[i];

		f.of = (struct rdma_limit){
			.ns = p->ns, .pod = p->name, .uid = conf->uid(conf->arg, p->ns, p->name)};
		/* kubelets before 1.34 also list pods that have ended */
		if (f.of.uid && !*f.of.uid)
			continue;
		for (size_t c = 0; c < p->n_containers; c++)
			for (size_t d = 0; d < p->containers[c].n_devices; d++) {
				const struct podres_devices *v = &p->containers[c].devices[d];

				for (size_t k = 0; k < v->n_ids; k++)
					conf->devices(conf->arg, v->resource, v->ids[k], on_device,
						      &f);
			}
	}
	if (f.n)
		qsort(f.v, f.n, sizeof(*f.v), by_pod_and_device);
	for (size_t i = 0; i < f.n; i++) {
		if (n_merged && by_pod_and_device(&f.v[n_merged - 1], &f.v[i]) == 0) {
			struct cgroup_rdma *sum = &f.v[n_merged - 1].limit;

			sum->handles = add(sum->handles, conf->per_id.handles);
			sum->objects = add(sum->objects, conf->per_id.objects);
			continue;
		}
		f.v[n_merged++] = f.v[i];
	}
	*ret = f.v;
	*n = n_merged;
}

/* --- setting the limits --- */

static int apply_one(const struct rdma_limits_conf *c, const char *dir,
		     const struct cgroup_pods *pods, const struct rdma_limit *l, struct err *e)
{
	const struct cgroup_pod *group = l->uid ? cgroup_pods_find(pods, l->uid) : NULL;
	struct cgroup_rdma now;
	int r;

	if (!l->uid)
		return err_kind(e, ERR_AGAIN, -ENOENT,
				"the watch of the API server has not delivered pod %s/%s yet",
				l->ns, l->pod);
	if (!group)
		return err_set(
			e, -ENOENT,
			"pod %s/%s has no control group below '%s': mount the host's '" CGROUP_DIR
			"' at the same path, as deploy/agent.yaml does; the groups of cgroup v1 "
			"need runc 1.1 or later",
			l->ns, l->pod, dir);
	r = cgroup_rdma_get(c->root, group->path, l->device, &now, e);
	if (r == 0 && now.handles == l->limit.handles && now.objects == l->limit.objects)
		return 0;
	if (r == 0)
		r = cgroup_rdma_set(c->root, group->path, l->device, &l->limit, e);
	if (r == 0)
		log_info("set the limits of an RDMA device", LOG_S("pod", l->pod),
			 LOG_S("namespace", l->ns), LOG_S("device", l->device),
			 LOG_I("handles", l->limit.handles), LOG_I("objects", l->limit.objects));
	return r < 0 ? err_wrap(e, r, "pod %s/%s", l->ns, l->pod) : 0;
}

size_t rdma_limits_apply(const struct rdma_limits_conf *conf, const struct podres_list *list,
			 struct err *e)
{
	auto_cgroup_pods struct cgroup_pods pods = {0};
	auto_free struct rdma_limit *v = NULL;
	const char *dir;
	size_t n = 0, failed = 0;

	rdma_limits_decide(conf, list, &v, &n);
	if (!n)
		return 0;
	if (cgroup_rdma_dir(conf->root, &dir, e) < 0 ||
	    cgroup_pods_read(conf->root, dir, &pods, e) < 0)
		return n;
	for (size_t i = 0; i < n; i++) {
		struct err cause = ERR_INIT;

		if (apply_one(conf, dir, &pods, &v[i], &cause) == 0)
			continue;
		if (!failed++ && e)
			*e = cause;
	}
	return failed;
}

/* --- periodic check of the limits --- */

static void report(struct rdma_limits *l)
{
	l->is_reported = true;
	log_warn("cannot limit the RDMA objects of pods", LOG_S("error", l->failure));
	if (l->conf.event)
		l->conf.event(l->conf.arg, l->failure);
}

/*
 * Stores the failure of this round (NULL: none). judge() reports a failure that has lasted GRACE_MS
 * (-EOPNOTSUPP: at once; kind ERR_AGAIN: never); another text is a new failure, so short failures
 * of pods that start one after another do not add up to a report.
 */
static void set_failure(struct rdma_limits *l, const char *text, int64_t now)
{
	if (text && l->failure && strcmp(l->failure, text) == 0)
		return;
	free(l->failure);
	l->failure = text ? xstrdup(text) : NULL;
	l->failing_ms = now;
	l->is_reported = false;
}

static void judge(struct rdma_limits *l, size_t failed, const struct err *e)
{
	int64_t now = loop_now_ms(l->conf.loop);
	bool is_new = now - l->allocated_ms < NEW_MS, lasts;

	set_failure(l, failed ? e->text : NULL, now);
	lasts = failed && (e->code == -EOPNOTSUPP || now - l->failing_ms >= GRACE_MS);
	if (lasts && !l->is_reported && e->kind != ERR_AGAIN)
		report(l);
	loop_alarm_set(&l->timer, is_new || (failed && !lasts) ? RETRY_MS : IDLE_MS);
}

static void on_pods(void *arg, struct span reply, const struct err *reason)
{
	struct rdma_limits *l = arg;
	auto_podres struct podres_list list = {0};
	struct err e = ERR_INIT;
	size_t failed = 1;

	l->list_call = NULL;
	if (reason)
		e = *reason;
	else if (podres_decode(reply, &list, &e) >= 0)
		failed = rdma_limits_apply(&l->conf, &list, &e);
	judge(l, failed, &e);
}

static void list_pods(void *arg)
{
	struct rdma_limits *l = arg;
	const struct grpc_call call = {
		.socket = l->conf.podres, .method = PODRES_LIST, .timeout_ms = REQUEST_MS};
	struct err e = ERR_INIT;

	if (!l->list_call && grpc_start(l->conf.loop, &call, on_pods, l, &l->list_call, &e) < 0)
		judge(l, 1, &e);
}

void rdma_limits_allocated(struct rdma_limits *l)
{
	if (!l)
		return;
	l->allocated_ms = loop_now_ms(l->conf.loop);
	if (!l->list_call)
		loop_alarm_set(&l->timer, RETRY_MS);
}

struct rdma_limits *rdma_limits_new(const struct rdma_limits_conf *conf)
{
	struct rdma_limits *l = xcalloc(1, sizeof(*l));

	l->conf = *conf;
	l->timer = LOOP_ALARM(conf->loop, list_pods, l);
	l->allocated_ms = loop_now_ms(conf->loop) - NEW_MS;
	loop_alarm_set(&l->timer, 0);
	return l;
}

void rdma_limits_free(struct rdma_limits *l)
{
	if (!l)
		return;
	grpc_cancel(l->list_call);
	loop_alarm_cancel(&l->timer);
	free(l->failure);
	free(l);
}
