/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "cni/attach/rdma_info.h"
#include "cni/multi/internal.h"
#include "cni/multus/import.h"

/*
 * DEL of all networks of a pod, in reverse order. It continues after an error and returns the first
 * error at the end.
 */

struct deleting {
	struct multi *x;
	struct attach a;
	struct err first;   /* the first failure */
	struct ipaddr *ips; /* addresses of the pod, from prevResult and from its links */
	size_t n_ips;
};

static void keep_first_error(struct deleting *d, int r, const struct err *reason)
{
	if (r >= 0)
		return;
	log_warn("a step of DEL failed, the other steps still run", LOG_S("error", reason->text));
	if (!d->first.code)
		d->first = *reason;
	if (!d->first.code)
		d->first.code = r;
}

static int del_plugin(struct deleting *d, size_t i, const struct multi_plugin *p,
		      const struct cni_result *prev, struct err *e)
{
	/* DEL has no prevResult before CNI 0.4.0. */
	bool has_prev = multi_call(d->x, i)->has_prev && multi_call(d->x, i)->version >= CNI_0_4_0;
	struct chain_call call = multi_chain_call(d->x, i, p, has_prev ? prev : NULL);
	struct chained_call m = multi_chained_call(d->x, &d->a, i, p, has_prev);

	return p->meta ? p->meta->del(&m, prev, e) : chain_run(&call, "DEL", e);
}

static void run_plugin(struct deleting *d, size_t i, const struct multi_plugin *p)
{
	auto_result struct cni_result prev = {0};
	struct err reason = ERR_INIT;

	multi_prev(d->x, i, &prev);
	keep_first_error(d, del_plugin(d, i, p, &prev, &reason), &reason);
}

static void run_plugins(struct deleting *d, size_t i, enum multi_place place)
{
	const struct multi_list list = multi_plugins_at(&d->x->nets[i], place);

	for (size_t k = list.n; k-- > 0;)
		run_plugin(d, i, &list.v[k]);
}

static void run_chained(struct deleting *d)
{
	for (size_t i = d->x->n_nets; i-- > 0;) {
		run_plugins(d, i, MULTI_AFTER);
		run_plugins(d, i, MULTI_BEFORE);
	}
}

static void run_place(struct deleting *d, enum multi_place place)
{
	for (size_t i = d->x->n_nets; i-- > 0;)
		run_plugins(d, i, place);
}

static void know_prev_ips(struct deleting *d, size_t net)
{
	auto_result struct cni_result prev = {0};

	multi_prev(d->x, net, &prev);
	for (size_t i = 0; i < prev.n_ips; i++)
		VEC_PUSH(d->ips, d->n_ips) = prev.ips[i].address.ip;
}

/* Collects the addresses of all networks, from prevResult and from the pod; prevResult or the pod
 * may be missing. */
static void know_ips(struct deleting *d)
{
	auto_free struct addr *addrs = NULL;
	size_t n = 0;

	for (size_t i = 0; i < d->x->n_nets; i++)
		know_prev_ips(d, i);
	if (!d->a.pod || addr_list(d->a.pod, 0, 0, &addrs, &n, NULL) < 0)
		return;
	for (size_t i = 0; i < n; i++)
		if (coordinator_ip_usable(&addrs[i].net.ip))
			VEC_PUSH(d->ips, d->n_ips) = addrs[i].net.ip;
}

static bool has_coordinator(const struct deleting *d)
{
	for (size_t i = 0; i < d->x->n_nets; i++)
		if (d->x->nets[i].co)
			return true;
	return false;
}

/* Runs before the links are deleted, because without the pod's addresses a repeated DEL could not
 * identify the rules. */
static void delete_rules(struct deleting *d)
{
	struct err reason = ERR_INIT;

	if (has_coordinator(d))
		keep_first_error(d, coordinator_delete_rules(&d->a, d->ips, d->n_ips, &reason),
				 &reason);
}

/* Deletes veth0 together with the attachments. */
static void delete_links(struct deleting *d)
{
	static const char *const veth = COORD_VETH;
	struct err reason = ERR_INIT;
	const struct multi *x = d->x;

	keep_first_error(
		d, attach_remove(&d->a, x->rails, x->n_rails, &veth, has_coordinator(d), &reason),
		&reason);
}

static bool same_places(const struct coordinator_conf *a, const struct coordinator_conf *b)
{
	return a->host_table == b->host_table && strcmp(a->default_nic, b->default_nic) == 0;
}

/* If ADD would refuse the coordinator's object, DEL uses defaults. */
static void coordinator_conf_of(struct deleting *d, struct multi_net *net)
{
	struct err reason = ERR_INIT;

	if (coordinator_conf_read(d->x->call->doc, net->co, &net->coordinator_conf, &reason) >= 0)
		return;
	log_warn("configuration of the coordinator is invalid, deleting with defaults",
		 LOG_S("error", reason.text));
	net->coordinator_conf =
		(struct coordinator_conf){.default_nic = "eth0", .host_table = COORD_HOST_TABLE};
}

static void coordinators(struct deleting *d)
{
	const struct coordinator_conf *last = NULL;

	for (size_t i = 0; i < d->x->n_nets; i++) {
		struct multi_net *net = &d->x->nets[i];
		struct err reason = ERR_INIT;

		if (!net->co)
			continue;
		coordinator_conf_of(d, net);
		/* Usually all networks have the same table and default NIC, and one call covers
		 * them. */
		if (net->coordinator_conf.mode == COORD_DISABLED ||
		    (last && same_places(last, &net->coordinator_conf)))
			continue;
		last = &net->coordinator_conf;
		keep_first_error(d, coordinator_delete(&d->a, last, d->ips, d->n_ips, &reason),
				 &reason);
	}
}

static size_t ipam_calls(const struct multi *x, struct cni_ipam_call **ret)
{
	struct cni_ipam_call *calls = xcalloc(x->n_nets, sizeof(*calls));
	size_t n = 0;

	for (size_t i = 0; i < x->n_nets; i++) {
		if (!x->nets[i].kind)
			continue;
		calls[n] = multi_ipam_call(x, i);
		n += calls[n].conf != NULL;
	}
	*ret = calls;
	return n;
}

/* Runs after the links are deleted, so that no other pod gets an address that is in use. */
static void free_addresses(struct deleting *d)
{
	auto_free struct cni_ipam_call *calls = NULL;
	size_t n = ipam_calls(d->x, &calls);
	struct err reason = ERR_INIT;

	if (n)
		keep_first_error(d, cni_ipam_del(calls, n, &reason), &reason);
}

static void forget_rdma(const struct multi *x)
{
	auto_free const char **names = xcalloc(x->n_rails, sizeof(*names));

	for (size_t i = 0; i < x->n_rails; i++)
		names[i] = x->rails[i].ifname;
	rails_forget(x->call, names, x->n_rails);
}

int multi_del(struct multi *x, struct err *e)
{
	struct deleting d = {.x = x, .a = ATTACH_INIT};
	int r = multus_del(x->call, e);

	if (r != 0)
		return r < 0 ? r : 0;
	r = attach_open(&d.a, x->call, true, e);
	if (r < 0)
		return r;
	multi_read_rails(x);
	forget_rdma(x);
	run_chained(&d);
	know_ips(&d);
	delete_rules(&d);
	delete_links(&d);
	coordinators(&d);
	free_addresses(&d);
	run_place(&d, MULTI_MAIN);
	run_place(&d, MULTI_AHEAD);
	attach_close(&d.a);
	free(d.ips);
	if (!d.first.code)
		multi_forget(x);
	if (e && d.first.code)
		*e = d.first;
	return d.first.code;
}

/* --- CHECK --- */

static int check_ipam(const struct multi *x, struct err *e)
{
	auto_free struct cni_ipam_call *calls = NULL;
	size_t n = ipam_calls(x, &calls);

	return n ? cni_ipam_check(calls, n, e) : 0;
}

/* Checks links and addresses, then the coordinator, then routes. The coordinator checks the tables
 * of its routes itself. */
static int check_rails(const struct multi *x, struct attach *a, struct err *e)
{
	struct attach_seen seen = {0};
	int r = x->n_rails ? attach_inspect(a, &seen, e) : 0;

	for (size_t i = 0; r >= 0 && i < x->n_rails; i++)
		r = attach_check_rail(a, &seen, &x->rails[i], e);
	if (r >= 0)
		r = coordinator_check(a, x->nics, x->n_nets, e);
	for (size_t i = 0; r >= 0 && i < x->n_rails; i++) {
		r = attach_check_routes(&seen, &x->rails[i].ipam.call->prev, x->rails[i].ifname, e);
		if (r < 0)
			rail_err(&x->rails[i], r, e);
	}
	attach_seen_done(&seen);
	return r;
}

struct checking {
	const struct multi *x;
	const struct attach *a;
	struct cni_result prev; /* prevResult of the network */
};

static int wrap(const struct multi *x, size_t i, const struct multi_plugin *p, int code,
		struct err *e)
{
	err_wrap(e, code, "plugin '%s'", p->type);
	return err_wrap(e, code, "%s", x->nets[i].label);
}

/* Returns whether the network's CNI version has a verb that was added in version `since`. */
static bool knows(const struct multi *x, size_t i, enum cni_version since)
{
	return multi_call(x, i)->version >= since;
}

static int check_plugin(void *arg, size_t i, const struct multi_plugin *p, struct err *e)
{
	const struct checking *k = arg;
	struct chain_call c = multi_chain_call(k->x, i, p, &k->prev);
	struct chained_call m = multi_chained_call(k->x, k->a, i, p, true);
	int r;

	if (!p->meta)
		return knows(k->x, i, CNI_0_4_0) ? chain_run(&c, "CHECK", e) : 0;
	r = p->meta->check(&m, &k->prev, e);
	return r < 0 ? wrap(k->x, i, p, r, e) : 0;
}

static int check_plugins(const struct multi *x, const struct attach *a, size_t i, struct err *e)
{
	struct checking k = {.x = x, .a = a};
	int r;

	if (!multi_prev(x, i, &k.prev))
		return err_kind(e, ERR_CONF, -EINVAL, "%s: required prevResult missing",
				x->nets[i].label);
	r = multi_each_plugin(x, i, check_plugin, &k, e);
	cni_result_done(&k.prev);
	return r;
}

int multi_check(struct multi *x, struct err *e)
{
	auto_attach struct attach a = ATTACH_INIT;
	bool any = false;
	int r;

	for (size_t i = 0; i < x->n_nets; i++)
		any |= x->nets[i].call.has_prev;
	if (!any)
		return err_kind(e, ERR_CONF, -EINVAL, "required prevResult missing");
	r = attach_open(&a, x->call, false, e);
	if (r >= 0)
		r = check_ipam(x, e);
	if (r >= 0)
		r = check_rails(x, &a, e);
	for (size_t i = 0; r >= 0 && i < x->n_nets; i++)
		r = check_plugins(x, &a, i, e);
	return r;
}

/* --- GC --- */

/* Copies the runtime's list of valid attachments, whose interface is CNI_IFNAME, for network i:
 * with the network's own interface name if it has one. */
static struct cni_attachment *valid_of(const struct multi *x, size_t i)
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

struct collecting {
	const struct multi *x;
	const struct cni_attachment *valid;
	const struct cni_call *call; /* the network's call, with its list of valid attachments */
};

static int gc_meta(const struct collecting *g, size_t i, const struct multi_plugin *p,
		   struct err *e)
{
	const struct attach none = {.call = g->x->call, .netns = -1};
	struct chained_call m = multi_chained_call(g->x, &none, i, p, false);

	m.call = g->call;
	m.network = g->call->name;
	m.ifname = "";
	return p->meta->gc ? p->meta->gc(&m, e) : 0;
}

static int gc_plugin(void *arg, size_t i, const struct multi_plugin *p, struct err *e)
{
	const struct collecting *g = arg;
	struct chain_call c = multi_chain_call(g->x, i, p, NULL);

	c.valid = g->valid;
	c.n_valid = g->x->call->n_valid;
	if (p->meta)
		return gc_meta(g, i, p, e);
	return knows(g->x, i, CNI_1_1_0) ? chain_run(&c, "GC", e) : 0;
}

static int gc_net(const struct multi *x, size_t i, const struct rail *rail, struct err *e)
{
	auto_free struct cni_attachment *valid = valid_of(x, i);
	struct cni_ipam_call ipam = multi_ipam_call(x, i);
	struct cni_call call = *multi_call(x, i);
	struct collecting g = {x, valid, &call};
	int r;

	call.valid = valid;
	call.name = x->nets[i].name;
	ipam.call = &call;
	rails_gc(&call);
	r = rail ? attach_gc(&call, rail, e) : 0;
	if (r >= 0 && rail && ipam.conf)
		r = cni_ipam_gc(&ipam, 1, e);
	return r < 0 ? r : multi_each_plugin(x, i, gc_plugin, &g, e);
}

static uint32_t host_table(const struct multi *x, const struct json *co)
{
	uint32_t table = COORD_HOST_TABLE;
	struct coordinator_conf c;

	if (coordinator_conf_read(x->call->doc, co, &c, NULL) >= 0) {
		table = c.host_table;
		coordinator_conf_done(&c);
	}
	return table;
}

static int gc_veths(const struct multi *x, struct err *e)
{
	auto_free struct coordinator_gc_net *nets = xcalloc(x->n_nets, sizeof(*nets));
	size_t n = 0;

	for (size_t i = 0; i < x->n_nets; i++)
		if (x->nets[i].co)
			nets[n++] = (struct coordinator_gc_net){x->nets[i].name,
								host_table(x, x->nets[i].co)};
	return n ? coordinator_gc(nets, n, x->call, e) : 0;
}

/* Runs GC of all networks: continues after an error and returns the first error. */
int multi_gc(struct multi *x, struct err *e)
{
	int first = gc_veths(x, e);
	const struct rail *rail = x->rails;

	for (size_t i = 0; i < x->n_nets; i++) {
		const struct rail *own = x->nets[i].kind ? rail++ : NULL;
		int r = gc_net(x, i, own, first < 0 ? NULL : e);

		if (r < 0 && first >= 0)
			first = err_wrap(e, r, "%s", x->nets[i].label);
	}
	multi_forget_others(x);
	return first;
}

/* --- STATUS --- */

static int status_plugin(void *arg, size_t i, const struct multi_plugin *p, struct err *e)
{
	const struct multi *x = arg;
	const struct attach none = {.call = x->call, .netns = -1};
	struct chain_call c = multi_chain_call(x, i, p, NULL);
	struct chained_call m = multi_chained_call(x, &none, i, p, false);
	int r;

	if (!p->meta)
		return knows(x, i, CNI_1_1_0) ? chain_run(&c, "STATUS", e) : 0;
	m.ifname = "";
	r = p->meta->status(&m, e);
	return r < 0 ? wrap(x, i, p, r, e) : 0;
}

static int status_ipam(const struct multi *x, size_t i, struct err *e)
{
	const struct cni_ipam_call c = multi_ipam_call(x, i);
	int r = x->nets[i].kind && c.conf ? cni_ipam_status(&c, 1, e) : 0;

	return r < 0 ? err_wrap(e, r, "%s", x->nets[i].label) : 0;
}

static int status_coordinator(const struct multi *x, size_t i, struct nl_wire *w, struct err *e)
{
	int r = x->nets[i].co ? coordinator_status(w, &x->nets[i].coordinator_conf, e) : 0;

	return r < 0 ? err_wrap(e, r, "%s", x->nets[i].label) : 0;
}

int multi_status(struct multi *x, struct err *e)
{
	auto_nl struct nl_wire *w = NULL;
	int r = nl_open(&w, NL_ROUTE, -1, e);

	for (size_t i = 0; r >= 0 && i < x->n_rails; i++)
		r = attach_status(w, &x->call->root, &x->rails[i], e);
	for (size_t i = 0; r >= 0 && i < x->n_nets; i++)
		r = status_coordinator(x, i, w, e);
	for (size_t i = 0; r >= 0 && i < x->n_nets; i++)
		r = status_ipam(x, i, e);
	for (size_t i = 0; r >= 0 && i < x->n_nets; i++)
		r = multi_each_plugin(x, i, status_plugin, x, e);
	return r;
}
