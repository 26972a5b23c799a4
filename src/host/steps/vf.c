/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kind vf: the virtual functions (VFs) of a PF: their number, and driver, MTU, MAC or GUIDs of each
 * VF; and the mode of the PF's embedded switch. MACs and GUIDs are derived from the machine-id, the
 * PF's PCI address and the VF's number, so that they are the same after each boot. A VF in use by a
 * pod is not changed; while a pod has a VF of the PF, neither the number of VFs nor the mode can
 * change.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/num.h"
#include "device/allocated.h"
#include "host/steps/nics.h"
#include "host/steps/steps.h"
#include "kern/net/vf.h"
#include "kern/pci/devlink.h"
#include "wire/json/json.h"
#include "wire/tls/digest.h"

enum { VFS_MAX = 256 };

#define NO_GUID "none" /* value of the argument `guid` for the GUID 0 */

struct vf_want {
	struct host_want head;
	int64_t number, mtu;
	const char *pf_names, *root_devices, *vendor, *device, *link_type, *driver, *eswitch,
		*identity;
	bool rdma;
};

/* The VFs of a PF that a section selects: "ens1f0np0#0-3". */
struct vf_range {
	uint32_t first, last;
};

#define AT(m) offsetof(struct vf_want, m)
static const struct opt keys[] = {
	{"num-vfs", 0, OPT_INT, "N", "number of VFs", AT(number), 0, VFS_MAX},
	{"pf-names", 0, OPT_STR, "NAME,...",
	 "PFs: interfaces, RDMA devices or PCI addresses; NAME#0-3: only VFs 0 to 3 of this PF "
	 "(default, if no key selects PFs: the section's name)",
	 AT(pf_names), 0, 0},
	{"root-devices", 0, OPT_STR, "BDF,...", "PFs by PCI address", AT(root_devices), 0, 0},
	{"vendor", 0, OPT_STR, "HEX", "only PFs with this PCI vendor id, for instance 15b3",
	 AT(vendor), 0, 0},
	{"device", 0, OPT_STR, "HEX", "only PFs with this PCI device id, for instance 1021",
	 AT(device), 0, 0},
	{"link-type", 0, OPT_CHOICE, "eth|ib", "only PFs with this link layer", AT(link_type), 0,
	 0},
	{"driver", 0, OPT_CHOICE, "netdevice|vfio-pci", "driver of the VFs (netdevice)", AT(driver),
	 0, 0},
	{"mtu", 0, OPT_INT, "MTU", "MTU of the VFs' interfaces, at most the PF's", AT(mtu), 1280,
	 9978},
	{"identity", 0, OPT_CHOICE, "stable|driver",
	 "MACs and GUIDs derived from this machine (stable), or as the driver makes them",
	 AT(identity), 0, 0},
	{"is-rdma", 0, OPT_FLAG, NULL,
	 "report VFs that have no RDMA device; cannot be combined with driver vfio-pci", AT(rdma),
	 0, 0},
	{"eswitch-mode", 0, OPT_CHOICE, "legacy|switchdev", "mode of the PF's embedded switch",
	 AT(eswitch), 0, 0},
	{0},
};

static void init(void *want)
{
	struct vf_want *w = want;

	w->number = -1;
	w->driver = "netdevice";
	w->identity = "stable";
}

static int check_hex(const char *key, const char *text, struct err *e)
{
	uint64_t v;

	if (!text || num_hex(span_of(text), UINT16_MAX, &v) == 0)
		return 0;
	return err_kind(e, ERR_CONF, -EINVAL, "%s is '%s', expected a hexadecimal id such as 15b3",
			key, text);
}

/* Parses "NAME", "NAME#2" or "NAME#0-3" into the name and the VFs. */
static int parse_range(struct span entry, struct span *name, struct vf_range *ret)
{
	struct span rest = span_trim(entry), first;
	uint64_t a, b;

	*ret = (struct vf_range){0, UINT32_MAX};
	span_cut(&rest, '#', name);
	if (!rest.p)
		return 0;
	span_cut(&rest, '-', &first);
	if (num_u64(first, 0, VFS_MAX, &a) < 0)
		return -EINVAL;
	b = a;
	if (rest.p && num_u64(rest, a, VFS_MAX, &b) < 0)
		return -EINVAL;
	*ret = (struct vf_range){(uint32_t)a, (uint32_t)b};
	return 0;
}

/* Returns whether an entry that precedes `name` in the list has the same name. */
static bool names_before(const char *list, struct span name)
{
	struct span rest = span_of(list), one, other;
	struct vf_range range;

	while (span_cut(&rest, ',', &one) && one.p + one.n < name.p)
		if (parse_range(one, &other, &range) == 0 && other.n == name.n &&
		    memcmp(other.p, name.p, name.n) == 0)
			return true;
	return false;
}

static int check_ranges(const char *key, const char *list, const struct vf_want *w, struct err *e)
{
	struct span rest = span_of(list), one, name;
	struct vf_range range;

	while (span_cut(&rest, ',', &one)) {
		if (parse_range(one, &name, &range) < 0)
			return err_kind(
				e, ERR_CONF, -EINVAL,
				"%s '%.*s' is not a range of VFs, expected NAME#FIRST-LAST, for "
				"instance ens1f0np0#0-3",
				key, (int)one.n, one.p);
		if (range.last != UINT32_MAX && range.last >= w->number)
			return err_kind(
				e, ERR_CONF, -ERANGE,
				"%s '%.*s' ends with VF %u, and num-vfs is %lld: the last VF is %lld",
				key, (int)one.n, one.p, range.last, (long long)w->number,
				(long long)w->number - 1);
		if (range.last != UINT32_MAX && names_before(list, name))
			return err_kind(e, ERR_CONF, -EINVAL,
					"%s '%s' has '%.*s' more than once: write a section for "
					"each range of its VFs",
					key, list, (int)name.n, name.p);
	}
	return 0;
}

static int check(void *want, struct err *e)
{
	const struct vf_want *w = want;
	int r = check_hex("vendor", w->vendor, e);

	if (r == 0)
		r = check_hex("device", w->device, e);
	if (r == 0 && w->number < 0)
		return err_kind(e, ERR_CONF, -EINVAL,
				"num-vfs is missing: set num-vfs to the number of VFs");
	if (r == 0 && w->rdma && !strcmp(w->driver, "vfio-pci"))
		return err_kind(
			e, ERR_CONF, -EINVAL,
			"is-rdma and driver vfio-pci exclude each other: a VF of vfio-pci has no "
			"RDMA device");
	if (r == 0)
		r = check_ranges("the name", w->head.name, w, e);
	return r < 0 ? r : check_ranges("pf-names", w->pf_names, w, e);
}

/* --- the state of PFs and VFs --- */

struct vf {
	char bdf[PCI_BDF_MAX], driver[PCI_DRIVER_MAX], netdev[LINK_NAME_MAX], rdma[PCI_NAME_MAX];
	char *mtu; /* MTU of the VF's interface; NULL: no interface in this namespace */
	/* MAC of the VF's interface, and the MAC that the PF has for the VF; len 0: not known */
	struct mac own, admin;
	bool has_guid; /* the VF's node GUID is not zero */
	/* user of the VF: "pod 'NS/NAME'", "the pod with UID 'UID'" or "another network
	 * namespace"; "": none */
	char pod[256];
};

struct pf {
	struct host_nic nic;
	char *mtu;
	struct vf *vfs;
	size_t n;
	int eswitch; /* enum eswitch_mode; -1: not known */
};

struct vf_found {
	struct pf *v;
	struct host_nic *nics;
	size_t n, n_nics;
	char *machine;
};

static void forget(void *found)
{
	struct vf_found *f = found;

	if (!f)
		return;
	for (size_t i = 0; i < f->n; i++) {
		for (size_t k = 0; k < f->v[i].n; k++)
			free(f->v[i].vfs[k].mtu);
		free(f->v[i].vfs);
		free(f->v[i].mtu);
	}
	free(f->v);
	free(f->nics);
	free(f->machine);
	free(f);
}

static bool holds_id(const struct json *ids, const char *id)
{
	struct json_walk w = json_walk_start(ids);
	const struct json *v;

	while ((v = json_walk_next(&w, NULL))) {
		const char *s = json_string(v);

		if (s ? !strcmp(s, id) : json_kind(v) == JSON_ARRAY && holds_id(v, id))
			return true;
	}
	return false;
}

static void pod_of_list(const struct podres_list *l, struct vf *vf)
{
	for (size_t i = 0; i < l->n_pods; i++) {
		const struct podres_pod *p = &l->pods[i];

		for (size_t c = 0; c < p->n_containers; c++)
			for (size_t d = 0; d < p->containers[c].n_devices; d++)
				for (size_t k = 0; k < p->containers[c].devices[d].n_ids; k++)
					if (!strcmp(p->containers[c].devices[d].ids[k], vf->bdf))
						snprintf(vf->pod, sizeof(vf->pod),
							 "pod '%.120s/%.120s'", p->ns, p->name);
	}
}

static void pod_of_checkpoint(const struct json *doc, struct vf *vf)
{
	struct json_walk w = json_walk_start(json_get(json_get(doc, "Data"), "PodDeviceEntries"));
	const struct json *v;

	while ((v = json_walk_next(&w, NULL))) {
		const char *uid = json_string(json_get(v, "PodUID"));

		if (uid && holds_id(json_get(v, "DeviceIDs"), vf->bdf))
			snprintf(vf->pod, sizeof(vf->pod), "the pod with UID '%.120s'", uid);
	}
}

static bool is_ipoib(struct host *h, const char *netdev)
{
	auto_free char *path = xasprintf("/sys/class/net/%s/type", netdev);
	auto_free char *type = host_attr_read(h, path);

	return type && !strcmp(type, "32"); /* ARPHRD_INFINIBAND */
}

/* Sets vf->pod if the VF seems to be in use in another network namespace: the VF has a kernel
 * driver, but in the host's namespace no RDMA device, and no interface or only an IPoIB
 * interface. */
static void is_away(struct host *h, struct vf *vf)
{
	if (!vf->pod[0] && h->kernel && vf->driver[0] && !pci_driver_is_dpdk(vf->driver) &&
	    !vf->rdma[0] && (!vf->netdev[0] || is_ipoib(h, vf->netdev)))
		snprintf(vf->pod, sizeof(vf->pod), "another network namespace");
}

static int find_pods(struct host *h, struct vf_found *f, struct err *e)
{
	auto_kubelet struct kubelet k = {0};
	auto_json struct json_doc *doc = NULL;
	int r = kubelet_query(&k, &h->root, e);

	if (r < 0)
		return err_wrap(e, r, "find the pods that use VFs");
	if (!k.has_list && k.checkpoint.len &&
	    json_parse(&doc, buf_span(&k.checkpoint), k.checkpoint.len, e) < 0)
		return err_wrap(e, -EBADMSG, "find the pods that use VFs");
	for (size_t i = 0; i < f->n; i++)
		for (size_t n = 0; n < f->v[i].n; n++) {
			if (k.has_list)
				pod_of_list(&k.list, &f->v[i].vfs[n]);
			else if (doc)
				pod_of_checkpoint(json_root(doc), &f->v[i].vfs[n]);
			is_away(h, &f->v[i].vfs[n]);
		}
	return 0;
}

static bool guid_is_set(struct host *h, const char *rdma)
{
	auto_free char *path = xasprintf("/sys/class/infiniband/%s/node_guid", rdma);
	auto_free char *guid = rdma[0] ? host_attr_read(h, path) : NULL;

	return guid && strspn(guid, "0:") < strlen(guid);
}

static char *mtu_of(struct host *h, const char *netdev)
{
	auto_free char *path = xasprintf("/sys/class/net/%s/mtu", netdev);

	return netdev[0] ? host_attr_read(h, path) : NULL;
}

static void first_name(struct host *h, const char *bdf, enum pci_child what, char *ret, size_t size)
{
	char **names = NULL;
	size_t n = 0;

	if (pci_children(&h->root, bdf, what, &names, &n, NULL) < 0)
		return;
	if (n)
		str_copy(ret, size, names[0]);
	str_list_free(names, n);
}

static int read_pf(struct host *h, const struct host_nic *nic, struct pf *p, struct err *e)
{
	auto_free struct pci_vf *list = NULL;
	size_t n = 0;
	int r = pci_vf_list(&h->root, nic->pci.bdf, &list, &n, e);

	p->nic = *nic;
	p->eswitch = -1;
	p->mtu = mtu_of(h, nic->netdev);
	for (size_t i = 0; r == 0 && i < n; i++) {
		struct vf *vf = &VEC_PUSH(p->vfs, p->n);
		struct pci_dev d;

		str_copy(vf->bdf, sizeof(vf->bdf), list[i].bdf);
		if (pci_read(&h->root, vf->bdf, &d, NULL) == 0)
			str_copy(vf->driver, sizeof(vf->driver), d.driver);
		first_name(h, vf->bdf, PCI_NETDEV, vf->netdev, sizeof(vf->netdev));
		first_name(h, vf->bdf, PCI_RDMA, vf->rdma, sizeof(vf->rdma));
		vf->mtu = mtu_of(h, vf->netdev);
		vf->has_guid = guid_is_set(h, vf->rdma);
	}
	return r;
}

/* Reads the MAC that the PF has for each VF and, while the PF is up, the MAC of the VF's interface.
 * A MAC that the driver does not report stays unknown. */
static void read_admin_macs(struct host *h, struct pf *p)
{
	auto_free struct vf_info *list = NULL;
	const struct host_net *net;
	const struct link *l;
	struct nl_wire *w;
	size_t n = 0;

	if (!h->kernel || !p->n || !p->nic.netdev[0] || p->nic.infiniband ||
	    host_net_read(h, &net, NULL) < 0 || host_route_wire(h, &w, NULL) < 0)
		return;
	l = host_link(net, p->nic.netdev);
	if (!l || vf_list(w, l->index, l->name, &list, &n, NULL) < 0)
		return;
	for (size_t i = 0; i < n; i++)
		if (list[i].vf < p->n)
			p->vfs[list[i].vf].admin = list[i].mac;
	/* VFs of igb read their MAC only while the PF is up. */
	for (size_t i = 0; i < p->n && link_is_up(l); i++) {
		const struct link *vf = host_link(net, p->vfs[i].netdev);

		if (vf)
			p->vfs[i].own = vf->mac;
	}
}

static void read_eswitch(struct host *h, struct vf_found *f)
{
	auto_nl struct nl_wire *w = NULL;
	auto_devlink struct devlink *d = NULL;
	enum eswitch_mode mode;

	if (!h->kernel || nl_open(&w, NL_GENERIC, -1, NULL) < 0 || devlink_open(&d, w, NULL) < 0)
		return;
	for (size_t i = 0; i < f->n; i++)
		if (devlink_eswitch_get(d, f->v[i].nic.pci.bdf, &mode, NULL) == 0)
			f->v[i].eswitch = (int)mode;
}

static int observe(struct host *h, const struct host_wants *w, void **found, struct err *e)
{
	struct vf_found *f = xcalloc(1, sizeof(*f));
	int r = host_nics_read(h, &f->nics, &f->n_nics, e);

	(void)w;
	*found = f;
	f->machine = host_attr_read(h, "/etc/machine-id");
	for (size_t i = 0; r == 0 && i < f->n_nics; i++)
		if (f->nics[i].pci.is_pf)
			r = read_pf(h, &f->nics[i], &VEC_PUSH(f->v, f->n), e);
	for (size_t i = 0; r == 0 && i < f->n; i++)
		read_admin_macs(h, &f->v[i]);
	if (r == 0)
		r = find_pods(h, f, e);
	if (r == 0)
		read_eswitch(h, f);
	return r;
}

/* --- plan of the steps of PFs and VFs --- */

static bool hex_is(const char *text, uint16_t id)
{
	uint64_t v;

	return !text || (num_hex(span_of(text), UINT16_MAX, &v) == 0 && v == id);
}

static bool has_selector(const struct vf_want *w)
{
	return w->pf_names || w->root_devices || w->vendor || w->device || w->link_type;
}

/* Returns whether the list names this PF, and sets *ret to the selected VFs. */
static bool names_pf(const char *list, const struct host_nic *nic, struct vf_range *ret)
{
	struct span rest = span_of(list), one, name;

	while (span_cut(&rest, ',', &one)) {
		auto_free char *word = NULL;

		if (parse_range(one, &name, ret) < 0)
			continue;
		word = span_dup(name);
		if (host_nic_listed(nic, word))
			return true;
	}
	return false;
}

static bool selected(const struct vf_want *w, const struct pf *p, struct vf_range *ret)
{
	*ret = (struct vf_range){0, UINT32_MAX};
	if (!has_selector(w))
		return w->head.name && names_pf(w->head.name, &p->nic, ret);
	return (!w->pf_names || names_pf(w->pf_names, &p->nic, ret)) &&
	       (!w->root_devices || host_nic_listed(&p->nic, w->root_devices)) &&
	       hex_is(w->vendor, p->nic.pci.vendor) && hex_is(w->device, p->nic.pci.device) &&
	       (!w->link_type || !strcmp(w->link_type, p->nic.infiniband ? "ib" : "eth"));
}

/* Fails on the first name of the list that no NIC has. */
static int check_names(const struct vf_found *f, const char *key, const char *list, struct err *e)
{
	struct span rest = span_of(list), one, name;
	struct vf_range range;
	int r = 0;

	while (r == 0 && span_cut(&rest, ',', &one)) {
		auto_free char *word = NULL;

		if (parse_range(one, &name, &range) < 0)
			continue;
		word = span_dup(name);
		r = host_nics_check_list(f->nics, f->n_nics, key, word, e);
	}
	return r;
}

/* Computes 48 bits (a MAC) or 64 bits (a GUID) that are the same each time for the same machine, PF
 * and VF number. The MAC is a locally administered unicast address. */
static uint64_t identity(const struct vf_found *f, const struct pf *p, uint32_t vf, bool guid)
{
	auto_free char *text =
		xasprintf("%s %s %u", f->machine ? f->machine : "", p->nic.pci.bdf, vf);
	char hex[DIGEST_HEX], part[17];
	uint64_t v = 0;

	digest_sha256(span_of(text), hex);
	snprintf(part, sizeof(part), "%.*s", guid ? 16 : 12, hex);
	num_hex(span_of(part), UINT64_MAX, &v);
	if (guid)
		return (v & ~(UINT64_C(0xff) << 56)) | UINT64_C(2) << 56;
	return (v & ~(UINT64_C(0xff) << 40)) | UINT64_C(2) << 40;
}

static const struct vf *in_pod(const struct pf *p)
{
	for (size_t i = 0; i < p->n; i++)
		if (p->vfs[i].pod[0])
			return &p->vfs[i];
	return NULL;
}

static void block_if_used(struct host_step *s, const struct pf *p)
{
	const struct vf *used = in_pod(p);

	if (used)
		host_step_blocked(s, "VF '%s' is in %s: delete the pod or drain the node first",
				  used->bdf, used->pod);
}

static void count_step(const struct pf *p, uint32_t want, struct host_plan *plan)
{
	struct host_step *s = host_plan_add(plan, "vf", host_nic_name(&p->nic));
	auto_free char *now = xasprintf("%u VFs", p->nic.pci.num_vfs);
	auto_free char *will = xasprintf("%u VFs", want);

	host_step_text(s, now, will);
	host_step_command(s, "echo %u >/sys/bus/pci/devices/%s/sriov_numvfs", want, p->nic.pci.bdf);
	host_op_begin(&s->action, "number");
	host_op_add(&s->action, "pf", "%s", p->nic.pci.bdf);
	host_op_add(&s->action, "n", "%u", want);
	host_op_begin(&s->undo, "number");
	host_op_add(&s->undo, "pf", "%s", p->nic.pci.bdf);
	host_op_add(&s->undo, "n", "%u", p->nic.pci.num_vfs);
	s->interrupts = p->nic.pci.num_vfs > 0;
	block_if_used(s, p);
}

static void eswitch_step(const struct pf *p, const char *want, struct host_plan *plan)
{
	const char *now = eswitch_mode_name((enum eswitch_mode)p->eswitch);
	struct host_step *s;

	if (p->eswitch < 0 || !strcmp(now, want))
		return;
	s = host_plan_add(plan, "vf", host_nic_name(&p->nic));
	host_step_text(s, now, want);
	host_step_command(s, "devlink dev eswitch set pci/%s mode %s", p->nic.pci.bdf, want);
	host_op_begin(&s->action, "eswitch");
	host_op_add(&s->action, "pf", "%s", p->nic.pci.bdf);
	host_op_add(&s->action, "mode", "%s", want);
	host_op_begin(&s->undo, "eswitch");
	host_op_add(&s->undo, "pf", "%s", p->nic.pci.bdf);
	host_op_add(&s->undo, "mode", "%s", now);
	s->interrupts = true;
	block_if_used(s, p);
}

static void add_identity(const struct vf_found *f, const struct pf *p, uint32_t i,
			 struct host_op *op, struct buf *text)
{
	char guid[VF_GUID_TEXT_MAX];
	uint64_t v = identity(f, p, i, p->nic.infiniband);

	vf_guid_str(v, guid);
	if (p->nic.infiniband) {
		host_op_add(op, "guid", "%s", guid);
		buf_printf(text, ", GUID %s", guid);
	} else { /* the MAC is the last six of the eight bytes in `guid` */
		host_op_add(op, "mac", "%s", guid + 6);
		buf_printf(text, ", MAC %s", guid + 6);
	}
}

/*
 * Returns whether a VF lacks its stable identity. An InfiniBand VF without a GUID is useless; a MAC
 * that the driver chose works, but changes at the next boot. A VF's driver reads the MAC that the
 * PF has for the VF only when the driver is bound, so both MACs are compared.
 */
static bool lacks_identity(const struct vf_found *f, const struct pf *p, uint32_t i,
			   const struct vf *existing, bool vfio)
{
	uint64_t v = identity(f, p, i, false);
	struct mac want = {.len = 6};

	if (!existing)
		return true;
	if (p->nic.infiniband)
		/* A VF without a driver gets its GUID before it is bound. */
		return !vfio && !existing->has_guid && (existing->rdma[0] || !existing->driver[0]);
	for (int k = 0; k < 6; k++)
		want.b[k] = (uint8_t)(v >> (40 - 8 * k));
	return (existing->admin.len && !mac_eq(&existing->admin, &want)) ||
	       (!vfio && existing->own.len && !mac_eq(&existing->own, &want));
}

static struct host_step *begin_step(struct host_plan *plan, const struct pf *p, uint32_t i)
{
	auto_free char *subject = xasprintf("%s VF %u", host_nic_name(&p->nic), i);
	struct host_step *s = host_plan_add(plan, "vf", subject);

	host_op_begin(&s->action, "vf");
	host_op_begin(&s->undo, "vf");
	host_op_add(&s->action, "pf", "%s", p->nic.pci.bdf);
	host_op_add(&s->undo, "pf", "%s", p->nic.pci.bdf);
	host_op_add(&s->action, "vf", "%u", i);
	host_op_add(&s->undo, "vf", "%u", i);
	return s;
}

/* Adds the VF's stable MAC or GUID to the step; its undo restores the former MAC, or removes the
 * GUID. */
static void put_identity(const struct vf_found *f, const struct pf *p, uint32_t i,
			 const struct vf *existing, struct host_step *s, struct buf *text)
{
	const struct mac *was = !existing			 ? NULL
				: !mac_is_zero(&existing->admin) ? &existing->admin
								 : &existing->own;
	char mac[MAC_TEXT_MAX];

	add_identity(f, p, i, &s->action, text);
	if (p->nic.infiniband && existing) /* the VF has no GUID, see lacks_identity() */
		host_op_add(&s->undo, "guid", "%s", NO_GUID);
	else if (was && was->len)
		host_op_add(&s->undo, "mac", "%s", mac_str(was, mac));
}

/* Returns the state of a VF as a plan shows it; the caller frees it. */
static char *describe(const struct vf *existing)
{
	if (!existing)
		return xstrdup("as the driver makes it");
	return xasprintf("driver %s%s%s%s", existing->driver[0] ? existing->driver : "none",
			 existing->rdma[0] && !existing->has_guid ? ", no GUID" : "",
			 existing->mtu ? ", MTU " : "", existing->mtu ? existing->mtu : "");
}

/* Adds a step for the attributes that one VF lacks; existing NULL: an earlier step changes the
 * number of VFs and thereby creates the VF. */
static void vf_step(const struct vf_found *f, const struct vf_want *w, const struct pf *p,
		    uint32_t i, const struct vf *existing, struct host_plan *plan)
{
	bool vfio = !strcmp(w->driver, "vfio-pci");
	bool driver = existing ? vfio != (bool)pci_driver_is_dpdk(existing->driver) ||
					 !existing->driver[0]
			       : vfio;
	bool named = !strcmp(w->identity, "stable") && f->machine &&
		     lacks_identity(f, p, i, existing, vfio);
	auto_free char *mtu = xasprintf("%lld", (long long)w->mtu);
	/* The MTU is also set if the VF gets a MAC or GUID: its driver is then bound again and sets
	 * the default MTU. */
	bool sized = w->mtu && !vfio &&
		     (!existing || named || !existing->mtu || strcmp(existing->mtu, mtu));
	auto_buf struct buf text = {0};
	auto_free char *now = NULL;
	struct host_step *s;

	if (!driver && !named && !sized)
		return;
	buf_init(&text, 256);
	s = begin_step(plan, p, i);
	if (named)
		put_identity(f, p, i, existing, s, &text);
	if (driver || named) {
		host_op_add(&s->action, "driver", "%s", w->driver);
		buf_printf(&text, ", driver %s", vfio ? "vfio-pci" : "of the kernel");
		if (existing && existing->driver[0])
			host_op_add(&s->undo, "driver", "%s",
				    pci_driver_is_dpdk(existing->driver) ? existing->driver
									 : "netdevice");
	}
	if (sized) {
		host_op_add(&s->action, "mtu", "%s", mtu);
		buf_printf(&text, ", MTU %s", mtu);
		if (existing && existing->mtu)
			host_op_add(&s->undo, "mtu", "%s", existing->mtu);
	}
	now = describe(existing);
	host_step_text(s, now, text.p + 2);
	host_step_command(s, "ip link set dev %s vf %u ...; echo BDF >/sys/bus/pci/drivers_probe",
			  host_nic_name(&p->nic), i);
	s->interrupts = existing != NULL;
	if (existing && existing->pod[0])
		host_step_blocked(s, "VF '%s' is in %s: delete the pod or drain the node first",
				  existing->bdf, existing->pod);
}

static int check_pf(const struct vf_want *w, const struct pf *p, struct err *e)
{
	uint64_t mtu;

	if (w->number > p->nic.pci.total_vfs)
		return err_kind(
			e, ERR_CONF, -ERANGE,
			"num-vfs is %lld, and '%s' can have %u (sriov_totalvfs): raise NUM_OF_VFS "
			"in its firmware ('mlxconfig -d %s set SRIOV_EN=1 NUM_OF_VFS=%lld') and "
			"reboot",
			(long long)w->number, host_nic_name(&p->nic), p->nic.pci.total_vfs,
			p->nic.pci.bdf, (long long)w->number);
	if (w->mtu && p->mtu && num_u64(span_of(p->mtu), 0, 65535, &mtu) == 0 &&
	    (uint64_t)w->mtu > mtu)
		return err_kind(
			e, ERR_CONF, -ERANGE,
			"mtu is %lld, more than the %s of its PF '%s': raise the PF's MTU first "
			"('unirail host addr %s --mtu %lld')",
			(long long)w->mtu, p->mtu, host_nic_name(&p->nic), host_nic_name(&p->nic),
			(long long)w->mtu);
	return 0;
}

static void remark_rdma(const struct vf_want *w, const struct pf *p, uint32_t i,
			struct host_plan *plan)
{
	const struct vf *vf = &p->vfs[i];

	if (w->rdma && i < p->n && vf->netdev[0] && !vf->rdma[0])
		host_plan_remark(
			plan, "vf", vf->bdf,
			"VF %u of '%s' has no RDMA device: load the driver's RDMA module "
			"('unirail host modules'), or enable RDMA of the function ('devlink dev "
			"param set pci/%s name enable_roce value true cmode driverinit')",
			i, host_nic_name(&p->nic), vf->bdf);
}

/* Returns whether a section selects PFs by name or PCI address, not only by vendor, device ID or
 * link type. */
static bool names_its_pfs(const struct vf_want *w)
{
	return !has_selector(w) || w->pf_names || w->root_devices;
}

/* Returns whether both sections name the PF (by interface, RDMA device or PCI address) and
 * select a common VF of it. */
static bool is_duplicate(const struct vf_want *a, const struct vf_range *of_a,
			 const struct vf_want *b, const struct vf_range *of_b)
{
	return names_its_pfs(a) && names_its_pfs(b) && of_a->first <= of_b->last &&
	       of_b->first <= of_a->last;
}

/* Sections that select VFs of one PF must have the same num-vfs. Two sections that both name the PF
 * must not have a VF in common. */
static int check_sections(const struct host_wants *all, size_t i, const struct pf *p,
			  const struct vf_range *range, struct err *e)
{
	const struct vf_want *w = (const struct vf_want *)all->v[i];
	struct vf_range earlier;

	for (size_t k = 0; k < i; k++) {
		const struct vf_want *other = (const struct vf_want *)all->v[k];

		if (!selected(other, p, &earlier))
			continue;
		if (is_duplicate(other, &earlier, w, range))
			return err_kind(
				e, ERR_CONF, -EEXIST,
				"%s: section '%s' selects PF '%s' (%s), and so does section '%s' at "
				"%s: remove one, or select different VFs (%s#0-3)",
				w->head.origin, w->head.name ? w->head.name : "",
				host_nic_name(&p->nic), p->nic.pci.bdf,
				other->head.name ? other->head.name : "", other->head.origin,
				host_nic_name(&p->nic));
		if (other->number != w->number)
			return err_kind(
				e, ERR_CONF, -EINVAL,
				"sections '%s' and '%s' request %lld and %lld VFs of '%s': give "
				"both "
				"the same num-vfs",
				other->head.name ? other->head.name : "",
				w->head.name ? w->head.name : "", (long long)other->number,
				(long long)w->number, host_nic_name(&p->nic));
	}
	return 0;
}

static bool is_first(const struct host_wants *all, size_t i, const struct pf *p)
{
	struct vf_range range;

	for (size_t k = 0; k < i; k++)
		if (selected((const struct vf_want *)all->v[k], p, &range))
			return false;
	return true;
}

static int decide_pf(const struct vf_found *f, const struct host_wants *all, size_t section,
		     const struct pf *p, const struct vf_range *range, struct host_plan *plan,
		     struct err *e)
{
	const struct vf_want *w = (const struct vf_want *)all->v[section];
	bool recreated = w->number != p->nic.pci.num_vfs;
	int r = check_pf(w, p, e);

	if (r == 0)
		r = check_sections(all, section, p, range, e);
	if (r < 0)
		return r;
	if (recreated && is_first(all, section, p))
		count_step(p, (uint32_t)w->number, plan);
	if (w->eswitch)
		eswitch_step(p, w->eswitch, plan);
	for (uint32_t i = range->first; i < w->number && i <= range->last; i++) {
		vf_step(f, w, p, i, recreated || i >= p->n ? NULL : &p->vfs[i], plan);
		if (!recreated)
			remark_rdma(w, p, i, plan);
	}
	return 0;
}

static int decide_one(const struct vf_found *f, const struct host_wants *all, size_t section,
		      struct host_plan *plan, struct err *e)
{
	const struct vf_want *w = (const struct vf_want *)all->v[section];
	struct vf_range range;
	size_t n = 0;
	int r = 0;

	for (size_t i = 0; i < f->n && r == 0; i++) {
		if (!selected(w, &f->v[i], &range))
			continue;
		n++;
		r = decide_pf(f, all, section, &f->v[i], &range, plan, e);
	}
	if (r < 0 || n)
		return r;
	if (!has_selector(w) && w->head.name)
		r = check_names(f, "", w->head.name, e);
	if (r == 0)
		r = check_names(f, "pf-names", w->pf_names, e);
	return r < 0 ? r
		     : err_kind(e, ERR_CONF, -ENODEV,
				"vf '%s': no PF matches: the section selects none of the PFs, or "
				"SR-IOV is off in the BIOS or the card's firmware",
				w->head.name ? w->head.name : "");
}

static int decide(const struct host_wants *w, const void *found, struct host_plan *p, struct err *e)
{
	int r = 0;

	for (size_t i = 0; i < w->n && r == 0; i++)
		r = decide_one(found, w, i, p, e);
	return r;
}

/* --- execution of the operations on PFs and VFs --- */

static int pf_index(struct host *h, const char *pf, char name[static LINK_NAME_MAX], int *ret,
		    struct nl_wire **w, struct err *e)
{
	struct link l;
	int r;

	name[0] = '\0';
	first_name(h, pf, PCI_NETDEV, name, LINK_NAME_MAX);
	if (!name[0])
		return err_kind(e, ERR_UNAVAILABLE, -ENODEV,
				"PF '%s' has no network interface in the host's namespace", pf);
	r = host_route_wire(h, w, e);
	if (r >= 0)
		r = link_get(*w, name, &l, e);
	if (r >= 0)
		*ret = l.index;
	return r;
}

static int set_identity(struct host *h, const char *pf, uint32_t vf, const char *guid,
			const char *mac, struct err *e)
{
	auto_batch struct nl_batch *b = nl_batch_new();
	char name[LINK_NAME_MAX];
	struct vf_ref ref = {.pf = name, .vf = vf};
	struct nl_wire *w;
	struct mac m;
	uint64_t v = 0;
	int r = pf_index(h, pf, name, &ref.pf_index, &w, e);

	if (r < 0)
		return r;
	if (guid && (!strcmp(guid, NO_GUID) || vf_guid_parse(span_of(guid), &v) == 0)) {
		vf_set_node_guid(b, &ref, v);
		vf_set_port_guid(b, &ref, v);
	} else if (mac && mac_parse(span_of(mac), &m) == 0) {
		vf_set_mac(b, &ref, &m);
	}
	return nl_batch_len(b) ? nl_batch_commit(w, b, e) : 0;
}

static int set_driver(struct host *h, const char *bdf, const char *driver, bool again,
		      struct err *e)
{
	struct pci_dev d;
	int r;

	if (!strcmp(driver, "vfio-pci"))
		return pci_rebind(&h->root, bdf, driver, e);
	r = pci_read(&h->root, bdf, &d, e);
	if (r == 0 && d.driver[0] && !pci_driver_is_dpdk(d.driver) && !again)
		return 0;
	/* The VF is not bound to a driver of the kernel, or it has a new MAC or GUID, which the
	 * driver reads only when it is bound. */
	return r < 0 ? r : pci_rebind(&h->root, bdf, NULL, e);
}

static int set_mtu(struct host *h, const char *bdf, const char *mtu, struct err *e)
{
	char name[LINK_NAME_MAX] = "";
	auto_free char *path = NULL;

	first_name(h, bdf, PCI_NETDEV, name, sizeof(name));
	if (!name[0])
		return err_kind(e, ERR_AGAIN, -ENODEV,
				"set MTU of VF '%s': it has no interface yet", bdf);
	path = xasprintf("/sys/class/net/%s/mtu", name);
	return file_write_attr(&h->root, path, mtu, e);
}

/* Sets the MAC of the VF's interface if it differs: igb's driver does not read the MAC that the PF
 * has for the VF if it is bound while the PF restarts after a change of the number of VFs.
 * Returns 0 also if the VF has no interface, and if the driver refuses the MAC (-EADDRNOTAVAIL),
 * as igb's driver does while the PF is down. */
static int set_own_mac(struct host *h, const char *bdf, const char *text, struct err *e)
{
	auto_batch struct nl_batch *b = nl_batch_new();
	char name[LINK_NAME_MAX] = "";
	struct nl_wire *w;
	struct mac mac;
	struct link l;
	int r;

	first_name(h, bdf, PCI_NETDEV, name, sizeof(name));
	if (!name[0] || mac_parse(span_of(text), &mac) < 0)
		return 0;
	r = host_route_wire(h, &w, e);
	if (r >= 0)
		r = link_get(w, name, &l, e);
	if (r < 0 || mac_eq(&l.mac, &mac))
		return r;
	link_set(b, l.index, name, &(struct link_change){.set = LINK_SET_MAC, .mac = mac});
	r = nl_batch_commit(w, b, e);
	if (r != -EADDRNOTAVAIL)
		return r;
	err_clear(e);
	return 0;
}

static int act_vf(struct host *h, const struct host_op *op, const char *pf, struct err *e)
{
	const char *guid = host_op_get(op, "guid"), *mac = host_op_get(op, "mac");
	const char *driver = host_op_get(op, "driver"), *mtu = host_op_get(op, "mtu");
	auto_free struct pci_vf *list = NULL;
	uint64_t vf;
	size_t n = 0;
	int r = host_op_number(op, "vf", 0, UINT16_MAX, &vf, e);

	if (r >= 0)
		r = pci_vf_list(&h->root, pf, &list, &n, e);
	if (r < 0)
		return r;
	for (size_t i = 0; i < n; i++) {
		if (list[i].vf != vf)
			continue;
		if (guid || mac)
			r = set_identity(h, pf, (uint32_t)vf, guid, mac, e);
		if (r >= 0 && driver)
			r = set_driver(h, list[i].bdf, driver, guid || mac, e);
		if (r >= 0 && mac && h->kernel)
			r = set_own_mac(h, list[i].bdf, mac, e);
		if (r >= 0 && mtu)
			r = set_mtu(h, list[i].bdf, mtu, e);
		return r;
	}
	/* The PF does not have this VF: an undo without attributes has nothing to restore and
	 * succeeds. */
	return driver || mtu || guid || mac ? err_kind(e, ERR_AGAIN, -ENODEV,
						       "PF '%s' has no VF %u", pf, (unsigned int)vf)
					    : 0;
}

/* Binds or unbinds all VFs of a PF: mlx5 refuses to change the mode while VFs are bound (-EBUSY).
 * Their driver_override stays, so each VF is bound to the same driver again. */
static int bind_all(struct host *h, const char *pf, bool bind, struct err *e)
{
	auto_free struct pci_vf *list = NULL;
	size_t n = 0;
	int r = pci_vf_list(&h->root, pf, &list, &n, e);

	for (size_t i = 0; i < n && r >= 0; i++)
		r = bind ? pci_probe(&h->root, list[i].bdf, e)
			 : pci_unbind(&h->root, list[i].bdf, e);
	return r;
}

static int act_eswitch(struct host *h, const char *pf, const char *mode, struct err *e)
{
	auto_nl struct nl_wire *w = NULL;
	auto_devlink struct devlink *d = NULL;
	enum eswitch_mode want = mode && !strcmp(mode, "switchdev") ? ESWITCH_SWITCHDEV
								    : ESWITCH_LEGACY;
	enum eswitch_mode now;
	int r;

	if (!h->kernel)
		return err_kind(e, ERR_UNAVAILABLE, -EOPNOTSUPP,
				"set the eswitch mode of '%s': possible only on a running host",
				pf);
	r = nl_open(&w, NL_GENERIC, -1, e);
	if (r >= 0)
		r = devlink_open(&d, w, e);
	if (r >= 0)
		r = devlink_eswitch_get(d, pf, &now, e);
	if (r < 0 || now == want)
		return r;
	r = bind_all(h, pf, false, e);
	if (r >= 0)
		r = devlink_eswitch_set(d, pf, want, e);
	bind_all(h, pf, true, r < 0 ? NULL : e);
	return r;
}

/* Checks again that no pod has a VF of the PF, because a pod may have got one after the plan was
 * made. */
static int still_unused(struct host *h, const char *pf, struct err *e)
{
	struct vf_found f = {.n = 1};
	struct host_nic nic = {.gpu = false};
	const struct vf *used;
	int r = pci_read(&h->root, pf, &nic.pci, e);

	f.v = xcalloc(1, sizeof(*f.v));
	if (r == 0)
		r = read_pf(h, &nic, &f.v[0], e);
	if (r == 0)
		r = find_pods(h, &f, e);
	used = r == 0 ? in_pod(&f.v[0]) : NULL;
	if (used)
		r = err_kind(e, ERR_AGAIN, -EBUSY,
			     "VF '%s' is in %s: delete the pod or drain the node first", used->bdf,
			     used->pod);
	for (size_t k = 0; k < f.v[0].n; k++)
		free(f.v[0].vfs[k].mtu);
	free(f.v[0].vfs);
	free(f.v[0].mtu);
	free(f.v);
	return r;
}

static int act(struct host *h, const struct host_op *op, struct err *e)
{
	const char *pf = host_op_get(op, "pf");
	struct pci_dev d;
	uint64_t n;
	int r;

	if (!pf)
		return err_kind(e, ERR_CONF, -EINVAL, "operation '%s': argument 'pf' is missing",
				op->verb);
	if (!strcmp(op->verb, "vf"))
		return act_vf(h, op, pf, e);
	if (!strcmp(op->verb, "eswitch")) {
		r = still_unused(h, pf, e);
		return r < 0 ? r : act_eswitch(h, pf, host_op_get(op, "mode"), e);
	}
	r = host_op_number(op, "n", 0, UINT16_MAX, &n, e);
	if (r >= 0)
		r = pci_read(&h->root, pf, &d, e);
	if (r < 0 || d.num_vfs == n)
		return r < 0 ? r : 0;
	r = still_unused(h, pf, e);
	return r < 0 ? r : pci_set_vfs(&h->root, pf, (uint32_t)n, e);
}

static int eswitch_in_effect(const char *pf, const char *mode)
{
	auto_nl struct nl_wire *w = NULL;
	auto_devlink struct devlink *d = NULL;
	enum eswitch_mode now;

	if (nl_open(&w, NL_GENERIC, -1, NULL) < 0 || devlink_open(&d, w, NULL) < 0 ||
	    devlink_eswitch_get(d, pf, &now, NULL) < 0)
		return 1;
	return mode && !strcmp(mode, eswitch_mode_name(now));
}

/* Returns whether the operation is in effect. The operation "number" also counts as in effect
 * while the PF has 0 VFs, since it first sets the number to 0, then to the new value. */
static int in_effect(struct host *h, const struct host_op *op, struct err *e)
{
	const char *pf = host_op_get(op, "pf"), *n = host_op_get(op, "n");
	auto_free char *path = xasprintf("/sys/bus/pci/devices/%s/sriov_numvfs", pf ? pf : "");
	auto_free char *now = host_attr_read(h, path);

	(void)e;
	if (!strcmp(op->verb, "eswitch") && pf && h->kernel)
		return eswitch_in_effect(pf, host_op_get(op, "mode"));
	if (strcmp(op->verb, "number") != 0 || !n || !now)
		return 1;
	return !strcmp(now, n) || !strcmp(now, "0");
}

static void show(const void *found, struct host_rows *rows)
{
	const struct vf_found *f = found;

	for (size_t i = 0; i < f->n; i++) {
		const struct pf *p = &f->v[i];

		host_rows_add(rows, host_nic_name(&p->nic), "num-vfs", "%u of %u",
			      p->nic.pci.num_vfs, p->nic.pci.total_vfs);
		if (p->eswitch >= 0)
			host_rows_add(rows, host_nic_name(&p->nic), "eswitch-mode", "%s",
				      eswitch_mode_name((enum eswitch_mode)p->eswitch));
		for (size_t k = 0; k < p->n; k++)
			host_rows_add(rows, p->vfs[k].bdf, "driver", "%s%s%s",
				      p->vfs[k].driver[0] ? p->vfs[k].driver : "none",
				      p->vfs[k].pod[0] ? ", in " : "", p->vfs[k].pod);
	}
}

const struct host_kind host_vf = {
	.name = "vf",
	.section = "vf",
	.flags = HOST_NAMED,
	.help = "virtual functions: number, driver, MTU, stable MACs and GUIDs, mode of the switch",
	.keys = keys,
	.size = sizeof(struct vf_want),
	.init = init,
	.check = check,
	.observe = observe,
	.forget = forget,
	.decide = decide,
	.act = act,
	.in_effect = in_effect,
	.show = show,
};
