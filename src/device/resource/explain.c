/* SPDX-License-Identifier: Apache-2.0 */
#include "device/resource/explain.h"

#include <stdio.h>
#include <string.h>

#include "device/resource/selector.h"

static bool has_member(const struct resource *r, const struct node_device *d)
{
	for (size_t i = 0; i < r->n; i++)
		if (r->v[i].device == d)
			return true;
	return false;
}

static const struct resource *sriov_owner(const struct resources *s, const struct node_device *d)
{
	for (size_t i = 0; i < s->n; i++)
		if (s->v[i].conf->form == RESOURCE_SRIOV && has_member(&s->v[i], d))
			return &s->v[i];
	return NULL;
}

/* Finds the reason why a device is not in a resource. */
static void judge(const struct resources *s, const struct resource *r, const struct node_device *d,
		  struct verdict *v)
{
	const struct resource *owner;

	resource_consider(r->conf, d, v, NULL);
	if (!v->matches)
		return;
	owner = sriov_owner(s, d);
	v->matches = false;
	v->key = "";
	if (r->conf->form == RESOURCE_SHARED)
		snprintf(v->text, sizeof(v->text),
			 "the node's RDMA mode is exclusive: HCAs cannot be shared");
	else
		snprintf(v->text, sizeof(v->text),
			 "the device belongs to %.200s, which comes first",
			 owner ? owner->conf->full : "another resource");
}

static void role(const struct node_device *d, char *ret, size_t size)
{
	const char *pf = *d->pf_name ? d->pf_name : d->pf;

	if (d->class == NODE_ACCELERATOR)
		str_copy(ret, size, "accelerator");
	else if (d->class == NODE_SOFT)
		str_copy(ret, size, "software");
	else if (d->class == NODE_AUX)
		snprintf(ret, size, "SF %lld of %s", (long long)d->index, pf);
	else if (*d->pf)
		snprintf(ret, size, "VF %lld of %s", (long long)d->index, pf);
	else if (d->is_pf)
		snprintf(ret, size, "PF with %u VFs", d->num_vfs);
	else
		str_copy(ret, size, "function");
}

/* --- text output --- */

static void put_device(const struct resources *s, const struct node_device *d, struct buf *b)
{
	char what[64];
	struct verdict v;

	role(d, what, sizeof(what));
	buf_printf(b, "%s  %s", d->id, what);
	if (*d->netdev)
		buf_printf(b, "  %s", d->netdev);
	for (size_t i = 0; i < d->n_rdma; i++)
		buf_printf(b, "%s%s", i ? "," : "  ", d->rdma[i].name);
	buf_str(b, d->away ? "  in a pod\n" : "\n");
	for (size_t i = 0; i < s->n; i++) {
		if (has_member(&s->v[i], d)) {
			buf_printf(b, "  + %s\n", s->v[i].conf->full);
			continue;
		}
		judge(s, &s->v[i], d, &v);
		buf_printf(b, "  - %s: %s\n", s->v[i].conf->full, v.text);
	}
}

void resource_explain_text(const struct resources *s, const struct resource_messages *messages,
			   struct buf *b)
{
	for (size_t i = 0; i < s->node->n; i++)
		put_device(s, &s->node->v[i], b);
	if (!s->node->n)
		buf_str(b, "no network device on PCI\n");
	for (size_t i = 0; i < messages->n; i++)
		buf_printf(b, "%s: %s\n",
			   messages->v[i].level == MESSAGE_ERROR ? "error" : "warning",
			   messages->v[i].text);
}

/* --- JSON output --- */

static void put_resources(const struct resources *s, const struct node_device *d,
			  struct json_out *o)
{
	struct verdict v;

	jo_key(o, "resources");
	jo_arr(o);
	for (size_t i = 0; i < s->n; i++)
		if (has_member(&s->v[i], d))
			jo_str(o, s->v[i].conf->full);
	jo_end_arr(o);
	jo_key(o, "others");
	jo_arr(o);
	for (size_t i = 0; i < s->n; i++) {
		if (has_member(&s->v[i], d))
			continue;
		judge(s, &s->v[i], d, &v);
		jo_obj(o);
		jo_kstr(o, "resource", s->v[i].conf->full);
		jo_kstr(o, "selector", *v.key ? v.key : NULL);
		jo_kstr(o, "reason", v.text);
		jo_end_obj(o);
	}
	jo_end_arr(o);
}

static void put_json(const struct resources *s, const struct node_device *d, struct json_out *o)
{
	char what[64];

	role(d, what, sizeof(what));
	jo_obj(o);
	jo_kstr(o, "device", d->id);
	jo_kstr(o, "role", what);
	jo_kstr(o, "netdev", *d->netdev ? d->netdev : NULL);
	jo_key(o, "rdma");
	jo_arr(o);
	for (size_t i = 0; i < d->n_rdma; i++)
		jo_str(o, d->rdma[i].name);
	jo_end_arr(o);
	jo_kbool(o, "inPod", d->away);
	put_resources(s, d, o);
	jo_end_obj(o);
}

void resource_explain_json(const struct resources *s, const struct resource_messages *messages,
			   struct buf *b)
{
	struct json_out o;

	jo_init(&o, b, 4);
	jo_obj(&o);
	jo_key(&o, "devices");
	jo_arr(&o);
	for (size_t i = 0; i < s->node->n; i++)
		put_json(s, &s->node->v[i], &o);
	jo_end_arr(&o);
	jo_key(&o, "messages");
	jo_arr(&o);
	for (size_t i = 0; i < messages->n; i++) {
		jo_obj(&o);
		jo_kstr(&o, "level", messages->v[i].level == MESSAGE_ERROR ? "error" : "warning");
		jo_kstr(&o, "resource", messages->v[i].resource);
		jo_kstr(&o, "text", messages->v[i].text);
		jo_end_obj(&o);
	}
	jo_end_arr(&o);
	jo_end_obj(&o);
	buf_char(b, '\n');
}
