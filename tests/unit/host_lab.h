/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_TEST_HOST_LAB_H
#define UNIRAIL_TEST_HOST_LAB_H

/* A host's /sys of tests/hosts/ in a temporary directory, used as a root. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "base/file.h"

struct host_lab {
	char dir[32];
	struct root root;
};

void host_empty(struct host_lab *h);
void host_unpack(struct host_lab *h, const char *tree);
void host_remove(struct host_lab *h);
/* A file's first line. */
void host_read(struct host_lab *h, const char *path, char *ret, size_t size);
void host_write(struct host_lab *h, const char *path, const char *text);

#endif
