/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Input after the first byte 'r' (fuzz_agent.c): a byte that selects the call, then the answers to the
 * requests of this call, separated by NUL: the status in the first line, then the body. When no
 * answer is left, no server listens. This file stands in for wire/http/http1_client.c.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "agent.h"
#include "base/alloc.h"
#include "base/num.h"
#include "cni/ipam/spiderpool/legacy_agent.h"
#include "wire/http/http1.h"

enum { RAILS = 2, BODY_MAX = 4 << 20, QUESTIONS = 6 };

static struct feed answers;

/* Whatever the earlier answers were, each request has a method and a path, and its body is empty
 * or JSON. */
static void check_request(const struct http1_request *r)
{
	auto_json struct json_doc *d = NULL;

	must(*r->method && *r->target == '/');
	must(r->body.n == 0 || json_parse(&d, r->body, BODY_MAX, NULL) == 0);
}

int http1_call(const struct http1_call *call, struct buf *body, struct err *e)
{
	struct span text = feed_part(&answers), line;
	uint64_t status;

	check_request(&call->request);
	buf_init(body, BODY_MAX);
	if (!span_cut(&text, '\n', &line))
		return err_kind(e, ERR_UNAVAILABLE, -ECONNREFUSED, "connect to '%s'", call->socket);
	if (num_u64(line, 200, 999, &status) < 0)
		status = 200;
	buf_add(body, text.p, text.n);
	return (int)status;
}

/* Two rails of a pod. */
struct scene {
	struct cni_call call;
	struct cni_attachment valid;
	struct cni_ipam_call calls[RAILS];
	const struct cni_ipam_call *list[RAILS];
	struct cni_result out[RAILS];
	struct cni_ipam_flags flags[RAILS];
	struct rail_request rails[RAILS];
	const struct rail_request *requests[RAILS];
};

static void make_rail(struct scene *s, size_t i, const char *ifname)
{
	s->calls[i] = (struct cni_ipam_call){.call = &s->call,
					     .name = "rails",
					     .ifname = ifname,
					     .out = &s->out[i],
					     .flags = &s->flags[i]};
	s->list[i] = &s->calls[i];
	s->rails[i] = (struct rail_request){.call = s->list[i],
					    .conf = {.socket = "/sock"},
					    .request.args = {.pod_name = "a",
							     .pod_namespace = "default"}};
	s->requests[i] = &s->rails[i];
}

static void make(struct scene *s)
{
	s->call = (struct cni_call){.command = "ADD",
				    .container_id = "c1",
				    .netns = "/run/netns/x",
				    .args_text = "K8S_POD_NAME=a;K8S_POD_NAMESPACE=default",
				    .root = *fuzz_root(),
				    .name = "rails",
				    .has_valid = true,
				    .valid = &s->valid,
				    .n_valid = 1};
	s->valid = (struct cni_attachment){.container_id = "c2", .ifname = "net1"};
	make_rail(s, 0, "net1");
	make_rail(s, 1, "net2");
}

/* If the call succeeds, each rail has an address; all addresses and routes have a family. */
static int request_add(struct scene *s, struct err *e)
{
	int r = spiderpool_socket_add(s->requests, RAILS, e);

	for (size_t i = 0; i < RAILS; i++) {
		must(r < 0 || s->out[i].n_ips > 0);
		for (size_t k = 0; k < s->out[i].n_ips; k++)
			must(s->out[i].ips[k].address.ip.family &&
			     s->out[i].ips[k].address.len <= 128);
		for (size_t k = 0; k < s->out[i].n_routes; k++)
			must(s->out[i].routes[k].dst.ip.family);
	}
	return r;
}

static int request_held(struct scene *s, struct err *e)
{
	auto_free struct ipnet *held = NULL;
	bool known = true;
	size_t n = 0;
	int r = spiderpool_socket_held("/sock", s->list[0], &held, &n, &known, e);

	for (size_t i = 0; i < n; i++)
		must(held[i].ip.family && held[i].len <= ip_bits(&held[i].ip));
	must(known || n == 0);
	return r;
}

static int send_request(struct scene *s, uint8_t question, struct err *e)
{
	const struct ipaddr a = {.family = 4, .b = {10, 0, 0, 2}};

	switch (question % QUESTIONS) {
	case 0: return request_add(s, e);
	case 1: return spiderpool_socket_try(&s->rails[0], e);
	case 2: return spiderpool_socket_del("/sock", 1000, s->list, RAILS, e);
	case 3: return request_held(s, e);
	case 4: return spiderpool_socket_gc("/sock", s->list[0], e);
	default: return spiderpool_socket_conflict("/sock", s->list[0], &a, NULL, e);
	}
}

void agent_replies(struct feed f)
{
	uint8_t question = feed_byte(&f);
	struct err e = ERR_INIT;
	struct scene s = {0};

	answers = f;
	make(&s);
	fuzz_refused(send_request(&s, question, &e), &e);
	for (size_t i = 0; i < RAILS; i++)
		cni_result_done(&s.out[i]);
}
