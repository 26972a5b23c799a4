/* SPDX-License-Identifier: Apache-2.0 */
/* The spiderpool IPAM's verbs besides ADD and DEL, on the local store or a server. */
#include <errno.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "cni/ipam/spiderpool/spiderpool_private.h"

static bool in_prev(const struct cni_result *prev, const struct ipnet *net)
{
	for (size_t i = 0; i < prev->n_ips; i++)
		if (ip_eq(&prev->ips[i].address.ip, &net->ip))
			return true;
	return false;
}

/* What the interface holds; *known false: the server is one that does not tell. */
static int held(const struct cni_ipam_call *call, const struct spiderpool_conf *conf,
		struct ipnet **ret, size_t *n_ret, bool *known, struct err *e)
{
	auto_ipam struct ipam *store = NULL;
	struct ipam_grant *g = NULL;
	size_t n = 0;
	int r;

	if (spiderpool_has_server(conf))
		return spiderpool_socket_held(conf->socket, call, ret, n_ret, known, e);
	r = spiderpool_open(call, conf, &store, e);
	if (r == 0)
		r = ipam_held(store, call->call->container_id, call->ifname, &g, &n, e);
	for (size_t i = 0; i < n; i++)
		VEC_PUSH(*ret, *n_ret) = g[i].address;
	ipam_grants_free(g, n);
	*known = true;
	return r;
}

int spiderpool_check(const struct cni_ipam_call *call, struct err *e)
{
	const struct cni_call *c = call->call;
	auto_free struct ipnet *v = NULL;
	struct spiderpool_conf conf;
	char text[IP_TEXT_MAX];
	bool known = true;
	size_t n = 0;
	int r = spiderpool_conf_read(call, &conf, e);

	if (r == 0)
		r = held(call, &conf, &v, &n, &known, e);
	if (r == 0 && known && n == 0)
		r = err_set(e, -ENOENT,
			    "spiderpool: no address is held by container %s interface %s",
			    c->container_id, call->ifname);
	for (size_t i = 0; i < n && r == 0 && c->has_prev; i++)
		if (!in_prev(&c->prev, &v[i]))
			r = err_set(e, -ENOENT,
				    "spiderpool: %s holds %s, which is not in prevResult",
				    call->ifname, ipnet_str(&v[i], text));
	return r;
}

static int gc_store(const struct cni_ipam_call *call, const struct spiderpool_conf *conf,
		    struct err *e)
{
	const struct cni_call *c = call->call;
	auto_free struct ipam_valid *v = xcalloc(c->n_valid + 1, sizeof(*v));
	auto_ipam struct ipam *store = NULL;
	int r = spiderpool_open(call, conf, &store, e);

	for (size_t i = 0; i < c->n_valid; i++)
		v[i] = (struct ipam_valid){c->valid[i].container_id, c->valid[i].ifname};
	if (r == 0)
		r = ipam_gc(store, call->name, v, c->n_valid, e);
	return r < 0 ? r : 0;
}

int spiderpool_gc(const struct cni_ipam_call *call, struct err *e)
{
	struct spiderpool_conf conf;
	int r = spiderpool_conf_read(call, &conf, e);

	if (r < 0)
		return r;
	if (!spiderpool_has_server(&conf))
		return gc_store(call, &conf, e);
	r = spiderpool_socket_gc(conf.socket, call, e);
	if (r >= 0 || r == -EREMOTEIO || !conf.server_state || !*conf.server_state)
		return r;
	/* As a DEL: nobody answered, and the server's store is known. */
	log_warn("the server does not answer, its store is used", LOG_S("error", e ? e->text : ""));
	return gc_store(call, &(struct spiderpool_conf){.state_dir = conf.server_state}, e);
}

static int try_store(const struct rail_ask *rail, struct err *e)
{
	auto_ipam struct ipam *store = NULL;
	struct ipam_ask ask = spiderpool_ask(rail);
	int r = spiderpool_open(rail->call, &rail->conf, &store, e);

	return r < 0 ? r : ipam_try(store, &ask, 1, e);
}

/* What an ADD of nobody in particular would meet. Which master it would have is not known. */
int spiderpool_status(const struct cni_ipam_call *call, struct err *e)
{
	struct cni_call nobody = *call->call;
	struct cni_ipam_call asked = *call;
	struct rail_ask rail = {.call = &asked};
	struct socket_rail at_server = {.call = &asked, .conf = &rail.conf};
	int r = spiderpool_conf_read(call, &rail.conf, e);

	nobody.container_id = asked.ifname = "status";
	asked.call = &nobody;
	rail.conf.match_subnet = rail.conf.sticky = false;
	if (r == 0)
		r = spiderpool_has_server(&rail.conf) ? spiderpool_socket_try(&at_server, e)
						      : try_store(&rail, e);
	if (r < 0 && e)
		e->kind = ERR_UNAVAILABLE;
	return r;
}

int spiderpool_conflict(const struct cni_ipam_call *call, const struct ipaddr *a,
			const struct mac *other, struct err *e)
{
	auto_ipam struct ipam *store = NULL;
	struct spiderpool_conf conf;
	int r;

	spiderpool_conf_store(call, &conf);
	if (spiderpool_has_server(&conf))
		return spiderpool_socket_conflict(conf.socket, call, a, other, e);
	r = spiderpool_open(call, &conf, &store, e);
	return r < 0 ? r : ipam_quarantine(store, a, other, e);
}
