/* SPDX-License-Identifier: Apache-2.0 */
/* ib-sriov: a VF of an InfiniBand HCA as a rail. */
#include "cni/plugins/sriov/ib_sriov.h"

#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "cni/attach/attach.h"
#include "cni/device/rdma_move.h"
#include "cni/plugins/sriov/sriov.h"
#include "cni/device/vf_place.h"
#include "cni/device/vf_rail.h"

bool ib_is_ours(const struct rail *rail)
{
	return rail->kind == &ib_sriov_kind;
}

/* --- who works on VFs --- */

static const char *id_of(const struct rail *rail)
{
	return rail->conf.ib_sriov.device_id;
}

static int check_id(const struct rail *rail, struct err *e)
{
	if (id_of(rail))
		return 0;
	return err_kind(e, ERR_CONF, -EINVAL, "deviceID is required (conf.deviceID)");
}

/* Its own pods first: they may be dead, and in the way of what sriov's record wants back. */
static int claim_one(struct attach *a, const struct rail *rail, struct err *e)
{
	int r = ib_home_free_up(a, id_of(rail), rail->ifname, e);

	return r < 0 ? r : sriov_free_up(a, id_of(rail), e);
}

/* One lock for all VFs of the node: the first rail keeps it. sriov, which comes before this kind,
 * takes it for a moment while it has VFs' locks: so it is taken after those. */
static int claim(struct attach *a, struct err *e)
{
	struct rail *first = NULL;
	int r = 0;

	for (size_t i = 0; i < a->n_rails; i++) {
		r = ib_is_ours(&a->rails[i]) ? check_id(&a->rails[i], e) : 0;
		if (r < 0)
			return rail_err(&a->rails[i], r, e);
	}
	r = vf_rail_lock(a, &ib_sriov_kind, id_of, e);
	for (size_t i = 0; r >= 0 && i < a->n_rails; i++) {
		if (!ib_is_ours(&a->rails[i]))
			continue;
		first = first ? first : &a->rails[i];
		r = claim_one(a, &a->rails[i], e);
		if (r < 0)
			return rail_err(&a->rails[i], r, e);
	}
	return r < 0 ? r : ib_home_lock(&a->call->root, &first->vf->node_lock, e);
}

/* --- CHECK and STATUS --- */

static int check(const struct rail_conf *c, const struct link *l, struct err *e)
{
	const char *id = c->ib_sriov.device_id;

	if (*l->device && id && strcmp(l->device, id) != 0)
		return err_set(e, -EINVAL, "interface '%s' is device '%s', wants VF '%s'", l->name,
			       l->device, id);
	if (c->ib_sriov.guid && ib_guid_of_link(&l->mac) != c->ib_sriov.guid)
		return err_set(e, -EINVAL, "interface '%s' has not got the GUID asked for",
			       l->name);
	return 0;
}

static int verify(struct attach *a, const struct rail *rail, struct err *e)
{
	auto_vf_record struct vf_record rec = {0};
	char name[RDMA_NAME_MAX];
	int r;

	if (!rail->conf.ib_sriov.isolation || rail->no_link)
		return 0;
	r = rdma_move_mode(RDMA_NETNS_EXCLUSIVE, "conf.rdmaIsolation", e);
	if (r >= 0)
		r = vf_record_load(&a->call->root, &ib_sriov_store, a->call->container_id,
				   rail->ifname, &rec, e);
	if (r < 0)
		return r;
	if (!rdma_move_name(&a->call->root, rec.device, name))
		str_copy(name, sizeof(name), rec.rdma);
	r = rdma_move_is_in(a->netns, name, e);
	if (r == 0)
		return err_set(e, -ENODEV,
			       "RDMA device '%s' of '%s' is not in the pod's network namespace",
			       name, rec.device);
	return r < 0 ? r : 0;
}

/* A VF that is in a pod now is no reason to call the node unfit. */
static int status(const struct root *root, struct rail *rail, struct err *e)
{
	const struct ib_sriov_conf *c = &rail->conf.ib_sriov;
	bool vf = true;
	struct vf_place p;
	int r = c->isolation ? rdma_move_mode(RDMA_NETNS_EXCLUSIVE, "conf.rdmaIsolation", e) : 0;

	if (r < 0 || !c->device_id)
		return r;
	rail->no_link = ib_is_vfio(root, c->device_id, &vf);
	if (!vf)
		return ib_look_whole_pf(rail, rail->no_link, e);
	return vf_place_read(root, NULL, c->device_id, &p, e);
}

static const char *hint(int code)
{
	return code == -EEXIST ? "a name of the VF, or an alternative one, is taken in the pod"
			       : NULL;
}

const struct rail_kind ib_sriov_kind = {
	.type = "ib-sriov",
	.read = ib_sriov_read,
	.check = check,
	.hint = hint,
	.claim = claim,
	.look = ib_sriov_look,
	.prepare = ib_sriov_prepare,
	.put = ib_sriov_put,
	.del = ib_sriov_del,
	.gc = ib_sriov_gc,
	.status = status,
	.verify = verify,
};

const struct cni_plugin cni_ib_sriov = RAIL_PLUGIN(ib_sriov_kind, "ib-sriov");
