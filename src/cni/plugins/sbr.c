/* SPDX-License-Identifier: Apache-2.0 */
#include "cni/plugins/sbr.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "kern/sys/netns.h"

enum { LOCK_MS = 10000 };

struct raw {
	const char *unused;
	int64_t table;
	bool has_table, hints;
	struct json_strs gateways;
};

static const struct json_field fields[] = {
	{.name = "table",
	 .type = J_INT,
	 .offset = offsetof(struct raw, table),
	 .has = offsetof(struct raw, has_table),
	 .min = 1,
	 .max = UINT32_MAX},
	{.name = "gateways", .type = J_STRS, .offset = offsetof(struct raw, gateways)},
	{.name = "addSourceHints", .type = J_BOOL, .offset = offsetof(struct raw, hints)},
	{0},
};
static const struct json_table table = {fields, JSON_GO, sizeof(struct raw)};

static int read_gateway(const char *text, size_t i, struct sbr_conf *c, struct err *e)
{
	struct ipaddr ip, *into;

	if (ip_parse(span_of(text), &ip) < 0)
		return err_kind(e, ERR_CONF, -EINVAL,
				"conf.gateways[%zu] is '%s', wants an IP address", i, text);
	into = ip.family == 4 ? &c->gw4 : &c->gw6;
	if (into->family)
		return err_kind(e, ERR_CONF, -EINVAL,
				"conf.gateways[%zu] is '%s': multiple IPv%d addresses in gateways, "
				"expected one at most",
				i, text, ip.family);
	*into = ip;
	return 0;
}

int sbr_conf_read(struct json_doc *d, const struct json *conf, struct sbr_conf *ret, struct err *e)
{
	struct sbr_conf c = {0};
	struct raw raw = {0};
	int r = json_read(d, conf, &table, &raw, "conf", e);

	for (size_t i = 0; r >= 0 && i < raw.gateways.n; i++)
		r = read_gateway(raw.gateways.v[i], i, &c, e);
	if (r < 0)
		return r;
	c.table = (uint32_t)raw.table;
	c.hints = raw.hints;
	*ret = c;
	return 0;
}

static void facts_done(struct sbr_facts *f)
{
	free(f->rules);
	route_list_free(f->routes, f->n_routes);
}
#define auto_facts __attribute__((cleanup(facts_done)))

static int gather(const struct meta_call *m, struct sbr_facts *f, struct err *e)
{
	struct link l;
	int r = link_get(m->pod, m->ifname, &l, e);

	if (r < 0)
		return err_wrap(e, r, "Cannot find network interface %s", m->ifname);
	f->ifname = m->ifname;
	f->index = l.index;
	r = rule_list(m->pod, 0, &f->rules, &f->n_rules, e);
	if (r >= 0)
		r = route_list(m->pod, 0, 0, &f->routes, &f->n_routes, e);
	return r < 0 ? r : 0;
}

/*
 * Two at once in one pod would choose the same table. The namespace itself is locked, as the
 * original does, by a descriptor of its own: the lock ends with it.
 */
static int lock(const struct meta_call *m, int *fd, struct err *e)
{
	int r = netns_open(m->call->netns, fd, e);

	if (r < 0)
		return r;
	r = lock_fd(*fd, LOCK_MS);
	if (r < 0)
		return err_kind(e, r == -EWOULDBLOCK ? ERR_AGAIN : ERR_OTHER, r,
				"lock namespace '%s': %s: another sbr holds it", m->call->netns,
				errno_text(r));
	return 0;
}

/* --- a step and its reverse --- */

static void emit(struct nl_batch *b, const struct sbr_step *s)
{
	switch (s->what) {
	case SBR_RULE_ADD: rule_add(b, &s->rule, 0); break;
	case SBR_DEFAULT_ADD: route_add(b, &s->route, ROUTE_EXCL); break;
	case SBR_ROUTE_PUT: route_add(b, &s->route, ROUTE_REPLACE); break;
	case SBR_ROUTE_DEL: route_del(b, &s->route); break;
	}
}

/* A step that outlives the facts it borrowed its hops from. */
struct done {
	struct nl_wire *w;
	struct sbr_step step;
	size_t n_hops;
	struct route_hop hops[];
};

static int undo_step(void *arg, struct err *e)
{
	auto_batch struct nl_batch *b = nl_batch_new();
	struct done *d = arg;

	d->step.route.hops = d->n_hops ? d->hops : NULL;
	switch (d->step.what) {
	case SBR_RULE_ADD: rule_del(b, &d->step.rule); break;
	case SBR_DEFAULT_ADD: route_del(b, &d->step.route); break;
	case SBR_ROUTE_PUT:
		if (d->step.has_old)
			route_add(b, &d->step.old, ROUTE_REPLACE);
		else
			route_del(b, &d->step.route);
		break;
	/* Not EXCL: for IPv6, fe80::/64 of another link would stand in its way. */
	case SBR_ROUTE_DEL: route_add(b, &d->step.route, ROUTE_CREATE); break;
	}
	return nl_batch_commit(d->w, b, e);
}

static void push_done(const struct meta_call *m, const struct sbr_step *s, struct undo *u)
{
	size_t hops = s->route.n_hops * sizeof(*s->route.hops), size = sizeof(struct done) + hops;
	auto_free struct done *d = xcalloc(1, size);

	d->w = m->pod;
	d->step = *s;
	d->n_hops = s->route.n_hops;
	if (hops)
		memcpy(d->hops, s->route.hops, hops);
	/* A hint never stands instead of a route with several hops: that one has a gateway. */
	d->step.old.hops = NULL;
	d->step.old.n_hops = 0;
	undo_push(u, "take a rule or route back", undo_step, d, size);
}

static int step_err(const struct sbr_step *s, int code, struct err *e)
{
	char text[IP_TEXT_MAX];

	switch (s->what) {
	case SBR_RULE_ADD: return err_wrap(e, code, "Failed to add rule");
	case SBR_DEFAULT_ADD:
		return err_wrap(e, code, "Failed to add default route to %s",
				ip_str(&s->route.gw, text));
	case SBR_ROUTE_PUT: return err_wrap(e, code, "Failed to readd route");
	case SBR_ROUTE_DEL: return err_wrap(e, code, "Failed to delete route");
	}
	return code;
}

static int apply(const struct meta_call *m, const struct sbr_step *steps, size_t n, struct undo *u,
		 struct err *e)
{
	auto_batch struct nl_batch *b = nl_batch_new();
	const struct sbr_step *failed = NULL;
	int r;

	for (size_t i = 0; i < n; i++)
		emit(b, &steps[i]);
	r = n ? nl_batch_commit(m->pod, b, e) : 0;
	for (size_t i = 0; i < n; i++) {
		int one = nl_batch_result(b, i);

		/* A failure may be a lost answer; to undo what was not done does no harm. */
		if (one != -EEXIST)
			push_done(m, &steps[i], u);
		if (one < 0 && !failed)
			failed = &steps[i];
	}
	return r < 0 && failed ? step_err(failed, r, e) : r;
}

/* --- verbs --- */

static int want_ips(const struct meta_call *m, const struct cni_result *prev, struct cni_ip **ips,
		    size_t *n, struct err *e)
{
	if (!m->has_prev)
		return err_kind(e, ERR_CONF, -EINVAL,
				"This plugin must be called as chained plugin (prevResult is "
				"missing)");
	*n = sbr_ips(prev, m->ifname, ips);
	if (!*n)
		return err_kind(e, ERR_CONF, -EINVAL, "No IP addresses supplied on interface: %s",
				m->ifname);
	return 0;
}

static int add(const struct meta_call *m, struct cni_result *prev, struct undo *u, struct err *e)
{
	auto_facts struct sbr_facts f = {0};
	auto_free struct cni_ip *ips = NULL;
	auto_fd int locked = -1;
	struct sbr_plan plan;
	struct sbr_conf c;
	size_t n = 0;
	int r = sbr_conf_read(m->doc, m->conf, &c, e);

	if (r >= 0)
		r = want_ips(m, prev, &ips, &n, e);
	if (r >= 0)
		r = lock(m, &locked, e);
	if (r >= 0)
		r = gather(m, &f, e);
	if (r < 0)
		return r;
	sbr_plan(&c, &f, ips, n, &plan);
	r = apply(m, plan.steps, plan.n_adds, u, e);
	/* Only now: until all is there, the main table serves. */
	if (r >= 0)
		r = apply(m, plan.steps + plan.n_adds, plan.n - plan.n_adds, u, e);
	free(plan.steps);
	return r;
}

/* prevResult's addresses and those that the link has: either may be missing. */
static size_t known_ips(const struct meta_call *m, const struct cni_result *prev,
			struct ipaddr **ret)
{
	auto_free struct cni_ip *of_prev = NULL;
	auto_free struct addr *addrs = NULL;
	size_t n = 0, n_addrs = 0, n_prev = sbr_ips(prev, m->ifname, &of_prev);
	struct ipaddr *list = NULL;
	struct link l;

	for (size_t i = 0; i < n_prev; i++)
		VEC_PUSH(list, n) = of_prev[i].address.ip;
	if (link_get(m->pod, m->ifname, &l, NULL) >= 0 &&
	    addr_list(m->pod, 0, l.index, &addrs, &n_addrs, NULL) >= 0)
		for (size_t i = 0; i < n_addrs; i++)
			VEC_PUSH(list, n) = addrs[i].net.ip;
	*ret = list;
	return n;
}

static int delete_rules(const struct meta_call *m, const struct sbr_conf *c,
			const struct ipaddr *ips, size_t n, struct err *e)
{
	auto_batch struct nl_batch *b = nl_batch_new();
	auto_free const struct rule **ours = NULL;
	auto_free struct rule *rules = NULL;
	size_t n_rules = 0, n_ours;
	int r = rule_list(m->pod, 0, &rules, &n_rules, e);

	if (r < 0)
		return r;
	ours = xcalloc(n_rules, sizeof(*ours));
	n_ours = sbr_rules_of(c, rules, n_rules, ips, n, ours);
	for (size_t i = 0; i < n_ours; i++)
		rule_del(b, ours[i]);
	return n_ours ? nl_batch_commit(m->pod, b, e) : 0;
}

/* The routes go with the link. */
static int del(const struct meta_call *m, const struct cni_result *prev, struct err *e)
{
	auto_free struct ipaddr *ips = NULL;
	struct sbr_conf c = {0};
	size_t n;

	if (!m->pod)
		return 0;
	/* Without a table that can be read: those of all tables. */
	sbr_conf_read(m->doc, m->conf, &c, NULL);
	n = known_ips(m, prev, &ips);
	return n ? delete_rules(m, &c, ips, n, e) : 0;
}

static int check(const struct meta_call *m, const struct cni_result *prev, struct err *e)
{
	auto_facts struct sbr_facts f = {0};
	auto_free struct cni_ip *ips = NULL;
	struct sbr_conf c;
	size_t n = 0;
	int r = sbr_conf_read(m->doc, m->conf, &c, e);

	if (r >= 0)
		r = want_ips(m, prev, &ips, &n, e);
	if (r >= 0)
		r = gather(m, &f, e);
	return r < 0 ? r : sbr_check(&c, &f, ips, n, e);
}

/* A kernel without policy routing has no rules to list. */
static int status(const struct meta_call *m, struct err *e)
{
	auto_free struct rule *rules = NULL;
	auto_nl struct nl_wire *w = NULL;
	struct sbr_conf c;
	size_t n;
	int r = sbr_conf_read(m->doc, m->conf, &c, e);

	if (r < 0)
		return r;
	r = nl_open(&w, NL_ROUTE, -1, e);
	if (r >= 0)
		r = rule_list(w, 4, &rules, &n, e);
	if (r < 0)
		err_default_kind(e, ERR_UNAVAILABLE);
	return r < 0 ? r : 0;
}

const struct cni_meta meta_sbr = {
	.type = "sbr",
	.add = add,
	.del = del,
	.check = check,
	.status = status,
};
const struct cni_plugin cni_sbr = META_PLUGIN(sbr);
