/* SPDX-License-Identifier: Apache-2.0 */
#include "cni/ipam/host_local.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/paths.h"
#include "cni/ipam/ipam_plugins.h"
#include "cni/protocol/cni_call.h"
#include "cni/protocol/ipam_call.h"
#include "ipam/ipam.h"

/* The host-local IPAM plugin: the verbs on the directory of ipam/hostlocal. */

static struct hostlocal_owner owner_of(const struct cni_ipam_call *call)
{
	return (struct hostlocal_owner){call->call->container_id, call->ifname};
}

static int open_store(const struct cni_ipam_call *call, const struct host_local_conf *c,
		      bool create, struct hostlocal *h, struct err *e)
{
	/* The network's name becomes the name of a directory. */
	if (!cni_name_ok(call->name))
		return err_kind(e, ERR_CONF, -EINVAL,
				"network name '%s' cannot name a directory of addresses: expected "
				"letters, digits, '_', '.' and '-', a letter or digit first",
				call->name);
	return hostlocal_open(h, &call->call->root, c->data_dir, call->name, create, e);
}

/* Removes from c->wanted the first address that this set contains, and sets *ret to it. Returns
 * false if the set contains none. */
static bool pick_wanted(struct host_local_conf *c, const struct hostlocal_set *s,
			struct ipaddr *ret)
{
	for (size_t i = 0; i < c->n_wanted; i++)
		if (hostlocal_set_find(s, &c->wanted[i])) {
			*ret = c->wanted[i];
			c->n_wanted--;
			memmove(&c->wanted[i], &c->wanted[i + 1],
				(c->n_wanted - i) * sizeof(*c->wanted));
			return true;
		}
	return false;
}

static int take_set(const struct cni_ipam_call *call, struct host_local_conf *c, size_t i,
		    struct hostlocal *h, struct cni_result *r, struct err *e)
{
	const struct hostlocal_owner owner = owner_of(call);
	struct cni_ip ip = {.iface = -1};
	struct ipaddr want;
	bool wanted = pick_wanted(c, &c->sets[i], &want);
	int n = hostlocal_take(h, &c->sets[i], i, &owner, wanted ? &want : NULL, &ip.address,
			       &ip.gateway, e);

	if (n < 0)
		return err_wrap(e, n, ORIG("failed to allocate for range %zu"), i);
	cni_result_ip(r, &ip);
	return 0;
}

static int unfulfilled(const struct host_local_conf *c, struct err *e)
{
	char text[IP_TEXT_MAX];
	auto_buf struct buf b;

	buf_init(&b, ERR_TEXT_MAX);
	for (size_t i = 0; i < c->n_wanted; i++)
		buf_printf(&b, " %s", ip_str(&c->wanted[i], text));
	return err_kind(e, ERR_CONF, -EINVAL, ORIG("failed to allocate all requested IPs:%s"), b.p);
}

/* Allocates one address per range set, all or none. On failure only the addresses of this call are
 * released: the original releases all of (container, interface), also those of an earlier ADD. */
static int take_all(const struct cni_ipam_call *call, struct host_local_conf *c,
		    struct hostlocal *h, struct cni_result *r, struct err *e)
{
	int n = 0;

	for (size_t i = 0; i < c->n_sets && n == 0; i++)
		n = take_set(call, c, i, h, r, e);
	if (n == 0 && c->n_wanted)
		n = unfulfilled(c, e);
	for (size_t i = 0; n < 0 && i < r->n_ips; i++)
		hostlocal_free(h, &r->ips[i].address.ip, NULL);
	return n;
}

int host_local_add(const struct cni_ipam_call *call, struct cni_result *out, struct err *e)
{
	auto_host_local_conf struct host_local_conf c;
	auto_hostlocal struct hostlocal h = HOSTLOCAL_INIT;
	auto_result struct cni_result r = {0};
	int n = host_local_conf_read(call, &c, e);

	/* The configuration is validated before anything is allocated. */
	if (n == 0)
		n = cni_result_read_routes(call->doc, c.routes, "conf.ipam.routes", &r, e);
	if (n == 0 && c.resolv_conf)
		n = host_local_dns(&call->call->root, c.resolv_conf, &r.dns, e);
	if (n == 0)
		n = open_store(call, &c, true, &h, e);
	if (n == 0)
		n = take_all(call, &c, &h, &r, e);
	if (n < 0)
		return n;
	*out = r;
	r = (struct cni_result){0};
	return 0;
}

/* Releases the addresses in prevResult whose file this attachment owns, without listing the
 * directory. Returns true if it released one address per range set: the attachment then has no
 * other address. */
static bool del_known(const struct cni_ipam_call *call, struct hostlocal *h, size_t n_sets)
{
	const struct hostlocal_owner owner = owner_of(call);
	const struct cni_result *prev = &call->call->prev;
	size_t freed = 0;

	for (size_t i = 0; i < prev->n_ips; i++) {
		const struct ipaddr *ip = &prev->ips[i].address.ip;
		struct hostlocal_record rec;

		if (hostlocal_scan(h, ip, &rec, NULL) < 0)
			continue;
		if (hostlocal_is_of(&rec, &owner) && hostlocal_free(h, ip, NULL) == 0)
			freed++;
		hostlocal_record_done(&rec);
	}
	return n_sets > 0 && freed == n_sets;
}

static size_t count_sets(const struct cni_ipam_call *call)
{
	auto_host_local_conf struct host_local_conf c;

	return host_local_conf_read(call, &c, NULL) < 0 ? 0 : c.n_sets;
}

int host_local_del(const struct cni_ipam_call *call, struct err *e)
{
	const struct hostlocal_owner owner = owner_of(call);
	auto_host_local_conf struct host_local_conf c;
	auto_hostlocal struct hostlocal h = HOSTLOCAL_INIT;
	int n = host_local_conf_store(call, &c, e);

	if (n < 0)
		return n;
	n = open_store(call, &c, false, &h, e);
	if (n == -ENOENT) {
		err_clear(e);
		return 0;
	}
	if (n < 0 || (call->call->has_prev && del_known(call, &h, count_sets(call))))
		return n;
	n = hostlocal_release(&h, &owner, e);
	return n < 0 ? n : 0;
}

static void warn_empty(const struct hostlocal *h)
{
	char ip[IP_TEXT_MAX];

	for (size_t i = 0; i < h->n; i++)
		if (!*h->v[i].container_id)
			log_warn("address file without an owner, probably after a power loss: "
				 "remove the file when no pod has the address",
				 LOG_S("directory", h->dir), LOG_S("ip", ip_str(&h->v[i].ip, ip)));
}

static bool is_in_ranges(const struct host_local_conf *c, const struct ipaddr *a)
{
	for (size_t i = 0; i < c->n_sets; i++)
		if (hostlocal_set_find(&c->sets[i], a))
			return true;
	return false;
}

/* Fails if an address of prevResult within the configured ranges is recorded for another
 * container. A record without an interface does not count. */
static int check_prev(const struct cni_ipam_call *call, const struct host_local_conf *c,
		      const struct hostlocal *h, struct err *e)
{
	const struct hostlocal_owner owner = owner_of(call);
	char ip[IP_TEXT_MAX];

	const struct hostlocal_record *found = NULL; /* the lowest such address */

	for (size_t i = 0; i < call->call->prev.n_ips; i++) {
		const struct hostlocal_record *rec =
			hostlocal_find(h, &call->call->prev.ips[i].address.ip);

		if (rec && rec->ifname && strcmp(rec->container_id, owner.container_id) != 0 &&
		    (!found || rec < found) && is_in_ranges(c, &rec->ip))
			found = rec;
	}
	if (!found)
		return 0;
	return err_set(e, -EEXIST,
		       "host-local: address %s in prevResult of container %s is recorded for "
		       "container %s, interface %s",
		       ip_str(&found->ip, ip), owner.container_id, found->container_id,
		       found->ifname);
}

static bool has_any(const struct hostlocal *h, const struct hostlocal_owner *owner)
{
	for (size_t i = 0; i < h->n; i++)
		if (hostlocal_is_of(&h->v[i], owner) ||
		    (!h->v[i].ifname && strcmp(h->v[i].container_id, owner->container_id) == 0))
			return true;
	return false;
}

int host_local_check(const struct cni_ipam_call *call, struct err *e)
{
	const struct hostlocal_owner owner = owner_of(call);
	auto_host_local_conf struct host_local_conf c;
	auto_hostlocal struct hostlocal h = HOSTLOCAL_INIT;
	int n = host_local_conf_read(call, &c, e);

	if (n == 0)
		n = open_store(call, &c, false, &h, e);
	if (n == 0)
		n = hostlocal_records(&h, e);
	if (n < 0 && n != -ENOENT)
		return n;
	warn_empty(&h);
	if (!has_any(&h, &owner))
		return err_set(e, -ENOENT,
			       "host-local: Failed to find address added by container %s",
			       owner.container_id);
	return check_prev(call, &c, &h, e);
}

int host_local_gc(const struct cni_ipam_call *call, struct err *e)
{
	auto_host_local_conf struct host_local_conf c;
	auto_hostlocal struct hostlocal h = HOSTLOCAL_INIT;
	int n = host_local_conf_store(call, &c, e);

	if (n < 0 || !call->call->has_valid)
		return n;
	n = open_store(call, &c, false, &h, e);
	if (n == -ENOENT) {
		err_clear(e);
		return 0;
	}
	if (n == 0)
		n = hostlocal_records(&h, e);
	for (size_t i = h.n; n == 0 && i-- > 0;) {
		const struct hostlocal_record *rec = &h.v[i];
		struct ipaddr ip = rec->ip;

		if (*rec->container_id && !cni_is_valid(call->call, rec->container_id, rec->ifname))
			n = hostlocal_free(&h, &ip, e);
	}
	warn_empty(&h);
	return n;
}

/* STATUS: the configuration must be valid and the directory writable. */
int host_local_status(const struct cni_ipam_call *call, struct err *e)
{
	auto_host_local_conf struct host_local_conf c;
	auto_hostlocal struct hostlocal h = HOSTLOCAL_INIT;
	int n = host_local_conf_read(call, &c, e);

	if (n < 0)
		return n;
	n = open_store(call, &c, true, &h, e);
	if (n < 0 && e)
		e->kind = ERR_UNAVAILABLE;
	return n;
}

static int add(struct cni_call *c, struct cni_result *out, struct err *e)
{
	struct cni_ipam_call call = cni_ipam_call_of(c);

	return host_local_add(&call, out, e);
}

static int del(struct cni_call *c, struct err *e)
{
	struct cni_ipam_call call = cni_ipam_call_of(c);

	return host_local_del(&call, e);
}

static int check(struct cni_call *c, struct err *e)
{
	struct cni_ipam_call call = cni_ipam_call_of(c);

	return host_local_check(&call, e);
}

static int gc(struct cni_call *c, struct err *e)
{
	struct cni_ipam_call call = cni_ipam_call_of(c);

	return host_local_gc(&call, e);
}

static int status(struct cni_call *c, struct err *e)
{
	struct cni_ipam_call call = cni_ipam_call_of(c);

	return host_local_status(&call, e);
}

static const struct json_table table, range_table;

const struct cni_plugin cni_host_local = {
	.name = "host-local",
	.about = "CNI host-local plugin unirail",
	.keys = JSON_TABLES(&ipam_request_table),
	.ipam_keys = JSON_TABLES(&table, &range_table),
	.add = add,
	.check = check,
	.del = del,
	.gc = gc,
	.status = status,
};

#define bad(e, ...) err_kind(e, ERR_CONF, -EINVAL, __VA_ARGS__)

#define RANGE(key, kind, member, ...)                                                              \
	JSON_FIELD(key, kind, struct hostlocal_range, member, ##__VA_ARGS__)

static const struct json_field range_fields[] = {
	RANGE("subnet", J_NET, subnet, JSON_DOC(NULL, "subnet of the range")),
	RANGE("rangeStart", J_IP, first,
	      JSON_DOC("the first", "lowest address that may be allocated")),
	RANGE("rangeEnd", J_IP, last,
	      JSON_DOC("the last", "highest address that may be allocated")),
	RANGE("gateway", J_IP, gateway,
	      JSON_DOC("the subnet's first address", "gateway, which is not allocated")),
	{0}};
static const struct json_table range_table = {range_fields, JSON_GO,
					      sizeof(struct hostlocal_range)};

struct raw {
	const char *data_dir, *resolv_conf;
	const struct json *routes, *ranges;
};

static const struct json_field fields[] = {
	JSON_FIELD("dataDir", J_STR, struct raw, data_dir,
		   JSON_DOC(PATH_HOST_LOCAL, "directory of the allocations")),
	JSON_FIELD("resolvConf", J_STR, struct raw, resolv_conf,
		   JSON_DOC(NULL, "file in the form of resolv.conf for the result's dns")),
	JSON_FIELD("routes", J_VAL, struct raw, routes,
		   JSON_DOC(NULL, "list of routes, {dst, gw}")),
	JSON_FIELD("ranges", J_VAL, struct raw, ranges, .sub = &range_table,
		   JSON_DOC(NULL, "list of lists of ranges; a pod gets an address of each list")),
	{0}};
static const struct json_table table = {fields, JSON_GO, 0};

static int check_path(const char *key, const char *path, struct err *e)
{
	return *path == '/'
		       ? 0
		       : bad(e, "conf.ipam.%s is \"%s\", expected an absolute path", key, path);
}

static int read_raw(const struct cni_ipam_call *call, const struct json *ipam, struct raw *raw,
		    struct host_local_conf *c, struct err *e)
{
	int r = json_read(call->doc, ipam, &table, raw, "conf.ipam", e);

	if (r < 0)
		return r;
	c->routes = raw->routes;
	c->data_dir = raw->data_dir && *raw->data_dir ? raw->data_dir : PATH_HOST_LOCAL;
	c->resolv_conf = raw->resolv_conf && *raw->resolv_conf ? raw->resolv_conf : NULL;
	return check_path("dataDir", c->data_dir, e);
}

int host_local_conf_store(const struct cni_ipam_call *call, struct host_local_conf *ret,
			  struct err *e)
{
	const struct json *ipam = json_get_go(call->conf, "ipam");
	struct raw raw = {0};

	*ret = (struct host_local_conf){0};
	if (!ipam)
		return bad(e, "IPAM config missing 'ipam' key");
	return read_raw(call, ipam, &raw, ret, e);
}

static int add_set(const struct cni_ipam_call *call, const struct json *v, const char *place,
		   struct host_local_conf *c, struct err *e)
{
	static const struct json_field ranges = {"", J_OBJS, .sub = &range_table};
	struct json_list list = {0};
	int r = 0;

	if (json_kind(v) != JSON_NULL)
		r = json_read_value(call->doc, v, &ranges, &list, place, e);
	if (r == 0)
		VEC_PUSH(c->sets, c->n_sets) = (struct hostlocal_set){.v = list.v, .n = list.n};
	return r;
}

/* Limit of range sets: each set is compared with each requested address and with each address of
 * the pod. */
enum { SETS_MAX = 256 };

/* Reads the sets of ranges: [[{range}, ...], ...]. */
static int add_sets(const struct cni_ipam_call *call, const struct json *v, const char *place,
		    struct host_local_conf *c, struct err *e)
{
	struct json_walk w = json_walk_start(v);
	const struct json *set;
	char at[64];
	int r = 0;

	if (json_kind(v) == JSON_NULL)
		return 0;
	if (json_kind(v) != JSON_ARRAY)
		return json_wants(v, place, "an array of range sets", e);
	for (size_t i = 0; r == 0 && (set = json_walk_next(&w, NULL)); i++) {
		if (c->n_sets >= SETS_MAX)
			return bad(
				e,
				"%s: more than %d range sets in total (a pod gets one address of "
				"each set)",
				place, SETS_MAX);
		snprintf(at, sizeof(at), "%s[%zu]", place, i);
		r = add_set(call, set, at, c, e);
	}
	return r;
}

/* Reads the old form of the configuration: one range directly in "ipam". */
static int add_legacy(const struct cni_ipam_call *call, const struct json *ipam,
		      struct host_local_conf *c, struct err *e)
{
	int r = json_read(call->doc, ipam, &range_table, &c->legacy, "conf.ipam", e);

	if (r == 0 && c->legacy.subnet.ip.family)
		VEC_PUSH(c->sets, c->n_sets) = (struct hostlocal_set){.v = &c->legacy, .n = 1};
	return r;
}

static int check_sets(const struct cni_ipam_call *call, struct host_local_conf *c, struct err *e)
{
	size_t n4 = 0, n6 = 0;

	if (c->n_sets == 0)
		return bad(e, "no IP ranges specified");
	for (size_t i = 0; i < c->n_sets; i++) {
		int r = hostlocal_set_check(&c->sets[i], e);

		if (r < 0)
			return err_wrap(e, r, "invalid range set %zu", i);
		++*(c->sets[i].v[0].first.family == 4 ? &n4 : &n6);
	}
	return ipam_check_families(call, n4, n6, e);
}

static int check_apart(const struct host_local_conf *c, struct err *e)
{
	size_t i, j;

	if (hostlocal_sets_overlap(c->sets, c->n_sets, &i, &j))
		return bad(e, "range set %zu overlaps with %zu", i, j);
	return 0;
}

/* Adds a requested address, given with or without prefix length; the length is ignored. */
static int want(struct host_local_conf *c, const char *text, struct err *e)
{
	struct ipnet n;

	if (!*text)
		return bad(e, "cannot understand ip: IP <nil> not v4 nor v6");
	if (ipnet_parse_loose(span_of(text), &n) < 0)
		return bad(e, "invalid IP address %s", text);
	VEC_PUSH(c->wanted, c->n_wanted) = n.ip;
	return 0;
}

static int by_ip(const void *a, const void *b)
{
	return ip_cmp(*(const struct ipaddr *const *)a, *(const struct ipaddr *const *)b);
}

/* Orders addresses by value, and equal addresses by their position in the list. */
static int by_ip_and_place(const void *a, const void *b)
{
	const struct ipaddr *x = *(const struct ipaddr *const *)a,
			    *y = *(const struct ipaddr *const *)b;
	int r = by_ip(a, b);

	return r ? r : x < y ? -1 : x > y;
}

/* Removes duplicate addresses; the first occurrence remains. */
static void want_once(struct host_local_conf *c)
{
	auto_free const struct ipaddr **v = xcalloc(c->n_wanted + 1, sizeof(v[0]));
	auto_free bool *again = xcalloc(c->n_wanted + 1, sizeof(*again));
	size_t n = 0;

	for (size_t i = 0; i < c->n_wanted; i++)
		v[i] = &c->wanted[i];
	qsort(v, c->n_wanted, sizeof(v[0]), by_ip_and_place);
	for (size_t i = 1; i < c->n_wanted; i++)
		again[v[i] - c->wanted] = by_ip(&v[i - 1], &v[i]) == 0;
	for (size_t i = 0; i < c->n_wanted; i++)
		if (!again[i])
			c->wanted[n++] = c->wanted[i];
	c->n_wanted = n;
}

static int want_all(struct host_local_conf *c, const struct ipam_request *q, struct err *e)
{
	const char *ip = q->args.ip;
	int r = 0;

	if (ip && *ip && want(c, ip, NULL) < 0)
		return err_kind(
			e, ERR_ENV, -EINVAL,
			ORIG("ARGS: error parsing value of pair \"IP=%s\": invalid IP address %s"),
			ip, ip);
	for (size_t i = 0; i < q->args_ips.n && r == 0; i++)
		r = want(c, q->args_ips.v[i], e);
	for (size_t i = 0; i < q->runtime_ips.n && r == 0; i++)
		r = want(c, q->runtime_ips.v[i], e);
	want_once(c);
	return r;
}

static int read_sets(const struct cni_ipam_call *call, const struct ipam_request *q,
		     const struct json *ranges, struct host_local_conf *c, struct err *e)
{
	int r = add_sets(call, q->ip_ranges, "conf.runtimeConfig.ipRanges", c, e);

	if (r == 0)
		r = add_legacy(call, q->ipam, c, e);
	if (r == 0)
		r = add_sets(call, ranges, "conf.ipam.ranges", c, e);
	if (r == 0)
		r = check_sets(call, c, e);
	return r < 0 ? r : check_apart(c, e);
}

int host_local_conf_read(const struct cni_ipam_call *call, struct host_local_conf *ret,
			 struct err *e)
{
	auto_ipam_request struct ipam_request q;
	struct raw raw = {0};
	int r;

	*ret = (struct host_local_conf){0};
	r = ipam_request_read(call, &q, e);
	if (r == 0)
		r = read_raw(call, q.ipam, &raw, ret, e);
	if (r == 0 && ret->resolv_conf)
		r = check_path("resolvConf", ret->resolv_conf, e);
	if (r == 0)
		r = want_all(ret, &q, e);
	return r < 0 ? r : read_sets(call, &q, raw.ranges, ret, e);
}

void host_local_conf_done(struct host_local_conf *c)
{
	for (size_t i = 0; i < c->n_sets; i++)
		hostlocal_set_done(&c->sets[i]);
	free(c->sets);
	free(c->wanted);
	*c = (struct host_local_conf){0};
}

enum { RESOLV_MAX = 64 << 10 };

/* Returns the next word of a line; empty at the end of the line. */
static struct span word(struct span *rest)
{
	struct span w = span_trim(*rest);

	rest->p = w.p + w.n;
	rest->n = 0;
	for (size_t i = 0; i < w.n; i++)
		if (strchr(" \t\v\f\r", w.p[i])) {
			rest->p = w.p + i;
			rest->n = w.n - i;
			w.n = i;
			break;
		}
	return w;
}

static void add_fields(struct span rest, char ***list, size_t *n)
{
	struct span w;

	while ((w = word(&rest)).n)
		VEC_PUSH(*list, *n) = span_dup(w);
}

static void add_line(struct span line, struct cni_dns *dns)
{
	struct span key = word(&line), first, rest = line;

	first = word(&rest);
	if (key.n == 0 || first.n == 0 || *key.p == '#' || *key.p == ';')
		return;
	if (span_eq(key, "nameserver")) {
		VEC_PUSH(dns->nameservers, dns->n_nameservers) = span_dup(first);
	} else if (span_eq(key, "domain")) {
		free(dns->domain);
		dns->domain = span_dup(first);
	} else if (span_eq(key, "search")) {
		add_fields(line, &dns->search, &dns->n_search);
	} else if (span_eq(key, "options")) {
		add_fields(line, &dns->options, &dns->n_options);
	}
}

int host_local_dns(const struct root *root, const char *path, struct cni_dns *dns, struct err *e)
{
	struct span rest, line;
	auto_buf struct buf text;
	int r;

	buf_init(&text, RESOLV_MAX);
	r = file_read(root, path, RESOLV_MAX, &text, e);
	if (r < 0) {
		err_default_kind(e, ERR_IO);
		return err_wrap(e, r, "conf.ipam.resolvConf");
	}
	rest = buf_span(&text);
	while (span_cut(&rest, '\n', &line))
		add_line(line, dns);
	return 0;
}
