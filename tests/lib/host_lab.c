/* SPDX-License-Identifier: Apache-2.0 */
#include "host_lab.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "doctor/tree.h"

static void parent_of(struct host_lab *h, const char *path)
{
	auto_free char *dir = xstrdup(path);

	*strrchr(dir, '/') = '\0';
	ASSERT_EQ(dir_make(&h->root, dir, 0700, NULL), 0);
}

void host_write(struct host_lab *h, const char *path, const char *text)
{
	char full[1024];
	auto_fd int fd = -1;

	parent_of(h, path);
	snprintf(full, sizeof(full), "%s%s", h->dir, path);
	fd = open(full, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	assert_true(fd >= 0);
	ASSERT_EQ(dprintf(fd, "%s\n", text), (int)strlen(text) + 1);
}

void host_empty(struct host_lab *h)
{
	t_dir_make(h->dir, &h->root);
}

void host_unpack(struct host_lab *h, const char *tree)
{
	auto_buf struct buf b;
	struct err e = ERR_INIT;
	char path[256];
	auto_fd int fd = -1;

	host_empty(h);
	snprintf(path, sizeof(path), TEST_DATA "hosts/%s", tree);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		fail_msg("%s is missing", path);
	buf_init(&b, TREE_TEXT_MAX);
	ASSERT_EQ(fd_read_all(fd, TREE_TEXT_MAX, &b, NULL), 0);
	ASSERT_OK(tree_unpack(&h->root, buf_span(&b), path, &e), &e);
}

void host_remove(struct host_lab *h)
{
	t_dir_remove(h->dir, &h->root);
}

void host_read(struct host_lab *h, const char *path, char *ret, size_t size)
{
	ASSERT_EQ(file_read_line(&h->root, path, ret, size, NULL), 0);
}
