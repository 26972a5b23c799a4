/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/manifests/embedded.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "embedded_files.h"

/* The format is in tools/embed. */
long embedded_unpack(const unsigned char *p, size_t n, char *to, size_t size)
{
	const unsigned char *end = p + n;
	size_t at = 0;

	while (p < end) {
		size_t c = *p++;

		if (c < 128) {
			if (++c > (size_t)(end - p) || c > size - at)
				return -EBADMSG;
			memcpy(to + at, p, c);
			at += c;
			p += c;
		} else {
			size_t len = c - 128 + 4, back;

			if (end - p < 2)
				return -EBADMSG;
			back = p[0] | (size_t)p[1] << 8;
			p += 2;
			if (!back || back > at || len > size - at)
				return -EBADMSG;
			/* Copies byte by byte, because the source may overlap the destination. */
			for (; len; len--, at++)
				to[at] = to[at - back];
		}
	}
	return (long)at;
}

void embedded_open(struct embedded *d)
{
	long n;

	d->data = xmalloc(EMBEDDED_SIZE);
	n = embedded_unpack(embedded_packed, sizeof(embedded_packed), d->data, EMBEDDED_SIZE);
	assert(n == EMBEDDED_SIZE);
	d->len = EMBEDDED_SIZE;
	(void)n;
}

void embedded_done(struct embedded *d)
{
	free(d->data);
	d->data = NULL;
}

const char *embedded_next(const struct embedded *d, const char *name)
{
	const char *next = d->data;

	if (name) {
		const char *text = name + strlen(name) + 1;

		next = text + strlen(text) + 1;
	}
	return next < d->data + d->len ? next : NULL;
}

const char *embedded_text(const struct embedded *d, const char *name)
{
	for (const char *at = NULL; (at = embedded_next(d, at));)
		if (strcmp(at, name) == 0)
			return at + strlen(at) + 1;
	return NULL;
}
