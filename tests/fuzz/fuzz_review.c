/* SPDX-License-Identifier: Apache-2.0 */
/*
 * AdmissionReview from any client on the network. A parsed review gets every kind of answer, and
 * the answer is JSON that names the request.
 */
#include <string.h>

#include "base/alloc.h"
#include "controller/webhook/review.h"
#include "fuzz.h"

enum { ANSWER_MAX = 4 << 20 };

static void answered(const struct review *q, struct review_answer *a)
{
	auto_json struct json_doc *d = NULL;
	auto_buf struct buf b;
	struct err e = ERR_INIT;
	const struct json *response;

	buf_init(&b, ANSWER_MAX);
	review_write(&b, q, a);
	must(!b.over);
	if (json_parse(&d, buf_span(&b), ANSWER_MAX, &e) < 0)
		fuzz_fail(b.p, 0, e.text);
	response = json_get(json_root(d), "response");
	must(!strcmp(json_string(json_get(response, "uid")), q->uid));
	must(json_bool(json_get(response, "allowed")) == !a->code);
	review_drop(a);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct review_doc d;
	struct err e = ERR_INIT;
	struct review_answer a;
	int r = review_parse(&d, (struct span){(const char *)data, size}, &e);

	if (fuzz_refused(r, &e))
		return 0;
	must(*d.q.uid && d.q.group && *d.q.version && d.q.kind && d.q.resource && d.q.subresource);
	must(d.q.ns && d.q.name && d.q.user);
	must(strcmp(d.q.operation, "CREATE") || d.q.object);
	must(strcmp(d.q.operation, "UPDATE") || (d.q.object && d.q.old));
	review_allow(&a);
	review_patch(&a, (struct span){(const char *)data, size});
	review_warn(&a, "%s/%s", d.q.ns, d.q.name);
	answered(&d.q, &a);
	review_allow(&a);
	review_cause(&a, REVIEW_INVALID, d.q.kind, d.q.user);
	review_cause(&a, REVIEW_DUPLICATE, d.q.subresource, d.q.resource);
	answered(&d.q, &a);
	review_refuse(&a, 403, "%s may not", d.q.user);
	answered(&d.q, &a);
	review_doc_done(&d);
	return 0;
}
