/* SPDX-License-Identifier: Apache-2.0 */
#include "device/plugin/internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "device/plugin/message.h"

/* Handlers of the gRPC calls that the kubelet makes to the device plugin. */

/* --- list of devices --- */

static int by_id(const void *a, const void *b)
{
	return strcmp(((const struct device_plugin_device *)a)->id,
		      ((const struct device_plugin_device *)b)->id);
}

bool plugin_list_update(struct device_plugin *p)
{
	struct device_plugin_list l = {0};
	struct buf m;
	bool differs;

	p->ops->list(p->arg, &l);
	buf_init(&m, GRPC_MESSAGE_MAX);
	message_list_encode(&l, &m);
	if (l.n > DEVICE_PLUGIN_DEVICES_MAX || m.over) {
		log_error("device list has too many devices or bytes, keeping the previous one",
			  LOG_S("resource", p->resource), LOG_I("devices", (int64_t)l.n));
		buf_done(&m);
		device_plugin_list_done(&l);
		return false;
	}
	differs = m.len != p->message.len || (m.len && memcmp(m.p, p->message.p, m.len) != 0);
	if (l.n)
		qsort(l.v, l.n, sizeof(*l.v), by_id);
	device_plugin_list_done(&p->list);
	p->list = l;
	buf_done(&p->message);
	p->message = m;
	return differs;
}

static void stream_remove(struct device_plugin *p, struct grpc_in *c)
{
	for (size_t i = 0; i < p->n_streams; i++)
		if (p->streams[i] == c) {
			memmove(&p->streams[i], &p->streams[i + 1],
				(p->n_streams - i - 1) * sizeof(struct grpc_in *));
			p->n_streams--;
			return;
		}
}

static void on_list(void *arg, struct grpc_in *c, struct span request)
{
	struct device_plugin *p = arg;

	(void)request;
	if (p->n_streams == PLUGIN_STREAMS_MAX) {
		struct grpc_in *oldest = p->streams[0];

		stream_remove(p, oldest);
		grpc_in_fail(oldest, GRPC_RESOURCE_EXHAUSTED, "too many ListAndWatch calls");
	}
	p->streams[p->n_streams++] = c;
	if (plugin_list_update(p))
		for (size_t i = 0; i + 1 < p->n_streams; i++)
			grpc_in_send(p->streams[i], buf_span(&p->message));
	grpc_in_send(c, buf_span(&p->message));
	plugin_on_stream(p);
}

static void on_list_closed(void *arg, struct grpc_in *c)
{
	struct device_plugin *p = arg;

	stream_remove(p, c);
	plugin_on_stream(p);
}

/* --- the kubelet's other calls --- */

static void on_options(void *arg, struct grpc_in *c, struct span request)
{
	const struct device_plugin *p = arg;
	auto_buf struct buf b;

	(void)request;
	buf_init(&b, 64);
	message_options_encode(p->ops->prestart != NULL, p->ops->preferred != NULL, &b);
	grpc_in_reply(c, buf_span(&b));
}

static bool is_listed(const struct device_plugin *p, char *id)
{
	const struct device_plugin_device key = {.id = id};

	return p->list.n && bsearch(&key, p->list.v, p->list.n, sizeof(key), by_id);
}

static struct device_plugin_ids borrow(const struct message_ids *l)
{
	return (struct device_plugin_ids){(const char *const *)l->v, l->n};
}

static int check_ids(const struct device_plugin *p, const struct message_ids *l, struct err *e)
{
	if (l->n > DEVICE_PLUGIN_IDS_MAX)
		return err_kind(e, ERR_CONF, -E2BIG,
				"the request is for %zu devices for one container, the limit is %d",
				l->n, DEVICE_PLUGIN_IDS_MAX);
	for (size_t i = 0; i < l->n; i++)
		if (!is_listed(p, l->v[i]))
			return err_kind(
				e, ERR_UNAVAILABLE, -ENODEV,
				"device '%s' is not, or no longer, a device of resource '%s'",
				l->v[i], p->resource);
	return 0;
}

static int allocate(const struct device_plugin *p, const struct message_request *q,
		    struct device_plugin_allocation *v, struct err *e)
{
	for (size_t i = 0; i < q->n; i++) {
		struct device_plugin_ids ids = borrow(&q->v[i].ids);
		int r = check_ids(p, &q->v[i].ids, e);

		if (!r)
			r = p->ops->allocate(p->arg, &ids, &v[i], e);
		if (r < 0)
			return err_wrap(e, r, "allocate '%s'", p->resource);
	}
	return 0;
}

static void fail(const struct device_plugin *p, struct grpc_in *c, const struct err *e)
{
	log_warn("device plugin call failed", LOG_S("resource", p->resource),
		 LOG_S("error", e->text));
	grpc_in_fail_err(c, e);
}

static void on_allocate(void *arg, struct grpc_in *c, struct span request)
{
	struct device_plugin *p = arg;
	auto_message_request struct message_request q = {0};
	struct device_plugin_allocation *v;
	struct err e = ERR_INIT;
	auto_buf struct buf b;
	int r = message_allocate_decode(request, &q, &e);

	buf_init(&b, GRPC_MESSAGE_MAX);
	v = xcalloc(q.n, sizeof(*v));
	if (!r)
		r = allocate(p, &q, v, &e);
	if (!r)
		message_allocation_encode(v, q.n, &b);
	if (!r && b.over)
		r = err_kind(&e, ERR_CONF, -EMSGSIZE, "allocate '%s': the answer is too long",
			     p->resource);
	for (size_t i = 0; i < q.n; i++)
		device_plugin_allocation_done(&v[i]);
	free(v);
	if (r < 0)
		fail(p, c, &e);
	else
		grpc_in_reply(c, buf_span(&b));
}

static int prefer(const struct device_plugin *p, const struct message_container *q,
		  struct message_ids *ret, struct err *e)
{
	const struct device_plugin_ids available = borrow(&q->ids), must = borrow(&q->must);
	auto_free const char **chosen = NULL;
	size_t n;

	if (q->size < 0 || (size_t)q->size > q->ids.n)
		return err_kind(e, ERR_CONF, -EINVAL,
				"GetPreferredAllocation: allocation_size is %lld, expected 0 to "
				"%zu (the number of available devices)",
				(long long)q->size, q->ids.n);
	chosen = xcalloc((size_t)q->size, sizeof(*chosen));
	n = p->ops->preferred(p->arg, &available, &must, (size_t)q->size, chosen);
	for (size_t i = 0; i < n; i++)
		VEC_PUSH(ret->v, ret->n) = (char *)(uintptr_t)chosen[i];
	return 0;
}

static void answer_preferred(const struct device_plugin *p, struct grpc_in *c, struct span request)
{
	auto_message_request struct message_request q = {0};
	struct message_ids *v;
	struct err e = ERR_INIT;
	auto_buf struct buf b;
	int r = message_preferred_decode(request, &q, &e);

	buf_init(&b, GRPC_MESSAGE_MAX);
	v = xcalloc(q.n, sizeof(*v));
	for (size_t i = 0; !r && p->ops->preferred && i < q.n; i++)
		r = prefer(p, &q.v[i], &v[i], &e);
	if (!r && p->ops->preferred)
		message_preferred_encode(v, q.n, &b);
	for (size_t i = 0; i < q.n; i++)
		free(v[i].v);
	free(v);
	if (r < 0)
		fail(p, c, &e);
	else
		grpc_in_reply(c, buf_span(&b));
}

static void on_preferred(void *arg, struct grpc_in *c, struct span request)
{
	struct device_plugin *p = arg;
	struct buf *copy;

	if (p->n_waiting == PLUGIN_WAITING_MAX || !p->ops->prepare || !p->ops->prepare(p->arg)) {
		answer_preferred(p, c, request);
		return;
	}
	copy = &p->waiting[p->n_waiting].request;
	buf_init(copy, request.n + 1);
	buf_add(copy, request.p, request.n);
	p->waiting[p->n_waiting++].call = c;
}

static void on_preferred_closed(void *arg, struct grpc_in *c)
{
	struct device_plugin *p = arg;

	for (size_t i = 0; i < p->n_waiting; i++) {
		if (p->waiting[i].call != c)
			continue;
		buf_done(&p->waiting[i].request);
		p->waiting[i] = p->waiting[--p->n_waiting];
		return;
	}
}

void plugin_prepared(struct device_plugin *p)
{
	while (p->n_waiting > 0) {
		struct grpc_in *call = p->waiting[--p->n_waiting].call;
		auto_buf struct buf request = p->waiting[p->n_waiting].request;

		answer_preferred(p, call, buf_span(&request));
	}
}

static void on_prestart(void *arg, struct grpc_in *c, struct span request)
{
	struct device_plugin *p = arg;
	auto_message_request struct message_request q = {0};
	struct err e = ERR_INIT;
	int r = message_prestart_decode(request, &q, &e);

	if (!r)
		r = check_ids(p, &q.v[0].ids, &e);
	if (!r && p->ops->prestart) {
		struct device_plugin_ids ids = borrow(&q.v[0].ids);

		r = p->ops->prestart(p->arg, &ids, &e);
	}
	if (r < 0)
		fail(p, c, &e);
	else
		grpc_in_reply(c, (struct span){NULL, 0});
}

/* --- registration through plugins_registry --- */

static void on_info(void *arg, struct grpc_in *c, struct span request)
{
	const struct device_plugin *p = arg;
	auto_buf struct buf b;

	(void)request;
	buf_init(&b, 4096);
	message_info_encode(p->resource, p->path, &b);
	grpc_in_reply(c, buf_span(&b));
}

static void on_status(void *arg, struct grpc_in *c, struct span request)
{
	struct device_plugin *p = arg;
	auto_free char *error = NULL;
	struct err e = ERR_INIT;
	bool registered;

	if (message_status_decode(request, &registered, &error, &e) < 0) {
		fail(p, c, &e);
		return;
	}
	grpc_in_reply(c, (struct span){NULL, 0});
	if (!registered && !*error) {
		free(error);
		error = xstrdup("the kubelet reports no reason");
	}
	plugin_on_status(p, registered ? "" : error);
}

const struct grpc_method plugin_methods[] = {
	{"/v1beta1.DevicePlugin/GetDevicePluginOptions", 0, on_options, NULL},
	{"/v1beta1.DevicePlugin/ListAndWatch", 0, on_list, on_list_closed},
	{"/v1beta1.DevicePlugin/GetPreferredAllocation", 2 << 20, on_preferred,
	 on_preferred_closed},
	{"/v1beta1.DevicePlugin/Allocate", 0, on_allocate, NULL},
	{"/v1beta1.DevicePlugin/PreStartContainer", 0, on_prestart, NULL},
	{"/pluginregistration.Registration/GetInfo", 0, on_info, NULL},
	{"/pluginregistration.Registration/NotifyRegistrationStatus", 0, on_status, NULL},
	{0},
};
