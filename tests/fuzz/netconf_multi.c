/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "cni/multi/multi.h"
#include "cni/protocol/chain.h"
#include "netconf.h"

enum { TEXT_MAX = 8 << 20 };

static int write_chain(const struct multi *x, size_t i, const struct multi_plugin *p, struct err *e)
{
	const struct chain_call c = {.call = multi_call(x, i),
				     .plugin = p->conf,
				     .type = p->type,
				     .network = x->nets[i].name,
				     .ifname = x->nets[i].ifname,
				     .prev = x->call->has_prev ? &x->call->prev : NULL,
				     .runtime = json_get_go(x->call->conf, "runtimeConfig"),
				     .valid = x->call->valid,
				     .n_valid = x->call->n_valid};
	auto_json struct json_doc *d = NULL;
	auto_buf struct buf b;
	int r;

	buf_init(&b, TEXT_MAX);
	r = chain_conf(&c, strcmp(x->call->command, "GC") == 0, &b, e);
	if (r == 0) {
		must(json_parse(&d, buf_span(&b), TEXT_MAX, NULL) == 0);
		must(!strcmp(json_string(json_get(json_root(d), "name")), x->nets[i].name));
	}
	return r;
}

static int write_chains(const struct multi *x, size_t i, const struct multi_plugin *v, size_t n,
			struct err *e)
{
	int r = 0;

	for (size_t k = 0; r == 0 && k < n; k++)
		r = write_chain(x, i, &v[k], e);
	return r;
}

static int read_net(struct multi *x, size_t i, struct cni_result *out, struct err *e)
{
	struct multi_net *net = &x->nets[i];
	struct cni_ipam_call ipam = multi_ipam_call(x, i);
	int r = net->kind ? 0 : write_chain(x, i, &net->main, e);

	must(link_name_ok(net->ifname) && *net->name && net->main.conf);
	if (r == 0 && net->kind && ipam.conf)
		r = netconf_ipam(&ipam, &net->result, e);
	if (r == 0)
		r = write_chains(x, i, net->ahead, net->n_ahead, e);
	if (r == 0)
		r = write_chains(x, i, net->before, net->n_before, e);
	if (r == 0)
		r = write_chains(x, i, net->after, net->n_after, e);
	if (r == 0 && net->co)
		r = netconf_plan(&net->coordinator_conf, e);
	cni_result_iface(&net->result, net->ifname, "02:00:00:00:00:01", "/run/netns/pod");
	multi_merge(&net->result, out);
	return r;
}

/* Any result is divided into the parts of its networks and merged again. */
static void check_slices(const struct multi *x)
{
	struct cni_result all = {0};
	size_t n = 0;

	for (size_t i = 0; i < x->n_nets; i++) {
		struct cni_result part = {0};

		multi_slice(x, &x->call->prev, i, &part);
		n += part.n_ifaces;
		for (size_t k = 0; k < part.n_ips; k++)
			must(part.ips[k].iface < 0 || (size_t)part.ips[k].iface < part.n_ifaces);
		multi_merge(&part, &all);
		cni_result_done(&part);
	}
	must(n <= x->call->prev.n_ifaces);
	multi_merge(&x->call->prev, &all);
	cni_result_done(&all);
}

int netconf_multi(struct cni_call *c, struct cni_result *out, struct err *e)
{
	auto_multi struct multi x = {0};
	int r = multi_read(c, &x, e);

	if (r == 0)
		r = multi_read_plugins(&x, e);
	if (r == 0)
		check_slices(&x);
	for (size_t i = 0; r == 0 && i < x.n_rails; i++)
		netconf_check_rail(&x.rails[i].conf);
	for (size_t i = 0; r == 0 && i < x.n_nets; i++)
		r = read_net(&x, i, out, e);
	return r;
}
