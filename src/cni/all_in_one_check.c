/* SPDX-License-Identifier: Apache-2.0 */
/* CHECK, GC and STATUS of every network of a pod. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "cni/all_in_one_private.h"

static size_t ipam_calls(const struct aio *x, struct cni_ipam_call **ret)
{
	struct cni_ipam_call *calls = xcalloc(x->n_nets, sizeof(*calls));
	size_t n = 0;

	for (size_t i = 0; i < x->n_nets; i++) {
		if (!x->nets[i].native)
			continue;
		calls[n] = aio_ipam_call(x, i);
		n += calls[n].conf != NULL;
	}
	*ret = calls;
	return n;
}

static int check_ipam(const struct aio *x, struct err *e)
{
	auto_free struct cni_ipam_call *calls = NULL;
	size_t n = ipam_calls(x, &calls);

	return n ? cni_ipam_check(calls, n, e) : 0;
}

static int check_rail(const struct aio *x, struct attach *a, const struct attach_seen *seen,
		      const struct rail *rail, struct err *e)
{
	const struct cni_call *c = x->call;
	struct link master;
	int r = attach_master(rail->conf.in_container ? a->pod : a->host, &rail->conf, &master, e);

	if (r >= 0)
		r = attach_check(seen, &rail->conf, master.index, &c->prev, rail->ifname, c->netns,
				 e);
	return r < 0 ? rail_err(rail, r, e) : 0;
}

/* Links and addresses before the coordinator, which knows better where their routes should be. */
static int check_rails(const struct aio *x, struct attach *a, struct err *e)
{
	struct attach_seen seen = {0};
	int r = x->n_rails ? attach_look(a, &seen, e) : 0;

	for (size_t i = 0; r >= 0 && i < x->n_rails; i++)
		r = check_rail(x, a, &seen, &x->rails[i], e);
	if (r >= 0)
		r = co_check(a, x->nics, x->n_nets, e);
	for (size_t i = 0; r >= 0 && i < x->n_rails; i++) {
		r = attach_check_routes(&seen, &x->call->prev, x->rails[i].ifname, e);
		if (r < 0)
			rail_err(&x->rails[i], r, e);
	}
	attach_seen_done(&seen);
	return r;
}

static int check_plugins(const struct aio *x, size_t i, struct err *e)
{
	const struct aio_net *net = &x->nets[i];
	auto_result struct cni_result prev = {0};
	struct aio_plugin first = aio_main(net);
	struct chain_call c;
	int r = 0;

	aio_slice(x, &x->call->prev, i, &prev);
	if (!net->native) {
		c = aio_chain_call(x, i, &first, &prev);
		r = chain_run(&c, "CHECK", e);
	}
	for (size_t k = 0; r >= 0 && k < net->n_before; k++) {
		c = aio_chain_call(x, i, &net->before[k], &prev);
		r = chain_run(&c, "CHECK", e);
	}
	for (size_t k = 0; r >= 0 && k < net->n_after; k++) {
		c = aio_chain_call(x, i, &net->after[k], &prev);
		r = chain_run(&c, "CHECK", e);
	}
	return r;
}

int aio_check(struct aio *x, struct err *e)
{
	auto_attach struct attach a = ATTACH_INIT;
	int r;

	if (!x->call->has_prev)
		return err_kind(e, ERR_CONF, -EINVAL, "required prevResult missing");
	r = attach_open(&a, x->call, false, e);
	if (r >= 0)
		r = check_ipam(x, e);
	if (r >= 0)
		r = check_rails(x, &a, e);
	for (size_t i = 0; r >= 0 && i < x->n_nets; i++)
		r = check_plugins(x, i, e);
	return r;
}

/* --- GC --- */

/* The runtime knows one attachment a pod, ours; each network has its own interface in it. */
static struct cni_attachment *valid_of(const struct aio *x, size_t i)
{
	const struct cni_call *c = x->call;
	struct cni_attachment *list = xcalloc(c->n_valid, sizeof(*list));

	for (size_t k = 0; k < c->n_valid; k++) {
		list[k] = c->valid[k];
		if (x->nets[i].named)
			list[k].ifname = x->nets[i].ifname;
	}
	return list;
}

static int gc_plugin(const struct aio *x, size_t i, const struct aio_plugin *p,
		     const struct cni_attachment *valid, struct err *e)
{
	struct chain_call c = aio_chain_call(x, i, p, NULL);

	c.valid = valid;
	c.n_valid = x->call->n_valid;
	return chain_run(&c, "GC", e);
}

static int gc_net(const struct aio *x, size_t i, struct err *e)
{
	const struct aio_net *net = &x->nets[i];
	auto_free struct cni_attachment *valid = valid_of(x, i);
	struct cni_ipam_call ipam = aio_ipam_call(x, i);
	struct cni_call call = *aio_call(x, i);
	struct aio_plugin first = aio_main(net);
	int r = 0;

	call.valid = valid;
	ipam.call = &call;
	if (net->native && ipam.conf)
		r = cni_ipam_gc(&ipam, 1, e);
	else if (!net->native)
		r = gc_plugin(x, i, &first, valid, e);
	for (size_t k = 0; r >= 0 && k < net->n_before; k++)
		r = gc_plugin(x, i, &net->before[k], valid, e);
	for (size_t k = 0; r >= 0 && k < net->n_after; k++)
		r = gc_plugin(x, i, &net->after[k], valid, e);
	return r;
}

static int gc_veths(const struct aio *x, struct err *e)
{
	auto_free const char **names = xcalloc(x->n_nets, sizeof(*names));
	size_t n = 0;

	for (size_t i = 0; i < x->n_nets; i++)
		if (x->nets[i].co)
			names[n++] = x->nets[i].name;
	return n ? co_gc(names, n, x->call, e) : 0;
}

/* All of them, whatever fails; the first failure is told. */
int aio_gc(struct aio *x, struct err *e)
{
	int first = gc_veths(x, e);

	for (size_t i = 0; i < x->n_nets; i++) {
		int r = gc_net(x, i, first < 0 ? NULL : e);

		if (r < 0 && first >= 0)
			first = err_wrap(e, r, "%s", x->nets[i].label);
	}
	return first;
}

/* --- STATUS --- */

static int status_rail(struct nl_wire *w, const struct rail *rail, struct err *e)
{
	struct link master;
	int r;

	if (rail->conf.in_container)
		return 0;
	r = attach_master(w, &rail->conf, &master, e);
	if (r >= 0)
		r = macvlan_fits(&rail->conf, &master, e);
	if (r >= 0)
		return 0;
	err_default_kind(e, ERR_UNAVAILABLE);
	return rail_err(rail, r, e);
}

static int status_plugins(const struct aio *x, size_t i, struct err *e)
{
	const struct aio_net *net = &x->nets[i];
	struct aio_plugin first = aio_main(net);
	struct chain_call c = aio_chain_call(x, i, &first, NULL);
	int r = net->native ? 0 : chain_run(&c, "STATUS", e);

	for (size_t k = 0; r >= 0 && k < net->n_before; k++) {
		c = aio_chain_call(x, i, &net->before[k], NULL);
		r = chain_run(&c, "STATUS", e);
	}
	for (size_t k = 0; r >= 0 && k < net->n_after; k++) {
		c = aio_chain_call(x, i, &net->after[k], NULL);
		r = chain_run(&c, "STATUS", e);
	}
	return r;
}

static int status_ipam(const struct aio *x, size_t i, struct err *e)
{
	const struct cni_ipam_call c = aio_ipam_call(x, i);
	int r = x->nets[i].native && c.conf ? cni_ipam_status(&c, 1, e) : 0;

	return r < 0 ? err_wrap(e, r, "%s", x->nets[i].label) : 0;
}

int aio_status(struct aio *x, struct err *e)
{
	auto_nl struct nl_wire *w = NULL;
	int r = nl_open(&w, NL_ROUTE, -1, e);

	for (size_t i = 0; r >= 0 && i < x->n_rails; i++)
		r = status_rail(w, &x->rails[i], e);
	for (size_t i = 0; r >= 0 && i < x->n_nets; i++)
		r = status_ipam(x, i, e);
	for (size_t i = 0; r >= 0 && i < x->n_nets; i++)
		r = status_plugins(x, i, e);
	return r;
}
