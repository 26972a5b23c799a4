/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cleanup.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void cleanup_free(void *p)
{
	int saved = errno;
	void *held;

	/* p is the address of a pointer of any type: read it without breaking aliasing. */
	memcpy(&held, p, sizeof(held));
	free(held);
	errno = saved;
}

void cleanup_fd(int *fd)
{
	int saved = errno;

	if (*fd >= 0)
		close(*fd);
	errno = saved;
}

int take_fd(int *fd)
{
	int value = *fd;

	*fd = -1;
	return value;
}
