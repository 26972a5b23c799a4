/* SPDX-License-Identifier: Apache-2.0 */
/* The cost of many small objects together. To test more code that reads many objects, add a
 * function and an entry of crowds[]. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "controller/subnet/plan.h"
#include "growth.h"
#include "ipam/hostlocal/hostlocal.h"

enum { TEXT_BYTES = 4 << 20, NAME_MAX_BYTES = 16 };

/* --- pools of one subnet --- */

/* n pools of four addresses each, and a requested number of addresses for each pool. */
struct pools {
	struct subnet_facts f;
	struct subnet_entries entries;
	struct subnet_pool *pools;
	struct subnet_want *wants;
	struct subnet_leftover *leftovers;
	char (*names)[NAME_MAX_BYTES];
	struct ip_set used;
	size_t n;
};

static const struct ip_set *used(void *arg, const char *pool)
{
	(void)pool;
	return &((struct pools *)arg)->used;
}

static bool leftovers(void *arg, const struct subnet_leftover **ret, size_t *n)
{
	const struct pools *p = arg;

	*ret = p->leftovers;
	*n = p->leftovers ? p->n : 0;
	return true;
}

static bool yes(void *arg, const struct subnet_entry *x)
{
	(void)arg, (void)x;
	return true;
}

static void failed(void *arg, const struct subnet_want *w, const struct err *reason)
{
	(void)arg, (void)w, (void)reason;
}

static struct ip_range range_of(size_t i, size_t first, size_t last)
{
	const u128 base = (u128)10 << 24;

	return (struct ip_range){ip_from_num(4, base + 8 * i + first),
				 ip_from_num(4, base + 8 * i + last)};
}

static void pools_init(struct pools *p, size_t n, uint64_t count)
{
	*p = (struct pools){.n = n};
	p->pools = xcalloc(n, sizeof(*p->pools));
	p->wants = xcalloc(n, sizeof(*p->wants));
	p->names = xcalloc(n, sizeof(*p->names));
	for (size_t i = 0; i < n; i++) {
		snprintf(p->names[i], NAME_MAX_BYTES, "p%06zu", i);
		p->pools[i] = (struct subnet_pool){.name = p->names[i], .app = "a"};
		ip_set_collect(&p->pools[i].ips,
			       &(struct ip_range){range_of(i, 0, 3).first, range_of(i, 0, 3).last});
		p->wants[i] = (struct subnet_want){p->names[n - i - 1], "a", count};
	}
	p->f = (struct subnet_facts){.pools = p->pools,
				     .wants = p->wants,
				     .used = used,
				     .leftovers = leftovers,
				     .may_release = yes,
				     .is_deleted = yes,
				     .failed = failed,
				     .arg = p};
	ip_set_collect(&p->f.total,
		       &(struct ip_range){range_of(0, 0, 0).first, range_of(2 * n, 0, 0).first});
}

/*
 * Sets the pools that the subnet's status lists: with the prefix "p" the existing pools, with
 * another prefix as many pools that do not exist. held: each pool also has two addresses in
 * pendingRelease.
 */
static void pools_record(struct pools *p, const char *prefix, bool held)
{
	auto_buf struct buf b;

	buf_init(&b, TEXT_BYTES);
	for (size_t i = 0; i < p->n; i++) {
		struct ip_range r = range_of(i, 0, 3);
		char first[IP_TEXT_MAX], last[IP_TEXT_MAX];

		buf_printf(&b, "%s\"%s%06zu\":{\"ips\":[\"%s-%s\"],\"application\":\"a\"",
			   i ? "," : "{", prefix, i, ip_str(&r.first, first),
			   ip_str(&r.last, last));
		r = range_of(i, 5, 6);
		if (held)
			buf_printf(&b, ",\"pendingRelease\":[\"%s-%s\"]", ip_str(&r.first, first),
				   ip_str(&r.last, last));
		buf_str(&b, "}");
	}
	buf_str(&b, "}");
	if (subnet_entries_read(b.p, 4, &p->entries, NULL) < 0)
		abort();
}

static void pools_leftover(struct pools *p)
{
	p->leftovers = xcalloc(p->n, sizeof(*p->leftovers));
	for (size_t i = 0; i < p->n; i++)
		p->leftovers[i] = (struct subnet_leftover){range_of(i, 7, 7).first, p->names[i]};
}

static uint64_t pools_plan(struct pools *p)
{
	uint64_t before = count_work;
	auto_buf struct buf b;

	buf_init(&b, TEXT_BYTES);
	subnet_plan(&p->f, &p->entries);
	subnet_entries_write(&p->entries, &b);
	before = count_work - before;
	for (size_t i = 0; i < p->n; i++)
		ip_set_done(&p->pools[i].ips);
	subnet_entries_done(&p->entries);
	ip_set_done(&p->f.total);
	ip_set_done(&p->used);
	free(p->pools);
	free(p->wants);
	free(p->leftovers);
	free(p->names);
	return before;
}

static uint64_t pools_wanted(size_t n)
{
	struct pools p;

	pools_init(&p, n, 4);
	p.f.n_wants = n;
	pools_leftover(&p);
	return pools_plan(&p);
}

static uint64_t pools_too_large(size_t n)
{
	struct pools p;

	pools_init(&p, n, 1 << 20);
	p.f.n_wants = n;
	return pools_plan(&p);
}

static uint64_t pools_grow(size_t n)
{
	struct pools p;

	pools_init(&p, n, 6);
	p.f.n_pools = p.f.n_wants = n;
	pools_record(&p, "p", false);
	pools_leftover(&p);
	return pools_plan(&p);
}

static uint64_t pools_shrink(size_t n)
{
	struct pools p;

	pools_init(&p, n, 2);
	p.f.n_pools = p.f.n_wants = n;
	pools_record(&p, "p", true);
	return pools_plan(&p);
}

/* The status was lost, and each pool has two addresses that the next pool has too. */
static uint64_t pools_of_no_status(size_t n)
{
	struct pools p;

	pools_init(&p, n, 4);
	p.f.n_pools = p.f.n_wants = n;
	for (size_t i = 0; i < n; i++)
		p.pools[i].ips.v[0].last = range_of(i + 1, 0, 1).last;
	return pools_plan(&p);
}

static uint64_t pools_deleted(size_t n)
{
	struct pools p;

	pools_init(&p, n, 4);
	pools_record(&p, "q", true);
	return pools_plan(&p);
}

/* --- ranges of host-local --- */

static struct hostlocal_set ranges(size_t n)
{
	struct hostlocal_set s = {.v = xcalloc(n, sizeof(*s.v)), .n = n};

	for (size_t i = 0; i < n; i++)
		s.v[i] = (struct hostlocal_range){
			.subnet = {ip_from_num(4, (u128)10 << 24), 8},
			.first = range_of(n - i, 2, 2).first,
			.last = range_of(n - i, 5, 5).first,
			.gateway = ip_from_num(4, ((u128)10 << 24) + 1),
		};
	if (hostlocal_set_check(&s, NULL) < 0)
		abort();
	return s;
}

/* Returns the cost of n lookups in a set of n ranges, as CHECK and ADD of host-local make them.
 * Range i has the addresses 2 to 5 of the i-th block of 8 addresses; lookup i is for address
 * `at` of that block. */
static uint64_t ranges_found(size_t n, size_t at)
{
	struct hostlocal_set s = ranges(n);
	uint64_t before = count_work;

	for (size_t i = 0; i < n; i++) {
		const struct ipaddr a = range_of(i + 1, at, at).first;

		if (!hostlocal_set_find(&s, &a) != (at < 2 || at > 5))
			abort();
	}
	before = count_work - before;
	hostlocal_set_done(&s);
	free(s.v);
	return before;
}

static uint64_t ranges_of_records(size_t n)
{
	return ranges_found(n, 3);
}

static uint64_t ranges_wanted(size_t n)
{
	return ranges_found(n, 7);
}

const struct crowd crowds[] = {
	{"pools of a subnet, requested", pools_wanted},
	{"pools of a subnet, too large", pools_too_large},
	{"pools of a subnet, growing", pools_grow},
	{"pools of a subnet, shrinking", pools_shrink},
	{"pools of a subnet whose status was lost", pools_of_no_status},
	{"pools of a subnet, deleted", pools_deleted},
	{"addresses of an interface, requested again", growth_api_asked_again},
	{"addresses of an interface, checked", growth_api_check},
	{"interfaces of a container, checked", growth_api_check_interfaces},
	{"addresses of an interface, all in conflict", growth_api_conflicts},
	{"one address in conflict, reported often", growth_api_one_conflict},
	{"leases and valid containers, all of them valid", growth_api_gc_none},
	{"leases and valid containers, none of them valid", growth_api_gc_all},
	{"pools of a node, listed", growth_api_pools},
	{"pools of a node, listed as JSON", growth_api_pools_json},
	{"pools of a node, checked", growth_api_pools_check},
	{"pools by default", growth_api_default_pools},
	{"pools by name", growth_api_named_pools},
	{"pools by a wildcard", growth_api_wildcard},
	{"pools of files", growth_api_pool_files},
	{"calls that wait for pools", growth_api_waiting},
	{"reservations of requested addresses", growth_api_reserved},
	{"pools of one subnet, built", growth_pools_apart},
	{"pools of separate subnets, built", growth_pools_of_subnets},
	{"pools that contain each other, built", growth_pools_one_in_another},
	{"pools whose subnets are in another's, built", growth_pools_in_one_subnet},
	{"pools and reserved addresses, built", growth_pools_and_reserved},
	{"addresses of a NIC with stale neighbours on the node", growth_plan_addresses},
	{"default routes of a NIC", growth_plan_default_routes},
	{"addresses, routes, rules and neighbours of a NIC, checked", growth_check},
	{"blocks of pools, usable addresses of each", growth_blocks_mine},
	{"entries of a block, reported again", growth_blocks_entries},
	{"released and requested addresses, looked up", growth_blocks_busy},
	{"pods and leases of a node whose block log was lost", growth_blocks_adopted_pods},
	{"pools with more addresses, and calls that wait for others", growth_api_pools_changed},
	{"containers whose pods have other names", growth_agent_gc},
	{"names with retained addresses", growth_agent_retained},
	{"addresses released for nodes", growth_agent_exported},
	{"links of a pod, and default routes of its NIC", growth_plan_links},
	{"addresses of the node, one for each of the pod", growth_plan_host_addresses},
	{"records of host-local in ranges", ranges_of_records},
	{"addresses requested in ranges", ranges_wanted},
};
const size_t n_crowds = ARRAY_LEN(crowds);
