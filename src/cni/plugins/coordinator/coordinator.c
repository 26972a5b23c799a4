/* SPDX-License-Identifier: Apache-2.0 */
#include "cni/plugins/coordinator/coordinator.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "cni/plugins/coordinator/internal.h"
#include "kern/net/nft.h"
#include "kern/sys/sysctl.h"

/* The coordinator plugin: one NIC of a chain. */

/* Makes the result: prevResult with the MAC from podMACPrefix. */
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

static int run_one(struct cni_call *c, const struct coordinator_conf *conf, struct cni_result *out,
		   struct err *e)
{
	auto_attach struct attach a = ATTACH_INIT;
	struct coordinator_nic nic = {.conf = conf, .ifname = c->ifname, .network = c->name};
	int r = attach_open(&a, c, false, e);

	if (r >= 0)
		r = coordinator_run(&a, &nic, 1, e);
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
	struct coordinator_conf conf;
	int r;

	if (!c->has_prev)
		return err_kind(
			e, ERR_CONF, -EINVAL,
			"required prevResult missing (in a chain, the coordinator must follow the "
			"plugin that makes the interface)");
	r = coordinator_conf_read(c->doc, c->conf, &conf, e);
	if (r < 0)
		return r;
	/* In mode disabled the pod's namespace is not needed. */
	if (conf.mode != COORD_DISABLED)
		r = run_one(c, &conf, out, e);
	coordinator_conf_done(&conf);
	return r;
}

static bool is_of(const struct cni_result *prev, const struct cni_ip *ip, const char *ifname)
{
	return ip->iface < 0 || (size_t)ip->iface >= prev->n_ifaces ||
	       strcmp(prev->ifaces[ip->iface].name, ifname) == 0;
}

/* Collects the NIC's addresses in prevResult and those that its link still has; either may be
 * missing. */
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
			if (coordinator_ip_usable(&addrs[i].net.ip))
				VEC_PUSH(list, n) = addrs[i].net.ip;
	*ret = list;
	return n;
}

/* Uses defaults if ADD would refuse the configuration, because an invalid configuration must not
 * prevent the deletion of a pod. */
static void conf_for_del(struct cni_call *c, struct coordinator_conf *ret)
{
	struct err reason = ERR_INIT;

	if (coordinator_conf_read(c->doc, c->conf, ret, &reason) >= 0)
		return;
	log_warn("configuration of the coordinator is not valid, deleting with defaults",
		 LOG_S("error", reason.text));
	*ret = (struct coordinator_conf){.default_nic = "eth0", .host_table = COORD_HOST_TABLE};
}

static int del(struct cni_call *c, struct err *e)
{
	auto_attach struct attach a = ATTACH_INIT;
	auto_free struct ipaddr *ips = NULL;
	struct coordinator_conf conf;
	size_t n;
	int r = attach_open(&a, c, true, e);

	if (r < 0)
		return r;
	conf_for_del(c, &conf);
	n = known_ips(&a, &ips);
	if (conf.mode != COORD_DISABLED)
		r = coordinator_delete_rules(&a, ips, n, e);
	if (r >= 0)
		r = coordinator_delete(&a, &conf, ips, n, e);
	coordinator_conf_done(&conf);
	return r;
}

static int check(struct cni_call *c, struct err *e)
{
	auto_attach struct attach a = ATTACH_INIT;
	struct coordinator_conf conf;
	const struct coordinator_nic nic = {.conf = &conf, .ifname = c->ifname, .network = c->name};
	int r = coordinator_conf_read(c->doc, c->conf, &conf, e);

	if (r < 0)
		return r;
	r = attach_open(&a, c, false, e);
	if (r >= 0)
		r = coordinator_check(&a, &nic, 1, e);
	coordinator_conf_done(&conf);
	return r;
}

static int gc(struct cni_call *c, struct err *e)
{
	struct coordinator_gc_net net = {.name = c->name};
	struct coordinator_conf conf;

	conf_for_del(c, &conf);
	net.host_table = conf.host_table;
	coordinator_conf_done(&conf);
	return coordinator_gc(&net, 1, c, e);
}

int coordinator_status(struct nl_wire *host, const struct coordinator_conf *c, struct err *e)
{
	auto_nl struct nl_wire *w = NULL;
	int r;

	/* For mode auto, ADD chooses the mode by the pod's links, which STATUS does not know. */
	if (c->mode != COORD_UNDERLAY)
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

/* STATUS fails for a configuration that ADD would refuse. */
static int status(struct cni_call *c, struct err *e)
{
	auto_nl struct nl_wire *w = NULL;
	struct coordinator_conf conf;
	int r = coordinator_conf_read(c->doc, c->conf, &conf, e);

	if (r < 0)
		return r;
	r = nl_open(&w, NL_ROUTE, -1, e);
	if (r >= 0)
		r = coordinator_status(w, &conf, e);
	coordinator_conf_done(&conf);
	return r;
}

const struct cni_plugin cni_coordinator = {
	.name = "coordinator",
	.about = "CNI coordinator plugin unirail",
	.keys = JSON_TABLES(&coordinator_table),
	.prints_prev = true,
	.add = add,
	.check = check,
	.del = del,
	.gc = gc,
	.status = status,
};

/* --- ADD of the coordinator for any number of NICs --- */

static int undo_veth(void *arg, struct err *e)
{
	struct attach *a = *(struct attach **)arg;
	auto_batch struct nl_batch *b = nl_batch_new();
	char name[LINK_NAME_MAX];

	coordinator_host_veth_name(a->call->container_id, name);
	link_del(b, 0, name);
	return nl_batch_commit(a->host, b, e);
}

/* Both MACs are set here, so that systemd-udevd's MACAddressPolicy has nothing to change. */
static void add_veth(const struct attach *a, const struct coordinator_conf *c, const char *host,
		     struct nl_batch *b)
{
	struct link_spec s = LINK_SPEC_INIT;

	s.name = COORD_VETH;
	s.kind = "veth";
	s.netns_fd = a->netns;
	s.mac = mac_random();
	s.mtu = c->veth_mtu;
	s.group = LINK_GROUP;
	s.up = true;
	s.peer_name = host;
	s.peer_mac = mac_random();
	s.peer_up = true;
	link_add(b, &s);
}

/*
 * Sets the alias of the host end, by which GC recognizes the pair. The message identifies the link
 * by its name, because the link's index is not known yet.
 */
static void mark_veth(const struct attach *a, const struct coordinator_nic *nic, const char *host,
		      struct nl_batch *b)
{
	char alias[LINK_ALIAS_MAX];
	const struct link_change c = {
		.set = LINK_SET_NAME | LINK_SET_ALIAS, .name = host, .alias = alias};

	snprintf(alias, sizeof(alias), COORD_ALIAS "%s %s", nic->network, a->call->container_id);
	link_set(b, 0, host, &c);
}

/* Fails if a link of the node has the name, because the message that sets the pair's alias refers
 * to the link by its name and could change a link of another program. */
static int host_name_free(struct attach *a, const char *host, struct err *e)
{
	struct link l;
	int r = link_get(a->host, host, &l, e);

	if (r == -ENODEV) {
		err_clear(e);
		return 0;
	}
	if (r < 0)
		return r;
	return err_set(
		e, -EEXIST,
		"create veth '%s' on the node: File exists (EEXIST) (another link has the name; if "
		"it is unused: 'ip link del %s')",
		host, host);
}

/* Creates the pair veth0 and veth<id>, sets it up, and pushes its deletion onto the undo list. */
static int coordinator_make_veth(struct attach *a, const struct coordinator_nic *nic, struct err *e)
{
	auto_batch struct nl_batch *b = nl_batch_new();
	const struct coordinator_conf *c = nic->conf;
	char host[LINK_NAME_MAX], key[64];
	int r;

	if (link_find(a->pod_links, a->n_pod_links, COORD_VETH))
		return err_set(e, -EEXIST,
			       "create '" COORD_VETH "' in the pod: File exists (EEXIST) (the "
			       "coordinator ran for '%s' of this pod before)",
			       c->default_nic);
	coordinator_host_veth_name(a->call->container_id, host);
	r = host_name_free(a, host, e);
	if (r < 0)
		return r;
	add_veth(a, c, host, b);
	mark_veth(a, nic, host, b);
	r = nl_batch_commit(a->host, b, e);
	if (nl_batch_result(b, 0) == -EEXIST)
		return r;
	undo_push(&a->undo, "delete the pod's veth pair", undo_veth, &a, sizeof(a));
	if (r < 0)
		return r;
	snprintf(key, sizeof(key), "net/ipv6/conf/%s/accept_ra", host);
	return sysctl_ensure(&a->call->root, key, "0", NULL, e);
}

/* Lists the links of the NICs after nics[i], which do not exist yet when nics[i] is configured in a
 * chain. */
static size_t hide_later(const struct coordinator_facts *f, const struct coordinator_nic *nics,
			 size_t n, size_t i, int *hidden)
{
	size_t k = 0;

	while (++i < n) {
		const struct link *l = link_find(f->links, f->n_links, nics[i].ifname);

		if (l)
			hidden[k++] = l->index;
	}
	return k;
}

static int make_plan(struct coordinator_nic *nics, size_t n, struct coordinator_facts *f,
		     struct coordinator_plan *p, struct err *e)
{
	auto_free int *hidden = xcalloc(n, sizeof(*hidden));
	int r = 0;

	for (size_t i = 0; r >= 0 && i < n; i++) {
		if (!nics[i].conf)
			continue;
		f->hidden = hidden;
		f->n_hidden = hide_later(f, nics, n, i, hidden);
		r = coordinator_plan_nic(&nics[i], i, f, p, e);
	}
	f->hidden = NULL;
	f->n_hidden = 0;
	return r;
}

/* Announces the addresses of NICs whose MAC comes from podMACPrefix, because neighbours may
 * still have the former MAC in their tables. */
static void announce_macs(struct attach *a, const struct coordinator_nic *nics, size_t n,
			  const struct coordinator_facts *f)
{
	struct announce *list = NULL;
	size_t k = 0;

	for (size_t i = 0; i < n; i++) {
		const struct link *l = link_find(f->links, f->n_links, nics[i].ifname);
		auto_free struct ipaddr *ips = NULL;
		size_t n_ips =
			l && nics[i].mac.len
				? coordinator_link_ips(f, l->index, COORD_V4 | COORD_V6, &ips)
				: 0;

		for (size_t j = 0; j < n_ips; j++)
			VEC_PUSH(list, k) =
				(struct announce){l->name, l->index, nics[i].mac, ips[j]};
	}
	if (k)
		announce_all(a->netns, list, k);
	free(list);
}

static bool nothing_to_do(struct coordinator_nic *nics, size_t n)
{
	bool nothing = true;

	for (size_t i = 0; i < n; i++) {
		if (nics[i].conf && nics[i].conf->mode == COORD_DISABLED)
			nics[i].conf = NULL;
		nothing &= !nics[i].conf;
	}
	return nothing;
}

static int run(struct attach *a, struct coordinator_nic *nics, size_t n,
	       struct coordinator_facts *f, struct err *e)
{
	size_t at;
	int r = 0;

	if (coordinator_wants_veth(nics, n, &at)) {
		r = attach_list_pod(a, e);
		if (r >= 0)
			r = coordinator_make_veth(a, &nics[at], e);
		if (r < 0)
			return nics[at].label ? err_wrap(e, r, "%s", nics[at].label) : r;
	}
	r = coordinator_facts_collect(a, nics, n, f, e);
	if (r >= 0)
		r = make_plan(nics, n, f, a->plan, e);
	if (r >= 0)
		r = coordinator_apply(a, a->plan, nics, e);
	if (r >= 0)
		announce_macs(a, nics, n, f);
	return r;
}

int coordinator_run(struct attach *a, struct coordinator_nic *nics, size_t n, struct err *e)
{
	struct coordinator_facts f = {0};
	int r;

	if (nothing_to_do(nics, n))
		return 0;
	a->plan_free = coordinator_plan_free;
	a->plan = xcalloc(1, sizeof(*a->plan));
	r = run(a, nics, n, &f, e);
	coordinator_facts_done(&f);
	return r;
}
