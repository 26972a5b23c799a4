/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/device_show.h"

#include <string.h>

#include "base/cleanup.h"
#include "base/columns.h"
#include "wire/json/json.h"

enum { CELL_MAX = 4096 };

static const char *const link_states[] = {"auto", "enable", "disable"};

static const char *link_state(const struct vf_info *a)
{
	return a->link_state < ARRAY_LEN(link_states) ? link_states[a->link_state] : "unknown";
}

static bool is_zero(const struct mac *mac)
{
	for (unsigned int i = 0; i < mac->len; i++)
		if (mac->b[i])
			return false;
	return true;
}

/* --- for people --- */

static void add_role(struct columns *c, const struct inventory_function *f)
{
	if (f->vf >= 0)
		columns_addf(c, "VF %lld", (long long)f->vf);
	else if (f->pci.is_pf)
		columns_addf(c, "PF %u/%u", f->pci.num_vfs, f->pci.total_vfs);
	else
		columns_add(c, NULL);
}

static void add_numa(struct columns *c, const struct inventory_function *f)
{
	if (f->pci.numa < 0)
		columns_add(c, NULL);
	else
		columns_addf(c, "%d", f->pci.numa);
}

/* Of several netdevs the first: the others are in JSON. */
static void add_netdev(struct columns *c, const struct inventory_function *f)
{
	const struct inventory_netdev *d = f->n_netdevs ? &f->netdevs[0] : NULL;

	columns_add(c, d ? d->name : NULL);
	if (d && d->mtu)
		columns_addf(c, "%u", d->mtu);
	else
		columns_add(c, NULL);
	columns_add(c, !d || !*d->operstate ? NULL : d->up ? d->operstate : "off");
}

static void add_rdma(struct columns *c, const struct inventory_function *f)
{
	auto_buf struct buf b;

	buf_init(&b, CELL_MAX);
	for (size_t i = 0; i < f->n_rdma; i++) {
		const struct inventory_rdma *d = &f->rdma[i];

		buf_printf(&b, "%s%s", b.len ? "," : "", d->name);
		for (size_t k = 0; k < d->n_ports; k++)
			buf_printf(&b, " %s", d->ports[k].state);
	}
	columns_add(c, b.p);
}

static void put_attrs(struct buf *b, const struct vf_info *a)
{
	char text[VF_GUID_TEXT_MAX];

	if (a->n_vlans && a->vlans[0].id)
		buf_printf(b, " vlan %u", a->vlans[0].id);
	if (a->n_vlans && a->vlans[0].qos)
		buf_printf(b, " qos %u", a->vlans[0].qos);
	if (a->min_rate || a->max_rate)
		buf_printf(b, " rate %u-%u", a->min_rate, a->max_rate);
	if (a->spoofchk == 0)
		buf_str(b, " spoofchk off");
	if (a->trust > 0)
		buf_str(b, " trust on");
	if (a->link_state)
		buf_printf(b, " link %s", link_state(a));
	if (a->has_guid && a->port_guid)
		buf_printf(b, " guid %s", vf_guid_str(a->port_guid, text));
}

static void add_settings(struct columns *c, const struct inventory_function *f)
{
	auto_buf struct buf b;

	buf_init(&b, CELL_MAX);
	if (f->has_eswitch)
		buf_printf(&b, " %s", eswitch_mode_name(f->eswitch));
	if (*f->representor)
		buf_printf(&b, " port %s", f->representor);
	if (f->has_attrs)
		put_attrs(&b, &f->attrs);
	columns_add(c, b.len ? b.p + 1 : NULL);
}

static void add_pod(struct columns *c, const struct device_row *row)
{
	const char *away = inventory_is_away(row->f) ? "in another namespace" : NULL;

	columns_add(c, row->pod ? row->pod : row->netns ? row->netns : away);
}

void device_show_text(const struct device_row *v, size_t n, FILE *f)
{
	static const char *const head[] = {"FUNCTION",	  "ROLE", "DRIVER",	"NUMA",
					   "NETDEV",	  "MTU",  "LINK STATE", "RDMA DEVICE",
					   "VF SETTINGS", "POD"};
	auto_columns struct columns c;

	if (!n) {
		fputs("no network function on PCI\n", f);
		return;
	}
	columns_init(&c, ARRAY_LEN(head), "");
	for (size_t i = 0; i < ARRAY_LEN(head); i++)
		columns_add(&c, head[i]);
	for (size_t i = 0; i < n; i++) {
		columns_add(&c, v[i].f->pci.bdf);
		add_role(&c, v[i].f);
		columns_add(&c, v[i].f->pci.driver);
		add_numa(&c, v[i].f);
		add_netdev(&c, v[i].f);
		add_rdma(&c, v[i].f);
		add_settings(&c, v[i].f);
		add_pod(&c, &v[i]);
	}
	columns_print(&c, f);
}

/* --- for programs --- */

/* null when it is not known. */
static void put_str(struct json_out *o, const char *key, const char *s)
{
	jo_kstr(o, key, s && *s ? s : NULL);
}

static void put_id(struct json_out *o, const char *key, unsigned int id)
{
	char text[16];

	snprintf(text, sizeof(text), "%04x", id);
	jo_kstr(o, key, text);
}

static void put_switch(struct json_out *o, const char *key, int v)
{
	jo_key(o, key);
	if (v < 0)
		jo_null(o);
	else
		jo_bool(o, v);
}

static void put_netdevs(struct json_out *o, const struct inventory_function *f)
{
	jo_key(o, "netdevs");
	jo_arr(o);
	for (size_t i = 0; i < f->n_netdevs; i++) {
		const struct inventory_netdev *d = &f->netdevs[i];

		jo_obj(o);
		jo_kstr(o, "name", d->name);
		put_str(o, "mac", d->mac);
		jo_kint(o, "mtu", d->mtu);
		jo_kbool(o, "up", d->up);
		put_str(o, "operstate", d->operstate);
		put_str(o, "alias", d->alias);
		jo_end_obj(o);
	}
	jo_end_arr(o);
}

static void put_port(struct json_out *o, const struct inventory_port *p)
{
	jo_obj(o);
	jo_kint(o, "port", p->port);
	put_str(o, "state", p->state);
	put_str(o, "link", p->link_layer);
	put_str(o, "rate", p->rate);
	jo_key(o, "gids");
	jo_arr(o);
	for (size_t i = 0; i < p->n_gids; i++) {
		jo_obj(o);
		jo_kint(o, "index", p->gids[i].index);
		jo_kstr(o, "gid", p->gids[i].gid);
		put_str(o, "type", p->gids[i].type);
		put_str(o, "netdev", p->gids[i].netdev);
		jo_end_obj(o);
	}
	jo_end_arr(o);
	jo_end_obj(o);
}

static void put_rdma(struct json_out *o, const struct inventory_function *f)
{
	jo_key(o, "rdma");
	jo_arr(o);
	for (size_t i = 0; i < f->n_rdma; i++) {
		jo_obj(o);
		jo_kstr(o, "name", f->rdma[i].name);
		put_str(o, "nodeGuid", f->rdma[i].node_guid);
		jo_key(o, "ports");
		jo_arr(o);
		for (size_t k = 0; k < f->rdma[i].n_ports; k++)
			put_port(o, &f->rdma[i].ports[k]);
		jo_end_arr(o);
		jo_end_obj(o);
	}
	jo_end_arr(o);
}

static void put_settings(struct json_out *o, const struct vf_info *a)
{
	char mac[MAC_TEXT_MAX], guid[VF_GUID_TEXT_MAX];

	jo_obj(o);
	put_str(o, "mac", is_zero(&a->mac) ? NULL : mac_str(&a->mac, mac));
	jo_kint(o, "vlan", a->n_vlans ? a->vlans[0].id : 0);
	jo_kint(o, "vlanQoS", a->n_vlans ? a->vlans[0].qos : 0);
	jo_kstr(o, "vlanProto",
		a->n_vlans && a->vlans[0].proto == VF_VLAN_8021AD ? "802.1ad" : "802.1q");
	jo_kint(o, "minTxRate", a->min_rate);
	jo_kint(o, "maxTxRate", a->max_rate);
	put_switch(o, "spoofchk", a->spoofchk);
	put_switch(o, "trust", a->trust);
	jo_kstr(o, "linkState", link_state(a));
	jo_kstr(o, "nodeGuid", a->has_guid ? vf_guid_str(a->node_guid, guid) : NULL);
	jo_kstr(o, "portGuid", a->has_guid ? vf_guid_str(a->port_guid, guid) : NULL);
	jo_end_obj(o);
}

static void put_pf(struct json_out *o, const struct inventory_function *f)
{
	jo_kint(o, "totalVfs", f->pci.total_vfs);
	jo_kint(o, "numVfs", f->pci.num_vfs);
	jo_kstr(o, "eswitch", f->has_eswitch ? eswitch_mode_name(f->eswitch) : NULL);
}

static void put_vf(struct json_out *o, const struct device_row *row)
{
	const struct inventory_function *f = row->f;

	jo_kstr(o, "pf", f->pci.physfn);
	jo_kint(o, "vf", f->vf);
	put_str(o, "representor", f->representor);
	jo_key(o, "settings");
	if (f->has_attrs)
		put_settings(o, &f->attrs);
	else
		jo_null(o);
	jo_kbool(o, "away", inventory_is_away(f));
	put_str(o, "pod", row->pod);
	put_str(o, "netns", row->netns);
}

static void put_function(struct json_out *o, const struct device_row *row)
{
	const struct inventory_function *f = row->f;
	const struct pci_dev *p = &f->pci;

	jo_obj(o);
	jo_kstr(o, "address", p->bdf);
	jo_kstr(o, "role", f->vf >= 0 ? "vf" : p->is_pf ? "pf" : "function");
	put_id(o, "vendor", p->vendor);
	put_id(o, "device", p->device);
	put_str(o, "driver", p->driver);
	jo_kint(o, "numa", p->numa);
	jo_kint(o, "iommuGroup", p->iommu_group);
	if (p->is_pf)
		put_pf(o, f);
	if (f->vf >= 0)
		put_vf(o, row);
	put_netdevs(o, f);
	put_rdma(o, f);
	jo_end_obj(o);
}

void device_show_json(const struct device_row *v, size_t n, struct buf *b)
{
	struct json_out o;

	jo_init(&o, b, 4);
	jo_arr(&o);
	for (size_t i = 0; i < n; i++)
		put_function(&o, &v[i]);
	jo_end_arr(&o);
	buf_char(b, '\n');
}
