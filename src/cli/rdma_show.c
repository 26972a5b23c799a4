/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/rdma_show.h"

#include "base/cleanup.h"
#include "base/columns.h"
#include "wire/json/json.h"

static const char *link_of(const struct rdma_dev *d, const struct rdma_port *p)
{
	return p->link_layer[0] ? p->link_layer : d->protocol;
}

static void add_number(struct columns *c, unsigned int v)
{
	if (v)
		columns_addf(c, "%u", v);
	else
		columns_add(c, NULL);
}

static void add_row(struct columns *c, const struct rdma_dev *d, const struct rdma_port *p)
{
	columns_add(c, d->name);
	columns_addf(c, "%u", p->port);
	columns_add(c, rdma_port_state_name(p->state));
	columns_add(c, link_of(d, p));
	columns_add(c, p->netdev);
	add_number(c, p->active_mtu);
	add_number(c, (unsigned int)p->gid_count);
	columns_add(c, d->driver);
	columns_add(c, d->fw);
	if (d->why[0])
		columns_addf(c, "no: %s", d->why);
	else
		columns_add(c, "yes");
}

static void print_table(const struct rdma_dev *list, size_t n, FILE *f)
{
	static const char *const head[] = {"DEVICE", "PORT", "STATE",  "LINK",	   "NETDEV",
					   "MTU",    "GIDS", "DRIVER", "FIRMWARE", "VERBS"};
	auto_columns struct columns c;

	columns_init(&c, ARRAY_LEN(head), "");
	for (size_t i = 0; i < ARRAY_LEN(head); i++)
		columns_add(&c, head[i]);
	for (size_t i = 0; i < n; i++)
		for (size_t k = 0; k < RDMA_PORTS_MAX; k++)
			if (list[i].ports[k].port)
				add_row(&c, &list[i], &list[i].ports[k]);
	columns_print(&c, f);
}

void rdma_show_text(const struct rdma_dev *list, size_t n, FILE *f)
{
	size_t unusable = 0;

	print_table(list, n, f);
	for (size_t i = 0; i < n; i++)
		unusable += list[i].why[0] != '\0';
	if (unusable)
		fprintf(f, "%zu of %zu devices are not usable by verbs\n", unusable, n);
}

static void json_guid(struct json_out *o, const char *key, uint64_t guid)
{
	char text[24];

	snprintf(text, sizeof(text), "%04x:%04x:%04x:%04x", (unsigned int)(guid >> 48),
		 (unsigned int)(guid >> 32 & 0xffff), (unsigned int)(guid >> 16 & 0xffff),
		 (unsigned int)(guid & 0xffff));
	jo_kstr(o, key, text);
}

static void json_port(struct json_out *o, const struct rdma_dev *d, const struct rdma_port *p)
{
	jo_obj(o);
	jo_kint(o, "port", p->port);
	jo_kstr(o, "state", rdma_port_state_name(p->state));
	jo_kstr(o, "physState", rdma_port_phys_state_name(p->phys_state));
	jo_kstr(o, "link", link_of(d, p));
	jo_kstr(o, "netdev", p->netdev);
	jo_kint(o, "lid", p->lid);
	jo_kint(o, "smLid", p->sm_lid);
	jo_kint(o, "mtu", p->active_mtu);
	jo_kint(o, "gids", p->gid_count);
	jo_end_obj(o);
}

static void json_dev(struct json_out *o, const struct rdma_dev *d)
{
	jo_obj(o);
	jo_kstr(o, "name", d->name);
	jo_kint(o, "index", d->index);
	jo_kstr(o, "driver", d->driver);
	jo_kstr(o, "protocol", d->protocol);
	jo_kstr(o, "firmware", d->fw);
	json_guid(o, "nodeGuid", d->node_guid);
	json_guid(o, "sysImageGuid", d->sys_image_guid);
	jo_kstr(o, "uverbs", d->uverbs);
	jo_kbool(o, "inVerbs", d->in_verbs);
	jo_kstr(o, "notUsableByVerbs", d->why);
	jo_key(o, "ports");
	jo_arr(o);
	for (size_t k = 0; k < RDMA_PORTS_MAX; k++)
		if (d->ports[k].port)
			json_port(o, d, &d->ports[k]);
	jo_end_arr(o);
	jo_end_obj(o);
}

void rdma_show_json(const struct rdma_dev *list, size_t n, struct buf *b)
{
	struct json_out o;

	jo_init(&o, b, 4);
	jo_arr(&o);
	for (size_t i = 0; i < n; i++)
		json_dev(&o, &list[i]);
	jo_end_arr(&o);
	buf_char(b, '\n');
}
