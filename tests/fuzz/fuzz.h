/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_TESTS_FUZZ_H
#define UNIRAIL_TESTS_FUZZ_H

/*
 * Common declarations of the fuzzers. Each fuzzer is a file fuzz_NAME.c with
 * LLVMFuzzerTestOneInput() and any files NAME_*.c, linked either with libFuzzer (make fuzz) or with
 * replay.c, which runs files (make check). None of them touches the kernel's state, starts a
 * program or, except fuzz_tree.c, opens a real file (files.h).
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* An invariant for all inputs. Ends the run if it is violated; never compiled out. */
#define must(what)                                                                                 \
	do {                                                                                       \
		if (!(what))                                                                       \
			fuzz_fail(__FILE__, __LINE__, #what);                                      \
	} while (0)
void fuzz_fail(const char *file, int line, const char *what) __attribute__((noreturn));

/* Checks that a refusal has a negative code and a message. Returns true for a refusal. */
bool fuzz_refused(int code, const struct err *e);

/* Reads an input from its beginning. Missing parts are empty or 0. */
struct feed {
	const uint8_t *p;
	size_t n;
};
uint8_t feed_byte(struct feed *f);
struct span feed_line(struct feed *f); /* without its newline character */
struct span feed_rest(struct feed *f);
/* Return the rest of the input, or s, up to its first NUL, as a NUL-terminated copy; the caller
 * frees it. */
char *feed_text(struct feed *f);
char *text_of(struct span s);

/* The root of the files of files.h. */
const struct root *fuzz_root(void);

#endif
