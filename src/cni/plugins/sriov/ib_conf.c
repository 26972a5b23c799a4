/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/num.h"
#include "cni/attach/rail.h"
#include "cni/device/vf_conf.h"
#include "cni/device/vf_plan.h"
#include "cni/plugins/sriov/ib_sriov.h"
#include "wire/tls/digest.h"

/* ib-sriov's netconf. */

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

#define STR(key, member, ...)  JSON_FIELD(key, J_STR, struct raw, member, ##__VA_ARGS__)
#define BOOL(key, member, ...) JSON_FIELD(key, J_BOOL, struct raw, member, ##__VA_ARGS__)

static const struct json_field runtime_fields[] = {
	JSON_FIELD("deviceID", J_STR, struct runtime_conf, device_id,
		   JSON_DOC(NULL, "PCI address of the VF; used if deviceID is absent")),
	JSON_FIELD("infinibandGUID", J_STR, struct runtime_conf, guid,
		   JSON_DOC(NULL, "GUID of the VF, used instead of args.cni.guid")),
	{0},
};
static const struct json_table runtime_table = {runtime_fields, JSON_GO,
						sizeof(struct runtime_conf)};
static const struct json_field args_fields[] = {
	JSON_FIELD("cni", J_VAL, struct args, cni,
		   JSON_DOC(NULL,
			    "guid: GUID of the VF; mellanox.infiniband.app: 'configured' after "
			    "ib-kubernetes has configured the GUID")),
	{0},
};
static const struct json_table args_table = {args_fields, JSON_GO, sizeof(struct args)};

static const struct json_field fields[] = {
	STR("deviceID", device_id,
	    JSON_DOC(NULL, "PCI address of the VF, or of a PF that is bound to vfio-pci")),
	STR("pkey", pkey, JSON_DOC(NULL, "partition key, used only by ib-kubernetes")),
	STR("link_state", link_state,
	    JSON_DOC(NULL, "auto, enable or disable; without this key the VF keeps its setting")),
	STR("guidPool", pool,
	    JSON_OWN(NULL, "range FIRST-LAST of GUIDs that this node gives to VFs without a GUID; "
			   "without guidPool, such a VF gets a GUID derived from that of its PF")),
	BOOL("rdmaIsolation", isolation,
	     JSON_DOC("false", "move the RDMA device into the pod too; needs the RDMA "
			       "subsystem's exclusive mode")),
	BOOL("ibKubernetesEnabled", ib_kubernetes,
	     JSON_DOC("false", "fail until ib-kubernetes has configured the GUID")),
	BOOL("vfioPciMode", vfio, JSON_DOC("detected", "the VF is bound to vfio-pci")),
	JSON_FIELD("runtimeConfig", J_OBJ, struct raw, runtime, .sub = &runtime_table,
		   JSON_DOC(NULL, "from the runtime")),
	JSON_FIELD("args", J_OBJ, struct raw, args, .sub = &args_table,
		   JSON_DOC(NULL, "from cni-args in the pod's network annotation")),
	{0},
};
const struct json_table ib_sriov_table = {fields, JSON_GO, sizeof(struct raw)};

static int read_guid(const char *text, const char *place, uint64_t *ret, struct err *e)
{
	if (vf_guid_parse(span_of(text), ret) == 0 && ib_guid_valid(*ret))
		return 0;
	return err_kind(
		e, ERR_CONF, -EINVAL,
		"invalid guid %s (%s: expected one such as 02:00:5e:10:00:00:00:01, neither "
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
		return err_kind(
			e, ERR_AGAIN, -EAGAIN,
			ORIG("infiniBand SRIOV-CNI failed, InfiniBand status "
			     "\"mellanox.infiniband.app\" is not \"configured\" please check "
			     "mellanox ib-kubernetes"));
	if (!c->guid && !c->vfio)
		return err_kind(
			e, ERR_CONF, -EINVAL,
			ORIG("infiniband SRIOV-CNI failed, Unexpected error. GUID must be "
			     "provided by ib-kubernetes (conf.runtimeConfig.infinibandGUID)"));
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
	const char *id = str_if_set(raw->device_id) ? raw->device_id
						    : str_if_set(raw->runtime.device_id);
	uint32_t state;
	int r;

	c->pkey = str_if_set(raw->pkey);
	c->link_state = str_if_set(raw->link_state);
	c->runtime_guid = str_if_set(raw->runtime.guid);
	c->args_cni = raw->args.cni;
	c->args_guid = str_if_set(json_string(json_get(raw->args.cni, "guid")));
	c->isolation = raw->isolation;
	c->ib_kubernetes = raw->ib_kubernetes;
	c->vfio = raw->vfio;
	c->device_id = id;
	if (id && !pci_bdf_ok(id))
		return err_kind(e, ERR_CONF, -EINVAL,
				"conf.deviceID is '%s', expected a VF's PCI address such as "
				"0000:3b:00.2",
				id);
	r = c->link_state ? vf_conf_link_state(c->link_state, &state, e) : 0;
	if (r >= 0)
		r = pick_guid(c, e);
	if (r >= 0 && str_if_set(raw->pool))
		r = ib_guid_pool_parse(raw->pool, &c->pool, e);
	if (r >= 0)
		r = check_ipam(ret, e);
	return r < 0 ? r : check_ib_kubernetes(c, e);
}

/* If a value is invalid, returns the error but still sets *ret if deviceID is given, because DEL
 * needs the device. If a key has the wrong type, *ret is unchanged. */
int ib_sriov_read(const struct rail_source *s, struct rail_conf *ret, struct err *e)
{
	struct rail_conf c = {0};
	struct raw raw = {0};
	int r = rail_read_common(s, &c, e);

	if (r >= 0)
		r = rail_read_own(s, &ib_sriov_table, &raw, e);
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

/* --- GUIDs of VFs without an assigned one --- */

enum { IPOIB_ADDRESS = 20 };

bool ib_guid_valid(uint64_t guid)
{
	return guid && guid != UINT64_MAX;
}

uint64_t ib_guid_of_link(const struct mac *mac)
{
	uint64_t guid = 0;

	if (mac->len != IPOIB_ADDRESS)
		return 0;
	for (size_t i = IPOIB_ADDRESS - 8; i < IPOIB_ADDRESS; i++)
		guid = guid << 8 | mac->b[i];
	return guid;
}

int ib_guid_pool_parse(const char *text, struct ib_guid_pool *ret, struct err *e)
{
	struct span rest = span_of(text), first = {0}, last = {0};
	struct ib_guid_pool p;

	if (span_cut(&rest, '-', &first) && span_cut(&rest, '-', &last) && !rest.p &&
	    vf_guid_parse(first, &p.first) == 0 && vf_guid_parse(last, &p.last) == 0 &&
	    p.first <= p.last && p.last != UINT64_MAX) {
		*ret = p;
		return 0;
	}
	return err_kind(e, ERR_CONF, -EINVAL,
			"conf.guidPool is '%s', expected a range of GUIDs such as "
			"02:00:00:00:00:00:01:00-02:00:00:00:00:00:01:ff",
			text);
}

int ib_guid_from_pool(const struct ib_guid_pool *p, uint64_t n, uint64_t *ret, struct err *e)
{
	if (n > p->last - p->first)
		return err_kind(
			e, ERR_UNAVAILABLE, -ERANGE,
			"conf.guidPool has %llu GUIDs, too few for VF %llu of the node (VFs are "
			"numbered from 0 over all VFs that the node's HCAs support): make the "
			"pool larger",
			(unsigned long long)(p->last - p->first + 1), (unsigned long long)n);
	*ret = p->first + n;
	return 0;
}

/* EUI-64: the second lowest bit of the first byte marks a locally administered GUID. */
uint64_t ib_guid_derive(const char *pf, uint32_t vf)
{
	auto_free char *text = xasprintf("unirail VF GUID %s %u", pf, vf);
	char hex[DIGEST_HEX];
	uint64_t guid = 0;

	digest_sha256(span_of(text), hex);
	hex[16] = '\0';
	(void)num_hex(span_of(hex), UINT64_MAX, &guid);
	return (guid & ~(3ULL << 56)) | 2ULL << 56;
}

int ib_guid_place(const struct root *r, const char *pf, uint32_t vf, uint64_t *ret, struct err *e)
{
	auto_free struct pci_dev *list = NULL;
	struct pci_dev self;
	uint64_t before = 0;
	size_t n = 0;
	int code = pci_read(r, pf, &self, e);

	if (code >= 0)
		code = pci_list(r, &list, &n, e);
	if (code < 0)
		return code;
	for (size_t i = 0; i < n && strcmp(list[i].bdf, pf) != 0; i++)
		if (list[i].is_pf && list[i].class >> 8 == self.class >> 8)
			before += list[i].total_vfs;
	*ret = before + vf;
	return 0;
}

/* --- the record of an InfiniBand VF, as the original's cache file, with its keys sorted --- */

static void put_true(struct json_out *o, const char *key, bool v)
{
	if (v)
		jo_kbool(o, key, v);
}

static void put_rdma(struct json_out *o, const struct vf_record *r)
{
	jo_key(o, "RdmaNetState");
	jo_obj(o);
	if (*r->rdma) {
		jo_kstr(o, "version", "1.0");
		jo_kstr(o, "deviceID", r->device);
		jo_kstr(o, "sandboxRdmaDevName", r->rdma);
		jo_kstr(o, "containerRdmaDevName", r->rdma);
	}
	jo_end_obj(o);
}

static void put_args(struct json_out *o, const struct json *cni)
{
	jo_key(o, "args");
	jo_obj(o);
	if (json_kind(cni) != JSON_NULL) {
		jo_key(o, "cni");
		jo_val(o, cni, true);
	}
	jo_end_obj(o);
}

void ib_record_print(const struct vf_record *r, const struct ib_netconf *n, struct buf *b)
{
	const struct ib_sriov_conf *c = n->c;
	char guid[VF_GUID_TEXT_MAX];
	struct json_out o;

	jo_init(&o, b, 0);
	jo_obj(&o);
	jo_kstr(&o, "ContIFNames", r->ifname);
	jo_kstr(&o, "HostIFGUID", n->sets_guid ? vf_guid_str(n->host_guid, guid) : "");
	jo_kstr(&o, "HostIFNames", r->name);
	jo_kstr(&o, "Master", r->pf);
	put_rdma(&o, r);
	jo_kint(&o, "VFID", r->was.vf);
	put_args(&o, c->args_cni);
	jo_kstr_if_set(&o, "cniVersion", n->version);
	jo_kstr(&o, "deviceID", r->device);
	put_true(&o, "ibKubernetesEnabled", c->ib_kubernetes);
	vf_record_put_inner(&o, "ipam", "type", n->ipam_type);
	jo_kstr_if_set(&o, "link_state", c->link_state);
	jo_kstr_if_set(&o, "name", r->network);
	jo_kstr(&o, "pkey", c->pkey ? c->pkey : "");
	put_true(&o, "rdmaIsolation", c->isolation);
	vf_record_put_inner(&o, "runtimeConfig", "infinibandGUID", c->runtime_guid);
	jo_kstr_if_set(&o, "type", "ib-sriov");
	jo_key(&o, "unirail");
	vf_record_put(&o, r);
	put_true(&o, "vfioPciMode", r->dpdk);
	jo_end_obj(&o);
}
