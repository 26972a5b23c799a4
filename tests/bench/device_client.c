/* SPDX-License-Identifier: Apache-2.0 */
/*
 * usage: device_client SOCKET COUNT ID... Calls Allocate of the device plugin on SOCKET, first WARM
 * times without measuring, then COUNT times with measuring; all calls use one connection, one after
 * the other. The client uses no library, so that mostly the server's time is measured. For
 * comparison it measures the kernel's floor: a round trip of as many bytes between two processes.
 * Prints JSON: median and p99 of both in microseconds.
 */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "../lib/kubelet_client.h"

enum { WARM = 100 };

#define METHOD "/v1beta1.DevicePlugin/Allocate"

static _Noreturn void fail(const char *what)
{
	fprintf(stderr, "device_client: %s: %s\n", what, strerror(errno));
	exit(1);
}

static double now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

struct call {
	uint8_t *bytes;
	size_t len, at_headers, at_data; /* positions of the two stream ids */
};

static void call_new(struct call *c, char *const *ids, int n)
{
	uint8_t headers[256], *message = malloc(16384 + 8), *p;
	size_t h = put_headers(headers, METHOD), m = put_allocate(message, ids, n);

	c->bytes = p = malloc(h + m + 64);
	p += put_frame(p, h, HEADERS, END_HEADERS, 0);
	c->at_headers = 5;
	memcpy(p, headers, h);
	p += h;
	c->at_data = (size_t)(p - c->bytes) + 5;
	p += put_frame(p, m + 5, DATA, END_STREAM, 0);
	*p++ = 0; /* not compressed */
	for (int shift = 24; shift >= 0; shift -= 8)
		*p++ = (uint8_t)(m >> shift);
	memcpy(p, message, m);
	c->len = (size_t)(p - c->bytes) + m;
	free(message);
}

static void put_stream(uint8_t *at, uint32_t stream)
{
	for (int i = 0; i < 4; i++)
		at[i] = (uint8_t)(stream >> (24 - 8 * i));
}

/* Reads up to the call's trailers; returns the number of bytes in its DATA frames, or 0 if the
 * call failed. */
static size_t receive_answer(int fd, uint32_t stream)
{
	static uint8_t payload[MESSAGE_MAX];
	uint8_t head[FRAME_HEAD];
	size_t data = 0;

	for (;;) {
		size_t n;

		receive_all(fd, head, sizeof(head));
		n = frame_len(head);
		if (n > sizeof(payload))
			fail("receive the answer: a frame is too long");
		receive_all(fd, payload, n);
		acknowledge(fd, head, payload);
		if (head[8] != (stream & 0xff) || head[7] != (stream >> 8 & 0xff))
			continue;
		data += head[3] == DATA ? n : 0;
		if ((head[3] == DATA || head[3] == HEADERS) && head[4] & END_STREAM)
			return data;
	}
}

/* --- for comparison: a round trip of as many bytes between two processes --- */

static void echo(int fd, size_t in, size_t out)
{
	uint8_t *b = calloc(1, in > out ? in : out);

	for (;;) {
		size_t got = 0;

		while (got < in) {
			ssize_t n = recv(fd, b, in - got, 0);

			if (n <= 0)
				_exit(0);
			got += (size_t)n;
		}
		send_all(fd, b, out);
	}
}

static int start_echo(size_t in, size_t out)
{
	int fds[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) < 0)
		fail("socketpair");
	if (fork() == 0) {
		close(fds[0]);
		echo(fds[1], in, out);
	}
	close(fds[1]);
	return fds[0];
}

/* --- results --- */

static int by_value(const void *a, const void *b)
{
	const double *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

static void print(const char *name, double *v, int n, const char *end)
{
	qsort(v, (size_t)n, sizeof(*v), by_value);
	printf("\"%s\": {\"median\": %.1f, \"p99\": %.1f}%s", name, v[n / 2], v[n * 99 / 100], end);
}

int main(int argc, char **argv)
{
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), count, floor_fd;
	uint8_t hello[FRAME_HEAD], *bytes;
	double *calls, *floors;
	size_t answer = 0;
	struct call c;

	if (argc < 4 || strlen(argv[1]) >= sizeof(a.sun_path)) {
		fprintf(stderr, "usage: device_client SOCKET COUNT ID...\n");
		return 2;
	}
	strcpy(a.sun_path, argv[1]);
	count = atoi(argv[2]);
	calls = calloc((size_t)count, sizeof(*calls));
	floors = calloc((size_t)count, sizeof(*floors));
	if (fd < 0 || connect(fd, (const struct sockaddr *)&a, sizeof(a)) < 0)
		fail(argv[1]);
	send_all(fd, (const uint8_t *)PREFACE, strlen(PREFACE));
	put_frame(hello, 0, SETTINGS, 0, 0);
	send_all(fd, hello, sizeof(hello));
	call_new(&c, argv + 3, argc - 3);
	for (int i = 0; i < WARM + count; i++) {
		uint32_t stream = (uint32_t)i * 2 + 1;
		double began = now_us();

		put_stream(c.bytes + c.at_headers, stream);
		put_stream(c.bytes + c.at_data, stream);
		send_all(fd, c.bytes, c.len);
		answer = receive_answer(fd, stream);
		if (!answer)
			fail("Allocate: the plugin sent no answer");
		if (i >= WARM)
			calls[i - WARM] = now_us() - began;
		open_window(fd, 0, answer);
	}
	floor_fd = start_echo(c.len, answer);
	bytes = malloc(answer);
	for (int i = 0; i < WARM + count; i++) {
		double began = now_us();

		send_all(floor_fd, c.bytes, c.len);
		receive_all(floor_fd, bytes, answer);
		if (i >= WARM)
			floors[i - WARM] = now_us() - began;
	}
	printf("{");
	print("allocate", calls, count, ", ");
	print("floor", floors, count, "");
	printf("}\n");
	return 0;
}
