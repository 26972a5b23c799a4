/* SPDX-License-Identifier: Apache-2.0 */
/* The one block of a SpiderMultusConfig that its cniType has. */
#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/num.h"
#include "controller/admission/admit_priv.h"

enum {
	VLAN_MAX = 4094,
	BOND_MODE_MAX = 6,
	IFNAME_MAX = 15,
	PKEY_MAX = 0xffff,
	FULL_MEMBER = 0x8000
};

/* One block on its way. */
struct block {
	struct admit *a;
	const char *type, *name;
	const struct json *v;
};

static const struct json *get(const struct block *b, const char *key)
{
	return json_get(b->v, key);
}

/* Absent is 0. */
static int check_int(const struct block *b, const char *key, int64_t min, int64_t max, int64_t *ret)
{
	*ret = 0;
	if (json_kind(get(b, key)) == JSON_NULL)
		return 0;
	if (json_int(get(b, key), ret) < 0)
		return admit_refuse(b->a, ADMIT_INVALID, "spec.%s.%s: is %s, wants a whole number",
				    b->name, key, json_kind_name(get(b, key)));
	if (*ret < min || *ret > max)
		return admit_refuse(b->a, ADMIT_INVALID,
				    "spec.%s.%s: is %" PRId64 ", wants %" PRId64 " to %" PRId64,
				    b->name, key, *ret, min, max);
	return 0;
}

static int check_vlan(const struct block *b, const char *key)
{
	int64_t n = 0;

	json_int(get(b, key), &n);
	if (n < 0 || n > VLAN_MAX)
		return admit_refuse(b->a, ADMIT_INVALID,
				    "spec.%s.%s: invalid vlanId %" PRId64
				    ", please make sure vlanId in range [0,4094]",
				    b->name, key, n);
	return check_int(b, key, 0, VLAN_MAX, &n);
}

static int check_mode(const struct block *b)
{
	const char *mode = admit_text(get(b, "vlanMode"));
	int64_t n = 0;

	if (*mode && strcmp(mode, "manual") != 0 && strcmp(mode, "auto") != 0)
		return admit_refuse(
			b->a, ADMIT_NOT_SUPPORTED,
			"spec.vlan.vlanMode: '%.60s' is not known, wants manual or auto", mode);
	if (strcmp(mode, "auto") == 0 && json_kind(get(b, "vlanID")) != JSON_NULL)
		return admit_refuse(b->a, ADMIT_FORBIDDEN,
				    "spec.vlan.vlanID: is not for vlanMode auto, which finds it "
				    "out: take one of the two out");
	if (strcmp(mode, "auto") != 0 && json_int(get(b, "vlanID"), &n) < 0)
		return admit_refuse(b->a, ADMIT_REQUIRED,
				    "spec.vlan.vlanID: is missing: vlanMode manual wants it");
	return 0;
}

static int check_match(const struct block *b)
{
	if (!json_bool(json_get(get(b, "ippools"), "matchMasterSubnet")))
		return 0;
	return admit_refuse(
		b->a, ADMIT_INVALID,
		"spec.%s.ippools.matchMasterSubnet: MatchMasterSubnet feature is not "
		"supported for %s: take it out, or use cniType sriov, macvlan or ipvlan",
		b->name, b->type);
}

/* --- masters --- */

static int check_bond(const struct block *b, size_t n_masters)
{
	const struct json *bond = get(b, "bond");
	const char *name = admit_text(json_get(bond, "name"));
	int64_t mode = 0;

	if (n_masters < 2) {
		if (json_kind(bond) != JSON_NULL)
			admit_warn(b->a, "spec.%s.bond is not used: there is one master", b->name);
		return 0;
	}
	if (json_kind(bond) == JSON_NULL)
		return admit_refuse(b->a, ADMIT_REQUIRED,
				    "spec.%s.bond: is missing: %zu masters want a bond with name "
				    "and mode, such as {name: bond0, mode: 1}",
				    b->name, n_masters);
	if (!*name || strlen(name) > IFNAME_MAX)
		return admit_refuse(
			b->a, ADMIT_INVALID,
			"spec.%s.bond.name: '%.60s' is no name of a bond: wants 1 to 15 "
			"characters, such as bond0",
			b->name, name);
	if (json_int(json_get(bond, "mode"), &mode) < 0 || mode < 0 || mode > BOND_MODE_MAX)
		return admit_refuse(b->a, ADMIT_INVALID,
				    "spec.%s.bond.mode: wants 0 to 6 (1 is active-backup, 4 is "
				    "802.3ad)",
				    b->name);
	return 0;
}

static int check_masters(const struct block *b)
{
	const struct json *list = get(b, "master"), *v;
	struct json_walk w = json_walk_start(list);

	if (json_len(list) == 0)
		return admit_refuse(b->a, ADMIT_REQUIRED,
				    "spec.%s.master: master can't be empty: give the node's "
				    "interface, such as [eth0]",
				    b->name);
	for (size_t i = 0; (v = json_walk_next(&w, NULL)); i++)
		if (!*admit_text(v) || strlen(admit_text(v)) > IFNAME_MAX ||
		    strpbrk(admit_text(v), "/ \t"))
			return admit_refuse(b->a, ADMIT_INVALID,
					    "spec.%s.master[%zu]: '%.60s' is no name of an "
					    "interface",
					    b->name, i, admit_text(v));
	return check_bond(b, json_len(list));
}

/* macvlan, ipvlan, vlan */
static int check_on_master(const struct block *b)
{
	int64_t mtu;
	bool vlan = strcmp(b->name, "vlan") == 0;
	int r = vlan ? check_mode(b) : 0;

	if (r == 0)
		r = check_vlan(b, "vlanID");
	if (r == 0)
		r = check_int(b, "mtu", 0, INT32_MAX, &mtu);
	if (r == 0 && vlan)
		r = check_match(b);
	return r == 0 ? check_masters(b) : r;
}

/* --- devices --- */

static int check_resource(const struct block *b)
{
	if (*admit_text(get(b, "resourceName")))
		return 0;
	return admit_refuse(b->a, ADMIT_REQUIRED,
			    "spec.%s.resourceName: is empty: give the device plugin's resource, "
			    "such as 'spidernet.io/sriov_netdevice'",
			    b->name);
}

static int check_sriov(const struct block *b)
{
	int64_t mtu, least, most;
	int r = check_vlan(b, "vlanID");

	if (r == 0)
		r = check_int(b, "mtu", 0, INT32_MAX, &mtu);
	if (r == 0)
		r = check_int(b, "minTxRateMbps", 0, INT32_MAX, &least);
	if (r == 0)
		r = check_int(b, "maxTxRateMbps", 0, INT32_MAX, &most);
	if (r < 0)
		return r;
	/* 0 is no limit. */
	if (most > 0 && least > most)
		return admit_refuse(b->a, ADMIT_INVALID,
				    "spec.sriov.minTxRateMbps: %" PRId64
				    " is more than maxTxRateMbps %" PRId64,
				    least, most);
	return check_resource(b);
}

static int check_pkey(const struct block *b)
{
	const char *text = admit_text(get(b, "pkey"));
	uint64_t n = 0;
	bool hex = strncmp(text, "0x", 2) == 0 || strncmp(text, "0X", 2) == 0;
	int r = hex ? num_hex(span_of(text), PKEY_MAX, &n)
		    : num_u64(span_of(text), 0, PKEY_MAX, &n);

	if (!*text || (r == 0 && n > 0 && n != FULL_MEMBER))
		return 0;
	return admit_refuse(b->a, ADMIT_INVALID,
			    "spec.ibsriov.pkey: '%.60s' is no partition key: wants 0x0001 to "
			    "0x7fff, with or without the membership bit 0x8000",
			    text);
}

static int check_ibsriov(const struct block *b)
{
	const char *state = admit_text(get(b, "linkState"));
	int r = check_resource(b);

	if (r == 0 && *state && strcmp(state, "auto") && strcmp(state, "enable") &&
	    strcmp(state, "disable"))
		return admit_refuse(b->a, ADMIT_NOT_SUPPORTED,
				    "spec.ibsriov.linkState: '%.60s' is not known, wants auto, "
				    "enable or disable",
				    state);
	return r == 0 ? check_pkey(b) : r;
}

static int check_ipoib(const struct block *b)
{
	if (*admit_text(get(b, "master")))
		return 0;
	return admit_refuse(b->a, ADMIT_REQUIRED,
			    "spec.ipoib.master: is empty: give the node's interface, such as ib0");
}

/* --- ovs --- */

static int check_trunk(const struct block *b, const struct json *v, size_t i)
{
	static const char *const keys[] = {"minID", "maxID", "id"};
	int64_t n[3] = {0, 0, 0};

	for (size_t k = 0; k < 3; k++)
		if (json_int(json_get(v, keys[k]), &n[k]) == 0 && (n[k] < 0 || n[k] > VLAN_MAX))
			return admit_refuse(b->a, ADMIT_INVALID,
					    "spec.ovs.trunk[%zu].%s: is %" PRId64
					    ", wants 0 to 4094",
					    i, keys[k], n[k]);
	if (!json_get(v, "minID") != !json_get(v, "maxID"))
		return admit_refuse(b->a, ADMIT_REQUIRED,
				    "spec.ovs.trunk[%zu].%s: is missing: a range of VLANs has both "
				    "minID and maxID",
				    i, json_get(v, "minID") ? "maxID" : "minID");
	if (n[1] < n[0])
		return admit_refuse(b->a, ADMIT_INVALID,
				    "spec.ovs.trunk[%zu].maxID: %" PRId64 " is less than minID "
				    "%" PRId64,
				    i, n[1], n[0]);
	return 0;
}

static int check_ovs(const struct block *b)
{
	struct json_walk w = json_walk_start(get(b, "trunk"));
	const struct json *v;
	int r = check_vlan(b, "vlan");

	if (r == 0 && !*admit_text(get(b, "bridge")))
		return admit_refuse(b->a, ADMIT_REQUIRED,
				    "spec.ovs.bridge: is empty: give the bridge, such as br0");
	for (size_t i = 0; r == 0 && (v = json_walk_next(&w, NULL)); i++)
		r = check_trunk(b, v, i);
	return r;
}

int admit_check_block(struct admit *a, const char *type, const char *name, const struct json *spec)
{
	static const struct {
		const char *name;
		int (*check)(const struct block *b);
	} checks[] = {
		{"macvlan", check_on_master}, {"ipvlan", check_on_master},
		{"vlan", check_on_master},    {"sriov", check_sriov},
		{"ibsriov", check_ibsriov},   {"ipoib", check_ipoib},
		{"ovs", check_ovs},
	};
	const struct block b = {a, type, name, json_get(spec, name)};

	for (size_t i = 0; i < ARRAY_LEN(checks); i++)
		if (strcmp(checks[i].name, name) == 0)
			return checks[i].check(&b);
	return 0;
}
