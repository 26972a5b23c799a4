/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Data from a client of the gRPC server. First byte: bit 7: the client's preface and SETTINGS
 * precede the input; the other bits: number of bytes of each read (0: 4096). Time passes between
 * reads.
 */
#include <string.h>

#include "base/alloc.h"
#include "fuzz.h"
#include "wire/http/grpc_server.h"

static const char preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0";
static size_t open_streams;

static void on_options(void *arg, struct grpc_in *c, struct span request)
{
	(void)arg, (void)request;
	grpc_in_reply(c, span_of("reply"));
}

static void on_list(void *arg, struct grpc_in *c, struct span request)
{
	(void)arg, (void)request;
	open_streams++;
	must(grpc_in_send(c, span_of("first")) == 0);
	must(grpc_in_send(c, span_of("second")) == 0);
}

static void on_closed(void *arg, struct grpc_in *c)
{
	(void)arg, (void)c;
	must(open_streams > 0);
	open_streams--;
}

static void on_allocate(void *arg, struct grpc_in *c, struct span request)
{
	(void)arg;
	must(request.n <= 100);
	grpc_in_fail(c, GRPC_NOT_FOUND, "no");
}

static const struct grpc_method methods[] = {
	{"/v1beta1.DevicePlugin/GetDevicePluginOptions", 0, on_options, NULL},
	{"/v1beta1.DevicePlugin/ListAndWatch", 0, on_list, on_closed},
	{"/v1beta1.DevicePlugin/Allocate", 100, on_allocate, NULL},
	{0},
};

static int drain(struct grpc_session *s)
{
	struct span out;
	int r;

	do
		r = grpc_session_out(s, &out, NULL);
	while (r == 0 && out.n > 0);
	return r;
}

static int feed(struct grpc_session *s, struct span bytes, int64_t now)
{
	struct err e = ERR_INIT;
	int r = grpc_session_in(s, bytes, now, &e);

	fuzz_refused(r, &e);
	if (r == 0)
		r = drain(s);
	must(grpc_session_calls(s) <= 2 * GRPC_STREAMS_MAX);
	return r;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct feed f = {data, size};
	uint8_t first = feed_byte(&f);
	size_t step = (first & 127) ? (first & 127) : 4096;
	struct span rest = feed_rest(&f);
	struct grpc_session *s = NULL;
	int64_t now = 1000;
	int r;

	open_streams = 0;
	must(grpc_session_new(&s, methods, NULL, 10000, NULL) == 0);
	r = drain(s);
	if (r == 0 && (first & 128))
		r = feed(s, (struct span){preface, sizeof(preface) - 1}, now);
	while (r == 0 && rest.n > 0 && !grpc_session_is_done(s)) {
		size_t n = step < rest.n ? step : rest.n;

		now += 100;
		r = feed(s, (struct span){rest.p, n}, now);
		rest.p += n;
		rest.n -= n;
		if (r == 0 && grpc_session_deadline(s) >= 0 && grpc_session_deadline(s) <= now)
			grpc_session_expire(s, now);
	}
	grpc_session_free(s);
	must(open_streams == 0);
	return 0;
}
