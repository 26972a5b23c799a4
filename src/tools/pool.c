/* SPDX-License-Identifier: Apache-2.0 */
/* `unirail pool`: options, and the commands that change something. */
#include "tools/pool.h"

#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "tools/tools.h"
#include "wire/json.h"

enum { SAID_MAX = 1 << 20 };

#define AT(field) offsetof(struct pool_opts, field), 0, 0
#define COMMON                                                                                     \
	{"pool-dir",  0, OPT_STR, "DIR", "folder of pools; " IPAM_POOL_DIR " if not given",        \
	 AT(pool_dir)},                                                                            \
		{"state-dir",                                                                      \
		 0,                                                                                \
		 OPT_STR,                                                                          \
		 "DIR",                                                                            \
		 "folder of the journal; " IPAM_STATE_DIR " if not given",                         \
		 AT(state_dir)},                                                                   \
		{"root", 0, OPT_STR, "DIR", "take this folder for '/'", AT(root)},                 \
		{"kubeconfig",                                                                     \
		 0,                                                                                \
		 OPT_STR,                                                                          \
		 "FILE",                                                                           \
		 "look at a cluster's pools and the blocks of all its nodes",                      \
		 AT(kubeconfig)},                                                                  \
		{"context",  0, OPT_STR, "NAME", "of the kubeconfig, instead of its current one",  \
		 AT(context)},                                                                     \
		{"socket", 0, OPT_STR, "PATH", "ask this agent for its node's part", AT(socket)},  \
		{"timeout",                                                                        \
		 0,                                                                                \
		 OPT_DUR,                                                                          \
		 "TIME",                                                                           \
		 "how long to wait for a server (5s)",                                             \
		 offsetof(struct pool_opts, timeout_ms),                                           \
		 1,                                                                                \
		 60 * 1000},                                                                       \
	{                                                                                          \
		"output", 'o', OPT_CHOICE, "text|json", "how to print", AT(output)                 \
	}

static const struct opt look_opts[] = {COMMON, {0}};
static const struct opt release_opts[] = {
	COMMON,
	{"yes", 'y', OPT_FLAG, NULL, "do it; without this only say what would be done", AT(yes)},
	{"dry-run", 0, OPT_FLAG, NULL, "only say what would be done", AT(dry_run)},
	{0}};
static const struct opt check_opts[] = {
	COMMON,
	{"repair", 0, OPT_FLAG, NULL,
	 "write a damaged journal anew, and hold back addresses in doubt", AT(repair)},
	{0}};

const struct cmd pool_cmds[] = {
	{"list", NULL, "the pools, and how much of each is in use", look_opts, 0, 0},
	{"show", "POOL", "who holds the pool's addresses", look_opts, 1, 1},
	{"free", "POOL [N]", "the next N free addresses of a pool; 10 if not given", look_opts, 1,
	 2},
	{"owner", "ADDRESS", "who holds an address", look_opts, 1, 1},
	{"release", "ADDRESS", "free an address, whoever holds it", release_opts, 1, 1},
	{"check", NULL, "hold journal, pools and namespaces against each other", check_opts, 0, 0},
	{0},
};

int pool_address(const char *text, struct ipaddr *ret, struct err *e)
{
	if (ip_parse(span_of(text), ret) == 0)
		return 0;
	return err_set(e, -EINVAL, "'%s' is not an address", text);
}

static bool find_record(struct pool_tool *t, const struct ipaddr *a, struct ipam_record *ret,
			int *r, struct err *e)
{
	auto_free struct ipam_record *v = NULL;
	size_t n = 0;

	*r = ipam_records(t->store, &v, &n, e);
	for (size_t i = 0; i < n; i++)
		if (ip_eq(&v[i].ip, a)) {
			*ret = v[i];
			return true;
		}
	return false;
}

static int say_release(const struct pool_tool *t, const struct ipam_record *rec, bool done)
{
	char text[IP_TEXT_MAX];
	auto_buf struct buf who, b;
	struct json_out j;

	buf_init(&who, 1024);
	buf_init(&b, 4096);
	pool_owner_words(rec, &who);
	ip_str(&rec->ip, text);
	if (t->json) {
		jo_init(&j, &b, 4);
		jo_obj(&j);
		jo_kstr(&j, "address", text);
		jo_kstr(&j, "state", rec->state);
		jo_kstr(&j, "owner", who.p);
		jo_kbool(&j, "released", done);
		jo_end_obj(&j);
		buf_char(&b, '\n');
	} else {
		buf_printf(&b, "%s %s (%s%s%s)\n", done ? "released" : "would release", text,
			   rec->state, who.len ? " by " : "", who.p);
	}
	return help_put(&b);
}

/* Taking an address from a pod that runs makes two pods with one address. */
static int release(struct pool_tool *t, const char *address, struct err *e)
{
	struct ipam_record rec;
	struct ipaddr a;
	int r = pool_address(address, &a, e);

	if (r < 0)
		return r;
	if (!find_record(t, &a, &rec, &r, e))
		return r < 0 ? r : err_set(e, -ENOENT, "nobody holds %s", address);
	if (t->o->dry_run)
		return say_release(t, &rec, false);
	if (!t->o->yes) {
		say_release(t, &rec, false);
		return err_set(e, -EPERM,
			       "say --yes when no running pod has %s any more: another pod may get "
			       "it at once",
			       address);
	}
	r = ipam_release_ip(t->store, &a, e);
	return r < 0 ? r : say_release(t, &rec, true);
}

/* --- check --- */

int pool_findings(const struct pool_tool *t, const struct buf *found, int n)
{
	struct span rest = buf_span(found), line;
	auto_buf struct buf b;
	struct json_out j;

	buf_init(&b, 2 * SAID_MAX);
	if (!t->json) {
		buf_add(&b, found->p, found->len);
		if (n == 0)
			buf_str(&b, "nothing found\n");
		help_put(&b);
		return n > 0;
	}
	jo_init(&j, &b, 4);
	jo_obj(&j);
	jo_kbool(&j, "ok", n == 0);
	jo_key(&j, "findings");
	jo_arr(&j);
	while (span_cut(&rest, '\n', &line)) {
		auto_free char *text = span_dup(line);

		if (line.n > 0)
			jo_str(&j, text);
	}
	jo_end_arr(&j);
	jo_end_obj(&j);
	buf_char(&b, '\n');
	help_put(&b);
	return n > 0;
}

static int check_open(struct pool_tool *t, struct err *e)
{
	auto_buf struct buf found;
	int n;

	buf_init(&found, SAID_MAX);
	n = ipam_check(t->store, &found, e);
	return n < 0 ? n : pool_findings(t, &found, n);
}

static int say_damage(const struct pool_tool *t, const struct err *why)
{
	auto_buf struct buf found;

	buf_init(&found, SAID_MAX);
	buf_printf(
		&found,
		"%s\n"
		"no address is given out or taken back until that is repaired: 'unirail pool check "
		"--repair' keeps every whole line, holds back the addresses that can still be "
		"read in a damaged one, and leaves the old file beside the new one\n",
		why->text);
	return pool_findings(t, &found, 1);
}

static int repair(struct pool_tool *t, const struct ipam_paths *p, struct err *e)
{
	auto_buf struct buf said;
	int r;

	buf_init(&said, SAID_MAX);
	r = ipam_repair(t->root, p, &said, e);
	return r < 0 ? r : pool_findings(t, &said, 0);
}

/* --- main --- */

static int dispatch(struct pool_tool *t, const struct cmd *c, int argc, char **argv, struct err *e)
{
	if (strcmp(c->name, "list") == 0)
		return pool_list(t, e);
	if (strcmp(c->name, "show") == 0)
		return pool_show(t, argv[0], e);
	if (strcmp(c->name, "free") == 0)
		return pool_free_list(t, argv[0], argc > 1 ? argv[1] : "10", e);
	if (strcmp(c->name, "owner") == 0)
		return pool_owner(t, argv[0], e);
	if (strcmp(c->name, "release") == 0)
		return release(t, argv[0], e);
	return check_open(t, e);
}

static int run(struct pool_tool *t, const struct cmd *c, int argc, char **argv, struct err *e)
{
	auto_free char *pool_dir = path_absolute(t->o->pool_dir);
	auto_free char *state_dir = path_absolute(t->o->state_dir);
	const struct ipam_paths paths = {.pool_dir = pool_dir, .state_dir = state_dir};
	bool check = strcmp(c->name, "check") == 0;
	int r;

	if (t->o->kubeconfig || t->o->context)
		return pool_cluster(t, c->name, argc > 0 ? argv[0] : NULL, e);
	if (t->o->socket)
		return pool_of_agent(t, c->name, e);
	if (check && t->o->repair)
		return repair(t, &paths, e);
	r = ipam_open(&t->store, t->root, &paths, e);
	if (r == -EBADMSG && check)
		return say_damage(t, e);
	if (r == 0)
		r = dispatch(t, c, argc, argv, e);
	ipam_close(t->store);
	return r;
}

/* What cannot be, whatever the pools are: a mistake of who types, exit status 2. */
static int check_operands(const struct cmd *c, int argc, char **argv, struct err *e)
{
	struct ipaddr a;
	uint64_t n;

	if (strcmp(c->name, "owner") == 0 || strcmp(c->name, "release") == 0)
		return pool_address(argv[0], &a, e);
	return strcmp(c->name, "free") == 0 && argc > 1 ? pool_free_count(argv[1], &n, e) : 0;
}

int pool_main(int argc, char **argv)
{
	struct pool_opts o = {.output = "text", .timeout_ms = 5000};
	struct pool_tool t = {.o = &o};
	struct err e = ERR_INIT;
	auto_free char *prog = NULL;
	const struct cmd *c;
	struct root root;
	int words, at, r = cmd_pick("unirail pool", pool_cmds, argc, argv, &c, &words, &e);

	if (r < 0)
		return opt_exit("unirail pool", r, &e);
	prog = xasprintf("unirail pool %s", c->name);
	argc -= 1 + words;
	argv += 1 + words;
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
