/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_TEST_HOST_LAB_H
#define UNIRAIL_TEST_HOST_LAB_H

/* The files of a host of tests/hosts, unpacked in a temporary directory that serves as a root. */
#include "testlib.h"

#include "base/file.h"

struct host_lab {
	char dir[T_DIR_MAX];
	struct root root;
};

void host_empty(struct host_lab *h);
void host_unpack(struct host_lab *h, const char *tree);
void host_remove(struct host_lab *h);
/* Reads the first line of a file. */
void host_read(struct host_lab *h, const char *path, char *ret, size_t size);
void host_write(struct host_lab *h, const char *path, const char *text);

#endif
