/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests of a kubelet, or of another process that reaches the socket, to a device plugin. The
 * first byte selects the message, the rest is its protobuf. The answer has the requested ids; if it
 * can be decoded, that must give as many ids.
 */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "device/plugin/message.h"
#include "fuzz.h"

enum { ANSWER_MAX = 4 << 20 };

typedef int (*decode)(struct span m, struct message_request *ret, struct err *e);

static void check_ids(const struct message_ids *l)
{
	for (size_t i = 0; i < l->n; i++) {
		size_t n = strlen(l->v[i]);

		must(n >= 1 && n <= DEVICE_PLUGIN_ID_MAX);
	}
}

/* Encodes the requested ids as an answer, as answer_preferred() does with the preferred ids; if
 * the answer can be decoded, that must give as many ids. */
static void answer_ids(const struct message_request *q)
{
	struct message_ids *v = xcalloc(q->n + 1, sizeof(*v));
	struct buf b;

	for (size_t i = 0; i < q->n; i++)
		v[i] = q->v[i].ids;
	buf_init(&b, ANSWER_MAX);
	message_preferred_encode(v, q->n, &b);
	if (!b.over && q->n) {
		/* ContainerPreferredAllocationResponse and ContainerAllocateRequest both have
		 * ids as field 1. */
		auto_message_request struct message_request again = {0};
		struct err e = ERR_INIT;

		if (message_allocate_decode(buf_span(&b), &again, &e) == 0) {
			must(again.n == q->n);
			for (size_t i = 0; i < q->n; i++)
				must(again.v[i].ids.n == q->v[i].ids.n);
		}
	}
	buf_done(&b);
	free(v);
}

static void try_request(decode f, struct span message)
{
	auto_message_request struct message_request q = {0};
	struct err e = ERR_INIT;

	if (fuzz_refused(f(message, &q, &e), &e)) {
		must(!q.n && !q.v);
		return;
	}
	must(q.n <= DEVICE_PLUGIN_CONTAINERS_MAX);
	for (size_t i = 0; i < q.n; i++) {
		check_ids(&q.v[i].ids);
		check_ids(&q.v[i].must);
	}
	answer_ids(&q);
}

static void try_status(struct span message)
{
	bool registered = false;
	auto_free char *error = NULL;
	struct err e = ERR_INIT;

	if (!fuzz_refused(message_status_decode(message, &registered, &error, &e), &e))
		must(error != NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const decode requests[] = {message_allocate_decode, message_preferred_decode,
					  message_prestart_decode};
	struct feed f = {data, size};
	uint8_t which = feed_byte(&f) % (ARRAY_LEN(requests) + 1);

	if (which < ARRAY_LEN(requests))
		try_request(requests[which], feed_rest(&f));
	else
		try_status(feed_rest(&f));
	return 0;
}
