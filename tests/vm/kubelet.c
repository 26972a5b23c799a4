/* SPDX-License-Identifier: Apache-2.0 */
/*
 * usage: kubelet SOCKET list
 *		prints each device of the first list and its health
 *	  kubelet SOCKET until HEALTH [FILE TEXT]
 *		writes TEXT to FILE and waits until the plugin sends a device with this health. Prints
 *		the milliseconds since the start of the write (without FILE: since the first list),
 *		and how long the write took ("-": without FILE, or if the write has not returned yet)
 *	  kubelet SOCKET allocate ID...
 *		prints the strings of the answer, one per line
 * Calls the device plugin on SOCKET as the kubelet does, without a library and without code of
 * unirail. Exit status 3: the plugin sent nothing for WAIT_S seconds.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "../lib/kubelet_client.h"

enum { GRPC_HEAD = 5, STREAM = 1, WAIT_S = 20 };

static _Noreturn void fail(const char *what)
{
	int code = errno;

	fprintf(stderr, "kubelet: %s: %s\n", what, strerror(code));
	exit(code == EAGAIN ? 3 : 1);
}

static double now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static void call(int fd, const char *path, const uint8_t *message, size_t n)
{
	uint8_t b[4096], headers[512], *p = b;
	size_t h = put_headers(headers, path);

	memcpy(b, PREFACE, 24);
	p += 24;
	p += put_frame(p, 0, SETTINGS, 0, 0);
	p += put_frame(p, h, HEADERS, END_HEADERS, STREAM);
	memcpy(p, headers, h);
	p += h;
	p += put_frame(p, n + GRPC_HEAD, DATA, END_STREAM, STREAM);
	*p++ = 0; /* not compressed */
	for (int shift = 24; shift >= 0; shift -= 8)
		*p++ = (uint8_t)(n >> shift);
	memcpy(p, message, n);
	send_all(fd, b, (size_t)(p - b) + n);
}

/* Reads the next message of the stream. Returns false if the stream has ended before it. */
static bool next_message(int fd, uint8_t *ret, size_t *len)
{
	static uint8_t got[MESSAGE_MAX], payload[MESSAGE_MAX];
	static size_t n;

	for (;;) {
		size_t want = GRPC_HEAD, size;
		uint8_t head[FRAME_HEAD];

		if (n >= GRPC_HEAD)
			want += (size_t)got[1] << 24 | (size_t)got[2] << 16 | (size_t)got[3] << 8 |
				got[4];
		if (n >= GRPC_HEAD && n >= want) {
			*len = want - GRPC_HEAD;
			memcpy(ret, got + GRPC_HEAD, *len);
			memmove(got, got + want, n - want);
			n -= want;
			return true;
		}
		receive_all(fd, head, sizeof(head));
		size = frame_len(head);
		if (n + size > sizeof(got)) {
			errno = EMSGSIZE;
			fail("message");
		}
		receive_all(fd, payload, size);
		acknowledge(fd, head, payload);
		if (head[8] != STREAM)
			continue;
		if (head[3] == DATA && size) {
			memcpy(got + n, payload, size);
			n += size;
			open_window(fd, 0, size);
			open_window(fd, STREAM, size);
		}
		if ((head[3] == DATA || head[3] == HEADERS) && head[4] & END_STREAM && n < want)
			return false;
	}
}

/* --- messages --- */

static uint64_t varint(const uint8_t **p, const uint8_t *end)
{
	uint64_t v = 0;

	for (int shift = 0; *p < end && shift < 64; shift += 7) {
		uint8_t b = *(*p)++;

		v |= (uint64_t)(b & 0x7f) << shift;
		if (!(b & 0x80))
			break;
	}
	return v;
}

/* Finds the next length-delimited field (a string or a message) and returns its number; 0: none.
 * All other fields of these messages are varints. */
static uint64_t next_field(const uint8_t **p, const uint8_t *end, const uint8_t **at, size_t *n)
{
	while (*p < end) {
		uint64_t tag = varint(p, end), v = varint(p, end);

		if ((tag & 7) != 2)
			continue;
		*at = *p;
		*n = v <= (uint64_t)(end - *p) ? (size_t)v : (size_t)(end - *p);
		*p += *n;
		return tag >> 3;
	}
	return 0;
}

/* Parses ListAndWatchResponse{devices{ID, health}}. health NULL: prints the devices; else: returns
 * whether a device has this health. */
static bool read_list(const uint8_t *p, size_t n, const char *health)
{
	const uint8_t *end = p + n, *device, *text;
	bool any = false;
	size_t len, m;

	while (next_field(&p, end, &device, &len)) {
		const uint8_t *q = device, *q_end = device + len;
		uint64_t field;

		while ((field = next_field(&q, q_end, &text, &m))) {
			if (field == 2 && health)
				any |= m == strlen(health) && memcmp(text, health, m) == 0;
			if (field <= 2 && !health)
				printf("%.*s%s", (int)m, (const char *)text,
				       field == 1 ? " " : "\n");
		}
	}
	return any;
}

static void print_strings(const uint8_t *p, size_t n)
{
	enum { SHORTEST = 3 };

	for (size_t i = 0, from = 0; i <= n; i++) {
		if (i < n && p[i] >= ' ' && p[i] < 0x7f)
			continue;
		if (i - from >= SHORTEST)
			printf("%.*s\n", (int)(i - from), (const char *)p + from);
		from = i + 1;
	}
}

/* Writes in a separate process, since a write may block until the driver has finished. *returned is
 * shared memory: the time at which write() has returned. */
static void write_file(const char *path, const char *text, double *returned)
{
	int fd;

	if (fork() != 0)
		return;
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0 || write(fd, text, strlen(text)) < 0)
		fail(path);
	*returned = now_ms();
	_exit(0);
}

static void print_times(double began, double returned)
{
	printf("%.0f ", now_ms() - began);
	if (returned > 0)
		printf("%.0f\n", returned - began);
	else
		printf("-\n");
}

static int watch(int fd, uint8_t *message, char **argv, int argc)
{
	double began = 0, *returned = mmap(NULL, sizeof(*returned), PROT_READ | PROT_WRITE,
					   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	size_t n;

	if (returned == MAP_FAILED)
		fail("mmap");

	call(fd, "/v1beta1.DevicePlugin/ListAndWatch", NULL, 0);
	while (next_message(fd, message, &n)) {
		if (argc == 0) {
			read_list(message, n, NULL);
			return 0;
		}
		if (began == 0) {
			began = now_ms();
			if (argc > 2)
				write_file(argv[1], argv[2], returned);
			if (argc > 2)
				continue;
		}
		if (read_list(message, n, argv[0])) {
			print_times(began, *returned);
			return 0;
		}
	}
	fail("read a device list: the stream of ListAndWatch has ended");
}

static int allocate(int fd, uint8_t *message, char **ids, int count)
{
	uint8_t request[2048];
	size_t n = 3;

	for (int i = 0; i < count; i++)
		n += strlen(ids[i]) + 2;
	if (n > sizeof(request)) {
		errno = E2BIG;
		fail("allocate");
	}
	call(fd, "/v1beta1.DevicePlugin/Allocate", request, put_allocate(request, ids, count));
	if (!next_message(fd, message, &n)) {
		fprintf(stderr, "kubelet: the device plugin refused Allocate\n");
		return 1;
	}
	print_strings(message, n);
	return 0;
}

int main(int argc, char **argv)
{
	static uint8_t message[MESSAGE_MAX];
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	struct timeval limit = {.tv_sec = WAIT_S};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (argc < 3 || strlen(argv[1]) >= sizeof(a.sun_path)) {
		fprintf(stderr,
			"usage: kubelet SOCKET list|until HEALTH [FILE TEXT]|allocate ID...\n");
		return 2;
	}
	strcpy(a.sun_path, argv[1]);
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	if (fd < 0 || connect(fd, (const struct sockaddr *)&a, sizeof(a)) < 0)
		fail(argv[1]);
	if (strcmp(argv[2], "allocate") == 0)
		return allocate(fd, message, argv + 3, argc - 3);
	return watch(fd, message, argv + 3, strcmp(argv[2], "list") == 0 ? 0 : argc - 3);
}
