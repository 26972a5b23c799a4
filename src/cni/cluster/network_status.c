/* SPDX-License-Identifier: Apache-2.0 */
#include "cni/cluster/network_status.h"

#include <string.h>

#include "base/alloc.h"

/* One object of the annotation's list. */
struct entry {
	const struct net_status *net;
	const struct cni_iface *iface; /* NULL: the result has no interface in the pod */
	size_t index;
	bool is_default, all_ips, last;
};

/* Returns whether the object lists the address `ip`: an address of the object's interface, in
 * the last object also an address without an interface, with all_ips every address. */
static bool has_ip(const struct entry *t, const struct cni_ip *ip)
{
	if (t->all_ips)
		return true;
	return ip->iface < 0 ? t->last : (size_t)ip->iface == t->index;
}

static void put_list(struct json_out *o, const char *key, char *const *v, size_t n)
{
	if (n > 0)
		jo_kstrs(o, key, v, n);
}

static void put_ips(struct json_out *o, const struct entry *t)
{
	const struct cni_result *r = t->net->result;
	bool open = false;

	for (size_t i = 0; i < r->n_ips; i++) {
		if (!has_ip(t, &r->ips[i]))
			continue;
		if (!open) {
			jo_key(o, "ips");
			jo_arr(o);
			open = true;
		}
		jo_str(o, ip_str(&r->ips[i].address.ip, (char[IP_TEXT_MAX]){0}));
	}
	if (open)
		jo_end_arr(o);
}

static void put_dns(struct json_out *o, const struct cni_dns *d)
{
	jo_key(o, "dns");
	jo_obj(o);
	put_list(o, "nameservers", d->nameservers, d->n_nameservers);
	if (d->domain && *d->domain)
		jo_kstr(o, "domain", d->domain);
	put_list(o, "search", d->search, d->n_search);
	put_list(o, "options", d->options, d->n_options);
	jo_end_obj(o);
}

static void put_text(struct json_out *o, const struct json *from, const char *key)
{
	const char *text = json_string(json_get_go(from, key));

	if (text && *text)
		jo_kstr(o, key, text);
}

static void put_part(struct json_out *o, const struct json *device, const char *part,
		     const char *const *keys)
{
	const struct json *from = json_get_go(device, part);

	if (json_kind(from) != JSON_OBJECT)
		return;
	jo_key(o, part);
	jo_obj(o);
	for (; *keys; keys++)
		put_text(o, from, *keys);
	jo_end_obj(o);
}

/* Writes the keys of Multus' Go type, in the order of that type; other keys of the file are left
 * out. */
static void put_device(struct json_out *o, const struct json *device)
{
	static const char *const pci[] = {"pci-address",    "vhost-net",	  "rdma-device",
					  "pf-pci-address", "representor-device", NULL};
	static const char *const vdpa[] = {
		"parent-device",      "driver", "path", "pci-address", "pf-pci-address",
		"representor-device", NULL};
	static const char *const vhost[] = {"mode", "path", NULL};
	static const char *const memif[] = {"role", "path", "mode", NULL};

	if (json_kind(device) != JSON_OBJECT)
		return;
	jo_key(o, "device-info");
	jo_obj(o);
	put_text(o, device, "type");
	put_text(o, device, "version");
	put_part(o, device, "pci", pci);
	put_part(o, device, "vdpa", vdpa);
	put_part(o, device, "vhost-user", vhost);
	put_part(o, device, "memif", memif);
	jo_end_obj(o);
}

static void put_gateways(struct json_out *o, const struct cni_result *r)
{
	bool open = false;

	for (size_t i = 0; i < r->n_routes; i++) {
		const struct cni_route *rt = &r->routes[i];
		char text[IP_TEXT_MAX];

		if (!ip_is_unspecified(&rt->dst.ip))
			continue;
		if (!open) {
			jo_key(o, "gateway");
			jo_arr(o);
			open = true;
		}
		jo_str(o, rt->gw.family ? ip_str(&rt->gw, text) : "<nil>");
	}
	if (open)
		jo_end_arr(o);
}

static void put_entry(const struct entry *t, struct buf *b)
{
	const struct cni_iface *f = t->iface;
	struct json_out o;

	buf_str(b, b->len > 1 ? "," : "");
	jo_init(&o, b, 4);
	jo_obj(&o);
	jo_kstr(&o, "name", t->net->name);
	if (f && *f->name)
		jo_kstr(&o, "interface", f->name);
	put_ips(&o, t);
	if (f && f->mac && *f->mac)
		jo_kstr(&o, "mac", f->mac);
	if (f && f->mtu && t->net->version >= CNI_1_0_0)
		jo_kint(&o, "mtu", f->mtu);
	if (t->is_default)
		jo_kbool(&o, "default", true);
	put_dns(&o, &t->net->result->dns);
	put_device(&o, t->net->device);
	put_gateways(&o, t->net->result);
	jo_end_obj(&o);
}

/* Returns the interface of the first address that has an interface and a gateway; -1: none. */
static int gateway_iface(const struct cni_result *r)
{
	for (size_t i = 0; i < r->n_ips; i++)
		if (r->ips[i].gateway.family && r->ips[i].iface >= 0)
			return r->ips[i].iface;
	return -1;
}

static void put_several(const struct net_status *v, struct buf *b)
{
	const struct cni_result *r = v->result;
	int chosen = v->is_default ? gateway_iface(r) : -1;
	size_t first = r->n_ifaces, last = r->n_ifaces;

	for (size_t i = 0; i < r->n_ifaces; i++) {
		if (!cni_iface_in_pod(&r->ifaces[i]))
			continue;
		first = first < r->n_ifaces ? first : i;
		last = i;
	}
	for (size_t i = 0; i < r->n_ifaces; i++) {
		struct entry t = {v, &r->ifaces[i], i, false, false, i == last};

		if (!cni_iface_in_pod(&r->ifaces[i]))
			continue;
		t.is_default = v->is_default && (chosen < 0 ? i == first : i == (size_t)chosen);
		put_entry(&t, b);
	}
}

static void put_network(const struct net_status *v, struct buf *b)
{
	const struct cni_result *r = v->result;

	if (r->n_ifaces == 1)
		put_entry(&(struct entry){v, cni_iface_in_pod(r->ifaces) ? r->ifaces : NULL, 0,
					  v->is_default, true, true},
			  b);
	else
		put_several(v, b);
}

void net_status_write(const struct net_status *v, size_t n, struct buf *b)
{
	auto_buf struct buf list;

	buf_init(&list, b->max);
	buf_char(&list, '[');
	for (size_t i = 0; i < n; i++)
		put_network(&v[i], &list);
	buf_char(&list, ']');
	buf_add(b, list.p, list.len);
	b->over |= list.over;
}

static const char *ifname_of(const struct cni_result *r)
{
	const char *name = "";

	for (size_t i = 0; i < r->n_ifaces; i++)
		if (cni_iface_in_pod(&r->ifaces[i]))
			name = r->ifaces[i].name;
	return name;
}

void network_status_describe(const struct net_status *v, size_t n, struct buf *b)
{
	for (size_t i = 0; i < n; i++) {
		const struct cni_result *r = v[i].result;

		buf_printf(b, "%s%s [", i ? ", " : "Add ", ifname_of(r));
		for (size_t k = 0; k < r->n_ips; k++)
			buf_printf(b, "%s%s", k ? " " : "",
				   ipnet_str(&r->ips[k].address, (char[IP_TEXT_MAX]){0}));
		buf_printf(b, "] from %s", v[i].name);
	}
}
