/* SPDX-License-Identifier: Apache-2.0 */
/* The spiderpool IPAM in process. One call allocates for all rails of a local store under one
 * lock and with one journal line, and for all rails of one server of unirail with one request. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "cni/ipam/spiderpool/internal.h"

/* Time limit of a release request to a server if server_state_dir is set: if the server does not
 * answer in time, the addresses are released in the store in that directory. */
enum { DEL_MS = 10 * 1000 };

struct asking {
	struct rail_request *v;
	size_t n;
};

static void asking_done(struct asking *a)
{
	for (size_t i = 0; i < a->n; i++) {
		ipam_request_done(&a->v[i].request);
		free(a->v[i].want);
	}
	free(a->v);
}

static int add_want(struct rail_request *r, const char *where, const char *text, struct err *e)
{
	struct ipnet net;

	if (ipnet_parse_loose(span_of(text), &net) < 0)
		return err_kind(e, ERR_CONF, -EINVAL, "%s: '%s' is not an address", where, text);
	for (size_t i = 0; i < r->n_want; i++)
		if (ip_eq(&r->want[i], &net.ip))
			return 0;
	VEC_PUSH(r->want, r->n_want) = net.ip;
	return 0;
}

/* Adds the address of CNI_ARGS IP, or several that Multus joins: "a,b". */
static int add_args_wants(struct rail_request *r, const char *text, struct err *e)
{
	struct span rest = span_of(text), one;
	int n = 0;

	while (n == 0 && span_cut(&rest, ',', &one)) {
		auto_free char *ip = span_dup(one);

		n = add_want(r, "CNI_ARGS", ip, e);
	}
	if (n < 0 && e)
		e->kind = ERR_ENV;
	return n;
}

static int read_wants(struct rail_request *r, size_t n_rails, struct err *e)
{
	const struct ipam_request *q = &r->request;
	int n = 0;

	for (size_t i = 0; i < q->runtime_ips.n && n == 0; i++)
		n = add_want(r, "conf.runtimeConfig.ips", q->runtime_ips.v[i], e);
	for (size_t i = 0; i < q->args_ips.n && n == 0; i++)
		n = add_want(r, "conf.args.cni.ips", q->args_ips.v[i], e);
	if (n < 0 || !q->args.ip || !*q->args.ip)
		return n;
	if (n_rails > 1 && !r->call->own_args)
		return err_kind(
			e, ERR_ENV, -EINVAL,
			"CNI_ARGS requests address %s for %zu networks: use runtimeConfig.ips of "
			"one network instead",
			q->args.ip, n_rails);
	return add_args_wants(r, q->args.ip, e);
}

static int read_rail(struct rail_request *r, const struct cni_ipam_call *call, size_t n_rails,
		     struct err *e)
{
	int n;

	r->call = call;
	n = ipam_request_read(call, &r->request, e);
	if (n == 0)
		n = spiderpool_conf_read(call, &r->conf, e);
	if (n == 0)
		n = read_wants(r, n_rails, e);
	if (n == 0 && r->conf.match_subnet && !call->master)
		n = err_kind(e, ERR_CONF, -EINVAL,
			     "conf.ipam.match_master_subnet: network '%s' has no master device",
			     call->name);
	return n;
}

static bool same_text(const char *a, const char *b)
{
	return strcmp(a ? a : "", b ? b : "") == 0;
}

static bool same_store(const struct spiderpool_conf *a, const struct spiderpool_conf *b)
{
	return same_text(a->socket, b->socket) && same_text(a->pool_dir, b->pool_dir) &&
	       same_text(a->state_dir, b->state_dir) &&
	       same_text(a->hostlocal_dir, b->hostlocal_dir) && same_text(a->node, b->node) &&
	       same_text(a->server_state, b->server_state);
}

static struct ipam_paths paths_of(const struct spiderpool_conf *c)
{
	return (struct ipam_paths){.pool_dir = c->pool_dir,
				   .state_dir = c->state_dir,
				   .hostlocal_dir = c->hostlocal_dir,
				   .node = c->node};
}

bool spiderpool_has_server(const struct spiderpool_conf *c)
{
	return c->socket && *c->socket;
}

int spiderpool_open(const struct cni_ipam_call *call, const struct spiderpool_conf *c,
		    struct ipam **ret, struct err *e)
{
	struct ipam_paths p = paths_of(c);

	return ipam_open(ret, &call->call->root, &p, e);
}

struct ip_request spiderpool_request(const struct rail_request *r)
{
	const struct cni_ipam_call *c = r->call;

	return (struct ip_request){
		.owner = {.container_id = c->call->container_id,
			  .ifname = c->ifname,
			  .pod_namespace = r->request.args.pod_namespace,
			  .pod_name = r->request.args.pod_name,
			  .pod_uid = r->request.args.pod_uid,
			  .netns = c->call->netns,
			  .network = c->name},
		.pools4 = r->conf.pools4.v,
		.n_pools4 = r->conf.pools4.n,
		.pools6 = r->conf.pools6.v,
		.n_pools6 = r->conf.pools6.n,
		.match_subnet = r->conf.match_subnet,
		.nets = c->nets,
		.n_nets = c->n_nets,
		.master = c->master,
		.sticky = r->conf.sticky,
		.clean_gateway = r->conf.clean_gateway,
		.want = r->want,
		.n_want = r->n_want,
	};
}

static void fill_flags(const struct rail_request *r, const struct pool_set *pools,
		       struct cni_ipam_flags *ret)
{
	const struct spiderpool_conf *c = &r->conf;

	*ret = (struct cni_ipam_flags){
		.conflict_detection = c->has_conflict ? c->conflict : pools->conflict_detection,
		.gateway_detection = c->has_gateway ? c->gateway : pools->gateway_detection,
		.tries = (int)c->tries,
		.interval_ms = (int)c->interval_ms,
		.total_ms = (int)c->total_ms,
		.carrier_ms = (int)c->carrier_ms,
	};
}

static void fill_result(const struct ip_allocation *g, struct cni_result *out)
{
	struct cni_ip ip = {.address = g->address, .gateway = g->gateway, .iface = -1};

	cni_result_ip(out, &ip);
	for (size_t i = 0; i < g->n_routes; i++) {
		struct cni_route rt = {.dst = g->routes[i].dst, .gw = g->routes[i].gw};

		cni_result_route(out, &rt);
	}
}

/* Handles the attachments of one server; `first` is the first of them. */
static int add_server(struct asking *a, size_t first, struct err *e)
{
	auto_free const struct rail_request **rails = xcalloc(a->n, sizeof(*rails));
	size_t n = 0;

	for (size_t i = first; i < a->n; i++) {
		struct rail_request *r = &a->v[i];

		if (r->done || !same_store(&r->conf, &a->v[first].conf))
			continue;
		r->done = true;
		rails[n++] = r;
	}
	return spiderpool_socket_add(rails, n, e);
}

/* Handles the attachments of one store; `first` is the first of them. */
static int add_store(struct asking *a, size_t first, struct err *e)
{
	auto_free struct ip_request *requests = xcalloc(a->n, sizeof(*requests));
	auto_free size_t *rails = xcalloc(a->n, sizeof(*rails));
	auto_ipam struct ipam *store = NULL;
	struct ip_allocation *g = NULL;
	size_t n = 0, n_g = 0;
	int r;

	for (size_t i = first; i < a->n; i++) {
		if (a->v[i].done || !same_store(&a->v[i].conf, &a->v[first].conf))
			continue;
		requests[n] = spiderpool_request(&a->v[i]);
		rails[n++] = i;
	}
	r = spiderpool_open(a->v[first].call, &a->v[first].conf, &store, e);
	if (r == 0)
		r = ipam_allocate(store, requests, n, &g, &n_g, e);
	if (r < 0)
		return r;
	for (size_t i = 0; i < n; i++) {
		a->v[rails[i]].done = true;
		fill_flags(&a->v[rails[i]], ipam_pools(store), a->v[rails[i]].call->flags);
	}
	for (size_t i = 0; i < n_g; i++) {
		const struct cni_ipam_call *call = a->v[rails[g[i].request]].call;

		fill_result(&g[i], call->out);
		call->flags->is_new |= !g[i].was_there;
	}
	ip_allocations_free(g, n_g);
	return 0;
}

void spiderpool_undo(const struct cni_ipam_call *const *calls, size_t n)
{
	auto_free const struct cni_ipam_call **new = xcalloc(n + 1, sizeof(*new));
	struct err e = ERR_INIT;
	size_t n_new = 0;

	for (size_t i = 0; i < n; i++) {
		if (calls[i]->flags->is_new)
			new[n_new++] = calls[i];
		cni_result_done(calls[i]->out);
	}
	if (n_new > 0 && spiderpool_del(new, n_new, &e) < 0)
		log_warn("failed to release the addresses of a failed ADD", LOG_S("error", e.text));
}

int spiderpool_add(const struct cni_ipam_call *const *calls, size_t n, struct err *e)
{
	__attribute__((cleanup(asking_done))) struct asking a = {.n = n};
	int r = 0;

	a.v = xcalloc(n + 1, sizeof(*a.v));
	for (size_t i = 0; i < n; i++) {
		buf_init(&a.v[i].request.keep, 0);
		*calls[i]->flags = (struct cni_ipam_flags){0};
	}
	/* The netconfs and CNI_ARGS of all rails are checked before the first allocation. */
	for (size_t i = 0; i < n && r == 0; i++)
		r = read_rail(&a.v[i], calls[i], n, e);
	for (size_t i = 0; i < n && r == 0; i++)
		if (!a.v[i].done)
			r = spiderpool_has_server(&a.v[i].conf) ? add_server(&a, i, e)
								: add_store(&a, i, e);
	if (r < 0)
		spiderpool_undo(calls, n);
	return r;
}

static int del_store(const struct cni_ipam_call *const *calls, const struct spiderpool_conf *conf,
		     size_t n, struct err *e)
{
	auto_free struct ipam_valid *v = xcalloc(n, sizeof(*v));
	auto_ipam struct ipam *store = NULL;
	int r;

	for (size_t i = 0; i < n; i++)
		v[i] = (struct ipam_valid){calls[i]->call->container_id, calls[i]->ifname};
	r = spiderpool_open(calls[0], conf, &store, e);
	if (r == 0)
		r = ipam_release_many(store, v, n, e);
	return r < 0 ? r : 0;
}

/*
 * Releases the addresses of the attachments of one store or server; `first` is the first of them.
 */
static int del_some(const struct cni_ipam_call *const *calls, const struct spiderpool_conf *confs,
		    bool *done, size_t n, size_t first, struct err *e)
{
	auto_free const struct cni_ipam_call **same = xcalloc(n, sizeof(*same));
	const struct spiderpool_conf *conf = &confs[first];
	size_t count = 0;
	bool known;
	int r;

	for (size_t i = first; i < n; i++) {
		if (done[i] || !same_store(&confs[i], conf))
			continue;
		done[i] = true;
		same[count++] = calls[i];
	}
	if (!spiderpool_has_server(conf))
		return del_store(same, conf, count, e);
	known = conf->server_state && *conf->server_state;
	r = spiderpool_socket_del(conf->socket, known ? DEL_MS : SPIDERPOOL_SOCKET_MS, same, count,
				  e);
	if (r >= 0 || r == -EREMOTEIO || !known)
		return r;
	/* The server did not answer, or answered 503, but server_state_dir names its store, and
	 * a release in the store needs no server. */
	log_warn("the IPAM server is unavailable, its store is used directly",
		 LOG_S("error", e ? e->text : ""));
	return del_store(same, &(struct spiderpool_conf){.state_dir = conf->server_state}, count,
			 e);
}

int spiderpool_del(const struct cni_ipam_call *const *calls, size_t n, struct err *e)
{
	auto_free struct spiderpool_conf *confs = xcalloc(n + 1, sizeof(*confs));
	auto_free bool *done = xcalloc(n + 1, sizeof(*done));
	int r = 0, first = 0;

	for (size_t i = 0; i < n; i++)
		spiderpool_conf_store(calls[i], &confs[i]);
	for (size_t i = 0; i < n; i++) {
		struct err reason = ERR_INIT;

		if (done[i])
			continue;
		r = del_some(calls, confs, done, n, i, &reason);
		if (r < 0 && first == 0) {
			first = r;
			if (e)
				*e = reason;
		}
	}
	return first;
}
