/* SPDX-License-Identifier: Apache-2.0 */
/* `unirail status`: the state of this node in its cluster, as reported by its agent. */
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/paths.h"
#include "base/table.h"
#include "cli/cli.h"
#include "wire/http/http1.h"
#include "wire/json/json.h"

enum { ANSWER_MAX = 4 << 20 };

struct status_opts {
	const char *socket, *output;
	int64_t timeout_ms;
};

static const struct opt status_opts[] = {
	{"socket", 0, OPT_STR, "PATH", "path of the agent's socket (" PATH_AGENT_SOCKET ")",
	 offsetof(struct status_opts, socket), 0, 0},
	{"timeout", 0, OPT_DUR, "TIME", "maximum time to wait for the agent (5s)",
	 offsetof(struct status_opts, timeout_ms), 1, 60 * 1000},
	{"output", 'o', OPT_CHOICE, "text|json", "output format",
	 offsetof(struct status_opts, output), 0, 0},
	{0},
};

const struct cmd status_cmds[] = {
	{NULL, NULL, "state of this node's agent and of the node's address pools", status_opts, 0,
	 0},
	{0},
};

static int64_t number(const struct json *v, const char *key)
{
	int64_t n;

	return json_int(json_get(v, key), &n) < 0 ? 0 : n;
}

/* --- printing --- */

static void print_pools(const struct json *pools)
{
	static const char *const heads[] = {"POOL", "USED ON NODE", "FREE ON NODE",
					    "TOTAL IN POOL"};
	struct json_walk w = json_walk_start(pools);
	auto_columns struct columns c;
	const struct json *p;

	columns_init(&c, ARRAY_LEN(heads), "");
	for (size_t i = 0; i < ARRAY_LEN(heads); i++)
		columns_add(&c, heads[i]);
	while ((p = json_walk_next(&w, NULL))) {
		columns_add(&c, json_get_text(p, "name"));
		columns_addf(&c, "%lld", (long long)number(p, "used"));
		columns_addf(&c, "%lld", (long long)number(p, "free"));
		columns_addf(&c, "%lld", (long long)number(p, "total"));
	}
	if (json_len(pools) > 0)
		columns_print(&c, stdout);
	else
		puts("this node has no addresses of any pool");
}

static void print_kinds(const struct json *kinds)
{
	struct json_walk w = json_walk_start(kinds);
	const struct json *k;

	while ((k = json_walk_next(&w, NULL)))
		if (*json_get_text(k, "reason"))
			printf("%s\n", json_get_text(k, "reason"));
}

/* Prints the CNI configuration that the runtime uses, and the `reason` of `v`. Omits `reason` if
 * the node is not ready and the runtime does not use the configuration: print_text() has then
 * usually printed the same text as the reason of the node. */
static void print_cni(const struct json *v, bool ready)
{
	if (json_kind(v) != JSON_OBJECT)
		return;
	if (json_bool(json_get(v, "used")))
		printf("the container runtime uses CNI configuration %s%s%s\n",
		       json_get_text(v, "file"),
		       *json_get_text(v, "network") ? ", which wraps " : "",
		       json_get_text(v, "network"));
	if (*json_get_text(v, "reason") && (ready || json_bool(json_get(v, "used"))))
		printf("%s\n", json_get_text(v, "reason"));
}

static void print_missing(const struct json *list)
{
	struct json_walk w = json_walk_start(list);
	const struct json *m;

	while ((m = json_walk_next(&w, NULL))) {
		const char *group = json_get_text(m, "group"),
			   *suggestion = json_get_text(m, "suggestion");

		printf("pods with network '%s/%s'%s%s%s stay Pending: no node has resource "
		       "'%s'%s%s%s\n",
		       json_get_text(m, "namespace"), json_get_text(m, "network"),
		       *group ? " (group '" : "", group, *group ? "')" : "",
		       json_get_text(m, "resource"), *suggestion ? "; did you mean '" : "",
		       suggestion, *suggestion ? "'?" : "");
	}
}

static void print_text(const struct json *v)
{
	const struct json *b = json_get(v, "blocks");
	long long unadopted = number(b, "unadopted"), pending = number(v, "pending");

	printf("node %s: %s%s\n", json_get_text(v, "node"),
	       json_bool(json_get(v, "ready")) ? "ready" : "not ready: ",
	       json_get_text(v, "reason"));
	printf("%lld blocks owned by this node, %lld addresses borrowed from other nodes\n",
	       (long long)number(b, "owned"), (long long)number(b, "borrowed"));
	if (unadopted)
		printf("%lld blocks of this node are not in the agent's block log (their entries "
		       "were lost, or another agent claimed the blocks): this agent does not use "
		       "them until it has found the addresses of all pods of this node\n",
		       unadopted);
	if (pending)
		printf("%lld pods wait for addresses\n", pending);
	print_kinds(json_get(v, "kinds"));
	print_cni(json_get(v, "cni"), json_bool(json_get(v, "ready")));
	print_missing(json_get(v, "missing_resources"));
	if (*json_get_text(v, "unconfined"))
		printf("the agent's sandbox is incomplete: %s\n", json_get_text(v, "unconfined"));
	putchar('\n');
	print_pools(json_get(v, "pools"));
}

/* --- the request --- */

static int failure(int status, const struct buf *body, const char *socket, struct err *e)
{
	auto_json struct json_doc *doc = NULL;
	const char *message = NULL;

	if (json_parse(&doc, buf_span(body), ANSWER_MAX, NULL) == 0)
		message = json_string(json_get(json_root(doc), "message"));
	if (status == 404)
		return err_set(e, -ENOENT, "'%s' is not the socket of an agent in a cluster%s%s",
			       socket, message ? ": " : "", message ? message : "");
	return err_set(e, -EPROTO, "'%s' responded %d%s%s", socket, status, message ? ": " : "",
		       message ? message : "");
}

static int query_agent(const char *socket, int64_t timeout_ms, struct buf *body,
		       struct json_doc **ret, struct err *e)
{
	const struct http1_call c = {
		.socket = socket,
		.request = {.method = "GET", .target = "/v1/unirail/status"},
		.timeout_ms = (int)timeout_ms,
		.max = ANSWER_MAX,
	};
	int r = http1_call(&c, body, e);

	if (r < 0)
		return err_wrap(e, r, "query the agent (is 'unirail agent' running on this node?)");
	if (r != 200)
		return failure(r, body, socket, e);
	r = json_parse(ret, buf_span(body), ANSWER_MAX, e);
	return r < 0 ? err_wrap(e, r, "parse the agent's response") : 0;
}

static int show(const struct status_opts *o, struct err *e)
{
	auto_json struct json_doc *doc = NULL;
	auto_buf struct buf body = {0};
	int r = query_agent(o->socket ? o->socket : PATH_AGENT_SOCKET, o->timeout_ms, &body, &doc,
			    e);

	if (r < 0)
		return r;
	if (o->output && strcmp(o->output, "json") == 0)
		fputs(body.p, stdout);
	else
		print_text(json_root(doc));
	return json_bool(json_get(json_root(doc), "ready")) ? 0 : 1;
}

int status_main(int argc, char **argv)
{
	struct status_opts o = {.timeout_ms = 5000};
	struct err e = ERR_INIT;
	int r = opt_parse(&status_cmds[0], "unirail status", argc - 1, argv + 1, &o, &e);

	if (r < 0)
		return opt_exit("unirail status", r, &e);
	r = show(&o, &e);
	if (r >= 0)
		return fflush(stdout) ? 1 : r;
	fprintf(stderr, "unirail status: %s\n", e.text);
	return 1;
}
