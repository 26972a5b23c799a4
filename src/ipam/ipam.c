/* SPDX-License-Identifier: Apache-2.0 */
#include "ipam/ipam.h"
#include "ipam/pools.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/paths.h"
#include "base/sorted.h"
#include "ipam/store.h"

/* Allocation: select_addresses() decides from the state of the store, and a commit to the journal
 * makes the decision durable. */

static void add_route(struct ip_allocation *g, const struct ipnet *dst, const struct ipaddr *gw)
{
	VEC_PUSH(g->routes, g->n_routes) = (struct pool_route){*dst, *gw};
}

static void fill_from_pool(struct ip_allocation *g, bool clean_gateway)
{
	const struct pool *p = g->pool;
	struct ipnet everywhere;

	if (!p)
		return;
	g->gateway = p->gateway;
	for (size_t i = 0; i < p->n_routes; i++)
		add_route(g, &p->routes[i].dst, &p->routes[i].gw);
	if (!p->gateway.family || clean_gateway)
		return;
	everywhere = (struct ipnet){ip_from_num(p->family, 0), 0};
	add_route(g, &everywhere, &p->gateway);
}

static struct ip_allocation *allocations_of(const struct decision *d,
					    const struct ip_request *requests)
{
	struct ip_allocation *v = xcalloc(d->n_picks + 1, sizeof(*v));

	for (size_t i = 0; i < d->n_picks; i++) {
		const struct select_pick *p = &d->picks[i];

		v[i] = (struct ip_allocation){
			.request = p->request,
			.address = p->address,
			.pool = p->pool,
			.ifname = requests[p->request].owner.ifname,
			.was_there = p->was_there,
		};
		fill_from_pool(&v[i], requests[p->request].clean_gateway);
	}
	return v;
}

static int no_pools(const struct ipam *i, struct err *e)
{
	if (i->pools.of_cluster)
		return err_kind(e, ERR_CONF, -ENOENT,
				"no valid SpiderIPPool: create one, such as spec {subnet: "
				"172.16.1.0/24, ips: [172.16.1.10-172.16.1.99], default: true}%s%s",
				i->pools.n_out ? "; an invalid pool: " : "",
				i->pools.n_out ? i->pools.out[0].cause : "");
	return err_kind(
		e, ERR_CONF, -ENOENT,
		"no pool in '%s': put a file there, such as rails.conf with '[pool rail0]', "
		"'subnet = 172.16.1.0/24' and 'default = yes'",
		i->pool_dir);
}

static int decide(struct ipam *i, const struct ip_request *requests, size_t n, struct decision *ret,
		  struct err *e)
{
	struct select_facts facts;
	int r = ipam_load_pools(i, e);

	if (r == 0 && i->pools.n == 0)
		r = no_pools(i, e);
	if (r == 0)
		r = store_adopt(i, e);
	if (r < 0)
		return r;
	facts = store_facts(i);
	return select_addresses(&facts, requests, n, ret, e);
}

int ipam_try(struct ipam *i, const struct ip_request *requests, size_t n, struct err *e)
{
	struct decision d = {0};
	int r = decide(i, requests, n, &d, e);

	decision_done(&d);
	return r;
}

int ipam_allocate(struct ipam *i, const struct ip_request *requests, size_t n,
		  struct ip_allocation **ret, size_t *n_ret, struct err *e)
{
	struct decision d;
	int r = decide(i, requests, n, &d, e);

	if (r < 0)
		return r;
	r = store_commit(i, d.changes, d.n_changes, e);
	if (r == 0) {
		*ret = allocations_of(&d, requests);
		*n_ret = d.n_picks;
	}
	decision_done(&d);
	return r;
}

void ip_allocations_free(struct ip_allocation *g, size_t n)
{
	for (size_t i = 0; i < n; i++)
		free(g[i].routes);
	free(g);
}

int ipam_held(struct ipam *i, const char *container_id, const char *ifname,
	      struct ip_allocation **ret, size_t *n_ret, struct err *e)
{
	struct ip_allocation *v = NULL;
	size_t n = 0;

	(void)e;
	/* The pools only provide gateway and routes, so a failure to read them is ignored. */
	ipam_load_pools(i, NULL);
	for (size_t k = 0; k < i->j.leases.n; k++) {
		const struct lease *l = &i->j.leases.v[k];
		struct ip_allocation *g;

		if (l->state != LEASE_USED || !lease_is(l, container_id, ifname))
			continue;
		g = &VEC_PUSH(v, n);
		g->address = l->address;
		g->ifname = l->ifname;
		g->was_there = true;
		g->pool = pool_of(&i->pools, &l->address.ip);
		fill_from_pool(g, false);
	}
	*ret = v;
	*n_ret = n;
	return 0;
}

/* --- Release, which works without the pools: they may be deleted before the DEL --- */

struct changes {
	struct lease *v;
	size_t n;
};

static void changes_done(struct changes *c)
{
	free(c->v);
}
#define auto_changes __attribute__((cleanup(changes_done)))

/* Releases a lease: a sticky address is retained for its pod's name, any other enters its reuse
 * delay. */
static void give_back(const struct ipam *i, const struct lease *l, struct changes *c)
{
	struct lease n = LEASE_INIT;

	n.address = l->address;
	n.at_ms = i->now_ms();
	n.state = l->sticky ? LEASE_RETAINED : LEASE_FREE;
	if (l->sticky) {
		n.sticky = true;
		n.pod_namespace = l->pod_namespace;
		n.pod_name = l->pod_name;
		n.ifname = l->ifname;
		n.pool = l->pool;
	}
	VEC_PUSH(c->v, c->n) = n;
}

/* Index of owners, which makes it fast to compare thousands of them with thousands of leases. */
struct owners {
	const struct ipam *i;
	struct ipam_valid *v; /* sorted by container, then interface (NULL first) */
	size_t n;
};

static int by_owner(const void *a, const void *b)
{
	const struct ipam_valid *x = a, *y = b;
	int r = strcmp(x->container_id, y->container_id);

	if (r != 0 || !x->ifname || !y->ifname)
		return r ? r : (x->ifname != NULL) - (y->ifname != NULL);
	return strcmp(x->ifname, y->ifname);
}

static struct owners owners_of(const struct ipam *i, const struct ipam_valid *v, size_t n)
{
	struct owners o = {i, xcalloc(n + 1, sizeof(*v)), n};

	if (n == 0)
		return o;
	memcpy(o.v, v, n * sizeof(*v));
	qsort(o.v, n, sizeof(*v), by_owner);
	return o;
}

static void owners_done(struct owners *o)
{
	free(o->v);
}
#define auto_owners __attribute__((cleanup(owners_done)))

/* Returns the first owner of the container whose interface is not sorted before ifname, or NULL. */
static const struct ipam_valid *owner_from(const struct owners *o, const char *container_id,
					   const char *ifname)
{
	const struct ipam_valid key = {container_id, ifname};
	size_t low = LOWER_BOUND(i, o->n, by_owner(&o->v[i], &key) < 0);

	return low < o->n && strcmp(o->v[low].container_id, container_id) == 0 ? &o->v[low] : NULL;
}

/* Returns whether an owner matches container and interface. A file of an early release of
 * host-local names no interface: it matches if any owner of its container names an interface. */
static bool named_owner(const struct owners *o, const char *container_id, const char *ifname)
{
	const struct ipam_valid *v = owner_from(o, container_id, ifname);

	return v && (!*ifname || strcmp(v->ifname, ifname) == 0);
}

/* Returns whether an owner stands for all interfaces of the container. */
static bool whole_owner(const struct owners *o, const char *container_id)
{
	const struct ipam_valid *v = owner_from(o, container_id, NULL);

	return v && !v->ifname;
}

static bool any_owner(const struct owners *o, const char *container_id, const char *ifname)
{
	return named_owner(o, container_id, ifname) || whole_owner(o, container_id);
}

/*
 * Returns whether a file of host-local belongs to one of the owners. For an owner that
 * names no interface only files with an address of this node's pools count: a file with another
 * address may belong to another network.
 */
static bool adopted_by_owner(const void *arg, const char *network, const struct ipaddr *a,
			     const char *container_id, const char *ifname)
{
	const struct owners *o = arg;

	(void)network;
	return named_owner(o, container_id, ifname) ||
	       (whole_owner(o, container_id) && pool_of(&o->i->pools, a));
}

static bool whole_container(const struct owners *o)
{
	for (size_t k = 0; k < o->n; k++)
		if (!o->v[k].ifname)
			return true;
	return false;
}

int ipam_release_many(struct ipam *i, const struct ipam_valid *v, size_t n, struct err *e)
{
	auto_owners struct owners o = owners_of(i, v, n);
	auto_changes struct changes c = {0};
	int r, adopted = 0;

	for (size_t k = 0; k < i->j.leases.n; k++) {
		const struct lease *l = &i->j.leases.v[k];

		if (l->state == LEASE_USED && any_owner(&o, l->container_id, l->ifname))
			give_back(i, l, &c);
	}
	r = store_commit(i, c.v, c.n, e);
	if (r < 0)
		return r;
	/* host-local's directory is read only if an owner may have addresses outside the journal. */
	if (whole_container(&o))
		ipam_load_pools(i, NULL);
	if (c.n < n || whole_container(&o))
		adopted = adopt_remove(i, adopted_by_owner, &o, e);
	return adopted < 0 ? adopted : (int)c.n + adopted;
}

int ipam_release(struct ipam *i, const char *container_id, const char *ifname, struct err *e)
{
	struct ipam_valid v = {container_id, ifname};

	return ipam_release_many(i, &v, 1, e);
}

static bool is_retained_as(const struct lease *l, const struct ipam_owner *owner)
{
	return l->state == LEASE_RETAINED && strcmp(l->pod_namespace, owner->pod_namespace) == 0 &&
	       strcmp(l->pod_name, owner->pod_name) == 0 && strcmp(l->ifname, owner->ifname) == 0;
}

int ipam_keep(struct ipam *i, const struct ipnet *a, const struct ipam_owner *owner,
	      const char *pool, struct err *e)
{
	const struct lease *l = lease_find(&i->j.leases, &a->ip);
	struct lease n = LEASE_INIT;
	char text[IP_TEXT_MAX];

	if (l && is_retained_as(l, owner))
		return 0;
	if (l && l->state != LEASE_FREE)
		return err_kind(e, ERR_AGAIN, -EADDRINUSE,
				"cannot retain %s for '%s/%s': it is in use, in quarantine or "
				"retained for another pod or interface",
				ip_str(&a->ip, text), owner->pod_namespace, owner->pod_name);
	n.address = *a;
	n.state = LEASE_RETAINED;
	n.sticky = true;
	n.at_ms = i->now_ms();
	n.pod_namespace = owner->pod_namespace;
	n.pod_name = owner->pod_name;
	n.ifname = owner->ifname;
	n.pool = pool;
	return store_commit(i, &n, 1, e);
}

int ipam_quarantine_many(struct ipam *i, const struct ipam_conflict *v, size_t n, struct err *e)
{
	auto_free char(*texts)[MAC_TEXT_MAX] = xcalloc(n + 1, sizeof(*texts));
	auto_changes struct changes c = {0};

	for (size_t k = 0; k < n; k++) {
		const struct lease *l = lease_find(&i->j.leases, &v[k].address);
		struct lease x = LEASE_INIT;

		x.address = l ? l->address : ipnet_host(&v[k].address);
		x.state = LEASE_QUARANTINED;
		x.at_ms = i->now_ms();
		if (v[k].other.len)
			x.other = mac_str(&v[k].other, texts[k]);
		VEC_PUSH(c.v, c.n) = x;
	}
	return store_commit(i, c.v, c.n, e);
}

int ipam_quarantine(struct ipam *i, const struct ipaddr *a, const struct mac *other, struct err *e)
{
	struct ipam_conflict c = {.address = *a};

	if (other)
		c.other = *other;
	return ipam_quarantine_many(i, &c, 1, e);
}

struct gc {
	const struct ipam *i;
	const char *network;
	const struct owners *valid;
};

static bool adopted_and_deleted(const void *arg, const char *network, const struct ipaddr *a,
				const char *container_id, const char *ifname)
{
	const struct gc *g = arg;

	/* A file without an id (empty after a crash of host-local) may belong to any container. */
	return *container_id && strcmp(network, g->network) == 0 && pool_of(&g->i->pools, a) &&
	       !any_owner(g->valid, container_id, ifname);
}

int ipam_gc(struct ipam *i, const char *network, const struct ipam_valid *v, size_t n,
	    struct err *e)
{
	auto_owners struct owners valid = owners_of(i, v, n);
	struct gc g = {i, network, &valid};
	auto_changes struct changes c = {0};
	int r, adopted;

	for (size_t k = 0; k < i->j.leases.n; k++) {
		const struct lease *l = &i->j.leases.v[k];

		if (l->state == LEASE_USED && strcmp(l->network, network) == 0 &&
		    !any_owner(&valid, l->container_id, l->ifname))
			give_back(i, l, &c);
	}
	r = store_commit(i, c.v, c.n, e);
	if (r < 0)
		return r;
	ipam_load_pools(i, NULL);
	adopted = adopt_remove(i, adopted_and_deleted, &g, e);
	return adopted < 0 ? adopted : (int)c.n + adopted;
}

static bool adopted_address(const void *arg, const char *network, const struct ipaddr *a,
			    const char *container_id, const char *ifname)
{
	(void)network;
	(void)container_id;
	(void)ifname;
	return ip_eq(arg, a);
}

/* A manual release: no reuse delay, no retention. */
int ipam_release_ip(struct ipam *i, const struct ipaddr *a, struct err *e)
{
	const struct lease *l = lease_find(&i->j.leases, a);
	struct lease n = LEASE_INIT;
	char text[IP_TEXT_MAX];
	int adopted;

	if (!l || l->state == LEASE_ADOPTED || l->state == LEASE_FREE) {
		/* host-local's addresses outside of this node's pools are not released here. */
		ipam_load_pools(i, NULL);
		adopted = pool_of(&i->pools, a) ? adopt_remove(i, adopted_address, a, e) : 0;
		if (adopted != 0)
			return adopted < 0 ? adopted : 0;
		return err_set(e, -ENOENT, "%s has no owner on this node", ip_str(a, text));
	}
	n.address = l->address;
	n.state = LEASE_FREE;
	return store_commit(i, &n, 1, e);
}

/* --- records addresses that pods have, but that this journal lacks --- */

struct lease store_lease_of(const struct ipam *i, const struct ipam_known *k)
{
	struct lease l = LEASE_INIT;

	l.address = k->address;
	l.state = LEASE_USED;
	l.at_ms = i->now_ms();
	l.container_id = k->owner.container_id;
	l.ifname = k->owner.ifname;
	l.pod_namespace = str_or_empty(k->owner.pod_namespace);
	l.pod_name = str_or_empty(k->owner.pod_name);
	l.pod_uid = str_or_empty(k->owner.pod_uid);
	l.netns = str_or_empty(k->owner.netns);
	l.network = str_or_empty(k->owner.network);
	l.pool = str_or_empty(k->pool);
	return l;
}

int ipam_know(struct ipam *i, const struct ipam_known *v, size_t n, struct err *e)
{
	auto_free struct lease *new = xcalloc(n + 1, sizeof(*new));
	size_t count = 0;
	int r;

	for (size_t k = 0; k < n; k++) {
		const struct lease *l = lease_find(&i->j.leases, &v[k].address.ip);

		if (l && l->state != LEASE_FREE)
			continue;
		if (count && ip_eq(&new[count - 1].address.ip, &v[k].address.ip))
			continue;
		new[count++] = store_lease_of(i, &v[k]);
	}
	r = store_commit(i, new, count, e);
	return r < 0 ? r : (int)count;
}

/* --- lists the owner of each address, and the free addresses --- */

/* Returns the name of the state, or NULL if the address is free. For a reuse delay or a
 * quarantine, sets *until to the time at which it ends. */
static const char *state_word(const struct select_facts *f, const struct lease *l,
			      const struct pool *p, int64_t *until)
{
	int64_t delay = p ? pool_reuse_delay_ms(f->pools, p) : 0;

	switch (l->state) {
	case LEASE_USED: return "used";
	case LEASE_RETAINED: return "sticky";
	case LEASE_ADOPTED: return "adopted";
	case LEASE_FREE:
		*until = l->at_ms + delay;
		return lease_lasts(l, f->now_ms, delay) ? "cooldown" : NULL;
	case LEASE_QUARANTINED:
		*until = l->at_ms + f->pools->quarantine_ms;
		return lease_lasts(l, f->now_ms, f->pools->quarantine_ms) ? "quarantined" : NULL;
	}
	return NULL;
}

static int by_address(const void *a, const void *b)
{
	return ip_cmp(&((const struct ipam_record *)a)->ip, &((const struct ipam_record *)b)->ip);
}

int ipam_records(struct ipam *i, struct ipam_record **ret, size_t *n_ret, struct err *e)
{
	struct ipam_record *v = NULL;
	struct select_facts f;
	size_t n = 0;
	int r = ipam_load_pools(i, e);

	if (r == 0)
		r = store_adopt(i, e);
	if (r < 0)
		return r;
	f = store_facts(i);
	for (size_t k = 0; k < i->j.leases.n; k++) {
		const struct lease *l = &i->j.leases.v[k];
		const struct pool *p = pool_of(&i->pools, &l->address.ip);
		int64_t until = 0;
		const char *state = state_word(&f, l, p, &until);

		if (!state)
			continue;
		VEC_PUSH(v, n) = (struct ipam_record){
			l->address.ip, p ? p->name : "", state,	      l->container_id,
			l->ifname,     l->pod_namespace, l->pod_name, l->pod_uid,
			l->network,    l->other,	 l->at_ms,    until,
		};
	}
	if (n > 0)
		qsort(v, n, sizeof(*v), by_address);
	*ret = v;
	*n_ret = n;
	return 0;
}

int ipam_free_list(struct ipam *i, const struct pool *p, size_t max, struct ipaddr **ret,
		   size_t *n_ret, struct err *e)
{
	struct ipaddr *v = NULL, a;
	struct select_facts f;
	size_t n = 0;
	int r = store_adopt(i, e);
	bool more;

	if (r < 0)
		return r;
	f = store_facts(i);
	more = ip_set_next(&p->usable, NULL, &a);
	while (more && n < max) {
		if (select_state(&f, p, &a) == SEL_FREE)
			VEC_PUSH(v, n) = a;
		more = ip_add(&a, 1, &a) && ip_set_next(&p->usable, &a, &a);
	}
	*ret = v;
	*n_ret = n;
	return 0;
}

/* --- `unirail pool check`: finds inconsistencies, one line per finding --- */

static void subject(const struct lease *l, struct buf *b)
{
	char text[IP_TEXT_MAX];

	buf_printf(b, "%s (", ip_str(&l->address.ip, text));
	lease_owner_str(l, b);
	buf_str(b, ") ");
}

static bool is_reserved(const struct pool *p, const struct ipaddr *a)
{
	if (!p->shared)
		return !ip_set_has(&p->usable, a);
	return !ip_set_has(&p->open, a) && !ip_set_has(&p->adopted, a);
}

static bool is_away(const struct pool *p, const struct ipaddr *a)
{
	return p->shared && !ip_set_has(&p->usable, a) && !ip_set_has(&p->adopted_here, a);
}

static int check_pool(const struct ipam *i, const struct lease *l, struct buf *b)
{
	const struct pool *p = pool_of(&i->pools, &l->address.ip);

	if (i->pools_r < 0)
		return 0;
	if (!p) {
		subject(l, b);
		buf_printf(b,
			   "is no longer in a pool, it was allocated from '%s': it stays with its "
			   "owner\n",
			   l->pool);
		return 1;
	}
	if (is_reserved(p, &l->address.ip)) {
		subject(l, b);
		buf_str(b, "is reserved now: it stays with its owner\n");
		return 1;
	}
	if (is_away(p, &l->address.ip)) {
		subject(l, b);
		buf_printf(
			b,
			"is in no block of this node: another node may allocate the address; if this "
			"persists, delete the pod\n");
		return 1;
	}
	return 0;
}

static int check_owner(const struct ipam *i, const struct lease *l, struct buf *b)
{
	char text[IP_TEXT_MAX];

	ip_str(&l->address.ip, text);
	if (!*l->container_id) {
		buf_printf(b,
			   "%s is reserved since the repair of the journal: release it with "
			   "'unirail pool release %s' when no running pod has it\n",
			   text, text);
		return 1;
	}
	if (*l->netns == '/' && !file_exists(i->root, l->netns)) {
		subject(l, b);
		buf_printf(b,
			   "is allocated, but its network namespace '%s' does not exist: if its "
			   "pod was deleted, run 'unirail pool release %s'\n",
			   l->netns, text);
		return 1;
	}
	return 0;
}

static int check_lease(const struct ipam *i, const struct lease *l, struct buf *b)
{
	if (l->state == LEASE_USED)
		return check_pool(i, l, b) + check_owner(i, l, b);
	return l->state == LEASE_RETAINED ? check_pool(i, l, b) : 0;
}

static int check_pools(struct ipam *i, struct buf *b)
{
	struct err e = ERR_INIT;

	if (ipam_load_pools(i, &e) < 0) {
		buf_printf(b, "%s\n", e.text);
		return 1;
	}
	if (i->pools.n == 0) {
		buf_printf(b, "no pool in '%s'\n", i->pool_dir);
		return 1;
	}
	return 0;
}

static int check_tail(const struct ipam *i, struct buf *b)
{
	if (i->j.size <= i->j.end)
		return 0;
	buf_printf(b,
		   "journal '%s' ends in %" PRId64 " incomplete bytes after a crash: they were "
		   "never acknowledged, and the next write removes "
		   "them\n",
		   i->j.path, i->j.size - i->j.end);
	return 1;
}

int ipam_check(struct ipam *i, struct buf *b, struct err *e)
{
	int n = check_pools(i, b) + check_tail(i, b), both;

	for (size_t k = 0; k < i->j.leases.n; k++)
		n += check_lease(i, &i->j.leases.v[k], b);
	both = adopt_conflicts(i, b, e);
	return both < 0 ? both : n + both;
}

int ipam_pools_read(struct ipam_pools *p, const struct root *r, const char *dir, struct err *e)
{
	struct ipam_pools n = {0};

	n.r = pool_set_load(r, dir ? dir : PATH_POOLS, &n.set, &n.cause);
	if (n.r < 0 && e)
		*e = n.cause;
	/* After a failure, the pools that an earlier call read stay in use. */
	if (n.r < 0 && p->r == 0 && p->set.n > 0)
		return n.r;
	ipam_pools_done(p);
	*p = n;
	return n.r;
}

void ipam_pools_done(struct ipam_pools *p)
{
	if (p->r == 0)
		pool_set_done(&p->set);
	*p = (struct ipam_pools){0};
}

void ipam_attach_pools(struct ipam *i, struct ipam_pools *p)
{
	i->pools_tried = true;
	i->pools_r = p->r;
	i->pools_err = p->cause;
	if (p->r == 0)
		i->pools = p->set;
}

void ipam_detach_pools(struct ipam *i, struct ipam_pools *p)
{
	if (p->r == 0)
		p->set = i->pools;
	i->pools = (struct pool_set){0};
}

bool ipam_holds_sticky(const struct ipam *i, const char *container_id)
{
	for (size_t k = 0; k < i->j.leases.n; k++) {
		const struct lease *l = &i->j.leases.v[k];

		if (l->state == LEASE_USED && l->sticky && lease_is(l, container_id, NULL))
			return true;
	}
	return false;
}

const struct lease_table *ipam_leases(const struct ipam *i)
{
	return &i->j.leases;
}

const char *ipam_node(const struct ipam *i)
{
	return i->node;
}
