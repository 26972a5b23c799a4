/* SPDX-License-Identifier: Apache-2.0 */
/* The main plugin of each type, and ifacer before it. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/cleanup.h"
#include "controller/nad/nad_priv.h"

/* --- what several types have --- */

/* One level up, too: as manifests carry it. */
static const struct json *pools_of(const struct nad_ask *q)
{
	const struct json *v = json_get(q->block, "ippools");

	return v ? v : json_get(q->spec, "ippools");
}

static bool matches_master(const struct nad_ask *q)
{
	return nad_bool(json_get(pools_of(q), "matchMasterSubnet"), false) ||
	       nad_bool(json_get(q->block, "matchMasterSubnet"), false) ||
	       nad_bool(json_get(q->spec, "matchMasterSubnet"), false);
}

/* Types whose IPAM is told: the master is a PF, or the interface that the network is on. */
static bool knows_match(const char *type)
{
	return strcmp(type, "sriov") == 0 || strcmp(type, "macvlan") == 0 ||
	       strcmp(type, "ipvlan") == 0;
}

static void put_pools(struct json_out *o, const char *key, const struct json *names)
{
	if (json_len(names) == 0)
		return;
	jo_key(o, key);
	jo_val(o, names, false);
}

static void put_ipam(struct json_out *o, const struct nad_ask *q)
{
	const struct json *pools = pools_of(q);

	if (nad_bool(json_get(q->spec, "disableIPAM"), false))
		return;
	jo_key(o, "ipam");
	jo_obj(o);
	jo_kstr(o, "type", "spiderpool");
	put_pools(o, "default_ipv4_ippool", json_get(pools, "ipv4"));
	put_pools(o, "default_ipv6_ippool", json_get(pools, "ipv6"));
	if (knows_match(q->type) && matches_master(q))
		jo_kbool(o, "match_master_subnet", true);
	jo_end_obj(o);
}

static int64_t number(const struct nad_ask *q, const char *key)
{
	return nad_int(json_get(q->block, key), 0);
}

/* --- masters --- */

static size_t masters(const struct nad_ask *q)
{
	return json_len(json_get(q->block, "master"));
}

static const struct json *bond_of(const struct nad_ask *q)
{
	const struct json *bond = json_get(q->block, "bond");

	return json_kind(bond) == JSON_OBJECT ? bond : NULL;
}

static int check_masters(const struct nad_ask *q, struct err *e)
{
	if (masters(q) == 0)
		return err_kind(e, ERR_CONF, -EINVAL,
				"spec.%s.master is empty, wants the node's interface", q->type);
	if (masters(q) > 1 && !nad_text(json_get(bond_of(q), "name"), NULL))
		return err_kind(e, ERR_CONF, -EINVAL,
				"spec.%s.bond.name is missing: several masters are made one by a "
				"bond, which wants a name and a mode",
				q->type);
	return 0;
}

/* The interface that ifacer leaves to stand on. */
static void put_master(struct json_out *o, const struct nad_ask *q, int64_t vlan)
{
	const char *name = masters(q) == 1 ? nad_text(json_at(json_get(q->block, "master"), 0), "")
					   : nad_text(json_get(bond_of(q), "name"), "");
	auto_free char *tagged = xasprintf("%s.%lld", name, (long long)vlan);

	jo_kstr(o, "master", vlan ? tagged : name);
}

static void put_ifacer(struct json_out *o, const struct nad_ask *q, int64_t vlan)
{
	const struct json *bond = bond_of(q);

	jo_obj(o);
	if (vlan)
		jo_kint(o, "vlanID", vlan);
	jo_kstr(o, "type", "ifacer");
	jo_key(o, "interfaces");
	jo_val(o, json_get(q->block, "master"), false);
	if (bond) {
		jo_key(o, "bond");
		jo_obj(o);
		jo_kstr(o, "name", nad_text(json_get(bond, "name"), ""));
		jo_kint(o, "mode", nad_int(json_get(bond, "mode"), 0));
		jo_kstr(o, "options", nad_text(json_get(bond, "options"), ""));
		jo_end_obj(o);
	}
	jo_end_obj(o);
}

/* --- a function a type --- */

static int put_macvlan(struct json_out *o, const struct nad_ask *q, struct err *e)
{
	int64_t vlan = number(q, "vlanID");
	int r = check_masters(q, e);

	if (r < 0)
		return r;
	if (vlan || masters(q) > 1)
		put_ifacer(o, q, vlan);
	jo_obj(o);
	jo_kstr(o, "type", q->type);
	put_master(o, q, vlan);
	if (strcmp(q->type, "macvlan") == 0)
		jo_kstr(o, "mode", "bridge");
	jo_kint(o, "mtu", number(q, "mtu"));
	return 0;
}

/* The plugin tags by itself. */
static int put_vlan(struct json_out *o, const struct nad_ask *q, struct err *e)
{
	const char *mode = nad_text(json_get(q->block, "vlanMode"), "manual");
	int r = check_masters(q, e);

	if (r < 0)
		return r;
	if (masters(q) > 1)
		put_ifacer(o, q, 0);
	jo_obj(o);
	jo_kstr(o, "type", "vlan");
	put_master(o, q, 0);
	jo_kstr(o, "vlanMode", mode);
	if (strcmp(mode, "manual") == 0)
		jo_kint(o, "vlanId", number(q, "vlanID"));
	jo_kint(o, "mtu", number(q, "mtu"));
	return 0;
}

static int put_sriov(struct json_out *o, const struct nad_ask *q, struct err *e)
{
	(void)e;
	jo_obj(o);
	jo_kint(o, "vlan", number(q, "vlanID"));
	jo_kint(o, "min_tx_rate", number(q, "minTxRateMbps"));
	jo_kint(o, "max_tx_rate", number(q, "maxTxRateMbps"));
	jo_kstr(o, "type", "sriov");
	return 0;
}

/* A number where the definition has text is its digits. */
static int put_ib_sriov(struct json_out *o, const struct nad_ask *q, struct err *e)
{
	const struct json *pkey = json_get(q->block, "pkey");
	char digits[32] = "";
	int64_t n;

	(void)e;
	if (json_int(pkey, &n) == 0)
		snprintf(digits, sizeof(digits), "%lld", (long long)n);
	jo_obj(o);
	jo_kstr(o, "type", "ib-sriov");
	jo_kstr(o, "pkey", nad_text(pkey, digits));
	jo_kstr(o, "link_state", nad_text(json_get(q->block, "linkState"), "enable"));
	jo_kbool(o, "rdmaIsolation", nad_bool(json_get(q->block, "rdmaIsolation"), true));
	jo_kbool(o, "ibKubernetesEnabled",
		 nad_bool(json_get(q->block, "enableIbKubernetes"), false));
	return 0;
}

static int put_ipoib(struct json_out *o, const struct nad_ask *q, struct err *e)
{
	const char *master = nad_text(json_get(q->block, "master"), NULL);

	if (!master)
		return err_kind(e, ERR_CONF, -EINVAL,
				"spec.ipoib.master is empty, wants the node's interface");
	jo_obj(o);
	jo_kstr(o, "type", "ipoib");
	jo_kstr(o, "master", master);
	return 0;
}

static void put_trunk(struct json_out *o, const struct json *trunk)
{
	static const char *const keys[] = {"minID", "maxID", "id"};
	struct json_walk w = json_walk_start(trunk);
	const struct json *v;
	int64_t n;

	if (json_len(trunk) == 0)
		return;
	jo_key(o, "trunk");
	jo_arr(o);
	while ((v = json_walk_next(&w, NULL))) {
		jo_obj(o);
		for (size_t i = 0; i < ARRAY_LEN(keys); i++)
			if (json_int(json_get(v, keys[i]), &n) == 0)
				jo_kint(o, keys[i], n);
		jo_end_obj(o);
	}
	jo_end_arr(o);
}

static int put_ovs(struct json_out *o, const struct nad_ask *q, struct err *e)
{
	const char *bridge = nad_text(json_get(q->block, "bridge"), NULL);
	const char *device = nad_text(json_get(q->block, "deviceID"), NULL);

	if (!bridge)
		return err_kind(e, ERR_CONF, -EINVAL,
				"spec.ovs.bridge is empty, wants the node's bridge");
	jo_obj(o);
	jo_kint(o, "vlan", number(q, "vlan"));
	jo_kstr(o, "type", "ovs");
	jo_kstr(o, "bridge", bridge);
	if (device)
		jo_kstr(o, "deviceID", device);
	return 0;
}

static const struct kind {
	const char *type, *block;
	int (*put)(struct json_out *o, const struct nad_ask *q, struct err *e); /* up to ipam */
} kinds[] = {
	{"macvlan", "macvlan", put_macvlan},
	{"ipvlan", "ipvlan", put_macvlan},
	{"vlan", "vlan", put_vlan},
	{"sriov", "sriov", put_sriov},
	{"ib-sriov", "ibsriov", put_ib_sriov},
	{"ipoib", "ipoib", put_ipoib},
	{"ovs", "ovs", put_ovs},
};

static const struct kind *kind_of(const char *type)
{
	for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
		if (strcmp(kinds[i].type, type) == 0)
			return &kinds[i];
	return NULL;
}

const char *nad_block(const char *type)
{
	const struct kind *k = kind_of(type);

	return k ? k->block : NULL;
}

int nad_put_main(struct json_out *o, const struct nad_ask *q, struct err *e)
{
	int r = kind_of(q->type)->put(o, q, e);

	if (r < 0)
		return r;
	put_ipam(o, q);
	if (strcmp(q->type, "ovs") == 0)
		put_trunk(o, json_get(q->block, "trunk"));
	jo_end_obj(o);
	return 0;
}
