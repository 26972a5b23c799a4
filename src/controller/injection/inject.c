/* SPDX-License-Identifier: Apache-2.0 */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "controller/injection/inject_priv.h"

enum { WARNING_MAX = 1024 };

void inject_warn(const struct inject_ask *q, const char *fmt, ...)
{
	auto_buf struct buf b;
	va_list ap;

	buf_init(&b, WARNING_MAX);
	if (!q->warn)
		return;
	va_start(ap, fmt);
	buf_vprintf(&b, fmt, ap);
	va_end(ap);
	q->warn(q->arg, b.p);
}

static bool any_value(const char *text)
{
	struct span rest = span_of(text), v;

	return inject_next_value(&rest, &v);
}

bool inject_is_asked(const struct json *annotations)
{
	for (enum inject_key k = 0; k < INJECT_KEYS; k++)
		if (any_value(json_string(json_get(annotations, inject_key_name(k)))))
			return true;
	return false;
}

unsigned int inject_asks(const struct json *annotations)
{
	unsigned int bits = 0;

	for (enum inject_key k = 0; k < INJECT_KEYS; k++) {
		const char *text = json_string(json_get(annotations, inject_key_name(k)));

		bits |= text ? INJECT_HAS(k) : 0;
		bits |= any_value(text) ? INJECT_ASKS(k) : 0;
	}
	return bits;
}

static struct inject_wish wish_for(const struct inject_ask *q, enum inject_key key)
{
	const struct json *annotations = json_get(json_get(q->pod, "metadata"), "annotations");
	const char *own = json_string(json_get(annotations, inject_key_name(key)));
	struct inject_wish w = {key, own ? own : q->ns_group[key], !own};

	if (!any_value(w.value))
		w.value = NULL;
	return w;
}

static const char *whose(const struct inject_wish *w)
{
	return w->of_ns ? "the namespace's" : "the pod's";
}

/* The first key counts; a wish that does not is told of when it is nearer to the pod. */
static struct inject_wish wish_of(const struct inject_ask *q)
{
	struct inject_wish rdma = wish_for(q, INJECT_RDMA), net = wish_for(q, INJECT_NETWORK);

	if (rdma.value && net.value && !net.of_ns)
		inject_warn(q, "%s annotation '%s' is not looked at: %s '%s' counts before it",
			    whose(&net), inject_key_name(INJECT_NETWORK), whose(&rdma),
			    inject_key_name(INJECT_RDMA));
	return rdma.value ? rdma : net;
}

static int inject(const struct inject_ask *q, const struct inject_wish *w,
		  const struct inject_nets *nets, struct kube_patch *patch, struct err *e)
{
	int n = inject_list(q, w, nets, patch, e);

	return n < 0 ? n : n + inject_containers(q, nets, patch);
}

int inject_pod(const struct inject_ask *q, struct kube_patch *patch, struct err *e)
{
	struct inject_wish w = wish_of(q);
	struct inject_nets nets = {0};
	int r;

	if (!w.value)
		return 0;
	if (json_bool(json_get(json_get(q->pod, "spec"), "hostNetwork"))) {
		if (!w.of_ns)
			inject_warn(q,
				    "annotation '%s' of a pod on the host's network: it has no "
				    "networks of its own, nothing is injected",
				    inject_key_name(w.key));
		return 0;
	}
	r = inject_choose(q, &w, &nets, e);
	if (r == 0)
		r = inject(q, &w, &nets, patch, e);
	free(nets.v);
	return r;
}
