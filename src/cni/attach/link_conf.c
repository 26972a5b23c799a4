/* SPDX-License-Identifier: Apache-2.0 */
/* Netconf fields that drivers share: ipam and dns (all drivers), and master, mtu and
 * linkInContainer (drivers that create links). */
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>

#include "cni/attach/rail.h"

struct raw_dns {
	const char *domain;
	struct json_strs nameservers, search, options;
};

static const struct json_field dns_fields[] = {
	JSON_FIELD("domain", J_STR, struct raw_dns, domain, JSON_DOC(NULL, "local domain")),
	JSON_FIELD("nameservers", J_STRS, struct raw_dns, nameservers,
		   JSON_DOC(NULL, "addresses of name servers")),
	JSON_FIELD("search", J_STRS, struct raw_dns, search, JSON_DOC(NULL, "search domains")),
	JSON_FIELD("options", J_STRS, struct raw_dns, options,
		   JSON_DOC(NULL, "options of resolv.conf")),
	{0},
};
static const struct json_table dns_table = {dns_fields, JSON_GO, sizeof(struct raw_dns)};

struct raw_common {
	const struct json *ipam, *dns;
};

static const struct json_field common_fields[] = {
	JSON_FIELD("ipam", J_VAL, struct raw_common, ipam,
		   JSON_DOC(NULL,
			    "the IPAM plugin, by type, and its keys; without a type the interface "
			    "gets no address (but ipvlan, if another plugin runs before it in the "
			    "chain, takes the addresses of prevResult)")),
	JSON_FIELD("dns", J_VAL, struct raw_common, dns, .sub = &dns_table,
		   JSON_DOC(NULL, "nameservers, domain, search and options for the result")),
	{0},
};
const struct json_table rail_common_table = {common_fields, JSON_GO, sizeof(struct raw_common)};

struct raw_made {
	const char *master;
	int64_t mtu;
	bool in_container;
};

static const struct json_field made_fields[] = {
	JSON_FIELD(
		"master", J_STR, struct raw_made, master,
		JSON_DOC(NULL,
			 "the parent device; if absent, macvlan and ipvlan take the device of the "
			 "default route (ipvlan after another plugin in the chain: the interface "
			 "of prevResult)")),
	JSON_FIELD("mtu", J_INT, struct raw_made, mtu,
		   JSON_DOC("0", "MTU, at most that of the master (not checked for ipvlan); 0: "
				 "the MTU of the master")),
	JSON_FIELD("linkInContainer", J_BOOL, struct raw_made, in_container,
		   JSON_DOC("false", "the master is in the pod's network namespace")),
	{0},
};
const struct json_table rail_made_table = {made_fields, JSON_GO, sizeof(struct raw_made)};

int rail_read_own(const struct rail_source *s, const struct json_table *t, void *into,
		  struct err *e)
{
	int r = s->defaults ? json_read(s->doc, s->defaults, t, into, "conf.defaults", e) : 0;

	return r < 0 ? r : json_read(s->doc, s->conf, t, into, "conf", e);
}

int rail_read_common(const struct rail_source *s, struct rail_conf *ret, struct err *e)
{
	struct raw_common raw = {0};
	int r = rail_read_own(s, &rail_common_table, &raw, e);

	if (r < 0)
		return r;
	ret->ipam = raw.ipam;
	ret->dns = raw.dns;
	return 0;
}

int rail_read_made(const struct rail_source *s, struct rail_conf *ret, struct err *e)
{
	struct raw_made raw = {0};
	int r = rail_read_common(s, ret, e);

	if (r >= 0)
		r = rail_read_own(s, &rail_made_table, &raw, e);
	if (r < 0)
		return r;
	/* The upper limit is the MTU of the master, which is not known yet. */
	if (raw.mtu < 0 || raw.mtu > INT32_MAX)
		return err_kind(e, ERR_CONF, -EINVAL,
				"invalid MTU %lld, must be [0, master MTU] (conf.mtu)",
				(long long)raw.mtu);
	ret->master = raw.master && *raw.master ? raw.master : NULL;
	ret->mtu = (uint32_t)raw.mtu;
	ret->in_container = raw.in_container;
	return 0;
}

int rail_mtu_fits(const struct rail_conf *c, const struct link *master, struct err *e)
{
	if (c->mtu > master->mtu)
		return err_kind(
			e, ERR_CONF, -EINVAL,
			"invalid MTU %u, must be [0, master MTU(%u)] (conf.mtu; master is '%s')",
			c->mtu, master->mtu, master->name);
	return 0;
}

static void copy_strs(const struct json_strs *from, char ***to, size_t *n)
{
	for (size_t i = 0; i < from->n; i++)
		VEC_PUSH(*to, *n) = xstrdup(from->v[i]);
}

int cni_dns_read(struct json_doc *d, const struct json *dns, struct cni_dns *ret, struct err *e)
{
	struct raw_dns raw = {0};
	int r;

	if (json_kind(dns) == JSON_NULL)
		return 0;
	r = json_read(d, dns, &dns_table, &raw, "conf.dns", e);
	if (r < 0)
		return r;
	if (raw.domain && *raw.domain)
		ret->domain = xstrdup(raw.domain);
	copy_strs(&raw.nameservers, &ret->nameservers, &ret->n_nameservers);
	copy_strs(&raw.search, &ret->search, &ret->n_search);
	copy_strs(&raw.options, &ret->options, &ret->n_options);
	return 0;
}
