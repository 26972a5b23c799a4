/* SPDX-License-Identifier: Apache-2.0 */
/* ib-sriov's netconf. */
#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "cni/attach/rail.h"
#include "cni/device/vf_conf.h"

struct runtime_conf {
	const char *device_id, *guid;
};

struct args {
	const struct json *cni;
};

struct raw {
	const char *device_id, *pkey, *link_state, *pool;
	bool isolation, ib_kubernetes, vfio;
	struct runtime_conf runtime;
	struct args args;
};

#define STR(key, member)                                                                           \
	{                                                                                          \
		.name = key, .type = J_STR, .offset = offsetof(struct raw, member)                 \
	}
#define BOOL(key, member)                                                                          \
	{                                                                                          \
		.name = key, .type = J_BOOL, .offset = offsetof(struct raw, member)                \
	}

static const struct json_field runtime_fields[] = {
	{.name = "deviceID", .type = J_STR, .offset = offsetof(struct runtime_conf, device_id)},
	{.name = "infinibandGUID", .type = J_STR, .offset = offsetof(struct runtime_conf, guid)},
	{0},
};
static const struct json_table runtime_table = {runtime_fields, JSON_GO,
						sizeof(struct runtime_conf)};
static const struct json_field args_fields[] = {
	{.name = "cni", .type = J_VAL, .offset = offsetof(struct args, cni)},
	{0},
};
static const struct json_table args_table = {args_fields, JSON_GO, sizeof(struct args)};

static const struct json_field fields[] = {
	STR("deviceID", device_id),
	STR("pkey", pkey),
	STR("link_state", link_state),
	STR("guidPool", pool),
	BOOL("rdmaIsolation", isolation),
	BOOL("ibKubernetesEnabled", ib_kubernetes),
	BOOL("vfioPciMode", vfio),
	{.name = "runtimeConfig",
	 .type = J_OBJ,
	 .offset = offsetof(struct raw, runtime),
	 .sub = &runtime_table},
	{.name = "args", .type = J_OBJ, .offset = offsetof(struct raw, args), .sub = &args_table},
	{0},
};
static const struct json_table table = {fields, JSON_GO, sizeof(struct raw)};

static int read_guid(const char *text, const char *place, uint64_t *ret, struct err *e)
{
	if (vf_guid_parse(span_of(text), ret) == 0 && ib_guid_valid(*ret))
		return 0;
	return err_kind(e, ERR_CONF, -EINVAL,
			"invalid guid %s (%s wants one such as 02:00:5e:10:00:00:00:01, neither "
			"all zero nor all ff)",
			text, place);
}

static int pick_guid(struct ib_sriov_conf *c, struct err *e)
{
	if (c->runtime_guid)
		return read_guid(c->runtime_guid, "conf.runtimeConfig.infinibandGUID", &c->guid, e);
	return c->args_guid ? read_guid(c->args_guid, "conf.args.cni.guid", &c->guid, e) : 0;
}

static int check_ib_kubernetes(const struct ib_sriov_conf *c, struct err *e)
{
	const char *state = json_string(json_get(c->args_cni, "mellanox.infiniband.app"));

	if (!c->ib_kubernetes)
		return 0;
	if (!state || strcmp(state, "configured") != 0)
		return err_kind(e, ERR_AGAIN, -EAGAIN,
				"infiniBand SRIOV-CNI failed, InfiniBand status "
				"\"mellanox.infiniband.app\" is not \"configured\" please check "
				"mellanox ib-kubernetes");
	if (!c->guid && !c->vfio)
		return err_kind(e, ERR_CONF, -EINVAL,
				"infiniband SRIOV-CNI failed, Unexpected error. GUID must be "
				"provided by ib-kubernetes (conf.runtimeConfig.infinibandGUID)");
	return 0;
}

static int check_ipam(const struct rail_conf *c, struct err *e)
{
	const char *type = json_string(json_get_go(c->ipam, "type"));

	if (!type || strcmp(type, "dhcp") != 0)
		return 0;
	return err_kind(e, ERR_UNSUPPORTED, -EOPNOTSUPP,
			"ipam type dhcp is not supported (conf.ipam.type)");
}

static int take_all(const struct raw *raw, struct rail_conf *ret, struct err *e)
{
	struct ib_sriov_conf *c = &ret->ib_sriov;
	const char *id = vf_conf_given(raw->device_id) ? raw->device_id
						       : vf_conf_given(raw->runtime.device_id);
	uint32_t state;
	int r;

	c->pkey = vf_conf_given(raw->pkey);
	c->link_state = vf_conf_given(raw->link_state);
	c->runtime_guid = vf_conf_given(raw->runtime.guid);
	c->args_cni = raw->args.cni;
	c->args_guid = vf_conf_given(json_string(json_get(raw->args.cni, "guid")));
	c->isolation = raw->isolation;
	c->ib_kubernetes = raw->ib_kubernetes;
	c->vfio = raw->vfio;
	c->device_id = id;
	if (id && !pci_bdf_ok(id))
		return err_kind(e, ERR_CONF, -EINVAL,
				"conf.deviceID is '%s', wants a VF's PCI address such as "
				"0000:3b:00.2",
				id);
	r = c->link_state ? vf_conf_link_state(c->link_state, &state, e) : 0;
	if (r >= 0)
		r = pick_guid(c, e);
	if (r >= 0 && vf_conf_given(raw->pool))
		r = ib_guid_pool_parse(raw->pool, &c->pool, e);
	if (r >= 0)
		r = check_ipam(ret, e);
	return r < 0 ? r : check_ib_kubernetes(c, e);
}

/* A conf that is wrong elsewhere still says which VF it is about. */
int ib_sriov_read(const struct rail_source *s, struct rail_conf *ret, struct err *e)
{
	struct rail_conf c = {0};
	struct raw raw = {0};
	int r = rail_read_common(s, &c, e);

	if (r >= 0)
		r = rail_read_own(s, &table, &raw, e);
	if (r < 0)
		return r;
	r = take_all(&raw, &c, e);
	if (r >= 0 || c.ib_sriov.device_id) {
		*ret = c;
		if (r < 0 && !pci_bdf_ok(c.ib_sriov.device_id))
			ret->ib_sriov.device_id = NULL;
	}
	return r;
}
