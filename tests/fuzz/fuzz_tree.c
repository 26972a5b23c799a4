/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Snapshots (doctor/tree.h). The input is unpacked as a tree below an empty directory. The input is
 * also the content of a file, which is written as a tree and unpacked again with the same bytes.
 */
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "fuzz.h"
#include "doctor/tree.h"

static int remove_one(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
	(void)st, (void)flag, (void)ftw;
	return remove(path);
}

/* A real directory, since the kernel must resolve symbolic links; in memory if possible. */
static char outer[64];

static void drop_outer(void)
{
	rmdir(outer);
}

static void __attribute__((constructor)) make_outer(void)
{
	snprintf(outer, sizeof(outer), "%s/unirail-fuzz.XXXXXX",
		 access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp");
	must(mkdtemp(outer));
	atexit(drop_outer);
}

static char *make_inner(struct root *r)
{
	char *dir = xasprintf("%s/inner", outer);

	must(mkdir(dir, 0700) == 0);
	must(root_open(r, dir, NULL) == 0);
	return dir;
}

static void remove_inner(struct root *r, const char *dir)
{
	char **names = NULL;
	struct root all;
	size_t n = 0;

	root_close(r);
	must(nftw(dir, remove_one, 8, FTW_DEPTH | FTW_PHYS) == 0);
	/* the unpacking created nothing in `outer` beside `dir` */
	must(root_open(&all, outer, NULL) == 0);
	must(dir_list(&all, "/", &names, &n, NULL) == 0 && n == 0);
	str_list_free(names, n);
	root_close(&all);
}

static void unpack(struct span text)
{
	struct err e = ERR_INIT;
	struct root r;
	auto_free char *dir = make_inner(&r);

	fuzz_refused(tree_unpack(&r, text, "x", &e), &e);
	remove_inner(&r, dir);
}

static void round_trip(struct span content)
{
	struct root r;
	auto_free char *dir = make_inner(&r);
	auto_buf struct buf b, back;

	buf_init(&b, 1 << 22);
	buf_init(&back, 1 << 20);
	tree_put_file(&b, "/a b/\\c", content);
	must(!b.over && tree_unpack(&r, buf_span(&b), "x", NULL) == 0);
	must(file_read(&r, "/a b/\\c", 1 << 20, &back, NULL) == 0);
	must(back.len == content.n && (!content.n || !memcmp(back.p, content.p, content.n)));
	remove_inner(&r, dir);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct span text = {(const char *)data, size};

	if (size > 1 << 16)
		return 0;
	unpack(text);
	round_trip(text);
	return 0;
}
