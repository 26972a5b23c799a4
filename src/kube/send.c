/* SPDX-License-Identifier: Apache-2.0 */
/* A request whose answer is one object. */
#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "kube/client_priv.h"

struct send {
	struct kube_call *call;
	kube_done_fn fn;
	void *arg;
	struct buf body;
};

static int on_data(void *arg, struct span bytes, struct err *e)
{
	struct send *s = arg;

	buf_add(&s->body, bytes.p, bytes.n);
	if (s->body.over)
		return err_kind(e, ERR_DECODE, -EFBIG, "the answer is longer than %d MiB",
				KUBE_BODY_MAX >> 20);
	return 0;
}

static void on_end(void *arg, int status, const struct kube_status *st, const struct err *e)
{
	struct send *s = arg;
	auto_json struct json_doc *doc = NULL;
	struct err bad = ERR_INIT;
	int r;

	(void)st;
	if (!e) {
		r = json_parse(&doc, buf_span(&s->body), KUBE_BODY_MAX, &bad);
		if (r < 0) {
			err_wrap(&bad, r, "%s: the answer", kube_call_words(s->call));
			e = &bad;
		}
	}
	s->fn(s->arg, status, e ? NULL : json_root(doc), e);
	buf_done(&s->body);
	free(s);
}

static void drop(void *arg)
{
	struct send *s = arg;

	buf_done(&s->body);
	free(s);
}

struct kube_call *kube_send(struct kube *k, const struct kube_request *r, kube_done_fn fn,
			    void *arg)
{
	static const struct kube_stream_ops ops = {NULL, on_data, on_end, drop};
	struct send *s = xcalloc(1, sizeof(*s));

	*s = (struct send){.fn = fn, .arg = arg};
	buf_init(&s->body, KUBE_BODY_MAX);
	s->call = kube_stream(k, r, &ops, s);
	return s->call;
}
