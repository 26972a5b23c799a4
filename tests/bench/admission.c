/* SPDX-License-Identifier: Apache-2.0 */
/* Measures the CPU time that the controller needs for a hostile AdmissionReview: to parse,
 * default, validate and answer it. The program prints figures and asserts nothing about time. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "controller/admission/admit.h"
#include "controller/webhook/review.h"

static double cpu_s(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static void judge(const struct review *q, struct review_answer *ret)
{
	const struct admit_cache cache = {.agent_ns = "kube-system"};
	const struct admit_request request = {.kind = q->kind,
					      .operation = ADMIT_CREATE,
					      .ns = q->ns,
					      .name = q->name,
					      .object = q->object};
	struct admit_answer a;

	admit_default(&cache, &request, &a);
	review_patch(ret, buf_span(&a.patch));
	admit_answer_done(&a);
	admit_check(&cache, &request, &a);
	if (a.code)
		review_refuse(ret, a.code, "%s: %.60s", a.field ? a.field : "",
			      a.text ? a.text : "");
	admit_answer_done(&a);
}

/* Measures the review of one SpiderIPPool; `object`: its metadata and spec. */
static void one(const char *what, struct buf *object)
{
	struct review_answer answer;
	auto_buf struct buf b, out;
	struct review_doc d = {0};
	struct err e = ERR_INIT;
	double began, spent;
	const char *said;

	buf_init(&b, REVIEW_MAX);
	buf_init(&out, 2 * REVIEW_MAX);
	buf_printf(&b,
		   "{\"apiVersion\":\"admission.k8s.io/v1\",\"kind\":\"AdmissionReview\","
		   "\"request\":{\"uid\":\"u\",\"kind\":{\"group\":\"spiderpool.spidernet.io\","
		   "\"version\":\"v2beta1\",\"kind\":\"SpiderIPPool\"},\"resource\":{\"group\":"
		   "\"spiderpool.spidernet.io\",\"version\":\"v2beta1\",\"resource\":"
		   "\"spiderippools\"},\"name\":\"p\",\"operation\":\"CREATE\",\"object\":{%s}}}",
		   object->p);
	if (b.over || object->over)
		abort();
	review_allow(&answer);
	began = cpu_s();
	if (review_parse(&d, buf_span(&b), &e) == 0) {
		judge(&d.q, &answer);
		review_write(&out, &d.q, &answer);
		said = !answer.code ? "allowed" : answer.text ? answer.text : "refused";
	} else {
		said = e.text;
	}
	spent = cpu_s() - began;
	printf("%-40s %6.2f  %6zu  %.60s\n", what, spent, b.len >> 10, said);
	review_drop(&answer);
	review_doc_done(&d);
	buf_done(object);
}

static void put_labels(struct buf *b, int n)
{
	for (int i = 0; i < n; i++)
		buf_printf(b, "%s\"label-%d\":\"v\"", i ? "," : "", i);
}

/* Writes every second address, so that no two form a range. */
static void put_ips(struct buf *b, int from, int to)
{
	for (int i = from; i != to; i += from < to ? 1 : -1) {
		unsigned int a = 2U * (unsigned int)i + 256;

		buf_printf(b, "%s\"10.%u.%u.%u\"", i == from ? "" : ",", a >> 16, a >> 8 & 255,
			   a & 255);
	}
}

#define SPEC "\"metadata\":{\"name\":\"p\"},\"spec\":{\"subnet\":\"10.0.0.0/8\",\"ipVersion\":4"

int main(void)
{
	struct buf b;

	printf("%-40s %6s  %6s\n", "review of a SpiderIPPool", "CPU s", "KiB");

	buf_init(&b, REVIEW_MAX);
	buf_str(&b,
		"\"spec\":{\"subnet\":\"10.0.0.0/8\"},\"metadata\":{\"name\":\"p\",\"labels\":{");
	put_labels(&b, 60000);
	buf_str(&b, "}}");
	one("60,000 labels", &b);

	buf_init(&b, REVIEW_MAX);
	buf_str(&b, SPEC ",\"ips\":[");
	put_ips(&b, 0, 10000);
	buf_str(&b, "],\"excludeIPs\":[");
	put_ips(&b, 10000, 0);
	buf_str(&b, "]}");
	one("10,000 ips against 10,000 excludeIPs", &b);

	buf_init(&b, REVIEW_MAX);
	buf_str(&b, SPEC ",\"podAffinity\":{\"matchLabels\":{");
	put_labels(&b, 40000);
	buf_str(&b, "}}}");
	one("40,000 labels of a podAffinity", &b);

	buf_init(&b, REVIEW_MAX);
	buf_str(&b, SPEC ",\"ips\":[");
	put_ips(&b, 50000, 0);
	buf_str(&b, "]}");
	one("50,000 descending ips", &b);
	return 0;
}
