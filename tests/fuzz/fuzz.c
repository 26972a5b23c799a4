/* SPDX-License-Identifier: Apache-2.0 */
#include "fuzz.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void fuzz_fail(const char *file, int line, const char *what)
{
	fprintf(stderr, "%s:%d: does not hold: %s\n", file, line, what);
	abort();
}

bool fuzz_refused(int code, const struct err *e)
{
	if (code >= 0)
		return false;
	must(code > -4096);
	must(e->code < 0);
	must(memchr(e->text, '\0', sizeof(e->text)) && e->text[0]);
	must(memchr(e->details, '\0', sizeof(e->details)));
	return true;
}

uint8_t feed_byte(struct feed *f)
{
	if (f->n == 0)
		return 0;
	f->n--;
	return *f->p++;
}

struct span feed_line(struct feed *f)
{
	const uint8_t *end = f->n ? memchr(f->p, '\n', f->n) : NULL;
	struct span line = {(const char *)f->p, end ? (size_t)(end - f->p) : f->n};
	size_t used = line.n + (end != NULL);

	if (used) {
		f->p += used;
		f->n -= used;
	}
	return line.n ? line : span_of("");
}

struct span feed_rest(struct feed *f)
{
	struct span rest = {(const char *)f->p, f->n};

	f->n = 0;
	return rest.n ? rest : span_of("");
}

char *text_of(struct span s)
{
	return span_dup((struct span){s.p, strnlen(s.p, s.n)});
}

char *feed_text(struct feed *f)
{
	return text_of(feed_rest(f));
}

const struct root *fuzz_root(void)
{
	static struct root root;

	root_open(&root, "/", NULL);
	return &root;
}
