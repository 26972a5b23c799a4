/* SPDX-License-Identifier: Apache-2.0 */
#ifndef UNIRAIL_BASE_ALLOC_H
#define UNIRAIL_BASE_ALLOC_H

/*
 * Scope attributes: `auto_fd int fd = open(...)` closes itself at the end of its scope.
 * A cleanup keeps errno and accepts NULL or -1; cleanup_fd() leaves -1, so that a second cleanup
 * does not close another descriptor, opened meanwhile, that has the same number. take() and
 * take_fd() transfer a value out of the scope: they return it and set the variable to NULL or -1.
 */

#include <stddef.h>

void cleanup_free(void *p);
void cleanup_fd(int *fd);

#define auto_free __attribute__((cleanup(cleanup_free)))
#define auto_fd	  __attribute__((cleanup(cleanup_fd)))

#define take(p)                                                                                    \
	({                                                                                         \
		__typeof__(p) *take_from = &(p), take_value = *take_from;                          \
		*take_from = NULL;                                                                 \
		take_value;                                                                        \
	})

int take_fd(int *fd);

#define ARRAY_LEN(a) (sizeof(a) / sizeof((a)[0]))

#endif
