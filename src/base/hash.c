/* SPDX-License-Identifier: Apache-2.0 */
/* XXH64 (Yann Collet), implemented from its specification: doc/xxhash_spec.md of
 * github.com/Cyan4973/xxHash. */
#include <endian.h>
#include <string.h>

#include "base/hash.h"

static const uint64_t P1 = 0x9e3779b185ebca87U, P2 = 0xc2b2ae3d27d4eb4fU, P3 = 0x165667b19e3779f9U,
		      P4 = 0x85ebca77c2b2ae63U, P5 = 0x27d4eb2f165667c5U;

static uint64_t rotate(uint64_t v, int by)
{
	return v << by | v >> (64 - by);
}

static uint64_t word(const unsigned char *p)
{
	uint64_t v;

	memcpy(&v, p, sizeof(v));
	return le64toh(v);
}

static uint64_t mix(uint64_t lane, uint64_t input)
{
	return rotate(lane + input * P2, 31) * P1;
}

static uint64_t stripes(const unsigned char *p, size_t n)
{
	uint64_t a = P1 + P2, b = P2, c = 0, d = 0 - P1, h;

	for (; n >= 32; p += 32, n -= 32) {
		a = mix(a, word(p));
		b = mix(b, word(p + 8));
		c = mix(c, word(p + 16));
		d = mix(d, word(p + 24));
	}
	h = rotate(a, 1) + rotate(b, 7) + rotate(c, 12) + rotate(d, 18);
	h = (h ^ mix(0, a)) * P1 + P4;
	h = (h ^ mix(0, b)) * P1 + P4;
	h = (h ^ mix(0, c)) * P1 + P4;
	return (h ^ mix(0, d)) * P1 + P4;
}

static uint64_t rest(uint64_t h, const unsigned char *p, size_t n)
{
	uint32_t half;

	for (; n >= 8; p += 8, n -= 8)
		h = rotate(h ^ mix(0, word(p)), 27) * P1 + P4;
	if (n >= 4) {
		memcpy(&half, p, sizeof(half));
		h = rotate(h ^ le32toh(half) * P1, 23) * P2 + P3;
		p += 4;
		n -= 4;
	}
	for (; n > 0; p++, n--)
		h = rotate(h ^ *p * P5, 11) * P1;
	return h;
}

uint64_t xxh64(const void *data, size_t n)
{
	const unsigned char *p = data;
	uint64_t h = (n >= 32 ? stripes(p, n) : P5) + n;

	h = rest(h, p + (n & ~(size_t)31), n & 31);
	h = (h ^ h >> 33) * P2;
	h = (h ^ h >> 29) * P3;
	return h ^ h >> 32;
}
