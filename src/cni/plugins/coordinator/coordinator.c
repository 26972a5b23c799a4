/* SPDX-License-Identifier: Apache-2.0 */
/* The coordinator plugin: one NIC of a chain. */
#include "cni/plugins/coordinator/coordinator.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "kern/net/nft.h"

/* prevResult with the MAC that podMACPrefix gave. */
static void patch_mac(const struct cni_call *c, const struct mac *mac, struct cni_result *out)
{
	char text[MAC_TEXT_MAX];

	cni_result_copy(out, &c->prev);
	for (size_t i = 0; i < out->n_ifaces; i++) {
		struct cni_iface *f = &out->ifaces[i];

		if (!f->sandbox || !*f->sandbox || strcmp(f->name, c->ifname) != 0)
			continue;
		free(f->mac);
		f->mac = xstrdup(mac_str(mac, text));
	}
}

static int run_one(struct cni_call *c, const struct co_conf *conf, struct cni_result *out,
		   struct err *e)
{
	auto_attach struct attach a = ATTACH_INIT;
	struct co_nic nic = {.conf = conf, .ifname = c->ifname, .network = c->name};
	int r = attach_open(&a, c, false, e);

	if (r >= 0)
		r = co_run(&a, &nic, 1, e);
	if (r < 0) {
		attach_rollback(&a);
		return r;
	}
	attach_done(&a);
	if (nic.mac.len)
		patch_mac(c, &nic.mac, out);
	return 0;
}

static int add(struct cni_call *c, struct cni_result *out, struct err *e)
{
	struct co_conf conf;
	int r;

	if (!c->has_prev)
		return err_kind(
			e, ERR_CONF, -EINVAL,
			"required prevResult missing (the coordinator stands in a chain, after the "
			"plugin that makes the interface)");
	r = co_conf_read(c->doc, c->conf, &conf, e);
	if (r < 0)
		return r;
	/* Disabled, no namespace is needed either. */
	if (conf.mode != CO_DISABLED)
		r = run_one(c, &conf, out, e);
	co_conf_done(&conf);
	return r;
}

static bool is_of(const struct cni_result *prev, const struct cni_ip *ip, const char *ifname)
{
	return ip->iface < 0 || (size_t)ip->iface >= prev->n_ifaces ||
	       strcmp(prev->ifaces[ip->iface].name, ifname) == 0;
}

/* What the pod still has and what prevResult remembers; either may be missing. */
static size_t known_ips(struct attach *a, struct ipaddr **ret)
{
	const struct cni_call *c = a->call;
	auto_free struct addr *addrs = NULL;
	struct ipaddr *list = NULL;
	struct link l;
	size_t n = 0, n_addrs = 0;

	for (size_t i = 0; c->has_prev && i < c->prev.n_ips; i++)
		if (is_of(&c->prev, &c->prev.ips[i], c->ifname))
			VEC_PUSH(list, n) = c->prev.ips[i].address.ip;
	if (a->pod && link_get(a->pod, c->ifname, &l, NULL) >= 0 &&
	    addr_list(a->pod, 0, l.index, &addrs, &n_addrs, NULL) >= 0)
		for (size_t i = 0; i < n_addrs; i++)
			if (co_ip_usable(&addrs[i].net.ip))
				VEC_PUSH(list, n) = addrs[i].net.ip;
	*ret = list;
	return n;
}

/* A configuration that ADD would refuse must not keep a pod from going. */
static void conf_for_del(struct cni_call *c, struct co_conf *ret)
{
	struct err why = ERR_INIT;

	if (co_conf_read(c->doc, c->conf, ret, &why) >= 0)
		return;
	log_warn("configuration is not valid, deleting with defaults", LOG_S("error", why.text));
	*ret = (struct co_conf){.default_nic = "eth0", .host_table = CO_HOST_TABLE};
}

static int del(struct cni_call *c, struct err *e)
{
	auto_attach struct attach a = ATTACH_INIT;
	auto_free struct ipaddr *ips = NULL;
	struct co_conf conf;
	size_t n;
	int r = attach_open(&a, c, true, e);

	if (r < 0)
		return r;
	conf_for_del(c, &conf);
	n = known_ips(&a, &ips);
	if (conf.mode != CO_DISABLED)
		r = co_delete_rules(&a, ips, n, e);
	if (r >= 0)
		r = co_delete(&a, &conf, ips, n, e);
	co_conf_done(&conf);
	return r;
}

static int check(struct cni_call *c, struct err *e)
{
	auto_attach struct attach a = ATTACH_INIT;
	struct co_conf conf;
	const struct co_nic nic = {.conf = &conf, .ifname = c->ifname, .network = c->name};
	int r = co_conf_read(c->doc, c->conf, &conf, e);

	if (r < 0)
		return r;
	r = attach_open(&a, c, false, e);
	if (r >= 0)
		r = co_check(&a, &nic, 1, e);
	co_conf_done(&conf);
	return r;
}

static int gc(struct cni_call *c, struct err *e)
{
	struct co_gc_net net = {.name = c->name};
	struct co_conf conf;

	conf_for_del(c, &conf);
	net.host_table = conf.host_table;
	co_conf_done(&conf);
	return co_gc(&net, 1, c, e);
}

int co_status(struct nl_wire *host, const struct co_conf *c, struct err *e)
{
	auto_nl struct nl_wire *w = NULL;
	int r;

	/* What "auto" will be is known with the pod. */
	if (c->mode != CO_UNDERLAY)
		return 0;
	r = link_kind_known(host, "veth", e);
	if (r == 0)
		return err_kind(
			e, ERR_UNAVAILABLE, -EOPNOTSUPP,
			"create veth: Operation not supported (EOPNOTSUPP): the kernel lacks veth: load module veth");
	if (r > 0)
		r = nl_open(&w, NL_NETFILTER, -1, e);
	if (r >= 0)
		r = nft_status(w, e);
	if (r < 0)
		err_default_kind(e, ERR_UNAVAILABLE);
	return r;
}

/* A configuration that ADD would refuse shows here, too. */
static int status(struct cni_call *c, struct err *e)
{
	auto_nl struct nl_wire *w = NULL;
	struct co_conf conf;
	int r = co_conf_read(c->doc, c->conf, &conf, e);

	if (r < 0)
		return r;
	r = nl_open(&w, NL_ROUTE, -1, e);
	if (r >= 0)
		r = co_status(w, &conf, e);
	co_conf_done(&conf);
	return r;
}

const struct cni_plugin cni_coordinator = {
	.name = "coordinator",
	.about = "CNI coordinator plugin unirail",
	.prints_prev = true,
	.add = add,
	.check = check,
	.del = del,
	.gc = gc,
	.status = status,
};
