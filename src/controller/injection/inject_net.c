/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "controller/injection/inject_priv.h"

/* Where the kinds of networks say what they need; a kind that is not here cannot be injected. */
static const struct kind {
	const char *type, *block, *resource;
	enum { BY_MASTER, BY_RESOURCE, BY_NAME } by;
	bool takes;
} kinds[] = {
	{"macvlan", "macvlan", "rdmaResourceName", BY_MASTER, false},
	{"ipvlan", "ipvlan", "rdmaResourceName", BY_MASTER, false},
	{"vlan", "vlan", "rdmaResourceName", BY_MASTER, false},
	{"sriov", "sriov", "resourceName", BY_RESOURCE, true},
	{"ib-sriov", "ibsriov", "resourceName", BY_NAME, true},
	{"ipoib", "ipoib", NULL, BY_NAME, false},
};

static const char *const keys[INJECT_KEYS] = {"cni.spidernet.io/rdma-resource-inject",
					      "cni.spidernet.io/network-resource-inject"};

const char *inject_key_name(enum inject_key key)
{
	return keys[key];
}

static const struct kind *kind_of(const char *type)
{
	for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
		if (!strcmp(kinds[i].type, type))
			return &kinds[i];
	return NULL;
}

static char *dup_string(const struct json *v)
{
	const char *s = json_string(v);

	return s && *s ? xstrdup(s) : NULL;
}

/* Of several netdevs it is on their bond. */
static char *master_of(const struct json *block)
{
	const struct json *masters = json_get(block, "master");
	char *bond = dup_string(json_get(json_get(block, "bond"), "name"));
	char *first = dup_string(json_at(masters, 0));

	if (json_len(masters) < 2 || !bond) {
		free(bond);
		return first;
	}
	free(first);
	return bond;
}

static char *rail_of(const struct kind *k, const struct json *block)
{
	char *rail = NULL;

	if (k && k->by == BY_MASTER)
		rail = master_of(block);
	else if (k && k->by == BY_RESOURCE)
		rail = dup_string(json_get(block, k->resource));
	return rail ? rail : xstrdup("");
}

static bool has_pools(const struct json *spec, const struct json *block)
{
	const struct json *pools = json_get(block, "ippools");

	return json_bool(json_get(spec, "disableIPAM")) || json_len(json_get(pools, "ipv4")) > 0 ||
	       json_len(json_get(pools, "ipv6")) > 0;
}

static char *or_empty(char *s)
{
	return s ? s : xstrdup("");
}

void inject_net_read(const struct json *smc, struct inject_net *ret)
{
	const struct json *meta = json_get(smc, "metadata"), *spec = json_get(smc, "spec");
	const struct json *annotations = json_get(meta, "annotations"), *block;
	const char *type = json_string(json_get(spec, "cniType"));
	const struct kind *k = kind_of(type ? type : "custom");

	block = k ? json_get(spec, k->block) : NULL;
	*ret = (struct inject_net){
		.ns = or_empty(dup_string(json_get(meta, "namespace"))),
		.name = or_empty(dup_string(json_get(meta, "name"))),
		.nad = dup_string(json_get(annotations, "multus.spidernet.io/cr-name")),
		.type = xstrdup(type ? type : "custom"),
		.rail = rail_of(k, block),
		.resource = k && k->resource ? dup_string(json_get(block, k->resource)) : NULL,
		.takes = k && k->takes,
		.pools = has_pools(spec, block),
	};
	if (!ret->nad)
		ret->nad = xstrdup(ret->name);
	for (size_t i = 0; i < INJECT_KEYS; i++)
		ret->group[i] = dup_string(json_get(annotations, keys[i]));
}

void inject_net_done(struct inject_net *n)
{
	free(n->ns);
	free(n->name);
	free(n->nad);
	free(n->type);
	free(n->rail);
	free(n->resource);
	for (size_t i = 0; i < INJECT_KEYS; i++)
		free(n->group[i]);
	*n = (struct inject_net){0};
}
