/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/paths.h"
#include "ipam/store.h"
#include "ipam/whereabouts/whereabouts.h"

/* whereabouts' ranges, "10.0.0.0/24" or "10.0.0.5-10.0.0.9/24", and their excluded addresses. */

#define bad(e, ...) err_kind(e, ERR_CONF, -EINVAL, __VA_ARGS__)

enum { SLOPPY_MAX = 128 }; /* bytes; longer than any address with a few leading zeros */

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* Returns the index of the dotted part of an address; s.n: it has none. */
static size_t dotted_at(struct span s)
{
	size_t at = 0;

	if (s.n == 0 || !memchr(s.p, '.', s.n))
		return s.n;
	for (size_t i = 0; i < s.n; i++)
		if (s.p[i] == ':')
			at = i + 1;
	return at;
}

/* Removes leading zeros of octets, not of hexadecimal groups. */
static int without_zeros(struct span s, char ret[static SLOPPY_MAX], struct span *out)
{
	size_t dotted = dotted_at(s), n = 0;
	bool begins = true; /* the next character begins an octet */

	for (size_t i = 0; i < s.n; i++) {
		if (i >= dotted && begins && s.p[i] == '0' && i + 1 < s.n && is_digit(s.p[i + 1]))
			continue;
		if (n == SLOPPY_MAX)
			return -EINVAL;
		begins = i < dotted || s.p[i] == '.';
		ret[n++] = s.p[i];
	}
	*out = (struct span){ret, n};
	return 0;
}

int whereabouts_ip_parse(struct span s, struct ipaddr *ret)
{
	char text[SLOPPY_MAX];
	struct span clean;

	return without_zeros(s, text, &clean) < 0 ? -EINVAL : ip_parse(clean, ret);
}

int whereabouts_net_parse(struct span s, struct ipnet *ret)
{
	char text[SLOPPY_MAX];
	struct span clean;

	return without_zeros(s, text, &clean) < 0 ? -EINVAL : ipnet_parse(clean, ret);
}

static int outside(const char *which, const struct whereabouts_range *r, const struct ipaddr *a,
		   struct err *e)
{
	char net[IP_TEXT_MAX], ip[IP_TEXT_MAX];

	return bad(e, "invalid range %s for CIDR %s: %s", which, ipnet_str(&r->net, net),
		   ip_str(a, ip));
}

static void warn_outside(const char *which, const char *text, const struct whereabouts_range *r)
{
	char key[sizeof("range_start")], net[IP_TEXT_MAX];

	snprintf(key, sizeof(key), "range_%s", which);
	log_warn("address is outside the range and is ignored", LOG_S("key", key),
		 LOG_S("address", text), LOG_S("range", ipnet_str(&r->net, net)));
}

/* Parses "FIRST-LAST/LEN", or a plain CIDR, which leaves r->first and r->last at family 0. */
static int parse_range(const char *text, struct whereabouts_range *r, struct err *e)
{
	struct span rest = span_of(text), first;
	struct ipnet net;

	span_cut(&rest, '-', &first);
	if (!rest.p) {
		if (whereabouts_net_parse(first, &net) < 0)
			return bad(e, "invalid CIDR %s: invalid CIDR address: %s", text, text);
		r->net = ipnet_network(&net);
		return 0;
	}
	if (whereabouts_ip_parse(first, &r->first) < 0)
		return bad(e, "invalid range start IP: %.*s", (int)first.n, first.p);
	if (whereabouts_net_parse(rest, &net) < 0)
		return bad(e,
			   "invalid CIDR (do you have the 'range' parameter set for Whereabouts?) "
			   "'%s': invalid CIDR address: %s",
			   rest.p, rest.p);
	r->net = ipnet_network(&net);
	r->last = net.ip;
	return ipnet_contains(&r->net, &r->first) ? 0 : outside("start", r, &r->first, e);
}

/*
 * Parses range_start or range_end, but ignores the key if `range` already has this bound
 * ("FIRST-LAST/LEN"). A bound outside the network is ignored with a warning, as in the original:
 * existing clusters have such configurations.
 */
static int parse_bound(const char *which, const char *text, const struct whereabouts_range *r,
		       struct ipaddr *ret, struct err *e)
{
	struct ipaddr a;

	if (ret->family || !str_if_set(text))
		return 0;
	if (whereabouts_ip_parse(span_of(text), &a) < 0)
		return bad(e, "range_%s is \"%s\", expected an IP address", which, text);
	if (!ipnet_contains(&r->net, &a)) {
		warn_outside(which, text, r);
		return 0;
	}
	*ret = a;
	return 0;
}

/* Limits the range to the network's usable addresses; a range without bounds has all of them. */
static int clamp(struct whereabouts_range *r, struct err *e)
{
	struct ipaddr low = ipnet_first(&r->net), high = ipnet_last(&r->net), odd = {0};
	char a[IP_TEXT_MAX], net[IP_TEXT_MAX];

	low = ip_from_num(low.family, ip_num(&low) + 1);
	high = ip_from_num(high.family, ip_num(&high) - 1);
	if (r->first.family && ip_cmp(&r->first, &high) > 0)
		odd = r->first;
	if (r->last.family && ip_cmp(&r->last, &low) < 0)
		odd = r->last;
	if (odd.family)
		return bad(e,
			   "range in %s has no usable address: no address can be allocated %s %s",
			   ipnet_str(&r->net, net), ip_cmp(&odd, &low) < 0 ? "up to" : "from",
			   ip_str(&odd, a));
	if (!r->first.family || ip_cmp(&r->first, &low) < 0)
		r->first = low;
	if (!r->last.family || ip_cmp(&r->last, &high) > 0)
		r->last = high;
	return 0;
}

static int set_bounds(struct whereabouts_range *r, struct err *e)
{
	char a[IP_TEXT_MAX], b[IP_TEXT_MAX];

	if (r->net.len > ip_bits(&r->net.ip) - 2)
		return bad(e,
			   "net mask is too short, subnet %s has no usable IP addresses, it is too "
			   "small",
			   ipnet_str(&r->net, a));
	if (r->first.family && r->last.family && ip_cmp(&r->first, &r->last) > 0)
		return bad(e, "range start %s is after range end %s", ip_str(&r->first, a),
			   ip_str(&r->last, b));
	return clamp(r, e);
}

/* Parses an excluded network or address. */
static int exclude(const struct whereabouts_range *r, const char *text, struct ip_set *out,
		   struct err *e)
{
	struct span s = span_of(text);
	struct ipnet net;

	if (whereabouts_net_parse(s, &net) < 0) {
		if (whereabouts_ip_parse(s, &net.ip) < 0)
			return bad(
				e,
				ORIG("could not parse exclude range, err: \"invalid CIDR address: %s\""),
				text);
		net = ipnet_host(&net.ip);
	}
	if (net.ip.family == r->net.ip.family)
		ip_set_collect(out, &(struct ip_range){ipnet_first(&net), ipnet_last(&net)});
	return 0;
}

static int make(const struct whereabouts_text *t, struct whereabouts_range *r, struct err *e)
{
	struct ip_set out = {0};
	int n = parse_range(str_if_set(t->range) ? t->range : "", r, e);

	if (n == 0)
		n = parse_bound("start", t->start, r, &r->first, e);
	if (n == 0)
		n = parse_bound("end", t->end, r, &r->last, e);
	if (n == 0)
		n = set_bounds(r, e);
	if (n < 0)
		return n;
	ip_set_add(&r->usable, &(struct ip_range){r->first, r->last});
	for (size_t i = 0; i < t->n_exclude && n == 0; i++) {
		n = exclude(r, t->exclude[i], &out, e);
		if (n < 0)
			err_wrap(e, n, "exclude[%zu]", i);
	}
	ip_set_merge(&out);
	ip_set_minus(&r->usable, &out);
	ip_set_done(&out);
	return n;
}

int whereabouts_range_make(const struct whereabouts_text *t, const char *place,
			   struct whereabouts_range *ret, struct err *e)
{
	struct whereabouts_range r = {.exclude = t->exclude, .n_exclude = t->n_exclude};
	int n = make(t, &r, e);

	if (n < 0) {
		whereabouts_range_done(&r);
		return err_wrap(e, n, "%s", place);
	}
	*ret = r;
	return 0;
}

void whereabouts_range_done(struct whereabouts_range *r)
{
	ip_set_done(&r->usable);
}

/* --- lookup and release of existing allocations --- */

static bool within(const struct whereabouts_range *r, const struct ipaddr *ip)
{
	return ip_cmp(ip, &r->first) >= 0 && ip_cmp(ip, &r->last) <= 0;
}

/*
 * Returns whether an address allocated in the pool of a range belongs to that range: it is within
 * the range, or (after a change of the configuration) within no range of the request in the same
 * network.
 */
static bool whereabouts_counts_for(const struct whereabouts_request *a, size_t range,
				   const struct ipaddr *ip)
{
	const struct whereabouts_range *r = &a->ranges[range];

	if (within(r, ip))
		return true;
	for (size_t i = 0; i < a->n_ranges; i++)
		if (ipnet_eq(&a->ranges[i].net, &r->net) && within(&a->ranges[i], ip))
			return false;
	return true;
}

/* Returns the allocation that belongs to this range and was not reported for an earlier range. */
static struct ipnet of_range(const struct whereabouts_request *a, size_t range,
			     const struct ip_allocation *g, size_t n, const struct ipnet *before)
{
	for (size_t i = 0; i < n; i++) {
		const struct ipaddr *ip = &g[i].address.ip;
		bool counted = !whereabouts_counts_for(a, range, ip);

		for (size_t k = 0; k < range && !counted; k++)
			counted = ip_eq(&before[k].ip, ip);
		if (!counted)
			return g[i].address;
	}
	return (struct ipnet){0};
}

/* "10.0.0.0-24", "10.0.0.0-24@blue" */
static char *whereabouts_pool_name(const struct ipnet *net, const char *network_name)
{
	char text[IP_TEXT_MAX];

	ipnet_str(net, text);
	*strchr(text, '/') = '-';
	return *network_name ? xasprintf("%s@%s", text, network_name) : xstrdup(text);
}

/* Returns the index of an open pool; w->n: the pool is not open. */
static size_t whereabouts_find(const struct whereabouts *w, const struct ipnet *net,
			       const char *network_name)
{
	auto_free char *name = whereabouts_pool_name(net, network_name);
	size_t i = 0;

	while (i < w->n && strcmp(w->v[i].name, name) != 0)
		i++;
	return i;
}

int whereabouts_held(struct whereabouts *w, const struct whereabouts_request *a, struct ipnet *ret,
		     struct err *e)
{
	int r = 0;

	for (size_t i = 0; i < a->n_ranges && r == 0; i++) {
		size_t n = 0, pool = whereabouts_find(w, &a->ranges[i].net, a->network_name);
		struct ip_allocation *g = NULL;

		ret[i] = (struct ipnet){0};
		if (pool == w->n)
			continue;
		r = ipam_held(w->v[pool].store, a->owner.container_id, a->owner.ifname, &g, &n, e);
		if (r == 0)
			ret[i] = of_range(a, i, g, n, ret);
		ip_allocations_free(g, n);
	}
	return r;
}

/* Adds the result r of one pool to the total. A failed pool does not stop the others; the first
 * error is returned. */
static int sum(int total, int r, const struct err *cause, struct err *e)
{
	if (total < 0 || r >= 0)
		return total < 0 ? total : total + r;
	if (e)
		*e = *cause;
	return r;
}

int whereabouts_release(struct whereabouts *w, const char *container_id, const char *ifname,
			struct err *e)
{
	int total = 0;

	for (size_t i = 0; i < w->n; i++) {
		struct err cause = ERR_INIT;
		int r = ipam_release(w->v[i].store, container_id, ifname, &cause);

		total = sum(total, r, &cause, e);
	}
	return total;
}

int whereabouts_collect(struct whereabouts *w, const char *network, const struct ipam_valid *v,
			size_t n, struct err *e)
{
	int total = 0;

	for (size_t i = 0; i < w->n; i++) {
		struct err cause = ERR_INIT;
		int r = ipam_gc(w->v[i].store, network, v, n, &cause);

		total = sum(total, r, &cause, e);
	}
	return total;
}

/* The directories of whereabouts' pools: each is a store of the engine, all under one lock. */

enum { LOCK_MS = 30 * 1000, NAME_BYTES = 512 };

/* Returns whether this is the name of a pool's directory; *network_name points into it. */
static bool is_pool(const char *name, const char **network_name)
{
	const char *at = strchrnul(name, '@');
	struct span s = {name, (size_t)(at - name)};
	const char *dash = s.n ? memrchr(s.p, '-', s.n) : NULL;
	char text[NAME_BYTES];
	struct ipnet net;

	if (!dash || s.n >= sizeof(text))
		return false;
	memcpy(text, s.p, s.n);
	text[dash - s.p] = '/';
	*network_name = *at ? at + 1 : at;
	return ipnet_parse((struct span){text, s.n}, &net) == 0;
}

static bool whereabouts_pool_is_of(const struct whereabouts_pool *p, const char *network_name)
{
	const char *own;

	return is_pool(p->name, &own) && strcmp(own, network_name) == 0;
}

/* Adds to the error the --state-dir with which `unirail pool` can repair a damaged journal. */
static int fail_pool(const char *dir, int code, struct err *e)
{
	if (code == -EBADMSG)
		return err_wrap(e, code, "address store of whereabouts (--state-dir %s)", dir);
	return err_wrap(e, code, "address store of whereabouts");
}

/* pool_dir and hostlocal_dir are a path that does not exist: the store needs neither directory. */
static int open_pool(struct whereabouts *w, const char *name, struct err *e)
{
	auto_free char *dir = xasprintf("%s/%s", w->dir, name);
	auto_free char *none = xasprintf("%s/none", dir);
	const struct ipam_paths paths = {
		.pool_dir = none, .state_dir = dir, .hostlocal_dir = none, .node = "none"};
	struct ipam *store;
	int r = ipam_open(&store, w->root, &paths, e);

	if (r < 0)
		return fail_pool(dir, r, e);
	VEC_PUSH(w->v, w->n) = (struct whereabouts_pool){xstrdup(name), store};
	return 0;
}

static int open_lock(struct whereabouts *w, const struct root *r, const char *state_dir,
		     bool create, struct err *e)
{
	auto_free char *lock = NULL;
	struct stat st;
	int n;

	if (!state_dir || !*state_dir)
		state_dir = PATH_IPAM_STATE;
	*w = (struct whereabouts){.root = r, .lock = -1};
	w->dir = xasprintf("%s/whereabouts", state_dir);
	lock = xasprintf("%s/lock", w->dir);
	n = create ? dir_make(r, w->dir, 0700, e) : file_lstat(r, w->dir, &st, e);
	if (n == -ENOENT && !create) {
		err_clear(e);
		return n;
	}
	if (n == 0)
		n = lock_take(r, lock, LOCK_MS, &w->lock, e);
	if (n < 0) {
		err_default_kind(e, ERR_IO);
		return err_wrap(e, n, "address store of whereabouts");
	}
	return 0;
}

/* Opens the pools of network_name; NULL: of all networks. A pool of must_name that cannot be opened
 * is an error, one of another network is only logged. */
static int open_there(struct whereabouts *w, const char *network_name, const char *must_name,
		      struct err *e)
{
	char **names = NULL;
	const char *own;
	size_t n = 0;
	int r = dir_list(w->root, w->dir, &names, &n, e);

	for (size_t i = 0; i < n && r == 0; i++) {
		struct err cause = ERR_INIT;

		if (!is_pool(names[i], &own) || (network_name && strcmp(own, network_name) != 0))
			continue;
		r = open_pool(w, names[i], &cause);
		if (r < 0 && strcmp(own, must_name) != 0) {
			log_warn("cannot read the addresses of another network, ignoring them",
				 LOG_S("error", cause.text));
			r = 0;
		} else if (r < 0 && e) {
			*e = cause;
		}
	}
	str_list_free(names, n);
	return r;
}

static int open_ranges(struct whereabouts *w, const struct whereabouts_request *a, struct err *e)
{
	int r = 0;

	for (size_t i = 0; i < a->n_ranges && r == 0; i++) {
		auto_free char *name = whereabouts_pool_name(&a->ranges[i].net, a->network_name);

		if (whereabouts_find(w, &a->ranges[i].net, a->network_name) == w->n)
			r = open_pool(w, name, e);
	}
	return r;
}

int whereabouts_open(struct whereabouts *w, const struct root *r, const char *state_dir,
		     const struct whereabouts_request *a, struct err *e)
{
	struct whereabouts n = WHEREABOUTS_INIT;
	int ret = open_lock(&n, r, state_dir, true, e);

	if (ret == 0 && a->overlapping)
		ret = open_there(&n, a->network_name, a->network_name, e);
	if (ret == 0)
		ret = open_ranges(&n, a, e);
	if (ret < 0) {
		whereabouts_close(&n);
		return ret;
	}
	*w = n;
	return 0;
}

int whereabouts_open_all(struct whereabouts *w, const struct root *r, const char *state_dir,
			 const char *network_name, struct err *e)
{
	struct whereabouts n = WHEREABOUTS_INIT;
	int ret = open_lock(&n, r, state_dir, false, e);

	if (ret == 0)
		ret = open_there(&n, NULL, network_name, e);
	if (ret < 0) {
		whereabouts_close(&n);
		if (ret != -ENOENT)
			return ret;
		err_clear(e);
	}
	*w = n;
	return 0;
}

void whereabouts_close(struct whereabouts *w)
{
	int saved = errno;

	for (size_t i = 0; i < w->n; i++) {
		ipam_close(w->v[i].store);
		free(w->v[i].name);
	}
	free(w->v);
	free(w->dir);
	cleanup_fd(&w->lock);
	*w = (struct whereabouts)WHEREABOUTS_INIT;
	errno = saved;
}

/* --- selects an address of each range and writes the allocations --- */

enum { OWNERS_SHOWN = 3 };

/* An address selected for one range. */
struct pick {
	size_t pool;
	struct ipnet address;
	struct lease old; /* the journal's lease of the address, if `known` */
	bool known, done;
};

struct choice {
	const struct whereabouts *w;
	const struct whereabouts_request *a;
	struct pick *v;
	size_t n;
};

static bool same(const char *a, const char *b)
{
	return strcmp(a, str_or_empty(b)) == 0;
}

static const struct lease_table *leases(const struct whereabouts *w, size_t pool)
{
	return &w->v[pool].store->j.leases;
}

/* Returns whether the lease belongs to the owner: same interface, and same container or same pod
 * name. The name is sufficient, because the pod's sandbox may have been recreated with another
 * container id. */
static bool is_his(const struct lease *l, const struct ipam_owner *owner)
{
	if (l->state != LEASE_USED || !same(l->ifname, owner->ifname))
		return false;
	if (same(l->container_id, owner->container_id))
		return true;
	return *l->pod_name && same(l->pod_name, owner->pod_name) &&
	       same(l->pod_namespace, owner->pod_namespace);
}

static bool is_picked(const struct choice *c, const struct ipaddr *a)
{
	for (size_t i = 0; i < c->n; i++)
		if (ip_eq(&c->v[i].address.ip, a))
			return true;
	return false;
}

static bool is_held(const struct whereabouts *w, size_t pool, const struct ipaddr *a)
{
	const struct lease *l = lease_find(leases(w, pool), a);

	return l && l->state != LEASE_FREE;
}

/* Returns whether another open pool of the network name has allocated the address; false if
 * enable_overlapping_ranges is false. */
static bool is_held_elsewhere(const struct choice *c, size_t pool, const struct ipaddr *a)
{
	for (size_t i = 0; c->a->overlapping && i < c->w->n; i++)
		if (i != pool && whereabouts_pool_is_of(&c->w->v[i], c->a->network_name) &&
		    is_held(c->w, i, a))
			return true;
	return false;
}

/* Returns the lease of the range that the container already has. again: returns instead a lease
 * of this or an earlier container of the pod, if the range still permits its address and no
 * other range has allocated it. */
static const struct lease *held(const struct choice *c, size_t range, size_t pool, bool again)
{
	const struct ip_set *usable = &c->a->ranges[range].usable;
	const struct lease_table *t = leases(c->w, pool);

	for (size_t i = 0; i < t->n; i++) {
		const struct lease *l = &t->v[i];
		const struct ipaddr *ip = &l->address.ip;

		if (!is_his(l, &c->a->owner) || is_picked(c, ip))
			continue;
		if (again ? ip_set_has(usable, ip) && !is_held_elsewhere(c, pool, ip)
			  : same(l->container_id, c->a->owner.container_id) &&
				    whereabouts_counts_for(c->a, range, ip))
			return l;
	}
	return NULL;
}

static bool lowest_free(const struct choice *c, const struct whereabouts_range *r, size_t pool,
			struct ipaddr *ret)
{
	struct ipaddr a;
	bool more = ip_set_next(&r->usable, NULL, &a);

	while (more) {
		if (!is_held(c->w, pool, &a) && !is_held_elsewhere(c, pool, &a) &&
		    !is_picked(c, &a)) {
			*ret = a;
			return true;
		}
		more = ip_add(&a, 1, &a) && ip_set_next(&r->usable, &a, &a);
	}
	return false;
}

/* Writes "254 in use: default/a net1 10.0.0.1, ...". */
static void describe_full(const struct choice *c, size_t pool, struct buf *b)
{
	const struct lease_table *t = leases(c->w, pool);
	auto_buf struct buf owner;
	char ip[IP_TEXT_MAX];
	size_t n = 0;

	buf_init(&owner, ERR_DETAILS_MAX);
	for (size_t i = 0; i < t->n; i++) {
		if (t->v[i].state == LEASE_FREE)
			continue;
		if (n++ >= OWNERS_SHOWN)
			continue;
		buf_str(&owner, n > 1 ? ", " : "");
		lease_owner_str(&t->v[i], &owner);
		buf_printf(&owner, " %s", ip_str(&t->v[i].address.ip, ip));
	}
	buf_printf(b, "%zu in use", n);
	if (n)
		buf_printf(b, ": %s%s", owner.p, n > OWNERS_SHOWN ? ", ..." : "");
}

static int full(const struct choice *c, const struct whereabouts_range *r, size_t pool,
		struct err *e)
{
	char first[IP_TEXT_MAX], last[IP_TEXT_MAX], net[IP_TEXT_MAX];
	auto_buf struct buf excludes, cause;

	buf_init(&excludes, ERR_TEXT_MAX);
	buf_init(&cause, ERR_DETAILS_MAX);
	buf_char(&excludes, '[');
	for (size_t i = 0; i < r->n_exclude; i++)
		buf_printf(&excludes, "%s%s", i ? " " : "", r->exclude[i]);
	buf_char(&excludes, ']');
	/* If the configuration leaves no address, a retry fails as well. */
	err_kind(e, r->usable.n ? ERR_AGAIN : ERR_CONF, -ENOSPC,
		 "Could not allocate IP in range: ip: %s / - %s / range: %s / excludeRanges: %s",
		 ip_str(&r->first, first), ip_str(&r->last, last), ipnet_str(&r->net, net),
		 excludes.p);
	describe_full(c, pool, &cause);
	err_details(e, "%s", cause.p);
	return -ENOSPC;
}

static int choose(struct choice *c, size_t range, struct err *e)
{
	const struct whereabouts_range *r = &c->a->ranges[range];
	size_t pool = whereabouts_find(c->w, &r->net, c->a->network_name);
	struct pick p = {.pool = pool, .address = r->net};
	const struct lease *l = held(c, range, pool, true);

	if (!l)
		l = held(c, range, pool, false);
	if (l)
		p.address.ip = l->address.ip;
	else if (!lowest_free(c, r, pool, &p.address.ip))
		return full(c, r, pool, e);
	l = lease_find(leases(c->w, pool), &p.address.ip);
	p.known = l != NULL;
	if (l)
		p.old = *l;
	c->v[c->n++] = p;
	return 0;
}

static int choose_all(struct choice *c, struct err *e)
{
	int r = 0;

	c->v = xcalloc(c->a->n_ranges + 1, sizeof(*c->v));
	for (size_t i = 0; i < c->a->n_ranges && r == 0; i++)
		r = choose(c, i, e);
	return r;
}

static struct lease allocated(const struct choice *c, const struct pick *p)
{
	const struct ipam_owner *owner = &c->a->owner;
	struct lease l = LEASE_INIT;

	l.address = p->address;
	l.at_ms = c->w->v[p->pool].store->now_ms();
	l.container_id = owner->container_id;
	l.ifname = owner->ifname;
	l.pod_namespace = str_or_empty(owner->pod_namespace);
	l.pod_name = str_or_empty(owner->pod_name);
	l.pod_uid = str_or_empty(owner->pod_uid);
	l.netns = str_or_empty(owner->netns);
	l.network = str_or_empty(owner->network);
	l.pool = c->w->v[p->pool].name;
	return l;
}

/* Returns whether the journal already has this allocation: the same ADD was repeated. */
static bool is_logged(const struct pick *p, const struct lease *l)
{
	const struct lease *o = &p->old;

	return p->known && o->state == LEASE_USED && o->address.len == l->address.len &&
	       same(o->container_id, l->container_id) && same(o->ifname, l->ifname) &&
	       same(o->pod_name, l->pod_name) && same(o->pod_namespace, l->pod_namespace) &&
	       same(o->network, l->network) && same(o->netns, l->netns);
}

/* Writes the selected addresses of one pool as one change. */
static int commit_pool(struct choice *c, size_t pool, struct err *e)
{
	auto_free struct lease *v = xcalloc(c->n + 1, sizeof(*v));
	size_t n = 0;
	int r;

	for (size_t i = 0; i < c->n; i++) {
		if (c->v[i].pool != pool)
			continue;
		v[n] = allocated(c, &c->v[i]);
		c->v[i].done = !is_logged(&c->v[i], &v[n]);
		n += c->v[i].done;
	}
	r = store_commit(c->w->v[pool].store, v, n, e);
	for (size_t i = 0; r < 0 && i < c->n; i++)
		if (c->v[i].pool == pool)
			c->v[i].done = false;
	return r;
}

/* Restores the earlier state of each address: free, or allocated to the earlier container. */
static void undo(struct choice *c)
{
	for (size_t i = c->n; i-- > 0;) {
		struct pick *p = &c->v[i];
		struct ipam *store = c->w->v[p->pool].store;
		struct lease l = LEASE_INIT;
		struct err e = ERR_INIT;

		if (!p->done)
			continue;
		l.address = p->address;
		l.state = LEASE_FREE;
		l.at_ms = store->now_ms();
		if (p->known)
			l = p->old;
		if (store_commit(store, &l, 1, &e) < 0)
			log_warn("cannot undo an allocation after the allocation in another "
				 "range failed",
				 LOG_S("error", e.text));
	}
}

static int commit(struct choice *c, struct err *e)
{
	int r = 0;

	for (size_t pool = 0; pool < c->w->n && r == 0; pool++)
		r = commit_pool(c, pool, e);
	if (r < 0)
		undo(c);
	return r;
}

int whereabouts_allocate(struct whereabouts *w, const struct whereabouts_request *a,
			 struct ipnet *ret, struct err *e)
{
	struct choice c = {.w = w, .a = a};
	int r = choose_all(&c, e);

	if (r == 0)
		r = commit(&c, e);
	for (size_t i = 0; r == 0 && i < c.n; i++)
		ret[i] = c.v[i].address;
	free(c.v);
	return r;
}

int whereabouts_try(struct whereabouts *w, const struct whereabouts_request *a, struct err *e)
{
	struct choice c = {.w = w, .a = a};
	int r = choose_all(&c, e);

	free(c.v);
	return r;
}
