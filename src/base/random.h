/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_BASE_RANDOM_H
#define UNIRAIL_BASE_RANDOM_H

#include <stddef.h>

/* From getrandom(2): for keys, and good enough for jitter. Cannot fail. */
void random_bytes(void *p, size_t n);

#endif
