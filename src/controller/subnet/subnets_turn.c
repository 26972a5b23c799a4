/* SPDX-License-Identifier: Apache-2.0 */
/* What a look at all subnets finds by halving, sorted once: pools, wishes, reserved addresses, addresses of pods. */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "controller/gc/census.h"
#include "controller/subnet/subnets_priv.h"

/* --- reserved addresses --- */

static void add_reserved(struct subnets_turn *t, const char *text)
{
	uint8_t family = strchr(text, ':') ? 6 : 4;
	struct ip_range r;

	if (ip_range_parse(span_of(text), family, &r, NULL) == 0)
		ip_set_collect(&t->reserved[family == 6], &r);
}

static void gather_reserved(struct subnets_turn *t)
{
	struct world *w = t->s->conf.world;

	t->reserved[0].family = 4;
	t->reserved[1].family = 6;
	for (size_t i = 0; i < world_count(w, WORLD_RESERVED); i++) {
		const struct json *o = world_json(world_at(w, WORLD_RESERVED, i));
		struct json_walk walk = json_walk_start(json_get(json_get(o, "spec"), "ips"));
		const struct json *v;

		while ((v = json_walk_next(&walk, NULL)))
			if (json_string(v))
				add_reserved(t, json_string(v));
	}
	ip_set_merge(&t->reserved[0]);
	ip_set_merge(&t->reserved[1]);
}

/* --- pools --- */

static int pool_by_cidr(const void *a, const void *b)
{
	const struct subnets_turn_pool *x = a, *y = b;
	int r = strcmp(x->cidr, y->cidr);

	return r ? r : strcmp(x->o->name, y->o->name);
}

static void gather_pools(struct subnets_turn *t)
{
	struct world *w = t->s->conf.world;
	char text[IP_TEXT_MAX];

	t->n_pools = world_count(w, WORLD_POOLS);
	t->pools = xcalloc(t->n_pools + 1, sizeof(*t->pools));
	for (size_t i = 0; i < t->n_pools; i++) {
		const struct kube_object *o = world_at(w, WORLD_POOLS, i);

		t->pools[i].o = o;
		t->pools[i].cidr = xstrdup(subnets_cidr(json_get(world_json(o), "spec"), text));
	}
	qsort(t->pools, t->n_pools, sizeof(t->pools[0]), pool_by_cidr);
}

const struct subnets_turn_pool *subnets_turn_pools(const struct subnets_turn *t, const char *cidr,
						   size_t *n)
{
	size_t low = 0, high = t->n_pools, end;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (strcmp(t->pools[mid].cidr, cidr) < 0)
			low = mid + 1;
		else
			high = mid;
	}
	for (end = low; end < t->n_pools && strcmp(t->pools[end].cidr, cidr) == 0; end++)
		;
	*n = end - low;
	return t->pools + low;
}

/* --- wishes of applications --- */

/* As they come, where a subnet and a family are the same. */
static int wish_by_subnet(const void *a, const void *b)
{
	const struct subnets_turn_wish *x = a, *y = b;
	int r = strcmp(x->subnet, y->subnet);

	if (r == 0)
		r = x->family - y->family;
	return r ? r : x->order < y->order ? -1 : x->order > y->order;
}

static void add_wish(struct subnets_turn *t, const struct subnets_app *a,
		     const struct auto_nic *nic, uint8_t family)
{
	const char *subnet = family == 6 ? nic->subnet6 : nic->subnet4;
	size_t order = t->n_wishes;

	if (subnet)
		VEC_PUSH(t->wishes, t->n_wishes) =
			(struct subnets_turn_wish){subnet, family, order, a, nic};
}

static void gather_wishes(struct subnets_turn *t)
{
	for (size_t kind = 0; kind < SUBNETS_APP_KINDS; kind++)
		for (size_t i = 0; i < subnets_app_count(t->s, kind); i++) {
			const struct subnets_app *a = subnets_app_at(t->s, kind, i);

			for (size_t n = 0; n < a->wish.n; n++) {
				add_wish(t, a, &a->wish.v[n], 4);
				add_wish(t, a, &a->wish.v[n], 6);
			}
		}
	if (t->n_wishes)
		qsort(t->wishes, t->n_wishes, sizeof(t->wishes[0]), wish_by_subnet);
}

static bool is_wish(const struct subnets_turn_wish *x, const char *subnet, uint8_t family)
{
	return x->family == family && strcmp(x->subnet, subnet) == 0;
}

const struct subnets_turn_wish *subnets_turn_wishes(const struct subnets_turn *t,
						    const char *subnet, uint8_t family, size_t *n)
{
	const struct subnets_turn_wish want = {.subnet = subnet, .family = family};
	size_t low = 0, high = t->n_wishes, end;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (wish_by_subnet(&t->wishes[mid], &want) < 0)
			low = mid + 1;
		else
			high = mid;
	}
	for (end = low; end < t->n_wishes && is_wish(&t->wishes[end], subnet, family); end++)
		;
	*n = end - low;
	return t->wishes + low;
}

/* --- what pods have --- */

static int stray_by_ip(const void *a, const void *b)
{
	return ip_cmp(&((const struct subnet_stray *)a)->ip, &((const struct subnet_stray *)b)->ip);
}

static void gather_ips(struct subnets_turn *t)
{
	const struct census *c = t->s->conf.census;

	for (size_t i = 0; i < census_count(c, CENSUS_ENDPOINTS); i++) {
		const struct census_endpoint *x =
			census_endpoint(census_at(c, CENSUS_ENDPOINTS, i));

		for (size_t n = 0; n < x->n; n++)
			VEC_PUSH(t->ips, t->n_ips) =
				(struct subnet_stray){x->v[n].ip, x->v[n].pool};
	}
	if (t->n_ips)
		qsort(t->ips, t->n_ips, sizeof(t->ips[0]), stray_by_ip);
	t->ips_are_known = true;
}

static size_t first_ip(const struct subnets_turn *t, const struct ipaddr *from)
{
	size_t low = 0, high = t->n_ips;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (ip_cmp(&t->ips[mid].ip, from) < 0)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

void subnets_turn_ips(struct subnets_turn *t, const struct ip_set *of, struct subnet_stray **ret,
		      size_t *n)
{
	*ret = NULL;
	*n = 0;
	if (!t->ips_are_known)
		gather_ips(t);
	for (size_t i = 0; i < of->n; i++)
		for (size_t k = first_ip(t, &of->v[i].first);
		     k < t->n_ips && ip_cmp(&t->ips[k].ip, &of->v[i].last) <= 0; k++)
			VEC_PUSH(*ret, *n) = t->ips[k];
}

/* --- all --- */

void subnets_turn_init(struct subnets_turn *t, struct subnets *s)
{
	*t = (struct subnets_turn){.s = s};
	gather_reserved(t);
	gather_pools(t);
	gather_wishes(t);
}

void subnets_turn_done(struct subnets_turn *t)
{
	for (size_t i = 0; i < t->n_pools; i++)
		free(t->pools[i].cidr);
	free(t->pools);
	free(t->wishes);
	free(t->ips);
	ip_set_done(&t->reserved[0]);
	ip_set_done(&t->reserved[1]);
}
