/* SPDX-License-Identifier: Apache-2.0 */
/*
 * POST /v1/unirail/pools: `unirail pool` on this server's store (ipam/report.h).
 *
 * {"command": "show", "words": ["rail0"], "json": false, "release": "ask" | "dry" | "do"}
 *	-> {"out", "aside", "status"}: what is printed, beside it, and its end; or "error" for "status"
 *
 * For people: the texts are as they are that day.
 */
#include <stddef.h>
#include <string.h>

#include "agent/api/api.h"
#include "base/cleanup.h"
#include "ipam/report.h"

static const struct json_field fields[] = {
	{"command", J_STR, .offset = offsetof(struct api_pools_args, command)},
	{"words", J_STRS, .offset = offsetof(struct api_pools_args, words)},
	{"json", J_BOOL, .offset = offsetof(struct api_pools_args, json)},
	{"release", J_STR, .offset = offsetof(struct api_pools_args, release)},
	{0}};
static const struct json_table table = {fields, JSON_CLOSED, 0};

int api_read_pools(struct api_call *c)
{
	const struct api_pools_args *p = c->args;
	int r = api_body(c, "pools", &table);

	return r < 0 ? r : api_not_empty(c, "command", p->command);
}

static enum report_release release_of(const char *text)
{
	if (text && strcmp(text, "do") == 0)
		return REPORT_DO;
	return text && strcmp(text, "dry") == 0 ? REPORT_DRY : REPORT_ASK;
}

static void put_text(struct json_out *o, const char *key, const struct buf *b)
{
	jo_kstr(o, key, b->len ? b->p : "");
}

void api_pools(struct api_call *c, struct ipam *store)
{
	const struct api_pools_args *p = c->args;
	auto_buf struct buf out, aside, answer;
	const struct report report = {.store = store,
				      .json = p->json,
				      .out = &out,
				      .aside = &aside,
				      .empty = "there is no pool\n"};
	const struct report_call call = {.command = p->command,
					 .words = (const char *const *)p->words.v,
					 .n_words = p->words.n,
					 .release = release_of(p->release)};
	struct err e = ERR_INIT;
	struct json_out o;
	int r;

	buf_init(&out, API_ANSWER_MAX / 2);
	buf_init(&aside, API_ANSWER_MAX / 8);
	buf_init(&answer, API_ANSWER_MAX);
	r = report_run(&report, &call, &e);
	if (out.over) {
		api_refuse(c, 500, 500, "the answer is longer than %d MiB: ask for one pool",
			   API_ANSWER_MAX >> 21);
		return;
	}
	jo_init(&o, &answer, 0);
	jo_obj(&o);
	put_text(&o, "out", &out);
	put_text(&o, "aside", &aside);
	if (r < 0)
		jo_kstr(&o, "error", e.text);
	else
		jo_kint(&o, "status", r);
	jo_end_obj(&o);
	buf_char(&answer, '\n');
	api_json(c, &answer);
}
