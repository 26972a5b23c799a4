/* SPDX-License-Identifier: Apache-2.0 */
/* The record of an InfiniBand VF as the original's cache file: its keys, sorted. */
#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "base/cleanup.h"
#include "cni/plugins/sriov/ib_sriov.h"
#include "cni/device/vf_conf.h"
#include "cni/device/vf_plan.h"

#define DIR "/var/lib/cni/ib-sriov"

/* --- writing --- */

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
	vf_record_put_text(&o, "cniVersion", n->version);
	jo_kstr(&o, "deviceID", r->device);
	put_true(&o, "ibKubernetesEnabled", c->ib_kubernetes);
	vf_record_put_inner(&o, "ipam", "type", n->ipam_type);
	vf_record_put_text(&o, "link_state", c->link_state);
	vf_record_put_text(&o, "name", r->network);
	jo_kstr(&o, "pkey", c->pkey ? c->pkey : "");
	put_true(&o, "rdmaIsolation", c->isolation);
	vf_record_put_inner(&o, "runtimeConfig", "infinibandGUID", c->runtime_guid);
	vf_record_put_text(&o, "type", "ib-sriov");
	jo_key(&o, "unirail");
	vf_record_put(&o, r);
	put_true(&o, "vfioPciMode", r->dpdk);
	jo_end_obj(&o);
}

/* --- reading --- */

struct rdma {
	const char *home;
};

struct raw {
	const char *ifname, *guid, *name, *pf, *device, *network, *link_state;
	struct rdma rdma;
	int64_t vf;
	bool vfio;
	const struct json *own;
};

#define FIELD(key, kind, type_of, member)                                                          \
	{                                                                                          \
		.name = key, .type = (kind), .offset = offsetof(struct type_of, member)            \
	}

static const struct json_field rdma_fields[] = {
	FIELD("sandboxRdmaDevName", J_STR, rdma, home),
	{0},
};
static const struct json_table rdma_table = {rdma_fields, JSON_GO, sizeof(struct rdma)};

static const struct json_field fields[] = {
	FIELD("ContIFNames", J_STR, raw, ifname),
	FIELD("HostIFGUID", J_STR, raw, guid),
	FIELD("HostIFNames", J_STR, raw, name),
	FIELD("Master", J_STR, raw, pf),
	{.name = "RdmaNetState",
	 .type = J_OBJ,
	 .offset = offsetof(struct raw, rdma),
	 .sub = &rdma_table},
	{.name = "VFID", .type = J_INT, .offset = offsetof(struct raw, vf), .max = UINT16_MAX},
	FIELD("deviceID", J_STR, raw, device),
	FIELD("link_state", J_STR, raw, link_state),
	FIELD("name", J_STR, raw, network),
	FIELD("vfioPciMode", J_BOOL, raw, vfio),
	FIELD("unirail", J_VAL, raw, own),
	{0},
};
static const struct json_table table = {fields, JSON_GO, sizeof(struct raw)};

/* What the original puts back: GUIDs, and a link state that goes to auto. */
static int take_legacy(const struct raw *raw, struct vf_record *r, struct err *e)
{
	uint64_t guid = 0;

	if (raw->link_state && *raw->link_state)
		r->asked |= VF_ATTR_LINK_STATE;
	if (!raw->guid || !*raw->guid)
		return 0;
	r->asked |= VF_ATTR_GUID;
	if (strcmp(raw->guid, "00:00:00:00:00:00:00:00") != 0 &&
	    vf_guid_parse(span_of(raw->guid), &guid) < 0)
		return err_set(e, -EINVAL, "HostIFGUID is '%s', wants a GUID", raw->guid);
	r->was.has_guid = true;
	r->was.node_guid = r->was.port_guid = guid;
	return 0;
}

static int take_all(struct json_doc *d, const struct raw *raw, struct vf_record *r, struct err *e)
{
	int code = vf_record_take_names(r, raw->device, "HostIFNames", raw->name, raw->pf, e);

	if (code < 0)
		return code;
	r->network = xstrdup(raw->network ? raw->network : "");
	r->was.vf = (uint32_t)raw->vf;
	r->dpdk = raw->vfio;
	code = take_legacy(raw, r, e);
	if (code >= 0)
		code = vf_record_take(d, raw->own, r, e);
	/* The original's wins: it is what moves back. */
	if (code >= 0 && raw->rdma.home && !str_copy(r->rdma, sizeof(r->rdma), raw->rdma.home))
		code = err_set(e, -EINVAL, "RdmaNetState.sandboxRdmaDevName is too long");
	if (code >= 0 && !r->ifname && raw->ifname && *raw->ifname)
		r->ifname = xstrdup(raw->ifname);
	return code;
}

static int parse(struct span text, struct vf_record *ret, struct err *e)
{
	auto_json struct json_doc *d = NULL;
	struct vf_record r = {0};
	struct raw raw = {0};
	int code = json_parse(&d, text, VF_RECORD_MAX, e);

	if (code >= 0)
		code = json_read(d, json_root(d), &table, &raw, "record", e);
	if (code >= 0)
		code = take_all(d, &raw, &r, e);
	if (code < 0) {
		vf_record_done(&r);
		return code;
	}
	*ret = r;
	return 0;
}

const struct vf_store ib_sriov_store = {.dir = DIR, .parse = parse};
