/* SPDX-License-Identifier: Apache-2.0 */
#include "device/allocated.h"
#include "device/podres.h"
#include "device/podres_pb.h"

#include <errno.h>
#include <pb_decode.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/paths.h"
#include "podres.pb.h"
#include "wire/http/grpc.h"
#include "wire/json/json.h"

static void devices_done(struct podres_devices *d)
{
	for (size_t i = 0; i < d->n_ids; i++)
		free(d->ids[i]);
	free(d->ids);
	free(d->nodes);
	free(d->resource);
}

static void container_done(struct podres_container *c)
{
	for (size_t i = 0; i < c->n_devices; i++)
		devices_done(&c->devices[i]);
	free(c->devices);
	free(c->name);
}

static void pod_done(struct podres_pod *p)
{
	for (size_t i = 0; i < p->n_containers; i++)
		container_done(&p->containers[i]);
	free(p->containers);
	free(p->name);
	free(p->ns);
}

void podres_done(struct podres_list *l)
{
	for (size_t i = 0; i < l->n_pods; i++)
		pod_done(&l->pods[i]);
	free(l->pods);
	*l = (struct podres_list){0};
}

/*
 * A field that occurs twice has its last value (proto3). Rejects a string with a NUL, which would
 * truncate it.
 */
static bool take_string(pb_istream_t *s, const pb_field_t *field, void **arg)
{
	char **ret = *arg, *text = xmalloc(s->bytes_left + 1);
	size_t n = s->bytes_left;

	(void)field;
	if (!pb_read(s, (pb_byte_t *)text, n) || memchr(text, '\0', n)) {
		free(text);
		return false;
	}
	text[n] = '\0';
	free(*ret);
	*ret = text;
	return true;
}

static bool take_id(pb_istream_t *s, const pb_field_t *field, void **arg)
{
	struct podres_devices *d = *arg;
	char *text = NULL;
	void *into = &text;

	if (!take_string(s, field, &into))
		return false;
	VEC_PUSH(d->ids, d->n_ids) = text;
	return true;
}

static bool take_node(pb_istream_t *s, const pb_field_t *field, void **arg)
{
	struct podres_devices *d = *arg;
	v1_NUMANode m = v1_NUMANode_init_zero;

	(void)field;
	if (!pb_decode(s, v1_NUMANode_fields, &m))
		return false;
	VEC_PUSH(d->nodes, d->n_nodes) = m.ID;
	return true;
}

static bool take_devices(pb_istream_t *s, const pb_field_t *field, void **arg)
{
	struct podres_container *c = *arg;
	struct podres_devices *d = &VEC_PUSH(c->devices, c->n_devices);
	v1_ContainerDevices m = {
		.resource_name = {{.decode = take_string}, &d->resource},
		.device_ids = {{.decode = take_id}, d},
		.topology.nodes = {{.decode = take_node}, d},
	};

	(void)field;
	d->resource = xstrdup("");
	return pb_decode(s, v1_ContainerDevices_fields, &m);
}

static bool take_container(pb_istream_t *s, const pb_field_t *field, void **arg)
{
	struct podres_pod *p = *arg;
	struct podres_container *c = &VEC_PUSH(p->containers, p->n_containers);
	v1_ContainerResources m = {
		.name = {{.decode = take_string}, &c->name},
		.devices = {{.decode = take_devices}, c},
	};

	(void)field;
	c->name = xstrdup("");
	return pb_decode(s, v1_ContainerResources_fields, &m);
}

static bool take_pod(pb_istream_t *s, const pb_field_t *field, void **arg)
{
	struct podres_list *l = *arg;
	struct podres_pod *p = &VEC_PUSH(l->pods, l->n_pods);
	v1_PodResources m = {
		.name = {{.decode = take_string}, &p->name},
		.namespace = {{.decode = take_string}, &p->ns},
		.containers = {{.decode = take_container}, p},
	};

	(void)field;
	p->name = xstrdup("");
	p->ns = xstrdup("");
	return pb_decode(s, v1_PodResources_fields, &m);
}

int podres_decode(struct span message, struct podres_list *ret, struct err *e)
{
	struct podres_list list = {0};
	v1_ListPodResourcesResponse m = {.pod_resources = {{.decode = take_pod}, &list}};
	pb_istream_t s = pb_istream_from_buffer((const pb_byte_t *)message.p, message.n);

	if (!pb_decode(&s, v1_ListPodResourcesResponse_fields, &m)) {
		podres_done(&list);
		return err_kind(
			e, ERR_DECODE, -EBADMSG,
			"decode the kubelet's list of pod resources: %zu bytes are not a valid message",
			message.n);
	}
	*ret = list;
	return 0;
}

static void add_node(struct podres_devices *d, int64_t node)
{
	for (size_t i = 0; i < d->n_nodes; i++)
		if (d->nodes[i] == node)
			return;
	VEC_PUSH(d->nodes, d->n_nodes) = node;
}

/* Moves the members of `from` to `to`. */
static void absorb(struct podres_devices *to, struct podres_devices *from)
{
	for (size_t i = 0; i < from->n_ids; i++)
		VEC_PUSH(to->ids, to->n_ids) = from->ids[i];
	for (size_t i = 0; i < from->n_nodes; i++)
		add_node(to, from->nodes[i]);
	free(from->ids);
	free(from->nodes);
	free(from->resource);
}

void podres_merge(struct podres_container *c)
{
	size_t n_merged = 0;

	for (size_t i = 0; i < c->n_devices; i++) {
		struct podres_devices d = c->devices[i];
		size_t k = 0;

		while (k < n_merged && strcmp(c->devices[k].resource, d.resource))
			k++;
		if (k < n_merged)
			absorb(&c->devices[k], &d);
		else
			c->devices[n_merged++] = d;
	}
	c->n_devices = n_merged;
}

int podres_get(const char *socket, int timeout_ms, struct podres_list *ret, struct err *e)
{
	const struct grpc_call call = {
		.socket = socket,
		.method = PODRES_LIST,
		.timeout_ms = timeout_ms,
		.remedy = "is the kubelet running, and is its socket's directory mounted here?",
	};
	auto_buf struct buf reply;
	int r = grpc_unary(&call, &reply, e);

	if (!r)
		r = podres_decode(buf_span(&reply), ret, e);
	if (r < 0)
		return err_wrap(e, r, "list the devices of pods from the kubelet");
	for (size_t i = 0; i < ret->n_pods; i++)
		for (size_t k = 0; k < ret->pods[i].n_containers; k++)
			podres_merge(&ret->pods[i].containers[k]);
	return 0;
}

enum { CHECKPOINT_MAX = 16 << 20, PATH_BYTES = 128 };

void allocated_done(struct allocated *a)
{
	for (size_t i = 0; i < a->n; i++) {
		for (size_t k = 0; k < a->v[i].n; k++)
			free(a->v[i].ids[k]);
		free(a->v[i].ids);
		free(a->v[i].resource);
	}
	free(a->v);
	*a = (struct allocated){0};
}

static struct allocated_ids *find(struct allocated *a, struct span resource)
{
	for (size_t i = 0; i < a->n; i++)
		if (span_eq(resource, a->v[i].resource))
			return &a->v[i];
	return NULL;
}

void allocated_add(struct allocated *a, struct span resource, struct span id)
{
	struct allocated_ids *l = find(a, resource);

	if (!l) {
		l = &VEC_PUSH(a->v, a->n);
		l->resource = span_dup(resource);
	}
	for (size_t i = 0; i < l->n; i++)
		if (span_eq(id, l->ids[i]))
			return;
	VEC_PUSH(l->ids, l->n) = span_dup(id);
}

/* --- order of device ids --- */

/* Converts "0000:3b:02.1" to a number; false: not a PCI address. */
static bool is_pci(const char *id, uint64_t *ret)
{
	unsigned int domain, bus, slot, function;
	int n = 0;

	if (sscanf(id, "%x:%2x:%2x.%1x%n", &domain, &bus, &slot, &function, &n) != 4 || id[n])
		return false;
	*ret = (uint64_t)domain << 24 | bus << 16 | slot << 8 | function;
	return true;
}

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* Moves *s to the end of the digits at *s; returns the digits without leading zeros. */
static struct span digits(const char **s)
{
	struct span run;

	while (**s == '0' && is_digit((*s)[1]))
		(*s)++;
	run = (struct span){*s, 0};
	while (is_digit(**s)) {
		(*s)++;
		run.n++;
	}
	return run;
}

static int by_number(const char **a, const char **b)
{
	struct span x = digits(a), y = digits(b);

	if (x.n != y.n)
		return x.n < y.n ? -1 : 1;
	return memcmp(x.p, y.p, x.n);
}

static int natural(const char *a, const char *b)
{
	const char *x = a, *y = b;

	while (*x && *y) {
		int d = is_digit(*x) && is_digit(*y) ? by_number(&x, &y)
						     : (unsigned char)*x++ - (unsigned char)*y++;

		if (d)
			return d;
	}
	if (*x || *y)
		return *x ? 1 : -1;
	return strcmp(a, b); /* the ids differ only in leading zeros */
}

static int by_id(const void *a, const void *b)
{
	const char *x = *(char *const *)a, *y = *(char *const *)b;
	uint64_t nx = 0, ny = 0;
	bool px = is_pci(x, &nx), py = is_pci(y, &ny);

	if (px != py)
		return px ? -1 : 1;
	if (px && nx != ny)
		return nx < ny ? -1 : 1;
	return natural(x, y);
}

void allocated_sort(struct allocated *a)
{
	for (size_t i = 0; i < a->n; i++)
		qsort(a->v[i].ids, a->v[i].n, sizeof(char *), by_id);
}

const char *allocated_take(struct allocated *a, const char *resource)
{
	struct allocated_ids *l = find(a, span_of(resource));

	return l && l->taken < l->n ? l->ids[l->taken++] : NULL;
}

bool allocated_has(const struct allocated *a, const char *resource, const char *id)
{
	for (size_t i = 0; i < a->n; i++) {
		if (resource && strcmp(a->v[i].resource, resource) != 0)
			continue;
		for (size_t k = 0; k < a->v[i].n; k++)
			if (strcmp(a->v[i].ids[k], id) == 0)
				return true;
	}
	return false;
}

/* --- the kubelet's response --- */

void allocated_podres(struct allocated *a, const struct podres_list *l, const char *ns,
		      const char *name)
{
	for (size_t i = 0; i < l->n_pods; i++) {
		const struct podres_pod *p = &l->pods[i];

		if (strcmp(p->ns, ns) || strcmp(p->name, name))
			continue;
		for (size_t c = 0; c < p->n_containers; c++)
			for (size_t d = 0; d < p->containers[c].n_devices; d++) {
				const struct podres_devices *v = &p->containers[c].devices[d];

				for (size_t k = 0; k < v->n_ids; k++)
					allocated_add(a, span_of(v->resource), span_of(v->ids[k]));
			}
	}
	allocated_sort(a);
}

/* --- the kubelet's checkpoint --- */

static void add_ids(struct allocated *a, const char *resource, const struct json *list)
{
	struct json_walk w = json_walk_start(list);
	const struct json *v;

	while ((v = json_walk_next(&w, NULL)))
		if (json_string(v))
			allocated_add(a, span_of(resource), span_of(json_string(v)));
		else
			add_ids(a, resource, v); /* v is the list of a NUMA node */
}

int allocated_checkpoint(struct allocated *a, struct span text, const char *uid, struct err *e)
{
	auto_json struct json_doc *d = NULL;
	int r = json_parse(&d, text, CHECKPOINT_MAX, e);
	const struct json *entries, *v;
	struct json_walk w;

	if (r < 0)
		return r;
	entries = json_get(json_get(json_root(d), "Data"), "PodDeviceEntries");
	if (json_kind(entries) != JSON_ARRAY && json_kind(entries) != JSON_NULL)
		return json_wants(entries, "Data.PodDeviceEntries", "an array", e);
	w = json_walk_start(entries);
	while ((v = json_walk_next(&w, NULL))) {
		const char *its = json_string(json_get(v, "PodUID"));
		const char *resource = json_string(json_get(v, "ResourceName"));

		if (its && resource && strcmp(its, uid) == 0)
			add_ids(a, resource, json_get(v, "DeviceIDs"));
	}
	allocated_sort(a);
	return 0;
}

static int read_checkpoint(struct kubelet *k, const struct root *root, struct err *e)
{
	int r = file_read(root, PATH_KUBELET_CHECKPOINT, CHECKPOINT_MAX, &k->checkpoint, e);

	if (r != -ENOENT)
		return r < 0 ? r : 0;
	err_clear(e);
	return 0;
}

int kubelet_query(struct kubelet *k, const struct root *root, struct err *e)
{
	char path[PATH_BYTES];
	int r;

	*k = (struct kubelet){.has_list = file_exists(root, PODRES_SOCKET)};
	buf_init(&k->checkpoint, CHECKPOINT_MAX);
	if (!k->has_list)
		return read_checkpoint(k, root, e);
	if (root->host)
		str_copy(path, sizeof(path), PODRES_SOCKET);
	else
		snprintf(path, sizeof(path), "/proc/self/fd/%d%s", root->fd, PODRES_SOCKET);
	r = podres_get(path, PODRES_TIMEOUT_MS, &k->list, e);
	return r < 0 ? r : 0;
}

int kubelet_devices(const struct kubelet *k, const char *ns, const char *name, const char *uid,
		    struct allocated *a, struct err *e)
{
	int r = 0;

	if (k->has_list)
		allocated_podres(a, &k->list, ns, name);
	else if (k->checkpoint.len)
		r = allocated_checkpoint(a, buf_span(&k->checkpoint), uid, e);
	return r < 0 ? err_wrap(e, r, "the kubelet's file '%s'", PATH_KUBELET_CHECKPOINT) : 0;
}

void kubelet_done(struct kubelet *k)
{
	podres_done(&k->list);
	buf_done(&k->checkpoint);
	*k = (struct kubelet){0};
}

/* --- lines between child and parent --- */

void allocated_print(const struct allocated *a, struct buf *b)
{
	for (size_t i = 0; i < a->n; i++)
		for (size_t k = 0; k < a->v[i].n; k++)
			buf_printf(b, "%s\t%s\n", a->v[i].resource, a->v[i].ids[k]);
}

void allocated_parse(struct allocated *a, struct span text)
{
	struct span line, resource;

	while (span_cut(&text, '\n', &line))
		if (span_cut(&line, '\t', &resource) && line.p)
			allocated_add(a, resource, line);
	allocated_sort(a);
}
