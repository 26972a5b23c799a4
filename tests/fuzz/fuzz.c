/* SPDX-License-Identifier: Apache-2.0 */
#include "fuzz.h"

#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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

/* --- the folder --- */

static char path[256];
static struct root root;

static int drop_one(const char *name, const struct stat *st, int flag, struct FTW *at)
{
	(void)st;
	(void)flag;
	(void)at;
	return remove(name);
}

static void drop(void)
{
	nftw(path, drop_one, 16, FTW_DEPTH | FTW_PHYS);
}

static void make(void)
{
	const char *in = getenv("TMPDIR");
	struct err e = ERR_INIT;

	if (!in)
		in = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
	snprintf(path, sizeof(path), "%s/unirail-fuzz.XXXXXX", in);
	if (!mkdtemp(path) || root_open(&root, path, &e) < 0) {
		fprintf(stderr, "folder '%s': %s %s\n", path, strerror(errno), e.text);
		exit(2);
	}
	atexit(drop);
}

const struct root *fuzz_root(void)
{
	if (!*path)
		make();
	return &root;
}

const char *fuzz_root_path(void)
{
	fuzz_root();
	return path;
}
