/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Input from an API server, and its configuration. A line selects the kind:
 *
 *	yaml, config	a document; a kubeconfig
 *	list, stream	a byte for the size of the reads, then JSON that is parsed while it arrives
 *	h2		a byte for the size of the reads, then an answer, HTTP/2 frames
 *	status, time	a byte for the HTTP status, then a failure as answer; a time
 *	base64, exec	base64; the output of a program that provides credentials
 *
 * For list and stream, one read and many reads have the same result. JSON converted from YAML,
 * times and base64 are written, and parsed again with the same result.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "fuzz.h"
#include "kube/auth.h"
#include "kube/config.h"
#include "kube/status.h"
#include "kube/time.h"
#include "wire/tls/base64.h"
#include "wire/http/h2.h"
#include "wire/json/stream.h"
#include "wire/yaml/yaml.h"

enum { JSON_MAX = 1 << 20, PIECE_MAX = 1024 };

static void again(const struct buf *text, struct buf *ret)
{
	struct err e = ERR_INIT;

	buf_init(ret, JSON_MAX);
	if (yaml_to_json(buf_span(text), ret, &e) < 0)
		fuzz_fail(text->p, 0, e.text);
}

/* Only the second output is reproduced byte for byte: invalid UTF-8 is written as an escape, which
 * is parsed and written as a character. */
static int try_yaml(struct feed f, struct err *e)
{
	auto_buf struct buf once, twice = {0}, thrice = {0};
	auto_json struct json_doc *d = NULL;
	int r;

	buf_init(&once, JSON_MAX);
	r = yaml_to_json(feed_rest(&f), &once, e);
	if (r < 0)
		return r;
	if (json_parse(&d, buf_span(&once), JSON_MAX, e) < 0)
		fuzz_fail(once.p, 0, e->text);
	again(&once, &twice);
	again(&twice, &thrice);
	must(thrice.len == twice.len && !memcmp(thrice.p, twice.p, twice.len));
	return 0;
}

static int try_config(struct feed f, struct err *e)
{
	auto_kube_conf struct kube_conf c = {0};
	int r = kube_conf_parse(&c, feed_rest(&f), "/root/.kube", NULL, e);

	if (r < 0)
		return r;
	must(c.host && *c.host && c.port && c.prefix);
	must(!c.ca_file != !c.ca_pem);
	must((c.cert_file || c.cert_pem) == (c.key_file || c.key_pem));
	must(!c.exec.argv || (c.exec.argv[0] && c.exec.api_version));
	return 0;
}

/* --- JSON in pieces --- */

static void put_piece(struct buf *b, struct span piece, bool item)
{
	must(piece.n > 0 && piece.n <= PIECE_MAX);
	buf_printf(b, "%d %zu:", item, piece.n);
	buf_add(b, piece.p, piece.n);
}

static int take_apart(enum json_split_mode mode, struct span text, size_t step, struct buf *b,
		      struct err *e)
{
	struct json_split s;
	struct span piece;
	bool item = true;
	int r = 0;

	json_split_init(&s, mode, PIECE_MAX);
	while (r >= 0 && text.n > 0) {
		struct span in = {text.p, step < text.n ? step : text.n};

		text.p += in.n;
		text.n -= in.n;
		while ((r = json_split_in(&s, &in, &piece, &item, e)) == 1)
			put_piece(b, piece, item);
		must(r < 0 || in.n == 0);
	}
	buf_printf(b, " %d %d", r, r >= 0 && json_split_is_whole(&s));
	json_split_done(&s);
	return r;
}

static int try_split(enum json_split_mode mode, struct feed f, struct err *e)
{
	size_t step = 1 + feed_byte(&f) % 16;
	struct span text = feed_rest(&f);
	auto_buf struct buf whole, parts;
	int r;

	buf_init(&whole, JSON_MAX);
	buf_init(&parts, JSON_MAX);
	take_apart(mode, text, step, &parts, e);
	err_clear(e);
	r = take_apart(mode, text, text.n, &whole, e);
	must(whole.len == parts.len && !memcmp(whole.p, parts.p, whole.len));
	return r;
}

static int try_list(struct feed f, struct err *e)
{
	return try_split(JSON_SPLIT_LIST, f, e);
}

static int try_stream(struct feed f, struct err *e)
{
	return try_split(JSON_SPLIT_STREAM, f, e);
}

/* --- HTTP/2 --- */

struct hears {
	int heads, ends;
};

static void on_head(void *arg, const struct h2_head *h)
{
	struct hears *x = arg;

	must(x->ends == 0 && ++x->heads == 1);
	must(h->status >= 100 && h->status <= 999 && h->retry_after >= -1);
	must(memchr(h->type, '\0', sizeof(h->type)));
}

static void on_data(void *arg, struct span bytes)
{
	const struct hears *x = arg;

	must(x->heads == 1 && x->ends == 0 && bytes.p);
}

static void on_end(void *arg, const struct err *e, bool untouched)
{
	struct hears *x = arg;

	must(++x->ends == 1);
	must(e ? e->code < 0 && *e->text : x->heads == 1 && !untouched);
}

static int drain(struct h2 *h, struct err *e)
{
	struct span out;
	int r;

	do
		r = h2_out(h, &out, e);
	while (r >= 0 && out.n > 0);
	return r;
}

static int try_h2(struct feed f, struct err *e)
{
	const struct h2_handler fn = {on_head, on_data, on_end};
	const struct h2_request q = {.method = "GET", .authority = "h", .path = "/api"};
	size_t step = 1 + feed_byte(&f);
	struct hears hears[2] = {{0}};
	struct err reason = ERR_INIT;
	struct h2_stream *s;
	struct h2 *h;
	int r = 0;

	must(h2_new(&h, e) >= 0);
	for (size_t i = 0; i < ARRAY_LEN(hears); i++)
		must(h2_submit(h, &q, &fn, &hears[i], &s, e) >= 0);
	must(drain(h, e) >= 0);
	while (r >= 0 && f.n > 0) {
		struct span in = {(const char *)f.p, step < f.n ? step : f.n};

		f.p += in.n;
		f.n -= in.n;
		r = h2_in(h, in, e);
		if (r >= 0)
			r = drain(h, e);
	}
	err_set(&reason, -EPIPE, "the connection is closed");
	h2_fail(h, &reason);
	must(hears[0].ends == 1 && hears[1].ends == 1 && h2_streams(h) == 0);
	h2_free(h);
	return r;
}

/* --- texts --- */

static int try_status(struct feed f, struct err *e)
{
	int http = 300 + feed_byte(&f) % 300;
	struct kube_status s;
	int r = kube_status_err(http, feed_rest(&f), "get pod 'a'", &s, e);

	must(r < 0 && memchr(s.reason, '\0', sizeof(s.reason)) && s.retry_after >= -1);
	return r;
}

static int try_time(struct feed f, struct err *e)
{
	auto_free char *text = feed_text(&f);
	char again[KUBE_TIME_MAX];
	int64_t ms, same;

	if (kube_time_parse(text, &ms) < 0)
		return err_set(e, -EINVAL, "no time");
	kube_micro_time_text(ms, again);
	must(kube_time_parse(again, &same) == 0 && same == ms);
	kube_time_text(ms, again);
	must(kube_time_parse(again, &same) == 0);
	return 0;
}

static int try_base64(struct feed f, struct err *e)
{
	auto_free char *bytes = NULL, *text = NULL, *again = NULL;

	if (base64_decode(feed_rest(&f), &bytes) < 0)
		return err_set(e, -EINVAL, "no base64");
	text = base64_encode(span_of(bytes));
	must(base64_decode(span_of(text), &again) == 0 && strcmp(bytes, again) == 0);
	return 0;
}

static int try_exec(struct feed f, struct err *e)
{
	struct kube_credential c = {0};
	int r = kube_credential_parse(&c, feed_rest(&f), e);

	if (r < 0)
		return r;
	must(c.token || (c.cert && c.key));
	kube_credential_done(&c);
	return 0;
}

static const struct {
	const char *name;
	int (*try)(struct feed f, struct err *e);
} kinds[] = {
	{"yaml", try_yaml},	{"config", try_config}, {"list", try_list},
	{"stream", try_stream}, {"h2", try_h2},		{"status", try_status},
	{"time", try_time},	{"base64", try_base64}, {"exec", try_exec},
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct feed f = {data, size};
	struct span kind = feed_line(&f);
	struct err e = ERR_INIT;

	log_threshold = LOG_NONE;
	for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
		if (span_eq(kind, kinds[i].name))
			fuzz_refused(kinds[i].try(f, &e), &e);
	return 0;
}
