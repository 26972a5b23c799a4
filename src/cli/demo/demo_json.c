/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>

#include "cli/demo/demo.h"
#include "wire/json/json.h"

enum { JSON_OUT_MAX = 16 << 20 };

static void call(struct json_out *o, const char *key, const struct demo_call *c)
{
	jo_key(o, key);
	jo_obj(o);
	jo_key(o, "wall_ms");
	jo_real(o, (double)c->wall_us / 1000);
	jo_key(o, "cpu_ms");
	jo_real(o, (double)c->cpu_us / 1000);
	jo_end_obj(o);
}

static void interfaces(struct json_out *o, const struct demo_facts *f)
{
	char text[MAC_TEXT_MAX], ip_text[IP_TEXT_MAX];

	jo_key(o, "interfaces");
	jo_arr(o);
	for (size_t i = 0; i < f->n_links; i++) {
		const struct link *l = &f->links[i];
		struct ipnet ip;

		if (link_is_loopback(l))
			continue;
		jo_obj(o);
		jo_kstr(o, "name", l->name);
		jo_kstr(o, "kind", l->kind);
		jo_kint(o, "mtu", l->mtu);
		jo_kstr(o, "mac", mac_str(&l->mac, text));
		if (demo_link_ip(f, l->name, &ip))
			jo_kstr(o, "address", ipnet_str(&ip, ip_text));
		jo_end_obj(o);
	}
	jo_end_arr(o);
}

static void rules_and_routes(struct json_out *o, const struct demo_facts *f)
{
	jo_key(o, "rules");
	jo_arr(o);
	for (size_t i = 0; i < f->n_rules; i++) {
		char *words = demo_rule_words(&f->rules[i]);

		jo_obj(o);
		jo_kint(o, "family", f->rules[i].family);
		jo_kint(o, "priority", f->rules[i].priority);
		jo_kstr(o, "rule", words);
		jo_end_obj(o);
		free(words);
	}
	jo_end_arr(o);
	jo_key(o, "routes");
	jo_arr(o);
	for (size_t i = 0; i < f->n_routes; i++) {
		char *words;

		if (f->routes[i].table == TABLE_LOCAL)
			continue;
		words = demo_route_words(f, &f->routes[i]);
		jo_obj(o);
		jo_kint(o, "table", f->routes[i].table);
		jo_kstr(o, "route", words);
		jo_end_obj(o);
		free(words);
	}
	jo_end_arr(o);
}

static void pod(struct json_out *o, const struct demo *d, const struct demo_pod *p)
{
	jo_obj(o);
	jo_kstr(o, "name", p->name);
	jo_kstr(o, "container_id", p->container_id);
	call(o, "attach", &p->add);
	if (!d->opt.keep)
		call(o, "detach", &p->del);
	interfaces(o, &p->facts);
	rules_and_routes(o, &p->facts);
	jo_end_obj(o);
}

static void pings(struct json_out *o, const struct demo *d)
{
	char ip[IP_TEXT_MAX];

	jo_key(o, "pings");
	jo_arr(o);
	for (size_t i = 0; i < d->n_pings; i++) {
		const struct demo_ping *p = &d->pings[i];

		jo_obj(o);
		jo_kstr(o, "from", d->pods[p->pod].name);
		jo_kstr(o, "interface", d->nics[p->nic].pod_if);
		jo_kstr(o, "to", p->to);
		jo_kstr(o, "target", ip_str(&p->target, ip));
		jo_key(o, "ms");
		if (p->us < 0)
			jo_null(o);
		else
			jo_real(o, (double)p->us / 1000);
		jo_end_obj(o);
	}
	jo_end_arr(o);
}

static void document(struct json_out *o, const struct demo *d)
{
	jo_obj(o);
	jo_kbool(o, "ok", d->n_problems == 0);
	jo_kstr(o, "plan", d->opt.plan);
	jo_kint(o, "rails", d->opt.rails);
	jo_key(o, "pods");
	jo_arr(o);
	for (size_t i = 0; i < DEMO_PODS; i++)
		pod(o, d, &d->pods[i]);
	jo_end_arr(o);
	pings(o, d);
	jo_kint(o, "left", (int64_t)d->n_left);
	jo_key(o, "problems");
	jo_arr(o);
	for (size_t i = 0; i < d->n_problems; i++)
		jo_str(o, d->problems[i]);
	jo_end_arr(o);
	jo_end_obj(o);
}

void demo_json(const struct demo *d)
{
	struct json_out o;
	struct buf b;

	buf_init(&b, JSON_OUT_MAX);
	jo_init(&o, &b, 2);
	document(&o, d);
	printf("%s\n", b.p);
	buf_done(&b);
}
