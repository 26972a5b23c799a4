/* SPDX-License-Identifier: Apache-2.0 */
/* The main() of a fuzzer without libFuzzer: runs the fuzzer once on every file of a corpus. A
 * fault ends the process. */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "fuzz.h"

enum { FILE_MAX = 4 << 20 };

/* Uses stdio, since the fuzzers map the functions of base/file.h to files in memory (files.h). */
static char *read_file(const char *path, size_t *n)
{
	FILE *f = fopen(path, "r");
	char *data = xmalloc(FILE_MAX);

	*n = f ? fread(data, 1, FILE_MAX, f) : 0;
	if (!f || ferror(f)) {
		fprintf(stderr, "read '%s': %s\n", path, strerror(errno));
		exit(2);
	}
	fclose(f);
	return data;
}

static void run_file(const char *dir, const char *name)
{
	auto_free char *path = xasprintf("%s/%s", dir, name), *data = NULL, *exact = NULL;
	size_t n;

	data = read_file(path, &n);
	/* A copy of the exact size, so that reads beyond it are detected. */
	exact = xmalloc(n);
	memcpy(exact, data, n);
	fprintf(stderr, "%s\n", path);
	LLVMFuzzerTestOneInput((uint8_t *)exact, n);
}

static int is_file(const struct dirent *d)
{
	return d->d_name[0] != '.';
}

int main(int argc, char **argv)
{
	struct dirent **names = NULL;
	int n = argc == 2 ? scandir(argv[1], &names, is_file, alphasort) : -1;

	if (n < 0) {
		fprintf(stderr, "usage: %s DIRECTORY\n", argv[0]);
		return 2;
	}
	for (int i = 0; i < n; i++) {
		run_file(argv[1], names[i]->d_name);
		free(names[i]);
	}
	free(names);
	printf("%d files\n", n);
	return n == 0;
}
