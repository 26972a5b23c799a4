/* SPDX-License-Identifier: Apache-2.0 */
/* `unirail rdma`: the RDMA devices of this namespace, and how namespaces share them. */
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "kern/rdma/rdma.h"
#include "cli/rdma_show.h"
#include "cli/tools.h"
#include "wire/json/json.h"

enum { OUT_MAX = 1 << 20 };

#define NO_RDMA "this kernel has no RDMA (module ib_core is not loaded, or not built)"

struct rdma_opts {
	const char *output;
};

static const struct opt opts[] = {
	{"output", 'o', OPT_CHOICE, "text|json", "output format",
	 offsetof(struct rdma_opts, output), 0, 0},
	{0},
};

/* `link` and `system` are iproute2's words, as is a "show" behind any of them. */
const struct cmd rdma_cmds[] = {
	{"dev", "[show]", "devices and ports, and whether libibverbs can use them", opts, 0, 1},
	{"link", "[show]", "the same as 'rdma dev': each port is listed with its device", opts, 0,
	 1},
	{"mode", "[show]", "whether network namespaces share RDMA devices or own them", opts, 0, 1},
	{"system", "[show]", "the same as 'rdma mode'", opts, 0, 1},
	{0},
};

static bool is_mode(const struct cmd *c)
{
	return !strcmp(c->name, "mode") || !strcmp(c->name, "system");
}

static int dev_text(const struct rdma_dev *list, size_t n, bool supported)
{
	if (!supported)
		puts(NO_RDMA);
	else if (!n)
		puts("no RDMA devices in this network namespace");
	else
		rdma_show_text(list, n, stdout);
	return 0;
}

static int dev_json(const struct rdma_dev *list, size_t n)
{
	auto_buf struct buf b;

	buf_init(&b, OUT_MAX);
	rdma_show_json(list, n, &b);
	return help_put(&b);
}

static int show_dev(bool json, struct err *e)
{
	auto_free struct rdma_dev *list = NULL;
	bool supported;
	size_t n;
	int r = rdma_dev_list(&list, &n, &supported, e);

	if (r < 0)
		return r;
	return json ? dev_json(list, n) : dev_text(list, n, supported);
}

/* name NULL: no RDMA */
static int mode_json(const char *name)
{
	auto_buf struct buf b = {0};
	struct json_out o;

	buf_init(&b, OUT_MAX);
	jo_init(&o, &b, 4);
	jo_obj(&o);
	jo_kbool(&o, "supported", name != NULL);
	jo_kstr(&o, "mode", name);
	jo_end_obj(&o);
	buf_char(&b, '\n');
	return help_put(&b);
}

static int show_mode(bool json, struct err *e)
{
	enum rdma_netns_mode mode = RDMA_NETNS_SHARED;
	int r = rdma_netns_mode_get(&mode, e);
	const char *name = mode == RDMA_NETNS_SHARED ? "shared" : "exclusive";

	/* A kernel that does not know the mode shares its devices. */
	if (r < 0 && r != -EPROTONOSUPPORT && r != -EOPNOTSUPP)
		return r;
	if (r == -EPROTONOSUPPORT)
		name = NULL;
	if (json)
		return mode_json(name);
	if (!name)
		puts(NO_RDMA);
	else if (mode == RDMA_NETNS_SHARED)
		puts("shared: every network namespace sees every RDMA device");
	else
		puts("exclusive: an RDMA device is seen in the network namespace it was put into");
	return 0;
}

static int read_words(int argc, char **argv, struct rdma_opts *o, const struct cmd **ret,
		      struct err *e)
{
	auto_free char *prog = NULL;
	int words, at, r = cmd_pick("unirail rdma", rdma_cmds, argc, argv, ret, &words, e);

	if (r < 0)
		return r;
	prog = xasprintf("unirail rdma %s", (*ret)->name);
	argc -= 1 + words;
	argv += 1 + words;
	at = opt_parse(*ret, prog, argc, argv, o, e);
	if (at >= 0 && at < argc && strcmp(argv[at], "show"))
		return err_set(e, -EINVAL, "%s: unknown operand '%s', expected 'show'",
			       (*ret)->name, argv[at]);
	return at;
}

int rdma_main(int argc, char **argv)
{
	struct rdma_opts o = {.output = "text"};
	const struct cmd *c = NULL;
	struct err e = ERR_INIT;
	int r = read_words(argc, argv, &o, &c, &e);
	bool json;

	if (r < 0)
		return opt_exit("unirail rdma", r, &e);
	json = !strcmp(o.output, "json");
	r = is_mode(c) ? show_mode(json, &e) : show_dev(json, &e);
	if (r < 0) {
		fprintf(stderr, "unirail rdma: %s\n", e.text);
		return 1;
	}
	return r;
}
