/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/verify/verify.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/option.h"
#include "base/table.h"
#include "wire/json/json.h"

/*
 * `unirail verify`: checks that RDMA works between two pods, namespaces or hosts, and measures
 * latency and bandwidth.
 */

enum { OUT_MAX = 4 << 20, TIME_MAX_MS = 3600000 };

struct verify_opts {
	bool listen, once, all, write, send, read;
	const char *device, *output;
	int64_t port, gid_index, size, count, time_ms;
};

#define AT(field) offsetof(struct verify_opts, field)
static const struct opt opts[] = {
	{"listen", 'l', OPT_FLAG, NULL,
	 "answer the tests of a peer; the operand is "
	 "[ADDRESS][:PORT]",
	 AT(listen), 0, 0},
	{"once", 0, OPT_FLAG, NULL,
	 "with --listen: end after one test; the exit status is that of the test", AT(once), 0, 0},
	{"all", 'a', OPT_FLAG, NULL,
	 "test every local address that has an RDMA device; the other end is the peer's address "
	 "in the same subnet, or if there is none, on the interface of the same name",
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
	{"device", 'd', OPT_STR, "DEVICE", "RDMA device (default: the device of the local address)",
	 AT(device), 0, 0},
	{"port", 'i', OPT_INT, "PORT", "port of the RDMA device", AT(port), 1, 255},
	{"gid-index", 'x', OPT_INT, "INDEX",
	 "GID index of the port (default: index of the RoCE v2 GID of the local address)",
	 AT(gid_index), 0, 255},
	{"output", 'o', OPT_CHOICE, "text|json", "output format", AT(output), 0, 0},
	{0}};

const struct cmd verify_cmds[] = {{NULL, "[HOST[:PORT]]",
				   "test RDMA with a peer: data, latency, bandwidth", opts, 0, 1},
				  {0}};

static void on_signal(int sig)
{
	verify_stop = sig;
}

/* After SIGINT or SIGTERM, poll(), in which all waits sleep, fails with EINTR at once. */
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

static int check_args(const struct verify_opts *o, const char *host, struct err *e)
{
	if (o->once && !o->listen)
		return err_set(e, -EINVAL, "--once needs --listen");
	if (o->listen && (o->all || o->write || o->send || o->read || o->count))
		return err_set(e, -EINVAL,
			       "--listen has no test options: set them on the side that names the "
			       "peer");
	if (!o->listen && (!host || !*host || *host == ':'))
		return err_set(e, -EINVAL,
			       "no peer given: run 'unirail verify --listen' on one side and "
			       "'unirail verify HOST' on the other");
	if (o->all && (o->device || o->port || o->gid_index >= 0))
		return err_set(e, -EINVAL,
			       "--all selects devices by the rails' addresses: use it without "
			       "--device, --port and --gid-index");
	return 0;
}

static int put_json(const struct verify_result *v, size_t n)
{
	auto_buf struct buf b;

	buf_init(&b, OUT_MAX);
	verify_show_json(v, n, &b);
	return opt_print(&b);
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

static int verify_run_all(const struct verify_facts *f, const struct verify_place *to,
			  const struct verify_test *t, struct verify_result **ret, size_t *n,
			  struct err *e);

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
		r = check_args(&o, host, &e);
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

/* --- option --all: one test for each rail of this namespace, with the matching rail of the peer
 * --- */

enum { FAR_MAX = 1024, CONNECT_MS = 10000 };

static bool same_subnet(const struct ipnet *a, const struct ipnet *b)
{
	struct ipnet x = ipnet_network(a), y = ipnet_network(b);

	return ipnet_eq(&x, &y);
}

/* Returns how well two rails match: 3: subnet and name, 2: subnet, 1: name, 0: neither, or another
 * address family. */
static int nearness(const struct verify_rail *near, const struct verify_far *far)
{
	if (far->net.ip.family != near->net.ip.family)
		return 0;
	return 2 * same_subnet(&far->net, &near->net) + !strcmp(far->ifname, near->ifname);
}

void verify_match(const struct verify_rail *near, size_t n, const struct verify_far *far,
		  size_t n_far, int *ret)
{
	for (size_t i = 0; i < n; i++) {
		int best = 0;

		ret[i] = -1;
		for (size_t k = 0; k < n_far; k++) {
			int is = nearness(&near[i], &far[k]);

			if (is <= best)
				continue;
			best = is;
			ret[i] = (int)k;
		}
	}
}

static int query_far(const struct verify_place *to, struct verify_far **ret, size_t *n,
		     struct err *e)
{
	auto_verify_conn struct verify_conn c = VERIFY_CONN_INIT;
	auto_free struct verify_far *list = NULL;
	struct verify_msg m = {.verb = VERIFY_RAILS};
	int r = verify_connect(&c, to, CONNECT_MS, e);

	if (r == 0)
		r = verify_put(&c, &m, e);
	while (r == 0) {
		r = verify_get(&c, &m, VERIFY_TIMEOUT_MS, e);
		if (r < 0 || m.verb != VERIFY_RAIL)
			break;
		if (*n == FAR_MAX)
			return err_set(e, -EMSGSIZE, "the peer has more than %d rails", FAR_MAX);
		struct verify_far *far = &VEC_PUSH(list, *n);

		str_copy(far->ifname, sizeof(far->ifname), m.ifname);
		str_copy(far->device, sizeof(far->device), m.device);
		far->net = m.net;
	}
	if (r < 0)
		return r;
	if (m.verb != VERIFY_DONE)
		return err_set(e, -EPROTO, "the peer sent '%s', expected 'done'",
			       verify_verb_name(m.verb));
	*ret = take(list);
	return 0;
}

static void run_one(const struct verify_facts *f, const struct verify_place *to,
		    const struct verify_test *t, const struct verify_rail *near,
		    const struct verify_far *far, struct verify_result *ret)
{
	struct verify_test one = *t;

	*ret = (struct verify_result){.net = near->net, .gid_index = near->gid_index};
	str_copy(ret->ifname, sizeof(ret->ifname), near->ifname);
	str_copy(ret->device, sizeof(ret->device), near->dev->name);
	if (!far) {
		err_set(&ret->err, -ENOENT,
			"the peer has no address of the rail's family with an RDMA device in the "
			"rail's subnet or on an interface with the rail's name");
		return;
	}
	ret->peer_net = far->net;
	str_copy(ret->peer_ifname, sizeof(ret->peer_ifname), far->ifname);
	str_copy(ret->peer_device, sizeof(ret->peer_device), far->device);
	one.at = far->net.ip;
	verify_run(f, to, &one, ret, NULL);
}

/*
 * Tests every rail of this namespace with the rail that verify_match() finds, one after another.
 * *ret: one result per rail.
 */
static int verify_run_all(const struct verify_facts *f, const struct verify_place *to,
			  const struct verify_test *t, struct verify_result **ret, size_t *n,
			  struct err *e)
{
	auto_free struct verify_rail *near = NULL;
	auto_free struct verify_far *far = NULL;
	auto_free int *match = NULL;
	size_t n_near, n_far = 0;
	int r;

	verify_rails(f, &near, &n_near);
	if (!n_near) {
		const struct ipaddr any = {.family = 4};
		struct verify_rail rail;

		r = f->n_devs ? 0 : verify_pick(f, &any, &t->choice, &rail, e);
		return r < 0 ? r
			     : err_kind(e, ERR_UNAVAILABLE, -ENODEV,
					"no interface with an address in this network namespace "
					"has an RDMA device; see 'unirail rdma list'");
	}
	r = query_far(to, &far, &n_far, e);
	if (r < 0)
		return r;
	match = xcalloc(n_near, sizeof(*match));
	verify_match(near, n_near, far, n_far, match);
	*ret = xcalloc(n_near, sizeof(**ret));
	*n = n_near;
	for (size_t i = 0; i < n_near; i++)
		run_one(f, to, t, &near[i], match[i] < 0 ? NULL : &far[match[i]], &(*ret)[i]);
	return 0;
}

/* Formats v with three significant digits: a measurement of a few seconds is not more precise. */
static const char *scaled(double v, const char *const *units, size_t n, double step, char *ret)
{
	size_t i = 0;

	while (i + 1 < n && v >= step) {
		v /= step;
		i++;
	}
	snprintf(ret, VERIFY_NUMBER_MAX, "%.*f %s", v < 9.995 ? 2 : v < 99.95 ? 1 : 0, v, units[i]);
	return ret;
}

const char *verify_rate_str(uint64_t bytes_per_s, char ret[static VERIFY_NUMBER_MAX])
{
	static const char *const units[] = {"b/s", "kb/s", "Mb/s", "Gb/s", "Tb/s"};

	return scaled((double)bytes_per_s * 8, units, ARRAY_LEN(units), 1000, ret);
}

const char *verify_time_str(uint64_t ns, char ret[static VERIFY_NUMBER_MAX])
{
	static const char *const units[] = {"us", "ms", "s"};

	return scaled((double)ns / 1000, units, ARRAY_LEN(units), 1000, ret);
}

const char *verify_size_str(uint64_t bytes, char ret[static VERIFY_NUMBER_MAX])
{
	static const char *const units[] = {"KiB", "MiB", "GiB", "TiB"};

	if (bytes < 1024)
		snprintf(ret, VERIFY_NUMBER_MAX, "%u bytes", (unsigned int)bytes);
	else
		scaled((double)bytes / 1024, units, ARRAY_LEN(units), 1024, ret);
	return ret;
}

/* Prints one end of a test, such as "172.16.1.10 (net1, mlx5_0 port 1, GID 3)". */
static void put_end(const struct ipnet *net, const char *ifname, const char *device, uint32_t port,
		    int gid, FILE *f)
{
	char text[IP_TEXT_MAX];

	if (net->ip.family)
		fprintf(f, "%s (%s, ", ip_str(&net->ip, text), ifname);
	fprintf(f, "%s port %u", device, port);
	if (gid >= 0)
		fprintf(f, ", GID %d", gid);
	if (net->ip.family)
		fputc(')', f);
}

/* Warns about different MTUs: RDMA uses the smaller one and works, but the side with the smaller
 * MTU drops larger packets of sockets. */
static void put_mtus(const struct verify_result *r, const char *before, FILE *f)
{
	uint32_t most = r->link_mtu > r->peer_link_mtu ? r->link_mtu : r->peer_link_mtu;

	if (r->link_mtu && r->peer_link_mtu && r->link_mtu != r->peer_link_mtu)
		fprintf(f,
			"%sMTU %u of '%s' here differs from %u of '%s' at the peer: set %u on both "
			"('unirail host addr NIC --mtu %u' on the host, mtu in the pods' "
			"network)\n",
			before, r->link_mtu, r->ifname, r->peer_link_mtu, r->peer_ifname, most,
			most);
}

void verify_show_one(const struct verify_result *r, FILE *f)
{
	char a[VERIFY_NUMBER_MAX], b[VERIFY_NUMBER_MAX], c[VERIFY_NUMBER_MAX];

	put_end(&r->net, r->ifname, r->device, r->port, r->gid_index, f);
	fputs(" and ", f);
	put_end(&r->peer_net, r->peer_ifname, r->peer_device, r->peer_port, r->peer_gid_index, f);
	fprintf(f, "\n%s, RDMA MTU %u\n", r->ethernet ? "RoCE" : "InfiniBand", r->mtu);
	fprintf(f, "  data       %s by RDMA %s, every byte correct\n",
		verify_size_str(r->checked, a), verify_op_name(r->op));
	fprintf(f, "  latency    %s (least %s, 99 of 100 within %s)\n",
		verify_time_str(r->lat_p50_ns, a), verify_time_str(r->lat_min_ns, b),
		verify_time_str(r->lat_p99_ns, c));
	fprintf(f, "  bandwidth  %s (RDMA %s, messages of %s, %s in all)\n",
		verify_rate_str(r->rate, a), verify_op_name(r->op), verify_size_str(r->size, b),
		verify_size_str(r->bytes, c));
	put_mtus(r, "  note       ", f);
}

static void add_row(struct columns *c, const struct verify_result *r)
{
	char text[VERIFY_NUMBER_MAX], ip[IP_TEXT_MAX];
	bool ok = !r->err.code;

	columns_add(c, r->ifname);
	columns_add(c, r->net.ip.family ? ip_str(&r->net.ip, ip) : NULL);
	columns_add(c, r->device);
	columns_add(c, r->peer_net.ip.family ? ip_str(&r->peer_net.ip, ip) : NULL);
	columns_add(c, r->peer_device);
	if (r->mtu)
		columns_addf(c, "%u", r->mtu);
	else
		columns_add(c, NULL);
	columns_add(c, ok ? "right" : NULL);
	columns_add(c, ok ? verify_time_str(r->lat_p50_ns, text) : NULL);
	columns_add(c, ok ? verify_rate_str(r->rate, text) : NULL);
}

void verify_show_table(const struct verify_result *v, size_t n, FILE *f)
{
	static const char *const head[] = {"INTERFACE",	 "ADDRESS",	"DEVICE",
					   "PEER",	 "PEER DEVICE", "MTU",
					   "DATA CHECK", "LATENCY",	"BANDWIDTH"};
	auto_columns struct columns c;
	size_t bad = 0;

	columns_init(&c, ARRAY_LEN(head), "");
	for (size_t i = 0; i < ARRAY_LEN(head); i++)
		columns_add(&c, head[i]);
	for (size_t i = 0; i < n; i++)
		add_row(&c, &v[i]);
	columns_print(&c, f);
	for (size_t i = 0; i < n; i++) {
		char ip[IP_TEXT_MAX];

		if (!v[i].err.code) {
			auto_free char *place =
				xasprintf("%s %s: ", v[i].ifname, ip_str(&v[i].net.ip, ip));

			put_mtus(&v[i], place, f);
			continue;
		}
		fprintf(f, "%s %s: %s\n", v[i].ifname, ip_str(&v[i].net.ip, ip), v[i].err.text);
		bad++;
	}
	if (bad)
		fprintf(f, "%zu of %zu rails failed\n", bad, n);
}

static void json_end(struct json_out *o, const char *key, const struct ipnet *net,
		     const char *ifname, uint32_t mtu, const char *device, uint32_t port, int gid)
{
	char text[IP_TEXT_MAX];

	jo_key(o, key);
	jo_obj(o);
	jo_kstr(o, "address", net->ip.family ? ip_str(&net->ip, text) : NULL);
	jo_kstr(o, "interface", ifname);
	jo_key(o, "interfaceMtu");
	if (mtu)
		jo_int(o, mtu);
	else
		jo_null(o);
	jo_kstr(o, "device", device);
	jo_kint(o, "port", port);
	jo_kint(o, "gidIndex", gid);
	jo_end_obj(o);
}

static void json_numbers(struct json_out *o, const struct verify_result *r)
{
	jo_kstr(o, "link", r->ethernet ? "Ethernet" : "InfiniBand");
	jo_kint(o, "mtu", r->mtu);
	jo_kstr(o, "operation", verify_op_name(r->op));
	jo_kint(o, "messageBytes", r->size);
	jo_kint(o, "checkedBytes", (int64_t)r->checked);
	jo_key(o, "latencyNs");
	jo_obj(o);
	jo_kint(o, "min", (int64_t)r->lat_min_ns);
	jo_kint(o, "average", (int64_t)r->lat_avg_ns);
	jo_kint(o, "median", (int64_t)r->lat_p50_ns);
	jo_kint(o, "p99", (int64_t)r->lat_p99_ns);
	jo_end_obj(o);
	jo_kint(o, "bytes", (int64_t)r->bytes);
	jo_kint(o, "bytesPerSecond", (int64_t)r->rate);
}

void verify_show_json(const struct verify_result *v, size_t n, struct buf *b)
{
	struct json_out o;
	bool ok = true;

	for (size_t i = 0; i < n; i++)
		ok = ok && !v[i].err.code;
	jo_init(&o, b, 4);
	jo_obj(&o);
	jo_kbool(&o, "ok", ok);
	jo_key(&o, "rails");
	jo_arr(&o);
	for (size_t i = 0; i < n; i++) {
		const struct verify_result *r = &v[i];

		jo_obj(&o);
		jo_kbool(&o, "ok", !r->err.code);
		jo_kstr(&o, "error", r->err.code ? r->err.text : NULL);
		json_end(&o, "here", &r->net, r->ifname, r->link_mtu, r->device, r->port,
			 r->gid_index);
		json_end(&o, "peer", &r->peer_net, r->peer_ifname, r->peer_link_mtu, r->peer_device,
			 r->peer_port, r->peer_gid_index);
		json_numbers(&o, r);
		jo_end_obj(&o);
	}
	jo_end_arr(&o);
	jo_end_obj(&o);
	buf_char(b, '\n');
}
