/* SPDX-License-Identifier: Apache-2.0 */
#include "device/podres_pb.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <pb_decode.h>

#include "podres.pb.h"

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

/* A field sent twice is the last one (proto3). NUL would hide what follows it. */
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
		return err_kind(e, ERR_DECODE, -EBADMSG,
				"decode a list of pod resources: %zu bytes that are none",
				message.n);
	}
	*ret = list;
	return 0;
}
