/* SPDX-License-Identifier: Apache-2.0 */
/* The main() of a fuzzer without libFuzzer: every file of a corpus once. A fault ends the process. */
#include <stdio.h>
#include <stdlib.h>

#include "base/cleanup.h"
#include "fuzz.h"

enum { FILE_MAX = 4 << 20 };

static int run_file(const struct root *r, const char *dir, const char *name)
{
	auto_free char *path = xasprintf("%s/%s", dir, name);
	struct err e = ERR_INIT;
	struct buf b;
	int n;

	buf_init(&b, FILE_MAX);
	n = file_read(r, path, FILE_MAX, &b, &e);
	if (n < 0) {
		fprintf(stderr, "%s\n", e.text);
	} else {
		/* A copy of the true size: what is read past it shows. */
		uint8_t *data = xmalloc(b.len);

		for (size_t i = 0; i < b.len; i++)
			data[i] = (uint8_t)b.p[i];
		fprintf(stderr, "%s\n", path);
		LLVMFuzzerTestOneInput(data, b.len);
		free(data);
	}
	buf_done(&b);
	return n;
}

int main(int argc, char **argv)
{
	auto_free char *dir = argc == 2 ? realpath(argv[1], NULL) : NULL;
	struct err e = ERR_INIT;
	char **names;
	struct root r;
	size_t n;
	int bad;

	if (!dir || root_open(&r, NULL, &e) < 0 || dir_list(&r, dir, &names, &n, &e) < 0) {
		fprintf(stderr, "usage: %s FOLDER (%s)\n", argv[0], e.text);
		return 2;
	}
	bad = n == 0;
	for (size_t i = 0; i < n; i++)
		bad |= run_file(&r, dir, names[i]) < 0;
	printf("%zu files\n", n);
	str_list_free(names, n);
	root_close(&r);
	return bad;
}
