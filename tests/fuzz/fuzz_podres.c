/* SPDX-License-Identifier: Apache-2.0 */
/* Answers of a kubelet. First byte 0: the rest is the message, protobuf. Otherwise the rest is
 * data from the socket, HTTP/2 frames of a gRPC answer, and the first byte is the size of the
 * reads. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "device/podres.h"
#include "fuzz.h"
#include "wire/http/grpc.h"

enum { REPLY_MAX = 4096 };

static void check_devices(const struct podres_container *c)
{
	must(c->name);
	for (size_t i = 0; i < c->n_devices; i++) {
		const struct podres_devices *d = &c->devices[i];

		must(d->resource);
		for (size_t k = 0; k < d->n_ids; k++)
			must(d->ids[k]);
		for (size_t k = 0; k < i; k++)
			must(strcmp(c->devices[k].resource, d->resource) != 0);
	}
}

static size_t count_ids(const struct podres_container *c)
{
	size_t n = 0;

	for (size_t i = 0; i < c->n_devices; i++)
		n += c->devices[i].n_ids;
	return n;
}

static void try_message(struct span message)
{
	auto_podres struct podres_list l = {0};
	struct err e = ERR_INIT;

	if (fuzz_refused(podres_decode(message, &l, &e), &e)) {
		must(l.n_pods == 0);
		return;
	}
	for (size_t i = 0; i < l.n_pods; i++) {
		must(l.pods[i].name && l.pods[i].ns);
		for (size_t k = 0; k < l.pods[i].n_containers; k++) {
			struct podres_container *c = &l.pods[i].containers[k];
			size_t n = count_ids(c);

			podres_merge(c);
			check_devices(c);
			must(count_ids(c) <= n);
		}
	}
}

static int drain(struct grpc *g)
{
	struct span out;
	int r;

	do
		r = grpc_out(g, &out, NULL);
	while (r == 0 && out.n > 0);
	return r;
}

static void try_answer(struct span bytes, size_t step)
{
	const struct grpc_call c = {.method = PODRES_LIST, .max = REPLY_MAX};
	auto_grpc struct grpc *g = NULL;
	struct err e = ERR_INIT;
	struct buf reply = {0};
	int r = grpc_new(&g, &c, &e);

	must(r == 0);
	r = drain(g);
	while (r == 0 && bytes.n > 0 && !grpc_is_done(g)) {
		size_t n = step < bytes.n ? step : bytes.n;

		r = grpc_in(g, (struct span){bytes.p, n}, &e);
		if (fuzz_refused(r, &e))
			break;
		r = drain(g);
		bytes.p += n;
		bytes.n -= n;
	}
	buf_init(&reply, REPLY_MAX);
	err_clear(&e);
	if (!fuzz_refused(grpc_finish(g, &reply, &e), &e)) {
		must(reply.len <= REPLY_MAX);
		try_message(buf_span(&reply));
	}
	buf_done(&reply);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct feed f = {data, size};
	uint8_t step = feed_byte(&f);

	if (step == 0)
		try_message(feed_rest(&f));
	else
		try_answer(feed_rest(&f), step);
	return 0;
}
