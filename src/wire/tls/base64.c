/* SPDX-License-Identifier: Apache-2.0 */
#include "wire/tls/base64.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <mbedtls/base64.h>

#include "base/cleanup.h"

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

	/* It fails only for want of room. */
	*text = '\0';
	mbedtls_base64_encode((unsigned char *)text, size, &len, (const unsigned char *)s.p, s.n);
	return text;
}
