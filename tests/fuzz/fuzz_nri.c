/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Data from a container runtime to unirail's NRI plugin. First byte 0: the rest is a
 * CreateContainerRequest. Otherwise the rest is the data of the connection, and the first byte is
 * the size of the reads.
 */
#include <string.h>

#include "agent/nri/message.h"
#include "agent/nri/nri.h"
#include "base/alloc.h"
#include "fuzz.h"
#include "wire/ttrpc/ttrpc.h"

static void check(const struct nri_container *c)
{
	static const struct nri_policy all = {
		.memlock = NRI_UNLIMITED, .environment = true, .primary = "eth0"};
	auto_rails struct rails_list rails = {0};
	auto_nri_adjustment struct nri_adjustment a = {0};
	struct rails_entry e = {.ifname = "net1", .rdma = {.device = "mlx5_0", .port = 1}};
	auto_buf struct buf b;

	rails_put(&rails, &e);
	nri_adjust(c, &rails, &all, &a);
	must(nri_has_rdma(c) || (!a.memlock && !a.n_env));
	for (size_t i = 0; i < a.n_env; i++)
		for (size_t k = 0; k < c->n_env; k++)
			must(strncmp(c->env[k], a.env[i].name, strlen(a.env[i].name)) != 0 ||
			     c->env[k][strlen(a.env[i].name)] != '=');
	buf_init(&b, 1 << 16);
	nri_put_adjustment(&b, &a);
	must(!b.over);
}

static void try_message(struct span message)
{
	auto_nri_create struct nri_create *m = NULL;
	struct err e = ERR_INIT;

	if (fuzz_refused(nri_create_decode(&m, message, &e), &e))
		return;
	must(nri_create_pod(m) && nri_create_pod_uid(m) && nri_create_name(m));
	check(nri_create_container(m));
}

static int on_request(void *arg, const char *service, const char *method, struct span message,
		      struct buf *reply, struct err *e)
{
	bool more;

	(void)arg, (void)service;
	if (*method == 'S')
		return nri_synchronize_decode(message, &more, e);
	try_message(message);
	buf_add(reply, message.p, message.n);
	return *method == 'x' ? err_set(e, -1, "x") : 0;
}

static void on_response(void *arg, uint32_t stream, int status, struct span message,
			const char *text)
{
	(void)arg, (void)stream, (void)status, (void)message;
	must(text);
}

static void try_connection(struct span bytes, size_t step)
{
	static const struct ttrpc_ops ops = {on_request, on_response};
	struct ttrpc *t = ttrpc_new(&ops, NULL);
	struct err e = ERR_INIT;
	int r = 0;

	while (r == 0 && bytes.n > 0) {
		size_t n = step < bytes.n ? step : bytes.n;

		r = ttrpc_in(t, (struct span){bytes.p, n}, &e);
		fuzz_refused(r, &e);
		ttrpc_sent(t, ttrpc_out(t).n);
		bytes.p += n;
		bytes.n -= n;
	}
	ttrpc_free(t);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct feed f = {data, size};
	uint8_t step = feed_byte(&f);

	if (step == 0)
		try_message(feed_rest(&f));
	else
		try_connection(feed_rest(&f), step);
	return 0;
}
