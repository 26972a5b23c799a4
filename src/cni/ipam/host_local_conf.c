/* SPDX-License-Identifier: Apache-2.0 */
#include "cni/ipam/host_local_conf.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "ipam/ipam.h"

#define bad(e, ...) err_kind(e, ERR_CONF, -EINVAL, __VA_ARGS__)

#define RANGE(key, kind, member)                                                                   \
	{                                                                                          \
		key, kind, .offset = offsetof(struct hostlocal_range, member)                      \
	}

static const struct json_field range_fields[] = {RANGE("subnet", J_NET, subnet),
						 RANGE("rangeStart", J_IP, first),
						 RANGE("rangeEnd", J_IP, last),
						 RANGE("gateway", J_IP, gateway),
						 {0}};
static const struct json_table range_table = {range_fields, JSON_GO,
					      sizeof(struct hostlocal_range)};

struct raw {
	const char *data_dir, *resolv_conf;
	const struct json *routes, *ranges;
};

static const struct json_field fields[] = {
	{"dataDir", J_STR, .offset = offsetof(struct raw, data_dir)},
	{"resolvConf", J_STR, .offset = offsetof(struct raw, resolv_conf)},
	{"routes", J_VAL, .offset = offsetof(struct raw, routes)},
	{"ranges", J_VAL, .offset = offsetof(struct raw, ranges)},
	{0}};
static const struct json_table table = {fields, JSON_GO, 0};

static int check_path(const char *key, const char *path, struct err *e)
{
	return *path == '/' ? 0
			    : bad(e, "conf.ipam.%s is \"%s\", wants an absolute path", key, path);
}

static int read_raw(const struct cni_ipam_call *call, const struct json *ipam, struct raw *raw,
		    struct host_local_conf *c, struct err *e)
{
	int r = json_read(call->doc, ipam, &table, raw, "conf.ipam", e);

	if (r < 0)
		return r;
	c->routes = raw->routes;
	c->data_dir = raw->data_dir && *raw->data_dir ? raw->data_dir : IPAM_HOSTLOCAL_DIR;
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
		VEC_PUSH(c->sets, c->n_sets) = (struct hostlocal_set){list.v, list.n};
	return r;
}

/* [[{range}, ...], ...] */
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
		snprintf(at, sizeof(at), "%s[%zu]", place, i);
		r = add_set(call, set, at, c, e);
	}
	return r;
}

/* From before there were range sets: one range, right in "ipam". */
static int add_legacy(const struct cni_ipam_call *call, const struct json *ipam,
		      struct host_local_conf *c, struct err *e)
{
	int r = json_read(call->doc, ipam, &range_table, &c->legacy, "conf.ipam", e);

	if (r == 0 && c->legacy.subnet.ip.family)
		VEC_PUSH(c->sets, c->n_sets) = (struct hostlocal_set){&c->legacy, 1};
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

/* An address with or without prefix length; the length is of no use here. */
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

/* The same address first of all where it was named first. */
static int by_ip_and_place(const void *a, const void *b)
{
	const struct ipaddr *x = *(const struct ipaddr *const *)a,
			    *y = *(const struct ipaddr *const *)b;
	int r = by_ip(a, b);

	return r ? r : x < y ? -1 : x > y;
}

/* Each of them once, where it was named first. */
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
			"ARGS: error parsing value of pair \"IP=%s\": invalid IP address %s", ip,
			ip);
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
	free(c->sets);
	free(c->wanted);
	*c = (struct host_local_conf){0};
}
