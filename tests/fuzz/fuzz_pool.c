/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pool files, and the selection from them. First line: "ini" or "json", then "4", "6" or nothing
 * for the requested family. Second line: names or wildcards, with commas. Third line: one letter
 * for each usable address, in order: its state. The rest is the file.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/glob.h"
#include "base/log.h"
#include "files.h"
#include "fuzz.h"
#include "ipam/select/select_pool.h"

enum { NAMES_MAX = 8, REQUESTS = 3, LEASES_MAX = 64, NOW = 1000000 };

/* --- invariants of any set of pools --- */

static void check_ranges(const struct pool *p, const struct ip_set *s)
{
	must(s->n == 0 || s->family == p->family);
	for (size_t i = 0; i < s->n; i++) {
		must(ipnet_contains(&p->subnet, &s->v[i].first));
		must(ipnet_contains(&p->subnet, &s->v[i].last));
		must(ip_cmp(&s->v[i].first, &s->v[i].last) <= 0);
	}
}

static void check_usable(const struct pool *p, const struct ip_set *reserved)
{
	struct ipaddr a;

	must(!ip_set_meets(&p->usable, reserved, &a));
	for (size_t i = 0; i < p->usable.n; i++) {
		must(ip_set_has(&p->ips, &p->usable.v[i].first));
		must(ip_set_has(&p->ips, &p->usable.v[i].last));
	}
	must(ip_set_count(&p->usable) <= ip_set_count(&p->ips));
}

static void check_pool(const struct pool_set *s, const struct pool *p)
{
	must(p->family == 4 || p->family == 6);
	must(p->subnet.ip.family == p->family && !ipnet_has_host_bits(&p->subnet));
	must(*p->name && strlen(p->name) <= POOL_NAME_MAX && !strpbrk(p->name, "*?[/ \n"));
	must(p->reuse_delay_ms >= -1 && p->reuse_delay_ms <= POOL_REUSE_DELAY_MAX_MS);
	must(pool_find(s, p->name) == p);
	check_ranges(p, &p->ips);
	check_ranges(p, &p->usable);
	check_usable(p, p->family == 4 ? &s->reserved4 : &s->reserved6);
	if (p->gateway.family)
		must(ipnet_contains(&p->subnet, &p->gateway) && !ip_set_has(&p->ips, &p->gateway));
	for (size_t i = 0; i < p->n_routes; i++)
		must(p->routes[i].dst.len > 0 && ipnet_contains(&p->subnet, &p->routes[i].gw));
}

static void check_set(const struct pool_set *s)
{
	struct ipaddr a;

	must(s->reuse_delay_ms >= 0 && s->reuse_delay_ms <= POOL_REUSE_DELAY_MAX_MS);
	must(s->quarantine_ms >= 0 && s->quarantine_ms <= POOL_QUARANTINE_MAX_MS);
	for (size_t i = 0; i < s->n; i++) {
		check_pool(s, &s->v[i]);
		for (size_t k = 0; k < i && s->v[k].family == s->v[i].family; k++)
			must(!ip_set_meets(&s->v[i].ips, &s->v[k].ips, &a));
	}
}

/* --- selection --- */

struct scene {
	struct pool_set set;
	struct lease_table leases;
	struct select_facts facts;
	char *text;
	const char *names[NAMES_MAX];
	size_t n_names;
	struct ip_request requests[REQUESTS];
};

static struct lease lease_of(char letter)
{
	struct lease l = LEASE_INIT;

	l.at_ms = NOW - 1000 * (letter & 15);
	l.container_id = letter & 16 ? "c1" : "c2";
	l.ifname = "net1";
	l.pod_namespace = "default";
	l.pod_name = "a";
	l.state = (enum lease_state)((letter >> 5 & 7) % (LEASE_ADOPTED + 1));
	l.sticky = l.state == LEASE_RETAINED;
	return l;
}

static void put_leases(struct scene *s, struct span letters)
{
	size_t used = 0;

	if (letters.n > LEASES_MAX)
		letters.n = LEASES_MAX;
	for (size_t i = 0; i < s->set.n && used < letters.n; i++) {
		const struct pool *p = &s->set.v[i];
		struct ipaddr a, next;

		for (bool any = ip_set_next(&p->usable, NULL, &a); any && used < letters.n;
		     any = ip_add(&a, 1, &next) && ip_set_next(&p->usable, &next, &a)) {
			struct lease l = lease_of(letters.p[used++]);

			l.address = (struct ipnet){a, p->subnet.len};
			l.pool = p->name;
			if (letters.p[used - 1] != '.')
				lease_put(&s->leases, &l);
		}
	}
}

static void make_requests(struct scene *s, struct span line, char family)
{
	static const char *const ifnames[REQUESTS] = {"net1", "net2", "net3"};

	s->text = text_of(line);
	for (char *at = s->text; at && s->n_names < NAMES_MAX;) {
		s->names[s->n_names++] = at;
		at = strchr(at, ',');
		if (at)
			*at++ = '\0';
	}
	for (size_t i = 0; i < REQUESTS; i++) {
		struct ip_request *a = &s->requests[i];

		a->owner = (struct ipam_owner){.container_id = "c1",
					       .ifname = ifnames[i],
					       .pod_namespace = "default",
					       .pod_name = "a",
					       .pod_uid = "u"};
		a->sticky = i == 2;
		if (family == '4') {
			a->pools4 = s->names;
			a->n_pools4 = s->n_names;
		} else if (family == '6') {
			a->pools6 = s->names;
			a->n_pools6 = s->n_names;
		}
	}
}

static bool held_by_other(const struct scene *s, const struct select_pick *p)
{
	const struct lease *l = lease_find(&s->leases, &p->address.ip);
	const struct ipam_owner *owner = &s->requests[p->request].owner;

	return l && (l->state == LEASE_USED || l->state == LEASE_ADOPTED) &&
	       !lease_is(l, owner->container_id, owner->ifname);
}

static void check_picks(const struct scene *s, const struct decision *d)
{
	for (size_t i = 0; i < d->n_picks; i++) {
		const struct select_pick *p = &d->picks[i];

		must(p->request < REQUESTS && !held_by_other(s, p));
		must(p->was_there || (p->pool && ip_set_has(&p->pool->usable, &p->address.ip)));
		must(!p->pool || p->address.len == p->pool->subnet.len);
		for (size_t k = 0; k < i; k++)
			must(!ip_eq(&p->address.ip, &d->picks[k].address.ip));
	}
}

/*
 * Applies the changes of the decision and repeats the requests: they must get the same addresses.
 */
static void check_again(struct scene *s, const struct decision *first)
{
	struct decision d = {0};
	struct err e = ERR_INIT;

	for (size_t i = 0; i < first->n_changes; i++)
		lease_put(&s->leases, &first->changes[i]);
	if (select_addresses(&s->facts, s->requests, REQUESTS, &d, &e) < 0)
		fuzz_fail(e.text, 0, "the repeated request is refused");
	must(d.n_picks == first->n_picks);
	for (size_t i = 0; i < d.n_picks; i++)
		must(d.picks[i].was_there &&
		     ip_eq(&d.picks[i].address.ip, &first->picks[i].address.ip));
	decision_done(&d);
}

static void choose(struct scene *s)
{
	struct decision d = {0};
	struct err e = ERR_INIT;

	s->facts = (struct select_facts){
		.pools = &s->set, .leases = &s->leases, .node = "node1", .now_ms = NOW};
	if (fuzz_refused(select_addresses(&s->facts, s->requests, REQUESTS, &d, &e), &e))
		return;
	check_picks(s, &d);
	check_again(s, &d);
	decision_done(&d);
}

static void check_wildcard(const struct scene *s)
{
	for (size_t i = 0; i < s->n_names; i++) {
		int r = wildcard_match(s->names[i], "rail0");

		must(r == 0 || r == 1 || r == -EINVAL);
		if (!strpbrk(s->names[i], "*?[\\"))
			must(r == (strcmp(s->names[i], "rail0") == 0));
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct feed f = {data, size};
	struct span kind = feed_line(&f), names = feed_line(&f), letters = feed_line(&f);
	bool json = span_has_prefix(kind, "json");
	struct scene s = {0};
	struct err e = ERR_INIT;

	log_threshold = LOG_NONE;
	files_put(json ? "/pools/a.json" : "/pools/a.conf", feed_rest(&f));
	make_requests(&s, names, kind.n > 3 ? kind.p[kind.n - 1] : 0);
	check_wildcard(&s);
	if (!fuzz_refused(pool_set_load(fuzz_root(), "/pools", &s.set, &e), &e)) {
		check_set(&s.set);
		put_leases(&s, letters);
		choose(&s);
	}
	pool_set_done(&s.set);
	lease_table_done(&s.leases);
	free(s.text);
	files_clear();
	return 0;
}
