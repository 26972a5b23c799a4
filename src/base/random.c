/* SPDX-License-Identifier: Apache-2.0 */
/* mbedTLS gets its random bytes from the kernel by getrandom(2): its own source on musl would be
 * /dev/random. */
#include "base/random.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/random.h>

#include <psa/crypto.h>

void random_bytes(void *p, size_t n)
{
	unsigned char *at = p;

	while (n > 0) {
		ssize_t r = getrandom(at, n, 0);

		/* a signal may interrupt getrandom(); any other failure aborts the process, because
		 * keys without random bytes must not be created */
		if (r < 0 && errno != EINTR)
			abort();
		if (r > 0) {
			at += r;
			n -= (size_t)r;
		}
	}
}

psa_status_t mbedtls_psa_external_get_random(mbedtls_psa_external_random_context_t *context,
					     uint8_t *p, size_t n, size_t *length)
{
	(void)context;
	random_bytes(p, n);
	*length = n;
	return PSA_SUCCESS;
}
