/* SPDX-License-Identifier: Apache-2.0 */
/* The static IPAM plugin: the addresses are those in the configuration. It has no state. */
#include <errno.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "cni/ipam/ipam_plugins.h"
#include "cni/protocol/ipam_call.h"

#define bad(e, ...) err_kind(e, ERR_CONF, -EINVAL, __VA_ARGS__)

/* The key "Address" is ignored: the original's struct has the parsed form of "address" under it. */
struct address {
	const char *text;
	const struct json *ignored;
	struct ipaddr gateway;
};

struct conf {
	struct json_list addresses;
	const struct json *routes, *dns;
};

static const struct json_field address_fields[] = {
	JSON_FIELD("address", J_STR, struct address, text,
		   JSON_DOC(NULL, "address with prefix length")),
	JSON_FIELD("Address", J_VAL, struct address, ignored),
	JSON_FIELD("gateway", J_IP, struct address, gateway,
		   JSON_DOC(NULL, "gateway of the address")),
	{0}};
static const struct json_table address_table = {address_fields, JSON_GO, sizeof(struct address)};
static const struct json_field fields[] = {
	JSON_FIELD("addresses", J_OBJS, struct conf, addresses, .sub = &address_table,
		   JSON_DOC(NULL, "the addresses; CNI_ARGS IP adds to them; args.cni.ips or "
				  "runtimeConfig.ips replaces all of them")),
	JSON_FIELD("routes", J_VAL, struct conf, routes,
		   JSON_DOC(NULL, "list of routes, {dst, gw}")),
	JSON_FIELD("dns", J_VAL, struct conf, dns,
		   JSON_DOC(NULL, "nameservers, domain, search and options")),
	{0}};
static const struct json_table table = {fields, JSON_GO, 0};

/* Appends an address; -EINVAL: the text is not an address with prefix length. */
static int add_text(struct cni_result *r, struct span text, const struct ipaddr *gateway)
{
	struct cni_ip ip = {.iface = -1};

	if (ipnet_parse(text, &ip.address) < 0)
		return -EINVAL;
	if (gateway)
		ip.gateway = *gateway;
	cni_result_ip(r, &ip);
	return 0;
}

/* Appends the addresses in CNI_ARGS IP to those of the configuration. */
static int add_args_ip(struct cni_result *r, const char *list, struct err *e)
{
	struct span rest = span_of(list), item;

	while (*list && span_cut(&rest, ',', &item)) {
		item = span_trim(item);
		if (add_text(r, item, NULL) < 0)
			return err_kind(
				e, ERR_ENV, -EINVAL,
				"the 'ip' field is expected to be in CIDR notation, got: '%.*s'",
				(int)item.n, item.p);
	}
	return 0;
}

/* Makes CNI_ARGS GATEWAY the gateway of each address of CNI_ARGS whose network contains it. */
static int set_args_gateway(struct cni_result *r, size_t first, const char *list, struct err *e)
{
	struct span rest = span_of(list), item;
	struct ipaddr gateway;

	while (*list && span_cut(&rest, ',', &item)) {
		if (ip_parse(span_trim(item), &gateway) < 0)
			return err_kind(e, ERR_ENV, -EINVAL, "invalid gateway address: %.*s",
					(int)item.n, item.p);
		for (size_t i = first; i < r->n_ips; i++)
			if (ipnet_contains(&r->ips[i].address, &gateway))
				r->ips[i].gateway = gateway;
	}
	return 0;
}

/* Replaces all addresses by `ips` (runtimeConfig.ips or args.cni.ips) unless it is empty. */
static int replace(struct cni_result *r, const struct json_strs *ips, struct err *e)
{
	if (ips->n)
		r->n_ips = 0;
	for (size_t i = 0; i < ips->n; i++)
		if (add_text(r, span_of(ips->v[i]), NULL) < 0)
			return bad(e,
				   "an entry in the 'ips' field is NOT in CIDR notation, got: '%s'",
				   ips->v[i]);
	return 0;
}

/* Called only if no other list replaces these addresses: as in the original, an address that is
 * replaced may be invalid. */
static int add_conf(struct cni_result *r, const struct conf *c, struct err *e)
{
	const struct address *v = c->addresses.v;

	for (size_t i = 0; i < c->addresses.n; i++) {
		const char *text = v[i].text ? v[i].text : "";

		if (add_text(r, span_of(text), &v[i].gateway) < 0)
			return bad(
				e,
				"the 'address' field is expected to be in CIDR notation, got: '%s'",
				text);
	}
	return 0;
}

static void count(const struct cni_result *r, size_t *n4, size_t *n6)
{
	*n4 = *n6 = 0;
	for (size_t i = 0; i < r->n_ips; i++)
		++*(r->ips[i].address.ip.family == 4 ? n4 : n6);
}

static int resolve(const struct ipam_request *q, const struct conf *c, struct cni_result *r,
		   struct err *e)
{
	bool replaced = q->args_ips.n || q->runtime_ips.n;
	int n = replaced ? 0 : add_conf(r, c, e);
	size_t first = r->n_ips;

	if (n == 0 && q->args.ip)
		n = add_args_ip(r, q->args.ip, e);
	if (n == 0 && q->args.gateway)
		n = set_args_gateway(r, first, q->args.gateway, e);
	if (n == 0)
		n = replace(r, &q->args_ips, e);
	if (n == 0)
		n = replace(r, &q->runtime_ips, e);
	return n;
}

static int load(const struct cni_ipam_call *call, struct cni_result *r, struct err *e)
{
	auto_ipam_request struct ipam_request q;
	struct conf c = {0};
	size_t n4, n6;
	int n = ipam_request_read(call, &q, e);

	if (n == 0)
		n = json_read(call->doc, q.ipam, &table, &c, "conf.ipam", e);
	if (n == 0)
		n = resolve(&q, &c, r, e);
	if (n < 0)
		return n;
	count(r, &n4, &n6);
	n = ipam_check_families(call, n4, n6, e);
	if (n == 0)
		n = cni_result_read_routes(call->doc, c.routes, "conf.ipam.routes", r, e);
	if (n == 0)
		n = cni_result_read_dns(call->doc, c.dns, "conf.ipam.dns", r, e);
	return n;
}

int static_add(const struct cni_ipam_call *call, struct cni_result *out, struct err *e)
{
	auto_result struct cni_result r = {0};
	int n = load(call, &r, e);

	if (n < 0)
		return n;
	*out = r;
	r = (struct cni_result){0};
	return 0;
}

static const struct cni_ip *find(const struct cni_result *r, const struct ipaddr *a)
{
	for (size_t i = 0; i < r->n_ips; i++)
		if (ip_eq(&r->ips[i].address.ip, a))
			return &r->ips[i];
	return NULL;
}

int static_check(const struct cni_ipam_call *call, struct err *e)
{
	auto_result struct cni_result want = {0};
	char ip[IP_TEXT_MAX];
	int n = load(call, &want, e);

	if (n < 0)
		return n;
	if (!call->call->has_prev)
		return bad(e, "Required prevResult missing");
	for (size_t i = 0; i < want.n_ips; i++) {
		const struct ipaddr *a = &want.ips[i].address.ip, *gw = &want.ips[i].gateway;
		const struct cni_ip *have = find(&call->call->prev, a);

		/* The original accepts a missing address. */
		if (!have)
			return err_set(e, -ENOENT, "static: addr %s is not in prevResult",
				       ip_str(a, ip));
		if (gw->family && !ip_eq(gw, &have->gateway))
			return err_set(e, -EINVAL,
				       "static: Failed to match addr %s on interface %s",
				       ip_str(a, ip), call->ifname);
	}
	return 0;
}

int static_status(const struct cni_ipam_call *call, struct err *e)
{
	auto_result struct cni_result r = {0};

	return load(call, &r, e);
}

static int add(struct cni_call *c, struct cni_result *out, struct err *e)
{
	struct cni_ipam_call call = cni_ipam_call_of(c);

	return static_add(&call, out, e);
}

static int check(struct cni_call *c, struct err *e)
{
	struct cni_ipam_call call = cni_ipam_call_of(c);

	return static_check(&call, e);
}

static int status(struct cni_call *c, struct err *e)
{
	struct cni_ipam_call call = cni_ipam_call_of(c);

	return static_status(&call, e);
}

const struct cni_plugin cni_static = {
	.name = "static",
	.about = "CNI static plugin unirail",
	.keys = JSON_TABLES(&ipam_request_table),
	.ipam_keys = JSON_TABLES(&table),
	.add = add,
	.check = check,
	.status = status,
};
