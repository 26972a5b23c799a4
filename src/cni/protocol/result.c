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

/* Absent and empty are the same on the wire. */
static char *text_or_null(const char *s)
{
	return s && *s ? xstrdup(s) : NULL;
}

struct cni_iface *cni_result_iface(struct cni_result *r, const char *name, const char *mac,
				   const char *sandbox)
{
	struct cni_iface *i = &VEC_PUSH(r->ifaces, r->n_ifaces);

	i->name = xstrdup(name ? name : "");
	i->mac = text_or_null(mac);
	i->sandbox = text_or_null(sandbox);
	return i;
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

		to->socket_path = text_or_null(from->socket_path);
		to->pci_id = text_or_null(from->pci_id);
		to->mtu = from->mtu;
		to->rdma = from->rdma;
	}
	for (size_t i = 0; i < src->n_ips; i++)
		cni_result_ip(&r, &src->ips[i]);
	for (size_t i = 0; i < src->n_routes; i++)
		cni_result_route(&r, &src->routes[i]);
	r.dns.domain = text_or_null(src->dns.domain);
	copy_list(&r.dns.nameservers, &r.dns.n_nameservers, src->dns.nameservers,
		  src->dns.n_nameservers);
	copy_list(&r.dns.search, &r.dns.n_search, src->dns.search, src->dns.n_search);
	copy_list(&r.dns.options, &r.dns.n_options, src->dns.options, src->dns.n_options);
	*dst = r;
}
