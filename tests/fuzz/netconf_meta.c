/* SPDX-License-Identifier: Apache-2.0 */
#include <net/if.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "cni/plugins/ifacer.h"
#include "cni/plugins/sbr.h"
#include "cni/plugins/tuning/tuning.h"
#include "netconf.h"
#include "kern/sys/sysctl.h"

enum { NET1 = 3, TEXT_MAX = 1 << 20, BESIDE = 64 };

static struct chained_call meta_of(struct cni_call *c)
{
	return (struct chained_call){.call = c,
				     .doc = c->doc,
				     .conf = c->conf,
				     .ifname = c->ifname,
				     .version = c->version,
				     .has_prev = c->has_prev,
				     .netns = -1};
}

/* --- tuning --- */

/* MAC, MTU and txQLen that are saved for DEL are read back unchanged. */
static void check_backup(const struct tuning_attrs *a)
{
	struct tuning_attrs again = {0};
	struct err e = ERR_INIT;
	auto_buf struct buf b;

	buf_init(&b, TEXT_MAX);
	if (!tuning_touches(a))
		return;
	tuning_backup_print(a, &b);
	if (tuning_backup_parse(buf_span(&b), &again, &e) < 0)
		fuzz_fail(e.text, 0, b.p);
	must(mac_eq(&a->mac, &again.mac) && a->mtu == again.mtu);
	must(a->has_txqlen == again.has_txqlen && a->txqlen == again.txqlen);
}

static void check_sysctls(const struct tuning_conf *c)
{
	for (size_t i = 0; i < c->n_sysctls; i++) {
		const char *path = c->sysctls[i].path;

		must(strncmp(path, "net/", 4) == 0 && !strstr(path, "/../"));
		must(sysctl_same_value(c->sysctls[i].value, c->sysctls[i].value));
		for (size_t k = i > BESIDE ? i - BESIDE : 0; k < i; k++)
			must(strcmp(c->sysctls[k].path, path) != 0);
	}
}

int netconf_tuning(struct cni_call *c, struct cni_result *out, struct err *e)
{
	const struct link l = {.name = "net1", .mtu = 1500, .txqlen = 1000};
	struct link_change changes[TUNING_CHANGES];
	struct chained_call m = meta_of(c);
	struct tuning_attrs found, both;
	struct tuning_conf conf = {0};
	int r = tuning_conf_read(&m, &conf, e);

	must(*tuning_data_dir(&m));
	if (r == 0) {
		check_sysctls(&conf);
		must(tuning_changes(&conf.want, changes) <= TUNING_CHANGES);
		found = tuning_found(&conf.want, &l);
		both = tuning_merge(&found, &conf.want);
		check_backup(&conf.want);
		check_backup(&both);
		tuning_check_link(&conf, &l, NULL);
		cni_result_copy(out, &c->prev);
	}
	tuning_conf_done(&conf);
	return r;
}

/* --- sbr --- */

static void a_pod(struct sbr_facts *f)
{
	VEC_PUSH(f->routes, f->n_routes) = (struct route){.dst = {{4, {172, 16, 1, 0}}, 24},
							  .family = 4,
							  .index = NET1,
							  .table = TABLE_MAIN,
							  .scope = SCOPE_LINK,
							  .src = {4, {172, 16, 1, 20}}};
	VEC_PUSH(f->routes, f->n_routes) = (struct route){.dst = {{.family = 4}, 0},
							  .family = 4,
							  .index = NET1,
							  .table = TABLE_MAIN,
							  .gw = {4, {172, 16, 1, 1}}};
	VEC_PUSH(f->rules, f->n_rules) =
		(struct rule){.family = 4, .src = {{4, {172, 16, 1, 20}}, 32}, .table = 100};
}

static void check_sbr_plan(const struct sbr_plan *p)
{
	must(p->n_adds <= p->n);
	for (size_t i = 0; i < p->n; i++) {
		const struct sbr_step *s = &p->steps[i];

		must((s->what == SBR_ROUTE_DEL) == (i >= p->n_adds));
		if (s->what == SBR_RULE_ADD)
			must(s->rule.table && s->rule.src.ip.family == s->rule.family);
		else
			must(s->route.dst.ip.family == s->route.family);
	}
}

int netconf_sbr(struct cni_call *c, struct cni_result *out, struct err *e)
{
	struct sbr_facts f = {.ifname = "net1", .index = NET1};
	struct sbr_conf conf = {0};
	struct sbr_plan p = {0};
	struct cni_ip *ips = NULL;
	int r = sbr_conf_read(c->doc, c->conf, &conf, e);
	size_t n;

	if (r < 0)
		return r;
	a_pod(&f);
	n = sbr_ips(&c->prev, c->ifname, &ips);
	must(n <= c->prev.n_ips);
	sbr_plan(&conf, &f, ips, n, &p);
	check_sbr_plan(&p);
	sbr_check(&conf, &f, ips, n, NULL);
	cni_result_copy(out, &c->prev);
	free(p.steps);
	free(ips);
	free(f.routes);
	free(f.rules);
	return 0;
}

/* --- ifacer --- */

int netconf_ifacer(struct cni_call *c, struct cni_result *out, struct err *e)
{
	const struct link links[] = {
		{.index = 2, .name = "ens1", .flags = IFF_UP, .mtu = 1500},
		{.index = 3, .name = "ens2", .mtu = 1500},
		{.index = 4, .name = "ens1.100", .kind = "vlan", .vlan_id = 100, .parent = 2},
		{.index = 5, .name = IFACER_BOND, .kind = "bond", .flags = IFF_UP},
	};
	struct ifacer_conf conf = {0};
	struct ifacer_plan p = {0};
	int r = ifacer_conf_read(c->doc, c->conf, &conf, e);

	if (r < 0)
		return r;
	must(conf.vlan <= IFACER_VLAN_MAX);
	ifacer_check(&conf, links, ARRAY_LEN(links), NULL);
	r = ifacer_plan(&conf, links, ARRAY_LEN(links), &p, e);
	if (r < 0)
		return r;
	must(!p.makes_vlan || link_name_ok(p.vlan_name));
	must(!p.makes_bond || link_name_ok(p.bond_name));
	ifacer_plan_done(&p);
	cni_result_copy(out, &c->prev);
	return 0;
}
