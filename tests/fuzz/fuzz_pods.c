/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Objects of an API server about a pod and pools, and the resulting allocation. First line: an
 * interface, optionally with a digit, the interface's position. Second: a Pod. Third: a namespace's
 * annotations. Each line after that: a SpiderIPPool, SpiderReservedIP, or a SpiderEndpoint.
 */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "fuzz.h"
#include "block/migration.h"
#include "spec/identity.h"
#include "spec/pool_annotation.h"
#include "ipam/pool/pool_cluster.h"
#include "ipam/select/select_pool.h"
#include "wire/json/json.h"

enum { POOLS_MAX = 12 };

struct scene {
	char *ifname;
	int position;
	struct pod_facts pod;
	struct labels ns;
	char *lines[POOLS_MAX];
	size_t n_lines;
	struct pool_set set;
};

static struct json_doc *parse(struct span text)
{
	struct json_doc *doc = NULL;
	struct err e = ERR_INIT;

	return fuzz_refused(json_parse(&doc, text, 1 << 16, &e), &e) ? NULL : doc;
}

/* --- pools --- */

static void check_pool(const struct pool_set *s, const struct pool *p)
{
	struct ipaddr a;

	must(p->shared && p->cut.prefix >= p->subnet.len &&
	     p->cut.prefix <= ip_bits(&p->subnet.ip));
	must(!ip_set_meets(&p->open, p->family == 4 ? &s->reserved4 : &s->reserved6, &a));
	must(!ip_set_meets(&p->open, &p->adopted, &a));
	for (size_t i = 0; i < p->open.n; i++)
		must(ip_set_has(&p->ips, &p->open.v[i].first) &&
		     ip_set_has(&p->ips, &p->open.v[i].last));
	for (size_t i = 0; i < p->n_records; i++) {
		must(i == 0 || ip_cmp(&p->records[i - 1].ip, &p->records[i].ip) <= 0);
		for (size_t k = 0; k < s->n; k++)
			must(!ip_set_has(&s->v[k].open, &p->records[i].ip));
	}
	must(!pool_reason_out(s, p->name) || s->n_out > 0);
}

static void check_set(const struct pool_set *s)
{
	struct ipaddr a;

	for (size_t i = 0; i < s->n; i++) {
		check_pool(s, &s->v[i]);
		for (size_t k = 0; k < i; k++)
			must(s->v[k].family != s->v[i].family ||
			     !ip_set_meets(&s->v[i].ips, &s->v[k].ips, &a));
	}
	for (size_t i = 0; i < s->n_out; i++)
		must(*s->out[i].cause);
}

static void read_endpoint(const struct json *v)
{
	struct migration_place p;
	struct err e = ERR_INIT;

	if (fuzz_refused(migration_place_read(v, &p, &e), &e))
		return;
	must(!p.for_node == !p.for_uid);
	migration_place_done(&p);
}

static void read_object(struct scene *s, struct span text)
{
	auto_json struct json_doc *doc = parse(text);
	const char *kind = doc ? json_string(json_get(json_root(doc), "kind")) : NULL;
	struct err e = ERR_INIT;
	char *line;

	if (!doc)
		return;
	if (kind && strcmp(kind, "SpiderEndpoint") == 0) {
		read_endpoint(json_root(doc));
		return;
	}
	kind = kind && strcmp(kind, "SpiderReservedIP") == 0 ? kind : "SpiderIPPool";
	if (!fuzz_refused(pool_kube_text(json_root(doc), kind, &line, &e), &e))
		s->lines[s->n_lines++] = line;
}

/* The result does not depend on the order of lines, since nodes may see objects in different
 * orders. */
static void check_order(const struct scene *s)
{
	const char *turned[POOLS_MAX];
	struct pool_set set;

	for (size_t i = 0; i < s->n_lines; i++)
		turned[i] = s->lines[s->n_lines - 1 - i];
	pool_kube_set(turned, s->n_lines, "ns", &set);
	must(set.n_out == s->set.n_out);
	must(set.n == s->set.n);
	for (size_t i = 0; i < set.n; i++) {
		must(set.v[i].open.n == s->set.v[i].open.n);
		must(strcmp(set.v[i].name, s->set.v[i].name) == 0);
	}
	pool_set_done(&set);
}

/* Returns whether two pools, used or left out, have the same name, which an API server never
 * permits. */
static bool has_twins(const struct scene *s)
{
	for (size_t i = 0; i < s->set.n + s->set.n_out; i++)
		for (size_t k = 0; k < i; k++) {
			const char *x = i < s->set.n ? s->set.v[i].name
						     : s->set.out[i - s->set.n].name;
			const char *y = k < s->set.n ? s->set.v[k].name
						     : s->set.out[k - s->set.n].name;

			if (strcmp(x, y) == 0)
				return true;
		}
	return false;
}

/* --- the pod --- */

static void read_pod(struct scene *s, struct span text)
{
	auto_json struct json_doc *doc = parse(text);
	struct err e = ERR_INIT;

	if (doc && !fuzz_refused(pod_facts_read(json_root(doc), &s->pod, &e), &e))
		return;
	s->pod = (struct pod_facts){.ns = xstrdup("a"),
				    .name = xstrdup("p-0"),
				    .uid = xstrdup("u"),
				    .node = xstrdup("")};
}

static void read_ns(struct scene *s, struct span text)
{
	auto_json struct json_doc *doc = parse(text);
	struct err e = ERR_INIT;

	if (doc)
		fuzz_refused(labels_read(json_root(doc), "x", NULL, &s->ns, &e), &e);
	for (size_t i = 1; i < s->ns.n; i++)
		must(strcmp(s->ns.v[i - 1].key, s->ns.v[i].key) < 0);
}

static void check_identity(const struct scene *s)
{
	static const struct identity_conf on = {true, true};
	struct identity i;

	identity_of(&s->pod, &on, &i);
	must(*i.ns && *i.name && i.pod == s->pod.name);
}

static void check_routes(const struct scene *s)
{
	struct ip_allocation *g = xcalloc(1, sizeof(*g));
	struct pool_route *v = NULL;
	struct err e = ERR_INIT;
	size_t n = 0;

	if (s->set.n > 0)
		g->address = s->set.v[0].subnet;
	if (!fuzz_refused(pod_routes_read(&s->pod, &v, &n, &e), &e)) {
		must(pod_routes_give(v, n, NULL, 0, g, 1) <= n);
		must(g->n_routes <= n);
		for (size_t i = 0; i < g->n_routes; i++)
			must(ipnet_contains(&g->address, &g->routes[i].gw));
	}
	free(v);
	ip_allocations_free(g, 1);
}

static void check_picks(const struct scene *s, struct ip_request *a)
{
	struct lease_table leases = {0};
	struct select_facts f = {.pools = &s->set, .leases = &leases, .node = "node1", .now_ms = 1};
	struct decision d;
	struct err e = ERR_INIT;

	if (fuzz_refused(select_addresses(&f, a, 1, &d, &e), &e))
		return;
	for (size_t i = 0; i < d.n_picks; i++) {
		const struct pool *p = d.picks[i].pool;

		must(p && !p->terminating && !p->disabled);
		must(ip_set_has(&p->usable, &d.picks[i].address.ip));
		must(!(p->family == 4 ? a->no4 : a->no6));
	}
	decision_done(&d);
}

static void request_networks(const struct scene *s)
{
	static const char *const conf[] = {"rail*", "p"};
	struct pod_pools_facts f = {.pod = &s->pod, .ns_annotations = &s->ns};
	struct pod_nic nic = {
		.ifname = s->ifname, .position = s->position, .conf4 = conf, .n_conf4 = 2};
	struct place_facts place = {&s->ns, &s->ns, &s->ns, "ns/net"};
	struct ip_request a = {.owner = {.container_id = "c",
					 .ifname = s->ifname,
					 .pod_namespace = s->pod.ns,
					 .pod_name = s->pod.name},
			       .pod = &s->pod,
			       .place = &place};
	struct err e = ERR_INIT;
	struct pod_pool_request w;

	f.conf.no6 = s->position == 9;
	if (fuzz_refused(pod_pools_request(&f, &nic, 1, &w, &e), &e))
		return;
	must(w.from != NULL);
	for (size_t i = 1; i < w.n_pools4; i++)
		for (size_t k = 0; k < i; k++)
			must(strcmp(w.pools4[i], w.pools4[k]) != 0);
	pod_pool_request_put(&w, &a);
	check_picks(s, &a);
	pod_pool_request_done(&w);
}

static void scene_done(struct scene *s)
{
	free(s->ifname);
	pod_facts_done(&s->pod);
	labels_done(&s->ns);
	for (size_t i = 0; i < s->n_lines; i++)
		free(s->lines[i]);
	pool_set_done(&s->set);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct feed f = {data, size};
	struct span line = feed_line(&f), word;
	struct scene s = {.position = -1};

	log_threshold = LOG_NONE;
	span_cut(&line, ' ', &word);
	s.ifname = text_of(word.n ? word : span_of("net1"));
	if (line.n == 1 && *line.p >= '0' && *line.p <= '9')
		s.position = *line.p - '0';
	read_pod(&s, feed_line(&f));
	read_ns(&s, feed_line(&f));
	while (f.n > 0 && s.n_lines < POOLS_MAX)
		read_object(&s, feed_line(&f));
	pool_kube_set((const char *const *)s.lines, s.n_lines, "ns", &s.set);
	if (!has_twins(&s)) {
		check_set(&s.set);
		check_order(&s);
	}
	check_identity(&s);
	check_routes(&s);
	request_networks(&s);
	scene_done(&s);
	return 0;
}
