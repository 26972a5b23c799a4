/* SPDX-License-Identifier: Apache-2.0 */
/*
 * DEL of every network of a pod, backwards. Nothing stops it: the first failure is reported when
 * all the rest is done.
 */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "cni/multi/all_in_one_private.h"
#include "cni/attach/gids.h"
#include "cni/multus/multus_del.h"

struct deleting {
	struct aio *x;
	struct attach a;
	struct err first;   /* what failed first */
	struct ipaddr *ips; /* what is known of the pod's addresses */
	size_t n_ips;
};

static void note(struct deleting *d, int r, const struct err *why)
{
	if (r >= 0)
		return;
	log_warn("delete", LOG_S("error", why->text));
	if (!d->first.code)
		d->first = *why;
	if (!d->first.code)
		d->first.code = r;
}

static int del_plugin(struct deleting *d, size_t i, const struct aio_plugin *p,
		      const struct cni_result *prev, struct err *e)
{
	/* Earlier versions of DEL have none. */
	bool has_prev = aio_call(d->x, i)->has_prev && aio_call(d->x, i)->version >= CNI_0_4_0;
	struct chain_call call = aio_chain_call(d->x, i, p, has_prev ? prev : NULL);
	struct meta_call m = aio_meta_call(d->x, &d->a, i, p, has_prev);

	return p->meta ? p->meta->del(&m, prev, e) : chain_run(&call, "DEL", e);
}

static void run_plugin(struct deleting *d, size_t i, const struct aio_plugin *p)
{
	auto_result struct cni_result prev = {0};
	struct err why = ERR_INIT;

	aio_prev(d->x, i, &prev);
	note(d, del_plugin(d, i, p, &prev, &why), &why);
}

static void run_chained(struct deleting *d)
{
	for (size_t i = d->x->n_nets; i-- > 0;) {
		const struct aio_net *net = &d->x->nets[i];

		for (size_t k = net->n_after; k-- > 0;)
			run_plugin(d, i, &net->after[k]);
		for (size_t k = net->n_before; k-- > 0;)
			run_plugin(d, i, &net->before[k]);
	}
}

static void run_mains(struct deleting *d)
{
	for (size_t i = d->x->n_nets; i-- > 0;)
		if (!d->x->nets[i].kind)
			run_plugin(d, i, &d->x->nets[i].main);
}

static void run_ahead(struct deleting *d)
{
	for (size_t i = d->x->n_nets; i-- > 0;)
		for (size_t k = d->x->nets[i].n_ahead; k-- > 0;)
			run_plugin(d, i, &d->x->nets[i].ahead[k]);
}

static void know_prev_ips(struct deleting *d, size_t net)
{
	auto_result struct cni_result prev = {0};

	aio_prev(d->x, net, &prev);
	for (size_t i = 0; i < prev.n_ips; i++)
		VEC_PUSH(d->ips, d->n_ips) = prev.ips[i].address.ip;
}

/* Of the networks with a coordinator, from prevResult and from the pod; either may be missing. */
static void know_ips(struct deleting *d)
{
	auto_free struct addr *addrs = NULL;
	size_t n = 0;

	for (size_t i = 0; i < d->x->n_nets; i++)
		know_prev_ips(d, i);
	if (!d->a.pod || addr_list(d->a.pod, 0, 0, &addrs, &n, NULL) < 0)
		return;
	for (size_t i = 0; i < n; i++)
		if (co_ip_usable(&addrs[i].net.ip))
			VEC_PUSH(d->ips, d->n_ips) = addrs[i].net.ip;
}

static bool has_coordinator(const struct deleting *d)
{
	for (size_t i = 0; i < d->x->n_nets; i++)
		if (d->x->nets[i].co)
			return true;
	return false;
}

/* Before the links: without addresses a second DEL could not tell whose the rules are. */
static void delete_rules(struct deleting *d)
{
	struct err why = ERR_INIT;

	if (has_coordinator(d))
		note(d, co_delete_rules(&d->a, d->ips, d->n_ips, &why), &why);
}

/* veth0 goes with the rails, in the same message. */
static void delete_links(struct deleting *d)
{
	static const char *const veth = CO_VETH;
	struct err why = ERR_INIT;
	const struct aio *x = d->x;

	note(d, attach_remove(&d->a, x->rails, x->n_rails, &veth, has_coordinator(d), &why), &why);
}

static bool same_places(const struct co_conf *a, const struct co_conf *b)
{
	return a->host_table == b->host_table && strcmp(a->default_nic, b->default_nic) == 0;
}

/* A coordinator's object that ADD would refuse is deleted with defaults. */
static void co_conf_of(struct deleting *d, struct aio_net *net)
{
	struct err why = ERR_INIT;

	if (co_conf_read(d->x->call->doc, net->co, &net->co_conf, &why) >= 0)
		return;
	log_warn("configuration is not valid, deleting with defaults", LOG_S("error", why.text));
	net->co_conf = (struct co_conf){.default_nic = "eth0", .host_table = CO_HOST_TABLE};
}

static void coordinators(struct deleting *d)
{
	const struct co_conf *last = NULL;

	for (size_t i = 0; i < d->x->n_nets; i++) {
		struct aio_net *net = &d->x->nets[i];
		struct err why = ERR_INIT;

		if (!net->co)
			continue;
		co_conf_of(d, net);
		/* Mostly they all have the same table, and one call is for all of them. */
		if (net->co_conf.mode == CO_DISABLED || (last && same_places(last, &net->co_conf)))
			continue;
		last = &net->co_conf;
		note(d, co_delete(&d->a, last, d->ips, d->n_ips, &why), &why);
	}
}

/* After the links: while they are there, nobody else may have their addresses. */
static void free_addresses(struct deleting *d)
{
	auto_free struct cni_ipam_call *calls = xcalloc(d->x->n_nets, sizeof(*calls));
	struct err why = ERR_INIT;
	size_t n = 0;

	for (size_t i = 0; i < d->x->n_nets; i++) {
		if (!d->x->nets[i].kind)
			continue;
		calls[n] = aio_ipam_call(d->x, i);
		n += calls[n].conf != NULL;
	}
	if (n)
		note(d, cni_ipam_del(calls, n, &why), &why);
}

static void forget_rdma(const struct aio *x)
{
	auto_free const char **names = xcalloc(x->n_rails, sizeof(*names));

	for (size_t i = 0; i < x->n_rails; i++)
		names[i] = x->rails[i].ifname;
	rails_forget(x->call, names, x->n_rails);
}

int aio_del(struct aio *x, struct err *e)
{
	struct deleting d = {.x = x, .a = ATTACH_INIT};
	int r = multus_del(x->call, e);

	if (r != 0)
		return r < 0 ? r : 0;
	r = attach_open(&d.a, x->call, true, e);
	if (r < 0)
		return r;
	aio_read_rails(x);
	forget_rdma(x);
	run_chained(&d);
	know_ips(&d);
	delete_rules(&d);
	delete_links(&d);
	coordinators(&d);
	free_addresses(&d);
	run_mains(&d);
	run_ahead(&d);
	attach_close(&d.a);
	free(d.ips);
	if (!d.first.code)
		aio_forget(x);
	if (e && d.first.code)
		*e = d.first;
	return d.first.code;
}
