/* SPDX-License-Identifier: Apache-2.0 */
/* `unirail pool --socket`: the agent runs it on its store and answers what is to be printed. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "cli/pool/pool.h"
#include "cli/tools.h"
#include "wire/http/http1.h"

enum { ANSWER_MAX = 2 * REPORT_MAX };

static const char *const releases[] =
	{[REPORT_ASK] = "ask", [REPORT_DRY] = "dry", [REPORT_DO] = "do"};

static void put_call(const struct pool_tool *t, const struct report_call *c, struct buf *b)
{
	struct json_out o;

	jo_init(&o, b, 0);
	jo_obj(&o);
	jo_kstr(&o, "command", c->command);
	jo_key(&o, "words");
	jo_arr(&o);
	for (size_t i = 0; i < c->n_words; i++)
		jo_str(&o, c->words[i]);
	jo_end_arr(&o);
	jo_kstr(&o, "release", releases[c->release]);
	jo_kbool(&o, "json", t->json);
	jo_end_obj(&o);
}

static const char *text(const struct json *v, const char *key)
{
	const char *s = json_string(json_get(v, key));

	return s ? s : "";
}

static int refused(const char *socket, int status, const struct json *v, struct err *e)
{
	if (status == 404)
		return err_set(e, -ENOENT,
			       "'%s' is no agent of this release: look at its journal instead "
			       "(--state-dir, on its node)",
			       socket);
	return err_set(e, -EPROTO, "'%s' answers %d: %s", socket, status, text(v, "message"));
}

static int print(const struct json *v, struct err *e)
{
	int64_t status = 1;

	fputs(text(v, "out"), stdout);
	fflush(stdout);
	fputs(text(v, "aside"), stderr);
	if (*text(v, "error"))
		return err_set(e, -EIO, "%s", text(v, "error"));
	json_int(json_get(v, "status"), &status);
	return (int)status;
}

int pool_of_agent(struct pool_tool *t, const struct report_call *call, struct err *e)
{
	auto_json struct json_doc *doc = NULL;
	auto_buf struct buf ask, body = {0};
	struct http1_call c = {
		.socket = t->o->socket,
		.request = {.method = "POST", .target = "/v1/unirail/pools"},
		.timeout_ms = (int)t->o->timeout_ms,
		.max = ANSWER_MAX,
	};
	int r;

	buf_init(&ask, HTTP1_BODY_MAX);
	if (t->o->repair)
		return err_set(e, -ENOTSUP,
			       "an agent has its journal open: end it, and repair that on its node "
			       "(--state-dir)");
	put_call(t, call, &ask);
	c.request.type = "application/json";
	c.request.body = buf_span(&ask);
	r = http1_call(&c, &body, e);
	if (r < 0)
		return err_wrap(e, r, "ask the agent (is 'unirail agent' running on this node?)");
	if (json_parse(&doc, buf_span(&body), ANSWER_MAX, NULL) < 0)
		return err_set(e, -EPROTO, "'%s' answers %d with what is no JSON", t->o->socket, r);
	return r == 200 ? print(json_root(doc), e) : refused(t->o->socket, r, json_root(doc), e);
}
