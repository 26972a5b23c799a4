/* SPDX-License-Identifier: Apache-2.0 */
#include "cni/plugins/sriov/sriov.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "cni/device/vf_conf.h"
#include "cni/device/vf_apply.h"
#include "cni/device/vf_claim.h"
#include "cni/device/vf_stores.h"
#include "cni/plugins/sriov/internal.h"
#include "kern/net/altname.h"

/* sriov: moves a VF into the pod. */

/* Sets up the log according to conf.logLevel (a level of cni-log) and conf.logFile. */
static void start(const struct cni_call *c)
{
	const char *level = json_string(json_get_go(c->conf, "logLevel"));
	const char *file = json_string(json_get_go(c->conf, "logFile"));
	struct log_conf l = {.level = LOG_INFO, .path = file};
	struct err e = ERR_INIT;

	if (!level && !file)
		return;
	if (level && strcmp(level, "verbose") == 0)
		l.level = LOG_DEBUG;
	else if (level)
		(void)log_level_parse(level, &l.level);
	if (log_setup(&l, &e) < 0)
		log_warn("cannot open the log file, logging to stderr", LOG_S("error", e.text));
}

/* --- locks and ownership of VFs --- */

static int check_id(const struct rail *rail, struct err *e)
{
	const char *id = rail->conf.sriov.device_id;

	if (!id)
		return err_kind(e, ERR_CONF, -EINVAL,
				ORIG("SRIOV-CNI failed to load netconf: LoadConf(): VF pci addr is "
				     "required (conf.deviceID)"));
	if (!pci_bdf_ok(id))
		return err_kind(
			e, ERR_CONF, -EINVAL,
			ORIG("SRIOV-CNI failed to load netconf: conf.deviceID is '%s', expected a "
			     "VF's PCI address such as 0000:3b:00.2"),
			id);
	return 0;
}

static const char *id_of(const struct rail *rail)
{
	return rail->conf.sriov.device_id;
}

static int claim_one(struct attach *a, const struct rail *rail, struct err *e)
{
	int r = sriov_free_up(a, id_of(rail), e);

	return r < 0 ? r : ib_restore_free_up(a, id_of(rail), NULL, e);
}

static int claim(struct attach *a, struct err *e)
{
	int r = 0;

	for (size_t i = 0; i < a->n_rails; i++) {
		r = is_sriov(&a->rails[i]) ? check_id(&a->rails[i], e) : 0;
		if (r < 0)
			return rail_err(&a->rails[i], r, e);
	}
	r = vf_rail_lock(a, &sriov_kind, id_of, e);
	for (size_t i = 0; r >= 0 && i < a->n_rails; i++) {
		r = is_sriov(&a->rails[i]) ? claim_one(a, &a->rails[i], e) : 0;
		if (r < 0)
			return rail_err(&a->rails[i], r, e);
	}
	return r;
}

/* --- inspection of VFs before any change --- */

static int check_driver(const struct vf_place *p, struct err *e)
{
	if (*p->netdev || p->dpdk)
		return 0;
	return err_kind(e, ERR_UNAVAILABLE, -ENODEV,
			"the VF %s does not have a interface name or a dpdk driver (its driver is "
			"'%s': bind it to the NIC's VF driver or to vfio-pci; or is it in another "
			"pod?)",
			p->pci.bdf, *p->pci.driver ? p->pci.driver : "none");
}

/* Reads the attributes that the PF reports of the VF. */
static int inspect_pf(struct attach *a, const struct rail *rail, struct err *e)
{
	struct vf_rail *v = rail->vf;
	const struct vf_place *p = &v->place;
	struct err reason = ERR_INIT;
	int r;

	if (!p->pf.index)
		return rail->conf.sriov.want.set ? vf_place_no_pf(p, e) : 0;
	if (!link_is_up(&p->pf))
		log_warn("the PF is down: its VFs may have no carrier", LOG_S("pf", p->pf.name));
	r = vf_get(a->host, p->pf.index, p->pf.name, p->number, &v->now, &reason);
	if (r == -EOPNOTSUPP && !rail->conf.sriov.want.set) {
		v->now = (struct vf_info){.vf = p->number, .spoofchk = -1, .trust = -1};
		return 0;
	}
	if (r < 0 && e)
		*e = reason;
	return r < 0 ? err_wrap(e, r, ORIG("failed to find vf %u"), p->number) : 0;
}

static int inspect_netdev(struct attach *a, struct rail *rail, struct err *e)
{
	struct vf_record *rec = &rail->vf->record;
	int r = link_get(a->host, rail->vf->place.netdev, &rail->master, e);

	if (r >= 0)
		r = altname_list(a->host, rail->master.index, &rec->altnames, &rec->n_altnames, e);
	return r < 0 ? err_wrap(e, r, "VF '%s'", rail->vf->place.pci.bdf) : 0;
}

static int check_mtu(const struct rail *rail, struct err *e)
{
	const struct link *pf = &rail->vf->place.pf;

	if (!pf->index || rail->conf.mtu <= pf->mtu)
		return 0;
	return err_kind(e, ERR_CONF, -EINVAL,
			"invalid MTU %u, must be [0, PF MTU(%u)] (conf.mtu; PF is '%s')",
			rail->conf.mtu, pf->mtu, pf->name);
}

static void fill_record(const struct attach *a, const struct rail *rail)
{
	struct vf_record *rec = &rail->vf->record;

	vf_rail_record(a, rail, rail->conf.sriov.want.set);
	rec->pod_mac = rail->conf.mac;
	if (!rec->dpdk)
		rec->mtu = rail->conf.mtu ? rail->conf.mtu : rail->master.mtu;
}

static int inspect(struct attach *a, struct rail *rail, struct err *e)
{
	struct vf_rail *v = rail->vf;
	int r = vf_place_read(&a->call->root, a->host, rail->conf.sriov.device_id, &v->place, e);

	if (r < 0)
		return err_wrap(e, r,
				ORIG("SRIOV-CNI failed to load netconf: LoadConf(): failed to get "
				     "VF information"));
	r = check_driver(&v->place, e);
	if (r >= 0)
		r = inspect_pf(a, rail, e);
	if (r >= 0)
		r = check_mtu(rail, e);
	if (r >= 0 && !v->place.dpdk)
		r = inspect_netdev(a, rail, e);
	if (r < 0)
		return err_wrap(e, r, ORIG("SRIOV-CNI failed to load netconf"));
	rail->no_link = v->place.dpdk;
	if (v->place.pf.index)
		rail->uplink = &v->place.pf;
	fill_record(a, rail);
	return 0;
}

/* --- CHECK and STATUS --- */

static int check(const struct rail_conf *c, const struct link *l, struct err *e)
{
	if (!*l->device || !c->sriov.device_id || strcmp(l->device, c->sriov.device_id) == 0)
		return 0;
	return err_set(e, -EINVAL, "interface '%s' is device '%s', expected VF '%s'", l->name,
		       l->device, c->sriov.device_id);
}

static int verify(struct attach *a, const struct rail *rail, struct err *e)
{
	const struct sriov_conf *c = &rail->conf.sriov;
	unsigned int missing;
	struct vf_info now;
	struct vf_place p;
	int r;

	if (!c->want.set || !c->device_id)
		return 0;
	r = vf_place_read(&a->call->root, a->host, c->device_id, &p, e);
	if (r >= 0 && !p.pf.index)
		r = vf_place_no_pf(&p, e);
	if (r >= 0)
		r = vf_get(a->host, p.pf.index, p.pf.name, p.number, &now, e);
	if (r < 0)
		return r;
	missing = vf_plan_missing(&c->want, &now);
	if (now.spoofchk < 0)
		missing &= ~(unsigned int)VF_ATTR_SPOOFCHK;
	if (now.trust < 0)
		missing &= ~(unsigned int)VF_ATTR_TRUST;
	if (!missing)
		return 0;
	return err_set(e, -EINVAL, "VF %u of '%s' does not have the value of conf.%s", p.number,
		       p.pf.name, vf_attr_name(missing));
}

static int any_vf(const struct root *root, struct err *e)
{
	auto_free struct pci_dev *list = NULL;
	size_t n = 0;
	int r = pci_list(root, &list, &n, e);

	/* A machine without PCI has no VFs. */
	if (r < 0 && r != -ENOENT)
		return r;
	for (size_t i = 0; i < n; i++)
		if (*list[i].physfn)
			return 0;
	return err_kind(e, ERR_UNAVAILABLE, -ENODEV,
			"the node has no VF (write a number to sriov_numvfs of its NICs)");
}

/* STATUS also succeeds while the VF is in a pod. Without deviceID, which the runtime adds only for
 * a pod, STATUS succeeds if the node has any VF. */
static int status(const struct root *root, struct rail *rail, struct err *e)
{
	const char *id = rail->conf.sriov.device_id;
	struct vf_place p;
	int r;

	if (!id)
		return any_vf(root, e);
	r = vf_place_read(root, NULL, id, &p, e);
	if (r < 0)
		return r;
	if (!*p.pci.driver)
		return err_kind(e, ERR_UNAVAILABLE, -ENODEV,
				"VF '%s' has no driver: bind it to the NIC's VF driver or to "
				"vfio-pci",
				id);
	if (!*p.pf.name && rail->conf.sriov.want.set)
		return vf_place_no_pf(&p, e);
	rail->no_link = p.dpdk;
	return 0;
}

static int sriov_prepare(struct attach *a, struct err *e);

static void sriov_put(const struct attach *a, const struct rail *rail, struct nl_batch *b);

static int sriov_settle(struct attach *a, struct err *e);

const struct link_driver sriov_kind = {
	.type = "sriov",
	.order = RAIL_SRIOV,
	.flags = RAIL_READS_ARGS | RAIL_OPTIMISTIC_DAD,
	.start = start,
	.read = sriov_read,
	.check = check,
	.hint = vf_rail_hint,
	.claim = claim,
	.inspect = inspect,
	.prepare = sriov_prepare,
	.put = sriov_put,
	.settle = sriov_settle,
	.del = sriov_del,
	.gc = sriov_gc,
	.status = status,
	.verify = verify,
};

const struct cni_plugin cni_sriov =
	RAIL_PLUGIN(sriov_kind, "sriov", &sriov_table, &rail_common_table);

/* --- changes of an ADD on the node --- */

/* Restores all VFs for which this ADD began to write a record. Their netdevs may be in the pod or
 * on the node, and their files may be incomplete. */
static int undo_all(void *arg, struct err *e)
{
	struct attach *a = *(struct attach **)arg;
	int first = 0;

	for (size_t i = 0; i < a->n_rails; i++) {
		const struct rail *rail = &a->rails[i];
		int r;

		if (!is_sriov(rail) || !rail->vf || !rail->vf->record.file)
			continue;
		r = sriov_release(a, &rail->vf->record, VF_RESTORE_UP, first < 0 ? NULL : e);
		first = first < 0 ? first : r;
	}
	return first < 0 ? first : 0;
}

static int write_files(const struct attach *a, const struct rail *rail, struct err *e)
{
	const struct sriov_netconf n = {
		.c = &rail->conf.sriov,
		.conf = a->n_rails == 1 && !rail->label ? a->call->conf : NULL,
		.version = cni_version_str(a->call->version),
		.ipam_type = rail->ipam.conf ? rail->ipam.type : "",
	};
	struct vf_record *rec = &rail->vf->record;
	auto_buf struct buf text;
	int r;

	buf_init(&text, VF_RECORD_MAX);
	sriov_record_print(rec, &n, &text);
	if (text.over)
		return err_kind(e, ERR_CONF, -E2BIG,
				"error saving NetConf: the record of the VF has more than %d "
				"bytes (it contains dns and prevResult of the netconf)",
				VF_RECORD_MAX);
	/* The name is set before the record is written, because a failed write may have left the
	 * file, and undo needs its name. */
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
		err_kind(e, e->kind, code, ORIG("SRIOV-CNI failed to configure VF \"%s\""),
			 e->text);
	return rail_err(rail, code, e);
}

/* Sets the result's MAC of a VF with a userspace driver: the requested MAC; if none is
 * requested, the administrative MAC, because only the PF reports attributes of such a VF. */
static void report_mac(struct rail *rail)
{
	const struct mac *admin = &rail->vf->now.mac;
	bool zero = true;

	if (!rail->no_link)
		return;
	for (unsigned int i = 0; i < admin->len; i++)
		zero &= !admin->b[i];
	rail->mac = rail->conf.mac.len ? rail->conf.mac : zero ? (struct mac){0} : *admin;
}

static int sriov_prepare(struct attach *a, struct err *e)
{
	auto_free struct vf_job *jobs = xcalloc(a->n_rails, sizeof(*jobs));
	auto_free size_t *owner = xcalloc(a->n_rails, sizeof(*owner));
	size_t n = 0, bad = 0;
	int r;

	undo_push(&a->undo, "restore SR-IOV VFs", undo_all, &a, sizeof(a));
	r = write_all(a, e);
	if (r < 0)
		return r;
	for (size_t i = 0; i < a->n_rails; i++) {
		struct rail *rail = &a->rails[i];
		const struct vf_rail *v = rail->vf;

		if (!is_sriov(rail))
			continue;
		report_mac(rail);
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

/* One message suffices: the kernel first moves the link, which sets the link down, then renames it.
 */
static void sriov_put(const struct attach *a, const struct rail *rail, struct nl_batch *b)
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

/* --- changes of an ADD in the pod --- */

static int set_mtu(struct attach *a, const struct rail *rail, struct err *e)
{
	const struct link_change c = {.set = LINK_SET_MTU, .mtu = rail->conf.mtu};
	auto_batch struct nl_batch *b = nl_batch_new();

	if (!rail->conf.mtu)
		return 0;
	link_set(b, rail->index, rail->ifname, &c);
	return nl_batch_commit(a->pod, b, e);
}

/*
 * Sets the requested MTU and MAC, even if the VF had this MTU before the move, and then reads both
 * for the result: a VF that was down may have taken the MTU of its PF during the move.
 */
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

static int sriov_settle(struct attach *a, struct err *e)
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
