/* SPDX-License-Identifier: Apache-2.0 */
#include "device/podres.h"

#include <stdlib.h>
#include <string.h>

#include "wire/http/grpc.h"

static void add_node(struct podres_devices *d, int64_t node)
{
	for (size_t i = 0; i < d->n_nodes; i++)
		if (d->nodes[i] == node)
			return;
	VEC_PUSH(d->nodes, d->n_nodes) = node;
}

/* What `from` owns goes to `to`. */
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
	size_t kept = 0;

	for (size_t i = 0; i < c->n_devices; i++) {
		struct podres_devices d = c->devices[i];
		size_t k = 0;

		while (k < kept && strcmp(c->devices[k].resource, d.resource))
			k++;
		if (k < kept)
			absorb(&c->devices[k], &d);
		else
			c->devices[kept++] = d;
	}
	c->n_devices = kept;
}

int podres_get(const char *socket, int timeout_ms, struct podres_list *ret, struct err *e)
{
	const struct grpc_call call = {
		.socket = socket,
		.method = PODRES_LIST,
		.timeout_ms = timeout_ms,
		.remedy = "is the kubelet running, and the folder of its socket visible here?",
	};
	auto_buf struct buf reply;
	int r = grpc_unary(&call, &reply, e);

	if (!r)
		r = podres_decode(buf_span(&reply), ret, e);
	if (r < 0)
		return err_wrap(e, r, "ask the kubelet which pod holds which device");
	for (size_t i = 0; i < ret->n_pods; i++)
		for (size_t k = 0; k < ret->pods[i].n_containers; k++)
			podres_merge(&ret->pods[i].containers[k]);
	return 0;
}
