/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/pool/pool.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/option.h"
#include "base/paths.h"
#include "cli/pool/pool_used.h"
#include "wire/http/http1.h"

/* `unirail pool`: options, and the commands on this node's store or in the agent. */

enum { MESSAGES_MAX = 1 << 20 };

#define AT(field) offsetof(struct pool_opts, field), 0, 0
#define COMMON                                                                                      \
	{"pool-dir", 0, OPT_STR, "DIR", "directory of pools (" PATH_POOLS ")", AT(pool_dir)},       \
		{"state-dir",  0, OPT_STR, "DIR", "directory of the journal (" PATH_IPAM_STATE ")", \
		 AT(state_dir)},                                                                    \
		{"root",  0, OPT_STR, "DIR", "use this directory as the root of the file system",   \
		 AT(root)},                                                                         \
		{"kubeconfig",                                                                      \
		 0,                                                                                 \
		 OPT_STR,                                                                           \
		 "FILE",                                                                            \
		 "show the pools and blocks of this kubeconfig's cluster instead of this node's",   \
		 AT(kubeconfig)},                                                                   \
		{"context",                                                                         \
		 0,                                                                                 \
		 OPT_STR,                                                                           \
		 "NAME",                                                                            \
		 "context of the kubeconfig to use instead of its current context",                 \
		 AT(context)},                                                                      \
		{"socket",                                                                          \
		 0,                                                                                 \
		 OPT_STR,                                                                           \
		 "PATH",                                                                            \
		 "run the command in the agent at this socket, on the agent's own store",           \
		 AT(socket)},                                                                       \
		{"timeout",                                                                         \
		 0,                                                                                 \
		 OPT_DUR,                                                                           \
		 "TIME",                                                                            \
		 "maximum time to wait for the agent or the API server (5s)",                       \
		 offsetof(struct pool_opts, timeout_ms),                                            \
		 1,                                                                                 \
		 60 * 1000},                                                                        \
	{                                                                                           \
		"output", 'o', OPT_CHOICE, "text|json", "output format", AT(output)                 \
	}

static const struct opt read_opts[] = {COMMON, {0}};
static const struct opt release_opts[] = {
	COMMON,
	{"yes", 'y', OPT_FLAG, NULL,
	 "release the address; without this option only print the change", AT(yes)},
	{"dry-run", 0, OPT_FLAG, NULL, "print the change without making it", AT(dry_run)},
	{0}};
static const struct opt check_opts[] = {
	COMMON,
	{"repair", 0, OPT_FLAG, NULL,
	 "rewrite a damaged journal; addresses that may be in use are reserved", AT(repair)},
	{0}};

const struct cmd pool_cmds[] = {
	{"list", NULL,
	 "the pools, and the number of addresses in each state (cooldown: released less than reuse-delay ago)",
	 read_opts, 0, 0},
	{"show", "POOL", "the owners of the pool's addresses", read_opts, 1, 1},
	{"free", "POOL [N]", "the next N free addresses of a pool (default of N: 10)", read_opts, 1,
	 2},
	{"owner", "ADDRESS", "the owner of an address", read_opts, 1, 1},
	{"release", "ADDRESS", "release an address, regardless of its owner", release_opts, 1, 1},
	{"check", NULL, "verify that journal, pools and network namespaces agree", check_opts, 0,
	 0},
	{0},
};

/* --- the store of this node --- */

static char *empty_message(const struct pool_opts *o)
{
	return xasprintf("no pool in '%s'. Create a file there, such as rails.conf with\n\n"
			 "    [pool rail0]\n"
			 "    subnet  = 172.16.1.0/24\n"
			 "    gateway = 172.16.1.1\n"
			 "    default = yes\n\n"
			 "or a SpiderIPPool as JSON, rails.json.\n",
			 o->pool_dir ? o->pool_dir : PATH_POOLS);
}

static int say_damage(const struct report *o, const struct err *reason)
{
	auto_buf struct buf found;

	buf_init(&found, MESSAGES_MAX);
	buf_printf(
		&found,
		"%s\nno address is allocated or released until the journal is repaired: 'unirail "
		"pool check --repair' writes a new journal with every intact record, reserves "
		"addresses that it finds in damaged lines and in use by pods of this node "
		"(libcni's cache, network namespaces), and saves the old journal in a file "
		"beside it\n",
		reason->text);
	return report_findings(o, NULL, &found, 1);
}

static int repair(const struct pool_tool *t, const struct report *o, const struct ipam_paths *p,
		  struct err *e)
{
	struct pool_found found = {0};
	auto_buf struct buf messages;
	int r;

	buf_init(&messages, MESSAGES_MAX);
	pool_find_used(&found, t->root, &messages);
	r = ipam_repair(t->root, p, found.v, found.n, &messages, e);
	pool_found_done(&found);
	return r < 0 ? r : report_findings(o, NULL, &messages, 0);
}

static int of_store(const struct pool_tool *t, const struct report_call *call, struct report *o,
		    struct err *e)
{
	auto_free char *pool_dir = path_absolute(t->o->pool_dir);
	auto_free char *state_dir = path_absolute(t->o->state_dir);
	const struct ipam_paths paths = {
		.pool_dir = pool_dir,
		.state_dir = state_dir,
		.read_only = strcmp(call->command, "release") != 0 || call->release != REPORT_DO,
	};
	int r;

	if (t->o->repair)
		return repair(t, o, &paths, e);
	r = ipam_open(&o->store, t->root, &paths, e);
	if (r == -EBADMSG && strcmp(call->command, "check") == 0)
		return say_damage(o, e);
	if (r == -EACCES)
		err_set(e, r, "%s: run as root, or set --state-dir to a directory of your own",
			e->text);
	if (r == 0)
		r = report_run(o, call, e);
	ipam_close(o->store);
	return r;
}

static int run_here(const struct pool_tool *t, const struct report_call *call, struct err *e)
{
	auto_free char *empty = empty_message(t->o);
	auto_buf struct buf out, messages;
	struct report o = {.json = t->json, .out = &out, .messages = &messages, .empty = empty};
	int r, put;

	buf_init(&out, REPORT_MAX);
	buf_init(&messages, MESSAGES_MAX);
	r = of_store(t, call, &o, e);
	put = out.len ? opt_print(&out) : 0;
	if (messages.len)
		fputs(messages.p, stderr);
	return put ? put : r;
}

/* --- entry point of 'unirail pool' --- */

static int pool_of_agent(struct pool_tool *t, const struct report_call *call, struct err *e);

static int run(struct pool_tool *t, const struct cmd *c, int argc, char **argv, struct err *e)
{
	const struct report_call call = {
		.command = c->name,
		.args = (const char *const *)argv,
		.n_args = (size_t)argc,
		.release = t->o->dry_run ? REPORT_DRY_RUN
			   : t->o->yes	 ? REPORT_DO
					 : REPORT_CONFIRM,
	};

	if (t->o->kubeconfig || t->o->context)
		return pool_cluster(t, c->name, argc > 0 ? argv[0] : NULL, e);
	return t->o->socket ? pool_of_agent(t, &call, e) : run_here(t, &call, e);
}

/* Checks the operands without reading pools: an invalid operand is a usage error, exit status 2. */
static int check_operands(const struct cmd *c, int argc, char **argv, struct err *e)
{
	struct ipaddr a;
	uint64_t n;

	if (strcmp(c->name, "owner") == 0 || strcmp(c->name, "release") == 0)
		return report_address(argv[0], &a, e);
	return strcmp(c->name, "free") == 0 && argc > 1 ? report_count(argv[1], &n, e) : 0;
}

int pool_main(int argc, char **argv)
{
	struct pool_opts o = {.output = "text", .timeout_ms = 5000};
	struct pool_tool t = {.o = &o};
	struct err e = ERR_INIT;
	auto_free char *prog = NULL;
	const struct cmd *c;
	struct root root;
	int used, at, r = cmd_pick("unirail pool", pool_cmds, argc, argv, &c, &used, &e);

	if (r < 0)
		return opt_exit("unirail pool", r, &e);
	prog = xasprintf("unirail pool %s", c->name);
	argc -= 1 + used;
	argv += 1 + used;
	at = opt_parse(c, prog, argc, argv, &o, &e);
	r = at < 0 ? at : check_operands(c, argc - at, argv + at, &e);
	if (r < 0)
		return opt_exit(prog, r, &e);
	t.json = strcmp(o.output, "json") == 0;
	t.root = &root;
	r = root_open(&root, o.root, &e);
	if (r == 0) {
		r = run(&t, c, argc - at, argv + at, &e);
		root_close(&root);
	}
	if (r >= 0)
		return r;
	fprintf(stderr, "%s: %s\n", prog, e.text);
	return 1;
}

/* --- with --socket: the agent runs the command --- */

enum { ANSWER_MAX = 2 * REPORT_MAX };

static const char *const releases[] =
	{[REPORT_CONFIRM] = "confirm", [REPORT_DRY_RUN] = "dry-run", [REPORT_DO] = "do"};

static void put_call(const struct pool_tool *t, const struct report_call *c, struct buf *b)
{
	struct json_out o;

	jo_init(&o, b, 0);
	jo_obj(&o);
	jo_kstr(&o, "command", c->command);
	jo_key(&o, "args");
	jo_arr(&o);
	for (size_t i = 0; i < c->n_args; i++)
		jo_str(&o, c->args[i]);
	jo_end_arr(&o);
	jo_kstr(&o, "release", releases[c->release]);
	jo_kbool(&o, "json", t->json);
	jo_end_obj(&o);
}

static int refused(const char *socket, int status, const struct json *v, struct err *e)
{
	if (status == 404)
		return err_set(e, -ENOENT,
			       "'%s' is not the socket of an agent of this release: run this "
			       "command on the node with --state-dir, which reads the agent's "
			       "journal",
			       socket);
	return err_set(e, -EPROTO, "'%s' responded %d: %s", socket, status,
		       json_get_text(v, "message"));
}

static int print(const struct json *v, struct err *e)
{
	int64_t status = 1;

	fputs(json_get_text(v, "stdout"), stdout);
	fflush(stdout);
	fputs(json_get_text(v, "stderr"), stderr);
	if (*json_get_text(v, "error"))
		return err_set(e, -EIO, "%s", json_get_text(v, "error"));
	json_int(json_get(v, "status"), &status);
	return (int)status;
}

/*
 * Lets the agent run the command on the agent's store, except `check --repair`, and prints the
 * output.
 */
static int pool_of_agent(struct pool_tool *t, const struct report_call *call, struct err *e)
{
	auto_json struct json_doc *doc = NULL;
	auto_buf struct buf request_body, body = {0};
	struct http1_call c = {
		.socket = t->o->socket,
		.request = {.method = "POST", .target = "/v1/unirail/pools"},
		.timeout_ms = (int)t->o->timeout_ms,
		.max = ANSWER_MAX,
	};
	int r;

	buf_init(&request_body, HTTP1_BODY_MAX);
	if (t->o->repair)
		return err_set(e, -ENOTSUP,
			       "a running agent's journal cannot be repaired: stop the agent and "
			       "run this command on its node with --state-dir");
	put_call(t, call, &request_body);
	c.request.type = HTTP_JSON;
	c.request.body = buf_span(&request_body);
	r = http1_call(&c, &body, e);
	if (r < 0)
		return err_wrap(e, r, "query the agent (is 'unirail agent' running on this node?)");
	if (json_parse(&doc, buf_span(&body), ANSWER_MAX, NULL) < 0)
		return err_set(e, -EPROTO, "'%s' responded %d without JSON", t->o->socket, r);
	return r == 200 ? print(json_root(doc), e) : refused(t->o->socket, r, json_root(doc), e);
}
