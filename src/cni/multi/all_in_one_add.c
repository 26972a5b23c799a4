/* SPDX-License-Identifier: Apache-2.0 */
/* ADD of every network of a pod. */
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "cni/multi/all_in_one_private.h"
#include "cni/protocol/delegate.h"
#include "cni/attach/gids.h"

struct undo_chain {
	struct aio *x;
	size_t net;
	struct aio_plugin plugin;
};

static int undo_chain(void *arg, struct err *e)
{
	const struct undo_chain *u = arg;
	const struct cni_result *prev = &u->x->nets[u->net].result;
	struct chain_call c =
		aio_chain_call(u->x, u->net, &u->plugin, prev->n_ifaces ? prev : NULL);

	return chain_run(&c, "DEL", e);
}

static int run_meta(struct aio *x, struct attach *a, size_t i, const struct aio_plugin *p,
		    struct err *e)
{
	struct cni_result *now = &x->nets[i].result;
	const struct meta_call m = aio_meta_call(x, a, i, p, now->n_ifaces || now->n_ips);
	int r = p->meta->add(&m, now, &a->undo, e);

	if (r >= 0)
		return 0;
	err_wrap(e, r, "plugin '%s'", p->type);
	return err_wrap(e, r, "%s", x->nets[i].label);
}

/* The plugin's result becomes the network's. */
static int execute(struct aio *x, struct attach *a, size_t i, const struct aio_plugin *p,
		   struct err *e)
{
	struct cni_result *now = &x->nets[i].result, next = {0};
	const struct undo_chain u = {x, i, *p};
	/* What stands behind another has what that one said, and be it nothing. */
	bool has_prev = p != &x->nets[i].main || now->n_ifaces || now->n_ips;
	struct chain_call c = aio_chain_call(x, i, p, has_prev ? now : NULL);
	int r;

	/* Before: a plugin that fails may have done half of its work. */
	undo_push(&a->undo, p->type, undo_chain, &u, sizeof(u));
	r = chain_add(&c, &next, e);
	if (r < 0)
		return r;
	cni_result_done(now);
	*now = next;
	return 0;
}

static int run_plugin(struct aio *x, struct attach *a, size_t i, const struct aio_plugin *p,
		      struct err *e)
{
	return p->meta ? run_meta(x, a, i, p, e) : execute(x, a, i, p, e);
}

static int run_ahead(struct aio *x, struct attach *a, struct err *e)
{
	int r = 0;

	for (size_t i = 0; i < x->n_nets; i++)
		for (size_t k = 0; r >= 0 && k < x->nets[i].n_ahead; k++)
			r = run_plugin(x, a, i, &x->nets[i].ahead[k], e);
	return r;
}

static int run_mains(struct aio *x, struct attach *a, struct err *e)
{
	int r = 0;

	for (size_t i = 0; r >= 0 && i < x->n_nets; i++)
		if (!x->nets[i].kind)
			r = run_plugin(x, a, i, &x->nets[i].main, e);
	return r;
}

static int run_before(struct aio *x, struct attach *a, struct err *e)
{
	int r = 0;

	for (size_t i = 0; i < x->n_nets; i++)
		for (size_t k = 0; r >= 0 && k < x->nets[i].n_before; k++)
			r = run_plugin(x, a, i, &x->nets[i].before[k], e);
	return r;
}

static int run_after(struct aio *x, struct attach *a, struct err *e)
{
	int r = 0;

	for (size_t i = 0; i < x->n_nets; i++)
		for (size_t k = 0; r >= 0 && k < x->nets[i].n_after; k++)
			r = run_plugin(x, a, i, &x->nets[i].after[k], e);
	return r;
}

static int take_results(struct aio *x, const struct attach *a, struct err *e)
{
	const struct rail *rail = a->rails;
	int r = 0;

	for (size_t i = 0; r >= 0 && i < x->n_nets; i++)
		if (x->nets[i].kind)
			r = attach_result(a, rail++, &x->nets[i].result, e);
	return r;
}

static void set_mac(struct cni_result *r, const char *ifname, const struct mac *mac)
{
	char text[MAC_TEXT_MAX];

	for (size_t i = 0; i < r->n_ifaces; i++) {
		struct cni_iface *f = &r->ifaces[i];

		if (!f->sandbox || !*f->sandbox || strcmp(f->name, ifname) != 0)
			continue;
		free(f->mac);
		f->mac = xstrdup(mac_str(mac, text));
	}
}

/* podMACPrefix changes MACs after the fact. */
static void take_macs(struct aio *x, struct attach *a)
{
	size_t rail = 0;

	for (size_t i = 0; i < x->n_nets; i++) {
		const struct mac *mac = &x->nics[i].mac;

		if (mac->len)
			set_mac(&x->nets[i].result, x->nets[i].ifname, mac);
		if (mac->len && x->nets[i].kind)
			a->rails[rail].mac = *mac;
		rail += x->nets[i].kind != NULL;
	}
}

static int find_plugin(void *arg, size_t net, const struct aio_plugin *p, struct err *e)
{
	const struct aio *x = arg;
	auto_buf struct buf path;
	int r;

	buf_init(&path, PATH_MAX);
	if (p->meta)
		return 0;
	r = cni_delegate_find(p->type, x->call->path, &path, e);
	return r < 0 ? err_wrap(e, r, "%s", x->nets[net].label) : 0;
}

/* A plugin that is not installed is told before anything is changed. */
static int find_plugins(struct aio *x, struct err *e)
{
	int r = 0;

	for (size_t i = 0; r >= 0 && i < x->n_nets; i++)
		r = aio_each_plugin(x, i, find_plugin, x, e);
	return r;
}

static int add_all(struct aio *x, struct attach *a, struct err *e)
{
	int r = find_plugins(x, e);

	if (r >= 0)
		r = aio_keep(x, &a->undo, e);
	if (r >= 0)
		r = run_ahead(x, a, e);
	if (r >= 0)
		r = attach_facts(a, e);
	if (r >= 0)
		r = run_mains(x, a, e);
	if (r >= 0)
		r = attach_make(a, e);
	if (r >= 0)
		r = take_results(x, a, e);
	if (r >= 0)
		r = run_before(x, a, e);
	if (r >= 0)
		r = co_run(a, x->nics, x->n_nets, e);
	if (r < 0)
		return r;
	take_macs(x, a);
	r = run_after(x, a, e);
	if (r >= 0)
		r = aio_default_routes(x, a, e);
	return r < 0 ? r : aio_keep_results(x, e);
}

static void tell_rdma(struct aio *x, struct attach *a)
{
	const struct rail *rail = a->rails;

	attach_gids(a);
	for (size_t i = 0; i < x->n_nets; i++)
		if (x->nets[i].kind)
			attach_put_rdma(rail++, &x->nets[i].result);
	rails_write(a);
}

int aio_add(struct aio *x, struct cni_result *out, struct err *e)
{
	auto_attach struct attach a = ATTACH_INIT;
	int r = attach_open(&a, x->call, false, e);

	if (r < 0)
		return r;
	a.rails = x->rails;
	a.n_rails = x->n_rails;
	a.detect_ms = x->timeout_ms;
	r = add_all(x, &a, e);
	if (r < 0) {
		attach_rollback(&a);
		return r;
	}
	attach_announce(&a);
	tell_rdma(x, &a);
	attach_done(&a);
	for (size_t i = 0; i < x->n_nets; i++)
		aio_merge(&x->nets[i].result, out);
	return 0;
}
