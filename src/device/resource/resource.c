/* SPDX-License-Identifier: Apache-2.0 */
#include "device/resource/resource.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/num.h"
#include "device/resource/selector.h"

#define NO_RDMA_CM                                                                                 \
	"/dev/infiniband/rdma_cm is missing: containers with RDMA cannot use rdma_cm, load "       \
	"rdma_ucm"

enum { SEEN_TEXT_MAX = 400, SEEN_DEVICES = 4 };

/* owners: for each device of the node the resource of resourceList that has it; NULL: none yet. */
struct deciding {
	const struct node_devices *node;
	const struct resource_conf **owners;
	struct resource_messages *messages;
};

static void add(struct resource *r, const struct node_device *d, size_t selector)
{
	VEC_PUSH(r->v, r->n) = (struct resource_member){d, selector};
}

/* Devices of one earlier resource that this resource selects as well; one message reports them. */
struct conflict {
	const struct resource_conf *owner;
	const struct node_device *first;
	size_t n;
};

static void add_conflict(struct conflict **v, size_t *n, const struct resource_conf *owner,
			 const struct node_device *d)
{
	for (size_t i = 0; i < *n; i++)
		if ((*v)[i].owner == owner) {
			(*v)[i].n++;
			return;
		}
	VEC_PUSH(*v, *n) = (struct conflict){owner, d, 1};
}

static void report_conflicts(const struct deciding *x, const struct resource *r,
			     const struct conflict *v, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		char others[32] = "";

		if (v[i].n > 1)
			snprintf(others, sizeof(others), " and %zu more", v[i].n - 1);
		resource_report(
			x->messages, MESSAGE_WARNING, r->conf->full,
			"%s: %s: Cannot add device [%s]. Already allocated.: it%s belong%s to %s, "
			"which comes first",
			r->conf->origin, r->conf->full, v[i].first->id, others,
			v[i].n > 1 ? "" : "s", v[i].owner->full);
	}
}

/* Reports device nodes that the node lacks, and that responses therefore omit. */
static void report_absent(const struct deciding *x, const struct resource *r)
{
	bool vhost_net = false, rdma = false;

	for (size_t i = 0; i < r->n; i++) {
		vhost_net |= r->conf->selectors[r->v[i].selector].need_vhost_net;
		rdma |= r->conf->selectors[r->v[i].selector].is_rdma;
	}
	if (vhost_net && !x->node->has_vhost_net)
		resource_report(x->messages, MESSAGE_WARNING, NULL,
				"vhost-net is required in the configuration but /dev/vhost-net "
				"doesn't exist: load vhost_net");
	if (rdma && !x->node->has_rdma_cm)
		resource_report(x->messages, MESSAGE_WARNING, NULL, NO_RDMA_CM);
}

/*
 * Like the original, applies one selector object after the other to all devices. So devices are in
 * the order of the selector objects, and a device belongs to the first selector object that matches
 * it.
 */
static void decide_sriov(struct deciding *x, struct resource *r)
{
	auto_free struct conflict *conflicts = NULL;
	const struct resource_conf *c = r->conf;
	struct verdict v;
	size_t n = 0;

	for (size_t s = 0; s < c->n_selectors; s++) {
		struct resource_conf one = *c;

		one.selectors = &c->selectors[s];
		one.n_selectors = 1;
		for (size_t i = 0; i < x->node->n; i++) {
			resource_consider(&one, &x->node->v[i], &v, NULL);
			if (!v.matches)
				continue;
			if (!x->owners[i]) {
				x->owners[i] = c;
				add(r, &x->node->v[i], s);
			} else if (x->owners[i] != c) {
				add_conflict(&conflicts, &n, x->owners[i], &x->node->v[i]);
			}
		}
	}
	report_conflicts(x, r, conflicts, n);
	report_absent(x, r);
}

static bool lacks(const struct resource *r, enum node_char_kind kind,
		  const struct node_device **first)
{
	for (size_t i = 0; i < r->n; i++) {
		const struct node_device *d = r->v[i].device;
		bool found = false;

		for (size_t k = 0; k < d->n_rdma; k++)
			for (size_t c = 0; c < d->rdma[k].n_chars; c++)
				found = found || d->rdma[k].chars[c].kind == kind;
		if (!found) {
			*first = d;
			return true;
		}
	}
	return false;
}

/*
 * Warns about missing device files: rdma_cm of the node, umad of an HCA. The original does not
 * allocate such an HCA. unirail allocates it with the files that exist, which suffice for programs
 * that use only verbs.
 */
static void report_missing(const struct deciding *x, const struct resource *r)
{
	const struct resource_conf *c = r->conf;
	const struct node_device *d;

	if (!r->n)
		return;
	if (c->nodes & RESOURCE_NODE_RDMA_CM && !x->node->has_rdma_cm)
		resource_report(x->messages, MESSAGE_WARNING, NULL, NO_RDMA_CM);
	if (c->nodes & 1U << NODE_UMAD && lacks(r, NODE_UMAD, &d))
		resource_report(
			x->messages, MESSAGE_WARNING, c->full,
			"%s: %s: missing RDMA device spec for device %s, RDMA device \"umad\" "
			"not found: containers get only its other device nodes, load ib_umad",
			c->origin, c->full, d->id);
}

static void decide_shared(struct deciding *x, struct resource *r)
{
	const struct resource_conf *c = r->conf;
	struct verdict v;

	if (x->node->mode == NODE_RDMA_EXCLUSIVE) {
		resource_report(
			x->messages, MESSAGE_ERROR, c->full,
			"%s: %s: incorrect RDMA subsystem network namespace: the node's RDMA mode "
			"is exclusive, so that HCAs cannot be shared; set it to shared, or use VFs "
			"(resourceList)",
			c->origin, c->full);
		return;
	}
	for (size_t i = 0; i < x->node->n; i++) {
		resource_consider(c, &x->node->v[i], &v, NULL);
		if (v.matches)
			add(r, &x->node->v[i], 0);
	}
	report_missing(x, r);
	if (r->n && !c->hca_max)
		resource_report(x->messages, MESSAGE_WARNING, c->full,
				"%s: %s: rdmaHcaMax is 0 or missing: the resource has no devices",
				c->origin, c->full);
}

/* Reports an empty resource: "4 devices seen: 0000:3b:00.0 (vendors requires 8086, the device has
 * 15b3), ...". */
static void report_empty(const struct deciding *x, const struct resource *r)
{
	char seen[SEEN_TEXT_MAX] = "";
	size_t n = 0, of_class = 0, shown = 0;
	struct verdict v;

	for (size_t i = 0; i < x->node->n; i++) {
		const struct node_device *d = &x->node->v[i];

		if (d->class != r->conf->class)
			continue;
		of_class++;
		resource_consider(r->conf, d, &v, NULL);
		if (v.matches || shown == SEEN_DEVICES || n >= sizeof(seen) - 1)
			continue;
		shown++;
		n += (size_t)snprintf(seen + n, sizeof(seen) - n, "%s%s (%s)",
				      shown > 1 ? ", " : ": ", d->id, v.text);
	}
	resource_report(
		x->messages, MESSAGE_WARNING, r->conf->full,
		"%s: no devices in device pool, skipping creating resource server for %s: %zu "
		"device%s seen%s%s",
		r->conf->origin, r->conf->full, of_class, of_class == 1 ? "" : "s", seen,
		shown && shown < of_class ? " ..." : "");
}

void resources_decide(const struct resource_config *c, const struct node_devices *node,
		      struct resources *ret, struct resource_messages *messages)
{
	auto_free const struct resource_conf **owners = xcalloc(node->n, sizeof(*owners));
	struct deciding x = {node, owners, messages};
	struct resources s = {.v = xcalloc(c->n, sizeof(*s.v)), .n = c->n, .node = node};

	for (size_t i = 0; i < c->n; i++) {
		struct resource *r = &s.v[i];
		bool shared = c->v[i].form == RESOURCE_SHARED;

		r->conf = &c->v[i];
		if (shared)
			decide_shared(&x, r);
		else
			decide_sriov(&x, r);
		if (!r->n && !(shared && node->mode == NODE_RDMA_EXCLUSIVE))
			report_empty(&x, r);
	}
	*ret = s;
}

void resources_done(struct resources *s)
{
	for (size_t i = 0; i < s->n; i++)
		free(s->v[i].v);
	free(s->v);
	*s = (struct resources){0};
}

const struct resource *resource_find(const struct resources *s, const char *full)
{
	for (size_t i = 0; i < s->n; i++)
		if (strcmp(s->v[i].conf->full, full) == 0)
			return &s->v[i];
	return NULL;
}

/* --- ids --- */

/* Returns the number of ids of one HCA (perDevice): rdmaHcaMax, or fewer if otherwise all HCAs
 * of the resource together had more than RESOURCE_HCA_MAX ids. */
static size_t ids_per_device(const struct resource *r)
{
	size_t all = RESOURCE_HCA_MAX / (r->n ? r->n : 1);

	return (size_t)r->conf->hca_max < all ? (size_t)r->conf->hca_max : all;
}

size_t resource_ids(const struct resource *r)
{
	if (r->conf->form == RESOURCE_SRIOV || !r->n)
		return r->n;
	return r->conf->per_device ? r->n * ids_per_device(r) : (size_t)r->conf->hca_max;
}

void resource_id_members(const struct resource *r, size_t i, size_t *from, size_t *n)
{
	const struct resource_conf *c = r->conf;

	*from = 0;
	*n = 1;
	if (c->form == RESOURCE_SRIOV)
		*from = i;
	else if (c->per_device)
		*from = i / ids_per_device(r);
	else if (c->spread)
		*from = i % r->n;
	else
		*n = r->n;
}

static void add_numa(struct resource_id *ret, int numa)
{
	for (size_t i = 0; i < ret->n_numa; i++)
		if (ret->numa[i] == numa)
			return;
	if (numa >= 0 && ret->n_numa < RESOURCE_NUMA_MAX)
		ret->numa[ret->n_numa++] = numa;
}

void resource_id_at(const struct resource *r, size_t i, struct resource_id *ret)
{
	const struct resource_conf *c = r->conf;
	size_t from, n, healthy = 0;

	ret->n_numa = 0;
	ret->unhealthy = NULL;
	resource_id_members(r, i, &from, &n);
	if (c->form == RESOURCE_SRIOV)
		str_copy(ret->id, sizeof(ret->id), r->v[i].device->id);
	else if (c->per_device)
		/* truncates the HCA's name, so that the id has at most DEVICE_PLUGIN_ID_MAX (63)
		 * bytes */
		snprintf(ret->id, sizeof(ret->id), "%.50s-%zu", r->v[from].device->rdma[0].name,
			 i % ids_per_device(r));
	else
		snprintf(ret->id, sizeof(ret->id), "%zu", i);
	for (size_t k = from; k < from + n; k++) {
		const struct node_device *d = r->v[k].device;

		healthy += !d->unhealthy;
		if (d->unhealthy)
			ret->unhealthy = d->unhealthy;
		if (!c->exclude_topology)
			add_numa(ret, d->numa);
	}
	if (healthy)
		ret->unhealthy = NULL;
}

static int64_t shared_number(const struct resource *r, const char *id)
{
	const char *dash = strrchr(id, '-');
	size_t per = ids_per_device(r);
	struct resource_id at;
	uint64_t i;

	if (!r->conf->per_device)
		return num_u64(span_of(id), 0, UINT32_MAX, &i) == 0 && i < resource_ids(r)
			       ? (int64_t)i
			       : -ENOENT;
	if (!dash || num_u64(span_of(dash + 1), 0, UINT32_MAX, &i) < 0 || i >= per)
		return -ENOENT;
	for (size_t k = 0; k < r->n; k++) {
		resource_id_at(r, k * per + i, &at);
		if (strcmp(at.id, id) == 0)
			return (int64_t)(k * per + i);
	}
	return -ENOENT;
}

int64_t resource_id_number(const struct resource *r, const char *id)
{
	if (r->conf->form == RESOURCE_SHARED)
		return r->n ? shared_number(r, id) : -ENOENT;
	for (size_t i = 0; i < r->n; i++)
		if (strcmp(r->v[i].device->id, id) == 0)
			return (int64_t)i;
	return -ENOENT;
}
