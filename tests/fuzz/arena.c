/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of one execution, with FLAVOUR=fuzz only: the linker's --wrap maps malloc() and its
 * relatives to this file, since AddressSanitizer's allocator takes half of the time of a short
 * input. This allocator never returns the same address twice in an execution, and poisons gaps and
 * freed memory, so that ASan reports every fault as "use-after-poison". Memory that is not freed at
 * the end is a leak, and ends the run. The programs of `make check` (FLAVOUR=asan) report where the
 * memory was allocated and freed.
 */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <sanitizer/asan_interface.h>

#include "fuzz.h"

#define RAW __attribute__((no_sanitize("address")))

/* SIZE: of the arena. Allocations longer than ONE_MAX, or for which the arena has no space left,
 * go to the real allocator. GAP: poisoned bytes before and after each allocation. FILL: malloc()
 * sets at most this many bytes, from the start of the allocation, to 0xbe. LIVE, DEAD: states of
 * an allocation. */
enum { SIZE = 64 << 20, ONE_MAX = 1 << 20, GAP = 16, FILL = 64, LIVE = 0x11fe, DEAD = 0xdead };

/* The header in the gap before each allocation. */
struct head {
	size_t n, state;
};
_Static_assert(sizeof(struct head) == GAP, "allocations are aligned to 16 bytes");

#define WRAP(type, name, ...)                                                                      \
	type __real_##name(__VA_ARGS__);                                                           \
	type __wrap_##name(__VA_ARGS__)
WRAP(void *, malloc, size_t n);
WRAP(void *, calloc, size_t n, size_t size);
WRAP(void *, realloc, void *p, size_t n);
WRAP(void, free, void *p);
WRAP(size_t, malloc_usable_size, void *p);
WRAP(int, LLVMFuzzerTestOneInput, const uint8_t *data, size_t size);

static char *start, *top;
static size_t n_live;
static bool on;

static bool is_in_arena(const void *p)
{
	return start && (const char *)p >= start && (const char *)p < start + SIZE;
}

static RAW void *piece(size_t n)
{
	char *p;

	if (!on || n > ONE_MAX || (size_t)(start + SIZE - top) < n + 4 * (size_t)GAP)
		return NULL;
	*(struct head *)top = (struct head){n, LIVE};
	p = top + GAP;
	top = p + (n + GAP - 1) / GAP * GAP + GAP;
	__asan_unpoison_memory_region(p, n);
	n_live++;
	return p;
}

static RAW size_t size_of(const void *p)
{
	const struct head *h = (const struct head *)((const char *)p - GAP);

	must(h->state == LIVE);
	return h->n;
}

static RAW void drop(void *p)
{
	__asan_poison_memory_region(p, size_of(p));
	((struct head *)((char *)p - GAP))->state = DEAD;
	n_live--;
}

void *__wrap_malloc(size_t n)
{
	void *p = piece(n);

	if (!p)
		return __real_malloc(n);
	return memset(p, 0xbe, n < FILL ? n : FILL);
}

void *__wrap_calloc(size_t n, size_t size)
{
	void *p = size && n > ONE_MAX / size ? NULL : piece(n * size);

	return p ? memset(p, 0, n * size) : __real_calloc(n, size);
}

void *__wrap_realloc(void *p, size_t n)
{
	size_t old;
	void *new;

	if (!p)
		return __wrap_malloc(n);
	if (!is_in_arena(p))
		return __real_realloc(p, n);
	old = size_of(p);
	new = __wrap_malloc(n);
	if (new) {
		memcpy(new, p, old < n ? old : n);
		drop(p);
	}
	return new;
}

void __wrap_free(void *p)
{
	if (is_in_arena(p))
		drop(p);
	else
		__real_free(p);
}

size_t __wrap_malloc_usable_size(void *p)
{
	return is_in_arena(p) ? size_of(p) : __real_malloc_usable_size(p);
}

static void map(void)
{
	start = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	must(start != MAP_FAILED);
	__asan_poison_memory_region(start, SIZE);
}

int __wrap_LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	int r;

	if (!start)
		map();
	top = start;
	on = true;
	r = __real_LLVMFuzzerTestOneInput(data, size);
	on = false;
	must(n_live == 0);
	return r;
}
