/* SPDX-License-Identifier: Apache-2.0 */
/* sriov: what an ADD changes, on the node and in the pod. */
#include <errno.h>
#include <string.h>

#include "base/cleanup.h"
#include "cni/plugins/sriov/sriov_private.h"
#include "cni/device/vf_apply.h"
#include "cni/device/vf_claim.h"
#include "kern/net/altname.h"

/* --- on the node --- */

/* The links may be anywhere by now, and the files half written: all of it goes back. */
static int undo_all(void *arg, struct err *e)
{
	struct attach *a = *(struct attach **)arg;
	int first = 0;

	for (size_t i = 0; i < a->n_rails; i++) {
		const struct rail *rail = &a->rails[i];
		int r;

		if (!is_sriov(rail) || !rail->vf || !rail->vf->record.file)
			continue;
		r = sriov_release(a, &rail->vf->record, VF_HOME_UP, first < 0 ? NULL : e);
		first = first < 0 ? first : r;
	}
	return first < 0 ? first : 0;
}

static int write_files(const struct attach *a, const struct rail *rail, struct err *e)
{
	const struct cni_ipam_call *ipam = &rail->ipam;
	const struct sriov_netconf n = {
		.c = &rail->conf.sriov,
		.conf = a->n_rails == 1 && !rail->label ? a->call->conf : NULL,
		.version = cni_version_str(a->call->version),
		.ipam_type = ipam->conf ? cni_ipam_type(ipam->conf) : "",
	};
	struct vf_record *rec = &rail->vf->record;
	auto_buf struct buf text;
	int r;

	buf_init(&text, VF_RECORD_MAX);
	sriov_record_print(rec, &n, &text);
	if (text.over)
		return err_kind(e, ERR_CONF, -E2BIG,
				"error saving NetConf: more than %d bytes (dns, prevResult)",
				VF_RECORD_MAX);
	/* A save that fails may have left the file: undoing it wants the name. */
	rec->file = vf_record_file(rec->container, rec->ifname);
	r = vf_record_save(&a->call->root, &sriov_store, rec, buf_span(&text), e);
	if (r >= 0)
		r = vf_owner_write(&a->call->root, rec->device, rec->netns, e);
	return r;
}

static int write_all(struct attach *a, struct err *e)
{
	int r = 0;

	for (size_t i = 0; r >= 0 && i < a->n_rails; i++) {
		if (!is_sriov(&a->rails[i]))
			continue;
		r = write_files(a, &a->rails[i], e);
		if (r < 0)
			r = rail_err(&a->rails[i], r, e);
	}
	return r;
}

static int configured(const struct rail *rail, int code, struct err *e)
{
	if (e)
		err_kind(e, e->kind, code, "SRIOV-CNI failed to configure VF \"%s\"", e->text);
	return rail_err(rail, code, e);
}

/* Of a userspace driver's VF, the PF's word is all there is. */
static void tell_mac(struct rail *rail)
{
	const struct mac *admin = &rail->vf->now.mac;
	bool zero = true;

	if (!rail->no_link)
		return;
	for (unsigned int i = 0; i < admin->len; i++)
		zero &= !admin->b[i];
	rail->mac = rail->conf.mac.len ? rail->conf.mac : zero ? (struct mac){0} : *admin;
}

int sriov_prepare(struct attach *a, struct err *e)
{
	auto_free struct vf_job *jobs = xcalloc(a->n_rails, sizeof(*jobs));
	auto_free size_t *owner = xcalloc(a->n_rails, sizeof(*owner));
	size_t n = 0, bad = 0;
	int r;

	undo_push(&a->undo, "put VFs back", undo_all, &a, sizeof(a));
	r = write_all(a, e);
	if (r < 0)
		return r;
	for (size_t i = 0; i < a->n_rails; i++) {
		struct rail *rail = &a->rails[i];
		const struct vf_rail *v = rail->vf;

		if (!is_sriov(rail))
			continue;
		tell_mac(rail);
		jobs[n].ref = (struct vf_ref){v->place.pf.index, v->place.pf.name, v->place.number};
		jobs[n].want = rail->conf.sriov.want;
		jobs[n].want.set = vf_plan_missing(&jobs[n].want, &v->now);
		owner[n++] = i;
	}
	r = vf_apply(a->host, jobs, n, &bad, e);
	return r < 0 ? configured(&a->rails[owner[bad]], r, e) : 0;
}

static void drop_altnames(const struct attach *a, const struct rail *rail, struct nl_batch *b)
{
	const struct vf_record *rec = &rail->vf->record;

	for (size_t i = 0; i < rec->n_altnames; i++)
		if (attach_name_taken(a, rec->altnames[i]))
			altname_del(b, rail->master.index, rail->master.name, rec->altnames[i]);
}

/* One message: the kernel moves the link, which sets it down, then names it. */
void sriov_put(const struct attach *a, const struct rail *rail, struct nl_batch *b)
{
	const struct link_change c = {
		.set = LINK_SET_NETNS | LINK_SET_NAME | LINK_SET_ALIAS,
		.netns_fd = a->netns,
		.name = rail->ifname,
		.alias = rail->master.name,
	};

	drop_altnames(a, rail, b);
	link_set(b, rail->master.index, rail->master.name, &c);
}

/* --- in the pod --- */

static int set_mtu(struct attach *a, const struct rail *rail, struct err *e)
{
	const struct link_change c = {.set = LINK_SET_MTU, .mtu = rail->conf.mtu};
	auto_batch struct nl_batch *b = nl_batch_new();

	if (!rail->conf.mtu || rail->conf.mtu == rail->master.mtu)
		return 0;
	link_set(b, rail->index, rail->ifname, &c);
	return nl_batch_commit(a->pod, b, e);
}

/* Even where none was asked for: a VF that was down may have got its PF's at the move. */
static int settle_one(struct attach *a, struct rail *rail, struct err *e)
{
	struct link l;
	int r = set_mtu(a, rail, e);

	if (r >= 0 && rail->conf.mac.len)
		r = vf_apply_link_mac(a->pod, rail->index, &rail->conf.mac, e);
	if (r >= 0)
		r = link_get_index(a->pod, rail->index, &l, e);
	if (r < 0)
		return r;
	rail->mac = l.mac;
	rail->mtu = l.mtu;
	return 0;
}

int sriov_settle(struct attach *a, struct err *e)
{
	int r = 0;

	for (size_t i = 0; r >= 0 && i < a->n_rails; i++) {
		if (!is_sriov(&a->rails[i]) || a->rails[i].no_link)
			continue;
		r = settle_one(a, &a->rails[i], e);
		if (r < 0)
			r = rail_err(&a->rails[i], r, e);
	}
	return r;
}
