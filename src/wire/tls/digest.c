/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/tls/base64.h"
#include "wire/tls/digest.h"

#include <errno.h>
#include <fcntl.h>
#include <mbedtls/base64.h>
#include <mbedtls/sha256.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"

enum { DIGEST_BYTES = 32, READ_SIZE = 4096 };

static void to_hex(const uint8_t raw[static DIGEST_BYTES], char hex[static DIGEST_HEX])
{
	static const char digits[] = "0123456789abcdef";

	for (int i = 0; i < DIGEST_BYTES; i++) {
		hex[2 * i] = digits[raw[i] >> 4];
		hex[2 * i + 1] = digits[raw[i] & 15];
	}
	hex[DIGEST_HEX - 1] = '\0';
}

/* mbedTLS's software SHA-256 cannot fail: its functions return an int only for hardware engines. */
void digest_sha256(struct span data, char hex[static DIGEST_HEX])
{
	static const uint8_t nothing[1];
	uint8_t raw[DIGEST_BYTES];

	mbedtls_sha256(data.n ? (const uint8_t *)data.p : nothing, data.n, raw, 0);
	to_hex(raw, hex);
}

static int sum_fd(int fd, mbedtls_sha256_context *ctx)
{
	uint8_t piece[READ_SIZE];

	for (;;) {
		ssize_t n = read(fd, piece, sizeof(piece));

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : 0;
		mbedtls_sha256_update(ctx, piece, (size_t)n);
	}
}

int digest_sha256_file(const struct root *r, const char *path, char hex[static DIGEST_HEX],
		       struct err *e)
{
	auto_fd int fd = file_open(r, path, O_RDONLY | O_CLOEXEC, 0, e);
	mbedtls_sha256_context ctx;
	uint8_t raw[DIGEST_BYTES];
	int rc;

	if (fd < 0)
		return fd;
	mbedtls_sha256_init(&ctx);
	mbedtls_sha256_starts(&ctx, 0);
	rc = sum_fd(fd, &ctx);
	if (!rc) {
		mbedtls_sha256_finish(&ctx, raw);
		to_hex(raw, hex);
	}
	mbedtls_sha256_free(&ctx);
	return rc < 0 ? err_sys(e, rc, "read '%s'", path) : 0;
}

int base64_decode(struct span s, char **ret)
{
	auto_free char *tight = xmalloc(s.n + 1), *text = xmalloc(s.n + 1);
	size_t n = 0, len = 0;

	for (size_t i = 0; i < s.n; i++)
		if (!strchr(" \t\r\n", s.p[i]) || !s.p[i])
			tight[n++] = s.p[i];
	if (mbedtls_base64_decode((unsigned char *)text, s.n + 1, &len, (unsigned char *)tight, n))
		return -EINVAL;
	if (memchr(text, 0, len))
		return -EINVAL;
	text[len] = '\0';
	*ret = take(text);
	return 0;
}

char *base64_encode(struct span s)
{
	size_t size = (s.n + 2) / 3 * 4 + 1, len;
	char *text = xmalloc(size);

	/* mbedtls_base64_encode() fails only if the buffer is too small, which cannot happen
	 * here. For an empty input it writes nothing. */
	*text = '\0';
	mbedtls_base64_encode((unsigned char *)text, size, &len, (const unsigned char *)s.p, s.n);
	return text;
}
