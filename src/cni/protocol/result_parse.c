/* SPDX-License-Identifier: Apache-2.0 */
/* Parses results: prevResult, and the output of executed plugins. */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "cni/protocol/result.h"

#define FIELD(type, name, kind, member, ...)                                                       \
	JSON_FIELD(name, kind, struct type, member, ##__VA_ARGS__)
#define UINT32 .min = 0, .max = UINT32_MAX

struct route {
	struct ipnet dst;
	struct ipaddr gw;
	int64_t mtu, advmss, priority, table, scope;
	bool has_table, has_scope;
};

static const struct json_field route_fields[] = {
	FIELD(route, "dst", J_NET, dst, .required = true),
	FIELD(route, "gw", J_IP, gw),
	FIELD(route, "mtu", J_INT, mtu, UINT32),
	FIELD(route, "advmss", J_INT, advmss, UINT32),
	FIELD(route, "priority", J_INT, priority, UINT32),
	FIELD(route, "table", J_INT, table, UINT32, .has = offsetof(struct route, has_table)),
	FIELD(route, "scope", J_INT, scope, UINT32, .has = offsetof(struct route, has_scope)),
	{0}};
static const struct json_table route_table = {route_fields, JSON_GO, sizeof(struct route)};

struct rdma {
	const char *device, *gid;
	int64_t port, gid_index;
};

static const struct json_field rdma_fields[] = {FIELD(rdma, "device", J_STR, device),
						FIELD(rdma, "gid", J_STR, gid),
						FIELD(rdma, "gidIndex", J_INT, gid_index,
						      .max = INT_MAX),
						FIELD(rdma, "port", J_INT, port, UINT32),
						{0}};
static const struct json_table rdma_table = {rdma_fields, JSON_GO, sizeof(struct rdma)};

struct iface {
	const char *name, *mac, *sandbox, *socket_path, *pci_id;
	int64_t mtu;
	struct rdma rdma;
};

/* Fields of an interface in 0.x: name, mac, sandbox, and unirail's "rdma". */
static const struct json_field iface0_fields[] = {FIELD(iface, "name", J_STR, name),
						  FIELD(iface, "mac", J_STR, mac),
						  FIELD(iface, "sandbox", J_STR, sandbox),
						  FIELD(iface, "rdma", J_OBJ, rdma,
							.sub = &rdma_table),
						  {0}};
static const struct json_field iface1_fields[] = {FIELD(iface, "name", J_STR, name),
						  FIELD(iface, "mac", J_STR, mac),
						  FIELD(iface, "sandbox", J_STR, sandbox),
						  FIELD(iface, "mtu", J_INT, mtu, UINT32),
						  FIELD(iface, "socketPath", J_STR, socket_path),
						  FIELD(iface, "pciID", J_STR, pci_id),
						  FIELD(iface, "rdma", J_OBJ, rdma,
							.sub = &rdma_table),
						  {0}};
static const struct json_table iface0_table = {iface0_fields, JSON_GO, sizeof(struct iface)};
static const struct json_table iface1_table = {iface1_fields, JSON_GO, sizeof(struct iface)};

struct ip {
	struct ipnet address;
	struct ipaddr gateway;
	int64_t iface;
	bool has_iface;
	struct json_list routes; /* 0.2.0 */
};

static const struct json_field ip_fields[] = {
	FIELD(ip, "address", J_NET, address, .required = true),
	FIELD(ip, "gateway", J_IP, gateway),
	FIELD(ip, "interface", J_INT, iface, .has = offsetof(struct ip, has_iface), .min = 0,
	      .max = INT_MAX),
	{0}};
static const struct json_field ip02_fields[] = {FIELD(ip, "ip", J_NET, address, .required = true),
						FIELD(ip, "gateway", J_IP, gateway),
						FIELD(ip, "routes", J_OBJS, routes,
						      .sub = &route_table),
						{0}};
static const struct json_table ip_table = {ip_fields, JSON_GO, sizeof(struct ip)};
static const struct json_table ip02_table = {ip02_fields, JSON_GO, sizeof(struct ip)};

struct dns {
	const char *domain;
	struct json_strs nameservers, search, options;
};

static const struct json_field dns_fields[] = {FIELD(dns, "nameservers", J_STRS, nameservers),
					       FIELD(dns, "domain", J_STR, domain),
					       FIELD(dns, "search", J_STRS, search),
					       FIELD(dns, "options", J_STRS, options),
					       {0}};
static const struct json_table dns_table = {dns_fields, JSON_GO, sizeof(struct dns)};

/* One struct for all classes of versions (struct class); the JSON table of a class has only the
 * fields of that class. */
struct result {
	struct json_list ifaces, ips, routes;
	struct ip ip4, ip6;
	bool has_ip4, has_ip6;
	const struct json *dns;
};

static const struct json_field class02_fields[] = {
	FIELD(result, "ip4", J_OBJ, ip4, .has = offsetof(struct result, has_ip4),
	      .sub = &ip02_table),
	FIELD(result, "ip6", J_OBJ, ip6, .has = offsetof(struct result, has_ip6),
	      .sub = &ip02_table),
	FIELD(result, "dns", J_VAL, dns),
	{0}};
static const struct json_field class04_fields[] = {
	FIELD(result, "interfaces", J_OBJS, ifaces, .sub = &iface0_table),
	FIELD(result, "ips", J_OBJS, ips, .sub = &ip_table),
	FIELD(result, "routes", J_OBJS, routes, .sub = &route_table),
	FIELD(result, "dns", J_VAL, dns),
	{0}};
static const struct json_field class1_fields[] = {
	FIELD(result, "interfaces", J_OBJS, ifaces, .sub = &iface1_table),
	FIELD(result, "ips", J_OBJS, ips, .sub = &ip_table),
	FIELD(result, "routes", J_OBJS, routes, .sub = &route_table),
	FIELD(result, "dns", J_VAL, dns),
	{0}};

/* Versions of one class share a schema. `supports`: these versions as libcni's error text lists
 * them. */
struct class
{
	enum cni_version first, last;
	struct json_table table;
	const char *supports;
};

static const struct class classes[] = {
	{CNI_0_1_0, CNI_0_2_0, {class02_fields, JSON_GO, 0}, "[ 0.1.0 0.2.0]"},
	{CNI_0_3_0, CNI_0_4_0, {class04_fields, JSON_GO, 0}, "[0.3.0 0.3.1 0.4.0]"},
	{CNI_1_0_0, CNI_1_1_0, {class1_fields, JSON_GO, 0}, "[1.0.0 1.1.0]"},
};

static const struct class *class_of(enum cni_version v)
{
	const struct class *c = classes;

	while (v > c->last)
		c++;
	return c;
}

static bool is_version_key(const char *key)
{
	return strcasecmp(key, "cniVersion") == 0;
}

/* libcni rewrites the object as a sorted map and matches its keys case-insensitively: if the
 * object has cniVersion in several spellings, the last one in byte order is used. */
static int check_version(const struct json *v, const struct class *c, struct err *e)
{
	struct json_walk w = json_walk_start(v);
	const struct json *at, *found = NULL;
	const char *key, *best = "", *text;
	enum cni_version version;

	while ((at = json_walk_next(&w, &key)))
		if (key && is_version_key(key) && strcmp(key, best) >= 0) {
			best = key;
			found = at;
		}
	if (json_kind(found) == JSON_NULL)
		return 0;
	text = json_string(found);
	if (!text)
		return json_wants(found, best, "a string", e);
	if (!*text)
		return 0;
	if (cni_version_parse(text, &version) == 0 && class_of(version) == c)
		return 0;
	return err_kind(e, ERR_DECODE, -EINVAL,
			"result type supports %s but unmarshalled CNIVersion is \"%s\"",
			c->supports, text);
}

static void add_routes(struct cni_result *r, const struct json_list *list)
{
	const struct route *v = list->v;

	for (size_t i = 0; i < list->n; i++)
		cni_result_route(r, &(struct cni_route){.dst = v[i].dst,
							.gw = v[i].gw,
							.mtu = (uint32_t)v[i].mtu,
							.advmss = (uint32_t)v[i].advmss,
							.priority = (uint32_t)v[i].priority,
							.has_table = v[i].has_table,
							.has_scope = v[i].has_scope,
							.table = (uint32_t)v[i].table,
							.scope = (uint32_t)v[i].scope});
}

static void add_ip(struct cni_result *r, const struct ip *ip)
{
	cni_result_ip(r, &(struct cni_ip){ip->address, ip->gateway,
					  ip->has_iface ? (int)ip->iface : -1});
}

static void add_rdma(struct cni_rdma *to, const struct rdma *r)
{
	if (!r->device || !str_copy(to->device, sizeof(to->device), r->device) ||
	    !str_copy(to->gid, sizeof(to->gid), r->gid ? r->gid : "")) {
		*to = (struct cni_rdma){.device = ""};
		return;
	}
	to->port = (uint32_t)r->port;
	to->gid_index = (int)r->gid_index;
}

static void add_iface(struct cni_result *r, const struct iface *i)
{
	struct cni_iface *to = cni_result_iface(r, i->name, i->mac, i->sandbox);

	to->socket_path = str_dup(str_if_set(i->socket_path));
	to->pci_id = str_dup(str_if_set(i->pci_id));
	to->mtu = (uint32_t)i->mtu;
	add_rdma(&to->rdma, &i->rdma);
}

static void add_strs(char ***list, size_t *n, const struct json_strs *from)
{
	for (size_t i = 0; i < from->n; i++)
		VEC_PUSH(*list, *n) = xstrdup(from->v[i]);
}

static void add_all(struct cni_result *r, const struct result *in)
{
	const struct iface *ifaces = in->ifaces.v;
	const struct ip *ips = in->ips.v;

	for (size_t i = 0; i < in->ifaces.n; i++)
		add_iface(r, &ifaces[i]);
	for (size_t i = 0; i < in->ips.n; i++)
		add_ip(r, &ips[i]);
	add_routes(r, &in->routes);
	if (in->has_ip4) {
		add_ip(r, &in->ip4);
		add_routes(r, &in->ip4.routes);
	}
	if (in->has_ip6) {
		add_ip(r, &in->ip6);
		add_routes(r, &in->ip6.routes);
	}
}

int cni_result_read_routes(struct json_doc *d, const struct json *v, const char *place,
			   struct cni_result *r, struct err *e)
{
	static const struct json_field routes = {"routes", J_OBJS, .sub = &route_table};
	struct json_list list = {0};
	int n;

	if (json_kind(v) == JSON_NULL)
		return 0;
	n = json_read_value(d, v, &routes, &list, place, e);
	if (n == 0)
		add_routes(r, &list);
	return n;
}

int cni_result_read_dns(struct json_doc *d, const struct json *v, const char *place,
			struct cni_result *r, struct err *e)
{
	struct dns dns = {0};
	int n;

	if (json_kind(v) == JSON_NULL)
		return 0;
	n = json_read(d, v, &dns_table, &dns, place, e);
	if (n < 0)
		return n;
	if (dns.domain && *dns.domain) {
		free(r->dns.domain);
		r->dns.domain = xstrdup(dns.domain);
	}
	add_strs(&r->dns.nameservers, &r->dns.n_nameservers, &dns.nameservers);
	add_strs(&r->dns.search, &r->dns.n_search, &dns.search);
	add_strs(&r->dns.options, &r->dns.n_options, &dns.options);
	return 0;
}

int cni_result_parse(struct json_doc *d, const struct json *v, enum cni_version conf_version,
		     struct cni_result *ret, struct err *e)
{
	const struct class *c = class_of(conf_version);
	auto_result struct cni_result r = {0};
	struct result in = {0};
	int n = check_version(v, c, e);

	if (n == 0)
		n = json_read(d, v, &c->table, &in, "result", e);
	if (n < 0)
		return n;
	add_all(&r, &in);
	n = cni_result_read_dns(d, in.dns, "result.dns", &r, e);
	if (n < 0)
		return n;
	*ret = r;
	r = (struct cni_result){0};
	return 0;
}
