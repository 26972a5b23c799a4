/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_BASE_HASH_H
#define UNIRAIL_BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

/* XXH64 with seed 0: fast without tables; `xxhsum -H1` computes the same. */
uint64_t xxh64(const void *p, size_t n);

#endif
