/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The agent's API on a separate store: request bodies for each POST path that reads one, and many
 * addresses of a container, many leases of a node, and many pools. This file stands in for the
 * agent's server (server/http_server.c).
 */
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agent/api/internal.h"
#include "agent/blocks/internal.h"
#include "base/alloc.h"
#include "base/loop.h"
#include "growth.h"

enum { TEXT_BYTES = 16 << 20 };

struct http_request {
	struct http1_msg msg;
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

void http_answer(struct http_request *q, const struct http1_response *r)
{
	q->status = r->status;
}

void http_answer_error(struct http_request *q, int status, int code, const char *message)
{
	(void)code;
	if (getenv("GROWTH_ANSWERS"))
		fprintf(stderr, "%.*s: %d %.200s\n", (int)q->msg.target.n, q->msg.target.p, status,
			message);
	q->status = status;
}

void http_answer_wrong_method(struct http_request *q, const char *allow, const char *message)
{
	(void)allow, (void)message;
	q->status = 405;
}

/* --- one store, empty for each case --- */

static struct {
	char dir[64];
	struct root root;
	struct loop *loop;
	struct ipam_api *api;
} lab;

static int64_t now_ms(void)
{
	return 1700000000000;
}

static int drop_one(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
	(void)st, (void)flag, (void)ftw;
	return remove(path);
}

static void lab_drop(void)
{
	nftw(lab.dir, drop_one, 16, FTW_DEPTH | FTW_PHYS);
}

static struct ipam_paths paths(void)
{
	return (struct ipam_paths){.pool_dir = "/pools",
				   .state_dir = "/state",
				   .hostlocal_dir = "/none",
				   .node = "node1",
				   .now_ms = now_ms};
}

static void lab_make(void)
{
	if (lab.loop)
		return;
	strcpy(lab.dir, access("/dev/shm", W_OK) == 0 ? "/dev/shm/unirail-growth.XXXXXX"
						      : "/tmp/unirail-growth.XXXXXX");
	if (!mkdtemp(lab.dir) || root_open(&lab.root, lab.dir, NULL) < 0 ||
	    loop_new(&lab.loop, NULL) < 0)
		abort();
	atexit(lab_drop);
}

static void lab_start(const char *pools)
{
	struct ipam_api_conf c;

	lab_make();
	c = (struct ipam_api_conf){.loop = lab.loop, .root = &lab.root, .paths = paths()};
	if (dir_make(&lab.root, "/pools", 0755, NULL) < 0 ||
	    file_replace(&lab.root, "/pools/a.conf", span_of(pools), 0644, NULL) < 0)
		abort();
	file_remove(&lab.root, "/state/journal", NULL);
	file_remove(&lab.root, "/state/journal.anchor", NULL);
	lab.api = ipam_api_new(&c);
}

static void lab_stop(void)
{
	ipam_api_free(lab.api);
	lab.api = NULL;
}

struct growth_lab growth_lab(void)
{
	static const char pool[] = "[pool a]\nsubnet=10.0.0.0/8\n";

	lab_start(pool);
	lab_stop();
	return (struct growth_lab){lab.loop, &lab.root, paths()};
}

static int post(const char *target, struct span body)
{
	struct http_request q = {
		.msg = {.method = span_of("POST"), .target = span_of(target), .body = body}};

	loop_set_now(lab.loop, 1000000);
	ipam_api_handle(lab.api, &q);
	loop_run(lab.loop);
	return q.status;
}

#define POOL                                                                                       \
	"[pool a]\nsubnet=10.0.0.0/8\ngateway=10.0.0.9\ndefault=yes\n"                             \
	"[pool six]\nsubnet=fd00::/64\nips=fd00::1-fd00::ffff:ffff\n"

void growth_api(const struct sample *s)
{
	static const char *const routes[][2] = {
		{"ip", "/v1/ipam/ip"},
		{"plan", "/v1/unirail/pods/plan"},
		{"check", "/v1/unirail/pods/check"},
		{"networks", "/v1/unirail/pods/networks"},
		{"gc", "/v1/unirail/networks/gc"},
		{"pools", "/v1/unirail/pools"},
		{"report", "/v1/unirail/pods/report"},
		{"release", "/v1/unirail/pods/release"},
	};

	lab_start(POOL);
	for (size_t i = 0; i < ARRAY_LEN(routes); i++) {
		auto_buf struct buf b;
		struct json_out o;

		buf_init(&b, TEXT_BYTES);
		jo_init(&o, &b, 0);
		jo_val(&o, json_get(s->object, routes[i][0]), false);
		post(routes[i][1], buf_span(&b));
	}
	lab_stop();
}

/* --- many addresses or interfaces of one container, many containers --- */

static void put_plan(struct buf *b, size_t n)
{
	buf_str(b, "{\"containerID\":\"c\",\"rails\":[{\"ifName\":\"net1\",\"addresses\":[");
	for (size_t i = 0; i < n; i++)
		buf_printf(b, "%s\"10.1.%zu.%zu\"", i ? "," : "", i >> 8, i & 255);
	buf_str(b, "]}]}");
}

static void must_be(int status)
{
	if (status == 200)
		return;
	fprintf(stderr, "growth: the agent's API answers a valid request with status %d\n", status);
	abort();
}

static uint64_t cost_of(const char *target, struct buf *b)
{
	uint64_t before = count_work;

	if (b->over)
		abort();
	must_be(post(target, buf_span(b)));
	buf_done(b);
	lab_stop();
	return count_work - before;
}

static void hold(size_t n)
{
	auto_buf struct buf b;

	lab_start(POOL);
	buf_init(&b, TEXT_BYTES);
	put_plan(&b, n);
	must_be(post("/v1/unirail/pods/plan", buf_span(&b)));
}

/* Adds n addresses to the journal, each of a separate container (`containers`) or of a separate
 * interface of one container. */
static void know(size_t n, bool containers)
{
	auto_free struct ipam_known *v = xcalloc(n, sizeof(*v));
	const struct ipam_paths p = paths();
	auto_free char(*names)[16] = xcalloc(n, sizeof(*names));
	auto_ipam struct ipam *i = NULL;

	for (size_t k = 0; k < n; k++) {
		snprintf(names[k], sizeof(names[k]), "n%06zu", k);
		v[k].address = (struct ipnet){ip_from_num(4, ((u128)10 << 24) + 256 * (k + 1)), 8};
		v[k].owner = (struct ipam_owner){.container_id = containers ? names[k] : "c",
						 .ifname = containers ? "net1" : names[k],
						 .network = "x"};
		v[k].pool = "a";
	}
	if (ipam_open(&i, &lab.root, &p, NULL) < 0 || ipam_know(i, v, n, NULL) != (int)n)
		abort();
}

uint64_t growth_api_asked_again(size_t n)
{
	struct buf b;

	hold(n);
	buf_init(&b, TEXT_BYTES);
	put_plan(&b, n);
	return cost_of("/v1/unirail/pods/plan", &b);
}

static uint64_t check_all(void)
{
	struct buf b;

	buf_init(&b, TEXT_BYTES);
	buf_str(&b, "{\"containerID\":\"c\"}");
	return cost_of("/v1/unirail/pods/check", &b);
}

uint64_t growth_api_check(size_t n)
{
	hold(n);
	return check_all();
}

uint64_t growth_api_check_interfaces(size_t n)
{
	lab_start(POOL);
	know(n, false);
	return check_all();
}

static uint64_t conflicts(size_t n, size_t step)
{
	struct buf b;

	hold(n);
	buf_init(&b, TEXT_BYTES);
	buf_str(&b, "{\"containerID\":\"c\",\"conflicts\":[");
	for (size_t i = 0; i < n; i++)
		buf_printf(&b, "%s{\"address\":\"10.1.%zu.%zu\"}", i ? "," : "", step * i >> 8,
			   step * i & 255);
	buf_str(&b, "]}");
	return cost_of("/v1/unirail/pods/report", &b);
}

uint64_t growth_api_conflicts(size_t n)
{
	return conflicts(n, 1);
}

uint64_t growth_api_one_conflict(size_t n)
{
	return conflicts(n, 0);
}

static uint64_t gc(size_t n, const char *ifname)
{
	struct buf b;

	lab_start(POOL);
	know(n, true);
	buf_init(&b, TEXT_BYTES);
	buf_str(&b, "{\"network\":\"x\",\"valid\":[");
	for (size_t i = n; i-- > 0;)
		buf_printf(&b, "%s{\"containerID\":\"n%06zu\",\"ifName\":\"%s\"}",
			   i + 1 < n ? "," : "", i, ifname);
	buf_str(&b, "]}");
	return cost_of("/v1/unirail/networks/gc", &b);
}

uint64_t growth_api_gc_none(size_t n)
{
	return gc(n, "net1");
}

uint64_t growth_api_gc_all(size_t n)
{
	return gc(n, "net2");
}

/* --- pools of a node --- */

static void start_pools(size_t n)
{
	auto_buf struct buf b;

	buf_init(&b, TEXT_BYTES);
	for (size_t i = 0; i < n; i++)
		buf_printf(&b, "[pool p%zu]\nsubnet=10.%zu.%zu.0/24\ndefault=yes\n", i, i >> 8,
			   i & 255);
	lab_start(b.p);
	know(n, true);
}

static uint64_t pools(size_t n, const char *body)
{
	struct buf b;

	start_pools(n);
	buf_init(&b, TEXT_BYTES);
	buf_str(&b, body);
	return cost_of("/v1/unirail/pools", &b);
}

uint64_t growth_api_pools(size_t n)
{
	return pools(n, "{\"command\":\"list\"}");
}

uint64_t growth_api_pools_json(size_t n)
{
	return pools(n, "{\"command\":\"list\",\"json\":true}");
}

uint64_t growth_api_pools_check(size_t n)
{
	return pools(n, "{\"command\":\"check\"}");
}

/* n_names: length of the request's list of pools; each names one pool ("p7"), or all ("p*"). */
static uint64_t request_cost(size_t n, size_t n_names, bool wildcard)
{
	struct buf b;

	start_pools(n);
	buf_init(&b, TEXT_BYTES);
	buf_str(&b, "{\"containerID\":\"c\",\"ifName\":\"net1\",\"netNamespace\":\"\","
		    "\"podName\":\"p\",\"podNamespace\":\"s\",\"podUID\":\"u\","
		    "\"defaultIPv4IPPool\":[");
	for (size_t i = 0; i < n_names; i++) {
		if (wildcard)
			buf_str(&b, "\"p*\"");
		else
			buf_printf(&b, "%s\"p%zu\"", i ? "," : "", n_names - i - 1);
	}
	buf_str(&b, "]}");
	return cost_of("/v1/ipam/ip", &b);
}

uint64_t growth_api_default_pools(size_t n)
{
	return request_cost(n, 0, false);
}

uint64_t growth_api_named_pools(size_t n)
{
	return request_cost(n, n, false);
}

uint64_t growth_api_wildcard(size_t n)
{
	return request_cost(n, 1, true);
}

/* Loads a directory of n pools as the agent does. */
uint64_t growth_api_pool_files(size_t n)
{
	struct err e = ERR_INIT;
	struct pool_set s;
	uint64_t before;

	start_pools(n);
	lab_stop();
	before = count_work;
	if (pool_set_load(&lab.root, "/pools", &s, &e) < 0)
		abort();
	before = count_work - before;
	if (s.n != n)
		abort();
	pool_set_done(&s);
	return before;
}

/* --- calls that wait for addresses --- */

/* Stands in for struct node_pools, to which waiting calls report their demand. */
static union {
	char bytes[1024];
	void *align;
} no_pools;

static struct api_call *call_for(size_t i, size_t n, uint64_t seq)
{
	struct api_call *c = xcalloc(1, sizeof(*c));

	c->api = lab.api;
	c->seq = seq;
	c->route = api_routes;
	VEC_PUSH(c->needs.v, c->needs.n) =
		(struct need){.pool = xasprintf("p%zu", n - i), .count = 1};
	return c;
}

static void stop(void *arg)
{
	(void)arg;
	loop_stop(lab.loop, 0);
}

/* n calls, each of which waits for a separate pool. */
uint64_t growth_api_waiting(size_t n)
{
	struct ipam_api *a;
	uint64_t before;

	lab_start(POOL);
	a = lab.api;
	a->conf.node_pools = (struct node_pools *)&no_pools;
	a->conf.wait_ms = 1000;
	loop_set_now(lab.loop, 1000000);
	before = count_work;
	for (size_t i = 0; i < n; i++)
		api_pending_add(call_for(i, n, i));
	loop_add_timer(lab.loop, 0, stop, NULL);
	loop_run(lab.loop);
	before = count_work - before;
	if (a->wanted.n != n)
		abort();
	lab_stop();
	return before;
}

/* n pools are reported as changed while n calls wait for other pools. */
uint64_t growth_api_pools_changed(size_t n)
{
	struct ipam_api *a;
	uint64_t before;

	lab_start(POOL);
	a = lab.api;
	a->conf.node_pools = (struct node_pools *)&no_pools;
	a->conf.wait_ms = 1000;
	loop_set_now(lab.loop, 1000000);
	for (size_t i = 0; i < n; i++)
		api_pending_add(call_for(i, n, i));
	before = count_work;
	for (size_t i = 0; i < n; i++) {
		char pool[16];

		snprintf(pool, sizeof(pool), "q%zu", i);
		ipam_api_changed(a, pool);
	}
	loop_add_timer(lab.loop, 0, stop, NULL);
	loop_run(lab.loop);
	before = count_work - before;
	if (!a->pending)
		abort();
	lab_stop();
	return before;
}

/* Merges 2n reservations of addresses that requests name: two of each of n addresses. */
uint64_t growth_api_reserved(size_t n)
{
	uint64_t before = count_work;
	struct blocks_reservation *v = NULL;
	size_t count = 0;

	for (size_t i = 0; i < 2 * n; i++) {
		const struct ipaddr a = ip_from_num(4, ((u128)10 << 24) + n - i % n);

		blocks_reservations_add(&v, &count, &a, (int64_t)i);
	}
	blocks_reservations_merge(v, &count);
	before = count_work - before;
	if (count != n || v[0].until_ms != (int64_t)(2 * n - 1))
		abort();
	free(v);
	return before;
}
