/* SPDX-License-Identifier: Apache-2.0 */
#include "device/resource/selector.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/num.h"

enum { WANTED_TEXT_MAX = 120 };

/* --- ranges such as "pf0#0-3,5" --- */

static int read_bounds(struct span part, uint64_t *from, uint64_t *to)
{
	struct span first;
	int r;

	if (!span_cut(&part, '-', &first))
		return -EINVAL;
	r = num_u64(first, 0, UINT32_MAX, from);
	if (r == 0)
		*to = *from;
	return r == 0 && part.p ? num_u64(part, *from, UINT32_MAX, to) : r;
}

int select_range(const char *item, const char *name, int64_t index, bool *named, bool *in)
{
	struct span rest = span_of(item), pf, part;

	*named = *in = false;
	if (!span_cut(&rest, '#', &pf))
		return 0;
	*named = pf.n && strlen(name) == pf.n && strncasecmp(name, pf.p, pf.n) == 0;
	*in = *named && !rest.p;
	while (rest.p && span_cut(&rest, ',', &part)) {
		uint64_t from, to;

		if (read_bounds(part, &from, &to) < 0) {
			*in = false;
			return -EINVAL;
		}
		if (*named && index >= 0 && (uint64_t)index >= from && (uint64_t)index <= to)
			*in = true;
	}
	return 0;
}

/* Like the original, only the first item that names the PF counts. */
static bool in_ranges(const struct json_strs *l, const char *name, int64_t index)
{
	bool named, in;

	for (size_t i = 0; *name && i < l->n; i++) {
		int r = select_range(l->v[i], name, index, &named, &in);

		if (named)
			return r == 0 && in;
	}
	return false;
}

/* --- one list of a selector object --- */

static const char *value_of(enum select_key key, const struct node_device *d)
{
	switch (key) {
	case SELECT_VENDORS: return d->vendor;
	case SELECT_DEVICES: return d->product;
	case SELECT_DRIVERS: return d->driver;
	case SELECT_PCI_ADDRESSES: return d->bdf;
	case SELECT_ACPI_INDEXES: return d->acpi_index;
	case SELECT_IF_NAMES: return d->netdev;
	case SELECT_PF_NAMES: return d->pf_name;
	case SELECT_ROOT_DEVICES: return d->pf;
	case SELECT_LINK_TYPES: return d->link_type;
	case SELECT_DDP_PROFILES: return d->ddp;
	/* matches no device on Ethernet, where the PKey has no meaning */
	case SELECT_PKEYS: return strcmp(d->link_type, "infiniband") == 0 ? d->pkey : "";
	case SELECT_AUX_TYPES: return strstr(d->id, ".sf.") ? "sf" : "";
	case SELECT_LISTS: break;
	}
	return "";
}

static bool list_matches(const struct json_strs *l, enum select_key key,
			 const struct node_device *d)
{
	const char *value = value_of(key, d);

	if (!l->n)
		return true;
	if (key == SELECT_PF_NAMES || key == SELECT_ROOT_DEVICES)
		return in_ranges(l, value, d->index);
	return json_strs_has(l, value);
}

static void describe(const struct resource_conf *c, const struct json_strs *l, enum select_key key,
		     const struct node_device *d, struct verdict *v)
{
	char wanted[WANTED_TEXT_MAX] = "";
	const char *value = value_of(key, d);
	size_t n = 0;

	for (size_t i = 0; i < l->n && n < sizeof(wanted) - 1; i++)
		n += (size_t)snprintf(wanted + n, sizeof(wanted) - n, "%s%s", i ? "," : "",
				      l->v[i]);
	v->key = select_key_name(key, c->form);
	if (*value && (key == SELECT_PF_NAMES || key == SELECT_ROOT_DEVICES))
		snprintf(v->text, sizeof(v->text), "%s requires %s, the device has %s#%lld", v->key,
			 wanted, value, (long long)d->index);
	else
		snprintf(v->text, sizeof(v->text), "%s requires %s, the device has %s", v->key,
			 wanted, *value ? value : "none");
}

/* --- one selector object --- */

static bool vdpa_matches(const struct selector *s, const struct node_device *d)
{
	static const char suffix[] = "_vdpa";
	size_t n = strlen(s->vdpa_type);

	/* the type "vhost" matches the driver vhost_vdpa */
	return *d->vdpa && strncmp(d->vdpa_driver, s->vdpa_type, n) == 0 &&
	       strcmp(d->vdpa_driver + n, suffix) == 0;
}

/* Returns the number of conditions that the device meets before the first unmet one, which *v
 * describes; if it meets all, sets v->matches. */
static size_t try_selector(const struct resource_conf *c, const struct selector *s,
			   const struct node_device *d, struct verdict *v)
{
	size_t k;

	for (k = 0; k < SELECT_LISTS; k++) {
		if (list_matches(&s->lists[k], (enum select_key)k, d))
			continue;
		describe(c, &s->lists[k], (enum select_key)k, d, v);
		return k;
	}
	if (s->is_rdma && !node_device_is_rdma(d)) {
		v->key = "isRdma";
		snprintf(v->text, sizeof(v->text),
			 "isRdma requires an RDMA device, the device has none");
		return k;
	}
	if (s->vdpa_type && !vdpa_matches(s, d)) {
		v->key = "vdpaType";
		snprintf(v->text, sizeof(v->text), "vdpaType requires %s, the device has %s",
			 s->vdpa_type, *d->vdpa ? d->vdpa_driver : "none");
		return k + 1;
	}
	v->matches = true;
	return k + 2;
}

/* --- other conditions of the original --- */

static bool has_uverbs(const struct node_device *d)
{
	for (size_t i = 0; i < d->n_rdma; i++)
		for (size_t k = 0; k < d->rdma[i].n_chars; k++)
			if (d->rdma[i].chars[k].kind == NODE_UVERBS)
				return true;
	return false;
}

/*
 * The original plugin lists PCI devices only. A device without a PCI function (soft-RoCE) is selected only if the
 * resource has ifNames; the other selectors match properties that many devices share.
 */
static bool may_be_soft(const struct resource_conf *c)
{
	return c->form == RESOURCE_SHARED && c->n_selectors &&
	       c->selectors[0].lists[SELECT_IF_NAMES].n;
}

static const char *refused(const struct resource_conf *c, const struct node_device *d)
{
	static const char *const classes[] = {
		[NODE_NET] = "the device is not a network function",
		[NODE_ACCELERATOR] = "the device is not an accelerator",
		[NODE_AUX] = "the device is not a scalable function",
	};

	if (d->class == NODE_SOFT && !may_be_soft(c))
		return "the RDMA device has no hardware: only ifNames of a shared resource select it";
	if (d->class != NODE_SOFT && c->class != d->class)
		return classes[c->class];
	if (d->class != NODE_SOFT && !*d->driver)
		return "the device has no driver";
	if (c->form == RESOURCE_SHARED) {
		if (!d->n_rdma)
			return "the device has no RDMA device";
		return has_uverbs(d) ? NULL : "the RDMA device has no uverbs node: load ib_uverbs";
	}
	if (d->class == NODE_AUX)
		return NULL;
	if (d->default_route)
		return "the node's default route uses the device";
	return d->is_pf && d->num_vfs ? "the device is a PF with VFs" : NULL;
}

void resource_consider(const struct resource_conf *c, const struct node_device *d,
		       struct verdict *v, size_t *which)
{
	const char *reason = refused(c, d);
	size_t furthest = 0;

	*v = (struct verdict){.key = ""};
	if (reason) {
		str_copy(v->text, sizeof(v->text), reason);
		return;
	}
	for (size_t i = 0; i < c->n_selectors; i++) {
		struct verdict one = {.key = ""};
		size_t met = try_selector(c, &c->selectors[i], d, &one);

		if (i && !one.matches && met <= furthest)
			continue;
		furthest = met;
		*v = one;
		if (which)
			*which = i;
		if (one.matches)
			return;
	}
}
