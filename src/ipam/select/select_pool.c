/* SPDX-License-Identifier: Apache-2.0 */
#include "ipam/select/select_pool.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/glob.h"
#include "base/log.h"

/* This file selects the pools of a request: names, wildcards, filters, order. */

/* WILDCARDS_MAX limits the wildcards in one list of pools, because each is matched against all
 * pools. */
enum { REASON_MAX = 500, WILDCARDS_MAX = 64, PRIORITIES = 64 };

struct listing {
	const struct select_facts *f;
	struct pool_list *l;
	bool *is_in; /* for each pool of the set: whether the list contains it */
};

static void add_once(struct listing *x, const struct pool *p)
{
	bool *is_in = &x->is_in[p - x->f->pools->v];

	if (!*is_in)
		VEC_PUSH(x->l->v, x->l->n) = p;
	*is_in = true;
}

static int by_name(const void *a, const void *b)
{
	const char *x = (*(const struct pool *const *)a)->name;
	const char *y = (*(const struct pool *const *)b)->name;
	int r = strverscmp(x, y); /* rail2 before rail10 */

	return r ? r : strcmp(x, y);
}

static int add_matches(struct listing *x, const char *pattern, uint8_t family, struct err *e)
{
	const struct select_facts *f = x->f;
	auto_free const struct pool **found = xcalloc(f->pools->n + 1, sizeof(*found));
	size_t n = 0;

	for (size_t i = 0; i < f->pools->n; i++) {
		const struct pool *p = &f->pools->v[i];
		int r = wildcard_match(pattern, p->name);

		if (r < 0)
			return err_kind(
				e, ERR_CONF, r,
				"failed to match wildcard: IPv%u PoolName pattern '%s': syntax "
				"error in pattern",
				family, pattern);
		if (r == 1 && p->family == family)
			found[n++] = p;
	}
	if (n == 0)
		log_limited(LOG_WARN, 1, "wildcard matches no pool", LOG_S("pattern", pattern),
			    LOG_I("ip_version", family));
	else
		qsort(found, n, sizeof(*found), by_name);
	for (size_t i = 0; i < n; i++)
		add_once(x, found[i]);
	return 0;
}

static int no_such_pool(const struct select_facts *f, const char *name, struct err *e)
{
	const char *near = pool_suggest(f->pools, name), *cause = pool_reason_out(f->pools, name);

	if (cause)
		return err_kind(e, ERR_CONF, -EINVAL, "pool '%s' is invalid: %s", name, cause);
	if (near)
		return err_kind(e, ERR_CONF, -ENOENT, "no pool '%s'; did you mean '%s'?", name,
				near);
	return err_kind(e, ERR_CONF, -ENOENT, "no pool '%s' among %zu: see 'unirail pool list'",
			name, f->pools->n);
}

static bool any_wildcard(const char *const *names, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (wildcard_is(names[i]))
			return true;
	return false;
}

static int named(struct listing *x, const char *const *names, size_t n, uint8_t family,
		 struct err *e)
{
	bool expand = any_wildcard(names, n);
	size_t n_wildcards = 0;
	int r = 0;

	for (size_t i = 0; i < n && r == 0; i++) {
		const struct pool *p = pool_find(x->f->pools, names[i]);

		if (p)
			add_once(x, p);
		else if (!expand || !wildcard_is(names[i]))
			r = no_such_pool(x->f, names[i], e);
		else if (++n_wildcards > WILDCARDS_MAX)
			r = err_kind(e, ERR_CONF, -E2BIG,
				     "more than %d wildcards in a list of pools: name the pools",
				     WILDCARDS_MAX);
		else
			r = add_matches(x, names[i], family, e);
	}
	return r;
}

static void defaults(struct listing *x, uint8_t family)
{
	const struct pool_set *s = x->f->pools;

	for (size_t i = 0; i < s->n; i++)
		if (s->v[i].is_default && s->v[i].family == family)
			add_once(x, &s->v[i]);
}

static bool has_name(char *const *names, size_t n, const char *name)
{
	for (size_t i = 0; i < n; i++)
		if (name && strcmp(names[i], name) == 0)
			return true;
	return n == 0;
}

static bool holds_any(const struct pool *p, const struct ipnet *nets, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (nets[i].ip.family == p->family && ipnet_contains(&p->subnet, &nets[i].ip))
			return true;
	return false;
}

static void describe_master(const struct ip_request *a, const struct pool *p, struct buf *cause)
{
	char text[IP_TEXT_MAX];

	buf_printf(cause, "the ippool's subnet \"%s\" of %s not found on master \"%s\", which has ",
		   ipnet_str(&p->subnet, text), p->name, a->master ? a->master : "");
	for (size_t i = 0; i < a->n_nets; i++)
		buf_printf(cause, "%s%s", i ? " " : "", ipnet_str(&a->nets[i], text));
	if (a->n_nets == 0)
		buf_str(cause, "no address");
}

static void describe_networks(const struct ip_request *a, const struct pool *p, struct buf *cause)
{
	const char *network = a->place ? a->place->network : NULL;

	buf_printf(cause, "the spec.multusName ");
	select_describe_names((const char *const *)p->networks, p->n_networks, cause);
	buf_printf(cause, " in the IPPool %s used by the Pod interface %s is not matched with ",
		   p->name, a->owner.ifname);
	if (network)
		buf_printf(cause, "the multusCR %s specified by the Pod", network);
	else
		buf_str(cause, "the network of the interface, which is not known");
}

static void describe_affinity(const struct selector *s, bool known, const char *what,
			      const struct pool *p, struct buf *cause)
{
	auto_buf struct buf message;

	buf_init(&message, 200);
	selector_str(s, &message);
	buf_printf(cause, "unmatched %s affinity of IPPool %s (%s%s)", what, p->name,
		   message.len ? message.p : "", known ? "" : ": the labels are not known");
}

/* Matches a selector against labels; if l is NULL, the labels are unknown, and a selector that
 * is given does not match. Writes the reason if the selector does not match. */
static bool agrees(const struct selector *s, const struct labels *l, const char *what,
		   const struct pool *p, struct buf *cause)
{
	if (!s->given || (l && selector_matches(s, l)))
		return true;
	describe_affinity(s, l != NULL, what, p, cause);
	return false;
}

/* If nodeName is set, nodeAffinity is ignored: names take precedence over labels. */
static bool of_node(const struct select_facts *f, const struct ip_request *a, const struct pool *p,
		    struct buf *cause)
{
	if (p->n_nodes == 0)
		return agrees(&p->node_affinity, a->place ? a->place->node_labels : NULL, "Node", p,
			      cause);
	if (has_name(p->nodes, p->n_nodes, f->node))
		return true;
	buf_printf(cause, "unmatched Node name of IPPool %s (this node is '%s')", p->name,
		   f->node ? f->node : "");
	return false;
}

static bool of_namespace(const struct ip_request *a, const struct pool *p, struct buf *cause)
{
	if (p->n_namespaces == 0)
		return agrees(&p->namespace_affinity, a->place ? a->place->ns_labels : NULL,
			      "Namespace", p, cause);
	if (has_name(p->namespaces, p->n_namespaces, a->owner.pod_namespace))
		return true;
	buf_printf(cause, "unmatched Namespace name of IPPool %s", p->name);
	return false;
}

/* Accepts a pool whose multusName lists the request's network, even if the master has no address
 * in the pool's subnet. */
static bool of_network(const struct ip_request *a, const struct pool *p, struct buf *cause)
{
	const char *network = a->place ? a->place->network : NULL;

	if (p->n_networks > 0) {
		if (network && has_name(p->networks, p->n_networks, network))
			return true;
		describe_networks(a, p, cause);
		return false;
	}
	if (!a->match_subnet || holds_any(p, a->nets, a->n_nets))
		return true;
	describe_master(a, p, cause);
	return false;
}

/* Spiderpool's filters, in its order and with its messages. */
static bool passes(const struct select_facts *f, const struct ip_request *a, uint8_t family,
		   const struct pool *p, struct buf *cause)
{
	if (cause->len > 0)
		buf_str(cause, ", ");
	if (p->terminating)
		buf_printf(cause, "terminating IPPool %s", p->name);
	else if (p->disabled)
		buf_printf(cause, "disabled IPPool %s", p->name);
	else if (p->family != family)
		buf_printf(cause,
			   "expect an IPv%u IPPool, but the version of the IPPool %s is IPv%u",
			   family, p->name, p->family);
	else
		return of_node(f, a, p, cause) && of_namespace(a, p, cause) &&
		       agrees(&p->pod_affinity, a->pod ? &a->pod->labels : NULL, "Pod", p, cause) &&
		       of_network(a, p, cause);
	return false;
}

static int filter(const struct select_facts *f, const struct ip_request *a, uint8_t family,
		  struct pool_list *l, struct err *e)
{
	auto_buf struct buf cause, names;
	size_t retained = 0;

	buf_init(&cause, REASON_MAX);
	buf_init(&names, REASON_MAX);
	select_describe_pools(l, &names);
	for (size_t i = 0; i < l->n; i++) {
		size_t before = cause.len;

		if (!passes(f, a, family, l->v[i], &cause))
			continue;
		if (cause.len > before)
			cause.p[cause.len = before] = '\0';
		l->v[retained++] = l->v[i];
	}
	l->n = retained;
	if (retained == 0)
		return err_kind(
			e, ERR_CONF, -ENOENT,
			"no IPPool available, all IPv%u IPPools %s of %s filtered out: [%s%s]",
			family, names.p, a->owner.ifname, cause.p, cause.over ? "..." : "");
	return 0;
}

/* The priority depends only on the kinds of bindings of a pool, not on how specific they are. */
static int priority(const struct pool *p)
{
	return p->pod_affinity.given << 5 | (p->n_nodes > 0) << 4 | p->node_affinity.given << 3 |
	       (p->n_namespaces > 0) << 2 | p->namespace_affinity.given << 1 | (p->n_networks > 0);
}

/* Sorts the list by priority, highest first; pools of equal priority keep their order. */
static void order(struct pool_list *l)
{
	const struct pool **v = xcalloc(l->n + 1, sizeof(const struct pool *));
	size_t end[PRIORITIES + 1] = {0};

	for (size_t i = 0; i < l->n; i++)
		end[PRIORITIES - priority(l->v[i])]++;
	for (int p = 1; p <= PRIORITIES; p++)
		end[p] += end[p - 1];
	for (size_t i = l->n; i-- > 0;)
		v[--end[PRIORITIES - priority(l->v[i])]] = l->v[i];
	free(l->v);
	l->v = v;
}

int select_pools(const struct select_facts *f, const struct ip_request *a, uint8_t family,
		 struct pool_list *ret, struct err *e)
{
	const char *const *names = family == 4 ? a->pools4 : a->pools6;
	size_t n = family == 4 ? a->n_pools4 : a->n_pools6;
	auto_free bool *is_in = NULL;
	struct pool_list l = {0};
	struct listing x = {f, &l, NULL};
	int r = 0;

	if (family == 4 ? a->no4 : a->no6) {
		*ret = l;
		return 0;
	}
	x.is_in = is_in = xcalloc(f->pools->n + 1, sizeof(*is_in));
	if (a->n_pools4 + a->n_pools6 == 0)
		defaults(&x, family);
	else
		r = named(&x, names, n, family, e);
	if (r < 0)
		err_wrap(e, r, "choose pools for '%s'", a->owner.ifname);
	if (r == 0 && l.n > 0)
		r = filter(f, a, family, &l, e);
	if (r < 0) {
		free(l.v);
		return r;
	}
	order(&l);
	*ret = l;
	return 0;
}

/* --- writes the error message for an exhausted pool --- */

struct tally {
	uint64_t used, adopted, retained, quarantined, cooldown;
};

void select_describe_names(const char *const *names, size_t n, struct buf *b)
{
	buf_char(b, '[');
	for (size_t i = 0; i < n; i++)
		buf_printf(b, "%s%s", i ? " " : "", names[i]);
	buf_char(b, ']');
}

void select_describe_pools(const struct pool_list *l, struct buf *b)
{
	buf_char(b, '[');
	for (size_t i = 0; i < l->n; i++)
		buf_printf(b, "%s%s", i ? " " : "", l->v[i]->name);
	buf_char(b, ']');
}

static uint64_t *count_of(struct tally *t, const struct select_facts *f, const struct pool *p,
			  const struct lease *l)
{
	switch (l->state) {
	case LEASE_USED: return &t->used;
	case LEASE_ADOPTED: return &t->adopted;
	case LEASE_RETAINED: return &t->retained;
	case LEASE_QUARANTINED:
		return lease_lasts(l, f->now_ms, f->pools->quarantine_ms) ? &t->quarantined : NULL;
	case LEASE_FREE:
		return lease_lasts(l, f->now_ms, pool_reuse_delay_ms(f->pools, p)) ? &t->cooldown
										   : NULL;
	}
	return NULL;
}

/* Adds the owner of the nth used address (the first has nth 1), but only if nth is at most
 * `owners`. */
static void add_owner(const struct lease *l, uint64_t nth, size_t owners, struct buf *b)
{
	char text[IP_TEXT_MAX];

	if (nth > owners)
		return;
	buf_str(b, nth == 1 ? "" : ", ");
	lease_owner_str(l, b);
	buf_printf(b, " %s", ip_str(&l->address.ip, text));
}

static void add_part(struct buf *b, uint64_t n, const char *what)
{
	if (n > 0)
		buf_printf(b, ", %" PRIu64 " %s", n, what);
}

void select_describe_full(const struct select_facts *f, const struct pool *p, size_t owners,
			  struct buf *b)
{
	uint64_t total = (uint64_t)ip_set_count(&p->ips);
	uint64_t usable = (uint64_t)ip_set_count(&p->usable), open, adopted;
	struct tally t = {0};
	auto_buf struct buf owner;

	buf_init(&owner, 400);
	for (size_t i = 0; i < f->leases->n; i++) {
		const struct lease *l = &f->leases->v[i];
		uint64_t *count;

		if (l->address.ip.family != p->family || !ip_set_has(&p->ips, &l->address.ip))
			continue;
		count = count_of(&t, f, p, l);
		if (!count)
			continue;
		++*count;
		if (count == &t.used)
			add_owner(l, t.used, owners, &owner);
	}
	buf_printf(b, "pool '%s' has %" PRIu64 " addresses: %" PRIu64 " in use", p->name, total,
		   t.used);
	if (t.used > 0 && owners > 0)
		buf_printf(b, " (%s%s)", owner.p, t.used > owners ? ", ..." : "");
	add_part(b, t.adopted, "in use by host-local");
	add_part(b, t.retained, "retained for sticky pods");
	add_part(b, t.quarantined, "in quarantine after a conflict");
	add_part(b, t.cooldown, "in cooldown after a release");
	if (!p->shared) {
		add_part(b, total - usable, "reserved");
		return;
	}
	/* Addresses that peers own are reported by agent/blocks. */
	open = (uint64_t)ip_set_count(&p->open);
	adopted = (uint64_t)ip_set_count(&p->adopted);
	add_part(b, adopted, "allocated before unirail");
	add_part(b, total - open - adopted, "reserved");
	buf_printf(b, ", %" PRIu64 " are in blocks of this node", usable);
}
