/* SPDX-License-Identifier: Apache-2.0 */
#include "cni/protocol/result.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"

static const char versions[CNI_VERSIONS][6] = {
	[CNI_0_1_0] = "0.1.0", [CNI_0_2_0] = "0.2.0", [CNI_0_3_0] = "0.3.0", [CNI_0_3_1] = "0.3.1",
	[CNI_0_4_0] = "0.4.0", [CNI_1_0_0] = "1.0.0", [CNI_1_1_0] = "1.1.0",
};

const char *cni_version_str(enum cni_version v)
{
	return versions[v];
}

int cni_version_parse(const char *s, enum cni_version *ret)
{
	for (unsigned int i = 0; i < CNI_VERSIONS; i++)
		if (strcmp(s, versions[i]) == 0) {
			*ret = (enum cni_version)i;
			return 0;
		}
	return -EINVAL;
}

static void iface_done(struct cni_iface *i)
{
	free(i->name);
	free(i->mac);
	free(i->sandbox);
	free(i->socket_path);
	free(i->pci_id);
}

static void dns_done(struct cni_dns *d)
{
	free(d->domain);
	str_list_free(d->nameservers, d->n_nameservers);
	str_list_free(d->search, d->n_search);
	str_list_free(d->options, d->n_options);
}

void cni_result_done(struct cni_result *r)
{
	int saved = errno;

	for (size_t i = 0; i < r->n_ifaces; i++)
		iface_done(&r->ifaces[i]);
	free(r->ifaces);
	free(r->ips);
	free(r->routes);
	dns_done(&r->dns);
	*r = (struct cni_result){0};
	errno = saved;
}

struct cni_iface *cni_result_iface(struct cni_result *r, const char *name, const char *mac,
				   const char *sandbox)
{
	struct cni_iface *i = &VEC_PUSH(r->ifaces, r->n_ifaces);

	i->name = xstrdup(name ? name : "");
	i->mac = str_dup(str_if_set(mac));
	i->sandbox = str_dup(str_if_set(sandbox));
	return i;
}

int cni_result_pod_iface(const struct cni_result *r, const char *ifname)
{
	for (size_t i = 0; i < r->n_ifaces; i++)
		if (cni_iface_in_pod(&r->ifaces[i]) && strcmp(r->ifaces[i].name, ifname) == 0)
			return (int)i;
	return -1;
}

void cni_result_ip(struct cni_result *r, const struct cni_ip *ip)
{
	VEC_PUSH(r->ips, r->n_ips) = *ip;
}

void cni_result_route(struct cni_result *r, const struct cni_route *rt)
{
	VEC_PUSH(r->routes, r->n_routes) = *rt;
}

static void copy_list(char ***dst, size_t *n_dst, char *const *src, size_t n)
{
	for (size_t i = 0; i < n; i++)
		VEC_PUSH(*dst, *n_dst) = xstrdup(src[i]);
}

void cni_result_copy(struct cni_result *dst, const struct cni_result *src)
{
	struct cni_result r = {0};

	for (size_t i = 0; i < src->n_ifaces; i++) {
		const struct cni_iface *from = &src->ifaces[i];
		struct cni_iface *to = cni_result_iface(&r, from->name, from->mac, from->sandbox);

		to->socket_path = str_dup(str_if_set(from->socket_path));
		to->pci_id = str_dup(str_if_set(from->pci_id));
		to->mtu = from->mtu;
		to->rdma = from->rdma;
	}
	for (size_t i = 0; i < src->n_ips; i++)
		cni_result_ip(&r, &src->ips[i]);
	for (size_t i = 0; i < src->n_routes; i++)
		cni_result_route(&r, &src->routes[i]);
	r.dns.domain = str_dup(str_if_set(src->dns.domain));
	copy_list(&r.dns.nameservers, &r.dns.n_nameservers, src->dns.nameservers,
		  src->dns.n_nameservers);
	copy_list(&r.dns.search, &r.dns.n_search, src->dns.search, src->dns.n_search);
	copy_list(&r.dns.options, &r.dns.n_options, src->dns.options, src->dns.n_options);
	*dst = r;
}

/*
 * Prints results. libcni prints 0.x from structs, in the order of their fields, and 1.x from a map,
 * in alphabetical order: so interfaces, ips, routes and dns each have one function for 0.x and one
 * for 1.x. "rdma" has the same order in both.
 */

static void put_uint(struct json_out *o, const char *key, uint32_t v)
{
	if (v)
		jo_kint(o, key, v);
}

static void put_ip(struct json_out *o, const char *key, const struct ipaddr *a)
{
	char text[IP_TEXT_MAX];

	if (a->family)
		jo_kstr(o, key, ip_str(a, text));
}

static void put_net(struct json_out *o, const char *key, const struct ipnet *n)
{
	char text[IP_TEXT_MAX];

	jo_kstr(o, key, ipnet_str(n, text));
}

static void put_list(struct json_out *o, const char *key, char *const *list, size_t n)
{
	if (n > 0)
		jo_kstrs(o, key, list, n);
}

static bool dns_is_empty(const struct cni_dns *d)
{
	return !d->n_nameservers && !d->n_search && !d->n_options && !(d->domain && *d->domain);
}

static void put_dns_0(struct json_out *o, const struct cni_dns *d)
{
	jo_key(o, "dns");
	jo_obj(o);
	put_list(o, "nameservers", d->nameservers, d->n_nameservers);
	jo_kstr_if_set(o, "domain", d->domain);
	put_list(o, "search", d->search, d->n_search);
	put_list(o, "options", d->options, d->n_options);
	jo_end_obj(o);
}

static void put_dns_1(struct json_out *o, const struct cni_dns *d)
{
	if (dns_is_empty(d))
		return;
	jo_key(o, "dns");
	jo_obj(o);
	jo_kstr_if_set(o, "domain", d->domain);
	put_list(o, "nameservers", d->nameservers, d->n_nameservers);
	put_list(o, "options", d->options, d->n_options);
	put_list(o, "search", d->search, d->n_search);
	jo_end_obj(o);
}

static void put_rdma(struct json_out *o, const struct cni_rdma *r)
{
	if (!*r->device)
		return;
	jo_key(o, "rdma");
	jo_obj(o);
	jo_kstr(o, "device", r->device);
	jo_kstr(o, "gid", r->gid);
	jo_kint(o, "gidIndex", r->gid_index);
	jo_kint(o, "port", r->port);
	jo_end_obj(o);
}

static void put_iface_0(struct json_out *o, const struct cni_iface *i)
{
	jo_kstr(o, "name", i->name ? i->name : "");
	jo_kstr_if_set(o, "mac", i->mac);
	jo_kstr_if_set(o, "sandbox", i->sandbox);
	put_rdma(o, &i->rdma);
}

static void put_iface_1(struct json_out *o, const struct cni_iface *i)
{
	jo_kstr_if_set(o, "mac", i->mac);
	put_uint(o, "mtu", i->mtu);
	jo_kstr(o, "name", i->name ? i->name : "");
	jo_kstr_if_set(o, "pciID", i->pci_id);
	put_rdma(o, &i->rdma);
	jo_kstr_if_set(o, "sandbox", i->sandbox);
	jo_kstr_if_set(o, "socketPath", i->socket_path);
}

static void put_ip_0(struct json_out *o, const struct cni_ip *ip)
{
	jo_kstr(o, "version", ip->address.ip.family == 4 ? "4" : "6");
	if (ip->iface >= 0)
		jo_kint(o, "interface", ip->iface);
	put_net(o, "address", &ip->address);
	put_ip(o, "gateway", &ip->gateway);
}

static void put_ip_1(struct json_out *o, const struct cni_ip *ip)
{
	put_net(o, "address", &ip->address);
	put_ip(o, "gateway", &ip->gateway);
	if (ip->iface >= 0)
		jo_kint(o, "interface", ip->iface);
}

static void put_route_0(struct json_out *o, const struct cni_route *r)
{
	put_net(o, "dst", &r->dst);
	put_ip(o, "gw", &r->gw);
	put_uint(o, "mtu", r->mtu);
	put_uint(o, "advmss", r->advmss);
	put_uint(o, "priority", r->priority);
	if (r->has_table)
		jo_kint(o, "table", r->table);
	if (r->has_scope)
		jo_kint(o, "scope", r->scope);
}

static void put_route_1(struct json_out *o, const struct cni_route *r)
{
	put_uint(o, "advmss", r->advmss);
	put_net(o, "dst", &r->dst);
	put_ip(o, "gw", &r->gw);
	put_uint(o, "mtu", r->mtu);
	put_uint(o, "priority", r->priority);
	if (r->has_scope)
		jo_kint(o, "scope", r->scope);
	if (r->has_table)
		jo_kint(o, "table", r->table);
}

/* Writes interfaces, ips and routes, which have this order in 0.x and 1.x; empty lists are
 * omitted. */
static void put_lists(struct json_out *o, const struct cni_result *r, bool one)
{
	if (r->n_ifaces) {
		jo_key(o, "interfaces");
		jo_arr(o);
		for (size_t i = 0; i < r->n_ifaces; i++) {
			jo_obj(o);
			(one ? put_iface_1 : put_iface_0)(o, &r->ifaces[i]);
			jo_end_obj(o);
		}
		jo_end_arr(o);
	}
	if (r->n_ips) {
		jo_key(o, "ips");
		jo_arr(o);
		for (size_t i = 0; i < r->n_ips; i++) {
			jo_obj(o);
			(one ? put_ip_1 : put_ip_0)(o, &r->ips[i]);
			jo_end_obj(o);
		}
		jo_end_arr(o);
	}
	if (r->n_routes) {
		jo_key(o, "routes");
		jo_arr(o);
		for (size_t i = 0; i < r->n_routes; i++) {
			jo_obj(o);
			(one ? put_route_1 : put_route_0)(o, &r->routes[i]);
			jo_end_obj(o);
		}
		jo_end_arr(o);
	}
}

static const struct cni_ip *first_of(const struct cni_result *r, uint8_t family)
{
	for (size_t i = 0; i < r->n_ips; i++)
		if (r->ips[i].address.ip.family == family)
			return &r->ips[i];
	return NULL;
}

/* Writes one family of a result of version 0.1.0 or 0.2.0: its first address, and the routes of the
 * family. */
static void put_family(struct json_out *o, const char *key, const struct cni_result *r,
		       uint8_t family)
{
	const struct cni_ip *ip = first_of(r, family);
	bool any = false;

	if (!ip)
		return;
	jo_key(o, key);
	jo_obj(o);
	put_net(o, "ip", &ip->address);
	put_ip(o, "gateway", &ip->gateway);
	for (size_t i = 0; i < r->n_routes; i++) {
		if (r->routes[i].dst.ip.family != family)
			continue;
		if (!any) {
			jo_key(o, "routes");
			jo_arr(o);
			any = true;
		}
		jo_obj(o);
		put_net(o, "dst", &r->routes[i].dst);
		put_ip(o, "gw", &r->routes[i].gw);
		jo_end_obj(o);
	}
	if (any)
		jo_end_arr(o);
	jo_end_obj(o);
}

void cni_result_relay(const struct cni_result *r, enum cni_version v, struct buf *b)
{
	struct json_out o;

	jo_init(&o, b, 4);
	jo_obj(&o);
	jo_kstr(&o, "cniVersion", cni_version_str(v));
	if (v >= CNI_1_0_0)
		put_dns_1(&o, &r->dns);
	if (v <= CNI_0_2_0) {
		put_family(&o, "ip4", r, 4);
		put_family(&o, "ip6", r, 6);
	} else {
		put_lists(&o, r, v >= CNI_1_0_0);
	}
	if (v < CNI_1_0_0)
		put_dns_0(&o, &r->dns);
	jo_end_obj(&o);
}

int cni_result_print(const struct cni_result *r, enum cni_version v, struct buf *b, struct err *e)
{
	if (v <= CNI_0_2_0 && !first_of(r, 4) && !first_of(r, 6))
		return err_kind(e, ERR_CONF, -EINVAL,
				ORIG("cannot convert: no valid IP addresses"));
	cni_result_relay(r, v, b);
	return 0;
}

struct ipaddr cni_result_gateway(const struct cni_result *r, int family)
{
	for (size_t i = 0; i < r->n_ips; i++)
		if (r->ips[i].gateway.family == family)
			return r->ips[i].gateway;
	return (struct ipaddr){0};
}

bool cni_iface_in_pod(const struct cni_iface *i)
{
	return i->sandbox && *i->sandbox;
}
