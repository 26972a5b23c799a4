/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The agent's API. First byte 'r': answers to the requests of a plugin (agent_replies.c).
 * Otherwise: requests to the agent, separated by NUL. A request is "METHOD TARGET" in one line,
 * optionally with the body's content type, then the body. All requests use one store, which stays
 * in memory. This file replaces the agent's server (server/http_server.c) and checks that each
 * request gets exactly one answer and that the answer's body is JSON.
 */
#include "agent.h"

#include <stdlib.h>
#include <string.h>

#include "agent/api/api.h"
#include "base/alloc.h"
#include "base/log.h"
#include "files.h"
#include "wire/json/json.h"

#define POOLS_DIR "/etc/unirail/pools"
#define POOLS                                                                                      \
	"[pool a]\nsubnet = 10.0.0.0/24\nips = 10.0.0.10-10.0.0.12\ngateway = 10.0.0.1\n"          \
	"route = 10.9.0.0/16 via 10.0.0.2\ndefault = yes\n"                                        \
	"[pool b]\nsubnet = 10.0.1.0/24\nips = 10.0.1.10-10.0.1.20\n"                              \
	"[pool v6]\nsubnet = fd00::/64\nips = fd00::10-fd00::20\ngateway = fd00::1\n"

enum { REQUESTS_MAX = 8, ANSWER_MAX = 8 << 20 };

/* --- the server's part --- */

struct http_request {
	struct http1_msg msg;
	struct http1_field type;
	int status; /* 0: not answered */
};

const struct http1_msg *http_request_msg(const struct http_request *q)
{
	return &q->msg;
}

bool http_request_is_closed(const struct http_request *q)
{
	(void)q;
	return false;
}

static void answered(struct http_request *q, int status)
{
	must(q->status == 0 && status >= 200 && status < 600);
	q->status = status;
}

void http_answer(struct http_request *q, const struct http1_response *r)
{
	auto_json struct json_doc *d = NULL;

	answered(q, r->status);
	if (r->body.n > 0 && json_parse(&d, r->body, ANSWER_MAX, NULL) < 0)
		fuzz_fail(r->body.p, r->status, "is JSON");
	must(r->status == 200 || r->body.n > 0);
}

void http_answer_error(struct http_request *q, int status, int code, const char *message)
{
	answered(q, status);
	must(status >= 400 && code > 0 && *message);
}

void http_answer_wrong_method(struct http_request *q, const char *allow, const char *message)
{
	answered(q, 405);
	must(*allow && *message);
}

/* --- the loop: its time jumps to the next timer --- */

static struct loop *loop;

/* --- requests --- */

static int64_t now_ms(void)
{
	return 1700000000000;
}

static struct ipam_api_conf conf(void)
{
	return (struct ipam_api_conf){
		.loop = loop,
		.root = fuzz_root(),
		.paths = {.pool_dir = POOLS_DIR, .node = "node1", .now_ms = now_ms}};
}

/* One server for all executions: it reads its pools once. */
static struct ipam_api *api;

static void __attribute__((constructor)) make_api(void)
{
	struct ipam_api_conf c;

	must(loop_new(&loop, NULL) == 0);
	loop_set_now(loop, 1000000);
	c = conf();
	log_threshold = LOG_NONE;
	files_put(POOLS_DIR "/a.conf", span_of(POOLS));
	api = ipam_api_new(&c);
	files_clear();
}

static void request(struct span text)
{
	struct http_request q = {0};
	struct span line, word;

	q.msg.fields = &q.type;
	if (!span_cut(&text, '\n', &line))
		return;
	q.msg.body = text;
	if (!span_cut(&line, ' ', &q.msg.method) || !span_cut(&line, ' ', &q.msg.target))
		return;
	if (span_cut(&line, ' ', &word)) {
		q.type = (struct http1_field){span_of("content-type"), word};
		q.msg.n_fields = 1;
	}
	ipam_api_handle(api, &q);
	loop_run(loop);
	must(q.status);
}

/* After the requests the store is valid: it opens, and each allocated address has an owner. */
static void check_store(void)
{
	struct ipam_api_conf c = conf();
	auto_free struct ipam_record *v = NULL;
	auto_ipam struct ipam *i = NULL;
	struct err e = ERR_INIT;
	size_t n = 0;

	if (ipam_open(&i, c.root, &c.paths, &e) < 0 || ipam_records(i, &v, &n, &e) < 0)
		fuzz_fail(e.text, 0, "the store opens");
	for (size_t k = 0; k < n; k++)
		must(strcmp(v[k].state, "used") != 0 || *v[k].container_id);
}

static void requests(struct feed f)
{
	for (int i = 0; i < REQUESTS_MAX && f.n > 0; i++)
		request(feed_part(&f));
	check_store();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct feed f = {data, size};

	log_threshold = LOG_NONE;
	if (size > 0 && *data == 'r') {
		feed_byte(&f);
		agent_replies(f);
	} else {
		requests(f);
	}
	files_clear();
	return 0;
}
