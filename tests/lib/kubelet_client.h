/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_TESTS_KUBELET_CLIENT_H
#define UNIRAIL_TESTS_KUBELET_CLIENT_H

/*
 * Frames of HTTP/2 and requests of gRPC, for programs that call a device plugin as the kubelet
 * does. They use no library and no code of unirail: a bench measures only the server, and a mistake
 * of unirail's own client cannot hide a mistake of the server. The program defines fail(), which
 * ends it with an error.
 */

#include <stdint.h>
#include <string.h>
#include <sys/socket.h>

enum {
	FRAME_HEAD = 9,
	DATA = 0,
	HEADERS = 1,
	SETTINGS = 4,
	PING = 6,
	WINDOW_UPDATE = 8,
	ACK = 1,
	END_STREAM = 1,
	END_HEADERS = 4,
	MESSAGE_MAX = 1 << 20,
};

#define PREFACE "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

static _Noreturn void fail(const char *what);

static inline void send_all(int fd, const void *p, size_t n)
{
	for (size_t done = 0; done < n;) {
		ssize_t r = send(fd, (const char *)p + done, n - done, MSG_NOSIGNAL);

		if (r <= 0)
			fail("send");
		done += (size_t)r;
	}
}

static inline void receive_all(int fd, void *p, size_t n)
{
	for (size_t done = 0; done < n;) {
		ssize_t r = recv(fd, (char *)p + done, n - done, 0);

		if (r <= 0)
			fail("receive");
		done += (size_t)r;
	}
}

static inline size_t put_frame(uint8_t *at, size_t len, uint8_t type, uint8_t flags,
			       uint32_t stream)
{
	const uint8_t head[FRAME_HEAD] = {(uint8_t)(len >> 16),
					  (uint8_t)(len >> 8),
					  (uint8_t)len,
					  type,
					  flags,
					  (uint8_t)(stream >> 24),
					  (uint8_t)(stream >> 16),
					  (uint8_t)(stream >> 8),
					  (uint8_t)stream};

	memcpy(at, head, FRAME_HEAD);
	return FRAME_HEAD;
}

static inline size_t put_text(uint8_t *at, const char *s)
{
	size_t n = strlen(s);

	at[0] = (uint8_t)n;
	memcpy(at + 1, s, n);
	return n + 1;
}

/* Writes the headers of a request in HPACK: method and scheme as indexed fields, the others as
 * literals without indexing. All names except "te" are in HPACK's static table. */
static inline size_t put_headers(uint8_t *at, const char *path)
{
	uint8_t *p = at;

	*p++ = 0x83; /* :method POST */
	*p++ = 0x86; /* :scheme http */
	*p++ = 0x04; /* :path */
	p += put_text(p, path);
	*p++ = 0x01; /* :authority */
	p += put_text(p, "localhost");
	*p++ = 0x0f; /* 31, content-type */
	*p++ = 0x10;
	p += put_text(p, "application/grpc");
	*p++ = 0x00;
	p += put_text(p, "te");
	p += put_text(p, "trailers");
	return (size_t)(p - at);
}

/* Returns the length of the frame's payload. */
static inline size_t frame_len(const uint8_t head[static FRAME_HEAD])
{
	return (size_t)head[0] << 16 | (size_t)head[1] << 8 | head[2];
}

/* Acknowledges a SETTINGS or PING frame of the server; other frames and ACKs need no reply. */
static inline void acknowledge(int fd, const uint8_t head[static FRAME_HEAD],
			       const uint8_t *payload)
{
	size_t n = head[3] == PING ? frame_len(head) : 0;
	uint8_t ack[FRAME_HEAD];

	if ((head[3] != SETTINGS && head[3] != PING) || head[4] & ACK)
		return;
	put_frame(ack, n, head[3], ACK, 0);
	send_all(fd, ack, sizeof(ack));
	send_all(fd, payload, n);
}

/* Lets the server send n more bytes on the stream; stream 0: on the connection. */
static inline void open_window(int fd, uint32_t stream, size_t n)
{
	uint8_t b[FRAME_HEAD + 4];

	put_frame(b, 4, WINDOW_UPDATE, 0, stream);
	for (int i = 0; i < 4; i++)
		b[FRAME_HEAD + i] = (uint8_t)(n >> (24 - 8 * i));
	send_all(fd, b, sizeof(b));
}

/* Writes AllocateRequest{container_requests{devices_ids...}}; each id must have fewer than 128
 * bytes, all ids with their prefixes fewer than 16384. */
static inline size_t put_allocate(uint8_t *at, char *const *ids, int n)
{
	size_t inner = 0;
	uint8_t *p = at;

	for (int i = 0; i < n; i++)
		inner += strlen(ids[i]) + 2;
	*p++ = 0x0a;
	*p++ = (uint8_t)(inner | 0x80);
	*p++ = (uint8_t)(inner >> 7);
	for (int i = 0; i < n; i++) {
		*p++ = 0x0a;
		p += put_text(p, ids[i]);
	}
	return (size_t)(p - at);
}

#endif
