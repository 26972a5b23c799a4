/* SPDX-License-Identifier: Apache-2.0 */
/* Parses the records of VFs that sriov and ib-sriov write. */
#include "cni/device/vf_stores.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "base/alloc.h"
#include "base/paths.h"
#include "cni/device/vf_conf.h"
#include "cni/device/vf_plan.h"

/* --- sriov --- */

struct state {
	const char *name;
	bool spoofchk, trust;
	struct mac admin, effective;
	int64_t vlan, qos, proto, min_rate, max_rate, link_state, mtu;
};

struct sriov_record_raw {
	struct mac mac;
	const char *pf, *device, *network, *spoofchk, *trust;
	struct state state;
	bool has_state;
	int64_t mtu, vf;
	const struct json *own;
};

#define NUMBER(key, type_of, member, largest)                                                      \
	JSON_FIELD(key, J_INT, struct type_of, member, .max = (largest))
#define FIELD(key, kind, type_of, member) JSON_FIELD(key, kind, struct type_of, member)

static const struct json_field state_fields[] = {
	FIELD("HostIFName", J_STR, state, name),
	FIELD("SpoofChk", J_BOOL, state, spoofchk),
	FIELD("Trust", J_BOOL, state, trust),
	FIELD("AdminMAC", J_MAC, state, admin),
	FIELD("EffectiveMAC", J_MAC, state, effective),
	NUMBER("Vlan", state, vlan, 4095),
	NUMBER("VlanQoS", state, qos, 7),
	NUMBER("VlanProto", state, proto, UINT16_MAX),
	NUMBER("MinTxRate", state, min_rate, UINT32_MAX),
	NUMBER("MaxTxRate", state, max_rate, UINT32_MAX),
	NUMBER("LinkState", state, link_state, VF_LINK_DISABLE),
	NUMBER("MTU", state, mtu, INT32_MAX),
	{0},
};
static const struct json_table state_table = {state_fields, JSON_GO, sizeof(struct state)};

static const struct json_field sriov_record_fields[] = {
	FIELD("MAC", J_MAC, sriov_record_raw, mac),
	NUMBER("MTU", sriov_record_raw, mtu, INT32_MAX),
	FIELD("Master", J_STR, sriov_record_raw, pf),
	JSON_FIELD("OrigVfState", J_OBJ, struct sriov_record_raw, state,
		   .has = offsetof(struct sriov_record_raw, has_state), .sub = &state_table,
		   .required = true),
	NUMBER("VFID", sriov_record_raw, vf, UINT16_MAX),
	FIELD("deviceID", J_STR, sriov_record_raw, device),
	FIELD("name", J_STR, sriov_record_raw, network),
	FIELD("spoofchk", J_STR, sriov_record_raw, spoofchk),
	FIELD("trust", J_STR, sriov_record_raw, trust),
	FIELD("unirail", J_VAL, sriov_record_raw, own),
	{0},
};
static const struct json_table sriov_record_table = {sriov_record_fields, JSON_GO,
						     sizeof(struct sriov_record_raw)};

static void take_state(const struct state *s, struct vf_record *r)
{
	struct vf_info *was = &r->was;

	was->mac = s->admin;
	was->spoofchk = s->spoofchk;
	was->trust = s->trust;
	was->n_vlans = 1;
	was->vlans[0] = (struct vf_vlan){(uint16_t)s->vlan, (uint8_t)s->qos, (uint16_t)s->proto};
	/* Before version 2.8 of the original plugin the file had no VlanProto. */
	if (!s->proto)
		was->vlans[0].proto = VF_VLAN_8021Q;
	was->min_rate = (uint32_t)s->min_rate;
	was->max_rate = (uint32_t)s->max_rate;
	was->link_state = (uint32_t)s->link_state;
	r->mac = s->effective;
	r->link_mtu = (uint32_t)s->mtu;
}

static int parse(struct span text, struct vf_record *ret, struct err *e)
{
	auto_json struct json_doc *d = NULL;
	auto_vf_record struct vf_record r = {0};
	struct sriov_record_raw sriov_record_raw = {0};
	int code = json_parse(&d, text, VF_RECORD_MAX, e);

	if (code >= 0)
		code = json_read(d, json_root(d), &sriov_record_table, &sriov_record_raw, "record",
				 e);
	if (code >= 0)
		code = vf_record_take_names(&r, sriov_record_raw.device, "OrigVfState.HostIFName",
					    sriov_record_raw.state.name, sriov_record_raw.pf, e);
	if (code < 0)
		return code;
	take_state(&sriov_record_raw.state, &r);
	r.was.vf = (uint32_t)sriov_record_raw.vf;
	r.mtu = (uint32_t)sriov_record_raw.mtu;
	r.pod_mac = sriov_record_raw.mac;
	r.network = xstrdup(sriov_record_raw.network ? sriov_record_raw.network : "");
	if (sriov_record_raw.spoofchk && *sriov_record_raw.spoofchk)
		r.requested |= VF_ATTR_SPOOFCHK;
	if (sriov_record_raw.trust && *sriov_record_raw.trust)
		r.requested |= VF_ATTR_TRUST;
	/* The original does not record that a VF was bound to a DPDK driver, so a VF without a
	 * netdev counts as bound to one. */
	r.dpdk = !*r.name;
	code = vf_record_take(d, sriov_record_raw.own, &r, e);
	if (code < 0)
		return code;
	*ret = r;
	r = (struct vf_record){0};
	return 0;
}

const struct vf_store sriov_store = {PATH_SRIOV, parse};

/* --- ib-sriov --- */

struct rdma {
	const char *host_name;
};

struct ib_record_raw {
	const char *ifname, *guid, *name, *pf, *device, *network, *link_state;
	struct rdma rdma;
	int64_t vf;
	bool vfio;
	const struct json *own;
};

#define IB_FIELD(key, kind, type_of, member) JSON_FIELD(key, kind, struct type_of, member)

static const struct json_field rdma_fields[] = {
	IB_FIELD("sandboxRdmaDevName", J_STR, rdma, host_name),
	{0},
};
static const struct json_table rdma_table = {rdma_fields, JSON_GO, sizeof(struct rdma)};

static const struct json_field ib_record_fields[] = {
	IB_FIELD("ContIFNames", J_STR, ib_record_raw, ifname),
	IB_FIELD("HostIFGUID", J_STR, ib_record_raw, guid),
	IB_FIELD("HostIFNames", J_STR, ib_record_raw, name),
	IB_FIELD("Master", J_STR, ib_record_raw, pf),
	JSON_FIELD("RdmaNetState", J_OBJ, struct ib_record_raw, rdma, .sub = &rdma_table),
	JSON_FIELD("VFID", J_INT, struct ib_record_raw, vf, .max = UINT16_MAX),
	IB_FIELD("deviceID", J_STR, ib_record_raw, device),
	IB_FIELD("link_state", J_STR, ib_record_raw, link_state),
	IB_FIELD("name", J_STR, ib_record_raw, network),
	IB_FIELD("vfioPciMode", J_BOOL, ib_record_raw, vfio),
	IB_FIELD("unirail", J_VAL, ib_record_raw, own),
	{0},
};
static const struct json_table ib_record_table = {ib_record_fields, JSON_GO,
						  sizeof(struct ib_record_raw)};

/* Sets the state that the original restores: GUIDs, and the link state auto. */
static int take_legacy(const struct ib_record_raw *ib_record_raw, struct vf_record *r,
		       struct err *e)
{
	uint64_t guid = 0;

	if (ib_record_raw->link_state && *ib_record_raw->link_state)
		r->requested |= VF_ATTR_LINK_STATE;
	if (!ib_record_raw->guid || !*ib_record_raw->guid)
		return 0;
	r->requested |= VF_ATTR_GUID;
	if (strcmp(ib_record_raw->guid, "00:00:00:00:00:00:00:00") != 0 &&
	    vf_guid_parse(span_of(ib_record_raw->guid), &guid) < 0)
		return err_set(e, -EINVAL, "HostIFGUID is '%s', expected a GUID",
			       ib_record_raw->guid);
	r->was.has_guid = true;
	r->was.node_guid = r->was.port_guid = guid;
	return 0;
}

static int ib_record_take_all(struct json_doc *d, const struct ib_record_raw *ib_record_raw,
			      struct vf_record *r, struct err *e)
{
	int code = vf_record_take_names(r, ib_record_raw->device, "HostIFNames",
					ib_record_raw->name, ib_record_raw->pf, e);

	if (code < 0)
		return code;
	r->network = xstrdup(ib_record_raw->network ? ib_record_raw->network : "");
	r->was.vf = (uint32_t)ib_record_raw->vf;
	r->dpdk = ib_record_raw->vfio;
	code = take_legacy(ib_record_raw, r, e);
	if (code >= 0)
		code = vf_record_take(d, ib_record_raw->own, r, e);
	/* RdmaNetState of the original's format takes precedence, because the original plugin also
	 * restores the RDMA device by it. */
	if (code >= 0 && ib_record_raw->rdma.host_name &&
	    !str_copy(r->rdma, sizeof(r->rdma), ib_record_raw->rdma.host_name))
		code = err_set(e, -EINVAL, "RdmaNetState.sandboxRdmaDevName is too long");
	if (code >= 0 && !r->ifname && ib_record_raw->ifname && *ib_record_raw->ifname)
		r->ifname = xstrdup(ib_record_raw->ifname);
	return code;
}

static int ib_parse(struct span text, struct vf_record *ret, struct err *e)
{
	auto_json struct json_doc *d = NULL;
	struct vf_record r = {0};
	struct ib_record_raw ib_record_raw = {0};
	int code = json_parse(&d, text, VF_RECORD_MAX, e);

	if (code >= 0)
		code = json_read(d, json_root(d), &ib_record_table, &ib_record_raw, "record", e);
	if (code >= 0)
		code = ib_record_take_all(d, &ib_record_raw, &r, e);
	if (code < 0) {
		vf_record_done(&r);
		return code;
	}
	*ret = r;
	return 0;
}

const struct vf_store ib_sriov_store = {.dir = "/var/lib/cni/ib-sriov", .parse = ib_parse};
