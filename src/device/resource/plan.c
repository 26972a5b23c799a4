/* SPDX-License-Identifier: Apache-2.0 */
#include "device/resource/plan.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/num.h"

enum { UNNUMBERED = UINT32_MAX, RAIL_NUMBER_MAX = 999 };

/* --- rails --- */

static bool has_rdma_vf(const struct node_devices *node, const struct node_device *pf)
{
	for (size_t i = 0; i < node->n; i++)
		if (node->v[i].class == NODE_NET && strcmp(node->v[i].pf, pf->bdf) == 0 &&
		    node_device_is_rdma(&node->v[i]))
			return true;
	return false;
}

static bool is_rail(const struct node_devices *node, const struct node_device *d)
{
	if (d->class != NODE_NET || *d->pf || !*d->driver || d->default_route)
		return false;
	return node_device_is_rdma(d) || (d->num_vfs && has_rdma_vf(node, d));
}

/* Returns N of a netdev named "railN"; UNNUMBERED: the netdev has another name. */
static unsigned int number_of(const struct node_device *d)
{
	uint64_t n;

	return strncmp(d->netdev, "rail", 4) == 0 &&
			       num_u64(span_of(d->netdev + 4), 0, RAIL_NUMBER_MAX, &n) == 0
		       ? (unsigned int)n
		       : UNNUMBERED;
}

static unsigned int lowest_free(const struct rail *v, size_t n)
{
	for (unsigned int number = 0;; number++) {
		size_t i = 0;

		while (i < n && v[i].number != number)
			i++;
		if (i == n)
			return number;
	}
}

/* Returns the first rail without a number among those nearest to the GPU; NULL: each of them has a
 * number, or no rail is near. */
static struct rail *closest_rail(const struct node_gpu *g, struct rail *v, size_t n)
{
	enum node_distance best = NODE_FAR;
	struct rail *ret = NULL;

	for (size_t i = 0; i < n; i++) {
		enum node_distance at =
			node_distance(g->path, g->numa, v[i].pf->path, v[i].pf->numa);

		if (at < best) {
			best = at;
			ret = NULL;
		}
		if (at == best && at != NODE_FAR && !ret && v[i].number == UNNUMBERED)
			ret = &v[i];
	}
	return ret;
}

static int by_number(const void *a, const void *b)
{
	const struct rail *x = a, *y = b;

	return (x->number > y->number) - (x->number < y->number);
}

size_t resource_rails(const struct node_devices *node, struct rail **ret)
{
	struct rail *v = NULL;
	size_t n = 0;

	for (size_t i = 0; i < node->n; i++)
		if (is_rail(node, &node->v[i]))
			VEC_PUSH(v, n) = (struct rail){number_of(&node->v[i]), &node->v[i]};
	for (size_t i = 0; i < node->n_gpus; i++) {
		struct rail *r = closest_rail(&node->gpus[i], v, n);

		if (r)
			r->number = lowest_free(v, n);
	}
	for (size_t i = 0; i < n; i++)
		if (v[i].number == UNNUMBERED)
			v[i].number = lowest_free(v, n);
	if (n)
		qsort(v, n, sizeof(*v), by_number);
	*ret = v;
	return n;
}

/* --- output as a configuration --- */

enum plan_kind { PLAN_NONE, PLAN_SHARED, PLAN_VFS, PLAN_PF };

static enum plan_kind kind_of(const struct node_devices *node, const struct rail *r)
{
	if (r->pf->num_vfs)
		return PLAN_VFS;
	if (node->mode == NODE_RDMA_EXCLUSIVE)
		return PLAN_PF;
	/* A PF without a netdev in this namespace gets no entry: of the selectors of configList,
	 * only ifNames selects a single device. */
	return *r->pf->netdev ? PLAN_SHARED : PLAN_NONE;
}

static void put_list(struct json_out *o, const char *key, const char *value)
{
	jo_key(o, key);
	jo_arr(o);
	jo_str(o, value);
	jo_end_arr(o);
}

static void put_name(struct json_out *o, const char *kind, unsigned int number)
{
	auto_free char *name = xasprintf("%s_rail%u", kind, number);

	jo_kstr(o, "resourcePrefix", RESOURCE_PLAN_PREFIX);
	jo_kstr(o, "resourceName", name);
}

static void put_shared(struct json_out *o, const struct rail *r)
{
	jo_obj(o);
	put_name(o, "shared", r->number);
	jo_kint(o, "rdmaHcaMax", RESOURCE_PLAN_HCA_MAX);
	jo_key(o, "selectors");
	jo_obj(o);
	put_list(o, "ifNames", r->pf->netdev);
	jo_end_obj(o);
	jo_end_obj(o);
}

static void put_sriov(struct json_out *o, const struct rail *r, enum plan_kind kind)
{
	bool ib = strcmp(r->pf->link_type, "infiniband") == 0;

	jo_obj(o);
	put_name(o, ib ? "ib" : "sriov", r->number);
	jo_key(o, "selectors");
	jo_obj(o);
	if (kind == PLAN_PF)
		put_list(o, "pciAddresses", r->pf->bdf);
	else if (*r->pf->netdev)
		put_list(o, "pfNames", r->pf->netdev);
	else
		put_list(o, "rootDevices", r->pf->bdf);
	jo_kbool(o, "isRdma", true);
	jo_end_obj(o);
	jo_end_obj(o);
}

static void put_form(struct json_out *o, const struct node_devices *node, const struct rail *v,
		     size_t n, bool shared)
{
	bool any = false;

	for (size_t i = 0; i < n; i++) {
		enum plan_kind kind = kind_of(node, &v[i]);

		if (kind == PLAN_NONE || shared != (kind == PLAN_SHARED))
			continue;
		if (!any) {
			jo_key(o, shared ? "configList" : "resourceList");
			jo_arr(o);
		}
		any = true;
		if (shared)
			put_shared(o, &v[i]);
		else
			put_sriov(o, &v[i], kind);
	}
	if (any)
		jo_end_arr(o);
}

void resource_plan_write(const struct node_devices *node, struct buf *b)
{
	auto_free struct rail *v = NULL;
	size_t n = resource_rails(node, &v);
	struct json_out o;

	jo_init(&o, b, 4);
	jo_obj(&o);
	put_form(&o, node, v, n, true);
	put_form(&o, node, v, n, false);
	jo_end_obj(&o);
	buf_char(b, '\n');
}

int resource_plan(const struct node_devices *node, struct resource_config *c,
		  struct resource_messages *messages, struct err *e)
{
	auto_buf struct buf b;
	auto_free struct rail *v = NULL;
	size_t n = resource_rails(node, &v), planned = 0;

	buf_init(&b, RESOURCE_TEXT_MAX);
	for (size_t i = 0; i < n; i++) {
		planned += kind_of(node, &v[i]) != PLAN_NONE;
		if (kind_of(node, &v[i]) == PLAN_NONE)
			resource_report(messages, MESSAGE_WARNING, NULL,
					"rail %u: '%s' has no netdev in this network namespace: no "
					"resource",
					v[i].number, v[i].pf->id);
	}
	if (!planned) {
		resource_report(
			messages, MESSAGE_WARNING, NULL,
			"no resources: no configuration, and none of %zu devices is a NIC with "
			"RDMA and a netdev that does not carry the default route",
			node->n);
		return 0;
	}
	resource_plan_write(node, &b);
	return resource_config_add(c, buf_span(&b), "plan", NULL, messages, e);
}
