/* SPDX-License-Identifier: Apache-2.0 */
/* `unirail verify`: does RDMA work between two pods, namespaces or hosts, and how fast. */
#include "cli/verify/verify.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "cli/tools.h"

enum { OUT_MAX = 4 << 20, TIME_MAX_MS = 3600000 };

struct verify_opts {
	bool listen, once, all, write, send, read;
	const char *device, *output;
	int64_t port, gid_index, size, count, time_ms;
};

#define AT(field) offsetof(struct verify_opts, field)
static const struct opt opts[] = {
	{"listen", 'l', OPT_FLAG, NULL, "answer tests of a peer; the operand is [ADDRESS][:PORT]",
	 AT(listen), 0, 0},
	{"once", 0, OPT_FLAG, NULL, "with --listen: end after one test, with its exit status",
	 AT(once), 0, 0},
	{"all", 'a', OPT_FLAG, NULL,
	 "test every local address that has an RDMA device against the peer's address of the same subnet or else of the same interface name",
	 AT(all), 0, 0},
	{"write", 0, OPT_FLAG, NULL, "test RDMA WRITE (the default)", AT(write), 0, 0},
	{"send", 0, OPT_FLAG, NULL, "test SEND and RECEIVE", AT(send), 0, 0},
	{"read", 0, OPT_FLAG, NULL, "test RDMA READ", AT(read), 0, 0},
	{"size", 's', OPT_INT, "BYTES", "length of a message (65536)", AT(size), 1,
	 VERIFY_SIZE_MAX},
	{"count", 'n', OPT_INT, "N",
	 "number of messages of the bandwidth measurement, instead of --time", AT(count), 1,
	 1000000000},
	{"time", 't', OPT_DUR, "TIME", "duration of the bandwidth measurement (2s)", AT(time_ms), 1,
	 TIME_MAX_MS},
	{"device", 'd', OPT_STR, "DEVICE", "RDMA device; without it the device of the address",
	 AT(device), 0, 0},
	{"port", 'i', OPT_INT, "PORT", "port of the RDMA device", AT(port), 1, 255},
	{"gid-index", 'x', OPT_INT, "INDEX",
	 "GID index of the port; without it the RoCE v2 GID of the address", AT(gid_index), 0,
	 65535},
	{"output", 'o', OPT_CHOICE, "text|json", "output format", AT(output), 0, 0},
	{0}};

const struct cmd verify_cmds[] = {{NULL, "[HOST[:PORT]]",
				   "test RDMA with a peer: data, latency, bandwidth", opts, 0, 1},
				  {0}};

static void on_signal(int sig)
{
	verify_stop = sig;
}

/* Without SA_RESTART: a wait ends at once. */
static void catch_signals(void)
{
	struct sigaction sa = {.sa_handler = on_signal};

	sigaction(SIGINT, &sa, NULL);
	sigaction(SIGTERM, &sa, NULL);
}

static int choose_op(const struct verify_opts *o, enum verbs_op *ret, struct err *e)
{
	if (o->write + o->send + o->read > 1)
		return err_set(e, -EINVAL, "--write, --send and --read exclude each other");
	*ret = o->send ? VERBS_SEND : o->read ? VERBS_READ : VERBS_WRITE;
	return 0;
}

static int check_words(const struct verify_opts *o, const char *host, struct err *e)
{
	if (o->once && !o->listen)
		return err_set(e, -EINVAL, "--once goes with --listen");
	if (o->listen && (o->all || o->write || o->send || o->read || o->count))
		return err_set(e, -EINVAL,
			       "what is tested is chosen on the other side than --listen");
	if (!o->listen && (!host || !*host || *host == ':'))
		return err_set(e, -EINVAL,
			       "no peer given: 'unirail verify --listen' on one side, 'unirail "
			       "verify HOST' on the other");
	if (o->all && (o->device || o->port || o->gid_index >= 0))
		return err_set(e, -EINVAL, "--all finds devices by the rails' addresses");
	return 0;
}

static int put_json(const struct verify_result *v, size_t n)
{
	auto_buf struct buf b;

	buf_init(&b, OUT_MAX);
	verify_show_json(v, n, &b);
	return help_put(&b);
}

static int test_one(const struct verify_facts *f, const struct verify_place *to,
		    const struct verify_test *t, bool json, struct err *e)
{
	struct verify_result res = {.gid_index = -1, .peer_gid_index = -1};
	int r = verify_run(f, to, t, &res, e);

	if (json) {
		put_json(&res, 1);
		return r < 0 ? 1 : 0;
	}
	if (r == 0)
		verify_show_one(&res, stdout);
	return r;
}

static int test_all(const struct verify_facts *f, const struct verify_place *to,
		    const struct verify_test *t, bool json, struct err *e)
{
	auto_free struct verify_result *v = NULL;
	size_t n = 0;
	int status = 0, r = verify_run_all(f, to, t, &v, &n, e);

	if (r < 0)
		return r;
	if (json)
		put_json(v, n);
	else
		verify_show_table(v, n, stdout);
	for (size_t i = 0; i < n; i++)
		status |= v[i].err.code != 0;
	return status;
}

static int run(const struct verify_opts *o, const struct verify_place *place, enum verbs_op op,
	       struct err *e)
{
	bool json = !strcmp(o->output, "json");
	const struct verify_choice choice = {o->device, (uint32_t)o->port, (int)o->gid_index};
	const struct verify_serve serve = {*place, choice, o->once, json};
	const struct verify_test test = {.op = op,
					 .size = (uint32_t)o->size,
					 .count = (uint64_t)o->count,
					 .time_ms = o->time_ms,
					 .choice = choice};
	auto_verify_facts struct verify_facts f = {0};
	int r;

	if (o->listen)
		return verify_serve(&serve, e);
	r = verify_facts_read(&f, e);
	if (r < 0)
		return r;
	return o->all ? test_all(&f, place, &test, json, e) : test_one(&f, place, &test, json, e);
}

int verify_main(int argc, char **argv)
{
	struct verify_opts o = {.output = "text", .gid_index = -1, .size = 65536, .time_ms = 2000};
	const char *host;
	struct verify_place place;
	enum verbs_op op = VERBS_WRITE;
	struct err e = ERR_INIT;
	int r, at = opt_parse(verify_cmds, "unirail verify", argc - 1, argv + 1, &o, &e);

	if (at < 0)
		return opt_exit("unirail verify", at, &e);
	host = at < argc - 1 ? argv[1 + at] : NULL;
	r = choose_op(&o, &op, &e);
	if (r == 0)
		r = check_words(&o, host, &e);
	if (r == 0)
		r = verify_place_parse(host ? host : "", &place, &e);
	if (r < 0)
		return opt_exit("unirail verify", r, &e);
	catch_signals();
	r = run(&o, &place, op, &e);
	if (r >= 0)
		return r;
	fprintf(stderr, "unirail verify: %s\n", e.text);
	return 1;
}
