/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_BASE_RANDOM_H
#define UNIRAIL_BASE_RANDOM_H

#include <stddef.h>

/* Random bytes from getrandom(2), suitable for keys. Aborts if the kernel returns an error. */
void random_bytes(void *p, size_t n);

#endif
